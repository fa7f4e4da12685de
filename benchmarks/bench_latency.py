"""Short texts, a call for each, with a vocabulary of OpenAI's, beside every encoder that installs.

    python benchmarks/bench_latency.py [FILE…] [--vocab NAME]… [--peer NAME]… [--repeat N] [-o OUT.json]
                                       [--plot OUT.png]

Every measurement runs in a fresh process on one core (run.py), the libraries taking turns; the median counts.
Microseconds by call, the loop's own time taken off, for texts of 20, 200 and 2,000 bytes: the same text again and again
("same"), and 2,000 different ones, each for the first time ("new"). "each once" is 100,000 documents of the file (its
lines, where it has few documents), each once, by a new tokenizer. The call is the library's own for a str: an array
here and from gigatoken, a list elsewhere. Ids of 600 texts are compared: one difference fails the run. Without FILE the
shared English and Korean corpora are used.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from peers import TOKENIZERS
from report import (
    corpora,
    different,
    finish,
    keep,
    machine,
    measure,
    middle,
    peers_parser,
    plot,
    table,
    vocabularies,
)

FIELDS = ("same 20", "same 200", "same 2000", "new 20", "new 200", "new 2000", "each once")


def main() -> None:
    """Measure, compare, print a table, write JSON."""
    options = peers_parser(__doc__, TOKENIZERS, "cl100k", "the microseconds by call").parse_args()
    rows: list[dict[str, Any]] = []
    missing: set[str] = set()
    differences: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        vocabs = vocabularies(options.vocab or ["cl100k"], folder)
        for path in corpora(options.files, folder, ("english", "korean")):
            for vocab, described in vocabs.items():
                found: list[dict[str, Any]] = []
                for turn in range(options.repeat):
                    for peer in options.peer or TOKENIZERS:
                        if peer in missing or (peer == "rs_bpe" and vocab == "r50k"):
                            continue
                        measured = measure("latency", peer, path, 1, described)
                        if measured.get("absent"):
                            missing.add(peer)
                            continue
                        found.append({"corpus": path.name, "vocab": vocab, **measured})
                        print(f"{turn + 1}/{options.repeat} {path.name} {vocab} {peer}", file=sys.stderr)
                differences += different(found, f"{path.name}, {vocab}")
                rows += found
    report(rows, options)
    keep(options.output, rows)
    finish(missing, differences)


def report(rows: list[dict[str, Any]], options: argparse.Namespace) -> None:
    """Print microseconds by call, and behind them how many times as long as here a call takes, and draw them."""
    print(f"{machine()}; one core, microseconds by call (times ours), median of {options.repeat}\n")
    groups: dict[tuple[str, str], dict[str, list[dict[str, Any]]]] = {}
    for row in rows:
        groups.setdefault((row["corpus"], row["vocab"]), {}).setdefault(row["peer"], []).append(row)
    lines: list[tuple[object, ...]] = []
    bars: dict[str, dict[str, float]] = {}
    for setting, found in groups.items():
        for peer, each in found.items():
            cells = []
            for field in FIELDS:
                took = middle(each, field)
                times = f" ({took / middle(found['bpe'], field):.1f})" if "bpe" in found else ""
                cells.append(f"{took:.2f}{times}")
                bars.setdefault(f"{Path(setting[0]).stem}, {setting[1]}, {field}", {})[peer] = took
            lines.append((*setting, f"{peer} {each[0]['version']}", *cells))
    table(("corpus", "vocabulary", "library", *FIELDS), lines)
    plot(options.plot, "Short texts", "microseconds by call", bars, scale="log")


if __name__ == "__main__":
    main()
