"""The command `bpe`: what it prints, writes and refuses, and with which exit status."""

import io
import logging
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import bpe
from bpe import arguments, cli, idfiles
from bpe.cli import main
from bpe.documents import file_texts, joined_documents

TEXT = "The first line, naïve café.\n\n두 번째 줄: 다람쥐 헌 쳇바퀴에 타고파 😀\r\n\tlast line | no newline · here"

EXAMPLE_B = """\
이 영화를 영화관에서 직접 보지 못한 것을 평생 후회할 것 같다.
보는 내내 감탄을 자아냈고 절대 잊지 못할 여운으로 남을 것이다.
평점이 이해되지 않는다 최소 9점은 받아야 한다 반전이 정말 끝내준다
말로 표현할 수 없다 완벽한 영화 보는 내내 소름이 돋았다
"""
MERGES_B = [
    ("다", "</w>", 7), ("이", "</w>", 4), ("영", "화", 3), ("지", "</w>", 3), ("을", "</w>", 3), ("할", "</w>", 3),
    ("한", "</w>", 2), ("보", "는", 2), ("보는", "</w>", 2), ("내", "내", 2), ("내내", "</w>", 2), ("로", "</w>", 2),
    ("영화", "를", 1), ("영화를", "</w>", 1), ("영화", "관", 1), ("영화관", "에", 1), ("영화관에", "서", 1),
    ("영화관에서", "</w>", 1), ("직", "접", 1), ("직접", "</w>", 1),
]  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    """A small byte-level tokenizer.json with one special token."""
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    bpe.train(texts=[TEXT, "low lower newest widest " * 5], vocab_size=300, special_tokens=["<|end|>"]).save(path)
    return str(path)


@pytest.fixture
def text(tmp_path):
    """A file with several lines, several scripts and bytes that are not UTF-8."""
    path = tmp_path / "text.txt"
    path.write_bytes(TEXT.encode() + b"\xff\xfe")
    return str(path)


@pytest.fixture
def stdin(monkeypatch):
    def give(data):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return give


def left_behind(folder):
    """Temporary files of an atomic write that did not end well."""
    return [path.name for path in Path(folder).iterdir() if path.name.endswith(".tmp")]


def fails(capsys, argv, status, pattern):
    """Run what must fail: its status, nothing on stdout, exactly one line on stderr."""
    assert main(argv) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith("\n")
    assert err.count("\n") == 1
    assert re.search(pattern, err), err
    assert err.startswith("bpe: error: " if status == 1 else "bpe")
    return err


# train ----------------------------------------------------------------------------------------------------------------


def test_trace_prints_worked_example_b(tmp_path, capsys):
    (tmp_path / "b.txt").write_text(EXAMPLE_B, encoding="utf-8")
    path = str(tmp_path / "tokenizer.json")
    argv = ["train", str(tmp_path / "b.txt"), "-o", path, "--num-merges", "20", "--model", "char", "--trace"]
    argv += ["--remove", r"[^가-힣\s]", "--end-of-word", "</w>", "--tie-break", "first", "--quiet"]
    assert main(argv) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out == "".join(
        f"{step}\t{left}\t{right}\t{left + right}\t{count}\n" for step, (left, right, count) in enumerate(MERGES_B, 1)
    )
    tok = bpe.Tokenizer.load(path)
    assert tok.tokens("보는 영화 것을") == ["보는</w>", "영화", "</w>", "것", "을</w>"]


def test_trace_of_worked_example_c_shows_spaces(tmp_path, capsys):
    (tmp_path / "c.txt").write_text(" ".join(["low"] * 5 + ["lower"] * 2 + ["newest"] * 6 + ["widest"] * 3))
    argv = ["train", str(tmp_path / "c.txt"), "-o", str(tmp_path / "c.json"), "--vocab-size", "50", "--corpus-alphabet"]
    assert main([*argv, "--special-token", "<|endoftext|>", "--tie-break", "first", "--trace"]) == 0
    out, err = capsys.readouterr()
    pairs = [tuple(line.split("\t")[1:3]) for line in out.splitlines()]
    assert pairs == [
        ("e", "s"), ("es", "t"), ("l", "o"), ("lo", "w"), ("·", "low"), ("·", "n"), ("·n", "e"), ("·ne", "w"),
        ("·new", "est"), ("·", "w"), ("·w", "i"), ("·wi", "d"), ("·wid", "est"), ("·low", "e"), ("·lowe", "r"),
    ]  # fmt: skip
    assert "no pairs left" in err, "the log says why training stopped early"
    assert "27 tokens" in err
    tok = bpe.Tokenizer.load(tmp_path / "c.json")
    assert tok.vocab_size == 27
    assert tok.special_tokens == {"<|endoftext|>": 0}


