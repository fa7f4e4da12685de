"""Finding pretokens: `text` converts bytes to the library's input, and `scanner` returns the function to time.

That function takes such an input and returns the number of its pretokens. `scanner` returns None for a pattern that the
library lacks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from peers.common import PATTERN, BpeBase, Peer

# Hugging Face's spellings: Oniguruma interprets `{1,3}+` and `$` differently from tiktoken's engine.
HUGGINGFACE = {
    "gpt2": PATTERN,
    "cl100k": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+",
}


class BpePeer(BpeBase):
    """This package."""

    def convert_text(self, data: bytes) -> bytes:
        """The bytes as they are."""
        return data

    def make_scanner(self, pattern: str) -> Callable[[Any], int]:
        """The scanner's count of pretokens, without an object for each."""
        from bpe.pretokenize import _scanner as scan
        from bpe.pretokenize.patterns import PATTERNS

        scanner_number = PATTERNS[pattern].scanner
        count = getattr(scan, "count", None)
        if count is None:  # then the arrays of offsets are timed too
            return lambda data: len(scan.find_spans(scanner_number, data)[0])
        return lambda data: int(count(scanner_number, data))


class Regex(Peer):
    """The `regex` package."""

    name = "regex"

    def convert_text(self, data: bytes) -> str:
        """A str."""
        return data.decode()

    def make_scanner(self, pattern: str) -> Callable[[Any], int]:
        """All matches as a list."""
        import regex

        from bpe.pretokenize.patterns import PATTERNS

        findall = regex.compile(PATTERNS[pattern].expression).findall
        return lambda text: len(findall(text))


class HuggingFace(Peer):
    """Hugging Face's `tokenizers`."""

    name = "tokenizers"

    def convert_text(self, data: bytes) -> str:
        """A str."""
        return data.decode()

    def make_scanner(self, pattern: str) -> Callable[[Any], int]:
        """`Split` by the pattern, as in tokenizer.json files; a list of str with offsets."""
        from tokenizers import Regex as Expression
        from tokenizers.pre_tokenizers import Split

        from bpe.pretokenize.patterns import PATTERNS

        split = Split(Expression(HUGGINGFACE.get(pattern, PATTERNS[pattern].expression)), "isolated")
        return lambda text: len(split.pre_tokenize_str(text))


class Gigatoken(Peer):
    """gigatoken's pretokenizer; GPT-2's pattern only."""

    name = "gigatoken"

    def convert_text(self, data: bytes) -> bytes:
        """The bytes as they are."""
        return data

    def make_scanner(self, pattern: str) -> Callable[[Any], int] | None:
        """An iterator of bytes objects run to its end."""
        if pattern != "gpt2":
            return None
        from gigatoken import gigatoken_rs

        def count(data: bytes) -> int:
            last_item = deque(enumerate(gigatoken_rs.pretokenizer(data), 1), maxlen=1)
            return last_item[0][0] if last_item else 0

        return count


SCANNERS: dict[str, Any] = {peer.name: peer for peer in (BpePeer, Regex, HuggingFace, Gigatoken)}
