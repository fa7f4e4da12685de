"""Drop-in interfaces beside the libraries that they replace: `bpe.compat.tiktoken` and tiktoken, on one core.

    python benchmarks/bench_compat.py [FILE…] [--vocab NAME]… [--peer tiktoken|transformers] [--repeat N] [-o OUT.json]

Both are called in the same way, and both return lists of int (`decode` takes them). The texts are parts of the
file, cut to 200 bytes, 2 KB and 1 MB; the batch has 1,000 documents of about 2 KB. "new" encodes each text for the
first time with this vocabulary in the process, "again" a second time. The libraries are alternated in one process,
which is pinned to one core, and CPU time is measured; the table shows medians of `--repeat` rounds and how many times
as fast `bpe` is. All results are compared, and one difference fails the run. Without FILE, the shared corpora are used.

With `--peer transformers`: a tokenizer of transformers and the same after `bpe.accelerate`, called in the same way with
1,000 documents of about 2 KB and with one text of 44 bytes; and the cost of `Encoding` objects, whose other columns are
not read, beside the native ids: of these documents, of texts of 60 bytes, and of pairs of those. transformers takes
seconds for 1,000 documents, so that it encodes and decodes them in two of the rounds only (`SLOW_ROUNDS`): a run with
the default corpora takes two to three minutes.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from report import (
    SEPARATOR,
    VOCAB_NAMES,
    at_least,
    cut_file,
    describe_machine,
    find_corpora,
    print_table,
    save_measurements,
    write_vocabularies,
)

#: Texts of each size: their bytes → how many.
SIZES = {200: 2000, 2_000: 500, 1_000_000: 3}
BATCH = (1000, 2_000)  # documents, bytes of each


def read_texts(path: Path, size: int, n_texts: int, folder: str) -> list[str]:
    """Texts of a size from a file, none of which overlap."""
    data = cut_file(path, size * n_texts + (1 << 16), folder).read_bytes().replace(SEPARATOR, b"\n")
    return [
        data[position : position + size].decode("utf-8", "ignore") for position in range(0, len(data) - size, size)
    ][:n_texts]


def make_jobs(path: Path, folder: str) -> dict[str, tuple[list[Any], Callable[[Any, Any], Any]]]:
    """Name → (the inputs, a function of an encoding and one of them)."""
    calls: dict[str, tuple[list[Any], Callable[[Any, Any], Any]]] = {}
    for size, n_texts in SIZES.items():
        texts = read_texts(path, size, n_texts, folder)
        calls[f"encode_ordinary {size}"] = texts, lambda enc, text: enc.encode_ordinary(text)
        calls[f"encode {size}"] = texts, lambda enc, text: enc.encode(text)
        calls[f"decode {size}"] = texts, lambda enc, ids: enc.decode(ids)
    batch = [read_texts(path, BATCH[1], BATCH[0], folder)]
    calls["encode_ordinary_batch"] = batch, lambda enc, texts: enc.encode_ordinary_batch(texts, num_threads=1)
    calls["encode_batch"] = batch, lambda enc, texts: enc.encode_batch(texts, num_threads=1)
    return calls


def time_call(enc: Any, call: Callable[[Any, Any], Any], inputs: list[Any]) -> tuple[float, list[Any]]:
    """Seconds of CPU time for all inputs, and the results, which are kept until the clock stops."""
    gc.collect()
    results: list[Any] = []
    start = time.process_time()
    for text in inputs:
        results.append(call(enc, text))  # noqa: PERF401 (the frame of a comprehension is no part of the call)
    return time.process_time() - start, results


def main() -> None:
    """Measure, compare, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="UTF-8 text, documents separated by <|endoftext|>")
    parser.add_argument("--vocab", choices=VOCAB_NAMES, action="append", help="may be repeated; default cl100k")
    parser.add_argument("--peer", choices=("tiktoken", "transformers"), default="tiktoken")
    parser.add_argument("--repeat", type=at_least(1), default=5)
    parser.add_argument("-o", "--output", type=Path, help="write every measurement as JSON")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        vocab_text = write_vocabularies(options.vocab or ["cl100k"], folder)
        for path in find_corpora(options.files, folder, ("english", "korean", "python")):
            for vocab, files in vocab_text.items():
                measure = compare_tiktoken if options.peer == "tiktoken" else compare_transformers
                rows += measure(path, vocab, Path(files.split(",")[1]), folder, options.repeat)
    if options.peer == "tiktoken":
        report(rows, options.repeat)
    else:
        report_accelerated(rows, options.repeat)
    save_measurements(options.output, rows)


