"""Ctrl-C ends a long call soon, and the tokenizer stays usable."""

from __future__ import annotations

import _thread
import ast
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from operator import methodcaller
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from source_trees import parse, walk_statements

import bpe
from bpe.base import _interrupts as interrupts
from bpe.base._team import Crew
from bpe.base.atomic_files import AtomicFile
from bpe.base.threads import run_threads
from bpe.encode import _batch
from bpe.errors import ID_LIMIT, add_file_name, ignore_system_errors, raise_if_of_signal_handler
from bpe.merge._dropout import Dropout
from bpe.training import trainer as learning
from bpe.training.config import TrainConfig

SOURCE = Path(bpe.__file__).parent

POLL_INTERVAL = 100  # ids between two checks for signals, in these tests


@cache
def model(kind: str) -> bpe.Tokenizer:
    options = {"heap": {"model": "char", "unk_token": "low"}}.get(kind, {})
    return bpe.train(texts=["low lower lowest newest"] * 3, num_merges=8, **options)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def polling_often() -> Iterator[None]:
    """Threads check for signals often, and Ctrl-C raises even if the process that runs the tests ignores it."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    before = interrupts.set_poll_interval(POLL_INTERVAL)
    yield
    interrupts.set_poll_interval(before)
    signal.signal(signal.SIGINT, handler)


def with_signal(call: Callable[[], object]) -> bool:
    """Make a call with a signal pending that Python has not handled yet; return whether the call ran to its end.

    Python handles signals between its own instructions, and there are none inside `list(map(…))`.
    """
    ended: list[int] = []
    with suppress(KeyboardInterrupt):
        list(map(methodcaller("__call__"), [_thread.interrupt_main, call, partial(ended.append, 1)]))
    return bool(ended)


def job_of(tok: bpe.Tokenizer, text: bytes, threads: int) -> _batch.EncodeJob:
    job = _batch.EncodeJob(tok._engine.encoder, threads)
    job.add_items([text], np.array([0, 1], dtype=np.int64))
    job.prepare()
    return job


TEXT = b"low lower\nlowest newest " * 4000


@pytest.mark.parametrize(
    "text", [TEXT, b"lowerest" * 4000, "猫である。\n".encode() * 4000], ids=["words", "word", "CJK"]
)
@pytest.mark.parametrize("threads", [0, 1, 2])
def test_encoding_ends_at_a_signal(text: bytes, threads: int, monkeypatch: pytest.MonkeyPatch, hooks: Any) -> None:
    """`threads` is the number of a job's threads, and 0 a call for one text. The workspace is returned."""
    monkeypatch.setattr(_batch, "MAX_PART_BYTES", 4000)
    monkeypatch.setattr(_batch, "MIN_PART_BYTES", 1000)
    tok = model("byte")
    encoder = tok._engine.encoder
    expected = tok.encode(text).tolist()
    idle = hooks.cache_state(encoder)["idle"]
    assert not with_signal(partial(encoder.encode, text) if threads == 0 else job_of(tok, text, threads).work)
    assert threads or not with_signal(partial(tok.count_tokens, text))
    assert hooks.cache_state(encoder)["idle"] == idle
    assert tok.encode(text).tolist() == tok.encode_batch([text], threads=2).ids.tolist() == expected


def test_spans_and_dropout_end_at_a_signal() -> None:
    engine = model("byte")._engine
    encoder, dropout = engine.encoder, Dropout(engine.merger)
    starts = np.arange(0, len(TEXT), 3)
    ends = np.minimum(starts + 3, len(TEXT))
    assert not with_signal(partial(encoder.encode_pretokens, TEXT, starts, ends))
    assert not with_signal(partial(dropout.encode, TEXT, starts, ends, 0, 0))
    within_one_pretoken = partial(dropout.encode, TEXT, starts[:1], ends[-1:], 0, 0)
    assert not with_signal(within_one_pretoken)


def test_decoding_ends_at_a_signal() -> None:
    tokens = model("byte")._decoder
    ids = np.full((1 << 24) + (1 << 15), 65, dtype=np.uint32)
    assert not with_signal(partial(tokens.decode_with_final_space, ids))
    rows = np.arange(1 << 12)
    assert not with_signal(partial(tokens.decode_texts, bpe.TokenBatch(ids[: rows[-1]], rows), "replace"))


def test_training_ends_at_a_signal() -> None:
    counts = bpe.count_words(texts=["low lower lowest"])
    config = TrainConfig(counts=counts, num_merges=5)
    words = learning.build_words(counts, config)
    trainer = learning.make_trainer(words, config, learning.make_initial_tokens(words, config), 5)
    assert not with_signal(partial(trainer.run, 5, ID_LIMIT))
    assert len(trainer.list_merges()) + len(trainer.run(5 - len(trainer.list_merges()), ID_LIMIT)) == 5


def test_stopping_a_job_stops_its_threads_early(hooks: Any) -> None:
    """They stop in the middle of a part, after a few of its many words."""
    tok = bpe.train(texts=["low lower lowest newest"] * 3, num_merges=8)
    job = job_of(tok, " ".join(f"low{number}" for number in range(50_000)).encode(), 1)
    before = hooks.cache_state(tok._engine.encoder)["words"]
    signal.signal(signal.SIGINT, lambda *_: job.stop())
    assert with_signal(job.work)
    assert hooks.cache_state(tok._engine.encoder)["words"] - before < 10_000


