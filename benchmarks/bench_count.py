"""Counting the words of a corpus, from a file to a table of counts, beside gigatoken and ffbpe.

    python benchmarks/bench_count.py [FILE…] [--threads N]… [--repeat N] [-o results.json]

Every measurement runs in a new process that is pinned to as many cores as it has threads (run.py). The libraries are
alternated, and the table shows medians. All use GPT-2's pattern, and <|endoftext|> separates documents. Without FILE,
the shared corpora are used.

"from file" is the whole time; "counting" leaves out reading the text into the form that the library takes (bytes for
gigatoken, a list of str for ffbpe; this package reads the file while it counts, so its two figures are equal).
gigatoken returns its counts as a list of Python objects, the others keep them in a table. Making a dict for the
comparison is not timed. Memory is the peak of the process, with the interpreter and the text. The counts of all
libraries are compared word by word, and differences are printed.
"""

from __future__ import annotations

import pickle
import sys
import tempfile
from pathlib import Path
from typing import Any

from report import (
    at_least,
    compare_outputs,
    describe_machine,
    find_corpora,
    make_parser,
    measure,
    median,
    print_table,
    save_measurements,
)

PEERS = ("bpe", "gigatoken", "ffbpe")
HEAD = (
    "corpus",
    "threads",
    "library",
    "counting MB/s",
    "ratio",
    "from file MB/s",
    "ratio",
    "peak MB",
    "words",
    "total",
)


def find_difference(ours: Path, theirs: Path) -> str:
    """How the counts of a peer differ from ours."""
    mine: dict[bytes, int] = dict(pickle.loads(ours.read_bytes()))
    peer_counts: dict[bytes, int] = dict(pickle.loads(theirs.read_bytes()))
    differ = sorted(
        (word for word in mine.keys() | peer_counts.keys() if mine.get(word) != peer_counts.get(word)), key=len
    )
    if not differ:
        return "the same words and counts"
    shown = ", ".join(f"{word!r} {mine.get(word, 0)} and {peer_counts.get(word, 0)}" for word in differ[:3])
    alone = f"{len(mine.keys() - peer_counts.keys())} only here, {len(peer_counts.keys() - mine.keys())} only there"
    return f"{len(differ)} words differ ({alone}), such as {shown}"


def main() -> None:
    """Measure, compare, print a table, write JSON."""
    parser = make_parser(__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="UTF-8 text, documents separated by <|endoftext|>")
    parser.add_argument("--threads", type=at_least(1), action="append", help="may be repeated; default 1 and 2")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    messages: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for path in find_corpora(options.files, folder):
            words = {peer: Path(folder) / f"{peer}.words" for peer in PEERS}
            corpus_rows: list[dict[str, Any]] = []
            for turn in range(options.repeat):
                for threads in options.threads or (1, 2):
                    for peer in PEERS:
                        measured = measure("count", peer, path, threads, words[peer])
                        corpus_rows.append({"corpus": path.name, "bytes": path.stat().st_size, **measured})
                        print(f"{turn + 1}/{options.repeat} {path.name} {threads} {peer}", file=sys.stderr)
            rows += corpus_rows
            messages += [f"{where}: counts of a run differ" for where in compare_outputs(corpus_rows, path.name)]
            messages += [
                f"{path.name}: {peer} and bpe: {find_difference(words['bpe'], words[peer])}" for peer in PEERS[1:]
            ]
    report(rows, options.repeat)
    print("\n" + "\n".join(messages))
    save_measurements(options.output, rows)


def report(rows: list[dict[str, Any]], repeat: int) -> None:
    """Print the medians side by side; the ratio is how many times as fast as a library this package is."""
    print(f"{describe_machine()}; median of {repeat}\n")
    groups: dict[tuple[str, int], dict[str, list[dict[str, Any]]]] = {}
    for row in rows:
        row["whole"] = row["read"] + row["seconds"]
        groups.setdefault((row["corpus"], row["threads"]), {}).setdefault(row["peer"], []).append(row)
    lines: list[tuple[object, ...]] = []
    for (corpus, threads), rows_by_peer in groups.items():
        for peer, peer_rows in rows_by_peer.items():
            cells: list[object] = [corpus, threads, f"{peer} {peer_rows[0]['version']}"]
            for field in ("seconds", "whole"):
                took = median(peer_rows, field)
                cells += [
                    f"{peer_rows[0]['bytes'] / took / 1e6:.0f}",
                    f"{took / median(rows_by_peer['bpe'], field):.2f}",
                ]
            lines.append(
                (*cells, f"{median(peer_rows, 'peak') / 1e6:.0f}", peer_rows[0]["words"], peer_rows[0]["total"])
            )
    print_table(HEAD, lines)


if __name__ == "__main__":
    main()
