"""Evaluating tokenizers beside encoding alone, and two vocabularies of 200,000 tokens on the shared corpora.

    python benchmarks/bench_evaluate.py [--repeat N] [--threads N] [--corpus NAME]…

Prints for o200k and SuperBPE's vocabulary (t = 180k): seconds of wall clock and of CPU for `encode_files` and for
`evaluate` of each corpus, alternated, and the quotient of CPU times; then the time and the peak memory of one
evaluation of both on all corpora, with its dict. Without the shared corpora it says so and ends.
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
#: SuperBPE's second stage, as published with the vocabulary.
SUPERWORDS = r"[^\p{N}]+|\p{N}(?:(?!(?:\d{3})+(?!\d))\p{N})*"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=report.at_least(1), default=3)
    parser.add_argument("--threads", type=report.at_least(1), default=None)
    parser.add_argument("--corpus", choices=report.NAMES, action="append")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = {path.stem: path for path in report.corpora((), folder, options.corpus or report.NAMES)}
        tokenizers = {"o200k": o200k(Path(folder)), "superbpe": superbpe()}
        for label, tok in tokenizers.items():
            for name, path in files.items():
                alone, whole = compared(tok, path, options.repeat, options.threads)
                print(
                    f"{label} {name}: encoding {alone[0]:.2f} s ({alone[1]:.2f} s of CPU), evaluating {whole[0]:.2f} s "
                    f"({whole[1]:.2f} s of CPU): {alone[1] / whole[1]:.2f} of the speed"
                )
        seconds, cpu = timed(
            lambda: bpe.evaluate(tokenizers, files, separator=SEPARATOR, threads=options.threads).to_dict()
        )
        size = sum(path.stat().st_size for path in files.values()) / 1e6
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"both on {size:.0f} MB: {seconds:.1f} s ({cpu:.1f} s of CPU), peak memory of the process {peak:.0f} MB")


def compared(
    tok: bpe.Tokenizer, path: Path, repeat: int, threads: int | None
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Median (wall, CPU) seconds of encoding a file and of evaluating it, alternated."""
    alone, whole = [], []
    for _ in range(repeat):
        alone.append(timed(lambda: tok.encode_files(path, separator=SEPARATOR, threads=threads)))
        whole.append(timed(lambda: bpe.evaluate(tok, files=path, separator=SEPARATOR, threads=threads)))
    return middle(alone), middle(whole)


def middle(rows: list[tuple[float, float]]) -> tuple[float, float]:
    """The medians of both columns."""
    return statistics.median(wall for wall, _ in rows), statistics.median(cpu for _, cpu in rows)


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """The wall clock and CPU time of a call, in seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def o200k(folder: Path) -> bpe.Tokenizer:
    """OpenAI's vocabulary of 199,998 tokens."""
    path = folder / "o200k_base.tiktoken"
    path.write_bytes(gzip.decompress((report.VOCABULARIES / "o200k_base.tiktoken.gz").read_bytes()))
    return bpe.Tokenizer.from_tiktoken(path, "o200k")


def superbpe() -> bpe.Tokenizer:
    """SuperBPE's vocabulary of 200,000 tokens."""
    vocab, merges = (report.VOCABULARIES / f"superbpe_t180k_{name}.gz" for name in ("vocab.json", "merges.txt"))
    return bpe.Tokenizer.from_vocab_merges(vocab, merges, bpe.Pretokenizer.from_regex(SUPERWORDS))


if __name__ == "__main__":
    main()
