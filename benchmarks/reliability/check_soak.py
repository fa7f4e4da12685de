"""Use everything at once for as long as you like: 4 processes of 4 threads, with an oracle beside, and flat memory.

    python benchmarks/reliability/check_soak.py [--minutes 60] [--processes 4] [--threads 4] [--seed S]

Each process holds shared objects (`tests/support/shared_objects.py`) and a few tokenizers. Each thread draws, again and
again: a call of a shared object, whose result must be one that some order of the calls gives; hostile text that is
encoded in every way, each of which must give the ids of the naive twin (`tests/reference.py`); or a corpus that is
counted, trained on and written to shards, where the merges and ids must be those of the naive twin. After a warm-up of
a tenth of the time, the memory of each process is noted; it may grow by at most 5%, or 8 MB if that is more. The
allocator of glibc has one arena then: with one for each thread, it fills them by and by, which looks like a leak.
"""

# ruff: noqa: E402 (modules of other folders are imported by name)
from __future__ import annotations

import argparse
import logging
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "benchmarks" / "checks"), str(ROOT / "tests" / "support"), str(ROOT / "tests")]

import reference
from check_hostile import draw_texts
from shared_objects import CASES
from sharing import SharedObject, SkippedError

import bpe
from bpe.count._word_table import give_memory_back
from bpe.data import TokenShards, encode_shards

#: How much the memory of a process may grow after the warm-up: a share, and bytes.
MAX_GROWTH, MIN_GROWTH_BYTES = 0.05, 8 << 20
#: The shared objects of each process; the others start processes, or change the environment.
OBJECTS = [name for name in CASES if name not in ("named_encodings", "transformers")]
WORDS = ["low", "lower", "newest", "widest", "naïve", "두 번째", "日本語", "😀", "def f(x):\n", "\t\t", "12345"]
MANY_WORDS = [f"{word}{index}" for word in WORDS for index in range(100)]