def test_train_from_counts_is_worked_example_e(tmp_path, capsys):
    counts = bpe.WordCounts("whitespace")
    counts.update({"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5})
    counts.save(tmp_path / "words.counts")
    argv = ["train", "--counts", str(tmp_path / "words.counts"), "-o", str(tmp_path / "t.json"), "--num-merges", "10"]
    argv += ["--model", "char", "--end-of-word", "</w>", "--tie-break", "first", "--trace", "--quiet"]
    assert main(argv) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [(row[3], int(row[4])) for row in rows] == [
        ("ug", 20), ("un", 16), ("un</w>", 16), ("hug", 15), ("pun</w>", 12), ("hug</w>", 10), ("pug", 5),
        ("pug</w>", 5), ("hugs", 5), ("hugs</w>", 5),
    ]  # fmt: skip


def test_train_options_reach_the_library(tmp_path, text, monkeypatch):
    seen = {}

    def train(**options):
        seen.update(options)
        raise ValueError("enough seen")

    monkeypatch.setattr(bpe, "train", train)
    argv = ["train", text, text, "-o", str(tmp_path / "t.json"), "--vocab-size", "300"]
    assert main(argv) == 1
    assert seen == {
        "files": [text, text], "separator": None, "per_line": False, "vocab_size": 300, "special_tokens": [],
        "end_of_word_glued": False, "progress": False,
    }, "what is not given is left to the library"  # fmt: skip
    seen.clear()
    argv = ["train", text, "-o", str(tmp_path / "t.json"), "--num-merges", "7", "--separator", r"\n\\n"]
    argv += ["--model", "char", "--pretokenizer", "o200k", "--end-of-word", "</w>", "--end-of-word-glued"]
    argv += ["--unk-token", "<unk>", "--tie-break", "greatest", "--special-token", "A", "--special-token", "B"]
    argv += ["--min-frequency", "2", "--max-token-length", "8", "--limit-alphabet", "99", "--first-id", "1"]
    argv += ["--threads", "2", "--corpus-alphabet", "--normalizer", "nfkc", "--normalizer", "strip"]
    argv += ["--remove", "[0-9]", "--normalizer", "lower"]
    assert main(argv) == 1
    n = bpe.normalizers
    assert seen == {
        "files": [text], "separator": "\n\\n", "per_line": False, "num_merges": 7, "model": "char",
        "end_of_word": "</w>", "pretokenizer": bpe.Pretokenizer("o200k"), "end_of_word_glued": True,
        "unk_token": "<unk>", "tie_break": "greatest", "special_tokens": ["A", "B"], "min_frequency": 2,
        "max_token_length": 8, "limit_alphabet": 99, "first_id": 1, "threads": 2, "initial_alphabet": "corpus",
        "normalizer": [n.NFKC(), n.Strip(), n.Remove("[0-9]"), n.Lowercase()], "progress": False,
    }  # fmt: skip
    seen.clear()
    argv = ["train", text, "-o", str(tmp_path / "t.json"), "--num-merges", "7", "--pattern", r"\d+|\D", "--remove", "x"]
    assert main(argv) == 1
    assert seen["pretokenizer"] == bpe.Pretokenizer.from_regex(r"\d+|\D")
    assert seen["normalizer"] == n.Remove("x")
    assert main([*argv[:-4], "--pretokenizer", "none", "--per-line"]) == 1
    assert seen["pretokenizer"] is None
    assert (seen["files"], seen["separator"], seen["per_line"]) == ([text], None, True)


def test_train_reads_stdin_and_pipes(tmp_path, stdin):
    data = "low lower newest widest " * 20
    (tmp_path / "a.txt").write_text(data)
    os.mkfifo(tmp_path / "pipe")
    rest = ["--vocab-size", "270", "--quiet", "-o"]
    assert main(["train", str(tmp_path / "a.txt"), *rest, str(tmp_path / "file.json")]) == 0
    stdin(data.encode())
    assert main(["train", "-", *rest, str(tmp_path / "stdin.json")]) == 0
    with subprocess.Popen(["cp", str(tmp_path / "a.txt"), str(tmp_path / "pipe")]) as writer:
        try:
            assert main(["train", str(tmp_path / "pipe"), *rest, str(tmp_path / "pipe.json")]) == 0
        finally:
            writer.kill()
    expected = (tmp_path / "file.json").read_bytes()
    assert (tmp_path / "stdin.json").read_bytes() == expected
    assert (tmp_path / "pipe.json").read_bytes() == expected


def test_train_says_what_it_learned_unless_quiet(tmp_path, text, capsys):
    argv = ["train", text, "-o", str(tmp_path / "t.json"), "--vocab-size", "260"]
    assert main(argv) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"bpe: 260 tokens, 4 merges, learned in \d+\.\d s: .*t\.json\n", err)
    assert main([*argv, "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


# encode and decode ----------------------------------------------------------------------------------------------------


def test_encode_writes_one_line_of_ids_per_document(tokenizer, text, capsys):
    tok = bpe.Tokenizer.load(tokenizer)
    data = Path(text).read_bytes()
    assert main(["encode", text, text, "-t", tokenizer]) == 0
    assert capsys.readouterr().out == 2 * (" ".join(map(str, tok.encode(data).tolist())) + "\n")
    assert main(["encode", text, "-t", tokenizer, "--per-line"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [tok.decode_bytes(list(map(int, line.split()))) for line in lines] == data.splitlines(keepends=True)


def test_ids_come_in_pieces_without_seams(tokenizer, text, capsys, monkeypatch):
    assert main(["encode", text, "-t", tokenizer, "--per-line"]) == 0
    whole = capsys.readouterr().out
    monkeypatch.setattr(idfiles, "_PIECE", 3)
    monkeypatch.setattr(cli, "_GROUP", 8)
    assert main(["encode", text, "-t", tokenizer, "--per-line"]) == 0
    assert capsys.readouterr().out == whole


@pytest.mark.parametrize("cut", [[], ["--per-line"], ["--separator", r"\n"], ["--separator", "i"]])
@pytest.mark.parametrize("name", ["ids.txt", "ids.npy"])
@pytest.mark.parametrize("data", [TEXT.encode() + b"\xff\n\n", b"", b"\n", b"no newline", b"a\r\nb\n"])
def test_decode_gives_the_file_back(tmp_path, tokenizer, capsysbinary, cut, name, data):
    (tmp_path / "in.txt").write_bytes(data)
    ids = str(tmp_path / name)
    assert main(["encode", str(tmp_path / "in.txt"), "-t", tokenizer, "-o", ids, *cut]) == 0
    assert capsysbinary.readouterr().out == b""
    back = cut if "--separator" in cut else []
    assert main(["decode", ids, "-t", tokenizer, *back]) == 0
    assert capsysbinary.readouterr().out == data
    assert main(["decode", ids, "-t", tokenizer, "-o", str(tmp_path / "out.txt"), *back]) == 0
    assert (tmp_path / "out.txt").read_bytes() == data
    assert left_behind(tmp_path) == []


def test_npy_records_the_document_boundaries(tmp_path, tokenizer, text, monkeypatch):
    tok = bpe.Tokenizer.load(tokenizer)
    monkeypatch.setattr(cli, "_GROUP", 30)
    path = tmp_path / "x.npy"
    assert main(["encode", text, text, "-t", tokenizer, "-o", str(path), "--per-line"]) == 0
    ids, offsets = np.load(path), np.load(tmp_path / "x.offsets.npy")
    expected = tok.encode_batch(2 * Path(text).read_bytes().splitlines(keepends=True))
    assert ids.dtype == np.uint32
    assert offsets.dtype == np.int64
    assert bpe.TokenBatch(ids, offsets) == expected
    assert np.load(path, mmap_mode="r").shape == ids.shape
    assert main(["encode", text, "-t", tokenizer, "-o", str(tmp_path / "ids.bin"), "--format", "npy"]) == 0
    assert np.load(tmp_path / "ids.bin").tolist() == tok.encode(Path(text).read_bytes()).tolist()
    assert (tmp_path / "ids.bin.offsets.npy").exists()
    assert main(["encode", text, "-t", tokenizer, "-o", str(tmp_path / "IDS.NPY")]) == 0  # the name of a file in DOS
    assert np.load(tmp_path / "IDS.NPY").tolist() == np.load(tmp_path / "ids.bin").tolist()


@pytest.mark.parametrize("name", ["ids", "ids.txt", "ids.tok", "ids.v2", ".parquet"])
def test_other_names_take_lines(tmp_path, tokenizer, text, capsys, name):
    assert main(["encode", text, "-t", tokenizer]) == 0
    lines = capsys.readouterr().out
    path = tmp_path / name
    assert main(["encode", text, "-t", tokenizer, "-o", str(path)]) == 0
    assert path.read_text() == lines
    assert main(["encode", text, "-t", tokenizer, "-o", f"{path}.parquet", "--format", "ids"]) == 0
    assert Path(f"{path}.parquet").read_text() == lines


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_a_document_that_comes_through_a_pipe(tmp_path, tokenizer, stdin, capsysbinary, monkeypatch, size):
    """It is encoded as it comes, not held whole; every output is that of a file with the same bytes."""
    monkeypatch.setattr(idfiles, "_READ", size)
    monkeypatch.setattr("bpe.streams.PIECE", size)
    paths = [str(tmp_path / name) for name in ("text", "ids.npy", "ids.offsets.npy")]
    for data in (b"", TEXT.encode() * 3 + b"\xff<|end|> low " * 20):
        Path(paths[0]).write_bytes(data)
        for more in ([], ["--allow-special"]):
            written = []
            for way in (paths[0], "-"):
                outputs = []
                for options in (["encode"], ["encode", "-o", paths[1]], ["count"]):
                    stdin(data)
                    assert main([*options, paths[0], way, "-t", tokenizer, *more]) == 0
                    outputs.append(capsysbinary.readouterr().out.replace(b"  -\n", b"  " + paths[0].encode() + b"\n"))
                written.append((*outputs, *(Path(path).read_bytes() for path in paths[1:])))
            assert written[0] == written[1]


def test_stdin_to_stdout(tokenizer, text, stdin, capsysbinary):
    data = Path(text).read_bytes()
    stdin(data)
    assert main(["encode", "-", "-t", tokenizer]) == 0
    ids = capsysbinary.readouterr().out
    stdin(ids)
    assert main(["decode", "-", "-t", tokenizer, "-o", "-"]) == 0
    assert capsysbinary.readouterr().out == data
    array = io.BytesIO()
    np.save(array, np.array(ids.split(), dtype=np.int64))
    stdin(array.getvalue())
    assert main(["decode", "-", "-t", tokenizer]) == 0
    assert capsysbinary.readouterr().out == data


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
@pytest.mark.parametrize("model", ["byte", "char"])
def test_lines_of_ids_are_decoded_as_they_come(tmp_path, stdin, capsysbinary, monkeypatch, size, model):
    """Whatever a line is cut into; places in errors are those in the line, and a word without end is not held."""
    monkeypatch.setattr(idfiles, "_READ", size)
    path = str(tmp_path / "t.json")
    tok = bpe.train(texts=["low lower"], num_merges=9, model=model, end_of_word=None if model == "byte" else "</w>")
    tok.save(path)
    ids = " ".join(map(str, tok.encode("low lower"))).encode()
    for lines in (b"", b"\n", ids, ids + b" \t", b" " + ids + b"\n\n\n" + ids.replace(b" ", b"\t \t") + b"\r\n" + ids):
        stdin(lines)
        assert main(["decode", "-", "-t", path, "--separator", "|"]) == 0
        expected = [tok.decode_bytes(list(map(int, line.split()))) for line in io.BytesIO(lines)]
        assert capsysbinary.readouterr().out == b"|".join(expected)
    for lines, message in (
        (ids + b"\n" + b"1 " * 20 + b"999", b"line 2: token id 999 at place 20"),
        (b"0" * 3000, b"000\xe2\x80\xa6 is no"),
    ):
        stdin(lines)
        assert main(["decode", "-", "-t", path]) == 1
        assert message in capsysbinary.readouterr().err


def test_special_tokens_are_text_unless_allowed(tmp_path, tokenizer, capsys):
    (tmp_path / "s.txt").write_text("a<|end|>b")
    assert main(["encode", str(tmp_path / "s.txt"), "-t", tokenizer]) == 0
    assert "0" not in capsys.readouterr().out.split()
    assert main(["encode", str(tmp_path / "s.txt"), "-t", tokenizer, "--allow-special"]) == 0
    assert capsys.readouterr().out.split()[1] == "0"
    assert main(["count", str(tmp_path / "s.txt"), "-t", tokenizer, "--allow-special"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[0] == "3"


@pytest.mark.parametrize("threads", ["1", "3"])
def test_threads_do_not_change_the_ids(tokenizer, text, capsys, threads):
    assert main(["encode", text, "-t", tokenizer, "--per-line"]) == 0
    expected = capsys.readouterr().out
    assert main(["encode", text, "-t", tokenizer, "--per-line", "--threads", threads]) == 0
    assert capsys.readouterr().out == expected


# count, info, show ----------------------------------------------------------------------------------------------------


def test_count(tmp_path, tokenizer, text, capsys):
    (tmp_path / "empty.txt").write_bytes(b"")
    tok = bpe.Tokenizer.load(tokenizer)
    size = os.path.getsize(text)
    n = len(tok.encode(Path(text).read_bytes()))
    assert main(["count", text, str(tmp_path / "empty.txt"), text, "-t", tokenizer]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    ratio = f"{size / n:.3f}"
    assert rows == [
        ["tokens", "bytes", "bytes/token", "file"],
        [str(n), str(size), ratio, text],
        ["0", "0", "-", str(tmp_path / "empty.txt")],
        [str(n), str(size), ratio, text],
        [str(2 * n), str(2 * size), ratio, "total"],
    ]
    assert main(["count", text, "-t", tokenizer]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_info(tmp_path, tokenizer, capsys):
    tok = bpe.Tokenizer.load(tokenizer)
    assert main(["info", tokenizer]) == 0
    facts = dict(re.split(r":\s+", line, maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert facts["model"] == "byte-level"
    assert facts["vocabulary"] == "300 tokens, ids 0 to 299"
    assert facts["merges"] == str(len(tok.merges))
    assert facts["special tokens"] == "<|end|> 0"
    assert facts["pretokenizer"] == "gpt2, pretokens found by a scanner"
    assert facts["normalizer"] == "none"
    assert facts["fingerprint"] == tok.fingerprint
    assert "·newest" in facts["longest tokens"]
    path = tmp_path / "char.json"
    bpe.train(
        texts=["aab abb"], num_merges=2, model="char", end_of_word="</w>", unk_token="<unk>", first_id=5,
        pretokenizer=bpe.Pretokenizer.from_regex(r"[ab]+"), normalizer=bpe.normalizers.NFC(),
    ).save(path)  # fmt: skip
    assert main(["info", str(path)]) == 0
    out = capsys.readouterr().out
    assert "character-level" in out
    assert "ids 5 to " in out
    assert "</w>, a symbol of its own" in out
    assert "Pretokenizer.from_regex('[ab]+'), pretokens found by the regex package" in out
    assert "NFC()" in out
    assert "<unk>" in out


def test_show_is_plain_off_a_terminal_and_coloured_on_one(tokenizer, capsys, monkeypatch, stdin):
    argv = ["show", "newest widest | 다x", "-t", tokenizer]
    assert main(argv) == 0
    line = capsys.readouterr().out
    assert line.endswith("\n")
    assert "\x1b" not in line
    assert r"·\|" in line.replace("|·", "·").replace(r"·|\|", r"·\|")
    tok = bpe.Tokenizer.load(tokenizer)
    assert line.rstrip("\n") == bpe.visualize.plain(tok.tokens("newest widest | 다x"))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert main(argv) == 0
    assert "\x1b[38;5;16;48;5;" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(argv) == 0
    assert capsys.readouterr().out == line
    stdin("newest widest | 다x".encode())
    assert main(["show", "-", "-t", tokenizer]) == 0
    assert capsys.readouterr().out == line


def test_show_explain(tokenizer, capsys):
    assert main(["show", "newest", "-t", tokenizer, "--explain"]) == 0
    out = capsys.readouterr().out
    assert out.rstrip("\n") == bpe.Tokenizer.load(tokenizer).explain("newest").rstrip("\n")


def test_show_takes_bytes_that_are_not_utf8(tokenizer, capsys):
    assert main(["show", os.fsdecode(b"a\xff"), "-t", tokenizer]) == 0
    assert r"\xff" in capsys.readouterr().out


# Bad use: 2 -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "pattern"),
    [
        ("", "COMMAND"),
        ("tarin a.txt", "invalid choice: 'tarin'"),
        ("train a.txt -o t.json", "one of the arguments --vocab-size --num-merges is required"),
        ("train a.txt --vocab-size 300", "required: -o/--output"),
        ("train -o t.json --vocab-size 300", "either FILES or --counts"),
        ("train a.txt --counts w -o t.json --vocab-size 300", "either FILES or --counts"),
        ("train --counts w -o t.json --vocab-size 300 --per-line", "--per-line cut FILES"),
        ("train --counts w -o t.json --vocab-size 300 --separator x", "--separator and .* cut FILES"),
        ("train a.txt -o t.json --vocab-size 300 --num-merges 3", "not allowed with"),
        ("train a.txt -o t.json --vocab-size 0", "'0' is not a whole number of at least 1"),
        ("train a.txt -o t.json --vocab-size 3e4", "'3e4' is not a whole number"),
        ("train a.txt -o t.json --vocab-size 300 --threads 0", "at least 1"),
        ("train a.txt -o t.json --vocab-size 300 --tie-break random", "invalid choice: 'random'"),
        ("train a.txt -o t.json --vocab-size 300 --pretokenizer gpt5", "'gpt5'; it must be one of 'gpt2'"),
        ("train a.txt -o t.json --vocab-size 300 --pattern (", "does not compile"),
        ("train a.txt -o t.json --vocab-size 300 --remove (", "does not compile"),
        ("train a.txt -o t.json --vocab-size 300 --pattern x --pretokenizer gpt2", "not allowed with"),
        ("train a.txt -o t.json --vocab-size 300 --normalizer nfx", "'nfx' is none of nfc, "),
        ("train a.txt -o t.json --vocab-size 300 --end-of-word-glued", "needs --end-of-word"),
        ("train a.txt -o t.json --vocab-size 300 --per-line --separator x", "not allowed with"),
        (r"train a.txt -o t.json --vocab-size 300 --separator \q", r"has '\\\\q'; known are \\n \\r \\t"),
        ("train - - -o t.json --vocab-size 300", "stdin.* only once"),
        ("train a.txt -o - --vocab-size 300", "to a file, not to stdout"),
        ("train a.txt -o t.json --vocab 300", "required"),
        ("count-words -o w.counts", "required: FILE"),
        ("count-words a.txt", "required: -o/--output"),
        ("count-words a.txt -o -", "to a file, not to stdout"),
        ("count-words a.txt -o w.counts --pretokenizer gpt5", "'gpt5'; it must be one of 'gpt2'"),
        ("count-words a.txt -o w.counts --pattern (", "does not compile"),
        ("count-words a.txt -o w.counts --pattern x --pretokenizer gpt2", "not allowed with"),
        ("count-words a.txt -o w.counts --per-line --separator x", "not allowed with"),
        ("count-words a.txt -o w.counts --threads 0", "at least 1"),
        ("count-words a.txt -o w.counts --normalizer nfx", "'nfx' is none of nfc, "),
        ("count-words - - -o w.counts", "stdin.* only once"),
        ("merge-counts -o w.counts", "required: A"),
        ("merge-counts a.counts", "required: -o/--output"),
        ("merge-counts a.counts -o -", "to a file, not to stdout"),
        ("encode a.txt", "required: -t"),
        ("encode -t t.json", "required: FILE"),
        ("encode a.txt -t t.json --format npy", "needs -o ids.npy"),
        ("encode a.txt -t t.json -o a.parquet", r"a\.parquet would hold lines of ids, not \.parquet; name it \.txt or"),
        ("encode a.txt -t t.json -o a.BIN", r"a\.BIN would hold lines of ids, not \.bin; name it .* or say --format"),
        ("encode a.txt -t t.json --format parquet", "invalid choice"),
        ("decode -t t.json", "required: FILE"),
        ("show -t t.json", "required: TEXT"),
        ("demo --vocab-size 255", "at least 256"),
        ("info", "required"),
    ],
)
def test_bad_use(line, pattern, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("some text")
    err = fails(capsys, line.split(), 2, pattern)
    assert re.match(r"bpe( [\w-]+)?: error: ", err)
    assert err.rstrip().endswith("--help")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_an_empty_separator_is_bad_use(capsys):
    fails(capsys, ["encode", "a.txt", "-t", "t.json", "--separator", ""], 2, "at least one character")


@pytest.mark.parametrize(
    ("given", "meant"), [(r"\n", "\n"), (r"\r\n\t\0", "\r\n\t\0"), (r"\\n", r"\n"), ("<|end|>", "<|end|>"), ("é", "é")]
)
def test_escapes_in_separators(given, meant):
    assert arguments._unescaped(given) == meant


def test_help_and_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"bpe {bpe.__version__}\n"
    for command in ("train", "count-words", "merge-counts", "encode", "decode", "count", "info", "show", "demo"):
        assert main([command, "--help"]) == 0
        assert command in capsys.readouterr().out
    assert main(["--help"]) == 0
    assert "demo" in capsys.readouterr().out


# Bad input: 1 ---------------------------------------------------------------------------------------------------------


def test_missing_files(tmp_path, tokenizer, text, capsys):
    gone = str(tmp_path / "gone.txt")
    pattern = r"gone\.txt: No such file"
    fails(capsys, ["train", text, gone, "-o", str(tmp_path / "t.json"), "--vocab-size", "300"], 1, pattern)
    fails(capsys, ["encode", text, gone, "-t", tokenizer], 1, pattern)
    fails(capsys, ["encode", text, "-t", gone], 1, pattern)
    fails(capsys, ["decode", gone, "-t", tokenizer], 1, pattern)
    fails(capsys, ["count", text, gone, "-t", tokenizer], 1, pattern)
    fails(capsys, ["info", gone], 1, pattern)
    fails(capsys, ["encode", str(tmp_path), "-t", tokenizer], 1, "[Dd]irectory")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text.txt"]


def test_bad_outputs_are_refused_before_the_work(tmp_path, tokenizer, text, capsys, monkeypatch):
    monkeypatch.setattr(bpe, "train", None)  # never reached
    monkeypatch.setattr(bpe.Tokenizer, "encode_batch", None)
    size = ["--vocab-size", "300"]
    nowhere = str(tmp_path / "no" / "out")
    fails(capsys, ["train", text, "-o", nowhere, *size], 1, "folder .*no does not exist; make it first")
    fails(capsys, ["encode", text, "-t", tokenizer, "-o", nowhere], 1, "does not exist")
    fails(capsys, ["decode", text, "-t", tokenizer, "-o", nowhere], 1, "does not exist")
    fails(capsys, ["train", text, "-o", str(tmp_path), *size], 1, "is no regular file")
    fails(capsys, ["train", text, "-o", os.devnull, *size], 1, "is no regular file")
    before = Path(text).read_bytes()
    fails(capsys, ["train", text, "-o", text, *size], 1, "is one of the inputs")
    fails(capsys, ["encode", text, "-t", tokenizer, "-o", text], 1, "is one of the inputs")
    fails(capsys, ["encode", text, "-t", tokenizer, "-o", tokenizer], 1, "is one of the inputs")
    assert Path(text).read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


def test_bad_tokenizers(tmp_path, text, capsys):
    path = tmp_path / "t.json"
    for content in (b"", b"{", b"[]", b"{}", b'{"model": {"type": "WordPiece"}}', b"\xff\xfe"):
        path.write_bytes(content)
        fails(capsys, ["encode", text, "-t", str(path), "-o", str(tmp_path / "out")], 1, r"t\.json")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("ids", "pattern"),
    [
        (b"1 2\n3 x4\n", r"ids\.txt, line 2: 'x4' is no token id"),
        (b"1 -2\n", r"line 1: '-2' is no token id"),
        (b"1,2\n", "'1,2' is no token id"),
        (b"1.5\n", "'1.5' is no token id"),
        (b"caf\xe9\n", "no token id"),
        (b"1\n300\n", "line 2: .*300"),
        (b"99999999999999999999\n", "line 1"),
        (b"4294967296\n", "line 1: .*4294967296"),
    ],
)
def test_bad_ids(tmp_path, tokenizer, capsys, ids, pattern):
    (tmp_path / "ids.txt").write_bytes(ids)
    out = tmp_path / "out.txt"
    fails(capsys, ["decode", str(tmp_path / "ids.txt"), "-t", tokenizer, "-o", str(out)], 1, pattern)
    assert [path.name for path in tmp_path.iterdir()] == ["ids.txt"], "nothing half-written"


def test_bad_npy(tmp_path, tokenizer, capsys):
    path = tmp_path / "x.npy"
    argv = ["decode", str(path), "-t", tokenizer]
    for array in (np.zeros(3), np.zeros((2, 2), dtype=np.uint32), np.array([-1]), np.array([1, 2**40])):
        np.save(path, array)
        fails(capsys, argv, 1, r"x\.npy: ")
    np.save(path, np.array([1, 2, 3]))
    whole = path.read_bytes()
    for part in (whole[:6], whole[:50], whole[:-4]):
        path.write_bytes(part)
        fails(capsys, argv, 1, r"x\.npy: ")
    np.save(path, np.array([{}], dtype=object), allow_pickle=True)
    fails(capsys, argv, 1, r"x\.npy: ")
    path.write_bytes(whole)
    assert main(argv) == 0
    capsys.readouterr()
    for offsets in ([0, 2], [0, 3, 2, 3], [], [0.0, 3.0]):
        np.save(tmp_path / "x.offsets.npy", np.array(offsets))
        fails(capsys, argv, 1, r"x\.offsets\.npy: ")


def test_a_character_model_names_the_file_that_it_cannot_encode(tmp_path, text, capsys):
    tok = tmp_path / "t.json"
    bpe.train(texts=["abc abd"], num_merges=2, model="char").save(tok)
    (tmp_path / "fine.txt").write_text("ab abc")
    argv = ["encode", str(tmp_path / "fine.txt"), text, "-t", str(tok), "-o", str(tmp_path / "ids")]
    fails(capsys, argv, 1, r"text\.txt: .*0xff at offset \d+")
    assert not (tmp_path / "ids").exists()
    argv = ["train", text, "-o", str(tmp_path / "u.json"), "--model", "char", "--vocab-size", "300"]
    fails(capsys, argv, 1, r"0xff at offset \d+")
    assert not (tmp_path / "u.json").exists()


def test_impossible_training(tmp_path, text, capsys):
    out = tmp_path / "t.json"
    (tmp_path / "empty.txt").write_bytes(b"")
    fails(capsys, ["train", str(tmp_path / "empty.txt"), "-o", str(out), "--vocab-size", "300"], 1, "no words")
    fails(capsys, ["train", text, "-o", str(out), "--vocab-size", "100"], 1, "100")
    fails(capsys, ["train", "--counts", text, "-o", str(out), "--vocab-size", "300"], 1, "no word counts")
    assert not out.exists()


# Interruptions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("raised", "status"), [(KeyboardInterrupt, 130), (MemoryError, 1), (BrokenPipeError, 0)])
def test_interruptions_leave_nothing_behind(tmp_path, tokenizer, text, monkeypatch, capsys, raised, status):
    def encode_buffer(*args, **kwargs):
        raise raised

    monkeypatch.setattr(bpe.Tokenizer, "_encode_buffer", encode_buffer)
    monkeypatch.setattr(cli, "_silence_stdout", lambda: None)
    for name in ("ids.txt", "ids.npy"):
        assert main(["encode", text, "-t", tokenizer, "-o", str(tmp_path / name)]) == status
        out, err = capsys.readouterr()
        assert out == ""
        assert err == {130: "bpe: interrupted\n", 1: "bpe: error: out of memory\n", 0: ""}[status]
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


def test_the_log_handler_goes_when_the_command_ends(tokenizer, capsys):
    before = list(logging.getLogger("bpe").handlers)
    main(["info", tokenizer])
    main(["info", "gone.json"])
    assert logging.getLogger("bpe").handlers == before


# As a process ---------------------------------------------------------------------------------------------------------


def process(*argv, **options):
    return subprocess.run(
        [sys.executable, "-m", "bpe", *argv], capture_output=True, timeout=120, check=False, **options
    )


def test_python_m_bpe(tmp_path, text):
    path = str(tmp_path / "t.json")
    done = process("train", text, "-o", path, "--vocab-size", "280", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    data = Path(text).read_bytes()
    ids = process("encode", "-", "-t", path, input=data)
    assert (ids.returncode, ids.stderr) == (0, b""), "no progress bar without a terminal"
    back = process("decode", "-", "-t", path, input=ids.stdout)
    assert (back.returncode, back.stdout, back.stderr) == (0, data, b"")
    assert process("encode", "gone.txt", "-t", path).returncode == 1
    assert process("encode").returncode == 2


def test_text_is_utf8_whatever_the_locale(tokenizer):
    tok = bpe.Tokenizer.load(tokenizer)
    for locale in ("C.UTF-8", "C"):
        done = process(
            "show", "다람쥐", "-t", tokenizer, env={**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": locale}
        )
        assert done.returncode == 0
        assert done.stdout.decode() == bpe.visualize.plain(tok.tokens("다람쥐")) + "\n"


def test_a_closed_pipe_is_silent(tmp_path, tokenizer):
    (tmp_path / "long.txt").write_text("low lower newest widest\n" * 20_000)
    argv = [sys.executable, "-m", "bpe", "encode", str(tmp_path / "long.txt"), "-t", tokenizer, "--per-line"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(timeout=120) == 0


def test_a_closed_trace_does_not_lose_the_tokenizer(tmp_path, text):
    path = tmp_path / "t.json"
    (tmp_path / "words.txt").write_text(" ".join(f"word{i * i}" for i in range(3000)))
    argv = [sys.executable, "-m", "bpe", "train", str(tmp_path / "words.txt"), "-o", str(path), "--vocab-size", "2500"]
    with subprocess.Popen([*argv, "--trace", "--quiet"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout.readline().startswith(b"1\t")
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(timeout=120) == 0
    assert bpe.Tokenizer.load(path).vocab_size == 2500


def test_ctrl_c_ends_with_130(tmp_path, tokenizer):
    fcntl, termios = (pytest.importorskip(name) for name in ("fcntl", "termios"))
    os.mkfifo(tmp_path / "never")
    pipe = os.open(tmp_path / "never", os.O_RDWR)  # it can be opened, and never ends
    argv = [sys.executable, "-m", "bpe", "encode", str(tmp_path / "never"), "-t", tokenizer]
    argv += ["-o", str(tmp_path / "out")]
    # A background job of a shell ignores SIGINT, and so would what it starts; a user at a terminal does not.
    heeding = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    with subprocess.Popen(argv, stderr=subprocess.PIPE, **heeding) as running:
        try:
            os.write(pipe, b"low")
            while fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4) != b"\0" * 4:  # until it has read this and waits
                assert running.poll() is None
                time.sleep(0.01)
            running.send_signal(signal.SIGINT)
            assert running.wait(timeout=120) == 130
        finally:
            running.kill()
        assert running.stderr.read() == b"bpe: interrupted\n"
    os.close(pipe)
    assert [path.name for path in tmp_path.iterdir()] == ["never"]


def test_importing_the_command_line_pulls_in_nothing_optional():
    code = "import sys, bpe.cli; print(*{'tqdm', 'bpe.demo', 'pyarrow', 'tokenizers', 'ftfy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_documents_of_a_pipe_are_those_of_the_file(monkeypatch, tmp_path, size):
    """Cut as they come, a separator in two pieces, or in groups of a mapped file."""
    monkeypatch.setattr(idfiles, "_READ", size)
    for data in (b"", b"<|", b"a<|b|>", b"<|b|><|b|>", b"low<|b|>lower <|b<|b|>|>\n" * 3):
        (tmp_path / "file").write_bytes(data)
        expected = data.split(b"<|b|>")
        assert list(idfiles.documents(io.BytesIO(data), separator="<|b|>")) == expected
        (whole,) = file_texts(tmp_path / "file", "<|b|>", per_line=False)
        groups = list(whole.groups(size))
        assert [text for group in groups for text in group.texts()] == expected
        assert all(sum(map(len, group.texts()[:-1])) < size for group in groups)
        assert [group.n_bytes_of(len(group.texts())) for group in groups] == [sum(map(len, g.texts())) for g in groups]
        (whole,) = file_texts(tmp_path / "file", None, per_line=True)
        assert [text for group in whole.groups(size) for text in group.texts()] == list(io.BytesIO(data))
        joined = joined_documents(expected, "there")
        assert (joined.texts(), joined.n_bytes) == (expected, sum(map(len, expected)))
