"""`verify` finds every kind of damage, and `merge_manifests` refuses what are no parts of one corpus."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import threading
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from shard_corpus import END, make_texts, open_sources, read_rows, small_groups, tokenizer, write_corpus

import bpe
from bpe.corpus.sources import Sources
from bpe.data import Manifest, TokenShards, encode_shards, merge_manifests, verify
from bpe.data.formats import SHARD_FORMATS
from bpe.errors import FormatError

__all__ = ["small_groups", "tokenizer"]  # fixtures


@pytest.mark.parametrize("name", sorted(SHARD_FORMATS))
@pytest.mark.parametrize("options", [{"shard_size": 1500}, {"seed": 2, "validation": 0.3}])
def test_sound_shards(tmp_path, tokenizer, name, options, caplog):
    paths = write_corpus(tmp_path / "c", make_texts(31, 80))
    encode_shards(open_sources(paths), tokenizer, tmp_path / "out", format=name, **options)
    assert verify(tmp_path / "out") == []
    assert not caplog.records


# Damage ---------------------------------------------------------------------------------------------------------------


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def append_byte(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


def change_manifest(change: Callable[[dict], None]) -> Callable[[Path], None]:
    def apply(out: Path) -> None:
        value = json.loads((out / "manifest.json").read_text())
        change(value)
        (out / "manifest.json").write_text(json.dumps(value))

    return apply


def rewrite(out: Path, ids: np.ndarray) -> None:
    """Another content of a shard with matching sums, as a program with an error would have written it."""
    path = out / "tokens-00000.npy"
    np.save(path, ids)

    def change(value: dict) -> None:
        file = value["shards"][0]["files"][0]
        file["size"], file["crc32"] = path.stat().st_size, f"{zlib.crc32(path.read_bytes()):08x}"

    change_manifest(change)(out)


def shift_ids(out: Path) -> None:
    ids = np.load(out / "tokens-00000.npy")
    rewrite(out, np.roll(ids, 1))


def write_unknown_id(out: Path) -> None:
    ids = np.load(out / "tokens-00000.npy")
    ids[7] = 60_000
    rewrite(out, ids)


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a byte of ids": (lambda out: flip(out / "tokens-00000.npy", 140), r"tokens-00000.npy: its CRC-32 is"),
    "a byte of offsets": (lambda out: flip(out / "tokens-00000.offsets.npy", 145), "offsets.npy: its CRC-32 is"),
    "a missing file": (lambda out: (out / "tokens-00001.npy").unlink(), "tokens-00001.npy: the file is missing"),
    "a longer file": (
        lambda out: append_byte(out / "tokens-00001.npy"),
        r"tokens-00001.npy: it has \d+ b",
    ),
    "another shard": (lambda out: shutil.copy(out / "tokens-00000.npy", out / "tokens-00009.npy"), "not in the manif"),
    "other ids": (shift_ids, r"document \d+ differs from the ids of the text in the sources"),
    "an unknown id": (write_unknown_id, "id 60000 at position 7 is none of the tokenizer's ids"),
    "no tokenizer": (lambda out: (out / "tokenizer.json").unlink(), "tokenizer.json: the file is missing"),
    "another tokenizer": (
        lambda out: bpe.train(texts=["low"], vocab_size=257).save(out / "tokenizer.json"),
        "tokenizer.json: its fingerprint is",
    ),
    "no manifest": (lambda out: (out / "manifest.json").unlink(), "manifest.json: the file is missing"),
    "a damaged manifest": (lambda out: (out / "manifest.json").write_text("{"), "manifest.json: "),
    "a count": (
        change_manifest(lambda value: (value["shards"][0].update(tokens=1), value.update(tokens=1))),
        "manifest.json: tokens, it declares",
    ),
    "counts of a shard": (
        change_manifest(
            lambda value: (
                value.update(documents=value["documents"] + 1),
                value["shards"][0].update(documents=value["shards"][0]["documents"] + 1),
            )
        ),
        r"tokens-00000.npy: it has \d+ documents, and \d+ in the manifest",
    ),
    "the dtype": (change_manifest(lambda value: value.update(dtype="uint32")), "its dtype is uint16, and uint32"),
    "the format": (change_manifest(lambda value: value.update(format="paper")), "the format is 'paper'"),
}


@pytest.fixture(scope="module")
def sound_folder(tmp_path_factory, tokenizer) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    encode_shards(
        open_sources(write_corpus(folder / "c", make_texts(32, 80))), tokenizer, folder / "out", shard_size=4000
    )
    return folder / "out"


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_found(tmp_path, sound_folder, kind):
    out = tmp_path / "out"
    shutil.copytree(sound_folder, out)
    damage, message = DAMAGE[kind]
    damage(out)
    defects = verify(out)
    assert defects
    assert any(re.search(message, line) for line in defects), defects


def test_an_unfinished_folder(tmp_path, sound_folder):
    out = tmp_path / "out"
    shutil.copytree(sound_folder, out)
    (out / "manifest.json").rename(out / "journal.jsonl")
    assert verify(out) == ["manifest.json: the shards are not finished; run the same command again"]
    with pytest.raises(FileNotFoundError):
        verify(tmp_path / "nowhere")


def test_sources_that_changed_or_are_gone(tmp_path, tokenizer, caplog):
    paths = write_corpus(tmp_path / "c", make_texts(33, 40))
    encode_shards(open_sources(paths), tokenizer, tmp_path / "out")
    text = paths[0].read_bytes()
    paths[0].write_bytes(text.replace(b"low", b"new"))
    assert any("differs from the ids of the text" in line for line in verify(tmp_path / "out"))
    paths[0].write_bytes(text + b"more")
    assert any(f"sources: {paths[0]} had {len(text)} bytes" in line for line in verify(tmp_path / "out"))
    paths[0].unlink()
    caplog.set_level(logging.WARNING, "bpe")
    assert verify(tmp_path / "out") == []
    assert "no samples are compared" in caplog.text


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_not_read_again(tmp_path, tokenizer, monkeypatch, caplog):
    """Nothing writes to it now, so reading it would wait for ever."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("low lower",))
    writer.start()
    encode_shards(pipe, tokenizer, tmp_path / "out")
    writer.join()
    monkeypatch.setattr(Sources, "documents", lambda *_: pytest.fail("the pipe was read"))
    assert verify(tmp_path / "out") == []
    assert "no sources that can be read again, so no samples are compared" in caplog.text


