import numpy as np
from numpy.typing import NDArray

def split_randomly(
    ids: NDArray[np.uint32],
    offsets: NDArray[np.int64],
    draws: NDArray[np.int64],
    first: NDArray[np.int64],
    parts: NDArray[np.uint32],
    seed: int,
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]: ...
