"""Take one measurement in this process and print it as one line of JSON: `python run.py JOB PEER FILE THREADS …`.

    train … VOCAB_SIZE RANKS   train from a file; writes the tokens to RANKS (in the format of rank files)
    encode … RANKS             encode a list of documents with the tokenizer of RANKS, once cold (a new tokenizer's
                               first pass) and once warm
    corpus … WAY VOCAB         encode a corpus with a published vocabulary, once cold and once warm; VOCAB is
                               NAME,RANKS,JSON
    latency … VOCAB            encode one text per call, of 20, 200 and 2,000 bytes, the same one repeatedly and
                               different ones; then each document of the file once
    load … WAY VOCAB           load a vocabulary from the file that WAY names (ranks, json or compiled), then encode
                               a first text; FILE is not read
    decode … VOCAB             decode the ids of a file to bytes, once cold and once warm
    hard … KIND SIZE VOCAB     encode SIZE bytes of text of a kind in HARD, cold and warm; then the file's first 16 MB
    count … WORDS              count the words of a file; pickles them as a sorted list to WORDS
    scan … PATTERN SIZE LESS   count the pretokens in the file's first SIZE bytes (timed) and first LESS bytes (to
                               compare), each up to the end of a character
    shards … FORM OUT VOCAB    encode a corpus (text, .jsonl.zst or Parquet) into a folder OUT, which must not exist

The process is pinned to THREADS cores.

Seconds are wall-clock time. Memory is the peak resident size of the process as the kernel reports it, with the
interpreter and the text; encoding also reports the size before it, with the texts and the tokenizer in memory.
"""

from __future__ import annotations

import argparse
import base64
import codecs
import hashlib
import importlib
import importlib.util
import inspect
import json
import os
import pickle
import platform
import resource
import statistics
import string
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from peers import (
    COUNTERS,
    ENCODERS,
    PIPELINES,
    SCANNERS,
    SEPARATOR,
    THREAD_VARIABLES,
    TOKENIZERS,
    TRAINERS,
    Vocab,
    flatten,
)
from report import at_least


def measure_peak() -> int:
    """Measure the peak resident size so far, in bytes.

    Read from /proc where possible, since ru_maxrss starts at the parent's size when it started this process.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) * 1024 for line in status.read_text().splitlines() if "VmHWM" in line)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def train(peer: Any, path: str, threads: int, vocab_size: str, ranks: str) -> dict[str, Any]:
    """Train from a file and write the tokens."""
    importlib.import_module(peer.name.split("-")[0])  # so that the import is not timed
    start_time = time.perf_counter()
    tokens = peer.train(path, int(vocab_size), threads)
    seconds = time.perf_counter() - start_time
    peak_memory = measure_peak()
    all_tokens = [bytes([byte]) for byte in range(256)] + tokens()
    lines = [base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(all_tokens)]
    Path(ranks).write_bytes(b"".join(lines))
    return {"seconds": seconds, "peak": peak_memory, "output": hashlib.sha256(b"".join(lines)).hexdigest()}


def encode(peer: Any, path: str, threads: int, ranks: str) -> dict[str, Any]:
    """Encode a file's documents twice."""
    texts = Path(path).read_bytes().decode().split(SEPARATOR)
    table = {
        base64.b64decode(token): int(rank) for token, rank in map(bytes.split, Path(ranks).read_bytes().splitlines())
    }
    encoder = peer.make_encoder(table, threads)
    memory_before = measure_peak()
    durations, result = time_twice(lambda: encoder(texts))
    peak_memory = measure_peak()
    ids, lengths = flatten(result)
    digest = hashlib.sha256(ids.tobytes() + lengths.tobytes()).hexdigest()
    return {
        "cold": durations[0],
        "warm": durations[1],
        "peak": peak_memory,
        "before": memory_before,
        "ids": len(ids),
        "output": digest,
    }


def time_twice(work: Callable[[], Any]) -> tuple[list[float], Any]:
    """Return the seconds of a first and a second call, and the second's result. The first's is freed in between."""
    durations = []
    result: Any = None
    for _ in range(2):
        result = None
        start_time = time.perf_counter()
        result = work()
        durations.append(time.perf_counter() - start_time)
    return durations, result


def parse_vocab(vocab_text: str) -> Vocab:
    """Parse NAME,RANKS,JSON."""
    return Vocab(*vocab_text.split(","))


def is_absent(peer: Any) -> bool:
    """Whether a library is not installed."""
    return importlib.util.find_spec(peer.name) is None


