"""Learning: from word counts and options to the merges.

This module checks the options, decides the alphabet and the ids, and drives the kernel in `_core/trainer`. Not here:
counting (`bpe/counting.py`) and `bpe.train`, which does both (`bpe/training.py`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bpe._core.trainer import Trainer, symbol_counts
from bpe.errors import check_choice, check_int, shown
from bpe.progress import progress_bar
from bpe.spec import TokenizerSpec, byte_alphabet, byte_letters, letter_bytes
from bpe.special import check_special_tokens
from bpe.text import check_utf8, to_bytes
from bpe.vocabulary import ID_LIMIT, Vocabulary
from bpe.wordcounts import WordCounts

Model = Literal["byte", "char"]
TieBreak = Literal["id", "first", "smallest", "greatest"]
OnMerge = Callable[[int, Any, Any, Any, int], object]

TIE_BREAKS = ("id", "first", "smallest", "greatest")
NO_TOKEN = 0xFFFFFFFF
CELL_LIMIT = 2**32 - 2
STOPS = {1: "no pairs left", 2: "min_frequency"}
MERGES_PER_CALL = 256

log = logging.getLogger("bpe")


@dataclass(frozen=True)
class Training:
    """How a training went.

    Attributes:
        stopped: why it ended before the size asked: "no pairs left" or "min_frequency"; None if it did not.
        merges: how many merges were made.
        words: how many distinct words it learned from.
        seconds: how long it took, counting included.

    """

    stopped: str | None
    merges: int
    words: int
    seconds: float


@dataclass(frozen=True)
class TrainOptions:
    """The options of `bpe.train` that decide the merges, checked on construction. `bpe.train` documents them."""

    vocab_size: int | None = None
    num_merges: int | None = None
    model: str = "byte"
    end_of_word: str | None = None
    end_of_word_glued: bool = False
    unk_token: str | None = None
    special_tokens: tuple[str, ...] = ()
    initial_alphabet: Any = None
    min_frequency: int = 1
    max_token_length: int | None = None
    limit_alphabet: int | None = None
    tie_break: str = "id"
    first_id: int = 0
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
        check_int("min_frequency", self.min_frequency, 0)
        check_int("first_id", self.first_id, 0, ID_LIMIT)
        for name in ("end_of_word", "unk_token"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise TypeError(f"{name} is {shown(value)}, a {type(value).__name__}; it must be a str or None")
            if value == "":
                raise ValueError(f"{name} is ''; it must be at least one character, or None for none")
        if self.end_of_word_glued and self.end_of_word is None:
            raise ValueError('end_of_word_glued=True needs a mark to glue: pass end_of_word="</w>" too')
        specials = check_special_tokens(self.special_tokens)
        reserved = dict.fromkeys(specials)
        if self.unk_token is not None:
            reserved[self.unk_token] = None
        if self.end_of_word in reserved:
            raise ValueError(
                f"end_of_word {self.end_of_word!r} is a special token too; it must differ from all of them"
            )
        object.__setattr__(self, "special_tokens", specials)
        object.__setattr__(self, "reserved", reserved)

    @property
    def chars(self) -> bool:
        """Whether symbols are characters."""
        return self.model == "char"


def learn(
    counts: WordCounts, options: TrainOptions, on_merge: OnMerge | None = None, progress: bool = False
) -> tuple[TokenizerSpec, Training]:
    """Learn merges from word counts.

    Algorithm: Sennrich, Haddow and Birch, "Neural machine translation of rare words with subword units" (ACL 2016),
    with incremental pair counts; see `_core/trainer.pyx`.

    Raises:
        ValueError: for an empty corpus, words that are not UTF-8 in a character model, counts whose pairs overflow 64
            bits, an alphabet that does not fit vocab_size, or options that contradict each other.

    """
    began = time.perf_counter()
    words = _words(counts, options)
    alphabet = _Alphabet(words, options)
    target = _target(options, alphabet)
    lead = len(options.reserved)
    trainer = Trainer(
        words.blob,
        words.offsets,
        words.counts,
        options.chars,
        alphabet.inner,
        alphabet.last,
        alphabet.mark,
        [(name.encode(), False, True) for name in options.reserved] + [(*symbol, False) for symbol in alphabet.symbols],
        TIE_BREAKS.index(options.tie_break),
        options.min_frequency,
        options.max_token_length if options.max_token_length is not None else 0xFFFFFFFF,
        words.cells + len(words.counts) * (2 if alphabet.mark != NO_TOKEN else 1) + 1,
    )
    merges = _run(trainer, options, target, on_merge, progress)
    tokens = trainer.token_bytes(0)
    stopped = STOPS.get(trainer.stop)
    if stopped:
        log.warning(
            "training stopped after %d merges: %s; %d tokens, fewer than asked",
            len(merges),
            stopped,
            len(tokens),
        )
    spec = _spec(counts, options, tokens, lead, merges)
    return spec, Training(stopped, len(merges), len(words.counts), time.perf_counter() - began)


# Words and alphabet ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Words:
    blob: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    counts: NDArray[np.int64]
    inner: NDArray[np.int64]  # occurrences of each symbol before the last place of a word
    last: NDArray[np.int64]  # and at the last place
    cells: int  # symbols of all distinct words together


def _words(counts: WordCounts, options: TrainOptions) -> _Words:
    """The words that occur, checked, with their symbols counted."""
    blob, offsets, numbers = counts.arrays()
    if not numbers.any():
        raise ValueError(
            "the corpus has no words: there is nothing to learn from; give text that is not empty"
            + (" and that the pretokenizer does not drop" if counts.pretokenizer is not None else "")
        )
    if not numbers.all():
        kept = np.flatnonzero(numbers)
        data = blob.tobytes()
        pieces = [data[offsets[i] : offsets[i + 1]] for i in kept.tolist()]
        blob = np.frombuffer(b"".join(pieces), dtype=np.uint8)
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum([len(piece) for piece in pieces], dtype=np.int64)))
        numbers = numbers[kept]
    if options.chars:
        data = blob.tobytes()
        check_utf8(data, "the corpus's words")
        within = np.flatnonzero(blob[offsets[:-1]] & 0xC0 == 0x80)
        if len(within):
            at = int(within[0])
            check_utf8(data[offsets[at] : offsets[at + 1]], f"word {at}")
    symbols = 0x110000 if options.chars else 256
    inner, last = np.zeros(symbols, np.int64), np.zeros(symbols, np.int64)
    cells, overflow = symbol_counts(blob, offsets, numbers, options.chars, inner, last)
    if overflow:
        raise ValueError(
            "the counts of the symbols sum to more than 2**63 - 1, the most that counts can be; scale them down"
        )
    if cells + 2 * len(numbers) + 1 > CELL_LIMIT:
        raise ValueError(
            f"the distinct words have {cells} symbols; at most {CELL_LIMIT} fit: train on less text, or use a "
            "pretokenizer that makes words repeat"
        )
    return _Words(blob, offsets, numbers, inner, last, cells)


class _Alphabet:
    """The symbols that words start as, in id order, and the tables from a byte or code point to its token.

    Attributes:
        symbols: (bytes, ends with the mark) of each; token ids go on from the special tokens.
        inner: uint32 token of each byte or code point, NO_TOKEN outside the alphabet.
        last: the same at the last place of a word (another token only where a mark is glued).
        mark: the token of a mark that is a symbol of its own, else NO_TOKEN.

    """

    def __init__(self, words: _Words, options: TrainOptions) -> None:
        chars = options.chars
        given, codes = _alphabet_codes(words, options)
        self.symbols = [(_symbol(code, chars), False) for code in codes]
        lead = len(options.reserved)
        self.inner = np.full(len(words.inner), NO_TOKEN, dtype=np.uint32)
        self.inner[codes] = np.arange(lead, lead + len(codes), dtype=np.uint32)
        self.last = self.inner
        self.mark = NO_TOKEN
        if options.end_of_word is not None:
            mark = options.end_of_word.encode()
            if options.end_of_word_glued:
                ending = [code for code in codes if code in given or words.last[code] > 0]
                self.last = np.full(len(words.last), NO_TOKEN, dtype=np.uint32)
                self.last[ending] = np.arange(len(ending), dtype=np.uint32) + lead + len(codes)
                self.symbols += [(_symbol(code, chars) + mark, True) for code in ending]
            else:
                self.mark = lead + len(codes)
                self.symbols.append((mark, True))
        self._check_names(options)

    def _check_names(self, options: TrainOptions) -> None:
        """No symbol may read like a special token or like another symbol."""
        seen: set[str] = set()
        for data, _ in self.symbols:
            names = {data.decode()} if options.chars else {data.decode("latin-1"), byte_letters()[data[0]]}
            clash = names & options.reserved.keys()
            if clash and (options.chars or len(data) == 1):
                raise ValueError(
                    f"special token {clash.pop()!r} is also a symbol of the alphabet; give the token another name, "
                    "such as '<|name|>', or leave the symbol out of the alphabet"
                )
            if options.chars and data.decode() in seen:
                raise ValueError(
                    f"end_of_word {options.end_of_word!r} is also a character of the corpus; choose a mark that does "
                    "not occur in text"
                )
            seen |= names if options.chars else set()


def _symbol(code: int, chars: bool) -> bytes:
    return chr(code).encode() if chars else bytes([code])


def _alphabet_codes(words: _Words, options: TrainOptions) -> tuple[set[int], list[int]]:
    """(The symbols that the caller gave, all symbols in id order), as bytes' numbers or code points."""
    occurring = words.inner + words.last
    in_order = byte_alphabet() if not options.chars else None
    given: list[int]
    if options.initial_alphabet is None:
        given = [] if in_order is None else list(in_order)
    elif isinstance(options.initial_alphabet, str) and options.initial_alphabet == "corpus":
        given = []
    else:
        given = _given_codes(options)
    fixed = set(given)
    found = [code for code in np.flatnonzero(occurring).tolist() if code not in fixed]
    if in_order is not None:
        found.sort(key=in_order.index)
    limit = options.limit_alphabet
    if limit is not None:
        if len(given) > limit:
            raise ValueError(
                f"limit_alphabet is {limit}, fewer than the {len(given)} symbols of the initial alphabet; raise it, or "
                "pass initial_alphabet='corpus'"
            )
        kept = set(sorted(found, key=lambda code: -occurring[code])[: limit - len(given)])  # stable: ties as sorted
        found = [code for code in found if code in kept]
    return fixed, given + found


