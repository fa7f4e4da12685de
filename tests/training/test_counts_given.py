"""Counts that a caller gives must agree with the tokenizer and the options in everything that changes words."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path
from typing import Any

import pytest

import bpe
from bpe.cli import main

TEXTS = ["low<|end|>lower<|end|>low<|end|>"]
END = ["<|end|>"]


def test_counts_without_the_special_tokens_are_refused(tmp_path: Path, capsys: Any) -> None:
    plain, apart = bpe.count_words(texts=TEXTS), bpe.count_words(texts=TEXTS, special_tokens=[*END, "<|x|>"])
    tok = bpe.train(texts=TEXTS, vocab_size=258, special_tokens=END)
    message = r"made without the special token '<\|end\|>'.*count again with special_tokens="
    superwords = bpe.SuperWords(transition=258)
    for call in (
        lambda counts: bpe.train(counts=counts, vocab_size=258, special_tokens=END),
        lambda counts: bpe.research.train_parity(counts={"a": counts, "b": counts}, vocab_size=258, special_tokens=END),
        lambda counts: bpe.extend(tok, counts, 259),
        lambda counts: bpe.prune(tok, 257, counts=counts),
        lambda counts: bpe.research.adapt(tok, 257, counts=counts),
    ):
        with pytest.raises(ValueError, match=message):
            call(plain)
        call(apart)
    both = plain, superwords.count_words(2, texts=TEXTS)
    with pytest.raises(ValueError, match=message):
        bpe.train(counts=both, vocab_size=259, special_tokens=END, superwords=superwords)
    assert bpe.train(counts=apart, vocab_size=258, special_tokens=END) == tok
    assert bpe.train(counts=dict(plain.items()), vocab_size=258, special_tokens=END) != tok
    plain.save(tmp_path / "c")
    argv = ["train", "--counts", str(tmp_path / "c"), "-o", str(tmp_path / "t"), "--num-merges", "2", "--quiet"]
    assert main([*argv, "--special-token", "<|end|>"]) == 1
    assert "count again with --special-token" in capsys.readouterr().err


def test_separators_that_become_no_token_are_named(caplog: pytest.LogCaptureFixture) -> None:
    apart = bpe.count_words(texts=TEXTS, special_tokens=END)
    with caplog.at_level(logging.WARNING, logger="bpe"):
        bpe.train(counts=apart, vocab_size=258)
    assert [each.getMessage().partition(";")[0] for each in caplog.records] == [
        "<|end|> separated the text of the counts and is no token"
    ]


def test_counts_of_lines_and_of_documents_are_kept_apart(tmp_path: Path) -> None:
    """Lines are cut before words: the words of one are not those of the other, whoever takes them."""
    superwords, texts = bpe.SuperWords(transition=258, pretokenizer="gpt2"), ["low  \n\nlower\n"] * 3
    lines, whole = superwords.count_words(2, texts=texts), bpe.count_words(texts=texts)
    assert (lines.units, whole.units, lines == whole) == ("lines", "documents", False)
    tok = bpe.train(counts=whole, vocab_size=258)
    for call in (
        lambda: bpe.train(counts=lines, vocab_size=258),
        lambda: bpe.extend(tok, lines, 260),
        lambda: bpe.prune(tok, 257, counts=lines),
        lambda: bpe.train(counts=(lines, whole), vocab_size=260, superwords=superwords),
        lambda: bpe.train(counts=(whole, lines), vocab_size=260, superwords=superwords),
        lambda: bpe.extend(tok, whole, 260, superwords=superwords),
        lambda: lines.merge(whole),
        lambda: bpe.research.train_parity(counts={"a": whole, "b": lines}, vocab_size=258),
        lambda: bpe.research.train_parity(dev={"a": lines}, counts={"a": whole}, vocab_size=258),
    ):
        with pytest.raises(ValueError, match=r"words of (lines|documents), and this needs|made with units="):
            call()
    lines.save(tmp_path / "lines")
    for again in (bpe.WordCounts.load(tmp_path / "lines"), pickle.loads(pickle.dumps(lines))):
        assert again == lines
        again.add("low  \n\nlower\n")
        assert dict(again.items()) == {word: 4 * count // 3 for word, count in lines.items()}
    assert bpe.train(counts=(lines, lines), vocab_size=260, superwords=superwords).vocab_size == 260


def test_no_text_is_added_to_runs_of_words() -> None:
    texts = ["by the sea, by the way"] * 3
    words = bpe.research.train_boundless(258, counts=bpe.count_words(texts=texts), vocab_size=258)
    runs = bpe.research.count_runs(words, texts=texts)
    with pytest.raises(ValueError, match="no text can be added"):
        runs.add("by the sea")
    with pytest.raises(ValueError, match="the words of runs, and this needs those of documents"):
        bpe.train(counts=runs, vocab_size=258)


def test_counts_of_other_documents_are_not_merged(tmp_path: Path, capsys: Any) -> None:
    """A text file counted with a separator, and one without: the second has words of the separator."""
    (tmp_path / "a.txt").write_text("low<|end|>lower\n")
    (tmp_path / "b.jsonl").write_text('{"text": "low"}\n')
    calls: dict[str, dict[str, Any]] = {"whole": {}, "apart": {"separator": "<|end|>"}, "lines": {"per_line": True}}
    counts = {
        name: bpe.count_words(files=bpe.Sources(tmp_path / "a.txt", **options)) for name, options in calls.items()
    }
    assert [each.documents for each in counts.values()] == ["separator=None", "separator='<|end|>'", "per_line=True"]
    for name, each in counts.items():
        each.save(tmp_path / name)
        for other in set(counts) - {name}:
            with pytest.raises(ValueError, match="so the same text gives them other words; count one"):
                each.merge(counts[other])
        each.merge(bpe.count_words(files=tmp_path / "b.jsonl"))
        each.merge(bpe.count_words(texts=["low"]))
        mixed = bpe.WordCounts()
        mixed |= each
        assert mixed.documents == each.documents == bpe.WordCounts.load(tmp_path / name).documents
    total = counts["whole"].total + counts["lines"].total
    counts["whole"].merge(counts["lines"], any_documents=True)
    assert counts["whole"].total == total
    argv = ["merge-counts", str(tmp_path / "whole"), str(tmp_path / "apart"), "-o", str(tmp_path / "sum"), "--quiet"]
    assert main(argv) == 1
    error = capsys.readouterr().err
    assert "made with --separator '<|end|>', these with no --separator" in error
    assert "or pass --any-documents if their files differ so" in error
    assert main([*argv, "--any-documents"]) == 0


def test_counts_of_other_unicode_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    counts = bpe.count_words(texts=["low lower"])
    counts.unicode_version = "15.0"
    with caplog.at_level(logging.WARNING, logger="bpe"):
        bpe.train(counts=counts, vocab_size=258)
    assert "made with Unicode 15.0" in caplog.text
