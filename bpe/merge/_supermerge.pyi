import numpy as np
from numpy.typing import NDArray

class SuperMerger:
    def __init__(
        self, pairs: NDArray[np.int32], results: NDArray[np.int32], first: int, plain: NDArray[np.uint32]
    ) -> None: ...
    def merge(
        self, ids: NDArray[np.uint32], offsets: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]: ...
