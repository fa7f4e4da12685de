"""Whether tokens begin where morphemes do (MorphScore, Arnett and Bergen 2025)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from bpe.base.offsets import offsets_of
from bpe.errors import describe, short_repr
from bpe.evaluation import metrics
from bpe.evaluation.adapters import Adapter

#: Words with their morphemes: {"unhappy": ["un", "happy"]}, or [["un", "happy"], …].
Morphemes = Mapping[str, Sequence[str]] | Iterable[Sequence[str]]


@dataclass(frozen=True)
class Alignment:
    """How the boundaries of tokens in words compare with those of morphemes.

    Attributes:
        words: the words given.
        cut: those that are two or more tokens.
        aligned: those with a token boundary on a given boundary.
        boundaries, given, right: all token boundaries in words, all given ones, and those that are both.

    """

    words: int
    cut: int
    aligned: int
    boundaries: int
    given: int
    right: int

    def to_dict(self) -> dict[str, Any]:
        """The metrics: the share of the words that are cut, and precision and recall of all boundaries."""
        return {
            "morpheme_words": self.words,
            "morphological_alignment": metrics.ratio(self.aligned, self.cut),
            "morpheme_precision": metrics.ratio(self.right, self.boundaries),
            "morpheme_recall": metrics.ratio(self.right, self.given),
        }


def check_morphemes(given: Morphemes) -> list[list[str]]:
    """The morphemes of each word.

    Raises:
        TypeError, ValueError: for anything else, and for morphemes that do not spell their word.

    """
    if isinstance(given, Mapping):
        for word, parts in given.items():
            if "".join(parts) != word:
                raise ValueError(
                    f"the morphemes of {short_repr(word)} are {short_repr(parts)}; joined, they must be the word"
                )
        rows = list(given.values())
    else:
        rows = list(given)
    for row in rows:
        if isinstance(row, str) or not all(isinstance(part, str) and part for part in row):
            raise TypeError(f"morphemes has {describe(row)}; each word must be a list of str, such as ['un', 'happy']")
    return [list(row) for row in rows]


def compare_boundaries(adapter: Adapter, words: Sequence[Sequence[str]]) -> Alignment:
    """Encode each word by itself, and compare boundaries."""
    texts = ["".join(parts).encode() for parts in words]
    bounds = offsets_of([len(text) for text in texts])
    found = adapter.encode(b"".join(texts), bounds[:-1], bounds[1:])
    sizes, offsets = found.token_sizes(adapter), found.offsets
    cut = aligned = n_own = n_given = n_right = 0
    for index, parts in enumerate(words):
        row = sizes[offsets[index] : offsets[index + 1]].tolist()
        size = len(texts[index])
        own = {at for at in accumulate(row[:-1]) if 0 < at < size}
        given = set(accumulate(len(part.encode()) for part in parts[:-1]))
        cut += len(row) > 1
        aligned += bool(own & given)
        n_own, n_given, n_right = n_own + len(own), n_given + len(given), n_right + len(own & given)
    return Alignment(len(words), cut, aligned, n_own, n_given, n_right)
