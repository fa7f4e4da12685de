"""Every shape of tokenizer.json on the shared corpora: the results of `tokenizers`, column by column.

    python benchmarks/checks/check_pipelines.py [--bytes N] [--shape NAME]… [--corpus NAME]… [--hostile N]

Trains a small vocabulary for each shape with `tokenizers` on the beginning of the corpora, and encodes the first
`--bytes` (default 5,000,000) of each corpus, and `--hostile` random texts (default 2,000), with both libraries. Ids,
tokens, offsets, word ids, type ids and masks of `bpe.compat.huggingface.Tokenizer`, the ids of the native `encode` and
`encode_batch`, and what both decode must be equal. Exit status 1 if anything differs.

The shapes are those of `test_tokenizer_json_pipelines.py` and `test_llama_shapes.py` in `tests/formats`, and CLIP's and
BERT's.
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
import sys
import time
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import tokenizers

import bpe
from bpe.compat.huggingface import Tokenizer
from bpe.formats import huggingface

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "data" / "corpora"  # not from `inputs`: the tests have a `peers` of their own
sys.path[:0] = [str(ROOT / "tests" / folder) for folder in ("", "support", "formats")]

pipelines, llama, steps = map(import_module, ("pipelines", "test_llama_shapes", "test_tokenizer_json_pipelines"))

CORPORA = ("english", "korean", "japanese", "python")
COLUMNS = ("ids", "tokens", "offsets", "word_ids", "type_ids", "attention_mask", "special_tokens_mask")
#: Bytes of each corpus to train on, tokens of a vocabulary, documents that are compared together.
TRAINED, VOCABULARY, TOGETHER = 300_000, 3000, 64
SENTENCEPIECE = ("llama2", "tinyllama", "mistral", "phi3", "gemma")
CLIP = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"


def read_documents(corpus: str, size: int) -> list[str]:
    """The documents at the beginning of a corpus."""
    with lzma.open(SHARED / f"{corpus}.txt.xz") as file:
        return file.read(size).decode("utf-8", "ignore").split("<|endoftext|>")


@cache
def read_training_texts() -> list[str]:
    """The beginning of each corpus, in lines."""
    lines = [line for corpus in CORPORA for text in read_documents(corpus, TRAINED) for line in text.splitlines(True)]
    return [line.replace("<", "") for line in lines]


def train_model(shell: Any, trainer: dict[str, Any]) -> dict[str, Any]:
    """The tokenizer.json of a tokenizer that was trained on the beginning of the corpora."""
    trainer_object = tokenizers.trainers.BpeTrainer(vocab_size=VOCABULARY, show_progress=False, **trainer)
    shell.train_from_iterator(read_training_texts(), trainer_object)
    values: dict[str, Any] = json.loads(shell.to_str())
    return values


@cache
def make_byte_fallback_vocabulary() -> dict[str, int]:
    """The vocabulary of the sentencepiece-like shapes."""
    shell = tokenizers.Tokenizer(tokenizers.models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    shell.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    special = [*llama.SPECIALS, *(f"<0x{byte:02X}>" for byte in range(256))]
    vocab: dict[str, int] = train_model(shell, {"special_tokens": special, "limit_alphabet": 1000})["model"]["vocab"]
    return vocab


def check_steps(name: str) -> str:
    """The tokenizer.json of a shape of `test_tokenizer_json_pipelines.py`."""
    normalizers, step_list = steps.SHAPES[name]
    byte = any(step["type"] == "ByteLevel" for step in normalizers + step_list)
    shell = json.loads(tokenizers.Tokenizer(tokenizers.models.BPE(unk_token=None if byte else "<unk>")).to_str())
    shell["normalizer"] = pipelines.make_sequence("normalizers", normalizers)
    shell["pre_tokenizer"] = pipelines.make_sequence("pretokenizers", step_list)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet() if byte else []
    special = ["<s>", "</s>", *([] if byte else ["<unk>"])]
    trainer = {"special_tokens": special, "initial_alphabet": alphabet}
    values = train_model(tokenizers.Tokenizer.from_str(json.dumps(shell)), trainer)
    values["decoder"] = {"type": "ByteLevel"} | steps.LEVEL if byte else None
    values["post_processor"] = {
        "type": "RobertaProcessing", "sep": ["</s>", 1], "cls": ["<s>", 0], "trim_offsets": byte,
        "add_prefix_space": False,
    }  # fmt: skip
    return json.dumps(values)


def check_words(name: str) -> str:
    """CLIP's shape, and a BERT-like one with a prefix for the symbols within a word."""
    if name == "clip":
        shell = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
        shell.normalizer = tokenizers.normalizers.Sequence(
            [
                tokenizers.normalizers.NFC(),
                tokenizers.normalizers.Replace(tokenizers.Regex(r"\s+"), " "),
                tokenizers.normalizers.Lowercase(),
            ]
        )
        shell.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
            [
                tokenizers.pre_tokenizers.Split(tokenizers.Regex(CLIP), "removed", invert=True),
                tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False),
            ]
        )
        trainer = {"end_of_word_suffix": "</w>", "initial_alphabet": tokenizers.pre_tokenizers.ByteLevel.alphabet()}
    else:
        shell = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>", continuing_subword_prefix="##"))
        shell.normalizer = tokenizers.normalizers.BertNormalizer()
        shell.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
        trainer = {"continuing_subword_prefix": "##"}
    values = train_model(shell, {"special_tokens": ["<s>", "</s>", "<unk>"], **trainer})
    values["post_processor"] = {"type": "BertProcessing", "sep": ["</s>", 1], "cls": ["<s>", 0]}
    return json.dumps(values)


