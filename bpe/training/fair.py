"""`ParityAware`: the option of `train` that gives every language of a corpus its share of the merges.

Not here: the training itself (`parity.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bpe.count.word_counts import WordCounts
from bpe.errors import check_int, shown, typed
from bpe.vocab.vocabulary import ID_LIMIT


@dataclass(frozen=True)
class ParityAware:
    """Parity-aware training: each merge helps the language that is encoded worst (Foroutan et al., arXiv 2508.04796).

    With `bpe.train(..., fair=bpe.ParityAware(...))` the corpus is given by language: `texts=`, `files=` or `counts=` is
    a mapping from the language's name to its texts, files or `WordCounts`. Each step chooses a language, and merges
    the most frequent pair of that language in the texts of all. The result is an ordinary tokenizer.

    The language of a step is, among those that have a pair left (of `min_frequency` or more):

    - without `ratios`, the one whose text has the most tokens: its text in `dev`, or, without `dev`, in the corpus;
    - with `ratios`, the one with the smallest (tokens at the start / tokens now) / ratio, over its text in the corpus.

    Of several, the first in the mapping is taken.

    Attributes:
        dev: the counts of a text per language that says the same in all of them, to compare lengths by. The merges come
            from the corpus alone. A symbol outside the alphabet counts as one token.
        ratios: how well each language is to be compressed, relative to the others.
        global_merges: the first so many merges are those of plain training on the counts of all languages.
        window_size: skip a language that made more than `alpha` / n of the last `window_size` steps, where n is the
            number of languages, unless every language did; the paper has 100. None, the default, skips none.
        alpha: see `window_size`.

    Raises:
        TypeError, ValueError: for other values than these.

    >>> import bpe
    >>> corpus = {"en": ["the cat and the hat"] * 9, "ko": ["고양이와 모자"]}
    >>> fair = bpe.ParityAware(ratios={"en": 1.0, "ko": 1.0})
    >>> tok = bpe.train(texts=corpus, vocab_size=266, fair=fair)
    >>> plain = bpe.train(texts=corpus["en"] + corpus["ko"], vocab_size=266)
    >>> plain.count_tokens("고양이와 모자"), tok.count_tokens("고양이와 모자")
    (19, 13)

    """

    dev: Mapping[str, WordCounts] | None = None
    ratios: Mapping[str, float] | None = None
    global_merges: int = 0
    window_size: int | None = None
    alpha: float = 2.0

    def __post_init__(self) -> None:
        if self.dev is not None and self.ratios is not None:
            raise ValueError("dev and ratios are two ways to compare languages; give at most one of them")
        for name, what in (("dev", "WordCounts"), ("ratios", "a number")):
            given: Any = getattr(self, name)
            if given is None:
                continue
            if not isinstance(given, Mapping):
                raise TypeError(f"{name} is {typed(given)}; it must map each language to {what}")
            object.__setattr__(self, name, dict(given))
            for language, value in given.items():
                if name == "dev" and not isinstance(value, WordCounts):
                    raise TypeError(f"dev[{language!r}] is {typed(value)}; it must be a bpe.WordCounts")
                if name == "ratios" and not _is_positive(value):
                    raise ValueError(f"ratios[{language!r}] is {shown(value)}; it must be a number above 0")
        check_int("global_merges", self.global_merges, 0, ID_LIMIT)
        if self.window_size is not None:
            check_int("window_size", self.window_size, 1, 1 << 20)
        if not _is_positive(self.alpha):
            raise ValueError(f"alpha is {shown(self.alpha)}; it must be a number above 0")

    def check_languages(self, languages: Mapping[str, Any]) -> None:
        """Raise ValueError unless dev and ratios have the languages of the corpus."""
        for name in ("dev", "ratios"):
            given = getattr(self, name)
            if given is not None and given.keys() != languages.keys():
                raise ValueError(
                    f"{name} has the languages {', '.join(map(repr, given))}, the corpus has "
                    f"{', '.join(map(repr, languages))}; they must be the same"
                )

    def to_json(self) -> dict[str, Any]:
        """What determines the result, beside the counts, as name → JSON value."""
        return {
            "dev": self.dev is not None,
            "ratios": None if self.ratios is None else {name: float(value) for name, value in self.ratios.items()},
            "global_merges": int(self.global_merges),
            "window_size": None if self.window_size is None else int(self.window_size),
            "alpha": float(self.alpha),
        }


def _is_positive(value: object) -> bool:
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    return number and math.isfinite(value) and value > 0  # type: ignore[arg-type, operator]


__all__ = ["ParityAware"]
