"""Generated folders beside AutoTokenizer of transformers: the same added tokens, roles and ids, or a refusal.

    python benchmarks/checks/check_folders.py [--files N] [--seed S] [--first I] [--show N]

Each folder has a tokenizer.json, a vocab.json with merges.txt, or a model of sentencepiece, and beside it a random
tokenizer_config.json, special_tokens_map.json and added_tokens.json: added tokens with flags, of which some are tokens
of the model, roles as strings and objects, lists and dicts of more tokens, and the classes PreTrainedTokenizerFast,
GPT2Tokenizer, Qwen2Tokenizer and LlamaTokenizer. The ids of texts are compared where both libraries read the model in
the same way, which is not so for sentencepiece's. Prints how many folders were the same, refused by which reason, and
different. Exit status 1 if anything differs. Needs transformers and sentencepiece.
"""

from __future__ import annotations

import io
import json
import random
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from check_tokenizer_json import generated
from comparing import call_peer, count_results, get_reason, make_files_parser, make_generators, run_check
from transformers import AutoTokenizer

import bpe
from bpe.vocab.spec import ROLES

#: A normalizer that shows which added tokens are matched in normalized text, and changes no name of one.
LOWER = {"type": "Replace", "pattern": {"String": "É"}, "content": "é"}
WORDS = ["lo", "low", "Ġl", "Ġlo", "!!"]
MERGES = [["l", "o"], ["lo", "w"], ["Ġ", "l"], ["Ġl", "o"], ["!", "!"]]
NAMES = ["<pad>", "<s>", "</s>", "<|endoftext|>", "<x>", "<x", "é", "low", "!!", "!", "Ġ", "lo", "<unk>", "a b", "Ġlow"]
FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


def check() -> Counter[str]:
    """Compare all folders."""
    options = make_files_parser(__doc__).parse_args()
    return count_results(options, map(compare, make_generators(options)))


def compare(rng: random.Random) -> str:
    """Compare one folder; returns the result."""
    with TemporaryDirectory() as folder:
        return compare_in(Path(folder), rng)


def compare_in(folder: Path, rng: random.Random) -> str:
    """Write the files of one folder, and compare it; returns the result."""
    files, compares_ids = generate_files(rng)
    for name, content in files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    peer, problem = call_peer(lambda: AutoTokenizer.from_pretrained(folder))
    try:
        tok = bpe.Tokenizer.load(folder)
    except ValueError as error:
        return f"refused{' by both' if problem else ''}: {get_reason(error)}"
    if problem:
        return f"refused by transformers alone: {problem}"
    added = files.get("tokenizer.json", {}).get("added_tokens", [])
    added += files["tokenizer_config.json"].get("added_tokens_decoder", {}).values()
    special = {token["content"] for token in added if token["special"]}
    for kind, result, expected in list_results(rng, tok, peer, special if compares_ids else None):
        if result != expected:
            shown = {name: content for name, content in files.items() if name.endswith("n") and name[:3] != "voc"}
            shown.get("tokenizer.json", {}).pop("model", None)
            head = f"different: {kind.split(' of ')[0]}\n  {kind}"
            return f"{head}\n  bpe          {result}\n  transformers {expected}\n  {shown}"
    return "same"


def list_results(
    rng: random.Random, tok: bpe.Tokenizer, peer: Any, special: set[str] | None
) -> Iterator[tuple[str, Any, Any]]:
    """Yield (what, the result of this package, the result of transformers).

    `special` has the tokens that are special where they are listed first, which transformers skips in decoding
    whatever follows; None for a model of sentencepiece.
    """
    flags = tok.spec.token_flags
    our_tokens = {
        token_id: (name, sorted(_flags_of(flags.get(name, frozenset()))))
        for name, token_id in sorted(tok.special_tokens.items(), key=lambda item: item[1])
    }

    def is_kept(token: Any, flag: str) -> bool:
        return flag == "special" and token.content in (special or ())

    expected_tokens = {
        token_id: (token.content, sorted(flag for flag in FLAGS if getattr(token, flag) or is_kept(token, flag)))
        for token_id, token in sorted(peer.added_tokens_decoder.items())
    }
    if tok.normalizer is None:  # then this flag has no effect, and is not kept
        for tokens in (our_tokens, expected_tokens):
            for _, values in tokens.values():
                values[:] = [flag for flag in values if flag != "normalized"]
    if special is None:  # transformers forgets control pieces of sentencepiece that have no role
        our_tokens = {
            token_id: token for token_id, token in our_tokens.items() if token_id > 2 or token_id in expected_tokens
        }
    yield "added tokens", our_tokens, expected_tokens
    roles = {role: token for role, token in peer.special_tokens_map.items() if role in ROLES}
    yield "roles", {role: tok.roles.get(role) for role in roles}, roles
    for text in (generated.draw_text(rng, [*NAMES, "É"]) for _ in range(0 if special is None else 4)):
        ids = peer.encode(text, add_special_tokens=False)
        yield f"ids of {text!r}", tok.encode(text, allowed_special="all").tolist(), ids
        for skip in (False, True):
            decoded = peer.decode(ids, skip_special_tokens=skip)
            yield f"text of {ids}, {skip=}", tok.decode(ids, skip_special=skip), decoded


def _flags_of(flags: frozenset[str]) -> frozenset[str]:
    """Return the flags by their names in transformers."""
    return (flags - {"ordinary"}) | ({"special"} if "ordinary" not in flags else set())


