"""Generated GGUF files beside llama.cpp: the same ids and the same text, or a refusal that names the reason.

    python benchmarks/checks/check_gguf.py [--files N] [--seed S] [--first I] [--model NAME]

Writes `--files` files (default 10,000) with random vocabularies, types of tokens, scores, flags and values of `pre`,
and encodes random texts with and without special tokens, and decodes random ids. Needs the package `xllamacpp`, whose
llama.cpp reads the vocabulary only. Prints how many files give the same, how many are refused for which reason, and
each difference. Exit status 1 if there is one.

Where docs/formats.md says that the published pattern counts instead of llama.cpp's, the ids must be those of
`tokenizers` with that pattern.
"""

from __future__ import annotations

import argparse
import collections
import json
import random
import re
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tokenizers
from generated_models import (
    BYTE,
    CONTROL,
    NAMES,
    NORMAL,
    SPACE,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    gguf_file,
    merged_pieces,
    random_text,
    random_texts,
)
from llama_cpp import CrashedError, LlamaCpp

import bpe
from bpe.formats.gguf_patterns import LINE_VALUES, PRETOKENIZERS
from bpe.formats.gguf_specials import effective_types
from bpe.vocab.byte_letters import byte_letters, letter_bytes, to_letters

LETTERS = sorted(byte_letters())
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
MODELS = ("gpt2", "llama", "gemma4")
#: The values of `pre` whose published pattern llama.cpp approximates.
APPROXIMATED = (
    "gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2", "granite-embed-multi-97m", "tekken", "kimi-k2", "tiny_aya",
    "cohere2moe", "superbpe", "youtu",
)  # fmt: skip
TEXTS = 10

Values = dict[str, Any]


def with_specials(rng: random.Random, tokens: list[str]) -> list[int]:
    """Add special tokens to a vocabulary, and give all tokens types."""
    types = [BYTE if token in BYTES else NORMAL for token in tokens]
    for name in rng.sample(NAMES, rng.choice((0, 1, 2, 4, 8, 12))):
        if name not in tokens:
            tokens.append(name)
            types.append(rng.choice((CONTROL, CONTROL, USER_DEFINED, USER_DEFINED, USER_DEFINED, UNKNOWN, NORMAL)))
    for _ in range(rng.choice((0, 0, 0, 1, 2))):  # types of tokens that text can spell
        number = rng.randrange(len(types))
        if types[number] != BYTE or rng.random() < 0.02:
            types[number] = rng.choice((CONTROL, USER_DEFINED, UNUSED, UNUSED, 0))
    if rng.random() < 0.05:
        tokens.append("")
        types.append(rng.choice((NORMAL, UNUSED, CONTROL)))
    return types


def settings(rng: random.Random, values: Values, tokens: list[str], types: list[int]) -> Values:
    """The file's values, with some optional ones."""
    found: Values = {"general.architecture": "llama", **values, "tokens": tokens}
    if rng.random() < 0.05:
        found["general.name"] = rng.choice(("Own", "ModernBERT modern-bert"))
    if rng.random() < 0.95:
        found["token_type"] = types + [NORMAL] * rng.choice((0, 0, 0, 1, 5))
    if rng.random() < 0.3:
        found["add_space_prefix"] = rng.random() < 0.5
    for key in ("bos_token_id", "eos_token_id", "unknown_token_id", "fim_pre_token_id"):
        if rng.random() < 0.3:
            found[key] = rng.randrange(len(tokens) + 2)
    return {key if key.startswith("general.") else f"tokenizer.ggml.{key}": value for key, value in found.items()}


def sample_of(rng: random.Random) -> str:
    """The text that a vocabulary is made of."""
    return "".join(random_texts(rng, 12)).replace("\0", "\0" if rng.random() < 0.05 else "")


