"""Texts that must fit into a number of tokens: counting up to a limit, and truncating. `chunks.py` divides texts.

Whatever is returned was encoded by itself: a part of a text may have more tokens than it has within the text, because a
word is cut, or because a normalizer or a pretokenizer treats the beginning of a text differently. So offsets, or the
lengths of other parts, only say where to try first. Cost: linear in the text that is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bpe.base.utf8 import TextLike, to_bytes, to_plain_str
from bpe.encode.engine import Engine
from bpe.encode.offsets import OffsetEncoder
from bpe.encode.streams import encode_stream
from bpe.errors import check_choice, check_int
from bpe.pretokenize.pretokenizer import PipelinePretokenizer, get_scanner

if TYPE_CHECKING:
    from bpe.vocab.special_tokens import Allowed

#: Which end of a text is cut off.
Side = Literal["right", "left", "middle"]
SIDES: tuple[Side, ...] = ("right", "left", "middle")
#: How many positions next to each other are tried.
MAX_TRIED = 8

# Counting -------------------------------------------------------------------------------------------------------------


def count_up_to(
    engine: Engine,
    count: Callable[[Any], Any],
    text: TextLike | Iterable[TextLike],
    limit: int,
    policy: tuple[Allowed, Allowed],
) -> Any:
    """Count the tokens of one text or several by `count`; `limit + 1` for more than `limit`.

    Of a long text only the beginning is read, unless there are few tokens in it.
    """
    limit = check_int("limit", limit, 0)
    if isinstance(text, (str, bytes)) and len(text) > guess_size(limit):
        return _count_beginning(engine, to_plain_str(text), limit, *engine.specials.resolve_policy(*policy))
    counts = count(text)
    return min(counts, limit + 1) if isinstance(counts, int) else np.minimum(counts, limit + 1)


def _count_beginning(
    engine: Engine, text: TextLike, limit: int, allowed: frozenset[str], disallowed: frozenset[str] = frozenset()
) -> int:
    """Count the tokens of a text, `limit + 1` for more than `limit`, reading as little as may be."""
    size, n_tokens = guess_size(limit), 0
    parts = (text[start : start + size] for start in range(0, len(text), size))
    for ids in encode_stream(engine, parts, allowed, disallowed, min_bytes=size):
        n_tokens += len(ids)
        if n_tokens > limit:
            return limit + 1
    return n_tokens


def guess_size(max_tokens: int) -> int:
    """Guess a number of bytes or characters that have more tokens than this, in most texts."""
    return 8 * max_tokens + 64


# Truncation -----------------------------------------------------------------------------------------------------------


def truncate(
    offsets: OffsetEncoder, text: TextLike, max_tokens: int, allowed: frozenset[str], side: Side = "right"
) -> TextLike:
    """Cut a text to at most `max_tokens` tokens, at one end or in the middle: a str for a str, else bytes."""
    check_choice("side", side, SIDES)
    text = to_plain_str(text)
    if side == "right":
        return _keep_beginning(offsets, text, max_tokens, allowed)
    text = text if isinstance(text, (str, bytes)) else to_bytes(text)
    if side == "left":
        return _keep_end(offsets, text, max_tokens, allowed)
    if _count_beginning(offsets.engine, text, max_tokens, allowed) <= max_tokens:
        return text
    return _keep_both_ends(offsets, text, max_tokens, allowed)


def _keep_beginning(offsets: OffsetEncoder, text: TextLike, max_tokens: int, allowed: frozenset[str]) -> TextLike:
    engine, pretokenizer = offsets.engine, offsets.engine.spec.pretokenizer
    if engine.spec.normalizer is not None or isinstance(pretokenizer, PipelinePretokenizer):
        return _search_beginning(engine, text, max_tokens, allowed)
    data = to_bytes(text)
    prefix = _find_prefix(engine, data, max_tokens, allowed)
    _, spans = offsets.encode(prefix, allowed, "byte")
    if len(prefix) == len(data) and len(spans) <= max_tokens:
        return text
    for n_tokens in range(min(max_tokens, len(spans)), 0, -1):
        end = int(spans[n_tokens - 1, 1])
        while end > 0 and end < len(data) and data[end] & 0xC0 == 0x80:
            end -= 1
        if len(engine.encode(data[:end], allowed)) <= max_tokens:
            return data[:end].decode() if isinstance(text, str) else data[:end]
    return "" if isinstance(text, str) else b""


def _find_prefix(engine: Engine, data: bytes, max_tokens: int, allowed: frozenset[str]) -> bytes:
    """Find a prefix that ends at a safe split point and has over `max_tokens` tokens; without one, the whole text."""
    scanner = get_scanner(engine.spec.pretokenizer)
    size = 32 * max_tokens + 1024
    while scanner is not None and not allowed and size < len(data):
        split = engine.find_last_split(memoryview(data)[:size], 0)
        if split and len(engine.encode(data[:split])) > max_tokens:
            return data[:split]
        size *= 4
    return data


def _search_beginning(engine: Engine, text: TextLike, max_tokens: int, allowed: frozenset[str]) -> TextLike:
    """Find the longest beginning that fits, for text that a normalizer changes, by interpolation and bisection.

    It assumes that a longer beginning has no fewer tokens.
    """
    full_text = text if isinstance(text, (str, bytes)) else to_bytes(text)
    n_tokens, size = 0, guess_size(max_tokens)
    if len(full_text) > size:
        is_short = _count_beginning(engine, full_text, max_tokens, allowed) <= max_tokens
    else:
        n_tokens = len(engine.encode(full_text, allowed))
        is_short = n_tokens <= max_tokens
    if is_short:
        return text
    # The beginning of `fitting` characters or bytes has `n_fitting` tokens, few enough; that of `too_long` has
    # `n_too_long`, too many, or an unknown number, 0.
    fitting, n_fitting, too_long, n_too_long, n_tried = 0, 0, len(full_text), n_tokens, 0
    while too_long - fitting > 1:
        if n_too_long:
            share = (max_tokens + 0.5 - n_fitting) / (n_too_long - n_fitting)
            size = fitting + int((too_long - fitting) * (share if n_tried % 3 else 0.5))
        size = min(max(size, fitting + 1), too_long - 1)
        n_tokens = len(engine.encode(_drop_incomplete_character(full_text[:size]), allowed))
        n_tried += 1
        if n_tokens <= max_tokens:
            fitting, n_fitting = size, n_tokens
            size *= 2
        else:
            too_long, n_too_long = size, n_tokens
    return _drop_incomplete_character(full_text[:fitting])


def _drop_incomplete_character(text: str | bytes) -> str | bytes:
    """Drop the last character of a text if that is incomplete."""
    if isinstance(text, str):
        return text[:-1] if text and 0xD800 <= ord(text[-1]) <= 0xDBFF else text
    end = len(text)
    while end > max(len(text) - 3, 0) and text[end - 1] & 0xC0 == 0x80:
        end -= 1
    lead = text[end - 1] if end else 0
    width = 1 + (lead >= 0xC0) + (lead >= 0xE0) + (lead >= 0xF0)
    return text[: end - 1] if end and end - 1 + width > len(text) else text


def _keep_end(offsets: OffsetEncoder, text: str | bytes, max_tokens: int, allowed: frozenset[str]) -> str | bytes:
    """Return an end of a text that fits. It begins where a token does, with a whole character."""
    size = guess_size(max_tokens)
    while True:
        tail = text[max(find_character(text, len(text) - size), 0) :]
        _, spans = offsets.encode(tail, allowed, "char" if isinstance(text, str) else "byte")
        if len(spans) > max_tokens:
            break
        if len(tail) == len(text):
            return text
        size *= 2
    starts = [*spans[len(spans) - max_tokens :, 0].tolist(), len(tail)]
    for start in (find_character(tail, token_start) for token_start in _thin_out(starts)):
        if len(offsets.engine.encode(tail[start:], allowed)) <= max_tokens:
            break
    return tail[start:]


def _keep_both_ends(offsets: OffsetEncoder, text: str | bytes, max_tokens: int, allowed: frozenset[str]) -> str | bytes:
    """Return a beginning of about half the tokens, joined with an end; the middle is left out."""
    n_last = max_tokens // 2
    beginning: Any = _keep_beginning(offsets, text, max_tokens - n_last, allowed)
    if not text.startswith(beginning):  # surrogates have been replaced
        return _keep_both_ends(offsets, to_bytes(text).decode(), max_tokens, allowed)
    while True:
        shortened: str | bytes = beginning + _keep_end(offsets, text[len(beginning) :], n_last, allowed)
        n_too_many = len(offsets.engine.encode(shortened, allowed)) - max_tokens
        if n_too_many <= 0:
            return shortened
        n_last = max(n_last - n_too_many, 0)


def _thin_out(positions: list[int]) -> Iterator[int]:
    """Yield the first `MAX_TRIED` distinct positions, then some of the others, ever farther apart, and the last one."""
    distinct = list(dict.fromkeys(positions))
    index, step = 0, 1
    while index < len(distinct) - 1:
        yield distinct[index]
        index += step
        step *= 1 if index < MAX_TRIED else 2
    yield distinct[-1]


def find_character(text: str | bytes, position: int) -> int:
    """Find the first position from here on where a character begins, or the text ends; a surrogate pair is one."""
    if isinstance(text, bytes):
        while 0 < position < len(text) and text[position] & 0xC0 == 0x80:
            position += 1
        return position
    is_inside = 0 < position < len(text) and "\udc00" <= text[position] <= "\udfff"
    return position + (is_inside and "\ud800" <= text[position - 1] <= "\udbff")
