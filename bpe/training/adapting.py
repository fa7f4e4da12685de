"""`prune` and `adapt`: a smaller vocabulary out of a larger one, chosen by how often its tokens occur in a corpus.

Both work on the distinct words of the corpus and their counts, which the engine encodes anew where the tokens change.
Not here: choosing leaves (`bpe/vocab/leaves.py`), removing given ids (`Tokenizer.without_tokens`), learning tokens
(`extend.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bpe.base.progress import ProgressLike, check_progress, progress_note
from bpe.base.threads import thread_count
from bpe.base.utf8 import TextLike
from bpe.corpus.blocks import PathLike
from bpe.corpus.reading import EncodingErrors
from bpe.corpus.sources import Sources
from bpe.count.counting import count_corpus
from bpe.count.word_counts import WordCounts, arrays_of
from bpe.errors import check_int, typed
from bpe.tokenizer import Tokenizer
from bpe.training.encoded import encoded_groups
from bpe.training.extend import as_counts
from bpe.vocab.leaves import rarest_leaves, removable_tokens
from bpe.vocab.pruning import check_vocab_size, only
from bpe.vocab.spec import TokenizerSpec, check_defined
from bpe.vocab.vocabulary import NO_TOKEN, NONE

Counts = WordCounts | Mapping[str, int] | Mapping[bytes, int]


def prune(
    tok: Tokenizer,
    vocab_size: int,
    *,
    files: PathLike | Iterable[PathLike] | Sources | None = None,
    texts: Iterable[TextLike] | None = None,
    counts: Counts | None = None,
    separator: str | None = None,
    per_line: bool = False,
    encoding_errors: EncodingErrors = "strict",
    threads: int | None = None,
    progress: ProgressLike = False,
) -> tuple[Tokenizer, NDArray[np.int32]]:
    """Remove the tokens that a corpus needs least, until `vocab_size` are left.

    A leaf is a token that is a part of no other merge. Again and again, the leaf with the lowest frequency is removed;
    of several, the one with the latest merge. Frequencies are those of the tokens in the corpus as `tok` encodes it; a
    removed token's is added to those of its two parts, which may become leaves. Special tokens and single bytes or
    characters stay, and no token becomes unreachable. Source: Purason et al., "Teaching Old Tokenizers New Words"
    (2025), as its authors' code does it.

    Args:
        tok: the tokenizer; it is not changed.
        vocab_size: the number of tokens of the result.
        files: as for `bpe.count_words`; or
        texts: documents; or
        counts: words with their counts, a `WordCounts` made with the tokenizer's pretokenizer, normalizer and
            special tokens, or a mapping. Give exactly one of the three.
        separator: as for `bpe.count_words`, like all that follow.
        per_line: make each line of a file a document.
        encoding_errors: how bytes in files that are not UTF-8 are handled.
        threads: the number of threads; None means one per core.
        progress: True shows a progress bar.

    Returns:
        (the smaller tokenizer, an int32 array of the new id by old id, -1 for a removed token), as
        `Tokenizer.without_tokens`.

    Raises:
        TypeError, ValueError: for invalid arguments, and a size that is larger than the vocabulary or smaller than the
            number of tokens that come from no merge.
        FormatError, OSError: as `bpe.count_words`.

    >>> import bpe
    >>> tok = bpe.train(texts=["low lower lowest newest"], vocab_size=264)
    >>> smaller, remap = bpe.prune(tok, 260, texts=["newest lowest"])
    >>> tok.tokens("newest"), smaller.tokens("newest")
    ([b'newest'], [b'n', b'e', b'west'])

    """
    spec = _checked(tok)
    made = removable_tokens(spec)
    size = check_vocab_size(spec, vocab_size, len(made))
    corpus = _corpus_of(spec, files, texts, counts, separator, per_line, encoding_errors, threads, progress)
    with progress_note(progress, "index"):
        frequencies = corpus.measured(spec).frequencies
    return tok.without_tokens(rarest_leaves(spec, made, frequencies, len(spec.vocabulary) - size))


def adapt(
    tok: Tokenizer,
    vocab_size: int,
    *,
    files: PathLike | Iterable[PathLike] | Sources | None = None,
    texts: Iterable[TextLike] | None = None,
    counts: Counts | None = None,
    separator: str | None = None,
    per_line: bool = False,
    encoding_errors: EncodingErrors = "strict",
    passes: int = 40,
    threads: int | None = None,
    progress: ProgressLike = False,
) -> tuple[Tokenizer, NDArray[np.int32]]:
    """Choose those `vocab_size` tokens of a larger vocabulary that make a corpus short.

    It begins with the tokens that `tok.truncate_vocab(vocab_size)` keeps, the active ones. Each pass encodes the corpus
    with them and counts tokens and neighbours. Then the inactive token whose pair is most frequent takes the place of
    the active leaf with the lowest frequency, while the first count is greater than the second; of equals, the earliest
    inactive and the latest active merge are taken. In one pass, no token goes that a new one needs, and none is chosen
    whose parts have gone. If the corpus becomes shorter in tokens, the next pass may make twice as many exchanges;
    otherwise the exchanges are undone and half as many are tried. It ends when nothing can be exchanged, or after
    `passes`. Merges keep their order. So the result never needs more tokens for the corpus than the truncated
    vocabulary. Source: Liyanage and Yvon, "AdaptBPE" (2026), whose code counts once and exchanges one by one.

    To exchange tokens for new ones, extend the vocabulary with the corpus first, and adapt it to its former size.

    Args:
        tok: the tokenizer; it is not changed.
        vocab_size: the number of tokens of the result.
        files: as for `bpe.prune`, like all that follow but `passes`.
        texts: documents.
        counts: words with their counts.
        separator: the string between the documents of a file.
        per_line: make each line of a file a document.
        encoding_errors: how bytes in files that are not UTF-8 are handled.
        passes: how often the corpus is encoded at most.
        threads: the number of threads.
        progress: True shows a progress bar.

    Returns:
        (the smaller tokenizer, an int32 array of the new id by old id, -1 for a token that is not chosen).

    Raises:
        TypeError, ValueError, FormatError, OSError: as `bpe.prune`.

    >>> import bpe
    >>> tok = bpe.train(texts=["the theory"] * 3 + ["low lowest"] * 2, vocab_size=266)
    >>> adapted, remap = bpe.adapt(tok, 260, texts=["low lowest"])
    >>> tok.truncate_vocab(260)[0].tokens("lowest"), adapted.tokens("lowest")
    ([b'low', b'e', b's', b't'], [b'low', b'es', b't'])

    """
    spec = _checked(tok)
    check_int("passes", passes, 1)
    made = removable_tokens(spec)
    size = check_vocab_size(spec, vocab_size, len(made))
    corpus = _corpus_of(spec, files, texts, counts, separator, per_line, encoding_errors, threads, progress)
    chosen = _Choice(spec, made, size)
    with progress_note(progress, "index"):
        chosen.improve(corpus, passes)
    return tok.without_tokens(np.flatnonzero((spec.vocabulary.kinds != NONE) & ~chosen.kept).tolist())


# The corpus -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Measured:
    """A corpus as a tokenizer encodes it: int64 frequencies by id, those of the pairs asked for, the tokens in all."""

    frequencies: NDArray[np.int64]
    pairs: NDArray[np.int64]
    total: int


class _Corpus:
    """The distinct words of a corpus and their counts."""

    def __init__(self, counts: WordCounts, threads: int) -> None:
        self._blob, self._offsets, self._counts = arrays_of(counts)
        self._threads = threads

    def measured(self, spec: TokenizerSpec, pairs: NDArray[np.int64] | None = None) -> _Measured:
        """Encode the words, and count tokens and the `pairs` (n, 2) of neighbours within a word.

        In a word such as `aaa` the pair of two `a` counts twice, as in training.
        """
        frequencies = np.zeros(spec.vocabulary.limit, dtype=np.int64)
        wanted = np.empty((0, 2), dtype=np.int64) if pairs is None else pairs
        codes = wanted[:, 0] << 32 | wanted[:, 1]
        order = np.argsort(codes, kind="stable")
        codes, found, first = codes[order], np.zeros(len(wanted), dtype=np.int64), 0
        for ids, bounds in encoded_groups(spec, self._blob, self._offsets, self._threads):
            lengths = np.diff(bounds)
            weights = np.repeat(self._counts[first : first + len(lengths)], lengths)
            first += len(lengths)
            known = ids != NO_TOKEN  # NO_TOKEN: a symbol without a token
            np.add.at(frequencies, ids[known], weights[known])
            if len(codes):
                _add_pairs(found, codes, ids.astype(np.int64), bounds, weights)
        counted = np.empty(len(wanted), dtype=np.int64)
        counted[order] = found
        return _Measured(frequencies, counted, int(frequencies.sum()))


def _add_pairs(
    found: NDArray[np.int64],
    codes: NDArray[np.int64],
    ids: NDArray[np.int64],
    bounds: NDArray[np.int64],
    weights: NDArray[np.int64],
) -> None:
    """Add the weights of neighbours whose codes are in the sorted `codes`."""
    inside = np.ones(len(ids), dtype=np.bool_)  # whether a token follows another one of its word
    inside[bounds[:-1][bounds[:-1] < len(ids)]] = False
    at = np.flatnonzero(inside)
    seen = ids[at - 1] << 32 | ids[at]
    slots = np.minimum(np.searchsorted(codes, seen), len(codes) - 1)
    equal = codes[slots] == seen
    np.add.at(found, slots[equal], weights[at[equal]])


def _checked(tok: object) -> TokenizerSpec:
    if not isinstance(tok, Tokenizer):
        raise TypeError(f"tok is {typed(tok)}; it must be a bpe.Tokenizer")
    if tok.spec.word_merges is not None:
        raise ValueError("the tokenizer is a BoundlessBPE model, with two kinds of merges; train a smaller one")
    check_defined(tok.spec, "removing tokens by frequency")
    return tok.spec


def _corpus_of(
    spec: TokenizerSpec,
    files: PathLike | Iterable[PathLike] | Sources | None,
    texts: Iterable[TextLike] | None,
    counts: Counts | None,
    separator: str | None,
    per_line: bool,
    encoding_errors: EncodingErrors,
    threads: int | None,
    progress: ProgressLike,
) -> _Corpus:
    """The words of files, texts or counts, split as the tokenizer splits text."""
    check_progress(progress)
    given = [name for name, value in (("files", files), ("texts", texts), ("counts", counts)) if value is not None]
    if len(given) != 1:
        raise ValueError(f"{' and '.join(given) or 'nothing'} given; give exactly one of files=, texts= and counts=")
    if counts is not None:
        words = as_counts(counts, spec)
    else:
        words = WordCounts(spec.pretokenizer, spec.normalizer, tuple(spec.special_tokens))
        count_corpus(words, files, texts, separator, per_line, encoding_errors, threads, progress)
    if not len(words):
        raise ValueError("the corpus has no words; give text that is not empty")
    return _Corpus(words, thread_count(threads))


# Choosing -------------------------------------------------------------------------------------------------------------


class _Choice:
    """The active tokens of a vocabulary, while some are exchanged.

    Attributes:
        kept: by id, whether a token is active or comes from no merge.

    """

    def __init__(self, spec: TokenizerSpec, made: dict[int, list[int]], size: int) -> None:
        self._spec = spec
        self._first = np.full(spec.vocabulary.limit, -1, dtype=np.int64)  # by removable token: its first merge
        self._first[list(made)] = [indices[0] for indices in made.values()]
        self.kept: NDArray[np.bool_] = spec.vocabulary.kinds != NONE
        self.kept[list(made)[size - len(spec.vocabulary) + len(made) :]] = False

    def improve(self, corpus: _Corpus, passes: int) -> None:
        """Exchange tokens while that shortens the corpus."""
        best, step = self._measured(corpus), len(self.kept)
        for _ in range(passes - 1):
            exchanges = self._exchanges(best, step)
            if not exchanges:
                break
            self._exchange(exchanges, True)
            now = self._measured(corpus)
            if now.total < best.total:
                best, step = now, 2 * len(exchanges)
            else:
                self._exchange(exchanges, False)
                step = len(exchanges) // 2

    def _alive(self) -> NDArray[np.bool_]:
        return self.kept[self._spec.merges].all(axis=1) & self.kept[self._spec.merge_results]

    def _candidates(self) -> NDArray[np.bool_]:
        """Which merges make an inactive token of active ones."""
        return self.kept[self._spec.merges].all(axis=1) & ~self.kept[self._spec.merge_results]

    def _measured(self, corpus: _Corpus) -> _Measured:
        spec = only(self._spec, self.kept, self._alive())
        pairs = self._spec.merges[self._candidates()].astype(np.int64)
        found = corpus.measured(spec, pairs)
        frequencies = np.zeros(len(self.kept), dtype=np.int64)
        frequencies[: len(found.frequencies)] = found.frequencies
        return _Measured(frequencies, found.pairs, found.total)

    def _exchanges(self, measured: _Measured, most: int) -> list[tuple[int, int]]:
        """(active token, inactive token) to exchange, at most so many."""
        spec, candidates = self._spec, self._candidates()
        gains = np.zeros(len(self.kept), dtype=np.int64)
        np.add.at(gains, spec.merge_results[candidates], measured.pairs)
        new = np.flatnonzero(gains)
        new = new[np.lexsort((self._first[new], -gains[new]))]
        leaf = self.kept & (self._first >= 0)
        leaf[spec.merges[self._alive()]] = False
        old = np.flatnonzero(leaf)
        old = old[np.lexsort((-self._first[old], measured.frequencies[old]))].tolist()
        parts: dict[int, set[int]] = {}
        for token, pair in zip(spec.merge_results[candidates].tolist(), spec.merges[candidates].tolist(), strict=True):
            parts.setdefault(token, set()).update(pair)
        needed: set[int] = set()
        gone: set[int] = set()
        exchanges: list[tuple[int, int]] = []
        at = 0
        for token in new.tolist():
            if parts[token] & gone:
                continue
            while at < len(old) and (old[at] in needed or old[at] in parts[token]):
                at += 1
            if at == len(old) or len(exchanges) == most or gains[token] <= measured.frequencies[old[at]]:
                break
            exchanges.append((old[at], token))
            needed |= parts[token]
            gone.add(old[at])
            at += 1
        return exchanges

    def _exchange(self, exchanges: list[tuple[int, int]], forth: bool) -> None:
        for old, new in exchanges:
            self.kept[old], self.kept[new] = not forth, forth
