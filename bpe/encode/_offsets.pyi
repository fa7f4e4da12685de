import numpy as np
from numpy.typing import NDArray

from bpe.base._buffers import Buffer

def locate_in_bytes(ids: NDArray[np.uint32], lengths: NDArray[np.uint32], start: int) -> NDArray[np.int64]: ...
def convert_to_characters(text: Buffer, span: NDArray[np.int64]) -> None: ...
def number_words(
    span: NDArray[np.int64], starts: NDArray[np.int64], ends: NDArray[np.int64], size: int
) -> NDArray[np.int64] | None: ...
