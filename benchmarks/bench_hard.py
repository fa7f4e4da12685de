"""Encoding texts that are hard for an encoder: a million bytes of one letter, spaces, random letters or brackets.

    python benchmarks/bench_hard.py [FILE] [--vocab NAME]… [--kind NAME]… [--peer NAME]… [--size N]… [-o OUT.json]

Every measurement runs in a new process on one core (run.py). The table shows nanoseconds per byte for a new tokenizer's
first pass and the median of five later ones (two for 4 MB and more), the same for the beginning of FILE in the same
process (without FILE, of the shared English corpus), and the ratio of the two. "MB more" is the peak memory of the
first pass without the text, the tokenizer and an array of ids; lists are included. In later passes, libraries that
cache pretokens of any length answer from their cache: the first pass is the one to compare.

The ids of the first 20,000 bytes are compared with tiktoken's where it is installed, and all ids are decoded. The run
fails on a difference, on a text whose later passes take more than LIMIT times as long per byte as the file's, and on a
text that needs more than MOST_MEMORY.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from peers import TOKENIZERS
from report import (
    VOCAB_NAMES,
    describe_machine,
    find_corpora,
    measure,
    print_table,
    save_measurements,
    write_vocabularies,
)
from run import HARD

#: The largest allowed ratio of a hard text's time per byte to the file's.
LIMIT = 25
#: Megabytes in addition to the text, the tokenizer and the ids.
MOST_MEMORY = 100


def main() -> None:
    """Measure, compare, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, help="UTF-8 text to compare with")
    parser.add_argument("--vocab", choices=VOCAB_NAMES, action="append", help="may be repeated; default all")
    parser.add_argument("--kind", choices=HARD, action="append", help="may be repeated; default all")
    parser.add_argument("--peer", choices=list(TOKENIZERS), action="append", help="may be repeated; default bpe")
    parser.add_argument("--size", type=float, action="append", help="bytes, may be repeated; default 1e6")
    parser.add_argument("-o", "--output", type=Path, help="write every measurement as JSON")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    missing: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        (path,) = find_corpora([options.file] if options.file else [], folder, ("english",))
        for vocab, vocab_text in write_vocabularies(options.vocab or VOCAB_NAMES, folder).items():
            for size in options.size or [1e6]:
                for kind in options.kind or HARD:
                    for peer in options.peer or ["bpe"]:
                        if peer in missing or vocab not in TOKENIZERS[peer].vocabs:
                            continue
                        measured = measure("hard", peer, path, 1, kind, int(size), vocab_text)
                        if measured.get("absent"):
                            missing.add(peer)
                            continue
                        rows.append({"vocab": vocab, "kind": kind, "size": int(size), **measured, "peer": peer})
                        print(f"{vocab} {kind} {size:,.0f} {peer}", file=sys.stderr)
    report(rows)
    save_measurements(options.output, rows)
    failed = [
        f"{row['vocab']}, {row['size']:,} of {row['kind']}: {problem}" for row in rows for problem in find_faults(row)
    ]
    if missing:
        print(f"\nNot installed: {', '.join(sorted(missing))}.")
    if failed:
        raise SystemExit("\n".join(failed))
    print("\nAll ids are right; no text exceeds the limits of time and memory.")


def find_faults(row: dict[str, Any]) -> list[str]:
    """What is wrong with a measurement."""
    problems = [row["different"]] if row["different"] else []
    if row["peer"] != "bpe":
        return problems
    if row["warm"] > LIMIT * row["english"]:
        problems.append(f"takes {row['warm'] / row['english']:.1f} times as long per byte as the file")
    if row["more"] > MOST_MEMORY << 20:
        problems.append(f"needs {row['more'] >> 20} MB in addition to the text and its ids")
    return problems


def report(rows: list[dict[str, Any]]) -> None:
    """Print nanoseconds per byte, ratios and memory."""
    print(f"{describe_machine()}; one core, ns per byte\n")
    passes = ("first pass", "later", "file: first pass", "later", "ratio: first pass", "later")
    head = ("vocabulary", "kind", "library", "bytes", *passes, "ids per byte", "MB more")
    print_table(
        head,
        (
            (
                row["vocab"],
                row["kind"],
                row["peer"],
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
