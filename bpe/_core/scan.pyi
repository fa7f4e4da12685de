import numpy as np
from numpy.typing import NDArray

from bpe._core.buffers import Buffer

UNICODE_VERSION: str

def spans(scanner: int, text: Buffer) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
def cuts(scanner: int, text: Buffer, size: int) -> list[int]: ...
