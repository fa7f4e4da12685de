"""`encode_shards(extend=True)`: documents that are added to a finished folder, and what stays valid there."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from shard_corpus import END, make_texts, open_sources, read_files, read_rows, run_until_killed, tokenizer, write_corpus

import bpe
from bpe.cli import main
from bpe.data import (
    Blocks,
    Manifest,
    TokenShards,
    convert_shards,
    encode_shards,
    journal,
    merge_manifests,
    verify,
    write_shards,
)
from bpe.errors import FormatError

__all__ = ["tokenizer"]  # a fixture

WAYS: dict[str, dict[str, Any]] = {
    "in order": {"shard_size": 300},
    "one shard": {"format": "nanogpt", "append": END},
    "split": {"shard_size": 300, "validation": 0.3},
    "shuffled": {"shards": 2, "seed": 5},
    "megatron": {"format": "megatron", "append": END},
}


def write_parts(folder: Path) -> list[list[Path]]:
    """Write three corpora of several files each."""
    return [write_corpus(folder / str(seed), make_texts(seed, 30), files=2) for seed in range(3)]


@pytest.mark.parametrize("way", WAYS)
def test_added_documents_follow_the_others(tmp_path, tokenizer, way):
    """The rows are those of separate folders, one after the other; each addition is a whole folder of its own."""
    options, corpora = WAYS[way], write_parts(tmp_path)
    splits = ("train", "val") if "validation" in options else (None,)
    end = {"end_of_text": END} if way == "one shard" else {}
    expected: dict[str | None, list[list[int]]] = {split: [] for split in splits}
    fingerprints = []
    for number, paths in enumerate(corpora):
        alone = tmp_path / f"alone{number}"
        encode_shards(open_sources(paths), tokenizer, alone, **options)
        manifest = encode_shards(open_sources(paths), tokenizer, tmp_path / "out", extend=True, **options)
        for split in splits:
            expected[split] += [row.tolist() for row in TokenShards(alone, split, **end).documents]
            assert [row.tolist() for row in TokenShards(tmp_path / "out", split, **end).documents] == expected[split]
        fingerprints.append([TokenShards(tmp_path / "out", split).fingerprint for split in splits])
        assert manifest == Manifest.read(tmp_path / "out")
        if number:
            assert read_files(tmp_path / "out" / f"added-{number - 1:05d}") == read_files(alone)
    assert manifest.sources["added"] == [{"folder": "added-00000"}, {"folder": "added-00001"}]
    for number, expected_fingerprints in enumerate(fingerprints):
        opened = [TokenShards(tmp_path / "out", split, additions=number) for split in splits]
        assert [shards.fingerprint for shards in opened] == expected_fingerprints
        assert pickle.loads(pickle.dumps(opened[0])).n_documents == opened[0].n_documents
    assert verify(tmp_path / "out") == []


def test_a_loaders_state_of_the_old_documents_stays_valid(tmp_path, tokenizer):
    first, second, _ = write_parts(tmp_path)
    encode_shards(open_sources(first), tokenizer, tmp_path / "out")
    rows = Blocks(TokenShards(tmp_path / "out"), length=8, seed=1)
    state = rows.state_at(5)
    expected = rows[5]["input_ids"].tolist()
    encode_shards(open_sources(second), tokenizer, tmp_path / "out", extend=True)
    with pytest.raises(ValueError, match="state"):
        Blocks(TokenShards(tmp_path / "out"), length=8, seed=1).row_of_state(state)
    old = Blocks(TokenShards(tmp_path / "out", additions=0), length=8, seed=1)
    assert old.row_of_state(state) == 5
    assert old[5]["input_ids"].tolist() == expected


def test_the_same_call_adds_nothing(tmp_path, tokenizer):
    first, second, _ = write_parts(tmp_path)
    out = tmp_path / "out"
    encode_shards(open_sources(first), tokenizer, out)
    manifest = encode_shards(open_sources(second), tokenizer, out, extend=True)
    before = read_files(out)
    for paths in (first, second):
        assert encode_shards(open_sources(paths), tokenizer, out, extend=True) == manifest
    assert encode_shards(open_sources(first), tokenizer, out) == manifest  # as without additions
    assert read_files(out) == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_killed_addition_goes_on_and_leaves_the_folder_readable(tmp_path, tokenizer):
    first, second, _ = write_parts(tmp_path)

    def add(out: Path) -> Manifest:
        return encode_shards(open_sources(second), tokenizer, out, extend=True, shard_size=300)

    encode_shards(open_sources(first), tokenizer, tmp_path / "base", shard_size=300)
    shutil.copytree(tmp_path / "base", tmp_path / "whole")
    add(tmp_path / "whole")
    expected, before = read_files(tmp_path / "whole"), read_rows(tmp_path / "base")
    n_killed = 0
    for event in range(0, 40, 7):
        out = tmp_path / f"out{event}"
        shutil.copytree(tmp_path / "base", out)
        if not run_until_killed(event, lambda out=out: add(out)):
            break
        n_killed += 1
        assert read_rows(out) == before
        add(out)
        assert read_files(out) == expected
    assert n_killed > 1


def test_what_does_not_belong_together_is_refused(tmp_path, tokenizer):
    first, second, _ = write_parts(tmp_path)
    out = tmp_path / "out"
    encode_shards(open_sources(first), tokenizer, out)
    other = bpe.train(texts=["other words"], vocab_size=262, special_tokens=[END])
    cases: list[tuple[Any, list[Path], dict[str, Any], str]] = [
        (
            tokenizer,
            second,
            {"append": END},
            "append of .* is None, and 0 here; all its documents must have the same",
        ),
        (tokenizer, second, {"format": "megatron"}, "format of .* is 'native', and 'megatron' here"),
        (tokenizer, second, {"validation": 0.5}, "validation of .* is 0.0, and 0.5 here"),
        (tokenizer, second, {"allowed_special": "all"}, "allowed_special of .* is False, and True here"),
        (tokenizer, second, {"rank": 0, "world": 2}, "extend is True, but rank=0, world=2 gives a part of"),
        (other, second, {}, "was encoded by the tokenizer with the fingerprint .*; extend it with the copy"),
        (tokenizer, [*second, *first], {}, "2 of the 4 files are in .* already, such as .*; give only the new files"),
    ]
    for tok, paths, options, message in cases:
        with pytest.raises(ValueError, match=message):
            encode_shards(open_sources(paths), tok, out, extend=True, **options)
    assert not (out / "added-00000").exists()
    with pytest.raises(ValueError, match="additions is 1, but 0 additions of shards were made; pass at most that"):
        TokenShards(out, additions=1)
    with pytest.raises(ValueError, match=r"additions is 1, but .* has no manifest.json; leave it out"):
        TokenShards(out / "tokens-00000.npy", additions=1)


def test_a_damaged_list_of_additions_is_refused(tmp_path, tokenizer):
    first, second, third = write_parts(tmp_path)
    out = tmp_path / "out"
    encode_shards(open_sources(first), tokenizer, out)
    encode_shards(open_sources(second), tokenizer, out, extend=True)
    text = (out / "manifest.json").read_text()
    (out / "manifest.json").write_text(re.sub(r'("added": \[\s*\{\s*"folder": )"added-00000"', r'\1"../x"', text))
    with pytest.raises(FormatError, match="a list of parts with their folders"):
        encode_shards(open_sources(third), tokenizer, out, extend=True)
    with pytest.raises(FormatError, match="a list of parts with their folders"):
        TokenShards(out, additions=0)
    assert any("sources.added" in line for line in verify(out))


def test_extended_folders_are_converted_and_merged(tmp_path, tokenizer):
    first, second, third = write_parts(tmp_path)
    out = tmp_path / "all" / "a"
    encode_shards(open_sources(first), tokenizer, out)
    encode_shards(open_sources(second), tokenizer, out, extend=True)
    convert_shards(out, tmp_path / "converted", "dolma")
    assert verify(tmp_path / "converted") == []
    encode_shards(open_sources(third), tokenizer, tmp_path / "all" / "b")
    merged = merge_manifests([out, tmp_path / "all" / "b"], tmp_path / "all")
    assert "added" not in merged.sources
    assert read_rows(tmp_path / "all") == read_rows(out) + read_rows(tmp_path / "all" / "b")
    assert verify(tmp_path / "all") == []


def test_a_change_of_an_added_file_is_found(tmp_path, tokenizer):
    first, second, _ = write_parts(tmp_path)
    out = tmp_path / "out"
    encode_shards(open_sources(first), tokenizer, out)
    encode_shards(open_sources(second), tokenizer, out, extend=True)
    second[0].write_text(second[0].read_text() + "more" + END)
    assert any(line.startswith("added-00000/") for line in verify(out))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_standard_input_is_added_each_time(tmp_path, tokenizer, programs):
    """It has another text each time, so the same command is no repetition."""
    tokenizer.save(tmp_path / "tok.json")
    argv = [programs / "bpe", "encode", "-", "-t", tmp_path / "tok.json", "-o", tmp_path / "out"]
    for text in ("low", "newest"):
        subprocess.run([*argv, "--format", "native", "--extend", "--quiet"], input=text.encode(), check=True)
    assert [tokenizer.decode(ids) for ids in read_rows(tmp_path / "out")] == ["low", "newest"]


def test_the_command_extends(tmp_path, tokenizer, capsys):
    first, second, _ = write_parts(tmp_path)
    tokenizer.save(tmp_path / "tok.json")
    argv = ["encode", "-t", str(tmp_path / "tok.json"), "-o", str(tmp_path / "out"), "--format", "native", "--extend"]
    for paths in (first, second):
        assert main([*argv, "--separator", END, *map(str, paths)]) == 0
    capsys.readouterr()
    assert len(Manifest.read(tmp_path / "out").sources["added"]) == 1


def test_the_real_path_identifies_a_file(tmp_path, tokenizer, monkeypatch):
    first, second, _ = write_parts(tmp_path)
    encode_shards(open_sources(first), tokenizer, tmp_path / "out")
    monkeypatch.chdir(first[0].parent)
    (tmp_path / "link.txt").symlink_to(first[1])
    for path in (Path(first[0].name), tmp_path / "link.txt"):
        with pytest.raises(ValueError, match=r"1 of the 3 files are in .* already"):
            encode_shards(open_sources([path, *second]), tokenizer, tmp_path / "out", extend=True)
    copies = [shutil.copy(path, tmp_path / f"copy of {path.name}") for path in first]
    manifest = encode_shards(open_sources(copies), tokenizer, tmp_path / "out", extend=True)
    assert manifest.documents == 2 * Manifest.read(tmp_path / "out" / "added-00000").documents


@pytest.fixture
def two_folders(tmp_path, monkeypatch) -> Path:
    """Make two files of the same name and size, one in a folder within the other's, which is the current one."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.txt").write_text("first low")
    (tmp_path / "sub" / "a.txt").write_text("other low")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("out", ["out", "all/of/out"])
