"""Prompts that begin as earlier ones did, such as the turns of a conversation: only what is new is encoded.

A cache holds the texts that it has encoded as a tree of blocks. A block ends where a text may be cut whatever follows
(`make_split_finder`), so its ids depend on nothing after its window, which is all the text that the cut was found
in. A text takes the ids of the blocks whose windows it has, one after the other, and they are those of a fresh call.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from bpe.base.forks import make_lock
from bpe.base.memory_limits import parse_byte_count
from bpe.base.utf8 import TextLike, decode_losslessly, encode_losslessly, to_bytes
from bpe.corpus.blocks import make_safe_end_finder
from bpe.encode._prompts import Block, count_common, follow_latest, join_ids
from bpe.encode.engine import Engine
from bpe.encode.texts import make_template_arrays
from bpe.pretokenize.pretokenizer import get_scanner
from bpe.tokenizer import Tokenizer, check_tokenizer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bpe.vocab.special_tokens import Allowed

#: The size of a window in bytes. One that has no cut is doubled.
MIN_WINDOW_BYTES = 1 << 13
#: What the objects of a block take in addition to its window and its ids, in bytes, about.
_BLOCK_OVERHEAD = 600
#: How much of the memory is left in use when the oldest blocks are dropped.
_FRACTION_LEFT = 0.75

_NO_IDS = np.empty(0, dtype=np.uint32)
#: In how many bytes at the end of a text a position is sought that a normalizer allows, and how many are tried.
SEARCH_BYTES, _MAX_TRIED = 512, 8
_WORD_END = re.compile(rb"[^\t\n\r ](?=[\t\n\r ])")


class PromptCache:
    """Encodes texts that begin as earlier ones did, such as the prompts of conversations, and encodes only what is new.

    The ids are always those of `Tokenizer.encode`. They are taken from an earlier text up to the last point before the
    first difference where cutting a text changes no id: the end of a word, or of a special token. With a prefix, a
    pattern of its own, or a normalizer that depends on more than a few characters, it is the end of a special token in
    `allowed_special`. Where there is no such point, the whole text is encoded.

    Safe to use from any number of threads, for one conversation or many. A copy, and one that is pickled, has the same
    settings and is empty.

    Args:
        tokenizer: the tokenizer.
        max_bytes: the memory for texts and their ids, in bytes or as "64M"; what was used longest ago is dropped. A
            million tokens of English take about 10 MB.
        allowed_special: names of special tokens that become their ids, or "all", as for `Tokenizer.encode`.
        template: whether to add the ids of the tokenizer's template, as for `Tokenizer.encode`.

    Raises:
        TypeError: if it is not a tokenizer; for invalid arguments.
        ValueError: for a tokenizer with a dropout of its own, whose ids are random; for invalid arguments.

    >>> import bpe
    >>> tok = bpe.train(texts=["low lower lowest"] * 3, vocab_size=260, special_tokens=["<|end|>"])
    >>> cache = bpe.PromptCache(tok, allowed_special="all")
    >>> ids, n_kept = cache.encode("low lower")
    >>> ids, n_kept = cache.encode("low lower<|end|>lowest")
    >>> ids.tolist() == tok.encode("low lower<|end|>lowest", allowed_special="all").tolist(), n_kept
    (True, 4)

    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        max_bytes: int | str = "64M",
        allowed_special: Allowed = (),
        template: bool = False,
    ) -> None:
        check_tokenizer(tokenizer)
        if tokenizer.spec.dropout:
            raise ValueError(
                f"the tokenizer has a dropout of {tokenizer.spec.dropout}, so its ids are random and cannot be kept; "
                "use bpe.Tokenizer(dataclasses.replace(tokenizer.spec, dropout=0.0))"
            )
        self.tokenizer = tokenizer
        self.max_bytes = parse_byte_count("max_bytes", max_bytes, 0)
        self._engine = tokenizer._engine
        self._allowed = self._engine.specials.resolve_allowed(allowed_special)
        self._find_split = make_split_finder(self._engine, self._allowed)
        self._prepended, self._appended = make_template_arrays(tokenizer.spec.template if template else None)
        settings: dict[str, Any] = {"max_bytes": max_bytes, "allowed_special": self._allowed, "template": template}
        self._make_copy = partial(type(self), tokenizer, **settings)
        self._root = Block(b"", 0, _NO_IDS, 0)
        self._n_bytes = self._n_calls = 0
        self._longest_window = 0  # of all blocks there ever were
        self._lock = make_lock(self)  # for the blocks

    @property
    def n_bytes(self) -> int:
        """The memory of the texts and ids that it holds, in bytes."""
        with self._lock:  # not between adding blocks and dropping others
            return self._n_bytes

    def encode(self, text: TextLike) -> tuple[NDArray[np.uint32], int]:
        """The ids of one text, and how many of the first ones are also the first of an earlier text.

        Args:
            text: as for `Tokenizer.encode`.

        Returns:
            the ids, a new array, and a number of ids for which, for example, what a model has computed stays valid.
            It may be less than it could be: texts are compared by blocks, with the last one that had the same blocks.

        Raises:
            TypeError, ValueError: as `Tokenizer.encode`.

        """
        try:
            return self._encode(text if type(text) is str else to_bytes(text))
        except ValueError as error:
            part_error = error
        self._engine.encode(text, self._allowed)  # raises the error of the whole text
        raise part_error

    def _encode(self, text: str | bytes) -> tuple[NDArray[np.uint32], int]:
        """Encode a str or UTF-8."""
        with self._lock:
            self._n_calls = use = self._n_calls + 1
            path, data = self._find_blocks(text, use)
        last = path[-1] if path else self._root
        blocks, rest = self._encode_rest(data, last)
        ids = join_ids(path + blocks, [self._prepended, rest, self._appended])
        n_prepended = len(self._prepended)
        with self._lock:
            n_kept = last.n_ids + count_common(ids, n_prepended + last.n_ids, last)
            n_kept += 0 if self._root.rest is None else n_prepended  # it is None before the first text
            self._keep(last, blocks, rest, use)
        return ids, n_kept

    def _find_blocks(self, text: str | bytes, use: int) -> tuple[list[Block], bytes]:
        """Find the blocks that a text begins with: (they, the UTF-8 of the text after them)."""
        path: list[Block] = []
        data = to_bytes(text[follow_latest(self._root, text, 0, use, path) :])
        start = 0
        while True:
            block = path[-1] if path else self._root
            child = self._find_child(block, data, start)
            if child is None:
                return path, data[start:]
            block.latest = child
            start = follow_latest(block, data, start, use, path)

    def _find_child(self, block: Block, data: bytes, start: int) -> Block | None:
        size = MIN_WINDOW_BYTES
        while block.children and size <= self._longest_window and start + size <= len(data):
            child = block.children.get(_take_window(data, start, size))
            if child is not None:
                return child
            size *= 2
        return None

    def _encode_rest(self, data: bytes, last: Block) -> tuple[list[Block], NDArray[np.uint32]]:
        """Encode what follows a block: (new blocks, the ids after them)."""
        blocks: list[Block] = []
        start, size, n_ids, begins_text = 0, MIN_WINDOW_BYTES, last.n_ids, last is self._root
        while start + size <= len(data) and start < self.max_bytes:
            window = _take_window(data, start, size)
            cut = self._find_split(window)
            if cut:
                ids = _own(self._engine.encode(window[:cut], self._allowed, begins_text))
                n_ids += len(ids)
                blocks.append(Block(window, cut, ids, n_ids))
                start, size, begins_text = start + cut, MIN_WINDOW_BYTES, False
            else:
                size *= 2
        return blocks, self._engine.encode(data[start:], self._allowed, begins_text)

    # Changes, under the lock ------------------------------------------------------------------------------------------

    def _keep(self, parent: Block, blocks: list[Block], rest: NDArray[np.uint32], use: int) -> None:
        """Keep the new blocks after another one, and the ids of the rest.

        No block was used later than its parent, so that no parent is dropped before its children.
        """
        if parent.is_dropped:
            return
        for block in blocks:
            child = parent.children.setdefault(block.window, block)
            if child is block:
                self._n_bytes += _measure(block)
                self._longest_window = max(self._longest_window, len(block.window))
            child.last_use, parent.latest = max(child.last_use, use), child
            self._set_rest(parent, _NO_IDS)
            parent = child
        self._set_rest(parent, _own(rest) if rest.nbytes <= self.max_bytes // 4 else _NO_IDS)
        if self._n_bytes > self.max_bytes:
            self._drop_oldest()

    def _set_rest(self, block: Block, ids: NDArray[np.uint32]) -> None:
        self._n_bytes += ids.nbytes - (0 if block.rest is None else block.rest.nbytes)
        block.rest = ids

    def _drop_oldest(self) -> None:
        """Drop the blocks that were used longest ago, children before their parents, until enough memory is free."""
        children_and_parents = [(child, self._root) for child in self._root.children.values()]
        for child, _ in children_and_parents:  # to which its own children are added meanwhile
            children_and_parents += [(grandchild, child) for grandchild in child.children.values()]
        children_and_parents.reverse()
        for child, parent in sorted(children_and_parents, key=lambda pair: pair[0].last_use):
            if self._n_bytes <= _FRACTION_LEFT * self.max_bytes:
                break
            del parent.children[child.window]
            if parent.latest is child:
                parent.latest = None
            child.is_dropped = True
            self._n_bytes -= _measure(child)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._make_copy, ()


def _own(ids: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Copy ids that are in memory of a pool, which may be larger, to an array of their own."""
    return ids if ids.base is None else ids.copy()


def _take_window(data: bytes, start: int, size: int) -> bytes:
    """Take `size` bytes of a text, and as many more, up to 3, as complete the last character."""
    end, longest = start + size, min(start + size + 3, len(data))
    while end < longest and data[end] & 0xC0 == 0x80:
        end += 1
    return data[start:end]


def _measure(block: Block) -> int:
    """Measure the memory of a block in bytes."""
    n_id_bytes = block.ids.nbytes + (0 if block.rest is None else block.rest.nbytes)
    return len(block.window) + n_id_bytes + block.characters.__sizeof__() + _BLOCK_OVERHEAD


# Cuts -----------------------------------------------------------------------------------------------------------------
#
# Text that the kernel takes unchanged is cut at the safe split points of blocks of files. If a normalizer is all that
# changes it, these points are taken where the normalizer, too, may split the text. Any text is cut after a special
# token.


def make_split_finder(engine: Engine, names: frozenset[str]) -> Callable[[bytes], int]:
    """Make a function that finds the last position where a text may be cut, whatever follows it; 0 if none.

    The special tokens in `names` are found in the text. The second part must be encoded with `begins_text=False`.
    """
    strings, normalizer = [name.encode() for name in names], engine.spec.normalizer
    find_last: Callable[[memoryview, int], int] | None = None
    if engine.can_split_documents(names):
        find_last = engine.find_last_split
    elif normalizer is not None and engine.only_normalizes and engine.specials.one_search_suffices(names):
        find_last = None if get_scanner(engine.spec.pretokenizer) is None else _NormalizedSplits(engine).find_last
    find_end = None if find_last is None else make_safe_end_finder(find_last, strings)

    def find_split(data: bytes) -> int:
        end = None if find_end is None else find_end(bytearray(data), 0, len(data))
        return end[0] if end is not None else engine.specials.find_last_end(data, names)

    return find_split


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
        text = decode_losslessly(data)
        for step in self._steps:
            is_split = step.find_last_split(text, len(text) - 1) == len(text)
            if not is_split and step is self._steps[0]:
                is_split = step.find_last_split(text + space, len(text) - 1) == len(text)
            if not is_split:
                return False
            text = step(text)
        normalized, next_char = encode_losslessly(text), encode_losslessly(self._normalizer(space))
        split = self._engine.find_last_split(normalized + next_char, len(normalized) - 1)
        return bool(next_char) and split == len(normalized)
