import numpy as np
from numpy.typing import NDArray

from bpe.base._buffers import Buffer

def token_table(blob: Buffer, offsets: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]: ...
def gather(
    ids: NDArray[np.uint32],
    cells: NDArray[np.uint8],
    sizes: NDArray[np.uint8],
    blob: Buffer,
    offsets: NDArray[np.int64],
) -> bytes | int: ...
def texts_of_rows(
    ids: NDArray[np.uint32],
    rows: NDArray[np.int64],
    cells: NDArray[np.uint8],
    sizes: NDArray[np.uint8],
    blob: Buffer,
    offsets: NDArray[np.int64],
    ends_word: NDArray[np.uint8],
    errors: str,
) -> list[str] | int: ...
