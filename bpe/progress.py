"""Progress: bars on stderr, where that is a terminal, or a program's own function; neither unless asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from bpe.errors import typed
from bpe.visualize import spell

#: How much of the last token the bar of merges shows.
_TOKEN_WIDTH = 24


@dataclass(frozen=True)
class Progress:
    """How far a job is: what a function given as `progress` is called with.

    Attributes:
        stage: "count" (words are counted) or "merge" (merges are made).
        done: how much is done: bytes of text, or merges.
        total: how much there is to do, or None where that is not known.
        token: the last token made: bytes in a byte model, str in a character model; None while words are counted.
        count: how often its pair stood in the corpus then; None while words are counted.

    """

    stage: Literal["count", "merge"]
    done: int
    total: int | None
    token: Any = None
    count: int | None = None


#: The argument `progress`: whether to show bars, or a function to call.
ProgressLike = bool | Callable[[Progress], object]


#: To be called with how much more is done, and of merges with a function that gives the last token, and its count.
Advance = Callable[..., object]


def check_progress(progress: object) -> None:
    """Refuse what is neither a bool nor a function."""
    if not isinstance(progress, bool) and not callable(progress):
        raise TypeError(
            f"progress is {typed(progress)}; it must be True for bars on stderr, False "
            "for none, or a function that takes a bpe.Progress"
        )


@contextmanager
def progress_bar(
    progress: ProgressLike, stage: Literal["count", "merge"], total: int | None, unit: str, done: int = 0
) -> Iterator[Advance]:
    """What to call as work goes on: it moves a bar, calls the function that `progress` is, or does nothing."""
    if callable(progress):
        yield _Telling(progress, stage, total, done)
    elif progress:
        from tqdm import tqdm

        with tqdm(
            total=total, initial=done, desc=stage, unit=unit if unit == "B" else f" {unit}", unit_scale=unit == "B",
            disable=None,
        ) as bar:  # fmt: skip
            yield _Moving(bar)
    else:
        yield _nothing


def _nothing(*_: object) -> None:
    pass


class _Telling:
    def __init__(
        self, tell: Callable[[Progress], object], stage: Literal["count", "merge"], total: int | None, done: int
    ) -> None:
        self.tell, self.stage, self.total, self.done = tell, stage, total, done

    def __call__(self, more: int, token: Callable[[], Any] | None = None, count: int | None = None) -> None:
        self.done += more
        self.tell(Progress(self.stage, self.done, self.total, None if token is None else token(), count))


class _Moving:
    def __init__(self, bar: Any) -> None:
        self.bar = bar

    def __call__(self, more: int, token: Callable[[], Any] | None = None, count: int | None = None) -> None:
        if token is not None and not self.bar.disable:
            text = spell(token())
            text = text if len(text) <= _TOKEN_WIDTH else text[: _TOKEN_WIDTH - 1] + "…"
            self.bar.set_postfix_str(f"{text} {count:,}", refresh=False)
        self.bar.update(more)
