"""The output of the command `bpe`."""

import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import TEXT, fails

import bpe
from bpe.cli import encoding, main
from bpe.corpus import reading
from bpe.formats import id_files

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


@pytest.fixture
def stdin(monkeypatch):
    def give(data):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return give


def list_leftovers(folder):
    """Temporary files that an atomic write has left."""
    return [path.name for path in Path(folder).iterdir() if path.name.endswith(".tmp")]


# train ----------------------------------------------------------------------------------------------------------------


def test_trace_prints_worked_example_b(tmp_path, capsys):
    (tmp_path / "b.txt").write_text(EXAMPLE_B, encoding="utf-8")
    path = str(tmp_path / "tokenizer.json")
    argv = ["train", str(tmp_path / "b.txt"), "-o", path, "--num-merges", "20", "--model", "char", "--trace"]
    argv += ["--remove", r"[^가-힣\s]", "--end-of-word", "</w>", "--tie-break", "first", "--quiet"]
    assert main(argv) == 0
    out, err = capsys.readouterr()
    assert err.startswith(f"bpe: {path}: Hugging Face's tokenizers cannot load this file, and refuses it: ")
    assert err.count("\n") == 1
    assert out == "step\tleft\tright\ttoken\tcount\n" + "".join(
        f"{step}\t{left}\t{right}\t{left + right}\t{count}\n" for step, (left, right, count) in enumerate(MERGES_B, 1)
    )
    tok = bpe.Tokenizer.load(path)
    assert tok.tokens("보는 영화 것을") == ["보는</w>", "영화", "</w>", "것", "을</w>"]


def test_trace_of_worked_example_c_shows_spaces(tmp_path, capsys):
    (tmp_path / "c.txt").write_text(" ".join(["low"] * 5 + ["lower"] * 2 + ["newest"] * 6 + ["widest"] * 3))
    argv = ["train", str(tmp_path / "c.txt"), "-o", str(tmp_path / "c.json"), "--num-merges", "99"]
    assert main([*argv, "--special-token", "<|endoftext|>", "--tie-break", "first", "--trace"]) == 0
    out, err = capsys.readouterr()
    pairs = [tuple(line.split("\t")[1:3]) for line in out.splitlines()[1:]]
    assert pairs == [
        ("e", "s"), ("es", "t"), ("l", "o"), ("lo", "w"), ("·", "low"), ("·", "n"), ("·n", "e"), ("·ne", "w"),
        ("·new", "est"), ("·", "w"), ("·w", "i"), ("·wi", "d"), ("·wid", "est"), ("·low", "e"), ("·lowe", "r"),
    ]  # fmt: skip
    assert "no pairs left" in err, "the log says why training stopped early"
    assert "272 tokens" in err
    tok = bpe.Tokenizer.load(tmp_path / "c.json")
    assert tok.vocab_size == 272
    assert tok.special_tokens == {"<|endoftext|>": 0}


