import numpy as np
from numpy.typing import NDArray

from bpe.base._buffers import Buffer

def copy_slices(
    blob: Buffer, starts: NDArray[np.int64], sizes: NDArray[np.int64], targets: NDArray[np.int64], out: Buffer
) -> None: ...
