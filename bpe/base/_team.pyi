from collections.abc import Callable
from threading import Thread
from types import TracebackType

from typing_extensions import Self

class Team:
    size: int
    def __new__(cls, size: int) -> Self: ...
    def help(self, part: int) -> None: ...

def dismiss(teams: tuple[Team, ...]) -> None: ...

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
