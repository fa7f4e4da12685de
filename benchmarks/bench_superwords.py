"""The time and memory of training superwords on a whole corpus, beside plain training to the same size.

    python benchmarks/bench_superwords.py [FILE…] [--vocab-size N] [--transition N] [--repeat N] [--encoding]
                                          [--large MB] [-o OUT.json]

Every measurement runs in a new process with two threads, from the file to the tokenizer. The kinds of units are
alternated, and the table shows medians; bytes per token are those of the first 10 MB, which one thread then encodes
twice, in so many MB per second of its processor time: cold and warm. Without FILE, the shared English
corpus is used.

A second table shows the same for the two published SuperBPE vocabularies, where they are in ../shared, beside
`tokenizers` and gigatoken if they are installed. All have one thread; the run fails if `tokenizers` has other ids for
the first 2 MB. As it encodes less than 2 MB in a second, it gets these 2 MB only, and one turn: of ten MB in five
turns, it alone took more than four minutes. With --encoding, there is no training; that takes about two minutes.

With --large, a corpus of so many MB, of all shared corpora and variations of them, is trained on
whole, and so are a quarter and a half of it: superwords of whole lines, without a limit and with max_memory="2G",
beside plain training. That table has processor time too, for machines that do other work meanwhile.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from peers import SEPARATOR, THREAD_VARIABLES
from report import (
    VOCABULARIES,
    at_least,
    describe_machine,
    find_corpora,
    make_parser,
    median,
    print_table,
    save_measurements,
    write_superbpe,
)

#: (first, last, step) of the ranges of characters that variations of a corpus move on.
RANGES = (
    (ord("a"), ord("z"), 5),
    (ord("A"), ord("Z"), 5),
    (0x3041, 0x3093, 11),
    (0x30A1, 0x30F3, 11),
    (0x4E00, 0x9FA5, 1009),
    (0xAC00, 0xD7A3, 588),
)
KINDS = ("plain", "lines", "paper", "v2")
CHILD = """
import json, sys, time
import bpe
kind, path, size, transition, separator, limit = json.loads(sys.argv[1])
makers = {"lines": bpe.SuperWords, "paper": bpe.SuperWords.paper, "v2": bpe.SuperWords.v2}
superwords = makers[kind](transition) if kind in makers else None
start_time, cpu_before = time.perf_counter(), time.process_time()
sources = bpe.Sources(path, separator=separator)
tok = bpe.train(files=sources, vocab_size=size, superwords=superwords, threads=2, max_memory=limit)
seconds, cpu = time.perf_counter() - start_time, time.process_time() - cpu_before
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
text = open(path, "rb").read(10 << 20).decode(errors="ignore")
texts, speeds = text.split(separator), []
for _ in range(2):
    start_time = time.thread_time()
    tokens = len(tok.encode_batch(texts, threads=1).ids)
    speeds.append(len(text.encode()) / (time.thread_time() - start_time) / 1e6)
print(json.dumps({
    "seconds": seconds, "cpu": cpu, "tokenizer": tok.fingerprint, "peak": int(peak) / 1024,
    "ratio": len(text.encode()) / tokens, "cold": speeds[0], "warm": speeds[1],
}))
"""

ENCODING_CHILD = """
import hashlib, json, sys, time
from peers import SEPARATOR, TOKENIZERS, Vocab, flatten
peer, path, file, size, compared = json.loads(sys.argv[1])
read_texts = lambda size: open(path, "rb").read(size).decode(errors="ignore").split(SEPARATOR)
texts, library = read_texts(size), TOKENIZERS[peer]()
tok, speeds, n = library.load_json(Vocab("", "", file), 1), [], sum(len(text.encode()) for text in texts)
for _ in range(2):
    start_time = time.process_time()
    result = library.encode_corpus(tok, "batch", path, texts)
    speeds.append(n / (time.process_time() - start_time) / 1e6)
if size > compared:
    texts = read_texts(compared)
    result = library.encode_corpus(tok, "batch", path, texts)
