"""Run all benchmarks under one name, and write the results page and README's table from that run.

    python benchmarks/suite.py run NAME [--only BENCHMARK]… [--tables all|readme] [--tiny] [--again]
    python benchmarks/suite.py report NAME [--readme]

`run` starts the bench_*.py scripts with the arguments in RUNS below and writes every measurement, with the date, the
machine and the commands, to results/NAME.json. It skips benchmarks that the file already has (unless --again), so that
an interrupted run resumes. --tables readme measures only what the table of README.md shows, on one core: each library
once, and again those that took at most 1.5 times as long as the fastest other one. --tiny takes the first megabytes of
each corpus and one repetition, to try the command; its figures mean nothing.

`report` writes results/RESULTS.md from results/NAME.json, with the tables that the scripts print. With --readme it also
replaces the table of README.md, whose rows are README_ROWS below. This module measures nothing itself.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import importlib
import io
import json
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bench_encode
import bench_load
from report import HERE, cut_file, describe_machine, find_corpora, find_fastest_other, median, replace_table

RESULTS = HERE / "results"
README = HERE.parent / "README.md"
#: Megabytes of each corpus with --tiny.
TINY = 2

Row = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """One benchmark of the suite: its script and arguments, what its table shows, the corpora that it reads.

    `readme` and `readme_names` are the arguments and corpora for the table of README.md; None if it has no such row.
    """

    script: str
    arguments: str
    about: str
    names: tuple[str, ...] = ("english", "python", "korean", "japanese")
    tiny: str = "--repeat 1"
    readme: str | None = None
    readme_names: tuple[str, ...] = ("english",)


#: The libraries that encode whole corpora in seconds.
FAST = " ".join(f"--peer {peer}" for peer in bench_encode.WHOLE)
ONE_THREAD = "--threads 1 --repeat 3 --near 1.5"

RUNS = {
    "train": Run(
        "bench_train.py",
        "--peer bpe --peer gigabpe --peer gigatoken --peer ffbpe --repeat 3 --limit 300",
        "Training from a file to the tokens, 32,000 of them.",
        tiny="--repeat 1 --vocab-size 2000",
        readme=f"--peer bpe --peer gigabpe --peer gigatoken --limit 60 {ONE_THREAD}",
        readme_names=("english", "korean", "japanese"),
    ),
    "count": Run("bench_count.py", "--repeat 5", "Counting the words of a corpus.", readme="--threads 1 --repeat 3"),
    "encode": Run(
        "bench_encode.py",
        f"--vocab cl100k --vocab o200k {FAST} --peer tiktoken --peer tokenizers --less 2 --repeat 5 --near 2",
        "Encoding whole corpora: a new tokenizer's first pass (cold) and its second (warm).",
        tiny="--repeat 1 --less 0.5",
        readme=f"--vocab cl100k {FAST} {ONE_THREAD}",
        readme_names=("english", "python", "korean", "japanese"),
    ),
    "pretokenize": Run("bench_pretokenize.py", "--repeat 5", "Finding pretokens, without encoding."),
    "latency": Run(
        "bench_latency.py",
        f"{FAST} --peer tiktoken --peer tokenizers --repeat 5 --near 2",
        "Encoding one short text per call, in microseconds.",
        ("english", "korean"),
        readme=f"--vocab cl100k {FAST} --repeat 3 --near 1.5",
    ),
    "decode": Run(
        "bench_decode.py",
        "--less 2 --repeat 5 --near 2",
        "Decoding ids to bytes.",
        tiny="--repeat 1 --less 0.5",
        readme="--vocab cl100k --less 2 --repeat 5 --near 1.5",
    ),
    "load": Run(
        "bench_load.py",
        "--repeat 9 --near 3",
        "Loading the first vocabulary of a process, and encoding a first text.",
        (),
        readme="--vocab cl100k --repeat 9 --near 1.5",
        readme_names=(),
    ),
    "hard": Run(
        "bench_hard.py", "", "Encoding texts that are hard for an encoder.", ("english",), "--kind letters --size 1e5"
    ),
    "cores": Run(
        "bench_cores.py",
        "",
        "Time by the number of threads, and the time that work holds the interpreter.",
        ("english",),
        "--times 2 --repeat 1",
    ),
}


# Running --------------------------------------------------------------------------------------------------------------


def run(name: str, only: Iterable[str], *, readme: bool, tiny: bool, again: bool) -> None:
    """Run the benchmarks that results/NAME.json lacks, and add each to it as it ends."""
    path = RESULTS / f"{name}.json"
    run_values: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"benchmarks": {}}
    run_values |= {"name": name, "machine": describe_machine(), "tiny": tiny}
    with tempfile.TemporaryDirectory() as folder:
        for benchmark_name in only or [
            benchmark_name for benchmark_name, benchmark in RUNS.items() if not readme or benchmark.readme is not None
        ]:
            if benchmark_name in run_values["benchmarks"] and not again:
                print(f"{path.name} already has {benchmark_name}; --again measures it again", file=sys.stderr)
                continue
            run_values["benchmarks"][benchmark_name] = measure_benchmark(
                RUNS[benchmark_name], Path(folder), readme=readme, tiny=tiny
            )
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(run_values, indent=1) + "\n")
    print(f"wrote {path}", file=sys.stderr)


def measure_benchmark(benchmark: Run, folder: Path, *, readme: bool, tiny: bool) -> dict[str, Any]:
    """Run one script; return its command, its rows, and the lines that it printed after the table."""
    argument_text = benchmark.readme if readme and benchmark.readme is not None else benchmark.arguments
    arguments = [*argument_text.split(), *(benchmark.tiny.split() if tiny else ())]
    files: list[str] = []
    if readme or tiny:
        paths = find_corpora([], folder, benchmark.readme_names if readme else benchmark.names)
        files = [str(cut_file(path, TINY << 20, folder) if tiny else path) for path in paths]
    output = folder / "measured.json"
    command = [sys.executable, str(HERE / benchmark.script), *files, *arguments, "-o", str(output)]
    start_time = time.perf_counter()
    process = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    if not output.exists():
        raise SystemExit(f"{benchmark.script} failed:\n{process.stdout}")
    rows = json.loads(output.read_text())["rows"]
    output.unlink()
    message = process.stdout.rpartition("|\n")[2].strip()
    return {
        "command": " ".join(["python", f"benchmarks/{benchmark.script}", *arguments]),
        "date": dt.date.today().isoformat(),
        "seconds": round(time.perf_counter() - start_time),
        "status": process.returncode,
        "said": message,
        "rows": rows,
    }


# Reporting ------------------------------------------------------------------------------------------------------------


def report(name: str) -> str:
    """Write the results page of a run: date, machine, and each benchmark's command and table."""
    run_values = load_run(name)
    parts = [
        f"# Results: {run_values['name']}",
        f"Made from `{name}.json` by `python benchmarks/suite.py report {name}`; do not edit.",
        f"{describe_dates(run_values)}; {run_values['machine']}.",
    ]
    if run_values["tiny"]:
        parts.append("**Tiny inputs, one repetition: these figures only show that the command works.**")
    for benchmark in [name for name in RUNS if name in run_values["benchmarks"]]:
        result = run_values["benchmarks"][benchmark]
        parts += [
            f"## {benchmark.capitalize()}",
            RUNS[benchmark].about,
            f"`{result['command']}`",
            format_table(benchmark, result["rows"]),
        ]
        if result["said"]:
            parts.append(result["said"])
    return "\n\n".join(parts) + "\n"


