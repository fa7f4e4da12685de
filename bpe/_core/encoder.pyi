import numpy as np
from numpy.typing import NDArray

from bpe._core.buffers import Buffer

def pair_table(merges: NDArray[np.int32], ids: NDArray[np.int32], ranks: NDArray[np.int32]) -> NDArray[np.uint64]: ...
def merges_of_ranks(blob: bytes, offsets: NDArray[np.int64], byte_ids: NDArray[np.uint32]) -> NDArray[np.int32]: ...

class Workspace: ...

class Encoder:
    def __init__(
        self,
        inner: NDArray[np.uint32],
        last: NDArray[np.uint32],
        pairs: NDArray[np.uint64],
        mark: int,
        unk: int,
        fuse_unk: bool,
        chars: bool,
        scanner: int,
    ) -> None: ...
    def set_whole_words(
        self, blob: bytes, offsets: NDArray[np.int64], ids: NDArray[np.uint32], all_of_them: bool
    ) -> None: ...
    def encode(self, text: str | bytes) -> tuple[NDArray[np.uint32], int]: ...
    def encode_spans(
        self, text: Buffer, starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint32], int]: ...
    def encode_items(
        self, items: list[bytes | str | int], bounds: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64], int]: ...
    def encode_piece(self, piece: bytes) -> list[int]: ...