def test_a_relative_name_is_of_the_folder_in_which_it_was_given(two_folders, tokenizer, monkeypatch, out):
    encode_shards("a.txt", tokenizer, out)
    monkeypatch.chdir("sub")
    before = read_files(two_folders / out)
    assert encode_shards("../a.txt", tokenizer, f"../{out}", extend=True).documents == 1  # has it
    assert encode_shards("../a.txt", tokenizer, f"../{out}").documents == 1
    with pytest.raises(ValueError, match=r"1 of the 2 files are in .* already, such as '../a.txt'"):
        encode_shards(["../a.txt", "a.txt"], tokenizer, f"../{out}", extend=True)
    with pytest.raises(ValueError, match=r"from other sources: file 1 was '.*a\.txt' and is 'a\.txt'"):
        encode_shards("a.txt", tokenizer, f"../{out}")
    assert read_files(two_folders / out) == before
    for _ in range(2):
        assert encode_shards("a.txt", tokenizer, f"../{out}", extend=True).documents == 2
    monkeypatch.chdir("..")
    for name in ("a.txt", "sub/a.txt"):
        assert encode_shards(name, tokenizer, out, extend=True).documents == 2
    assert [tokenizer.decode(row) for row in read_rows(two_folders / out)] == ["first low", "other low"]


