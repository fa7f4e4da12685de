"""Shuffled shards and the train/validation split: every document exactly once, and where it belongs."""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shard_corpus import make_texts, open_sources, read_rows, small_groups, tokenizer, write_corpus

from bpe.corpus._content_hash import hash_spans
from bpe.data import encode_shards, merge_manifests, verify
from bpe.data.grouping import choose_validation
from bpe.data.shuffling import Buckets, compute_document_keys, count_buckets, find_buckets, gather_documents

__all__ = ["small_groups", "tokenizer"]  # fixtures


def mixed(word: int) -> int:
    """SplitMix64 in Python's integers."""
    mask = (1 << 64) - 1
    word = (word + 0x9E3779B97F4A7C15) & mask
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & mask
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & mask
    return word ^ (word >> 31)


@given(st.integers(0, 1 << 80), st.integers(0, 99), st.integers(0, 1 << 40), st.integers(0, 1 << 40))
def test_keys(seed, part, file, index):
    key = mixed(seed & ((1 << 64) - 1))
    for word in (seed >> 64, part, 100, file, index):
        key = mixed(key ^ word)
    assert compute_document_keys(seed, (part, 100), np.array([file]), np.array([index])).tolist() == [key]


@given(st.lists(st.integers(0, (1 << 64) - 1), max_size=20), st.integers(1, 1 << 20))
def test_buckets_of_keys(keys, count):
    assert find_buckets(np.array(keys, dtype=np.uint64), count).tolist() == [key * count >> 64 for key in keys]


@given(st.lists(st.integers(0, 300), max_size=30), st.randoms())
def test_gather(sizes, random):
    ids = np.arange(sum(sizes))
    lengths = np.array(sizes, dtype=np.int64)
    starts = np.cumsum(lengths) - lengths
    order = list(range(len(sizes)))
    random.shuffle(order)
    expected = [position for row in order for position in range(starts[row], starts[row] + sizes[row])]
    rows = np.array(order, dtype=np.int64)
    assert gather_documents(ids, starts[rows], lengths[rows]).tolist() == expected


def test_a_document_that_is_longer_than_a_batch(tmp_path, monkeypatch):
    monkeypatch.setattr("bpe.data.shuffling._BATCH_IDS", 10)
    monkeypatch.setattr("bpe.data.shuffling._MAX_READ_IDS", 5)  # mapped rather than read
    buckets = Buckets(tmp_path, 1, np.dtype("<u2"))
    buckets.create()
    lengths = np.array([3, 25, 0, 10, 4])
    buckets.append(np.arange(42), lengths, np.array([50, 40, 30, 20, 10], dtype=np.uint64), None)
    parts = list(buckets.sort_documents(0))
    assert np.concatenate([part[0] for part in parts]).tolist() == [
        *range(38, 42),
        *range(28, 38),
        *range(3, 28),
        0,
        1,
        2,
    ]
    shapes = [(part[1].tolist(), part[2], part[3]) for part in parts]
    assert shapes == [
        ([4], True, True), ([10, 0], True, True), ([10], True, False), ([10], False, False), ([5], False, True),
        ([3], True, True),
    ]  # fmt: skip


@given(st.integers(0, 1 << 50), st.integers(1, 4096))
def test_the_number_of_buckets(size, shards):
    count = count_buckets(size, shards)
    assert count % shards == 0
    assert max(16, shards) <= count < 1024 + shards


@pytest.mark.usefixtures("small_groups")
def test_shuffled_shards_have_every_document_in_the_order_of_its_key(tmp_path, tokenizer):
    texts = make_texts(21, 300)
    paths = write_corpus(tmp_path / "c", texts)
    manifest = encode_shards(open_sources(paths), tokenizer, tmp_path / "out", seed=9, shards=4)
    positions = [(file, index_in_file) for file in range(3) for index_in_file in range(100)]
    keys = compute_document_keys(9, (0, 1), *(np.array(column) for column in zip(*positions, strict=True)))
    order = np.argsort(keys, kind="stable")
    rows = read_rows(tmp_path / "out")
    assert rows == [tokenizer.encode(texts[index]).tolist() for index in order.tolist()]
    sizes = np.bincount(find_buckets(keys, 4), minlength=4).tolist()
    assert [shard.documents for shard in manifest.shards] == sizes
    assert not (tmp_path / "out" / ".buckets").exists()
    encode_shards(open_sources(paths), tokenizer, tmp_path / "other", seed=10, shards=4)
    assert read_rows(tmp_path / "other") != rows
    assert Counter(map(tuple, read_rows(tmp_path / "other"))) == Counter(map(tuple, rows))


