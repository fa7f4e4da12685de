from typing import final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from bpe.base._buffers import Buffer

@final
class StringIndex:
    def __new__(cls, blob: Buffer, offsets: NDArray[np.int64], n: int) -> Self: ...
