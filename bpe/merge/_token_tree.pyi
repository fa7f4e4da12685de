import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from bpe.merge._merge_table import MergeTable
from bpe.merge.tables import MergeList

class TokenTree:
    is_ordered: bool
    def __new__(cls, table: MergeTable, symbols: NDArray[np.uint32], merges: MergeList) -> Self: ...
