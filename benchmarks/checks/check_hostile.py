"""Compare every way to encode with tiktoken, on generated hostile text; a different id fails the run.

    python benchmarks/checks/check_hostile.py [--vocab NAME]… [--pattern NAME]… [--bytes N] [--seconds S] [--state FILE]
        [--first SEED]
    python benchmarks/checks/check_hostile.py --code-points [--pattern NAME]…

Each seed gives a megabyte of texts: random sequences of the characters that the patterns distinguish; tokens of the
vocabulary end to end, so that merges across their ends are possible; characters of any block and plane of Unicode,
unassigned and new ones included; long runs; words of many scripts. Each text goes through `encode`, `encode_batch`,
`encode_files`, `encode_stream` (in random chunks, with the separators as special tokens), `encode_with_offsets` and
back through `decode_bytes`. --state records the seeds that are done, by vocabulary and by the version that --label
names, so that a run that was stopped, by --seconds or otherwise, can be resumed.

With --pattern, the pretokens of the same texts are compared with those of `tokenizers`, for the pre_tokenizer that
tokenizer.json files have. With --code-points, every code point is compared so, in several contexts: by the patterns
that --pattern names, or by all that `tokenizers` has and by its normalizers. `check_corpora.py` checks texts that
people wrote.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from check_corpora import END, split_chunks
from inputs import SEPARATOR, TOKENIZERS, VOCAB_NAMES, Vocab, write_vocabularies

import bpe
from bpe.pretokenize.patterns import DEEPSEEK_STEPS, ONIGURUMA_SPELLINGS

#: Bytes of text per seed.
SIZE = 1_000_000

#: Characters and words of each class that some pattern distinguishes.
DISTINCT = (  # noqa: SIM905
    "' ' ' s S t d m ll LL ve re VE l L ſ K A B a b c x É é ß ǅ ʰ ا 語 モ 한 글 \u0301 \u0308 0 1 2 9 ٣ ½ ３ Ⅷ "
    ". , ! - / / _ “ ” — … € 😀 👩‍🔬 🇰🇷 word Hello HELLO hello the don't 1234567 语言处理 日本語の文 한국어 "
    "Привет Ελλάδα שלום नमस्ते ภาษาไทย"
).split()
SPACES = [*"      ", "  ", "    ", *"\t\n\n\r\x0b\x1c\0", "\n\n", "\r\n", *"\x85\xa0\u3000\u2028\u180e\u200b\ufeff"]
BLOCKS = (  # ranges of code points, of one or more blocks of Unicode
    (0x20, 0x7F), (0x80, 0x250), (0x370, 0x530), (0x590, 0x700), (0x900, 0xE80), (0x1E00, 0x2BFF), (0x3000, 0x3100),
    (0x4E00, 0x9FFF), (0xAC00, 0xD7A4), (0xF900, 0xFFFE), (0x10000, 0x10FFFF),
    # and those with most of the new or unassigned code points
    (0x10D40, 0x11200), (0x11A00, 0x12000), (0x16D40, 0x17000), (0x1C880, 0x1CCFF), (0x323A0, 0x33500),
    (0x3D000, 0x3FD00), (0xE0000, 0xE0200),
)  # fmt: skip
#: The patterns that `tokenizers` has; `clip` is pinned to the classes of OpenAI's code instead.
PATTERN_NAMES = (
    "gpt2", "cl100k", "o200k", "llama3", "qwen2", "tekken", "deepseek_v3", "starcoder", "whitespace",
)  # fmt: skip
#: Contexts for --code-points: between letters, before a number, doubled after a space, as a contraction, near newlines.
CONTEXTS = ("a{0}b\n", " {0}1\n", "'{0}s {0}{0}\n", "A{0}A\t{0}/\n")
#: Contexts for normalizers: before a mark, between marks, between parts of Hangul syllables, beside sigma.
NORMALIZER_CONTEXTS = (
    "{0}\u0301|",
    "a\u0345{0}\u0334 ",
    "\u1100{0}\u11a8 ",
    "\uac00{0}",
    "o{0}\u0323\u0301",
    "AΣ{0}A",
    "A{0}Σ ",
)
#: Code points per text with --code-points.
PART = 40_000


def main() -> None:
    """Compare until --bytes or --seconds is reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocab", choices=VOCAB_NAMES, action="append", help="may be repeated; default all three")
    parser.add_argument("--pattern", choices=PATTERN_NAMES, action="append", help="may be repeated; pretokens only")
    parser.add_argument("--code-points", action="store_true", help="only compare every code point, once")
    parser.add_argument("--bytes", type=float, default=1e8, help="per vocabulary; default 1e8")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after about this many seconds")
    parser.add_argument("--state", type=Path, help="a JSON file that records the seeds that are done")
    parser.add_argument("--label", default="", help="the version checked, such as a commit; a new one starts over")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    n_done: dict[str, int] = json.loads(options.state.read_text()) if options.state and options.state.exists() else {}
    until = time.monotonic() + options.seconds
    if options.code_points:
        check_code_points(options.pattern)
        return
    if options.pattern:
        words = [a + b for a in DISTINCT for b in DISTINCT]  # instead of a vocabulary's tokens
        for name in options.pattern:
            pretokens, size, seed = PretokenChecker(name), 0, options.first
            while size < options.bytes and time.monotonic() < until:
                size += sum(
                    pretokens.check(text, f"seed {seed}") for text in draw_texts(random.Random(seed), words, SIZE)
                )
                seed += 1
            print(f"{name}: {size:,} bytes the same", flush=True)
        return
    with tempfile.TemporaryDirectory() as folder:
        for name, vocab_text in write_vocabularies(options.vocab or VOCAB_NAMES, folder).items():
            key = f"{name} {options.label}".strip()
            checker = Checker(Vocab(*vocab_text.split(",")), Path(folder))
            while n_done.get(key, 0) * SIZE < options.bytes and time.monotonic() < until:
                checker.check(options.first + n_done.get(key, 0))
                n_done[key] = n_done.get(key, 0) + 1
                if options.state:
                    options.state.write_text(json.dumps(n_done, indent=1) + "\n")
            print(f"{key}: {n_done.get(key, 0) * SIZE:,} bytes the same", flush=True)


