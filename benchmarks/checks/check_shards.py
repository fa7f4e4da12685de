"""Check the way from a corpus to shards on large inputs: token streams, kills, memory, disk; a failure ends the run.

    python benchmarks/checks/check_shards.py [streams] [kills] [memory] [disk] [--size MB] [--kills N] [--threads N]
                                      [--folder PATH]

- streams: each shared corpus as .txt.xz, .jsonl.zst and Parquet gives the same ids in the same documents in every
  format, and they are those of `encode_files`.
- kills: `bpe encode` is killed (SIGKILL) at random moments, 50 times in all, in order, with a split, and shuffled; each
  time it is finished, the folder must equal that of an undisturbed run, byte for byte.
- memory: the peak memory of `bpe encode` for 2 GB of English (at most 400 MB with two threads) and for 20 million
  documents of one token (at most 500 MB).
- disk: a file system of a few megabytes is mounted (as root, Linux), and `bpe encode` fills it: the error names the
  file. The file system gets more room, and the same command gives the bytes of an undisturbed run.

Without a name, all of them run. It takes 20 minutes on two cores, and 10 GB of disk space.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from inputs import NAMES, SEPARATOR, at_least, find_corpora, write_vocabularies

import bpe
from bpe.data import encode_shards, verify
from bpe.data.formats import SHARD_FORMATS

#: The ways to encode that are killed: flags, and the size of a shard in tokens for a corpus of 100 MB.
WAYS = {
    "native, in order": ["--format", "native", "--shard-size", "700000"],
    "megatron, with a split": ["--format", "megatron", "--shard-size", "700000", "--validation", "0.05"],
    "datatrove, shuffled": ["--format", "datatrove", "--shards", "16", "--shuffle", "7"],
    "native from .jsonl.zst": ["--format", "native", "--shard-size", "700000"],
}


def main() -> None:
    """Run the checks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checks", nargs="*", help="streams, kills, memory, disk; default all")
    parser.add_argument("--size", type=at_least(1), default=1 << 20, help="use so many MB of each corpus; default all")
    parser.add_argument("--kills", type=at_least(1), default=50)
    parser.add_argument("--threads", type=at_least(1), default=2)
    parser.add_argument("--folder", help="for temporary files; default $TMPDIR")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        vocab_text = write_vocabularies(["r50k"], folder)["r50k"].split(",")
        ranks = bpe.Tokenizer.from_tiktoken(vocab_text[1], "gpt2", {SEPARATOR: 50256})
        ranks.save(folder / "tokenizer.json")
        checks = {"streams": check_streams, "kills": check_kills, "memory": check_memory, "disk": check_disk}
        for check in options.checks or checks:
            start_time = time.perf_counter()
            for line in checks[check](folder, options):
                print(line, flush=True)
            print(f"{check}: {time.perf_counter() - start_time:.0f} s", file=sys.stderr)


# Streams --------------------------------------------------------------------------------------------------------------


def check_streams(folder: Path, options: argparse.Namespace) -> Iterator[str]:
    """Every corpus in every source format to every shard format."""
    tokenizer = bpe.Tokenizer.load(folder / "tokenizer.json")
    for path in find_corpora([], folder, NAMES):
        paths = write_sources(path, options.size << 20)
        documents = bpe.Sources(paths["txt.xz"], separator=SEPARATOR, separator_ends=True).documents()
        expected = hash_batches([tokenizer.encode_batch(list(documents), threads=options.threads, append=50256)])
        for kind, source in paths.items():
            for name in SHARD_FORMATS:
                out = folder / "shards"
                stream_sources = bpe.Sources(source, separator=SEPARATOR if kind == "txt.xz" else None)
                encode_shards(stream_sources, tokenizer, out, format=name, append=SEPARATOR, threads=options.threads)
                is_equal = hash_shards(out, name) == expected
                defects = verify(out, samples=20) if name == "native" else []
                yield f"{path.stem} {kind} {name}: {'the same ids' if is_equal else 'DIFFERENT'}{' '.join(defects)}"
                if not is_equal or defects:
                    raise SystemExit("different ids")
                remove_paths(out)
        remove_paths(*paths.values(), path)


