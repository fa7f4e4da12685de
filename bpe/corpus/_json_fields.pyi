import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from bpe.base._buffers import Buffer

class FieldPath:
    def __new__(cls, names: list[bytes]) -> Self: ...

def read_fields(
    text: Buffer, start: int, end: int, keys: list[bytes], out: Buffer, n_written: int, ends: NDArray[np.int64]
) -> tuple[int, int, int]: ...