def encode_corpus(peer: Any, path: str, threads: int, way: str, vocab_text: str) -> dict[str, Any]:
    """Encode a file's documents twice. Empty documents are not compared, since some libraries skip them."""
    if is_absent(peer):
        return {"absent": True}
    texts = [] if way == "file" else Path(path).read_bytes().decode().split(SEPARATOR)
    start_time = time.perf_counter()
    tok = peer.load(parse_vocab(vocab_text), threads)
    loaded = time.perf_counter() - start_time
    memory_before = measure_peak()
    durations, result = time_twice(lambda: peer.encode_corpus(tok, way, path, texts))
    peak_memory = measure_peak()
    ids, lengths = flatten(result)
    digest = hashlib.sha256(ids.tobytes() + lengths[lengths > 0].tobytes()).hexdigest()
    return {
        "way": way,
        "load": loaded,
        "cold": durations[0],
        "warm": durations[1],
        "peak": peak_memory,
        "before": memory_before,
        "ids": len(ids),
        "output": digest,
    }


#: The number of texts of each size, and of documents that are encoded once.
TEXTS, DOCUMENTS = 2000, 100_000


def measure_latency(peer: Any, path: str, threads: int, vocab_text: str) -> dict[str, Any]:
    """Encode one short text per call, in microseconds per call, without the time of an empty loop."""
    if is_absent(peer):
        return {"absent": True}
    data = cut_to_characters(Path(path).read_bytes()[: 40 << 20])
    encode = peer.make_encoder(peer.load(parse_vocab(vocab_text), threads))
    result: dict[str, Any] = {}
    digest = hashlib.sha256()
    for size in (20, 200, 2000):
        step = max(len(data) // TEXTS, size)
        texts = [
            cut_to_characters(data[position : position + size]).decode("utf-8", "ignore")
            for position in range(0, len(data), step)
        ]
        result[f"new {size}"] = time_per_call(encode, texts)
        result[f"same {size}"] = min(time_per_call(encode, [texts[0]] * (400_000 // size)) for _ in range(3))
        for text in texts[:200]:
            digest.update(np.array(encode(text), dtype=np.int64).tobytes())
    documents = [text for text in data.decode().split(SEPARATOR) if text.strip()][:DOCUMENTS]
    if len(documents) < 1000:  # a file of few, long documents: take its lines
        documents = [text for text in data.decode().splitlines() if text.strip()][:DOCUMENTS]
    encode = peer.make_encoder(peer.load(parse_vocab(vocab_text), threads))
    result["each once"] = time_per_call(encode, documents)
    return result | {"documents": len(documents), "output": digest.hexdigest()}


def load(peer: Any, path: str, threads: int, way: str, vocab_text: str) -> dict[str, Any]:
    """Load the first vocabulary of the process, and encode a first text, in milliseconds."""
    del path
    if is_absent(peer):
        return {"absent": True}
    importlib.import_module(peer.name)  # so that the import is not timed
    start_time = time.perf_counter()
    try:
        load_by_way = {"json": "load_json", "compiled": "load_compiled"}.get(way, "load")
        tok = getattr(peer, load_by_way)(parse_vocab(vocab_text), threads)
    except BaseException as error:  # noqa: BLE001  # a Rust panic does not derive from Exception
        return {"way": way, "failed": repr(error)}
    loaded = time.perf_counter()
    ids = peer.make_encoder(tok)("The first text, and what it takes: 12,345 words\n")
    end_time = time.perf_counter()
    digest = hashlib.sha256(np.array(ids, dtype=np.int64).tobytes()).hexdigest()
    return {"way": way, "load": (loaded - start_time) * 1e3, "first": (end_time - loaded) * 1e3, "output": digest}


def time_per_call(encode: Callable[[str], Any], texts: list[str]) -> float:
    """Measure the microseconds per call, without the time of an empty loop."""
    start_time = time.perf_counter()
    for _ in texts:
        pass
    empty = time.perf_counter() - start_time
    start_time = time.perf_counter()
    for text in texts:
        encode(text)
    return (time.perf_counter() - start_time - empty) / len(texts) * 1e6


def decode(peer: Any, path: str, threads: int, vocab_text: str) -> dict[str, Any]:
    """Decode a file's ids, which this package encodes, and compare the result with the file."""
    if is_absent(peer):
        return {"absent": True}
    data = Path(path).read_bytes()
    described_vocab = parse_vocab(vocab_text)
    ids = TOKENIZERS["bpe"]().load(described_vocab, threads).encode(data)
    peer_ids = peer.convert_ids(ids)
    decoder = peer.make_decoder(peer.load(described_vocab, threads))
    durations = []
    for _ in range(2):
        start_time = time.perf_counter()
        result = decoder(peer_ids)
        durations.append(time.perf_counter() - start_time)
        different = "" if result == data else f"{peer.name} does not decode to {Path(path).name}"
        del result
    return {
        "cold": durations[0],
        "warm": durations[1],
        "ids": len(ids),
        "bytes": len(data),
        "peak": measure_peak(),
        "different": different,
    }


#: Each makes a text from its size in bytes and a generator of random numbers.
HARD: dict[str, Callable[[int, np.random.Generator], str]] = {
    "one letter": lambda size, _: "a" * size,
    "letters": lambda size, choose: choose.integers(97, 123, size, dtype=np.uint8).tobytes().decode(),
    "spaces": lambda size, _: " " * size,
    "newlines": lambda size, _: "\n" * size,
    "CJK": lambda size, choose: (
        choose.integers(0x4E00, 0xA000, size // 3, dtype=np.uint16).tobytes().decode("utf-16-le")
    ),
    "Hangul": lambda size, choose: (
        choose.integers(0xAC00, 0xD7A4, size // 3, dtype=np.uint16).tobytes().decode("utf-16-le")
    ),
    "joiners": lambda size, _: "\U0001f469\u200d" * (size // 7),
    "combining marks": lambda size, _: ("a" + 9 * "\u0301") * (size // 19),
    "punctuation": lambda size, choose: "".join(choose.choice(list(string.punctuation), size)),
    "nesting": lambda size, _: "(" * (size // 2) + ")" * (size // 2),
    "base64": lambda size, choose: base64.b64encode(choose.bytes(size * 3 // 4)).decode(),
    "'s": lambda size, _: "'s" * (size // 2),
    "digits": lambda size, choose: choose.integers(48, 58, size, dtype=np.uint8).tobytes().decode(),
}
SAMPLE = 20_000


def encode_hard_text(peer: Any, path: str, threads: int, kind: str, size: str, vocab_text: str) -> dict[str, Any]:
    """Encode a hard text, then the beginning of the file, in nanoseconds per byte."""
    if is_absent(peer):
        return {"absent": True}
    vocab = parse_vocab(vocab_text)
    text = HARD[kind](int(size), np.random.default_rng(1))
    encode = peer.make_encoder(peer.load(vocab, threads))
    encode("a few words, so that every table is built")
    memory_before = measure_peak()
    start_time = time.perf_counter()
    ids = encode(text)
    cold = time.perf_counter() - start_time
    more = measure_peak() - memory_before - getattr(ids, "nbytes", 0)  # a list is left in
    n_ids, peer_ids = len(ids), peer.convert_ids(np.asarray(ids, dtype=np.uint32))
    decoded = peer.make_decoder(peer.load(vocab, threads))(peer_ids)
    different = "" if decoded == text.encode() else "decoding does not return the text"
    del ids, peer_ids
    warm = time_calls(encode, text, 5 if int(size) < 4e6 else 2)
    judge = TOKENIZERS["tiktoken"]()
    sample = text[:SAMPLE]
    if not is_absent(judge) and list(judge.make_encoder(judge.load(vocab, threads))(sample)) != list(encode(sample)):
        different = "ids differ from tiktoken's"
    english = cut_to_characters(Path(path).read_bytes()[: 16 << 20]).decode()
    encode = peer.make_encoder(peer.load(vocab, threads))
    encode("a few words, so that every table is built")
    english_cold = time_calls(encode, english, 1)
    per_byte, per_english = 1e9 / int(size), 1e9 / len(english.encode())
    return {
        "cold": cold * per_byte,
        "warm": warm * per_byte,
        "english_cold": english_cold * per_english,
        "english": time_calls(encode, english, 5) * per_english,
        "ids": n_ids,
        "more": more,
        "different": different,
    }


def time_calls(encode: Callable[[str], Any], text: str, times: int) -> float:
    """Measure the median time of so many calls, in seconds."""
    durations = []
    for _ in range(times):
        start_time = time.perf_counter()
        encode(text)
        durations.append(time.perf_counter() - start_time)
    return statistics.median(durations)


def count(peer: Any, path: str, threads: int, words: str) -> dict[str, Any]:
    """Count the words of a file. Reading is timed separately, for libraries that take texts instead of files."""
    importlib.import_module(peer.name)  # so that the import is not timed
    start_time = time.perf_counter()
    text = peer.read(path)
    read = time.perf_counter()
    counted = peer.count(text, threads)
    end_time = time.perf_counter()
    peak_memory = measure_peak()
    items = sorted(peer.list_words(counted).items())
    Path(words).write_bytes(pickle.dumps(items))
    digest = hashlib.sha256(repr(items).encode()).hexdigest()
    return {
        "read": read - start_time,
        "seconds": end_time - read,
        "peak": peak_memory,
        "words": len(items),
        "total": sum(number for _, number in items),
        "output": digest,
    }


def scan(peer: Any, path: str, threads: int, pattern: str, size: str, less: str) -> dict[str, Any]:
    """Find the pretokens of the beginning of a file. Converting bytes to str is not timed."""
    del threads  # scanning uses one
    with open(path, "rb") as file:
        data = cut_to_characters(file.read(int(size)))
    scanner = peer.make_scanner(pattern)
    if scanner is None:
        return {}
    text, part = peer.convert_text(data), peer.convert_text(cut_to_characters(data[: int(less)]))
    pretokens = scanner(part)  # also loads and compiles everything before the timed call
    start_time = time.perf_counter()
    n_pretokens = scanner(text)
    seconds = time.perf_counter() - start_time
    return {
        "seconds": seconds,
        "bytes": len(data),
        "every": n_pretokens,
        "peak": measure_peak(),
        "pretokens": pretokens,
    }


def encode_shards(peer: Any, path: str, threads: int, form: str, out: str, vocab_text: str) -> dict[str, Any]:
    """Encode a corpus into files. Memory is the peak of this process, or of one that it started if that is higher."""
    if is_absent(peer):
        return {"absent": True}
    for module in peer.list_modules(path):
        importlib.import_module(module)  # so that the import is not timed
    folder = Path(out)
    start_time = time.perf_counter()
    result = peer.write(path, form, folder, parse_vocab(vocab_text), threads)
    seconds = time.perf_counter() - start_time
    peak_memory = max(measure_peak(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
    ids = peer.read_ids(folder, form, result)
    digest = hashlib.sha256(np.asarray(ids, dtype=np.uint32).tobytes()).hexdigest()
    return {"form": form, "seconds": seconds, "peak": peak_memory, "ids": len(ids), "output": digest}


def cut_to_characters(data: bytes) -> bytes:
    """Cut an incomplete character off the end of the data."""
    return codecs.getincrementaldecoder("utf-8")("surrogateescape").decode(data).encode("utf-8", "surrogateescape")


JOBS: dict[str, tuple[Callable[..., dict[str, Any]], dict[str, Any]]] = {
    "train": (train, TRAINERS),
    "encode": (encode, ENCODERS),
    "corpus": (encode_corpus, TOKENIZERS),
    "latency": (measure_latency, TOKENIZERS),
    "load": (load, TOKENIZERS),
    "decode": (decode, TOKENIZERS),
    "hard": (encode_hard_text, TOKENIZERS),
    "count": (count, COUNTERS),
    "scan": (scan, SCANNERS),
    "shards": (encode_shards, PIPELINES),
}


def main() -> None:
    """Do the job that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", metavar="JOB", choices=JOBS, help="one of the above")
    parser.add_argument("peer", metavar="PEER", help="the library, as benchmarks/peers names it")
    parser.add_argument("file", metavar="FILE", type=Path, help="UTF-8 text")
    parser.add_argument("threads", metavar="THREADS", type=at_least(1))
    parser.add_argument("more", metavar="…", nargs="*", help="further arguments of the job, as listed above")
    options = parser.parse_args()
    job, name, path, threads, more = options.job, options.peer, str(options.file), options.threads, options.more
    work, peers = JOBS[job]
    if name not in peers:
        parser.error(f"PEER is {name!r}; for {job} it must be one of {', '.join(peers)}")
    if job != "load" and not options.file.is_file():
        parser.error(f"FILE is {path!r}, which is not a file")
    n_arguments = len(inspect.signature(work).parameters) - 3
    if len(more) != n_arguments:
        parser.error(f"{job} takes {n_arguments} arguments after THREADS, not {len(more)}; --help lists them")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    for variable in THREAD_VARIABLES:
        os.environ[variable] = str(threads)
    peer = peers[name]()
    measurements = work(peer, path, threads, *more)
    version = "absent" if measurements.get("absent") else peer.get_version()
    identity = {"job": job, "peer": name, "version": version, "python": platform.python_version()}
    print(json.dumps(identity | {"threads": threads} | measurements))


if __name__ == "__main__":
    main()
