"""Drop-in interfaces beside the libraries that they replace: `bpe.compat.tiktoken` and tiktoken, on one core.

    python benchmarks/bench_compat.py [FILE…] [--corpus NAME]… [--vocab NAME]… [--peer tiktoken|transformers]
                                      [--call PATTERN] [--repeat N] [-o OUT.json]

Both are called in the same way, and both return lists of int (`decode` takes them). The texts are parts of the
file, cut to 200 bytes, 2 KB and 1 MB; the batch has 1,000 documents of about 2 KB. "new" encodes each text for the
first time with this vocabulary in the process, "again" a second time. The libraries are alternated in one process,
which is pinned to one core, and CPU time is measured; the table shows medians of `--repeat` rounds and how many times
as fast `bpe` is. All results are compared, and one difference fails the run. Without FILE, shared corpora are used:
English, Korean and Python if none is named.

With `--peer transformers`: calls of a tokenizer of transformers, of the same after `bpe.accelerate`, and of other
libraries with the same methods, where they are installed: gigatoken, tuetoken and fastokens. Texts have 20, 200 and
2,000 characters and are encoded again and again, the first times unmeasured, and each result is dropped for the next; a
library's time has a "!" if its ids are others, and none if it refuses the call. Arrays that are not of int64, as those
of transformers are, are converted.
Calls for PyTorch's tensors need PyTorch. Then the cost of `Encoding` objects, whose other columns are
not read, beside the native ids. Batches are encoded once by transformers and fastokens, in two of the rounds only
(`SLOW_ROUNDS`): a run with the default corpora takes three to four minutes. `--call` selects calls.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from peers.callers import SEPARATOR_IDS
from peers.common import Vocab
from report import (
    NAMES,
    SEPARATOR,
    VOCAB_NAMES,
    cut_file,
    describe_machine,
    find_corpora,
    make_parser,
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


def time_calls(call: Callable[[Any], Any], tok: Any, n_calls: int) -> tuple[float, Any]:
    """Seconds of CPU time of a call, the mean of some after a few unmeasured ones, and its result."""
    for _ in range(min(n_calls, MAX_BATCHES)):
        result = call(tok)
    gc.collect()
    start = time.process_time()
    for _ in range(n_calls):
        result = call(tok)
    return (time.process_time() - start) / n_calls, result


def main() -> None:
    """Measure, compare, print a table, write JSON."""
    parser = make_parser(__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="UTF-8 text, documents separated by <|endoftext|>")
    parser.add_argument("--corpus", choices=NAMES, action="append", help="may be repeated")
    parser.add_argument(
        "--vocab", choices=(*VOCAB_NAMES, "llama"), action="append", help="may be repeated; default cl100k"
    )
    parser.add_argument("--peer", choices=("tiktoken", "transformers"), default="tiktoken")
    parser.add_argument("--call", type=re.compile, default=re.compile(""), metavar="PATTERN", help="default all")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        vocabs = [Vocab(*text.split(",")) for text in write_vocabularies(options.vocab or ["cl100k"], folder).values()]
        for path in find_corpora(options.files, folder, options.corpus or ("english", "korean", "python")):
            for vocab in vocabs:
                measure = compare_tiktoken if options.peer == "tiktoken" else compare_transformers
                rows += measure(path, vocab, folder, options)
    if options.peer == "tiktoken":
        report(rows, options.repeat)
    else:
        report_accelerated(rows, options.repeat)
    save_measurements(options.output, rows)


def load_native(vocab: Vocab) -> Any:
    """Load a vocabulary with the only special token that the libraries know."""
    import bpe

    specials = {SEPARATOR.decode(): SEPARATOR_IDS[vocab.name]}
    return bpe.Tokenizer.from_tiktoken(vocab.ranks, vocab.pattern, specials, force=vocab.name == "llama")


def compare_tiktoken(path: Path, vocab: Vocab, folder: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """The measurements of one file and one vocabulary."""
    import tiktoken

    import bpe.compat.tiktoken as compat

    native = load_native(vocab)
    arguments: dict[str, Any] = {
        "pat_str": native.pretokenizer.pattern,
        "mergeable_ranks": vocab.table(),
        "special_tokens": dict(native.special_tokens),
    }
    peer = tiktoken.Encoding(vocab.name, **arguments)
    rows: list[dict[str, Any]] = []
    for turn in range(options.repeat):
        for job, (texts, call) in make_jobs(path, folder).items():
            if not options.call.search(job):
                continue
            # A new encoding each time, so that no word is cached; a first text builds what is built lazily.
            encoding = compat.Encoding(vocab.name, **arguments)
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
                    raise SystemExit(f"{job} with {vocab.name} gives another result for {path.name}")
            rows.append({"corpus": path.name, "vocab": vocab.name, "job": job, "turn": turn, **seconds_taken})
        print(f"{turn + 1}/{options.repeat} {path.name} {vocab.name}", file=sys.stderr)
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


#: The libraries beside ours.
PEERS = ("transformers", "gigatoken", "tuetoken", "fastokens")
#: The slow ones encode and decode batches, which are timed so many times at most, once, in so many rounds.
SLOW_PEERS, MAX_BATCHES, SLOW_ROUNDS = ("transformers", "fastokens"), 10, 2
CHAT_TEMPLATE = (
    "{% for m in messages %}{{ '<|endoftext|>' + m['role'] + '\n' + m['content'] | trim + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant\n' }}{% endif %}"
)


def make_transformers_calls(documents: list[str], ids: list[list[int]]) -> dict[str, tuple[int, Callable[[Any], Any]]]:
    """Name → (how many calls are timed, a function of a tokenizer)."""
    tiny, short, text = (documents[0][:size] for size in (20, 200, 2000))
    special = f"{documents[1][:90]}<|endoftext|>{documents[2][:90]}"
    chat = [{"role": ("user", "assistant")[i % 2], "content": documents[3 + i][:100]} for i in range(6)]
    long_chat = [{"role": ("user", "assistant")[i % 2], "content": documents[3 + i][:1000]} for i in range(40)]
    padded = {"padding": True, "return_tensors": "np"}
    few_ids, row = ids[0][:20], ids[0][:500]
    return {
        "call, 20": (1000, lambda tok: tok(tiny)["input_ids"]),
        "call, 200": (1000, lambda tok: tok(short)["input_ids"]),
        "call, 2,000": (300, lambda tok: tok(text)["input_ids"]),
        "encode, 20": (1000, lambda tok: tok.encode(tiny)),
        "encode, 200": (1000, lambda tok: tok.encode(short)),
        "call, 200, with special tokens": (500, lambda tok: tok(special)["input_ids"]),
        "call, 2,000, np": (300, lambda tok: as_int64(tok(text, return_tensors="np"))),
        "call, 200, pt": (500, lambda tok: tok(short, return_tensors="pt")["input_ids"]),
        "call, 200, offsets": (200, lambda tok: list(tok(short, return_offsets_mapping=True)["offset_mapping"])),
        "call, 200, pair": (500, lambda tok: tok(short, tiny)["input_ids"]),
        "call, 200, truncated to 16": (500, lambda tok: tok(short, truncation=True, max_length=16)["input_ids"]),
        "64 × 2,000, padded, np": (MAX_BATCHES, lambda tok: as_int64(tok(documents[:64], **padded))),
        "1,000 × 2,000": (3, lambda tok: tok(documents)["input_ids"]),
        "1,000 × 2,000, padded, truncated to 512, np": (
            3,
            lambda tok: as_int64(tok(documents, truncation=True, max_length=512, **padded)),
        ),
        "chat, 6 × 100, text": (200, lambda tok: tok.apply_chat_template(chat, tokenize=False)),
        "chat, 6 × 100": (200, lambda tok: tok.apply_chat_template(chat)["input_ids"]),
        "chat, 40 × 1,000": (20, lambda tok: tok.apply_chat_template(long_chat)["input_ids"]),
        "decode, 20 ids": (1000, lambda tok: tok.decode(few_ids)),
        "batch_decode, 1,000 × 2,000": (3, lambda tok: tok.batch_decode(ids)),
        "convert_ids_to_tokens, 500": (200, lambda tok: tok.convert_ids_to_tokens(row)),
        "tokenize, 200": (200, lambda tok: tok.tokenize(short)),
    }


def as_int64(result: Any) -> Any:
    """Return the ids of a result, whose columns are arrays, as int64, and convert the mask too."""
    ids, _ = (np.asarray(result[name], dtype=np.int64) for name in ("input_ids", "attention_mask"))
    return ids


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


def load_compatible(vocab: Vocab) -> dict[str, Any]:
    """Load the tokenizers with the methods of transformers: ours, its own, and those of other libraries."""
    from transformers import PreTrainedTokenizerFast

    import bpe

    load_native(vocab).save(vocab.json)

    def load_plain() -> Any:
        plain = PreTrainedTokenizerFast(tokenizer_file=vocab.json, pad_token="<|endoftext|>")
        plain.chat_template = CHAT_TEMPLATE
        return plain

    def load_fastokens() -> Any:
        from fastokens._compat import _TokenizerShim

        plain = load_plain()
        plain._tokenizer = _TokenizerShim(plain._tokenizer)
        return plain

    def load_tuetoken() -> Any:
        from tuetoken import AutoTokenizer

        config = {"pad_token": "<|endoftext|>", "chat_template": CHAT_TEMPLATE}
        return AutoTokenizer.from_file(vocab.json, config)

    def load_gigatoken() -> Any:
        from gigatoken import Tokenizer

        return Tokenizer(load_plain()).as_hf()

    tokenizers = {"bpe": bpe.accelerate(load_plain()), "transformers": load_plain()}
    for name, load in (("gigatoken", load_gigatoken), ("tuetoken", load_tuetoken), ("fastokens", load_fastokens)):
        try:
            tokenizers[name] = load()
        except Exception as error:  # noqa: BLE001, PERF203  # whatever a library raises
            print(f"without {name}: {str(error).splitlines()[0]:.200}", file=sys.stderr)
    return tokenizers


def compare_transformers(path: Path, vocab: Vocab, folder: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """The measurements of one file and one vocabulary, for tokenizers with the methods of transformers."""
    from bpe.compat.huggingface import Tokenizer

    native = load_native(vocab)
    tokenizers = load_compatible(vocab)
    texts = read_texts(path, BATCH[1], BATCH[0], folder)
    calls = make_transformers_calls(texts, tokenizers["transformers"](texts)["input_ids"])
    try:
        importlib.import_module("torch")  # so that no call that is timed imports it
    except ImportError:
        calls = {job: call for job, call in calls.items() if not job.endswith(", pt")}
    gc.freeze()  # a collection through the modules of PyTorch takes 0.1 s, more than what it precedes
    rows: list[dict[str, Any]] = []
    for turn in range(options.repeat):
        for job, (n_calls, call) in calls.items():
            if not options.call.search(job):
                continue
            seconds_taken, outputs = {}, {}
            for name, tok in tokenizers.items():
                is_slow = name in SLOW_PEERS and n_calls <= MAX_BATCHES
                if is_slow and turn >= SLOW_ROUNDS:
                    continue
                try:
                    seconds, outputs[name] = time_calls(call, tok, 1 if is_slow else n_calls)
                except Exception:  # noqa: BLE001  # a call that the library refuses
                    continue
                seconds_taken[name] = [seconds]
            differing = [name for name in outputs if "transformers" in outputs and not is_same(outputs, name)]
            if "bpe" in differing:
                raise SystemExit(f"{job} with {vocab.name} gives another result for {path.name}")
            setting = {"corpus": path.name, "vocab": vocab.name, "job": job, "turn": turn}
            rows.append({**setting, "differing": differing, **seconds_taken})
        for job, pair in make_calls(native, Tokenizer(native), texts).items():
            if not options.call.search(job):
                continue
            base, seconds = (min(time_call(None, lambda _, do: do(), [do])[0] for _ in range(REPEATED)) for do in pair)
            setting = {"corpus": path.name, "vocab": vocab.name, "job": job, "turn": turn}
            rows.append({**setting, "bpe": [seconds], "transformers": [base]})
        print(f"{turn + 1}/{options.repeat} {path.name} {vocab.name}", file=sys.stderr)
    return rows


def is_same(outputs: dict[str, Any], name: str) -> bool:
    """Whether a library's result is that of transformers."""
    expected, result = outputs["transformers"], outputs[name]
    if hasattr(expected, "shape"):
        return bool(expected.shape == result.shape and (expected == result).all())
    return bool(expected == result)


