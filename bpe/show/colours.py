r"""Tokens as people read them: one line, plain with a separator or coloured for a terminal. Pure functions.

Spelling, the same everywhere: text stands as it is; what a terminal would hide or mangle (control and format
characters, white space other than the space, bytes that are not whole UTF-8) is spelled as `\xNN`, byte by byte; a
backslash is doubled. Plain rendering also has to show spaces and where tokens end: a space is `·`, the separator is
`|`, and a real `·` or `|` gets a backslash before it. So every plain line stands for exactly one list of tokens.

>>> print(plain([b"Hello", b",", b" wor", b"ld", b"\n"]))
Hello|,|·wor|ld|\x0a
>>> print(plain(["a|b", "c·d", "한", b"\xed\x95", "\\"]))
a\|b|c\·d|한|\xed\x95|\\

Tokens of one text, one after the other, can share a character. It then stands in each of them, with the numbers of its
bytes there as subscripts; real subscripts after a character that is not ASCII get a backslash.

>>> print(render([b"\xed\x95", b"\x9c\xea\xb5\xad", b"\xe2\x82\x82"], colour=False))
한₁₂|한₃국|₂

Not here: cutting text into tokens, and pictures other than a line of text.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TextIO

from bpe.base.spelling import SEPARATOR, spell, spell_together

#: Backgrounds (of the 256 colours of xterm) that black reads well on; the black is set too, so that the terminal's own
#: colours, dark or light, do not matter. Neighbours in the cycle differ in hue.
_BACKGROUNDS = (153, 223, 157, 218, 229, 189)
_BLACK = 16
_RESET = "\x1b[0m"


def use_colour(stream: TextIO, environment: Mapping[str, str] | None = None) -> bool:
    """Whether to colour what goes to `stream`: a terminal that can, and no NO_COLOR (https://no-color.org) set."""
    environment = os.environ if environment is None else environment
    if environment.get("NO_COLOR") or environment.get("TERM") == "dumb":
        return False
    return stream.isatty()


def plain(tokens: Iterable[bytes | str]) -> str:
    """Tokens of any kind on one line, `|` between them; `render` is for the tokens of a text."""
    return SEPARATOR.join([spell(token) for token in tokens])


def render(tokens: Iterable[bytes | str], *, colour: bool) -> str:
    """The tokens of a text on one line: on coloured grounds that differ from their neighbours', or with `|` between."""
    spelled = spell_together(tokens, mark_spaces=not colour)
    if not colour:
        return SEPARATOR.join(spelled)
    return "".join(
        f"\x1b[38;5;{_BLACK};48;5;{_BACKGROUNDS[i % len(_BACKGROUNDS)]}m{token}{_RESET}"
        for i, token in enumerate(spelled)
    )
