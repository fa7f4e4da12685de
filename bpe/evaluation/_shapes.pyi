import numpy as np
from numpy.typing import NDArray

from bpe.base._buffers import Buffer

WHOLE: int
CROSSING: int
LEADING_SPACE: int
INNER_SPACE: int

def find_token_shapes(
    blob: Buffer,
    offsets: NDArray[np.int64],
    table: NDArray[np.uint8],
    partial: int,
    mixed: int,
    flags: NDArray[np.uint8],
    scripts: NDArray[np.uint8],
) -> None: ...
