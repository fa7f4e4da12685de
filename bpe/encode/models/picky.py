"""PickyBPE models: merges and deletions are done in each pretoken, in the order of training.

To the kernel the deleted tokens are ids after those of the vocabulary; no text is encoded to them in the end. The word
cache serves as usual, and so does the split filter: no merge crosses where none of all tokens reaches across.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from bpe.base.forks import cached_property
from bpe.base.offsets import offsets_of
from bpe.base.records import replace
from bpe.base.spelling import spell_together
from bpe.encode.models.kernel import KernelTables, build_tables
from bpe.merge._merger import Merger
from bpe.merge._replay import EventMerger
from bpe.merge.tables import EventList, MergeList, SymbolTables
from bpe.vocab.events import follow_events
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.vocabulary import NO_TOKEN, NONE, Vocabulary


def build_picky(spec: TokenizerSpec, cache_memory: int) -> tuple[KernelTables, EventTables]:
    """Build the parts of the model of a tokenizer with events."""
    events = EventTables(spec)
    larger = replace(spec, vocabulary=events.vocabulary, events=None)
    tables = build_tables(larger, cache_memory, events.make_merger)
    tables.kernel.finish()
    return tables, events


class EventTables:
    """The events of a tokenizer, with ids after those of the vocabulary for deleted tokens.

    Attributes:
        vocabulary: all tokens, the deleted ones included.

    """

    def __init__(self, spec: TokenizerSpec) -> None:
        events, vocabulary = spec.events, spec.vocabulary
        assert events is not None
        self._limit, self._line = vocabulary.limit, follow_events(events, vocabulary)
        deleted = self._line.deleted
        self._pairs, self._results, self._tokens, self._parts = (
            np.where(tokens < 0, self._limit - 1 - tokens, tokens).astype(np.int32)
            for tokens in (events.pairs, events.results, events.deletions[:, 1], self._line.parts)
        )
        self.vocabulary = Vocabulary.from_arrays(
            vocabulary.blob + b"".join(deleted),
            np.concatenate((vocabulary.offsets[:-1], vocabulary.offsets[-1] + offsets_of(list(map(len, deleted))))),
            np.concatenate((vocabulary.kinds, np.full(len(deleted), NONE, dtype=np.uint8))),
        )

    def make_merger(self, merges: MergeList, tables: SymbolTables) -> Merger:
        """Make the kernel's tables of the events, in place of those of merges."""
        merges = replace(merges, pairs=self._pairs, results=self._results, ranks=self._line.merge_at)
        width = np.maximum(self.vocabulary.lengths, 1)
        return EventMerger(
            merges, tables, EventList(self._line.split_at, self._tokens, self._line.offsets, self._parts, width)
        )

    def explain(self, named: Sequence[tuple[bytes, int]]) -> Iterator[str]:
        """A line for the symbols of a pretoken, (name, id) each, and one for every event that changes it; slow."""
        state, unknown = [token_id for _, token_id in named], {token_id: name for name, token_id in named}

        def spell(tokens: Iterable[int]) -> list[str]:
            return spell_together(unknown[each] if each == NO_TOKEN else self.vocabulary[each] for each in tokens)

        yield "  " + " ".join(spell(state))
        event = -1
        while True:
            soon = [self._next_event((each,), event) for each in state]
            soon += [self._next_event(pair, event) for pair in pairwise(state)]
            found = min((each for each in soon if each is not None), default=None)
            if found is None:
                break
            event, what, parts = found
            state = _replace(state, what, parts)
            names = spell((*what, *parts))
            before, after = names[: len(what)], names[len(what) :]
            kind = f"merge, {self._describe(parts[0])}" if len(what) == 2 else "deletion"
            yield f"  {' + '.join(before)} -> {' '.join(after)}  (event {event}, {kind})    {' '.join(spell(state))}"

    def _describe(self, token: int) -> str:
        return f"id {token}" if token < self._limit else "deleted later"

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


def _replace(state: list[int], what: tuple[int, ...], parts: tuple[int, ...]) -> list[int]:
    """Tokens with every occurrence of some of them, from left to right, replaced."""
    found: list[int] = []
    at = 0
    while at < len(state):
        matches = tuple(state[at : at + len(what)]) == what
        found += parts if matches else state[at : at + 1]
        at += len(what) if matches else 1
    return found
