import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

class FileMeasurer:
    sizes: NDArray[np.int64]
    may_be_records: NDArray[np.bool_]
    @property
    def finished(self) -> bool: ...
    def __new__(cls, names: list[str]) -> Self: ...
    def measure(self) -> None: ...
