"""Loading a vocabulary of OpenAI's, beside the libraries that load it from the same files or contain it.

    python benchmarks/bench_load.py [--vocab NAME]… [--peer NAME]… [--repeat N] [--near N] [-o OUT.json]

Every measurement runs in a new process on one core (run.py), and the libraries are alternated. It times the first load
in the process, after the library's import, and the encoding of a first text. The table shows milliseconds: the median
and the worst. "ranks" loads the rank file (for tiktoken, this includes reading the lines into a dict, as its own loader
does), "json" loads the same vocabulary from a tokenizer.json that this package wrote, "compiled" from a compiled
tokenizer, and "name" a vocabulary that the library contains. The ids of the text are compared. Some libraries load at
the first text: the fastest other library of each way, in bold, is the one with the smallest sum of both columns.
"""

from __future__ import annotations

import sys
import tempfile
from itertools import chain
from pathlib import Path
from typing import Any

from peers import TOKENIZERS
from report import (
    VOCAB_NAMES,
    add_near_option,
    compare_outputs,
    describe_machine,
    describe_output,
    find_fastest_other,
    finish_report,
    is_near,
    make_parser,
    mark_fastest,
    measure,
    median,
    print_table,
    save_measurements,
    write_vocabularies,
)

#: Libraries by the file that they load from.
WAYS = {
    "ranks": ("bpe", "gigatoken", "fastokens", "kitoken", "tiktoken"),
    "json": ("bpe", "gigatoken", "fastokens", "tuetoken", "kitoken", "tokenizers"),
    "compiled": ("bpe",),
    "name": ("toktok", "quicktok", "splintr", "rs_bpe", "bpe_openai"),
}


def main() -> None:
    """Measure, compare, print a table, write JSON."""
    parser = make_parser(__doc__)
    parser.add_argument("--vocab", choices=VOCAB_NAMES, action="append", help="may be repeated; default cl100k, o200k")
    parser.add_argument("--peer", choices=sorted({*chain(*WAYS.values())}), action="append", help="default all")
    add_near_option(parser)
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
                        is_chosen = peer in (options.peer or WAYS[way]) and vocab in TOKENIZERS[peer].vocabs
                        if peer in missing or not is_chosen:
                            continue
                        if not is_near((peer, way), setting_rows, [add_first], options.near):
                            continue
                        measured = measure("load", peer, Path(folder), 1, way, vocab_text)
                        if measured.get("absent"):
                            missing.add(peer)
                            continue
                        print(f"{turn + 1}/{options.repeat} {vocab} {way} {peer}", file=sys.stderr)
                        if "failed" not in measured:
                            setting_rows.append({"vocab": vocab, **measured})
            differences += compare_outputs(setting_rows, vocab)
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
        rivals = {key: rows for key, rows in groups.items() if key[:2] == (vocab, way)}
        library = mark_fastest(
            f"{peer} {group_rows[0]['version']}", is_fastest=(vocab, way, peer) == find_fastest_other(rivals, add_first)
        )
        lines.append((vocab, way, library, describe_output(group_rows), load, f"{median(group_rows, 'first'):.1f}"))
    print_table(("vocabulary", "from", "library", "exact", "load", "first text"), lines)


def add_first(row: dict[str, Any]) -> float:
    """Add the milliseconds of loading and of the first text."""
    return float(row["load"] + row["first"])


if __name__ == "__main__":
    main()
