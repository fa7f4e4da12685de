"""Random pipelines of `tokenizers`, with small vocabularies, for tests that run both libraries side by side."""

from __future__ import annotations

import random
from typing import Any

PIECES = [
    *(
        "a",
        "b",
        "A",
        "é",
        "e\u0301",
        "  ",
        "\t",
        "\n",
        "\r\n",
        "中",
        "あ",
        "ア",
        "ー",
        "가",
        "½",
        "²",
        "3",
        "12",
        "345",
    ),
    *("١", "Ⅷ", "▁", "-", "--", ".", "!?", "«", "$", "\u200b", "\x85", "\xa0", " ", "\u0558", "'s", "'LL", "_", "😀"),
    *(
        "\U0001e4d0",
        "९",
        "\u3000",
        "ς",
        "ǅ",
        "İ",
        "°",
        " x",
        " ",
        " the",
        "the",
        "\x1c",
        "<s>",
        "<t>",
        " <n> ",
        "ﬁ",
        "K",
    ),
    *("\u0301", "\u0323", "\u1ec7", "\u1100\u1161\u11a8", "\u0344", "①", "…", "\u3099", "\x01", "\ufffd", "👨‍👩‍👧"),
]
BEHAVIORS = ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
PATTERNS = [
    *(r"\s+", r"\d", r"\p{L}+", r"\w+|[^\w\s]+", r"\d{1,3}+", r"\s+$", r"^\s", r"[\r\n]", r"\s?\p{L}+", r"\W", "."),
    *(
        r"[0-9][0-9][0-9]",
        r"(?<=\d)a",
        r"\p{N}{1,3}",
        r"[一-龥\u3040-ゟ゠-ヿ]+",
        r"\bx|\w\b",
        r"[^\p{L}\d]",
        r"[가-\ud7ff]+",
    ),
    *(GPT2, LLAMA3),
]


def draw_text(rng: random.Random, max_pieces: int = 14) -> str:
    """A hostile text."""
    return "".join(rng.choice(PIECES) for _ in range(rng.randint(0, max_pieces)))


def draw_normalizer(rng: random.Random) -> dict[str, Any]:
    """A normalizer of a tokenizer.json."""
    kind = rng.choice(
        [
            "NFC",
            "NFD",
            "NFKC",
            "NFKD",
            "Lowercase",
            "StripAccents",
            "Nmt",
            "Strip",
            "Prepend",
            "Replace",
            "Replace",
            "Bert",
        ]
    )
    if kind == "Strip":
        return {"type": kind, "strip_left": rng.random() < 0.6, "strip_right": rng.random() < 0.6}
    if kind == "Prepend":
        return {"type": kind, "prepend": rng.choice(["▁", "xy"])}
    if kind == "Bert":
        names = ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase")
        return {"type": "BertNormalizer", **{name: rng.random() < 0.5 for name in names}}
    if kind == "Replace":
        pattern = rng.choice(
            [{"String": " "}, {"String": "a"}, {"Regex": r"\s+"}, {"Regex": r"\d"}, {"Regex": r"\w$"}, {"Regex": "^ "}]
        )
        return {"type": kind, "pattern": pattern, "content": rng.choice(["▁", "", "ab", " "])}
    return {"type": kind}


def draw_step(rng: random.Random) -> dict[str, Any]:
    """A step of a pre_tokenizer, without ByteLevel."""
    kind = rng.choice(
        [
            "Split",
            "Split",
            "Split",
            "Digits",
            "Punctuation",
            "Whitespace",
            "WhitespaceSplit",
            "BertPreTokenizer",
            "CharDelimiterSplit",
            "UnicodeScripts",
            "FixedLength",
            "Metaspace",
            "Metaspace",
        ]
    )
    if kind == "Split":
        regex = {"Regex": rng.choice(PATTERNS)}
        pattern = regex if rng.random() < 0.7 else {"String": rng.choice([" ", "a", "▁", "'s", "--"])}
        return {"type": kind, "pattern": pattern, "behavior": rng.choice(BEHAVIORS), "invert": rng.random() < 0.3}
    if kind == "Metaspace":
        scheme = rng.choice(["first", "always", "never"])
        return {
            "type": kind,
            "replacement": rng.choice("▁_"),
            "prepend_scheme": scheme,
            "split": rng.random() < 0.6,
        }
    fields = {
        "Digits": {"individual_digits": rng.random() < 0.5},
        "Punctuation": {"behavior": rng.choice(BEHAVIORS)},
        "CharDelimiterSplit": {"delimiter": "-"},
        "FixedLength": {"length": 3},
    }
    return {"type": kind, **fields.get(kind, {})}


def draw_byte_level(rng: random.Random) -> dict[str, Any]:
    """A ByteLevel step."""
    prefix, regex = rng.random() < 0.3, rng.random() < 0.5
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex}