ids, lengths = flatten(result)
n = sum(len(text.encode()) for text in texts)
output = hashlib.sha256(ids.tobytes() + lengths.tobytes()).hexdigest()
print(json.dumps({"cold": speeds[0], "warm": speeds[1], "ratio": n / len(ids), "output": output}))
"""
ENCODED, COMPARED = 10 << 20, 2 << 20


def main() -> None:
    """Measure, print tables, write JSON."""
    parser = make_parser(__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="UTF-8 text, documents separated by <|endoftext|>")
    parser.add_argument("--vocab-size", type=at_least(257), default=100_000)
    parser.add_argument("--transition", type=at_least(257), default=80_000)
    parser.add_argument("--encoding", action="store_true", help="only encode, with published vocabularies")
    parser.add_argument("--large", type=at_least(4), metavar="MB", help="only train, on so much text of all corpora")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        if options.large:
            save_measurements(options.output, measure_large_trainings(options, Path(folder)))
            return
        paths = find_corpora(options.files, folder, ("english",))
        if not options.encoding:
            rows += measure_trainings(paths, options)
        encodings = measure_published_encodings(paths, Path(folder), options.repeat)
    save_measurements(options.output, rows + encodings)
    if any(not row["equal"] for row in encodings if row["kind"] == "tokenizers"):
        raise SystemExit("the ids of `tokenizers` differ")


def measure_trainings(paths: list[Path], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure training, and print a table."""
    rows: list[dict[str, Any]] = []
    for path in paths:
        for turn in range(options.repeat):
            for kind in KINDS:
                call = [kind, str(path), options.vocab_size, options.transition, SEPARATOR, None]
                rows.append({"corpus": path.name, "kind": kind, **run_child(CHILD, call)})
                print(f"{turn + 1}/{options.repeat} {path.name} {kind}", file=sys.stderr)
    print(
        f"{describe_machine()}; {options.vocab_size} tokens, superwords from {options.transition}; median of "
        f"{options.repeat}\n"
    )
    head = ("corpus", "units", "seconds", "peak MB", "bytes per token", "encoding, MB/s", "again")
    groups = dict.fromkeys((row["corpus"], row["kind"]) for row in rows)
    print_table(
        head,
        [
            (corpus, kind, *(f"{median(group_rows, field):.{digits}f}" for field, digits in FIELDS))
            for corpus, kind in groups
            if (group_rows := [row for row in rows if (row["corpus"], row["kind"]) == (corpus, kind)])
        ],
    )
    return rows


def measure_large_trainings(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """Measure training on a large corpus and parts of it, once each, and print a table."""
    rows: list[dict[str, Any]] = []
    originals, path = find_corpora(options.files, folder), folder / "large.txt"
    for part in (4, 2, 1):
        write_large(originals, path, options.large * 1_000_000 // part)
        for kind, limit in (("plain", None), ("lines", None), ("lines", "2G")):
            call = [kind, str(path), options.vocab_size, options.transition, SEPARATOR, limit]
            rows.append({"size": path.stat().st_size, "kind": kind, "limit": limit, **run_child(CHILD, call)})
            print(f"{path.stat().st_size} bytes, {kind}, {limit}", file=sys.stderr)
        if rows[-1]["tokenizer"] != rows[-2]["tokenizer"]:
            raise SystemExit("the tokenizer with max_memory differs")
    print(f"{describe_machine()}; {options.vocab_size} tokens, superwords from {options.transition}\n")
    print_table(
        ("MB", "units", "max_memory", "seconds", "processor seconds", "peak MB", "bytes per token"),
        [
            (
                row["size"] // 1_000_000,
                row["kind"],
                row["limit"] or "",
                *(
                    f"{row[field]:.{digits}f}"
                    for field, digits in (("seconds", 1), ("cpu", 1), ("peak", 0), ("ratio", 2))
                ),
            )
            for row in rows
        ],
    )
    return rows


def measure_published_encodings(paths: list[Path], folder: Path, repeat: int) -> list[dict[str, Any]]:
    """Measure encoding with the published vocabularies, and print a table; nothing where they are absent."""
    rows: list[dict[str, Any]] = []
    if not VOCABULARIES.is_dir():
        print(f"\n{VOCABULARIES} is absent: no encoding with published vocabularies")
        return rows
    files = dict(write_superbpe(folder))
    our_row: dict[str, Any] = {}
    libraries = [name for name in ("bpe", "tokenizers", "gigatoken") if importlib.util.find_spec(name)]
    unloaded: set[tuple[str, str]] = set()
    for turn in range(repeat):
        for (name, file), path, library in itertools.product(files.items(), paths, libraries):
            slow = library == "tokenizers"
            if (slow and turn) or (library, name) in unloaded:
                continue
            try:
                result = run_child(
                    ENCODING_CHILD, [library, str(path), str(file), COMPARED if slow else ENCODED, COMPARED]
                )
            except subprocess.CalledProcessError as error:
                if library in ("bpe", "tokenizers"):
                    raise
                reason = [line for line in error.stderr.splitlines() if "Error" in line][-1:]
                print(f"{library} does not load {name}: {reason}", file=sys.stderr)
                unloaded.add((library, name))
                continue
            our_row = result if library == "bpe" else our_row
            equal = result["output"] == our_row["output"]
            rows.append({"corpus": path.name, "vocabulary": name, "kind": library, "equal": equal, **result})
            print(f"{turn + 1}/{repeat} {path.name} {name} {library}", file=sys.stderr)
    groups = dict.fromkeys((row["corpus"], row["vocabulary"], row["kind"]) for row in rows)
    print(f"\n{describe_machine()}; one thread; median of {repeat}, but tokenizers once, on {COMPARED >> 20} MB\n")
    print_table(
        ("corpus", "vocabulary", "library", "encoding, MB/s", "again", "bytes per token", "ids"),
        [
            (
                *group,
                *(
                    f"{median(group_rows, field):.{digits}f}"
                    for field, digits in (("cold", 1), ("warm", 1), ("ratio", 2))
                ),
                "the same" if all(row["equal"] for row in group_rows) else "others",
            )
            for group in groups
            if (group_rows := [row for row in rows if (row["corpus"], row["vocabulary"], row["kind"]) == group])
        ],
    )
    return rows


def run_child(code: str, call: list[Any]) -> dict[str, Any]:
    """What a new process prints, which finds the adapters of libraries, and gives them one thread."""
    here = str(Path(__file__).resolve().parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])}
    if code == ENCODING_CHILD:
        environment |= dict.fromkeys(THREAD_VARIABLES, "1")
    command = [sys.executable, "-c", code, json.dumps(call)]
    process = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    result: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])  # some libraries print
    return result


