"""`TokenShards` against lists, folders without a manifest, splits, pickles, and the search for documents by a token."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shard_corpus import write_divided_shards
from shard_readers import flatten
from strategies import examples

import bpe
from bpe.data import TokenShards, convert_shards, write_shards
from bpe.data.formats import SHARD_FORMATS
from bpe.data.formats._mapping import FileMapping

MAPPED = ["native", "megatron", "nanogpt", "llmc", "datatrove", "dolma"]
RECORDED = ["native", "megatron", "datatrove", "dolma"]
END = 999

documents = st.lists(st.one_of(st.just([]), st.lists(st.integers(0, 300), max_size=12)), max_size=25)


def check(shards: TokenShards, docs: list[list[int]]) -> None:
    """Compare every method with the naive lists."""
    ids = flatten(docs)
    starts = np.cumsum([0, *map(len, docs)]).tolist()
    assert (shards.n_documents, shards.n_tokens) == (len(docs), len(ids))
    assert len(shards.documents) == len(docs)
    assert [document.tolist() for document in shards.documents] == docs
    assert shards.tokens(0, len(ids)).tolist() == ids
    assert shards.document_bounds(0, len(docs)).tolist() == starts
    rng = np.random.default_rng(len(ids))
    for _ in range(20):
        a, b = sorted(rng.integers(0, len(ids) + 1, 2).tolist())
        assert shards.tokens(a, b).tolist() == ids[a:b]
        a, b = sorted(rng.integers(0, len(docs) + 1, 2).tolist())
        assert shards.document_bounds(a, b).tolist() == starts[a : b + 1]
        assert [document.tolist() for document in shards.documents[a:b]] == docs[a:b]
    for i in range(-len(docs), len(docs)):
        assert shards.documents[i].tolist() == docs[i]
    for part in (slice(None, None, -1), slice(1, None, 3), slice(-3, 0, -2), slice(5, 2)):
        assert [document.tolist() for document in shards.documents[part]] == docs[part]
        assert [document.tolist() for document in shards.documents[part][::-1]] == docs[part][::-1]
    document_of_token = [index for index, document in enumerate(docs) for _ in document]
    assert [shards.document_at(position) for position in range(len(ids))] == document_of_token


@pytest.mark.parametrize("format_name", RECORDED)
@examples(4)
@given(docs=documents, size=st.one_of(st.none(), st.integers(1, 30)), offset=st.sampled_from([0, 70_000]))
def test_like_lists(tmp_path_factory: Any, format_name: str, docs: Any, size: Any, offset: int) -> None:
    docs = [[token_id + offset for token_id in document] for document in docs]
    folder = tmp_path_factory.mktemp("shards")
    write_shards(docs, folder, format=format_name, shard_size=size)
    shards = TokenShards(folder)
    assert shards.format == format_name
    check(shards, docs)
    check(pickle.loads(pickle.dumps(shards)), docs)
    (folder / "manifest.json").unlink()
    without_manifest = TokenShards(folder)
    assert without_manifest.format == format_name
    assert without_manifest.fingerprint == TokenShards(folder).fingerprint != shards.fingerprint
    check(without_manifest, docs)


@pytest.mark.parametrize("format_name", ["nanogpt", "llmc"])
@examples(7)
@given(docs=documents, size=st.one_of(st.none(), st.integers(1, 30)))
def test_documents_by_their_end_of_text(tmp_path_factory: Any, format_name: str, docs: Any, size: Any) -> None:
    folder = tmp_path_factory.mktemp("shards")
    manifest = write_shards(docs, folder, format=format_name, shard_size=size, end_of_text=END)
    framed = [[*document, END] if format_name == "nanogpt" else [END, *document] for document in docs]
    shards = TokenShards(folder, end_of_text=END)
    check(shards, framed)
    check(pickle.loads(pickle.dumps(shards)), framed)
    whole = TokenShards(folder)  # without it, a shard is one document
    assert whole.n_documents == sum(shard.tokens > 0 for shard in manifest.shards)
    assert whole.tokens(0, whole.n_tokens).tolist() == flatten(framed)


def test_ids_outside_documents_are_documents_too(tmp_path: Path) -> None:
    write_shards([[1, END, 2, 3, END, 4]], tmp_path / "a", format="nanogpt")
    assert [d.tolist() for d in TokenShards(tmp_path / "a", end_of_text=END).documents] == [[1, END], [2, 3, END], [4]]
    write_shards([[1, END, 2, 3, END, 4]], tmp_path / "b", format="llmc")
    assert [d.tolist() for d in TokenShards(tmp_path / "b", end_of_text=END).documents] == [[1], [END, 2, 3], [END, 4]]


def test_arrays_are_views_and_read_only(tmp_path: Path) -> None:
    write_shards([[1, 2], [3]], tmp_path, shard_size=2)
    shards = TokenShards(tmp_path)
    document = shards.documents[0]
    assert type(document) is np.ndarray
    assert np.shares_memory(document, shards.shards[0].ids)
    assert np.shares_memory(shards.tokens(0, 2), shards.shards[0].ids)
    assert not document.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        document[0] = 7


def test_errors_of_access(tmp_path: Path) -> None:
    write_shards([[1, 2], [3]], tmp_path)
    shards = TokenShards(tmp_path)
    nested: list[Any] = []
    for _ in range(2000):
        nested = [nested]
    for call, message in [
        (lambda: shards.documents[2], "index 2 is out of range; there are 2 documents"),
        (lambda: shards.documents[-3], "index -3 is out of range"),
        (lambda: shards.tokens(0, 4), "tokens 0 to 4 are out of range; there are 3 tokens"),
        (lambda: shards.tokens(2, 1), "tokens 2 to 1"),
        (lambda: shards.tokens(-1, 1), "tokens -1 to 1"),
        (lambda: shards.tokens(-1, nested), "tokens -1 to .* are out of range"),
        (lambda: shards.document_at(3), "position 3 is out of range"),
        (lambda: shards.document_bounds(0, 3), "documents 0 to 3 are out of range"),
        (lambda: shards.document_bounds(-1, nested), "documents -1 to .* are out of range"),
    ]:
        with pytest.raises(IndexError, match=message):
            call()
    with pytest.raises(TypeError, match="index is 'a', a str; it must be an int or a slice"):
        shards.documents["a"]


def test_masks(tmp_path: Path) -> None:
    write_shards([([1, 2], [0, 1]), ([3], [1])], tmp_path / "a", masks=True, shard_size=2)
    shards = TokenShards(tmp_path / "a")
    assert shards.has_masks
    assert shards.masks(0, 3).tolist() == [0, 1, 1]
    assert shards.masks(1, 2).tolist() == [1]
    assert shards.masks(1, 1).tolist() == []
    write_shards([[1]], tmp_path / "b")
    assert not TokenShards(tmp_path / "b").has_masks
    assert TokenShards(tmp_path / "b").masks(0, 1) is None
    (tmp_path / "a" / "manifest.json").unlink()
    (tmp_path / "a" / "tokens-00001.mask.npy").unlink()
    with pytest.raises(bpe.FormatError, match="some of its shards have loss masks and some have none"):
        TokenShards(tmp_path / "a")


# Files and folders ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format_name", MAPPED)
def test_thousands_of_shards_need_no_open_files(format_name: str, tmp_path: Path) -> None:
    docs = [[END, i] if format_name == "llmc" else [i, END] for i in range(30)]
    write_shards(docs, tmp_path, shard_size=2, format=format_name)
    before = len(os.listdir("/dev/fd"))
    shards = TokenShards(tmp_path, end_of_text=END if format_name in ("nanogpt", "llmc") else None)
    assert len(os.listdir("/dev/fd")) == before
    assert len(shards.shards) == 30
    assert [document.tolist() for document in shards.documents] == docs


@pytest.mark.parametrize(("start", "size"), [(0, 1), (0, 20_000), (1, 4096), (4096, 1), (8191, 2), (12_345, 7655)])
def test_a_mapping_has_the_bytes_of_the_file(start: int, size: int, tmp_path: Path) -> None:
    data = np.random.default_rng(0).bytes(20_000)
    (tmp_path / "x").write_bytes(data)
    with open(tmp_path / "x", "rb") as file:
        view = memoryview(FileMapping(file.fileno(), start, size))  # lives longer than the file object and the mapping
    assert view.readonly
    assert view == data[start : start + size]


def test_a_mapping_that_cannot_be(tmp_path: Path) -> None:
    with open(tmp_path / "x", "w+b") as file:
        for start, size in ((0, 0), (1, 2**63 - 1), (2**63, 1), (2**63 - 1, 2**63 - 1)):
            with pytest.raises(ValueError, match="cannot be mapped; there must be at least one"):
                FileMapping(file.fileno(), start, size)
        with pytest.raises(OSError, match=r"Cannot allocate memory; see sysctl vm.max_map_count|Invalid argument"):
            FileMapping(file.fileno(), 0, 1 << 62)
        closed = file.fileno()
    with pytest.raises(OSError, match="Bad file descriptor"):
        FileMapping(closed, 0, 1)


@pytest.mark.parametrize("format_name", MAPPED)
def test_one_file(format_name: str, tmp_path: Path) -> None:
    write_shards([[1, 2], [3]], tmp_path, format=format_name)
    path = tmp_path / SHARD_FORMATS[format_name].name_files("tokens-00000")[0]
    shards = TokenShards(path)
    assert shards.format == format_name
    assert shards.tokens(0, 3).tolist() == [1, 2, 3]
    if format_name == "megatron":  # by the index, or by the common prefix, as Megatron names a dataset
        assert TokenShards(path.with_suffix(".idx")).fingerprint == shards.fingerprint
        assert TokenShards(path.with_suffix("")).fingerprint == shards.fingerprint
    with pytest.raises(ValueError, match=r"split is 'train', but .* is not a folder"):
        TokenShards(path, split="train")


def test_a_file_without_a_known_format(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_bytes(b"abc")
    with pytest.raises(bpe.FormatError, match="not a shard of a known format; its name must end in"):
        TokenShards(tmp_path / "x.txt")
    with pytest.raises(bpe.FormatError, match=r"neither a manifest\.json nor a shard"):
        TokenShards(tmp_path)
    with pytest.raises(FileNotFoundError):
        TokenShards(tmp_path / "absent.bin")


def test_formats_do_not_mix(tmp_path: Path) -> None:
    write_shards([[1]], tmp_path / "a", format="datatrove")
    write_shards([[1]], tmp_path / "b", format="nanogpt")
    shutil.copy(tmp_path / "b" / "tokens-00000.bin", tmp_path / "a")
    (tmp_path / "a" / "manifest.json").unlink()
    with pytest.raises(bpe.FormatError, match="has shards of nanogpt and datatrove; a folder without a manifest must"):
        TokenShards(tmp_path / "a")


@pytest.mark.parametrize("format_name", ["parquet", "arrow"])
def test_columns_cannot_be_mapped(format_name: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    write_shards([[1]], tmp_path, format=format_name)
    with pytest.raises(
        ValueError, match=rf'{format_name} shards cannot be memory-mapped.*convert_shards\(path, out, "native"'
    ):
        TokenShards(tmp_path)


def test_ids_that_the_command_line_writes(tmp_path: Path) -> None:
    """`bpe encode -o ids.npy` writes the native layout, with uint32 ids."""
    tok = bpe.train(texts=["low lower lowest"], vocab_size=260)
    tok.save(tmp_path / "tokenizer.json")
    (tmp_path / "a.txt").write_text("low\nlower\n")
    from bpe.cli import main

    assert main(["encode", str(tmp_path / "a.txt"), "-t", str(tmp_path / "tokenizer.json"), "--per-line", "-o",
                 str(tmp_path / "ids.npy"), "--quiet"]) == 0  # fmt: skip
    shards = TokenShards(tmp_path / "ids.npy")
    assert [tok.decode(ids) for ids in shards.documents] == ["low\n", "lower\n"]
    assert shards.dtype == np.uint32


def test_an_unfinished_folder_is_refused(tmp_path: Path) -> None:
    write_shards([[1]], tmp_path)
    (tmp_path / "manifest.json").rename(tmp_path / "journal.jsonl")
    with pytest.raises(bpe.FormatError, match="its shards are not finished: run the same command again"):
        TokenShards(tmp_path)


@pytest.mark.parametrize("format_name", MAPPED)
@pytest.mark.parametrize("with_manifest", [True, False])
def test_splits(format_name: str, with_manifest: bool, tmp_path: Path) -> None:
    write_divided_shards(tmp_path, format_name)
    if not with_manifest:
        (tmp_path / "manifest.json").unlink()
    with pytest.raises(ValueError, match="has a training and a validation part; pass split='train', 'val' or 'all'"):
        TokenShards(tmp_path)
    parts = {split: TokenShards(tmp_path, split=split) for split in ("train", "val", "all")}
    tokens = {split: part.tokens(0, part.n_tokens).tolist() for split, part in parts.items()}
    assert tokens == {"train": [5] * 5, "val": [2] * 2, "all": [5] * 5 + [2] * 2}
    assert len({part.fingerprint for part in parts.values()}) == 3
    unpickled = pickle.loads(pickle.dumps(parts["val"]))
    assert unpickled.tokens(0, 2).tolist() == [2, 2]
    with pytest.raises(ValueError, match=r"split is 'test', but .* has only a training and a validation part"):
        TokenShards(tmp_path, split="test")
    with pytest.raises(ValueError, match="split is 'dev'; it must be"):
        TokenShards(tmp_path, split="dev")


@pytest.mark.parametrize(("names", "splits"), [
    (["fineweb_train_000001.bin", "fineweb_val_000000.bin"], ["train", "val"]),
    (["tiny_shakespeare_train.bin", "tiny_shakespeare_val.bin"], ["train", "val"]),
    (["train.bin", "test.bin", "dev.bin"], ["train", "test", "val"]),
    (["train-00000-of-00002.npy.bin", "validation-00000-of-00001.bin"], ["train", "val"]),
    (["wiki_trainset.bin", "wiki_ValSet.bin", "wiki_testdata.bin"], ["train", "val", "test"]),
    (["fineweb_000000.bin", "fineweb_valid_000000.bin"], [None, "val"]),
    (["books.bin", "books.eval.bin"], [None, "val"]),
    (["a-held-out.bin", "a.bin"], ["val", None]),
    (["trainData.bin", "testData.bin", "VAL.bin"], ["train", "test", "val"]),
    (["my_test_train.bin", "my_test_val.bin"], ["train", "val"]),
    (["train0.bin", "Val0.bin"], ["train", "val"]),
    (["train.bin", "more.bin"], ["train", None]),
])  # fmt: skip
def test_names_of_other_tools(names: list[str], splits: list[str | None], tmp_path: Path) -> None:
    """A mixture is refused until the call says which part; what has no name beside validation is for training."""
    for index, name in enumerate(names):
        np.array([index], dtype=np.uint16).tofile(tmp_path / name)
    with pytest.raises(ValueError, match=r"part; pass split='train'.*'all'"):
        TokenShards(tmp_path)
    expected: dict[str, list[int]] = {"all": [*range(len(names))]}
    for index, split_in_name in enumerate(splits):
        expected_split = split_in_name or ("train" if "train" not in splits else None)
        if expected_split is not None:
            expected.setdefault(expected_split, []).append(index)
    for split, indices in expected.items():
        shards = TokenShards(tmp_path, split)
        assert sorted(shards.tokens(0, shards.n_tokens).tolist()) == indices
    convert_shards(tmp_path, tmp_path / "out", drop_boundaries=True)  # the manifest has them
    for split, indices in expected.items():
        shards = TokenShards(tmp_path / "out", split)
        assert sorted(shards.tokens(0, shards.n_tokens).tolist()) == indices


def test_names_that_are_no_mixture(tmp_path: Path) -> None:
    for folder, names in (
        ("a", ["latest-0.bin", "contrained-1.bin", "developer-2.bin"]),
        ("b", ["test_run_0.bin", "test_run_1.bin"]),
        ("validation", ["x.bin", "y.bin"]),
    ):
        (tmp_path / folder).mkdir()
        for name in names:
            np.array([1], dtype=np.uint16).tofile(tmp_path / folder / name)
        assert TokenShards(tmp_path / folder).n_tokens == len(names)
    assert TokenShards(tmp_path / "validation", "val").n_tokens == 2  # by the name of the folder
    with pytest.raises(ValueError, match=r"split is 'train', but .* has only a validation part"):
        TokenShards(tmp_path / "validation", "train")
    np.array([1], dtype=np.uint16).tofile(tmp_path / "b" / "test_train_val.bin")
    with pytest.raises(ValueError, match=r"test_train_val.bin is named for train and val, beside shards with other"):
        TokenShards(tmp_path / "b")


def test_a_split_that_does_not_exist(tmp_path: Path) -> None:
    write_shards([[1]], tmp_path)
    with pytest.raises(ValueError, match=r"split is 'val', but .* is not divided; pass split=None"):
        TokenShards(tmp_path, split="val")
    assert TokenShards(tmp_path, split="all").n_tokens == 1


# Pickles, fingerprints, processes -------------------------------------------------------------------------------------


def test_the_fingerprint_is_of_the_content(tmp_path: Path) -> None:
    for name, docs in (("a", [[1, 2], [3]]), ("b", [[1, 2], [3]]), ("c", [[1, 2], [4]]), ("d", [[1], [2, 3]])):
        write_shards(docs, tmp_path / name)
    prints = {name: TokenShards(tmp_path / name).fingerprint for name in "abcd"}
    assert prints["a"] == prints["b"]
    assert len({*prints.values()}) == 3


def test_a_pickle_notices_other_shards(tmp_path: Path) -> None:
    write_shards([[1, 2]], tmp_path / "a")
    data = pickle.dumps(TokenShards(tmp_path / "a"))
    assert len(data) < 1000
    shutil.rmtree(tmp_path / "a")
    write_shards([[1, 3]], tmp_path / "a")
    with pytest.raises(ValueError, match="have changed since this object was pickled"):
        pickle.loads(data)


def first_document(shards: TokenShards) -> list[int]:
    return shards.documents[0].tolist()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this platform has no {method}")
    write_shards([[1, 2]], tmp_path)
    monkeypatch.chdir(tmp_path)
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert pool.map(first_document, [TokenShards(".")]) == [[1, 2]]


# A shard in batches ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format_name", list(SHARD_FORMATS))
@examples(7)
@given(docs=documents, max_tokens=st.integers(1, 20), masks=st.booleans())
def test_batches_of_a_shard(tmp_path_factory: Any, format_name: str, docs: Any, max_tokens: int, masks: bool) -> None:
    if format_name in ("parquet", "arrow"):
        pytest.importorskip("pyarrow")
    masks = masks and "masks" in SHARD_FORMATS[format_name].features
    folder = tmp_path_factory.mktemp("shards")
    masked_documents = [(ids, [token_id % 2 for token_id in ids]) for ids in docs]
    write_shards(masked_documents if masks else docs, folder, format=format_name, masks=masks)
    shard = SHARD_FORMATS[format_name].open(folder / SHARD_FORMATS[format_name].name_files("tokens-00000")[0])
    assert shard.has_masks == masks
    documents_read: list[tuple[list[int], list[int]]] = []
    ended = True
    for batch in shard.batches(max_tokens):
        assert len(batch.ids) <= max_tokens
        assert int(batch.lengths.sum()) == len(batch.ids)
        assert batch.begins_document == ended
        assert (batch.mask is not None) == masks
        position = 0
        for token_id, length in enumerate(batch.lengths.tolist()):
            if token_id or batch.begins_document:
                documents_read.append(([], []))
            documents_read[-1][0].extend(batch.ids[position : position + length].tolist())
            if batch.mask is not None:
                documents_read[-1][1].extend(batch.mask[position : position + length].tolist())
            position += length
        ended = batch.ends_document
    assert ended
    if format_name in ("nanogpt", "llmc"):
        assert flatten(ids for ids, _ in documents_read) == flatten(docs)
    else:
        assert documents_read == (masked_documents if masks else [(ids, []) for ids in docs])


# Megatron datasets of other writers -----------------------------------------------------------------------------------


def test_megatron_documents_of_several_sequences(tmp_path: Path) -> None:
    """`--split-sentences` writes documents of several sequences; documents may be empty."""
    import struct

    lengths, indices = [2, 0, 3, 1], [0, 0, 2, 3, 4, 4]
    ids = np.arange(6, dtype=np.uint16)
    (tmp_path / "x.bin").write_bytes(ids.tobytes())
    pointers = [0, 4, 4, 10]
    (tmp_path / "x.idx").write_bytes(
        b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 8, 4, 6) + struct.pack("<4i", *lengths)
        + struct.pack("<4q", *pointers) + struct.pack("<6q", *indices)
    )  # fmt: skip
    check(TokenShards(tmp_path / "x"), [[], [0, 1], [2, 3, 4], [5], []])
