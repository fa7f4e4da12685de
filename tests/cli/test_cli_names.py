"""The command `bpe`: tokenizers by name, texts and ids for files, options before commands, units, plain messages."""

from __future__ import annotations

import base64
import hashlib
import shutil
import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import fails

import bpe
from bpe.cli import main
from bpe.cli.arguments import build_parser
from bpe.cli.names import find_encoding, is_name
from bpe.cli.parsing import at_least, parse_sizes, replace_with_flags
from bpe.formats import openai_encodings
from bpe.named import cache, registry


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, with a tokenizer and a text, whose caches of published files are empty."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(cache, "VOCABULARIES", "no_such_package")
    monkeypatch.setattr(registry, "_encodings", {})
    bpe.train(texts=["low lower lowest"] * 3, vocab_size=260).save("tok.json")
    Path("text.txt").write_text("low lower")
    return tmp_path


@pytest.fixture
def published(folder: Path, monkeypatch: pytest.MonkeyPatch) -> bpe.Tokenizer:
    """A small rank file in the cache in place of that of r50k_base."""
    tokens = [bytes([byte]) for byte in range(256)] + [b"lo", b"low"]
    ranks = b"".join(b"%s %d\n" % (base64.b64encode(token), rank) for rank, token in enumerate(tokens))
    encoding = openai_encodings.ENCODINGS["r50k_base"]
    file = openai_encodings.FILES[encoding.files[0]]._replace(sha256=hashlib.sha256(ranks).hexdigest())
    monkeypatch.setattr(registry, "FILES", {**openai_encodings.FILES, encoding.files[0]: file})
    monkeypatch.setattr(registry, "ENCODINGS", {"r50k_base": replace(encoding, special_tokens={}, n_vocab=None)})
    (folder / "cache").mkdir()
    (folder / "cache" / cache.make_cached_name(file.address)).write_bytes(ranks)
    return bpe.get_encoding("r50k_base")


@pytest.mark.parametrize("name", ["r50k_base", "davinci"])
def test_a_name_is_the_tokenizer(name: str, published: bpe.Tokenizer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["encode", "text.txt", "-t", name]) == 0
    assert capsys.readouterr().out.split() == [str(token_id) for token_id in published.encode("low lower")]
    lines = "info NAME, show low -t NAME, decode 257 -t NAME, diff NAME r50k_base, count text.txt -t NAME"
    for line in f"{lines}, evaluate NAME tok.json text.txt, convert NAME out.json".split(", "):
        assert main(line.replace("NAME", name).split()) == 0, line
    assert bpe.Tokenizer.load("out.json") == published


