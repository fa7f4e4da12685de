from typing import Any

from numpy.typing import NDArray
from typing_extensions import Self

from bpe.base._result_pool import ResultPool

class IdTarget:
    @property
    def max_ids(self) -> int: ...
    @property
    def n_ids(self) -> int: ...
    @property
    def is_full(self) -> bool: ...

class OrderedIds:
    def __new__(cls, max_ids: int, pool: ResultPool, out: NDArray[Any] | IdTarget | None = ...) -> Self: ...
