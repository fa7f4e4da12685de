"""Lists of words with their counts as text: `WordCounts.from_text`, and the commands that take them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import bpe
from bpe.cli import main
from bpe.errors import FormatError
from bpe.pretokenize.patterns import NAMES

WORDS = {"low": 5, "lower": 2, "newest": 6, "widest": 3, "뜻": 3}


@pytest.mark.parametrize("separator", ["\t", " "])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_list_equals_a_mapping(separator: str, newline: str, tmp_path: Path) -> None:
    path = tmp_path / "words.tsv"
    path.write_bytes(newline.join(f"{word}{separator}{count}" for word, count in WORDS.items()).encode())
    counts = bpe.WordCounts.from_text(path, "whitespace")
    assert list(counts.items()) == [(word.encode(), count) for word, count in WORDS.items()]
    options = {"num_merges": 9, "pretokenizer": "whitespace"}
    assert bpe.train(counts=counts, **options) == bpe.train(counts=WORDS, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("pretokenizer", ["gpt2", "metaspace", "whitespace", None])
def test_a_list_equals_the_texts_repeated(pretokenizer: str | None, tmp_path: Path) -> None:
    """Each line is a text that occurs so often; the order of words is that of the list."""
    generator = random.Random(8)
    texts = [" ".join(generator.choices(["low", "Lower", "a1", "뜻", ""], k=3)) for _ in range(60)]
    lines = [(text, generator.choice([0, 1, 1, 2, 3, 40])) for text in texts if text]
    path = tmp_path / "sentences.tsv"
    path.write_text("\n\n".join(f"{text}\t{count}" for text, count in lines) + "\n", encoding="utf-8")
    counts = bpe.WordCounts.from_text(path, pretokenizer, "lower", ["a1"])
    repeated = [text for text, count in lines for _ in range(count)]
    expected = bpe.count_words(texts=repeated, pretokenizer=pretokenizer, normalizer="lower", special_tokens=["a1"])
    assert counts == expected
    assert list(counts.items()) == list(expected.items())


@pytest.mark.parametrize(
    "line",
    ["low", "low\tfive", "low\t-1", "low\t1.5", "low\t", "\t5", "low\t٣", f"low\t{2**63}", "low\t" + "9" * 5000],
    ids=["no count", "word", "negative", "fraction", "empty", "no word", "arabic digit", "2**63", "5000 digits"],
)
def test_other_lines_are_refused(line: str, tmp_path: Path) -> None:
    path = tmp_path / "words.tsv"
    path.write_text(f"new\t1\n{line}\n", encoding="utf-8")
    with pytest.raises(FormatError, match=r"words\.tsv, line 2: .* is no word with a count; a line is a word, a tab"):
        bpe.WordCounts.from_text(path)


@pytest.mark.parametrize("digit", "90")
def test_counts_of_thousands_of_digits(digit: str, tmp_path: Path) -> None:
    path = tmp_path / "words.tsv"
    path.write_text(f"new\t{digit * 5000}7\n")
    if digit == "0":
        assert dict(bpe.WordCounts.from_text(path, "whitespace").items()) == {b"new": 7}
    else:
        with pytest.raises(FormatError, match=r"words\.tsv, line 1: .* is no word with a count"):
            bpe.WordCounts.from_text(path)


def test_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "words.tsv"
    path.write_bytes(b"\xff\t1\n")
    with pytest.raises(FormatError, match="the list is not UTF-8"):
        bpe.WordCounts.from_text(path)


def test_counts_that_overflow_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "words.tsv"
    path.write_text(f"a\t{2**62}\nb\t{2**62}\n")
    with pytest.raises(ValueError, match="the counts sum to"):
        bpe.WordCounts.from_text(path, "whitespace")


def test_words_without_spaces_get_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "words.tsv"
    path.write_text("low\t5\nlower\t2\n")
    bpe.WordCounts.from_text(path, "whitespace")
    assert not caplog.messages
    bpe.WordCounts.from_text(path, "gpt2")
    assert "no word has a space before it" in caplog.messages[0]
    caplog.clear()
    path.write_text("low\t5\n low\t2\n")
    assert dict(bpe.WordCounts.from_text(path, "gpt2").items()) == {b"low": 5, b" low": 2}
    assert not caplog.messages


@pytest.mark.parametrize("name", NAMES)
def test_patterns_that_keep_spaces_get_the_warning(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "words.tsv"
    path.write_text("low\t5\nlower\t2\n")
    bpe.WordCounts.from_text(path, name)
    assert bool(caplog.messages) == (bpe.Pretokenizer(name).split(" low") == [" low"])


def test_commands_take_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("words.tsv").write_text("".join(f" {word}\t{count}\n" for word, count in WORDS.items()), encoding="utf-8")
    assert main(["train", "--counts", "words.tsv", "-o", "tok.json", "--vocab-size", "265", "--quiet"]) == 0
    spaced = {f" {word}": count for word, count in WORDS.items()}
    tok = bpe.Tokenizer.load("tok.json")
    assert tok == bpe.train(counts=spaced, vocab_size=265)
    line = "train --counts words.tsv -o char.json --num-merges 4 --model char --end-of-word </w> --quiet"
    assert main(line.split()) == 0
    assert bpe.Tokenizer.load("char.json") == bpe.train(
        counts=WORDS, num_merges=4, model="char", end_of_word="</w>", pretokenizer="whitespace"
    )
    assert (
        main(
            ["extend", "--counts", "words.tsv", "-t", "tok.json", "-o", "longer.json", "--vocab-size", "267", "--quiet"]
        )
        == 0
    )
    assert bpe.Tokenizer.load("longer.json") == bpe.extend(tok, spaced, 267)
    assert (
        main(["prune", "--counts", "words.tsv", "-t", "tok.json", "-o", "small.json", "--vocab-size", "260", "--quiet"])
        == 0
    )
    assert bpe.Tokenizer.load("small.json") == bpe.prune(tok, 260, counts=spaced)[0]
