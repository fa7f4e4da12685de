"""The alphabet: the symbols that training starts from, and their token ids.

Not here: learning merges (`bpe/training/trainer.py`); the symbols of an existing tokenizer (`bpe/vocab/symbols.py`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bpe.errors import counted
from bpe.training.options import TrainOptions, given_codes
from bpe.training.words import Words
from bpe.vocab.byte_letters import byte_alphabet, byte_letters
from bpe.vocab.vocabulary import NO_TOKEN


class Alphabet:
    """The initial symbols in id order, and tables that map a byte or code point to its token.

    Attributes:
        symbols: (bytes, whether the symbol ends with the end-of-word mark) of each; ids follow the special tokens and
            the tokens of bytes.
        inner: uint32, by byte or code point: the token of a symbol that is not a word's last; NO_TOKEN outside the
            alphabet, and for digits with `split_digits`, which take part in no merge.
        last: the same for the last symbol of a word, which differs only if the mark is glued.
        mark: the token of a mark that is a symbol of its own, else NO_TOKEN.

    """

    def __init__(self, words: Words, options: TrainOptions) -> None:
        chars = options.chars
        given, codes = _alphabet_codes(words, options)
        self.symbols = [(_symbol(code, chars), False) for code in codes]
        lead = options.n_lead
        n_codes = max(len(words.inner), max(codes, default=0) + 1)
        self.inner = np.full(n_codes, NO_TOKEN, dtype=np.uint32)
        self.inner[codes] = np.arange(lead, lead + len(codes), dtype=np.uint32)
        self.last = self.inner
        self.mark = NO_TOKEN
        if options.end_of_word is not None:
            mark = options.end_of_word.encode()
            if options.end_of_word_glued:
                ending = [code for code in codes if code in given or words.last[code] > 0]
                self.last = np.full(n_codes, NO_TOKEN, dtype=np.uint32)
                self.last[ending] = np.arange(len(ending), dtype=np.uint32) + lead + len(codes)
                self.symbols += [(_symbol(code, chars) + mark, True) for code in ending]
            else:
                self.mark = lead + len(codes)
                self.symbols.append((mark, True))
        for table in (self.inner, self.last):
            table[[code for code in digit_codes(options) if code < len(table)]] = NO_TOKEN
        self._check_names(options)

    def _check_names(self, options: TrainOptions) -> None:
        """Reject symbols that are spelled like a special token or like another symbol."""
        if not options.chars and not options.reserved and options.end_of_word is None:
            return
        seen: set[bytes] = set()
        for data, _ in self.symbols:
            names = {data.decode()} if options.chars else {data.decode("latin-1"), byte_letters()[data[0]]}
            clash = names & options.reserved.keys()
            if clash and (options.chars or len(data) == 1):
                raise ValueError(
                    f"special token {clash.pop()!r} is also a symbol of the alphabet; give the token another name, "
                    "such as '<|name|>', or leave the symbol out of the alphabet"
                )
            if data in seen:
                raise ValueError(
                    f"end_of_word {options.end_of_word!r} is also a character of the corpus; choose a mark that does "
                    "not occur in text"
                )
            seen.add(data)


def _symbol(code: int, chars: bool) -> bytes:
    return chr(code).encode() if chars else bytes([code])


def _alphabet_codes(words: Words, options: TrainOptions) -> tuple[set[int], list[int]]:
    """(The symbols that the caller gave, all symbols in id order), as byte values or code points."""
    occurring = words.inner + words.last
    in_order = byte_alphabet() if not options.chars else None
    given: list[int]
    if options.initial_alphabet is None:
        given = [] if in_order is None else list(in_order)
    elif isinstance(options.initial_alphabet, str) and options.initial_alphabet == "corpus":
        given = []
    else:
        given = given_codes(options)
    fixed = set(given)
    found = [code for code in np.flatnonzero(occurring).tolist() if code not in fixed]
    if in_order is not None:
        found.sort(key=in_order.index)
    limit = options.limit_alphabet
    if limit is not None:
        if len(given) > limit:
            raise ValueError(
                f"limit_alphabet is {limit}, fewer than the initial alphabet's {counted(len(given), 'symbol')}; raise "
                "it, or pass initial_alphabet='corpus'"
            )
        kept = set(sorted(found, key=lambda code: -occurring[code])[: limit - len(given)])  # stable: ties keep order
        found = [code for code in found if code in kept]
    return fixed, given + _covering(found, fixed, occurring, options.character_coverage)


def digit_codes(options: TrainOptions) -> list[int]:
    """The symbols that `split_digits` keeps apart: ASCII's digits, and full-width ones, as in SentencePiece.

    In a byte model, digits of several bytes are kept apart by a rule for merges: see `splits_bytes_of_digits`.
    """
    if not options.split_digits:
        return []
    return [*range(0x30, 0x3A), *(range(0xFF10, 0xFF1A) if options.chars else ())]


def splits_bytes_of_digits(options: TrainOptions) -> bool:
    """Whether no merge may join a character that is a number with another: with `split_digits` in a byte model.

    The bytes of one may be merged. So that none ever is merged with a neighbour's, merges join whole characters, or
    the bytes of one.
    """
    return options.split_digits and not options.chars


def _covering(found: list[int], fixed: set[int], occurring: NDArray[np.int64], coverage: float) -> list[int]:
    """The most frequent of the symbols found, until they and the fixed ones are that part of the corpus.

    Of symbols that occur equally often, those of lower code points are taken first, as in SentencePiece.
    """
    if coverage >= 1:
        return found
    total = int(occurring.sum())
    covered = sum(int(occurring[code]) for code in fixed if code < len(occurring))
    kept: set[int] = set()
    for code in sorted(found, key=lambda code: (-occurring[code], code)):
        if covered >= coverage * total:
            break
        covered += int(occurring[code])
        kept.add(code)
    return [code for code in found if code in kept]
