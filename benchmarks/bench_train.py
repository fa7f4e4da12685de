"""Training from a file: time and memory beside the peers, and how both grow with the corpus and the vocabulary.

    python benchmarks/bench_train.py [FILE…] [--peer NAME]… [--size MB]… [--vocab-size N]… [--threads N]…
        [--repeat N] [--near N] [--limit SECONDS] [-o results.json [--add]] [--plots FOLDER]

Every measurement runs in a new process that is pinned to as many cores as it has threads (run.py). The libraries are
alternated, and the table shows medians. Without FILE, the shared corpora are used; --size takes the first MB megabytes
of each, up to the end of a document. Seconds are from the file to the library's own result, without its import and
without listing its tokens. Memory is the peak resident size of the whole process as the kernel reports it, with the
interpreter, the imports and the pages of mapped files.

All use GPT-2's pattern, and <|endoftext|> separates documents, except for sentencepiece and YouTokenToMe, which split
words by rules of their own, and gigabpe, for which each line is a document. If this package has a library's tie rule,
the tokens of both are compared in order, and differences are printed. The fastest other library with the same tokens is
in bold. Libraries that are not installed are named and left out.

With --add, the measurements are added to those in results.json and the table shows all of them, so that a long
comparison can be made in parts. --plots draws cost against corpus size and against vocabulary size, if matplotlib is
installed and several sizes were measured.
"""

from __future__ import annotations

import argparse
import base64
import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from itertools import product
from operator import itemgetter
from pathlib import Path
from typing import Any

from peers import SEPARATOR, TRAINERS
from report import (
    add_near_option,
    at_least,
    describe_machine,
    find_corpora,
    find_fastest_other,
    is_near,
    mark_fastest,
    measure,
    median,
    print_table,
    save_measurements,
)

HEAD = ("corpus", "MB", "V", "threads", "library", "seconds", "ratio", "MB/s", "peak MB", "ratio", "tokens")
#: Not measured unless they are named.
UNUSUAL = ("bpe-letters", "bpe-lines", "minbpe")

Row = dict[str, Any]