def test_relative_names_of_a_folder_that_was_moved_with_its_sources(two_folders, tokenizer, monkeypatch):
    encode_shards("a.txt", tokenizer, "sub/out")
    shutil.copytree(two_folders, two_folders / "moved")
    monkeypatch.chdir("moved")
    assert encode_shards("a.txt", tokenizer, "sub/out", extend=True).documents == 1
    Path("a.txt").write_text("moved low")
    assert any("differs from the ids of the text" in line for line in verify("sub/out"))


def test_relative_names_of_a_folder_that_was_moved_alone(two_folders, tokenizer):
    """It has files of the same names in the current folder."""
    encode_shards("a.txt", tokenizer, "out")
    Path("far/away").mkdir(parents=True)
    Path("out").rename("far/away/out")
    assert encode_shards("a.txt", tokenizer, "far/away/out", extend=True).documents == 1
    assert encode_shards("a.txt", tokenizer, "far/away/out").documents == 1


def test_an_old_manifest_has_no_base_of_relative_names(two_folders, tokenizer):
    manifest = encode_shards("a.txt", tokenizer, "out")
    assert manifest.sources["base"] == ".."
    text = Path("out/manifest.json").read_text()
    Path("out/manifest.json").write_text(re.sub(r',\s*"base": "\.\."', "", text))
    assert "base" not in Manifest.read("out").sources
    for extend in (False, True):
        assert encode_shards("a.txt", tokenizer, "out", extend=extend).documents == 1
    assert verify("out") == []


