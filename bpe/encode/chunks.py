"""Dividing a text into chunks that fit into a number of tokens.

A chunk ends at the last boundary up to which the text fits. Where there is none, it ends at one of the next kind:

    the caller's pattern, or the ends of lines → of sentences → of words → any character

Boundaries are the ends of the matches of a pattern. Those of the patterns here depend on a few characters before a
position, and on white space after it; so they are searched for from the end of what fits.

Each chunk is counted as it is encoded by itself, for the reason that `limits.py` gives. Cost: linear in the text and
the overlaps. A try encodes about one chunk, and there are at most `MAX_TRIED` for each kind of boundary.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from bpe.encode.limits import MAX_TRIED, find_character, guess_size
from bpe.errors import check_int, describe, pluralize, short_repr

if TYPE_CHECKING:
    from bpe.vocab.spec import TokenizerSpec

#: How many characters of the text around what is searched a pattern may see.
MARGIN = 1024

_CLOSING, _CLOSING_WIDE = "\"')\\]}»”’", "」』）】〉》〕”’"
_LINE_END = r"\n|\r(?!\n)|[\u2028\u2029]"
_SPACE = r"[^\S\r\n\u2028\u2029]"
_SENTENCE_END = (
    rf"[.!?…‽؟۔।॥。！？｡\n\r\u2028\u2029](?:(?<=[\n\u2028\u2029])|(?<=\r)(?!\n)"
    rf"|(?<=[.…])[{_CLOSING}]{{0,3}}(?={_SPACE})(?!\s+[a-zß-öø-ÿα-ωа-џ])"
    rf"|(?<=[!?‽؟۔।॥])[{_CLOSING}]{{0,3}}(?={_SPACE})"
    rf"|(?<=[。！？｡])[{_CLOSING_WIDE}]{{0,3}}(?![。！？｡{_CLOSING_WIDE}]))"
)
#: Ideographs and kana, of which each may begin a line; and what may come before one.
_WIDE_LETTERS = "\u3041-\u3096\u30a1-\u30fa\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD_END = rf"{_LINE_END}|\S(?={_SPACE})|[\u3001-\u30ff{_WIDE_LETTERS}](?=[{_WIDE_LETTERS}])"
_PATTERNS = {"line": _LINE_END, "sentence": _SENTENCE_END, "word": _WORD_END}
#: A match of these patterns has no more characters.
_MAX_MATCH = 4

#: The kinds of boundaries by name.
Boundaries = Literal["sentence", "line", "word", "token"]
BOUNDARIES: tuple[Boundaries, ...] = ("sentence", "line", "word", "token")


class Chunk(NamedTuple):
    """A part of a text that fits into a number of tokens.

    Attributes:
        text: the part.
        start: where it begins in the text, in characters.
        end: where it ends.
        n_tokens: the number of its tokens, when it is encoded by itself.

    """

    text: str
    start: int
    end: int
    n_tokens: int


def divide(
    spec: TokenizerSpec,
    text: str | Iterable[str],
    max_tokens: int,
    overlap: int,
    boundaries: Boundaries | re.Pattern[str],
    truncate: Callable[..., str],
    count: Callable[[str], int],
) -> list[Chunk] | Iterator[Chunk]:
    """Divide a text into chunks, as `Tokenizer.chunk` describes it.

    Args:
        spec: the tokenizer.
        text: the text, or its parts.
        max_tokens: the limit of a chunk.
        overlap: the limit of what a chunk repeats of the one before.
        boundaries: where chunks end, if possible.
        truncate: the tokenizer's method.
        count: the tokenizer's method that counts tokens.

    """
    if spec.dropout:
        raise ValueError(
            f"the tokenizer has a dropout of {spec.dropout}, so the numbers of tokens are random; use "
            "bpe.Tokenizer(dataclasses.replace(tokenizer.spec, dropout=0.0))"
        )
    if isinstance(text, (bytes, bytearray, memoryview)) or not isinstance(text, Iterable):
        raise TypeError(f"text is {describe(text)}; it must be a str, or an iterable of str such as an open file")
    max_tokens, overlap = check_int("max_tokens", max_tokens, 1), check_int("overlap", overlap, 0)
    if overlap >= max_tokens:
        raise ValueError(f"overlap is {overlap}; it must be less than max_tokens, which is {max_tokens}")
    patterns = _list_patterns(boundaries)
    count("")  # refuses special tokens that are not there
    parts = [text] if isinstance(text, str) else text
    chunks = _Chunker(_HeldText(parts), max_tokens, overlap, patterns, truncate, count).chunks()
    return list(chunks) if isinstance(text, str) else chunks


def _list_patterns(boundaries: object) -> list[re.Pattern[str]]:
    """List the patterns of a kind of boundaries, and those to take where there are none."""
    if callable(getattr(boundaries, "finditer", None)):
        pattern: Any = boundaries
        if not isinstance(pattern.pattern, str):
            raise TypeError(f"boundaries is a pattern of bytes, {pattern.pattern!r}; it must be one of str")
        return [pattern, _compile("sentence"), _compile("word")]
    if not isinstance(boundaries, str) or boundaries not in BOUNDARIES:
        names = ", ".join(map(repr, BOUNDARIES))
        raise ValueError(
            f"boundaries is {short_repr(boundaries)}; it must be one of {names}, or a pattern of re.compile"
        )
    kinds = {"line": ("line", "sentence", "word"), "sentence": ("sentence", "word"), "word": ("word",), "token": ()}
    return [_compile(kind) for kind in kinds[boundaries]]


@cache
def _compile(kind: str) -> re.Pattern[str]:
    return re.compile(_PATTERNS[kind])


class _HeldText:
    """A text that arrives in parts. The last characters that were read are held; positions are those of the text."""

    def __init__(self, parts: Iterable[str]) -> None:
        self._parts = iter(parts)
        self._held = ""
        self._start = 0  # of what is held
        self._is_whole = False  # its end has been read

    def read(self, start: int, end: int) -> int:
        """Hold the text from `start` on, up to `end` or the end of the text, which is returned, and some around it."""
        if end + MARGIN > self._start + len(self._held) and not self._is_whole:
            first = max(start - MARGIN, self._start)
            held = [self._held[first - self._start :]]
            n_missing = end + MARGIN - self._start - len(self._held)
            for part in self._parts:
                if not isinstance(part, str):
                    raise TypeError(f"a part of the text is {describe(part)}; it must be str")
                held.append(str.__str__(part))  # a subclass may have other methods
                n_missing -= len(held[-1])
                if n_missing <= 0:
                    break
            else:
                self._is_whole = True
            self._held, self._start = "".join(held), first
        return min(end, self._start + len(self._held))

    def ends_at(self, end: int) -> bool:
        """Whether what is held ends here, and the text too."""
        return self._is_whole and end == self._start + len(self._held)

    def take(self, start: int, end: int) -> str:
        """Take text that is held."""
        return self._held[start - self._start : end - self._start]

    def find_boundaries(self, pattern: re.Pattern[str], first: int, start: int, end: int) -> Iterator[int]:
        """Find the boundaries after `start` and up to `end`, the last one first.

        A pattern of the caller's is searched for from `first` on.
        """
        is_local = pattern in map(_compile, _PATTERNS)
        limit, size = end, 64
        while limit > start:
            low = max(limit - size, start) if is_local else start
            search_start = max(low - _MAX_MATCH, self._start) if is_local else first
            found = []
            for match in pattern.finditer(self._held, search_start - self._start, end + MARGIN - self._start):
                boundary = match.end() + self._start
                if boundary > limit:
                    break
                if boundary > low and self.find_character(boundary) == boundary:
                    found.append(boundary)
            yield from reversed(found)
            limit, size = low, 4 * size

    def find_character(self, position: int) -> int:
        """Find the first position from here on that is not within a surrogate pair."""
        return self._start + find_character(self._held, position - self._start)


class _Chunker:
    """Divides one text. The arguments are those of `divide`."""

    def __init__(
        self,
        text: _HeldText,
        max_tokens: int,
        overlap: int,
        patterns: list[re.Pattern[str]],
        truncate: Callable[..., str],
        count: Callable[[str], int],
    ) -> None:
        self._text = text
        self._max_tokens, self._overlap = max_tokens, overlap
        self._patterns = patterns
        self._truncate, self._count = truncate, count
        self._size = guess_size(max_tokens)  # the number of characters to try
        self._last = 0, 0, 0  # a start, an end and the number of tokens between them

    def chunks(self) -> Iterator[Chunk]:
        """Yield the chunks."""
        start = end = 0
        while self._text.read(start, end + 1) > end:
            new_end = self._find_end(start, end)
            start = self._find_start(start, end, new_end)
            end = new_end
            text = self._text.take(start, end)
            yield Chunk(text, start, end, self._count_between(start, end))
            if not self._overlap:
                start = end

    def _find_end(self, held_start: int, start: int) -> int:
        """Find the end of the next chunk, which begins at `start` or, with an overlap, before it."""
        max_tokens = self._max_tokens
        max_end = self._fit(held_start, start, max_tokens)
        if max_end == start:
            max_end = self._take_character(start)
        end = max_end if not (self._overlap and start) else self._fit(held_start, start, max_tokens - self._overlap)
        if self._text.ends_at(end):
            return end
        for pattern in self._patterns:
            for boundary in islice(self._text.find_boundaries(pattern, start, start, end), MAX_TRIED):
                if self._count_between(start, boundary) <= max_tokens:
                    return boundary
            later = [*self._text.find_boundaries(pattern, start, end, max_end)] if end < max_end else []
            if end < max_end and self._text.ends_at(max_end):
                later.insert(0, max_end)
            for boundary in later[: -MAX_TRIED - 1 : -1]:  # rather less overlap than a boundary of the next kind
                if self._count_between(start, boundary) <= max_tokens:
                    return boundary
        return end if end > start else max_end

    def _find_start(self, start: int, end: int, new_end: int) -> int:
        """Find where a chunk begins that ends at `new_end`, after one from `start` to `end`."""
        if not self._overlap or start == end:
            return end
        n_spare = min(self._overlap, self._max_tokens - self._count_between(end, new_end))
        if n_spare <= 0:
            return end
        overlap = self._truncate(self._text.take(start, end), n_spare, side="left")
        first = end - len(overlap)

        for pattern in self._patterns:
            found = [*self._text.find_boundaries(pattern, start, max(first - 1, start), end - 1)]
            for position in found[: -MAX_TRIED - 1 : -1]:
                if self._count_between(position, end) > self._overlap:
                    continue
                if self._count_between(position, new_end) <= self._max_tokens:
                    return position
        if self._patterns or first == start or self._count_between(first, new_end) > self._max_tokens:
            return end
        return first

    def _fit(self, held_start: int, start: int, max_tokens: int) -> int:
        """Find the end of the longest text from `start` on that has at most `max_tokens` tokens."""
        while True:
            end = self._text.read(held_start, start + self._size)
            text = self._text.take(start, end)
            fitting = self._truncate(text, max_tokens)
            n_fitting = len(fitting)
            if not text.startswith(fitting):
                n_fitting = _measure_with_surrogates(text, n_fitting)
            if n_fitting < len(text) or self._text.ends_at(end):
                self._size = 2 * n_fitting + 64
                return start + n_fitting
            self._size *= 2

    def _count_between(self, start: int, end: int) -> int:
        """Count the tokens of a part; the last result is kept."""
        if self._last[:2] != (start, end):
            self._last = start, end, self._count(self._text.take(start, end))
        return self._last[2]

    def _take_character(self, start: int) -> int:
        """Return the end of the character that begins at `start`, if it fits."""
        end = self._text.find_character(start + 1)
        character = self._text.take(start, end)
        n_tokens = self._count(character)
        if n_tokens > self._max_tokens:
            raise ValueError(
                f"the character {short_repr(character)} at position {start} has {pluralize(n_tokens, 'token')}, and "
                f"max_tokens is {self._max_tokens}; a chunk has at least one character: pass max_tokens={n_tokens} or "
                "more"
            )
        return end


def _measure_with_surrogates(text: str, n_chars: int) -> int:
    """Count the characters of a text that become the first `n_chars` if each surrogate pair becomes one character."""
    pairs = re.finditer("[\ud800-\udbff][\udc00-\udfff]", text)
    return n_chars + sum(pair.start() - index < n_chars for index, pair in enumerate(pairs))
