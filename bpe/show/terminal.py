r"""Tokens on one line, plain with separators or coloured for a terminal; and curves of bars. Pure functions.

Tokens are spelled as in `bpe/base/spelling.py`: visible text is unchanged; characters that a terminal would hide or
mangle (control and format characters, white space other than the space, bytes that are not valid UTF-8) are spelled
`\xNN`, byte by byte; a backslash is doubled. Plain rendering also marks spaces and the ends of tokens: a space is `·`,
the separator is `|`, and a literal `·` or `|` gets a backslash before it. So a plain line determines its list of
tokens.

>>> print(join_plain([b"Hello", b",", b" wor", b"ld", b"\n"]))
Hello|,|·wor|ld|\x0a
>>> print(join_plain(["a|b", "c·d", "한", b"\xed\x95", "\\"]))
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
#: Bars of no eighth of a character cell to eight.
_EIGHTHS = " ▏▎▍▌▋▊▉█"
#: The colour of a curve.
_CURVE_COLOUR = "\x1b[38;5;74m"
#: The most cells of a curve's bar.
BAR_WIDTH = 40


def use_colour(stream: TextIO | None, environment: Mapping[str, str] | None = None) -> bool:
    """Return whether to write colours to `stream`: as the environment says, else whether it is a terminal.

    A closed stream (`sys.stdout` is then None) is none.

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
    return stream is not None and stream.isatty()


def join_plain(tokens: Iterable[bytes | str], width: int | None = None) -> str:
    """Join tokens of any kind on one line, separated by `|`; for the consecutive tokens of a text, use `render`.

    A spelling of more than `width` characters, if that is given, is cut and ends with an ellipsis.
    """
    spellings = [spell(token) for token in tokens]
    if width is not None:
        spellings = [text if len(text) <= width else text[: width - 1] + "…" for text in spellings]
    return SEPARATOR.join(spellings)


def render(tokens: Iterable[bytes | str], *, colour: bool) -> str:
    """Render the consecutive tokens of a text on one line, on alternating background colours or separated by `|`.

    In colours, emoji with joiners that one token holds stay whole, and an accent whose letter is in another token is
    drawn on a dotted circle, since a terminal would draw it in the other token's cell.
    """
    data = [token if isinstance(token, bytes) else token.encode("utf-8", "surrogatepass") for token in tokens]
    spellings = spell_together(data, mark_spaces=not colour)
    if not colour:
        return SEPARATOR.join(spellings)
    return "".join(
        f"\x1b[38;5;{_BLACK};48;5;{_BACKGROUNDS[i % len(_BACKGROUNDS)]}m{token}{_RESET}"
        for i, token in enumerate(map(_join_clusters, spellings, split_pieces(data)))
    )


def _join_clusters(spelling: str, pieces: list[Piece]) -> str:
    """Draw a token's grapheme clusters, or keep its spelling if it has hidden characters or single bytes."""
    if any(piece.kind in ("bytes", "hidden") for piece in pieces):
        if any(piece.text in ("VS15", "VS16") for piece in pieces):  # without the character that they select a form of
            spelling = spelling.replace("\ufe0e", r"\xef\xb8\x8e").replace("\ufe0f", r"\xef\xb8\x8f")
        return DOTTED_CIRCLE * (unicodedata.category(spelling[0])[0] == "M") + spelling
    return "".join([piece.text for piece in pieces]).replace("\\", "\\\\")


def draw_curve(curve: Sequence[tuple[int, int, float]], *, colour: bool = False, width: int = BAR_WIDTH) -> list[str]:
    """Draw a heading, and a line for each row (merges, count, bytes per token) with a bar up to `width` cells long.

    >>> for line in draw_curve([(1, 1200, 1.5), (2, 30, 2.0)], width=8):
    ...     print(line)
    merges  count  bytes per token
         1  1,200  1.500 ██████
         2     30  2.000 ████████

    """
    headings = ("merges", "count", "bytes per token")
    cells = [(f"{merges:,}", f"{count:,}", f"{length:.3f}") for merges, count, length in curve]
    widths = [max(len(heading), *(len(row[i]) for row in cells), 0) for i, heading in enumerate(headings[:2])]
    max_length = max((length for _, _, length in curve), default=1.0)
    lines = [f"{headings[0]:>{widths[0]}}  {headings[1]:>{widths[1]}}  {headings[2]}"]
    for (merges, count, length), (_, _, value) in zip(cells, curve, strict=True):
        curve_bar = draw_bar(value / max_length if max_length > 0 else 0.0, width)
        curve_bar = f"{_CURVE_COLOUR}{curve_bar}{_RESET}" if colour and curve_bar else curve_bar
        lines.append(f"{merges:>{widths[0]}}  {count:>{widths[1]}}  {length} {curve_bar}".rstrip())
    return lines


def draw_bar(share: float, width: int) -> str:
    """Draw a bar over this part of `width` cells, to an eighth of a cell.

    >>> draw_bar(0.5, 5)
    '██▌'
    """
    eighths = round(max(0.0, min(share, 1.0)) * width * 8)
    return _EIGHTHS[8] * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")
