from typing import Any

from numpy.typing import NDArray
from typing_extensions import Self

from bpe.base._result_pool import ResultPool

class OrderedIds:
    def __new__(cls, max_ids: int, pool: ResultPool, out: NDArray[Any] | None = ...) -> Self: ...
