"""`bpe.prune` and `bpe.research.adapt` choose the tokens of naive oracles, which encode by the definition of BPE."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference
from strategies import SOAK

import bpe
from bpe.training import encoded

pytestmark = pytest.mark.usefixtures("quiet")

Merge = tuple[bytes, bytes]

#: Kinds of tokenizers that become smaller.
KINDS = [
    {"special_tokens": ["<pad>", "<|end|>"]},
    {"model": "char", "unk_token": "<unk>"},
    {"model": "char", "end_of_word": "</w>"},
    {"model": "char", "end_of_word": "</w>", "end_of_word_glued": True},
    {
        "pretokenizer": "metaspace",
        "special_tokens": ["<s>"],
        "alphabet": bpe.Alphabet(coverage=0.9, byte_fallback=True),
    },
    {"superwords": bpe.SuperWords(262)},
]


def random_corpus(random_: random.Random) -> dict[str, int]:
    letters = random_.choice(("ab", "abc", "abcdef", "aé語"))
    return {
        "".join(random_.choices(letters, k=random_.choice((1, 3, 5, 9)))): random_.randint(1, 6)
        for _ in range(random_.choice((2, 6, 15)))
    }


def merges_of(tok: bpe.Tokenizer) -> list[Merge]:
    tokens = {token_id: token for token, token_id in tok.vocab().items()}
    return [(tokens[left], tokens[right]) for left, right in tok.merges.tolist()]


def encoded_words(merges: list[Merge], words: dict[str, int]) -> list[tuple[tuple[bytes, ...], int]]:
    ranks = {merge: rank for rank, merge in enumerate(merges)}
    return [(reference.encode_word(reference.byte_word(word.encode()), ranks), n) for word, n in words.items()]


def frequencies_of(merges: list[Merge], words: dict[str, int]) -> Counter[bytes]:
    frequencies: Counter[bytes] = Counter()
    for tokens, count in encoded_words(merges, words):
        for token in tokens:
            frequencies[token] += count
    return frequencies


def leaves_of(merges: list[Merge]) -> list[Merge]:
    parts = {part for merge in merges for part in merge}
    return [(left, right) for left, right in merges if left + right not in parts]


def pruned(merges: list[Merge], words: dict[str, int], n: int) -> list[Merge]:
    frequencies = frequencies_of(merges, words)
    while len(merges) > n:
        left, right = min(leaves_of(merges), key=lambda merge: (frequencies[b"".join(merge)], -merges.index(merge)))
        frequencies[left] += frequencies[left + right]
        frequencies[right] += frequencies[left + right]
        merges = [merge for merge in merges if merge != (left, right)]
    return merges


def exchanges_of(
    merges: list[Merge], active: set[Merge], words: dict[str, int], max_exchanges: int
) -> list[tuple[Merge, Merge]]:
    """(active, inactive) merges to exchange in a pass."""
    active_merges = [merge for merge in merges if merge in active]
    tokens = {b"".join(merge) for merge in active_merges}
    frequencies, pairs = frequencies_of(active_merges, words), Counter[Merge]()
    for word, count in encoded_words(active_merges, words):
        for pair in pairwise(word):
            pairs[pair] += count
    whole = [merge for merge in merges if merge not in active and all(len(p) == 1 or p in tokens for p in merge)]
    candidates = sorted((m for m in whole if pairs[m]), key=lambda merge: (-pairs[merge], merges.index(merge)))
    leaves = sorted(leaves_of(active_merges), key=lambda merge: (frequencies[b"".join(merge)], -merges.index(merge)))
    chosen: list[tuple[Merge, Merge]] = []
    needed: set[bytes] = set()
    for merge in candidates:
        if any(part == b"".join(gone) for part in merge for gone, _ in chosen):
            continue
        while leaves and b"".join(leaves[0]) in needed | set(merge):
            leaves.pop(0)
        if not leaves or len(chosen) == max_exchanges or pairs[merge] <= frequencies[b"".join(leaves[0])]:
            break
        needed |= set(merge)
        chosen.append((leaves.pop(0), merge))
    return chosen


def adapted(merges: list[Merge], words: dict[str, int], n: int, passes: int) -> list[Merge]:
    def total(active: set[Merge]) -> int:
        return frequencies_of([merge for merge in merges if merge in active], words).total()

    active, step = set(merges[:n]), 10**9
    for _ in range(passes - 1):
        chosen = exchanges_of(merges, active, words, step)
        if not chosen:
            break
        tried = active - {leaf for leaf, _ in chosen} | {candidate for _, candidate in chosen}
        if total(tried) < total(active):
            active, step = tried, 2 * len(chosen)
        else:
            step = len(chosen) // 2
    return [merge for merge in merges if merge in active]


def check_remap(tok: bpe.Tokenizer, smaller: bpe.Tokenizer, remap: np.ndarray[Any, Any]) -> None:
    kept = smaller.vocab()
    assert {token: int(remap[token_id]) for token, token_id in tok.vocab().items()} == {
        token: kept.get(token, -1) for token in tok.vocab()
    }


@pytest.mark.parametrize("group", [20, 1 << 22])
def test_pruning_and_adapting_equal_the_oracles(monkeypatch: pytest.MonkeyPatch, group: int) -> None:
    """Words are encoded in one group or in several."""
    monkeypatch.setattr(encoded, "GROUP_BYTES", group)
    random_ = random.Random(group)
    for _ in range(15 * SOAK):
        tok = bpe.train(counts=random_corpus(random_), num_merges=random_.choice((5, 20)), pretokenizer=None)
        words, merges = random_corpus(random_), merges_of(tok)
        n = random_.randint(0, len(merges))
        smaller, remap = bpe.prune(tok, 256 + n, counts=words)
        assert merges_of(smaller) == pruned(merges, words, n)
        check_remap(tok, smaller, remap)
        passes = random_.choice((1, 2, 40))
        chosen, remap = bpe.research.adapt(tok, 256 + n, counts=words, passes=passes, threads=2)
        assert merges_of(chosen) == adapted(merges, words, n, passes)
        check_remap(tok, chosen, remap)
        texts = list(words)
        short = tok.truncate_vocab(256 + n)[0]
        assert sum(chosen.count_tokens(t) * words[t] for t in texts) <= sum(
            short.count_tokens(t) * words[t] for t in texts
        )


TEXTS = ["the theory of the thing, in theory", "low lower lowest 12 12 12", "naïve café, 語 and 語"] * 3


@pytest.mark.parametrize(
    "options",
    KINDS,
)
def test_every_kind_of_tokenizer_becomes_smaller(options: dict[str, Any]) -> None:
    base = 400 if options.get("alphabet") else 290
    tok = bpe.train(texts=TEXTS, vocab_size=base if options.get("model") != "char" else 80, **options)
    size = tok.vocab_size - 9
    for change in (bpe.prune, bpe.research.adapt):
        smaller, remap = change(tok, size, texts=TEXTS)
        assert smaller.vocab_size == size
        assert np.count_nonzero(remap >= 0) == size
        check_remap(tok, smaller, remap)
        assert smaller.decode(smaller.encode(TEXTS[0])) == tok.decode(tok.encode(TEXTS[0]))
        assert len(smaller.unreachable()) <= len(tok.unreachable())
        assert change(tok, tok.vocab_size, texts=TEXTS)[0] == tok
    assert bpe.prune(tok, size, texts=TEXTS)[0].count_tokens(TEXTS[1]) >= tok.count_tokens(TEXTS[1])


def test_files_texts_and_counts_are_the_same_corpus(tmp_path: Path) -> None:
    tok = bpe.train(texts=TEXTS, vocab_size=300, special_tokens=["<|end|>"])
    (tmp_path / "corpus.txt").write_text("\n".join(TEXTS) + "\n", newline="")
    counts = bpe.count_words(texts=[f"{text}\n" for text in TEXTS], special_tokens=["<|end|>"])
    for change in (bpe.prune, bpe.research.adapt):
        expected = change(tok, 280, counts=counts)[0]
        assert change(tok, 280, texts=[f"{text}\n" for text in TEXTS])[0] == expected
        assert change(tok, 280, files=bpe.Sources(tmp_path / "corpus.txt", per_line=True))[0] == expected


@pytest.mark.parametrize("change", [bpe.prune, bpe.research.adapt])
@pytest.mark.parametrize(
    ("size", "corpus", "error", "message"),
    [
        (256, {"texts": TEXTS}, ValueError, r"vocab_size is 256, but 257 tokens .* it must be at least 257"),
        (999, {"texts": TEXTS}, ValueError, r"vocab_size is 999, but the tokenizer has 270 tokens; bpe.extend makes"),
        (260, {}, ValueError, r"nothing given; give exactly one of files=, texts= and counts="),
        (260, {"texts": TEXTS, "counts": {"a": 1}}, ValueError, "texts and counts given"),
        (260, {"texts": [""]}, ValueError, "the corpus has no words"),
        (260, {"counts": bpe.WordCounts("whitespace")}, ValueError, "the counts were made with pretokenizer="),
        ("260", {"texts": TEXTS}, TypeError, "vocab_size is '260'"),
    ],
)
def test_wrong_arguments_are_refused(change: Any, size: Any, corpus: Any, error: Any, message: str) -> None:
    tok = bpe.train(texts=TEXTS, vocab_size=270, special_tokens=["<pad>"])
    with pytest.raises(error, match=message):
        change(tok, size, **corpus)
    with pytest.raises(TypeError, match=r"tok is 'gpt2'.*; it must be a bpe.Tokenizer"):
        change("gpt2", size, **corpus)


def test_the_command_line_prunes(tmp_path: Path) -> None:
    from bpe.cli import main

    tok = bpe.train(texts=TEXTS, vocab_size=300)
    paths = {name: str(tmp_path / name) for name in ("tok.json", "corpus.txt", "out.json", "ids.npy", "words.counts")}
    tok.save(paths["tok.json"])
    (tmp_path / "corpus.txt").write_text(TEXTS[1])
    bpe.count_words(texts=[TEXTS[1]]).save(paths["words.counts"])
    given = ["-t", paths["tok.json"], "-o", paths["out.json"], "--vocab-size", "270", "--remap", paths["ids.npy"]]
    expected, remap = bpe.prune(tok, 270, texts=[TEXTS[1]])
    for corpus in ([paths["corpus.txt"], "--threads", "2"], ["--counts", paths["words.counts"]]):
        assert main(["prune", *given, *corpus]) == 0
        assert bpe.Tokenizer.load(paths["out.json"]) == expected
        assert np.array_equal(np.load(paths["ids.npy"]), remap)
    assert main(["prune", *given]) == 2
    assert main(["prune", *given, "--counts", paths["words.counts"], "--per-line"]) == 2