class Checker:
    """Compares this package with tiktoken for one vocabulary."""

    def __init__(self, vocab: Vocab, folder: Path) -> None:
        self.name = vocab.name
        self.end = END[vocab.name]
        self.tok = bpe.Tokenizer.from_tiktoken(vocab.ranks, vocab.pattern, {SEPARATOR: self.end})
        self.peer: Any = TOKENIZERS["tiktoken"]().load(vocab, 1)
        self.file = folder / "hostile.txt"
        self.words = [token.decode("utf-8", "ignore") for token in self.tok.vocab() if token != SEPARATOR.encode()]

    def check(self, seed: int) -> None:
        """End the run if any ids of a seed's texts differ."""
        source = random.Random(seed)
        documents = list(draw_texts(source, self.words, SIZE))
        rows = [np.array(self.peer.encode_ordinary(text), dtype=np.uint32) for text in documents]
        expected = bpe.TokenBatch.from_lists(rows)
        for index, (text, row) in enumerate(zip(documents, rows, strict=True)):
            self.require(np.array_equal(self.tok.encode(text), row), f"encode of text {index}", seed)
        self.require(self.tok.encode_batch(documents, threads=2) == expected, "encode_batch", seed)
        data = SEPARATOR.join(documents).encode()
        self.file.write_bytes(data)
        self.require(self.tok.encode_files(self.file, separator=SEPARATOR, threads=1) == expected, "encode_files", seed)
        with_ends = np.insert(expected.ids, expected.offsets[1:-1], self.end).astype(np.uint32)
        max_size = source.choice([3, 50, 1000, 1 << 20])
        arrays = self.tok.encode_stream(split_chunks(data, 1, max_size), allowed_special="all")
        self.require(
            np.array_equal(np.concatenate(list(arrays)), with_ends), f"encode_stream by 1 to {max_size} bytes", seed
        )
        ids, spans = self.tok.encode_with_offsets(data, "byte", allowed_special="all")
        bounds = np.append(0, np.cumsum(self.tok.token_byte_lengths[ids], dtype=np.int64))
        tiled = np.array_equal(spans[:, 0], bounds[:-1]) and np.array_equal(spans[:, 1], bounds[1:])
        self.require(np.array_equal(ids, with_ends) and tiled, "encode_with_offsets", seed)
        self.require(self.tok.decode_bytes(with_ends) == data, "decode_bytes", seed)

    def require(self, is_equal: bool, way: str, seed: int) -> None:
        """End the run unless the results of a way to encode are the same."""
        if not is_equal:
            print(f"{self.name}, seed {seed}, {way}: DIFFERENT", flush=True)
            sys.exit(1)


