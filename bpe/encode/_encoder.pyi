import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from bpe.base._buffers import Buffer
from bpe.base._result_pool import ResultPool
from bpe.merge._high_merges import HighMerges
from bpe.merge._merger import Merger
from bpe.merge.tables import TokenBytes
from bpe.merge.two_stages import TwoStageMerges

CACHE_MEMORY: int

class Encoder:
    pool: ResultPool
    high_merges: HighMerges | None
    def __new__(
        cls,
        merger: Merger,
        tokens: TokenBytes,
        scanner: int,
        memory: int = ...,
        two_stages: TwoStageMerges | None = None,
    ) -> Self: ...
    def set_unmerged_words(
        self, blob: bytes, offsets: NDArray[np.int64], ids: NDArray[np.uint32], even_if_merged: bool
    ) -> None: ...
    def select_unmerged(self, candidates: NDArray[np.uint8]) -> NDArray[np.int32] | None: ...
    def keep_pretokens_whole(self) -> None: ...
    def finish(self) -> None: ...
    def find_last_split(self, text: Buffer, start: int) -> int: ...
    def encode(self, text: str | bytes) -> tuple[NDArray[np.uint32], bool]: ...
    def encode_pretokens(
        self, text: Buffer, starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint32], bool]: ...
    def encode_pretoken(self, piece: bytes) -> list[int]: ...
