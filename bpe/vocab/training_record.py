"""`Training`: the facts about its training that a tokenizer keeps."""

from __future__ import annotations

from typing import Any

from bpe.base.fast_dataclasses import dataclass, replace


@dataclass(frozen=True)
class Training:
    """Facts about a training: `Tokenizer.spec.training` of a tokenizer that `train` or `extend` returned.

    Attributes:
        stopped: why training stopped before the requested size: "no pairs left" or "min_frequency"; None if it reached
            that size.
        merges: the number of merges.
        words: the number of distinct words in the corpus.
        seconds: the time that training took, including counting; 0.0 for a tokenizer that was loaded.
        curve: how the corpus got shorter: rows (merges, count, bytes_per_token) after 1, 2, 4, 8, … merges, at each
            size that was asked for, and at the end. `count` is that of the last merge's pair; bytes_per_token is the
            bytes of the corpus's words divided by their tokens after that many merges. With superwords, the second
            stage has rows after 1, 2, 4, … of its own merges; `merges` counts those of both.

    """

    stopped: str | None
    merges: int
    words: int
    seconds: float
    curve: tuple[tuple[int, int, float], ...] = ()

    def after(
        self, merges: int, curve: tuple[tuple[int, int, float], ...] = (), stopped: str | None = None
    ) -> Training:
        """Return the record of this training and `merges` merges before it, whose curve and stop reason are given."""
        rows = tuple((merges + row[0], *row[1:]) for row in self.curve)
        return replace(self, merges=merges + self.merges, curve=curve + rows, stopped=self.stopped or stopped)

    def to_json(self) -> dict[str, Any]:
        """Convert the facts to name → JSON value, without the time: equal trainings give equal files."""
        return {
            "stopped": self.stopped,
            "merges": self.merges,
            "words": self.words,
            "curve": [list(row) for row in self.curve],
        }

    @classmethod
    def from_json(cls, value: object) -> Training:
        """Read the facts that `to_json` wrote.

        Raises:
            ValueError: for anything else.

        >>> Training.from_json(Training(None, 2, 1, 0.5, ((1, 3, 1.5), (2, 1, 2.0))).to_json()).curve
        ((1, 3, 1.5), (2, 1, 2.0))

        """
        if not isinstance(value, dict) or set(value) != {"stopped", "merges", "words", "curve"}:
            raise ValueError("it must be an object with stopped, merges, words and curve")
        stopped, merges, words, curve = (value[name] for name in ("stopped", "merges", "words", "curve"))
        if not (stopped is None or isinstance(stopped, str)) or not _are_counts(merges, words):
            raise ValueError("stopped must be null or a string, merges and words whole numbers of at least 0")
        rows: list[Any] = curve if isinstance(curve, list) else [None]
        if not all(isinstance(row, list) and len(row) == 3 and _is_row(*row) for row in rows):
            raise ValueError("curve must be a list of [merges, count, bytes per token]")
        return cls(stopped, merges, words, 0.0, tuple((row[0], row[1], float(row[2])) for row in rows))


def _are_counts(*values: object) -> bool:
    return all(isinstance(value, int) and not isinstance(value, bool) and value >= 0 for value in values)


def _is_row(merges: object, count: object, bytes_per_token: object) -> bool:
    is_number = isinstance(bytes_per_token, (int, float)) and not isinstance(bytes_per_token, bool)
    return _are_counts(merges, count) and is_number and 0 <= bytes_per_token < 2**63  # type: ignore[operator]
