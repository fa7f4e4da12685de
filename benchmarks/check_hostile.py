"""Hostile text, made up without end, every way to encode it, against tiktoken: the ids must be the same, or this fails.

    python benchmarks/check_hostile.py [--vocab NAME]… [--bytes N] [--seconds S] [--state FILE] [--first SEED]

Each seed is a megabyte of texts: what the patterns treat apart, drawn so that it meets at every place; tokens of the
vocabulary end to end, which tempts merges across their ends; characters of any block of Unicode; long runs; words of
many scripts. Each goes through `encode`, `encode_batch`, `encode_files`, `encode_stream` (cut at random places, with
the separators as special tokens), `encode_with_offsets` and back through `decode_bytes`. With --state the seeds done
are kept, by vocabulary and by the version that --label names, so that a run can be stopped, by --seconds or otherwise,
and gone on with. Not here: texts that people wrote (`check_corpora.py`).
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import regex
from check_corpora import END, chunks
from peers import SEPARATOR, TOKENIZERS, Vocab
from report import VOCAB_NAMES, vocabularies

import bpe

#: Bytes of text by seed.
SIZE = 1_000_000

APART = (  # noqa: SIM905
    "' ' ' s S t d m ll LL ve re VE l L ſ K A B a b c x É é ß ǅ ʰ ا 語 モ 한 글 \u0301 \u0308 0 1 2 9 ٣ ½ ３ Ⅷ "
    ". , ! - / / _ “ ” — … € 😀 👩‍🔬 🇰🇷 word Hello HELLO hello the don't 1234567 语言处理 日本語の文 한국어 "
    "Привет Ελλάδα שלום नमस्ते ภาษาไทย"
).split()
SPACES = [*"      ", "  ", "    ", *"\t\n\n\r\x0b\x1c\0", "\n\n", "\r\n", *"\x85\xa0\u3000\u2028\u180e\u200b\ufeff"]
BLOCKS = (  # Unicode's, joined
    (0x20, 0x7F), (0x80, 0x250), (0x370, 0x530), (0x590, 0x700), (0x900, 0xE80), (0x1E00, 0x2BFF), (0x3000, 0x3100),
    (0x4E00, 0x9FFF), (0xAC00, 0xD7A4), (0xF900, 0xFFFE), (0x10000, 0x10FFFF),
)  # fmt: skip
LATER = regex.compile(
    r"[\p{L}\p{M}\p{N}\p{Cs}]"
)  # by the Unicode of the scanners, which libraries have not all reached


def main() -> None:
    """Compare until there is enough, or no more time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocab", choices=VOCAB_NAMES, action="append", help="may be repeated; default all three")
    parser.add_argument("--bytes", type=float, default=1e8, help="by vocabulary; default 1e8")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after about so many")
    parser.add_argument("--state", type=Path, help="a JSON file that says how far earlier runs came")
    parser.add_argument("--label", default="", help="of what is checked, such as a commit: another one begins anew")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    done: dict[str, int] = json.loads(options.state.read_text()) if options.state and options.state.exists() else {}
    until = time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory() as folder:
        for name, described in vocabularies(options.vocab or VOCAB_NAMES, folder).items():
            key = f"{name} {options.label}".strip()
            checker = Checker(Vocab(*described.split(",")), Path(folder))
            while done.get(key, 0) * SIZE < options.bytes and time.monotonic() < until:
                checker.check(options.first + done.get(key, 0))
                done[key] = done.get(key, 0) + 1
                if options.state:
                    options.state.write_text(json.dumps(done, indent=1) + "\n")
            print(f"{key}: {done.get(key, 0) * SIZE:,} bytes the same", flush=True)


