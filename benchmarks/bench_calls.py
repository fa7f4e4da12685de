"""Small calls beside the fastest libraries: counting, lists, arrays, offsets, special tokens, truncation.

    python benchmarks/bench_calls.py [FILE] [--corpus NAME]… [--vocab NAME]… [--peer NAME]… [--call PATTERN]
                                     [--repeat N] [-o OUT.json]

All libraries run in one process, on one core, and are alternated; the table shows medians of CPU time in microseconds
per call, with the ratio to this package's (over 1: the library is slower). A text is encoded again and again, so that
every cache has it; "other" is 1,000 different texts in order. Results are compared, and a difference is shown in place
of a time: not all libraries are exact. `empty` is a call without work, and "best" the ratio of the fastest library.
Without FILE, the shared corpora are used: English if none is named. Korean and Japanese are read as they are, other
text without what is not ASCII.
"""

from __future__ import annotations

import itertools
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from peers.callers import CALLERS, Calls, load_callers, read_beginning
from peers.common import SEPARATOR, THREAD_VARIABLES, Vocab
from report import (
    NAMES,
    VOCAB_NAMES,
    describe_machine,
    find_corpora,
    make_parser,
    print_table,
    save_measurements,
    write_vocabularies,
)

#: Seconds that one measurement takes.
DURATION = 0.01
N_TEXTS = 1000


def main() -> None:
    """Measure, compare, print a table, write JSON."""
    parser = make_parser(__doc__, repeat=9)
    parser.add_argument("file", nargs="?", type=Path, help="text, of which the ASCII characters are used")
    parser.add_argument("--corpus", choices=NAMES, action="append", help="may be repeated; default english")
    parser.add_argument(
        "--vocab", choices=(*VOCAB_NAMES, "llama"), action="append", help="may be repeated; default cl100k"
    )
    parser.add_argument("--peer", choices=list(CALLERS), action="append", help="may be repeated; default all")
    parser.add_argument(
        "--call", type=re.compile, default=re.compile(""), metavar="PATTERN", help="of the calls measured; default all"
    )
    options = parser.parse_args()
    for name in THREAD_VARIABLES:
        os.environ[name] = "1"
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    names = list(dict.fromkeys(["bpe", *(options.peer or CALLERS)]))
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        paths = find_corpora([options.file] if options.file else [], folder, options.corpus or ["english"])
        texts = {path.stem: read_beginning(path, 8 << 20, path.stem not in ("korean", "japanese")) for path in paths}
        for vocab_name, vocab_text in write_vocabularies(options.vocab or ["cl100k"], folder).items():
            callers, missing = load_callers(Vocab(*vocab_text.split(",")), names)
            for name, reason in missing.items():
                print(f"{name}: {reason}", file=sys.stderr)
            for corpus, text in texts.items():
                for title, call, arguments in list_cases(text):
                    if not options.call.search(title):
                        continue
                    times = measure_case(callers, call, arguments, options.repeat)
                    rows.append({"vocab": vocab_name, "corpus": corpus, "call": title, "microseconds": times})
    report(rows, names, options.repeat)
    save_measurements(options.output, rows)


def list_cases(text: str) -> list[tuple[str, str, list[tuple[Any, ...]]]]:
    """List what is measured: (title, call, the arguments of each call)."""
    start = text.index(" ", 100_000)
    cases: list[tuple[str, str, list[tuple[Any, ...]]]] = []
    for call, sizes in (("count", (20, 200, 2000)), ("list", (20, 200)), ("array", (20, 200)), ("offsets", (20, 200))):
        for size in sizes:
            cases.append((f"{call}, {size:,} characters", call, [(text[start : start + size],)]))
            texts = [(text[i : i + size],) for i in range(start, start + 2000 * N_TEXTS, 2000)]
            cases.append((f"{call}, {size:,} characters, other", call, texts))
    cases += [
        (f"{call}, 1,000,000 characters", call, [(text[start : start + 1_000_000],)])
        for call in ("count", "array", "offsets")
    ]
    with_specials = [
        (SEPARATOR.join([text[i : i + 60] for i in range(begin, begin + 200, 60)]),)
        for begin in range(start, start + 2000 * N_TEXTS, 2000)
    ]
    cases.append(("special tokens in 200 characters", "special", with_specials[:1]))
    cases.append(("special tokens in 200 characters, other", "special", with_specials))
    cases.append(("truncate, 200 characters to 20 tokens", "truncate", [(text[start : start + 200], 20)]))
    cases.append(("truncate, 20,000 characters to 100 tokens", "truncate", [(text[start : start + 20_000], 100)]))
    many = [text[i : i + 2000] for i in range(start, start + 2_000_000, 2000)]
    cases.append(("lists of 1,000 texts of 2,000 characters", "lists", [(many,)]))
    return cases