#: The columns of the table, and their decimals.
FIELDS = (("seconds", 1), ("peak", 0), ("ratio", 2), ("cold", 0), ("warm", 0))


# A corpus of any size -------------------------------------------------------------------------------------------------
#
# Variation 0 is the corpora as they are. In variation k, the letters of the ASCII alphabet, the Hangul syllables, the
# kana and the Han characters are each moved on by k times a fixed step within their own range, and the documents of a
# corpus begin with another one. So every variation has as many distinct words and as long lines as the original.


def shift_letters(text: bytes, variation: int) -> bytes:
    """Move the letters of a text on within their ranges.

    >>> shift_letters(b"abc XYZ, 12", 1), shift_letters("한 か".encode(), 2).decode()
    (b'fgh CDE, 12', '깐 ち')
    """
    codes = np.frombuffer(text.decode().encode("utf-32-le"), dtype=np.uint32)
    return _make_table(variation)[codes].tobytes().decode("utf-32-le").encode()


@cache
def _make_table(variation: int) -> NDArray[np.uint32]:
    """Make a table of what each code point becomes."""
    table = np.arange(0x110000, dtype=np.uint32)
    for first_code, last_code, step in RANGES:
        table[first_code : last_code + 1] = np.roll(table[first_code : last_code + 1], -variation * step)
    return table


def vary_documents(path: Path, variation: int) -> Iterator[bytes]:
    """Yield the documents of a corpus in a variation."""
    texts = path.read_bytes().split(SEPARATOR.encode())
    begin = variation * len(texts) // 7 % len(texts)
    for text in texts[begin:] + texts[:begin]:
        yield shift_letters(text, variation) if variation else text


def write_large(paths: Sequence[Path], output: Path, size: int) -> None:
    """Write a corpus of about `size` bytes: all corpora, then all of them in variation 1, 2, …"""
    written, variation = 0, 0
    with output.open("wb") as file:
        while written < size:
            for path in paths:
                written += _copy_texts(vary_documents(path, variation), file, size - written)
            variation += 1


def _copy_texts(texts: Iterable[bytes], file: BinaryIO, max_bytes: int) -> int:
    written = 0
    for text in texts:
        if written >= max_bytes:
            break
        written += file.write(text + SEPARATOR.encode())
    return written


if __name__ == "__main__":
    main()
