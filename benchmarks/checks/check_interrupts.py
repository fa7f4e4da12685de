"""Interrupt every long call at random moments, once or twice as with an impatient Ctrl-C, and go on with its objects.

    python benchmarks/checks/check_interrupts.py [CALL …] [--interrupts N] [--seed S]

Each call runs in a process of its own. A signal's handler raises KeyboardInterrupt at a random moment of the call; half
of the time a second signal follows within a millisecond. A call that ends nevertheless must give its usual result.
Afterwards no thread of the call may be left, and every tenth time the call is made without a signal, and must give its
usual result. At the end the process must exit. Without a name, all calls are interrupted, 1,000 times each.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from comparing import make_parser, run_each
from inputs import at_least

import bpe
from bpe.data import TokenShards, convert_shards, encode_shards
from bpe.evaluation.evaluating import evaluate
from bpe.training import trainer as learning

#: The most seconds that a thread may live on after its call, and that an interrupted call may take.
PATIENCE, SECONDS = 60.0, 5.0


def make_inputs(folder: Path) -> dict[str, Callable[[], Any]]:
    """The calls by name; each returns something that can be compared."""
    words = {f"w{i}x{j}": 1 + (i * j) % 7 for i in range(200) for j in range(30)}
    lines = [f"low lower {index} newest, widest {index % 97}\n" for index in range(20_000)]
    text = folder / "lines.txt"
    text.write_text("".join(lines))
    records = folder / "lines.jsonl"
    records.write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
    tok = bpe.train(texts=lines[:2000], vocab_size=300)
    sources = bpe.Sources(str(records))
    encode_shards(bpe.Sources(str(text), per_line=True), tok, folder / "shards", shard_size=20_000)
    learning.tuning_for_tests = {"min_cells": 100}  # else helpers start only for corpora of a million symbols
    counter = itertools.count()

    def make_shards(make: Callable[[Path], object]) -> list[int]:
        """The documents and tokens of new shards, whose folder is then removed."""
        out = folder / f"out{next(counter)}"
        try:
            make(out)
            shards = TokenShards(out)
            return [shards.n_documents, shards.n_tokens]
        finally:
            shutil.rmtree(out, ignore_errors=True)

    encode = partial(encode_shards, sources, tok, shard_size=20_000, threads=3)
    return {
        "train": lambda: bpe.train(counts=words, vocab_size=290, threads=8).fingerprint,
        "train_texts": lambda: bpe.train(files=[text], vocab_size=290, threads=4).fingerprint,
        "extend": lambda: bpe.extend(tok, counts=words, vocab_size=320).fingerprint,
        "count_words": lambda: dict(bpe.count_words(files=[text], threads=4).most_common(9)),
        "count_lists": lambda: len(bpe.count_words(texts=iter(lines), threads=4)),
        "encode_batch": lambda: tok.encode_batch(lines, threads=4).ids.sum(),
        "encode_dropout": lambda: tok.encode_batch(lines[:300], threads=3, dropout=0.1, seed=1).ids.sum(),
        "encode_files": lambda: tok.encode_files([text], threads=4, per_line=True).ids.sum(),
        "encode_records": lambda: tok.encode_files(sources, threads=4).ids.sum(),
        "encode_shards": lambda: make_shards(encode),
        "shuffled_shards": lambda: make_shards(partial(encode, seed=7)),
        "convert_shards": lambda: make_shards(partial(convert_shards, folder / "shards", format="megatron")),
        "evaluate": lambda: str(evaluate(tok, files=[text], threads=3)),
    }


class Timer:
    """Signals whose handler raises KeyboardInterrupt, as Ctrl-C does."""

    def __init__(self) -> None:
        self.left, self.second = 0, 0.0
        signal.signal(signal.SIGALRM, self.interrupt)

    def start(self, first: float, second: float) -> None:
        """Interrupt the main thread after `first` seconds, and `second` seconds later once more unless that is 0."""
        self.left, self.second = 2 if second else 1, second
        signal.setitimer(signal.ITIMER_REAL, first)

    def stop(self) -> None:
        """Interrupt no more."""
        self.left = 0
        signal.setitimer(signal.ITIMER_REAL, 0)

    def interrupt(self, _: int, frame: FrameType | None) -> None:
        """Handle a signal, which is ignored outside the call. The first one sets the second: there are no more."""
        second, self.second = self.second, 0.0
        signal.setitimer(signal.ITIMER_REAL, second)
        while frame is not None and frame.f_code.co_name != "interrupted_call":
            frame = frame.f_back
        if self.left and frame is not None:
            self.left -= 1
            raise KeyboardInterrupt


def check_call(name: str, interrupts: int, seed: int) -> None:
    """Interrupt one call, in this process."""
    random_numbers = random.Random(seed)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        call = make_inputs(Path(folder))[name]
        expected = call()
        begin = time.perf_counter()
        call()
        length = time.perf_counter() - begin
        timer, completed = Timer(), list[object]()

        def interrupted_call(first: float, second: float) -> None:
            timer.start(first, second)
            completed.append(call())

        for index in range(interrupts):
            second = 0.0 if index % 2 else random_numbers.uniform(1e-6, 1e-3)
            with suppress(KeyboardInterrupt):
                interrupted_call(random_numbers.uniform(1e-6, length), second)
            timer.stop()
            if completed and completed[-1] != expected:
                raise SystemExit(f"{name}: call {index} ended without its result, as if no signal had come")
            wait_for_threads(name, index)
            if index % 10 == 9 and call() != expected:
                raise SystemExit(f"{name}: another result after interrupt {index}")
        n_interrupted = interrupts - len(completed)
        print(f"{name}: {n_interrupted} of {interrupts} calls interrupted, nothing left over", flush=True)


def wait_for_threads(name: str, interrupt: int) -> None:
    """Fail if a thread of a call goes on."""
    deadline = time.monotonic() + PATIENCE
    while left := [
        thread.name for thread in threading.enumerate() if thread.name.startswith("bpe") and thread.is_alive()
    ]:
        if time.monotonic() > deadline:
            print(f"{name}: {left} go on after interrupt {interrupt}", flush=True)
            signal.raise_signal(signal.SIGKILL)
        time.sleep(0.001)


def main() -> int:
    """Run the checks."""
    parser = make_parser(__doc__)
    parser.add_argument("calls", nargs="*", help="the calls; default all")
    parser.add_argument("--interrupts", type=at_least(1), default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--in-process", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.in_process:
        check_call(options.calls[0], options.interrupts, options.seed)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        names = options.calls or list(make_inputs(Path(folder)))
    arguments = ["--interrupts", str(options.interrupts), "--seed", str(options.seed)]
    return run_each(__file__, names, arguments, PATIENCE + SECONDS * options.interrupts)


if __name__ == "__main__":
    sys.exit(main())