def describe_dates(run_values: dict[str, Any]) -> str:
    """Spell the day of a run's benchmarks, or the first and the last."""
    days = [dt.date.fromisoformat(result["date"]) for result in run_values["benchmarks"].values()]
    first, last = min(days), max(days)
    if first == last:
        return f"{last.day} {last:%B %Y}"
    month = "" if (first.year, first.month) == (last.year, last.month) else f"{first: %B %Y}"
    return f"{first.day}{month} to {last.day} {last:%B %Y}"


def load_run(name: str) -> dict[str, Any]:
    """Read the file of a run."""
    path = RESULTS / f"{name}.json"
    if not path.exists():
        raise SystemExit(f"{path} is absent; python benchmarks/suite.py run {name} makes it")
    values: dict[str, Any] = json.loads(path.read_text())
    return values


def format_table(benchmark_name: str, rows: list[Row]) -> str:
    """Format the table that the script prints for its rows, without the first line, which names the machine."""
    module = importlib.import_module(RUNS[benchmark_name].script.removesuffix(".py"))
    repeat = len({row.get("turn", 0) for row in rows})
    arguments: list[Any] = [rows]
    if benchmark_name in ("latency", "decode"):
        arguments.append(argparse.Namespace(repeat=repeat, plot=None))
    elif benchmark_name not in ("train", "hard", "cores"):
        arguments.append(repeat)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        module.report(*arguments)
    return output.getvalue().partition("\n\n")[2].strip()


