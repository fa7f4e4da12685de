"""How encoding, counting, training and writing shards scale with the number of threads.

    python benchmarks/bench_cores.py [FILE] [--threads N …] [--rows TASK …] [--repeat N] [-o results.json]
    python benchmarks/bench_cores.py --from results.json [--docs]

Every measurement runs in a new process (peers/measure_cores.py) with the vocabulary cl100k: the file FILE (by default
the shared English corpus), and a large one that repeats it --times times, both in memory (--memory, by default
/dev/shm), where shards are written too, and a second time to --disk. The tables show the fastest of --repeat calls:
seconds, how many times as fast as with one thread, processor seconds. What a task returns or writes must be the same
with any number of threads, and gigatoken's ids this package's; a difference fails the run.

The table "Beside Python" has the serial share, measured directly: a thread runs pure Python meanwhile, and the time
that it loses is the time for which the task holds the interpreter (GIL). It is given per GB of text and per file, for
one file, files of 1 MB and files of 10 KB; the ratio is the task's time beside that thread to its time alone.

Copying memory and computing in the cache show what the machine itself can do. Run it on an idle machine.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from peers.measure_cores import SEPARATOR, TASKS
from report import (
    HERE,
    at_least,
    count_cores,
    cut_file,
    describe_machine,
    find_corpora,
    make_parser,
    print_table,
    replace_table,
    save_measurements,
    write_vocabularies,
)  # fmt: skip

Row = dict[str, Any]

SCALING = (
    "compute", "copy", "copy_fresh", "batch", "files", "gigatoken", "out", "count", "train", "native", "megatron",
    "parquet", "native_disk", "megatron_disk", "files_few", "files_many", "count_many", "native_many",
)  # fmt: skip
BESIDE = ("files", "count", "native", "megatron", "files_few", "files_many", "count_few", "count_many", "native_many")
PAGE = HERE.parent / "docs" / "performance.md"
#: Sizes of the files of the folders "few" and "many", in bytes.
FILE_SIZES = {"few": 1_000_000, "many": 10_000}


def main() -> None:
    """Measure, compare, print tables, write JSON."""
    options = parse()
    if options.stored:
        stored = json.loads(options.stored.read_text())
        if options.docs:
            replace_table(PAGE, "benchmarks/bench_cores.py", page_tables(stored["rows"], stored["machine"]))
        else:
            report(stored["rows"], stored["machine"])
        return
    n_cores = count_cores()
    counts = options.threads or [2**power for power in range(n_cores.bit_length()) if 2**power < n_cores] + [n_cores]
    rows: list[Row] = []
    began = time.perf_counter()
    with (
        tempfile.TemporaryDirectory(dir=options.memory) as memory,
        tempfile.TemporaryDirectory(dir=options.disk) as disk,
    ):
        inputs = make_inputs(options, Path(memory), Path(disk))
        for name, threads, beside in plan(counts, n_cores, options.rows, options.table):
            if time.perf_counter() - began > options.limit:
                print(f"no time for {name} with {threads} threads", file=sys.stderr)
                continue
            chosen = inputs
            if beside and threads == 1:  # a third of the text, as long calls take many times as long beside Python
                chosen = inputs | {"large": inputs["medium"]}
            row = measure_row(name, threads, chosen, options, beside=beside)
            if row:
                rows.append(row)
                # after each measurement, for when the process is ended from outside
                save_measurements(options.output, rows)
    report(rows)
    check(rows)


def parse() -> argparse.Namespace:
    """The command line's options."""
    parser = make_parser(__doc__, repeat=3)
    parser.add_argument("file", nargs="?", type=Path, help="UTF-8 text, documents separated by <|endoftext|>")
    parser.add_argument("--from", dest="stored", type=Path, metavar="FILE", help="print the tables of a JSON file")
    parser.add_argument("--docs", action="store_true", help="with --from, put them into docs/performance.md instead")
    parser.add_argument("--threads", type=at_least(1), nargs="+", help="default 1, 2, 4, … and all cores")
    parser.add_argument("--rows", nargs="+", choices=TASKS, help="default all")
    parser.add_argument("--table", choices=("scaling", "beside"), help="measure only this table; default both")
    parser.add_argument("--seconds", type=float, default=3.0, help="repeat no call after so many; default 3")
    parser.add_argument("--limit", type=float, default=3600, help="seconds after which no measurement starts")
    parser.add_argument("--times", type=at_least(1), default=8, help="how often the large file has the text; default 8")
    parser.add_argument("--less", type=float, metavar="MB", help="only the first megabytes of the text")
    parser.add_argument("--memory", type=Path, default=Path("/dev/shm"), help="a folder in memory; default /dev/shm")
    parser.add_argument("--disk", type=Path, help="a folder on disk; default that of temporary files")
    parser.add_argument("--vocab", type=Path, help="the rank file of cl100k; default the shared one")
    return parser.parse_args()


