"""Share each public object among threads that call it, change it, copy it, and change what it was given.

    python benchmarks/checks/check_threads.py [OBJECT …] [--seconds N] [--seed S] [--threads 8]

Each object is used in a process of its own, so that a crash is found and named. Its threads make random calls for N
seconds, with the shortest switch interval. Each result must be one that some order of the calls gives: for an object
that does not change, what one thread gets; for settings, what one thread gets under one of them; for counts, never less
than before, and in the end the sum of all. Lists and arrays of the caller are changed by one thread while others pass
them: a call then sees any state of each item, or raises an error that says so. The objects are listed in
`tests/support/shared_objects.py`.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import random
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

from comparing import make_parser, run_each
from inputs import at_least
from shared_objects import CASES
from sharing import SharedObject, SkippedError

#: The most seconds that a process may take longer than its threads. Under ThreadSanitizer, `regex` needs 55 to begin.
PATIENCE = 300.0


def check_object(name: str, seconds: float, seed: int, threads: int) -> None:
    """Share one object, in this process."""
    faulthandler.enable()
    logging.disable()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        try:
            shared = CASES[name](Path(folder))
        except SkippedError as reason:
            print(f"{name}: skipped, {reason}", flush=True)
            return
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            calls, faults = use_object(shared, seconds, seed, threads)
        finally:
            sys.setswitchinterval(interval)
        faults += shared.finish()
        del shared
    for problem in faults[:3]:
        print(f"{name}: {problem}", flush=True)
    if faults:
        raise SystemExit(f"{name}: {len(faults)} wrong of {calls} calls")
    print(f"{name}: {calls} calls of {threads} threads, all right", flush=True)


def use_object(shared: SharedObject, seconds: float, seed: int, threads: int) -> tuple[int, list[str]]:
    """Let threads use an object: the number of calls, and what was wrong."""
    faults: list[str] = []
    counts = [0] * threads
    start, end = threading.Barrier(threads), time.monotonic() + seconds

    def work(index: int) -> None:
        rng = random.Random(seed * 1000 + index)
        start.wait(60)
        while len(faults) < 100 and time.monotonic() < end:
            try:
                problem = shared.step(index, rng)
            except BaseException:  # noqa: BLE001 (whatever it is, it is a fault, and shown)
                problem = traceback.format_exc()
            counts[index] += 1
            if problem:
                faults.append(str(problem))

    started = [threading.Thread(target=work, args=(index,)) for index in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return sum(counts), faults


def main() -> int:
    """Run the checks."""
    parser = make_parser(__doc__)
    parser.add_argument("objects", nargs="*", metavar="OBJECT", help=f"default all: {', '.join(CASES)}")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each object")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=at_least(2), default=8)
    parser.add_argument("--in-process", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if unknown := set(options.objects) - CASES.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}; the objects are {', '.join(CASES)}")
    if options.in_process:
        check_object(options.objects[0], options.seconds, options.seed, options.threads)
        return 0
    arguments = [f"--{name}={getattr(options, name)}" for name in ("seconds", "seed", "threads")]
    return run_each(__file__, options.objects or list(CASES), arguments, options.seconds + PATIENCE)


if __name__ == "__main__":
    sys.exit(main())