def make_sequence(name: str, steps: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Steps as one object of a tokenizer.json; None for none."""
    if len(steps) < 2:
        return steps[0] if steps else None
    return {"type": "Sequence", name: steps}


def draw_pipeline(rng: random.Random) -> tuple[bool, dict[str, Any] | None, dict[str, Any] | None]:
    """(whether it is of a byte model, normalizer, pre_tokenizer)."""
    normalizers = [draw_normalizer(rng) for _ in range(rng.choice([0, 0, 1, 1, 2]))]
    steps = [draw_step(rng) for _ in range(rng.choice([0, 1, 1, 2, 3]))]
    byte = rng.random() < 0.5
    metaspaces = [i for i, step in enumerate(steps) if step["type"] == "Metaspace"]
    if byte and rng.random() < 0.25 and not metaspaces:
        normalizers.append({"type": "ByteLevel"})
    elif byte:
        steps.insert(rng.randint(metaspaces[-1] + 1 if metaspaces else 0, len(steps)), draw_byte_level(rng))
    return byte, make_sequence("normalizers", normalizers), make_sequence("pretokenizers", steps)


def draw_post_processor(rng: random.Random) -> dict[str, Any] | None:
    """A post_processor for the tokens <s> (0) and </s> (1)."""
    kind = rng.choice([None, "ByteLevel", "TemplateProcessing", "RobertaProcessing", "BertProcessing", "Sequence"])
    flags = {"trim_offsets": rng.random() < 0.6, "add_prefix_space": rng.random() < 0.5}
    ends: dict[str, Any] = {"sep": ["</s>", 1], "cls": ["<s>", 0]}
    if kind == "ByteLevel":
        return {"type": kind, **flags, "use_regex": True}
    if kind == "RobertaProcessing":
        return {"type": kind, **ends, **flags}
    if kind == "BertProcessing":
        return {"type": kind, **ends}
    if kind == "TemplateProcessing":
        first, second = {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}
        start, end = ({"SpecialToken": {"id": name, "type_id": 0}} for name in ("<s>", "</s>"))
        return {
            "type": kind,
            "single": [start, first] if rng.random() < 0.5 else [start, first, end],
            "pair": [start, first, end, second, end],
            "special_tokens": {
                name: {"id": name, "ids": [token_id], "tokens": [name]} for name, token_id in (("<s>", 0), ("</s>", 1))
            },
        }
    if kind == "Sequence":
        level: dict[str, Any] = {"type": "ByteLevel", **flags, "use_regex": True}
        inner = draw_post_processor(rng)
        return {"type": kind, "processors": [level] if inner is None else [level, inner]}
    return None


#: The tokens of every vocabulary below, and the added tokens among them with all kinds of flags.
ADDED = [
    {"content": "<s>", "special": True, "normalized": False},
    {"content": "</s>", "special": True, "normalized": False},
    {"content": "<n>", "special": True, "normalized": True},
    {"content": "<t>", "special": True, "lstrip": True, "normalized": False},
    {"content": "The", "special": False, "normalized": True},
    {"content": "x", "special": False, "single_word": True, "normalized": False},
    {"content": "!?", "special": False, "rstrip": True, "normalized": False},
]
_FLAGS = {"single_word": False, "lstrip": False, "rstrip": False}


def train_tokenizer(rng: random.Random, texts: list[str], vocab_size: int = 400) -> Any:
    """A random tokenizer of `tokenizers`, trained on the texts."""
    import json

    import tokenizers
    from tokenizers import models, pre_tokenizers, trainers

    byte, normalizer_json, steps_json = draw_pipeline(rng)
    shell = json.loads(tokenizers.Tokenizer(models.BPE(unk_token=None if byte else "<unk>")).to_str())
    shell |= {"normalizer": normalizer_json, "pre_tokenizer": steps_json}
    if not byte:
        shell["model"]["fuse_unk"] = rng.random() < 0.5
    learner = tokenizers.Tokenizer.from_str(json.dumps(shell))
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=["<s>", "</s>", "<n>", "<t>", *([] if byte else ["<unk>"])],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if byte else [],
        show_progress=False,
    )
    learner.train_from_iterator([one.replace("<", "") for one in texts], trainer)  # no token's name is made by merges
    file = json.loads(learner.to_str())
    next_id = len(file["model"]["vocab"])
    added = []
    for one in ADDED if rng.random() < 0.5 else ADDED[:2]:
        token_id = file["model"]["vocab"].get(one["content"])
        if token_id is None or not one["special"]:
            if token_id is not None:
                continue  # it is an ordinary token
            token_id, next_id = next_id, next_id + 1
        added.append({"id": token_id, **_FLAGS, **one})
    file["added_tokens"] = sorted(added, key=lambda one: one["id"])
    file["post_processor"] = draw_post_processor(rng)
    file["decoder"] = {"type": "ByteLevel"} | draw_byte_level(rng) if byte else None
    return tokenizers.Tokenizer.from_str(json.dumps(file))
