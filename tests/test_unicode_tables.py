"""The generated character classes are what the `regex` package says, code point by code point."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import regex

import bpe._core.scan
from bpe._core import generate_unicode
from bpe._core.scan import UNICODE_VERSION
from bpe.pretokenize import Pretokenizer

HEADER = Path(bpe._core.scan.__file__).with_name("unicode_classes.h")


def test_version_is_recorded() -> None:
    assert regex.fullmatch(r"\d+\.\d+", UNICODE_VERSION)


def test_file_is_what_the_generator_writes() -> None:
    if generate_unicode.unicode_version() != UNICODE_VERSION:
        pytest.skip(
            f"the tables are of Unicode {UNICODE_VERSION}, the installed regex {regex.__version__} is of "
            f"{generate_unicode.unicode_version()}"
        )
    if not HEADER.exists():
        pytest.skip("the package was installed without its C header")
    assert generate_unicode.header() == HEADER.read_text(encoding="ascii")


def test_surrogates_have_no_class() -> None:
    table = generate_unicode.classes()
    assert not any(table[0xD800:0xE000])
    assert len(table) == sys.maxunicode + 1


def test_white_space_is_the_unicode_property() -> None:
    """All 25 characters of White_Space and no other: not U+001C to U+001F, not U+180E, not U+200B."""
    table = np.frombuffer(bytes(generate_unicode.classes()), dtype=np.uint8)
    bit = 1 << list(generate_unicode.BITS).index("SPACE")
    expected = [*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]
    assert np.flatnonzero(table & bit).tolist() == expected
    spaces = "".join(map(chr, expected))
    assert Pretokenizer("whitespace").split(f"a{spaces}b") == ["a", "b"]


def test_version_is_told_by_new_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    class OldEngine:
        """A `regex` that knows no character added since Unicode 14."""

        @staticmethod
        def match(pattern: str, text: str) -> None:
            return None

    monkeypatch.setattr(generate_unicode, "regex", OldEngine)
    assert generate_unicode.unicode_version() == "before 14.0"


def test_bitmaps_are_the_table() -> None:
    """A letter's bit is set in the entry of its length in bytes, and in no other."""
    table = np.frombuffer(bytes(generate_unicode.classes()), dtype=np.uint8)[:0x10000]
    for name, wanted in (("letters", ["LETTER"]), ("uncased", ["LETTER", "UPPER", "LOWER"])):
        lines = generate_unicode.bitmap(name, bytearray(table), wanted)
        words = [int(word, 16) for line in lines[1:-1] for word in line.strip(",").split(",")]
        bits = sum(1 << list(generate_unicode.BITS).index(each) for each in wanted)
        codes = np.flatnonzero(table & bits == bits).tolist()
        found = [a << 6 | b for a in range(1024) for b in range(64) if words[a] >> b & 1]
        found += [a << 6 | b for a in range(32) for b in range(64) if words[1024 + a] >> b & 1]
        assert sorted(found) == [code for code in codes if code >= 0x80]
