"""Encoding whole corpora with the vocabularies of OpenAI, beside every encoder that installs.

    python benchmarks/bench_encode.py [FILE…] [--vocab NAME]… [--threads N]… [--peer NAME]… [--less MB] [--repeat N]
                                      [--near N] [-o OUT.json] [--plot OUT.png]

Every measurement runs in a new process that is pinned to as many cores as it has threads (run.py). Libraries and
numbers of threads are alternated, and the table shows medians; "speedup" is the median ratio to one thread. Cold is
a new tokenizer's first pass, warm its second. Both go from a file of documents ("file") or a list of str ("batch") to
the ids of all documents, in the form that the library returns: flat arrays from this package, gigatoken, fastokens and
tokie's files, lists from the others. Loading the vocabulary is not timed; reading the file is timed for "file" only.

The libraries in WHOLE encode the whole file; the others, which are slower, encode the first --less megabytes. The ids
are compared on both, the column "exact" shows the result, and one difference fails the run. The fastest other library
of each setting is in bold. Without FILE, the shared corpora are used. Libraries that are not installed are listed at
the end; more of them can be put on PYTHONPATH.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from peers import TOKENIZERS
from report import (
    VOCAB_NAMES,
    at_least,
    compare_outputs,
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

WHOLE = ("bpe", "gigatoken", "fastokens", "tuetoken", "toktok", "quicktok", "splintr")
SPEEDS = ("cold MB/s", "ratio", "speedup", "warm MB/s", "ratio", "speedup")
COSTS = (make_cost("cold"), make_cost("warm"))
HEAD = ("corpus", "vocabulary", "threads", "library", "way", "exact", "MB", *SPEEDS, "peak MB")


def main() -> None:
    """Measure, compare, print tables, write JSON."""
    parser = make_peers_parser(__doc__, TOKENIZERS, "all three", "the speeds of the first pass", 5)
    parser.add_argument("--threads", type=at_least(1), action="append", help="may be repeated; default 1 and 2")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    missing: set[str] = set()
    differences: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        vocabs = write_vocabularies(options.vocab or VOCAB_NAMES, folder)
        for path in find_corpora(options.files, folder):
            part = cut_file(path, int(options.less * 1e6), folder)
            for vocab, vocab_text in vocabs.items():
                about = {"corpus": path.name, "vocab": vocab}
                setting_rows = measure_setting(path, part, vocab_text, options, missing, differences)
                rows += [about | row for row in setting_rows]
    report(rows, options.repeat)
    save_measurements(options.output, rows)
    bars: dict[str, dict[str, float]] = {}
    for row in rows:
        cores = "one core" if row["threads"] == 1 else f"{row['threads']} cores"
        group = f"{Path(row['corpus']).stem}, {row['vocab']}, {cores}"
        speed = row["bytes"] / median(list_repetitions(rows, row), "cold") / 1e6
        bars.setdefault(group, {})[f"{row['peer']} {row['way']}"] = speed
    plot(options.plot, "Encoding, first pass of a new tokenizer", "MB/s", bars)
    finish_report(missing, differences)


def measure_setting(
    path: Path,
    part: Path,
    vocab_text: str,
    options: argparse.Namespace,
    missing: set[str],
    differences: list[str],
) -> list[dict[str, Any]]:
    """Measure all libraries with every number of threads on one corpus and vocabulary, and compare their ids."""
    rows: list[dict[str, Any]] = []
    ways = [(peer, way) for peer in options.peer or TOKENIZERS for way in TOKENIZERS[peer].ways]
    compared = [] if {peer for peer, _ in ways} <= {*WHOLE} else [measure("corpus", "bpe", part, 1, "file", vocab_text)]
    jobs = [(*way, threads) for way in ways for threads in options.threads or (1, 2)]
    for turn in range(options.repeat):
        for peer, way, threads in jobs:
            if peer in missing or vocab_text.partition(",")[0] not in TOKENIZERS[peer].vocabs:
                continue
            if not is_near((peer, way), rows, COSTS, options.near):
                continue
            source = path if peer in WHOLE else part
            measured = measure("corpus", peer, source, threads, way, vocab_text)
            if measured.get("absent"):
                missing.add(peer)
                continue
            where = f"{path.name} {vocab_text.split(',')[0]} {threads}"
            print(f"{turn + 1}/{options.repeat} {where} {peer} {way}", file=sys.stderr)
            rows.append({"bytes": source.stat().st_size, "turn": turn, **measured})
    for source, source_rows in (
        (path, [row for row in rows if row["peer"] in WHOLE]),
        (part, compared + [row for row in rows if row["peer"] not in WHOLE]),
    ):
        if source_rows:
            differences += compare_outputs(source_rows, f"{source.name}, {vocab_text.split(',')[0]}")
    return rows


def list_repetitions(rows: list[dict[str, Any]], row: dict[str, Any]) -> list[dict[str, Any]]:
    """The repetitions of a row's measurement."""
    fields = ("corpus", "vocab", "threads", "peer", "way")
    return [another for another in rows if all(another[field] == row[field] for field in fields)]


def report(rows: list[dict[str, Any]], repeat: int) -> None:
    """Print the medians; the ratio says how many times as fast as the library this package's fastest way is."""
    print(f"{describe_machine()}; median of {repeat}\n")
    settings = dict.fromkeys((row["corpus"], row["vocab"], row["threads"]) for row in rows)
    lines: list[tuple[object, ...]] = []
    for setting in settings:
        rows_by_way: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for row in rows:
            if (row["corpus"], row["vocab"], row["threads"]) == setting:
                rows_by_way.setdefault((row["peer"], row["way"]), []).append(row)
        speeds = {
            (key, field): way_rows[0]["bytes"] / median(way_rows, field) / 1e6
            for key, way_rows in rows_by_way.items()
            for field in ("cold", "warm")
        }
        fastest = dict(zip(("cold", "warm"), (find_fastest_other(rows_by_way, cost) for cost in COSTS), strict=True))
        for (peer, way), way_rows in rows_by_way.items():
            cells: list[object] = [
                *setting,
                f"{peer} {way_rows[0]['version']}",
                way,
                describe_output(way_rows),
                f"{way_rows[0]['bytes'] / 1e6:.0f}",
            ]
            for field in ("cold", "warm"):
                our_speed = max((speeds[key, field] for key in rows_by_way if key[0] == "bpe"), default=float("nan"))
                speed = speeds[(peer, way), field]
                text = mark_fastest(f"{speed:.0f}", is_fastest=(peer, way) == fastest[field])
                cells += [text, f"{our_speed / speed:.2f}", format_speedup(rows, way_rows, field)]
            lines.append((*cells, f"{median(way_rows, 'peak') / 1e6:.0f}"))
    print_table(HEAD, lines)


def format_speedup(rows: list[dict[str, Any]], way_rows: list[dict[str, Any]], field: str) -> str:
    """The median speedup over one thread in the same repetition; empty where one thread was not measured."""
    fields = ("corpus", "vocab", "peer", "way", "turn")
    speed_of_one_thread = {tuple(row[name] for name in fields): row[field] for row in rows if row["threads"] == 1}
    times = [
        speed_of_one_thread[key] / row[field]
        for row in way_rows
        if (key := tuple(row[name] for name in fields)) in speed_of_one_thread
    ]
    return f"{statistics.median(times):.2f}" if times else ""


if __name__ == "__main__":
    main()
