import numpy as np
from numpy.typing import NDArray

from bpe.base._buffers import Buffer

def count_symbols(
    blob: Buffer,
    offsets: NDArray[np.int64],
    counts: NDArray[np.int64],
    is_char_model: bool,
    inner_counts: NDArray[np.int64],
    last_counts: NDArray[np.int64],
) -> tuple[int, int | None]: ...
