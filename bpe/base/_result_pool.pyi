from typing import final

from typing_extensions import Self

def refuse_moves(after: int) -> None: ...

@final
class ResultPool:
    def __new__(cls) -> Self: ...
    @property
    def kept(self) -> int: ...
