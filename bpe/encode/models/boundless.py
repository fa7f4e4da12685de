"""Encoding with a BoundlessBPE model, in two levels: merges within words, then merges of words that are one token.

The first level is an ordinary engine in which some tokens have a second id, `first` + i, for where a whole pretoken is
that token. To the kernel these are words with an id of their own, so the word cache serves them. The second level
(`bpe/merge/_supermerge.pyx`) merges runs of them by rank, and gives those that are left their first id again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpe.base._visitor import Visitor
from bpe.base.offsets import offsets_of
from bpe.base.utf8 import Bytes, TextLike
from bpe.batch import TokenBatch
from bpe.corpus.blocks import Block, document_cut, safe_cut
from bpe.corpus.reading import EndCut
from bpe.encode import _encoder as core
from bpe.encode.engine import NOTHING, Around, BlockIds, Engine
from bpe.merge._supermerge import SuperMerger
from bpe.pretokenize.pipeline import Pretokens
from bpe.pretokenize.pretokenizer import scanner_of
from bpe.vocab import merging
from bpe.vocab.spec import TokenizerSpec, words_only
from bpe.vocab.vocabulary import NONE, Vocabulary, end_to_end


class MarkedEngine(Engine):
    """An engine that gives some tokens another id where a whole pretoken is that token.

    Args:
        spec: the tokenizer; only its merges within words are applied.
        marked: the ids of ordinary tokens.
        cache_memory: as for `Engine`.

    Attributes:
        first: a pretoken that is the token `marked[i]` has the id `first` + i; all other ids are below `first`.
        marked: those ids. One that merging the token's own bytes does not give has no other id in effect.

    """

    def __init__(self, spec: TokenizerSpec, marked: NDArray[np.integer], cache_memory: int = core.CACHE_MEMORY) -> None:
        vocabulary, words = spec.vocabulary, words_only(spec)
        self.first = vocabulary.limit
        self.marked = marked.astype(np.uint32)
        blob = np.frombuffer(vocabulary.blob, dtype=np.uint8)
        more, offsets = end_to_end(blob, vocabulary.offsets[marked], vocabulary.lengths[marked])
        self._blob, self._offsets = more.tobytes(), offsets
        larger = Vocabulary.from_arrays(
            vocabulary.blob + self._blob,
            np.concatenate((vocabulary.offsets, offsets[1:] + vocabulary.offsets[-1])),
            np.concatenate((vocabulary.kinds, np.full(len(marked), NONE, dtype=np.uint8))),
        )
        super().__init__(replace(words, vocabulary=larger), cache_memory=cache_memory)
        self.spec = replace(spec, normalizer=self.spec.normalizer)

    @property
    def fast_kernel(self) -> core.Encoder | None:
        """None: ids need the second level."""
        return None

    def _kernel(self) -> core.Encoder:
        """The kernel's tables, with the second ids."""
        kernel = super()._kernel()
        wanted = np.zeros(self.spec.vocabulary.limit, dtype=np.uint8)
        wanted[self.marked] = 1
        unreachable = kernel.unreachable_of(wanted)
        if unreachable is None:
            tokens = [self._blob[a:b] for a, b in pairwise(self._offsets.tolist())]
            known = [
                kernel.encode_piece(token) == [number]
                for token, number in zip(tokens, self.marked.tolist(), strict=True)
            ]
            kept = np.flatnonzero(known)
        else:
            wanted[unreachable] = 0
            kept = np.flatnonzero(wanted[self.marked])
        data = np.frombuffer(self._blob, dtype=np.uint8)
        blob, offsets = end_to_end(data, self._offsets[:-1][kept], np.diff(self._offsets)[kept])
        kernel.keep_pretokens_whole()
        kernel.set_whole_words(blob.tobytes(), offsets, (kept + self.first).astype(np.uint32), True)
        return kernel

    # Split points -----------------------------------------------------------------------------------------------------

    def last_cut(self, data: Bytes, low: int) -> int:
        """The last split point after a pretoken that has no second id, so that no run crosses it; else `low`."""
        end = super().last_cut(data, low)
        while end > low:
            begin = self.kernel.last_cut(data[: end - 1], 0)  # where the pretoken before `end` begins, or earlier
            if begin <= 0:
                return low
            ids = self.kernel.encode(bytes(data[begin:end]))[0]
            if len(ids) and int(ids[-1]) < self.first:
                return end
            end = begin
        return low

    def end_cut(self, separators: list[bytes], keep: bool, names: frozenset[str]) -> EndCut | None:
        """Where blocks of files may end: at these split points, or between documents."""
        if not self.cuts_documents(names) or scanner_of(self.spec.pretokenizer) is None:
            return document_cut(separators, keep)
        return safe_cut(self.last_cut, [*separators, *(name.encode() for name in names)])