def generate_files(rng: random.Random) -> tuple[dict[str, Any], bool]:
    """Return (name → content of the files of a folder, whether both libraries give the same ids of all texts)."""
    kind = rng.choice(["json", "json", "pair", "model"])
    vocab = {token: index for index, token in enumerate([*generated.BYTE_LETTERS, *WORDS])}
    files: dict[str, Any] = {}
    classes: list[str | None] = ["LlamaTokenizer", "LlamaTokenizerFast"]
    objects = False
    if kind == "json":
        files["tokenizer.json"] = generate_tokenizer_json(rng, vocab)
        objects = rng.random() < 0.7  # other classes do not keep the flags of such tokens, and added_tokens
        if not objects:
            files["tokenizer.json"] |= {"added_tokens": [], "normalizer": None}
        classes = [None, "PreTrainedTokenizerFast", "LlamaTokenizerFast"] if objects else ["GPT2Tokenizer", None]
    elif kind == "pair":
        files["vocab.json"] = vocab
        files["merges.txt"] = "".join(["#version: 0.2\n", *(f"{a} {b}\n" for a, b in MERGES)]).encode()
        classes = ["GPT2Tokenizer", "GPT2TokenizerFast", "Qwen2Tokenizer"]
    else:
        files["tokenizer.model"] = train_sentencepiece()
    files["tokenizer_config.json"] = generate_configuration(rng, rng.choice(classes), len(vocab), objects)
    if kind == "model":
        return files, False
    if rng.random() < 0.4:
        files["special_tokens_map.json"] = mapped = generate_fields(rng, objects)
        if not isinstance(mapped.get("extra_special_tokens"), dict):
            mapped["extra_special_tokens"] = [
                {flag: entry[flag] for flag in ("content", *FLAGS[:-1])} if isinstance(entry, dict) else entry
                for entry in mapped.pop("extra_special_tokens", [])
            ]
        for entry in (entry for entry in mapped.values() if isinstance(entry, dict)):
            entry.pop("__type", None)  # as save_pretrained writes them
    if rng.random() < 0.4:
        names = dict.fromkeys(rng.choice(NAMES) for _ in range(rng.randint(0, 3)))
        first_id = len(vocab) + rng.choice([0, 1, 20])
        files["added_tokens.json"] = {name: first_id + i for i, name in enumerate(names)}
    return files, True


def generate_tokenizer_json(rng: random.Random, vocab: dict[str, int]) -> dict[str, Any]:
    """Generate a tokenizer.json with some added tokens."""
    added = [entry for entry in generated.draw_added_tokens(rng, vocab, MERGES) if rng.random() < 0.5]
    following = len(vocab)
    for entry in sorted(added, key=lambda entry: entry["id"]):
        if entry["content"] not in vocab:
            entry["id"], following = following, following + 1
    normalizer = rng.choice([None, None, LOWER])
    tokenizer: dict[str, Any] = generated.make_file(vocab, MERGES, added, normalizer=normalizer)
    return tokenizer


def generate_token(rng: random.Random, objects: bool) -> Any:
    """Generate a token: a str, or an object with flags."""
    name = rng.choice(NAMES)
    if not objects or rng.random() < 0.5:
        return name
    return {
        "__type": "AddedToken",
        "content": name,
        **{flag: rng.random() < 0.3 for flag in FLAGS[:-1]},
        "special": True,
    }


def generate_fields(rng: random.Random, objects: bool) -> dict[str, Any]:
    """Generate fields with special tokens."""
    values: dict[str, Any] = {role: generate_token(rng, objects) for role in ROLES if rng.random() < 0.2}
    if rng.random() < 0.2:
        values["additional_special_tokens"] = [rng.choice(NAMES) for _ in range(rng.randint(0, 3))]
    elif rng.random() < 0.2:
        values["extra_special_tokens"] = [generate_token(rng, objects) for _ in range(rng.randint(0, 3))]
    elif rng.random() < 0.2:
        values["extra_special_tokens"] = {f"{i}_token": generate_token(rng, objects) for i in "xy"}
    if rng.random() < 0.1:
        values["image_token"] = generate_token(rng, objects)
    return values


def generate_configuration(rng: random.Random, kind: str | None, first_id: int, objects: bool) -> dict[str, Any]:
    """Generate a tokenizer_config.json."""
    values: dict[str, Any] = {"tokenizer_class": kind} if kind is not None else {}
    values |= generate_fields(rng, objects)
    values |= {role: None for role in ROLES if rng.random() < 0.05}
    if rng.random() < 0.4:
        entries = [
            entry for entry in (generate_token(rng, True) for _ in range(rng.randint(0, 6))) if isinstance(entry, dict)
        ]
        if rng.random() < 0.8:
            entries = list({entry["content"]: entry for entry in entries}.values())
        entries = [{**entry, "special": rng.random() < 0.5} for entry in entries]
        ids = rng.sample(range(first_id + 3), len(entries))
        values["added_tokens_decoder"] = {
            str(token_id): {
                "content": entry["content"],
                "special": True,
                **{flag: entry[flag] for flag in FLAGS if objects},
            }
            for token_id, entry in zip(ids, entries, strict=True)
        }
    return values


@cache
def train_sentencepiece() -> bytes:
    """Train a small model of sentencepiece."""
    import sentencepiece

    data = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["low lower lowest new newer !! é"] * 50), model_writer=data, model_type="bpe",
        vocab_size=60, hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    return data.getvalue()


if __name__ == "__main__":
    run_check(check)
