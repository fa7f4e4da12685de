import numpy as np
from numpy.typing import NDArray

from bpe.base._buffers import Buffer

class TokenTable:
    def __init__(self, blob: Buffer, offsets: NDArray[np.int64]) -> None: ...
    def bytes_of(self, ids: NDArray[np.uint32]) -> bytes | int: ...
    def texts_of(
        self, ids: NDArray[np.uint32], rows: NDArray[np.int64], ends_word: NDArray[np.uint8], errors: str
    ) -> list[str] | int: ...
