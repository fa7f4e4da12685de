"""Normalizers: the result of each, saving and loading, and the arguments that are refused."""

from __future__ import annotations

import copy
import json
import pickle
import sys
import unicodedata
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

import bpe
from bpe.errors import FormatError
from bpe.normalizers import (
    NFC,
    NFD,
    NFKC,
    NFKD,
    CollapseWhitespace,
    FixText,
    Lowercase,
    Normalizer,
    Remove,
    Replace,
    Sequence,
    Strip,
    UnescapeHTML,
)
from bpe.text import normalizers
from bpe.text.normalizers import NAMES, as_normalizer, create_by_name
from bpe.text.pipeline_normalizers import from_json
from bpe.text.unicode import is_new

ALL: list[Normalizer] = [
    NFC(),
    NFD(),
    NFKC(),
    NFKD(),
    Lowercase(),
    Lowercase(final_sigma=True),
    Strip(),
    Strip(left=False),
    Strip(right=False),
    CollapseWhitespace(),
    Replace("[0-9]+", "0"),
    Remove(r"[^가-힣\s]"),
    UnescapeHTML(),
    UnescapeHTML(times=2),
    FixText(),
    Sequence(),
    Sequence(NFKC(), Lowercase(), Sequence(Strip(), CollapseWhitespace())),
]
each_normalizer = pytest.mark.parametrize("normalizer", ALL, ids=repr)

CASES = [
    (NFC(), "e\u0301 ﬁ ㄱ", "é ﬁ ㄱ"),
    (NFD(), "é 각", "e\u0301 \u1100\u1161\u11a8"),
    (NFKC(), "ﬁ Ａ e\u0301", "fi A é"),
    (NFKD(), "é ½", "e\u0301 1\u20442"),
    (Lowercase(), "ÀB ΣΑΣ İ", "àb σασ i\u0307"),
    (Lowercase(final_sigma=True), "ΣΑΣ", "σας"),
    (Strip(), "\u3000\n a b \u0085", "a b"),
    (Strip(left=False), " a ", " a"),
    (Strip(right=False), " a ", "a "),
    (Strip(), " \n", ""),
    (Strip(), "\x1ca\u200b", "\x1ca\u200b"),
    (CollapseWhitespace(), "\u3000\na\t \u0085b", " a b"),
    (CollapseWhitespace(), "a\x1cb\u200bc", "a\x1cb\u200bc"),
    (Replace("a+", "[]"), "caat a", "c[]t []"),
    (Replace("(a)", r"\1\g<1>"), "a", r"\1\g<1>"),
    (Remove(r"[^가-힣\s]"), "최소 9점은, 받아야.", "최소 점은 받아야"),
    (UnescapeHTML(), "&lt;b&gt; R&amp;amp;B &eacute;&#233;&#xe9;", "<b> R&amp;B ééé"),
    (UnescapeHTML(times=2), "R&amp;amp;B", "R&B"),
    (UnescapeHTML(times=0), "&amp;", "&amp;"),
    (Sequence(), " A ", " A "),
    (Sequence(Lowercase(), Strip()), " A ", "a"),
    (Sequence(Replace("a", "b"), Replace("b", "c")), "ab", "cc"),
    (Sequence(Replace("b", "c"), Replace("a", "b")), "ab", "bc"),
]


@pytest.mark.parametrize(("normalizer", "text", "expected"), CASES, ids=lambda value: ascii(value)[:40])
def test_cases(normalizer: Normalizer, text: str, expected: str) -> None:
    assert normalizer(text) == expected
    assert normalizer.on_bytes(text.encode()) == expected.encode()


@pytest.mark.parametrize(("normalizer", "form"), [(NFC(), "NFC"), (NFD(), "NFD"), (NFKC(), "NFKC"), (NFKD(), "NFKD")])
@examples(14)
@given(text=st.text(max_size=20))
def test_unicode_forms(normalizer: Normalizer, form: str, text: str) -> None:
    assert normalizer(normalizer(text)) == normalizer(text)
    if not any(map(is_new, text)):  # new characters differ between versions of Python
        assert normalizer(text) == unicodedata.normalize(form, text)  # type: ignore[arg-type]


