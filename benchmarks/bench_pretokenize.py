"""Finding pretokens, without encoding, beside the `regex` package, Hugging Face's `tokenizers` and gigatoken.

    python benchmarks/bench_pretokenize.py [FILE…] [--pattern NAME]… [--size MB] [--less MB] [--repeat N] [-o OUT.json]

Every measurement runs in a new process on one core (run.py). The libraries are alternated, and the table shows medians.
This package scans the first --size megabytes of a file; the others, which are slower, scan the first --less. The
numbers of pretokens in the first --less megabytes are compared. Without FILE, the shared corpora are used.

Each library is timed at what it returns to a caller: this package the number of pretokens, without an object for each
(or two arrays of offsets, where its build has no such function), `regex` a list of str (findall on the decoded text),
`tokenizers` a list of str with offsets (pre_tokenize_str of a Split with the pattern of tokenizer.json files), and
gigatoken an iterator of bytes objects (GPT-2's pattern only). Decoding the text is not timed. tiktoken is left out: it
has no pretokenizer to call, and encoding with a vocabulary of bytes would also time merging and lists of ids.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from report import describe_machine, find_corpora, make_parser, measure, median, print_table, save_measurements

PATTERNS = ("gpt2", "cl100k", "o200k")
PEERS = ("bpe", "regex", "tokenizers", "gigatoken")
HEAD = ("corpus", "pattern", "library", "MB", "MB/s", "ratio", "pretokens compared")


def main() -> None:
    """Measure, compare, print a table, write JSON."""
    parser = make_parser(__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="UTF-8 text")
    parser.add_argument("--pattern", choices=PATTERNS, action="append", help="may be repeated; default all three")
    parser.add_argument("--size", type=float, default=40, metavar="MB", help="for this package; default 40")
    parser.add_argument("--less", type=float, default=4, metavar="MB", help="for the others; default 4")
    options = parser.parse_args()
    size, less = int(options.size * 1e6), int(options.less * 1e6)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for path in find_corpora(options.files, folder):
            for turn in range(options.repeat):
                for pattern in options.pattern or PATTERNS:
                    for peer in PEERS:
                        if peer == "gigatoken" and pattern != "gpt2":
                            continue
                        measured = measure("scan", peer, path, 1, pattern, size if peer == "bpe" else less, less)
                        rows.append({"corpus": path.name, "pattern": pattern, **measured})
                        print(f"{turn + 1}/{options.repeat} {path.name} {pattern} {peer}", file=sys.stderr)
    report(rows, options.repeat)
    save_measurements(options.output, rows)


def report(rows: list[dict[str, Any]], repeat: int) -> None:
    """Print the medians side by side; the ratio is how many times as fast as a library this package is."""
    print(f"{describe_machine()}; one core, median of {repeat}\n")
    groups: dict[tuple[str, str], dict[str, list[dict[str, Any]]]] = {}
    for row in rows:
        row["rate"] = row["bytes"] / row["seconds"] / 1e6
        groups.setdefault((row["corpus"], row["pattern"]), {}).setdefault(row["peer"], []).append(row)
    lines: list[tuple[object, ...]] = []
    for (corpus, pattern), rows_by_peer in groups.items():
        our_pretokens = rows_by_peer["bpe"][0]["pretokens"]
        for peer, peer_rows in rows_by_peer.items():
            rate, pretokens = median(peer_rows, "rate"), peer_rows[0]["pretokens"]
            remark = "" if pretokens == our_pretokens else f" ({pretokens - our_pretokens:+} than bpe)"
            library = f"{peer} {peer_rows[0]['version']}"
            ratio = f"{median(rows_by_peer['bpe'], 'rate') / rate:.1f}"
            megabytes = f"{peer_rows[0]['bytes'] / 1e6:.0f}"
            lines.append((corpus, pattern, library, megabytes, f"{rate:.0f}", ratio, f"{pretokens}{remark}"))
    print_table(HEAD, lines)


if __name__ == "__main__":
    main()
