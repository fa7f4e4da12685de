"""Read mutated rank files, CLIP merge lists and .npy files: each must raise FormatError or be read correctly.

    python benchmarks/checks/check_mutations.py [KIND …] [--count N] [--seed S]

Makes mutations, 20,000 by default, of a small file of each kind. A naive reader gives the correct result.
"""

from __future__ import annotations

import argparse
import base64
import copy
import io
import random
from collections.abc import Callable, Collection
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import bpe
from bpe.formats import id_files

#: Values that a field is replaced by.
ODD_VALUES: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 255, 2**16, 2**31 - 1, 2**31, 2**32, 2**63, 2**64, 10**400, 0.5, float("nan"), -1e308,
    "", "x", "\0", "\ud800", "é" * 300, "../x", "/dev/null", [], {}, [[]], [None], {"": None}, ["x"] * 9,
)  # fmt: skip
TEXTS = ("low lower lowest newer newest", "abc ab abab", "\x00\xff low\n")


def mutate(rng: random.Random, data: bytes) -> bytes:
    """The data after one to four changes: a bit flipped, bytes removed, repeated or inserted, lines swapped."""
    for _ in range(rng.randint(1, 4)):
        if not data:
            break
        offset, second_offset = rng.randrange(len(data)), rng.randrange(len(data))
        low, high = sorted((offset, min(len(data), offset + rng.choice((1, 2, 8, 40)))))
        kind = rng.randrange(7)
        if kind == 0:
            data = data[:offset] + bytes([data[offset] ^ 1 << rng.randrange(8)]) + data[offset + 1 :]
        elif kind == 1:
            data = data[:offset]
        elif kind == 2:
            data = data[:high] + data[low:high] + data[high:]
        elif kind == 3:
            data = data[:low] + data[high:]
        elif kind == 4:
            data = data[:offset] + data[second_offset : second_offset + 12] + data[offset:]
        elif kind == 5:
            data = (
                data[:offset]
                + rng.choice((b"\n", b" ", b"=", b"0", b"-", b"\r", b"9" * 12, b"(", b"\x00"))
                + data[offset:]
            )
        else:
            lines = data.split(b"\n")
            first_line, second_line = rng.randrange(len(lines)), rng.randrange(len(lines))
            lines[first_line], lines[second_line] = lines[second_line], lines[first_line]
            data = b"\n".join(lines)
    return data


def spoil(rng: random.Random, value: Any) -> Any:
    """A copy of a value of JSON after one or two changes: a part replaced, removed, doubled, moved, or out of range."""
    value = copy.deepcopy(value)
    for _ in range(rng.choice((1, 1, 2))):
        place = find_place(rng, value)
        if place is None:
            return rng.choice(ODD_VALUES)
        parent, key = place
        change = rng.randrange(5)
        if change == 0:
            del parent[key]
        elif change == 1 and isinstance(parent, list):
            parent.insert(rng.randrange(len(parent) + 1), copy.deepcopy(parent[key]))
        elif change == 1:
            parent[rng.choice(["", "x", "version", key + key])] = copy.deepcopy(parent[key])
        elif change == 2:
            other_parent, other_key = find_place(rng, value) or place
            parent[key] = copy.deepcopy(other_parent[other_key])
        else:
            parent[key] = spoil_leaf(rng, parent[key])
    return value


def find_place(rng: random.Random, value: Any) -> tuple[Any, Any] | None:
    """A random place within a value, as the list or dict and the index or key; None in one that has no parts."""
    place = None
    while isinstance(value, (dict, list)) and value and (place is None or rng.random() < 0.7):
        key = rng.choice(sorted(value)) if isinstance(value, dict) else rng.randrange(len(value))
        place, value = (value, key), value[key]
    return place


def spoil_leaf(rng: random.Random, value: Any) -> Any:
    """Another value, at times one near the old one."""
    if rng.random() < 0.3:
        return copy.deepcopy(rng.choice(ODD_VALUES))
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return rng.choice([value + 1, value - 1, -value, value * 2, value + 300, float(value), str(value)])
    if isinstance(value, str):
        return rng.choice(
            [value + "x", value[1:], value[:-1], value.upper(), value + "\ud800", value + "\0", f" {value}"]
        )
    if isinstance(value, list):
        return rng.choice([[], value[::-1], value[1:], value + value, [value], dict(enumerate(map(str, value)))])
    if isinstance(value, dict):
        return rng.choice([{}, [value], list(value.items()), list(value), str(value)])
    return not value


def read_naively(data: bytes) -> dict[bytes, int] | None:
    """The ranks in a file as `tiktoken` reads it; None if a line is not a token and a rank."""
    ranks: dict[bytes, int] = {}
    for line in data.splitlines():
        fields = line.split()
        if line and fields[:1] != [b"="]:
            if len(fields) != 2:
                return None
            ranks[base64.b64decode(fields[0], validate=True)] = int(fields[1])
    return ranks


def encode_naively(word: bytes, ranks: dict[bytes, int]) -> list[int]:
    """Encode by `tiktoken`'s rule: repeatedly merge the two adjacent parts that make the token of the lowest rank."""
    if word in ranks:
        return [ranks[word]]
    parts = [word[i : i + 1] for i in range(len(word))]
    while True:
        candidates = [(ranks[a + b], i) for i, (a, b) in enumerate(pairwise(parts)) if a + b in ranks]
        if not candidates:
            return [ranks[part] for part in parts]
        index = min(candidates)[1]
        parts[index : index + 2] = [parts[index] + parts[index + 1]]


