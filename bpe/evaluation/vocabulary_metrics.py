"""What an evaluation says of a tokenizer without a corpus: shapes of tokens, reachable tokens, borders of morphemes.

*Shapes* (whole characters, spaces, scripts, lengths) are computed from the bytes of the ordinary tokens; a text only
says how often each token occurs. Special tokens and unused ids have no shape.

*Reachable* tokens are those that encoding gives back: encode(decode([id])) == [id] (Land and Bartolo 2024). A token
that is not whole characters cannot be tested that way: it is undecodable, and counts as such only. Tokenizers that put
a space before a text or drop one after it are asked a second time, with `«` before the token. With an end-of-word mark,
a token is reachable if some word has it.

*Morphemes*: whether tokens begin where morphemes do (MorphScore, Arnett and Bergen 2025).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Any

import numpy as np
import regex
from numpy.typing import NDArray

from bpe.base.offsets import compute_offsets
from bpe.errors import check_iterable, check_unicode, describe, short_repr
from bpe.evaluation import metrics
from bpe.evaluation._shapes import CROSSING, INNER_SPACE, LEADING_SPACE, WHOLE, find_token_shapes
from bpe.evaluation.adapters import Adapter, NativeAdapter, TokensById

#: Scripts of tokens; a token with letters of several is "Mixed", one without letters "Common".
SCRIPTS = (
    *("Latin", "Greek", "Cyrillic", "Armenian", "Hebrew", "Arabic", "Syriac", "Thaana", "Devanagari", "Bengali"),
    *("Gurmukhi", "Gujarati", "Oriya", "Tamil", "Telugu", "Kannada", "Malayalam", "Sinhala", "Thai", "Lao", "Tibetan"),
    *("Myanmar", "Georgian", "Hangul", "Ethiopic", "Cherokee", "Khmer", "Mongolian", "Hiragana", "Katakana"),
    *("Bopomofo", "Han"),
)
_OTHER, _MIXED, _PARTIAL = len(SCRIPTS) + 1, len(SCRIPTS) + 2, len(SCRIPTS) + 3
SCRIPT_NAMES = ("Common", *SCRIPTS, "Other", "Mixed", "Partial")
#: The last bar of the length histogram, which has all longer tokens.
HISTOGRAM_BYTES = 32
#: The most tokens whose texts are encoded in one call.
_TOKENS_PER_CALL = 1 << 16
_QUOTE = "«"
#: Words with their morphemes: {"unhappy": ["un", "happy"]}, or [["un", "happy"], …].
Morphemes = Mapping[str, Sequence[str]] | Iterable[Sequence[str]]


@dataclass(frozen=True)
class Shapes:
    """The shapes of tokens, by id.

    Attributes:
        is_ordinary: bool: whether the id has an ordinary token.
        is_whole: bool: whether the token is whole characters.
        is_crossing: bool: whether the token has parts of several characters, at least one of them incomplete.
        has_leading_space: bool: whether the token begins with white space before other characters.
        has_inner_space: bool: whether the token has white space between other characters.
        scripts: uint8: an index into SCRIPT_NAMES.
        lengths: int64: bytes.

    """

    is_ordinary: NDArray[np.bool_]
    is_whole: NDArray[np.bool_]
    is_crossing: NDArray[np.bool_]
    has_leading_space: NDArray[np.bool_]
    has_inner_space: NDArray[np.bool_]
    scripts: NDArray[np.uint8]
    lengths: NDArray[np.int64]

    def measure_text(self, counts: NDArray[np.int64]) -> dict[str, Any]:
        """Return the shares of the tokens of a text with these counts."""
        weights = counts * self.is_ordinary
        total = int(weights.sum())
        return {
            "whole_character_tokens": metrics.ratio(int(weights[self.is_whole].sum()), total),
            "crossing_tokens": metrics.ratio(int(weights[self.is_crossing].sum()), total),
            "leading_space_tokens": metrics.ratio(int(weights[self.has_leading_space].sum()), total),
            "inner_space_tokens": metrics.ratio(int(weights[self.has_inner_space].sum()), total),
            "scripts": self._share_by_script(weights, total),
            "length_histogram": self._count_lengths(weights),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the shares of the tokens of the vocabulary."""
        weights = self.is_ordinary.astype(np.int64)
        return {f"vocabulary_{name}": value for name, value in self.measure_text(weights).items()}

    def _share_by_script(self, weights: NDArray[np.int64], total: int) -> dict[str, float | None]:
        sums = np.bincount(self.scripts, weights=weights, minlength=len(SCRIPT_NAMES))
        return {SCRIPT_NAMES[index]: metrics.ratio(sums[index], total) for index in np.flatnonzero(sums).tolist()}

    def _count_lengths(self, weights: NDArray[np.int64]) -> list[int]:
        """Count the tokens of 1, 2, … bytes; the last count is of 32 bytes and more."""
        sums = np.bincount(np.minimum(self.lengths, HISTOGRAM_BYTES), weights=weights, minlength=HISTOGRAM_BYTES + 1)
        return [int(count) for count in sums[1:]]


