"""What the checks share: arguments, the count of results, calls of peers, and processes of their own.

A script that imports this module can also import the modules of `tests/support`.

A check of generated files gives a result for each: a line, of which "different: …" is a difference with details on more
lines, and "refused: …" a refusal with its reason.
"""

from __future__ import annotations

import argparse
import logging
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from bpe.errors import FormatError

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests" / "support"))


def make_parser(doc: str | None) -> argparse.ArgumentParser:
    """Make the parser of a check's arguments; its help is the docstring."""
    return argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)


def make_files_parser(doc: str | None) -> argparse.ArgumentParser:
    """Make the parser of a check of generated files."""
    parser = make_parser(doc)
    parser.add_argument("--files", metavar="N", type=int, default=10_000)
    parser.add_argument("--seed", metavar="S", type=int, default=0)
    parser.add_argument("--first", metavar="I", type=int, default=0, help="number of the first file (default 0)")
    parser.add_argument("--show", metavar="N", type=int, default=20, help="differences to print (default 20)")
    return parser


def make_generators(options: argparse.Namespace) -> Iterator[random.Random]:
    """Make a generator of random numbers for each file."""
    for index in range(options.first, options.first + options.files):
        yield random.Random(f"{options.seed} {index}")


def count_results(options: argparse.Namespace, results: Iterable[str]) -> Counter[str]:
    """Count the results of the files, and print the differences and the counts."""
    counts: Counter[str] = Counter()
    shown = 0
    for index, result in enumerate(results, options.first):
        counts[result.split("\n")[0]] += 1
        if result.startswith("different") and shown < options.show:
            shown += 1
            print(f"file {index} of seed {options.seed}: {result}", flush=True)
    for kind, count in counts.most_common():
        print(f"{count:>7} {kind}")
    return counts


def run_check(check: Callable[[], Counter[str]]) -> NoReturn:
    """Run a check as a script, without the log: the exit status is 1 if anything differs."""
    logging.disable()
    sys.exit(any(kind.startswith("different") for kind in check()))


def call_peer(call: Callable[[], Any]) -> tuple[Any, str]:
    """Return (result, "") or (None, name of the error); `tokenizers` raises a BaseException where its Rust panics."""
    try:
        return call(), ""
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001
        return None, type(error).__name__


def get_reason(error: Exception) -> str:
    """Return the part of a file and the rule of a refusal, without what differs from file to file."""
    where = re.sub(r"\[.*?\]|'.*'", "", getattr(error, "where", None) or "").split(" ")[0]
    message = (error.message if isinstance(error, FormatError) else str(error)).partition(" of the text")[0]
    words = re.sub(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\[.*?\]|\{.*?\}|\d+", "…", message)
    return f"{where}: {words[:120]}" if where else words[:120]


def run_each(script: str, names: Sequence[str], arguments: Iterable[str], seconds: float) -> int:
    """Run a script for each name in a process of its own, so that a crash is found; the exit status.

    The process gets the arguments, and --in-process. One that has not ended after so many seconds hangs.
    """
    failed = []
    for name in names:
        try:
            command = [sys.executable, script, name, *arguments, "--in-process"]
            status: object = subprocess.run(command, timeout=seconds).returncode
        except subprocess.TimeoutExpired:
            status = f"it hangs: no exit after {seconds:.0f} s"
        if status:
            print(f"{name}: FAILED ({status})", flush=True)
            failed.append(name)
    print(f"failed: {', '.join(failed)}" if failed else "all right", flush=True)
    return min(len(failed), 1)
