"""Training shards on the command line: `bpe encode --format …`, `bpe verify`, `convert-shards`, `merge-manifests`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from conftest import fails

import bpe
from bpe.base.progress import Progress
from bpe.cli import encoding, main
from bpe.data import Manifest, TokenShards

END = "<|end|>"
TEXTS = ["low lower", "", "newest", "wide widest low"]


@pytest.fixture
def begun(tmp_path: Path, tokenizer_file: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A command line that encodes four documents, without its format."""
    monkeypatch.chdir(tmp_path)
    Path("corpus.txt").write_text("".join(text + END for text in TEXTS))
    return ["encode", "corpus.txt", "-t", tokenizer_file, "--separator", END, "-o", "out", "--quiet"]


def read_rows(folder: str, split: str | None = None) -> list[list[int]]:
    return [row.tolist() for row in TokenShards(folder, split).documents]


def test_encode_verify_convert_and_merge(begun, tokenizer_file, capsys):
    tok = bpe.Tokenizer.load(tokenizer_file)
    expected = [tok.encode(text).tolist() for text in TEXTS]
    assert main([*begun, "--format", "native"]) == 0
    assert read_rows("out") == expected
    assert main(["verify", "out", "--quiet"]) == 0
    assert main(["convert-shards", "out", "-o", "converted", "--format", "megatron", "--quiet"]) == 0
    assert read_rows("converted") == expected
    for part in ("0/2", "1/2"):
        Path("parts").mkdir(exist_ok=True)
        assert main([*begun, "-o", f"parts/{part[0]}", "--format", "native", "--part", part]) == 0
    assert main(["merge-manifests", "parts/0", "parts/1", "-o", "parts", "--quiet"]) == 0
    assert read_rows("parts") == expected
    assert main(["verify", "parts", "--samples", "3", "--quiet"]) == 0
    assert capsys.readouterr().out == ""


def test_convert_shards_has_the_flags_that_its_errors_name(begun, capsys):
    assert main([*begun, "--format", "native"]) == 0
    convert = ["convert-shards", "out", "--format", "nanogpt", "--quiet", "-o"]
    line = fails(capsys, [*convert, "a"], 1, "pass --end-of-text, the id or the name .*, or --drop-boundaries$")
    assert "drop_boundaries" not in line
    assert main([*convert, "nano", "--end-of-text", END]) == 0
    assert sorted(path.name for path in Path("nano").iterdir()) == ["manifest.json", "tokenizer.json", "train.bin"]
    assert main([*convert, "joined", "--drop-boundaries", "--drop-masks"]) == 0
    assert main([*convert, "small", "--end-of-text", "0", "--shard-size", "2"]) == 0
    assert len(Manifest.read("small").shards) > 1


def test_defects_are_printed_with_status_1(begun, capsys):
    assert main([*begun, "--format", "native"]) == 0
    Path("out/tokens-00000.npy").unlink()
    assert main(["verify", "out", "--quiet"]) == 1
    assert capsys.readouterr().out == "tokens-00000.npy: the file is missing\n"
    fails(capsys, ["verify", "nowhere", "--quiet"], 1, "nowhere: there is no such folder of shards")
    file = "out/tokens-00000.offsets.npy"
    fails(capsys, ["verify", file, "--quiet"], 1, f"{file}: it is a file; give the folder of the shards, out")