# README.md ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Figure:
    """A row of README's table: which measurements it uses, and how it shows their figure.

    Rows of `benchmark` count if their fields have the values in `filters`. If `rate`, higher values are better.
    """

    task: str
    benchmark: str
    filters: dict[str, Any]
    value: Callable[[Row], float]
    value_format: str
    rate: bool = False


def make_rate(field: str, unit: float = 1e6) -> Callable[[Row], float]:
    """Make the function of a row's bytes per second, in millions by default."""
    return lambda row: float(row["bytes"] / row[field] / unit)


def make_encoding_figure(task: str, corpus: str, field: str) -> Figure:
    """Make a row about encoding with cl100k on one core."""
    filters = {"corpus": corpus, "vocab": "cl100k", "threads": 1}
    return Figure(f"encode, cl100k, {task}", "encode", filters, make_rate(field), "{:.0f} MB/s", rate=True)


def make_training_figure(corpus: str) -> Figure:
    """Make a row about training on one core."""
    task = f"train, {corpus.capitalize()} {{megabytes}} MB, 32,000 tokens"
    return Figure(task, "train", {"corpus": corpus, "threads": 1}, lambda row: float(row["seconds"]), "{:.2f} s")


ONE = {"corpus": "english", "threads": 1}
README_ROWS = (
    make_training_figure("english"),
    make_training_figure("korean"),
    make_training_figure("japanese"),
    Figure("count words, English", "count", ONE, lambda row: row["bytes"] / (row["read"] + row["seconds"]) / 1e6,
           "{:.0f} MB/s", rate=True),
    make_encoding_figure("English, first pass", "english", "cold"),
    make_encoding_figure("English, second pass", "english", "warm"),
    make_encoding_figure("Python, first pass", "python", "cold"),
    make_encoding_figure("Korean, first pass", "korean", "cold"),
    make_encoding_figure("Japanese, first pass", "japanese", "cold"),
    Figure("encode one new text of 200 bytes", "latency", {"corpus": "english"}, lambda row: float(row["new 200"]),
           "{:.2f} µs"),
    Figure("decode, cl100k, English", "decode", {"corpus": "english"}, make_rate("cold", 1e9), "{:.2f} GB/s",
           rate=True),
    Figure("load cl100k (bpe: compiled), encode a text", "load", {"vocab": "cl100k"}, bench_load.add_first,
           "{:.0f} ms"),
)  # fmt: skip

HEAD = "| task, on one core | bpe | fastest other | ratio | printed by `python benchmarks/…` |\n|---|---|---|---|---|"


