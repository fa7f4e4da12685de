"""Ids of superword vocabularies against Hugging Face's encoder; the run fails on one difference.

    python benchmarks/checks/check_superword_encoding.py [FILE…] [--size MB] [--vocab-size N] [--transition N]

For each file (without any, the shared corpora) and for hostile text: the two published SuperBPE vocabularies, with the
steps of their tokenizer.json and with texts as one unit, and vocabularies that `bpe.train` makes of the file, saved and
loaded by both. It takes minutes.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

import tokenizers
from check_superwords import KINDS
from inputs import SEPARATOR, at_least, find_corpora, write_superbpe

import bpe

#: What hostile text is made of.
PARTS = (
    *(
        "the",
        " of",
        " ",
        "\n",
        "\r\n",
        "\t",
        "\u00a0",
        "\u3000",
        "12",
        "٣",
        "½",
        "é",
        "\u0301",
        "語",
        "日本",
        "\U0001f600",
    ),
    *(".", "--", "'s", "/", "\x00", "\ufffd", "\u200d", "a" * 50, " " * 50, "=" * 30, "1234567", "ſ", "\U00011f51"),
)


def main() -> None:
    """Check every file with every vocabulary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="UTF-8 text, documents separated by <|endoftext|>")
    parser.add_argument("--size", type=at_least(1), default=5, help="megabytes of each file; default 5")
    parser.add_argument("--vocab-size", type=at_least(257), default=20_000)
    parser.add_argument("--transition", type=at_least(257), default=12_000)
    options = parser.parse_args()
    n_wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        texts = {"hostile text": list_hostile_texts()}
        for path in find_corpora(options.files, folder):
            with path.open("rb") as file:
                texts[path.name] = file.read(options.size << 20).decode(errors="ignore").split(SEPARATOR)
        for name, path in write_superbpe(Path(folder)):
            tok, peer = load_both(path)
            for corpus, documents in texts.items():
                n_wrong += report(f"{name}, {corpus}", tok, peer, documents)
        for corpus, documents in texts.items():
            for kind, make in KINDS.items():
                superwords = make(options.transition)
                trained = bpe.train(texts=documents, vocab_size=options.vocab_size, superwords=superwords)
                trained.save(Path(folder) / "trained.json")
                tok, peer = load_both(Path(folder) / "trained.json")
                for text_name, sample_texts in texts.items():
                    n_wrong += report(f"{kind} of {corpus}, {text_name}", tok, peer, sample_texts)
    sys.exit(1 if n_wrong else 0)


def list_hostile_texts() -> list[str]:
    """Texts of random parts, some of them long."""
    rng = random.Random(1)
    lengths = [*range(40), *[300] * 200, 30_000]
    return ["".join(rng.choices(PARTS, k=length)) for length in lengths]


def load_both(path: Path) -> tuple[bpe.Tokenizer, tokenizers.Tokenizer]:
    """A saved tokenizer, as loaded by both libraries."""
    return bpe.Tokenizer.load(path), tokenizers.Tokenizer.from_file(str(path))


def report(name: str, tok: bpe.Tokenizer, peer: tokenizers.Tokenizer, texts: list[str]) -> bool:
    """Compare the ids of some texts, and print the result; whether some differ."""
    batch = tok.encode_batch(texts)
    encodings = peer.encode_batch(texts, add_special_tokens=False)
    differing = [index for index, encoding in enumerate(encodings) if batch[index].tolist() != encoding.ids]
    print(f"{name}: {len(batch.ids)} ids, {f'text {differing[0]} DIFFERS' if differing else 'the same'}", flush=True)
    return bool(differing)


if __name__ == "__main__":
    main()
