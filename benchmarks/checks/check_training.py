"""Train on whole corpora in every way; the run fails unless all tokenizers are the same to the last merge.

    python benchmarks/checks/check_training.py [FILE…] [--vocab-size N] [--seed N]

For each file and each tie rule, training runs with one, two and eight threads. With the default rule, it also runs

- with blocks of other sizes;
- with memory limits, in new processes whose peak, as the kernel reports it, must stay within the limit: the peak of a
  training without a limit, three quarters of that, and the smallest limit that is accepted (found by following the
  error messages), with which counts are written to disk if there are enough of them;
- with a checkpoint, killed by SIGKILL at random moments and resumed until it ends.

Without FILE, the shared corpora are used. It takes minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from inputs import SEPARATOR, at_least, find_corpora

import bpe
from bpe.corpus import blocks as corpus
from bpe.count._word_table import WordTable
from bpe.count.spilling import Spill
from bpe.training import checkpoint
from bpe.training.merge_rules import TIE_BREAKS

KILLS = 8


def main() -> None:
    """Check every file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="UTF-8 text, documents separated by <|endoftext|>")
    parser.add_argument("--vocab-size", type=at_least(256), default=32000)
    parser.add_argument("--seed", type=int, default=1, help="decides when a training is killed")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(one(json.loads(options.child))))
        return
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for path in find_corpora(options.files, folder):
            start_time = time.perf_counter()
            base = {"files": str(path), "separator": SEPARATOR, "vocab_size": options.vocab_size}
            expected = in_new_process(base)
            choose = random.Random(f"{options.seed} {path.name}")
            for way, is_equal in (*threads(base), *blocks(base, expected), *budgets(base, expected)):
                failures += report(path, way, is_equal)
            failures += report(path, *killed(base, expected, choose, Path(folder) / "checkpoint"))
            print(f"{path.name}: {time.perf_counter() - start_time:.0f} s", file=sys.stderr)
    if failures:
        raise SystemExit("different: " + ", ".join(failures))


def report(path: Path, way: str, is_equal: bool) -> list[str]:
    """Print the outcome of a way to train; return it as a list if it was wrong."""
    print(f"{path.name} {way}: {'the same' if is_equal else 'DIFFERENT'}", flush=True)
    return [] if is_equal else [f"{path.name} {way}"]


def one(arguments: dict[str, Any]) -> dict[str, Any]:
    """Train in this process: the tokenizer's fingerprint, the peak in bytes and the seconds, or the error."""
    tuning = arguments.pop("tuning", {})
    checkpoint.SAVE_EVERY = tuning.get("save_every", checkpoint.SAVE_EVERY)
    corpus.BLOCK_BYTES = tuning.get("block", corpus.BLOCK_BYTES)
    spilled: list[int] = []
    add = Spill.add

    def recording_add(spill: Spill, table: WordTable) -> None:
        spilled.append(table.memory)
        add(spill, table)

    Spill.add = recording_add  # type: ignore[assignment,method-assign]
    sources = bpe.Sources(arguments.pop("files"), separator=arguments.pop("separator"))
    rules = bpe.MergeRules(tie_break=arguments.pop("tie_break", "id"))
    start_time = time.perf_counter()
    try:
        tok = bpe.train(files=sources, rules=rules, **arguments)
    except ValueError as error:
        return {"error": str(error)}
    took = time.perf_counter() - start_time
    status = Path("/proc/self/status").read_text()
    peak = int(re.search(r"VmHWM:\s*(\d+) kB", status)[1]) * 1024  # type: ignore[index]
    return {"fingerprint": tok.fingerprint, "peak": peak, "seconds": took, "spilled": bool(spilled)}


def command(arguments: dict[str, Any]) -> list[str]:
    """The command that runs `one` in a new process."""
    return [sys.executable, __file__, "--child", json.dumps(arguments)]


def in_new_process(arguments: dict[str, Any]) -> dict[str, Any]:
    """The result of `one` in a new process."""
    process = subprocess.run(command(arguments), stdout=subprocess.PIPE, check=True, text=True)
    result: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return result


def threads(base: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """Train with one, two and eight threads and every tie rule."""
    for rule in TIE_BREAKS:
        fingerprints = {
            n_threads: in_new_process(base | {"tie_break": rule, "threads": n_threads})["fingerprint"]
            for n_threads in (1, 2, 8)
        }
        yield f"{rule}, 1, 2 and 8 threads ({fingerprints[1][:8]})", len({*fingerprints.values()}) == 1


def blocks(base: dict[str, Any], expected: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """Train with blocks of other sizes."""
    for size in (100_003, 1 << 26):
        result = in_new_process(base | {"threads": 2, "tuning": {"block": size}})
        yield f"blocks of {size} bytes", result["fingerprint"] == expected["fingerprint"]


def budgets(base: dict[str, Any], expected: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """Train with memory limits, down to the smallest that is accepted."""
    for share in (1, 0.75, 0):
        budget = int(expected["peak"] * share) or 1
        result = in_new_process(base | {"max_memory": budget})
        while "error" in result:
            budget = 1 + max(int(needed) for needed in re.findall(r"(?:least|need) (\d+)", result["error"]))
            result = in_new_process(
                base | {"max_memory": budget + (1 << 20)}
            )  # 1 MB more, since a process's initial memory varies
        about = f"{'' if share else 'smallest, '}{budget / 1e6:.0f} MB (took {result['peak'] / 1e6:.0f} MB, "
        about += f"{result['seconds']:.1f} s, {'counts' if result['spilled'] else 'nothing'} on disk)"
        is_within_budget = result["peak"] <= budget + (1 << 20)
        yield f"max_memory {about}", result["fingerprint"] == expected["fingerprint"] and is_within_budget


def killed(base: dict[str, Any], expected: dict[str, Any], choose: random.Random, path: Path) -> tuple[str, bool]:
    """Train with a checkpoint, and kill the process several times."""
    arguments = base | {"checkpoint": str(path), "tuning": {"save_every": 0.05}}
    had = []
    for _ in range(KILLS):
        process = subprocess.Popen(command(arguments), stdout=subprocess.DEVNULL)
        try:
            process.wait(0.3 + choose.random() * 1.2 * expected["seconds"])
        except subprocess.TimeoutExpired:
            process.kill()
        process.wait()
        if path.exists():
            had.append(checkpoint.read_progress(path)[0])
    result = in_new_process(arguments)
    for file in (path, Path(f"{path}.counts")):
        os.unlink(file)
    return f"killed and resumed, with {had} merges saved", result["fingerprint"] == expected["fingerprint"]


if __name__ == "__main__":
    main()
