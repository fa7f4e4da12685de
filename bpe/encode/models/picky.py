"""PickyBPE models: merges and deletions are done in each pretoken, in the order of training.

To the encoder the deleted tokens are ids after those of the vocabulary; no text is encoded to them in the end. The word
cache serves as usual, and so does the split filter: no merge crosses where none of all tokens reaches across.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from bpe.base.fast_dataclasses import replace
from bpe.base.forks import cached_property
from bpe.base.offsets import compute_offsets
from bpe.base.spelling import spell_together
from bpe.encode.models.encoder import BuiltEncoder, build_encoder
from bpe.merge._merger import Merger
from bpe.merge._replay import EventMerger
from bpe.merge.tables import EventList, MergeList, SymbolTables
from bpe.vocab.events import follow_events
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.vocabulary import NO_TOKEN, UNUSED, Vocabulary


def build_picky(spec: TokenizerSpec, cache_memory: int) -> tuple[BuiltEncoder, EventTables]:
    """Build the parts of the model of a tokenizer with events."""
    events = EventTables(spec)
    extended_spec = replace(spec, vocabulary=events.vocabulary, events=None)
    built_encoder = build_encoder(extended_spec, cache_memory, events.make_merger)
    built_encoder.encoder.finish()
    return built_encoder, events


class EventTables:
    """The events of a tokenizer, with ids after those of the vocabulary for deleted tokens.

    Attributes:
        vocabulary: all tokens, the deleted ones included.

    """

    def __init__(self, spec: TokenizerSpec) -> None:
        events, vocabulary = spec.events, spec.vocabulary
        assert events is not None
        self._limit, self._timeline = vocabulary.limit, follow_events(events, vocabulary)
        deleted_tokens = self._timeline.deleted
        self._pairs, self._results, self._tokens, self._parts = (
            np.where(tokens < 0, self._limit - 1 - tokens, tokens).astype(np.int32)
            for tokens in (events.pairs, events.results, events.deletions[:, 1], self._timeline.parts)
        )
        self.vocabulary = Vocabulary.from_arrays(
            vocabulary.blob + b"".join(deleted_tokens),
            np.concatenate(
                (vocabulary.offsets[:-1], vocabulary.offsets[-1] + compute_offsets(list(map(len, deleted_tokens))))
            ),
            np.concatenate((vocabulary.kinds, np.full(len(deleted_tokens), UNUSED, dtype=np.uint8))),
        )

    def make_merger(self, merges: MergeList, symbol_tables: SymbolTables) -> Merger:
        """Make the kernel's tables of the events, in place of those of merges."""
        merges = replace(merges, pairs=self._pairs, results=self._results, ranks=self._timeline.merge_indices)
        n_symbols = np.maximum(self.vocabulary.lengths, 1)
        return EventMerger(
            merges,
            symbol_tables,
            EventList(self._timeline.split_indices, self._tokens, self._timeline.offsets, self._parts, n_symbols),
        )

    def explain(self, symbols: Sequence[tuple[bytes, int]]) -> Iterator[str]:
        """Yield a line for the symbols of a pretoken, (name, id) each, and one for each event that changes it."""
        tokens, unknown_names = [token_id for _, token_id in symbols], {token_id: name for name, token_id in symbols}

        def spell(tokens: Iterable[int]) -> list[str]:
            return spell_together(
                unknown_names[token] if token == NO_TOKEN else self.vocabulary[token] for token in tokens
            )

        yield "  " + " ".join(spell(tokens))
        event = -1
        while True:
            next_events = [self._find_next_event((token,), event) for token in tokens]
            next_events += [self._find_next_event(pair, event) for pair in pairwise(tokens)]
            next_event = min((token for token in next_events if token is not None), default=None)
            if next_event is None:
                break
            event, old_tokens, new_tokens = next_event
            tokens = _replace(tokens, old_tokens, new_tokens)
            names = spell((*old_tokens, *new_tokens))
            old_text, new_text = " + ".join(names[: len(old_tokens)]), " ".join(names[len(old_tokens) :])
            kind = f"merge, {self._describe(new_tokens[0])}" if len(old_tokens) == 2 else "deletion"
            yield f"  {old_text} -> {new_text}  (event {event}, {kind})    {' '.join(spell(tokens))}"

    def _describe(self, token_id: int) -> str:
        return f"id {token_id}" if token_id < self._limit else "deleted later"

    def _find_next_event(
        self, tokens: tuple[int, ...], last_event: int
    ) -> tuple[int, tuple[int, ...], tuple[int, ...]] | None:
        """Find the next event of a pair or of a token: its index, the pair or token, what it becomes."""
        match = next((candidate for candidate in self._events.get(tokens, ()) if candidate[0] > last_event), None)
        return None if match is None else (match[0], tokens, match[1])

    @cached_property
    def _events(self) -> dict[tuple[int, ...], list[tuple[int, tuple[int, ...]]]]:
        """Pair or token → the events that concern it in order: their indices, and the tokens that it becomes."""
        timeline = self._timeline
        events_of_tokens = defaultdict[tuple[int, ...], list[tuple[int, tuple[int, ...]]]](list)
        for event, pair, token in zip(
            timeline.merge_indices.tolist(), self._pairs.tolist(), self._results.tolist(), strict=True
        ):
            events_of_tokens[tuple(pair)].append((event, (token,)))
        bounds = pairwise(timeline.offsets.tolist())
        for event, token, (first, last) in zip(
            timeline.split_indices.tolist(), self._tokens.tolist(), bounds, strict=True
        ):
            events_of_tokens[(token,)].append((event, tuple(self._parts[first:last].tolist())))
        return events_of_tokens


def _replace(tokens: list[int], old_tokens: tuple[int, ...], new_tokens: tuple[int, ...]) -> list[int]:
    """Replace every occurrence of some tokens, from left to right."""
    result: list[int] = []
    index = 0
    while index < len(tokens):
        is_match = tuple(tokens[index : index + len(old_tokens)]) == old_tokens
        result += new_tokens if is_match else tokens[index : index + 1]
        index += len(old_tokens) if is_match else 1
    return result
