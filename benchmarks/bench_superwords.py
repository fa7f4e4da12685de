"""The time and memory of training superwords on a whole corpus, beside plain training to the same size.

    python benchmarks/bench_superwords.py [FILE…] [--vocab-size N] [--transition N] [--repeat N] [-o OUT.json]

Every measurement runs in a new process with two threads, from the file to the tokenizer. The kinds of units are
alternated, and the table shows medians; bytes per token are those of the first 10 MB, which one thread then encodes
twice, in so many MB per second of its processor time: cold and warm. Without FILE, the shared English
corpus is used.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from peers import SEPARATOR
from report import at_least, corpora, keep, machine, middle, table

KINDS = ("plain", "lines", "paper", "v2")
CHILD = """
import json, sys, time
import bpe
kind, path, size, transition, separator = json.loads(sys.argv[1])
makers = {"lines": bpe.SuperWords, "paper": bpe.SuperWords.paper, "v2": bpe.SuperWords.v2}
superwords = makers[kind](transition) if kind in makers else None
began = time.perf_counter()
tok = bpe.train(files=path, separator=separator, vocab_size=size, superwords=superwords, threads=2)
took = time.perf_counter() - began
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
text = open(path, "rb").read(10 << 20).decode(errors="ignore")
texts, speeds = text.split(separator), []
for _ in range(2):
    began = time.thread_time()
    tokens = len(tok.encode_batch(texts, threads=1).ids)
    speeds.append(len(text.encode()) / (time.thread_time() - began) / 1e6)
print(json.dumps({
    "seconds": took, "peak": int(peak) / 1024, "ratio": len(text.encode()) / tokens, "cold": speeds[0],
    "warm": speeds[1],
}))
"""


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="UTF-8 text, documents separated by <|endoftext|>")
    parser.add_argument("--vocab-size", type=at_least(257), default=100_000)
    parser.add_argument("--transition", type=at_least(257), default=80_000)
    parser.add_argument("--repeat", type=at_least(1), default=5)
    parser.add_argument("-o", "--output", type=Path, help="write every measurement as JSON")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for path in corpora(options.files, folder, ("english",)):
            for turn in range(options.repeat):
                for kind in KINDS:
                    call = json.dumps([kind, str(path), options.vocab_size, options.transition, SEPARATOR])
                    done = subprocess.run(
                        [sys.executable, "-c", CHILD, call], check=True, capture_output=True, text=True
                    )
                    rows.append({"corpus": path.name, "kind": kind, **json.loads(done.stdout)})
                    print(f"{turn + 1}/{options.repeat} {path.name} {kind}", file=sys.stderr)
    print(
        f"{machine()}; {options.vocab_size} tokens, superwords from {options.transition}; median of {options.repeat}\n"
    )
    head = ("corpus", "units", "seconds", "peak MB", "bytes per token", "encoding, MB/s", "again")
    groups = dict.fromkeys((row["corpus"], row["kind"]) for row in rows)
    table(
        head,
        [
            (corpus, kind, *(f"{middle(chosen, field):.{digits}f}" for field, digits in FIELDS))
            for corpus, kind in groups
            if (chosen := [row for row in rows if (row["corpus"], row["kind"]) == (corpus, kind)])
        ],
    )
    keep(options.output, rows)


#: The columns of the table, and their decimals.
FIELDS = (("seconds", 1), ("peak", 0), ("ratio", 2), ("cold", 0), ("warm", 0))


if __name__ == "__main__":
    main()