def listed_merges(rng: random.Random, pairs: list[tuple[str, str]], tokens: list[str]) -> list[str]:
    """Merges with their products as new tokens; some of them unusual."""
    for left, right in pairs:
        if left + right not in tokens:
            tokens.append(left + right)
    if rng.random() < 0.2:
        rng.shuffle(pairs)
    merges = [" ".join(pair) for pair in pairs]
    if merges and rng.random() < 0.1:
        merges.insert(rng.randrange(len(merges)), rng.choice((rng.choice(merges), "a", "b c")))
    return merges


def byte_level_file(rng: random.Random) -> Values:
    """A model of bytes."""
    tokens = rng.sample(LETTERS, 256)
    if rng.random() < 0.2:
        del tokens[: rng.choice((1, 3, 15, 60))]
    pre = rng.choice([name for name in PRETOKENIZERS if name not in LINE_VALUES])
    values: Values = {"model": "gpt2", "pre": pre if rng.random() < 0.98 else "own"}
    if rng.random() < 0.03:
        values["pre"] = ""
    elif rng.random() < 0.03:
        del values["pre"]
    count = rng.choice((0, 5, 20, 60))
    known, pairs = set(tokens), merged_pieces(rng, to_letters(sample_of(rng).encode()), count)
    if rng.random() < 0.98:
        pairs = [pair for pair in pairs if set("".join(pair)) <= known]
    values["merges"] = listed_merges(rng, pairs, tokens) or ["a b"]
    if values["merges"] == ["a b"]:
        tokens += [token for token in ("a", "b", "ab") if token not in tokens]
    if rng.random() < 0.3:  # whole words, with `ignore_merges`
        words = rng.sample(["Ġthe", "The", "123", "12", "ĊĊ", "ĠĠĠ", "don", "'LL", "Ã©"], 3)
        tokens += [word for word in words if word not in tokens]
    return settings(rng, values, tokens, with_specials(rng, tokens))


