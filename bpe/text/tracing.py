"""Tracing: the span that `tokenizers` gives each character of a normalized text.

Its rule differs from that of `alignment.py`. A character that replaced others has the span of one of them: a composed
character of the first, a replacement of the last, an inserted one of its neighbour. Marks that composition or sorting
moved have the spans of their positions. Sources: `NormalizedString::transform_range` of `tokenizers` and its
`unicode_normalization_alignments`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from bpe.text import alignment
from bpe.text.alignment import Aligned
from bpe.text.normalizers import (
    NFC,
    NFD,
    NFKC,
    NFKD,
    CollapseWhitespace,
    Lowercase,
    Normalizer,
    Replace,
    Sequence,
    Strip,
)
from bpe.text.pipeline_normalizers import BertNormalizer
from bpe.text.unicode import combining, lower, normalized

#: A text, and for each of its characters the index of the source character that it takes its span from.
_Sources = tuple[str, NDArray[np.int64]]


def traced(normalizer: Normalizer | None, text: str) -> Aligned:
    """A normalized text with the span of the original that `tokenizers` gives each of its characters.

    >>> traced(NFC(), "cafe\\u0301!").ends.tolist(), NFC().aligned("cafe\\u0301!").ends.tolist()
    ([1, 2, 3, 4, 6], [1, 2, 3, 5, 6])
    """
    result = alignment.unchanged(text)
    for step in _flat(normalizer):
        result = _then(result, step)
    return result


def _flat(normalizer: Normalizer | None) -> Iterable[Normalizer]:
    if normalizer is None:
        return []
    if isinstance(normalizer, BertNormalizer):
        normalizer = normalizer.steps
    if isinstance(normalizer, Sequence):
        return [step for each in normalizer.normalizers for step in _flat(each)]
    return [normalizer]


def _then(before: Aligned, step: Normalizer) -> Aligned:
    """The result of one more step."""
    found = _sources(step, before.text)
    if found is None:  # a normalizer that `tokenizers` does not have
        return before.through(step.aligned(before.text))
    text, sources = found
    inside = np.maximum(sources, 0)
    starts, ends = (
        (np.where(sources < 0, 0, bound[inside]) if len(bound) else bound) for bound in (before.starts, before.ends)
    )
    return Aligned(text, starts, ends)


def _sources(step: Normalizer, text: str) -> _Sources | None:
    """The result of a step, and the index of the character that each of its characters takes its span from."""
    if isinstance(step, (NFC, NFD, NFKC, NFKD)):
        return _form_sources(step.form, text)
    if isinstance(step, Lowercase) and not step.final_sigma:
        result = lower(text)
        if len(result) == len(text):
            return result, np.arange(len(text))
        return result, np.arange(len(text)).repeat([len(lower(char)) for char in text])
    if isinstance(step, Strip):
        aligned = step.aligned(text)
        return aligned.text, aligned.starts
    if isinstance(step, (Replace, CollapseWhitespace)):
        replace = step if isinstance(step, Replace) else Replace(r"\p{White_Space}+", " ")
        aligned = replace.aligned(text)  # a replacement takes the span of the last character that it replaced
        return aligned.text, np.maximum(aligned.ends - 1, 0)
    sources = getattr(step, "sources", None)
    return None if sources is None else sources(text)


def _form_sources(form: str, text: str) -> _Sources:
    """`_sources` of a normalization form."""
    if unicodedata.is_normalized(form, text):  # type: ignore[arg-type]
        return text, np.arange(len(text))
    parts: list[str] = []
    sources: list[NDArray[np.int64]] = []
    done = 0
    for start, end in alignment.stretches(form, text):
        chars, found = _stretch_sources(form, text[start:end])
        parts += (text[done:start], chars)
        sources += (np.arange(done, start), found + start)
        done = end
    return "".join([*parts, text[done:]]), np.concatenate([*sources, np.arange(done, len(text))])


def _stretch_sources(form: str, text: str) -> _Sources:
    """A stretch in a form, and for each character the index of the one that it takes its span from."""
    chars: list[tuple[str, int]] = []  # a character, and how many source characters it stands for
    for char in text:
        for i, part in enumerate(normalized("NFKD" if "K" in form else "NFD", char)):
            at = len(chars)
            chars.append((part, int(i == 0)))
            combining_class = combining(part)
            while combining_class and at and combining(chars[at - 1][0]) > combining_class:
                chars[at - 1], chars[at] = chars[at], chars[at - 1]
                at -= 1
    if form.endswith("C"):
        chars = _composed(chars)
    return "".join(char for char, _ in chars), alignment.sources_of([count for _, count in chars])


def _composed(decomposed: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Compose as `alignment._compose` does, adding up the counts."""
    chars: list[tuple[str, int]] = []
    starter, last_class = -1, 0
    for char, count in decomposed:
        combining_class = combining(char)
        if starter >= 0 and (last_class < combining_class or last_class == 0):
            base, base_count = chars[starter]
            both = normalized("NFC", base + char)
            if len(both) == 1:
                chars[starter] = (both, base_count + count)
                continue
        if combining_class == 0:
            starter = len(chars)
        last_class = combining_class
        chars.append((char, count))
    return chars


__all__ = ["traced"]
