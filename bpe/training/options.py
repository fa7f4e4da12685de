"""The options that determine the merges of a training, and their validation.

Not here: their use (`trainer.py`, `alphabet.py`), and the corpus (`train.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np

from bpe.base.utf8 import to_bytes
from bpe.errors import check_choice, check_int, shown, typed
from bpe.training.merge_rules import MergeRules
from bpe.vocab.byte_letters import letter_bytes
from bpe.vocab.spec import Model
from bpe.vocab.special_tokens import check_special_tokens
from bpe.vocab.symbols import BYTE_NAMES
from bpe.vocab.vocabulary import ID_LIMIT

TieBreak = Literal["id", "first", "smallest", "greatest"]
OnMerge = Callable[[int, Any, Any, Any, int], object]
TIE_BREAKS: tuple[TieBreak, ...] = ("id", "first", "smallest", "greatest")


def default_pretokenizer(chars: bool) -> str:
    """The pretokenizer of a training that names none, by whether symbols are characters."""
    return "whitespace" if chars else "gpt2"


@dataclass(frozen=True)
class TrainOptions:
    """The options of `bpe.train` that determine the merges, validated when constructed. `bpe.train` documents them.

    In the second stage of a `SuperWords`, `rules` has its limits too. `sizes` are all the vocabulary sizes that were
    asked for, where they are several; `vocab_size` is the largest of them. With `disjoint`, pairs are counted without
    overlap, as `boundless.py` needs it.
    """

    vocab_size: int | None = None
    num_merges: int | None = None
    model: Model = "byte"
    end_of_word: str | None = None
    end_of_word_glued: bool = False
    unk_token: str | None = None
    special_tokens: tuple[str, ...] = ()
    initial_alphabet: Any = None
    min_frequency: int = 1
    max_token_length: int | None = None
    limit_alphabet: int | None = None
    tie_break: TieBreak = "id"
    first_id: int = 0
    byte_fallback: bool = False
    character_coverage: float = 1.0
    split_digits: bool = False
    rules: MergeRules = field(default_factory=MergeRules)
    sizes: tuple[int, ...] = ()
    disjoint: bool = False
    reserved: dict[str, None] = field(init=False)

    def __post_init__(self) -> None:
        if (self.vocab_size is None) == (self.num_merges is None):
            raise ValueError(
                f"vocab_size is {self.vocab_size} and num_merges is {self.num_merges}; give exactly one of them"
            )
        check_choice("model", self.model, ("byte", "char"))
        check_choice("tie_break", self.tie_break, TIE_BREAKS)
        for name, least in (("vocab_size", 1), ("num_merges", 0), ("max_token_length", 1), ("limit_alphabet", 1)):
            if getattr(self, name) is not None:
                check_int(name, getattr(self, name), least, ID_LIMIT)
        if isinstance(self.initial_alphabet, Iterable) and not isinstance(self.initial_alphabet, (str, bytes)):
            object.__setattr__(self, "initial_alphabet", tuple(self.initial_alphabet))
        self._check_alphabet_options()
        check_int("min_frequency", self.min_frequency, 0)
        check_int("first_id", self.first_id, 0, ID_LIMIT)
        for name in ("end_of_word", "unk_token"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise TypeError(f"{name} is {typed(value)}; it must be a str or None")
            if value == "":
                raise ValueError(f"{name} is ''; it must be at least one character, or None for none")
        if self.end_of_word_glued and self.end_of_word is None:
            raise ValueError('end_of_word_glued=True needs a mark to glue: pass end_of_word="</w>" too')
        if isinstance(self.special_tokens, Mapping):
            raise TypeError(
                f"special_tokens is {typed(self.special_tokens)}; it must be a list of names: their ids are first_id, "
                "first_id + 1, … in its order"
            )
        if not isinstance(self.rules, MergeRules):
            raise TypeError(f"rules is {typed(self.rules)}; it must be a bpe.MergeRules or None")
        specials = check_special_tokens(self.special_tokens)
        reserved = dict.fromkeys(specials)
        if self.unk_token is not None:
            reserved[self.unk_token] = None
        if self.byte_fallback and not reserved.keys().isdisjoint(BYTE_NAMES):
            name = next(name for name in reserved if name in BYTE_NAMES)
            raise ValueError(f"{name!r} is a special token; with byte_fallback it is the token of a byte: leave it out")
        if self.end_of_word in reserved:
            raise ValueError(
                f"end_of_word {self.end_of_word!r} is a special token too; it must differ from all of them"
            )
        object.__setattr__(self, "special_tokens", specials)
        object.__setattr__(self, "reserved", reserved)

    def _check_alphabet_options(self) -> None:
        """Check the options of SentencePiece's kind; normalize the coverage to a float."""
        for name in ("byte_fallback", "split_digits"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} is {typed(getattr(self, name))}; it must be a bool")
        coverage: object = self.character_coverage
        if isinstance(coverage, bool) or not isinstance(coverage, (int, float, np.floating)):
            raise TypeError(f"character_coverage is {typed(coverage)}; it must be a number from 0 to 1")
        if not 0 < coverage <= 1:
            raise ValueError(f"character_coverage is {coverage}; it must be above 0 and at most 1, such as 0.9995")
        object.__setattr__(self, "character_coverage", float(coverage))
        for name, value in (("byte_fallback", self.byte_fallback), ("character_coverage", self.character_coverage < 1)):
            if value and self.model != "char":
                raise ValueError(f'{name} is for models of characters; pass model="char" too, or leave it out')
        if self.byte_fallback and self.end_of_word is not None:
            raise ValueError(
                f"end_of_word is {self.end_of_word!r} with byte_fallback; the bytes of a mark would be tokens of a "
                "text: leave one of them out"
            )

    @property
    def n_lead(self) -> int:
        """The number of tokens before the alphabet: special tokens, the unknown token, tokens of bytes."""
        return len(self.reserved) + 256 * self.byte_fallback

    @property
    def chars(self) -> bool:
        """Whether symbols are characters."""
        return self.model == "char"

    def to_json(self) -> dict[str, Any]:
        """The options as name → JSON value, for a checkpoint."""
        apart = ("reserved", "sizes", "disjoint")  # `SuperWords` records the last one
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in apart}
        values["rules"] = self.rules.to_json()
        values["special_tokens"] = list(self.special_tokens)
        for name in ("byte_fallback", "character_coverage", "split_digits"):
            if values[name] == TrainOptions.__dataclass_fields__[name].default:
                del values[name]  # checkpoints of earlier releases have no such option
        if not values["rules"]:
            del values["rules"]
        if isinstance(self.initial_alphabet, tuple):
            values["initial_alphabet"] = given_codes(self)
        return {name: int(value) if hasattr(value, "__index__") else value for name, value in values.items()}


