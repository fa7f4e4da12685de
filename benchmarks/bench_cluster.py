"""Counting and encoding on one core: as parts of `bpe`, with Spark and with Ray; the rates that docs/clusters.md uses.

    python benchmarks/bench_cluster.py [FILE] [--megabytes N] [--core C] [--ways parts spark ray] [-o results.json]

The documents of a text file (default: the shared English corpus) are written as eight Parquet files, and a tokenizer of
32,000 tokens is trained on them. Then each way counts the words of these files and encodes them to disk, in a process
of its own whose threads and children (the JVM, Ray's workers) are pinned to one core. A way whose package is absent is
left out. Every way must give the same counts and as many ids.

Rates are megabytes of text per second of CPU time, of all processes together, so that other programs on the machine and
waiting for disks do not count. The time of a job on one of the files is subtracted from that of a job on all, so that
the rates leave out the start of a job, which matters little in a long run; the last column has it. Linux only.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from report import (
    SEPARATOR,
    at_least,
    cut_file,
    describe_machine,
    find_corpora,
    finish_report,
    print_table,
    save_measurements,
)

import bpe

FILES = 8
SPECIAL = "<|endoftext|>"


def write_inputs(path: Path, folder: Path) -> int:
    """Write the corpus as Parquet files and the tokenizer; the bytes of text in `all` beyond those of `again`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = [text.decode() for text in path.read_bytes().removesuffix(SEPARATOR).split(SEPARATOR)]
    for index in range(FILES):
        some = pa.table({"text": texts[index * len(texts) // FILES : (index + 1) * len(texts) // FILES]})
        target = folder / ("all" if index else "first") / f"{index}.parquet"
        target.parent.mkdir(exist_ok=True)
        pq.write_table(some, target, compression="zstd", row_group_size=1000)
    shutil.copy(folder / "first" / "0.parquet", folder / "all")
    shutil.copytree(folder / "first", folder / "again")
    bpe.train(texts=texts, vocab_size=32_000, special_tokens=[SPECIAL], threads=1).save(folder / "tokenizer.json")
    return sum(len(text.encode()) for text in texts[len(texts) // FILES :])


def start_parts(folder: Path) -> Iterator[Callable[[Path], Any]]:
    """What one of the machines of `bpe count-words --part` and `bpe encode --part` does."""
    tok = folder / "tokenizer.json"

    def count(source: Path) -> bpe.WordCounts:
        run_command("count-words", source, "-o", folder / "words.counts", "--special-token", SPECIAL, "--threads", 1)
        return bpe.WordCounts.load(folder / "words.counts")

    def encode(source: Path) -> int:
        out = folder / f"parts-{source.name}"
        run_command("encode", source, "-t", tok, "-o", out, "--format", "native", "--append", SPECIAL, "--threads", 1)
        from bpe.data import TokenShards

        n_tokens: int = TokenShards(out).n_tokens
        return n_tokens

    yield count
    yield encode


def run_command(*words: object) -> None:
    """Run a command of `bpe`, which must succeed."""
    subprocess.run([sys.executable, "-m", "bpe", *map(str, words), "--quiet"], check=True)


def start_spark(folder: Path) -> Iterator[Callable[[Path], Any]]:
    """Spark with one worker."""
    from pyspark.sql import SparkSession

    from bpe.distributed import spark as engine

    os.environ["PYSPARK_PYTHON"] = sys.executable  # otherwise the workers run the first python3 on the path
    tok = bpe.Tokenizer.load(folder / "tokenizer.json")
    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    session.sparkContext.setLogLevel("OFF")

    def count(source: Path) -> bpe.WordCounts:
        return engine.count(session.read.parquet(str(source)), special_tokens=[SPECIAL])

    def encode(source: Path) -> int:
        out = folder / f"spark-{source.name}"
        frame = session.read.parquet(str(source))
        engine.encode(frame, tok, append=SPECIAL, keep_columns=False).write.parquet(str(out))
        return count_written_bytes(out)

    yield count
    yield encode
    session.stop()


def start_ray(folder: Path) -> Iterator[Callable[[Path], Any]]:
    """Ray with one core."""
    import ray
    from ray.data import DataContext, read_parquet

    from bpe.distributed import ray as engine

    tok = bpe.Tokenizer.load(folder / "tokenizer.json")
    ray.init(
        num_cpus=3,  # for the actors and the shuffle, which share one core
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        object_store_memory=1 << 29,
    )
    DataContext.get_current().enable_progress_bars = False

    def count(source: Path) -> bpe.WordCounts:
        return engine.count(read_parquet(str(source)), special_tokens=[SPECIAL])

    def encode(source: Path) -> int:
        out = folder / f"ray-{source.name}"
        engine.encode(read_parquet(str(source)), tok, append=SPECIAL, keep_columns=False).write_parquet(str(out))
        return count_written_bytes(out)

    yield count
    yield encode
    ray.shutdown()


def count_written_bytes(folder: Path) -> int:
    """The number of ids in Parquet files."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    lengths = [pc.sum(pc.list_value_length(pq.read_table(path).column(0))).as_py() for path in folder.glob("*.parquet")]
    return sum(length or 0 for length in lengths)


def read_cpu_seconds() -> float:
    """The seconds that this process and its descendants have spent on a core, dead children included (Linux)."""
    parents, seconds = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(") ")[2].split()
        except OSError:  # it has just ended
            continue
        parents[int(path.parent.name)] = int(fields[1])
        seconds[int(path.parent.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    process_ids = {os.getpid()}
    while more := {process for process, parent in parents.items() if parent in process_ids} - process_ids:
        process_ids |= more
    return sum(seconds[process] for process in process_ids)


def measure_way(way: str, folder: Path, core: int) -> None:
    """Print one line of JSON: the seconds of counting and of encoding, the sum of the counts, the number of ids."""
    os.sched_setaffinity(0, {core})
    seconds: list[float] = []
    starts: list[float] = []
    counts: list[int] = []
    for work in WAYS[way](folder):
        work(folder / "first")
        times = [read_cpu_seconds()]
        for name in ("again", "all"):
            result = work(folder / name)
            times.append(read_cpu_seconds())
        first_seconds, all_seconds = times[1] - times[0], times[2] - times[1]
        seconds.append(all_seconds - first_seconds)
        starts.append(first_seconds - seconds[-1] / (FILES - 1))
        counts.append(result if isinstance(result, int) else result.total)
    figures = {"count": seconds[0], "encode": seconds[1], "starts": starts, "words": counts[0], "ids": counts[1]}
    print(json.dumps(figures))


WAYS = {"parts": start_parts, "spark": start_spark, "ray": start_ray}
PACKAGES = {"parts": "bpe", "spark": "pyspark", "ray": "ray"}


def main() -> None:
    """Measure every way in a process of its own, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?", metavar="FILE")
    parser.add_argument("--megabytes", type=at_least(1), default=100)
    parser.add_argument("--core", type=at_least(0), default=0)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--measure", nargs=2, metavar=("WAY", "FOLDER"), help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", type=Path)
    args = parser.parse_args()
    if args.measure:
        measure_way(args.measure[0], Path(args.measure[1]), args.core)
        return
    ways = [way for way in args.ways if importlib.util.find_spec(PACKAGES[way]) is not None]
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        [source] = find_corpora([args.file] if args.file else [], folder, ["english"])
        size = write_inputs(cut_file(source, args.megabytes * 10**6, folder), folder)
        for way in ways:
            command = [sys.executable, __file__, "--measure", way, name, "--core", str(args.core)]
            output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            rows.append({"peer": way, "bytes": size, **json.loads(output.splitlines()[-1])})
    print(f"{describe_machine()}; {size / 1e6:.0f} MB of text in {FILES - 1} Parquet files, one core\n")
    print_table(
        ("way", "count", "encode", "10 TB: core hours to count", "to encode", "CPU seconds of a start"),
        map(format_row, rows),
    )
    save_measurements(args.output, rows)
    all_equal = len({(row["words"], row["ids"]) for row in rows}) == 1
    finish_report(
        [way for way in args.ways if way not in ways], [] if all_equal else ["the ways differ in counts or ids"]
    )


def format_row(row: dict[str, Any]) -> tuple[str, ...]:
    """A row of the table."""
    rates = [row["bytes"] / 1e6 / row[work] for work in ("count", "encode")]
    starts = " + ".join(f"{max(start, 0):.0f}" for start in row["starts"])
    return (
        row["peer"],
        *(f"{rate:.0f} MB/s" for rate in rates),
        *(f"{1e7 / rate / 3600:.0f}" for rate in rates),
        starts,
    )


if __name__ == "__main__":
    main()