@pytest.mark.parametrize("options", [{}, {"shards": 2}, {"validation": 0.5}, {"format": "megatron"}])
def test_sources_without_documents_are_shuffled(tmp_path, tokenizer, options, caplog):
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    manifest = encode_shards(empty, tokenizer, tmp_path / "out", seed=1, **options)
    assert (manifest.documents, manifest.shards) == (0, ())
    assert "the sources have no documents" in caplog.text
    assert verify(tmp_path / "out") == []


def test_a_shuffled_part_may_have_no_documents(tmp_path, tokenizer):
    texts = make_texts(24, 20)
    paths = write_corpus(tmp_path / "c", texts, files=1)
    (tmp_path / "empty.txt").write_text("")
    folders = [tmp_path / "out" / str(rank) for rank in range(3)]
    counts = [
        encode_shards(
            open_sources([*paths, tmp_path / "empty.txt"]), tokenizer, folder, seed=1, rank=rank, world=3
        ).documents
        for rank, folder in enumerate(folders)
    ]
    assert 0 in counts
    assert merge_manifests(folders, tmp_path / "out").documents == 20
    assert verify(tmp_path / "out") == []
    assert sorted(read_rows(tmp_path / "out")) == sorted(tokenizer.encode(text).tolist() for text in texts)


@pytest.mark.usefixtures("small_groups")
@pytest.mark.parametrize("options", [{"shard_size": 2000}, {"seed": 4, "shards": 3}, {"format": "megatron"}])
def test_duplicates_are_on_one_side(tmp_path, tokenizer, options):
    texts = make_texts(22, 100) * 3
    paths = write_corpus(tmp_path / "c", texts)
    manifest = encode_shards(open_sources(paths), tokenizer, tmp_path / "out", validation=0.25, **options)
    limit = int(0.25 * 2**64)
    expected = {False: Counter(), True: Counter()}
    for text in texts:
        digest = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
        expected[digest < limit][tuple(tokenizer.encode(text).tolist())] += 1
    assert Counter(map(tuple, read_rows(tmp_path / "out", "train"))) == expected[False]
    assert Counter(map(tuple, read_rows(tmp_path / "out", "val"))) == expected[True]
    assert {shard.split for shard in manifest.shards} == {"train", "val"}
    if "seed" not in options:
        rows_by_split = {False: [], True: []}
        for text in texts:
            digest = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
            rows_by_split[digest < limit].append(tokenizer.encode(text).tolist())
        assert read_rows(tmp_path / "out", "train") == rows_by_split[False]
        assert read_rows(tmp_path / "out", "val") == rows_by_split[True]


def test_all_or_nothing_for_validation(tmp_path, tokenizer):
    paths = write_corpus(tmp_path / "c", ["low", "new", "low"])
    manifest = encode_shards(open_sources(paths), tokenizer, tmp_path / "out", validation=1)
    assert [shard.stem for shard in manifest.shards] == ["val-00000"]
    hashes = hash_spans(b"low", np.array([0]), np.array([3]))
    assert not choose_validation(hashes, 0).any()


def test_nanogpt_has_two_files(tmp_path, tokenizer):
    paths = write_corpus(tmp_path / "c", make_texts(23, 50))
    encode_shards(open_sources(paths), tokenizer, tmp_path / "out", format="nanogpt", validation=0.5, seed=0)
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["manifest.json", "tokenizer.json", "train.bin", "val.bin"]
