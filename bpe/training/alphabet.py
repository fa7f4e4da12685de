"""The alphabet: the symbols that training starts from, and their token ids.

The symbols of an existing tokenizer are in `bpe/vocab/symbols.py`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bpe.errors import counted
from bpe.training.config import TrainConfig, given_codes
from bpe.training.kernel_input import InitialTokens
from bpe.training.words import Words
from bpe.vocab.byte_letters import byte_alphabet, byte_letters
from bpe.vocab.symbols import BYTE_NAMES
from bpe.vocab.vocabulary import NO_TOKEN


def make_initial_tokens(words: Words, config: TrainConfig) -> InitialTokens:
    """The tokens that training on these words starts from: special tokens, tokens of bytes, the alphabet.

    Digits with `split_digits` are tokens, but the tables of symbols have NO_TOKEN for them: they take part in no merge.

    Raises:
        ValueError: for symbols that are spelled like a special token or like the end-of-word mark, and for a `limit`
            below the number of symbols that are given.

    """
    given, codes = _alphabet_codes(words, config)
    symbols = [_symbol(code, config.chars) for code in codes]
    marked: list[bytes] = []
    first = config.n_lead
    n_codes = max(len(words.inner), max(codes, default=0) + 1)
    inner = np.full(n_codes, NO_TOKEN, dtype=np.uint32)
    inner[codes] = np.arange(first, first + len(codes), dtype=np.uint32)
    last, mark_token = inner, NO_TOKEN
    if config.end_of_word is not None:
        mark = config.end_of_word.encode()
        if config.end_of_word_glued:
            ending = [code for code in codes if code in given or words.last[code] > 0]
            last = np.full(n_codes, NO_TOKEN, dtype=np.uint32)
            last[ending] = np.arange(len(ending), dtype=np.uint32) + first + len(codes)
            marked = [_symbol(code, config.chars) + mark for code in ending]
        else:
            mark_token = first + len(codes)
            marked = [mark]
    for table in (inner, last):
        table[[code for code in digit_codes(config) if code < len(table)]] = NO_TOKEN
    _check_names([*symbols, *marked], config)
    names = [*config.reserved, *(BYTE_NAMES if config.alphabet.byte_fallback else ())]
    tokens = [(name.encode(), False, True, 0) for name in names]
    tokens += [(symbol, False, False, 1) for symbol in symbols]
    tokens += [(symbol, True, False, 1) for symbol in marked]
    return InitialTokens(int(config.chars), tokens, inner, last, mark_token)


def _check_names(symbols: list[bytes], config: TrainConfig) -> None:
    """Reject symbols that are spelled like a special token or like another symbol."""
    if not config.chars and not config.reserved and config.end_of_word is None:
        return
    seen: set[bytes] = set()
    for symbol in symbols:
        names = {symbol.decode()} if config.chars else {symbol.decode("latin-1"), byte_letters()[symbol[0]]}
        clash = names & config.reserved.keys()
        if clash and (config.chars or len(symbol) == 1):
            raise ValueError(
                f"special token {clash.pop()!r} is also a symbol of the alphabet; give the token another name, "
                "such as '<|name|>', or leave the symbol out of the alphabet"
            )
        if symbol in seen:
            raise ValueError(
                f"end_of_word {config.end_of_word!r} is also a character of the corpus; choose a mark that does "
                "not occur in text"
            )
        seen.add(symbol)


def _symbol(code: int, chars: bool) -> bytes:
    return chr(code).encode() if chars else bytes([code])


def _alphabet_codes(words: Words, config: TrainConfig) -> tuple[set[int], list[int]]:
    """(The symbols that the caller gave, all symbols in id order), as byte values or code points."""
    occurring = words.inner + words.last
    in_order = byte_alphabet() if not config.chars else None
    given: list[int]
    if config.alphabet.initial is None:
        given = [] if in_order is None else list(in_order)
    elif isinstance(config.alphabet.initial, str) and config.alphabet.initial == "corpus":
        given = []
    else:
        given = given_codes(config)
    fixed = set(given)
    found = [code for code in np.flatnonzero(occurring).tolist() if code not in fixed]
    if in_order is not None:
        found.sort(key=in_order.index)
    limit = config.alphabet.limit
    if limit is not None:
        if len(given) > limit:
            raise ValueError(
                f"limit is {limit}, fewer than the initial alphabet's {counted(len(given), 'symbol')}; raise "
                "it, or pass alphabet=bpe.Alphabet('corpus')"
            )
        kept = set(sorted(found, key=lambda code: -occurring[code])[: limit - len(given)])  # stable: ties keep order
        found = [code for code in found if code in kept]
    return fixed, given + _covering(found, fixed, occurring, config.alphabet.coverage)


def digit_codes(config: TrainConfig) -> list[int]:
    """The symbols that `split_digits` keeps apart: ASCII's digits, and full-width ones, as in SentencePiece.

    In a byte model, digits of several bytes are kept apart by a rule for merges: see `TrainConfig.digits_apart`.
    """
    if not config.split_digits:
        return []
    return [*range(0x30, 0x3A), *(range(0xFF10, 0xFF1A) if config.chars else ())]


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
