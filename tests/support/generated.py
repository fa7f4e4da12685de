"""Random files of tokenizer.json for `tokenizers`: models, added tokens and decoders of every kind."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pipelines

from bpe.text.letters import list_byte_letters

#: What texts and vocabularies are made of.
LETTERS = ["a", "b", "c", " ", "!", "1", "A", "é", "中", "▁", "\n", "e\u0301", "😀", "<", ">", "n"]
FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
#: Names of added tokens, besides those of tokens of the model.
NAMES = [
    "<s>", "</s>", "<n>", "<unk>", "é", "Ġa", "a b", "AB", "!!", "12", "Ġ", "<a", "中", " ", "</w>", "Ċ", "<0x41>",
    "##a",
]  # fmt: skip
#: The pre_tokenizer and the decoder of GPT-2, and the ids of its letters.
LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
BYTE_LETTERS = {letter: index for index, letter in enumerate(sorted(list_byte_letters()))}


def make_token(content: str, **fields: Any) -> dict[str, Any]:
    """An added token, special and without other flags unless `fields` say so."""
    return {"content": content, **dict.fromkeys(FLAGS[:4], False), "special": True, **fields}


def make_file(
    vocab: dict[str, int],
    merges: list[list[str]],
    added: Sequence[dict[str, Any]] = (),
    model: dict[str, Any] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """A tokenizer.json with these fields of the model and of the whole; a byte-level one unless these say otherwise."""
    empty = dict.fromkeys(("truncation", "padding", "normalizer", "post_processor"))
    rest = {"version": "1.0", **empty, "pre_tokenizer": LEVEL, "decoder": LEVEL, "added_tokens": [*added], **fields}
    return {**rest, "model": {"type": "BPE", "vocab": vocab, "merges": merges, **(model or {})}}


def draw_text(rng: random.Random, names: list[str], max_pieces: int = 12) -> str:
    """A text of a few letters, names of tokens and hostile pieces."""
    kinds = [LETTERS, LETTERS, names or LETTERS, pipelines.PIECES]
    return "".join(rng.choice(rng.choice(kinds)) for _ in range(rng.randint(0, max_pieces)))


def _draw_symbols(rng: random.Random, byte: bool) -> list[str]:
    """The symbols of a model: GPT-2's letters, of which some files lack a few, or some characters."""
    if byte:
        letters = list(BYTE_LETTERS)
        return sorted(rng.sample(letters, len(letters) - rng.choice([0, 0, 0, 1, 15, 100])))
    symbols = [char for piece in LETTERS for char in piece if rng.random() < 0.85]
    return list(dict.fromkeys(symbols))


def _draw_vocabulary(rng: random.Random, byte: bool, prefix: str, suffix: str) -> tuple[list[str], list[list[str]]]:
    """(tokens, merges) of a model with a prefix and a suffix."""
    symbols = _draw_symbols(rng, byte)
    tokens = dict.fromkeys(symbols)
    for extra in [form for form in (prefix + "{}", "{}" + suffix, prefix + "{}" + suffix) if form != "{}"]:
        tokens.update(dict.fromkeys(extra.format(symbol) for symbol in symbols if rng.random() < 0.8))
    usual = [token for token in tokens if any(symbol in "abc!1ĠA<>n é▁中" for symbol in token)]
    merges: dict[tuple[str, str], None] = {}
    for _ in range(rng.choice([0, 3, 12, 40])):
        left, right = rng.choice(usual), rng.choice(usual)
        if suffix and left.endswith(suffix) and rng.random() < 0.9:
            continue
        if prefix and not right.startswith(prefix) and rng.random() < 0.9:
            continue
        text = right.encode()[len(prefix.encode()) :].decode("utf-8", "ignore")
        if text and len(left + text) < 20:
            merges[left, right] = None
            tokens[left + text] = None
            usual.append(left + text)
    return list(tokens), [list(pair) for pair in merges]


