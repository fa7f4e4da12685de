from typing_extensions import Self

from bpe.base._result_pool import ResultPool

class OrderedIds:
    def __new__(cls, n_parts: int, max_ids: int, pool: ResultPool) -> Self: ...
