"""The metrics of an evaluation in plain Python, from texts and tokens: the twin of the kernels."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import regex

SPACE = regex.compile(r"\p{White_Space}")
#: Characters that are words by themselves.
SINGLE = (
    *((0x0E00, 0x109F), (0x1780, 0x17FF), (0x1950, 0x19FF), (0x1A20, 0x1AAF), (0x2E80, 0x2FFF), (0x3001, 0x312F)),
    *((0x3190, 0x31FF), (0x3220, 0x325F), (0x3280, 0x9FFF), (0xF900, 0xFAFF)),
    *((0xFE30, 0xFE4F), (0xFF01, 0xFF9F), (0x116D0, 0x1174F), (0x1AFF0, 0x1B16F), (0x20000, 0x3FFFF)),
)


def locate_characters(data: bytes) -> list[tuple[str, int, int]]:
    """Each character with its start and end in bytes; a byte that is not UTF-8 is one."""
    spans, start = [], 0
    for char in data.decode("utf-8", "surrogateescape"):
        size = len(char.encode("utf-8", "surrogateescape"))
        spans.append((char, start, start + size))
        start += size
    return spans


def locate_words(data: bytes, mode: str = "script") -> list[tuple[int, int]]:
    """The spans of words in bytes."""
    spans: list[tuple[int, int]] = []
    in_word = False
    for char, start, end in locate_characters(data):
        if SPACE.match(char):
            in_word = False
        elif mode == "characters" or (mode == "script" and any(a <= ord(char) <= b for a, b in SINGLE)):
            spans.append((start, end))
            in_word = False
        elif in_word:
            spans[-1] = spans[-1][0], end
        else:
            spans.append((start, end))
            in_word = True
    return spans


def locate_numbers(data: bytes) -> list[tuple[int, int]]:
    """The spans of runs of digits."""
    return [match.span() for match in regex.finditer(rb"[0-9]+", data)]


def compute_f1(cuts: set[int], ideal: set[int]) -> float:
    """TokEval's score of a number."""
    if not cuts and not ideal:
        return 1.0
    n_right = len(cuts & ideal)
    if not n_right:
        return 0.0
    precision, recall = n_right / len(cuts), n_right / len(ideal)
    return 2 * precision * recall / (precision + recall)


def sum_text(data: bytes, mode: str = "script") -> list[int]:
    """The first six of COLUMNS of `_tally.pyx`, in its order."""
    wide = sum(end - start > 1 for _, start, end in locate_characters(data))
    ideal = sum((end - start - 1) // 3 for start, end in locate_numbers(data))
    return [
        len(data),
        len(locate_characters(data)),
        len(locate_words(data, mode)),
        wide,
        len(locate_numbers(data)),
        ideal,
    ]


def sum_cuts(data: bytes, cuts: set[int], mode: str = "script") -> tuple[list[int], float]:
    """Words cut, characters split, boundaries in numbers and those that are right; and the sum of F1."""

    def inside(spans: Sequence[tuple[int, int]]) -> int:
        return sum(
            any(start < position < end for position in range(start + 1, end) if position in cuts)
            for start, end in spans
        )

    numbers_cut = [
        ({at for at in range(a + 1, b) if at in cuts}, set(range(b - 3, a, -3))) for a, b in locate_numbers(data)
    ]
    return [
        inside(locate_words(data, mode)),
        inside([(start, end) for _, start, end in locate_characters(data)]),
        sum(len(number_cuts) for number_cuts, _ in numbers_cut),
        sum(len(number_cuts & ideal) for number_cuts, ideal in numbers_cut),
    ], sum(compute_f1(number_cuts, ideal) for number_cuts, ideal in numbers_cut)


def find_cuts(tokens: Sequence[bytes]) -> set[int]:
    """The positions where a token begins, but the first."""
    cuts, position = set(), 0
    for token in tokens[:-1]:
        position += len(token)
        cuts.add(position)
    return cuts


def compute_renyi(tokens: Sequence[bytes], alpha: float, size: int | None = None) -> float | None:
    """The efficiency of tokens: the vocabulary's size, or None for the tokens that occur."""
    counts = Counter(tokens)
    size = len(counts) if size is None else size
    if size < 2 or not counts:
        return None
    p = [count / len(tokens) for count in counts.values()]
    if len(p) == 1:
        return 0.0
    if alpha == 1:
        return -sum(share * math.log2(share) for share in p) / math.log2(size)
    return math.log2(sum(share**alpha for share in p)) / (1 - alpha) / math.log2(size)


def compute_percentile_mass(tokens: Sequence[bytes]) -> float | None:
    """As `tokenization-scorer` computes it."""
    p = [count / len(tokens) for _, count in Counter(tokens).most_common()]
    if not p:
        return None
    start, end = min(int(len(p) * 0.03), len(p) - 1), min(int(len(p) * 0.83), len(p) - 1)
    if start == end:
        start = max(0, start - 1)
    if start == end:
        end = min(len(p) - 1, end + 1)
    return sum(p[start:end])


def is_crossing(token: bytes) -> bool:
    """Whether a token has bytes of several characters, of which one is incomplete (TokEval's rule)."""
    parts = regex.findall(
        rb"[\x00-\x7f]|[\xc0-\xdf][\x80-\xbf]?|[\xe0-\xef][\x80-\xbf]{0,2}|[\xf0-\xf7][\x80-\xbf]{0,3}|[\x80-\xff]",
        token,
    )
    expected = [
        1 if p[0] < 0x80 else 0 if p[0] < 0xC0 or p[0] > 0xF7 else 2 + (p[0] >= 0xE0) + (p[0] >= 0xF0) for p in parts
    ]
    return len(parts) > 1 and any(len(part) != size for part, size in zip(parts, expected, strict=True))


def has_leading_space(token: bytes) -> bool:
    """Whether a token of whole characters begins with white space before something else."""
    text = token.decode()
    return bool(SPACE.match(text)) and not regex.fullmatch(r"\p{White_Space}+", text)


def has_inner_space(token: bytes) -> bool:
    """Whether white space lies between other characters."""
    return bool(regex.search(r"\P{White_Space}\p{White_Space}+\P{White_Space}", token.decode()))
