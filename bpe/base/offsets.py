"""Offsets: where consecutive items begin and end in one array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def compute_offsets(lengths: NDArray[Any] | Sequence[int]) -> NDArray[np.int64]:
    """Compute the offsets of items from their lengths: int64 (n + 1,). Item i is `data[offsets[i]:offsets[i + 1]]`.

    >>> compute_offsets([3, 1, 2]).tolist()
    [0, 3, 4, 6]
    """
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets
