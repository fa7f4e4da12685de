import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from bpe.base._buffers import Buffer

class PieceRules:
    def __new__(
        cls,
        group: NDArray[np.uint8],
        after: NDArray[np.uint8],
        divider: int = ...,
        classes: NDArray[np.uint8] | None = None,
        never_joins_digits: bool = False,
    ) -> Self: ...

def find_pretoken_spans(
    rules: PieceRules, text: Buffer, starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
