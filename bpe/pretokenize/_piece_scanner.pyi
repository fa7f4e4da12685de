import numpy as np
from numpy.typing import NDArray

class PieceRules:
    def __init__(
        self,
        group: NDArray[np.uint8],
        after: NDArray[np.uint8],
        unit: int = ...,
        classes: NDArray[np.uint8] | None = None,
        digits_apart: bool = False,
    ) -> None: ...
