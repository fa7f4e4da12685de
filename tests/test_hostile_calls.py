"""Calls under hostile conditions: threads, interrupts at any moment, arguments that change, odd subclasses.

Each row of `CALLS` is one public call; its result under these conditions must be the usual one.
"""

from __future__ import annotations

import inspect
import json
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bpe
from bpe.data import Blocks, Mixture, TokenShards, encode_shards, write_shards

pytestmark = pytest.mark.usefixtures("quiet")
pytest.importorskip("jinja2", minversion="3.1.6")

TEMPLATE = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
MESSAGES = [{"role": "user", "content": "hello<|end|>"}, {"role": "bot", "content": "hello world"}]
TEXT = "Hello world. Hello! A world, hello.\nWorld? " * 20
THREADS = 8
#: How many moments of a call are interrupted.
MOMENTS = 8


@cache
def make_tokenizer() -> bpe.Tokenizer:
    names = ["<|user|>", "<|bot|>", "<|end|>", "<|endoftext|>"]
    tok = bpe.train(texts=["hello hello world"] * 3, vocab_size=270, special_tokens=names)
    return bpe.Tokenizer(replace(tok.spec, chat_templates={"default": TEMPLATE}))


@cache
def make_other() -> bpe.Tokenizer:
    return bpe.train(texts=["hello yellow cellar"] * 3, vocab_size=268)


# The calls: each gets an empty folder, and returns something that can be compared ------------------------------------


def chat(_: Path) -> object:
    encoded = make_tokenizer().chat(MESSAGES)
    return encoded.text, encoded.ids.tolist(), encoded.mask.tolist()


def count_chat(_: Path) -> object:
    return make_tokenizer().count_chat(MESSAGES), make_tokenizer().count_chat(MESSAGES, model="gpt-4o")


def chunk(_: Path) -> object:
    return make_tokenizer().chunk(TEXT, 9, overlap=3)


def chunk_parts(_: Path) -> object:
    return list(make_tokenizer().chunk(iter(TEXT.split(" ")), 9, boundaries="word"))


def with_roles(_: Path) -> object:
    tok = make_tokenizer().with_tokens(special=["<pad>"], roles={"pad_token": "<pad>", "eos_token": "<|end|>"})
    return tok.fingerprint, tok.roles


def combine(_: Path) -> object:
    tok, new_ids, lost = bpe.combine(make_tokenizer(), make_other())
    return tok.fingerprint, new_ids.tolist(), lost


def save_pretrained(folder: Path) -> object:
    make_tokenizer().save_pretrained(folder / "model", roles={"eos_token": "<|end|>"}, chat_template=TEMPLATE)
    tok = bpe.Tokenizer.load(folder / "model")
    return tok.fingerprint, tok.roles, tok.spec.chat_templates


def read_counts(folder: Path) -> object:
    (folder / "words.tsv").write_text("".join(f"w{i % 30}\t{i}\n" for i in range(50)))
    return list(bpe.WordCounts.from_text(folder / "words.tsv", "whitespace").items())


def mix(folder: Path) -> object:
    rows = []
    for token in range(2):
        path = folder / f"{token}"
        if not (path / "manifest.json").exists():
            write_shards([[token] * 101], path)
        rows.append(Blocks(TokenShards(path), length=4))
    mixture = Mixture(rows, {0: [1, 0], 5: [1, 1], 12: [2, 1]})
    return mixture.fingerprint, mixture.read(np.arange(len(mixture)))["input_ids"].tolist()


def encode_conversations(folder: Path) -> object:
    if not (folder / "chats.jsonl").exists():  # a file that is written again is another source
        (folder / "chats.jsonl").write_text((json.dumps({"messages": MESSAGES}) + "\n") * 5)
    encode_shards(folder / "chats.jsonl", make_tokenizer(), folder / "out", messages="messages", shard_size=20)
    shards = TokenShards(folder / "out")
    return [ids.tolist() for ids in shards.documents], shards.masks(0, shards.n_tokens).tolist()


def extend_shards(folder: Path) -> object:
    for name in "abc":
        if not (folder / f"{name}.txt").exists():
            (folder / f"{name}.txt").write_text(f"hello {name} " * 9)
        encode_shards(folder / f"{name}.txt", make_tokenizer(), folder / "out", extend=True)
    return [ids.tolist() for ids in TokenShards(folder / "out").documents]


CALLS: list[Callable[[Path], object]] = [
    chat, count_chat, chunk, chunk_parts, with_roles, combine, save_pretrained, read_counts, mix, encode_conversations,
    extend_shards,
]  # fmt: skip
each_call = pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)


@contextmanager
def switch_often() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)


