"""`StreamingEncoder`: rows of raw text equal rows of the ids of all documents; states, parts, workers."""

from __future__ import annotations

import json
import pickle
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows_reference import Token, naive_bounds, naive_row
from strategies import examples

import bpe
from bpe.data import Blocks, Mixture, StreamingEncoder, TokenShards, encode_shards, torch_batches
from bpe.data.loaders import streaming
from bpe.data.loaders.order import RowOrder
from bpe.data.loaders.streaming import add_checksum

FIELDS = ("input_ids", "labels", "position_ids", "document_ids", "loss_mask", "cu_seqlens")
TEXTS = ["low lower lowest", "", "new newer newest " * 5, "wide", " wider widest" * 3, "x", "low " * 40] * 6


TOKENIZER = bpe.train(texts=TEXTS, vocab_size=275, special_tokens=["<|end|>"])


@pytest.fixture
def tokenizer() -> bpe.Tokenizer:
    return TOKENIZER


def expected_rows(tokenizer: bpe.Tokenizer, texts: list[str], length: int, mask_other: bool = False) -> list[Any]:
    tokens: list[Token] = [
        (token, index, True)
        for index, text in enumerate(texts)
        for token in [*tokenizer.encode(text).tolist(), *tokenizer.encode("<|end|>", allowed_special="all").tolist()]
    ]
    rows = [tokens[position : position + length + 1] for position in range(0, len(tokens) - length, length)]
    return [naive_row(row, length, mask_other=mask_other) for row in rows]


def rows_of(batches: Any) -> list[Any]:
    """The rows of batches, whose cu_seqlens are checked."""
    all_rows = []
    for batch in batches:
        names = [name for name in batch if name not in ("cu_seqlens", "max_seqlen")]
        rows = [
            dict(zip(names, row, strict=True)) for row in zip(*(batch[name].tolist() for name in names), strict=True)
        ]
        if "cu_seqlens" in batch:
            assert batch["cu_seqlens"].tolist() == naive_bounds(rows)
            assert batch["max_seqlen"] == np.diff(batch["cu_seqlens"]).max()
        all_rows += rows
    return all_rows


