import numpy as np
from numpy.typing import NDArray

from bpe.base._buffers import Buffer

BY_SCRIPT: int
BY_SPACES: int
BY_CHARACTERS: int
TEXT_SUMS: tuple[str, ...]
TOKEN_SUMS: tuple[str, ...]
COUNT_BITS: int

class TextMarks:
    sums: NDArray[np.int64]
    blocks: NDArray[np.int64]
    masks: NDArray[np.uint64]
    def __init__(
        self, buffer: Buffer, starts: NDArray[np.int64], ends: NDArray[np.int64], mode: int, valid: bool
    ) -> None: ...

def tally(
    marks: TextMarks,
    table: NDArray[np.uint64],
    sums: NDArray[np.int64],
    number_f1: NDArray[np.float64],
    ids: NDArray[np.uint32],
    offsets: NDArray[np.int64],
    sizes: NDArray[np.uint32],
) -> None: ...