def write_sources(path: Path, size: int) -> dict[str, Path]:
    """A corpus as compressed text, compressed JSON Lines and Parquet."""
    import lzma

    import pyarrow as pa
    import pyarrow.parquet as pq

    documents = path.read_text(encoding="utf-8")[:size].removesuffix(SEPARATOR).split(SEPARATOR)
    paths = {kind: path.with_suffix(f".{kind}") for kind in ("txt.xz", "jsonl.zst", "parquet")}
    paths["txt.xz"].write_bytes(lzma.compress("".join(text + SEPARATOR for text in documents).encode(), preset=0))
    lines = "".join(json.dumps({"text": text}) + "\n" for text in documents)
    paths["jsonl.zst"].write_bytes(pa.compress(lines.encode(), codec="zstd", asbytes=True))
    pq.write_table(pa.table({"text": documents}), paths["parquet"], compression="zstd", row_group_size=5000)
    return paths


def hash_batches(batches: list[Any]) -> str:
    """A hash of the ids of all documents."""
    digest = hashlib.sha256()
    for batch in batches:
        digest.update(np.ascontiguousarray(batch.ids, dtype="<u4").data)
    return digest.hexdigest()


def hash_shards(out: Path, name: str) -> str:
    """A hash of the ids in a folder of shards."""
    digest = hashlib.sha256()
    manifest = bpe.data.Manifest.read(out)
    for shard in manifest.shards:
        for batch in SHARD_FORMATS[name].open(out / shard.files[0].name).batches():
            digest.update(np.ascontiguousarray(batch.ids, dtype="<u4").data)
    return digest.hexdigest()


# Kills ----------------------------------------------------------------------------------------------------------------


