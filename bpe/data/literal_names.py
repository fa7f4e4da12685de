"""Warn where the name of an end-of-text token stands in a corpus as ordinary text.

Files whose documents are separated by `<|endoftext|>` are read as one document each unless the separator is given, and
each name becomes several ordinary ids. That is rarely meant, so `encode_shards` and `bpe encode` log a warning.

Cost: the first 8 MB are searched, and then the first 16 KB of each block, about 1% of the time of encoding.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Generator
from contextlib import closing

from bpe.corpus.blocks import Block
from bpe.data.options import end_of_text
from bpe.encode.engine import Around
from bpe.errors import counted
from bpe.tokenizer import Tokenizer

log = logging.getLogger("bpe")

#: The first `_WHOLE` bytes of text are searched, and then the first `_PART` bytes of each block.
_WHOLE, _PART = 8 << 20, 16 << 10


def literal_names(
    tokenizer: Tokenizer, around: Around, allowed: Collection[str], separators: Collection[bytes]
) -> list[str]:
    """The special tokens to search for: the end of text and those around documents, unless a text may have them.

    >>> import bpe
    >>> tok = bpe.train(texts=["low"], vocab_size=258, special_tokens=["<|endoftext|>", "<|pad|>"])
    >>> literal_names(tok, (None, None), (), []), literal_names(tok, (None, 1), (), [b"<|endoftext|>"])
    (['<|endoftext|>'], ['<|pad|>'])
    """
    wanted = {end_of_text(tokenizer), *around} - {None}
    named = [name for name, number in tokenizer.special_tokens.items() if number in wanted]
    return [name for name in named if name not in allowed and name.encode() not in separators]


class NameWarning:
    """Logs one warning for all blocks of a call, when the text of a block has one of these names."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = {name: name.encode() for name in names}
        self._searched = 0

    def watch(self, blocks: Generator[Block, None, None]) -> Generator[Block, None, None]:
        """Pass blocks on, and close their generator at the end."""
        with closing(blocks):
            for block in blocks:
                if self._names:
                    self._search(block)
                yield block

    def _search(self, block: Block) -> None:
        text = bytes(block.text[: max(_WHOLE - self._searched, _PART)])
        self._searched += len(text)
        for name, encoded in self._names.items():
            times = text.count(encoded)
            if times:
                self._names = {}
                log.warning(
                    "%s: %r occurs at least %s as ordinary text, which gives ordinary ids; pass separator= "
                    "(--separator) if it separates documents, or allowed_special='all' (--allow-special) if the text "
                    "may have special tokens",
                    block.source,
                    name,
                    counted(times, "time"),
                )
                return