@examples(9)
@given(
    st.lists(st.sampled_from(TEXTS), max_size=12),
    st.integers(1, 20),
    st.integers(1, 4),
    st.booleans(),
    st.sampled_from([1, 30, 10**6]),
    st.sampled_from([0, 5, 4096]),
)
def test_rows_equal_those_made_token_by_token(
    texts: list[str], length: int, size: int, mask_other: bool, group: int, remainder: int
) -> None:
    """With resuming after each batch, through JSON, whatever is encoded at once and kept in a state."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streaming, "GROUP_CHARS", group)
        patch.setattr(streaming, "MAX_REMAINDER_IDS", remainder)
        encoder = StreamingEncoder(
            texts, TOKENIZER, length, append="<|end|>", fields=FIELDS, mask_other_documents=mask_other
        )
        expected = expected_rows(TOKENIZER, texts, length, mask_other)
        assert rows_of(encoder.batches(size)) == expected
        got, state = [], None
        while batch := next(batches := encoder.batches(size, state=state), None):
            got.append(batch)
            state = json.loads(json.dumps(batches.state_dict()))
            assert len(state["remainder"]) <= remainder
        assert rows_of(got) == expected
        assert [len(batch["labels"]) for batch in got[:-1]] == [size] * (len(got) - 1)


def test_files_give_the_rows_of_their_shards(tokenizer: bpe.Tokenizer, tmp_path: Path) -> None:
    """All at once, and resumed after each batch, also in the middle of a document."""
    for index in range(3):
        (tmp_path / f"{index}.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in TEXTS[index:]))
    (tmp_path / "z.txt").write_text("low lower\n\nlowest newest " * 3000)
    sources = bpe.Sources([*sorted(tmp_path.glob("*.jsonl")), tmp_path / "z.txt"])
    encode_shards(sources, tokenizer, tmp_path / "shards", append="<|end|>")
    blocks = Blocks(TokenShards(tmp_path / "shards"), 64)
    expected = [row["input_ids"].tolist() for row in sorted_rows(blocks)]
    encoder = pickle.loads(pickle.dumps(StreamingEncoder(sources, tokenizer, 64, append="<|end|>", threads=1)))
    assert [row["input_ids"].tolist() for row in encoder] == expected
    state, got = None, []
    for size in (1, 2, 7, 30, 100, 10**6):
        batches = encoder.batches(size, state=state)
        got += next(batches)["input_ids"].tolist()
        state = json.loads(json.dumps(batches.state_dict()))
    assert got == expected
    assert next(encoder.batches(1, state=state), None) is None


def sorted_rows(blocks: Blocks) -> list[Any]:
    """All rows in the order of the shards."""
    return [blocks[i] for i in np.argsort(RowOrder(len(blocks), 0).rows(np.arange(len(blocks)), 0)).tolist()]


def test_parts_have_all_texts(tokenizer: bpe.Tokenizer) -> None:
    encoder = StreamingEncoder(TEXTS, tokenizer, 1, append="<|end|>")
    for count in (1, 3):
        for index in range(count):
            got = [row["input_ids"] for row in rows_of(encoder.batches(5, rank=index, world=count))]
            assert got == [row["input_ids"] for row in expected_rows(tokenizer, TEXTS[index::count], 1)]


def test_special_tokens_and_prepended_ids(tokenizer: bpe.Tokenizer) -> None:
    end = tokenizer.special_tokens["<|end|>"]
    encoder = StreamingEncoder(["low<|end|>", "x"], tokenizer, 2, prepend="<|end|>", allowed_special="all")
    low, x = tokenizer.encode("low").tolist(), tokenizer.encode("x").tolist()
    ids = [end, *low, end, end, *x]
    assert [row["input_ids"] for row in rows_of(encoder.batches(9))] == [
        ids[i : i + 2] for i in range(0, len(ids) - 2, 2)
    ]


def test_states_of_other_streams_are_refused(tokenizer: bpe.Tokenizer) -> None:
    encoder = StreamingEncoder(TEXTS, tokenizer, 8)
    batches = encoder.batches(2, rank=1, world=2)
    next(batches)
    state = batches.state_dict()
    with pytest.raises(ValueError, match=r"the state's part is \[1, 2\], but this stream has \[0, 2\]: resume with"):
        encoder.batches(2, rank=0, world=2, state=state)
    with pytest.raises(ValueError, match="the state's fingerprint is"):
        StreamingEncoder(TEXTS, tokenizer, 9).batches(2, rank=1, world=2, state=state)
    with pytest.raises(ValueError, match="the state's version is 7"):
        encoder.batches(2, rank=1, world=2, state=state | {"version": 7})
    with pytest.raises(TypeError, match=r"it must be what state_dict\(\) returned"):
        encoder.batches(2, state={"position": 3})


def test_invalid_arguments(tokenizer: bpe.Tokenizer) -> None:
    with pytest.raises(TypeError, match=r"sources is 'a.txt', a str; it must be bpe.Sources\(path\), or an iterable"):
        StreamingEncoder("a.txt", tokenizer)
    with pytest.raises(TypeError, match="which can be iterated only once; pass a list, or Sources"):
        StreamingEncoder(iter(["a"]), tokenizer)
    with pytest.raises(TypeError, match=r"tokenizer is 'gpt2', a str; it must be a bpe.Tokenizer"):
        StreamingEncoder(["a"], "gpt2")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="append is '<eos>', which is no special token of this tokenizer"):
        StreamingEncoder(["a"], tokenizer, append="<eos>")
    with pytest.raises(ValueError, match="rank is 2; it must be from 0 to 1"):
        StreamingEncoder(["a"], tokenizer).batches(1, rank=2, world=2)
    with pytest.raises(TypeError, match=r"each must be a Blocks, Packed or Mixture"):
        Mixture([StreamingEncoder(["a"], tokenizer)])  # type: ignore[list-item]


@pytest.mark.filterwarnings("ignore:This DataLoader will create", "ignore:.*use of fork.*")
@pytest.mark.parametrize(("workers", "context"), [(0, None), (2, "fork"), (3, "spawn")])
def test_workers_of_a_data_loader_have_parts(tokenizer: bpe.Tokenizer, workers: int, context: str | None) -> None:
    data = pytest.importorskip("torch.utils.data", reason="needs torch")
    encoder = StreamingEncoder(TEXTS, tokenizer, 3, append="<|end|>")
    stream = torch_batches(encoder, 8)
    loader = data.DataLoader(
        stream, batch_size=None, num_workers=workers, multiprocessing_context=context, persistent_workers=workers > 0
    )
    count = max(workers, 1)
    expected = [row for part in range(count) for row in expected_rows(tokenizer, TEXTS[part::count], 3)]
    for _ in range(2):
        got = [json.dumps(row["input_ids"]) for row in rows_of(loader)]
        assert sorted(got) == sorted(json.dumps(row["input_ids"]) for row in expected)


@pytest.mark.filterwarnings("ignore:This DataLoader will create", "ignore:.*use of fork.*")
@pytest.mark.parametrize("workers", [0, 2])
def test_ranks_have_equally_many_batches(tokenizer: bpe.Tokenizer, workers: int) -> None:
    """They would have 3 and 25 batches, so that the first rank would wait for the second without end."""
    data = pytest.importorskip("torch.utils.data", reason="needs torch")
    texts = [text for i in range(20) for text in ("low", "lower lowest " * 9)]
    encoder = StreamingEncoder(texts, tokenizer, 3)
    with pytest.raises(ValueError, match=r"epochs is 1 and world is 2; each rank .* pass epochs=None"):
        torch_batches(encoder, 8, world=2)
    with pytest.raises(ValueError, match="drop_last is True, but source is a StreamingEncoder"):
        torch_batches(encoder, 8, drop_last=True)
    for rank in range(2):
        stream = torch_batches(encoder, 8, rank=rank, world=2, epochs=None)
        batches = iter(data.DataLoader(stream, batch_size=None, num_workers=workers))
        assert {len(next(batches)["labels"]) for _ in range(60)} == {4}
        del batches


def test_a_part_is_read_again(tokenizer: bpe.Tokenizer) -> None:
    """The rows of several epochs are those of a longer part, also after each of their states."""
    encoder = StreamingEncoder(TEXTS, tokenizer, 3, append="<|end|>", fields=FIELDS)
    expected = expected_rows(tokenizer, TEXTS * 3, 3)
    batches, got = encoder.batches(2, epochs=3), []
    states = [batches.state_dict()]
    for batch in batches:
        got += rows_of([batch])
        states.append(json.loads(json.dumps(batches.state_dict())))
    assert [row["input_ids"] for row in got] == [row["input_ids"] for row in expected]
    for index in range(0, len(states), 7):  # states of all three epochs
        assert rows_of(encoder.batches(2, state=states[index], epochs=3)) == got[2 * index :]
    assert encoder.batches(2, state=states[-1], epochs=3).at_end()
    endless = encoder.batches(5, epochs=None)
    assert sum(len(next(endless)["labels"]) for _ in range(100)) == 500
    with pytest.raises(ValueError, match="part 1 of 2 of the sources has no ids to read again; use fewer ranks"):
        next(StreamingEncoder(["low"], tokenizer, 3).batches(1, rank=1, world=2, epochs=None))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"remainder": [999999]}, ValueError, "state's remainder is 999999; it must be from 0 to"),
        ({"remainder": [1.5]}, TypeError, "state's remainder is 1.5"),
        ({"remainder": None}, TypeError, "remainder is None; it must be the list"),
        ({"skip": 1.9}, TypeError, "skip is 1.9"),
        ({"skip": -1}, ValueError, "skip is -1"),
        ({"skip": 10**6, "remainder": []}, ValueError, "there are [0-9]+ ids after its place"),
        ({"documents": True}, TypeError, "documents is True"),
        ({"epoch": "0"}, TypeError, "epoch is '0'"),
        ({"place": [0.5, 0, 0, 0, 0, 0]}, TypeError, "place is 0.5"),
        ({"place": None, "remainder": [3], "skip": 0}, ValueError, "is none that state_dict"),
        ({"place": [1]}, TypeError, "place is"),  # as an earlier version had it
        ({"ended": 1}, ValueError, "is none that state_dict"),
        ({"skip": 1, "remainder": [3]}, ValueError, "is none that state_dict"),
        ({"documents": 2**63}, ValueError, "the state's documents is 9223372036854775808; it must be from 0 to"),
    ],
)
def test_damaged_states_are_refused(
    tokenizer: bpe.Tokenizer, change: dict[str, Any], error: type[Exception], message: str
) -> None:
    """With the checksum of the state before, and with a new one."""
    batches = StreamingEncoder(TEXTS, tokenizer, 3).batches(2)
    next(batches)
    changed = batches.state_dict() | change
    with pytest.raises(ValueError, match="does not have its checksum"):
        StreamingEncoder(TEXTS, tokenizer, 3).batches(2, state=changed)
    del changed["checksum"]
    with pytest.raises(error, match=message):
        next(StreamingEncoder(TEXTS, tokenizer, 3).batches(2, state=add_checksum(changed)))


def test_a_state_for_other_numbers_of_workers_is_refused(tokenizer: bpe.Tokenizer) -> None:
    pytest.importorskip("torch.utils.data", reason="needs torch")
    stream = torch_batches(StreamingEncoder(TEXTS, tokenizer, 3), 4)
    assert stream.state_dict() == {}
    stream.load_state_dict({})
    with pytest.raises(ValueError, match=r"consumed is 5; the state of a StreamingEncoder belongs to each worker"):
        stream.state_dict(consumed=5)
    with pytest.raises(ValueError, match=r"resume with as many ranks and workers, or write shards"):
        stream.load_state_dict({"position": 5})


@pytest.mark.filterwarnings("ignore:This DataLoader will create", "ignore:'set_vital' is", "ignore:.*use of fork.*")
@pytest.mark.parametrize("workers", [0, 2])
def test_torchdata_saves_the_state_of_each_worker(tokenizer: bpe.Tokenizer, workers: int) -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader", reason="needs torchdata")

    def made() -> Any:
        stream = torch_batches(StreamingEncoder(TEXTS, tokenizer, 3, append="<|end|>"), 4)
        return stateful.StatefulDataLoader(stream, batch_size=None, num_workers=workers)

    first_loader = made()
    uninterrupted = rows_of(first_loader)
    ended = made()
    ended.load_state_dict(first_loader.state_dict())
    assert rows_of(ended) == []
    loader = made()
    iterator = iter(loader)
    got = rows_of([next(iterator) for _ in range(7)])
    state = pickle.loads(pickle.dumps(loader.state_dict()))
    del iterator
    again = made()
    again.load_state_dict(state)
    assert got + rows_of(again) == uninterrupted


def test_a_batch_copies_only_its_rows_of_a_long_document(tokenizer: bpe.Tokenizer) -> None:
    """Each batch of a document of n ids took memory and time for n ids."""
    stream = StreamingEncoder(["low lower " * 200_000], tokenizer, length=64).batches(2)
    next(stream)
    tracemalloc.start()
    try:
        for _ in range(5):
            next(stream)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_added_tokens_are_found_in_files_as_in_lists(tmp_path: Path) -> None:
    tok = bpe.train(texts=["low lower lowest"], vocab_size=258).with_tokens(added=["<new>"], special=["<|end|>"])
    text = "low<new>er<|end|>" * 5
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    for allowed in ((), "all", {"<|end|>"}):
        expected = tok.encode(text, allowed_special=allowed)[:4].tolist()
        for source in (bpe.Sources(tmp_path / "a.txt"), [text]):
            encoder = StreamingEncoder(source, tok, 4, fields=("input_ids",), allowed_special=allowed)
            assert next(encoder.batches(1))["input_ids"][0].tolist() == expected
