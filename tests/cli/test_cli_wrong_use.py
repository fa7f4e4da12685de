"""What the command `bpe` says to people who use it for the first time: words in other places, near misses, folders."""

from pathlib import Path

import pytest
from conftest import fails

import bpe
from bpe.cli import main
from bpe.show.terminal import join_plain

SPECIAL = "<|end|>"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, with a tokenizer, two texts and a folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "cache"))
    bpe.train(texts=["low lower lowest newer"] * 9, vocab_size=270).save("tok.json")
    Path("english.txt").write_text("low lower", encoding="utf-8")
    Path("more.txt").write_text("lowest", encoding="utf-8")
    Path("texts").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("line", "same"),
    [
        ("count english.txt -t tok.json more.txt", "count english.txt more.txt -t tok.json"),
        ("count english.txt --threads 1 more.txt -t tok.json", "count english.txt more.txt -t tok.json"),
        ("decode 64 -t tok.json 65", "decode 64 65 -t tok.json"),
        ("diff tok.json tok.json --json more.txt", "diff tok.json tok.json more.txt --json"),
        ("show low lower -t tok.json", "show -t tok.json low lower"),
    ],
)
def test_options_may_stand_between_files(
    line: str, same: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = []
    for words in (line, same):
        assert main(words.split()) == 0
        results.append(capsys.readouterr().out)
    assert results[0] == results[1] != ""


@pytest.mark.parametrize(
    ("line", "status", "pattern"),
    [
        ("count engish.txt -t tok.json", 1, r"engish\.txt: No such file or directory; did you mean english\.txt\?$"),
        ("count -t tok.json", 2, "give either FILES or --text TEXT; - is stdin"),
        ("count english.txt -t GPT-4o", 1, r"GPT-4o: .*did you mean gpt-4o\?"),
        ("count english.txt --model x", 2, "unrecognized arguments: --model; see"),
        ("count english.txt --txt x", 2, r"unrecognized arguments: --txt; did you mean --text\?"),
        ("--verison", 2, r"no command is given; did you mean --version\?"),
        ("evaluate tok.json gpt4o", 1, r"gpt4o: .*did you mean gpt-4o\?"),
        ("evaluate tok.json en=engish.txt", 1, r"engish\.txt: .*did you mean english\.txt\?"),
        ("evaluate tok.json english.txt --parallel", 1, "--parallel is given, but there is one corpus; parallel"),
        ("evaluate tok.json english.txt --reference fr", 1, "--reference is 'fr'; the only corpus has no name"),
        ("decode -5 -t tok.json", 1, "-5 is no token id"),
        ("decode 1.5 -t tok.json", 1, r"1\.5 is no token id"),
        ("decode 99999999999999999999 -t tok.json", 1, "99999999999999999999 is no token id"),
        ("decode [1, 99999999999] -t tok.json", 1, "^bpe: error: 99999999999 is no token id"),
        (f"decode {'9' * 5000} -t tok.json", 1, "99 is no token id"),
        (f"encode english.txt -t tok.json --format native -o s --append {'9' * 5000}", 1, r"--append is '9{50,}…"),
        ("encode --text low -t tok.json --per-line", 2, "with --text there are no FILES, .*; leave out --per-line"),
        ("encode --text low -t tok.json --part 0/2", 2, "; leave out --part"),
        ("count --text low -t tok.json --on-error skip", 2, "; leave out --on-error"),
        ("count --text low -t tok.json --encoding-errors bytes", 2, "; leave out --encoding-errors"),
        ("train --words a:1 -o t.json --num-merges 1 --separator x", 2, "with --words there .* leave out --separator"),
        ("train --counts w -o t.json --num-merges 1 --column x", 2, "with --counts there .* leave out --column"),
        ("prune --counts w -t tok.json -o t.json --vocab-size 9 --input-format csv", 2, "leave out --input-format"),
        ("diff tok.json tok.json --per-line", 2, "no FILES are given, .* leave out --per-line"),
        ("count --text low -t tok.json --field x", 2, "; leave out --field"),
        ("count --text low -t tok.json --column x", 2, "; leave out --column"),
        ("info tok.json --plot --json", 2, "not allowed with argument"),
        ("info -t tok.json", 2, "unrecognized arguments: -t; for example: bpe info tokenizer.json; see"),
        ("play --tokenizer tok.json", 2, "unrecognized arguments: --tokenizer; for example: bpe play tokenizer.json"),
        (f"train --words a:{'9' * 5000} -o t.json --num-merges 1", 2, "is no word with its count"),
        ("train --words a\udcff:1 -o t.json --num-merges 1", 2, "holds a lone surrogate"),
        ("train english.txt", 2, r"required: -o/--output; for example: bpe train .* --vocab-size 32000; see"),
        ("train english.txt -o t.json", 2, "is required; for example: bpe train"),
        ("train english.txt -o new/ --vocab-size 300", 1, "the output new/ is a folder; name a file in it"),
        ("train english.txt -o texts --vocab-size 300", 1, "the output texts is a folder; name a file in it"),
        ("train english.txt -o t.json --vocab-size 32_000", 2, "write 32000 or 32k"),
        ("train english.txt -o t.json --vocab-size 300 --pretokenizer gpt-4", 2, "a name of tokenizers; write cl100k,"),
        ("train english.txt -o t.json --vocab-size 300 --pretokenizer nones", 2, r"'none'; did you mean none\?"),
        ("train english.txt -o t.json --vocab-size 300 --normalizer NFKC", 2, r"did you mean nfkc\?"),
        (f"train english.txt -o t.json --vocab-size 300 --special-token a {SPECIAL}", 2, "'a' --special-token '<"),
        ("train --words a:1 -o t.json --num-merges 1 --superwords 9", 2, "which --words does not have; give FILES"),
        ("train --counts w -o t.json --num-merges 1 --superwords 9", 2, "which --counts does not have; give FILES"),
        (
            "train english.txt -o t.json --vocab-size 300 --superwords 280 --model char",
            1,
            "leave out --model and --end",
        ),
        ("train english.txt -o t.json --vocab-size 300 --superwords 200", 1, "--superwords is 200, but the 256 bytes"),
        ("encode english.txt -t tok.json -o texts", 2, "the output texts is a folder, and without --format"),
        ("convert tok.json vocab.json", 1, r"name it tokenizer\.json, or give --to vocab-merges and a folder"),
        ("convert tok.json t.model", 1, "characters; give --to huggingface$"),
    ],
)
def test_messages_say_what_to_write(
    line: str, status: int, pattern: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fails(capsys, line.split(" "), status, pattern)
    assert not (folder / "t.json").exists()
    assert not (folder / "new").exists()


def test_show_says_that_a_file_is_shown_as_text(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "more.txt", "-t", "tok.json"]) == 0
    out, err = capsys.readouterr()
    assert out.replace("|", "") == "more.txt\n"
    assert "bpe show - < more.txt" in err


def test_long_tokens_are_cut_in_descriptions() -> None:
    assert join_plain([b"a" * 30, b"b"], 24) == "a" * 23 + "…|b"
    assert join_plain(["a" * 30, "b"]) == "a" * 30 + "|b"
