"""Superwords of real text against Hugging Face's trainer and encoder; the run fails on one difference.

    python benchmarks/checks/check_superwords.py [FILE…] [--size MB] [--vocab-size N] [--transition N] [--encoding]

For the first megabytes of each file, and for lines and both published pairs of patterns:

- merges: stage 2 without a veto, against a stock `BpeTrainer`. The units are encoded by `tokenizers` with the merges of
  stage 1, token i is written as the i-th character of a reserved range, and the trainer learns from that.
- ids: stage 2 with the veto, saved, and loaded by `tokenizers`, on the text that follows in the file.

With --encoding, ids only, of more texts, hostile ones too: with the two published SuperBPE vocabularies, and with
vocabularies trained on each file, which encode all files. Without FILE, the shared corpora are used. It takes minutes,
with --encoding half an hour.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

import tokenizers
from inputs import SEPARATOR, at_least, find_corpora, write_superbpe
from tokenizers import models, pre_tokenizers, trainers

import bpe

#: Code points that stand for tokens, one each.
RESERVED = 0x10000
KINDS: dict[str, Callable[..., bpe.SuperWords]] = {
    "lines": bpe.SuperWords,
    "paper": bpe.SuperWords.paper,
    "v2": bpe.SuperWords.v2,
}
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
    """Check every file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="UTF-8 text, documents separated by <|endoftext|>")
    parser.add_argument("--size", type=at_least(1), default=2, help="megabytes to train on; default 2")
    parser.add_argument("--vocab-size", type=at_least(257), default=12_000)
    parser.add_argument("--transition", type=at_least(257), default=8_000)
    parser.add_argument("--encoding", action="store_true", help="compare the ids of more texts and vocabularies")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        check = check_encoding if options.encoding else check_training
        n_wrong = check(options, Path(folder), find_corpora(options.files, folder))
    sys.exit(1 if n_wrong else 0)


def check_training(options: argparse.Namespace, folder: Path, paths: Iterable[Path]) -> int:
    """Compare merges, and ids of text that follows in the file; the number of differences."""
    n_wrong = 0
    for path in paths:
        size = options.size << 20
        text = path.read_bytes()[: 4 * size].decode(errors="ignore")
        corpus = text[: len(text) // 4].split(SEPARATOR)
        held_out = text[len(text) // 4 :].split(SEPARATOR)
        for kind, make in KINDS.items():
            free = make(options.transition, max_words=None, forbidden=())
            merges = compare_merges(corpus, free, options.vocab_size, folder)
            ids = compare_ids(corpus, held_out, make(options.transition), options.vocab_size, folder)
            n_wrong += not (merges and ids)
            answers = ["the same" if check else "DIFFERENT" for check in (merges, ids)]
            print(f"{path.name} {kind}: merges {answers[0]}, ids {answers[1]}", flush=True)
    return n_wrong


def check_encoding(options: argparse.Namespace, folder: Path, paths: Iterable[Path]) -> int:
    """Compare the ids of all texts with every vocabulary; the number of differences."""
    n_wrong = 0
    texts = {"hostile text": list_hostile_texts()}
    for path in paths:
        with path.open("rb") as file:
            texts[path.name] = file.read(options.size << 20).decode(errors="ignore").split(SEPARATOR)
    for name, path in write_superbpe(folder):
        tok, peer = load_both(path)
        for corpus, documents in texts.items():
            n_wrong += report(f"{name}, {corpus}", tok, peer, documents)
    for corpus, documents in texts.items():
        for kind, make in KINDS.items():
            superwords = make(options.transition)
            trained = bpe.train(texts=documents, vocab_size=options.vocab_size, superwords=superwords)
            trained.save(folder / "trained.json")
            tok, peer = load_both(folder / "trained.json")
            for text_name, sample_texts in texts.items():
                n_wrong += report(f"{kind} of {corpus}, {text_name}", tok, peer, sample_texts)
    return n_wrong


def compare_merges(corpus: list[str], superwords: bpe.SuperWords, vocab_size: int, folder: Path) -> bool:
    """Whether stage 2 learns the merges that `tokenizers` learns from the same units."""
    counts = tuple(superwords.count_words(stage, texts=corpus) for stage in (1, 2))
    tok = bpe.train(counts=(counts[0], counts[1]), vocab_size=vocab_size, superwords=superwords)
    first = bpe.train(counts=dict(counts[0].items()), vocab_size=superwords.transition)
    first.save(folder / "first.json")
    peer = tokenizers.Tokenizer.from_file(str(folder / "first.json"))
    peer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    units = [(unit.decode(), count) for unit, count in counts[1].items()]
    peer_merges = [
        "".join(chr(RESERVED + token_id) for token_id in encoding.ids)
        for encoding in peer.encode_batch([unit for unit, _ in units], add_special_tokens=False)
    ]
    learner = tokenizers.Tokenizer(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=0,
        show_progress=False,
        initial_alphabet=[chr(RESERVED + token_id) for token_id in range(superwords.transition)],
    )
    repeated = (unit for unit, (_, count) in zip(peer_merges, units, strict=True) for _ in range(count))
    learner.train_from_iterator(repeated, trainer)
    expected = [tuple(pair) for pair in json.loads(learner.to_str())["model"]["merges"]]
    names = {token_id: chr(RESERVED + token_id) for token_id in range(superwords.transition)}
    our_merges = []
    for left, right in islice(tok.merges.tolist(), len(first.merges), None):
        our_merges.append((names[left], names[right]))
        names[len(names)] = names[left] + names[right]
    return bool(our_merges) and our_merges == expected


def compare_ids(
    corpus: list[str], held_out: list[str], superwords: bpe.SuperWords, vocab_size: int, folder: Path
) -> bool:
    """Whether `tokenizers` gives the same ids of other text, from the saved file."""
    tok = bpe.train(texts=corpus, vocab_size=vocab_size, superwords=superwords)
    tok.save(folder / "superwords.json")
    peer = tokenizers.Tokenizer.from_file(str(folder / "superwords.json"))
    encodings = peer.encode_batch(held_out, add_special_tokens=False)
    batch = tok.encode_batch(held_out)
    return all(batch[i].tolist() == encodings[i].ids for i in range(len(held_out)))


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
