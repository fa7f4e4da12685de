r"""How llama.cpp cuts texts for each value of `tokenizer.ggml.pre`.

A value stands for a published pretokenizer, or for patterns: each one cuts what the one before has left, and keeps the
text between its matches. Where llama.cpp approximates a published pattern, as that of o200k, the published one is here.
Source: llama.cpp's src/llama-vocab.cpp of October 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bpe.formats.tiktoken_folder import KIMI_PATTERN
from bpe.pretokenize.patterns import ONIGURUMA_SPELLINGS, PATTERNS
from bpe.pretokenize.steps import DIGIT_GROUPS


class NamedPattern(NamedTuple):
    """What a value of `pre` means.

    Attributes:
        patterns: the name of a pretokenizer, Kimi's pattern, or patterns of Oniguruma.
        ignore_merges: whether a pretoken that is a token is not merged.

    """

    patterns: str | tuple[str, ...]
    ignore_merges: bool = False


_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
_SPACES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
_GPT2, _O200K = ONIGURUMA_SPELLINGS["gpt2"], PATTERNS["o200k"].expression


def _vary_qwen2(words: str = r"\p{L}+", numbers: str = r"\p{N}", signs: str = r" ?[^\s\p{L}\p{N}]+[\r\n]*") -> str:
    """Return the pattern of Qwen 2 with other words, numbers or signs, and without contractions and its end."""
    return rf"[^\r\n\p{{L}}\p{{N}}]?{words}|{numbers}|{signs}"


#: DeepSeek's letters, those with case in an older Unicode version, and its signs.
_DEEPSEEK_LETTERS = (
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\u1f7d"
    "ᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌῐ-\u1fd3ῖ-\u1fdbῠ-Ῥῲ-ῴῶ-ῼ\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126"
    "\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149ⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿ"
    "\ufb00-\ufb06\ufb13-\ufb17Ａ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"
)
_DEEPSEEK_SIGNS = "!-/:-~！-／：-～‘-‟\u3000-。"
_DEEPSEEK_CJK = "[一-龥\u0800-\u4e00가-\ud7ff]+"
_CJK = "[一-龥\u3040-ゟ゠-ヿ]+"
_ASCII_SIGN = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"""
#: The words of DeepSeek V3, whose signs and lines Spark 2.5 ends otherwise.
_DEEPSEEK_3 = rf"{_ASCII_SIGN}[A-Za-z]+|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+| ?[\p{{P}}\p{{S}}]+"
_BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"

#: The patterns of llama.cpp's models of the kind of sentencepiece, whose merges are listed: lines, and line ends.
LINE_PATTERN = NamedPattern((r"[^\n]+|[\n]+",))
NAMES_OF_LINE_PATTERNS = ("gemma4", "granite-embed-multi-311m", "mmbert", "sarvam-moe")

