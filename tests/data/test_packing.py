"""`Packed`: each strategy against a plain twin, windows, long documents, fields, states."""

from __future__ import annotations

import json
import pickle
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows_reference import MemoryShards, Token, listed, naive_bounds, naive_row, shards_of, tokens_of
from strategies import examples

from bpe.data import Packed
from bpe.data.loaders._packing import best_fit, best_fit_crop

FIELDS = ("input_ids", "labels", "position_ids", "document_ids", "loss_mask", "cu_seqlens")
Row = list[Token]

#: Arguments that are refused.
INVALID_ARGUMENTS = [
    ({"strategy": "first-fit"}, "strategy is 'first-fit'; it must be one of 'concat', 'best-fit', 'best-fit-crop'"),
    (
        {"long_documents": "crop"},
        "long_documents is 'crop'; it must be one of 'split', 'truncate', 'drop', 'error'",
    ),
    ({"window": 0}, "window is 0; it must be at least 1"),
]


# Plain twins ----------------------------------------------------------------------------------------------------------


def pieces_of(documents: list[Row], length: int, long_documents: str, strategy: str) -> list[Row]:
    """The documents to pack, none longer than a row (except that concat divides them itself)."""
    pieces = []
    for document in documents:
        if len(document) <= length + 1 or (strategy == "concat" and long_documents == "split"):
            pieces.append(document)
        elif long_documents == "truncate":
            pieces.append(document[: length + 1])
        elif long_documents == "split":
            pieces += [document[position : position + length + 1] for position in range(0, len(document) - 1, length)]
    return [document for document in pieces if document]


def concat(pieces: list[Row], length: int, tail: str) -> list[Row]:
    all_tokens = [token for piece in pieces for token in piece]
    rows = [all_tokens[position : position + length + 1] for position in range(0, max(len(all_tokens) - 1, 0), length)]
    return [row for row in rows if tail == "pad" or len(row) == length + 1]


def quadratic_best_fit(pieces: list[Row], length: int, tail: str) -> list[Row]:
    """Each piece goes to the row with the least sufficient room; of several, to the one that has had it longest."""
    rows: list[tuple[int, int, Row]] = []  # the time of the last change, the number, the ids
    for time, piece in enumerate(sorted(pieces, key=len, reverse=True)):
        fitting = [row for row in rows if len(row[2]) + len(piece) <= length + 1]
        best = min(fitting, key=lambda row: (length + 1 - len(row[2]), row[0]), default=(0, len(rows), []))
        rows = [row for row in rows if row[1] != best[1]] + [(time, best[1], best[2] + piece)]
    return [row for _, _, row in sorted(rows, key=lambda row: row[1])]


def simulated_crop(pieces: list[Row], length: int, tail: str) -> list[Row]:
    """nanochat's loop, with all pieces of the window waiting."""
    waiting, rows, row = list(pieces), [], []
    while waiting:
        room = length + 1 - len(row)
        fitting = [piece for piece in waiting if len(piece) <= room]
        best = max(fitting, key=len) if fitting else min(waiting, key=len)
        index = next(i for i, piece in enumerate(waiting) if piece is best)
        row += waiting.pop(index)[:room]
        if len(row) == length + 1:
            rows.append(row)
            row = []
    return rows + ([row] if row and tail == "pad" else [])


TWINS = {"concat": concat, "best-fit": quadratic_best_fit, "best-fit-crop": simulated_crop}


def spans_of(pieces: list[Row]) -> list[Row]:
    """Pieces with a number in place of the document's, so that two pieces of one document count as two."""
    return [
        [(token, 100 * index + document, counts) for token, document, counts in piece]
        for index, piece in enumerate(pieces)
    ]


def expected_rows(documents: list[list[int]], masks: Any, options: dict[str, Any]) -> list[Any]:
    length, window = options["length"], options["window"]
    tokens = tokens_of(documents, masks)
    rows = []
    for start in range(0, len(tokens), window):
        pieces = pieces_of(tokens[start : start + window], length, options["long_documents"], options["strategy"])
        for row in TWINS[options["strategy"]](spans_of(pieces), length, options["tail"]):
            fields = naive_row(row, length, pad_id=9, mask_other=options["mask_other_documents"])
            fields["document_ids"] = [n if n < 0 else n % 100 for n in fields["document_ids"]]
            rows.append(fields)
    return rows


