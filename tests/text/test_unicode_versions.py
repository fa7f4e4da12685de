"""Saved files record the Unicode version of their pretokenizer, and another version is refused."""

from __future__ import annotations

import hashlib
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import bpe
from bpe import Pretokenizer, WordCounts
from bpe.errors import FormatError
from bpe.formats import huggingface
from bpe.pretokenize.patterns import NAMES
from bpe.pretokenize.pretokenizer import _rebuild

TEXT = "low lower, newest 12 widest\n"


def train(pretokenizer: Any, model: str = "byte") -> bpe.Tokenizer:
    return bpe.train(texts=[TEXT], vocab_size=280 if model == "byte" else 30, model=model, pretokenizer=pretokenizer)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("model", ["byte", "char"])
def test_files_keep_the_unicode_version(name: str, model: str, tmp_path: Path) -> None:
    if name == "starcoder" and model == "char":
        pytest.skip("the starcoder pattern is for byte models only")
    tok = train(name, model)
    path = tmp_path / "tokenizer.json"
    tok.save(path)
    data = json.loads(path.read_text(encoding="utf-8"))
    assert data["pre_tokenizer"]["unicode_version"] == Pretokenizer(name).unicode_version
    assert bpe.Tokenizer.load(path) == tok
    for version in ("9.0", 16, ["16.0"]):
        data["pre_tokenizer"]["unicode_version"] = version
        path.write_text(json.dumps(data), encoding="utf-8")
        with pytest.raises(
            FormatError, match=r"unicode_version is .* in this release it is '1\d.0' .*or remove unicode"
        ):
            bpe.Tokenizer.load(path)
    del data["pre_tokenizer"]["unicode_version"]
    path.write_text(json.dumps(data), encoding="utf-8")
    assert bpe.Tokenizer.load(path) == tok


@pytest.mark.parametrize("name", ["gpt2", "cl100k", "starcoder", "deepseek_v3", "whitespace"])
def test_tokenizers_ignores_the_unicode_version(name: str, tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    tok = train(name)
    tok.save(tmp_path / "tokenizer.json")
    loaded = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    text = TEXT + "newly assigned: \U00016ebb1\u0558b"
    assert loaded.encode(text).ids == tok.encode(text).tolist()


@pytest.mark.parametrize("pretokenizer", [None, Pretokenizer.from_regex(r"\w+|\W")])
def test_files_without_a_unicode_version(pretokenizer: Pretokenizer | None, tmp_path: Path) -> None:
    tok = train(pretokenizer)
    tok.save(tmp_path / "tokenizer.json")
    assert "unicode_version" not in (tmp_path / "tokenizer.json").read_text(encoding="utf-8")
    assert bpe.Tokenizer.load(tmp_path / "tokenizer.json") == tok
    spec = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    spec["pre_tokenizer"] = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "use_regex": False,
        "unicode_version": "16.0",
    }
    with pytest.raises(FormatError, match=r"unicode_version is '16.0'; in this release it is None for None"):
        huggingface.read(json.dumps(spec).encode())


def test_fingerprints_do_not_depend_on_the_unicode_version() -> None:
    """Tokenizers of earlier releases keep their fingerprint."""
    assert "unicode" not in json.dumps(Pretokenizer("gpt2").to_json())


def test_pickles_keep_the_unicode_version() -> None:
    pretokenizer = Pretokenizer("gpt2", add_prefix_space=True)
    assert pickle.loads(pickle.dumps(pretokenizer)) == pretokenizer
    assert "16.0" in pretokenizer.__reduce__()[1]
    assert (
        _rebuild("gpt2", pretokenizer.pattern, "drop", True) == pretokenizer
    )  # the form that an earlier release pickled
    with pytest.raises(ValueError, match=r"unicode_version is '15.0'; in this release it is '16.0'"):
        _rebuild("gpt2", pretokenizer.pattern, "drop", False, "15.0")


# Counts ---------------------------------------------------------------------------------------------------------------


def rewrite_file(path: Path, **fields: object) -> None:
    """Change the header of a file of counts; a field given as `...` is removed."""
    data = path.read_bytes()
    end = 20 + int.from_bytes(data[12:20], "little")
    header = {**json.loads(data[20:end]), **fields}
    packed = json.dumps({name: value for name, value in header.items() if value is not ...}).encode()
    data = data[:12] + len(packed).to_bytes(8, "little") + packed + data[end:-32]
    path.write_bytes(data + hashlib.sha256(data).digest())


def write_counts(path: Path, pretokenizer: Any = "gpt2", **fields: object) -> WordCounts:
    counts = WordCounts(pretokenizer)
    counts.add(TEXT)
    counts.save(path)
    rewrite_file(path, **fields)
    return WordCounts.load(path)


def test_counts_of_another_unicode_version_are_refused(tmp_path: Path) -> None:
    our_counts = write_counts(tmp_path / "counts")
    assert our_counts.unicode_version == "16.0"
    other_counts = write_counts(tmp_path / "counts", unicode_version="17.0")
    assert other_counts.unicode_version == "17.0"
    assert other_counts != our_counts
    for counts, incompatible in ((our_counts, other_counts), (other_counts, our_counts)):
        with pytest.raises(ValueError, match=r"made with Unicode 1\d.0, these with 1\d.0, .*count one of the corpora"):
            counts.merge(incompatible)
    with pytest.raises(ValueError, match=r"made with Unicode 17.0, but .* uses Unicode 16.0 in this"):
        other_counts.add(TEXT)
    again = pickle.loads(pickle.dumps(other_counts))
    assert again == other_counts
    again.merge(other_counts)  # counts of the same version can be merged
    again.save(tmp_path / "again")
    assert WordCounts.load(tmp_path / "again") == again
    assert bpe.train(counts=other_counts, vocab_size=270).vocab_size == 270


def test_counts_without_a_version_are_of_unicode_18(tmp_path: Path) -> None:
    before = write_counts(tmp_path / "counts", unicode_version=...)
    assert before.unicode_version == "18.0"
    with pytest.raises(ValueError, match=r"these with 16.0"):
        write_counts(tmp_path / "counts").merge(before)
    clip = write_counts(tmp_path / "counts", "clip", unicode_version=...)
    clip.merge(write_counts(tmp_path / "counts", "clip"))
    for pretokenizer in (None, Pretokenizer.from_regex(r"\w+")):
        unmarked = write_counts(tmp_path / "counts", pretokenizer, unicode_version=...)
        unmarked.merge(write_counts(tmp_path / "counts", pretokenizer))
        with pytest.raises(FormatError, match=r"unicode_version is '16.0'; it must be null"):
            write_counts(tmp_path / "counts", pretokenizer, unicode_version="16.0")
    with pytest.raises(FormatError, match=r"unicode_version is 16; it must be a str"):
        write_counts(tmp_path / "counts", unicode_version=16)
