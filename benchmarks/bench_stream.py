"""Decoding ids one by one, as a model generates them: microseconds per id, beside `tokenizers` and splintr.

    python benchmarks/bench_stream.py TOKENIZER.json FILE [--ids N] [--repeat N]

The first ids of the file are pushed one by one, in one process, the libraries alternated; the table shows medians of
CPU time, the loop included. "empty" is the loop with a call that does nothing. Texts are compared first.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bpe
from bpe.compat.huggingface import DecodeStream, Tokenizer


def make_runs(path: str, ids: list[int]) -> dict[str, Callable[[], list[Any]]]:
    """Make what is measured: name → a function that decodes all ids and returns the texts."""
    native, compat = bpe.Tokenizer.load(path), Tokenizer.from_file(path)

    def step_through(stream: Any, tokenizer: Any) -> list[Any]:
        step = stream.step
        return [step(tokenizer, token_id) for token_id in ids]

    runs: dict[str, Callable[[], list[Any]]] = {
        "empty": lambda: list(map("".join, [()] * len(ids))),
        "decoder().push": lambda: list(map(native.decoder().push, ids)),
        "decoder().steps": lambda: native.decoder().steps(ids),
        "DecodeStream.step": lambda: step_through(DecodeStream(), compat),
    }
    try:
        import tokenizers

        peer = tokenizers.Tokenizer.from_file(path)
        runs["tokenizers"] = lambda: step_through(tokenizers.decoders.DecodeStream(skip_special_tokens=False), peer)
    except ImportError:
        print("tokenizers is not installed")
    try:
        import splintr

        peer_of_splintr = splintr.from_json(path)
        runs["splintr"] = lambda: list(map(peer_of_splintr.streaming_decoder().add_token, ids))
    except (ImportError, ValueError) as error:
        print(f"splintr: {error}")
    return runs


def main() -> None:
    """Compare the texts, measure, print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer")
    parser.add_argument("file")
    parser.add_argument("--ids", type=int, default=20_000)
    parser.add_argument("--repeat", type=int, default=7)
    options = parser.parse_args()
    text = Path(options.file).read_bytes()[: 8 * options.ids].decode("utf-8", "ignore")
    ids = bpe.Tokenizer.load(options.tokenizer).encode(text).tolist()[: options.ids]
    runs = make_runs(options.tokenizer, ids)
    texts = {name: "".join(filter(None, run())) for name, run in runs.items() if name != "empty"}
    differing = [name for name, joined in texts.items() if joined != texts["decoder().push"]]
    if differing:
        raise SystemExit(f"other text: {', '.join(differing)}")
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(options.repeat):
        for name, run in runs.items():
            start = time.process_time()
            run()
            times[name].append((time.process_time() - start) / len(ids) * 1e6)
    for name, values in times.items():
        print(f"{name:20} {statistics.median(values):8.3f} µs per id")


if __name__ == "__main__":
    main()
