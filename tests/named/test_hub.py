"""`Tokenizer.from_pretrained`: files of a repository from a server on loopback, the cache, offline mode, errors.

Each test runs in a process of its own, because huggingface_hub reads its environment when it is imported.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from loopback import SilentHandler, serve

import bpe
from bpe.formats.configuration import write_chat_templates
from bpe.named.hub import _DOWNLOAD_PATTERN, FILE_SETS

pytest.importorskip("huggingface_hub", reason="needs huggingface_hub (extra hub)")
TEXTS = ["low lower lowest", "newer newest"] * 4
COMMITS = {"main": "a" * 40, "v1": "b" * 40, "a" * 40: "a" * 40, "b" * 40: "b" * 40}


@dataclass
class Hub:
    """The files of repositories, by repository, commit and name, and the requests for them."""

    address: str
    files: dict[tuple[str, str, str], bytes] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)

    def add(self, repository: str, folder: Path, commit: str = "a" * 40) -> None:
        paths = [path for path in folder.rglob("*") if path.is_file()]
        self.files |= {(repository, commit, path.relative_to(folder).as_posix()): path.read_bytes() for path in paths}

    def read(self, repository: str, commit: str, name: str) -> bytes | None:
        return self.files.get((repository, commit, name))

    def list_files(self, repository: str, commit: str, folder: str) -> bytes | None:
        """Return what the Hub answers about a folder; None if there is none."""
        paths = [key[2] for key in self.files if key[:2] == (repository, commit) and key[2].startswith(f"{folder}/")]
        return (
            json.dumps([{"type": "file", "path": path, "size": 1, "oid": "a"} for path in paths]).encode()
            if paths
            else None
        )


@pytest.fixture
def hub() -> Iterator[Hub]:
    class Answers(SilentHandler, BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.answer(body=False)

        def do_GET(self) -> None:
            self.answer(body=True)

        def answer(self, body: bool) -> None:
            path, is_tree = self.path.lstrip("/").partition("?")[0], self.path.startswith("/api/")
            repository, _, rest = path.removeprefix("api/models/").partition("/tree/" if is_tree else "/resolve/")
            revision, _, name = rest.partition("/")
            found.asked.append((self.command, self.path))
            commit = COMMITS.get(revision)
            data = (found.list_files if is_tree else found.read)(repository, commit or "", name)
            known = any(key[0] == repository for key in found.files)
            self.send_response(404 if data is None else 200)
            if not known or commit is None:
                self.send_header("X-Error-Code", "RevisionNotFound" if known else "RepoNotFound")
            elif data is None:
                self.send_header("X-Error-Code", "EntryNotFound")
            if commit is not None:
                self.send_header("X-Repo-Commit", commit)
            self.send_header("ETag", f'"{hashlib.sha1(data or b"").hexdigest()}"')
            self.send_header("Content-Length", str(len(data or b"")))
            self.end_headers()
            if body:
                self.wfile.write(data or b"")

    with serve(Answers) as address:
        found = Hub(address)
        yield found


def run(hub: Hub, home: Path, program: str, **environment: str) -> list[str]:
    """Run a program with this server and this cache; the lines of its output."""
    own = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "HUGGING", "TRANSFORMERS_"))}
    own |= {"HF_ENDPOINT": hub.address, "HF_HOME": str(home), "HF_HUB_DISABLE_TELEMETRY": "1", "no_proxy": "*"}
    own |= {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_XET": "1", **environment}
    program = f"""
import bpe
def load(*args, **kwargs):
    try:
        print(bpe.Tokenizer.from_pretrained(*args, **kwargs).fingerprint)
    except Exception as error:
        print(type(error).__name__, error)
{program}"""
    done = subprocess.run([sys.executable, "-c", program], env=own, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_files_come_from_the_hub_once(hub, tmp_path):
    tok = bpe.train(texts=TEXTS, vocab_size=262, special_tokens=["<|endoftext|>"])
    other = bpe.train(texts=TEXTS, vocab_size=261)
    for name in ("native", "old", "pair", "kimi"):
        (tmp_path / name).mkdir()
    tok.save(tmp_path / "native" / "tokenizer.json")
    other.save(tmp_path / "old" / "tokenizer.json")
    tok.save(tmp_path / "pair", format="vocab-merges")
    tok.save(tmp_path / "kimi", format="tiktoken-folder")
    hub.add("org/native", tmp_path / "native")
    hub.add("org/native", tmp_path / "old", commit="b" * 40)
    hub.add("org/pair", tmp_path / "pair")
    hub.add("org/kimi", tmp_path / "kimi")
    hub.files["org/empty", "a" * 40, "README.md"] = b"x"
    calls = """
