"""Tokens as lines of text: the plain form, the coloured form, and when colour is used."""

import io
import itertools
import random
import re

import pytest
from written import read_spelling

from bpe.base.spelling import spell
from bpe.show.terminal import join_plain, render, use_colour


@pytest.mark.parametrize(
    ("tokens", "line"),
    [
        ([], ""),
        ([b"Hello", b",", b" world", b"!"], "Hello|,|·world|!"),
        ([b"  ", b"x"], "··|x"),
        ([b"a|b", b"|"], r"a\|b|\|"),
        (["a·b", " "], r"a\·b|·"),
        ([b"C:\\temp"], r"C:\\temp"),
        ([b"\n", b"\t\r", b"\x00\x1b[31m\x7f"], r"\x0a|\x09\x0d|\x00\x1b[31m\x7f"),
        (["한국", b"\xed\x95", b"\x9c"], r"한국|\xed\x95|\x9c"),
        ([b"\xf0\x9f\x98", b"\x80", "😀"], r"\xf0\x9f\x98|\x80|😀"),
        (["👩\u200d💻", "🇰🇷"], r"👩\xe2\x80\x8d💻|🇰🇷"),
        (["\u00a0\u2028\u202e\ufeff"], r"\xc2\xa0\xe2\x80\xa8\xe2\x80\xae\xef\xbb\xbf"),
        (["다</w>", "\ud800"], r"다</w>|\xed\xa0\x80"),
    ],
)
def test_plain_lines(tokens, line):
    assert join_plain(tokens) == line


@pytest.mark.parametrize(
    ("tokens", "line"),
    [
        ([], ""),
        ([b"Hello", b" world"], "Hello|·world"),
        (["한국", b"\xed\x95", b"\x9c"], "한국|한₁₂|한₃"),
        ([b"\xf0\x9f\x98", b"\x80", "😀"], "😀₁₂₃|😀₄|😀"),
        ([b"\xf0", b"\x9f", b"\x98", b"\x80a"], "😀₁|😀₂|😀₃|😀₄a"),
        ([b" \xd0", b"\xbc\xd0", b"\xb8"], "·м₁|м₂и₁|и₂"),
        ([b"\xed\x95", b"x\x9c"], r"\xed\x95|x\x9c"),
        ([b"\xe2\x80", b"\x8d"], r"\xe2\x80|\x8d"),
        (["H₂O", "é₁", "é", "₁₂"], "H₂O|é\\₁|é|₁\\₂"),
        ([b"\xe2\x82", b"\x82", "₂"], "₂₁₂|₂₃|₂"),
        ([b"\xed\x95", b"\x9c\xe2\x82\x82"], "한₁₂|한₃\\₂"),
        ([b"\xc2", b"\xb7", " ₁"], "\\·₁|\\·₂|·₁"),
    ],
)
def test_tokens_of_a_text_that_share_characters(tokens, line):
    assert render(tokens, colour=False) == line
    bare = re.sub(r"\x1b\[[0-9;]*m", "", render(tokens, colour=True))
    assert bare == re.sub(r"\\(?!x)", "", re.sub(r"(?<!\\)·", " ", line)).replace("|", "")


def test_plain_lines_are_unambiguous():
    choose = random.Random(1)
    parts = [b"|", b"\\", b" ", b"\xc2\xb7", b"x", b"0a", b"\n", b"\xed\x95\x9c", b"\xed", b"\x95", b"\xc3", b"\xff"]
    parts += [b"\x9c", b"\xe2\x82", b"\x82", "₁".encode(), "é₄".encode()]
    for _ in range(2000):
        tokens = [b"".join(choose.choices(parts, k=choose.randint(1, 5))) for _ in range(choose.randint(1, 5))]
        for line, shared in ((join_plain(tokens), False), (render(tokens, colour=False), True)):
            assert read_spelling(line, shared) == tokens
            assert line.isprintable()


def test_coloured_lines_have_alternating_backgrounds():
    line = render([b"a|b", b" c", b"\n", b"\xff"], colour=True)
    assert re.sub(r"\x1b\[[0-9;]*m", "", line) == r"a|b c\x0a\xff"
    grounds = re.findall(r"48;5;(\d+)m", line)
    assert len(grounds) == 4
    assert all(left != right for left, right in itertools.pairwise(grounds))
    assert line.count("\x1b[38;5;16;") == 4, "the letters' colour is set too, whatever the terminal's theme"
    assert line.endswith("\x1b[0m")


def test_escape_sequences_in_tokens_are_escaped():
    assert "\x1b[2J" not in render([b"\x1b[2J"], colour=True)


def test_adjacent_tokens_differ_when_the_colours_repeat():
    grounds = re.findall(r"48;5;(\d+)m", render([b"x"] * 50, colour=True))
    assert len(set(grounds)) > 3
    assert all(left != right for left, right in itertools.pairwise(grounds))


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_colour_is_used_only_for_terminals_that_support_it():
    assert use_colour(Terminal(), {})
    assert use_colour(Terminal(), {"NO_COLOR": ""}), "no-color.org: set and not empty"
    assert not use_colour(Terminal(), {"NO_COLOR": "1"})
    assert not use_colour(Terminal(), {"TERM": "dumb"})
    assert not use_colour(io.StringIO(), {})
    assert not use_colour(None, {}), "a closed stream: showing a text raised an AttributeError"


def test_no_color_is_read_from_the_environment(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert use_colour(Terminal())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not use_colour(Terminal())


def test_spell_without_marks_leaves_spaces():
    assert spell(b" a|\xc2\xb7", mark_spaces=False) == " a|·"


def test_a_selector_without_its_character_is_spelled_on_a_terminal() -> None:
    """It would be invisible; with its character, in one token, it is drawn as it is."""
    coloured = render(["1", "\ufe0f", "\u20e3", "❤\ufe0f", "a\ufe0e\n"], colour=True)
    shown = [part.partition("m")[2] for part in coloured.split("\x1b[38")[1:]]
    shown = [part.removesuffix("\x1b[0m") for part in shown]
    assert shown[:4] == ["1", r"\xef\xb8\x8f", "◌\u20e3", "❤\ufe0f"]
