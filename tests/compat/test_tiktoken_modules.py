"""The modules of `bpe.compat.tiktoken` beside tiktoken's: names, rank files, GPT-2's two files, the cache."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from loopback import SilentHandler, serve

import bpe
import bpe.compat.tiktoken as compat
from bpe.text.letters import spell_token_in_letters

TEXTS = ["low lower lowest", "new newer newest"] * 4


@pytest.fixture(scope="module")
def tok() -> bpe.Tokenizer:
    return bpe.train(texts=TEXTS, vocab_size=270, pretokenizer="gpt2")


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, tmp_path) -> Iterator[tuple[str, list[str]]]:
    """The address of a server that has a rank file, and the paths that were asked for."""
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "cache"))
    asked: list[str] = []

    class Answers(SilentHandler, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", "14")
            self.end_headers()
            self.wfile.write(b"IQ== 0\nIg== 1\n")

    with serve(Answers) as address:
        yield address, asked


@pytest.mark.parametrize("name", ["core", "load", "model", "registry"])
def test_names_are_those_of_tiktoken(name: str) -> None:
    peer_module = pytest.importorskip(f"tiktoken.{name}", reason="tiktoken is not installed")
    module = importlib.import_module(f"bpe.compat.tiktoken.{name}")
    defined = {
        member
        for member, value in vars(peer_module).items()
        if not member.startswith("_")
        and getattr(value, "__module__", f"tiktoken.{name}").startswith("tiktoken.")
        and not isinstance(value, type(importlib))
    }
    absent = {"raise_disallowed_special_token", "ENCODING_CONSTRUCTORS", "TYPE_CHECKING", "annotations"}
    assert defined - absent - set(dir(module)) == set()
    assert getattr(compat, name) is module


def test_the_version_is_that_of_the_interface() -> None:
    peer = pytest.importorskip("tiktoken", minversion="0.14")
    assert compat.__version__ == "0.14.0"
    assert peer.__version__.startswith("0.14.")


def test_models_and_encodings_can_be_added(monkeypatch) -> None:
    enc = compat.core.Encoding("own", pat_str=".", mergeable_ranks={b"a": 0}, special_tokens={})
    monkeypatch.setitem(compat.registry.ENCODINGS, "own", enc)
    monkeypatch.setitem(compat.model.MODEL_TO_ENCODING, "own-model", "own")
    monkeypatch.setitem(compat.model.MODEL_PREFIX_TO_ENCODING, "own-2-", "own")
    assert (
        compat.get_encoding("own")
        is compat.encoding_for_model("own-model")
        is compat.encoding_for_model("own-2-x")
        is enc
    )
    assert compat.model.encoding_name_for_model("gpt-4o") == "o200k_base"


def test_rank_files_are_read_and_written(tok, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    ranks, path = tok.vocab(), str(tmp_path / "x.tiktoken")
    compat.load.dump_tiktoken_bpe(dict(reversed(ranks.items())), path)
    assert compat.load.load_tiktoken_bpe(path) == ranks
    digest = hashlib.sha256(compat.load.read_file(path)).hexdigest()
    assert compat.load.load_tiktoken_bpe(path, digest) == ranks
    assert compat.load.check_hash(compat.load.read_file(path), digest)
    with pytest.raises(ValueError, match="it must be 00: the file may be damaged"):
        compat.load.load_tiktoken_bpe(path, "00")
    (tmp_path / "bad.tiktoken").write_bytes(b"IQ== 0\n\nIQ== x\n")
    with pytest.raises(ValueError, match=r"bad\.tiktoken, line 3: .*is not a token in base64"):
        compat.load.load_tiktoken_bpe(str(tmp_path / "bad.tiktoken"))
    peer_load = pytest.importorskip("tiktoken.load", reason="tiktoken is not installed")
    assert list(peer_load.load_tiktoken_bpe(path).items()) == list(compat.load.load_tiktoken_bpe(path).items())


def test_downloads_are_cached(served, tmp_path) -> None:
    (address, asked), ranks = served, {b"!": 0, b'"': 1}
    for _ in range(2):
        assert compat.load.load_tiktoken_bpe(f"{address}/x") == ranks
    assert asked == ["/x"]
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [hashlib.sha1(f"{address}/x".encode()).hexdigest()]
    with pytest.raises(ValueError, match="it must be 00: try again"):  # the cached file is dropped
        compat.load.load_tiktoken_bpe(f"{address}/x", "00")
    assert list((tmp_path / "cache").iterdir()) == []
    assert compat.load.read_file(f"{address}/y") == b"IQ== 0\nIg== 1\n"


def test_the_files_of_gpt2(tok, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    pairs = [" ".join(spell_token_in_letters(tok.token_bytes(part)) for part in pair) for pair in tok.merges.tolist()]
    (tmp_path / "vocab.bpe").write_text("\n".join(["#version: 0.2", *pairs, ""]), encoding="utf-8")
    swapped = {b"a": tok.vocab()[b"b"], b"b": tok.vocab()[b"a"]}
    for name, ids in (("encoder.json", tok.vocab()), ("swapped.json", {**tok.vocab(), **swapped})):
        ids_by_letters = {spell_token_in_letters(token): token_id for token, token_id in ids.items()}
        (tmp_path / name).write_text(json.dumps({**ids_by_letters, "<|endoftext|>": 999}))
    modules = [compat.load]
    if importlib.util.find_spec("tiktoken"):
        modules.append(importlib.import_module("tiktoken.load"))
    for module in modules:
        load, files = (
            module.data_gym_to_mergeable_bpe_ranks,
            [str(tmp_path / "vocab.bpe"), str(tmp_path / "swapped.json")],
        )
        assert load(files[0], str(tmp_path / "encoder.json")) == tok.vocab()
        assert load(*files, clobber_one_byte_tokens=True) == {**tok.vocab(), **swapped}
        with pytest.raises((ValueError, AssertionError)):
            load(*files)


@pytest.mark.parametrize("token_id", [-1, 1 << 32])
def test_ids_out_of_range_raise_the_same_error(token_id: int) -> None:
    classes = [compat.Encoding]
    if importlib.util.find_spec("tiktoken"):
        classes.append(importlib.import_module("tiktoken").Encoding)
    ranks = {bytes([byte]): byte for byte in range(256)}
    for encoding_class in classes:
        for ranks_of_case, special in (({**ranks, b"ab": token_id}, {}), (ranks, {"<e>": token_id})):
            with pytest.raises(OverflowError):
                encoding_class("own", pat_str=".", mergeable_ranks=ranks_of_case, special_tokens=special)


def test_other_packages_import_it_as_tiktoken() -> None:
    """The lines of docs/porting.md, in a new process."""
    page = (Path(__file__).parents[2] / "docs" / "porting.md").read_text(encoding="utf-8")
    start = page.index(">>> import sys\n")
    lines = page[start : page.index("```", start)].splitlines()
    program = (
        "\n".join(line[4:] for line in lines)
        + """
import tiktoken, tiktoken.core, tiktoken.load, bpe.compat.tiktoken
from tiktoken.core import Encoding
from tiktoken.model import MODEL_TO_ENCODING
from tiktoken.registry import ENCODINGS
assert tiktoken is bpe.compat.tiktoken
assert Encoding is tiktoken.Encoding is tiktoken.registry.Encoding
assert ENCODINGS is bpe.compat.tiktoken.registry.ENCODINGS
assert tiktoken.model.MODEL_TO_ENCODING is MODEL_TO_ENCODING
"""
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", program], check=True, env=env)
