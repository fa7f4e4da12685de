from collections.abc import Callable
from threading import Thread
from types import TracebackType
from typing import Generic, TypeVar

from typing_extensions import Self

_Result = TypeVar("_Result")

class Team:
    size: int
    def __new__(cls, size: int) -> Self: ...
    def help(self, part: int) -> None: ...

def dismiss(teams: tuple[Team, ...]) -> None: ...

class Outcome(Generic[_Result]):
    def set_result(self, value: _Result) -> None: ...
    def set_exception(self, error: BaseException) -> None: ...
    def done(self) -> bool: ...
    def result(self) -> _Result: ...

class Crew:
    size: int
    threads: list[Thread]
    closed: bool
    def __init__(
        self,
        work: Callable[[int], None],
        size: int,
        stop: Callable[[], None] | None = None,
        *,
        name: str = "bpe",
        daemon: bool = False,
    ) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def enter(self, number: int) -> None: ...
    def join(self) -> None: ...
