"""Evaluating tokenizers beside encoding alone, and two vocabularies of 200,000 tokens on the shared corpora.

    python benchmarks/bench_evaluate.py [--repeat N] [--threads N] [--corpus NAME]… [--vocab NAME]…

Prints the time and the peak memory of one evaluation of o200k and SuperBPE's vocabulary (t = 180k) on all corpora, with
its dict. Then a row for each vocabulary and corpus, of files (`encode_files`) and of texts (`encode_batch`): medians of
CPU seconds for encoding and for `evaluate`, alternated, and the quotient, the median of those of the pairs. Without the
shared corpora it says so and ends.
"""

from __future__ import annotations

import argparse
import gzip
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import report

import bpe

#: What separates documents in the shared corpora.
SEPARATOR = report.SEPARATOR.decode()
#: The vocabularies of the rows.
VOCABULARIES = ("r50k", "cl100k", "o200k", "superbpe")
#: SuperBPE's second stage, as published with the vocabulary.
SUPERWORDS = r"[^\p{N}]+|\p{N}(?:(?!(?:\d{3})+(?!\d))\p{N})*"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=report.at_least(1), default=5)
    parser.add_argument("--threads", type=report.at_least(1), default=None)
    parser.add_argument("--corpus", choices=report.NAMES, action="append")
    parser.add_argument("--vocab", choices=VOCABULARIES, action="append")
    options = parser.parse_args()
    threads = options.threads
    with tempfile.TemporaryDirectory() as folder:
        files = {path.stem: path for path in report.find_corpora((), folder, options.corpus or report.NAMES)}
        tokenizers = {"o200k": load_published("o200k", Path(folder)), "superbpe": load_superbpe()}
        sources = {name: bpe.Sources(path, separator=SEPARATOR) for name, path in files.items()}
        seconds, cpu = time_call(lambda: bpe.evaluate(tokenizers, sources, threads=threads).to_dict())
        size = sum(path.stat().st_size for path in files.values()) / 1e6
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"both on {size:.0f} MB: {seconds:.1f} s ({cpu:.1f} s of CPU), peak memory of the process {peak:.0f} MB")
        for label in options.vocab or VOCABULARIES:
            tok = tokenizers.get(label) or load_published(label, Path(folder))
            for name, path in files.items():
                show(label, f"{name}, files", options.repeat, *make_file_calls(tok, path, threads))
                show(label, f"{name}, texts", options.repeat, *make_text_calls(tok, path, threads))


def make_file_calls(
    tok: bpe.Tokenizer, path: Path, threads: int | None
) -> tuple[Callable[[], object], Callable[[], object]]:
    """Encoding a file, and evaluating it."""
    return (
        lambda: tok.encode_files(path, separator=SEPARATOR, threads=threads),
        lambda: bpe.evaluate(tok, files=bpe.Sources(path, separator=SEPARATOR), threads=threads),
    )


def make_text_calls(
    tok: bpe.Tokenizer, path: Path, threads: int | None
) -> tuple[Callable[[], object], Callable[[], object]]:
    """Encoding the documents of a file as a list of str, and evaluating them."""
    texts = path.read_text(encoding="utf-8").split(SEPARATOR)
    return lambda: tok.encode_batch(texts, threads=threads), lambda: bpe.evaluate(tok, texts=texts, threads=threads)


def show(label: str, name: str, repeat: int, encode: Callable[[], object], evaluate: Callable[[], object]) -> None:
    """Print a row, after one call of each that is not measured."""
    pairs = [(time_call(encode)[1], time_call(evaluate)[1]) for _ in range(repeat + 1)][1:]
    alone, evaluating = (statistics.median(column) for column in zip(*pairs, strict=True))
    quotient = statistics.median(a / b for a, b in pairs)
    print(
        f"{label:8} {name:16}  encoding {alone:.3f} s, evaluating {evaluating:.3f} s: {quotient:.2f} of the speed",
        flush=True,
    )


def time_call(work: Callable[[], object]) -> tuple[float, float]:
    """The wall clock and CPU time of a call, in seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def load_published(name: str, folder: Path) -> bpe.Tokenizer:
    """A vocabulary of OpenAI's: r50k, cl100k or o200k."""
    path = folder / f"{name}_base.tiktoken"
    path.write_bytes(gzip.decompress((report.VOCABULARIES / f"{name}_base.tiktoken.gz").read_bytes()))
    return bpe.Tokenizer.from_tiktoken(path, "gpt2" if name == "r50k" else name)


def load_superbpe() -> bpe.Tokenizer:
    """SuperBPE's vocabulary of 200,000 tokens."""
    vocab, merges = (report.VOCABULARIES / f"superbpe_t180k_{name}.gz" for name in ("vocab.json", "merges.txt"))
    return bpe.Tokenizer.from_vocab_merges(vocab, merges, bpe.Pretokenizer.from_regex(SUPERWORDS))


if __name__ == "__main__":
    main()
