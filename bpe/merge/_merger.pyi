import numpy as np
from numpy.typing import NDArray

class Merger:
    def __init__(
        self,
        inner: NDArray[np.uint32],
        last: NDArray[np.uint32],
        merges: NDArray[np.int32],
        ids: NDArray[np.int32],
        ranks: NDArray[np.int32],
        limit: int,
        mark: int,
        unk: int,
        fuse_unk: bool,
        chars: bool,
        unreached: NDArray[np.int32] | None,
    ) -> None: ...