def test_a_relative_name_after_merging_and_converting(two_folders, tokenizer, monkeypatch, caplog):
    for rank in range(2):
        encode_shards(["a.txt", "sub/a.txt"], tokenizer, f"all/parts/{rank}", rank=rank, world=2)
    merge_manifests(["all/parts/0", "all/parts/1"], "all")
    convert_shards("all/parts/0", "deep/converted/folder", "megatron")
    monkeypatch.chdir("sub")
    (two_folders / "sub" / "sub").mkdir()
    (two_folders / "sub" / "sub" / "a.txt").write_text("third low")
    with pytest.raises(ValueError, match=r"1 of the 1 file are in .* already"):
        encode_shards("../a.txt", tokenizer, "../all", extend=True)
    for folder in ("../all", "../all/parts/0", "../all/parts/1", "../deep/converted/folder"):
        assert verify(folder) == []
    assert not caplog.records
    assert encode_shards("sub/a.txt", tokenizer, "../all", extend=True).documents == 3


def test_a_file_that_was_changed_since_is_no_repetition(tmp_path, tokenizer):
    """A file of the same name and size is not taken for the one that was encoded."""
    first, second, _ = write_parts(tmp_path)
    out = tmp_path / "out"
    encode_shards(open_sources(first), tokenizer, out)
    encode_shards(open_sources(second), tokenizer, out, extend=True)
    for paths in (first, second):
        os.utime(paths[1], ns=(0, paths[1].stat().st_mtime_ns + 10**12))
        with pytest.raises(ValueError, match=r"1.txt was changed after it was encoded to .*; give only new files"):
            encode_shards(open_sources(paths), tokenizer, out, extend=True)


