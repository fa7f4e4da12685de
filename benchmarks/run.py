"""One measurement in a process of its own: `python run.py JOB PEER FILE THREADS …`, one line of JSON to stdout.

    train … VOCAB_SIZE RANKS   the whole of training from a file; writes the tokens to RANKS (rank files' format)
    encode … RANKS             a list of documents to ids, once cold (a new tokenizer's first pass) and once warm; the
                               tokenizer from RANKS
    count … WORDS              the words of a file and their counts; pickles them as a sorted list to WORDS
    scan … PATTERN SIZE LESS   the number of pretokens in the file's first SIZE bytes, less what breaks a character, and
                               in the first LESS bytes, which are not timed but compared

The process keeps to as many cores as THREADS.

Seconds are wall-clock; memory is the peak resident size of the process as the kernel reports it, the interpreter and
the text included, and for encoding the size before, with the texts and the tokenizer in memory.
"""

from __future__ import annotations

import base64
import codecs
import hashlib
import importlib
import json
import os
import pickle
import platform
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from peers import COUNTERS, ENCODERS, SCANNERS, SEPARATOR, THREAD_VARIABLES, TRAINERS, flat


def peak() -> int:
    """The peak resident size so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def train(peer: Any, path: str, threads: int, vocab_size: str, ranks: str) -> dict[str, Any]:
    """Train from a file and keep the tokens."""
    began = time.perf_counter()
    tokens = peer.train(path, int(vocab_size), threads)
    seconds = time.perf_counter() - began
    top = peak()
    every = [bytes([byte]) for byte in range(256)] + tokens
    lines = [base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(every)]
    Path(ranks).write_bytes(b"".join(lines))
    return {"seconds": seconds, "peak": top, "output": hashlib.sha256(b"".join(lines)).hexdigest()}


def encode(peer: Any, path: str, threads: int, ranks: str) -> dict[str, Any]:
    """Encode a file's documents twice."""
    texts = Path(path).read_bytes().decode().split(SEPARATOR)
    table = {
        base64.b64decode(token): int(rank) for token, rank in map(bytes.split, Path(ranks).read_bytes().splitlines())
    }
    encoder = peer.encoder(table, threads)
    before = peak()
    took = []
    result: Any = None
    for _ in range(2):
        result = None
        began = time.perf_counter()
        result = encoder(texts)
        took.append(time.perf_counter() - began)
    top = peak()
    ids, lengths = flat(result)
    digest = hashlib.sha256(ids.tobytes() + lengths.tobytes()).hexdigest()
    return {"cold": took[0], "warm": took[1], "peak": top, "before": before, "ids": len(ids), "output": digest}


def count(peer: Any, path: str, threads: int, words: str) -> dict[str, Any]:
    """Count the words of a file; reading it apart, for libraries that take texts and not files."""
    importlib.import_module(peer.name)  # what an import takes is no counting
    began = time.perf_counter()
    text = peer.read(path)
    read = time.perf_counter()
    counted = peer.count(text, threads)
    ended = time.perf_counter()
    top = peak()
    items = sorted(peer.words(counted).items())
    Path(words).write_bytes(pickle.dumps(items))
    digest = hashlib.sha256(repr(items).encode()).hexdigest()
    return {
        "read": read - began,
        "seconds": ended - read,
        "peak": top,
        "words": len(items),
        "total": sum(number for _, number in items),
        "output": digest,
    }


def scan(peer: Any, path: str, threads: int, pattern: str, size: str, less: str) -> dict[str, Any]:
    """Find the pretokens of the beginning of a file; what makes a str of bytes is not timed."""
    del threads  # scanning uses one
    with open(path, "rb") as file:
        data = whole_characters(file.read(int(size)))
    scanner = peer.scanner(pattern)
    if scanner is None:
        return {}
    text, part = peer.text(data), peer.text(whole_characters(data[: int(less)]))
    pretokens = scanner(part)  # everything is loaded and compiled then
    began = time.perf_counter()
    every = scanner(text)
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "bytes": len(data), "every": every, "peak": peak(), "pretokens": pretokens}


def whole_characters(data: bytes) -> bytes:
    """The data less a last character that is cut."""
    return codecs.getincrementaldecoder("utf-8")("surrogateescape").decode(data).encode("utf-8", "surrogateescape")


JOBS: dict[str, tuple[Callable[..., dict[str, Any]], dict[str, Any]]] = {
    "train": (train, TRAINERS),
    "encode": (encode, ENCODERS),
    "count": (count, COUNTERS),
    "scan": (scan, SCANNERS),
}


def main() -> None:
    """Do the job that the command line names."""
    job, name, path, threads, *more = sys.argv[1:]
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(threads)])
    for variable in THREAD_VARIABLES:
        os.environ[variable] = threads
    work, peers = JOBS[job]
    peer = peers[name]()
    measured = work(peer, path, int(threads), *more)
    about = {"job": job, "peer": name, "version": peer.version(), "python": platform.python_version()}
    print(json.dumps(about | {"threads": int(threads)} | measured))


if __name__ == "__main__":
    main()
