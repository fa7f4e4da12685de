import numpy as np
from numpy.typing import NDArray

class MergeTable:
    def __init__(
        self, pairs: NDArray[np.int32], results: NDArray[np.int32], ranks: NDArray[np.int32], limit: int
    ) -> None: ...
    def index_bytes(self, byte_ids: NDArray[np.uint32]) -> None: ...
