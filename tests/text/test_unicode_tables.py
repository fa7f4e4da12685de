"""The generated tables of character classes equal the classes of the other libraries' engines for every code point.

Each run compares the tables with digests of those that were compared; a soak test compares them with the engines.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import pytest
import regex
from characters import CODES, HEADER, load_arrays, load_classes, load_table
from strategies import SOAK, only_in_a_soak_test

from bpe import normalizers as n
from bpe.pretokenize._scanner import CLIP_UNICODE_VERSION, UNICODE_VERSION
from bpe.pretokenize.patterns import NAMES
from bpe.pretokenize.pretokenizer import Pretokenizer
from bpe.text import generate_unicode, unicode, unicode_data
from bpe.text.generate_unicode import CLASS_PATTERNS, NEW

#: The releases whose character classes are in the tables.
PINNED = {"tiktoken": "0.14", "tokenizers": "0.23", "regex": "2026.11"}


def require_versions(*packages: str) -> None:
    """Skip the test unless the packages from which the tables were made are installed."""
    for package in packages:
        pytest.importorskip(package)
        if not importlib.metadata.version(package).startswith(PINNED[package]):
            pytest.skip(f"the tables are those of {package} {PINNED[package]}")


def hash_parts(*parts: bytes) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def get_bit(name: str) -> int:
    return 1 << list(CLASS_PATTERNS).index(name)


# Content --------------------------------------------------------------------------------------------------------------


def test_tables_have_not_changed_since_they_were_compared() -> None:
    """A changed class of any character fails this test, also where no other library is installed.

    Change a digest only after the comparisons below have passed: BPE_SOAK=2 pytest tests/text/test_unicode_tables.py
    """
    assert hash_parts(load_table().tobytes()) == "df25b2b4f46f8fba"
    assert hash_parts(load_classes("clip").tobytes(), load_classes("starcoder").tobytes()) == "4801d875f46dde43"
    assert hash_parts(repr(unicode_data.LOWER).encode(), unicode_data.WORD.encode()) == "dc78f412c402851d"


@only_in_a_soak_test
@pytest.mark.parametrize("name", CLASS_PATTERNS)
def test_classes_equal_those_of_tiktoken_and_tokenizers(name: str) -> None:
    require_versions("tiktoken", "tokenizers")
    codes = set(np.flatnonzero(load_table() & get_bit(name)).tolist())
    assert codes == generate_unicode.match_by_tiktoken(CLASS_PATTERNS[name])
    if name != "NEWLINE":
        assert codes == generate_unicode.match_by_tokenizers(CLASS_PATTERNS[name])


@only_in_a_soak_test
def test_clip_has_the_classes_of_regex() -> None:
    require_versions("regex")
    for bit, pattern in ((1, r"\p{L}"), (2, r"\p{N}"), (4, r"\p{White_Space}")):
        assert set(np.flatnonzero(load_classes("clip") & bit).tolist()) == generate_unicode.match_by_regex(pattern)


@only_in_a_soak_test
def test_starcoder_has_the_digits_of_tokenizers() -> None:
    require_versions("tokenizers")
    assert set(np.flatnonzero(load_classes("starcoder") & 2).tolist()) == generate_unicode.find_numeric()


@only_in_a_soak_test
def test_word_characters_equal_those_of_the_engine() -> None:
    require_versions("tiktoken")  # its engine is the one that `tokenizers` uses for word characters
    assert {code for code in CODES if unicode.is_word(chr(code))} == generate_unicode.match_by_tiktoken(r"\w")


def test_word_characters_beside_a_single_word_token() -> None:
    """Tests `tokenizers` itself: its other engine, Oniguruma, would give other results."""
    require_versions("tokenizers")
    import tokenizers

    model = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={"x": 0}, merges=[], unk_token="x", fuse_unk=True))
    model.add_tokens([tokenizers.AddedToken("@@", single_word=True, normalized=False)])
    for code in (0x20, 0x5F, 0xB2, 0xBC, 0x24B6, 0x345, 0x200C, 0x200D, 0x203F, 0x1F130, 0x16EBB, 0x1C89, 0x558):
        is_matched = 1 in model.encode(f"{chr(code)}@@").ids
        assert is_matched != unicode.is_word(chr(code)), hex(code)


def test_surrogates_have_no_class() -> None:
    assert not load_table()[0xD800:0xE000].any()
    assert len(load_table()) == sys.maxunicode + 1


def test_white_space_is_the_unicode_property() -> None:
    """All 25 characters of White_Space and no other: not U+001C to U+001F, not U+180E, not U+200B."""
    expected = [*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]
    assert np.flatnonzero(load_table() & get_bit("SPACE")).tolist() == expected
    spaces = "".join(map(chr, expected))
    assert Pretokenizer("whitespace").split(f"a{spaces}b") == ["a", "b"]
    assert [code for code in CODES if chr(code).isspace()] == sorted([*expected, *range(0x1C, 0x20)])


def test_the_generator_writes_this_header(monkeypatch: pytest.MonkeyPatch) -> None:
    """The generator gets the table that the tests above compare."""
    table_bytes = bytearray(load_table().tobytes())
    later = load_arrays("bpe_later", np.int64).reshape(-1, 3).tolist()
    monkeypatch.setattr(generate_unicode, "make_class_table", lambda: table_bytes)
    monkeypatch.setattr(generate_unicode, "find_later_classes", lambda _: [tuple(row) for row in later])
    assert generate_unicode.format_header() == HEADER.read_text(encoding="ascii")


@only_in_a_soak_test
def test_new_characters_include_all_that_older_pythons_lack() -> None:
    """Characters whose class differs between Unicode versions are NEW; older Python data covers only the others."""
    require_versions("tiktoken")
    older = generate_unicode.match_by_tiktoken(r"\p{Age:V13_0}")
    known_codes = generate_unicode.match_by_tiktoken(r"\p{Age:V9_0}")
    new_codes = set(np.flatnonzero(load_table() & NEW).tolist())
    assert set(CODES) - older <= new_codes
    assert not new_codes & known_codes
    assert new_codes - (set(CODES) - older) == (generate_unicode.find_form_characters() & older) - known_codes


# Results that use the tables ------------------------------------------------------------------------------------------


def test_unicode_version() -> None:
    assert regex.fullmatch(r"\d+\.\d+", UNICODE_VERSION)
    assert {name: Pretokenizer(name).unicode_version for name in NAMES} == {
        name: CLIP_UNICODE_VERSION if name == "clip" else UNICODE_VERSION for name in NAMES
    }
    assert (UNICODE_VERSION, CLIP_UNICODE_VERSION) == (generate_unicode.VERSION, generate_unicode.CLIP_VERSION)
    assert Pretokenizer.from_regex(r"\w+").unicode_version is None
    assert Pretokenizer.from_regex(r"\S+").unicode_version == UNICODE_VERSION


def test_version_is_recognized_by_new_characters() -> None:
    assert generate_unicode.identify_version({0x41}) == "before 14.0"
    assert generate_unicode.identify_version({0x41, 0x0870, 0x1E4D0}) == "15.0"


#: Contexts that lead a character to each branch of the patterns.
CONTEXTS = ("a{0}b\n", " {0}1\n", "'{0}s {0}{0}\n", "A{0}A\t{0}/\n")
SPLIT = {
    "gpt2": "91573798b14f0edd",
    "cl100k": "f789ed93d1247d25",
    "o200k": "e981649b38babf24",
    "clip": "7e682d8e6202dc7c",
    "whitespace": "294ee907fd04de0c",
    "llama3": "f789ed93d1247d25",
    "qwen2": "ffd8130c1460dc5e",
    "tekken": "1402b0a96b9eb610",
    "deepseek_v3": "58a9a5203b3cdeaa",
    "starcoder": "efc26cc889ebfc78",
}


def list_texts(contexts: tuple[str, ...]) -> list[str]:
    """Code points below U+20000, and higher ones that normalization changes, in all contexts; of the others, some."""
    near = [code for code in CODES if code < 0x20000 or 0x2F800 <= code < 0x2FA20 or 0xE0000 <= code < 0xE0200]
    texts = [context.format(chr(code)) for code in near for context in contexts]
    texts += [contexts[0].format(chr(code)) for code in CODES[::61] if code >= 0x20000]
    return ["".join(texts[start : start + 200_000]) for start in range(0, len(texts), 200_000)]


@cache
def list_texts_to_split() -> list[bytes]:
    return [text.encode() for text in list_texts(CONTEXTS)]


@pytest.mark.parametrize("name", NAMES)
def test_pretokens_of_every_code_point_have_not_changed(name: str) -> None:
    """The pretokens that `benchmarks/checks/check_hostile.py --code-points` has compared with the other engines."""
    digest = hashlib.sha256()
    for data in list_texts_to_split():
        starts, ends = Pretokenizer(name).spans(data)
        digest.update(np.stack((starts, ends)).astype("<i8").tobytes())
    assert digest.hexdigest()[:16] == SPLIT[name]


NORMALIZED: dict[str, tuple[Callable[[], n.Normalizer], str]] = {
    "NFC": (n.NFC, "99ecd4e3b63c460a"),
    "NFD": (n.NFD, "30ca91388cf20fc6"),
    "NFKC": (n.NFKC, "404724d42ad323d0"),
    "NFKD": (n.NFKD, "0f7ed9d416be1dd9"),
    "Lowercase": (n.Lowercase, "4b66427f369a5324"),
    "Lowercase with final sigma": (lambda: n.Lowercase(final_sigma=True), "1f98bf8318f30cb9"),
    "Strip": (n.Strip, "b77e31bdec63bd66"),
    "CollapseWhitespace": (n.CollapseWhitespace, "f41ffb04bd5a96f7"),
}
#: Contexts for normalizers: before a mark, between marks of low and high classes, beside Hangul, beside Σ.
NORMALIZER_CONTEXTS = (
    "{0}\u0301|",
    "a\u0345{0}\u0334 ",
    "\u1100{0}\u11a8 ",
    "\uac00{0}",
    "o{0}\u0323\u0301",
    "AΣ{0}A",
    "A{0}Σ ",
)


@cache
def list_texts_to_normalize() -> list[str]:
    return list_texts(NORMALIZER_CONTEXTS)


@pytest.mark.parametrize("name", NORMALIZED)
def test_normal_forms_of_every_code_point_have_not_changed(name: str) -> None:
    """The texts are the same on every version of Python; a soak test compares them with those of `tokenizers`."""
    make, expected = NORMALIZED[name]
    normalizer, peer_normalizer = make(), make_peer_normalizer(name)
    digest = hashlib.sha256()
    for text in list_texts_to_normalize():
        normal = normalizer(text)
        assert peer_normalizer is None or SOAK == 1 or normal == peer_normalizer.normalize_str(text)
        digest.update(normal.encode())
    assert digest.hexdigest()[:16] == expected


def make_peer_normalizer(name: str) -> Any:
    """Its normalizer of the same name and release, if there is one."""
    if name in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Strip"):
        with suppress(pytest.skip.Exception):
            require_versions("tokenizers")
            return getattr(importlib.import_module("tokenizers.normalizers"), name)()
    return None
