import numpy as np
from numpy.typing import NDArray

from bpe._core.buffers import Buffer

def read_ranks(data: Buffer) -> tuple[bytes, NDArray[np.int64], NDArray[np.int32]] | None: ...
def merges_of_ranks(blob: bytes, offsets: NDArray[np.int64]) -> NDArray[np.int32] | None: ...
def in_ids(
    made_of: NDArray[np.int32], offsets: NDArray[np.int64], ids: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]: ...
