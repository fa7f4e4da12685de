import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from bpe.base._buffers import Buffer
from bpe.base._visitor import Visitor

BY_SCRIPT: int
BY_SPACES: int
BY_CHARACTERS: int
COLUMNS: tuple[str, ...]
MAX_TOKEN_BYTES: int

class TokenTally(Visitor):
    rows: NDArray[np.float64]
    def __new__(cls, lengths: NDArray[np.uint32], word_rule: int, max_counted: int = ...) -> Self: ...
    def begin(self, buffer: Buffer, starts: NDArray[np.int64], ends: NDArray[np.int64], valid: bool) -> None: ...
    def end(self) -> None: ...
    def add(self, ids: NDArray[np.uint32], offsets: NDArray[np.int64], sizes: NDArray[np.uint32]) -> None: ...
    def counts(self) -> NDArray[np.int64]: ...
