"""Which vocabulary suits a corpus: training time, bytes per token and encoding speed of several kinds.

    python benchmarks/bench_vocabularies.py [FILE…] [--vocab-size N] [--held MB] [-o OUT.json] [--plot FOLDER]

The last `--held` megabytes of each file are kept from training; bytes per token are those of this text, and one thread
encodes it twice: a first pass with a new tokenizer, and a second. Three tables:

- every kind of vocabulary, trained on each file alone with two threads, from the file to the tokenizer;
- plain vocabularies of several sizes, one training for each file;
- one vocabulary for all files together, the same number of bytes of each: plain, weighted, and parity-aware.

Every measurement runs in a new process; kinds are alternated, and the tables show medians of `--repeat` runs. Without
FILE, the shared corpora are used.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from report import (
    SEPARATOR,
    at_least,
    describe_machine,
    find_corpora,
    make_parser,
    median,
    print_table,
    save_measurements,
)

import bpe

#: Kinds of vocabularies: what each is called in the tables, and the units that a merge may not leave.
KINDS = {
    "plain": "words",
    "lines": "whole lines, from 80% of the size",
    "paper": "SuperBPE's units, from 80% of the size",
    "boundless": "runs of whole words",
}
#: How one vocabulary can serve several corpora.
SHARES = ("plain", "weights", "parity")
FRACTIONS = (16, 8, 4, 2, 1)


def main() -> None:
    """Measure, print three tables, write JSON and plots."""
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(run_child(*json.loads(sys.argv[2]))))
        return
    parser = make_parser(__doc__, repeat=3)
    parser.add_argument("files", nargs="*", type=Path, help="UTF-8 text, documents separated by <|endoftext|>")
    parser.add_argument("--vocab-size", type=at_least(4096), default=64_000)
    parser.add_argument("--held", type=at_least(1), default=10, metavar="MB", help="text to encode; default 10")
    parser.add_argument("--plot", type=Path, metavar="FOLDER", help="draw the three tables as SVG files")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        parts = [split_file(path, options.held << 20, Path(folder)) for path in find_corpora(options.files, folder)]
        rows = measure_all(parts, options.vocab_size, options.repeat)
    print(f"{describe_machine()}; {options.vocab_size} tokens; {options.held} MB of each corpus encoded\n")
    show(rows)
    save_measurements(options.output, rows)
    if options.plot:
        draw(rows, options.plot)


def split_file(path: Path, n_held_out: int, folder: Path) -> tuple[str, str]:
    """Files with the documents to train on and with those kept from training, about `held` bytes."""
    data = path.read_bytes()
    cut = data.rfind(SEPARATOR, 0, max(len(data) - n_held_out, 0))
    if cut < 0:
        raise SystemExit(f"{path} has no document end before its last {n_held_out} bytes: lower --held")
    train, test = folder / f"{path.stem}.train", folder / f"{path.stem}.test"
    train.write_bytes(data[:cut])
    test.write_bytes(data[cut + len(SEPARATOR) :])
    return str(train), str(test)


def measure_all(parts: list[tuple[str, str]], size: int, repeat: int) -> list[dict[str, Any]]:
    """The rows of all tables."""
    calls = [("kind", kind, [part], size) for part in parts for kind in KINDS]
    calls += [("sizes", "plain", [part], size) for part in parts]
    calls += [("share", share, parts, size) for share in SHARES]
    rows = []
    for turn in range(repeat):
        for measure, how, task, tokens in calls:
            call = [sys.executable, __file__, "--child", json.dumps([measure, how, task, tokens])]
            process = subprocess.run(call, check=True, capture_output=True, text=True)
            rows += json.loads(process.stdout)
            print(f"{turn + 1}/{repeat} {measure} {how} {Path(task[0][0]).stem}", file=sys.stderr)
    return rows


def run_child(measure: str, how: str, parts: list[tuple[str, str]], size: int) -> list[dict[str, Any]]:
    """Train once, and measure each tokenizer on the text kept from training."""
    sizes = [size // fraction for fraction in FRACTIONS] if measure == "sizes" else [size]
    start_time = time.perf_counter()
    toks = train_shared(how, parts, size) if measure == "share" else train_alone(how, parts[0][0], sizes)
    seconds_taken = time.perf_counter() - start_time
    rows = []
    for tok, tokens in zip(toks, sizes, strict=True):
        for train, test in parts:
            texts = Path(test).read_bytes().decode().split(SEPARATOR.decode())
            total, speeds = sum(len(text.encode()) for text in texts), []
            for _ in range(2):
                start_time = time.thread_time()
                ids = len(tok.encode_batch(texts, threads=1).ids)
                speeds.append(total / (time.thread_time() - start_time) / 1e6)
            row = {"what": measure, "how": how, "corpus": Path(train).stem, "size": tokens, "seconds": seconds_taken}
            rows.append(row | {"bytes per token": total / ids, "first": speeds[0], "second": speeds[1]})
    return rows


def train_alone(kind: str, path: str, sizes: list[int]) -> list[bpe.Tokenizer]:
    """Tokenizers of one kind, trained on one file."""
    transition = sizes[-1] * 4 // 5
    makers: dict[str, Any] = {"lines": bpe.SuperWords, "paper": bpe.SuperWords.paper}
    options: dict[str, Any] = {"files": bpe.Sources(path, separator=SEPARATOR.decode()), "threads": 2}
    if kind in makers:
        options["superwords"] = makers[kind](transition)
    train: Any = bpe.research.train_boundless if kind == "boundless" else bpe.train
    tokenizers: list[bpe.Tokenizer] = train(vocab_size=sizes, **options)
    return tokenizers


def train_shared(how: str, parts: list[tuple[str, str]], size: int) -> list[bpe.Tokenizer]:
    """One tokenizer for all files: trained on their sum, on a weighted sum, or by parity.

    The same number of bytes is taken of each file but for `weights`, which takes them whole and weighs the words so
    that each file counts as much as the largest one.
    """
    least = min(Path(train).stat().st_size for train, _ in parts)
    counts = {}
    for train, _ in parts:
        data = Path(train).read_bytes()
        cut = len(data) if how == "weights" else data.rfind(SEPARATOR, 0, least + 1)
        texts = data[: cut if cut > 0 else least].split(SEPARATOR)
        counts[Path(train).stem] = bpe.count_words(texts=texts, threads=2)
    if how == "parity":
        ratios = dict.fromkeys(counts, 1.0)
        return [bpe.research.train_parity(counts=counts, vocab_size=size, ratios=ratios, threads=2)]
    max_bytes = max(Path(train).stat().st_size for train, _ in parts)
    together = bpe.WordCounts()
    for train, _ in parts:
        weight = max_bytes / Path(train).stat().st_size if how == "weights" else 1
        together.merge(counts[Path(train).stem], weight=weight)
    return [bpe.train(counts=together, vocab_size=size, threads=2)]


def select_rows(rows: Iterable[dict[str, Any]], **wanted: object) -> list[dict[str, Any]]:
    """The rows that have these values."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def show(rows: list[dict[str, Any]]) -> None:
    """Print the tables."""
    names = list(dict.fromkeys(row["corpus"] for row in rows))
    head = ("corpus", "vocabulary", "training, s", "bytes per token", "first pass, MB/s", "second pass, MB/s")
    fields = (("seconds", 1), ("bytes per token", 2), ("first", 0), ("second", 0))
    lines = []
    for name in names:
        for kind in KINDS:
            runs = select_rows(rows, what="kind", how=kind, corpus=name)
            lines.append((name, kind, *(f"{median(runs, field):.{digits}f}" for field, digits in fields)))
    print_table(head, lines)
    print("\nBytes per token by vocabulary size\n")
    sizes = sorted({row["size"] for row in select_rows(rows, what="sizes")})
    print_table(
        ("corpus", *(f"{size:,}" for size in sizes)), [(name, *format_ratios(rows, name, sizes)) for name in names]
    )
    print("\nOne vocabulary for all: bytes per token\n")
    per = [
        (
            how,
            *(
                f"{median(select_rows(rows, what='share', how=how, corpus=name), 'bytes per token'):.2f}"
                for name in names
            ),
        )
        for how in SHARES
    ]
    print_table(("training", *names), per)