def given_codes(options: TrainOptions) -> list[int]:
    """The argument `initial_alphabet`, an iterable of symbols, as byte values or code points in its order."""
    symbols = options.initial_alphabet
    if isinstance(symbols, (str, bytes)) or not isinstance(symbols, Iterable):
        raise TypeError(
            f"initial_alphabet is {shown(symbols)}; it must be None, 'corpus' or a list of symbols, such as "
            f"{shown(list(symbols)) if isinstance(symbols, str) else ['a', 'b']}"
        )
    codes: dict[int, None] = {}
    for symbol in symbols:
        codes[_given_code(symbol, options.chars)] = None
    return list(codes)


def _given_code(symbol: object, chars: bool) -> int:
    if isinstance(symbol, str) and len(symbol) == 1:
        if chars:
            to_bytes(symbol)
            if not 0xD800 <= ord(symbol) < 0xE000:
                return ord(symbol)
        elif ord(symbol) < 128:
            return ord(symbol)
        elif symbol in letter_bytes():
            return letter_bytes()[symbol]
    elif not chars and isinstance(symbol, bytes) and len(symbol) == 1:
        return symbol[0]
    elif not chars and isinstance(symbol, int) and not isinstance(symbol, bool) and 0 <= symbol < 256:
        return symbol
    rule = (
        "one character each"
        if chars
        else "one byte each: an int, bytes of length 1, an ASCII character or GPT-2's letter for it"
    )
    raise ValueError(f"initial_alphabet has {shown(symbol)}; its symbols must be {rule}")
