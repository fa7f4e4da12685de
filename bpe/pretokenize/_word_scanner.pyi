import numpy as np
from numpy.typing import NDArray

from bpe.base._buffers import Buffer

def find_spans(
    cased: bool, text: Buffer, starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]: ...