def test_lowercase_maps_each_character_by_itself() -> None:
    """As in Hugging Face and OpenAI, for every character that has a case, but the final sigma."""
    cased = [
        chr(code)
        for code in range(sys.maxunicode + 1)
        if not 0xD800 <= code < 0xE000 and chr(code) != chr(code).lower() and not is_new(chr(code))
    ]
    assert len(cased) > 1300
    for char in cased:
        assert Lowercase()(f"a{char} ") == f"a{char.lower() if char != 'Σ' else 'σ'} "


@examples(14)
@given(text=st.text(alphabet=" \t\n\u3000\u0085ab\x1c\u200b", max_size=12))
def test_white_space(text: str) -> None:
    spaces = " \t\n\u3000\u0085"
    assert Strip()(text) == text.strip(spaces)
    assert Strip(left=False)(text) == text.rstrip(spaces)
    assert Strip(right=False)(text) == text.lstrip(spaces)
    collapsed = Sequence(CollapseWhitespace(), Strip())(text)
    assert collapsed.split(" ") == (
        [word for word in text.translate(dict.fromkeys(map(ord, spaces), " ")).split(" ") if word] or [""]
    )


def test_white_space_is_the_unicode_property() -> None:
    """Tests each character at the ends of a text and inside it, alone and beside a space."""
    for code in range(0x3100):
        char = chr(code)
        white = regex.match(r"\p{White_Space}", char) is not None
        text = f"{char}a{char} b{char}"
        assert Strip()(text) == (text[1:-1] if white else text)
        assert CollapseWhitespace()(text) == (" a b " if white else text)


def test_fix_text() -> None:
    pytest.importorskip("ftfy")
    assert FixText()("sâ€™il vous plaÃ®t") == "s'il vous plaît"


ODD = ["<b>", "&amp;", "&lt;", "&#10;", "â€œ", "Ã©", *"\r\x00\x7f\u2028\x85ﬁＬ\u3099", "\r\n", "\x1b[1m"]


@given(st.lists(st.sampled_from([*"aA '~\t<中가がハ、\n\n\n\n", *ODD]), max_size=40))
def test_fix_text_equals_ftfys(parts: list[str]) -> None:
    """The results are equal for all lines, although ftfy gets only the lines that it may change."""
    text = "".join(parts)
    fix_text = pytest.importorskip("ftfy").fix_text
    assert FixText()(text) == fix_text(text)


def test_fix_text_leaves_plain_text_unchanged() -> None:
    """Tests the characters that are not passed to ftfy, each by itself and all together."""
    fix_text = pytest.importorskip("ftfy").fix_text
    plain = [chr(code) for code in range(0x20, 0x10000) if not normalizers._SUSPECT_CHARS.match(chr(code))]
    text = "".join(plain)
    assert fix_text(text) == text
    assert all(fix_text(char) == char for char in plain)


def test_fix_text_without_ftfy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ftfy", None)
    with pytest.raises(
        ModuleNotFoundError, match=r"ftfy, which is not installed; .*pip install 'bytepair\[clip\]', or .*ftfy=False"
    ):
        FixText()("a")


@each_normalizer
@examples(8)
@given(data=st.binary(max_size=12) | st.text(alphabet="Aé\u0301 9가&;\u3000", max_size=8).map(str.encode))
def test_invalid_utf8_is_unchanged(normalizer: Normalizer, data: bytes) -> None:
    if FixText() == normalizer:
        pytest.importorskip("ftfy")
    out = normalizer.on_bytes(data)
    assert isinstance(out, bytes)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return
    assert out == normalizer(text).encode()


def test_invalid_bytes_can_be_normalized() -> None:
    assert Lowercase().on_bytes(b"A\xffB\xe3\x82") == b"a\xffb\xe3\x82"
    assert NFC().on_bytes(b"e\xcc\x81\xff") == b"\xc3\xa9\xff"
    assert Strip().on_bytes(b" \xff ") == b"\xff"


