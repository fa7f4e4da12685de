from typing_extensions import Self

from bpe.base._result_pool import ResultPool

class OrderedOutput:
    def __new__(cls, n_parts: int, most: int, pool: ResultPool) -> Self: ...
