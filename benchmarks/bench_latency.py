"""The latency of encoding one short text per call, with a vocabulary of OpenAI's, beside every encoder that installs.

    python benchmarks/bench_latency.py [FILE…] [--vocab NAME]… [--peer NAME]… [--repeat N] [--near N]
                                       [-o OUT.json] [--plot OUT.png]

Every measurement runs in a new process on one core (run.py). The libraries are alternated, and the table shows medians:
microseconds per call, without the loop's own time, for texts of 20, 200 and 2,000 bytes. "same" encodes one text again
and again; "new" encodes 2,000 different texts, each for the first time. "each once" encodes 100,000 documents of the
file (its lines, if it has few documents) with a new tokenizer. Each library is called in its own way for a str, which
returns an array here and in gigatoken and a list in the others. The ids of 600 texts are compared, the column "exact"
shows the result, and one difference fails the run. The fastest other library is in bold. Without FILE, the shared
English and Korean corpora are used.
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
    compare_outputs,
    describe_machine,
    describe_output,
    find_corpora,
    find_fastest_other,
    finish_report,
    is_near,
    make_peers_parser,
    mark_fastest,
    measure,
    median,
    plot,
    print_table,
    save_measurements,
    write_vocabularies,
)

FIELDS = ("same 20", "same 200", "same 2000", "new 20", "new 200", "new 2000", "each once")


def main() -> None:
    """Measure, compare, print a table, write JSON."""
    options = make_peers_parser(__doc__, TOKENIZERS, "cl100k", "the microseconds per call").parse_args()
    rows: list[dict[str, Any]] = []
    missing: set[str] = set()
    differences: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        vocabs = write_vocabularies(options.vocab or ["cl100k"], folder)
        for path in find_corpora(options.files, folder, ("english", "korean")):
            for vocab, vocab_text in vocabs.items():
                setting_rows: list[dict[str, Any]] = []
                for turn in range(options.repeat):
                    for peer in options.peer or TOKENIZERS:
                        if peer in missing or vocab not in TOKENIZERS[peer].vocabs:
                            continue
                        if not is_near((peer, ""), setting_rows, map(itemgetter, FIELDS), options.near):
                            continue
                        measured = measure("latency", peer, path, 1, vocab_text)
                        if measured.get("absent"):
                            missing.add(peer)
                            continue
                        setting_rows.append({"corpus": path.name, "vocab": vocab, **measured})
                        print(f"{turn + 1}/{options.repeat} {path.name} {vocab} {peer}", file=sys.stderr)
                differences += compare_outputs(setting_rows, f"{path.name}, {vocab}")
                rows += setting_rows
    report(rows, options)
    save_measurements(options.output, rows)
    finish_report(missing, differences)


def report(rows: list[dict[str, Any]], options: argparse.Namespace) -> None:
    """Print and draw microseconds per call, with the ratio to this package's in parentheses."""
    print(f"{describe_machine()}; one core, microseconds per call (ratio to bpe), median of {options.repeat}\n")
    groups: dict[tuple[str, str], dict[str, list[dict[str, Any]]]] = {}
    for row in rows:
        groups.setdefault((row["corpus"], row["vocab"]), {}).setdefault(row["peer"], []).append(row)
    lines: list[tuple[object, ...]] = []
    bars: dict[str, dict[str, float]] = {}
    for setting, rows_by_peer in groups.items():
        fastest = {field: find_fastest_other(rows_by_peer, itemgetter(field)) for field in FIELDS}
        for peer, peer_rows in rows_by_peer.items():
            cells = []
            for field in FIELDS:
                took = median(peer_rows, field)
                times = f" ({took / median(rows_by_peer['bpe'], field):.1f})" if "bpe" in rows_by_peer else ""
                cells.append(mark_fastest(f"{took:.2f}{times}", is_fastest=peer == fastest[field]))
                bars.setdefault(f"{Path(setting[0]).stem}, {setting[1]}, {field}", {})[peer] = took
            lines.append((*setting, f"{peer} {peer_rows[0]['version']}", describe_output(peer_rows), *cells))
    print_table(("corpus", "vocabulary", "library", "exact", *FIELDS), lines)
    plot(options.plot, "Short texts", "microseconds per call", bars, scale="log")


if __name__ == "__main__":
    main()