def characters_of(rng: random.Random, sample: str) -> list[str]:
    """Tokens of bytes and characters."""
    kept = sorted(set(sample) - {" "})
    tokens = rng.sample(kept, len(kept) * rng.randrange(5, 11) // 10)
    if rng.random() < 0.9:
        tokens += sorted(set("".join(NAMES)) - set(tokens) - {" "})
    listed = BYTES if rng.random() < 0.9 else rng.choice(([], BYTES[:200]))
    return [*rng.choice((["<unk>", "<s>", "</s>"], ["<pad>", "<eos>", "<bos>", "<unk>"], [])), *listed, *tokens]


def scored_file(rng: random.Random) -> Values:
    """A model of sentencepiece."""
    sample = sample_of(rng).replace(" ", SPACE)
    tokens = characters_of(rng, sample)
    known = set(tokens)
    pairs = merged_pieces(rng, sample, rng.choice((0, 10, 40, 80)))
    tokens += dict.fromkeys(left + right for left, right in pairs if set(left + right) <= known or rng.random() < 0.002)
    tokens = list(dict.fromkeys(tokens))
    types = with_specials(rng, tokens)
    for number, token in enumerate(tokens):
        if token in ("<s>", "</s>", "<bos>", "<eos>", "<pad>", "<unk>") and rng.random() < 0.8:
            types[number] = UNKNOWN if token == "<unk>" and rng.random() < 0.7 else CONTROL
    values: Values = {"model": "llama"}
    scores: list[float] = [
        rng.choice((0.0, -1.0, -2.0, -float(number), rng.uniform(-9, 9))) for number in range(len(tokens))
    ]
    if rng.random() < 0.4:
        scores = [-float(number) for number in range(len(tokens))]
    if rng.random() < 0.9:
        values["scores"] = list(map(int, scores)) if rng.random() < 0.1 else scores
    return settings(rng, values, tokens, types)


def lines_file(rng: random.Random) -> Values:
    """A model of characters with listed merges."""
    sample = sample_of(rng).replace(" ", SPACE)
    tokens = characters_of(rng, sample)
    known = set(tokens)
    pairs = [pair for pair in merged_pieces(rng, sample, rng.choice((5, 40, 80))) if set("".join(pair)) <= known]
    merges = listed_merges(rng, pairs, tokens) or ["a b"]
    tokens += {"a", "b", "ab", "c", "bc"} - set(tokens)
    values = {"model": rng.choice(("gemma4", "gpt2")), "pre": rng.choice(LINE_VALUES), "merges": merges}
    if values["model"] == "gemma4" and rng.random() < 0.5:
        del values["pre"]
    return settings(rng, values, tokens, with_specials(rng, tokens))


def given_pieces(values: Values, pieces: list[bytes]) -> list[bytes]:
    """What llama.cpp decodes each token as; but tokens of unused and unknown types, which it leaves out, are kept, and
    U+2581 is a space in special tokens too, as in the tokenizers that the files are made from.
    """
    tokens = [token.partition("\0")[0] or f"[EMPTY_{i}]" for i, token in enumerate(values["tokenizer.ggml.tokens"])]
    types = values.get("tokenizer.ggml.token_type", [NORMAL] * len(tokens))
    by_name = {token: number for number, token in enumerate(tokens)}
    inner = {key.removeprefix("tokenizer.ggml."): value for key, value in values.items()}
    types = effective_types(by_name, types, inner)
    found = []
    byte = inner["model"] == "gpt2" and inner.get("pre") not in LINE_VALUES
    letters = letter_bytes()
    for piece, token, kind in zip(pieces, tokens, types, strict=False):
        if not byte and kind != BYTE:
            piece = token.replace(SPACE, " ").encode()
        elif kind not in (NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE) or b"[UNK_BYTE" in piece:
            spelled = set(token) <= letters.keys()
            piece = bytes(map(letters.__getitem__, token)) if spelled else token.encode()
        found.append(piece)
    return found


def reason_of(error: Exception) -> str:
    """The message of a refusal, without what differs from file to file."""
    text = re.sub(r"^\S+\.gguf[,:]? ?", "", str(error)).partition(" of the text")[0]
    return re.sub(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\[.*?\]|\d+", "…", text)[:150]


class Peer:
    """`tokenizers` with the vocabulary and the published pattern of a tokenizer."""

    def __init__(self, tok: bpe.Tokenizer, folder: Path) -> None:
        tok.save(folder / "peer.json")
        self._value = json.loads((folder / "peer.json").read_bytes())
        steps = self._value["pre_tokenizer"].get("pretokenizers", [self._value["pre_tokenizer"]])
        for step in steps:
            if step["type"] == "bpe.Regex":
                pattern = {"Regex": step["pattern"].removeprefix("(?V1)")}
                step |= {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}

    def ids(self, text: str, special: bool) -> list[int]:
        """The ids of a text."""
        added = [token for token in self._value["added_tokens"] if special or not token["special"]]
        peer = tokenizers.Tokenizer.from_str(json.dumps({**self._value, "added_tokens": added}))
        found: list[int] = peer.encode(text, add_special_tokens=False).ids
        return found


class Check:
    """The results of the files so far."""

    def __init__(self, folder: Path) -> None:
        self.path, self.llama = folder / "model.gguf", LlamaCpp()
        self.counts: collections.Counter[str] = collections.Counter()
        self.refused: collections.Counter[str] = collections.Counter()

    def file(self, values: Values, rng: random.Random) -> str | None:
        """Compare one file; returns what differs."""
        self.path.write_bytes(gguf_file(values) + bytes(64))
        texts = random_texts(rng, TEXTS, [*values["tokenizer.ggml.tokens"], random_text(rng)])
        try:
            theirs = self.llama.ask(str(self.path), texts)
        except CrashedError:
            theirs = None
        try:
            tok = bpe.Tokenizer.load(self.path)
        except bpe.FormatError as error:
            self.refused[reason_of(error)] += 1
            return self.count("refused")
        if theirs is None:
            return self.count("llama.cpp ended its process")
        if "error" in theirs:
            return self.count("refused by llama.cpp only")
        return self.compare(tok, values, texts, theirs, rng)

    def count(self, kind: str) -> str | None:
        """Count a result that is no difference."""
        self.counts[kind] += 1
        return None

    def compare(
        self, tok: bpe.Tokenizer, values: Values, texts: list[str], theirs: dict[str, Any], rng: random.Random
    ) -> str | None:
        """Compare the ids of texts and the text of ids."""
        pre, known = values.get("tokenizer.ggml.pre"), "same"
        for text, plain, special in zip(texts, theirs["plain"], theirs["special"], strict=True):
            for expected, allowed in ((plain, ()), (special, "all")):
                try:
                    ids = tok.encode(text, allowed_special=allowed).tolist()
                except ValueError as error:
                    self.refused[reason_of(error)] += 1
                    return self.count("refused")
                if ids == expected:
                    continue
                if (pre in APPROXIMATED or "ſ" in text) and tok.spec.drop_unknown:
                    return self.count("published pattern, which no peer has for models that lack bytes")
                if pre in APPROXIMATED or "ſ" in text:
                    known = "same as the published pattern"
                    expected = Peer(tok, self.path.parent).ids(text, bool(allowed))
                if ids != expected:
                    names = values["tokenizer.ggml.tokens"]
                    at = next((i for i, (a, b) in enumerate(zip(ids, expected, strict=False)) if a != b), 0)
                    given, wanted = (
                        [names[number] for number in each[max(at - 2, 0) : at + 9]] for each in (ids, expected)
                    )
                    return f"{text!r} {allowed}: … {given}, not … {wanted}"
        pieces = given_pieces(values, [piece.encode("latin-1") for piece in theirs["pieces"]])
        strips = values["tokenizer.ggml.model"] == "llama" and values.get("tokenizer.ggml.add_space_prefix", True)
        for _ in range(TEXTS):
            ids = rng.choices(range(len(pieces)), k=rng.randrange(1, 8))
            expected_text = b"".join(pieces[number] for number in ids)
            if strips:
                expected_text = expected_text.removeprefix(b" ")
            if (found := tok.decode_bytes(ids)) != expected_text:
                return f"ids {ids} are {found!r}, not {expected_text!r}"
        return self.count(known)


def check(files: int, seed: int, model: str | None = None, first: int = 0) -> Check:
    """Compare generated files, and print each difference."""
    makers = dict(zip(MODELS, (byte_level_file, scored_file, lines_file), strict=True))
    with TemporaryDirectory() as name:
        found = Check(Path(name))
        for number in range(first, first + files):
            rng = random.Random(f"{seed} {number}")
            kind = model or rng.choices(MODELS, (6, 3, 1))[0]
            values = makers[kind](rng)
            problem = found.file(values, rng)
            if problem is not None:
                found.count("different")
                pre = values.get("tokenizer.ggml.pre")
                print(f"DIFFERENT: file {number}, {kind}, pre={pre!r}: {problem}", flush=True)
        found.llama.close()
    return found


def main() -> int:
    """Check all files; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", metavar="N", type=int, default=10_000)
    parser.add_argument("--seed", metavar="S", type=int, default=0)
    parser.add_argument("--first", metavar="I", type=int, default=0, help="number of the first file (default 0)")
    parser.add_argument("--model", choices=MODELS)
    options = parser.parse_args()
    began = time.monotonic()
    found = check(options.files, options.seed, options.model, options.first)
    print(f"{options.files} files in {time.monotonic() - began:.0f} s: {found.counts['different']} different")
    for kind, count in found.counts.most_common():
        print(f"{count:>7} {kind}")
    for reason, count in found.refused.most_common():
        print(f"{count:>7} refused: {reason}")
    return int(found.counts["different"] > 0)


if __name__ == "__main__":
    import logging

    logging.getLogger("bpe").setLevel(logging.ERROR)
    sys.exit(main())