def measure_case(
    callers: dict[str, Calls], call: str, arguments: list[tuple[Any, ...]], repeat: int
) -> dict[str, float | str]:
    """Measure a call of each library that has it: microseconds, or in what its result differs."""
    functions = {name: calls[call] for name, calls in callers.items() if call in calls}
    results: dict[str, float | str] = {}
    expected = [to_plain(functions["bpe"](*each)) for each in arguments[:50]]
    for name, function in list(functions.items()):
        if name != "empty" and [to_plain(function(*each)) for each in arguments[:50]] != expected:
            results[name] = "differs"
            del functions[name]
    loops = {name: count_loops(function, arguments) for name, function in functions.items()}
    samples: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeat):
        for name, function in functions.items():
            samples[name].append(time_calls(function, arguments, loops[name]))
    return results | {name: statistics.median(taken) for name, taken in samples.items()}


def to_plain(result: Any) -> Any:
    """Convert a result to lists and tuples of int, so that results of several types compare equal."""
    if isinstance(result, tuple):
        return [to_plain(part) for part in result]
    if hasattr(result, "tolist"):
        return result.tolist()
    if isinstance(result, list) and result and isinstance(result[0], (list, tuple)):
        return [list(row) for row in result]
    return result


def count_loops(function: Callable[..., Any], arguments: list[tuple[Any, ...]]) -> int:
    """Count how often to make all calls in one measurement."""
    n_loops, seconds = 1, 0.0
    while seconds < DURATION / 4:  # fewer than a millisecond's calls are not measured exactly
        n_loops *= 2
        seconds = time_calls(function, arguments, n_loops) * 1e-6 * n_loops * len(arguments)
    seconds = time_calls(function, arguments, n_loops) * 1e-6 * n_loops * len(arguments)  # the first calls were slow
    return max(1, int(n_loops * DURATION / seconds))


def time_calls(function: Callable[..., Any], arguments: list[tuple[Any, ...]], n_loops: int) -> float:
    """Return the microseconds of CPU time per call, once the caches no longer hold another library's data."""
    for each in arguments:
        function(*each)
    start = time.process_time()
    if len(arguments) == 1 and len(arguments[0]) == 1:
        (argument,) = arguments[0]
        for _ in itertools.repeat(None, n_loops):
            function(argument)
    else:
        for _ in itertools.repeat(None, n_loops):
            for each in arguments:
                function(*each)
    return (time.process_time() - start) / (n_loops * len(arguments)) * 1e6


def report(rows: list[dict[str, Any]], names: list[str], repeat: int) -> None:
    """Print the microseconds per call, with the ratios to this package's."""
    print(f"{describe_machine()}; one core, µs per call (ratio to bpe), medians of {repeat}\n")
    lines = []
    for row in rows:
        taken = row["microseconds"]
        best = min([value for name, value in taken.items() if is_rival(name, value)], default=None)
        cells = ["–" if best is None else f"{best / taken['bpe']:.2f}"]
        for name in names:
            value = taken.get(name, "–")
            ratio = f" ({value / taken['bpe']:.2f})" if isinstance(value, float) and name != "bpe" else ""
            cells.append(f"{value:.2f}{ratio}" if isinstance(value, float) else value)
        lines.append((row["vocab"], row["corpus"], row["call"], *cells))
    print_table(("vocabulary", "text", "call", "best", *names), lines)


def is_rival(name: str, value: float | str) -> bool:
    """Whether a time is that of another library with the same results."""
    return isinstance(value, float) and name not in ("bpe", "empty")


if __name__ == "__main__":
    main()
