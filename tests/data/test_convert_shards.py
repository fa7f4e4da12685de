"""`convert_shards` between any two formats: the same documents, and nothing lost without a word."""

from __future__ import annotations

import os
import pickle
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shard_corpus import END as END_NAME
from shard_corpus import make_texts, open_sources, tokenizer, write_corpus, write_divided_shards
from shard_readers import flatten, read_folder

import bpe
from bpe.data import Manifest, TokenShards, convert_shards, encode_shards, verify, write_shards
from bpe.data import converting as module
from bpe.data.finding import find_shards
from bpe.data.formats import SHARD_FORMATS

__all__ = ["tokenizer"]  # a fixture

END = 7
DOCS = [[1, 2, 3], [], [4, 5], list(range(10, 70)), [], [], [9]] * 3
STREAMS = ("nanogpt", "llmc")
RECORDED = [format_name for format_name in SHARD_FORMATS if format_name not in STREAMS]


def skip_without_arrow(*list_format_names: str) -> None:
    if {"parquet", "arrow"} & {*list_format_names}:
        pytest.importorskip("pyarrow")


def add_end(format_name: str, docs: list[list[int]]) -> list[list[int]]:
    before, after = SHARD_FORMATS[format_name].end_of_text_sides
    return [[END] * before + document + [END] * after for document in docs]