class PretokenChecker:
    """Compares this package with `tokenizers` for one pretokenizer."""

    def __init__(self, name: str) -> None:
        from tokenizers import Regex, pre_tokenizers

        def isolated(pattern: str) -> Any:
            return pre_tokenizers.Split(Regex(pattern), "isolated")

        level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        special: dict[str, Callable[[], Any]] = {
            "gpt2": lambda: level,
            "deepseek_v3": lambda: pre_tokenizers.Sequence([isolated(step) for step in DEEPSEEK_STEPS]),
            "starcoder": lambda: pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), level]),
            "whitespace": pre_tokenizers.WhitespaceSplit,
        }
        self.name = name
        self.peer = special[name]() if name in special else isolated(ONIGURUMA_SPELLINGS[name])
        self.own = bpe.Pretokenizer(name)

    def check(self, text: str, where: str) -> int:
        """End the run if pretokens differ; return the text's length in bytes."""
        data = text.encode()
        expected = np.array([span for _, span in self.peer.pre_tokenize_str(text)], dtype=np.int64).reshape(-1, 2)
        begun = np.cumsum(np.frombuffer(data, dtype=np.uint8) & 0xC0 != 0x80) - 1
        starts, ends = self.own.spans(data)
        spans = np.stack((begun[starts], np.append(begun, len(text))[ends]), axis=1)
        if not np.array_equal(spans, expected):
            n_compared = min(len(spans), len(expected))
            differing = np.flatnonzero((spans[:n_compared] != expected[:n_compared]).any(axis=1))
            first_difference = int(differing[0]) if len(differing) else n_compared - 1
            span, expected_span = spans[first_difference], expected[first_difference]
            near = ascii(text[max(0, int(expected_span[0]) - 8) : int(expected_span[1]) + 8])
            print(f"{self.name}, {where}: DIFFERENT near {near}: {span} for {expected_span}", flush=True)
            sys.exit(1)
        return len(data)


def check_code_points(names: list[str] | None) -> None:
    """Check every code point with some patterns, or with every pattern and normalizer that `tokenizers` has."""
    from tokenizers import normalizers

    codes = [*range(0xD800), *range(0xE000, 0x110000)]
    parts = [list(map(chr, codes[start : start + PART])) for start in range(0, len(codes), PART)]
    for name in names or PATTERN_NAMES:
        checker = PretokenChecker(name)
        for context in CONTEXTS:
            for part in parts:
                checker.check("".join(map(context.format, part)), f"U+{ord(part[0]):04X} and on")
        print(f"{name}: every code point the same", flush=True)
    for name in () if names else ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Strip"):
        normalizer, peer_normalizer = getattr(bpe.normalizers, name)(), getattr(normalizers, name)()
        for context in NORMALIZER_CONTEXTS:
            for part in parts:
                text = "".join(map(context.format, part))
                if normalizer(text) != peer_normalizer.normalize_str(text):
                    sys.exit(f"{name}: DIFFERENT between {part[0]!a} and {part[-1]!a} in {context!a}")
        print(f"{name}: every code point the same", flush=True)


def draw_texts(source: random.Random, words: list[str], size: int) -> Iterator[str]:
    """Texts of a few to tens of thousands of characters, `size` bytes in all; none contains the separator."""
    while size > 0:
        pieces = draw_pieces(source, words)
        text = "".join(source.choices(pieces, k=source.choice([1, 3, 10, 30, 100, 300, 3000, 10000])))
        if len(text) > 40_000 or SEPARATOR in text:
            continue
        size -= len(text.encode())
        yield text


def draw_pieces(source: random.Random, words: list[str]) -> list[str]:
    """Pieces of one random kind, of which a text is made."""
    kind = source.randrange(7)
    if kind == 0:
        return DISTINCT + SPACES
    if kind == 1:
        return source.sample(DISTINCT + SPACES, source.choice([2, 3, 4, 12]))
    if kind == 2:
        return source.sample(words, source.choice([2, 10, 1000]))
    if kind == 3:
        return source.sample(words, 200) + source.sample(DISTINCT, 10) + source.sample(SPACES, 5) + [" "] * 40
    if kind == 4:
        return [draw_characters(source, 1) for _ in range(source.choice([2, 30, 500]))] + source.sample(SPACES, 2)
    if kind == 5:  # runs, of lengths at which the encoder changes its method
        run = source.choice(DISTINCT + SPACES)
        return [
            run * source.choice([1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 257]),
            *source.sample(DISTINCT, 2),
        ]
    return [source.choice([*"etaoin shrdlu", *SPACES[:4]]) for _ in range(20)] + source.sample(words, 20)


def draw_characters(source: random.Random, n: int) -> str:
    """Random characters of one range of Unicode, assigned or not, but no surrogates."""
    low, high = source.choice(BLOCKS)
    codes = (source.randrange(low, high) for _ in range(n))
    return "".join(chr(code) for code in codes if not 0xD800 <= code < 0xE000)


if __name__ == "__main__":
    main()
