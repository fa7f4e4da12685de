"""One measurement in a process of its own: `python run.py JOB PEER FILE VOCAB_SIZE THREADS RANKS`, one line of JSON to
stdout.

    train   the whole of training from a file; writes the tokens to RANKS (rank files' format)
    encode  a list of documents to ids, once cold (a new tokenizer's first pass) and once warm; the tokenizer from RANKS

Seconds are wall-clock; memory is the peak resident size of the process as the kernel reports it, the interpreter and
the text included, and for encoding the size before, with the texts and the tokenizer in memory.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import platform
import resource
import sys
import time
from pathlib import Path
from typing import Any

from peers import ENCODERS, SEPARATOR, THREAD_VARIABLES, TRAINERS, flat


def peak() -> int:
    """The peak resident size so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def train(peer: Any, path: str, vocab_size: int, threads: int, ranks: Path) -> dict[str, Any]:
    """Train from a file and keep the tokens."""
    began = time.perf_counter()
    tokens = peer.train(path, vocab_size, threads)
    seconds = time.perf_counter() - began
    top = peak()
    every = [bytes([byte]) for byte in range(256)] + tokens
    lines = [base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(every)]
    ranks.write_bytes(b"".join(lines))
    return {"seconds": seconds, "peak": top, "output": hashlib.sha256(b"".join(lines)).hexdigest()}


def encode(peer: Any, path: str, threads: int, ranks: Path) -> dict[str, Any]:
    """Encode a file's documents twice."""
    texts = Path(path).read_bytes().decode().split(SEPARATOR)
    table = {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, ranks.read_bytes().splitlines())}
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


def main() -> None:
    """Do the job that the command line names."""
    job, name, path, vocab_size, threads, ranks = sys.argv[1:]
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(threads)])
    for variable in THREAD_VARIABLES:
        os.environ[variable] = threads
    peer = (TRAINERS if job == "train" else ENCODERS)[name]()
    if job == "train":
        measured = train(peer, path, int(vocab_size), int(threads), Path(ranks))
    else:
        measured = encode(peer, path, int(threads), Path(ranks))
    about = {"job": job, "peer": name, "version": peer.version(), "python": platform.python_version()}
    print(json.dumps(about | {"threads": int(threads)} | measured))


if __name__ == "__main__":
    main()
