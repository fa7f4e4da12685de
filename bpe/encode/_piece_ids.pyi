from typing_extensions import Self

class PieceEncoder:
    def __new__(cls, *args: object, **kwargs: object) -> Self: ...