def compare_tiktoken(path: Path, vocab: str, ranks: Path, folder: str, repeat: int) -> list[dict[str, Any]]:
    """The measurements of one file and one vocabulary."""
    import tiktoken
    from tiktoken.load import load_tiktoken_bpe

    import bpe
    import bpe.compat.tiktoken as compat

    pattern = bpe.Pretokenizer("gpt2" if vocab == "r50k" else vocab).pattern
    arguments: dict[str, Any] = {
        "pat_str": pattern,
        "mergeable_ranks": load_tiktoken_bpe(str(ranks)),
        "special_tokens": dict(bpe.Tokenizer.load(ranks).special_tokens),
    }
    peer = tiktoken.Encoding(vocab, **arguments)
    rows: list[dict[str, Any]] = []
    for turn in range(repeat):
        for job, (texts, call) in make_jobs(path, folder).items():
            # A new encoding each time, so that no word is cached; a first text builds what is built lazily.
            encoding = compat.Encoding(vocab, **arguments)
            encoding.encode("x")
            inputs = [peer.encode_ordinary(text) for text in texts] if job.startswith("decode") else texts
            seconds_taken: dict[str, list[float]] = {"bpe": [], "tiktoken": []}
            for _ in range(2):
                measured = []
                for name, enc in (("bpe", encoding), ("tiktoken", peer)):
                    seconds, results = time_call(enc, call, inputs)
                    seconds_taken[name].append(seconds / len(inputs))
                    measured.append(results)
                if measured[0] != measured[1]:
                    raise SystemExit(f"{job} with {vocab} gives another result for {path.name}")
            rows.append({"corpus": path.name, "vocab": vocab, "job": job, "turn": turn, **seconds_taken})
        print(f"{turn + 1}/{repeat} {path.name} {vocab}", file=sys.stderr)
    return rows


def report(rows: list[dict[str, Any]], repeat: int) -> None:
    """Print microseconds per call, and how many times as fast this package is."""
    import tiktoken

    print(
        f"{describe_machine()}; one core, tiktoken {tiktoken.__version__}; microseconds per call, median of {repeat}\n"
    )
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["corpus"], row["vocab"], row["job"]), []).append(row)
    lines: list[tuple[object, ...]] = []
    for setting, setting_rows in groups.items():
        cells: list[str] = []
        for column in range(2):
            our_time, peer_time = (
                statistics.median(row[name][column] for row in setting_rows) * 1e6 for name in ("bpe", "tiktoken")
            )
            cells += [f"{our_time:.2f}", f"{peer_time:.2f}", f"{peer_time / our_time:.1f}"]
        lines.append((*setting, *cells))
    print_table(
        ("corpus", "vocabulary", "call", "new: bpe", "tiktoken", "times", "again: bpe", "tiktoken", "times"), lines
    )
    print("\nAll results are the same.")


#: In so many rounds, transformers encodes and decodes the documents; short texts in all.
SLOW_ROUNDS = 2
#: Name → (how many calls are timed, a function of a tokenizer of transformers, the documents and their ids).
CALLS: dict[str, tuple[int, Callable[[Any, list[str], list[list[int]]], Any]]] = {
    "call, 1,000 documents": (1, lambda tok, texts, _: tok(texts)["input_ids"]),
    "call, padded and truncated, np": (
        1,
        lambda tok, texts, _: tok(texts, padding=True, truncation=True, max_length=512, return_tensors="np")[
            "input_ids"
        ],
    ),
    "batch_decode, 1,000 documents": (1, lambda tok, _, ids: tok.batch_decode(ids)),
    "call, short": (200, lambda tok, *_: tok(SHORT)["input_ids"]),
    "encode, short": (200, lambda tok, *_: tok.encode(SHORT)),
    "call, short, truncation": (
        200,
        lambda tok, *_: tok(SHORT, truncation=True, max_length=512)["input_ids"],
    ),
    "call, short, padding": (200, lambda tok, *_: tok(SHORT, padding=True)["input_ids"]),
    "call, short, padding to 64": (
        200,
        lambda tok, *_: tok(SHORT, padding="max_length", truncation=True, max_length=64)["input_ids"],
    ),
    "call, short, np": (200, lambda tok, *_: tok(SHORT, return_tensors="np")["input_ids"]),
    "call, short, pt": (200, lambda tok, *_: tok(SHORT, return_tensors="pt")["input_ids"]),
    "call, short pair": (200, lambda tok, *_: tok(SHORT, SHORT)["input_ids"]),
    "call, short pair, np": (200, lambda tok, *_: tok(SHORT, SHORT, return_tensors="np")["input_ids"]),
    "decode, short": (200, lambda tok, _, ids: tok.decode(ids[0][:10], skip_special_tokens=True)),
}
SHORT = "The quick brown fox jumps over the lazy dog."