#: The value of `pre` → what it means.
PRETOKENIZERS: Mapping[str, NamedPattern] = {
    "default": NamedPattern((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]")),
    **dict.fromkeys(
        (
            "gpt-2", "phi-2", "roberta-bpe", "mpt", "olmo", "jais", "gigachat", "jina-es", "jina-de", "jina-v1-en",
            "jina-v2-es", "jina-v2-de", "jina-v2-code", "a.x-4.0", "mellum", "modern-bert", "exaone4", "trillion",
            "granite-docling",
        ),
        NamedPattern("gpt2"),
    ),
    **dict.fromkeys(
        (
            "llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano",
            "glm4", "glm5",
        ),
        NamedPattern("llama3", ignore_merges=True),
    ),
    **dict.fromkeys(("dbrx", "smaug-bpe", "chatglm-bpe"), NamedPattern("llama3")),
    **dict.fromkeys(
        (
            "qwen2", "stablelm2", "deepseek-r1-qwen", "hunyuan", "solar-open", "kormo", "f2llmv2", "megrez", "grok-2",
            "bailingmoe", "bailingmoe2", "llada-moe",
        ),
        NamedPattern("qwen2"),
    ),
    **dict.fromkeys(("gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"), NamedPattern("o200k")),
    "granite-embed-multi-97m": NamedPattern("o200k", ignore_merges=True),
    **dict.fromkeys(
        ("starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"),
        NamedPattern("starcoder"),
    ),
    "tekken": NamedPattern("tekken", ignore_merges=True),
    **dict.fromkeys(("deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"), NamedPattern("deepseek_v3")),
    "kimi-k2": NamedPattern(KIMI_PATTERN),
    "qwen35": NamedPattern(
        (_CONTRACTION + _vary_qwen2(r"[\p{L}\p{M}]+", signs=r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*") + _SPACES,)
    ),
    "k2-horizon": NamedPattern(
        (_CONTRACTION + _vary_qwen2(r"(?:\p{L}|\p{M}|\u200C|\u200D)+", r"\p{N}{1,3}") + _SPACES,)
    ),
    "ufakzeka": NamedPattern((_vary_qwen2() + _SPACES,)),
    "seed-coder": NamedPattern((_CONTRACTION + _vary_qwen2(signs=r" ?[^\s\p{L}\p{N}\r\n]+") + _SPACES,)),
    "laguna": NamedPattern((*LINE_PATTERN.patterns, PATTERNS["qwen2"].expression)),
    "minicpm5": NamedPattern(
        (r"\p{N}{1,3}", _CONTRACTION + _vary_qwen2(numbers=r"\p{N}+") + _SPACES), ignore_merges=True
    ),
    "exaone-moe": NamedPattern(
        (
            _CONTRACTION
            + _vary_qwen2(r"(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+", signs=r" ?[^\s\p{L}\p{N}]+[\r\n/]?")
            + r"|\s*[\r\n]|\s+(?!\S)|\s+",
        )
    ),
    "jais-2": NamedPattern(
        (
            _CONTRACTION
            + _vary_qwen2(numbers=r"\p{N}{1,3}")
            + r"|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)"
            + r"|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}",
        )
    ),
    **dict.fromkeys(("tiny_aya", "cohere2moe"), NamedPattern((r"\d{1,3}(?=(?:\d{3})*\b)", _O200K))),
    "youtu": NamedPattern(
        (
            "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥\u3040-ゟ゠-ヿ]+",
            _O200K.replace(r"\p{N}{1,3}", r"\p{N}"),
        ),
        ignore_merges=True,
    ),
    "spark2_5": NamedPattern((r"\p{N}{1,3}", _CJK, rf"{_DEEPSEEK_3}|[\r\n]|\s+(?!\S)|\s+", r"\p{N}")),
    "afmoe": NamedPattern(
        (
            r"\P{N}*\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))",  # the text before a number goes with its first digits
            "[一-鿿㐀-䶿豈-\ufaff\u3040-ゟ゠-ヿ･-ﾟ⼀-\u2fdfเ-\u0e7f\u0e80-\u0effក-\u17ffက-႟ꩠ-ꩿꧠ-\ua9ff가-\ud7afᄀ-ᇿ]+",
            rf"{_DEEPSEEK_3}[\r\n]*{_SPACES}",
        )
    ),
    "deepseek-llm": NamedPattern(
        (
            r"[\r\n]", rf"\s?[{_DEEPSEEK_LETTERS}]+", rf"\s?[{_DEEPSEEK_SIGNS}]+", r"\s+$", _DEEPSEEK_CJK, r"\p{N}+",
        )
    ),
    "deepseek-coder": NamedPattern((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _DEEPSEEK_CJK, r"\p{N}")),
    "falcon": NamedPattern((r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, "[0-9][0-9][0-9]")),
    **dict.fromkeys(("poro-chat", "bloom", "gpt3-finnish"), NamedPattern((_BLOOM,))),
    "viking": NamedPattern((_BLOOM, r"\p{N}")),
    "superbpe": NamedPattern((r"\p{N}+", DIGIT_GROUPS)),
    "chameleon": NamedPattern(
        (
            "<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", r"([\t\n]|    |  )", r"\p{N}",
            r"[\p{P}!-/:-@\[-`{-~]", _GPT2,
        )
    ),
    **dict.fromkeys(NAMES_OF_LINE_PATTERNS, LINE_PATTERN),
    "mmbert": NamedPattern((r"[\n]+|▁[^\n▁]*|[^\n▁]+",)),
}  # fmt: skip

#: The values of `pre` whose published pattern llama.cpp approximates.
APPROXIMATED_NAMES = (
    "gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2", "granite-embed-multi-97m", "tekken", "kimi-k2", "tiny_aya",
    "cohere2moe", "superbpe", "youtu",
)  # fmt: skip
#: The values with which a text begins with the bos token unless the file says otherwise, and whatever it says.
WITH_BOS_BY_DEFAULT = (
    "llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano", "tekken",
    "chameleon",
)  # fmt: skip
ALWAYS_WITH_BOS = ("gemma4", "granite-embed-multi-311m")
