import numpy as np
from numpy.typing import NDArray

from bpe.merge.tables import MergeList

class HighMerges:
    n: int
    def __init__(self, low: MergeList, high: MergeList) -> None: ...
    def merged(self, low: NDArray[np.uint32]) -> NDArray[np.uint32]: ...
