import numpy as np
from numpy.typing import NDArray

def rank_values(values: NDArray[np.uint32]) -> tuple[NDArray[np.uint32], NDArray[np.uint16]] | None: ...
