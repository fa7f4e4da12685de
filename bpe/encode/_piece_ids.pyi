from typing_extensions import Self

class Values:
    def __new__(cls, *args: object, **kwargs: object) -> Self: ...