def test_a_file_of_the_name_of_standard_input_is_read_again(tmp_path, tokenizer, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("stdin").write_text("low lower")
    encode_shards("stdin", tokenizer, "out")
    Path("stdin").write_text("low newer")
    assert any("differs from the ids of the text" in line for line in verify("out"))


def test_relative_names_are_those_of_the_folder_of_the_call(tmp_path, tokenizer, monkeypatch, caplog):
    """A file of the same name and size in the current folder is not compared."""
    (tmp_path / "sub").mkdir()
    for name, text in (("a.txt", "first low"), ("sub/a.txt", "other low")):
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    encode_shards("a.txt", tokenizer, "out")
    monkeypatch.chdir("sub")
    assert verify("../out") == []
    assert not caplog.records
    (tmp_path / "a.txt").write_text("third low")
    assert any("differs from the ids of the text" in line for line in verify("../out"))
    (tmp_path / "a.txt").unlink()
    assert verify("../out") == []
    assert "the sources cannot be read, so no samples are compared" in caplog.text


def test_a_shuffled_document_that_is_missing(tmp_path, tokenizer):
    texts = [f"{i} low" for i in range(40)]
    encode_shards(open_sources(write_corpus(tmp_path / "c", texts)), tokenizer, tmp_path / "out", seed=1)
    ids = np.load(tmp_path / "out" / "tokens-00000.npy")
    rewrite(tmp_path / "out", np.flip(ids))
    assert any("is not in shard 0, where it belongs" in line for line in verify(tmp_path / "out"))


# Parts ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"validation": 0.3}, {"seed": 1}])
def test_parts_are_the_whole(tmp_path, tokenizer, options):
    texts = make_texts(34, 200)
    paths = write_corpus(tmp_path / "c", texts, 7)
    for rank in range(3):
        encode_shards(open_sources(paths), tokenizer, tmp_path / "out" / f"{rank}", rank=rank, world=3, **options)
    merged = merge_manifests([tmp_path / "out" / f"{rank}" for rank in (2, 0, 1)], tmp_path / "out")
    assert merged == Manifest.read(tmp_path / "out")
    assert verify(tmp_path / "out") == []
    expected = [tokenizer.encode(text).tolist() for text in texts]
    if "seed" in options:
        assert sorted(read_rows(tmp_path / "out")) == sorted(expected)
    elif "validation" in options:
        encode_shards(open_sources(paths), tokenizer, tmp_path / "whole", **options)
        for split in ("train", "val"):
            assert read_rows(tmp_path / "out", split) == read_rows(tmp_path / "whole", split)
    else:
        assert read_rows(tmp_path / "out") == expected
    assert merged.documents == 200
    assert (tmp_path / "out" / "tokenizer.json").exists()
    again = merge_manifests([tmp_path / "out" / f"{rank}" for rank in range(3)], tmp_path / "out")
    assert again == merged


def test_damage_in_a_part(tmp_path, tokenizer):
    paths = write_corpus(tmp_path / "c", make_texts(35, 60), 4)
    for rank in range(2):
        encode_shards(open_sources(paths), tokenizer, tmp_path / "out" / f"{rank}", rank=rank, world=2)
    merge_manifests([tmp_path / "out" / "0", tmp_path / "out" / "1"], tmp_path / "out")
    flip(tmp_path / "out" / "1" / "tokens-00000.npy", 150)
    assert [line.partition(":")[0] for line in verify(tmp_path / "out")] == ["1/tokens-00000.npy"]


@pytest.mark.parametrize("value", [None, -1, 1.5, "x", [], {}, [1], [[1]], 2**70, True])
def test_facts_of_a_manifest_that_do_not_fit_are_named(tmp_path, tokenizer, value):
    """verify and merge_manifests read the sources again by them."""
    paths = write_corpus(tmp_path / "c", make_texts(38, 10), 2)
    for rank in range(2):
        encode_shards(open_sources(paths), tokenizer, tmp_path / "out" / str(rank), rank=rank, world=2)
    path = tmp_path / "out" / "0" / "manifest.json"
    original = json.loads(path.read_text())
    for group, key in [("options", key) for key in original["options"]] + [
        ("sources", key) for key in original["sources"]
    ]:
        manifest = json.loads(json.dumps(original))
        manifest[group][key] = value
        path.write_text(json.dumps(manifest))
        for line in verify(tmp_path / "out" / "0", samples=4):
            assert line.startswith((f"manifest.json: {group}.{key}: it is", "sources: ", "tokens-00000"))
        if value != original[group][key] and (group, key) != ("sources", "part"):  # which differs between parts
            with pytest.raises(ValueError, match=rf"{group}\.{key}: it is|differ in (options|sources|count of parts)"):
                merge_manifests([tmp_path / "out" / "0", tmp_path / "out" / "1"], tmp_path / "out")


def test_parts_that_name_the_same_sources_in_other_ways(tmp_path, tokenizer, monkeypatch):
    paths = write_corpus(tmp_path / "c", make_texts(37, 20), 2)
    monkeypatch.chdir(tmp_path)
    for rank, names in enumerate((["c/0.txt", "c/1.txt"], [f"./{path.relative_to(tmp_path)}" for path in paths])):
        encode_shards(bpe.Sources(names, separator=END), tokenizer, f"out/{rank}", rank=rank, world=2)
    merge_manifests(["out/0", "out/1"], "out")
    assert TokenShards("out").n_documents == 20


def test_what_are_no_parts_of_one_corpus(tmp_path, tokenizer):
    paths = write_corpus(tmp_path / "c", make_texts(36, 60), 4)
    out = tmp_path / "out"

    def part(name: str, rank: int, count: int, **options: object) -> Path:
        encode_shards(open_sources(paths), tokenizer, out / name, rank=rank, world=count, **options)  # type: ignore[arg-type]
        return out / name

    first, second = part("a", 0, 2), part("b", 1, 2)
    other, of_three = part("c", 1, 2, append=END), part("d", 1, 3)
    for parts, message in [
        ([first], "part 1/2 is missing"),
        ([first, second, second], "part 1/2 is there 2 times"),
        ([first, other], "differ in options"),
        ([first, of_three], "differ in count of parts"),
        ([], "no parts"),
        ([first, tmp_path], "is not in the output folder"),
    ]:
        with pytest.raises(ValueError, match=message):
            merge_manifests(parts, out)
    encode_shards(open_sources(paths), tokenizer, out / "e")  # no part
    with pytest.raises(ValueError, match="the folder e is given 2 times; give each folder once"):
        merge_manifests([out / "e", out / "b" / ".." / "e"], out)
    (second / "manifest.json").rename(second / "journal.jsonl")
    with pytest.raises(FormatError, match="it is not finished"):
        merge_manifests([first, second], out)
    assert not (out / "manifest.json").exists()
    encode_shards(open_sources(paths), tokenizer, tmp_path / "whole")
    shutil.copytree(first, tmp_path / "whole" / "a")
    with pytest.raises(ValueError, match="has shards and a manifest of its own"):
        merge_manifests([tmp_path / "whole" / "a"], tmp_path / "whole")
    assert len(TokenShards(tmp_path / "whole").documents) == 60