documents_of = st.lists(st.integers(0, 12), max_size=14).map(
    lambda lengths: [[10 * i + k for k in range(size)] for i, size in enumerate(lengths)]
)


@examples(14)
@given(documents_of, st.data())
def test_rows_equal_those_of_the_twins(documents: list[list[int]], data: st.DataObject) -> None:
    masks = data.draw(st.none() | st.just([[i % 3 % 2 for i in range(len(d))] for d in documents]))
    options: dict[str, Any] = {
        "length": data.draw(st.integers(1, 9)),
        "strategy": data.draw(st.sampled_from(list(TWINS))),
        "long_documents": data.draw(st.sampled_from(["split", "truncate", "drop"])),
        "window": data.draw(st.integers(1, 16)),
        "tail": data.draw(st.sampled_from(["drop", "pad"])),
        "mask_other_documents": data.draw(st.booleans()),
    }
    shards: Any = MemoryShards(documents, masks)
    packed = Packed(shards, seed=data.draw(st.integers(0, 5)), fields=FIELDS, pad_id=9, **options)
    expected = expected_rows(documents, masks, options)
    for epoch in (0, 1):
        got = [listed(packed[epoch, i]) for i in range(len(packed))]
        assert sorted(map(json.dumps, got)) == sorted(map(json.dumps, expected))
    if expected:
        row_indices = data.draw(st.lists(st.integers(0, 3 * len(packed) - 1), min_size=1, max_size=6))
        batch = packed.read(np.array(row_indices))
        rows = [listed(packed[divmod(row_index, len(packed))]) for row_index in row_indices]
        for name in rows[0]:
            assert batch[name].tolist() == [row[name] for row in rows]
        assert batch["cu_seqlens"].tolist() == naive_bounds(rows)
    statistics = packed.statistics
    assert statistics.get("rows", 0) == len(packed) == len(expected)
    assert statistics.get("tokens", 0) + statistics.get("padding", 0) == len(expected) * (options["length"] + 1)


def test_the_order_within_a_row_is_that_of_the_strategy() -> None:
    shards: Any = MemoryShards([[1] * 2, [2] * 4, [3] * 3, [4] * 2])
    rows = [listed(row)["input_ids"] for row in Packed(shards, 5, fields=["input_ids"])]
    assert sorted(rows) == [[2, 2, 2, 2, 1], [3, 3, 3, 4, 4]]
    rows = [listed(row)["input_ids"] for row in Packed(shards, 5, strategy="best-fit-crop", tail="pad")]
    assert sorted(rows) == [[2, 2, 2, 2, 1], [3, 3, 3, 4, 4]]


@given(st.lists(st.integers(1, 40), max_size=60), st.integers(40, 70))
def test_the_kernels_equal_the_twins(lengths: list[int], capacity: int) -> None:
    pieces = [[(index, index, True)] * length for index, length in enumerate(lengths)]
    decreasing = np.sort(np.array(lengths, dtype=np.int64))[::-1].copy()
    rows = np.empty(len(lengths), dtype=np.int64)
    count = best_fit(decreasing, capacity, rows)
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    expected = quadratic_best_fit(pieces, capacity - 1, "pad")
    assert count == len(expected)
    for index, row in enumerate(expected):
        assert [order[i] for i in np.flatnonzero(rows == index)] == [key for key, _ in groupby(t[0] for t in row)]
    placed = np.empty((len(lengths), 3), dtype=np.int64)
    count = best_fit_crop(np.array(lengths, dtype=np.int64), capacity, placed)
    crops = simulated_crop(pieces, capacity - 1, "pad")
    assert count == len(crops)
    assert placed.tolist() == [
        [key, index, len(list(run))] for index, row in enumerate(crops) for key, run in groupby(t[0] for t in row)
    ]


@pytest.mark.parametrize("lengths", [[0], [11], [5, -1], [2**62]])
def test_the_kernels_refuse_lengths_outside(lengths: list[int]) -> None:
    given_lengths, rows = np.array(lengths), np.empty(len(lengths), dtype=np.int64)
    for call in (
        lambda: best_fit(given_lengths, 10, rows),
        lambda: best_fit_crop(given_lengths, 10, np.empty((len(lengths), 3), dtype=np.int64)),
        lambda: best_fit(np.array([1, 1]), 10, rows[:1]),
        lambda: best_fit_crop(np.array([1, 1]), 10, np.empty((2, 2), dtype=np.int64)),
    ):
        with pytest.raises(ValueError, match="there must be an output for each document, and lengths from 1 to 10"):
            call()


