"""Training beside rustbpe and encoding beside tiktoken on a whole corpus, as one short comparison.

    python benchmarks/bench_whole.py [FILE] [--vocab-size N] [--threads N] [--repeat N] [-o results.json]

Every measurement runs in a new process (run.py). The libraries are alternated, and the table shows medians. The run
fails if the trainers learn different tokens or the encoders return different ids. Without FILE, the shared English
corpus is used.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from report import at_least, describe_machine, find_corpora, make_parser, measure, median


def main() -> None:
    """Measure, compare, print a table, write JSON."""
    parser = make_parser(__doc__)
    parser.add_argument("file", nargs="?", type=Path, help="UTF-8 text, documents separated by <|endoftext|>")
    parser.add_argument("--vocab-size", type=at_least(256), default=32000)
    parser.add_argument("--threads", type=at_least(1), default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        (path,) = find_corpora([options.file] if options.file else [], folder, ["english"])
        size = path.stat().st_size
        rows: dict[str, list[dict[str, Any]]] = {}
        ranks = {peer: Path(folder) / f"{peer}.ranks" for peer in ("bpe", "rustbpe")}
        jobs = [
            ("train", "bpe", "bpe"),
            ("train", "rustbpe", "rustbpe"),
            ("encode", "bpe", "bpe"),
            ("encode", "tiktoken", "bpe"),
        ]
        for turn in range(options.repeat):
            for job, peer, made_by in jobs:
                more = [options.vocab_size] if job == "train" else []
                measured = measure(job, peer, path, options.threads, *more, ranks[made_by])
                rows.setdefault(f"{job} {peer}", []).append(measured)
                print(f"{turn + 1}/{options.repeat} {job} {peer}", file=sys.stderr)
    for job in ("train", "encode"):
        outputs = {row["output"] for name, name_rows in rows.items() if name.startswith(job) for row in name_rows}
        if len(outputs) != 1:
            raise SystemExit(f"the outputs of {job} differ: {outputs}")
    report(rows, size, options)
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(
            json.dumps({"machine": describe_machine(), "bytes": size, "rows": rows}, indent=1) + "\n"
        )


def report(rows: dict[str, list[dict[str, Any]]], size: int, options: argparse.Namespace) -> None:
    """Print the medians."""
    print(
        f"{describe_machine()}; {size / 1e6:.0f} MB, V={options.vocab_size}, {options.threads} threads, "
        f"median of {options.repeat}"
    )
    print("| job | library | seconds | MB/s | peak MB | ratio to bpe |")
    print("|---|---|---|---|---|---|")
    for job, field, label in (
        ("train", "seconds", "train"),
        ("encode", "cold", "encode, cold"),
        ("encode", "warm", "encode, warm"),
    ):
        bpe_time = median(rows[f"{job} bpe"], field)
        for name, row in rows.items():
            if name.startswith(job):
                took = median(row, field)
                memory = median(row, "peak") / 1e6
                library = f"{row[0]['peer']} {row[0]['version']}"
                figures = f"{took:.2f} | {size / took / 1e6:.0f} | {memory:.0f} | {took / bpe_time:.1f}"
                print(f"| {label} | {library} | {figures} |")
    print("The trainers learned the same tokens, and the encoders returned the same ids.")


if __name__ == "__main__":
    main()
