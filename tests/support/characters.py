"""The scanners' character classes, read from their C header, for tests that compare them with other engines."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import regex
from numpy.typing import NDArray

import bpe
from bpe.base.utf8 import compute_byte_offsets, decode_losslessly
from bpe.pretokenize.pretokenizer import Pretokenizer
from bpe.text.generate_unicode import BLOCK_SIZE, CLASS_PATTERNS, NEW, NUMERIC

HEADER = Path(bpe.__file__).parent / "text" / "_unicode_classes.h"
CODES = [*range(0xD800), *range(0xE000, 0x110000)]
LETTER, NUMBER = 1, 2
#: Class bits → a character with these bits, on which all engines agree.
STAND_INS = {0: "\ue000", 1 | 16 | 32: "ª", 1 | 16: "É", 1 | 32: "é", 16 | 32: "\u0301", 2: "²", 64: "€"}


def load_arrays(name: str, kind: type) -> NDArray[np.generic]:
    """The numbers of an array in the header."""
    if not HEADER.exists():
        pytest.skip("the package was installed without its C header")
    match = re.search(rf"\b{name}\[[^=]*= \{{\n(.*?)\n\}};", HEADER.read_text(encoding="ascii"), re.DOTALL)
    assert match is not None
    return np.array([int(literal, 0) for literal in re.findall(r"\w+", match[1])], dtype=kind)


@cache
def load_table() -> NDArray[np.uint8]:
    """The class bits of every code point, as in `generate_unicode.CLASS_PATTERNS`, and NEW."""
    index, cells = load_arrays("bpe_class_index", np.int64), load_arrays("bpe_class_blocks", np.uint8)
    starts, late = load_arrays("bpe_late_starts", np.int64), load_arrays("bpe_late_classes", np.uint8)
    cells_by_code: NDArray[np.uint8] = cells.reshape(-1, BLOCK_SIZE)[index].reshape(-1)
    assert len(cells_by_code) == starts[0]
    return np.concatenate((cells_by_code, np.repeat(late, np.diff(np.append(starts, 0x110000)))))


@cache
def load_classes(name: str) -> NDArray[np.uint8]:
    """The class bits of every code point for a pretokenizer, without NEW."""
    class_bits = load_table() & ~np.uint8(NEW)
    for first_code, last_code, bits in load_arrays("bpe_later", np.int64).reshape(-1, 3).tolist():
        if name == "clip":
            class_bits[first_code : last_code + 1] = {LETTER: LETTER | 16 | 32}.get(bits & 3, bits & 3)
        elif name == "starcoder" and bits & NUMERIC:
            class_bits[first_code : last_code + 1] = NUMBER
    return class_bits


@cache
def find_classes_by_regex() -> NDArray[np.uint8]:
    """The class bits of every code point by the installed `regex` package."""
    class_bits = np.zeros(0x110000, dtype=np.uint8)
    text = "".join(map(chr, CODES))
    for bit, pattern in enumerate(CLASS_PATTERNS.values()):
        for match in regex.finditer(f"{pattern.replace(chr(92) + 's', chr(92) + 'p{White_Space}')}+", text):
            codes = [CODES[code] for code in (match.start(), match.end() - 1)]
            class_bits[codes[0] : codes[1] + 1] |= 1 << bit
    class_bits[0xD800:0xE000] = 0
    return class_bits


@cache
def list_stand_ins(name: str) -> dict[int, str]:
    """Characters whose class differs between the installed `regex` and a pretokenizer → one of the right class."""
    bits_of_scanner, bits_of_regex = load_classes(name).copy(), find_classes_by_regex().copy()
    if name == "clip":
        bits_of_scanner, bits_of_regex = bits_of_scanner & 7, bits_of_regex & 7  # its pattern uses no other classes
    differing = np.flatnonzero(bits_of_scanner != bits_of_regex).tolist()
    all_bits = load_classes(name)
    return {code: STAND_INS[int(all_bits[code])] for code in differing}


def find_spans_by_regex(pretokenizer: Pretokenizer, data: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The pretokens that the `regex` package finds with the published pattern and the pretokenizer's classes."""
    assert pretokenizer.name is not None
    text = decode_losslessly(data)
    shown = text.translate(list_stand_ins(pretokenizer.name))
    matched_spans = [match.span() for match in pretokenizer._compiled.finditer(shown)]
    spans = np.array([span for span in matched_spans if span[0] < span[1]], dtype=np.int64).reshape(-1, 2)
    offsets = np.arange(len(text) + 1) if len(text) == len(data) else compute_byte_offsets(text)
    return offsets[spans[:, 0]], offsets[spans[:, 1]]