def _given_codes(options: TrainOptions) -> list[int]:
    """The argument `initial_alphabet`, an iterable of symbols, as numbers in its order."""
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


def _target(options: TrainOptions, alphabet: _Alphabet) -> int:
    """How many tokens there may be at the end."""
    base = len(options.reserved) + len(alphabet.symbols)
    target = ID_LIMIT - options.first_id
    if options.vocab_size is not None:
        if options.vocab_size < base:
            raise ValueError(
                f"vocab_size is {options.vocab_size}, but the alphabet has {len(alphabet.symbols)} symbols and there "
                f"are {len(options.reserved)} special tokens; it must be at least {base}"
                + (
                    ""
                    if options.chars or options.initial_alphabet is not None
                    else ", or pass initial_alphabet='corpus'"
                )
            )
        target = min(target, options.vocab_size)
    return target


# The loop -------------------------------------------------------------------------------------------------------------


def _run(
    trainer: Trainer, options: TrainOptions, target: int, on_merge: OnMerge | None, progress: bool
) -> list[tuple[int, int, int, int]]:
    """Make the merges; the GIL is let go within, and a signal is heard between calls."""
    merges: list[tuple[int, int, int, int]] = []
    most = options.num_merges if options.num_merges is not None else ID_LIMIT
    tokens = [data for data, _ in trainer.token_bytes(0)]
    total = min(most, target - len(tokens))
    with progress_bar(progress, "merge", total if total < ID_LIMIT // 2 else None, " merges") as bar:
        while len(merges) < most:
            made = trainer.run(min(MERGES_PER_CALL, most - len(merges)) if on_merge is None else 1, target)
            merges += made
            bar(len(made))
            if on_merge is not None and made:
                tokens += [data for data, _ in trainer.token_bytes(len(tokens))]
                left, right, token, count = made[0]
                shown_as: list[Any] = [tokens[i].decode() if options.chars else tokens[i] for i in (left, right, token)]
                on_merge(len(merges), shown_as[0], shown_as[1], shown_as[2], count)
            if trainer.stop or not made:
                break
    return merges


def _spec(
    counts: WordCounts,
    options: TrainOptions,
    tokens: list[tuple[bytes, bool]],
    lead: int,
    merges: list[tuple[int, int, int, int]],
) -> TokenizerSpec:
    first = options.first_id
    names = [data for data, _ in tokens[:lead]]
    vocabulary = Vocabulary(
        ((first + lead + i, data) for i, (data, _) in enumerate(tokens[lead:])),
        ((first + i, data) for i, data in enumerate(names)),
    )
    ends_word = None
    if options.end_of_word is not None:
        ends_word = np.zeros(vocabulary.limit, dtype=np.bool_)
        ends_word[first:] = [ends for _, ends in tokens]
    # Where two merges spell the same token, a pair may be met a second time; its first rank is the one that counts.
    ranked: dict[tuple[int, int], int] = {}
    for left, right, token, _ in merges:
        ranked.setdefault((left, right), token)
    pairs = np.array(list(ranked), dtype=np.int32).reshape(-1, 2) + np.int32(first)
    made = np.array(list(ranked.values()), dtype=np.int32) + np.int32(first)
    special_ids = {name: first + i for i, name in enumerate(options.reserved)}
    return TokenizerSpec(
        model=options.model,
        vocabulary=vocabulary,
        merges=pairs,
        merge_ids=made,
        pretokenizer=counts.pretokenizer,
        normalizer=counts.normalizer,
        special_tokens={name: special_ids[name] for name in options.special_tokens},
        unk_token=options.unk_token,
        end_of_word=options.end_of_word,
        end_of_word_glued=options.end_of_word_glued,
        ends_word=ends_word,
    )