class BoundlessEngine(MarkedEngine):
    """The engine of a tokenizer with merges across words."""

    def __init__(self, spec: TokenizerSpec, cache_memory: int = core.CACHE_MEMORY) -> None:
        assert spec.word_merges is not None
        pairs, results = spec.merges[spec.word_merges :], spec.merge_results[spec.word_merges :]
        leaves = np.setdiff1d(pairs, results)
        super().__init__(spec, leaves, cache_memory)
        numbers = np.arange(spec.vocabulary.limit, dtype=np.int32)
        numbers[leaves] = np.arange(len(leaves), dtype=np.int32) + self.first
        self._merger = SuperMerger(numbers[pairs], results.astype(np.int32), self.first, self.marked)

    def unreachable(self) -> NDArray[np.int64]:
        """The ids that encoding never produces, as `Tokenizer.unreachable` documents them.

        A supertoken is produced if all its words are, and if a run of these words becomes it.
        """
        spec = self.spec
        never = np.zeros(spec.vocabulary.limit, dtype=np.bool_)
        never[merging.find_unreachable(words_only(spec), Engine)] = True
        parts: dict[int, list[int]] = {}
        n = spec.word_merges
        for (left, right), token in zip(spec.merges[n:].tolist(), spec.merge_results[n:].tolist(), strict=True):
            parts[token] = [word for part in (left, right) for word in parts.get(part, [part])]
        if parts:
            words, offsets = np.concatenate(list(parts.values())), offsets_of([len(each) for each in parts.values()])
            ids = np.searchsorted(self.marked, words).astype(np.uint32) + np.uint32(self.first)
            made, lengths = self._merger.merge(ids, offsets)
            firsts = made[offsets_of(lengths)[:-1]]
            tokens = np.array(list(parts))
            never[tokens] = (lengths != 1) | (firsts != tokens) | np.logical_or.reduceat(never[words], offsets[:-1])
        return np.flatnonzero(never)

    def _joined(self, ids: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """The ids of a text after the second level."""
        return self._merger.merge(ids, np.array([0, len(ids)], dtype=np.int64))[0]

    def _joined_batch(self, batch: TokenBatch) -> TokenBatch:
        ids, lengths = self._merger.merge(np.asarray(batch.ids, dtype=np.uint32), batch.offsets)
        return TokenBatch(ids, offsets_of(lengths))

    def encode(self, text: TextLike, allowed: frozenset[str] = frozenset()) -> NDArray[np.uint32]:
        """Encode one text, and merge across words."""
        return self._joined(super().encode(text, allowed))

    def encode_segment(self, data: str | bytes | Pretokens) -> NDArray[np.uint32]:
        """Encode a segment without special tokens, and merge across words."""
        return self._joined(super().encode_segment(data))

    def encode_batch(
        self,
        texts: Sequence[TextLike],
        threads: int,
        allowed: frozenset[str] = frozenset(),
        around: Around = NOTHING,
    ) -> TokenBatch:
        """Encode several texts, and merge across words in each."""
        return self._joined_batch(super().encode_batch(texts, threads, allowed, around))

    def encode_documents(
        self,
        buffer: Bytes,
        starts: NDArray[np.int64],
        ends: NDArray[np.int64],
        threads: int,
        around: Around = NOTHING,
    ) -> TokenBatch:
        """Encode documents in one buffer, and merge across words in each."""
        return self._joined_batch(super().encode_documents(buffer, starts, ends, threads, around))

    def visit_documents(
        self, buffer: Bytes, starts: NDArray[np.int64], ends: NDArray[np.int64], visitor: Visitor
    ) -> None:
        """Give a visitor the ids of documents in one buffer, merged across words."""
        batch = self.encode_documents(buffer, starts, ends, 1)
        visitor.visit(batch.ids, batch.offsets)

    def encode_words(self, blob: NDArray[np.uint8], offsets: NDArray[np.int64]) -> TokenBatch:
        """Encode words, each a text of its own."""
        return self._joined_batch(super().encode_words(blob, offsets))

    def encode_blocks(self, blocks: Iterator[Block], threads: int, n_bytes: int, **options: Any) -> BlockIds | None:
        """Encode blocks of files, and merge across words in each document."""
        found = super().encode_blocks(blocks, threads, n_bytes, **options)
        if found is None:
            return None
        ids, lengths = self._merger.merge(found.ids, offsets_of(found.lengths))
        return replace(found, ids=ids, lengths=lengths)

    def piece_ids(self, piece: bytes) -> list[int]:
        """The ids of one pretoken, without second ids."""
        ids = self.kernel.encode_piece(piece)
        return [int(self.marked[number - self.first]) if number >= self.first else number for number in ids]
