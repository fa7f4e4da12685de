"""The published pretokenizer patterns, by name.

Each expression is written as its owner publishes it today. Where two published forms differ at the end of a text
(cl100k: tiktoken added `\\s++$`), tiktoken's is used, because the ids must match tiktoken's.

Their spellings for Oniguruma, the engine of Hugging Face's files, are here too; its patterns: `bpe/text/oniguruma.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Pattern(NamedTuple):
    """A named pattern: its `expression` for the `regex` package, and the number of its scanner in `_patterns.pxd`."""

    expression: str
    scanner: int


_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def _make_llama_pattern(number: str) -> str:
    """Make the pattern of Llama 3 or of Qwen 2, which differ only in what a number is."""
    return (
        rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{number}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    )


def _make_cased_pattern(suffix: str, number: str) -> str:
    """Make the pattern of o200k or of tekken, which differ only in contractions and in what a number is."""
    lead = r"[^\r\n\p{L}\p{N}]?"
    return (
        f"{lead}{_UPPER}*{_LOWER}+{suffix}|{lead}{_UPPER}+{_LOWER}*{suffix}"
        rf"|{number}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )


#: DeepSeek V3 and R1 split by three expressions, each applied to the pieces of the previous one. They are here with CR
#: and LF as literal characters, as in the published file, and as escapes.
_DEEPSEEK_WORDS = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^@@\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"""| ?[\p{P}\p{S}]+[@@]*|\s*[@@]+|\s+(?!\S)|\s+"""
)
_DEEPSEEK_FIRST = (r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+")
DEEPSEEK_STEPS = (*_DEEPSEEK_FIRST, _DEEPSEEK_WORDS.replace("@@", "\r\n"))
DEEPSEEK_STEPS_ESCAPED = (*_DEEPSEEK_FIRST, _DEEPSEEK_WORDS.replace("@@", r"\r\n"))

#: The same as one expression of the `regex` package. No match crosses a boundary of the first two steps.
_EAST_ASIAN = r"\u3040-\u30ff\u4e00-\u9fa5"
_DEEPSEEK = (
    r"(?V1)\p{N}{1,3}"
    r"|[!-/:-@\[-`{-~][A-Za-z]+"
    rf"|[^\r\n\p{{L}}\p{{P}}\p{{S}}\p{{N}}{_EAST_ASIAN}]?[[\p{{L}}\p{{M}}]--[{_EAST_ASIAN}]]+"
    rf"|[[{_EAST_ASIAN}]--[\p{{L}}\p{{P}}\p{{S}}]]?[[{_EAST_ASIAN}]&&[\p{{L}}\p{{M}}]]+"
    rf"| ?[[\p{{P}}\p{{S}}]--[{_EAST_ASIAN}]]+[\r\n]*|[[{_EAST_ASIAN}]&&[\p{{P}}\p{{S}}]]+"
    rf"|\s*[\r\n]+|\s+(?![^\s\p{{N}}{_EAST_ASIAN}])|\s+"
    rf"|[^\s\p{{L}}\p{{M}}\p{{N}}\p{{P}}\p{{S}}{_EAST_ASIAN}]+(?![[\p{{L}}\p{{M}}]--[{_EAST_ASIAN}]])"
    rf"|[[{_EAST_ASIAN}]--[\p{{L}}\p{{M}}\p{{P}}\p{{S}}]]+(?![[{_EAST_ASIAN}]&&[\p{{L}}\p{{M}}]])"
)

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
    "o200k": Pattern(_make_cased_pattern(f"{_CONTRACTION}?", r"\p{N}{1,3}"), scanner=3),
    "clip": Pattern(
        r"""(?i)<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+""",
        scanner=4,
    ),
    "whitespace": Pattern(r"\S+", scanner=5),
    "llama3": Pattern(_make_llama_pattern(r"\p{N}{1,3}"), scanner=6),
    "qwen2": Pattern(_make_llama_pattern(r"\p{N}"), scanner=7),
    "tekken": Pattern(_make_cased_pattern("", r"\p{N}"), scanner=8),
    "deepseek_v3": Pattern(_DEEPSEEK, scanner=9),
    # gpt2's pattern, applied to the text between numbers, after each number character is isolated.
    "starcoder": Pattern(
        r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?![^\s\p{N}])|\s+""",
        scanner=10,
    ),
}
#: The names of pretokenizers.
NAMES = tuple(PATTERNS)

#: Other names of the same patterns.
ALIASES: dict[str, str] = {
    "r50k": "gpt2",
    "p50k": "gpt2",
    "gpt_oss": "o200k",
    "llama4": "o200k",
    "glm4": "llama3",
    "phi4": "llama3",
    "qwen2.5": "qwen2",
    "qwen3": "qwen2",
    "deepseek_r1": "deepseek_v3",
    "command_r": "starcoder",
    "granite": "starcoder",
    "smollm": "starcoder",
}