def find_shapes(tokens: TokensById) -> Shapes:
    """Find the shapes of the tokens of a vocabulary."""
    n = len(tokens.is_ordinary)
    flags, scripts = np.empty(n, dtype=np.uint8), np.empty(n, dtype=np.uint8)
    find_token_shapes(tokens.blob, tokens.offsets, _make_script_table(), _PARTIAL, _MIXED, flags, scripts)
    is_whole, is_crossing, has_leading_space, has_inner_space = (
        ((flags & bit) != 0) & tokens.is_ordinary for bit in (WHOLE, CROSSING, LEADING_SPACE, INNER_SPACE)
    )
    return Shapes(
        tokens.is_ordinary, is_whole, is_crossing, has_leading_space, has_inner_space, scripts, tokens.lengths
    )


@cache
def _make_script_table() -> NDArray[np.uint8]:
    """Map code points to an index into SCRIPT_NAMES; 0 for no script of its own (Common, Inherited, unassigned)."""
    table = np.zeros(0x110000, dtype=np.uint8)
    characters = "".join(map(chr, (*range(0xD800), *range(0xE000, 0x40000))))  # no letters beyond
    for match in regex.finditer(r"[^\p{Script=Common}\p{Script=Inherited}\p{Script=Unknown}]+", characters):
        table[ord(match[0][0]) : ord(match[0][-1]) + 1] = _OTHER
    for index, name in enumerate(SCRIPTS, 1):
        for match in regex.finditer(rf"\p{{Script={name}}}+", characters):
            table[ord(match[0][0]) : ord(match[0][-1]) + 1] = index
    return table


@dataclass(frozen=True)
class Reachability:
    """The ids of ordinary tokens that their own text does not encode to, ascending.

    Attributes:
        tested: how many tokens were tested.
        as_one: tokens whose text is another single token.
        as_several: tokens whose text is several tokens, or none.
        undecodable: tokens that are not whole characters; not tested.

    """

    tested: int
    as_one: list[int]
    as_several: list[int]
    undecodable: list[int]

    @property
    def unreachable(self) -> list[int]:
        """All that are not given back."""
        return sorted([*self.as_one, *self.as_several])

    def to_dict(self) -> dict[str, Any]:
        """Return the number of tokens of each kind."""
        return {
            "unreachable_tokens": len(self.as_one) + len(self.as_several),
            "unreachable_as_one_token": len(self.as_one),
            "unreachable_as_several_tokens": len(self.as_several),
            "undecodable_tokens": len(self.undecodable),
        }


def measure_reachability(adapter: Adapter, is_whole: NDArray[np.bool_]) -> Reachability:
    """Test the ordinary tokens of a tokenizer; `is_whole` says by id which are whole characters."""
    is_ordinary = adapter.tokens.is_ordinary
    token_ids = np.flatnonzero(is_whole & is_ordinary)
    never_encoded_ids = _find_never_encoded_with_mark(adapter)
    as_one: list[int] = []
    as_several: list[int] = []
    for start in range(0, len(token_ids), _TOKENS_PER_CALL):
        batch_ids = token_ids[start : start + _TOKENS_PER_CALL]
        texts = adapter.decode_each(batch_ids.tolist())
        rows = adapter.encode_texts(texts)
        is_same = rows.lengths == 1
        is_same[is_same] = rows.ids[rows.offsets[:-1][is_same]] == batch_ids[is_same]
        failures = np.flatnonzero(~is_same).tolist()
        if never_encoded_ids is not None:
            failures = [index for index in failures if int(batch_ids[index]) in never_encoded_ids]
        elif failures:
            quoted_rows = _encode_after_quote(adapter, [texts[index] for index in failures])
            failures = [
                index for index, row in zip(failures, quoted_rows, strict=True) if row != [int(batch_ids[index])]
            ]
        for index in failures:
            (as_one if rows.lengths[index] == 1 else as_several).append(int(batch_ids[index]))
    return Reachability(len(token_ids), as_one, as_several, np.flatnonzero(is_ordinary & ~is_whole).tolist())


