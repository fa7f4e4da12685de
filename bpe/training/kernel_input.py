"""What a training kernel is given: the distinct words as arrays, and the tokens that training starts from.

`bpe/count` counts the words; the symbols of an existing tokenizer are in `bpe/vocab/symbols.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpe.base.offsets import compute_offsets
from bpe.base.threads import map_unordered
from bpe.base.utf8 import check_utf8
from bpe.count.word_counts import WordCounts, borrow_arrays
from bpe.errors import COUNT_LIMIT, pluralize
from bpe.text.letters import list_byte_alphabet, list_byte_letters
from bpe.training._symbol_array import count_symbols
from bpe.training.config import TrainConfig, read_initial_codes
from bpe.vocab.symbols import BYTE_NAMES
from bpe.vocab.vocabulary import NO_TOKEN

SYMBOL_LIMIT = 2**32 - 2
#: The fewest bytes of words of a thread that counts symbols, as starting it takes as long as a tenth of that.
BYTES_PER_THREAD = 1 << 20
#: With this many tokens, the kernel's symbols go from 16 to 32 bits.
WIDE_FROM_TOKENS = 65000
#: `InitialTokens.symbol_kind` of words that are tokens already. 0 stands for bytes, 1 for characters.
TOKEN_SYMBOLS = 2
#: `WordArrays.inner_counts` and `last_counts` of words that are tokens already.
NO_SYMBOL_COUNTS = np.zeros(0, np.int64)


class CorpusSize(NamedTuple):
    """The bytes of all words of a corpus, and their tokens when each symbol is a token."""

    n_bytes: int
    n_tokens: int


@dataclass(frozen=True)
class WordArrays:
    """The distinct words: word i is `blob[offsets[i]:offsets[i + 1]]` and occurs `counts[i]` times.

    Attributes:
        blob, offsets, counts: uint8, int64 of shape (n + 1,), int64 of shape (n,).
        inner_counts: int64: how often each byte or code point occurs before the last position of a word; empty where
            the words are tokens.
        last_counts: int64: how often it is a word's last symbol.
        n_symbols: the number of symbols of all distinct words together.
        is_mapped: whether the blob is a temporary file, mapped for reading, instead of memory.

    """

    blob: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    counts: NDArray[np.int64]
    inner_counts: NDArray[np.int64]
    last_counts: NDArray[np.int64]
    n_symbols: int
    is_mapped: bool = False

    @property
    def memory(self) -> int:
        """The bytes of the arrays that are in memory."""
        return self.offsets.nbytes + self.counts.nbytes + (0 if self.is_mapped else self.blob.nbytes)

    def measure_corpus(self, config: TrainConfig) -> CorpusSize:
        """Count the bytes of all words of the corpus, and their tokens when each symbol is a token."""
        symbol_counts = self.inner_counts + self.last_counts
        n_tokens = int(symbol_counts.sum())
        code_limits = (0x80, 0x800, 0x10000) if config.is_char_model else (0x100,)
        n_bytes = sum(int(part.sum()) * width for width, part in enumerate(np.split(symbol_counts, code_limits), 1))
        if config.end_of_word is not None and not config.end_of_word_glued:
            n_tokens += int(self.counts.sum())
        return CorpusSize(n_bytes, n_tokens)

    def choose_layout_order(self, by_count: bool) -> NDArray[np.int64]:
        """Choose the order in which the kernel lays out the words: the highest count first, or as the words are.

        Most counts fit 16 bits, which NumPy sorts in linear time; the words of higher counts are few.
        """
        if not by_count:
            return np.arange(len(self.counts), dtype=np.int64)
        sort_keys = np.minimum(self.counts, 0xFFFF).astype(np.uint16)
        np.subtract(0xFFFF, sort_keys, out=sort_keys)
        order = np.argsort(sort_keys, kind="stable")
        frequent_words = order[: np.count_nonzero(sort_keys == 0)]
        frequent_words[:] = frequent_words[np.argsort(-self.counts[frequent_words], kind="stable")]
        return order


@dataclass(frozen=True)
class InitialTokens:
    """The tokens that training starts from.

    Attributes:
        symbol_kind: what words consist of: 0 for bytes, 1 for characters (UTF-8), TOKEN_SYMBOLS for uint32 tokens.
        tokens: (bytes, ends with the mark, takes part in no merge, length in symbols) of the initial tokens, in id
            order from 0. The length is 0 for tokens that neither a symbol nor a merge produces.
        inner_tokens: uint32 by byte or code point: the token of a symbol that is not a word's last, or NO_TOKEN; None
            if the words are encoded.
        last_tokens: likewise for the last symbol of a word.
        mark_token: the token of an end-of-word mark to append to each word, else NO_TOKEN.

    """

    symbol_kind: int
    tokens: list[tuple[bytes, bool, bool, int]]
    inner_tokens: NDArray[np.uint32] | None
    last_tokens: NDArray[np.uint32] | None
    mark_token: int


@dataclass(frozen=True)
class KernelTuning:
    """What changes the speed and the memory of a kernel, never the result; tests set it to reach every path.

    Attributes:
        memory: bytes for lists, table and queue; 0 chooses by the size of the corpus.
        may_grow: whether it may take more than these.
        threads: the number of threads, the caller's included.
        wide_from_tokens: with at least this many tokens, symbols have 32 bits.
        ratio: the threshold of an epoch is the best count divided by this.
        max_dense_tokens: with at most this many tokens, pairs are counted in a table of all pairs.
        min_cells: the fewest symbols of the array that one thread processes.
        parallel_threshold: the fewest occurrences of a pair that one thread processes.

    """

    memory: int = 0
    may_grow: bool = True
    threads: int = 1
    wide_from_tokens: int = WIDE_FROM_TOKENS
    ratio: int = 1000
    max_dense_tokens: int = 768
    min_cells: int = 1 << 18
    parallel_threshold: int = 1 << 13


# Words ----------------------------------------------------------------------------------------------------------------


def build_words(counts: WordCounts, config: TrainConfig, threads: int = 1) -> WordArrays:
    """Validate counts and count their symbols. Words with count 0 are dropped.

    Raises:
        ValueError: for counts without words, counts that overflow 64 bits, too many symbols, and in a character model
            words that are not UTF-8.

    """
    blob, offsets, word_counts = borrow_arrays(counts, threads)
    if not word_counts.any():
        raise ValueError(
            "the corpus has no words to train on; give text that is not empty"
            + (" and that the pretokenizer does not drop" if counts.pretokenizer is not None else "")
        )
    if not word_counts.all():
        word_indices = np.flatnonzero(word_counts)
        data = blob.tobytes()
        pieces = [data[offsets[i] : offsets[i + 1]] for i in word_indices.tolist()]
        blob = np.frombuffer(b"".join(pieces), dtype=np.uint8)
        offsets = compute_offsets([len(piece) for piece in pieces])
        word_counts = word_counts[word_indices]
    if config.is_char_model:
        data = blob.tobytes()
        check_utf8(data, "the corpus's words")
        bad_words = np.flatnonzero(blob[offsets[:-1]] & 0xC0 == 0x80)
        if len(bad_words):
            word_index = int(bad_words[0])
            check_utf8(data[offsets[word_index] : offsets[word_index + 1]], f"word {word_index}")
    n_symbols, inner_counts, last_counts = _count_symbols(blob, offsets, word_counts, config.is_char_model, threads)
    if n_symbols is None:
        raise ValueError(
            "the counts of the symbols sum to more than 2**63 - 1, the largest sum supported; scale the counts down"
        )
    if n_symbols + 2 * len(word_counts) + 1 > SYMBOL_LIMIT:
        raise ValueError(
            f"the distinct words have {n_symbols} symbols; at most {SYMBOL_LIMIT} fit: train on less text, or use a "
            "pretokenizer that makes words repeat"
        )
    return WordArrays(blob, offsets, word_counts, inner_counts, last_counts, n_symbols)


def _count_symbols(
    blob: NDArray[np.uint8], offsets: NDArray[np.int64], counts: NDArray[np.int64], is_char_model: bool, threads: int
) -> tuple[int | None, NDArray[np.int64], NDArray[np.int64]]:
    """Compute `WordArrays.n_symbols` (None for counts that overflow), `inner_counts` and `last_counts`.

    Each thread counts some of the words; where all of Unicode may occur, its arrays would take more than the words.
    """
    n_codes = _count_code_points(int(blob.max())) if is_char_model else 256
    n_parts = max(1, min(threads, len(blob) // BYTES_PER_THREAD)) if n_codes <= 0x10000 else 1
    bounds = [len(counts) * part // n_parts for part in range(n_parts + 1)]

    def count_part(part: tuple[int, int]) -> tuple[int, int | None, NDArray[np.int64], NDArray[np.int64]]:
        begin, end = part
        inner_counts, last_counts = np.zeros(n_codes, np.int64), np.zeros(n_codes, np.int64)
        part_words = offsets[begin : end + 1], counts[begin:end]
        return *count_symbols(blob, *part_words, is_char_model, inner_counts, last_counts), inner_counts, last_counts

    n_symbols = total = 0
    inner_counts, last_counts = np.zeros(n_codes, np.int64), np.zeros(n_codes, np.int64)
    for n_part_symbols, part_total, part_inner_counts, part_last_counts in map_unordered(
        count_part, pairwise(bounds), n_parts
    ):
        if part_total is None or (total := total + part_total) > COUNT_LIMIT:
            return None, inner_counts, last_counts
        n_symbols += n_part_symbols
        inner_counts += part_inner_counts
        last_counts += part_last_counts
    return n_symbols, inner_counts, last_counts


def _count_code_points(highest: int) -> int:
    """Count the code points that UTF-8 can encode with bytes up to `highest`."""
    if highest < 0x80:
        return 0x80
    if highest < 0xE0:
        return 0x800
    return 0x10000 if highest < 0xF0 else 0x110000


# The alphabet ---------------------------------------------------------------------------------------------------------


def make_initial_tokens(words: WordArrays, config: TrainConfig) -> InitialTokens:
    """Make the tokens that training on these words starts from: special tokens, tokens of bytes, the alphabet.

    Digits with `split_digits` are tokens, but the tables of symbols have NO_TOKEN for them: they take part in no merge.

    Raises:
        ValueError: for symbols that are spelled like a special token or like the end-of-word mark, and for a `limit`
            below the number of symbols that are given.

    """
    given_codes, codes = _choose_codes(words, config)
    symbols = [_encode_symbol(code, config.is_char_model) for code in codes]
    marked_symbols: list[bytes] = []
    first_code_id = config.n_before_alphabet
    n_codes = max(len(words.inner_counts), max(codes, default=0) + 1)
    inner_tokens = np.full(n_codes, NO_TOKEN, dtype=np.uint32)
    inner_tokens[codes] = np.arange(first_code_id, first_code_id + len(codes), dtype=np.uint32)
    last_tokens, mark_token = inner_tokens, NO_TOKEN
    if config.end_of_word is not None:
        mark = config.end_of_word.encode()
        if config.end_of_word_glued:
            word_end_codes = [code for code in codes if code in given_codes or words.last_counts[code] > 0]
            last_tokens = np.full(n_codes, NO_TOKEN, dtype=np.uint32)
            last_tokens[word_end_codes] = np.arange(len(word_end_codes), dtype=np.uint32) + first_code_id + len(codes)
            marked_symbols = [_encode_symbol(code, config.is_char_model) + mark for code in word_end_codes]
        else:
            mark_token = first_code_id + len(codes)
            marked_symbols = [mark]
    for table in (inner_tokens, last_tokens):
        table[[code for code in list_digit_codes(config) if code < len(table)]] = NO_TOKEN
    _check_names([*symbols, *marked_symbols], config)
    names = [*config.reserved_names, *(BYTE_NAMES if config.alphabet.byte_fallback else ())]
    tokens = [(name.encode(), False, True, 0) for name in names]
    tokens += [(symbol, False, False, 1) for symbol in symbols]
    tokens += [(symbol, True, False, 1) for symbol in marked_symbols]
    return InitialTokens(int(config.is_char_model), tokens, inner_tokens, last_tokens, mark_token)


def _check_names(symbols: list[bytes], config: TrainConfig) -> None:
    """Reject symbols that are spelled like a special token or like another symbol."""
    if not config.is_char_model and not config.reserved_names and config.end_of_word is None:
        return
    checked: set[bytes] = set()
    for symbol in symbols:
        names = (
            {symbol.decode()} if config.is_char_model else {symbol.decode("latin-1"), list_byte_letters()[symbol[0]]}
        )
        clash = names & config.reserved_names.keys()
        if clash and (config.is_char_model or len(symbol) == 1):
            raise ValueError(
                f"special token {clash.pop()!r} is also a symbol of the alphabet; give the token another name, "
                "such as '<|name|>', or leave the symbol out of the alphabet"
            )
        if symbol in checked:
            raise ValueError(
                f"end_of_word {config.end_of_word!r} is also a character of the corpus; choose a mark that does "
                "not occur in text"
            )
        checked.add(symbol)


def _encode_symbol(code: int, is_char_model: bool) -> bytes:
    return chr(code).encode() if is_char_model else bytes([code])


def _choose_codes(words: WordArrays, config: TrainConfig) -> tuple[set[int], list[int]]:
    """Choose the alphabet: (the symbols that the caller gave, all symbols in id order), as bytes or code points."""
    symbol_counts = words.inner_counts + words.last_counts
    byte_order = list_byte_alphabet() if not config.is_char_model else None
    initial_codes: list[int]
    if config.alphabet.initial is None:
        initial_codes = [] if byte_order is None else list(byte_order)
    elif isinstance(config.alphabet.initial, str) and config.alphabet.initial == "corpus":
        initial_codes = []
    else:
        initial_codes = read_initial_codes(config)
    given_codes = set(initial_codes)
    corpus_codes = [code for code in np.flatnonzero(symbol_counts).tolist() if code not in given_codes]
    if byte_order is not None:
        corpus_codes.sort(key=byte_order.index)
    limit = config.alphabet.limit
    if limit is not None:
        if len(initial_codes) > limit:
            raise ValueError(
                f"limit is {limit}, fewer than the initial alphabet's {pluralize(len(initial_codes), 'symbol')}; raise "
                "it, or pass alphabet=bpe.Alphabet('corpus')"
            )
        codes_by_count = sorted(corpus_codes, key=lambda code: -symbol_counts[code])  # stable: ties keep order
        frequent_codes = set(codes_by_count[: limit - len(initial_codes)])
        corpus_codes = [code for code in corpus_codes if code in frequent_codes]
    return given_codes, initial_codes + _cover_corpus(
        corpus_codes, given_codes, symbol_counts, config.alphabet.coverage
    )


def list_digit_codes(config: TrainConfig) -> list[int]:
    """List the symbols that `split_digits` keeps apart: ASCII's digits, and full-width ones, as in SentencePiece.

    In a byte model, digits of several bytes are kept apart by a rule for merges: see `TrainConfig.isolates_digits`.
    """
    if not config.split_digits:
        return []
    return [*range(0x30, 0x3A), *(range(0xFF10, 0xFF1A) if config.is_char_model else ())]


def _cover_corpus(
    corpus_codes: list[int], initial_codes: set[int], symbol_counts: NDArray[np.int64], coverage: float
) -> list[int]:
    """Choose the most frequent of the corpus's symbols, until they and the initial ones are that part of the corpus.

    Of symbols that occur equally often, those of lower code points are taken first, as in SentencePiece.
    """
    if coverage >= 1:
        return corpus_codes
    n_symbols = int(symbol_counts.sum())
    n_covered = sum(int(symbol_counts[code]) for code in initial_codes if code < len(symbol_counts))
    covering_codes: set[int] = set()
    for code in sorted(corpus_codes, key=lambda code: (-symbol_counts[code], code)):
        if n_covered >= coverage * n_symbols:
            break
        n_covered += int(symbol_counts[code])
        covering_codes.add(code)
    return [code for code in corpus_codes if code in covering_codes]
