import numpy as np
from numpy.typing import NDArray

class Visitor:
    def visit(self, ids: NDArray[np.uint32], offsets: NDArray[np.int64]) -> None: ...
