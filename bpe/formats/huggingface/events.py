"""The events of a PickyBPE model in a tokenizer.json: a list in order, a merge as [left, right], a deletion as a token.

A deletion follows the merge that it belongs to. Deleted tokens are not in the vocab; merges spell them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bpe.errors import FormatError, shown
from bpe.formats.json_fields import make_at
from bpe.vocab.byte_letters import to_letters
from bpe.vocab.events import Events, timeline
from bpe.vocab.vocabulary import Vocabulary


def write_events(events: Events, vocabulary: Vocabulary) -> list[Any]:
    """The list of a tokenizer's events."""
    deleted = timeline(events, vocabulary).deleted
    pairs, deletions = events.pairs.tolist(), events.deletions.tolist()
    names = {
        token: to_letters(vocabulary[token] if token >= 0 else deleted[-1 - token])
        for token in {token for pair in pairs for token in pair}
    }
    listed: list[Any] = []
    at = 0
    for number, (left, right) in enumerate(pairs):
        listed.append([names[left], names[right]])
        while at < len(deletions) and deletions[at][0] == number:
            listed.append(names[deletions[at][1]])
            at += 1
    return listed


def read_events(listed: list[Any], vocabulary: Vocabulary) -> Events:
    """The events in such a list.

    Raises:
        FormatError: for anything else. Whether the events fit the vocabulary is checked by `check_events`.

    """
    tokens = {to_letters(token): number for token, number in vocabulary.ids.items()}
    merges: list[tuple[int, int, int]] = []
    deletions: list[tuple[int, int]] = []
    n_deleted = 0
    for index, event in enumerate(listed):
        names = event if type(event) is list else (event,)
        if len(names) != (2 if type(event) is list else 1) or set(map(type, names)) != {str}:
            raise FormatError(
                f'{shown(event)} is not an event; it must be a merge ["left", "right"], or the token that is deleted',
                where=f"model.events[{index}]",
            )
        unknown = next((name for name in names if name not in tokens), None)
        if unknown is not None:
            raise FormatError(
                f"{shown(unknown)} is neither in the vocab nor made by an earlier event; it must be",
                where=f"model.events[{index}]",
            )
        if len(names) == 2:
            result = names[0] + names[1]
            if result not in tokens:
                n_deleted += 1
                tokens[result] = -n_deleted
            merges.append((tokens[names[0]], tokens[names[1]], tokens[result]))
        else:
            deletions.append((len(merges) - 1, tokens[names[0]]))
    rows = np.array(merges, dtype=np.int32).reshape(-1, 3)
    removals = np.array(deletions, dtype=np.int32).reshape(-1, 2)
    pairs, results = np.ascontiguousarray(rows[:, :2]), np.ascontiguousarray(rows[:, 2])
    return make_at("model.events", lambda: Events(pairs, results, removals))
