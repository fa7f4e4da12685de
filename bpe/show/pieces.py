r"""How tokens are drawn where a reader sees single tokens: in a page, a notebook or on a coloured terminal.

Most tokens hold whole characters and are drawn as they are. Four kinds of content need a rule:

- a *hidden* character (control, format, white space other than the space) is drawn as a label, such as `⏎` or `U+202E`,
  so that no bidirectional override and no NUL ever reaches the page;
- a *byte* of a character that several tokens share, or of no character at all, is drawn in hexadecimal, `ed 95`;
- a *part* of a grapheme cluster that several tokens share (half of a family of emoji, an accent, a Hangul jamo) is
  drawn by itself, an accent on a dotted circle; its first character, the *base*, joins the letters before it;
- a cluster of more than 16 characters, which would cover its neighbours, is drawn as parts.

Joiners and selectors inside a cluster that one token holds are kept, so that 👩‍💻 is one picture.

>>> for token in split_pieces([b"a\xed\x95", b"\x9c", "e".encode(), "\u0301\n".encode()]):
...     print([(piece.kind, piece.text) for piece in token])
[('text', 'a'), ('bytes', 'ed 95')]
[('bytes', '9c')]
[('base', 'e')]
[('part', '◌́'), ('hidden', '⏎')]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

import regex

Kind = Literal["text", "base", "part", "bytes", "hidden"]

#: Extended grapheme clusters: what a reader takes for one character; and runs of ASCII, in which each character is one.
_CLUSTER = regex.compile(r"[ -~]+(?![^\x00-\x7e])|\X", regex.DOTALL)
_HIDDEN = regex.compile(r"[\p{C}\p{Z}]")
_MARK = regex.compile(r"\p{M}")
#: Characters of a cluster that are drawn with it although they are hidden: the joiners, and the tags of a flag.
_JOINERS = "\u200c\u200d"
_FLAG, _TAGS = "\U0001f3f4", range(0xE0020, 0xE0080)
#: A person with three others, each with a skin tone, has 11 characters.
_MAX_CLUSTER_LENGTH = 16
DOTTED_CIRCLE = "\u25cc"

_LABELS = {
    "\n": "⏎",
    "\r": "␍",
    "\t": "⇥",
    "\x7f": "␡",
    "\u00a0": "NBSP",
    "\u00ad": "SHY",
    "\u200b": "ZWSP",
    "\u200c": "ZWNJ",
    "\u200d": "ZWJ",
    "\u200e": "LRM",
    "\u200f": "RLM",
    "\u2060": "WJ",
    "\u3000": "U+3000",
    "\ufe0e": "VS15",
    "\ufe0f": "VS16",
    "\ufeff": "BOM",
}


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a token that is drawn in one way.

    Attributes:
        kind: "text", "base", "part", "bytes" or "hidden".
        text: what is drawn.
        cluster: the character or cluster that bytes, bases and parts are from; empty if they are from none.
        breaks: whether a line ends after a hidden character.

    """

    kind: Kind
    text: str
    cluster: str = ""
    breaks: bool = False


def split_pieces(tokens: Sequence[bytes]) -> list[list[Piece]]:
    """Split each of the consecutive tokens of a text into pieces."""
    ends = list(accumulate(map(len, tokens)))
    pieces: list[list[Piece]] = [[] for _ in tokens]
    token_index, end = 0, 0
    for match in _CLUSTER.finditer(b"".join(tokens).decode("utf-8", "surrogateescape")):
        cluster = match[0]
        start, end = end, end + len(cluster.encode("utf-8", "surrogateescape"))
        while ends[token_index] <= start:
            token_index += 1
        if cluster.isascii() and cluster.isprintable():
            while ends[token_index] < end:
                _append(pieces[token_index], Piece("text", cluster[: ends[token_index] - end]))
                cluster, token_index = cluster[ends[token_index] - end :], token_index + 1
            _append(pieces[token_index], Piece("text", cluster))
        elif end <= ends[token_index]:
            for piece in _split_cluster(cluster):
                _append(pieces[token_index], piece)
        else:
            for index, piece in _split_shared(cluster, start, token_index, ends):
                _append(pieces[index], piece)
    return pieces


