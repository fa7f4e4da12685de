"""`adapt`: those tokens of a larger vocabulary that make a corpus short (Liyanage and Yvon, "AdaptBPE", 2026)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from bpe.base.progress import ProgressLike, progress_note
from bpe.base.utf8 import TextLike
from bpe.errors import check_int
from bpe.tokenizer import Tokenizer
from bpe.training.config import CountsLike, Files
from bpe.training.prune import CountedCorpus, Measured, check_prunable, count_for_tokenizer
from bpe.vocab.editing import check_vocab_size, find_removable_tokens, keep_tokens
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.vocabulary import NONE


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
    made = find_removable_tokens(spec)
    size = check_vocab_size(spec, vocab_size, len(made))
    corpus = count_for_tokenizer(spec, files, texts, counts, threads, progress)
    chosen = _Choice(spec, made, size)
    with progress_note(progress, "index"):
        chosen.improve(corpus, passes)
    return tok.without_tokens(np.flatnonzero((spec.vocabulary.kinds != NONE) & ~chosen.kept).tolist())


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

    def improve(self, corpus: CountedCorpus, passes: int) -> None:
        """Exchange tokens while that shortens the corpus."""
        best, step = self._measure(corpus), len(self.kept)
        for _ in range(passes - 1):
            exchanges = self._choose_exchanges(best, step)
            if not exchanges:
                break
            self._exchange(exchanges, True)
            now = self._measure(corpus)
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

    def _measure(self, corpus: CountedCorpus) -> Measured:
        spec = keep_tokens(self._spec, self.kept, self._alive())
        pairs = self._spec.merges[self._candidates()].astype(np.int64)
        found = corpus.measure(spec, pairs)
        frequencies = np.zeros(len(self.kept), dtype=np.int64)
        frequencies[: len(found.frequencies)] = found.frequencies
        return Measured(frequencies, found.pairs, found.total)

    def _choose_exchanges(self, measured: Measured, most: int) -> list[tuple[int, int]]:
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
