import numpy as np
from numpy.typing import NDArray

from bpe.base._buffers import Buffer

def join_utf8(texts: list[str | bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]: ...
def find_invalid_utf8(text: Buffer) -> int: ...
