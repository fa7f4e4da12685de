from typing import Any

import numpy as np
from numpy.typing import NDArray

def gather(
    ids: NDArray[Any], spans: NDArray[np.int64], inputs: NDArray[np.int64], labels: NDArray[np.int64]
) -> None: ...
def number_positions(spans: NDArray[np.int64], positions: NDArray[np.int64], documents: NDArray[np.int64]) -> None: ...