@each_normalizer
def test_identity(normalizer: Normalizer) -> None:
    assert pickle.loads(pickle.dumps(normalizer)) == normalizer
    assert copy.deepcopy(normalizer) == normalizer
    assert hash(copy.copy(normalizer)) == hash(normalizer)
    assert [normalizer == another for another in ALL] == [normalizer is another for another in ALL]
    assert normalizer != "NFC"


@each_normalizer
def test_saved_as_json(normalizer: Normalizer) -> None:
    again = from_json(json.loads(json.dumps(normalizer.to_json())))
    assert again == normalizer
    assert type(again) is type(normalizer)
    assert normalizer.to_json()["type"] == type(normalizer).__name__


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "normalizer None is not an object with a type"),
        ([], "is not an object with a type"),
        ({}, "is not an object with a type"),
        ({"type": 3}, "is not an object with a type"),
        ({"type": "Rot13"}, r"normalizer type 'Rot13' is not known; it must be one of NFC, .*, Sequence"),
        ({"type": "NFC", "form": "NFD"}, "normalizer NFC has form='NFD'; its fields are"),
        ({"type": "Strip", "left": 1}, "normalizer Strip has left=1; its fields are"),
        ({"type": "UnescapeHTML", "times": "2"}, "normalizer UnescapeHTML has times='2'"),
        ({"type": "UnescapeHTML", "times": True}, "normalizer UnescapeHTML has times=True"),
        ({"type": "Replace"}, "normalizer Replace: .*pattern"),
        ({"type": "Replace", "pattern": "("}, "normalizer Replace: pattern '\\(' does not compile"),
        ({"type": "Sequence"}, "normalizer"),
        ({"type": "Sequence", "normalizers": {}}, "normalizer"),
        ({"type": "Sequence", "normalizers": [{"type": "NFC"}, 7]}, "normalizer 7 is not an object"),
    ],
)
def test_invalid_json_is_refused(data: object, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        from_json(data)


def test_as_normalizer() -> None:
    assert as_normalizer(None) is None
    assert as_normalizer(NFC()) == NFC()
    assert as_normalizer([NFC(), Lowercase()]) == Sequence(NFC(), Lowercase())
    assert as_normalizer(()) == Sequence()
    with pytest.raises(TypeError, match=r"normalizer is 3, an int; it must be one of bpe.normalizers, a name \(nfc, "):
        as_normalizer(3)
    with pytest.raises(TypeError, match="3 is an int; it must be a normalizer or the name of one"):
        as_normalizer(["nfc", 3])


ALL_NAMES = {
    "nfc": NFC(), "nfd": NFD(), "nfkc": NFKC(), "nfkd": NFKD(), "lower": Lowercase(), "strip": Strip(),
    "collapse": CollapseWhitespace(), "html": UnescapeHTML(),
}  # fmt: skip


@pytest.mark.parametrize("name", ALL_NAMES)
def test_names_are_accepted_wherever_a_normalizer_is(name: str) -> None:
    """The command line's names mean the same in Python."""
    made = ALL_NAMES[name]
    text = "  ﬁ Cafe\u0301 &amp; é  "
    assert as_normalizer(name) == create_by_name(name) == made
    assert (
        as_normalizer([name, "nfc"]) == as_normalizer((made, NFC())) == Sequence(name, "nfc") == Sequence(made, NFC())
    )
    assert bpe.train(texts=[text], num_merges=1, normalizer=name).normalizer == made
    assert bpe.count_words(texts=[text], normalizer=name).normalizer == made
    assert bpe.WordCounts(normalizer=[name]).normalizer == Sequence(made)
    table = bpe.count_words(texts=[text], normalizer=name)
    assert bpe.train(counts=table, num_merges=1, normalizer=name).normalizer == made
    tok = bpe.train(texts=[text], num_merges=1)
    assert bpe.Tokenizer(replace(tok.spec, normalizer=name, pretokenizer="cl100k")).normalizer == made
    assert set(NAMES) == set(ALL_NAMES)


@pytest.mark.parametrize("wrong_name", ["NFC", "nfx", ""])
def test_a_wrong_name_lists_the_names(wrong_name: str) -> None:
    rule = f"normalizer {wrong_name!r} is not known; the names are nfc, nfd, nfkc, nfkd, lower, strip, collapse, html"
    for call in (
        lambda: bpe.train(texts=["a"], num_merges=1, normalizer=wrong_name),
        lambda: bpe.count_words(texts=["a"], normalizer=["nfc", wrong_name]),
        lambda: bpe.WordCounts(normalizer=wrong_name),
        lambda: Sequence(NFC(), wrong_name),
    ):
        with pytest.raises(ValueError, match=rule):
            call()


def test_tab_completion_offers_the_public_names() -> None:
    assert dir(bpe) == sorted(bpe.__all__)
    assert set(dir(bpe.normalizers)) == set(bpe.normalizers.__all__)
    assert not [name for name in dir(bpe.normalizers) if name.startswith("_") or name in ("regex", "html", "re")]


def test_invalid_patterns_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"pattern '\[' does not compile: .*; it must be a regular expression of the `regex` package"
    ):
        Remove("[")
    with pytest.raises(TypeError, match="pattern is 3, an int; it must be a str"):
        Replace(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="replacement is None; it must be a str"):
        Replace("a", None)  # type: ignore[arg-type]


