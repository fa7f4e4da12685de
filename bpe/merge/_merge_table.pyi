import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

class MergeTable:
    def __new__(
        cls, pairs: NDArray[np.int32], results: NDArray[np.int32], ranks: NDArray[np.int32] | None, limit: int
    ) -> Self: ...
    def index_bytes(self, byte_ids: NDArray[np.uint32]) -> None: ...