def plan(counts: list[int], n_cores: int, only: list[str] | None, shown: str | None) -> list[tuple[str, int, bool]]:
    """The measurements (task, threads, whether beside Python), those that say most first."""
    most, rest = sorted({min(counts), max(counts)}), sorted(set(counts) - {min(counts), max(counts)}, reverse=True)
    chosen = [name for name in SCALING if only is None or name in only]
    beside = [name for name in BESIDE if only is None or name in only]
    first = [(name, threads, False) for name in chosen for threads in most]
    alone = [(name, threads, False) for threads in rest for name in chosen]
    python = [(name, 1, True) for name in beside]
    python += [(name, n_cores - 1, True) for name in beside if n_cores > 2]  # one core for the thread that runs Python
    return {"scaling": first + alone, "beside": python}.get(shown or "", first + python + alone)


def make_inputs(options: argparse.Namespace, memory: Path, disk: Path) -> dict[str, str]:
    """Write the files that the tasks read; their paths by name."""
    path = find_corpora([options.file] if options.file else [], memory, ["english"])[0]
    if options.less:
        path = cut_file(path, int(options.less * 1e6), memory)
    data = path.read_bytes().removesuffix(SEPARATOR.encode()) + SEPARATOR.encode()
    paths = {"small": memory / "small.txt", "medium": memory / "medium.txt", "large": memory / "large.txt"}
    for file, times in zip(paths.values(), (1, min(3, options.times), options.times), strict=True):
        file.write_bytes(data * times)
    for name, size in FILE_SIZES.items():
        paths[name] = memory / name
        paths[name].mkdir()
        write_parts(data * options.times, size, paths[name])
    vocab = options.vocab or write_vocabularies(["cl100k"], memory)["cl100k"].split(",")[1]
    folders = {"memory": memory / "out", "disk": disk / "out", "vocab": vocab}
    for folder in (memory / "out", disk / "out"):
        folder.mkdir()
    return {name: str(each) for name, each in (paths | folders).items()}


def write_parts(data: bytes, size: int, folder: Path) -> None:
    """Write about `size` bytes to each of as many files as the text fills, cut after a line feed."""
    begin, number = 0, 0
    while begin < len(data):
        end = data.find(b"\n", begin + size) + 1 or len(data)
        (folder / f"{number:06}.txt").write_bytes(data[begin:end])
        begin, number = end, number + 1


def measure_row(
    name: str, threads: int, inputs: dict[str, str], options: argparse.Namespace, *, beside: bool
) -> Row | None:
    """Measure in a new process; None if that fails, which is reported."""
    command = [sys.executable, str(HERE / "peers" / "measure_cores.py"), name, str(threads), json.dumps(inputs)]
    command += ["--repeat", str(options.repeat), "--seconds", str(options.seconds), *(["--beside"] if beside else [])]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    for folder in (inputs["memory"], inputs["disk"]):  # what a failed call left
        for path in Path(folder).iterdir():
            shutil.rmtree(path)
    if process.returncode:
        print(f"{name} with {threads} threads failed:\n{process.stderr[-2000:]}", file=sys.stderr)
        return None
    row: Row = json.loads(process.stdout.splitlines()[-1])
    more = f" beside {min(row['beside']):.4f} lost {min(row['lost']):.4f}" if beside else ""
    print(f"{name} {threads}: {min(row['walls']):.4f} s, {min(row['cpus']):.3f} s of CPU{more}", file=sys.stderr)
    return row