class Soak:
    """What the threads of one process use, and what they found."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []
        self._folder, self._seed, self._lock = folder, seed, threading.Lock()
        texts = [" ".join(random.Random(index).choices(WORDS, k=40)) for index in range(200)]
        trained: list[Any] = [
            bpe.train(texts=texts, vocab_size=600, special_tokens=["<|end|>"], pretokenizer=name)
            for name in ("gpt2", "cl100k", "o200k", "qwen2")
        ]
        # Caches that are soon full: the usual ones grow for an hour.
        self.tokenizers = [bpe.Tokenizer(tok.spec, cache_memory="256K") for tok in trained]
        self.ranks = [
            {tok.token_bytes(index): index for index in range(tok.n_vocab) if index} for tok in self.tokenizers
        ]
        self.merges = [self._list_merges(tok) for tok in self.tokenizers]
        self.shared: dict[str, SharedObject] = {}
        rng = random.Random(seed)
        for name in rng.sample(OBJECTS, 8):
            (folder / name).mkdir()
            try:
                self.shared[name] = CASES[name](folder / name)
            except SkippedError:
                continue

    @staticmethod
    def _list_merges(tok: bpe.Tokenizer) -> dict[tuple[bytes, bytes], int]:
        pairs = ((tok.token_bytes(left), tok.token_bytes(right)) for left, right in tok.merges.tolist())
        return {pair: rank for rank, pair in enumerate(pairs)}

    def run(self, index: int, end: float) -> None:
        """Draw one thing after another until the end, in the thread of a number."""
        rng = random.Random(self._seed * 1000 + index)
        draws: list[Callable[[int, random.Random], str]] = [*[self.call_shared] * 6, *[self.encode] * 6, self.train]
        while time.monotonic() < end and len(self.faults) < 20:
            draw = rng.choice(draws)
            try:
                problem = draw(index, rng)
            except BaseException:  # noqa: BLE001 (whatever it is, it is a fault, and shown)
                problem = traceback.format_exc()
            with self._lock:
                self.counts[draw.__name__] += 1
            if problem:
                self.faults.append(f"{draw.__name__}: {problem}")

    def call_shared(self, index: int, rng: random.Random) -> str:
        """Call a shared object."""
        name = rng.choice(list(self.shared))
        problem = self.shared[name].step(index, rng)
        return f"{name}: {problem}" if problem else ""

    def encode(self, index: int, rng: random.Random) -> str:
        """Encode hostile text in every way."""
        number = rng.randrange(len(self.tokenizers))
        tok, merges, ranks = self.tokenizers[number], self.merges[number], self.ranks[number]
        text = "".join(draw_texts(rng, MANY_WORDS, rng.choice([10, 300, 3000])))[:3000]
        text = text.encode("utf-8", "replace").decode()
        assert tok.pretokenizer is not None
        expected = [
            ranks[token]
            for piece in tok.pretokenizer.split(text)
            for token in reference.encode_word(reference.byte_word(piece.encode()), merges)
        ]
        path = self._folder / f"text{index}"
        path.write_text(text, encoding="utf-8", newline="")
        ways: dict[str, Callable[[], Any]] = {
            "encode": lambda: tok.encode(text),
            "bytes": lambda: tok.encode(text.encode()),
            "batch": lambda: tok.encode_batch([text] * 3, threads=2)[1],
            "file": lambda: tok.encode_files([path], threads=2).ids,
            "stream": lambda: [token_id for ids in tok.encode_stream([text[:7], text[7:]]) for token_id in ids],
            "offsets": lambda: tok.encode_with_offsets(text)[0],
            "fresh": lambda: bpe.Tokenizer(tok.spec, cache_memory="64K").encode(text),
        }
        for name, encode in ways.items():
            try:
                ids = [int(token_id) for token_id in encode()]
            except bpe.FormatError as error:
                if name == "file":  # it begins as one that is no text
                    continue
                return f"{name} of {text!r} by tokenizer {number}: {error}"
            if ids != expected:
                return f"{name} of {text!r} by tokenizer {number} gives {ids[:50]}, the twin {expected[:50]}"
        if tok.decode_bytes(expected) != text.encode() or tok.count_tokens(text) != len(expected):
            return f"{text!r} is not what its ids decode to, or has another number of tokens"
        return ""

    def train(self, index: int, rng: random.Random) -> str:
        """Count, train and write shards of a small corpus, and compare all with the naive twin."""
        texts = [" ".join(rng.choices(WORDS, k=rng.randrange(1, 30))) for _ in range(rng.randrange(2, 20))]
        counts = bpe.count_words(texts=texts, threads=rng.choice([1, 3]))
        pieces = (piece.encode() for text in texts for piece in bpe.Pretokenizer("gpt2").split(text))
        naive = reference.count_words(pieces)
        if list(counts.items()) != list(naive.items()):
            return f"the words of {texts} differ"
        tok = bpe.train(texts=texts, num_merges=30, threads=rng.choice([1, 2]))
        split = {reference.byte_word(word): n for word, n in naive.items()}
        trained = reference.train(split, num_merges=30, alphabet=reference.gpt2_byte_order())
        expected = [(step.left, step.right) for step in trained.steps]
        if list(self._list_merges(tok)) != expected:
            return f"the merges of {texts} are {list(self._list_merges(tok))}, the twin's {expected}"
        out, path = self._folder / f"shards{index}", self._folder / f"corpus{index}"
        shutil.rmtree(out, ignore_errors=True)
        lines = [text.replace("\n", " ") + "\n" for text in texts]
        path.write_text("".join(lines), encoding="utf-8")
        encode_shards(bpe.Sources(path, per_line=True), tok, out, shard_size=200, threads=2)
        rows = [row.tolist() for row in TokenShards(out).documents]
        if rows != [tok.encode(line).tolist() for line in lines]:
            return f"the shards of {lines} have other ids"
        return ""


def read_memory() -> int:
    """Read the resident memory of this process in bytes, without what is free."""
    give_memory_back()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def run_process(seed: int, seconds: float, threads: int) -> int:
    """Run the threads of one process: the number of faults."""
    logging.disable()
    warnings.simplefilter("ignore")
    sys.setswitchinterval(1e-5)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        soak = Soak(Path(name), seed)
        end = time.monotonic() + seconds
        started = [threading.Thread(target=soak.run, args=(index, end)) for index in range(threads)]
        for thread in started:
            thread.start()
        time.sleep(seconds / 10)
        samples = [read_memory()]
        while any(thread.is_alive() for thread in started):
            started[0].join(seconds / 20)
            samples.append(read_memory())
        for thread in started:
            thread.join()
        soak.faults += [problem for shared in soak.shared.values() for problem in shared.finish()]
    first, last = max(samples[:3]), sorted(samples[-5:])[len(samples[-5:]) // 2]
    if last - first > max(MAX_GROWTH * first, MIN_GROWTH_BYTES):
        soak.faults.append(f"memory grew from {first >> 20} to {last >> 20} MB")
    for fault in soak.faults[:5]:
        print(f"process {seed}: {fault[-1500:]}", flush=True)
    counts = ", ".join(f"{count} × {name}" for name, count in soak.counts.most_common())
    memory = f"{first >> 20} MB after the warm-up, {last >> 20} at the end, {max(samples) >> 20} at most"
    print(f"process {seed}: {counts}; {', '.join(soak.shared)}; {memory}; {len(soak.faults)} faults", flush=True)
    return min(len(soak.faults), 1)


def main() -> int:
    """Run the processes; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--in-process", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.in_process:
        return run_process(options.seed, options.minutes * 60, options.threads)
    arguments = [f"--minutes={options.minutes}", f"--threads={options.threads}", "--in-process"]
    environment = {**os.environ, "MALLOC_ARENA_MAX": "1"}
    started = [
        subprocess.Popen([sys.executable, __file__, *arguments, f"--seed={options.seed + index}"], env=environment)
        for index in range(options.processes)
    ]
    failed = sum(process.wait() != 0 for process in started)
    print("all right" if not failed else f"{failed} processes failed")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
