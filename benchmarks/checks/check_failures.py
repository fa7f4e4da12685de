"""Let the n-th call of the system fail, for each n, in every call of the library that reads or writes files.

    python benchmarks/checks/check_failures.py [CALL …] [--most N] [--seed S]

A library that is preloaded (`failing.c`, compiled by `cc`; Linux only) fails one allocation, mapping, open, read,
write, change of size, fsync, rename or start of a thread, or all from one on, as a full disk does; a read or write may
be short, or interrupted by a signal (EINTR). Whatever fails, the call ends with an OSError that names a file, a
MemoryError or, for threads, a RuntimeError, or gives the usual result. Files have their old content or their new one,
never a part; no file stays open and no thread is left. The same call, made again, gives the usual result. Each call
runs in a process of its own. Of the n of a kind, at most --most are tried, the first, the last and others by chance.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import errno
import faulthandler
import io
import itertools
import json
import logging
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from comparing import make_parser, run_each
from sharing import to_plain

import bpe
from bpe.cli import main as run_command
from bpe.data import Blocks, TokenShards, convert_shards, encode_shards, verify, write_shards

HERE = Path(__file__).resolve().parent
#: The most seconds of one call's process.
PATIENCE = 1800.0
#: The kinds of calls that `failing.c` numbers, and the errors that each may have.
KINDS: dict[str, tuple[int, ...]] = {
    "memory": (errno.ENOMEM,),
    "mapping": (errno.ENOMEM,),
    "open": (errno.EMFILE, errno.EINTR),
    "read": (errno.EIO, errno.EINTR),
    "write": (errno.ENOSPC, errno.EINTR),
    "resize": (errno.EFBIG,),
    "sync": (errno.EIO,),
    "rename": (errno.EACCES,),
    "thread": (errno.EAGAIN,),
}
MODES = {"once": 0, "from then on": 1, "short": 2}


class Failing:
    """The preloaded library."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        self._library.failing_count.restype = ctypes.c_long
        self._library.failing_arm.argtypes = [ctypes.c_int, ctypes.c_long, ctypes.c_int, ctypes.c_int]

    def find_kernels(self) -> None:
        """Find the code of the kernels, all of which must be imported."""
        folder = f"{Path(bpe.__file__).parent}{os.sep}"
        assert self._library.failing_use(folder.encode()) > 0, folder

    def arm(self, kind: str, n: int, mode: str = "once", code: int = 0) -> None:
        """Let the n-th call of a kind fail; none if n is 0."""
        self._library.failing_arm(list(KINDS).index(kind), n, MODES[mode], code)

    def disarm(self) -> None:
        """Let nothing fail."""
        self._library.failing_disarm()

    def count(self, kind: str) -> int:
        """Count the calls of a kind since `arm`."""
        return int(self._library.failing_count(list(KINDS).index(kind)))


class Call(NamedTuple):
    """A call of the library.

    Attributes:
        call: makes the call, with a folder for what it writes, and returns something that can be compared.
        old: the files that are in the folder before, name → content.

    """

    call: Callable[[Path], object]
    old: dict[str, bytes]


