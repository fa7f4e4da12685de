"""Generated GGUF files beside llama.cpp: the same ids and the same text, or a refusal that names the reason.

    python benchmarks/checks/check_gguf.py [--files N] [--seed S] [--first I] [--show N] [--model NAME]

Writes `--files` files (default 10,000) with random vocabularies, types of tokens, scores, flags and values of `pre`,
and encodes random texts with and without special tokens, and decodes random ids. Writes what was read as another file,
and compares that likewise. Needs the package `xllamacpp`, whose llama.cpp reads the vocabulary only. Prints how many
files give the same, how many are refused for which reason, and each difference. Exit status 1 if there is one.

Where docs/formats.md says that the published pattern counts instead of llama.cpp's, the ids must be those of
`tokenizers` with that pattern.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tokenizers
from comparing import count_results, get_reason, make_files_parser, make_generators, run_check
from generated_models import (
    BYTE,
    BYTES,
    CONTROL,
    NAMES,
    NORMAL,
    SPACE,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    build_gguf,
    draw_merged_pieces,
    draw_text,
    draw_texts,
)
from llama_cpp import CrashedError, LlamaCpp

import bpe
from bpe.formats.gguf.patterns import APPROXIMATED_NAMES, NAMES_OF_LINE_PATTERNS, PRETOKENIZERS
from bpe.formats.gguf.specials import find_types
from bpe.text.letters import list_byte_letters, read_letters_or_utf8, spell_token_in_letters

LETTERS = sorted(list_byte_letters())
TEXTS = 10

Values = dict[str, Any]


def add_specials(rng: random.Random, tokens: list[str]) -> list[int]:
    """Add special tokens to a vocabulary, and give all tokens types."""
    types = [BYTE if token in BYTES else NORMAL for token in tokens]
    for name in rng.sample(NAMES, rng.choice((0, 1, 2, 4, 8, 12))):
        if name not in tokens:
            tokens.append(name)
            types.append(rng.choice((CONTROL, CONTROL, USER_DEFINED, USER_DEFINED, USER_DEFINED, UNKNOWN, NORMAL)))
    for _ in range(rng.choice((0, 0, 0, 1, 2))):  # types of tokens that text can spell
        token_id = rng.randrange(len(types))
        if types[token_id] != BYTE or rng.random() < 0.02:
            types[token_id] = rng.choice((CONTROL, USER_DEFINED, UNUSED, UNUSED, 0))
    if rng.random() < 0.05:
        tokens.append("")
        types.append(rng.choice((NORMAL, UNUSED, CONTROL)))
    return types


def add_settings(rng: random.Random, values: Values, tokens: list[str], types: list[int]) -> Values:
    """The file's values, with some optional ones."""
    values_of_file: Values = {"general.architecture": "llama", **values, "tokens": tokens}
    if rng.random() < 0.05:
        values_of_file["general.name"] = rng.choice(("Own", "ModernBERT modern-bert"))
    if rng.random() < 0.95:
        values_of_file["token_type"] = types + [NORMAL] * rng.choice((0, 0, 0, 1, 5))
    if rng.random() < 0.3:
        values_of_file["add_space_prefix"] = rng.random() < 0.5
    for key in ("bos_token_id", "eos_token_id", "unknown_token_id", "fim_pre_token_id"):
        if rng.random() < 0.3:
            values_of_file[key] = rng.randrange(len(tokens) + 2)
    return {
        key if key.startswith("general.") else f"tokenizer.ggml.{key}": value for key, value in values_of_file.items()
    }


def draw_sample(rng: random.Random) -> str:
    """The text that a vocabulary is made of."""
    return "".join(draw_texts(rng, 12)).replace("\0", "\0" if rng.random() < 0.05 else "")


def list_merges(rng: random.Random, pairs: list[tuple[str, str]], tokens: list[str]) -> list[str]:
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


def make_byte_level_file(rng: random.Random) -> Values:
    """A model of bytes."""
    tokens = rng.sample(LETTERS, 256)
    if rng.random() < 0.2:
        del tokens[: rng.choice((1, 3, 15, 60))]
    pre = rng.choice([name for name in PRETOKENIZERS if name not in NAMES_OF_LINE_PATTERNS])
    values: Values = {"model": "gpt2", "pre": pre if rng.random() < 0.98 else "own"}
    if rng.random() < 0.03:
        values["pre"] = ""
    elif rng.random() < 0.03:
        del values["pre"]
    count = rng.choice((0, 5, 20, 60))
    known_tokens, pairs = set(tokens), draw_merged_pieces(rng, spell_token_in_letters(draw_sample(rng).encode()), count)
    if rng.random() < 0.98:
        pairs = [pair for pair in pairs if set("".join(pair)) <= known_tokens]
    values["merges"] = list_merges(rng, pairs, tokens) or ["a b"]
    if values["merges"] == ["a b"]:
        tokens += [token for token in ("a", "b", "ab") if token not in tokens]
    if rng.random() < 0.3:  # whole words, with `ignore_merges`
        words = rng.sample(["Ġthe", "The", "123", "12", "ĊĊ", "ĠĠĠ", "don", "'LL", "Ã©"], 3)
        tokens += [word for word in words if word not in tokens]
    return add_settings(rng, values, tokens, add_specials(rng, tokens))


