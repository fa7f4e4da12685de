r"""Rendering of tokens on one line: plain with separators, or coloured for a terminal. Pure functions.

Tokens are spelled as in `bpe/base/spelling.py`: visible text is unchanged; characters that a terminal would hide or
mangle (control and format characters, white space other than the space, bytes that are not valid UTF-8) are spelled
`\xNN`, byte by byte; a backslash is doubled. Plain rendering also marks spaces and the ends of tokens: a space is `·`,
the separator is `|`, and a literal `·` or `|` gets a backslash before it. So a plain line determines its list of
tokens.

>>> print(plain([b"Hello", b",", b" wor", b"ld", b"\n"]))
Hello|,|·wor|ld|\x0a
>>> print(plain(["a|b", "c·d", "한", b"\xed\x95", "\\"]))
a\|b|c\·d|한|\xed\x95|\\

Consecutive tokens of one text can share a character. Each of them then shows the character, with subscripts that
number its bytes in the token; a literal subscript after a non-ASCII character gets a backslash.

>>> print(render([b"\xed\x95", b"\x9c\xea\xb5\xad", b"\xe2\x82\x82"], colour=False))
한₁₂|한₃국|₂
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import TextIO

from bpe.base.spelling import SEPARATOR, spell, spell_together
from bpe.show.pieces import DOTTED_CIRCLE, Piece, split_pieces

#: Background colours (of xterm's 256) on which black is legible. The foreground is set to black too, so that the result
#: does not depend on the terminal's theme. Adjacent colours in the cycle differ in hue.
_BACKGROUNDS = (153, 223, 157, 218, 229, 189)
_BLACK = 16
_RESET = "\x1b[0m"
#: Parts of a character cell, from an eighth to a whole.
_BLOCKS = " ▏▎▍▌▋▊▉█"
#: The colour of a curve.
_CURVE_COLOUR = "\x1b[38;5;74m"
#: The most cells of a bar.
WIDTH = 40


def use_colour(stream: TextIO, environment: Mapping[str, str] | None = None) -> bool:
    """Whether to write colours to `stream`: by the environment, or whether it is a terminal that supports them.

    The first of these that is set decides, as in CPython: NO_COLOR (no), FORCE_COLOR or CLICOLOR_FORCE (yes, unless 0),
    TERM=dumb (no), CLICOLOR=0 (no). An empty variable is not set.
    """
    environment = os.environ if environment is None else environment
    if environment.get("NO_COLOR"):
        return False
    if any(environment.get(name, "") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    if environment.get("TERM") == "dumb" or environment.get("CLICOLOR") == "0":
        return False
    return stream.isatty()


def plain(tokens: Iterable[bytes | str]) -> str:
    """Tokens of any kind on one line, separated by `|`; for the consecutive tokens of a text, use `render`."""
    return SEPARATOR.join([spell(token) for token in tokens])


def render(tokens: Iterable[bytes | str], *, colour: bool) -> str:
    """The consecutive tokens of a text on one line, on alternating background colours or separated by `|`.

    In colours, emoji with joiners that one token holds stay whole, and an accent whose letter is in another token is
    drawn on a dotted circle, since a terminal would draw it in the other token's cell.
    """
    data = [token if isinstance(token, bytes) else token.encode("utf-8", "surrogatepass") for token in tokens]
    spelled = spell_together(data, mark_spaces=not colour)
    if not colour:
        return SEPARATOR.join(spelled)
    return "".join(
        f"\x1b[38;5;{_BLACK};48;5;{_BACKGROUNDS[i % len(_BACKGROUNDS)]}m{token}{_RESET}"
        for i, token in enumerate(map(_in_clusters, spelled, split_pieces(data)))
    )


def _in_clusters(spelled: str, pieces: list[Piece]) -> str:
    """A token as its grapheme clusters are drawn, or as it is spelled if it has hidden characters or single bytes."""
    if any(piece.kind in ("bytes", "hidden") for piece in pieces):
        if any(piece.text in ("VS15", "VS16") for piece in pieces):  # without the character that they select a form of
            spelled = spelled.replace("\ufe0e", r"\xef\xb8\x8e").replace("\ufe0f", r"\xef\xb8\x8f")
        return DOTTED_CIRCLE * (unicodedata.category(spelled[0])[0] == "M") + spelled
    return "".join([piece.text for piece in pieces]).replace("\\", "\\\\")


def draw_curve(curve: Sequence[tuple[int, int, float]], *, colour: bool = False, width: int = WIDTH) -> list[str]:
    """A heading, and a line for each row (merges, count, bytes per token) with a bar up to `width` cells long.

    >>> for line in draw_curve([(1, 1200, 1.5), (2, 30, 2.0)], width=8):
    ...     print(line)
    merges  count  bytes per token
         1  1,200  1.500 ██████
         2     30  2.000 ████████

    """
    heads = ("merges", "count", "bytes per token")
    cells = [(f"{merges:,}", f"{count:,}", f"{length:.3f}") for merges, count, length in curve]
    wide = [max(len(head), *(len(row[i]) for row in cells), 0) for i, head in enumerate(heads[:2])]
    most = max((length for _, _, length in curve), default=1.0)
    lines = [f"{heads[0]:>{wide[0]}}  {heads[1]:>{wide[1]}}  {heads[2]}"]
    for (merges, count, length), (_, _, value) in zip(cells, curve, strict=True):
        drawn = bar(value / most if most > 0 else 0.0, width)
        drawn = f"{_CURVE_COLOUR}{drawn}{_RESET}" if colour and drawn else drawn
        lines.append(f"{merges:>{wide[0]}}  {count:>{wide[1]}}  {length} {drawn}".rstrip())
    return lines


def bar(part: float, width: int) -> str:
    """A bar of this part of `width` cells, to an eighth of a cell.

    >>> bar(0.5, 5)
    '██▌'
    """
    eighths = round(max(0.0, min(part, 1.0)) * width * 8)
    return _BLOCKS[8] * (eighths // 8) + (_BLOCKS[eighths % 8] if eighths % 8 else "")
