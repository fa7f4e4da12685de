import numpy as np
from numpy.typing import NDArray

from bpe.base._buffers import Buffer

def hash_spans(text: Buffer, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.uint64]: ...
