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
    inner = normalizer.normalizers if isinstance(normalizer, Sequence) else None
    inner = normalizer.steps if isinstance(normalizer, BertNormalizer) else inner
    return [normalizer] if inner is None else [step for each in inner for step in _flat(each)]


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
        sources += (np.arange(done, start), np.array(found, dtype=np.int64) + start)
        done = end
    return "".join([*parts, text[done:]]), np.concatenate([*sources, np.arange(done, len(text))])


def _stretch_sources(form: str, text: str) -> tuple[str, list[int]]:
    """A stretch in a form, and for each character the index of the one that it takes its span from.

    A character's change is 1 less the number of source characters that it stands for, as in `transform_range`. One
    that stands for none takes the span of the source character before it.
    """
    chars: list[tuple[str, int]] = []
    for char in text:
        for i, part in enumerate(normalized("NFKD" if "K" in form else "NFD", char)):
            at = len(chars)
            chars.append((part, int(i > 0)))
            combining_class = combining(part)
            while combining_class and at and combining(chars[at - 1][0]) > combining_class:
                chars[at - 1], chars[at] = chars[at], chars[at - 1]
                at -= 1
    if form.endswith("C"):
        chars = _composed(chars)
    position, sources = 0, []
    for _, change in chars:
        sources.append(position - 1 if change > 0 else position)
        position += 0 if change > 0 else 1 - change
    return "".join(char for char, _ in chars), sources


def _composed(decomposed: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Compose as `alignment.composed` does, adding up the changes."""
    chars: list[tuple[str, int]] = []
    starter, last_class = -1, 0
    for char, change in decomposed:
        combining_class = combining(char)
        if starter >= 0 and (last_class < combining_class or last_class == 0):
            base, base_change = chars[starter]
            both = normalized("NFC", base + char)
            if len(both) == 1:
                chars[starter] = (both, base_change + change - 1)
                continue
        if combining_class == 0:
            starter = len(chars)
        last_class = combining_class
        chars.append((char, change))
    return chars


__all__ = ["traced"]
