"""Rules for the merges of a training: the order of pairs with the same count, and which tokens no merge may make.

The kernels apply them in `bpe/training/_spelling_rules.pxd` and `_loop.pyx`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from bpe.errors import ID_LIMIT, check_bool, check_choice, check_int, describe, short_repr

#: The most strings of `MergeRules.forbidden`; the kernel has room for as many.
MAX_FORBIDDEN = 64
#: The script number of characters that are joined with no other.
ISOLATED_SCRIPT = 255

TieBreak = Literal["id", "first", "smallest", "greatest"]
TIE_BREAKS: tuple[TieBreak, ...] = ("id", "first", "smallest", "greatest")

#: Called as veto(left, right, count).
Veto = Callable[[Any, Any, int], object]


@dataclass(frozen=True)
class MergeRules:
    """Which merges `bpe.train` and `bpe.extend` make, and which never: the argument `rules`.

    A pair that a rule refuses costs no id and is refused for good; the next best pair is taken instead. The rules do
    not see the end-of-word mark. Tokens that the training starts from are not concerned.

    Attributes:
        whole_characters: in UTF-8, join whole characters with whole characters only, and the bytes of one character
            from left to right only, until it is whole. For byte models; a character model has no other merges. Source:
            Land and Arnett, "BPE Stays on SCRIPT" (2025).
        one_script: make no token with characters of two scripts. Spaces, digits, punctuation and marks belong to
            every script, Hiragana and Katakana count as Han, and a part of a character has no script
            (`bpe.pretokenizers.UnicodeScripts` divides text by the same table).
        max_words: the most words in a token, counted between spaces; None for no limit.
        forbidden: strings that no token contains.
        veto: a function for experiments, called as veto(left, right, count) with the best pair, which the other rules
            allow: bytes in a byte model, str in a character model, and an int. If the result is true, the pair is not
            merged. It is called once for each pair that becomes the best one, takes about a microsecond, and must
            depend on nothing else for the result to be reproducible.
        tie_break: which of several pairs with the highest count is merged: "id", the one with the smallest ids (as in
            Hugging Face); "first", the one that occurs first in the corpus; "smallest" or "greatest" by the tokens'
            bytes.
        max_token_length: make no token longer than this many symbols (bytes or characters).

    Raises:
        TypeError, ValueError: for other values than these.

    >>> import bpe
    >>> texts = ["Москва and Moscow"] * 5
    >>> rules = bpe.MergeRules(whole_characters=True, veto=lambda left, right, count: right.endswith(b"w"))
    >>> tok = bpe.train(texts=texts, vocab_size=300, rules=rules)
    >>> tok.tokens("Москва and Moscow")
    [b'\\xd0\\x9c\\xd0\\xbe\\xd1\\x81\\xd0\\xba\\xd0\\xb2\\xd0\\xb0', b' and', b' Mosco', b'w']

    """

    whole_characters: bool = False
    one_script: bool = False
    max_words: int | None = None
    forbidden: tuple[str, ...] = ()
    veto: Veto | None = None
    tie_break: TieBreak = "id"
    max_token_length: int | None = None

    def __post_init__(self) -> None:
        check_choice("tie_break", self.tie_break, TIE_BREAKS)
        if self.max_token_length is not None:
            check_int("max_token_length", self.max_token_length, 1, ID_LIMIT)
        for name in ("whole_characters", "one_script"):
            object.__setattr__(self, name, check_bool(name, getattr(self, name)))
        if self.veto is not None and not callable(self.veto):
            raise TypeError(
                f"veto is {short_repr(self.veto)}; it must be callable as veto(left, right, count), or None"
            )
        object.__setattr__(self, "forbidden", check_word_limits(self.max_words, self.forbidden))

    def and_limits(self, max_words: int | None, forbidden: tuple[str, ...]) -> MergeRules:
        """Add a second limit of words and more forbidden strings to these rules."""
        limits = [limit for limit in (self.max_words, max_words) if limit is not None]
        return replace(
            self,
            max_words=min(limits, default=None),
            forbidden=tuple(dict.fromkeys((*self.forbidden, *forbidden))),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the rules as name → JSON value, without those that are off; of a veto, only whether there is one."""
        values = {
            "tie_break": self.tie_break,
            "max_token_length": None if self.max_token_length is None else int(self.max_token_length),
            "whole_characters": self.whole_characters,
            "one_script": self.one_script,
            "max_words": None if self.max_words is None else int(self.max_words),
            "forbidden": list(self.forbidden),
            "veto": self.veto is not None,
        }
        return {name: value for name, value in values.items() if value}


def check_word_limits(max_words: object, forbidden: object) -> tuple[str, ...]:
    """Validate the options `max_words` and `forbidden`; returns the latter as a tuple."""
    if max_words is not None:
        check_int("max_words", max_words, 1, 1 << 30)
    if isinstance(forbidden, str) or not isinstance(forbidden, Iterable):
        raise TypeError(f"forbidden is {describe(forbidden)}; it must be a tuple of str")
    strings = tuple(forbidden)
    for string in strings:
        if not isinstance(string, str) or not string:
            raise ValueError(f"forbidden has {short_repr(string)}; each must be a str of at least one character")
    if len(strings) > MAX_FORBIDDEN:
        raise ValueError(f"forbidden has {len(strings)} strings; it may have at most {MAX_FORBIDDEN}")
    return strings