def draw_model(rng: random.Random, byte: bool) -> dict[str, Any]:
    """The model of a tokenizer.json."""
    prefix = rng.choice(["##", "é"]) if not byte and rng.random() < 0.15 else ""
    suffix = rng.choice(["</w>", "</w>", "Ã©" if byte else "é", "!"]) if rng.random() < 0.25 else ""
    tokens, merges = _draw_vocabulary(rng, byte, prefix, suffix)
    fallback = not byte and rng.random() < 0.3
    if fallback:
        tokens += [f"<0x{i:02X}>" for i in range(256) if rng.random() < 0.999]
    if rng.random() < 0.3:
        tokens += [name for name in NAMES if rng.random() < 0.3]
    if rng.random() < 0.2:
        rng.shuffle(tokens)
    tokens = list(dict.fromkeys(tokens))
    unk = rng.choice(tokens) if rng.random() < 0.1 else "<unk>" if rng.random() < 0.5 else None
    if unk is not None and unk not in tokens:
        tokens.append(unk)
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": unk,
        "continuing_subword_prefix": prefix or None,
        "end_of_word_suffix": suffix or None,
        "fuse_unk": rng.random() < 0.4,
        "byte_fallback": fallback,
        "ignore_merges": rng.random() < 0.3,
        "vocab": {token: index for index, token in enumerate(tokens)},
        "merges": merges,
    }


def draw_added_tokens(rng: random.Random, vocab: dict[str, int], merges: list[list[str]]) -> list[dict[str, Any]]:
    """Added tokens with all kinds of flags: new ones, tokens of the vocab, and parts and products of merges."""
    products = ["".join(pair) for pair in merges]
    kinds = [NAMES, NAMES, [*vocab], [part for pair in merges for part in pair], products]
    names = dict.fromkeys(rng.choice(rng.choice(kinds) or NAMES) for _ in range(rng.choice([0, 1, 2, 4, 7])))
    next_id, entries = len(vocab), []
    for name in names:
        index = vocab.get(name)
        if index is None:
            index, next_id = next_id, next_id + 1
        flags = {flag: rng.random() < 0.15 for flag in FLAGS[:3]}
        flags |= {flag: rng.random() < 0.5 for flag in FLAGS[3:]}
        entries.append({"id": index, "content": name, **flags})
    return sorted(entries, key=lambda entry: entry["id"])


def draw_decoder(rng: random.Random, suffix: str | None, depth: int = 0) -> dict[str, Any] | None:
    """A decoder of a tokenizer.json."""
    kinds = [
        "ByteLevel", "ByteLevel", "BPEDecoder", "ByteFallback", "Fuse", "Metaspace", "Replace", "Strip", "WordPiece",
    ]  # fmt: skip
    kind = rng.choice([*kinds, "Sequence", "Sequence", None] if not depth else kinds)
    if kind is None:
        return None
    if kind == "Sequence":
        inner = [draw_decoder(rng, suffix, 1) for _ in range(rng.randint(0, 4))]
        return {"type": kind, "decoders": inner}
    fields: dict[str, dict[str, Any]] = {
        "ByteLevel": {"add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "BPEDecoder": {"suffix": suffix or rng.choice(["</w>", "a"])},
        "Metaspace": {
            "replacement": rng.choice("▁_"),
            "prepend_scheme": rng.choice(["always", "first", "never"]),
            "split": True,
        },
        "Replace": {
            "pattern": rng.choice([{"String": "▁"}, {"String": "a"}, {"Regex": "[ab]+"}, {"String": "</w>"}]),
            "content": rng.choice([" ", "", "xy"]),
        },
        "Strip": {"content": rng.choice([" ", "a"]), "start": rng.randint(0, 2), "stop": rng.randint(0, 2)},
        "WordPiece": {"prefix": rng.choice(["##", "a"]), "cleanup": rng.random() < 0.5},
    }
    return {"type": kind, **fields.get(kind, {})}


def draw_tokenizer(rng: random.Random) -> dict[str, Any]:
    """A random tokenizer.json."""
    byte, normalizer, pre_tokenizer = pipelines.draw_pipeline(rng)
    model_fields = draw_model(rng, byte)
    processor = pipelines.draw_post_processor(rng)
    if processor is not None and {"<s>", "</s>"} - model_fields["vocab"].keys():
        for name in ("<s>", "</s>"):
            model_fields["vocab"].setdefault(name, len(model_fields["vocab"]))
    return {
        **make_file(
            model_fields["vocab"],
            model_fields["merges"],
            draw_added_tokens(rng, model_fields["vocab"], model_fields["merges"]),
            model_fields,
        ),
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": processor,
        "decoder": draw_decoder(rng, model_fields["end_of_word_suffix"]),
    }


def is_undecided(file: dict[str, Any], peer: Any) -> bool:
    """Whether two added tokens are sought as one text, of which `tokenizers` takes any, another one at each load."""
    names = [token["content"] for token in file["added_tokens"] if token["normalized"]]
    if peer.normalizer is not None:
        names = [peer.normalizer.normalize_str(name) for name in names]
    return len(set(names)) < len(names)
