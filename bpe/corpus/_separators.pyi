import numpy as np
from numpy.typing import NDArray

from bpe.base._buffers import Buffer

def split(
    text: Buffer,
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    strings: list[bytes],
    keep: bool = False,
    empty: bool = False,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
def find_last(text: Buffer, start: int, end: int, string: bytes) -> int: ...