def check_ranks(rng: random.Random, path: Path, original: bytes) -> bool:
    """Check one mutated rank file: False if it was refused, True if it was read and encodes correctly."""
    data = mutate(rng, original)
    path.write_bytes(data)
    try:
        tok = bpe.Tokenizer.from_tiktoken(path, None)
    except bpe.FormatError:
        return False
    ranks = read_naively(data)
    assert ranks is not None, data
    for text in TEXTS:
        word = text.encode("latin-1")
        if any(bytes([byte]) not in ranks for byte in word):
            continue  # encoding a word with a byte that has no token raises an error
        assert tok.encode(word).tolist() == encode_naively(word, ranks), (data, word)
        assert tok.decode_bytes(tok.encode(word)) == word
    return True


def check_clip(rng: random.Random, path: Path, original: bytes) -> bool:
    """Check one mutated merge list; the naive twin is CLIP's own `bpe` function on the listed pairs."""
    data = mutate(rng, original)
    path.write_bytes(data)
    try:
        tok = bpe.Tokenizer.from_clip(path, ftfy=False)
    except bpe.FormatError:
        return False
    merges = [tuple(line.split()) for line in data.decode().split("\n")[1:]]
    ranks = {pair: rank for rank, pair in enumerate(merges) if len(pair) == 2}
    for word in ("lower", "newest", "lowest", "abab", "a"):
        parts = [*word[:-1], word[-1] + "</w>"]
        while candidates := [(ranks[p], i) for i, p in enumerate(pairwise(parts)) if p in ranks]:
            pair = merges[min(candidates)[0]]
            merged_parts: list[str] = []
            index = 0
            while index < len(parts):
                both = tuple(parts[index : index + 2]) == pair
                merged_parts.append("".join(parts[index : index + 2]) if both else parts[index])
                index += 2 if both else 1
            parts = merged_parts
        assert [tok.token_bytes(token_id).decode() for token_id in tok.encode(word).tolist()] == parts, (data, word)
    return True


def check_npy(rng: random.Random, path: Path, original: bytes) -> bool:
    """Check an .npy file of ids and its offsets file, one of which is mutated; NumPy is the naive reader."""
    offsets = io.BytesIO()
    np.save(offsets, np.array([0, 3, 3, 20], dtype=np.int64))
    mutates_first = rng.random() < 0.5
    first_data = mutate(rng, original) if mutates_first else original
    second = offsets.getvalue() if mutates_first else mutate(rng, offsets.getvalue())
    if not first_data.startswith(b"\x93NUMPY"):
        return False  # without the magic number, the file is read as text
    path.write_bytes(first_data)
    Path(id_files.offsets_path(str(path))).write_bytes(second)
    try:
        with path.open("rb") as file:
            read = [(ids.tolist(), begins) for _, ids, begins, _ in id_files.read_ids(file, str(path))]
    except bpe.FormatError:
        return False
    ids, bounds = np.load(io.BytesIO(first_data)), np.load(io.BytesIO(second))
    expected = [ids[a:b].tolist() for a, b in zip(bounds.tolist(), bounds.tolist()[1:], strict=False)]
    assert read == [(row, True) for row in expected], (first_data, second)
    return True


def make_originals() -> dict[str, bytes]:
    """A small file of each kind."""
    tok = bpe.train(texts=[TEXTS[0]] * 3 + ["abc abab"], vocab_size=275)
    ranks = b"".join(b"%s %d\n" % (base64.b64encode(token), token_id) for token, token_id in tok.vocab().items())
    clip = b"#version: 0.2\nl o\nlo w</w>\ne r</w>\nlo w\nlow er</w>\nn e\nne w\ne s\nes t</w>\n"
    clip += b"low est</w>\na b\nab ab</w>\n"
    ids = io.BytesIO()
    np.save(ids, np.arange(20, dtype=np.uint32))
    return {"ranks": ranks, "clip": clip, "npy": ids.getvalue()}


CHECKS = {"ranks": check_ranks, "clip": check_clip, "npy": check_npy}


def check(count: int, seed: int, kinds: Collection[str] = ()) -> dict[str, int]:
    """Check `count` mutations of some kinds, or all; return how many of each were read."""
    counts = {}
    with TemporaryDirectory() as folder:
        for name, original in make_originals().items():
            if not kinds or name in kinds:
                rng = random.Random(f"{name}{seed}")
                counts[name] = sum(CHECKS[name](rng, Path(folder) / f"x.{name}", original) for _ in range(count))
    return counts


def run(about: str | None, check: Callable[[int, int, Collection[str]], dict[str, int]], count: int) -> None:
    """Run a check as a script: `count` files of each kind, unless arguments say otherwise."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", metavar="KIND", nargs="*", help="default all")
    parser.add_argument("--count", type=int, default=count, help=f"files of each kind (default {count:,})")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    counts = check(options.count, options.seed, options.kinds)
    if unknown := set(options.kinds) - counts.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}; `--count 0` shows all kinds")
    print(f"{options.count} damaged files of each kind; read correctly: {counts}; the others were refused")


if __name__ == "__main__":
    run(__doc__, check, 20_000)
