"""`verify` finds every kind of damage, and `merge_manifests` refuses what are no parts of one corpus."""

from __future__ import annotations

import json
import logging
import re
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from test_encode_shards import END, corpus, documents, rows_of, small_groups, sources, tokenizer

import bpe
from bpe.data import Manifest, TokenShards, encode_shards, merge_manifests, verify
from bpe.data.formats import FORMATS
from bpe.errors import FormatError

__all__ = ["small_groups", "tokenizer"]  # fixtures


@pytest.mark.parametrize("name", sorted(FORMATS))
@pytest.mark.parametrize("options", [{"shard_size": 1500}, {"seed": 2, "validation": 0.3}])
def test_sound_shards(tmp_path, tokenizer, name, options, caplog):
    paths = corpus(tmp_path / "c", documents(31, 80))
    encode_shards(sources(paths), tokenizer, tmp_path / "out", format=name, **options)
    assert verify(tmp_path / "out") == []
    assert not caplog.records


# Damage ---------------------------------------------------------------------------------------------------------------


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def longer(path: Path) -> None:
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


def shifted(out: Path) -> None:
    ids = np.load(out / "tokens-00000.npy")
    rewrite(out, np.roll(ids, 1))


def unknown_id(out: Path) -> None:
    ids = np.load(out / "tokens-00000.npy")
    ids[7] = 60_000
    rewrite(out, ids)


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a byte of ids": (lambda out: flip(out / "tokens-00000.npy", 140), r"tokens-00000.npy: its CRC-32 is"),
    "a byte of offsets": (lambda out: flip(out / "tokens-00000.offsets.npy", 145), "offsets.npy: its CRC-32 is"),
    "a missing file": (lambda out: (out / "tokens-00001.npy").unlink(), "tokens-00001.npy: the file is missing"),
    "a longer file": (
        lambda out: longer(out / "tokens-00001.npy"),
        r"tokens-00001.npy: it has \d+ b",
    ),
    "another shard": (lambda out: shutil.copy(out / "tokens-00000.npy", out / "tokens-00009.npy"), "not in the manif"),
    "other ids": (shifted, r"document \d+ differs from the ids of the text in the sources"),
    "an unknown id": (unknown_id, "id 60000 at position 7 is none of the tokenizer's ids"),
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
def sound(tmp_path_factory, tokenizer) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    encode_shards(sources(corpus(folder / "c", documents(32, 80))), tokenizer, folder / "out", shard_size=4000)
    return folder / "out"


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_found(tmp_path, sound, kind):
    out = tmp_path / "out"
    shutil.copytree(sound, out)
    damage, message = DAMAGE[kind]
    damage(out)
    findings = verify(out)
    assert findings
    assert any(re.search(message, line) for line in findings), findings


def test_an_unfinished_folder(tmp_path, sound):
    out = tmp_path / "out"
    shutil.copytree(sound, out)
    (out / "manifest.json").rename(out / "journal.jsonl")
    assert verify(out) == ["manifest.json: the shards are not finished; run the same command again"]
    with pytest.raises(FileNotFoundError):
        verify(tmp_path / "nowhere")


def test_sources_that_changed_or_are_gone(tmp_path, tokenizer, caplog):
    paths = corpus(tmp_path / "c", documents(33, 40))
    encode_shards(sources(paths), tokenizer, tmp_path / "out")
    text = paths[0].read_bytes()
    paths[0].write_bytes(text.replace(b"low", b"new"))
    assert any("differs from the ids of the text" in line for line in verify(tmp_path / "out"))
    paths[0].write_bytes(text + b"more")
    assert any(f"sources: {paths[0]} had {len(text)} bytes" in line for line in verify(tmp_path / "out"))
    paths[0].unlink()
    caplog.set_level(logging.WARNING, "bpe")
    assert verify(tmp_path / "out") == []
    assert "no samples are compared" in caplog.text


def test_a_shuffled_document_that_is_missing(tmp_path, tokenizer):
    texts = [f"{index} low" for index in range(40)]
    encode_shards(sources(corpus(tmp_path / "c", texts)), tokenizer, tmp_path / "out", seed=1)
    ids = np.load(tmp_path / "out" / "tokens-00000.npy")
    rewrite(tmp_path / "out", np.flip(ids))
    assert any("is not in shard 0, where it belongs" in line for line in verify(tmp_path / "out"))


# Parts ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"validation": 0.3}, {"seed": 1}])
def test_parts_are_the_whole(tmp_path, tokenizer, options):
    texts = documents(34, 200)
    paths = corpus(tmp_path / "c", texts, 7)
    for part_index in range(3):
        encode_shards(
            sources(paths), tokenizer, tmp_path / "out" / f"{part_index}", rank=part_index, world=3, **options
        )
    merged = merge_manifests([tmp_path / "out" / f"{part_index}" for part_index in (2, 0, 1)], tmp_path / "out")
    assert merged == Manifest.read(tmp_path / "out")
    assert verify(tmp_path / "out") == []
    expected = [tokenizer.encode(text).tolist() for text in texts]
    if "seed" in options:
        assert sorted(rows_of(tmp_path / "out")) == sorted(expected)
    elif "validation" in options:
        encode_shards(sources(paths), tokenizer, tmp_path / "whole", **options)
        for split in ("train", "val"):
            assert rows_of(tmp_path / "out", split) == rows_of(tmp_path / "whole", split)
    else:
        assert rows_of(tmp_path / "out") == expected
    assert merged.documents == 200
    assert (tmp_path / "out" / "tokenizer.json").exists()
    again = merge_manifests([tmp_path / "out" / f"{part_index}" for part_index in range(3)], tmp_path / "out")
    assert again == merged


