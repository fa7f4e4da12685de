"""Random texts and vocabularies for the checks of tokenizer files, and the writers of these files (from the tests)."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests" / "formats"))

files = import_module("sentencepiece_files")
SPACE: str = files.SPACE
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
build_gguf, build_model = files.build_gguf, files.build_model

#: Parts of texts: words of several scripts and cases, numbers, signs, spaces, marks, characters that are not assigned.
PARTS = (
    "a", "b", "ab", "the", "The", "THE", "CamelCase", "HTMLParser", "don't", "I'LL", "we're", "'s", "'", "É", "É\nA",
    "é", "e\u0301", "naïve", "Ünï", "ﬁ", "ß", "ǅ", "ʰ", "ª", "слово", "СловоДва", "ПРИВЕТ", "λόγος", "ΣΊΣΥΦΟΣ",
    "हिन्दी", "नमस्ते दुनिया", "বাংলা", "தமிழ்", "ไทย", "ខ្មែរ", "עברית", "שָׁלוֹם", "العربية", "مُحَمَّد", "۱۲۳", "٣",
    "१२३४",
    "漢字", "中文", "日本語の", "ひらがな", "カタカナ", "ｱｲｳ", "한국어", "가", "ㄱ", "，", "。", "、", "「",
    "…", "“", "—",
    "0", "1", "12", "123", "1234", "1234567", "3.14", "½", "²", "Ⅷ", "x2", "2x", "_", "__a__", "#", "//", "/*", "==",
    "!=", "(", ")", "[", "]", "{}", "<", ">", "<|", "|>", "$", "+", "~", "^", "|", "`", "@", "&&", "%", "\\", '"',
    ".", ",", "!", "?", ";", ":", "-", " ", " ", " ", "  ", "   ", "     ", "\t", "\n", "\n", "\n\n", "\n\n\n",
    "\r\n", "\r", " \n", "\n ", "\u00a0", "\u2003", "\u3000", "\x85", "\u2028", "\u200b", "\u200c", "\u200d", "\ufeff",
    "▁", "▁▁",
    "😊", "👍🏽", "👩\u200d👩", "🇩🇪", "\x00", "\x01", "\x7f", "\u0378", "\ue000", "\ufffd", "\U0001d7d9", "\U00010400",
    "<s>", "</s>", "<unk>", "<0x41>", "<sentinel:12>", "IMGIMGABZ", "�",
)  # fmt: skip
#: Names of special tokens.
NAMES = (
    "<s>", "</s>", "<unk>", "<pad>", "<mask>", "[MASK]", "<|end|>", "<|endoftext|>", "<|im_start|>", "<|im_end|>",
    "<|channel|>", "<|start|>", "<|call|>", "<|return|>", "<fim_prefix>", "<fim_suffix>", "<|file_sep|>", "<eos>",
    "<|tool_response>", "<a b>", "<｜fim▁hole｜>", "[INST]", "<unused0>", "<extra_id_1>", "한국", "\n", "\n\n", "\t",
    "  ", "   ", "    ", "▁▁", "▁▁▁", "ab", "bc", "abc", "bcd", "a", "1", "12", "é", " a", "<|", "|>", "\r\n", "x▁y",
)  # fmt: skip


def draw_text(rng: random.Random, own: Sequence[str] = ()) -> str:
    """A text of parts, some of them of the vocabulary."""
    count = rng.choice((1, 2, 3, 5, 8, 13, 21))
    return "".join(rng.choice(own if own and rng.random() < 0.3 else PARTS) for _ in range(count))


def draw_texts(rng: random.Random, count: int, own: Sequence[str] = ()) -> list[str]:
    """Several of them."""
    return [draw_text(rng, own) for _ in range(count)]


def draw_merged_pieces(rng: random.Random, sample: str, count: int, longest: int = 12) -> list[tuple[str, str]]:
    """Pairs of adjacent symbols of a text, each merged everywhere before the next pair is chosen."""
    parts, pairs = list(sample), dict[tuple[str, str], None]()
    for _ in range(count):
        if len(parts) < 2:
            break
        index = rng.randrange(len(parts) - 1)
        pair = parts[index], parts[index + 1]
        if len(pair[0]) + len(pair[1]) > longest:
            continue
        pairs[pair] = None
        merged_parts: list[str] = []
        for part in parts:
            if merged_parts and (merged_parts[-1], part) == pair:
                merged_parts[-1] += part
            else:
                merged_parts.append(part)
        parts = merged_parts
    return list(pairs)