@pytest.mark.parametrize("options", [["--format", "native"], [], ["--append", END]])
def test_a_separator_that_is_not_given_is_warned_about(begun, capsys, options):
    without = [argument for argument in begun if argument not in ("--separator", END, "-o", "out")]
    output = ["-o", "out"] if "--format" in options else ["-o", "ids.txt"]
    assert main([*without, *options, *output]) == 0
    assert f"bpe: corpus.txt: '{END}' occurs at least 4 times as ordinary text" in capsys.readouterr().err
    assert main([*begun[:-3], "-o", "out2", "--format", "native", "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_flags_of_encode(begun, tokenizer_file):
    tok = bpe.Tokenizer.load(tokenizer_file)
    end = tok.special_tokens[END]
    options = ["--shard-size", "3", "--validation", "0.5", "--append", END, "--prepend", "7", "--threads", "2"]
    assert main([*begun, "--format", "datatrove", *options]) == 0
    manifest = Manifest.read(Path("out"))
    assert manifest.options == {
        "format": "datatrove", "prepend": 7, "append": end, "shard_size": 3, "shards": None, "shuffle": None,
        "validation": 0.5, "part": None, "allow_special": False,
    }  # fmt: skip
    rows_by_split = [read_rows("out", split) for split in ("train", "val")]
    assert sorted(rows_by_split[0] + rows_by_split[1]) == sorted([7, *tok.encode(text).tolist(), end] for text in TEXTS)
    assert main([*begun, "-o", "shuffled", "--format", "native", "--shuffle", "3", "--shards", "2"]) == 0
    assert Manifest.read(Path("shuffled")).options["shuffle"] == 3


def test_id_0_is_appended(begun):
    assert main([*begun, "--format", "native", "--append", "0"]) == 0
    assert Manifest.read(Path("out")).options["append"] == 0
    assert all(row[-1] == 0 for row in read_rows("out"))


def test_the_format_of_a_file_is_said(begun, capsys):
    begun.remove("--quiet")
    assert main(begun) == 0
    assert (
        "bpe: out: ids as text, a line for each document; --format writes training shards\n" in capsys.readouterr().err
    )


def test_a_finished_folder_says_so(begun, capsys):
    begun.remove("--quiet")
    assert main([*begun, "--format", "native"]) == 0
    capsys.readouterr()
    assert main([*begun, "--format", "native"]) == 0
    assert "bpe: out is finished: 4 documents, " in capsys.readouterr().err


def test_refusals(begun, capsys, tokenizer_file):
    fails(capsys, [*begun[:-3], "--format", "native"], 2, "--format native needs -o OUT/")
    fails(
        capsys, [*begun, "-o", "out/"], 2, "the output out/ is a folder, and .* give --format native, .* or name a file"
    )
    fails(capsys, [*begun, "--validation", "0.1"], 2, "--validation is for training shards; give --format native, ")
    fails(capsys, [*begun, "--format", "native", "--validation", "2"], 2, "'2' is not a number from 0 to 1")
    fails(capsys, [*begun, "--format", "native", "--shards", "2"], 1, "--shards is 2, but the shards are not shuffled")
    fails(capsys, [*begun, "--format", "native", "--part", "2/2"], 2, "2/2")
    fails(capsys, [*begun, "--format", "native", "--append", "<nil>"], 1, "'<nil>', which is no special token")
    Path("d.csv").write_text("text\nlow\n")
    fails(capsys, ["encode", "d.csv", *begun[2:], "--format", "native"], 1,
          "leave it out, or pass --input-format text")  # fmt: skip
    plain = bpe.train(texts=["low"], vocab_size=257)
    plain.save("plain.json")
    fails(capsys, [*begun, "-t", "plain.json", "--format", "nanogpt"], 1, "with --append or --prepend, or pass ")
    Path("out").mkdir()
    Path("out/mine.txt").write_text("")
    fails(capsys, [*begun, "--format", "native"], 1, r"out is not empty \(mine.txt\)")
    assert main(["merge-manifests", "out", "-o", ".", "--quiet"]) == 1
    assert "there is no manifest" in capsys.readouterr().err


def test_a_part_that_is_refused_is_named_by_its_flag(begun, capsys):
    assert main([*begun, "--format", "native"]) == 0
    part = ["--format", "native", "--part", "1/2"]
    fails(
        capsys, [*begun, *part, "--extend"], 1, "error: --extend is given, but --part 1/2 gives a part of the sources"
    )
    fails(
        capsys, [*begun, *part, "-o", "chats", "--messages", "m"], 1, "error: --part 1/2 is given; .* with --messages:"
    )
    fails(capsys, [*begun, *part], 1, "made from other sources: --part was None and is ")


def test_other_options_name_flags(begun, capsys):
    assert main([*begun, "--format", "native"]) == 0
    fails(capsys, [*begun, "--format", "native", "--shard-size", "9"], 1, "--shard-size was 268435456 and is 9")


def test_ctrl_c_says_that_the_same_command_goes_on(begun, capsys, monkeypatch):
    encode_shards = encoding.encode_shards

    def interrupted(*args: object, **options: object) -> Manifest:
        def stop(_: Progress) -> None:
            raise KeyboardInterrupt

        return encode_shards(*args, **{**options, "progress": stop})

    monkeypatch.setattr(encoding, "encode_shards", interrupted)
    assert main([*begun, "--format", "native"]) == 130
    assert re.fullmatch(
        r"bpe: interrupted: 0 shards finished in out; the same command goes on from there\n", capsys.readouterr().err
    )
    assert json.loads(Path("out/journal.jsonl").read_text().splitlines()[0])["version"] == 2
