"""Texts that are hard for an encoder: a million and more of one letter, of random letters, of spaces, of CJK.

    python benchmarks/bench_hard.py [FILE] [--vocab NAME]… [--kind NAME]… [--size N]… [-o OUT.json]

Every measurement runs in a fresh process on one core (run.py). Nanoseconds a byte for a new tokenizer's first pass and
for the median of five more (of two, for 4 MB and more); the same of the beginning of FILE in the same process, the
shared English corpus without FILE; and how many times as long a first pass is as the file's first, and a later one as
its later ones. Random letters are new text at every byte, so that the file's first pass compares with them. "MB more"
is the peak memory of the first pass beyond text, tokenizer and ids. Ids of the first 20,000 bytes are compared with
tiktoken's where it is installed, and the whole is decoded: one difference fails the run, and so does a text of which
later passes take more than LIMIT times as long as the file, or that takes too much memory.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from report import VOCAB_NAMES, corpora, keep, machine, measure, table, vocabularies
from run import HARD

#: Times as long a byte as the file may take.
LIMIT = 25
#: Megabytes beyond text, tokenizer and ids.
MOST_MEMORY = 100


def main() -> None:
    """Measure, compare, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, help="UTF-8 text to measure by")
    parser.add_argument("--vocab", choices=VOCAB_NAMES, action="append", help="may be repeated; default all")
    parser.add_argument("--kind", choices=HARD, action="append", help="may be repeated; default all")
    parser.add_argument("--size", type=float, action="append", help="bytes, may be repeated; default 1e6")
    parser.add_argument("-o", "--output", type=Path, help="write every measurement as JSON")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        (path,) = corpora([options.file] if options.file else [], folder, ("english",))
        for vocab, described in vocabularies(options.vocab or VOCAB_NAMES, folder).items():
            for size in options.size or [1e6]:
                for kind in options.kind or HARD:
                    measured = measure("hard", "bpe", path, 1, kind, int(size), described)
                    rows.append({"vocab": vocab, "kind": kind, "size": int(size), **measured})
                    print(f"{vocab} {kind} {size:,.0f}", file=sys.stderr)
    report(rows)
    keep(options.output, rows)
    failed = [f"{row['vocab']}, {row['size']:,} of {row['kind']}: {fault}" for row in rows for fault in faults(row)]
    if failed:
        raise SystemExit("\n".join(failed))
    print("\nAll ids are right; nothing takes more than it may.")


def faults(row: dict[str, Any]) -> list[str]:
    """What is wrong with a measurement."""
    found = [row["different"]] if row["different"] else []
    if row["warm"] > LIMIT * row["english"]:
        found.append(f"{row['warm'] / row['english']:.1f} times as long as the file")
    if row["more"] > MOST_MEMORY << 20:
        found.append(f"{row['more'] >> 20} MB more than the text and its ids")
    return found


def report(rows: list[dict[str, Any]]) -> None:
    """Print nanoseconds a byte, ratios and memory."""
    print(f"{machine()}; one core, ns a byte\n")
    passes = ("first pass", "then", "file's first", "then", "times", "then")
    head = ("vocabulary", "kind", "bytes", *passes, "ids a byte", "MB more")
    table(
        head,
        (
            (
                row["vocab"],
                row["kind"],
                f"{row['size']:,}",
                *(f"{row[field]:.2f}" for field in ("cold", "warm", "english_cold", "english")),
                f"{row['cold'] / row['english_cold']:.1f}",
                f"{row['warm'] / row['english']:.1f}",
                f"{row['ids'] / row['size']:.2f}",
                f"{max(row['more'], 0) / (1 << 20):.0f}",
            )
            for row in rows
        ),
    )


if __name__ == "__main__":
    main()