def test_long_documents_may_be_an_error() -> None:
    shards: Any = MemoryShards([[1, 2], [3] * 7, [4] * 9])
    with pytest.raises(ValueError, match=r"document 1 has 7 ids; a row holds length \+ 1 = 6: raise length, or set"):
        Packed(shards, 5, long_documents="error")
    assert len(Packed(shards, 8, long_documents="error")) == 2


def test_each_token_is_a_label_once_with_split() -> None:
    """All but the first of each document."""
    documents = [list(range(100 * i, 100 * i + 3 * i)) for i in range(1, 12)]
    shards: Any = MemoryShards(documents)
    packed = Packed(shards, 4, mask_other_documents=True, window=5)
    labels = sorted(label for row in packed for label in row["labels"].tolist() if label >= 0)
    assert labels == sorted(token for document in documents for token in document[1:])
    assert packed.statistics["truncated"] == sum(len(document) > 5 for document in documents)


def test_statistics_of_each_strategy() -> None:
    documents = [[1] * 5, [2] * 4, [3] * 2, [4] * 20, []]
    shards: Any = MemoryShards(documents)

    def statistics(**options: Any) -> dict[str, int]:
        return Packed(shards, 5, **options).statistics

    assert statistics() == {"rows": 6, "tokens": 34, "padding": 2, "documents": 4, "truncated": 1, "dropped": 0}
    assert statistics(long_documents="drop") == {
        "rows": 2, "tokens": 11, "padding": 1, "documents": 3, "truncated": 0, "dropped": 1
    }  # fmt: skip
    assert statistics(strategy="concat") == {
        "rows": 6, "tokens": 36, "padding": 0, "documents": 4, "truncated": 1, "dropped": 0
    }  # fmt: skip
    cropped = statistics(strategy="best-fit-crop")
    assert cropped["padding"] == 0
    assert cropped["tokens"] == cropped["rows"] * 6


def test_windows_resume_and_copies_agree(tmp_path: Path) -> None:
    """A run that ends in the middle of a window goes on there, in another process, with another number of ranks."""
    documents = [[i] * (1 + i * 7 % 11) for i in range(60)]
    shards = shards_of(tmp_path, documents)
    packed = Packed(shards, 7, 3, window=9, fields=FIELDS)
    uninterrupted = [batch["input_ids"].tolist() for batch in packed.batches(2, epochs=2)]
    assert len({json.dumps(row) for batch in uninterrupted for row in batch}) > 20
    batches = packed.batches(2, epochs=2)
    got = [next(batches)["input_ids"].tolist() for _ in range(11)]
    again = pickle.loads(pickle.dumps(packed))
    assert again.fingerprint == packed.fingerprint
    ranks = [again.batches(2, rank=r, world=2, epochs=2, state=batches.state_dict()) for r in (0, 1)]
    got += [[row for part in parts for row in part["input_ids"].tolist()] for parts in zip(*ranks, strict=True)]
    assert got == uninterrupted
    with pytest.raises(ValueError, match="the state's fingerprint is"):
        Packed(shards, 7, 3, window=8).batches(2, state=batches.state_dict())
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]
    for fingerprint in (nested, None, f"a-{'9' * 10_000}"):
        with pytest.raises(ValueError, match=r"the state's fingerprint is .{,300}, but these rows have"):
            packed.batches(2, state=batches.state_dict() | {"fingerprint": fingerprint})
    assert repr(packed).endswith(f"length=7, seed=3, strategy='best-fit', {len(packed)} rows)")


def test_a_corpus_without_documents() -> None:
    shards: Any = MemoryShards([])
    packed = Packed(shards, 4)
    assert len(packed) == 0
    assert list(packed) == []
    with pytest.raises(ValueError, match="has no rows"):
        packed.batches(1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    INVALID_ARGUMENTS,
)
def test_invalid_arguments(arguments: dict[str, Any], message: str) -> None:
    shards: Any = MemoryShards([[1, 2, 3]])
    with pytest.raises(ValueError, match=message):
        Packed(shards, **arguments)
