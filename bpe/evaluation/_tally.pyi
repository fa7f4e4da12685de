import numpy as np
from numpy.typing import NDArray

from bpe.base._buffers import Buffer
from bpe.base._visitor import Visitor

BY_SCRIPT: int
BY_SPACES: int
BY_CHARACTERS: int
TEXT_SUMS: tuple[str, ...]
TOKEN_SUMS: tuple[str, ...]
LONGEST: int

class TextMarks:
    sums: NDArray[np.int64]
    blocks: NDArray[np.int64]
    masks: NDArray[np.uint64]
    def __init__(self, mode: int) -> None: ...
    def read(self, buffer: Buffer, starts: NDArray[np.int64], ends: NDArray[np.int64], valid: bool) -> TextMarks: ...

class TokenCounts:
    def __init__(self, lengths: NDArray[np.uint32], most: int = ...) -> None: ...
    def counts(self) -> NDArray[np.int64]: ...

class TokenTally(Visitor):
    sums: NDArray[np.int64]
    number_f1: NDArray[np.float64]
    def __init__(self, marks: TextMarks, counts: TokenCounts) -> None: ...
    def add(self, ids: NDArray[np.uint32], offsets: NDArray[np.int64], sizes: NDArray[np.uint32]) -> None: ...
