import numpy as np
from numpy.typing import NDArray

from bpe.base._buffers import Buffer

def wrong_merge(
    merges: NDArray[np.int32],
    ids: NDArray[np.int32],
    blob: Buffer,
    offsets: NDArray[np.int64],
    checked: NDArray[np.uint8],
) -> int: ...

class PairTable:
    def __init__(self, merges: NDArray[np.int32], ids: NDArray[np.int32], ranks: NDArray[np.int32]) -> None: ...
    def index_bytes(self, byte_ids: NDArray[np.uint32]) -> None: ...
    def merge_of(self, left: int, right: int) -> tuple[int, int] | None: ...