load("org/native")
load("org/native", revision="v1")
load("org/pair")
load("org/kimi")
from bpe.compat.huggingface import Tokenizer
print(*(Tokenizer.from_pretrained("org/native", revision=name).get_vocab_size() for name in ("main", "v1")))"""
    lines = run(hub, tmp_path / "home", calls)
    expected = [tok.fingerprint, other.fingerprint, tok.fingerprint, tok.fingerprint, "262 261"]
    assert lines == expected
    assert not any("safetensors" in path for _, path in hub.asked)
    assert {path.split("/resolve/")[1].split("/")[0] for _, path in hub.asked if "/pair/" in path} == {"main", "a" * 40}
    assert (tmp_path / "home" / "hub" / "models--org--pair").is_dir()
    hub.asked.clear()
    more = f'{calls}\nload("org/absent")\nload({str(tmp_path / "pair")!r})'
    lines = run(hub, tmp_path / "home", more, HF_HUB_OFFLINE="1")
    assert lines[:5] == expected
    assert hub.asked == []
    cache = tmp_path / "home" / "hub"
    assert lines[5].startswith(f"OSError org/absent is not in the cache {cache}, and HF_HUB_OFFLINE is set; where ")
    assert f"copy the folder models--org--absent of that cache to {cache / 'models--org--absent'} here" in lines[5]
    assert lines[6] == tok.fingerprint


FORMATS_WITH_TEMPLATES = ("huggingface", "tekken", "vocab-merges", "tiktoken-folder")


def write_with_templates(folder: Path, format_: str, templates: dict[str, str]) -> None:
    """Write the files of a repository with a tokenizer of this format."""
    tok = bpe.train(
        texts=TEXTS,
        vocab_size=262,
        special_tokens=["<|endoftext|>"],
        pretokenizer="tekken" if format_ == "tekken" else "qwen2",
        alphabet=bpe.Alphabet(initial=[bytes([byte]) for byte in range(256)]),
    )
    tok = bpe.Tokenizer(replace(tok.spec, chat_templates=templates))
    if format_ == "huggingface":
        tok.save_pretrained(folder)
        return
    folder.mkdir()
    tok.save(folder / ("tekken.json" if format_ == "tekken" else ""), format=format_, lossy=True)
    for path, data in write_chat_templates(templates).items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_bytes(data)


def test_chat_templates_and_roles_come_from_the_hub(hub, tmp_path):
    templates = {"default": "{{ d }}", "rag": "{{ r }}"}
    for format_ in FORMATS_WITH_TEMPLATES:
        write_with_templates(tmp_path / format_, format_, templates)
        hub.add(f"org/{format_}", tmp_path / format_)
    tok = bpe.train(texts=TEXTS, vocab_size=262, special_tokens=["<|endoftext|>", "<|im_end|>"])
    (tmp_path / "chat").mkdir()
    tok.save(tmp_path / "chat" / "tokenizer.json")
    (tmp_path / "chat" / "tokenizer_config.json").write_text('{"eos_token": "<|im_end|>"}')
    hub.add("org/chat", tmp_path / "chat")
    calls = f"""
for name in {FORMATS_WITH_TEMPLATES}:
    print(name, dict(bpe.Tokenizer.from_pretrained("org/" + name).spec.chat_templates))
