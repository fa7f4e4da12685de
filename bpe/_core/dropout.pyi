import numpy as np
from numpy.typing import NDArray

from bpe._core.buffers import Buffer

class Dropout:
    def __init__(
        self,
        inner: NDArray[np.uint32],
        last: NDArray[np.uint32],
        merges: NDArray[np.int32],
        ids: NDArray[np.int32],
        ranks: NDArray[np.int32],
        mark: int,
        unk: int,
        fuse_unk: bool,
        chars: bool,
    ) -> None: ...
    def encode(
        self, text: Buffer, starts: NDArray[np.int64], ends: NDArray[np.int64], dropped: int, state: int
    ) -> tuple[NDArray[np.uint32], int, int]: ...