class Checker:
    """One vocabulary, by this package and by tiktoken."""

    def __init__(self, vocab: Vocab, folder: Path) -> None:
        self.name = vocab.name
        self.end = END[vocab.name]
        self.tok = bpe.Tokenizer.from_tiktoken(vocab.ranks, vocab.pattern, {SEPARATOR: self.end})
        self.peer: Any = TOKENIZERS["tiktoken"]().load(vocab, 1)
        self.file = folder / "hostile.txt"
        self.words = [token.decode("utf-8", "ignore") for token in self.tok.vocab() if token != SEPARATOR.encode()]

    def check(self, seed: int) -> None:
        """Raise SystemExit where ids of a seed's texts differ."""
        source = random.Random(seed)
        documents = list(texts(source, self.words, SIZE))
        rows = [np.array(self.peer.encode_ordinary(text), dtype=np.uint32) for text in documents]
        expected = bpe.TokenBatch.from_lists(rows)
        for place, (text, row) in enumerate(zip(documents, rows, strict=True)):
            self.same(np.array_equal(self.tok.encode(text), row), f"encode of text {place}", seed)
        self.same(self.tok.encode_batch(documents, threads=2) == expected, "encode_batch", seed)
        data = SEPARATOR.join(documents).encode()
        self.file.write_bytes(data)
        self.same(self.tok.encode_files(self.file, separator=SEPARATOR, threads=1) == expected, "encode_files", seed)
        whole = np.insert(expected.ids, expected.offsets[1:-1], self.end).astype(np.uint32)
        most = source.choice([3, 50, 1000, 1 << 20])
        arrays = self.tok.encode_stream(chunks(data, 1, most), allowed_special="all")
        self.same(np.array_equal(np.concatenate(list(arrays)), whole), f"encode_stream by 1 to {most} bytes", seed)
        ids, spans = self.tok.encode_with_offsets(data, "byte", allowed_special="all")
        bounds = np.append(0, np.cumsum(self.tok.token_byte_lengths[ids], dtype=np.int64))
        tiled = np.array_equal(spans[:, 0], bounds[:-1]) and np.array_equal(spans[:, 1], bounds[1:])
        self.same(np.array_equal(ids, whole) and tiled, "encode_with_offsets", seed)
        self.same(self.tok.decode_bytes(whole) == data, "decode_bytes", seed)

    def same(self, same: bool, way: str, seed: int) -> None:
        """End the run unless it is."""
        if not same:
            print(f"{self.name}, seed {seed}, {way}: DIFFERENT", flush=True)
            sys.exit(1)


def texts(source: random.Random, words: list[str], size: int) -> Iterator[str]:
    """Texts of a few characters to some 10,000, `size` bytes in all; none has the separator in it."""
    while size > 0:
        pieces = drawn(source, words)
        text = "".join(source.choices(pieces, k=source.choice([1, 3, 10, 30, 100, 300, 3000, 10000])))
        if len(text) > 40_000 or SEPARATOR in text:
            continue
        size -= len(text.encode())
        yield text


def drawn(source: random.Random, words: list[str]) -> list[str]:
    """What a text is made of."""
    kind = source.randrange(7)
    if kind == 0:
        return APART + SPACES
    if kind == 1:
        return source.sample(APART + SPACES, source.choice([2, 3, 4, 12]))
    if kind == 2:
        return source.sample(words, source.choice([2, 10, 1000]))
    if kind == 3:
        return source.sample(words, 200) + source.sample(APART, 10) + source.sample(SPACES, 5) + [" "] * 40
    if kind == 4:
        return [characters(source, 1) for _ in range(source.choice([2, 30, 500]))] + source.sample(SPACES, 2)
    if kind == 5:  # runs, at the lengths where ways part
        run = source.choice(APART + SPACES)
        return [
            run * source.choice([1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 257]),
            *source.sample(APART, 2),
        ]
    return [source.choice([*"etaoin shrdlu", *SPACES[:4]]) for _ in range(20)] + source.sample(words, 20)


def characters(source: random.Random, n: int) -> str:
    """Characters of one block of Unicode: no surrogates, and none that is a letter by a later Unicode than Python's."""
    low, high = source.choice(BLOCKS)
    drawn = (chr(source.randrange(low, high)) for _ in range(n))
    return "".join(char for char in drawn if not (unicodedata.category(char) in ("Cn", "Cs") and LATER.match(char)))


if __name__ == "__main__":
    main()