def _call(call: Callable[[Any, list[str], list[list[int]]], Any], ids: list[list[int]], tok: Any, texts: Any) -> Any:
    return call(tok, texts, ids)


#: How often each job of `make_calls` is done in a turn, of which the fastest time counts.
REPEATED = 10


def make_calls(native: Any, own: Any, texts: list[str]) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """Job → (encoding natively, encoding to `Encoding` objects)."""
    short = [text[:60] for text in texts]
    pairs = list(zip(short[::2], short[1::2], strict=True))

    def one_by_one(tokenizer: Any) -> None:
        for text in short:
            tokenizer.encode(text)

    def pairs_one_by_one() -> None:
        for text, second in pairs:
            own.encode(text, second)

    return {
        "Encoding objects, documents": (lambda: native.encode_batch(texts), lambda: own.encode_batch(texts)),
        "Encoding objects, short texts": (lambda: native.encode_batch(short), lambda: own.encode_batch(short)),
        "Encoding objects, short pairs": (lambda: native.encode_batch(short), lambda: own.encode_batch(pairs)),
        "Encoding objects, one by one": (lambda: one_by_one(native), lambda: one_by_one(own)),
        "Encoding objects, pairs one by one": (lambda: one_by_one(native), pairs_one_by_one),
    }


def compare_transformers(path: Path, vocab: str, ranks: Path, folder: str, repeat: int) -> list[dict[str, Any]]:
    """The measurements of one file and one vocabulary, for a tokenizer of transformers and its accelerated copy."""
    import numpy as np
    import torch  # noqa: F401 (so that no call that is timed imports it)
    from transformers import PreTrainedTokenizerFast

    import bpe
    from bpe.compat.huggingface import Tokenizer

    native = bpe.Tokenizer.load(ranks)
    tokenizer_file = Path(folder) / f"{vocab}.json"
    native.save(tokenizer_file)
    plain = PreTrainedTokenizerFast(tokenizer_file=str(tokenizer_file), pad_token="<|endoftext|>")
    fast = bpe.accelerate(plain)
    texts = read_texts(path, BATCH[1], BATCH[0], folder)
    ids = plain(texts)["input_ids"]
    gc.freeze()  # a collection through the modules of PyTorch takes 0.1 s, more than what it precedes
    rows: list[dict[str, Any]] = []
    for turn in range(repeat):
        for job, (n_texts, call) in CALLS.items():
            seconds_taken, outputs = {}, []
            for name, tok in (("bpe", fast), ("transformers", plain)):
                if name == "transformers" and n_texts == 1 and turn >= SLOW_ROUNDS:
                    continue
                seconds, results = time_call(tok, partial(_call, call, ids), [texts] * n_texts)
                seconds_taken[name] = [seconds / n_texts]
                outputs.append(results[0])
            if len(outputs) == 2 and not all(
                np.array_equal(our_result, peer_result)
                for our_result, peer_result in zip(*map(list, outputs), strict=True)
            ):
                raise SystemExit(f"{job} with {vocab} gives another result for {path.name}")
            rows.append({"corpus": path.name, "vocab": vocab, "job": job, "turn": turn, **seconds_taken})
        for job, pair in make_calls(native, Tokenizer(native), texts).items():
            base, seconds = (min(time_call(None, lambda _, do: do(), [do])[0] for _ in range(REPEATED)) for do in pair)
            setting = {"corpus": path.name, "vocab": vocab, "job": job, "turn": turn}
            rows.append({**setting, "bpe": [seconds], "transformers": [base]})
        print(f"{turn + 1}/{repeat} {path.name} {vocab}", file=sys.stderr)
    return rows


def report_accelerated(rows: list[dict[str, Any]], repeat: int) -> None:
    """Print microseconds per call, and how many times as fast the accelerated one is."""
    import transformers

    print(
        f"{describe_machine()}; one core, transformers {transformers.__version__}; microseconds per call, median "
        f"of {repeat}\n"
    )
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["corpus"], row["vocab"], row["job"]), []).append(row)
    lines: list[tuple[object, ...]] = []
    for setting, setting_rows in groups.items():
        our_time, peer_time = (
            statistics.median(row[name][0] for row in setting_rows if name in row) * 1e6
            for name in ("bpe", "transformers")
        )
        lines.append((*setting, f"{our_time:.2f}", f"{peer_time:.2f}", f"{peer_time / our_time:.2f}"))
    print_table(("corpus", "vocabulary", "call", "bpe", "transformers (Encoding objects: native)", "times"), lines)
    print("\nAll results are the same.")


if __name__ == "__main__":
    main()
