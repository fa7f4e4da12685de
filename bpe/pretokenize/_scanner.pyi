import numpy as np
from numpy.typing import NDArray

from bpe.base._buffers import Buffer

UNICODE_VERSION: str
CLIP_UNICODE_VERSION: str

def count(scanner: int, text: Buffer) -> int: ...
def find_spans(
    scanner: int, text: Buffer, by_character: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
