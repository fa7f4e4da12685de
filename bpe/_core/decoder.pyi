import numpy as np
from numpy.typing import NDArray

from bpe._core.buffers import Buffer

def gather(
    ids: NDArray[np.uint32], blob: Buffer, offsets: NDArray[np.int64], kinds: NDArray[np.uint8]
) -> bytes | int: ...
