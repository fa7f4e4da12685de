"""The rules of `bpe.MergeRules` by their definition, and random ones."""

from __future__ import annotations

import codecs
import random
from collections.abc import Callable
from typing import Any

import reference
import regex

import bpe

LETTERS = ("aé ", "aя ", "語あア", "aя語é́한1! ", "😀a\N{MUSICAL SYMBOL G CLEF}é ", "ab ")
SCRIPTS = {
    name: regex.compile(pattern)
    for name, pattern in {
        "Latin": r"\p{sc=Latin}",
        "Cyrillic": r"\p{sc=Cyrillic}",
        "Han": r"[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}]",
        "Hangul": r"\p{sc=Hangul}",
    }.items()
}


def begins_character(token: bytes) -> bool:
    """Whether a token is one character, or the first bytes of one."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        text = decoder.decode(token)
    except UnicodeDecodeError:
        return False
    pending = decoder.getstate()[0]
    return (len(text), len(pending)) in {(1, 0), *((0, n) for n in (1, 2, 3))}


def joins_parts(left: bytes, right: bytes) -> bool:
    if reference.is_whole(left) and reference.is_whole(right):
        return False
    parts = begins_character(left), begins_character(left + right)
    return reference.is_whole(left) or len(right) != 1 or not all(parts)


def find_scripts(token: bytes) -> set[str]:
    text = token.decode(errors="ignore")
    return {name for name, pattern in SCRIPTS.items() if pattern.search(text)}


def breaks(rules: bpe.MergeRules, left: bytes, right: bytes) -> bool:
    """Whether a rule, other than a veto, refuses a pair."""
    token = left + right
    return bool(
        (rules.whole_characters and joins_parts(left, right))
        or (rules.one_script and len(find_scripts(token)) > 1)
        or (rules.max_words is not None and len([part for part in token.split(b" ") if part]) > rules.max_words)
        or any(character.encode() in token for character in rules.forbidden)
    )


def make_veto(rules: bpe.MergeRules, mark: str = "") -> Callable[[Any, Any, int], bool]:
    """What the oracle asks."""

    def veto(left: Any, right: Any, count: int) -> bool:
        parts = [part.encode() if isinstance(part, str) else part for part in (left, right)]
        if mark:
            parts[1] = parts[1].removesuffix(mark.encode())
        return breaks(rules, *parts) or (rules.veto is not None and bool(rules.veto(left, right, count)))

    return veto


class RecordingVeto:
    """A veto that remembers what it was asked, and refuses by the length of the token and the count."""

    def __init__(self, modulus: int) -> None:
        self.modulus = modulus
        self.calls: list[tuple[Any, Any, int]] = []

    def __call__(self, left: Any, right: Any, count: int) -> bool:
        self.calls.append((left, right, count))
        return (len(left) + 3 * len(right) + count) % self.modulus == 0


def draw_rules(random_: random.Random, veto: RecordingVeto | None) -> bpe.MergeRules:
    return bpe.MergeRules(
        whole_characters=random_.random() < 0.5,
        one_script=random_.random() < 0.5,
        max_words=random_.choice((None, None, 1, 2)),
        forbidden=random_.choice(((), (), ("a",), ("aa", "é"))),
        veto=veto,
    )


def draw_words(random_: random.Random) -> dict[str, int]:
    letters = random_.choice(LETTERS)
    n, max_length = random_.choice((1, 4, 12)), random_.choice((1, 3, 9))
    return {
        "".join(random_.choices(letters, k=random_.choice((1, 2, 4, 9))))
        * random_.choice((1, 1, 2, 3)): random_.randint(1, max_length)
        for _ in range(n)
    }