@pytest.mark.parametrize("where", ["working", "waiting"])
def test_threads_are_stopped_and_joined(where: str) -> None:
    """The caller's thread is interrupted at its own work, or while it waits for the others."""
    stopped = threading.Event()
    before = threading.active_count()

    def work() -> None:
        if threading.current_thread() is threading.main_thread():
            if where == "working":
                raise KeyboardInterrupt
            return
        if where == "waiting":
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        assert stopped.wait(120)

    with pytest.raises(KeyboardInterrupt):
        run_threads(work, 3, stopped.set)
    while threading.active_count() > before:  # a thread may still be starting
        time.sleep(0.01)


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="there, compiled code waits for threads")
def test_no_python_code_waits_for_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two interrupts of `Thread.join` leave a lock acquired for which the next call waits for ever."""
    for name in ("join", "is_alive", "_wait_for_tstate_lock"):
        monkeypatch.setattr(threading.Thread, name, None)
    before = threading.active_count()
    with Crew(bool, 3) as crew:
        crew.join()
    with Crew(bool, 3):
        pass
    assert threading.active_count() == before


def test_a_signal_just_before_the_wait_for_threads_ends_it() -> None:
    stopped = threading.Event()
    ended = []
    with pytest.raises(KeyboardInterrupt), Crew(lambda _: ended.append(stopped.wait(60)), 1, stopped.set) as crew:
        list(map(methodcaller("__call__"), [_thread.interrupt_main, crew.join]))
    assert ended == [True]


def test_ctrl_c_is_not_lost_where_threads_are_freed() -> None:
    """A callback of a weak reference cannot raise: an exception of a handler that runs in it is shown and forgotten."""
    crews = [Crew(bool, 2)]
    with crews[0] as crew:
        crew.join()
    del crew
    with pytest.raises(KeyboardInterrupt):
        list(map(methodcaller("__call__"), [_thread.interrupt_main, crews.clear]))
    assert not crews


FOREVER = """
import signal, threading, time, bpe
signal.signal(signal.SIGINT, signal.default_int_handler)
tok = bpe.train(texts=["low lower lowest"] * 3, num_merges=5)
text = "low lower lowest " * 200_000
try:
    print("ready", flush=True)
    while True:
        tok.encode_batch([text] * 30, threads=3)
except KeyboardInterrupt:
    pass
while threading.active_count() > 1:
    time.sleep(0.01)
print(tok.decode(tok.encode("lower")), flush=True)
"""


def test_ctrl_c_ends_an_endless_loop_of_encoding() -> None:
    with subprocess.Popen([sys.executable, "-c", FOREVER], stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            assert running.stdout.readline() == "ready\n"
            time.sleep(0.2)
            running.send_signal(signal.SIGINT)
            assert running.communicate(timeout=120)[0] == "lower\n"
        finally:
            running.kill()


# A signal handler may raise TimeoutError, which is an OSError ---------------------------------------------------------


def test_only_errors_of_the_system_are_ignored() -> None:
    for error in (FileNotFoundError(2, "no such file"), TimeoutError(110, "timed out"), OSError("no number")):
        with ignore_system_errors():
            raise error
        raise_if_of_signal_handler(error)
        assert add_file_name(error, "here").filename == "here"
    for check in (raise_if_of_signal_handler, partial(add_file_name, path="here")):
        with pytest.raises(TimeoutError, match="of a handler"):
            check(TimeoutError("of a handler"))
    with pytest.raises(TimeoutError, match="of a handler"), ignore_system_errors():
        raise TimeoutError("of a handler")


def test_no_module_suppresses_the_timeout_of_a_handler() -> None:
    assert [path.name for path in SOURCE.rglob("*.py") if "suppress(OSError" in path.read_text()] == []


#: Functions that catch errors of the network: the timeout of a socket is a TimeoutError without a number, too.
NETWORK_FUNCTIONS = ("_download_new", "_exists", "_list_named_templates")


def test_no_function_handles_the_timeout_of_a_handler() -> None:
    """Whoever catches OSError, or all errors, raises those of handlers again. The command has no such handlers."""
    faults = []
    for path in SOURCE.rglob("*.py"):
        if path.parent.name == "cli" or path.name == "generate_sets.py":
            continue
        text = path.read_text(encoding="utf-8")
        catches = "except" in text and ("OSError" in text or "Exception" in text)
        for function in walk_statements(parse(text)) if catches else ():
            if isinstance(function, ast.FunctionDef) and function.name not in NETWORK_FUNCTIONS:
                lines = [node.lineno for node in walk_statements(function) if _handles_system_errors(node)]
                faults += [f"{path.relative_to(SOURCE)}:{line}" for line in lines]
    assert faults == []


def _handles_system_errors(node: ast.AST) -> bool:
    """Whether a node is a handler of OSError or Exception that does not raise a handler's TimeoutError."""
    if not isinstance(node, ast.ExceptHandler) or _list_names(node.type).isdisjoint(("OSError", "Exception")):
        return False
    is_raised_again = isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None
    return not is_raised_again and _list_names(*node.body).isdisjoint(("raise_if_of_signal_handler", "add_file_name"))


def _list_names(*nodes: ast.AST | None) -> set[str]:
    return {node.id for top in nodes if top is not None for node in ast.walk(top) if isinstance(node, ast.Name)}


def test_a_file_is_removed_when_a_handler_interrupts_its_closing(tmp_path: Path) -> None:
    file = AtomicFile(tmp_path / "ids")
    file.file.close()
    file.file = mock.Mock(close=mock.Mock(side_effect=TimeoutError("of a handler")))
    with pytest.raises(TimeoutError, match="of a handler"):
        file.discard()
    assert list(tmp_path.iterdir()) == []