def report_accelerated(rows: list[dict[str, Any]], repeat: int) -> None:
    """Print microseconds per call, and how many times as fast the accelerated one is as the fastest other."""
    import transformers

    print(
        f"{describe_machine()}; one core, transformers {transformers.__version__}; microseconds per call, median "
        f"of {repeat}; ! marks other results; for Encoding objects, the second time is that of the native ids\n"
    )
    names = [name for name in ("bpe", *PEERS) if any(name in row for row in rows)]
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["corpus"], row["vocab"], row["job"]), []).append(row)
    lines: list[tuple[object, ...]] = []
    for setting, setting_rows in groups.items():
        times = {
            name: statistics.median(row[name][0] for row in setting_rows if name in row) * 1e6
            for name in names
            if any(name in row for row in setting_rows)
        }
        wrong = {name for row in setting_rows for name in row.get("differing", ())}
        best = min(times[name] for name in times if name != "bpe" and name not in wrong)
        cells = [f"{times[name]:.2f}{'!' * (name in wrong)}" if name in times else "-" for name in names]
        lines.append((*setting, *cells, f"{best / times['bpe']:.2f}"))
    print_table(("corpus", "vocabulary", "call", *names, "times"), lines)
    print("\nAll results of bpe are those of transformers.")


if __name__ == "__main__":
    main()