# Reporting ------------------------------------------------------------------------------------------------------------


def report(rows: list[Row], about: str | None = None) -> None:
    """Print the tables, first the machine's name, by default this one's."""
    print(f"{about or describe_machine()}; the fastest of {max(len(row['walls']) for row in rows)}\n")
    scaling = [row for row in rows if "beside" not in row]
    if scaling:
        counts = sorted({row["threads"] for row in scaling})
        names = ["1 thread" if threads == 1 else f"{threads} threads" for threads in counts]
        head = ("seconds with", *names, "processor seconds", "MB beside the result")
        print_table(head, [scaling_line(scaling, name, counts) for name in SCALING if by_threads(scaling, name)])
    lines = [beside_line(row) for row in rows if "beside" in row]
    if lines:
        print("\nBeside a thread that runs pure Python:\n")
        print_table(("task", "threads", "alone", "beside", "ratio", "serial, ms per GB", "µs per file"), lines)


def page_tables(rows: list[Row], about: str) -> str:
    """The tables as Markdown, for docs/performance.md."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        report(rows, about)
    return printed.getvalue()


def by_threads(rows: list[Row], name: str) -> dict[int, Row]:
    """A task's rows by their number of threads."""
    return {row["threads"]: row for row in rows if row["task"] == name}


def scaling_line(rows: list[Row], name: str, counts: list[int]) -> tuple[object, ...]:
    """A line of the first table: seconds by the number of threads, and how many times as fast as one thread."""
    chosen = by_threads(rows, name)
    cells = []
    for threads in counts:
        wall = min(chosen[threads]["walls"]) if threads in chosen else None
        times = f" ({min(chosen[1]['walls']) / wall:.1f}×)" if wall and threads > 1 and 1 in chosen else ""
        cells.append(f"{wall:.3g}{times}" if wall else "")
    least, most = chosen[min(chosen)], chosen[max(chosen)]
    cpu = f"{min(least['cpus']):.3g} to {min(most['cpus']):.3g}"
    return (label(most), *cells, cpu, f"{(most['peak'] - most['result']) / 1e6:.0f}")


def label(row: Row) -> str:
    """The task and its input's size."""
    task = TASKS[row["task"]]
    if not task.reads:
        return task.about
    return f"{task.about}, {row['bytes'] / 1e6:.0f} MB" + (f", {row['files']:,} files" if row["files"] > 1 else "")


def beside_line(row: Row) -> tuple[object, ...]:
    """A line of the table "Beside Python"."""
    alone, beside, lost = min(row["walls"]), min(row["beside"]), statistics.median(row["lost"])
    per_file = f"{lost / row['files'] * 1e6:.1f}" if row["files"] > 1 else ""
    ratio, serial = f"{beside / alone:.2f}", f"{lost / row['bytes'] * 1e12:.1f}"
    if row["idle"] > 0.02:
        serial += " (busy machine)"
    return (label(row), row["threads"], f"{alone:.3f}", f"{beside:.3f}", ratio, serial, per_file)


def check(rows: list[Row]) -> None:
    """Fail if results differ."""
    outputs: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        name = row["task"].removesuffix("_disk")
        name = "files" if name in ("gigatoken", "out") else name
        outputs.setdefault((name, row["text"]), set()).add(row["output"])
    different = [f"{name} of {text}" for (name, text), found in outputs.items() if len(found) > 1]
    if different:
        raise SystemExit("these results differ between numbers of threads or libraries: " + ", ".join(different))
    print("\nAll results are the same with any number of threads.")


if __name__ == "__main__":
    main()