def test_folders_of_other_functions_are_refused(tmp_path, tokenizer):
    first, second, _ = write_parts(tmp_path)
    encode_shards(open_sources(first), tokenizer, tmp_path / "out")
    encode_shards(open_sources(second), tokenizer, tmp_path / "out", extend=True)
    convert_shards(tmp_path / "out", tmp_path / "of many", "dolma")
    write_shards([[1, 2]], tmp_path / "ids")
    encode_shards(open_sources(first), tokenizer, tmp_path / "alone")
    convert_shards(tmp_path / "alone", tmp_path / "dolma", "dolma")
    convert_shards(tmp_path / "alone", tmp_path / "resized", shard_size=100)
    encode_shards(open_sources(first), tokenizer, tmp_path / "stream", format="nanogpt", append=None)
    convert_shards(tmp_path / "stream", tmp_path / "dropped", drop_boundaries=True)
    for folder, format_name in (
        ("of many", "native"),
        ("of many", "dolma"),
        ("ids", "native"),
        ("dolma", "native"),
        ("dolma", "dolma"),
        ("resized", "native"),
        ("dropped", "native"),
    ):
        with pytest.raises(
            ValueError, match=r"was not written by encode_shards from files of text.*; name another fol"
        ):
            encode_shards(open_sources(second), tokenizer, tmp_path / folder, extend=True, format=format_name)


def test_a_converted_folder_is_no_finished_one_of_the_old_format(tmp_path, tokenizer):
    first, _, _ = write_parts(tmp_path)
    encode_shards(open_sources(first), tokenizer, tmp_path / "out")
    convert_shards(tmp_path / "out", tmp_path / "dolma", "dolma")
    with pytest.raises(ValueError, match=r"other options: format was 'dolma' and is 'native'"):
        encode_shards(open_sources(first), tokenizer, tmp_path / "dolma")


def test_additions_to_merged_parts_stay(tmp_path, tokenizer):
    corpora = write_parts(tmp_path)
    for name, paths in zip("ab", corpora[:2], strict=True):
        encode_shards(open_sources(paths), tokenizer, tmp_path / "all" / name)
    merge_manifests([tmp_path / "all" / "a", tmp_path / "all" / "b"], tmp_path / "all")
    for paths in corpora[:2]:
        encode_shards(open_sources(paths), tokenizer, tmp_path / "all", extend=True)  # has them
        with pytest.raises(ValueError, match=r"2 of the 4 files are in .* already"):
            encode_shards(open_sources([*paths, *corpora[2]]), tokenizer, tmp_path / "all", extend=True)
    extended = encode_shards(open_sources(corpora[2]), tokenizer, tmp_path / "all", extend=True)
    with pytest.raises(ValueError, match="has shards and a manifest of its own; merge the parts in the folder above"):
        merge_manifests([tmp_path / "all" / "a", tmp_path / "all" / "b"], tmp_path / "all")
    assert Manifest.read(tmp_path / "all") == extended
    assert verify(tmp_path / "all") == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_other_standard_input_after_a_kill_is_not_lost(tmp_path, tokenizer, monkeypatch):
    """An addition that was finished but not listed is listed, and a call with other text says that it was not read."""
    first, _, _ = write_parts(tmp_path)
    out = tmp_path / "out"
    encode_shards(open_sources(first), tokenizer, out)

    def add(text: str) -> None:
        (tmp_path / "input").write_text(text)
        with open(tmp_path / "input") as file:
            monkeypatch.setattr("sys.stdin", file)
            encode_shards(bpe.Sources("-", separator=END), tokenizer, out, extend=True)

    def kill(event: str) -> None:
        if event == "added":
            raise InterruptedError(event)

    monkeypatch.setattr(journal, "failpoint", kill)
    with pytest.raises(InterruptedError, match="added"):
        add("low")
    monkeypatch.setattr(journal, "failpoint", None)
    with pytest.raises(ValueError, match=r"addition added-00000 was finished but not yet listed .* it is listed now"):
        add("lower")
    add("lower")
    assert [tokenizer.decode(ids) for ids in read_rows(out)[-2:]] == ["low", "lower"]


def test_two_processes_do_not_extend_at_once(tmp_path, tokenizer):
    first, second, third = write_parts(tmp_path)
    out = tmp_path / "out"
    encode_shards(open_sources(first), tokenizer, out)
    with journal.lock_folder(out), pytest.raises(ValueError, match="another process is writing to"):
        encode_shards(open_sources(second), tokenizer, out, extend=True)
    assert encode_shards(open_sources(third), tokenizer, out, extend=True).sources["added"] == [
        {"folder": "added-00000"}
    ]