def format_readme_table(name: str) -> str:
    """Format the table of README.md for a run, and the lines below it, with the libraries that were measured."""
    run_values = load_run(name)
    results = run_values["benchmarks"]
    figures = [figure for figure in README_ROWS if figure.benchmark in results]
    lines = [HEAD, *(format_readme_row(figure, results[figure.benchmark]["rows"]) for figure in figures)]
    versions = {
        row["peer"]: row["version"] for result in results.values() for row in result["rows"] if "version" in row
    }
    libraries = ", ".join(f"{peer} {version}" for peer, version in sorted(versions.items()))
    parts = [f"Measured {describe_dates(run_values)}, {run_values['machine']}: {libraries}."]
    inexact = {f"{row['peer']} ({key})" for key, result in results.items() for row in result["rows"] if is_inexact(row)}
    if inexact:
        parts.append(f"Other output, so left out: {', '.join(sorted(inexact))}.")
    return "\n".join([*lines, "", textwrap.fill(" ".join(parts), 100)])


def is_inexact(row: Row) -> bool:
    """Whether the output was compared and is not this package's."""
    return not row.get("exact", True)


def format_readme_row(figure: Figure, rows: list[Row]) -> str:
    """Format one row: the medians of this package and of the fastest other library, each used in its fastest way."""
    rows_by_way: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        is_figure = all(
            Path(str(row.get(key))).stem.partition("-")[0] == str(value) for key, value in figure.filters.items()
        )
        if is_figure and "gave_up" not in row:
            rows_by_way.setdefault((row["peer"], row.get("way", "")), []).append(row)
    if not any(peer == "bpe" for peer, _ in rows_by_way):
        task = figure.task.format(megabytes="…")
        command = f"python benchmarks/suite.py run NAME --only {figure.benchmark} --again"
        raise SystemExit(f"there is no row of bpe for {task!r}; {command} makes it")
    values = {way: median([{"value": figure.value(row)} for row in rows], "value") for way, rows in rows_by_way.items()}
    our_value = (max if figure.rate else min)(value for (peer, _), value in values.items() if peer == "bpe")
    fastest = find_fastest_other(rows_by_way, figure.value, rate=figure.rate)
    task = figure.task.format(megabytes=round(next(iter(rows_by_way.values()))[0].get("bytes", 0) / 1e6))
    cells = [task, figure.value_format.format(our_value), "–", "–"]
    if fastest is not None:
        times = our_value / values[fastest] if figure.rate else values[fastest] / our_value
        cells[2] = f"{fastest[0]} {figure.value_format.format(values[fastest])}"
        cells[3] = f"{times:.1f}" if times < 10 else f"{times:.0f}"
    return f"| {' | '.join([*cells, f'`{RUNS[figure.benchmark].script}`'])} |"


def main() -> None:
    """Parse the command line and run or report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", metavar="run | report", required=True)
    running = commands.add_parser("run", help="measure, and write results/NAME.json")
    running.add_argument("name", metavar="NAME", help="the run's name, such as 2026-11-epyc")
    running.add_argument("--only", choices=RUNS, action="append", default=[], help="may be repeated; default all")
    running.add_argument("--tables", choices=("all", "readme"), default="all", help="default all")
    running.add_argument("--tiny", action="store_true", help="a few megabytes, one repetition: to try the command")
    running.add_argument("--again", action="store_true", help="repeat benchmarks that the file already has")
    reporting = commands.add_parser("report", help="write results/RESULTS.md")
    reporting.add_argument("name", metavar="NAME", help="the run's name")
    reporting.add_argument("--readme", action="store_true", help="replace the table of README.md too")
    options = parser.parse_args()
    if options.command == "run":
        run(options.name, options.only, readme=options.tables == "readme", tiny=options.tiny, again=options.again)
        return
    (RESULTS / "RESULTS.md").write_text(report(options.name), encoding="utf-8")
    if options.readme:
        replace_table(README, "benchmarks/suite.py", format_readme_table(options.name))


if __name__ == "__main__":
    main()
