"""Requests of a server, by 1, 4 and 16 threads that share a tokenizer: latency and throughput beside other libraries.

    python benchmarks/bench_serving.py [FILE] [--vocab NAME]… [--peer NAME]… [--threads N]… [--seconds S] [--repeat N]
                                       [-o OUT.json]

A request is a short text (200 bytes), a long one (100 KB), or a chat of 6 messages (500 bytes each), whose template is
rendered and encoded; there are many of each, in turn. Each thread sends the next one when it has the ids of the last,
as a list, which is what servers ask for. Libraries with the methods of transformers are called by these: ours is
`bpe.accelerate`. The others are called in their own way, and so is ours once more ("bpe, native"); they have no chats.

All run in one process, alternated, on all cores. The table has the median and the 99th percentile of the time of a
request over all rounds, in microseconds, and the requests per second. A "!" marks a library whose ids differ from
those of transformers for one of the first requests. The last table shows what an event loop waits while a thread
encodes: a coroutine does nothing but yield, beside `asyncio.to_thread` of a text of 10 MB; the time is the longest that
it was away, the median of all rounds. It needs two idle cores; the last row holds the interpreter all the time.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bench_compat import load_compatible
from peers.callers import load_callers
from peers.common import Vocab
from report import (
    VOCAB_NAMES,
    at_least,
    describe_machine,
    find_corpora,
    make_parser,
    print_table,
    save_measurements,
    write_vocabularies,
)

#: The libraries with the methods of transformers, and those with their own.
COMPATIBLE = ("bpe", "transformers", "gigatoken", "tuetoken")
NATIVE = ("bpe, native", "fastokens", "toktok", "splintr", "quicktok")
#: Kind of request → (bytes of a text, how many there are).
SIZES = {"short": (200, 2000), "long": (100_000, 20)}
CHAT_MESSAGES, MESSAGE_SIZE, N_CHATS = 6, 500, 200
#: Requests of each kind whose ids are compared.
N_COMPARED = 10
LOOP_BYTES = 10_000_000


def main() -> None:
    """Measure, compare, print two tables, write JSON."""
    parser = make_parser(__doc__)
    parser.add_argument("file", nargs="?", type=Path, help="UTF-8 text")
    parser.add_argument("--vocab", choices=VOCAB_NAMES, action="append", help="may be repeated; default cl100k")
    parser.add_argument("--peer", choices=(*COMPATIBLE, *NATIVE), action="append", help="may be repeated; default all")
    parser.add_argument("--threads", type=at_least(1), action="append", help="may be repeated; default 1, 4 and 16")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a measurement; default 0.5")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        (path,) = find_corpora([options.file] if options.file else [], folder, ("english",))
        text = path.read_bytes()[: LOOP_BYTES + 4].decode("utf-8", "ignore").replace("<|endoftext|>", "")
        for vocab_name, files in write_vocabularies(options.vocab or ["cl100k"], folder).items():
            calls = load_calls(Vocab(*files.split(",")), options.peer or [*COMPATIBLE, *NATIVE])
            for kind, requests in make_requests(text).items():
                calls_of_kind = {name: call[kind] for name, call in calls.items() if kind in call}
                if not calls_of_kind:
                    continue
                differing = find_differing(calls_of_kind, requests)
                for n_threads in options.threads or (1, 4, 16):
                    setting = {"vocab": vocab_name, "request": kind, "threads": n_threads}
                    measured = measure_all(calls_of_kind, requests, n_threads, options)
                    rows += [
                        {**setting, "library": name, "differs": name in differing, **times}
                        for name, times in measured.items()
                    ]
            rows += measure_loop(vocab_name, files.split(",")[1], text, options.repeat)
    report(rows, options)
    save_measurements(options.output, rows)


def load_calls(vocab: Vocab, names: list[str]) -> dict[str, dict[str, Callable[[Any], Any]]]:
    """Load the libraries: name → kind of request → a function that returns its ids."""
    calls: dict[str, dict[str, Callable[[Any], Any]]] = {}
    for name, tokenizer in load_compatible(vocab).items():
        encode = partial(lambda tok, text: tok(text)["input_ids"], tokenizer)
        calls[name] = {"short": encode, "long": encode}
        try:
            tokenizer.apply_chat_template([{"role": "user", "content": "x"}])
            calls[name]["chat"] = partial(lambda tok, chat: tok.apply_chat_template(chat)["input_ids"], tokenizer)
        except Exception as error:  # noqa: BLE001  # whatever a library raises that has no chats
            print(f"{name} has no chats: {error!r:.80}", file=sys.stderr)
    callers, missing = load_callers(vocab, [name.partition(",")[0] for name in NATIVE if name in names])
    for name in NATIVE:
        if (caller := callers.get(name.partition(",")[0])) is not None:
            calls[name] = {"short": caller["list"], "long": caller["list"]}
    for name, reason in missing.items():
        print(f"without {name}: {reason}", file=sys.stderr)
    return {name: call for name, call in calls.items() if name in names}


def make_requests(text: str) -> dict[str, list[Any]]:
    """Make the requests of each kind."""
    requests: dict[str, list[Any]] = {
        kind: [text[i : i + size] for i in range(0, n * size, size) if i < len(text)]
        for kind, (size, n) in SIZES.items()
    }
    starts = itertools.cycle(range(0, len(text) - MESSAGE_SIZE, MESSAGE_SIZE))
    requests["chat"] = [
        [
            {"role": ("user", "assistant")[i % 2], "content": text[start : start + MESSAGE_SIZE]}
            for i, start in zip(range(CHAT_MESSAGES), starts, strict=False)
        ]
        for _ in range(N_CHATS)
    ]
    return requests


def find_differing(calls: dict[str, Callable[[Any], Any]], requests: list[Any]) -> set[str]:
    """Find the libraries whose ids differ from those of transformers, or of the first; ours must not."""
    ids = {name: [list(map(int, call(request))) for request in requests[:N_COMPARED]] for name, call in calls.items()}
    expected = ids.get("transformers", next(iter(ids.values())))
    differing = {name for name, ids_of_library in ids.items() if ids_of_library != expected}
    if differing & {"bpe", "bpe, native"}:
        raise SystemExit("the ids of bpe differ from those of transformers")
    return differing


def measure_all(
    calls: dict[str, Callable[[Any], Any]], requests: list[Any], n_threads: int, options: argparse.Namespace
) -> dict[str, dict[str, float]]:
    """Measure libraries, alternated: name → microseconds of the median and the 99th percentile, and requests/s."""
    latencies: dict[str, list[float]] = {name: [] for name in calls}
    rates: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(options.repeat):
        for name, call in calls.items():
            measured, rate = measure(call, requests, n_threads, options.seconds)
            latencies[name] += measured
            rates[name].append(rate)
    results = {}
    for name, measured in latencies.items():
        measured.sort()
        p50, p99 = (measured[int(len(measured) * share)] * 1e6 for share in (0.5, 0.99))
        results[name] = {"p50": p50, "p99": p99, "rate": statistics.median(rates[name])}
    return results


def measure(
    call: Callable[[Any], Any], requests: list[Any], n_threads: int, seconds: float
) -> tuple[list[float], float]:
    """Send requests by threads for some seconds: the seconds of each, and how many there were per second."""
    latencies: list[list[float]] = [[] for _ in range(n_threads)]
    barrier = threading.Barrier(n_threads)

    def send(index: int) -> None:
        own_requests = itertools.cycle(requests[index % len(requests) :] + requests[: index % len(requests)])
        own_latencies = latencies[index]
        barrier.wait()
        start = now = time.perf_counter()
        while now < start + seconds:
            request = next(own_requests)
            sent = time.perf_counter()
            call(request)
            now = time.perf_counter()
            own_latencies.append(now - sent)

    threads = [threading.Thread(target=send, args=(index,)) for index in range(n_threads)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    passed = time.perf_counter() - start
    return [latency for row in latencies for latency in row], sum(map(len, latencies)) / passed


def measure_loop(vocab: str, ranks: str, text: str, repeat: int) -> list[dict[str, Any]]:
    """Measure how long an event loop is away while a thread encodes a long text."""
    import bpe

    tok = bpe.Tokenizer.load(ranks)
    texts = [text[i : i + 10_000] for i in range(0, len(text), 10_000)]
    calls: dict[str, Callable[[], Any]] = {
        "encode": lambda: tok.encode(text),
        "encode, with special tokens": lambda: tok.encode(text, allowed_special="all"),
        "count_tokens": lambda: tok.count_tokens(text),
        "encode_batch": lambda: tok.encode_batch(texts),
        "str.encode (for comparison)": text.encode,
    }
    rows = []
    for name, call in calls.items():
        call()
        waits, took = zip(*(asyncio.run(find_longest_wait(call)) for _ in range(4 * repeat)), strict=True)
        rows.append(
            {
                "vocab": vocab,
                "loop": name,
                "ms": statistics.median(waits) * 1e3,
                "call_ms": statistics.median(took) * 1e3,
            }
        )
    return rows


async def find_longest_wait(call: Callable[[], Any]) -> tuple[float, float]:
    """Find how long a coroutine is away that only yields while a thread makes a call: (the longest, the call's)."""
    task = asyncio.create_task(asyncio.to_thread(call))
    await asyncio.sleep(0)
    longest, start = 0.0, time.perf_counter()
    last = start
    while not task.done():
        await asyncio.sleep(0)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    return longest, last - start


def report(rows: list[dict[str, Any]], options: argparse.Namespace) -> None:
    """Print the tables."""
    print(f"{describe_machine()}; {options.repeat} rounds of {options.seconds} s\n")
    lines = [
        (
            row["vocab"], row["request"], row["threads"], row["library"] + "!" * row["differs"],
            f"{row['p50']:.1f}", f"{row['p99']:.1f}", f"{row['rate']:,.0f}",
        )
        for row in rows
        if "request" in row
    ]  # fmt: skip
    print_table(("vocabulary", "request", "threads", "library", "p50, µs", "p99, µs", "requests/s"), lines)
    print()
    loops = [(row["vocab"], row["loop"], f"{row['ms']:.2f}", f"{row['call_ms']:.1f}") for row in rows if "loop" in row]
    print_table(("vocabulary", "beside an event loop, 10 MB", "the loop is away, ms", "the call takes, ms"), loops)


if __name__ == "__main__":
    main()
