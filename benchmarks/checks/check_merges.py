"""Merges against those that Hugging Face's `tokenizers` learns from the same text; the run fails on one difference.

    python benchmarks/checks/check_merges.py [FILE…] [--first BYTE] [--bytes N] [--vocab-size N] [--pattern NAME]…

For each file (without any, the shared corpora) and for the patterns of GPT-2 and o200k (or those that --pattern
names): train on N bytes of it, from byte BYTE on. By default these are the second 20 MB, which have the characters of
the Python corpus that Unicode has assigned since version 16. To see that the result does not depend on the `regex`
installed, whose version is printed, run it again with another one:

    pip install --target other --no-deps regex==2024.5.15 && PYTHONPATH=other python benchmarks/checks/check_merges.py

It takes ten minutes, of which `bpe` takes a few seconds.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import regex
from inputs import SEPARATOR, at_least, find_corpora
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

import bpe
from bpe.text.letters import spell_token_in_letters


def main() -> None:
    """Compare the merges of every file and pattern."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="UTF-8 text, documents separated by <|endoftext|>")
    parser.add_argument("--first", type=at_least(0), default=20_000_000, help="the first byte (default 20,000,000)")
    parser.add_argument("--bytes", type=at_least(1), default=20_000_000, help="of each file (default 20,000,000)")
    parser.add_argument("--vocab-size", type=at_least(257), default=20_000)
    parser.add_argument("--pattern", action="append", help="may be repeated; default gpt2 and o200k")
    options = parser.parse_args()
    print(f"regex {regex.__version__}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for path in find_corpora(options.files, folder):
            with path.open("rb") as file:
                file.seek(options.first)
                text = file.read(options.bytes).decode("utf-8", "ignore")
            if not text:
                sys.exit(f"{path.name} has no byte {options.first:,}: pass a smaller --first")
            documents = text.split(SEPARATOR)
            for pattern in options.pattern or ("gpt2", "o200k"):
                compare(f"{path.name}, {pattern}", documents, pattern, options.vocab_size)


def compare(label: str, documents: list[str], pattern: str, vocab_size: int) -> None:
    """End the run at the first merge of a pattern that differs."""
    our_merges, expected = (
        train_merges(documents, pattern, vocab_size),
        train_peer_merges(documents, pattern, vocab_size),
    )
    for index, (our, their) in enumerate(zip(our_merges, expected, strict=False)):
        if our != their:
            sys.exit(f"{label}: merge {index:,} is {our} and, by tokenizers, {their}")
    if len(our_merges) != len(expected):
        sys.exit(f"{label}: {len(our_merges):,} merges, {len(expected):,} by tokenizers")
    print(f"{label}: {len(our_merges):,} merges the same", flush=True)


def train_merges(documents: list[str], pattern: str, vocab_size: int) -> list[tuple[str, ...]]:
    """Merges by this package, in the letters of tokenizer.json."""
    tok = bpe.train(texts=documents, vocab_size=vocab_size, pretokenizer=pattern, rules=bpe.MergeRules(tie_break="id"))
    return [tuple(spell_token_in_letters(tok.token_bytes(token)) for token in pair) for pair in tok.merges.tolist()]


def train_peer_merges(documents: list[str], pattern: str, vocab_size: int) -> list[tuple[str, ...]]:
    """Merges by `tokenizers`."""
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = make_pre_tokenizer(pattern)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, initial_alphabet=alphabet, show_progress=False)
    tok.train_from_iterator(documents, trainer)
    return [tuple(pair) for pair in json.loads(tok.to_str())["model"]["merges"]]


def make_pre_tokenizer(pattern: str) -> pre_tokenizers.PreTokenizer:
    """The steps of `tokenizers` for a pattern, as a tokenizer.json has them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tokenizer.json")
        bpe.train(texts=["ab ab"], vocab_size=257, pretokenizer=pattern).save(path)
        steps: pre_tokenizers.PreTokenizer | None = Tokenizer.from_file(str(path)).pre_tokenizer
    assert steps is not None
    return steps


if __name__ == "__main__":
    main()