def test_train_from_counts_is_worked_example_e(tmp_path, capsys):
    counts = bpe.WordCounts("whitespace")
    counts.update({"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5})
    counts.save(tmp_path / "words.counts")
    argv = ["train", "--counts", str(tmp_path / "words.counts"), "-o", str(tmp_path / "t.json"), "--num-merges", "10"]
    argv += ["--model", "char", "--end-of-word", "</w>", "--tie-break", "first", "--trace", "--quiet"]
    assert main(argv) == 0
    header, *rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert header == ["step", "left", "right", "token", "count"]
    assert [(row[3], int(row[4])) for row in rows] == [
        ("ug", 20), ("un", 16), ("un</w>", 16), ("hug", 15), ("pun</w>", 12), ("hug</w>", 10), ("pug", 5),
        ("pug</w>", 5), ("hugs", 5), ("hugs</w>", 5),
    ]  # fmt: skip


def test_words_on_the_command_line_are_those_of_counts(tmp_path, capsys):
    """The example of courses, without a file."""
    argv = ["train", "--words", "hug:10 pug:5 pun:12 bun:4\thugs:3 hugs:2", "-o", str(tmp_path / "t.json")]
    assert main([*argv, "--num-merges", "3", "--model", "char", "--tie-break", "first", "--trace", "--quiet"]) == 0
    words = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}
    rules = bpe.MergeRules(tie_break="first")
    assert bpe.Tokenizer.load(tmp_path / "t.json") == bpe.train(counts=words, num_merges=3, model="char", rules=rules)
    assert (
        capsys.readouterr().out
        == "step\tleft\tright\ttoken\tcount\n1\tu\tg\tug\t20\n2\tu\tn\tun\t16\n3\th\tug\thug\t15\n"
    )
    assert main([*argv, "--num-merges", "1", "--model", "char", "--trace", "--corpus", "--quiet"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "step\tleft\tright\ttoken\tcount",
        "corpus\th u g:10  p u g:5  p u n:12  b u n:4  h u g s:5",
        "pairs\tu g 20 > p u 17 > u n 16 > h u 15 > g s 5 > …",
        "1\tu\tg\tug\t20",
        "corpus\th ug:10  p ug:5  p u n:12  b u n:4  h ug s:5",
        "pairs\tu n 16 > h ug 15 > p u 12 > p ug 5 = ug s 5 > …",
    ]


@pytest.mark.parametrize(
    "options", [[], ["--model", "char", "--end-of-word", "</w>"], ["--end-of-word", "_", "--end-of-word-glued"]]
)
def test_the_traced_corpus_has_the_counts_of_the_training(tmp_path, capsys, options):
    """The best pair of each step is the merge that follows, and the corpus ends as the tokenizer encodes its words."""
    words = {"aaaa": 3, "aab": 2, "naïve": 5, "vein": 4, "aa": 1}
    text = " ".join(f"{word}:{count}" for word, count in words.items())
    path = str(tmp_path / "t.json")
    argv = ["train", "--words", text, "-o", path, "--num-merges", "9", "--tie-break", "first", *options]
    assert main([*argv, "--trace", "--corpus", "--quiet"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    pairs = [row[1] for row in rows if row[0] == "pairs"]
    merges = [row for row in rows if row[0].isdecimal()]
    assert len(pairs) == len(merges) + 1
    for best_pairs, (_, left, right, _, count) in zip(pairs, merges, strict=False):
        assert any(pair.endswith(f" {count}") for pair in best_pairs.split(" > ")[0].split(" = "))
        assert f"{left} {right} {count}" in best_pairs or best_pairs.endswith("= …")
    last = rows[-2][1].split("  ")
    tok = bpe.Tokenizer.load(path)
    assert [len(word.rpartition(":")[0].split(" ")) for word in last] == [
        len(tok._engine.encode_pretoken(word.encode())) for word in words
    ]


def test_the_corpus_of_files_and_of_counts_is_traced(tmp_path, capsys):
    """It is that of its words, and the tokenizer that of a training without a trace."""
    path, counts_path, names = tmp_path / "text.txt", str(tmp_path / "words.counts"), [str(tmp_path / "t.json")] * 2
    path.write_text("low low lower\nnewest low", encoding="utf-8")
    options = ["--num-merges", "2", "--model", "char", "--classic", "--quiet"]
    assert main(["train", str(path), "-o", str(tmp_path / "plain.json"), *options]) == 0
    assert main(["count-words", str(path), "-o", counts_path, "--pretokenizer", "whitespace", "--quiet"]) == 0
    outputs = []
    for corpus in ([str(path)], ["--counts", counts_path], ["--words", "low:3 lower:1 newest:1"]):
        assert main(["train", *corpus, "-o", names[0], *options, "--trace", "--corpus"]) == 0
        outputs.append(capsys.readouterr().out)
        assert bpe.Tokenizer.load(names[0]).tokens("low newest") == ["low", "n", "e", "w", "e", "s", "t"]
    assert outputs[0].splitlines() == [
        "step\tleft\tright\ttoken\tcount",
        "corpus\tl o w:3  l o w e r:1  n e w e s t:1",
        "pairs\tl o 4 = o w 4 > w e 2 > e r 1 = n e 1 = …",
        "1\tl\to\tlo\t4",
        "corpus\tlo w:3  lo w e r:1  n e w e s t:1",
        "pairs\tlo w 4 > w e 2 > e r 1 = n e 1 = e w 1 = …",
        "2\tlo\tw\tlow\t4",
        "corpus\tlow:3  low e r:1  n e w e s t:1",
        "pairs\tlow e 1 = e r 1 = n e 1 = e w 1 = w e 1 = …",
    ]
    assert outputs[0] == outputs[1] == outputs[2]
    main(["train", str(path), "-o", names[0], *options, "--trace", "--corpus"])
    assert bpe.Tokenizer.load(names[0]) == bpe.Tokenizer.load(tmp_path / "plain.json")


@pytest.mark.parametrize(
    "options",
    [
        ["--separator", "|", "--special-token", "<s>", "--normalizer", "lower"],
        ["--pretokenizer", "none", "--per-line"],
        ["--byte-fallback", "--pretokenizer", "metaspace", "--tie-break", "greatest"],
        ["--pretokenizer", "cl100k", "--vocab-size", "270"],
    ],
)
def test_the_corpus_of_files_with_options_is_traced(tmp_path, capsys, options):
    path, traced, plain = tmp_path / "text.txt", str(tmp_path / "traced.json"), str(tmp_path / "plain.json")
    path.write_text("Low low|lower <s>low\nnaïve naïve 1234 low|한국 한국어", encoding="utf-8")
    argv = ["train", str(path), *options, "--quiet"]
    argv += [] if "--vocab-size" in options else ["--num-merges", "8"]
    assert main([*argv, "-o", plain, "--trace"]) == 0
    trace = capsys.readouterr().out.splitlines()
    assert main([*argv, "-o", traced, "--trace", "--corpus"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if not line.startswith(("corpus\t", "pairs\t"))] == trace
    assert bpe.Tokenizer.load(traced) == bpe.Tokenizer.load(plain)
    best_pairs = [line.split("\t")[1] for line in lines if line.startswith("pairs\t")]
    for pairs, line in zip(best_pairs, trace[1:], strict=False):
        _, left, right, _, count = line.split("\t")
        assert re.split(" [>=] ", pairs)[0].split()[-1] == count, "the highest count wins"
        assert re.split(" [>=] ", pairs)[0] == f"{left} {right} {count}", "the first of the pairs is merged"


def test_a_corpus_without_pairs_is_traced(tmp_path, capsys):
    argv = ["train", "--words", "a:3", "-o", str(tmp_path / "t.json"), "--num-merges", "1", "--model", "char"]
    assert main([*argv, "--trace", "--corpus"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["corpus\ta:3", "pairs\tnone"]


def test_many_words_are_listed_in_part_and_too_many_refused(tmp_path, capsys, monkeypatch):
    path = tmp_path / "text.txt"
    path.write_text(" ".join(f"a{number}" for number in range(103)), encoding="utf-8")
    argv = ["train", str(path), "-o", str(tmp_path / "t.json"), "--num-merges", "1", "--trace", "--corpus", "--quiet"]
    assert main([*argv, "--pretokenizer", "whitespace"]) == 0
    words = capsys.readouterr().out.splitlines()[1].split("\t")[1].split("  ")
    assert words[:2] == ["a 0:1", "a 1:1"]
    assert words[-2:] == ["a 9 9:1", "… and 3 more words"]
    monkeypatch.setattr("bpe.cli.training.MAX_WORDS", 102)
    message = "the corpus has 103 distinct words; --corpus prints those of at most 102: leave it out"
    fails(capsys, [*argv, "--pretokenizer", "whitespace"], 1, message)


def test_classic_is_short_for_the_first_pair(tmp_path, capsys):
    argv = ["train", "--words", "ab:1 cd:1", "-o", str(tmp_path / "t.json"), "--num-merges", "1", "--trace", "--quiet"]
    assert main([*argv, "--tie-break", "greatest"]) == 0
    assert capsys.readouterr().out.endswith("1\tc\td\tcd\t1\n")
    assert main([*argv, "--classic"]) == 0
    assert capsys.readouterr().out.endswith("1\ta\tb\tab\t1\n")
    assert bpe.Tokenizer.load(tmp_path / "t.json").vocab_size == 257
    fails(capsys, [*argv, "--classic", "--tie-break", "smallest"], 2, "not allowed with")
    fails(capsys, [arg for arg in argv if arg != "--trace"] + ["--corpus"], 2, "--corpus shows the corpus between the")


@pytest.mark.parametrize("option", ["--split-digits", "--max-token-length 2", "--character-coverage 0.5"])
def test_the_corpus_is_not_traced_where_pairs_are_excluded(tmp_path, capsys, option):
    line = f"train --words 12:3 -o {tmp_path}/t.json --num-merges 1 --trace --corpus {option}"
    fails(capsys, line.split(), 2, f"--corpus prints all pairs, of which {option.split()[0]} excludes some; leave out")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--superwords 9", "--corpus prints pairs within words, and --superwords learns others; leave out one of them"),
        ("--checkpoint c", "--corpus begins at the first merge, and --checkpoint may go on after it; leave out one"),
        ("--max-memory 2G", "--corpus is for small corpora, which need no --max-memory; leave out one of them"),
    ],
)
def test_the_corpus_is_not_traced_with_options_of_long_trainings(tmp_path, capsys, text_file, option, message):
    line = f"train {text_file} -o {tmp_path}/t.json --num-merges 1 --trace --corpus {option}"
    fails(capsys, line.split(), 2, message)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("hug", "'hug' is no word with its count, such as hug:10"),
        ("hug:0", "'hug:0' is no word with its count, such as hug:10"),
        (f"hug:{2**63}", f"'hug:{2**63}' is no word with its count, such as hug:10; counts are from 1 to {2**63 - 1}"),
        (":5", "':5' is no word with its count, such as hug:10"),
        ("hug:1.5", "'hug:1.5' is no word with its count, such as hug:10"),
        (" ", "there are no words; give some with their counts, such as 'hug:10 pug:5'"),
    ],
)
def test_words_without_counts_are_refused(tmp_path, capsys, words, message):
    assert main(["train", "--words", words, "-o", str(tmp_path / "t.json"), "--num-merges", "3"]) == 2
    assert message in capsys.readouterr().err


def test_words_beside_files_are_refused(tmp_path, capsys, text_file):
    assert main(["train", text_file, "--words", "a:1", "-o", str(tmp_path / "t.json"), "--num-merges", "3"]) == 2
    assert "--words has the words already; leave out FILES and --counts" in capsys.readouterr().err


def test_train_options_reach_the_library(tmp_path, text_file, monkeypatch):
    seen = {}

    def train(**options):
        seen.update(options)
        raise ValueError("enough seen")

    monkeypatch.setattr(bpe, "train", train)
    argv = ["train", text_file, text_file, "-o", str(tmp_path / "t.json"), "--vocab-size", "300"]
    assert main(argv) == 1
    assert seen.pop("files").plan() == bpe.Sources([text_file, text_file]).plan()
    assert seen == {
        "vocab_size": 300, "special_tokens": [], "end_of_word_glued": False, "progress": True, "superwords": None,
        "counts": None, "alphabet": bpe.Alphabet(), "rules": bpe.MergeRules(), "split_digits": False,
    }, "options that are not given keep the library's defaults"  # fmt: skip
    seen.clear()
    argv = ["train", text_file, "-o", str(tmp_path / "t.json"), "--num-merges", "7", "--separator", r"\n\\n"]
    argv += ["--model", "char", "--pretokenizer", "o200k", "--end-of-word", "</w>", "--end-of-word-glued"]
    argv += ["--unk-token", "<unk>", "--tie-break", "greatest", "--special-token", "A", "--special-token", "B"]
    argv += ["--min-frequency", "2", "--max-token-length", "8"]
    argv += ["--byte-fallback", "--character-coverage", "0.9995", "--split-digits"]
    argv += ["--threads", "2", "--normalizer", "nfkc", "--normalizer", "strip"]
    argv += ["--remove", "[0-9]", "--normalizer", "lower"]
    assert main(argv) == 1
    n = bpe.normalizers
    assert seen.pop("files").plan() == bpe.Sources(text_file, separator="\n\\n").plan()
    assert seen == {
        "num_merges": 7, "model": "char",
        "end_of_word": "</w>", "pretokenizer": bpe.Pretokenizer("o200k"), "end_of_word_glued": True,
        "unk_token": "<unk>", "special_tokens": ["A", "B"], "min_frequency": 2, "threads": 2, "superwords": None,
        "counts": None, "alphabet": bpe.Alphabet(coverage=0.9995, byte_fallback=True),
        "rules": bpe.MergeRules(tie_break="greatest", max_token_length=8),
        "split_digits": True,
        "normalizer": [n.NFKC(), n.Strip(), n.Remove("[0-9]"), n.Lowercase()], "progress": True,
    }  # fmt: skip
    seen.clear()
    argv = ["train", text_file, "-o", str(tmp_path / "t.json"), "--num-merges", "7"]
    argv += ["--pattern", r"\d+|\D", "--remove", "x"]
    assert main(argv) == 1
    assert seen["pretokenizer"] == bpe.Pretokenizer.from_regex(r"\d+|\D")
    assert seen["normalizer"] == n.Remove("x")
    assert main([*argv[:-4], "--pretokenizer", "none", "--per-line"]) == 1
    assert seen["pretokenizer"] is None
    assert seen["files"].plan() == bpe.Sources(text_file, per_line=True).plan()


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


def test_train_prints_a_summary_unless_quiet(tmp_path, text_file, capsys):
    argv = ["train", text_file, "-o", str(tmp_path / "t.json"), "--vocab-size", "260"]
    assert main(argv) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"bpe: 260 tokens, 4 merges, learned in \d+\.\d s: .*t\.json\n", err)
    assert main([*argv, "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


# encode and decode ----------------------------------------------------------------------------------------------------


def test_encode_writes_one_line_of_ids_per_document(tokenizer_file, text_file, capsys):
    tok = bpe.Tokenizer.load(tokenizer_file)
    data = Path(text_file).read_bytes()
    assert main(["encode", text_file, text_file, "-t", tokenizer_file]) == 0
    assert capsys.readouterr().out == 2 * (" ".join(map(str, tok.encode(data).tolist())) + "\n")
    assert main(["encode", text_file, "-t", tokenizer_file, "--per-line"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [tok.decode_bytes(list(map(int, line.split()))) for line in lines] == data.splitlines(keepends=True)


def test_ids_written_in_pieces_equal_the_whole(tokenizer_file, text_file, capsys, monkeypatch):
    assert main(["encode", text_file, "-t", tokenizer_file, "--per-line"]) == 0
    expected = capsys.readouterr().out
    monkeypatch.setattr(id_files, "_IDS_PER_WRITE", 3)
    monkeypatch.setattr(encoding, "_GROUP_BYTES", 8)
    assert main(["encode", text_file, "-t", tokenizer_file, "--per-line"]) == 0
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize("cut", [[], ["--per-line"], ["--separator", r"\n"], ["--separator", "i"]])
@pytest.mark.parametrize("name", ["ids.txt", "ids.npy"])
@pytest.mark.parametrize("data", [TEXT.encode() + b"\xff\n\n", b"", b"\n", b"no newline", b"a\r\nb\n"])
def test_decode_restores_the_file(tmp_path, tokenizer_file, capsysbinary, cut, name, data):
    (tmp_path / "in.txt").write_bytes(data)
    ids = str(tmp_path / name)
    argv = ["encode", str(tmp_path / "in.txt"), "-t", tokenizer_file, "-o", ids, "--encoding-errors", "bytes", *cut]
    assert main(argv) == 0
    assert capsysbinary.readouterr().out == b""
    back = cut if "--separator" in cut else []
    assert main(["decode", ids, "-t", tokenizer_file, *back]) == 0
    assert capsysbinary.readouterr().out == data
    assert main(["decode", ids, "-t", tokenizer_file, "-o", str(tmp_path / "out.txt"), *back]) == 0
    assert (tmp_path / "out.txt").read_bytes() == data
    assert list_leftovers(tmp_path) == []


def test_npy_records_the_document_boundaries(tmp_path, tokenizer_file, text_file, monkeypatch):
    tok = bpe.Tokenizer.load(tokenizer_file)
    monkeypatch.setattr(encoding, "_GROUP_BYTES", 30)
    path = tmp_path / "x.npy"
    assert main(["encode", text_file, text_file, "-t", tokenizer_file, "-o", str(path), "--per-line"]) == 0
    ids, offsets = np.load(path), np.load(tmp_path / "x.offsets.npy")
    expected = tok.encode_batch(2 * Path(text_file).read_bytes().splitlines(keepends=True))
    assert ids.dtype == np.uint32
    assert offsets.dtype == np.int64
    assert bpe.TokenBatch(ids, offsets) == expected
    assert np.load(path, mmap_mode="r").shape == ids.shape
    assert main(["encode", text_file, "-t", tokenizer_file, "-o", str(tmp_path / "ids.bin"), "--format", "npy"]) == 0
    assert np.load(tmp_path / "ids.bin").tolist() == tok.encode(Path(text_file).read_bytes()).tolist()
    assert (tmp_path / "ids.bin.offsets.npy").exists()
    assert main(["encode", text_file, "-t", tokenizer_file, "-o", str(tmp_path / "IDS.NPY")]) == 0
    assert np.load(tmp_path / "IDS.NPY").tolist() == np.load(tmp_path / "ids.bin").tolist()


@pytest.mark.parametrize("name", ["ids", "ids.txt", "ids.tok", "ids.v2", ".parquet"])
def test_other_output_names_get_lines(tmp_path, tokenizer_file, text_file, capsys, name):
    assert main(["encode", text_file, "-t", tokenizer_file]) == 0
    lines = capsys.readouterr().out
    path = tmp_path / name
    assert main(["encode", text_file, "-t", tokenizer_file, "-o", str(path)]) == 0
    assert path.read_text() == lines
    assert main(["encode", text_file, "-t", tokenizer_file, "-o", f"{path}.parquet", "--format", "ids"]) == 0
    assert Path(f"{path}.parquet").read_text() == lines


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_a_document_from_a_pipe_is_encoded_in_pieces(tmp_path, tokenizer_file, stdin, capsysbinary, monkeypatch, size):
    """The document is not held whole, and every output equals that of a file with the same bytes."""
    monkeypatch.setattr(reading, "MAX_READ", size)
    monkeypatch.setattr("bpe.encode.streams.MIN_BUFFERED_BYTES", size)
    paths = [str(tmp_path / name) for name in ("text", "ids.npy", "ids.offsets.npy")]
    for data in (b"", TEXT.encode() * 3 + b"\xff<|end|> low " * 20):
        Path(paths[0]).write_bytes(data)
        for more in (["--encoding-errors", "bytes"], ["--allow-special", "--encoding-errors", "replace"]):
            written = []
            for way in (paths[0], "-"):
                outputs = []
                for options in (["encode"], ["encode", "-o", paths[1]], ["count"]):
                    stdin(data)
                    assert main([*options, paths[0], way, "-t", tokenizer_file, *more]) == 0
                    outputs.append(capsysbinary.readouterr().out.replace(b"  -\n", b"  " + paths[0].encode() + b"\n"))
                written.append((*outputs, *(Path(path).read_bytes() for path in paths[1:])))
            assert written[0] == written[1]


def test_stdin_to_stdout(tokenizer_file, text_file, stdin, capsysbinary):
    data = Path(text_file).read_bytes()
    stdin(data)
    assert main(["encode", "-", "-t", tokenizer_file]) == 0
    ids = capsysbinary.readouterr().out
    stdin(ids)
    assert main(["decode", "-", "-t", tokenizer_file, "-o", "-"]) == 0
    assert capsysbinary.readouterr().out == data
    array = io.BytesIO()
    np.save(array, np.array(ids.split(), dtype=np.int64))
    stdin(array.getvalue())
    assert main(["decode", "-", "-t", tokenizer_file]) == 0
    assert capsysbinary.readouterr().out == data


@pytest.mark.parametrize("size", [1, 30])
@pytest.mark.parametrize(
    ("dtype", "version"),
    [("u1", (1, 0)), ("<u2", (2, 0)), ("<u4", (3, 0)), (">u4", (1, 0)), ("<i8", (2, 0)), (">i8", (3, 0))],
)
def test_arrays_of_ids_are_decoded_incrementally(tmp_path, stdin, capsysbinary, monkeypatch, size, dtype, version):
    monkeypatch.setattr(id_files, "_READ_BYTES", size)
    tok = bpe.train(texts=["abc"], vocab_size=256)
    tok.save(tmp_path / "t.json")
    for text in (b"", b"a", bytes(range(256)), "다람쥐 ".encode() * 30):
        array = io.BytesIO()
        np.lib.format.write_array(array, tok.encode(text).astype(dtype), version=version)
        stdin(array.getvalue() + b"bytes after the array")
        assert main(["decode", "-", "-t", str(tmp_path / "t.json")]) == 0
        assert capsysbinary.readouterr().out == text


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
@pytest.mark.parametrize("model", ["byte", "char"])
def test_lines_of_ids_are_decoded_incrementally(tmp_path, stdin, capsysbinary, monkeypatch, size, model):
    """Pieces may end anywhere in a line; errors give positions within the line, and long words are not held whole."""
    monkeypatch.setattr(id_files, "_READ_BYTES", size)
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
        (ids + b"\n" + b"1 " * 20 + b"999", b"line 2: token id 999 at position 20"),
        (b"0" * 3000, b"000\xe2\x80\xa6 is no"),
    ):
        stdin(lines)
        assert main(["decode", "-", "-t", path]) == 1
        assert message in capsysbinary.readouterr().err
    stdin(b"999 " + ids + b" 77777777777 888\n" + ids)
    assert main(["decode", "-", "-t", path, "--separator", "|", "--skip-invalid"]) == 0
    assert capsysbinary.readouterr().out == b"|".join([tok.decode_bytes(tok.encode("low lower"))] * 2)


def test_special_tokens_are_text_unless_allowed(tmp_path, tokenizer_file, capsys):
    (tmp_path / "s.txt").write_text("a<|end|>b")
    assert main(["encode", str(tmp_path / "s.txt"), "-t", tokenizer_file]) == 0
    assert "0" not in capsys.readouterr().out.split()
    assert main(["encode", str(tmp_path / "s.txt"), "-t", tokenizer_file, "--allow-special"]) == 0
    assert capsys.readouterr().out.split()[1] == "0"
    assert main(["count", str(tmp_path / "s.txt"), "-t", tokenizer_file, "--allow-special"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[0] == "3"


@pytest.mark.parametrize("threads", ["1", "3"])
def test_threads_do_not_change_the_ids(tokenizer_file, text_file, capsys, threads):
    assert main(["encode", text_file, "-t", tokenizer_file, "--per-line"]) == 0
    expected = capsys.readouterr().out
    assert main(["encode", text_file, "-t", tokenizer_file, "--per-line", "--threads", threads]) == 0
    assert capsys.readouterr().out == expected


# count, info, show ----------------------------------------------------------------------------------------------------


def test_count(tmp_path, tokenizer_file, text_file, capsys):
    (tmp_path / "empty.txt").write_bytes(b"")
    tok = bpe.Tokenizer.load(tokenizer_file)
    size = os.path.getsize(text_file)
    n = len(tok.encode(Path(text_file).read_bytes()))
    assert main(["count", text_file, str(tmp_path / "empty.txt"), text_file, "-t", tokenizer_file]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    ratio = f"{size / n:.3f}"
    assert rows == [
        ["tokens", "bytes", "bytes/token", "file"],
        [str(n), str(size), ratio, text_file],
        ["0", "0", "-", str(tmp_path / "empty.txt")],
        [str(n), str(size), ratio, text_file],
        [str(2 * n), str(2 * size), ratio, "total"],
    ]
    assert main(["count", text_file, "-t", tokenizer_file]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_info(tmp_path, tokenizer_file, capsys):
    tok = bpe.Tokenizer.load(tokenizer_file)
    assert main(["info", tokenizer_file]) == 0
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
        texts=["aab abb"], num_merges=2, model="char", end_of_word="</w>", unk_token="<unk>",
        alphabet=bpe.Alphabet(first_id=5), pretokenizer=bpe.Pretokenizer.from_regex(r"[ab]+"),
        normalizer=bpe.normalizers.NFC(),
    ).save(path)  # fmt: skip
    assert main(["info", str(path)]) == 0
    out = capsys.readouterr().out
    assert "character-level" in out
    assert "ids 5 to " in out
    assert "</w>, a symbol of its own" in out
    assert "Pretokenizer.from_regex('[ab]+'), pretokens found by the regex package" in out
    assert "NFC()" in out
    assert "<unk>" in out


def test_show_is_plain_off_a_terminal_and_coloured_on_one(tokenizer_file, capsys, monkeypatch, stdin):
    argv = ["show", "newest widest | 다x", "-t", tokenizer_file]
    assert main(argv) == 0
    line = capsys.readouterr().out
    assert line.endswith("\n")
    assert "\x1b" not in line
    assert r"·\|" in line.replace("|·", "·").replace(r"·|\|", r"·\|")
    tok = bpe.Tokenizer.load(tokenizer_file)
    assert line.endswith("다₁|다₂|다₃|x\n")
    assert line.rstrip("\n") == bpe.show.terminal.render(tok.tokens("newest widest | 다x"), colour=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert main(argv) == 0
    assert "\x1b[38;5;16;48;5;" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(argv) == 0
    assert capsys.readouterr().out == line
    stdin("newest widest | 다x".encode())
    assert main(["show", "-", "-t", tokenizer_file]) == 0
    assert capsys.readouterr().out == line


def test_show_explain(tokenizer_file, capsys):
    assert main(["show", "newest", "-t", tokenizer_file, "--explain"]) == 0
    out = capsys.readouterr().out
    assert out.rstrip("\n") == bpe.Tokenizer.load(tokenizer_file).explain("newest").rstrip("\n")


def test_show_accepts_invalid_utf8(tokenizer_file, capsys):
    assert main(["show", os.fsdecode(b"a\xff"), "-t", tokenizer_file]) == 0
    assert r"\xff" in capsys.readouterr().out


# Documents ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_documents_of_stdin_equal_those_of_the_text(monkeypatch, size):
    """A separator may be divided between two pieces."""
    monkeypatch.setattr(reading, "MAX_READ", size)
    args: dict[str, Any] = {"separator": "<|b|>"}
    lines: dict[str, Any] = {"per_line": True}
    for data in (b"", b"<|", b"a<|b|>", b"<|b|><|b|>", b"low<|b|>lower <|b<|b|>|>\n" * 3):
        for cut, expected in ((args, data.split(b"<|b|>")), (lines, list(io.BytesIO(data)))):
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
            assert list(bpe.Sources("-", **cut).documents()) == expected