def check_kills(folder: Path, options: argparse.Namespace) -> Iterator[str]:
    """Kill the command at random moments until it has been killed so many times, and compare the results."""
    rng = random.Random(0)
    (path,) = find_corpora([], folder, ["english"])
    paths = write_sources(path, options.size << 20)
    for way, flags in WAYS.items():
        source = paths["jsonl.zst"] if "jsonl" in way else path
        command = [*make_command(folder, source, "jsonl" not in way), *flags]
        start_time = time.perf_counter()
        subprocess.run([*command, "-o", str(folder / "whole"), "--threads", "2"], check=True)
        lasts = time.perf_counter() - start_time
        expected = hash_files(folder / "whole")
        kills = runs = 0
        n_kills = -(-options.kills // len(WAYS))
        while kills < n_kills:
            out, runs = folder / "out", runs + 1
            finished = False
            while not finished:
                process = subprocess.Popen([*command, "-o", str(out), "--threads", str(rng.randint(1, 2))])
                try:
                    process.wait(rng.random() * lasts if kills < n_kills else None)
                    finished = process.returncode == 0
                    if not finished:
                        raise SystemExit(f"{way}: exit status {process.returncode}")
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                    kills += 1
            if hash_files(out) != expected:
                raise SystemExit(f"{way}: another result after a kill")
            remove_paths(out)
        yield f"{way}: {kills} kills in {runs} runs, each with the bytes of an undisturbed run ({len(expected)} files)"
        remove_paths(folder / "whole")
    remove_paths(*paths.values(), path)


def make_command(folder: Path, source: Path, separated: bool) -> list[str]:
    """The command line that encodes a source."""
    command = [sys.executable, "-m", "bpe", "encode", str(source), "-t", str(folder / "tokenizer.json"), "--quiet"]
    return [*command, "--separator", SEPARATOR] if separated else command


def hash_files(folder: Path) -> dict[str, str]:
    """The hash of each file of a folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


# Memory ---------------------------------------------------------------------------------------------------------------


def check_memory(folder: Path, options: argparse.Namespace) -> Iterator[str]:
    """Peak memory of the command."""
    (path,) = find_corpora([], folder, ["english"])
    text = path.read_bytes()
    large = folder / "large.txt"
    with open(large, "wb") as file:
        while file.tell() < min(2000 << 20, options.size << 20):
            file.write(text)
    small = folder / "small.txt"
    small.write_bytes(b"a\n" * min(20_000_000, options.size << 19))
    for name, source, flags, max_memory in (
        ("English, native", large, ["--separator", SEPARATOR, "--format", "native"], 400),
        ("English, megatron", large, ["--separator", SEPARATOR, "--format", "megatron"], 400),
        ("English, shuffled", large, ["--separator", SEPARATOR, "--format", "native", "--shuffle", "1"], 400),
        ("one document", large, ["--format", "native"], 400),
        ("one-token documents, native", small, ["--separator", "\\n", "--format", "native"], 500),
        ("one-token documents, megatron", small, ["--separator", "\\n", "--format", "megatron"], 500),
        ("one-token documents, dolma", small, ["--separator", "\\n", "--format", "dolma"], 500),
        ("one-token documents, shuffled", small, ["--separator", "\\n", "--format", "native", "--shuffle", "1"], 500),
    ):
        command = [*make_command(folder, source, separated=False), *flags, "--threads", str(options.threads)]
        start_time = time.perf_counter()
        peak = measure_peak([*command[3:], "-o", str(folder / "out")])
        seconds = time.perf_counter() - start_time
        manifest = bpe.data.Manifest.read(folder / "out")
        size = source.stat().st_size
        yield (
            f"{name}: {size / 1e6:,.0f} MB, {manifest.documents:,} documents, {manifest.tokens:,} tokens in "
            f"{seconds:.0f} s ({size / 1e6 / seconds:.0f} MB/s): {peak / 1e6:.0f} MB of memory"
        )
        remove_paths(folder / "out")
        if peak > max_memory * 1e6:
            raise SystemExit(f"{name}: more than {max_memory} MB")
    remove_paths(large, small, path)


#: Runs the command line and writes its peak memory in kB, which the system keeps per program and not per process.
_MEASURED = """
import sys
from bpe.cli import main
if main(sys.argv[1:]):
    raise SystemExit(1)
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def measure_peak(arguments: list[str]) -> int:
    """Run the command line with these arguments; returns its peak memory in bytes (Linux)."""
    process = subprocess.run(
        [sys.executable, "-c", _MEASURED, *arguments], check=True, stdout=subprocess.PIPE, text=True
    )
    return int(process.stdout) * 1024


# Disk -----------------------------------------------------------------------------------------------------------------


def check_disk(folder: Path, _: argparse.Namespace) -> Iterator[str]:
    """Fill a small file system, give it more room, and compare."""
    (path,) = find_corpora([], folder, ["english"])
    text = folder / "some.txt"
    text.write_bytes(path.read_bytes()[:10_000_000])
    small = folder / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=5m", "tmpfs", str(small)], check=False).returncode:
        yield "disk: left out, since this user may not mount a file system"
        return
    try:
        for flags in (*WAYS.values(), ["--format", "nanogpt", "--validation", "0.1"]):
            subprocess.run(["mount", "-o", "remount,size=5m", str(small)], check=True)
            command = [*make_command(folder, text, separated=True), *flags]
            subprocess.run([*command, "-o", str(folder / "whole")], check=True)
            command += ["-o", str(small / "out")]
            failed = subprocess.run(command, check=False, capture_output=True, text=True)
            error = failed.stderr.strip()
            if failed.returncode != 1 or f"{small}/out/" not in error or "No space left on device" not in error:
                raise SystemExit(f"{flags}: exit status {failed.returncode}, {error}")
            subprocess.run(["mount", "-o", "remount,size=100m", str(small)], check=True)
            subprocess.run(command, check=True)
            if hash_files(folder / "whole") != hash_files(small / "out"):
                raise SystemExit(f"{flags}: another result after a full disk")
            remove_paths(folder / "whole", small / "out")
            yield f"{' '.join(flags)}: {error.removeprefix('bpe: error: ')}; with room, the same bytes"
    finally:
        subprocess.run(["umount", str(small)], check=True)
    remove_paths(text, path, small)


def remove_paths(*paths: Path) -> None:
    """Remove files and folders."""
    for path in paths:
        if path.is_dir():
            for path_inside in path.iterdir():
                remove_paths(path_inside)
            path.rmdir()
        else:
            path.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