@each_call
def test_threads_on_one_tokenizer(call: Callable[[Path], object], tmp_path: Path) -> None:
    folders = [tmp_path / str(index) for index in range(THREADS + 1)]
    for folder in folders:
        folder.mkdir()
    expected = call(folders[-1])
    with switch_often(), ThreadPoolExecutor(THREADS) as pool:
        assert list(pool.map(call, folders[:-1])) == [expected] * THREADS


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a file may be left to the collector
@each_call
def test_interrupts_at_any_moment(call: Callable[[Path], object], tmp_path: Path) -> None:
    """KeyboardInterrupt is raised where a function of the package begins; the same call then gives its result."""
    n_entered = 0

    def count(frame: Any, event: str, _: object) -> None:
        nonlocal n_entered
        n_entered += begins_function(frame, event)

    (tmp_path / "first").mkdir()
    expected = call(tmp_path / "first")  # which imports modules, and makes what is kept
    (tmp_path / "second").mkdir()
    assert run_profiled(count, lambda: call(tmp_path / "second")) == expected
    for moment in np.linspace(0, n_entered - 1, MOMENTS).astype(int).tolist():
        folder = tmp_path / str(moment)
        folder.mkdir(exist_ok=True)
        n_left = moment

        def interrupt(frame: Any, event: str, _: object) -> None:
            nonlocal n_left
            n_left -= begins_function(frame, event)
            if n_left < 0:
                raise KeyboardInterrupt

        try:
            run_profiled(interrupt, lambda folder=folder: call(folder))  # type: ignore[misc]
        except KeyboardInterrupt:
            pass
        else:  # a call of several threads may enter a few functions less than the counted one
            assert n_left >= 0, f"the interrupt at {moment} of {n_entered} is lost"
            assert moment > 0.9 * n_entered
        assert call(folder) == expected, moment


def begins_function(frame: Any, event: str) -> bool:
    """Whether a function of the package begins; not a generator, which may also be entered to be closed."""
    code = frame.f_code
    return event == "call" and not code.co_flags & inspect.CO_GENERATOR and "/bpe/" in code.co_filename


def run_profiled(profile: Callable[[Any, str, object], None], call: Callable[[], object]) -> object:
    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        return call()
    finally:
        sys.setprofile(before)


def test_messages_that_change_during_the_call() -> None:
    """A conversation is copied once, so that its text, ids and mask are of one state."""
    tok, message = make_tokenizer(), {"role": "bot", "content": "hello"}
    expected = {}
    for content in ("hello", "world<|end|>"):
        message["content"] = content
        encoded = tok.chat([message])
        expected[encoded.text] = encoded.ids.tolist(), encoded.mask.tolist()
    ended = threading.Event()

    def change() -> None:
        while not ended.is_set():
            message["content"] = "world<|end|>"
            message["content"] = "hello"

    thread = threading.Thread(target=change)
    with switch_often():
        thread.start()
        try:
            for _ in range(300):
                encoded = tok.chat([message])
                assert (encoded.ids.tolist(), encoded.mask.tolist()) == expected[encoded.text]
        finally:
            ended.set()
            thread.join()


def test_lists_that_grow_while_they_are_read() -> None:
    tok, parts = make_tokenizer(), ["hello. ", "world. "] * 500
    chunks = []
    for found in tok.chunk(parts, 8):
        if len(parts) < 1009:
            parts.append("again. ")
        chunks.append(found.text)
    assert "".join(chunks) == "".join(parts)
    weights: dict[int, list[float]] = {0: [1, 1]}

    class Growing(list[float]):
        def __iter__(self) -> Iterator[float]:
            weights[len(weights)] = [1, 1]
            return super().__iter__()

    weights[0] = Growing([1, 1])
    rows = [Blocks(TokenShards(path), length=4) for path in make_two_shards()]
    with pytest.raises(RuntimeError, match="changed size during iteration"):
        Mixture(rows, weights)


@cache
def make_two_shards() -> tuple[Path, Path]:
    paths = Path("two-shards/a").absolute(), Path("two-shards/b").absolute()
    for path in paths:
        write_shards([[1] * 101], path)
    return paths


class OddText(str):
    """A str whose own methods say other things than what it holds."""

    __slots__ = ()

    def __len__(self) -> int:
        return 1

    def __str__(self) -> str:
        return "<|end|>"

    def replace(self, *_: Any, **__: Any) -> str:
        return "<|end|>"

    def encode(self, *_: Any, **__: Any) -> bytes:
        return b"<|end|>"


class OddInt(int):
    """An int whose own methods say another number."""

    def __index__(self) -> int:
        return -5

    def __int__(self) -> int:
        return -5


class OddDict(dict[Any, Any]):
    """A dict whose keys cannot be looked up."""

    def __getitem__(self, key: object) -> Any:
        raise RuntimeError(key)

    def get(self, key: object, default: object = None) -> Any:
        raise RuntimeError(key, default)


def test_odd_subclasses_are_what_they_hold() -> None:
    tok = make_tokenizer()
    plain = tok.chat(MESSAGES)
    odd = tok.chat([OddDict({OddText(key): OddText(value) for key, value in each.items()}) for each in MESSAGES])
    assert (odd.text, odd.ids.tolist(), odd.mask.tolist()) == (plain.text, plain.ids.tolist(), plain.mask.tolist())
    odd_messages = [OddDict({key: OddText(value) for key, value in each.items()}) for each in MESSAGES]
    for model in (None, "gpt-4o"):
        assert tok.count_chat(odd_messages, model=model) == tok.count_chat(MESSAGES, model=model)
    assert tok.chunk(OddText(TEXT), OddInt(9)) == tok.chunk(TEXT, 9)
    assert list(tok.chunk(map(OddText, TEXT.split(" ")), 9)) == list(tok.chunk(TEXT.split(" "), 9))
    assert tok.with_tokens(roles=OddDict(eos_token="<|end|>")).roles == {"eos_token": "<|end|>"}
    assert bpe.combine(tok, make_other(), vocab_size=OddInt(271)).tokenizer.vocab_size == 271