def main() -> None:
    """Measure, compare, print a table, write JSON, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="UTF-8 text, documents separated by <|endoftext|>")
    parser.add_argument("--peer", choices=TRAINERS, action="append", help=f"default all but {', '.join(UNUSUAL)}")
    parser.add_argument("--size", type=float, action="append", metavar="MB", help="may be repeated; default the whole")
    parser.add_argument("--vocab-size", type=at_least(256), action="append", help="may be repeated; default 32000")
    parser.add_argument("--threads", type=at_least(1), action="append", help="may be repeated; default 1 and 2")
    parser.add_argument("--repeat", type=at_least(0), default=5, help="default 5; 0 only prints what results.json has")
    add_near_option(parser)
    parser.add_argument("--limit", type=float, help="stop a measurement after this many seconds")
    parser.add_argument("-o", "--output", type=Path, help="write every measurement as JSON")
    parser.add_argument("--add", action="store_true", help="keep the measurements that the file has")
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="draw into this folder")
    options = parser.parse_args()
    rows: list[Row] = []
    if options.add and options.output is not None and options.output.exists():
        rows = json.loads(options.output.read_text())["rows"]
    for row in measure_all(options) if options.repeat else ():
        rows.append(row)
        save_measurements(options.output, rows)  # after each row, so that an interrupted run loses nothing
    report(rows)
    if options.plots is not None:
        draw(rows, options.plots)


def measure_all(options: argparse.Namespace) -> Iterable[Row]:
    """Measure every library for each corpus, corpus size, vocabulary size and number of threads, alternated."""
    chosen = options.peer or [name for name in TRAINERS if name not in UNUSUAL]
    absent = [name for name in chosen if importlib.util.find_spec(name.split("-")[0]) is None]
    for name in absent:
        print(f"{name} is not installed: left out", file=sys.stderr)
    peers = [name for name in chosen if name not in absent]
    with tempfile.TemporaryDirectory() as folder:
        for path in find_corpora(options.files, folder):
            for part in cut_parts(path, options.size, folder):
                about = {"corpus": path.stem, "bytes": part.stat().st_size}
                runs = product(options.vocab_size or [32000], range(options.repeat), options.threads or (1, 2))
                rows: dict[int, list[Row]] = {}
                for vocab_size, turn, threads in runs:
                    earlier = rows.setdefault(vocab_size, [])
                    near = [p for p in peers if is_near((p, ""), earlier, [itemgetter("seconds")], options.near)]
                    for row in take_turns(near, part, vocab_size, threads, options.limit, Path(folder)):
                        earlier.append(row)
                        yield about | {"vocab_size": vocab_size} | row
                    print(f"{turn + 1}/{options.repeat} {about} V={vocab_size} {threads} threads", file=sys.stderr)


def cut_parts(path: Path, sizes: Sequence[float] | None, folder: str) -> Iterable[Path]:
    """The first megabytes of a file, for each of `sizes`, up to the end of a document; without sizes, the file."""
    for size in sizes or ():
        with open(path, "rb") as file:
            data = file.read(int(size * 1e6))
        part = Path(folder) / f"{path.stem}-{size:g}.part"
        part.write_bytes(data[: data.rfind(SEPARATOR.encode()) + len(SEPARATOR)] or data)
        yield part
        part.unlink()
    if not sizes:
        yield path


def take_turns(
    peers: list[str], path: Path, vocab_size: int, threads: int, limit: float | None, folder: Path
) -> Iterable[Row]:
    """Measure each library once, and compare its tokens with this package's."""
    for peer in peers:
        try:
            row = measure("train", peer, path, threads, vocab_size, folder / peer, limit=limit)
        except subprocess.TimeoutExpired:
            yield {"peer": peer, "threads": threads, "seconds": limit, "gave_up": True}
            continue
        our_way = TRAINERS[peer].reference
        if our_way is None:
            yield row
            continue
        reference = folder / f"{our_way}-{path.name}-{vocab_size}.reference"
        if not reference.exists():
            measure("train", our_way, path, threads, vocab_size, reference)
        yield row | compare_tokens(read_tokens(folder / peer), read_tokens(reference))


def read_tokens(path: Path) -> list[bytes]:
    """The tokens in a rank file, in order."""
    return [base64.b64decode(line.split()[0]) for line in path.read_bytes().splitlines()]


def compare_tokens(theirs: list[bytes], ours: list[bytes]) -> Row:
    """Compare two lists of tokens: their lengths, the length of the common prefix, the number of shared tokens."""
    n_equal = next(
        (i for i, (a, b) in enumerate(zip(theirs, ours, strict=False)) if a != b), min(len(theirs), len(ours))
    )
    sizes = {"tokens": len(theirs), "same": n_equal, "shared": len({*theirs} & {*ours}), "ours": len(ours)}
    return sizes | {"exact": theirs == ours}


# Reporting ------------------------------------------------------------------------------------------------------------


def group_rows(rows: list[Row]) -> dict[tuple[Any, ...], dict[str, list[Row]]]:
    """The rows by setting (corpus, bytes, vocabulary size, threads), then by library."""
    grouped: dict[tuple[Any, ...], dict[str, list[Row]]] = {}
    for row in sorted(rows, key=lambda row: (row["corpus"], row["bytes"], row["vocab_size"], row["threads"])):
        key = (row["corpus"], row["bytes"], row["vocab_size"], row["threads"])
        grouped.setdefault(key, {}).setdefault(row["peer"], []).append(row)
    return grouped