def label_hidden(character: str) -> str:
    r"""Return the label of a hidden character.

    >>> label_hidden("\x00"), label_hidden("\u202e")
    ('␀', 'U+202E')
    """
    code = ord(character)
    return _LABELS.get(character) or (chr(0x2400 + code) if code < 32 else f"U+{code:04X}")


def show_hidden(text: str) -> str:
    r"""Replace hidden characters of a name or a message by labels, except spaces and joiners.

    >>> show_hidden("a\u202eb 👩\u200d💻\n")
    'aU+202Eb 👩\u200d💻⏎'
    """
    return str(_HIDDEN.sub(lambda match: match[0] if match[0] in f" {_JOINERS}" else label_hidden(match[0]), text))


def is_drawn_whole(cluster: str) -> bool:
    r"""Return whether a cluster is drawn as it is, if one token holds all of it.

    >>> is_drawn_whole("👩\u200d💻"), is_drawn_whole("\u202e"), is_drawn_whole("a" + 50 * "\u0301")
    (True, False, False)
    """
    if cluster == " ":
        return True
    is_flag = cluster[0] == _FLAG
    return (
        len(cluster) <= _MAX_CLUSTER_LENGTH
        and not _HIDDEN.match(cluster[0])
        and not _MARK.match(cluster[0])
        and all(
            character in _JOINERS or (is_flag and ord(character) in _TAGS) or not _HIDDEN.match(character)
            for character in cluster[1:]
        )
    )


def _split_cluster(cluster: str) -> Iterator[Piece]:
    """Split a cluster that one token holds."""
    if is_drawn_whole(cluster):
        yield Piece("text", cluster)
    else:
        for i, character in enumerate(cluster):
            yield _draw_alone(character, cluster, is_first=i == 0)


def _draw_alone(character: str, cluster: str, *, is_first: bool) -> Piece:
    """Draw a character without the rest of its cluster."""
    if "\udc80" <= character <= "\udcff":  # a byte that is not UTF-8, as `surrogateescape` decodes it
        return Piece("bytes", f"{ord(character) - 0xDC00:02x}")
    if character == " ":
        return Piece("text", " ")
    drawn_cluster = cluster if len(cluster) > 1 and is_drawn_whole(cluster) else ""
    if _HIDDEN.match(character) or character in "\ufe0e\ufe0f":
        return Piece("hidden", label_hidden(character), drawn_cluster, character == "\n")
    if _MARK.match(character):
        return Piece("part", DOTTED_CIRCLE + character, drawn_cluster)
    return Piece("base" if is_first else "part", character, drawn_cluster)


def _split_shared(cluster: str, start: int, token_index: int, ends: list[int]) -> Iterator[tuple[int, Piece]]:
    """Split a cluster that begins at byte `start` in token number `token_index` and ends in a later token."""
    for index, character in enumerate(cluster):
        data = character.encode("utf-8", "surrogateescape")
        while ends[token_index] <= start:
            token_index += 1
        if start + len(data) <= ends[token_index]:
            yield token_index, _draw_alone(character, cluster, is_first=index == 0)
        else:
            for i, byte in enumerate(data):
                while ends[token_index] <= start + i:
                    token_index += 1
                yield (
                    token_index,
                    Piece("bytes", f"{byte:02x}", character if is_drawn_whole(character) else label_hidden(character)),
                )
        start += len(data)


def _append(pieces: list[Piece], piece: Piece) -> None:
    """Append a piece to those of its token, as part of the last one where both are drawn alike."""
    if pieces and pieces[-1].kind == piece.kind and (previous := pieces[-1]).cluster == piece.cluster:
        if piece.kind == "text":
            pieces[-1] = Piece("text", previous.text + piece.text)
            return
        if piece.kind == "bytes":
            pieces[-1] = Piece("bytes", f"{previous.text} {piece.text}", piece.cluster)
            return
    pieces.append(piece)
