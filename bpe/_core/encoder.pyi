import numpy as np
from numpy.typing import NDArray

from bpe._core.buffers import Buffer

CACHE_MEMORY: int

class Encoder:
    def __init__(
        self,
        inner: NDArray[np.uint32],
        last: NDArray[np.uint32],
        merges: NDArray[np.int32],
        ids: NDArray[np.int32],
        ranks: NDArray[np.int32],
        blob: bytes,
        offsets: NDArray[np.int64],
        mark: int,
        unk: int,
        fuse_unk: bool,
        chars: bool,
        ends: NDArray[np.uint8] | None,
        mark_size: int,
        scanner: int,
        unreached: NDArray[np.int32] | None,
        memory: int = ...,
    ) -> None: ...
    def set_whole_words(
        self, blob: bytes, offsets: NDArray[np.int64], ids: NDArray[np.uint32], all_of_them: bool
    ) -> None: ...
    def unreached_of(self, wanted: NDArray[np.uint8]) -> NDArray[np.int32] | None: ...
    def finish(self) -> None: ...
    def encode(self, text: str | bytes) -> tuple[NDArray[np.uint32], bool]: ...
    def encode_spans(
        self, text: Buffer, starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint32], bool]: ...
    def encode_piece(self, piece: bytes) -> list[int]: ...
    def cache_state(self) -> list[dict[str, int]]: ...
