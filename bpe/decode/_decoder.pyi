from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpe.base._buffers import Buffer

def with_fast_decode(method: Callable[..., Any], as_text: bool) -> Callable[..., Any]: ...

class TokenTable:
    def __init__(self, blob: Buffer, offsets: NDArray[np.int64]) -> None: ...
    def bytes_of(self, ids: NDArray[np.uint32]) -> bytes | int: ...
    def token(self, number: int) -> bytes | None: ...
    def texts_of(
        self, ids: NDArray[np.uint32], rows: NDArray[np.int64], ends_word: NDArray[np.uint8], errors: str
    ) -> list[str] | int: ...
