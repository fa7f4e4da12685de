from typing import final

from typing_extensions import Self

@final
class ResultPool:
    def __new__(cls, max_bytes: int) -> Self: ...
    @property
    def max_kept_bytes(self) -> int: ...
