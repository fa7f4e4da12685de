"""Truncation: the longest beginning of a text, in whole characters, that has at most a given number of tokens."""

from __future__ import annotations

from bpe.base.utf8 import TextLike, to_bytes
from bpe.encode.engine import Engine
from bpe.encode.offsets import OffsetEncoder
from bpe.pretokenize.pretokenizer import Steps, scanner_of


def truncate(engine: Engine, offsets: OffsetEncoder, text: TextLike, most: int, allowed: frozenset[str]) -> TextLike:
    """The beginning of a text that has at most `most` tokens: a str for a str, else bytes.

    Args:
        engine: the tokenizer's engine.
        offsets: its encoder with offsets.
        text: the text.
        most: the largest number of tokens.
        allowed: the special tokens to find.

    """
    pretokenizer = engine.spec.pretokenizer
    if engine.spec.normalizer is not None or isinstance(pretokenizer, Steps):
        return _truncate_by_trying(engine, text, most, allowed)
    data = to_bytes(text)
    prefix = _prefix(engine, data, most, allowed)
    _, spans = offsets.encode(prefix, allowed, "byte")
    if len(prefix) == len(data) and len(spans) <= most:
        return text
    for count in range(min(most, len(spans)), 0, -1):
        end = int(spans[count - 1, 1])
        while end > 0 and end < len(data) and data[end] & 0xC0 == 0x80:
            end -= 1
        if len(engine.encode(data[:end], allowed)) <= most:
            return data[:end].decode() if isinstance(text, str) else data[:end]
    return "" if isinstance(text, str) else b""


def _prefix(engine: Engine, data: bytes, most: int, allowed: frozenset[str]) -> bytes:
    """A prefix that ends at a safe split point and has more than `most` tokens; the whole text if there is none."""
    scanner = scanner_of(engine.spec.pretokenizer)
    size = 32 * most + 1024
    while scanner is not None and not allowed and size < len(data):
        cut = engine.last_cut(memoryview(data)[:size], 0)
        if cut and len(engine.encode(data[:cut])) > most:
            return data[:cut]
        size *= 4
    return data


def _truncate_by_trying(engine: Engine, text: TextLike, most: int, allowed: frozenset[str]) -> TextLike:
    """Truncate by bisection, for text that a normalizer changes. It assumes that longer text has no fewer tokens."""
    whole = text if isinstance(text, (str, bytes)) else to_bytes(text)
    low, high = 0, len(whole)  # the prefix of length `low` has few enough tokens, that of length `high` too many
    if len(engine.encode(whole, allowed)) <= most:
        return text
    while high - low > 1:
        middle = (low + high) // 2
        if len(engine.encode(whole_characters(whole[:middle]), allowed)) <= most:
            low = middle
        else:
            high = middle
    return whole_characters(whole[:low])


def whole_characters(text: str | bytes) -> str | bytes:
    """The text without its last character if that is incomplete."""
    if isinstance(text, str):
        return text[:-1] if text and 0xD800 <= ord(text[-1]) <= 0xDBFF else text
    end = len(text)
    while end > max(len(text) - 3, 0) and text[end - 1] & 0xC0 == 0x80:
        end -= 1
    lead = text[end - 1] if end else 0
    width = 1 if lead < 0xC0 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
    return text[: end - 1] if end and end - 1 + width > len(text) else text