def make_calls(folder: Path) -> dict[str, Call]:
    """Make the calls by name, with their inputs in a folder."""
    rng = random.Random(1)
    words = [f"{word}{index}" for word in ("low", "lower", "naïve", "두") for index in range(300)]
    lines = [" ".join(rng.choices(words, k=rng.randrange(30))) for _ in range(6000)]
    text, small, records = folder / "lines.txt", folder / "small.txt", folder / "lines.jsonl"
    text.write_text("\n".join(lines))
    small.write_text("\n".join(lines[:300]))
    records.write_text("".join(json.dumps({"text": line}) + "\n" for line in lines[:500]))
    packed = folder / "lines.txt.gz"
    subprocess.run(["gzip", "-kn", str(text)], check=True)
    tok = bpe.train(texts=lines[:500], vocab_size=400, special_tokens=["<|end|>"])
    other = bpe.train(texts=lines[:500], vocab_size=380)
    tok.save(folder / "tokenizer.json")
    tok.save(folder / "t.compiled", format="compiled")
    counts = bpe.count_words(texts=lines[:500])
    counts.save(folder / "words.counts")
    write_shards([[*range(n % 7, n % 7 + 20 + n)] for n in range(40)], folder / "shards", shard_size=300)
    old = {"out.json": b"old", "out.compiled": b"old", "out.counts": b"old", "ids.npy": b"old"}

    def encode(out: Path, **options: Any) -> object:
        sources = bpe.Sources([str(small)], per_line=True)
        size: dict[str, Any] = {"shards": 3} if "seed" in options else {"shard_size": 2000}
        return encode_shards(sources, tok, out / "shards", threads=2, **size, **options).fingerprint

    def train(out: Path) -> str:
        return bpe.train(files=[small], vocab_size=290, threads=2, checkpoint=out / "checkpoint").fingerprint

    def encode_by_command(out: Path) -> None:
        command = ["encode", str(small), "-t", str(folder / "tokenizer.json"), "-o", str(out / "ids.npy"), "--quiet"]
        with contextlib.redirect_stderr(io.StringIO()) as stderr:
            if run_command(command):
                raise OSError(errno.EIO, stderr.getvalue(), "command")

    def read_rows(_: Path) -> object:
        blocks = Blocks(TokenShards(folder / "shards"), length=8)
        return [batch["input_ids"].tolist() for batch in blocks.batches(4)]

    calls: dict[str, Callable[[Path], object]] = {
        "encode_files": lambda _: tok.encode_files([text], threads=2, per_line=True),
        "encode_packed": lambda _: tok.encode_files([packed, small], threads=2),
        "encode_records": lambda _: tok.encode_files(bpe.Sources(str(records)), threads=2),
        "encode_batch": lambda _: tok.encode_batch(lines, threads=2),
        "encode_cold": lambda _: bpe.Tokenizer(tok.spec).encode(lines[3]),
        "decode_batch": lambda _: tok.decode_batch(tok.encode_batch(lines[:200])),
        "count_words": lambda _: dict(bpe.count_words(files=[text], threads=2).most_common(20)),
        "spill": lambda _: bpe.train(files=[small], vocab_size=290, max_memory="1G", threads=2).fingerprint,
        "train": train,
        "shards": encode,
        "shuffled": lambda out: encode(out, seed=3),
        "parquet": lambda out: encode(out, format="parquet"),
        "convert_shards": lambda out: convert_shards(folder / "shards", out / "shards", format="megatron").fingerprint,
        "read_rows": read_rows,
        "verify": lambda _: verify(folder / "shards"),
        "save": lambda out: other.save(out / "out.json"),
        "save_compiled": lambda out: other.save(out / "out.compiled", format="compiled"),
        "save_counts": lambda out: counts.save(out / "out.counts"),
        "load": lambda _: bpe.Tokenizer.load(folder / "tokenizer.json").fingerprint,
        "load_compiled": lambda _: bpe.Tokenizer.load(folder / "t.compiled").fingerprint,
        "load_counts": lambda _: bpe.WordCounts.load(folder / "words.counts").total,
        "command": encode_by_command,
    }
    return {name: Call(call, old) for name, call in calls.items()}


