"""Measure one task with one number of threads in this process, and print the result as one line of JSON.

    python measure_cores.py TASK THREADS '{"small": PATH, "large": PATH, …}' [--repeat N] [--seconds S] [--beside]

`bench_cores.py` starts it. TASKS below says what each task does and which input it reads. The process isn't pinned: the
system chooses its cores. Seconds are wall-clock time; processor seconds are those of all threads of the process. With
--beside, each call is made alone and then beside a thread that runs pure Python, and `lost` is the time for which that
thread did not run: the time that the task held the interpreter (GIL), or had it handed over.

Peak memory is what the process's largest resident size during the calls exceeds its size before them by.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SEPARATOR = "<|endoftext|>"
VOCAB_SIZE = 32_000
#: Bytes that the tasks on memory copy, and how often each thread sums up its megabyte.
COPIED, SUMS = 1 << 30, 400

Inputs = dict[str, str]
Call = Callable[[], Any]


@dataclass(frozen=True)
class Task:
    """What is measured.

    Attributes:
        about: the task in the words of the table.
        reads: the name of its input: "small" and "large" files, "few" and "many" folders of files; "" for none.
        prepare: makes the call that is timed from the inputs and the number of threads.
        digest: what of the call's result must be the same with any number of threads.

    """

    about: str
    reads: str
    prepare: Callable[[Inputs, int], Call]
    digest: Callable[[Any], str]


# What is timed --------------------------------------------------------------------------------------------------------


def tokenizer(inputs: Inputs) -> Any:
    """The tokenizer of the rank file."""
    import bpe

    return bpe.Tokenizer.from_tiktoken(inputs["vocab"], "cl100k")


def paths_of(inputs: Inputs, reads: str) -> list[str]:
    """The files of an input."""
    path = Path(inputs[reads])
    return sorted(map(str, path.iterdir())) if path.is_dir() else [str(path)]


def encode_batch(inputs: Inputs, threads: int) -> Call:
    """Encode documents in memory."""
    tok = tokenizer(inputs)
    texts = Path(inputs["small"]).read_bytes().decode().split(SEPARATOR)
    return lambda: tok.encode_batch(texts, threads=threads).ids


def encode_files(reads: str) -> Callable[[Inputs, int], Call]:
    """Encode files into an array."""

    def prepare(inputs: Inputs, threads: int) -> Call:
        tok, paths = tokenizer(inputs), paths_of(inputs, reads)
        return lambda: tok.encode_files(paths, separator=SEPARATOR, threads=threads).ids

    return prepare


def encode_into(inputs: Inputs, threads: int) -> Call:
    """Encode a file into an array of the caller's, which is used again by each call."""
    tok, paths = tokenizer(inputs), paths_of(inputs, "large")
    out = np.empty(sum(map(os.path.getsize, paths)) // 3, dtype=np.uint32)
    return lambda: tok.encode_files(paths, separator=SEPARATOR, threads=threads, out=out).ids


def gigatoken(inputs: Inputs, threads: int) -> Call:
    """Encode a file with gigatoken."""
    import gigatoken as peer

    tok = peer.Tokenizer.from_tiktoken(inputs["vocab"], "cl100k", {})
    source = peer.TextFileSource([inputs["large"]], SEPARATOR)
    return lambda: tok.encode_files(source, parallel=threads > 1)


def count_words(reads: str) -> Callable[[Inputs, int], Call]:
    """Count the words of files."""

    def prepare(inputs: Inputs, threads: int) -> Call:
        import bpe

        sources = bpe.Sources(paths_of(inputs, reads), separator=SEPARATOR)
        return lambda: bpe.count_words(files=sources, pretokenizer="cl100k", threads=threads)

    return prepare


def train(inputs: Inputs, threads: int) -> Call:
    """Train on a file."""
    import bpe

    sources = bpe.Sources(inputs["small"], separator=SEPARATOR)
    return lambda: bpe.train(files=sources, vocab_size=VOCAB_SIZE, pretokenizer="cl100k", threads=threads)


def encode_shards(reads: str, form: str, where: str) -> Callable[[Inputs, int], Call]:
    """Encode files to shards in a new folder, on the device that the input `where` names."""

    def prepare(inputs: Inputs, threads: int) -> Call:
        import bpe
        from bpe.data import encode_shards as encode

        tok = tokenizer(inputs)
        sources = bpe.Sources(paths_of(inputs, reads), separator=SEPARATOR)

        def call() -> Path:
            folder = Path(tempfile.mkdtemp(prefix="shards-", dir=inputs[where]))
            encode(sources, tok, folder, format=form, threads=threads)
            return folder

        return call

    return prepare


def copy(*, fresh: bool) -> Callable[[Inputs, int], Call]:
    """Copy memory, each thread its own part, into pages that were used before or into new ones."""

    def prepare(_: Inputs, threads: int) -> Call:
        source, target = np.ones(COPIED, np.uint8), np.ones(COPIED, np.uint8)
        pool = ThreadPoolExecutor(threads)

        def call() -> None:
            into = np.empty(COPIED, np.uint8) if fresh else target
            list(pool.map(np.copyto, np.array_split(into, threads), np.array_split(source, threads)))

        return call

    return prepare


def compute(_: Inputs, threads: int) -> Call:
    """Sum up memory that is in each core's cache: as much for any number of threads."""
    pool = ThreadPoolExecutor(threads)
    data = [os.urandom(1 << 20) for _ in range(threads)]

    def sums(item: bytes) -> None:
        for _ in range(SUMS // threads):
            zlib.crc32(item)

    return lambda: list(pool.map(sums, data))


# What must be the same with any number of threads ---------------------------------------------------------------------


def hash_buffers(buffers: Iterable[Any]) -> str:
    """Hash several buffers, one after the other."""
    state = hashlib.blake2b(digest_size=8)
    for buffer in buffers:
        state.update(buffer)
    return state.hexdigest()


def ids_digest(ids: Any) -> str:
    """A hash of an array of ids."""
    return hash_buffers([np.ascontiguousarray(ids).view(np.uint8)])


def peer_digest(rows: Any) -> str:
    """A hash of gigatoken's ids, as those of this package."""
    import awkward

    return ids_digest(np.asarray(awkward.flatten(rows), dtype=np.uint32))


def counts_digest(counts: Any) -> str:
    """A hash of the saved counts."""
    with tempfile.TemporaryDirectory() as folder:
        counts.save(Path(folder) / "counts")
        return hash_buffers([(Path(folder) / "counts").read_bytes()])


def training_digest(tok: Any) -> str:
    """The tokenizer's fingerprint."""
    return str(tok.fingerprint)


def folder_digest(folder: Path) -> str:
    """A hash of all files in a folder."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return hash_buffers(part for path in paths for part in (path.name.encode(), np.fromfile(path, np.uint8)))


def nothing(_: Any) -> str:
    """Nothing to compare."""
    return ""


TASKS = {
    "batch": Task("encode_batch, documents in memory", "small", encode_batch, ids_digest),
    "files": Task("encode_files", "large", encode_files("large"), ids_digest),
    "gigatoken": Task("gigatoken, encode_files", "large", gigatoken, peer_digest),
    "out": Task("encode_files(out=)", "large", encode_into, ids_digest),
    "count": Task("count_words", "large", count_words("large"), counts_digest),
    "train": Task("train, 32,000 tokens", "small", train, training_digest),
    "native": Task("encode_shards native, memory", "large", encode_shards("large", "native", "memory"), folder_digest),
    "megatron": Task(
        "encode_shards megatron, memory", "large", encode_shards("large", "megatron", "memory"), folder_digest
    ),
    "parquet": Task(
        "encode_shards parquet, memory", "large", encode_shards("large", "parquet", "memory"), folder_digest
    ),
    "native_disk": Task("encode_shards native, disk", "large", encode_shards("large", "native", "disk"), folder_digest),
    "megatron_disk": Task(
        "encode_shards megatron, disk", "large", encode_shards("large", "megatron", "disk"), folder_digest
    ),
    "files_few": Task("encode_files, files of 1 MB", "few", encode_files("few"), ids_digest),
    "files_many": Task("encode_files, files of 10 KB", "many", encode_files("many"), ids_digest),
    "count_few": Task("count_words, files of 1 MB", "few", count_words("few"), counts_digest),
    "count_many": Task("count_words, files of 10 KB", "many", count_words("many"), counts_digest),
    "native_few": Task(
        "encode_shards native, files of 1 MB", "few", encode_shards("few", "native", "memory"), folder_digest
    ),
    "native_many": Task(
        "encode_shards native, files of 10 KB", "many", encode_shards("many", "native", "memory"), folder_digest
    ),
    "copy": Task("copy 1 GiB", "", copy(fresh=False), nothing),
    "copy_fresh": Task("copy 1 GiB into new pages", "", copy(fresh=True), nothing),
    "compute": Task("CRC-32 of 1 MB in the cache, 400 times", "", compute, nothing),
}


# Measuring ------------------------------------------------------------------------------------------------------------


class Spinner:
    """A thread that runs pure Python and tells for how long it did."""

    def __init__(self) -> None:
        self._ended = False
        self._thread = threading.Thread(target=self._spin)
        self._thread.start()
        self._clock = time.pthread_getcpuclockid(self._thread.ident or 0)
        self._statistics = Path(f"/proc/self/task/{self._thread.native_id}/schedstat")

    def close(self) -> None:
        """Stop the thread."""
        self._ended = True
        self._thread.join()

    def _spin(self) -> None:
        """Run until the end."""
        number = 0
        while not self._ended:
            number += 1

    def ran(self) -> float:
        """The seconds for which the thread has run, or could have run but for other processes on its core."""
        waited = int(self._statistics.read_text().split()[1]) if self._statistics.exists() else 0
        return time.clock_gettime(self._clock) + waited * 1e-9


def resident(field: str) -> int:
    """A size in bytes from the kernel: VmRSS now, VmHWM the peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def discard(result: Any) -> None:
    """Remove the folder that a call wrote."""
    if isinstance(result, Path):
        shutil.rmtree(result)


def repeat_call(call: Call, repeat: int, seconds: float) -> tuple[dict[str, list[float]], Any]:
    """Time calls, until there are enough of them or the time is up; return the last one's result too."""
    times: dict[str, list[float]] = {"walls": [], "cpus": []}
    result: Any = None
    while len(times["walls"]) < repeat and sum(times["walls"]) < seconds:
        discard(result)
        result = None
        cpu, began = time.process_time(), time.perf_counter()
        result = call()
        times["walls"].append(time.perf_counter() - began)
        times["cpus"].append(time.process_time() - cpu)
    return times, result


def beside_spinner(spinner: Spinner, call: Call) -> tuple[Any, float, float]:
    """A call's result, for how many seconds the spinner ran meanwhile, and the seconds of the call."""
    ran, began = spinner.ran(), time.perf_counter()
    result = call()
    return result, spinner.ran() - ran, time.perf_counter() - began


def call_beside(call: Call, repeat: int, seconds: float) -> dict[str, Any]:
    """Time calls beside a busy Python thread, and for how long that thread didn't run; `idle` is the share without."""
    times: dict[str, list[float]] = {"beside": [], "lost": []}
    with contextlib.closing(Spinner()) as spinner:
        time.sleep(0.1)
        _, ran, wall = beside_spinner(spinner, lambda: time.sleep(0.3))
        idle = 1 - ran / wall
        while len(times["beside"]) < repeat and sum(times["beside"]) < seconds:
            result, ran, wall = beside_spinner(spinner, call)
            times["beside"].append(wall)
            times["lost"].append(max(wall - ran, 0.0))
            discard(result)
            result = None
    return times | {"idle": idle}


def measure(name: str, threads: int, inputs: Inputs, options: argparse.Namespace) -> dict[str, Any]:
    """All measurements of a task."""
    task = TASKS[name]
    call = task.prepare(inputs, threads)
    if os.access("/proc/self/clear_refs", os.W_OK):
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts at the present size
    before = resident("VmRSS")
    times, result = repeat_call(call, options.repeat, options.seconds)
    peak = resident("VmHWM") - before
    paths = paths_of(inputs, task.reads) if task.reads else []
    row = {
        "task": name,
        "threads": threads,
        "bytes": sum(map(os.path.getsize, paths)) if paths else COPIED,
        "files": len(paths),
        "text": Path(inputs[task.reads]).stem if task.reads else "",
        "peak": peak,
        "result": getattr(result, "nbytes", 0),
        "output": task.digest(result),
    } | times
    discard(result)
    del result
    return row | (call_beside(call, options.repeat, options.seconds) if options.beside else {})


def main() -> None:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("threads", type=int)
    parser.add_argument("inputs", type=json.loads)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="start no further call after so many")
    parser.add_argument("--beside", action="store_true", help="also beside a busy Python thread")
    options = parser.parse_args()
    os.environ["RAYON_NUM_THREADS"] = str(options.threads)  # gigatoken reads it when it is imported
    print(json.dumps(measure(options.task, options.threads, options.inputs, options)))


if __name__ == "__main__":
    main()
