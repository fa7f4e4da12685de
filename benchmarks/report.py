"""Shared by the bench_*.py scripts: corpora, measurements in separate processes, medians, tables and plots."""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any, TypeVar

from peers.common import Vocab

HERE = Path(__file__).resolve().parent
SHARED = HERE.parents[1] / "shared" / "data" / "corpora"
VOCABULARIES = SHARED.parent / "vocab"
VOCAB_NAMES = ("r50k", "cl100k", "o200k")
SEPARATOR = b"<|endoftext|>"
NAMES = ("english", "korean", "japanese", "python")
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
DIGITS = {"type": "Digits", "individual_digits": False}
GROUPS = {"type": "Split", "pattern": {"Regex": r"(?=(\d{3})+(?!\d))"}, "behavior": "Isolated", "invert": False}
#: How published vocabularies divide text: by SuperBPE's steps, or not at all.
STEPS: dict[str, object] = {"steps": {"type": "Sequence", "pretokenizers": [DIGITS, GROUPS, BYTES]}, "whole": BYTES}

#: A library, or a library and the way in which it works.
Way = TypeVar("Way", bound=Hashable)


def at_least(least: int) -> Callable[[str], int]:
    """Make a `type` for argparse: a whole number that is at least `least`."""

    def convert(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
        return int(text)

    return convert


def add_near_option(parser: argparse.ArgumentParser) -> None:
    """Add --near, the factor of `is_near`."""
    help_ = "after the first turn, leave out libraries that took over N times as long as the fastest other one"
    parser.add_argument("--near", type=float, metavar="N", help=help_)


def make_parser(doc: str | None, repeat: int = 5) -> argparse.ArgumentParser:
    """Make a parser for what every benchmark has: --repeat, with its default, and --output."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=at_least(1), default=repeat, metavar="N", help=f"default {repeat}")
    parser.add_argument("-o", "--output", type=Path, help="write every measurement as JSON")
    return parser


def make_peers_parser(
    doc: str | None, peers: Iterable[str], vocabs: str, drawn: str, less: float | None = None
) -> argparse.ArgumentParser:
    """Make a parser for benchmarks with corpora, vocabularies (`vocabs`: the default, in words) and peers.

    `drawn` is what --plot draws; `less` is the default of --less, the megabytes for slower libraries.
    """
    parser = make_parser(doc)
    parser.add_argument("files", nargs="*", type=Path, help="UTF-8 text, documents separated by <|endoftext|>")
    parser.add_argument("--vocab", choices=VOCAB_NAMES, action="append", help=f"may be repeated; default {vocabs}")
    parser.add_argument("--peer", choices=list(peers), action="append", help="may be repeated; default all")
    if less is not None:
        help_ = f"text for the slower libraries; default {less}"
        parser.add_argument("--less", type=float, default=less, metavar="MB", help=help_)
    add_near_option(parser)
    parser.add_argument("--plot", type=Path, help=f"draw {drawn}")
    return parser


def find_corpora(files: Sequence[Path], folder: str | Path, names: Iterable[str] = NAMES) -> list[Path]:
    """Return the given files, or else the shared corpora, decompressed into a folder."""
    for path in files:
        if not path.is_file():
            raise SystemExit(f"{path} is not a file")
    paths = list(files)
    for name in () if files else names:
        packed_path = SHARED / f"{name}.txt.xz"
        if not packed_path.exists():
            raise SystemExit(f"{packed_path} is absent: give a text file")
        paths.append(Path(folder) / f"{name}.txt")
        if not paths[-1].exists():
            paths[-1].write_bytes(lzma.decompress(packed_path.read_bytes()))
    return paths


def write_vocabularies(names: Iterable[str], folder: str | Path) -> dict[str, str]:
    """Decompress published vocabularies into a folder; returns NAME,RANKS,JSON of each.

    Each is written as a tokenizer.json, too, and beside it as a compiled tokenizer. "llama" is cl100k with the pattern
    of Llama 3, whose own vocabulary is not there.
    """
    import bpe

    paths = {}
    for name in names:
        packed_path = VOCABULARIES / f"{'cl100k' if name == 'llama' else name}_base.tiktoken.gz"
        if not packed_path.exists():
            raise SystemExit(f"{packed_path} is absent")
        ranks = Path(folder) / f"{name}_base.tiktoken"
        ranks.write_bytes(gzip.decompress(packed_path.read_bytes()))
        json_path = Path(folder) / f"{name}.json"
        vocab = Vocab(name, str(ranks), str(json_path))
        tok = bpe.Tokenizer.from_tiktoken(ranks, vocab.pattern, force=name == "llama")
        tok.save(json_path)
        tok.save(json_path.with_suffix(".compiled"))
        paths[name] = ",".join(astuple(vocab))
    return paths


def write_superbpe(folder: Path) -> Iterator[tuple[str, Path]]:
    """Write a tokenizer.json of each published SuperBPE vocabulary and way of dividing text; yield names and paths."""
    import bpe

    for name in ("superbpe_t180k", "superbpe_t80k"):
        for part in ("vocab.json", "merges.txt"):
            (folder / part).write_bytes(gzip.decompress((VOCABULARIES / f"{name}_{part}.gz").read_bytes()))
        path = folder / f"{name}.json"
        bpe.Tokenizer.from_vocab_merges(folder / "vocab.json", folder / "merges.txt", None).save(path)
        value = json.loads(path.read_bytes())
        for kind, steps in STEPS.items():
            value["pre_tokenizer"] = steps
            path = folder / f"{name}_{kind}.json"
            path.write_text(json.dumps(value))
            yield f"{name} {kind}", path


def cut_file(path: Path, size: int, folder: str | Path) -> Path:
    """Write the first documents of a file, about `size` bytes, to a file; a smaller file is returned as it is."""
    data = path.read_bytes()
    if len(data) <= size:
        return path
    end = data.find(SEPARATOR, size)
    part = Path(folder) / f"{path.stem}-part{path.suffix}"
    part.write_bytes(data[: end if end > 0 else len(data)])
    return part


def compare_outputs(rows: Sequence[dict[str, Any]], what: str) -> list[str]:
    """Note in each row whether its output is this package's (`exact`); list the libraries for which it is not.

    Without a row of this package, outputs are compared with the first.
    """
    our_output = next((row["output"] for row in sorted(rows, key=lambda row: bool(row["peer"] != "bpe"))), None)
    for row in rows:
        row["exact"] = row["output"] == our_output
    names = (f"{row['peer']} {row.get('way', '')}".strip() for row in rows if not row["exact"])
    return [f"{name}: {what}" for name in dict.fromkeys(names)]


def find_fastest_other(
    rows_by_way: Mapping[Way, list[dict[str, Any]]], value: Callable[[dict[str, Any]], float], *, rate: bool = False
) -> Way | None:
    """Find the fastest way of another library whose output is this package's, by the median of a value.

    If `rate`, higher values are better.
    """
    medians = {
        way: statistics.median(map(value, rows))
        for way, rows in rows_by_way.items()
        if all(row["peer"] != "bpe" and row.get("exact") and "gave_up" not in row for row in rows)
    }
    return (max if rate else min)(medians, key=lambda way: medians[way], default=None)


def is_near(
    way: tuple[str, str],
    rows: Sequence[dict[str, Any]],
    costs: Iterable[Callable[[dict[str, Any]], float]],
    factor: float | None,
) -> bool:
    """Whether to measure a library, with its way or "", after the rows of earlier turns.

    That is so for this package, without a factor, in the first turn, and if it took at most `factor` times as long as
    the fastest other library by one of the costs.
    """
    own_rows = [row for row in rows if (row["peer"], row.get("way", "")) == way]
    other_rows = [row for row in rows if row["peer"] != "bpe" and "gave_up" not in row]
    if factor is None or way[0] == "bpe" or not own_rows or not other_rows:
        return True
    return any(min(map(cost, own_rows)) <= factor * min(map(cost, other_rows)) for cost in costs)


def make_cost(field: str) -> Callable[[dict[str, Any]], float]:
    """Make the function of a row's seconds per byte."""
    return lambda row: float(row[field] / row["bytes"])


def mark_fastest(text: str, *, is_fastest: bool) -> str:
    """Set what the fastest other library takes in bold."""
    return f"**{text}**" if is_fastest else text


def describe_output(rows: Iterable[dict[str, Any]]) -> str:
    """Say whether all outputs are this package's; nothing if they were not compared."""
    exact = {row.get("exact") for row in rows}
    return "" if None in exact else ("no" if False in exact else "yes")


def finish_report(missing: Iterable[str], differences: Sequence[str]) -> None:
    """Print which libraries are not installed; fail the run if outputs differ."""
    if missing:
        print(f"\nNot installed: {', '.join(sorted(missing))}.")
    if differences:
        raise SystemExit("these outputs differ from this package's (or the first):\n" + "\n".join(differences))
    print("\nAll outputs are the same.")


def plot(path: Path | None, title: str, unit: str, bars: dict[str, dict[str, float]], *, scale: str = "linear") -> None:
    """Draw one group of bars per setting, one bar per library, if matplotlib is installed."""
    if path is None:
        return
    try:
        import matplotlib.pyplot as plt
    except ModuleNotFoundError:
        print("no plot: matplotlib is not installed", file=sys.stderr)
        return
    libraries = list(dict.fromkeys(name for group in bars.values() for name in group))
    figure, axes = plt.subplots(figsize=(2 + 2 * len(bars), 5))
    width = 0.8 / len(libraries)
    for index, library in enumerate(libraries):
        heights = [group.get(library, 0) for group in bars.values()]
        axes.bar([position + index * width for position in range(len(bars))], heights, width, label=library)
    axes.set_xticks([position + 0.4 - width / 2 for position in range(len(bars))], list(bars), rotation=20, ha="right")
    axes.set_yscale(scale)
    axes.set_ylabel(unit)
    axes.set_title(title)
    axes.legend()
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def measure(job: str, peer: str, path: Path, threads: int, *more: object, limit: float | None = None) -> dict[str, Any]:
    """Measure in a new process; raise subprocess.TimeoutExpired after `limit` seconds."""
    command = [sys.executable, str(HERE / "run.py"), job, peer, str(path), str(threads), *map(str, more)]
    # Python may keep compiled modules, as pip does: compiling this package in each process would add 0.1 s.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit, env=environment)
    if process.returncode:
        raise SystemExit(f"{job} with {peer} failed:\n{process.stderr}")
    result: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])  # some libraries print
    return result


def median(rows: list[dict[str, Any]], field: str) -> float:
    """Return the median of a field."""
    return float(statistics.median(row[field] for row in rows))


def count_cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def describe_machine() -> str:
    """Name the processor, the number of cores, the Python version and the system."""
    cpu = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.processor(),
    )
    return f"{cpu}, {count_cores()} cores, Python {platform.python_version()}, {platform.system()}"


def print_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table in Markdown."""
    print(f"| {' | '.join(head)} |")
    print("|" + "---|" * len(head))
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |")


def replace_table(page: Path, maker: str, text: str) -> None:
    """Replace what stands in a page between the comments that name its maker and the end."""
    old = page.read_text(encoding="utf-8")
    before, begin, after_begin = old.partition(f"<!-- made by {maker} -->\n")
    _, end, after = after_begin.partition("<!-- end -->\n")
    if not begin or not end:
        raise SystemExit(f"{page.name} lacks the comments that enclose the table of {maker}")
    page.write_text(before + begin + text + "\n" + end + after, encoding="utf-8")


def save_measurements(path: Path | None, rows: list[dict[str, Any]]) -> None:
    """Write every measurement as JSON."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"machine": describe_machine(), "rows": rows}, indent=1) + "\n")
