"""`prune`: a vocabulary without the tokens that occur least in a corpus; and the corpus, to be measured.

`bpe/vocab/editing.py` chooses the tokens and removes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bpe.base.progress import ProgressLike, check_progress, progress_note
from bpe.base.threads import resolve_threads
from bpe.base.utf8 import TextLike
from bpe.corpus.blocks import PathLike
from bpe.corpus.sources import Sources
from bpe.count.counting import count_files_or_texts
from bpe.count.word_counts import WordCounts, borrow_arrays
from bpe.errors import describe
from bpe.tokenizer import Tokenizer
from bpe.training.config import CountsLike, check_one_corpus
from bpe.training.encoded import encode_in_groups
from bpe.training.extend import as_counts
from bpe.vocab.editing import check_vocab_size, choose_rarest_leaves, find_removable_tokens
from bpe.vocab.spec import TokenizerSpec, check_supported
from bpe.vocab.vocabulary import NO_TOKEN


def prune(
    tok: Tokenizer,
    vocab_size: int,
    *,
    files: PathLike | Iterable[PathLike] | Sources | None = None,
    texts: Iterable[TextLike] | None = None,
    counts: CountsLike | None = None,
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
        files: as for `bpe.count_words`, like all that follow; or
        texts: documents; or
        counts: words with their counts, a `WordCounts` made with the tokenizer's pretokenizer, normalizer and
            special tokens, or a mapping. Give exactly one of the three.
        threads: the number of threads; None means one per core.
        progress: True shows a progress bar.

    Returns:
        (the smaller tokenizer, an int32 array of the new id by old id, -1 for a removed token), as
        `Tokenizer.without_tokens`.

    Raises:
        TypeError, ValueError: for invalid arguments, and a size that is larger than the vocabulary or smaller than the
            number of tokens that stay: those that come from no merge, and what special tokens are merged from.
        FormatError, OSError: as `bpe.count_words`.

    >>> import bpe
    >>> tok = bpe.train(texts=["low lower lowest newest"], vocab_size=264)
    >>> smaller, remap = bpe.prune(tok, 260, texts=["newest lowest"])
    >>> tok.tokens("newest"), smaller.tokens("newest")
    ([b'newest'], [b'n', b'e', b'west'])

    """
    spec = check_prunable(tok)
    removable = find_removable_tokens(spec)
    vocab_size = check_vocab_size(spec, vocab_size, len(removable))
    corpus = count_for_tokenizer(spec, files, texts, counts, threads, progress)
    with progress_note(progress, "index"):
        frequencies = corpus.measure(spec).frequencies
    return tok.without_tokens(choose_rarest_leaves(spec, removable, frequencies, len(spec.vocabulary) - vocab_size))


# The corpus -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TokenStatistics:
    """A corpus as a tokenizer encodes it.

    Attributes:
        frequencies: int64: how often each token occurs, by id.
        pair_frequencies: int64: likewise for the requested pairs, in their order.
        n_tokens: the number of tokens.

    """

    frequencies: NDArray[np.int64]
    pair_frequencies: NDArray[np.int64]
    n_tokens: int


class CountedCorpus:
    """The distinct words of a corpus and their counts."""

    def __init__(self, counts: WordCounts, threads: int) -> None:
        self._blob, self._offsets, self._counts = borrow_arrays(counts)
        self._threads = threads

    def measure(self, spec: TokenizerSpec, pairs: NDArray[np.int64] | None = None) -> TokenStatistics:
        """Encode the words, and count tokens and the `pairs` (n, 2) of neighbours within a word.

        In a word such as `aaa` the pair of two `a` counts twice, as in training.
        """
        frequencies = np.zeros(spec.vocabulary.limit, dtype=np.int64)
        requested_pairs = np.empty((0, 2), dtype=np.int64) if pairs is None else pairs
        codes = requested_pairs[:, 0] << 32 | requested_pairs[:, 1]
        order = np.argsort(codes, kind="stable")
        codes, pair_frequencies, word_index = codes[order], np.zeros(len(requested_pairs), dtype=np.int64), 0
        for ids, bounds in encode_in_groups(spec, self._blob, self._offsets, self._threads):
            lengths = np.diff(bounds)
            weights = np.repeat(self._counts[word_index : word_index + len(lengths)], lengths)
            word_index += len(lengths)
            has_token = ids != NO_TOKEN  # NO_TOKEN: a symbol without a token
            np.add.at(frequencies, ids[has_token], weights[has_token])
            if len(codes):
                _add_pairs(pair_frequencies, codes, ids.astype(np.int64), bounds, weights)
        by_request = np.empty(len(requested_pairs), dtype=np.int64)
        by_request[order] = pair_frequencies
        return TokenStatistics(frequencies, by_request, int(frequencies.sum()))


def _add_pairs(
    frequencies: NDArray[np.int64],
    codes: NDArray[np.int64],
    ids: NDArray[np.int64],
    bounds: NDArray[np.int64],
    weights: NDArray[np.int64],
) -> None:
    """Add the weights of neighbours whose codes are in the sorted `codes`."""
    follows_token = np.ones(len(ids), dtype=np.bool_)  # whether a token follows another one of its word
    follows_token[bounds[:-1][bounds[:-1] < len(ids)]] = False
    positions = np.flatnonzero(follows_token)
    corpus_codes = ids[positions - 1] << 32 | ids[positions]
    pair_indices = np.minimum(np.searchsorted(codes, corpus_codes), len(codes) - 1)
    is_requested = codes[pair_indices] == corpus_codes
    np.add.at(frequencies, pair_indices[is_requested], weights[positions[is_requested]])


def check_prunable(tok: object) -> TokenizerSpec:
    """Return the spec of a tokenizer whose tokens can be removed by frequency; else raise TypeError or ValueError."""
    if not isinstance(tok, Tokenizer):
        raise TypeError(f"tok is {describe(tok)}; it must be a bpe.Tokenizer")
    if tok.spec.n_merges_within_words is not None:
        raise ValueError("the tokenizer is a BoundlessBPE model, with two kinds of merges; train a smaller one")
    check_supported(tok.spec, "removing tokens by frequency")
    return tok.spec


def count_for_tokenizer(
    spec: TokenizerSpec,
    files: PathLike | Iterable[PathLike] | Sources | None,
    texts: Iterable[TextLike] | None,
    counts: CountsLike | None,
    threads: int | None,
    progress: ProgressLike,
) -> CountedCorpus:
    """Count the words of files, texts or counts, split as the tokenizer splits text."""
    check_progress(progress)
    check_one_corpus(files=files, texts=texts, counts=counts)
    if counts is not None:
        word_counts = as_counts(counts, spec)
    else:
        word_counts = WordCounts(spec.pretokenizer, spec.normalizer, tuple(spec.special_tokens))
        count_files_or_texts(word_counts, files, texts, threads, progress)
    if not len(word_counts):
        raise ValueError("the corpus has no words; give text that is not empty")
    return CountedCorpus(word_counts, resolve_threads(threads))