def test_damage_in_a_part(tmp_path, tokenizer):
    paths = corpus(tmp_path / "c", documents(35, 60), 4)
    for index in range(2):
        encode_shards(sources(paths), tokenizer, tmp_path / "out" / f"{index}", rank=index, world=2)
    merge_manifests([tmp_path / "out" / "0", tmp_path / "out" / "1"], tmp_path / "out")
    flip(tmp_path / "out" / "1" / "tokens-00000.npy", 150)
    assert [line.partition(":")[0] for line in verify(tmp_path / "out")] == ["1/tokens-00000.npy"]


@pytest.mark.parametrize("value", [None, -1, 1.5, "x", [], {}, [1], [[1]], 2**70, True])
def test_facts_of_a_manifest_that_do_not_fit_are_named(tmp_path, tokenizer, value):
    """verify and merge_manifests read the sources again by them."""
    paths = corpus(tmp_path / "c", documents(38, 10), 2)
    for index in range(2):
        encode_shards(sources(paths), tokenizer, tmp_path / "out" / str(index), rank=index, world=2)
    path = tmp_path / "out" / "0" / "manifest.json"
    whole_manifest = json.loads(path.read_text())
    for group, key in [("options", key) for key in whole_manifest["options"]] + [
        ("sources", key) for key in whole_manifest["sources"]
    ]:
        manifest = json.loads(json.dumps(whole_manifest))
        manifest[group][key] = value
        path.write_text(json.dumps(manifest))
        for line in verify(tmp_path / "out" / "0", samples=4):
            assert line.startswith((f"manifest.json: {group}.{key}: it is", "sources: ", "tokens-00000"))
        if value != whole_manifest[group][key] and (group, key) != ("sources", "part"):  # which differs between parts
            with pytest.raises(ValueError, match=rf"{group}\.{key}: it is|differ in (options|sources|count of parts)"):
                merge_manifests([tmp_path / "out" / "0", tmp_path / "out" / "1"], tmp_path / "out")


def test_parts_that_name_the_same_sources_in_other_ways(tmp_path, tokenizer, monkeypatch):
    paths = corpus(tmp_path / "c", documents(37, 20), 2)
    monkeypatch.chdir(tmp_path)
    for index, names in enumerate((["c/0.txt", "c/1.txt"], [f"./{path.relative_to(tmp_path)}" for path in paths])):
        encode_shards(bpe.Sources(names, separator=END), tokenizer, f"out/{index}", rank=index, world=2)
    merge_manifests(["out/0", "out/1"], "out")
    assert TokenShards("out").n_documents == 20


def test_what_are_no_parts_of_one_corpus(tmp_path, tokenizer):
    paths = corpus(tmp_path / "c", documents(36, 60), 4)
    out = tmp_path / "out"

    def part(name: str, index: int, count: int, **options: object) -> Path:
        encode_shards(sources(paths), tokenizer, out / name, rank=index, world=count, **options)  # type: ignore[arg-type]
        return out / name

    first_part, second_part = part("a", 0, 2), part("b", 1, 2)
    other_end, of_three = part("c", 1, 2, append=END), part("d", 1, 3)
    for parts, message in [
        ([first_part], "part 1/2 is missing"),
        ([first_part, second_part, second_part], "part 1/2 is there 2 times"),
        ([first_part, other_end], "differ in options"),
        ([first_part, of_three], "differ in count of parts"),
        ([], "no parts"),
        ([first_part, tmp_path], "is not in the output folder"),
    ]:
        with pytest.raises(ValueError, match=message):
            merge_manifests(parts, out)
    encode_shards(sources(paths), tokenizer, out / "e")  # no part
    with pytest.raises(ValueError, match="the folder e is given 2 times; give each folder once"):
        merge_manifests([out / "e", out / "b" / ".." / "e"], out)
    (second_part / "manifest.json").rename(second_part / "journal.jsonl")
    with pytest.raises(FormatError, match="it is not finished"):
        merge_manifests([first_part, second_part], out)
    assert not (out / "manifest.json").exists()
    encode_shards(sources(paths), tokenizer, tmp_path / "whole")
    shutil.copytree(first_part, tmp_path / "whole" / "a")
    with pytest.raises(ValueError, match="has shards and a manifest of its own"):
        merge_manifests([tmp_path / "whole" / "a"], tmp_path / "whole")
    assert len(TokenShards(tmp_path / "whole").documents) == 60
