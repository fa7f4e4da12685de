"""The published pretokenizer patterns, by name.

Each is kept in the form in which its owner publishes it today; where two publications exist that differ at the end of a
text (cl100k: tiktoken added `\\s++$`), tiktoken's is followed, since its ids are the ones to match.
"""

from __future__ import annotations

from typing import NamedTuple


class Pattern(NamedTuple):
    """A named pattern: `expression` for the `regex` package, and the number of its scanner in `_core/scan.pxd`."""

    expression: str
    scanner: int


#: The name of a pretokenizer → its pattern. White space between the pretokens of `clip` and `whitespace` is dropped.
PATTERNS: dict[str, Pattern] = {
    "gpt2": Pattern(
        r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s""",
        scanner=1,
    ),
    "cl100k": Pattern(
        r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"""
        r"""|\s++$|\s*[\r\n]|\s+(?!\S)|\s""",
        scanner=2,
    ),
    "o200k": Pattern(
        r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"""
        r"""|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"""
        r"""|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
        scanner=3,
    ),
    "clip": Pattern(
        r"""(?i)<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+""",
        scanner=4,
    ),
    "whitespace": Pattern(r"\S+", scanner=5),
}

#: The scanner of a tokenizer without a pretokenizer: the whole text is one word.
WHOLE = 0

#: Other spellings of the same patterns, as tokenizer.json files and older releases have them → the name.
SPELLINGS: dict[str, str] = {
    **{pattern.expression: name for name, pattern in PATTERNS.items()},
    r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""": "gpt2",
    r"""'s|'t|'re|'ve|'m|'ll|'d| ?[\p{L}]+| ?[\p{N}]+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""": "gpt2",
    r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""": "gpt2",
    r"""(?i)<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+""": "clip",
}
