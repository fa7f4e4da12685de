import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

class AcrossWordTable:
    def __new__(
        cls, pairs: NDArray[np.int32], results: NDArray[np.int32], first: int, word_tokens: NDArray[np.uint32]
    ) -> Self: ...
    def merge(
        self, ids: NDArray[np.uint32], offsets: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]: ...