def report(rows: list[Row]) -> None:
    """Print the medians; a ratio says how many times this package's time or memory a library takes."""
    runs = sorted({len(peer_rows) for rows_by_peer in group_rows(rows).values() for peer_rows in rows_by_peer.values()})
    print(f"{describe_machine()}; median of {' or '.join(map(str, runs))}\n")
    lines: list[tuple[object, ...]] = []
    for (corpus, size, vocab_size, threads), rows_by_peer in group_rows(rows).items():
        our_rows = [row for row in rows_by_peer.get("bpe", []) if "gave_up" not in row]
        fastest = find_fastest_other(rows_by_peer, itemgetter("seconds"))
        for peer, every in rows_by_peer.items():
            about = (corpus, f"{size / 1e6:.0f}", vocab_size, threads)
            peer_rows = [row for row in every if "gave_up" not in row]
            if not peer_rows:
                lines.append((*about, peer, f"over {every[0]['seconds']:.0f}", "", "", "", "", ""))
                continue
            took, top = median(peer_rows, "seconds"), median(peer_rows, "peak")
            times = (
                [f"{took / median(our_rows, 'seconds'):.1f}", f"{top / median(our_rows, 'peak'):.1f}"]
                if our_rows
                else ["", ""]
            )
            library = mark_fastest(f"{peer} {peer_rows[0]['version']}", is_fastest=peer == fastest)
            rate, memory = f"{size / took / 1e6:.1f}", f"{top / 1e6:.0f}"
            lines.append(
                (*about, library, f"{took:.2f}", times[0], rate, memory, times[1], describe_agreement(peer_rows))
            )
    print_table(HEAD, lines)


def describe_agreement(rows: list[Row]) -> str:
    """Whether a library's tokens equal this package's in all runs."""
    if "tokens" not in rows[0]:
        return "not compared: another rule"
    if len({row["output"] for row in rows}) > 1:
        return "not the same in all runs"
    row = rows[0]
    if row["tokens"] == row["same"] == row["ours"]:
        return f"{row['tokens']}, all equal"
    return f"{row['tokens']}, the first {row['same']} equal, {row['shared']} shared"


def draw(rows: list[Row], folder: Path) -> None:
    """Draw cost against corpus size and against vocabulary size, one picture per corpus and number of threads."""
    if importlib.util.find_spec("matplotlib") is None:
        print("matplotlib is not installed: no plots", file=sys.stderr)
        return
    folder.mkdir(parents=True, exist_ok=True)
    of_all = group_rows([row for row in rows if "gave_up" not in row])
    for axis, fixed, label in ((1, 2, "corpus, MB"), (2, 1, "vocabulary")):
        pictures: dict[tuple[Any, ...], dict[str, list[tuple[float, float, float]]]] = {}
        for key, rows_by_peer in of_all.items():
            for peer, peer_rows in rows_by_peer.items():
                x = key[axis] / 1e6 if axis == 1 else key[axis]
                point = (x, median(peer_rows, "seconds"), median(peer_rows, "peak") / 1e6)
                pictures.setdefault((key[0], key[fixed], key[3]), {}).setdefault(peer, []).append(point)
        for (corpus, other, threads), lines in pictures.items():
            if max(map(len, lines.values())) > 1:
                name = f"{corpus}-{'size' if axis == 1 else 'vocabulary'}-{other}-{threads}.png"
                what = f"V={other}" if axis == 1 else f"{other / 1e6:.0f} MB"
                draw_one(folder / name, lines, label, f"{corpus}, {what}, threads: {threads}")


def draw_one(path: Path, lines: dict[str, list[tuple[float, float, float]]], label: str, title: str) -> None:
    """Draw seconds and megabytes side by side, one line per library, on logarithmic scales."""
    from matplotlib import pyplot as plt

    figure, (seconds, memory) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    for peer, points in lines.items():
        xs = [point[0] for point in points]
        for axes, index in ((seconds, 1), (memory, 2)):
            width = 2.5 if peer == "bpe" else 1.2
            axes.plot(xs, [point[index] for point in points], marker="o", markersize=4, linewidth=width, label=peer)
    for axes, unit in ((seconds, "seconds"), (memory, "peak MB")):
        axes.set(xlabel=label, ylabel=unit, xscale="log", yscale="log")
        axes.grid(visible=True, which="both", alpha=0.2)
    seconds.legend(fontsize="small")
    figure.suptitle(title)
    figure.savefig(path, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    main()
