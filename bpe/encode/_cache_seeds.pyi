from typing_extensions import Self

class Seeds:
    def __new__(cls, *args: object, **kwargs: object) -> Self: ...