def format_ratios(rows: list[dict[str, Any]], name: str, sizes: list[int]) -> list[str]:
    """Bytes per token at each size."""
    rows_by_size = [select_rows(rows, what="sizes", corpus=name, size=size) for size in sizes]
    return [f"{median(runs, 'bytes per token'):.2f}" for runs in rows_by_size]


def draw(rows: list[dict[str, Any]], folder: Path) -> None:
    """Write kinds.svg, sizes.svg and share.svg."""
    import matplotlib.pyplot as plt

    plt.rcParams.update({"svg.hashsalt": "bpe", "svg.fonttype": "none", "font.family": "sans-serif"})
    folder.mkdir(parents=True, exist_ok=True)
    names = list(dict.fromkeys(row["corpus"] for row in rows))
    grouped = {
        "kinds": ("kind", list(KINDS), "Bytes per token by kind of vocabulary"),
        "share": ("share", list(SHARES), "One vocabulary for all: bytes per token"),
    }
    for file, (measure, ways, title) in grouped.items():
        figure, axes = plt.subplots(figsize=(7, 3.5))
        width = 0.8 / len(ways)
        for index, how in enumerate(ways):
            heights = [
                median(select_rows(rows, what=measure, how=how, corpus=name), "bytes per token") for name in names
            ]
            axes.bar([position + index * width for position in range(len(names))], heights, width, label=how)
        axes.set_xticks([position + 0.4 - width / 2 for position in range(len(names))], names)
        finish_figure(figure, axes, title, folder / f"{file}.svg")
    figure, axes = plt.subplots(figsize=(7, 3.5))
    sizes = sorted({row["size"] for row in select_rows(rows, what="sizes")})
    for name in names:
        axes.plot(sizes, [float(value) for value in format_ratios(rows, name, sizes)], marker="o", label=name)
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    finish_figure(figure, axes, "Bytes per token by vocabulary size", folder / "sizes.svg")


def finish_figure(figure: Any, axes: Any, title: str, path: Path) -> None:
    """Label a figure and write it, the same bytes for the same figures."""
    axes.set_title(title)
    axes.set_ylabel("bytes per token")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