@each_normalizer
def test_a_value_that_is_not_text_is_refused(normalizer: Normalizer) -> None:
    values: list[tuple[Any, str]] = [(5, "5, an int"), (None, "None"), (["a"], r"\['a'\], a list")]
    for value, described in values:
        for call in (normalizer, normalizer.align):
            with pytest.raises(TypeError, match=f"text is {described}; it must be a str"):
                call(value)
        with pytest.raises(TypeError, match=f"data is {described}; it must be bytes"):
            normalizer.on_bytes(value)
    with pytest.raises(TypeError, match=r"text is b'ab', a bytes; it must be a str \(decode bytes first, or use on_by"):
        normalizer(b"ab")  # type: ignore[arg-type]


def test_options_of_other_types_are_refused() -> None:
    for normalizer, expected in (
        (UnescapeHTML(np.int64(2)), UnescapeHTML(2)),  # type: ignore[arg-type]
        (Strip(right=np.bool_(False)), Strip(True, False)),  # type: ignore[arg-type]
        (Lowercase(np.bool_(True)), Lowercase(True)),  # type: ignore[arg-type]
    ):
        assert normalizer == expected
        assert from_json(json.loads(json.dumps(normalizer.to_json()))) == expected
    with pytest.raises(TypeError, match="times is 'twice', a str; it must be an int of at least 0"):
        UnescapeHTML("twice")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="times is -1; it must be at least 0"):
        UnescapeHTML(-1)
    with pytest.raises(TypeError, match="left is 1, an int; it must be a bool"):
        Strip(1, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
def test_ascii_is_kept_where_normalizers_say_so(name: str) -> None:
    normalizer = normalizers.Sequence(name, "nfc")
    texts = [chr(code) for code in range(128)] + [" a\r\nB ", "~^`'", "a  b", "&amp;"]
    assert normalizer.keeps_ascii == all(normalizer(text) == text for text in texts) == name.startswith("nf")


def test_the_base_class_does_nothing() -> None:
    with pytest.raises(NotImplementedError):
        Normalizer()("a")
    with pytest.raises(NotImplementedError):
        Normalizer().align("a")


@pytest.mark.parametrize("name", ["ByteLevel", "CollapseWhitespace", "BertNormalizer"])
def test_methods_of_a_subclass_of_str_are_not_used(name: str) -> None:
    class Text(str):
        """Lies about its content."""

        __slots__ = ()

        def encode(self, *_: Any) -> bytes:
            return b"zz"

        def split(self, *_: Any) -> list[str]:
            return ["zz"]

        def __getitem__(self, _: Any) -> str:
            return "z"

        def __iter__(self) -> Any:
            return iter("zz")

    normalizer, text = getattr(bpe.normalizers, name)(), "Low  \u00e9 "
    assert normalizer(Text(text)) == normalizer(text)
    assert normalizer.align(Text(text)).text == normalizer.align(text).text
