"""`bpe demo`: train, save, load, encode, decode and compare on an embedded sample.

The sample is the text of Python's `help()` (`pydoc_data.topics`, some 460 KB of English prose and code that CPython
ships) and a page in many scripts that this package ships. `run` passes its output to a callable, line by line.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from importlib import import_module, resources
from operator import eq
from pathlib import Path
from time import perf_counter
from typing import Any

import bpe
from bpe.base.spelling import spell
from bpe.cli.files import check_files, print_json, print_line
from bpe.show.terminal import render, use_colour

#: How often the page is repeated in training, because the page is small beside the English text.
PAGE_WEIGHT = 16
FIRST_MERGES, MERGE_INTERVAL = 8, 500

Token = bytes | str

SAMPLE_LINES = (
    "The value of the expression is evaluated before the loop body is executed.",
    "자주 함께 나타나는 글자를 하나로 묶고, 또 묶고, 다시 묶습니다.",
    "for (int i = 0; i < n; ++i) { total += price[i]; }",
)


def main(args: argparse.Namespace) -> int:
    """Run the demonstration; return the exit status."""
    check_files(args)
    colour = use_colour(sys.stdout)
    figures = run(
        _ignore if args.json else partial(print_line, styled=True),
        vocab_size=args.vocab_size,
        output=args.output,
        colour=colour,
        threads=args.threads,
    )
    if args.json:
        print_json(figures)
    return 0 if figures["same"] else 1


def _ignore(line: str) -> None:
    """Write nothing."""


def page() -> str:
    """Read the page in many scripts that this package ships."""
    return (resources.files("bpe.cli") / "samples" / "scripts.txt").read_text(encoding="utf-8")


def read_topics() -> list[str]:
    """Read the texts of Python's `help()`, in order of their names; empty if this Python was installed without them."""
    try:
        topics: dict[str, str] = import_module("pydoc_data.topics").topics
    except ModuleNotFoundError:
        return []
    return [topics[name] for name in sorted(topics)]


def run(
    write: Callable[[str], None],
    *,
    vocab_size: int = 4000,
    output: str | Path | None = None,
    colour: bool = False,
    threads: int | None = None,
) -> dict[str, Any]:
    """Run the demonstration and report each step.

    Args:
        write: is called with each line, without its newline.
        vocab_size: the number of tokens to learn.
        output: the path of tokenizer.json; None for a temporary folder, which is deleted at the end.
        colour: show tokens with coloured backgrounds instead of separators.
        threads: the number of threads; None for one per core.

    Returns:
        the result by the keys of `bpe demo --json`; "same" is whether the loaded tokenizer gave the same ids as the
        trained one, and decoding returned the texts.

    Raises:
        ValueError: for a vocabulary size under 256.
        OSError: when tokenizer.json cannot be written.

    """
    english, scripts = read_topics(), page()
    documents = [*english, scripts]
    if not english:
        write("This Python comes without its help texts (pydoc_data.topics): the sample is one page in many scripts.")
    help_texts = f"{len(english)} help texts of Python's and " if english else ""
    write(f"Sample: {help_texts}a page in many scripts, {_count_bytes(documents):,} bytes.")

    corpus = documents + [scripts] * (PAGE_WEIGHT - 1)
    write(f"\nTrain a byte-level tokenizer of {vocab_size:,} tokens (the page counts {PAGE_WEIGHT} times):")
    train = partial(bpe.train, vocab_size=vocab_size, on_merge=_make_merge_printer(write, colour), threads=threads)
    trained, training = _measure(_count_bytes(corpus), lambda: train(texts=corpus))
    tokenizer = _reload(write, trained, output)
    batch, encoding = _measure(_count_bytes(documents), lambda: tokenizer.encode_batch(documents, threads=threads))
    decoded, decoding = _measure(_count_bytes(documents), lambda: tokenizer.decode_batch(batch))

    write(f"\nTokens, a line of each kind{':' if colour else ' (| between them, · is a space):'}")
    for line in SAMPLE_LINES:
        write("  " + render(tokenizer.tokens(line), colour=colour))

    n_bytes, n_tokens = _count_bytes(documents), len(batch.ids)
    write(f"\nEncode: {n_tokens:,} tokens, {n_bytes / n_tokens:.2f} bytes per token.")
    write(f"Speed: training {training:.1f} MB/s, encoding {encoding:.1f} MB/s, decoding {decoding:.1f} MB/s.")
    has_same_ids = trained.encode_batch(documents, threads=threads) == batch
    if not has_same_ids:
        write("Compare: the loaded tokenizer gives OTHER ids than the one that was trained.")
    elif decoded != documents:
        index = list(map(eq, decoded, documents)).index(False)
        write(f"Compare: decoding gives ANOTHER text than the one that was encoded (document {index}).")
    else:
        write("Compare: decoding gives every document back, character for character.")
    return {
        "same": has_same_ids and decoded == documents,
        "vocab_size": tokenizer.vocab_size,
        "bytes": n_bytes,
        "tokens": n_tokens,
        "bytes_per_token": n_bytes / n_tokens,
        "megabytes_per_second": {"training": training, "encoding": encoding, "decoding": decoding},
    }


def _reload(write: Callable[[str], None], trained: bpe.Tokenizer, output: str | Path | None) -> bpe.Tokenizer:
    """Save the tokenizer, and load it again."""
    with tempfile.TemporaryDirectory(prefix="bpe-demo-") as folder:
        path = Path(folder) / "tokenizer.json" if output is None else Path(output)
        trained.save(path)
        location = "a temporary folder" if output is None else str(path)
        write(f"\nSave and load: tokenizer.json, {path.stat().st_size:,} bytes, in {location}.")
        return bpe.Tokenizer.load(path)


def _measure(size: int, function: Callable[[], Any]) -> tuple[Any, float]:
    """Call a function that handles `size` bytes; return its result and its speed in MB/s."""
    start = perf_counter()
    result = function()
    return result, size / 1e6 / max(perf_counter() - start, 1e-9)


def _make_merge_printer(write: Callable[[str], None], colour: bool) -> Callable[[int, Token, Token, Token, int], None]:
    """Make an `on_merge` that prints the first merges and then every 500th."""

    def print_merge(step: int, left: Token, right: Token, token: Token, count: int) -> None:
        if step <= FIRST_MERGES or step % MERGE_INTERVAL == 0:
            pair = f"{spell(left)} + {spell(right)}"
            write(f"  merge {step:>5,}  seen {count:>6,} times  {pair:<22} = {render([token], colour=colour)}")

    return print_merge


def _count_bytes(texts: list[str]) -> int:
    return sum(len(text.encode()) for text in texts)