#: The scanner of a tokenizer without a pretokenizer: the whole text is one word.
WHOLE_TEXT = 0
#: Scanners of U+2581, which stands for a space: each one starts a word, or each one that follows another character.
METASPACE, SPACE_RUNS = 32, 33

#: The patterns of SuperBPE's two stages, as its paper has them and as its authors use them since 2025-11. The paper's
#: group digits from the right: "1", "234" for 1234.
_DIGIT_GROUPS = r"\p{N}+?(?=(?:\d{3})+(?!\d)|(?!\p{N}))"
SUPERBPE_WORDS = rf"{_DIGIT_GROUPS}| ?\p{{L}}+| ?[^\s\p{{L}}\p{{N}}]+|\s+(?![^\s\p{{N}}])|\s+"
SUPERBPE_SECOND_STAGE = rf"{_DIGIT_GROUPS}|\P{{N}}+"
SUPERBPE_V2_WORDS = _make_cased_pattern("", r"\p{N}{1,3}")
SUPERBPE_V2_SECOND_STAGE = r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]{2,}[\r\n/]*| +(?!\S)"

#: What divides a text into long pretokens, as in `_piece_scanner.pyx`.
UNDIVIDED, NUMBERS, SIGNS = 0, 1, 2
#: The patterns of the second stage → what divides a text; the text between their matches is kept.
SECOND_STAGE_PATTERNS: dict[str, int] = {SUPERBPE_SECOND_STAGE: NUMBERS, SUPERBPE_V2_SECOND_STAGE: SIGNS}
#: The patterns of `_word_scanner.pyx` → whether it is the cased one.
WORD_PATTERNS: dict[str, bool] = {SUPERBPE_WORDS: False, SUPERBPE_V2_WORDS: True}

#: Other spellings of the same patterns, from tokenizer.json files and older releases → the name. tiktoken's cl100k
#: before it added `\\s++$` is Llama 3's pattern.
SPELLINGS: dict[str, str] = {
    **{pattern.expression: name for name, pattern in PATTERNS.items()},
    r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""": "gpt2",
    r"""'s|'t|'re|'ve|'m|'ll|'d| ?[\p{L}]+| ?[\p{N}]+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""": "gpt2",
    r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""": "gpt2",
    r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*"""
    r"""|\s*[\r\n]|\s+(?!\S)|\s+""": "llama3",
    r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*"""
    r"""|\s*[\r\n]|\s+(?!\S)|\s+""": "qwen2",
    _make_llama_pattern(r"\p{N}{1,3}").replace(r"\s*[\r\n]+", r"\s*[\r\n]"): "llama3",
    _make_llama_pattern(r"\p{N}").replace(r"\s*[\r\n]+", r"\s*[\r\n]"): "qwen2",
    _make_llama_pattern(r"\p{N}{1}"): "qwen2",
    _make_cased_pattern(r"(?:'(?i:[sdmt]|ll|ve|re))?", r"\p{N}{1,3}"): "o200k",
    r"""(?i)<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+""": "clip",
}

#: The name of a published pattern → its spelling for Oniguruma.
ONIGURUMA_SPELLINGS: Mapping[str, str] = {
    "gpt2": r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""",
    # `\s++$` is safe: `\s++` has consumed all white space, so no newline follows, and in both engines `$` matches only
    # at the end of the text.
    "cl100k": PATTERNS["cl100k"].expression.replace("{1,3}+", "{1,3}"),
    **{name: PATTERNS[name].expression for name in ("o200k", "llama3", "qwen2", "tekken", "starcoder")},
    # Both cases are listed, because under `(?i)` Oniguruma would match the ligature ﬆ for the st of <|startoftext|>.
    # U+0345 is excluded, because under `(?i)` the negated class of `regex` does not match it (its capital is a letter).
    "clip": r"""<\|[sSſ][tT][aA][rR][tT][oO][fF][tT][eE][xX][tT]\|>|<\|[eE][nN][dD][oO][fF][tT][eE][xX][tT]\|>"""
    r"""|'[sSſ]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|\p{L}+|\p{N}|[^\s\p{L}\p{N}\u0345]+""",
}

#: Oniguruma's spellings of published patterns → the name. Without those that have `}+` or a leading `(?i)`, which mean
#: something else in Oniguruma.
NAME_OF_ONIGURUMA: Mapping[str, str] = {
    **{
        spelling: name
        for spelling, name in SPELLINGS.items()
        if "}+" not in spelling and not spelling.startswith(("(?i)", "(?V1)"))
    },
    **{spelling: name for name, spelling in ONIGURUMA_SPELLINGS.items()},
}


def find_published_name(spelling: str, gaps: str) -> str | None:
    """Find the name of the published pattern with this Oniguruma spelling, or None."""
    name = NAME_OF_ONIGURUMA.get(spelling)
    return None if gaps == "keep" and name in ("clip", "whitespace") else name
