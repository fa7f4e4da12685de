"""The turns of a conversation, encoded by a `PromptCache` and each anew: microseconds, ids that stay.

    python benchmarks/bench_prompts.py [FILE…] [--turns N] [--chars N] [--repeat N]

A turn is a message of a user and one of an assistant with special tokens around them, taken from the file; the prompt
of each turn is the one before it with a turn appended, a new str. Each repetition is a conversation with a new cache
and another part of the file; the ids of every turn are compared, and a difference fails the run. "copy" is what copying
the ids takes, and "comparing" what comparing the prompt with an equal str takes: each call must do both. Runs in this
process with cl100k; without FILE, on the shared English and Korean corpora. The table shows medians, over the
repetitions, of turns around the one that is named.
"""

from __future__ import annotations

import argparse
import operator
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from report import at_least, describe_machine, find_corpora, print_table, write_vocabularies

import bpe

#: How many turns before the one that is named count, too.
N_AVERAGED = 8


def main() -> int:
    """Measure, compare and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", metavar="FILE", nargs="*", type=Path)
    parser.add_argument("--turns", metavar="N", type=at_least(N_AVERAGED), default=200, help="turns (default 200)")
    parser.add_argument("--chars", metavar="N", type=at_least(1), default=4500, help="of a turn (default 4500)")
    parser.add_argument("--repeat", metavar="N", type=at_least(1), default=5, help="conversations (default 5)")
    options = parser.parse_args()
    rows: list[tuple[object, ...]] = []
    with tempfile.TemporaryDirectory() as folder:
        ranks = write_vocabularies(["cl100k"], folder)["cl100k"].split(",")[1]
        specials = {"<|im_start|>": 100264, "<|im_end|>": 100265}
        tok = bpe.Tokenizer.from_tiktoken(ranks, "cl100k", specials)
        for path in find_corpora(options.files, folder, ("english", "korean")):
            text = path.read_text()
            size = options.turns * options.chars
            starts = [i * size % max(len(text) - size, 1) for i in range(options.repeat)]
            runs = [converse(tok, text[start : start + size], options.chars) for start in starts]
            for turn in sorted({N_AVERAGED, options.turns // 4, options.turns // 2, options.turns}):
                calls = [call for run in runs for call in run[turn - N_AVERAGED : turn]]
                rows.append((path.stem, turn, *(f"{median(column):,.0f}" for column in zip(*calls, strict=True))))
    print(f"{describe_machine()}; one thread, microseconds, medians of {options.repeat} conversations\n")
    print_table(("corpus", "turn", "ids", "ids kept", "PromptCache", "of that, copy", "comparing", "encode"), rows)
    return 0


def converse(tok: bpe.Tokenizer, text: str, n_chars: int) -> list[tuple[float, ...]]:
    """Encode a conversation: for each turn the ids, those kept, and the microseconds of four calls."""
    calls = []
    cache = bpe.PromptCache(tok, allowed_special="all")
    for prompt in write_prompts(text, n_chars):
        (ids, n_kept), cached_time = measure(cache.encode, prompt)
        equal_prompt = prompt[:1] + prompt[1:]
        comparing_time = measure(operator.eq, equal_prompt, prompt)[1]
        calls.append((len(ids), n_kept, cached_time, measure(ids.copy)[1], comparing_time))
    cache, times = bpe.PromptCache(tok, allowed_special="all"), []
    for prompt in write_prompts(text, n_chars):  # again, so that this does not slow the calls above
        expected, time_anew = measure(tok.encode, prompt, allowed_special="all")
        times.append(time_anew)
        if not np.array_equal(cache.encode(prompt)[0], expected):
            sys.exit("the ids of a turn differ")
    return [(*call, time_anew) for call, time_anew in zip(calls, times, strict=True)]


def write_prompts(text: str, n_chars: int) -> Iterator[str]:
    """Write the prompt of each turn."""
    prompt = ""
    for start in range(0, len(text), n_chars):
        question, answer = text[start : start + n_chars // 5], text[start + n_chars // 5 : start + n_chars]
        prompt += f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n{answer}<|im_end|>\n"
        yield prompt


def measure(call: Callable[..., Any], *arguments: Any, **options: Any) -> tuple[Any, float]:
    """Return (the result of a call, the microseconds that it takes)."""
    start = time.perf_counter()
    result = call(*arguments, **options)
    return result, (time.perf_counter() - start) * 1e6


if __name__ == "__main__":
    sys.exit(main())
