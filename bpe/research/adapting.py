"""`adapt`: those tokens of a larger vocabulary that make a corpus short (Liyanage and Yvon, "AdaptBPE", 2026)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from bpe.base.progress import ProgressLike, progress_note
from bpe.base.utf8 import TextLike
from bpe.corpus.sources import Files
from bpe.errors import check_int
from bpe.tokenizer import Tokenizer
from bpe.training.config import CountsLike
from bpe.training.prune import CountedCorpus, TokenStatistics, check_prunable, count_for_tokenizer
from bpe.vocab.editing import check_vocab_size, find_removable_tokens, keep_tokens
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.vocabulary import UNUSED


def adapt(
    tok: Tokenizer,
    vocab_size: int,
    *,
    files: Files | None = None,
    texts: Iterable[TextLike] | None = None,
    counts: CountsLike | None = None,
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
        passes: how often the corpus is encoded at most.
        threads: the number of threads.
        progress: True shows a progress bar.

    Returns:
        (the smaller tokenizer, an int32 array of the new id by old id, -1 for a token that is not chosen).

    Raises:
        TypeError, ValueError, FormatError, OSError: as `bpe.prune`.

    >>> import bpe
    >>> tok = bpe.train(texts=["the theory"] * 3 + ["low lowest"] * 2, vocab_size=266)
    >>> adapted, remap = bpe.research.adapt(tok, 260, texts=["low lowest"])
    >>> tok.truncate_vocab(260)[0].tokens("lowest"), adapted.tokens("lowest")
    ([b'low', b'e', b's', b't'], [b'low', b'es', b't'])

    """
    spec = check_prunable(tok)
    check_int("passes", passes, 1)
    removable = find_removable_tokens(spec)
    vocab_size = check_vocab_size(spec, vocab_size, len(removable))
    corpus = count_for_tokenizer(spec, files, texts, counts, threads, progress)
    active = _ActiveTokens(spec, removable, vocab_size)
    with progress_note(progress, "index"):
        active.improve(corpus, passes)
    return tok.without_tokens(np.flatnonzero((spec.vocabulary.kinds != UNUSED) & ~active.is_active).tolist())


class _ActiveTokens:
    """The active tokens of a vocabulary, while some are exchanged.

    Attributes:
        is_active: by id, whether a token is active or comes from no merge.

    """

    def __init__(self, spec: TokenizerSpec, removable: dict[int, list[int]], vocab_size: int) -> None:
        self._spec = spec
        self._first_merges = np.full(spec.vocabulary.limit, -1, dtype=np.int64)  # by removable token: its first merge
        self._first_merges[list(removable)] = [indices[0] for indices in removable.values()]
        self.is_active: NDArray[np.bool_] = spec.vocabulary.kinds != UNUSED
        self.is_active[list(removable)[vocab_size - len(spec.vocabulary) + len(removable) :]] = False

    def improve(self, corpus: CountedCorpus, passes: int) -> None:
        """Exchange tokens while that shortens the corpus."""
        shortest, max_exchanges = self._measure(corpus), len(self.is_active)
        for _ in range(passes - 1):
            exchanges = self._choose_exchanges(shortest, max_exchanges)
            if not exchanges:
                break
            self._exchange(exchanges, True)
            current = self._measure(corpus)
            if current.n_tokens < shortest.n_tokens:
                shortest, max_exchanges = current, 2 * len(exchanges)
            else:
                self._exchange(exchanges, False)
                max_exchanges = len(exchanges) // 2

    def _find_active_merges(self) -> NDArray[np.bool_]:
        """Find the merges whose three tokens are active, as a mask."""
        return self.is_active[self._spec.merges].all(axis=1) & self.is_active[self._spec.merge_results]

    def _find_candidates(self) -> NDArray[np.bool_]:
        """Find the merges that make an inactive token of active ones, as a mask."""
        return self.is_active[self._spec.merges].all(axis=1) & ~self.is_active[self._spec.merge_results]

    def _measure(self, corpus: CountedCorpus) -> TokenStatistics:
        spec = keep_tokens(self._spec, self.is_active, self._find_active_merges())
        pairs = self._spec.merges[self._find_candidates()].astype(np.int64)
        statistics = corpus.measure(spec, pairs)
        frequencies = np.zeros(len(self.is_active), dtype=np.int64)
        frequencies[: len(statistics.frequencies)] = statistics.frequencies
        return TokenStatistics(frequencies, statistics.pair_frequencies, statistics.n_tokens)

    def _choose_exchanges(self, statistics: TokenStatistics, max_exchanges: int) -> list[tuple[int, int]]:
        """Choose at most `max_exchanges` exchanges (active token, inactive token)."""
        spec, candidates = self._spec, self._find_candidates()
        gains = np.zeros(len(self.is_active), dtype=np.int64)
        np.add.at(gains, spec.merge_results[candidates], statistics.pair_frequencies)
        candidates_by_gain = np.flatnonzero(gains)
        candidates_by_gain = candidates_by_gain[
            np.lexsort((self._first_merges[candidates_by_gain], -gains[candidates_by_gain]))
        ]
        is_leaf = self.is_active & (self._first_merges >= 0)
        is_leaf[spec.merges[self._find_active_merges()]] = False
        leaves = np.flatnonzero(is_leaf)
        leaves = leaves[np.lexsort((-self._first_merges[leaves], statistics.frequencies[leaves]))].tolist()
        parts: dict[int, set[int]] = {}
        for token, pair in zip(spec.merge_results[candidates].tolist(), spec.merges[candidates].tolist(), strict=True):
            parts.setdefault(token, set()).update(pair)
        needed_tokens: set[int] = set()
        replaced_tokens: set[int] = set()
        exchanges: list[tuple[int, int]] = []
        leaf_index = 0
        for token in candidates_by_gain.tolist():
            if parts[token] & replaced_tokens:
                continue
            while leaf_index < len(leaves) and (
                leaves[leaf_index] in needed_tokens or leaves[leaf_index] in parts[token]
            ):
                leaf_index += 1
            if leaf_index == len(leaves) or len(exchanges) == max_exchanges:
                break
            leaf_token = leaves[leaf_index]
            if gains[token] <= statistics.frequencies[leaf_token]:
                break
            exchanges.append((leaf_token, token))
            needed_tokens |= parts[token]
            replaced_tokens.add(leaf_token)
            leaf_index += 1
        return exchanges

    def _exchange(self, exchanges: list[tuple[int, int]], activate: bool) -> None:
        for active_token, inactive_token in exchanges:
            self.is_active[active_token], self.is_active[inactive_token] = not activate, activate
