"""Files that are refused: devices, published files with wrong settings, names of other formats."""

from __future__ import annotations

import gzip
import json
import logging
import os
import subprocess
import sys

import pytest
from written import write_rank_file

import bpe
from bpe import normalizers
from bpe.formats.huggingface import read, write

BYTES = {bytes([byte]): byte for byte in range(256)}


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="there is no /dev/zero")
def test_devices_are_refused():
    tok = bpe.train(texts=["a"], vocab_size=256)
    for device in ("/dev/zero", "/dev/urandom"):
        for call in (
            lambda path: bpe.Tokenizer.load(path),
            lambda path: bpe.Tokenizer.from_tiktoken(path, "gpt2"),
            lambda path: bpe.Tokenizer.from_clip(path),
            lambda path: bpe.WordCounts.load(path),
            lambda path: bpe.count_words(files=path),
            lambda path: bpe.train(files=path, vocab_size=300),
            lambda path: tok.encode_files([path]),
        ):
            with pytest.raises(OSError, match="it is a device"):
                call(device)
    assert len(bpe.count_words(files=os.devnull)) == 0
    assert len(tok.encode_files(os.devnull).ids) == 0


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="there is no /dev/zero")
def test_devices_and_closed_stdin_are_refused_on_the_command_line(tokenizer_file, text_file, programs):
    command = programs / "bpe"
    for line, message in (
        (f"{sys.executable} -m bpe encode -t {tokenizer_file} - <&-", "stdin is closed"),
        (f"{command} encode -t {tokenizer_file} - < /dev/zero", "it is a device"),
        (f"{command} encode -t {tokenizer_file} /dev/zero", "it is a device"),
        (f"{command} evaluate {text_file} {tokenizer_file} --morphemes /dev/zero", "it is a device"),
    ):
        done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
        assert message in done.stderr


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"#version: 0.2\n", gzip.compress(b"", mtime=0), gzip.compress(b"a b\n" * 9, mtime=0)[:-9]]
)
def test_empty_and_truncated_clip_files_are_refused(data, tmp_path):
    path = tmp_path / "merges.txt"
    path.write_bytes(data)
    with pytest.raises(bpe.FormatError, match=r"no merges|damaged"):
        bpe.Tokenizer.from_clip(path)


def test_special_tokens_of_a_rank_file_need_ids(tmp_path):
    path = tmp_path / "a.tiktoken"
    path.write_bytes(write_rank_file(BYTES))
    with pytest.raises(TypeError, match=r"it must map each name to its id.*\{'<\|endoftext\|>': 100257\}"):
        bpe.Tokenizer.from_tiktoken(path, "gpt2", ["<|endoftext|>"])


def test_loading_a_rank_file_says_what_to_call(tmp_path):
    for name, data in (("a.tiktoken", write_rank_file(BYTES)), ("a.gz", gzip.compress(write_rank_file(BYTES)))):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(bpe.FormatError, match=r"Tokenizer\.from_tiktoken\(path, pretokenizer, special_tokens\)"):
            bpe.Tokenizer.load(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x.tiktoken", "format tiktoken does not keep pretokenizer"),
        ("vocab.json", r"save writes a tokenizer\.json: name it"),
        ("merges.txt", r"save writes a tokenizer\.json: name it"),
        ("x.json.gz", r"save writes a tokenizer\.json: name it"),
    ],
)
def test_names_of_other_formats_are_refused(name, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        bpe.train(texts=["a"], vocab_size=256).save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_saving_what_tokenizers_cannot_load_warns(tmp_path, caplog):
    counts = {"low": 3}
    for options, reason in (
        ({"model": "char", "end_of_word": "</w>"}, "its end-of-word mark is a symbol of its own"),
        ({"normalizer": normalizers.UnescapeHTML()}, "the normalizer UnescapeHTML"),
        ({"pretokenizer": bpe.Pretokenizer.from_regex(r"\b\w+|\W+")}, "a pretokenizer pattern"),
        ({}, None),
    ):
        caplog.clear()
        with caplog.at_level(logging.WARNING, logger="bpe"):
            bpe.train(counts=counts, num_merges=1, **{"pretokenizer": None, **options}).save(tmp_path / "t.json")
        assert [reason in record.getMessage() for record in caplog.records] == ([True] if reason else [])


@pytest.mark.parametrize("name", ["cl100k_base", "o200k_base", "r50k_base"])
def test_published_rank_files_need_their_own_pattern(name, shared_vocab):
    """They load with the pattern and special tokens of `tiktoken`; other patterns are refused unless forced."""
    path = shared_vocab(f"{name}.tiktoken")
    tok = bpe.Tokenizer.load(path)
    known = {"cl100k_base": ("cl100k", 100257), "o200k_base": ("o200k", 199999), "r50k_base": ("gpt2", 50256)}[name]
    assert (tok.pretokenizer.name, tok.special_tokens["<|endoftext|>"]) == known
    with pytest.raises(ValueError, match=r"is one of OpenAI's, whose pattern is .*force=True"):
        bpe.Tokenizer.from_tiktoken(path, "llama3")
    assert bpe.Tokenizer.from_tiktoken(path, "llama3", force=True).pretokenizer.name == "llama3"


@pytest.mark.parametrize(
    ("steps", "option"),
    [
        ([{"type": "Digits", "individual_digits": 1}, {"use_regex": True}], r"\[0\]\.individual_digits: "),
        ([{"type": "Whitespace"}, {"use_regex": None}], r"\[1\]\.use_regex: "),
        ([{"type": "Whitespace"}, {"add_prefix_space": "yes"}], r"\[1\]\.add_prefix_space: "),
    ],
)
def test_a_wrong_option_of_a_pre_tokenizer_is_named(steps, option):
    file = json.loads(write(bpe.train(texts=["a"], vocab_size=256).spec))
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    steps = [steps[0], {**level, **steps[1]}]
    file["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps}
    with pytest.raises(bpe.FormatError, match=option):
        read(json.dumps(file).encode())
