import numpy as np
from numpy.typing import NDArray

from bpe.base._buffers import Buffer

def copy_slices(
    blob: Buffer, starts: NDArray[np.int64], sizes: NDArray[np.int64], targets: NDArray[np.int64], out: Buffer
) -> None: ...
def find_short_slices(offsets: NDArray[np.int64], max_size: int) -> NDArray[np.int64]: ...
def divides_buffer(offsets: NDArray[np.int64], size: int, has_bytes: NDArray[np.uint8]) -> bool: ...
