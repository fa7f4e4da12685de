r"""How llama.cpp cuts texts for each value of `tokenizer.ggml.pre`.

A value stands for a published pretokenizer, or for patterns: each one cuts what the one before has left, and keeps the
text between its matches. Where llama.cpp approximates a published pattern, as that of o200k, the published one is here.
Source: llama.cpp's src/llama-vocab.cpp of October 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bpe.formats.tiktoken_folder import KIMI
from bpe.pretokenize.patterns import PATTERNS, SPELLED
from bpe.pretokenize.steps import DIGIT_GROUPS


class Pre(NamedTuple):
    """What a value of `pre` means.

    Attributes:
        patterns: the name of a pretokenizer, Kimi's pattern, or patterns of Oniguruma.
        whole: whether a pretoken that is a token is not merged.

    """

    patterns: str | tuple[str, ...]
    whole: bool = False


_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
_END = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
_GPT2, _O200K = SPELLED["gpt2"], PATTERNS["o200k"].expression


def _lines(words: str = r"\p{L}+", numbers: str = r"\p{N}", signs: str = r" ?[^\s\p{L}\p{N}]+[\r\n]*") -> str:
    """The pattern of Qwen 2, with other words, numbers or signs, and without contractions and its end."""
    return rf"[^\r\n\p{{L}}\p{{N}}]?{words}|{numbers}|{signs}"


#: DeepSeek's letters, those with case in an older Unicode version, and its signs.
_DEEPSEEK_LETTERS = (
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\u1f7d"
    "ᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌῐ-\u1fd3ῖ-\u1fdbῠ-Ῥῲ-ῴῶ-ῼ\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126"
    "\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149ⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿ"
    "\ufb00-\ufb06\ufb13-\ufb17Ａ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"
)
_DEEPSEEK_SIGNS = "!-/:-~！-／：-～‘-‟\u3000-。"
_DEEPSEEK_EAST = "[一-龥\u0800-\u4e00가-\ud7ff]+"
_EAST = "[一-龥\u3040-ゟ゠-ヿ]+"
_ASCII_SIGN = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"""
#: The words of DeepSeek V3, whose signs and lines Spark 2.5 ends otherwise.
_DEEPSEEK_3 = rf"{_ASCII_SIGN}[A-Za-z]+|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+| ?[\p{{P}}\p{{S}}]+"
_BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"

#: The patterns of llama.cpp's models of the kind of sentencepiece, whose merges are listed: lines, and line ends.
LINES = Pre((r"[^\n]+|[\n]+",))
LINE_VALUES = ("gemma4", "granite-embed-multi-311m", "mmbert", "sarvam-moe")

#: The value of `pre` → what it means.
PRETOKENIZERS: Mapping[str, Pre] = {
    "default": Pre((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]")),
    **dict.fromkeys(
        (
            "gpt-2", "phi-2", "roberta-bpe", "mpt", "olmo", "jais", "gigachat", "jina-es", "jina-de", "jina-v1-en",
            "jina-v2-es", "jina-v2-de", "jina-v2-code", "a.x-4.0", "mellum", "modern-bert", "exaone4", "trillion",
            "granite-docling",
        ),
        Pre("gpt2"),
    ),
    **dict.fromkeys(
        (
            "llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano",
            "glm4", "glm5",
        ),
        Pre("llama3", whole=True),
    ),
    **dict.fromkeys(("dbrx", "smaug-bpe", "chatglm-bpe"), Pre("llama3")),
    **dict.fromkeys(
        (
            "qwen2", "stablelm2", "deepseek-r1-qwen", "hunyuan", "solar-open", "kormo", "f2llmv2", "megrez", "grok-2",
            "bailingmoe", "bailingmoe2", "llada-moe",
        ),
        Pre("qwen2"),
    ),
    **dict.fromkeys(("gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"), Pre("o200k")),
    "granite-embed-multi-97m": Pre("o200k", whole=True),
    **dict.fromkeys(
        ("starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"),
        Pre("starcoder"),
    ),
    "tekken": Pre("tekken", whole=True),
    **dict.fromkeys(("deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"), Pre("deepseek_v3")),
    "kimi-k2": Pre(KIMI),
    "qwen35": Pre((_CONTRACTION + _lines(r"[\p{L}\p{M}]+", signs=r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*") + _END,)),
    "k2-horizon": Pre((_CONTRACTION + _lines(r"(?:\p{L}|\p{M}|\u200C|\u200D)+", r"\p{N}{1,3}") + _END,)),
    "ufakzeka": Pre((_lines() + _END,)),
    "seed-coder": Pre((_CONTRACTION + _lines(signs=r" ?[^\s\p{L}\p{N}\r\n]+") + _END,)),
    "laguna": Pre((*LINES.patterns, PATTERNS["qwen2"].expression)),
    "minicpm5": Pre((r"\p{N}{1,3}", _CONTRACTION + _lines(numbers=r"\p{N}+") + _END), whole=True),
    "exaone-moe": Pre(
        (
            _CONTRACTION
            + _lines(r"(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+", signs=r" ?[^\s\p{L}\p{N}]+[\r\n/]?")
            + r"|\s*[\r\n]|\s+(?!\S)|\s+",
        )
    ),
    "jais-2": Pre(
        (
            _CONTRACTION
            + _lines(numbers=r"\p{N}{1,3}")
            + r"|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)"
            + r"|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}",
        )
    ),
    **dict.fromkeys(("tiny_aya", "cohere2moe"), Pre((r"\d{1,3}(?=(?:\d{3})*\b)", _O200K))),
    "youtu": Pre(
        (
            "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥\u3040-ゟ゠-ヿ]+",
            _O200K.replace(r"\p{N}{1,3}", r"\p{N}"),
        ),
        whole=True,
    ),
    "spark2_5": Pre((r"\p{N}{1,3}", _EAST, rf"{_DEEPSEEK_3}|[\r\n]|\s+(?!\S)|\s+", r"\p{N}")),
    "afmoe": Pre(
        (
            r"\P{N}*\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))",  # the text before a number goes with its first digits
            "[一-鿿㐀-䶿豈-\ufaff\u3040-ゟ゠-ヿ･-ﾟ⼀-\u2fdfเ-\u0e7f\u0e80-\u0effក-\u17ffက-႟ꩠ-ꩿꧠ-\ua9ff가-\ud7afᄀ-ᇿ]+",
            rf"{_DEEPSEEK_3}[\r\n]*{_END}",
        )
    ),
    "deepseek-llm": Pre(
        (
            r"[\r\n]", rf"\s?[{_DEEPSEEK_LETTERS}]+", rf"\s?[{_DEEPSEEK_SIGNS}]+", r"\s+$", _DEEPSEEK_EAST, r"\p{N}+",
        )
    ),
    "deepseek-coder": Pre((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _DEEPSEEK_EAST, r"\p{N}")),
    "falcon": Pre((r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, "[0-9][0-9][0-9]")),
    **dict.fromkeys(("poro-chat", "bloom", "gpt3-finnish"), Pre((_BLOOM,))),
    "viking": Pre((_BLOOM, r"\p{N}")),
    "superbpe": Pre((r"\p{N}+", DIGIT_GROUPS)),
    "chameleon": Pre(
        (
            "<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", r"([\t\n]|    |  )", r"\p{N}",
            r"[\p{P}!-/:-@\[-`{-~]", _GPT2,
        )
    ),
    **dict.fromkeys(LINE_VALUES, LINES),
    "mmbert": Pre((r"[\n]+|▁[^\n▁]*|[^\n▁]+",)),
}  # fmt: skip
