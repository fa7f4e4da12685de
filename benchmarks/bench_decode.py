"""Decoding a corpus's ids to bytes, with the vocabularies of OpenAI, beside every decoder that installs.

    python benchmarks/bench_decode.py [FILE…] [--vocab NAME]… [--peer NAME]… [--less MB] [--repeat N] [--near N]
                                      [-o OUT.json] [--plot OUT.png]

Every measurement runs in a new process on one core (run.py). The libraries are alternated, and the table shows medians.
The ids of the whole file are one sequence: a uint32 array for the libraries in WHOLE, a list for the others. Making
it is not timed. The result is one bytes object, or a str that is encoded. Cold is a tokenizer's first call, warm its
second. The column "exact" says whether the result is the file; the run fails if it is not. The libraries that take a
list get the first --less megabytes. The fastest other library of each setting is in bold. Without FILE, the shared
corpora are used.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from operator import itemgetter
from pathlib import Path
from typing import Any

from peers import TOKENIZERS
from report import (
    cut_file,
    describe_machine,
    describe_output,
    find_corpora,
    find_fastest_other,
    finish_report,
    is_near,
    make_cost,
    make_peers_parser,
    mark_fastest,
    measure,
    median,
    plot,
    print_table,
    save_measurements,
    write_vocabularies,
)

WHOLE = ("bpe", "gigatoken", "tuetoken")
COSTS = (make_cost("cold"), make_cost("warm"))
HEAD = ("corpus", "vocabulary", "library", "exact", "MB", "cold GB/s", "ratio", "warm GB/s", "ratio", "peak MB")


def main() -> None:
    """Measure, compare, print a table, write JSON."""
    options = make_peers_parser(__doc__, TOKENIZERS, "cl100k", "the speeds of the second call", 20).parse_args()
    rows: list[dict[str, Any]] = []
    missing: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        vocabs = write_vocabularies(options.vocab or ["cl100k"], folder)
        for path in find_corpora(options.files, folder):
            part = cut_file(path, int(options.less * 1e6), folder)
            for turn in range(options.repeat):
                for vocab, vocab_text in vocabs.items():
                    for peer in options.peer or TOKENIZERS:
                        if peer in missing or vocab not in TOKENIZERS[peer].vocabs:
                            continue
                        setting_rows = [row for row in rows if (row["corpus"], row["vocab"]) == (path.name, vocab)]
                        if not is_near((peer, ""), setting_rows, COSTS, options.near):
                            continue
                        measured = measure("decode", peer, path if peer in WHOLE else part, 1, vocab_text)
                        if measured.get("absent"):
                            missing.add(peer)
                            continue
                        exact = not measured["different"]
                        rows.append({"corpus": path.name, "vocab": vocab, "exact": exact, **measured})
                        print(f"{turn + 1}/{options.repeat} {path.name} {vocab} {peer}", file=sys.stderr)
    report(rows, options)
    save_measurements(options.output, rows)
    finish_report(missing, [row["different"] for row in rows if row["different"]])


def report(rows: list[dict[str, Any]], options: argparse.Namespace) -> None:
    """Print and draw the medians; the ratio says how many times as fast as the other library this package is."""
    print(f"{describe_machine()}; one core, median of {options.repeat}\n")
    groups: dict[tuple[str, str], dict[str, list[dict[str, Any]]]] = {}
    for row in rows:
        for field in ("cold", "warm"):
            row[f"{field} speed"] = row["bytes"] / row[field] / 1e9
        groups.setdefault((row["corpus"], row["vocab"]), {}).setdefault(row["peer"], []).append(row)
    lines: list[tuple[object, ...]] = []
    bars: dict[str, dict[str, float]] = {}
    for setting, rows_by_peer in groups.items():
        fields = ("cold speed", "warm speed")
        fastest = {field: find_fastest_other(rows_by_peer, itemgetter(field), rate=True) for field in fields}
        for peer, peer_rows in rows_by_peer.items():
            library, megabytes = f"{peer} {peer_rows[0]['version']}", f"{peer_rows[0]['bytes'] / 1e6:.0f}"
            cells: list[object] = [*setting, library, describe_output(peer_rows), megabytes]
            for field in fields:
                speed = median(peer_rows, field)
                ratio = f"{median(rows_by_peer['bpe'], field) / speed:.1f}" if "bpe" in rows_by_peer else ""
                cells += [mark_fastest(f"{speed:.2f}", is_fastest=peer == fastest[field]), ratio]
            lines.append((*cells, f"{median(peer_rows, 'peak') / 1e6:.0f}"))
            bars.setdefault(f"{Path(setting[0]).stem} {setting[1]}", {})[peer] = median(peer_rows, "warm speed")
    print_table(HEAD, lines)
    plot(options.plot, "Decoding to bytes", "GB/s", bars)


if __name__ == "__main__":
    main()