tok = bpe.Tokenizer.from_pretrained("org/chat")
print(tok.fingerprint, tok.eos_token)"""
    for environment in ({}, {"HF_HUB_OFFLINE": "1"}):
        lines = run(hub, tmp_path / "home", calls, **environment)
        assert lines[:-1] == [f"{name} {templates}" for name in FORMATS_WITH_TEMPLATES]
        assert lines[-1] == f"{tok.fingerprint} <|im_end|>"


def test_the_advice_names_all_files():
    names = {name for files in FILE_SETS for name in (*files.required, *files.optional)}
    assert all(fnmatch(name, _DOWNLOAD_PATTERN) for name in (*names, "additional_chat_templates/rag.jinja"))
    assert not any(fnmatch(name, _DOWNLOAD_PATTERN) for name in ("model.safetensors", "pytorch_model.bin", "x.gguf"))


def test_one_file_is_tried_at_a_hub_that_cannot_be_reached(hub, tmp_path):
    tok = bpe.train(texts=TEXTS, vocab_size=262, special_tokens=["<|endoftext|>"])
    (tmp_path / "pair").mkdir()
    tok.save(tmp_path / "pair", format="vocab-merges")
    hub.add("org/pair", tmp_path / "pair")
    home, closed = tmp_path / "home", "http://127.0.0.1:9"
    calls = """
import time
waits = []
time.sleep = waits.append  # huggingface_hub waits between its attempts to download a file
load("org/absent")
print(len(waits))
load("org/pair")
load("org/native")  # which has no configuration
print(len(waits))
"""
    (tmp_path / "native").mkdir()
    tok.save(tmp_path / "native" / "tokenizer.json")
    hub.add("org/native", tmp_path / "native")
    assert run(hub, home, 'load("org/pair")\nload("org/native")') == [tok.fingerprint] * 2
    lines = run(hub, home, calls, HF_ENDPOINT=closed)
    assert f" and {closed} cannot be reached ([Errno" in lines[0]
    assert (
        "Connection refused; with HF_HUB_OFFLINE=1, it is not tried); where there is a network, run `hf download"
        in lines[0]
    )
    assert f"copy the folder models--org--absent of that cache to {home / 'hub' / 'models--org--absent'}" in lines[0]
    assert int(lines[1]) <= 5  # those of one name
    assert lines[2:] == [
        tok.fingerprint,
        tok.fingerprint,
        lines[1],
    ]  # the first call found which files the repository does not have
    (tmp_path / "later").mkdir()
    other = bpe.train(texts=TEXTS, vocab_size=261)
    other.save(tmp_path / "later" / "tokenizer.json")
    hub.add("org/pair", tmp_path / "later")
    whole = other.with_tokens(special=["<|endoftext|>"])  # which the repository's configuration adds
    assert run(hub, home, 'load("org/pair")') == [whole.fingerprint]


def test_what_cannot_be_loaded_is_an_error(hub, tmp_path):
    hub.files["org/empty", "a" * 40, "README.md"] = b"x"
    hub.files["org/damaged", "a" * 40, "tokenizer.json"] = b"{"
    lines = run(
        hub,
        tmp_path / "home",
        """
load("org/empty")
load("org/empty", "v9")
load("org/none")
load("org/damaged")
load("a/b/c")
load(3)
""",
        HF_HUB_CACHE=str(tmp_path / "own"),
    )
    assert lines[0].startswith(
        "FileNotFoundError org/empty has no tokenizer that is known; it must have tokenizer.json"
    )
    assert lines[1].startswith("OSError org/empty cannot be loaded from the Hub (RevisionNotFoundError: ")
    assert lines[2].startswith("OSError org/none cannot be loaded from the Hub (RepositoryNotFoundError: ")
    assert lines[3].startswith("FormatError ")
    assert lines[4].startswith("OSError name is 'a/b/c', which is neither a folder nor a repository: ")
    assert lines[5] == "TypeError name is 3, an int; it must be a str, such as 'openai-community/gpt2'"
    assert (tmp_path / "own" / "models--org--damaged").is_dir()


def test_without_huggingface_hub_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ModuleNotFoundError, match=r"from_pretrained needs huggingface_hub: pip install '"):
        bpe.Tokenizer.from_pretrained("org/name")