def _find_never_encoded_with_mark(adapter: Adapter) -> set[int] | None:
    """Find the ids that no word has, for a tokenizer with an end-of-word mark; None without a mark."""
    if not isinstance(adapter, NativeAdapter) or adapter.tokenizer.spec.end_of_word is None:
        return None
    return set(adapter.tokenizer.unreachable().tolist())


def _encode_after_quote(adapter: Adapter, texts: list[str]) -> list[list[int] | None]:
    """Encode each text with `«` before it, and drop the ids of `«`; None where `«` changes or has no id."""
    try:
        quote_ids = adapter.encode_texts([_QUOTE]).to_list()[0]
        rows = adapter.encode_texts([_QUOTE + text for text in texts]).to_list()
    except ValueError:
        return [None] * len(texts)
    return [row[len(quote_ids) :] if row[: len(quote_ids)] == quote_ids else None for row in rows]


@dataclass(frozen=True)
class MorphemeAlignment:
    """How the boundaries of tokens in words compare with those of morphemes.

    Attributes:
        n_words: the number of words.
        n_cut: the words that are two or more tokens.
        n_aligned: the words with a token boundary between two morphemes.
        n_token_boundaries, n_morpheme_boundaries: all boundaries in words.
        n_shared: the boundaries of tokens that are boundaries of morphemes too.

    """

    n_words: int
    n_cut: int
    n_aligned: int
    n_token_boundaries: int
    n_morpheme_boundaries: int
    n_shared: int

    def to_dict(self) -> dict[str, Any]:
        """Return the share of the cut words that are aligned, and precision and recall of all boundaries."""
        return {
            "morpheme_words": self.n_words,
            "morphological_alignment": metrics.ratio(self.n_aligned, self.n_cut),
            "morpheme_precision": metrics.ratio(self.n_shared, self.n_token_boundaries),
            "morpheme_recall": metrics.ratio(self.n_shared, self.n_morpheme_boundaries),
        }


def check_morphemes(morphemes: Morphemes) -> list[list[str]]:
    """Check words with morphemes, and return the morphemes of each word.

    Raises:
        TypeError, ValueError: for anything else, and for morphemes that do not spell their word.

    """
    check_iterable("morphemes", morphemes, "words with their morphemes, such as {'unhappy': ['un', 'happy']}")
    words = morphemes.items() if isinstance(morphemes, Mapping) else ((None, given) for given in morphemes)
    rows: list[list[str]] = []
    for word, given in words:
        row = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else []
        if not row or not all(isinstance(part, str) and part for part in row):
            raise TypeError(
                f"morphemes has {describe(given)}; each word must be a list of str, such as ['un', 'happy']"
            )
        if word is not None and "".join(row) != word:
            raise ValueError(
                f"the morphemes of {short_repr(word)} are {short_repr(row)}; joined, they must be the word"
            )
        for part in row:
            check_unicode("a morpheme,", part)
        rows.append(row)
    return rows


def compare_boundaries(adapter: Adapter, word_morphemes: Sequence[Sequence[str]]) -> MorphemeAlignment:
    """Encode each word by itself, and compare boundaries."""
    texts = ["".join(morphemes).encode() for morphemes in word_morphemes]
    bounds = compute_offsets([len(text) for text in texts])
    documents = adapter.encode(b"".join(texts), bounds[:-1], bounds[1:])
    sizes, offsets = documents.measure_tokens(adapter), documents.offsets
    n_cut = n_aligned = n_token_boundaries = n_morpheme_boundaries = n_shared = 0
    for index, morphemes in enumerate(word_morphemes):
        token_sizes = sizes[offsets[index] : offsets[index + 1]].tolist()
        size = len(texts[index])
        token_boundaries = {offset for offset in accumulate(token_sizes[:-1]) if 0 < offset < size}
        morpheme_boundaries = set(accumulate(len(morpheme.encode()) for morpheme in morphemes[:-1]))
        n_cut += len(token_sizes) > 1
        n_aligned += bool(token_boundaries & morpheme_boundaries)
        n_token_boundaries += len(token_boundaries)
        n_morpheme_boundaries += len(morpheme_boundaries)
        n_shared += len(token_boundaries & morpheme_boundaries)
    return MorphemeAlignment(len(word_morphemes), n_cut, n_aligned, n_token_boundaries, n_morpheme_boundaries, n_shared)
