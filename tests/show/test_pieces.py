"""How tokens are drawn: whole clusters, parts of them, bytes, hidden characters; against the text itself."""

import unicodedata
from itertools import pairwise

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

from bpe.show.pieces import is_drawn_whole, label_hidden, show_hidden, split_pieces
from bpe.show.terminal import render

FAMILY = "👨\u200d👩\u200d👧\u200d👦"


def to_utf8(text):
    return text.encode("utf-8", "replace")


def draw_pieces(*tokens):
    data = [token if isinstance(token, bytes) else token.encode() for token in tokens]
    return [[(piece.kind, piece.text) for piece in pieces] for pieces in split_pieces(data)]


@pytest.mark.parametrize(
    ("tokens", "pieces"),
    [
        (["low", " lower"], [[("text", "low")], [("text", " lower")]]),
        ([FAMILY, " 🇰🇷", "한국"], [[("text", FAMILY)], [("text", " 🇰🇷")], [("text", "한국")]]),
        (["👨", "\u200d", "👩"], [[("base", "👨")], [("hidden", "ZWJ")], [("part", "👩")]]),
        (["🇰", "🇷"], [[("base", "🇰")], [("part", "🇷")]]),
        (["e", "\u0301x"], [[("base", "e")], [("part", "◌\u0301"), ("text", "x")]]),
        (["\u1112", "\u1161\u11ab"], [[("base", "\u1112")], [("part", "\u1161"), ("part", "\u11ab")]]),
        (["क्", "ष"], [[("base", "क"), ("part", "◌्")], [("part", "ष")]]),
        ([b"\xed\x95", b"\x9c!"], [[("bytes", "ed 95")], [("bytes", "9c"), ("text", "!")]]),
        ([b"\xff", b"\x80\xc0"], [[("bytes", "ff")], [("bytes", "80 c0")]]),
        ([b"\xed\xa0\x80"], [[("bytes", "ed a0 80")]]),
        (["a\r\nb\t"], [[("text", "a"), ("hidden", "␍"), ("hidden", "⏎"), ("text", "b"), ("hidden", "⇥")]]),
        (["\r", "\n"], [[("hidden", "␍")], [("hidden", "⏎")]]),
        (["\x00\u202e\ufeff"], [[("hidden", "␀"), ("hidden", "U+202E"), ("hidden", "BOM")]]),
        (["a\U000e0041"], [[("base", "a"), ("hidden", "U+E0041")]]),
        (["\u0301"], [[("part", "◌\u0301")]]),
        (["می\u200cخواهم"], [[("text", "می\u200cخواهم")]]),
    ],
)
def test_pieces(tokens, pieces):
    assert draw_pieces(*tokens) == pieces


def test_a_tower_of_accents_is_drawn_as_parts():
    assert {kind for kind, _ in draw_pieces("a" + "\u0301" * 40)[0]} == {"base", "part"}
    assert not is_drawn_whole("a" + "\u0301" * 40)


@examples(22)
@given(
    st.lists(
        st.binary(min_size=1, max_size=6) | st.text(min_size=1).map(lambda text: text.encode("utf-8", "replace")),
        max_size=8,
    )
)
def test_no_hidden_character_is_drawn_and_no_token_is_lost(tokens):
    for token, pieces in zip(tokens, split_pieces(tokens), strict=True):
        assert pieces or not token
        for piece in pieces:
            assert piece.text
            assert not regex.search(r"[\p{Cc}\p{Zl}\p{Zp}\p{Cs}]", piece.text)
            hidden = regex.findall(r"\p{Cf}", piece.text)
            assert set(hidden) <= {"\u200c", "\u200d"} or "\U0001f3f4" in piece.text


@examples(14)
@given(st.text(), st.lists(st.integers(0, 40), max_size=6))
def test_text_of_whole_clusters_is_unchanged(text, cuts):
    clusters = [cluster for cluster in regex.findall(r"\X", text) if is_drawn_whole(cluster)]
    text_of_clusters = "".join(clusters)
    clusters = regex.findall(r"\X", text_of_clusters)
    if not all(map(is_drawn_whole, clusters)):
        return  # neighbours became one cluster
    bounds = sorted({0, *(cut % (len(clusters) + 1) for cut in cuts), len(clusters)})
    tokens = ["".join(clusters[a:b]) for a, b in pairwise(bounds)]
    assert draw_pieces(*tokens) == [[("text", token)] for token in tokens]


def test_labels_of_all_hidden_characters_are_visible():
    for code in range(0x110000):
        character = chr(code)
        if unicodedata.category(character)[0] in "CZ" and code < 0x3000:
            assert label_hidden(character).isprintable()
    assert show_hidden("a b\n\u202e") == "a b⏎U+202E"


@pytest.mark.parametrize(
    ("tokens", "line"),
    [
        ([FAMILY, " ", "🏳\ufe0f\u200d🌈"], [FAMILY, " ", "🏳\ufe0f\u200d🌈"]),
        (["e", "\u0301x"], ["e", "◌\u0301x"]),
        (["한"[:1], "\\"], ["한", "\\\\"]),
        ([b"e\xcc", b"\x81"], ["e\u0301₁", "◌\u0301₂"]),
        (["a\u200d\n"], [r"a\xe2\x80\x8d\x0a"]),
    ],
)
def test_colours_keep_clusters(tokens, line):
    spans = regex.findall(r"\x1b\[38;5;16;48;5;\d+m(.*?)\x1b\[0m", render(tokens, colour=True))
    assert spans == line