@pytest.mark.parametrize("new", RECORDED)
@pytest.mark.parametrize("old", RECORDED)
def test_formats_with_boundaries(old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without_arrow(old, new)
    monkeypatch.setattr(module, "_BATCH_IDS", 5)  # documents go through in pieces
    first = write_shards(DOCS, tmp_path / "old", format=old, shard_size=50)
    second = convert_shards(tmp_path / "old", tmp_path / "new", new)
    assert read_folder(tmp_path / "new", new) == DOCS
    assert second.format == new
    assert [(s.stem, s.documents, s.tokens) for s in second.shards] == [
        (s.stem, s.documents, s.tokens) for s in first.shards
    ]
    assert convert_shards(tmp_path / "new", tmp_path / "back", old) == first
    (tmp_path / "old" / "manifest.json").unlink()  # a manifest is not needed
    third = convert_shards(tmp_path / "old", tmp_path / "again", new)
    assert third == second


@pytest.mark.parametrize(
    ("old", "new"), [(old, new) for old in SHARD_FORMATS for new in SHARD_FORMATS if {old, new} & {*STREAMS}]
)
def test_formats_without_boundaries(old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without_arrow(old, new)
    monkeypatch.setattr(module, "_BATCH_IDS", 5)
    write_shards(DOCS, tmp_path / "old", format=old, shard_size=50, end_of_text=END)
    if old != new:
        with pytest.raises(ValueError, match=r"(nanogpt|llmc) shards do not record where documents begin; pass end_"):
            convert_shards(tmp_path / "old", tmp_path / "new", new)
        assert not (tmp_path / "new").exists()
    convert_shards(tmp_path / "old", tmp_path / "new", new, end_of_text=END)
    documents = read_folder(tmp_path / "new", new)
    if new == "nanogpt":
        assert flatten(documents) == flatten(add_end("nanogpt", DOCS))
    elif new == "llmc":
        assert flatten(documents) == flatten(add_end("llmc", DOCS))
    else:
        assert documents == add_end(old, DOCS)


#: Documents that have the end-of-text id at either end, at both or at none.
ENDED = [[END], [1, 2, END], [END, 3], [END, 4, 5, END], [], [6], [END, END], [*range(10, 40), END], [END, 8], [8]]


def remove_end(document: list[int]) -> list[int]:
    document = document[1:] if document[:1] == [END] else document
    return document[:-1] if document[-1:] == [END] else document


def read_documents(folder: Path) -> list[list[int]]:
    listing = find_shards(folder)
    documents: list[list[int]] = []
    for listed_shard in listing.shards:
        for batch in SHARD_FORMATS[listing.format].open(listed_shard.path, end_of_text=END).batches():
            bounds = np.cumsum([0, *batch.lengths]).tolist()
            documents += (batch.ids[a:b].tolist() for a, b in pairwise(bounds))
    return documents


@pytest.mark.parametrize("new", SHARD_FORMATS)
@pytest.mark.parametrize("old", SHARD_FORMATS)
def test_documents_stay_the_same_between_all_formats(
    old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their number and, but for the end-of-text id at their ends, their ids; all their ids where boundaries are."""
    skip_without_arrow(old, new)
    monkeypatch.setattr(module, "_BATCH_IDS", 3)
    write_shards(ENDED, tmp_path / "old", format=old, shard_size=20, end_of_text=END if old in STREAMS else None)
    old_documents = read_documents(tmp_path / "old")
    assert [*map(remove_end, old_documents)] == [*map(remove_end, ENDED)]
    convert_shards(tmp_path / "old", tmp_path / "new", new, end_of_text=END, shard_size=7 if len(old) % 2 else None)
    new_documents = read_documents(tmp_path / "new")
    assert [*map(remove_end, new_documents)] == [*map(remove_end, old_documents)]
    if new in RECORDED:
        assert new_documents == old_documents
    else:
        assert new_documents == add_end(new, [*map(remove_end, old_documents)])


@pytest.mark.parametrize("format_name", STREAMS)
def test_the_end_of_text_inside_a_document_is_refused(format_name: str, tmp_path: Path) -> None:
    docs = [[1], [2, END, 3], [END, END, END]]
    for document in docs[1:]:
        message = f"document 1 has the end-of-text id 7 inside, where {format_name} shards would end it; leave end_of"
        with pytest.raises(ValueError, match=message):
            write_shards([[1], document], tmp_path / "a", format=format_name, end_of_text=END)
        assert os.listdir(tmp_path / "a") == []
    write_shards(docs, tmp_path / "b")
    with pytest.raises(ValueError, match=r"document 1 has .*; choose a format that records .* or pass drop_boundaries"):
        convert_shards(tmp_path / "b", tmp_path / "c", format_name, end_of_text=END)
    assert os.listdir(tmp_path / "c") == []
    convert_shards(tmp_path / "b", tmp_path / "c", format_name, end_of_text=END, drop_boundaries=True)
    assert len(read_documents(tmp_path / "c")) > 3


@pytest.mark.parametrize("name", ["a:1.bin", "a\\1.bin", os.fsdecode(b"a\xff.bin")])
def test_names_that_no_manifest_can_have(name: str, tmp_path: Path) -> None:
    np.array([1], dtype=np.uint16).tofile(tmp_path / name)
    with pytest.raises(ValueError, match="has a name that no manifest can have: rename it"):
        convert_shards(tmp_path, tmp_path / "out", drop_boundaries=True)
    assert not (tmp_path / "out").exists()


def test_shards_with_dots_in_their_names_do_not_replace_each_other(tmp_path: Path) -> None:
    for name, ids in (("a.1.bin", [1, 2]), ("a.2.bin", [3])):
        np.array(ids, dtype=np.uint16).tofile(tmp_path / name)
    new = convert_shards(tmp_path, tmp_path / "out", drop_boundaries=True)
    assert [shard.stem for shard in new.shards] == ["a.1", "a.2"]
    assert TokenShards(tmp_path / "out").tokens(0, 3).tolist() == [1, 2, 3]


@pytest.mark.parametrize("format_name", STREAMS)
def test_boundaries_are_dropped_where_that_is_said(format_name: str, tmp_path: Path) -> None:
    write_shards(DOCS, tmp_path / "a", shard_size=50)
    convert_shards(tmp_path / "a", tmp_path / "b", format_name, drop_boundaries=True)
    assert flatten(read_folder(tmp_path / "b", format_name)) == flatten(DOCS)
    convert_shards(tmp_path / "b", tmp_path / "c", drop_boundaries=True)
    assert [ids.tolist() for ids in TokenShards(tmp_path / "c").documents] == read_folder(tmp_path / "b", format_name)


def test_masks(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    pairs = [(ids, [number % 2 for number in ids]) for ids in DOCS]
    write_shards(pairs, tmp_path / "a", masks=True, shard_size=50)
    convert_shards(tmp_path / "a", tmp_path / "b", "parquet")
    convert_shards(tmp_path / "b", tmp_path / "c", "arrow")
    assert convert_shards(tmp_path / "c", tmp_path / "d") == Manifest.read(tmp_path / "a")
    shards = TokenShards(tmp_path / "d")
    assert shards.masks(0, shards.n_tokens).tolist() == flatten(mask for _, mask in pairs)
    with pytest.raises(ValueError, match="have loss masks, which megatron cannot hold; pass drop_masks=True, or ch"):
        convert_shards(tmp_path / "a", tmp_path / "e", "megatron")
    convert_shards(tmp_path / "a", tmp_path / "e", "megatron", drop_masks=True)
    assert read_folder(tmp_path / "e", "megatron") == DOCS
    assert not convert_shards(tmp_path / "a", tmp_path / "f", drop_masks=True).masks


def test_another_shard_size(tmp_path: Path) -> None:
    write_shards(DOCS, tmp_path / "a", shard_size=50)
    manifest = convert_shards(tmp_path / "a", tmp_path / "b", shard_size=10**6)
    assert len(manifest.shards) == 1
    assert convert_shards(tmp_path / "b", tmp_path / "c", shard_size=50) == Manifest.read(tmp_path / "a")


def test_the_dtype_comes_from_the_ids(tmp_path: Path) -> None:
    write_shards([[1, 65535]], tmp_path / "a", largest_id=100_000)
    assert convert_shards(tmp_path / "a", tmp_path / "b").dtype == "uint16"
    assert convert_shards(tmp_path / "a", tmp_path / "c", "megatron", largest_id=100_000).dtype == "int32"
    write_shards([[1, 65536]], tmp_path / "d")
    with pytest.raises(ValueError, match="the largest id is 65536; nanogpt shards hold ids up to 65535"):
        convert_shards(tmp_path / "d", tmp_path / "e", "nanogpt", end_of_text=0)
    with pytest.raises(ValueError, match="largest_id is -1"):
        convert_shards(tmp_path / "d", tmp_path / "e", largest_id=-1)
    with pytest.raises(ValueError, match="id 65536 does not fit the shard's dtype, uint16"):
        convert_shards(tmp_path / "d", tmp_path / "e", largest_id=5)
    assert os.listdir(tmp_path / "e") == []


def test_what_the_manifest_says_goes_with_the_shards(tmp_path: Path) -> None:
    tok = bpe.train(texts=["low lower"], vocab_size=258)
    write_shards([[1], [2]], tmp_path / "a", shard_size=1)
    tok.save(tmp_path / "a" / "tokenizer.json")
    old = Manifest.read(tmp_path / "a")
    facts: dict[str, Any] = {"fingerprint": tok.fingerprint, "file": "tokenizer.json"}
    starts = [(0, 0, 0), (0, 5, 1)]
    shards = tuple(module.replace(shard, start=start) for shard, start in zip(old.shards, starts, strict=True))
    module.replace(old, tokenizer=facts, sources={"files": ["a"]}, options={"x": 1}, shards=shards).write(
        tmp_path / "a"
    )
    new = convert_shards(tmp_path / "a", tmp_path / "b", "datatrove")
    assert (new.tokenizer, new.sources, new.options) == (facts, {"files": ["a"]}, {"x": 1})
    assert [shard.start for shard in new.shards] == starts
    assert (tmp_path / "b" / "tokenizer.json").read_bytes() == (tmp_path / "a" / "tokenizer.json").read_bytes()
    assert (tmp_path / "b" / "tokens-00000.ds.metadata").read_text().startswith(f"{tok.fingerprint}|2\n")
    changed = convert_shards(tmp_path / "a", tmp_path / "c", "nanogpt", end_of_text=7)
    assert changed.sources == {}  # the ids are no longer those of the sources
    assert {shard.start for shard in changed.shards} == {None}
    module.replace(old, tokenizer={"file": "../secret"}).write(tmp_path / "a")
    (tmp_path / "secret").write_text("x")
    assert convert_shards(tmp_path / "a", tmp_path / "d").tokenizer == {}


SHUFFLED = {"seed": 5, "shards": 3, "append": END_NAME}
#: What shards are encoded with, what they are converted with, and whether samples of the result can be compared.
CONVERSIONS: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "shuffled, joined": (SHUFFLED, {"format": "nanogpt", "end_of_text": END_NAME}, True),
    "shuffled, resized": (SHUFFLED, {"shard_size": 300}, True),
    "shuffled, divided, resized": ({**SHUFFLED, "validation": 0.3}, {"shard_size": 300}, True),
    "shuffled, the same shards": (SHUFFLED, {"format": "megatron"}, True),
    "in order, joined": ({"shard_size": 300}, {"format": "nanogpt", "drop_boundaries": True}, True),
    "in order, resized": ({"shard_size": 300}, {"shard_size": 500}, True),
    "in order, divided, resized": ({"shard_size": 300, "validation": 0.3}, {"shard_size": 500}, True),
    "boundaries by the end of text": ({"format": "nanogpt"}, {"end_of_text": END_NAME}, True),
    "boundaries by the end of text before": ({"format": "llmc"}, {"end_of_text": END_NAME}, True),
    "boundaries dropped": ({"format": "nanogpt"}, {"drop_boundaries": True}, False),
    "boundaries by another id": ({"format": "nanogpt"}, {"end_of_text": 101}, False),
    "no end of text": ({"format": "nanogpt", "append": None}, {"end_of_text": END_NAME}, False),
}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_sound_conversions_are_sound_and_changed_sources_are_found(
    name: str, tmp_path: Path, tokenizer: bpe.Tokenizer
) -> None:
    encoded, converted, is_compared = CONVERSIONS[name]
    paths = write_corpus(tmp_path / "c", make_texts(41, 60))
    encode_shards(open_sources(paths), tokenizer, tmp_path / "old", **encoded)
    new = convert_shards(tmp_path / "old", tmp_path / "new", **converted)
    assert verify(tmp_path / "new") == []
    assert bool(new.sources) == is_compared
    for path in paths:
        path.write_text(path.read_text().replace("e", "o"))
    assert bool(verify(tmp_path / "new")) == is_compared


def test_documents_that_the_end_of_text_divides_are_not_those_of_the_sources(
    tmp_path: Path, tokenizer: bpe.Tokenizer
) -> None:
    """As many as there were, by chance: a text has the token inside, and another one ends without it."""
    for name, text in (("0.txt", f"low{END_NAME}new"), ("1.txt", "wide")):
        (tmp_path / name).write_text(text)
    paths, options = [tmp_path / "0.txt", tmp_path / "1.txt"], {"append": None, "allowed_special": "all"}
    encode_shards(paths, tokenizer, tmp_path / "old", format="nanogpt", **options)
    new = convert_shards(tmp_path / "old", tmp_path / "new", end_of_text=END_NAME)
    assert (new.documents, new.sources) == (2, {})
    assert verify(tmp_path / "new") == []


def test_splits_and_folders_stay(tmp_path: Path) -> None:

    (tmp_path / "a").mkdir()
    write_divided_shards(tmp_path / "a")
    new = convert_shards(tmp_path / "a", tmp_path / "b", "megatron")
    assert [(shard.split, shard.tokens) for shard in new.shards] == [("train", 5), ("val", 2)]
    again = convert_shards(tmp_path / "b", tmp_path / "c", shard_size=2)
    assert [shard.stem for shard in again.shards] == ["train-00000", "train-00001", "train-00002", "val-00000"]
    # a manifest of parts: the shards stay in their folders
    (tmp_path / "d" / "part-0").mkdir(parents=True)
    part = write_shards([[1, 2]], tmp_path / "d" / "part-0")
    shards = tuple(
        module.replace(
            shard,
            stem=f"part-0/{shard.stem}",
            files=tuple(module.replace(file, name=f"part-0/{file.name}") for file in shard.files),
        )
        for shard in part.shards
    )
    module.replace(part, shards=shards).write(tmp_path / "d")
    parts = convert_shards(tmp_path / "d", tmp_path / "e", "dolma")
    assert [file.name for file in parts.shards[0].files] == ["part-0/tokens-00000.npy", "part-0/tokens-00000.csv.gz"]
    assert TokenShards(tmp_path / "e").tokens(0, 2).tolist() == [1, 2]


def write_with_tokenizer(folder: Path, docs: list[list[int]], **options: Any) -> bpe.Tokenizer:
    """Shards with a copy of a tokenizer, whose end of text is 0."""
    tok = bpe.train(texts=["low lower"], vocab_size=258, special_tokens=["<|endoftext|>"])
    manifest = write_shards(docs, folder, **options)
    tok.save(folder / "tokenizer.json")
    module.replace(manifest, tokenizer={"fingerprint": tok.fingerprint, "file": "tokenizer.json"}).write(folder)
    return tok


def test_nanogpt_gets_one_file_and_the_end_of_text_by_name(tmp_path: Path) -> None:
    write_with_tokenizer(tmp_path / "a", [[1, 2], [3, 0], [], [4]], shard_size=2)
    new = convert_shards(tmp_path / "a", tmp_path / "b", "nanogpt", end_of_text="<|endoftext|>")
    assert [file.name for shard in new.shards for file in shard.files] == ["train.bin"]
    assert np.fromfile(tmp_path / "b" / "train.bin", dtype=np.uint16).tolist() == [1, 2, 0, 3, 0, 0, 4, 0]
    shards = TokenShards(tmp_path / "b", end_of_text="<|endoftext|>")
    assert [ids.tolist() for ids in shards.documents] == [[1, 2, 0], [3, 0], [0], [4, 0]]
    assert pickle.loads(pickle.dumps(shards)).n_documents == 4
    sized = convert_shards(tmp_path / "a", tmp_path / "c", "nanogpt", end_of_text=0, shard_size=2)
    assert len(sized.shards) > 1


def test_both_sides_of_a_split_become_one_file_each(tmp_path: Path) -> None:

    (tmp_path / "a").mkdir()
    write_divided_shards(tmp_path / "a")
    split = convert_shards(tmp_path / "a", tmp_path / "b", "nanogpt", drop_boundaries=True)
    assert [shard.files[0].name for shard in split.shards] == ["train.bin", "val.bin"]


def test_names_of_end_of_text_that_are_refused(tmp_path: Path) -> None:
    write_with_tokenizer(tmp_path / "a", [[1]])
    with pytest.raises(ValueError, match=r"end_of_text is '</s>'; it must be an id, or one of .*\['<\|endoftext\|>'\]"):
        convert_shards(tmp_path / "a", tmp_path / "b", "nanogpt", end_of_text="</s>")
    with pytest.raises(TypeError, match=r"end_of_text is 1\.5, a float"):
        convert_shards(tmp_path / "a", tmp_path / "b", "nanogpt", end_of_text=1.5)  # type: ignore[arg-type]
    write_shards([[1]], tmp_path / "c")
    with pytest.raises(ValueError, match=r"a name, and .* has no copy of its tokenizer .*; pass the id"):
        TokenShards(tmp_path / "c", end_of_text="</s>")


def test_one_file(tmp_path: Path) -> None:
    np.array([1, 2, END, 3], dtype=np.uint16).tofile(tmp_path / "train.bin")
    new = convert_shards(tmp_path / "train.bin", tmp_path / "out", end_of_text=END)
    assert [shard.stem for shard in new.shards] == ["train"]
    assert [ids.tolist() for ids in TokenShards(tmp_path / "out").documents] == [[1, 2, END], [3]]


def test_arguments(tmp_path: Path) -> None:
    write_shards([[1]], tmp_path / "a")
    with pytest.raises(FileExistsError, match=r"has a manifest\.json already"):
        convert_shards(tmp_path / "a", tmp_path / "a", "megatron")
    (tmp_path / "a" / "manifest.json").unlink()
    with pytest.raises(ValueError, match="out is the source's folder"):
        convert_shards(tmp_path / "a", tmp_path / "a", "megatron")
    with pytest.raises(ValueError, match="format is 'x'; it must be one of"):
        convert_shards(tmp_path / "a", tmp_path / "b", "x")
    with pytest.raises(ValueError, match="shard_size is 0"):
        convert_shards(tmp_path / "a", tmp_path / "b", shard_size=0)
    with pytest.raises(FileNotFoundError):
        convert_shards(tmp_path / "absent", tmp_path / "b")
