import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from bpe.merge._merge_table import PairTable

class Origins:
    ordered: bool
    def __new__(
        cls,
        table: PairTable,
        symbols: NDArray[np.uint32],
        merges: NDArray[np.int32],
        ids: NDArray[np.int32],
        ranks: NDArray[np.int32],
        limit: int,
        unreached: NDArray[np.int32] | None,
    ) -> Self: ...
