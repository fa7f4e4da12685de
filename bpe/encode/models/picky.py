"""Encoding with a PickyBPE model: its merges and deletions are done in each pretoken, in the order of training.

To the kernel the deleted tokens are ids after those of the vocabulary; no text is encoded to them in the end. The word
cache serves as usual, and so does the split filter: no merge crosses where none of all tokens reaches across.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np

from bpe.base.forks import cached_property
from bpe.base.offsets import offsets_of
from bpe.base.spelling import spell_together
from bpe.encode import _encoder as core
from bpe.encode.engine import Engine
from bpe.merge._merger import Merger
from bpe.merge._replay import EventMerger
from bpe.merge.superwords import Superwords
from bpe.merge.tables import EventList, MergeList, SymbolTables
from bpe.vocab.events import timeline
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.vocabulary import NO_TOKEN, NONE, Vocabulary


class PickyEngine(Engine):
    """The engine of a tokenizer with events."""

    def __init__(self, spec: TokenizerSpec, cache_memory: int = core.CACHE_MEMORY) -> None:
        events, vocabulary = spec.events, spec.vocabulary
        assert events is not None
        limit, self._line = vocabulary.limit, timeline(events, vocabulary)
        deleted = self._line.deleted
        self._pairs, self._results, self._tokens, self._parts = (
            np.where(tokens < 0, limit - 1 - tokens, tokens).astype(np.int32)
            for tokens in (events.pairs, events.results, events.deletions[:, 1], self._line.parts)
        )
        larger = Vocabulary.from_arrays(
            vocabulary.blob + b"".join(deleted),
            np.concatenate((vocabulary.offsets[:-1], vocabulary.offsets[-1] + offsets_of(list(map(len, deleted))))),
            np.concatenate((vocabulary.kinds, np.full(len(deleted), NONE, dtype=np.uint8))),
        )
        super().__init__(replace(spec, vocabulary=larger, events=None), cache_memory=cache_memory)
        self.spec = replace(spec, normalizer=self.spec.normalizer)
        self._names = larger

    def _new_merger(self, merges: MergeList, tables: SymbolTables) -> Merger:
        """The kernel's tables of the events, in place of those of merges."""
        merges = replace(merges, pairs=self._pairs, results=self._results, ranks=self._line.merge_at)
        width = np.maximum(self.spec.vocabulary.lengths, 1)
        return EventMerger(
            merges, tables, EventList(self._line.split_at, self._tokens, self._line.offsets, self._parts, width)
        )

    def _superwords(self, merges: MergeList, tables: SymbolTables) -> Superwords | None:
        """None: the kernel for superwords knows merges only."""

    def explained(self, pieces: Iterable[bytes | int]) -> str:
        """A paragraph for each pretoken: its symbols, every event that changes it, and the ids."""
        paragraphs = []
        for piece in pieces:
            if isinstance(piece, int):
                paragraphs.append(f"{_shown(self._names[piece])}\n  special token, id {piece}")
            else:
                paragraphs.append("\n".join([_shown(piece), *self._steps(piece)]))
        return "\n".join(paragraphs)

    def _steps(self, piece: bytes) -> Iterator[str]:
        """The lines of one pretoken; simple and slow."""
        named = self.named_symbols(piece)
        state, unknown = [number for _, number in named], {number: name for name, number in named}

        def spelled(tokens: Iterable[int]) -> list[str]:
            return spell_together(unknown[each] if each == NO_TOKEN else self._names[each] for each in tokens)

        yield "  " + " ".join(spelled(state))
        event = -1
        while True:
            soon = [self._next_event((each,), event) for each in state]
            soon += [self._next_event(pair, event) for pair in pairwise(state)]
            found = min((each for each in soon if each is not None), default=None)
            if found is None:
                break
            event, what, parts = found
            state = _replaced(state, what, parts)
            names = spelled((*what, *parts))
            before, after = names[: len(what)], names[len(what) :]
            kind = f"merge, {self._described(parts[0])}" if len(what) == 2 else "deletion"
            yield f"  {' + '.join(before)} -> {' '.join(after)}  (event {event}, {kind})    {' '.join(spelled(state))}"
        yield "  ids " + " ".join("none" if number == NO_TOKEN else str(number) for number in self.piece_ids(piece))

    def _described(self, token: int) -> str:
        return f"id {token}" if token < self.spec.vocabulary.limit else "deleted later"

    def _next_event(self, what: tuple[int, ...], event: int) -> tuple[int, tuple[int, ...], tuple[int, ...]] | None:
        """The first event of a pair or of a token after an event: its index, the pair or token, what it becomes."""
        found = next((each for each in self._events.get(what, ()) if each[0] > event), None)
        return None if found is None else (found[0], what, found[1])

    @cached_property
    def _events(self) -> dict[tuple[int, ...], list[tuple[int, tuple[int, ...]]]]:
        """Pair or token → the events that concern it in order: their indices, and the tokens that it becomes."""
        line, found = self._line, defaultdict[tuple[int, ...], list[tuple[int, tuple[int, ...]]]](list)
        for at, pair, token in zip(line.merge_at.tolist(), self._pairs.tolist(), self._results.tolist(), strict=True):
            found[tuple(pair)].append((at, (token,)))
        bounds = pairwise(line.offsets.tolist())
        for at, token, (first, last) in zip(line.split_at.tolist(), self._tokens.tolist(), bounds, strict=True):
            found[(token,)].append((at, tuple(self._parts[first:last].tolist())))
        return found


def _replaced(state: list[int], what: tuple[int, ...], parts: tuple[int, ...]) -> list[int]:
    """Tokens with every occurrence of some of them, from left to right, replaced."""
    found: list[int] = []
    at = 0
    while at < len(state):
        matches = tuple(state[at : at + len(what)]) == what
        found += parts if matches else state[at : at + 1]
        at += len(what) if matches else 1
    return found


def _shown(piece: bytes) -> str:
    return repr(piece.decode("utf-8", "backslashreplace"))
