from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from bpe._core.buffers import Buffer

def symbol_counts(
    blob: Buffer,
    offsets: NDArray[np.int64],
    counts: NDArray[np.int64],
    chars: bool,
    inner: NDArray[np.int64],
    last: NDArray[np.int64],
) -> tuple[int, bool]: ...

class Trainer:
    stop: int
    def __init__(
        self,
        blob: Buffer,
        offsets: NDArray[np.int64],
        counts: NDArray[np.int64],
        chars: bool,
        inner: NDArray[np.uint32],
        last: NDArray[np.uint32],
        mark: int,
        tokens: Iterable[tuple[bytes, bool, bool]],
        tie_break: int,
        min_frequency: int,
        max_width: int,
        n_cells: int,
    ) -> None: ...
    def run(self, most: int, most_tokens: int) -> list[tuple[int, int, int, int]]: ...
    def token_bytes(self, first: int) -> list[tuple[bytes, bool]]: ...
