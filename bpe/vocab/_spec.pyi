import numpy as np
from numpy.typing import NDArray

from bpe.base._buffers import Buffer

def find_wrong_merge(
    merges: NDArray[np.int32],
    ids: NDArray[np.int32],
    blob: Buffer,
    offsets: NDArray[np.int64],
    is_checked: NDArray[np.uint8],
) -> int: ...
