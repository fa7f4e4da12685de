"""Cuts: positions of a text, as it is given, where its parts have the ids of the whole, each encoded by itself.

Text that the kernel takes unchanged is cut at the safe split points of blocks of files. If a normalizer is all that
changes it, these points are taken where the normalizer, too, may split the text. Any text is cut after a special token.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from bpe.base.utf8 import escape, unescape
from bpe.corpus.blocks import make_safe_end_finder
from bpe.encode.engine import Engine
from bpe.pretokenize.pretokenizer import get_scanner

#: In how many bytes at the end of a text a position is sought that a normalizer allows, and how many are tried.
SEARCH_BYTES, _MAX_TRIED = 512, 8
_WORD_END = re.compile(rb"[^\t\n\r ](?=[\t\n\r ])")


def make_cut_finder(engine: Engine, names: frozenset[str]) -> Callable[[bytes], int]:
    """Make a function that finds the last position where a text may be cut, whatever follows it; 0 if none.

    The special tokens in `names` are found in the text. The second part must be encoded with `begins_text=False`.
    """
    strings, normalizer = [name.encode() for name in names], engine.spec.normalizer
    find_last: Callable[[memoryview, int], int] | None = None
    if engine.can_split_documents(names):
        find_last = engine.find_last_split
    elif normalizer is not None and engine.only_normalizes and engine.specials.need_one_search(names):
        find_last = None if get_scanner(engine.spec.pretokenizer) is None else _NormalizedSplits(engine).find_last
    find_end = None if find_last is None else make_safe_end_finder(find_last, strings)

    def find_cut(data: bytes) -> int:
        end = None if find_end is None else find_end(bytearray(data), 0, len(data))
        return end[0] if end is not None else engine.specials.find_last_end(data, names)

    return find_cut


class _NormalizedSplits:
    """The safe split points of text that will be normalized: before white space."""

    def __init__(self, engine: Engine) -> None:
        assert engine.spec.normalizer is not None
        self._engine, self._normalizer = engine, engine.spec.normalizer
        self._steps = self._normalizer.flat_steps()

    def find_last(self, data: memoryview, low: int) -> int:
        """Find the last position after `low` where a text may be cut, whatever follows it; `low` if there is none."""
        word_ends = [match.end() for match in _WORD_END.finditer(data, max(low, len(data) - SEARCH_BYTES))]
        for position in reversed(word_ends[-_MAX_TRIED:]):
            if self._is_split(bytes(data[:position]), chr(data[position])):
                return position
        return low

    def _is_split(self, data: bytes, space: str) -> bool:
        """Whether a text may be cut after `data` if `space` follows, which no normalizer joins with what is after it.

        The first step may split there, and all others at the end of what is before, whatever follows it; the result of
        the last one is split there by the scanner.
        """
        text = escape(data)
        for step in self._steps:
            is_split = step.find_last_split(text, len(text) - 1) == len(text)
            if not is_split and step is self._steps[0]:
                is_split = step.find_last_split(text + space, len(text) - 1) == len(text)
            if not is_split:
                return False
            text = step(text)
        normalized, next_char = unescape(text), unescape(self._normalizer(space))
        split = self._engine.find_last_split(normalized + next_char, len(normalized) - 1)
        return bool(next_char) and split == len(normalized)