def test_a_path_comes_before_a_name(published: bpe.Tokenizer, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy("tok.json", "davinci")
    assert main(["show", "lower", "-t", "davinci"]) == 0
    assert capsys.readouterr().out == "low|e|r\n"


@pytest.mark.parametrize(
    ("line", "pattern"),
    [
        (
            "show x -t cl100k",
            r"cl100k: No such file or directory; did you mean cl100k_base\? \(a tokenizer is a file, ",
        ),
        ("show x -t tak.json", r"tak\.json: No such file or directory; did you mean tok\.json\?$"),
        ("show x -t gpt-4o", r"o200k_base is not in the cache .*cache; put https://.* there, or give --download$"),
        ("evaluate tak.json text.txt", r"tak\.json: No such file or directory; did you mean tok\.json\?$"),
        ("convert gpt-4o out.json --from tiktoken", r"gpt-4o is the name of a tokenizer; --from, "),
        ("encode some-words -t tok.json", r"some-words: .*; --text takes a text instead of a file$"),
        (
            "encode empty -t tok.json",
            r"empty: the directory has no files \(names that begin with \. or _ are left out\)$",
        ),
    ],
)
def test_what_is_no_name_says_so(line: str, pattern: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "empty").mkdir()
    fails(capsys, line.split(), 2 if line.startswith("convert") else 1, pattern)


def test_repositories_come_from_the_cache(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    constants = pytest.importorskip("huggingface_hub.constants", reason="needs huggingface_hub (extra hub)")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    fails(capsys, ["info", "no-org/no-name"], 1, r"no-org/no-name is no file or folder here, .* give --download to get")
    fails(capsys, ["info", "no-org/no-name", "--download"], 1, "no-org/no-name is not in the cache .*HF_HUB_OFFLINE")


def test_a_damaged_file_of_the_cache_is_not_downloaded_again(
    published: bpe.Tokenizer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (cached_file,) = (folder / "cache").iterdir()
    cached_file.write_bytes(b"damaged")
    assert main(["info", "r50k_base"]) == 1
    warning, error = capsys.readouterr().err.splitlines()
    assert warning.endswith("; it is removed, and --download gets it again")
    assert error.startswith("bpe: error: r50k_base is not in the cache")
    assert error.endswith(", or give --download")


def test_a_repository_needs_huggingface_hub(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    fails(capsys, ["info", "org/name"], 1, r"error: a tokenizer of the Hub needs huggingface_hub: pip install")


def test_names_and_missing_files() -> None:
    assert find_encoding("gpt-4o-2024-05-13") == "o200k_base"
    assert find_encoding("gpt-4o-mine.json") is None
    assert [is_name(text) for text in ("org/name.json", "a/b/c", "s3://b/c", "a*/b", "-", "Qwen/Qwen3-0.6B")] == [
        False, False, False, False, False, True,
    ]  # fmt: skip


# Texts, ids, numbers --------------------------------------------------------------------------------------------------


def test_a_text_instead_of_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["encode", "--text", "low lower", "-t", "tok.json", "--append", "0"]) == 0
    ids = bpe.Tokenizer.load("tok.json").encode("low lower").tolist()
    assert capsys.readouterr().out == " ".join(map(str, [*ids, 0])) + "\n"
    assert main(["count", "--text", "low lower", "-t", "tok.json"]) == 0
    assert capsys.readouterr().out.split()[-4:-1] == [str(len(ids)), "9", f"{9 / len(ids):.3f}"]


@pytest.mark.parametrize("words", [["257", "0"], ["257 0"], ["[257, 0]"], ["257,", "0"]])
def test_ids_instead_of_a_file(words: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decode", *words, "-t", "tok.json"]) == 0
    assert capsys.readouterr().out == bpe.Tokenizer.load("tok.json").decode([257, 0])
    Path("257").write_text("0\n")
    assert main(["decode", "257", "-t", "tok.json"]) == 0, "a file of that name is read"
    assert capsys.readouterr().out == "!"
    fails(capsys, ["decode", "999", "-t", "tok.json"], 1, "999, line 1: token id 999 .* pass --skip-invalid$")


@pytest.mark.parametrize(
    "line", ["-t tok.json show lower", "--quiet -t tok.json show lower", "-t tok.json --ids show x"]
)
def test_options_may_come_before_the_command(line: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == 0
    assert capsys.readouterr().out


def test_a_value_before_the_command_is_no_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy("tok.json", "show")
    assert main(["-t", "show", "show", "lower"]) == 0
    assert capsys.readouterr().out == "low|e|r\n"


@pytest.mark.parametrize(("text", "number"), [("7", 7), ("32k", 32_000), ("1.5K", 1500), ("2M", 2_000_000)])
def test_numbers_with_units(text: str, number: int) -> None:
    assert at_least(1)(text) == parse_sizes(text) == number
    assert parse_sizes(f"{text},8k") == [number, 8000]


@pytest.mark.parametrize("text", ["1.5", "1.2345k", "k", "-1k", "1e3", "0.5", "1kk", "٣", "32,000", "1_000"])
def test_other_numbers_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a whole number from 1 to 2147483648|write 32000"):
        parse_sizes(text)


@pytest.mark.parametrize(
    ("line", "flag", "rule"),
    [
        ("encode a.txt -t tok.json --format native -o out --shuffle", "--shuffle", f"from 0 to {2**63 - 1}"),
        ("encode a.txt -t tok.json --format native -o out --shard-size", "--shard-size", f"from 1 to {2**63 - 1}"),
        ("encode a.txt -t tok.json --format native -o out --shuffle 1 --shards", "--shards", "from 1 to 4096"),
        ("encode a.txt -t tok.json --threads", "--threads", "from 1 to 4096"),
        ("train a.txt -o t.json --vocab-size", "--vocab-size", "from 1 to 2147483648"),
        ("train a.txt -o t.json --num-merges", "--num-merges", "from 0 to 2147483648"),
        ("train a.txt -o t.json --num-merges 1 --max-token-length", "--max-token-length", "from 1 to 2147483648"),
        ("train a.txt -o t.json --vocab-size 300 --superwords", "--superwords", "from 1 to 2147483648"),
        ("train a.txt -o t.json --num-merges 1 --min-frequency", "--min-frequency", f"from 1 to {2**63 - 1}"),
        ("evaluate tok.json a.txt --seed", "--seed", f"from 0 to {2**63 - 1}"),
        ("verify out --samples", "--samples", f"from 0 to {2**63 - 1}"),
        ("demo --vocab-size", "--vocab-size", "from 256 to 2147483648"),
    ],
)
def test_numbers_that_are_too_large_are_refused_with_both_limits(
    line: str, flag: str, rule: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("a.txt").write_text("low lower", encoding="utf-8")
    for number in (2**63, 10**98):
        assert main([*line.split(), str(number)]) in (1, 2)
        error = capsys.readouterr().err
        assert flag in error
        assert str(number) in error
        assert rule in error
    assert main([*line.split(), "9" * 5000]) == 2
    assert flag in (error := capsys.readouterr().err)
    assert "with at most 99 digits" in error


def test_a_port_in_use(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        argv = ["play", "tok.json", "--port", str(port)]
        fails(capsys, argv, 1, f"--port {port} is in use by another program; give another port, or 0 for any")


# Messages -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "message", "expected"),
    [
        ("evaluate", "parallel is True, but", "--parallel is given, but"),
        ("train", "path is 'tok.gguf', the name of", "--output is 'tok.gguf', the name of"),
        ("convert", "target is 'o.x', a name; pass to_format= one of", "--output is 'o.x', a name; pass --to one of"),
        ("encode", "pass separator= (--separator), or", "pass --separator, or"),
        ("encode", "to allow it, pass allowed_special='all' (--allow-special)", "to allow it, pass --allow-special"),
        ("encode", "pass append=None to write none", "pass --append '' to write none"),
        ("encode", "pass seed=, or shard_size=", "pass --shuffle, or --shard-size"),
        ("encode", "extend is True, but rank=0, world=2 gives", "--extend is given, but --part 0/2 gives"),
        ("encode", "rank=0, world=2 is given; it cannot", "--part 0/2 is given; it cannot"),
        (
            "encode",
            "cannot be combined with messages=: leave it out",
            "cannot be combined with --messages: leave it out",
        ),
        ("encode", "part (rank=, world=, --part) was None", "--part was None"),
        ("encode", 'pass Sources(…, format="jsonl") for', "give --input-format jsonl for"),
        ("train", "count again with special_tokens=['<s>']", "count again with --special-token '<s>'"),
        ("train", "leave out model= and end_of_word=", "leave out --model and --end-of-word"),
        ("decode", "pass skip_invalid=True (bpe decode --skip-invalid)", "pass --skip-invalid"),
        ("info", 'CLIP\'s list with format="clip"', "CLIP's list with bpe convert --from clip"),
        ("prune", "bpe.extend makes a vocabulary larger", "bpe extend makes a vocabulary larger"),
    ],
)
def test_messages_do_not_speak_python(command: str, message: str, expected: str) -> None:
    assert replace_with_flags(message, build_parser(command)) == expected


def test_a_token_that_is_none_says_how_it_is_encoded() -> None:
    tok = bpe.train(texts=["low lower lowest"] * 3, vocab_size=260)
    with pytest.raises(ValueError, match=r"' hello' is no token of .*; it is encoded as 5 tokens: b' ' \(220\), b'h'"):
        tok.token_id(" hello")
    with pytest.raises(ValueError, match=r"vocabulary of 260$"):
        tok.token_id("")
    with pytest.raises(ValueError, match=r"it is encoded as 12 tokens$"):
        tok.token_id("abcdefghijkm")
    with pytest.raises(ValueError, match=r"vocabulary of 4$"):
        bpe.train(texts=["low"], model="char", num_merges=1).token_id("x")


def test_wrong_values_get_a_suggestion() -> None:
    with pytest.raises(ValueError, match=r"one of 'gpt2', .*; did you mean cl100k\?"):
        bpe.train(texts=["a"], vocab_size=300, pretokenizer="cl100k_base")
    with pytest.raises(KeyError, match=r"did you mean gpt-4o\?"):
        bpe.encoding_for_model("gpt4o")
