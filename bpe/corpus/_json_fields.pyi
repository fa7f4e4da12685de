from typing_extensions import Self

class FieldPath:
    def __new__(cls, names: list[bytes]) -> Self: ...
