from typing_extensions import Self

class Delivery:
    def __new__(cls, n_parts: int, likely: int) -> Self: ...
