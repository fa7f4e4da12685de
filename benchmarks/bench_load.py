"""Loading a vocabulary of OpenAI's, beside the libraries that load it from the same files.

    python benchmarks/bench_load.py [--vocab NAME]… [--peer NAME]… [--repeat N] [-o OUT.json]

Every measurement runs in a new process on one core (run.py), and the libraries are alternated. It times the first load
in the process, after the library's import, and the encoding of a first text. The table shows milliseconds: the median
and the worst. "ranks" loads the rank file (for tiktoken, this includes reading the lines into a dict, as its own loader
does), "json" loads the same vocabulary from a tokenizer.json that this package wrote,
and "compiled" from a compiled tokenizer. The ids of the text are compared.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from report import (
    VOCAB_NAMES,
    at_least,
    describe_machine,
    finish_report,
    list_differences,
    measure,
    median,
    print_table,
    save_measurements,
    write_vocabularies,
)

#: Libraries by the file that they load from.
WAYS = {
    "ranks": ("bpe", "gigatoken", "tiktoken"),
    "json": ("bpe", "gigatoken", "tokenizers"),
    "compiled": ("bpe",),
}


def main() -> None:
    """Measure, compare, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocab", choices=VOCAB_NAMES, action="append", help="may be repeated; default cl100k, o200k")
    parser.add_argument("--peer", choices=sorted({*WAYS["ranks"], *WAYS["json"]}), action="append", help="default all")
    parser.add_argument("--repeat", type=at_least(1), default=5)
    parser.add_argument("-o", "--output", type=Path, help="write every measurement as JSON")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    missing: set[str] = set()
    differences: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for vocab, vocab_text in write_vocabularies(options.vocab or ["cl100k", "o200k"], folder).items():
            setting_rows: list[dict[str, Any]] = []
            for turn in range(options.repeat):
                for way, peers in WAYS.items():
                    for peer in peers:
                        if peer in missing or (options.peer and peer not in options.peer):
                            continue
                        measured = measure("load", peer, Path(folder), 1, way, vocab_text)
                        if measured.get("absent"):
                            missing.add(peer)
                            continue
                        print(f"{turn + 1}/{options.repeat} {vocab} {way} {peer}", file=sys.stderr)
                        if "failed" not in measured:
                            setting_rows.append({"vocab": vocab, **measured})
            differences += list_differences(setting_rows, vocab)
            rows += setting_rows
    report(rows, options.repeat)
    save_measurements(options.output, rows)
    finish_report(missing, differences)


def report(rows: list[dict[str, Any]], repeat: int) -> None:
    """Print milliseconds."""
    print(f"{describe_machine()}; one core, milliseconds, median (worst) of {repeat}\n")
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["vocab"], row["way"], row["peer"]), []).append(row)
    lines: list[tuple[object, ...]] = []
    for (vocab, way, peer), group_rows in groups.items():
        worst = max(row["load"] for row in group_rows)
        load = f"{median(group_rows, 'load'):.0f} ({worst:.0f})"
        lines.append((vocab, way, f"{peer} {group_rows[0]['version']}", load, f"{median(group_rows, 'first'):.1f}"))
    print_table(("vocabulary", "from", "library", "load", "first text"), lines)


if __name__ == "__main__":
    main()