def list_shapes() -> dict[str, Any]:
    """Name → a function that returns the tokenizer.json."""
    by_name: dict[str, Any] = {}
    for name in steps.SHAPES:
        by_name[f"{name}, steps" if name in SENTENCEPIECE else name] = lambda name=name: check_steps(name)
    for name in SENTENCEPIECE:
        by_name[name] = lambda name=name: llama.shape(name, make_byte_fallback_vocabulary()).decode()
    return by_name | {name: lambda name=name: check_words(name) for name in ("clip", "prefix")}


class Comparison:
    """Both libraries' tokenizers of one file, and what was compared."""

    def __init__(self, text: str) -> None:
        self.theirs, self.ours = tokenizers.Tokenizer.from_str(text), Tokenizer.from_str(text)
        self.native = bpe.Tokenizer(huggingface.read(text.encode()))
        self.differences: list[str] = []
        self.seconds = {"tokenizers": 0.0, "bpe": 0.0}

    def compare(self, texts: list[str]) -> None:
        """Compare both for texts."""
        start = time.perf_counter()
        expected = self.theirs.encode_batch(texts)
        middle = time.perf_counter()
        plain = self.native.encode_batch(texts, allowed_special="all", template=True, threads=1).to_list()
        self.seconds["tokenizers"] += middle - start
        self.seconds["bpe"] += time.perf_counter() - middle
        for text, peer_encoding, ids, encoding in zip(
            texts, expected, plain, self.ours.encode_batch(texts), strict=True
        ):
            wrong_columns = [name for name in COLUMNS if getattr(encoding, name) != getattr(peer_encoding, name)]
            if ids != peer_encoding.ids:
                wrong_columns.append("native ids")
            for skip in (False, True):
                decoded = self.theirs.decode(peer_encoding.ids, skip_special_tokens=skip)
                if self.ours.decode(peer_encoding.ids, skip_special_tokens=skip) != decoded:
                    wrong_columns.append(f"decode, {skip=}")
                if (
                    self.native.decode(peer_encoding.ids, skip_special=skip) != decoded
                    and self.native.spec.decoder is not None
                ):
                    wrong_columns.append(f"native decode, {skip=}")
            if wrong_columns:
                self.differences.append(f"{', '.join(wrong_columns)}: {text[:60]!r}")


def group_texts(texts: list[str]) -> Iterator[list[str]]:
    """The texts, some at a time."""
    for start in range(0, len(texts), TOGETHER):
        yield texts[start : start + TOGETHER]


def main() -> int:
    """Compare all shapes; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=int, default=5_000_000)
    parser.add_argument("--hostile", type=int, default=2000)
    parser.add_argument("--shape", action="append")
    parser.add_argument("--corpus", action="append", choices=CORPORA)
    options = parser.parse_args()
    makers, bad = list_shapes(), False
    for name in options.shape or makers:
        data = makers[name]()
        rng = random.Random(name)
        cases = {"hostile": [pipelines.draw_text(rng, 40) for _ in range(options.hostile)]}
        for case in [*cases, *(options.corpus or CORPORA)]:
            both = Comparison(data)
            for texts in group_texts(cases.get(case) or read_documents(case, options.bytes)):
                both.compare(texts)
            bad |= bool(both.differences)
            took = ", ".join(f"{library} {seconds:.2f} s" for library, seconds in both.seconds.items())
            print(f"{name:<20}{case:<10}{len(both.differences)} differ; ids: {took}", flush=True)
            for difference in both.differences[:3]:
                print(f"    {difference}", flush=True)
    return int(bad)


if __name__ == "__main__":
    import logging

    logging.getLogger("bpe").setLevel(logging.ERROR)
    sys.exit(main())
