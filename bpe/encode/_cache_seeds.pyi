from typing_extensions import Self

class CacheSeeds:
    def __new__(cls, *args: object, **kwargs: object) -> Self: ...
