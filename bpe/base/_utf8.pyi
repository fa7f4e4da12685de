import numpy as np
from numpy.typing import NDArray

from bpe.base._buffers import Buffer

def joined_utf8(texts: list[str | bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]: ...
def bad_utf8(text: Buffer) -> int: ...