def list_characters(rng: random.Random, sample: str) -> list[str]:
    """Tokens of bytes and characters."""
    kept_chars = sorted(set(sample) - {" "})
    tokens = rng.sample(kept_chars, len(kept_chars) * rng.randrange(5, 11) // 10)
    if rng.random() < 0.9:
        tokens += sorted(set("".join(NAMES)) - set(tokens) - {" "})
    byte_list = BYTES if rng.random() < 0.9 else rng.choice(([], BYTES[:200]))
    return [*rng.choice((["<unk>", "<s>", "</s>"], ["<pad>", "<eos>", "<bos>", "<unk>"], [])), *byte_list, *tokens]


def make_scored_file(rng: random.Random) -> Values:
    """A model of sentencepiece."""
    sample = draw_sample(rng).replace(" ", SPACE)
    tokens = list_characters(rng, sample)
    known_tokens = set(tokens)
    pairs = draw_merged_pieces(rng, sample, rng.choice((0, 10, 40, 80)))
    tokens += dict.fromkeys(
        left + right for left, right in pairs if set(left + right) <= known_tokens or rng.random() < 0.002
    )
    tokens = list(dict.fromkeys(tokens))
    types = add_specials(rng, tokens)
    for index, token in enumerate(tokens):
        if token in ("<s>", "</s>", "<bos>", "<eos>", "<pad>", "<unk>") and rng.random() < 0.8:
            types[index] = UNKNOWN if token == "<unk>" and rng.random() < 0.7 else CONTROL
    values: Values = {"model": "llama"}
    scores: list[float] = [
        rng.choice((0.0, -1.0, -2.0, -float(index), rng.uniform(-9, 9))) for index in range(len(tokens))
    ]
    if rng.random() < 0.4:
        scores = [-float(index) for index in range(len(tokens))]
    if rng.random() < 0.9:
        values["scores"] = list(map(int, scores)) if rng.random() < 0.1 else scores
    return add_settings(rng, values, tokens, types)


def make_line_file(rng: random.Random) -> Values:
    """A model of characters with listed merges."""
    sample = draw_sample(rng).replace(" ", SPACE)
    tokens = list_characters(rng, sample)
    known_tokens = set(tokens)
    pairs = [
        pair for pair in draw_merged_pieces(rng, sample, rng.choice((5, 40, 80))) if set("".join(pair)) <= known_tokens
    ]
    merges = list_merges(rng, pairs, tokens) or ["a b"]
    tokens += {"a", "b", "ab", "c", "bc"} - set(tokens)
    values = {"model": rng.choice(("gemma4", "gpt2")), "pre": rng.choice(NAMES_OF_LINE_PATTERNS), "merges": merges}
    if values["model"] == "gemma4" and rng.random() < 0.5:
        del values["pre"]
    return add_settings(rng, values, tokens, add_specials(rng, tokens))


def add_pieces(values: Values, pieces: list[bytes]) -> list[bytes]:
    """What llama.cpp decodes each token as; but tokens of unused and unknown types, which it leaves out, are kept, and
    U+2581 is a space in special tokens too, as in the tokenizers that the files are made from.
    """
    tokens = [token.partition("\0")[0] or f"[EMPTY_{i}]" for i, token in enumerate(values["tokenizer.ggml.tokens"])]
    types = values.get("tokenizer.ggml.token_type", [NORMAL] * len(tokens))
    by_name = {token: number for number, token in enumerate(tokens)}
    inner = {key.removeprefix("tokenizer.ggml."): value for key, value in values.items()}
    types = find_types(by_name, types, inner)
    all_pieces = []
    byte = inner["model"] == "gpt2" and inner.get("pre") not in NAMES_OF_LINE_PATTERNS
    for piece, token, kind in zip(pieces, tokens, types, strict=False):
        if not byte and kind != BYTE:
            piece = token.replace(SPACE, " ").encode()
        elif kind not in (NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE) or b"[UNK_BYTE" in piece:
            piece = read_letters_or_utf8(token)
        all_pieces.append(piece)
    return all_pieces


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
        row: list[int] = peer.encode(text, add_special_tokens=False).ids
        return row


#: The kinds of models, and what makes a file of each.
MODELS = {"gpt2": make_byte_level_file, "llama": make_scored_file, "gemma4": make_line_file}


def compare(rng: random.Random, llama: LlamaCpp, path: Path, model: str | None) -> str:
    """The result for one file, which is written to the path."""
    kind = model or rng.choices(list(MODELS), (6, 3, 1))[0]
    values = MODELS[kind](rng)
    path.write_bytes(build_gguf(values) + bytes(64))
    texts = draw_texts(rng, TEXTS, [*values["tokenizer.ggml.tokens"], draw_text(rng)])
    try:
        peer_results = llama.ask(str(path), texts)
    except CrashedError:
        peer_results = None
    try:
        tok = bpe.Tokenizer.load(path)
    except bpe.FormatError as error:
        return f"refused: {get_reason(error)}"
    if peer_results is None:
        return "llama.cpp ended its process"
    if "error" in peer_results:
        return "refused by llama.cpp only"
    result = compare_ids(tok, values, texts, peer_results, path.parent)
    if result.startswith("same"):
        result = compare_text(tok, values, peer_results, rng) or compare_written(tok, llama, path, texts) or result
    return f"{result}\n  {kind}, pre={values.get('tokenizer.ggml.pre')!r}"


def is_approximated(pre: str | None, text: str) -> bool:
    """Whether llama.cpp may cut a text otherwise than the published pattern does."""
    wide_space = any(char.isspace() and not char.isascii() for char in text)
    return pre in APPROXIMATED_NAMES or "ſ" in text or (pre in ("deepseek-coder", "deepseek-llm") and wide_space)


def compare_ids(
    tok: bpe.Tokenizer, values: Values, texts: list[str], peer_results: dict[str, Any], folder: Path
) -> str:
    """Compare the ids of texts, without and with special tokens."""
    pre, result = values.get("tokenizer.ggml.pre"), "same"
    for i, text in enumerate(texts):
        for expected, allowed in ((peer_results["plain"][i], ()), (peer_results["special"][i], "all")):
            try:
                ids = tok.encode(text, allowed_special=allowed).tolist()
            except ValueError as error:
                return f"refused: {get_reason(error)}"
            approximated = ids != expected and is_approximated(pre, text)
            if approximated and tok.spec.drop_unknown:
                return "same as far as known: published pattern, which no peer has for models that lack bytes"
            if approximated:
                result = "same as the published pattern"
                expected = Peer(tok, folder).ids(text, bool(allowed))
            if ids != expected:
                names = values["tokenizer.ggml.tokens"]
                difference = next((i for i, (a, b) in enumerate(zip(ids, expected, strict=False)) if a != b), 0)
                our_tokens, expected_tokens = (
                    [names[token_id] for token_id in row[max(difference - 2, 0) : difference + 9]]
                    for row in (ids, expected)
                )
                return f"different: ids\n  {text!r} {allowed}: … {our_tokens}, not … {expected_tokens}"
    return result


def compare_written(tok: bpe.Tokenizer, llama: LlamaCpp, path: Path, texts: list[str]) -> str:
    """Compare the tokenizer with the file that is written of it, and that with llama.cpp; "" if it is the same."""
    try:
        tok.save(path.parent / "written.gguf")
    except ValueError as error:  # what would be lost is named
        return "" if "does not keep" in str(error) or "cannot hold" in str(error) else f"different: {error}"
    if bpe.Tokenizer.load(path.parent / "written.gguf") != tok:
        return "different: the written file"
    try:
        peer_results = llama.ask(str(path.parent / "written.gguf"), texts)
    except CrashedError:  # a character without a token
        return ""
    for i, text in enumerate(texts):
        if is_approximated(None, text):
            continue
        ids = tok.encode(text, allowed_special="all").tolist()
        with_template = tok.encode(text, allowed_special="all", template=True).tolist()
        if (ids, with_template) != (peer_results["special"][i], peer_results["template"][i]):
            return f"different: ids of the written file\n  {text!r}"
    return ""


def compare_text(tok: bpe.Tokenizer, values: Values, peer_results: dict[str, Any], rng: random.Random) -> str:
    """Compare the text of random ids; "" if it is the same."""
    pieces = add_pieces(values, [piece.encode("latin-1") for piece in peer_results["pieces"]])
    strips = values["tokenizer.ggml.model"] == "llama" and values.get("tokenizer.ggml.add_space_prefix", True)
    for _ in range(TEXTS):
        ids = rng.choices(range(len(pieces)), k=rng.randrange(1, 8))
        expected = b"".join(pieces[token_id] for token_id in ids).removeprefix(b" " * strips)
        if (data := tok.decode_bytes(ids)) != expected:
            return f"different: text\n  ids {ids} are {data!r}, not {expected!r}"
    return ""


def check(arguments: Sequence[str] | None = None) -> Counter[str]:
    """Compare all files."""
    parser = make_files_parser(__doc__)
    parser.add_argument("--model", choices=MODELS)
    options = parser.parse_args(arguments)
    with TemporaryDirectory() as folder, closing(LlamaCpp()) as llama:
        path = Path(folder) / "model.gguf"
        return count_results(options, (compare(rng, llama, path, options.model) for rng in make_generators(options)))


if __name__ == "__main__":
    run_check(check)
