import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from bpe.base._buffers import Buffer
from bpe.merge._merger import Merger

class Dropout:
    def __new__(cls, merger: Merger) -> Self: ...
    def encode(
        self, text: Buffer, starts: NDArray[np.int64], ends: NDArray[np.int64], drop_threshold: int, state: int
    ) -> tuple[NDArray[np.uint32], int, bool]: ...
