from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from bpe.base._buffers import Buffer
from bpe.base._team import Team

class Trainer:
    team: Team
    stop: int
    epochs: int
    def __init__(
        self,
        blob: Buffer,
        offsets: NDArray[np.int64],
        counts: NDArray[np.int64],
        spelling: int,
        inner: NDArray[np.uint32] | None,
        last: NDArray[np.uint32] | None,
        mark: int,
        tokens: Iterable[tuple[bytes, bool, bool, int]],
        tie_break: int,
        min_frequency: int,
        max_length: int,
        merges: int,
        memory: int = 0,
        strict: bool = False,
        threads: int = 1,
        ratio: int = 1000,
        dense: int = 768,
        narrow: int = 65000,
        least: int = 524288,
        long_list: int = 8192,
    ) -> None: ...
    def replay(
        self,
        left: NDArray[np.uint32],
        right: NDArray[np.uint32],
        token: NDArray[np.uint32],
        count: NDArray[np.int64],
    ) -> None: ...
    def run(self, most: int, most_tokens: int) -> list[tuple[int, int, int, int]]: ...
    @property
    def n_tokens(self) -> int: ...
    def spelled(self, token: int) -> bytes: ...
    def token_bytes(self, first: int) -> list[tuple[bytes, bool]]: ...
    def merges(self) -> NDArray[np.int64]: ...
    def vocabulary(self) -> tuple[bytes, NDArray[np.int64], NDArray[np.bool_]]: ...
