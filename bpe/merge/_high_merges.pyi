import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from bpe.merge.tables import MergeList

class HighMerges:
    n_merges: int
    def __new__(cls, low: MergeList, high: MergeList) -> Self: ...
    def merge_pretoken(self, low: NDArray[np.uint32]) -> NDArray[np.uint32]: ...
