"""`TrainConfig`: the arguments of `bpe.train`, validated, as the stages and the kernels of a training read them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, TypedDict

import numpy as np

from bpe.base.progress import ProgressLike, check_progress
from bpe.base.utf8 import TextLike, to_bytes
from bpe.corpus.blocks import PathLike
from bpe.corpus.sources import Files, Sources
from bpe.count.word_counts import WordCounts
from bpe.errors import ID_LIMIT, check_bool, check_choice, check_int, describe, short_repr
from bpe.pretokenize.pretokenizer import PretokenizerLike
from bpe.text.character_sets import list_codes, make_script_table
from bpe.text.letters import map_letters_to_bytes
from bpe.text.normalizers import NormalizerLike, as_normalizer
from bpe.training.merge_rules import ISOLATED_SCRIPT, TIE_BREAKS, MergeRules, Veto
from bpe.vocab.spec import SymbolType
from bpe.vocab.special_tokens import check_special_tokens
from bpe.vocab.symbols import BYTE_NAMES

OnMerge = Callable[[int, Any, Any, Any, int], object]
CountsLike = WordCounts | Mapping[str, int] | Mapping[bytes, int]


class TrainOptions(TypedDict, total=False):
    """The options that `bpe.train` and the trainers of `bpe.research` have in common, for type checkers."""

    num_merges: int | None
    model: SymbolType | None
    pretokenizer: PretokenizerLike | None
    normalizer: NormalizerLike | None
    special_tokens: Iterable[str]
    unk_token: str | None
    end_of_word: str | None
    end_of_word_glued: bool
    alphabet: Alphabet | None
    min_frequency: int
    rules: MergeRules | None
    split_digits: bool
    on_merge: OnMerge | None
    threads: int | None
    progress: ProgressLike
    max_memory: int | str | None
    checkpoint: PathLike | None


class CorpusOptions(TrainOptions, total=False):
    """Those options, and the corpus."""

    files: Files | None
    texts: Iterable[TextLike] | None
    counts: CountsLike | tuple[WordCounts, WordCounts] | None


@dataclass(frozen=True)
class Alphabet:
    """The symbols that a training starts from: the argument `alphabet` of `bpe.train`.

    Attributes:
        initial: symbols of the alphabet whether or not they occur in the corpus, in this order; the corpus's other
            symbols follow. "corpus" takes the corpus's symbols only; None takes all 256 bytes, or the corpus's
            characters. In a byte model a symbol is given as an int, bytes of length 1, an ASCII character, or GPT-2's
            letter for the byte.
        limit: the most symbols to keep, by frequency; the others take part in no merge.
        coverage: the part of the corpus, in characters, that the alphabet of a character model must cover: the most
            frequent characters are kept until they do. SentencePiece's default is 0.9995.
        byte_fallback: add the tokens `<0x00>` to `<0xFF>` after the special tokens; a character outside the alphabet
            becomes those of its UTF-8, as in SentencePiece's Llama 2, so that every text has ids.
        first_id: the first id; special tokens come first, the alphabet after them.

    Raises:
        TypeError, ValueError: for other values than these.

    >>> import bpe
    >>> tok = bpe.train(texts=["low lower"], vocab_size=6, alphabet=bpe.Alphabet(initial="corpus"), pretokenizer=None)
    >>> tok.tokens("low lower")
    [b'l', b'o', b'w', b' ', b'l', b'o', b'w', b'e', b'r']

    """

    initial: str | Iterable[str | bytes | int] | None = None
    limit: int | None = None
    coverage: float = 1.0
    byte_fallback: bool = False
    first_id: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.initial, Iterable) and not isinstance(self.initial, (str, bytes)):
            object.__setattr__(self, "initial", tuple(self.initial))
        if self.limit is not None:
            check_int("limit", self.limit, 1, ID_LIMIT)
        object.__setattr__(self, "byte_fallback", check_bool("byte_fallback", self.byte_fallback))
        coverage: object = self.coverage
        if isinstance(coverage, bool) or not isinstance(coverage, (int, float, np.floating)):
            raise TypeError(f"coverage is {describe(coverage)}; it must be a number from 0 to 1")
        if not 0 < coverage <= 1:
            raise ValueError(f"coverage is {coverage}; it must be above 0 and at most 1, such as 0.9995")
        object.__setattr__(self, "coverage", float(coverage))
        check_int("first_id", self.first_id, 0, ID_LIMIT)


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """The arguments of `bpe.train`, which documents them, validated when constructed.

    Attributes:
        model: "byte" or "char", never None.
        alphabet, rules: never None.
        normalizer: a `Normalizer` or None.
        vocab_size: the largest size where several are given.
        vocab_sizes: all sizes, where several are given.
        count_non_overlapping: whether pairs are counted without overlap, as BoundlessBPE needs it.
        reserved_names: the special tokens and the unknown token, in the order of their ids.

    """

    files: Any = None
    texts: Any = None
    counts: Any = None
    vocab_size: Any = None
    num_merges: int | None = None
    model: Any = None
    pretokenizer: PretokenizerLike | None = "default"
    normalizer: Any = None
    special_tokens: Any = ()
    unk_token: str | None = None
    end_of_word: str | None = None
    end_of_word_glued: bool = False
    alphabet: Any = None
    min_frequency: int = 1
    rules: Any = None
    split_digits: bool = False
    on_merge: OnMerge | None = None
    threads: int | None = None
    progress: ProgressLike = False
    max_memory: int | str | None = None
    checkpoint: PathLike | None = None
    vocab_sizes: tuple[int, ...] = ()
    count_non_overlapping: bool = False
    reserved_names: dict[str, None] = field(init=False)

    def __post_init__(self) -> None:
        for name, kind in (("alphabet", Alphabet), ("rules", MergeRules)):
            value = getattr(self, name)
            if value is None:
                object.__setattr__(self, name, kind())
            elif not isinstance(value, kind):
                raise TypeError(f"{name} is {describe(value)}; it must be a bpe.{kind.__name__} or None")
        if self.model is None:
            object.__setattr__(self, "model", "char" if self.alphabet.byte_fallback else "byte")
        check_choice("model", self.model, ("byte", "char"))
        self._check_corpus()
        self._check_size()
        check_int("min_frequency", self.min_frequency, 0)
        for name in ("split_digits", "end_of_word_glued"):
            object.__setattr__(self, name, check_bool(name, getattr(self, name)))
        self._check_tokens()
        if self.is_char_model:
            return
        for name, is_set in (
            ("byte_fallback", self.alphabet.byte_fallback),
            ("coverage", self.alphabet.coverage < 1),
        ):
            if is_set:
                raise ValueError(f'{name} is for models of characters; pass model="char" too, or leave it out')

    def _check_corpus(self) -> None:
        check_one_corpus(files=self.files, texts=self.texts, counts=self.counts)
        object.__setattr__(self, "normalizer", as_normalizer(self.normalizer))
        if self.on_merge is not None and not callable(self.on_merge):
            raise TypeError(
                f"on_merge is {short_repr(self.on_merge)}; it must be callable as on_merge(step, left, right, "
                "token, count)"
            )
        check_progress(self.progress)

    def _check_size(self) -> None:
        vocab_size = self.vocab_size
        if isinstance(vocab_size, Iterable) and not isinstance(vocab_size, (str, bytes)):
            vocab_sizes = tuple(check_int("vocab_size", value, 1, ID_LIMIT) for value in vocab_size)
            if not vocab_sizes:
                raise ValueError("vocab_size is an empty list; give a number of tokens, or several")
            object.__setattr__(self, "vocab_sizes", vocab_sizes)
            object.__setattr__(self, "vocab_size", max(vocab_sizes))
        if (self.vocab_size is None) == (self.num_merges is None):
            raise ValueError(
                f"vocab_size is {self.vocab_size} and num_merges is {self.num_merges}; give exactly one of them"
            )
        for name, minimum in (("vocab_size", 1), ("num_merges", 0)):
            if getattr(self, name) is not None:
                check_int(name, getattr(self, name), minimum, ID_LIMIT)

    def _check_tokens(self) -> None:
        """Check the special tokens, the unknown token and the end-of-word mark, and that they differ."""
        for name in ("end_of_word", "unk_token"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise TypeError(f"{name} is {describe(value)}; it must be a str or None")
            if value == "":
                raise ValueError(f"{name} is ''; it must be at least one character, or None for none")
        if self.end_of_word_glued and self.end_of_word is None:
            raise ValueError('end_of_word_glued=True needs a mark to glue: pass end_of_word="</w>" too')
        if isinstance(self.special_tokens, Mapping):
            raise TypeError(
                f"special_tokens is {describe(self.special_tokens)}; it must be a list of names: their ids are "
                "first_id, first_id + 1, … in its order"
            )
        specials = check_special_tokens(self.special_tokens)
        reserved_names = dict.fromkeys(specials)
        if self.unk_token is not None:
            reserved_names[self.unk_token] = None
        if self.alphabet.byte_fallback:
            clash = next((name for name in reserved_names if name in BYTE_NAMES), None)
            if clash is not None:
                raise ValueError(
                    f"{clash!r} is a special token; with byte_fallback it is the token of a byte: leave it out"
                )
            if self.end_of_word is not None:
                raise ValueError(
                    f"end_of_word is {self.end_of_word!r} with byte_fallback; the bytes of a mark would be tokens of a "
                    "text: leave one of them out"
                )
        if self.end_of_word in reserved_names:
            raise ValueError(
                f"end_of_word {self.end_of_word!r} is a special token too; it must differ from all of them"
            )
        object.__setattr__(self, "special_tokens", specials)
        object.__setattr__(self, "reserved_names", reserved_names)

    def make_corpus(self) -> Sources | Iterable[TextLike] | None:
        """Return the files as `Sources`, or the texts; None for counts."""
        if self.files is None:
            return self.texts  # type: ignore[no-any-return]
        return Sources.of(self.files, is_char_model=self.is_char_model)

    @property
    def is_char_model(self) -> bool:
        """Whether symbols are characters."""
        return bool(self.model == "char")

    @property
    def n_before_alphabet(self) -> int:
        """The number of tokens before the alphabet: special tokens, the unknown token, tokens of bytes."""
        return len(self.reserved_names) + (256 if self.alphabet.byte_fallback else 0)

    def to_json(self) -> dict[str, Any]:
        """Return what determines the merges, as name → JSON value, for a checkpoint."""
        names = (
            "vocab_size",
            "num_merges",
            "model",
            "end_of_word",
            "end_of_word_glued",
            "unk_token",
            "min_frequency",
        )
        values = {name: getattr(self, name) for name in names}
        values["special_tokens"] = list(self.special_tokens)
        alphabet = self.alphabet
        values["initial_alphabet"] = (
            read_initial_codes(self) if isinstance(alphabet.initial, tuple) else alphabet.initial
        )
        values["limit_alphabet"], values["character_coverage"] = alphabet.limit, alphabet.coverage
        values["byte_fallback"], values["first_id"] = alphabet.byte_fallback, alphabet.first_id
        values = {name: int(value) if hasattr(value, "__index__") else value for name, value in values.items()}
        return {**values, **self.rules.to_json(), **({"split_digits": True} if self.split_digits else {})}

    # As the kernels read it -------------------------------------------------------------------------------------------

    @property
    def tie_break_index(self) -> int:
        """The index of `rules.tie_break` in TIE_BREAKS."""
        return TIE_BREAKS.index(self.rules.tie_break)

    @property
    def max_length(self) -> int:
        """The most symbols of a token."""
        length: int | None = self.rules.max_token_length
        return 0xFFFFFFFF if length is None else length

    @property
    def max_words(self) -> int:
        """The most words in a new token, counted between spaces; 0 for no limit."""
        return self.rules.max_words or 0

    @property
    def forbidden(self) -> tuple[bytes, ...]:
        """Strings that no new token contains."""
        return tuple(string.encode() for string in self.rules.forbidden)

    @property
    def isolates_digits(self) -> bool:
        """Whether no merge may join a character that is a number with another: with `split_digits` in a byte model.

        The bytes of one number may be merged with each other. To keep them from a neighbour's, a merge joins whole
        characters, or bytes of one character.
        """
        return self.split_digits and not self.is_char_model

    @property
    def whole_characters(self) -> bool:
        """Whether no part of a character is joined with anything but its next byte."""
        return self.rules.whole_characters or self.isolates_digits

    @property
    def scripts(self) -> bytes:
        """A byte for each code point, the number of its script or 0; empty for tokens of any scripts.

        No new token has two numbers, and a character of ISOLATED_SCRIPT is joined with no other.
        """
        return _number_scripts(self.rules.one_script, self.isolates_digits)

    @property
    def mark_size(self) -> int:
        """The bytes of the end-of-word mark, which the rules above do not see."""
        return len((self.end_of_word or "").encode())

    @property
    def veto(self) -> Callable[[bytes, bytes, int], object] | None:
        """A function of (left, right, count) with the bytes of the best pair; true if it must not be merged."""
        veto: Veto | None = self.rules.veto
        return partial(_call_with_str, veto) if veto is not None and self.is_char_model else veto


@cache
def _number_scripts(one_script: bool, isolates_digits: bool) -> bytes:
    """Make `TrainConfig.scripts`; with `split_digits` in a byte model, the digits of all scripts are isolated."""
    script_numbers = make_script_table() if one_script else b""
    if not isolates_digits:
        return script_numbers
    digits = list(list_codes("NUMERIC"))
    table = bytearray(script_numbers).ljust(max(digits) + 1, b"\0")
    for code in digits:
        table[code] = ISOLATED_SCRIPT
    return bytes(table)


def _call_with_str(veto: Veto, left: bytes, right: bytes, count: int) -> object:
    return veto(left.decode(), right.decode(), count)


def check_one_corpus(**corpora: object) -> None:
    """Raise ValueError unless exactly one of `files`, `texts` and `counts` is given."""
    names = [name for name, value in corpora.items() if value is not None]
    if len(names) != 1:
        raise ValueError(f"{' and '.join(names) or 'nothing'} given; give exactly one of files=, texts= and counts=")


def choose_default_pretokenizer(is_char_model: bool) -> str:
    """Choose the pretokenizer of a training that names none, by whether symbols are characters."""
    return "whitespace" if is_char_model else "gpt2"


def read_initial_codes(config: TrainConfig) -> list[int]:
    """Read the symbols of `Alphabet.initial`, an iterable, as byte values or code points in its order."""
    symbols = config.alphabet.initial
    if isinstance(symbols, (str, bytes)) or not isinstance(symbols, Iterable):
        raise TypeError(
            f"initial is {short_repr(symbols)}; it must be None, 'corpus' or a list of symbols, such as "
            f"{short_repr(list(symbols)) if isinstance(symbols, str) else ['a', 'b']}"
        )
    return list(dict.fromkeys(_read_symbol_code(symbol, config.is_char_model) for symbol in symbols))


def _read_symbol_code(symbol: object, is_char_model: bool) -> int:
    if isinstance(symbol, str) and len(symbol) == 1:
        if is_char_model:
            to_bytes(symbol)
            if not 0xD800 <= ord(symbol) < 0xE000:
                return ord(symbol)
        elif ord(symbol) < 128:
            return ord(symbol)
        elif symbol in map_letters_to_bytes():
            return map_letters_to_bytes()[symbol]
    elif not is_char_model and isinstance(symbol, bytes) and len(symbol) == 1:
        return symbol[0]
    elif not is_char_model and isinstance(symbol, int) and not isinstance(symbol, bool) and 0 <= symbol < 256:
        return symbol
    rule = (
        "one character each"
        if is_char_model
        else "one byte each: an int, bytes of length 1, an ASCII character or GPT-2's letter for it"
    )
    raise ValueError(f"initial has {short_repr(symbol)}; its symbols must be {rule}")