def read_files(folder: Path) -> dict[str, bytes]:
    """Read all files of a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def list_descriptors() -> list[str]:
    """List what the open descriptors of the process are."""
    paths = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # that of the folder itself
            paths.append(os.readlink(f"/proc/self/fd/{name}"))
    return [path for path in paths if not path.startswith("/proc/")]


def outcome_of(result: object) -> str:
    """Return a result as text."""
    return repr(to_plain(result))


class Attack:
    """One call, whose system calls fail."""

    def __init__(self, call: Call, folder: Path) -> None:
        self._call, self._folder, self._failing, self._numbers = call, folder, Failing(), itertools.count()
        self.n_failed = self.n_passed = 0
        out = self._make_folder()
        self._expected = outcome_of(call.call(out))  # which imports everything
        self._files = read_files(out)
        out = self._make_folder()
        assert outcome_of(call.call(out)) == self._expected
        assert self._mask(read_files(out)).keys() == self._mask(self._files).keys()
        self._failing.find_kernels()

    def _make_folder(self) -> Path:
        out = self._folder / f"out{next(self._numbers)}"
        out.mkdir()
        for name, content in self._call.old.items():
            (out / name).write_bytes(content)
        return out

    def count(self, kind: str) -> int:
        """Count the calls of a kind when nothing fails."""
        out = self._make_folder()
        self._failing.arm(kind, 0)
        try:
            self._call.call(out)
        finally:
            self._failing.disarm()
            shutil.rmtree(out)
        return self._failing.count(kind)

    def try_failure(self, kind: str, n: int, mode: str, code: int) -> str:
        """Make the call while one of its calls of the system fails: what is wrong, or nothing."""
        out = self._make_folder()
        descriptors = list_descriptors()
        error: BaseException | None = None
        result = ""
        self._failing.arm(kind, n, mode, code)
        try:
            result = outcome_of(self._call.call(out))
        except BaseException as caught:  # noqa: BLE001 (looked at below)
            error = caught
        finally:
            self._failing.disarm()
        problem = self._judge(kind, mode, code, error, result)
        problem = problem or self._look_around(out, descriptors, complete=error is None)
        if error is None:  # a call that is done may not be made again in its folder
            shutil.rmtree(out)
            out = self._make_folder()
        del error
        problem = problem or self._try_again(out, descriptors)
        shutil.rmtree(out)
        return problem

    def _try_again(self, out: Path, descriptors: list[str]) -> str:
        """Make the call when nothing fails: what is wrong, or nothing."""
        try:
            again = outcome_of(self._call.call(out))
        except Exception:  # noqa: BLE001 (shown)
            return f"the next call fails: {traceback.format_exc(limit=-3)}"
        if again != self._expected:
            return f"the next call gives {again[:200]}"
        return self._look_around(out, descriptors, complete=True)

    def _judge(self, kind: str, mode: str, code: int, error: BaseException | None, result: str) -> str:
        """Say what is wrong with the error or the result."""
        if error is None:
            self.n_passed += 1
            return "" if result == self._expected else f"it gives {result[:200]}"
        self.n_failed += 1
        shown = "".join(traceback.format_exception(error, limit=-4))
        if mode == "short" or code == errno.EINTR:
            return f"it is no error: {shown}"
        if isinstance(error, OSError):
            return "" if error.filename is not None or kind in ("memory", "mapping") else f"it names no file: {shown}"
        if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and kind == "thread"):
            return ""
        return f"another kind of error: {shown}"

    def _look_around(self, out: Path, descriptors: list[str], *, complete: bool) -> str:
        """Look for files that are neither old nor new, open files, and threads."""
        files, wanted = self._mask(read_files(out)), self._mask(self._files)
        for name, content in files.items():
            is_old = content == self._call.old.get(name)
            if (
                content != wanted.get(name)
                and not (is_old and not complete)
                and not self._may_be_unfinished(name, complete)
            ):
                return f"the file {name} has {len(content)} bytes, neither the old nor the new content"
        if complete and (missing := wanted.keys() - files.keys()):
            return f"the files {sorted(missing)} are missing"
        if left := [path for path in list_descriptors() if path not in descriptors]:
            return f"these files are left open: {left}"
        deadline = time.monotonic() + 20
        while any(thread.name.startswith("bpe") for thread in threading.enumerate()):
            if time.monotonic() > deadline:
                return "a thread is left"
            time.sleep(0.001)
        return ""

    @staticmethod
    def _may_be_unfinished(name: str, complete: bool) -> bool:
        """Whether a file is one that a call leaves to go on from, or leaves out of the comparison."""
        return not complete and (name.startswith("shards/") or "checkpoint" in name)

    @staticmethod
    def _mask(files: dict[str, bytes]) -> dict[str, bytes]:
        """Leave out what differs between two undisturbed runs: checkpoints have the times of files."""
        return {name: b"" if "checkpoint" in name else content for name, content in files.items()}


def list_failures(attack: Attack, most: int, rng: random.Random) -> Iterator[tuple[str, int, str, int]]:
    """List what to let fail: (kind, n, mode, error)."""
    for kind, codes in KINDS.items():
        count = attack.count(kind)
        numbers = sorted({1, count, *rng.sample(range(1, count + 1), min(most, count))}) if count else []
        for n in numbers:
            for code in codes:
                yield kind, n, "once", code
            if kind in ("read", "write"):
                yield kind, n, "short", 0
            if kind in ("write", "memory", "open", "thread"):
                yield kind, n, "from then on", codes[0]


def check_call(name: str, most: int, seed: int) -> int:
    """Attack a call, in this process: whether there was a fault."""
    faulthandler.enable()
    logging.disable()
    warnings.simplefilter("ignore")
    faults: dict[str, str] = {}
    n_tried = 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        attack = Attack(make_calls(Path(folder))[name], Path(folder))
        for kind, n, mode, code in list_failures(attack, most, random.Random(f"{name} {seed}")):
            problem = attack.try_failure(kind, n, mode, code)
            n_tried += 1
            if problem:
                faults.setdefault(problem, f"{kind} {n} {mode}, {errno.errorcode.get(code, 'no error')}")
    for problem, first in list(faults.items())[:8]:
        print(f"{name}: {first}: {problem}", flush=True)
    n_errors, n_results = attack.n_failed, attack.n_passed
    print(f"{name}: {n_tried} failures, {n_errors} errors, {n_results} usual results, {len(faults)} faults", flush=True)
    return min(len(faults), 1)


def compile_library(folder: Path) -> Path:
    """Compile the library to preload."""
    library = folder / "failing.so"
    compiler = os.environ.get("CC", "cc").split()
    subprocess.run(
        [*compiler, "-O1", "-shared", "-fPIC", "-o", library, HERE / "failing.c", "-ldl", "-pthread"], check=True
    )
    return library


def main() -> int:
    """Run the checks."""
    parser = make_parser(__doc__)
    parser.add_argument("calls", nargs="*", metavar="CALL", help="such as encode_files; default all")
    parser.add_argument("--most", type=int, default=30, help="calls of the system of each kind that fail (default 30)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--in-process", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.in_process:
        return check_call(options.calls[0], options.most, options.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["LD_PRELOAD"] = str(compile_library(folder))
        arguments = [f"--most={options.most}", f"--seed={options.seed}"]
        return run_each(__file__, options.calls or list(make_calls(folder)), arguments, PATIENCE)


if __name__ == "__main__":
    sys.exit(main())
