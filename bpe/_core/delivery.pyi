from typing_extensions import Self

from bpe._core.resultpool import ResultPool

class Delivery:
    def __new__(cls, n_parts: int, likely: int, pool: ResultPool) -> Self: ...
