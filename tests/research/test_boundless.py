"""BoundlessBPE and its SuperBPE variant: the naive trainer's merges and counts, and the naive encoder's ids."""

from __future__ import annotations

import json
import pickle
import random
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import boundless as naive
import numpy as np
import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st
from peers import Peer
from strategies import SOAK

import bpe
from bpe.cli import main
from bpe.count.spilling import Spill
from bpe.count.word_counts import WordCounts
from bpe.plots import show_merges
from bpe.research import runs
from bpe.training import trainer
from bpe.training.config import TrainConfig
from bpe.training.job import TrainingJob
from bpe.training.train import train_plain_or_superwords
from bpe.vocab.spec import TokenizerSpec

tokenizers: Any = Peer("tokenizers")

pytestmark = pytest.mark.usefixtures("quiet")

PATTERNS = (r"\p{L}", bpe.research.PAPER_ELIGIBLE)
WORDS = ["the", "of", "and", "a", "in", "to", "is", "it", "by", "sea", "can't", "don't", "x1", "é", "한국", "日本"]
WORDS += [".", ",", "!?", "12", "345", "aaaa", "--", "\n", "\n\n", " ", "\t"]
#: Tunings of the kernel that reach each of its paths.
TUNINGS = (
    {},
    {"max_dense_tokens": 0, "memory": 1 << 12, "ratio": 2},
    {"max_dense_tokens": 0, "wide_from_tokens": 257, "threads": 2, "min_cells": 1, "parallel_threshold": 1},
    {"ratio": 1},
)

#: Arguments that are refused.
REFUSED_ARGUMENTS = [
    ({"vocab_size": None, "num_merges": 3}, "needs a vocab_size of at least 1; num_merges is 3"),
    ({"vocab_size": [300, 400], "transition": 310}, "at least 310; it is 300"),
    ({"rules": bpe.MergeRules(tie_break="first")}, "always takes the smallest pair"),
    ({"unk_token": "<unk>"}, "unknown token"),
    ({"eligible": "("}, "pattern"),
    ({"texts": iter(["a"])}, "can be read only once"),
    ({"texts": None, "counts": {"a": 1}}, "must be a tuple of two bpe.WordCounts"),
]


@pytest.fixture
def tuned(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets one of the tunings."""
    return lambda token_id: monkeypatch.setattr(trainer, "tuning_for_tests", TUNINGS[token_id % len(TUNINGS)])


def is_eligible(pattern: str) -> Callable[[bytes], bool]:
    """Whether a token is UTF-8 and has a match of the pattern."""

    def check(token: bytes) -> bool:
        try:
            return regex.search(pattern, token.decode()) is not None
        except UnicodeDecodeError:
            return False

    return check


def text_of(rng: random.Random, n: int, words: list[str]) -> str:
    """A text of n words, most of them with a space before the next one."""
    return "".join(rng.choice(words) + rng.choice(["", " ", " ", " "]) for _ in range(n))


def documents_of(text: str, pretokenizer: bpe.Pretokenizer, specials: list[str]) -> list[list[bytes]]:
    """The pretokens of each part of a text between special tokens."""
    parts = re.split("|".join(map(re.escape, specials)), text) if specials else [text]
    return [pretokenizer.split_bytes(part) for part in parts]


def merges_of(tok: bpe.Tokenizer) -> list[tuple[bytes, bytes]]:
    """The merges as pairs of byte strings."""
    return [(tok.token_bytes(left), tok.token_bytes(right)) for left, right in tok.merges.tolist()]


def pairs(merges: list[naive.Merge]) -> list[tuple[bytes, bytes]]:
    return [(left, right) for left, right, _ in merges]


@pytest.mark.parametrize("seed", range(15 * SOAK))
def test_training_and_encoding_against_the_oracle(seed: int, tuned: Callable[[int], None], tmp_path: Path) -> None:
    """The same merges and counts in both phases, and the same tokens of another text."""
    rng = random.Random(seed)
    tuned(seed)
    words, pattern = rng.sample(WORDS, rng.randint(3, len(WORDS))), rng.choice(PATTERNS)
    pretokenizer = bpe.Pretokenizer(rng.choice(["gpt2", "cl100k", "o200k", "whitespace"]))
    specials: list[str] = rng.choice([[], ["<|x|>", "by"], ["<s>"]])
    texts = ["by the sea", *(text_of(rng, rng.randint(1, 40), words + specials) for _ in range(5))]
    documents = [part for text in texts for part in documents_of(text, pretokenizer, specials)]
    base = 256 + len(specials)
    transition = rng.choice([None, None, base + rng.randint(0, 30)])
    size, min_frequency = (transition or base) + rng.randint(0, 40), rng.choice([1, 1, 2])
    names = [name.encode() for name in specials]
    expected = naive.train(documents, size, transition, is_eligible(pattern), names, min_frequency)
    counts: list[int] = []
    corpus: dict[str, Any] = {"texts": texts}
    if seed % 2:
        (tmp_path / "corpus").write_text("\0".join(texts), newline="", encoding="utf-8")
        corpus = {"files": bpe.Sources(tmp_path / "corpus", separator="\0")}
    tok = bpe.research.train_boundless(
        transition,
        eligible=pattern,
        **corpus,
        vocab_size=size,
        pretokenizer=pretokenizer,
        special_tokens=specials,
        min_frequency=min_frequency,
        alphabet=bpe.Alphabet(first_id=rng.choice([0, 3])),
        threads=1 + seed % 2,
        on_merge=lambda step, left, right, token, count: counts.append(count),
    )
    n = tok.spec.n_merges_within_words
    assert merges_of(tok)[:n] == pairs(expected.word_merges)
    assert merges_of(tok)[n:] == pairs(expected.super_merges)
    assert counts[len(counts) - len(expected.super_merges) :] == [count for _, _, count in expected.super_merges]
    assert counts[:n] == [count for _, _, count in expected.word_merges]
    if not specials:
        text = text_of(rng, 60, words)
        tokens = naive.encode(pretokenizer.split_bytes(text), expected)
        assert [tok.token_bytes(token_id) for token_id in tok.encode(text).tolist()] == tokens


@pytest.mark.parametrize("seed", range(6 * SOAK))
def test_seeds_rules_sizes_and_counts(seed: int, tuned: Callable[[int], None]) -> None:
    """Seeds come first and stay, refused merges are not made, and each size and the counts give the same tokenizers."""
    rng = random.Random(f"options {seed}")
    tuned(seed)
    pretokenizer = bpe.Pretokenizer(rng.choice(["gpt2", "cl100k"]))
    words = rng.sample(WORDS, rng.randint(3, len(WORDS)))
    texts = ["by the sea", *(text_of(rng, rng.randint(1, 40), words) for _ in range(5))]
    documents = [pretokenizer.split_bytes(text) for text in texts]
    merges = [(b"t", b"h"), (b"th", b"e"), (b" ", b"the"), (b"q", b"q")][: rng.choice([0, 2, 4])]
    rules = rng.choice([None, bpe.MergeRules(max_words=2), bpe.MergeRules(forbidden=("e t", "sea"))])
    transition = rng.choice([None, 262 + rng.randint(0, 20)])
    sizes = [(transition or 262) + rng.randint(0, 30) for _ in range(rng.randint(1, 3))]

    def refused(left: bytes, right: bytes) -> bool:
        limits = rules if rules is not None else bpe.MergeRules()
        token = left + right
        many = limits.max_words is not None and len([part for part in token.split(b" ") if part]) > limits.max_words
        return many or any(each.encode() in token for each in limits.forbidden)

    options: dict[str, Any] = {
        "transition": transition,
        "pretokenizer": pretokenizer,
        "seeds": bpe.research.Seeds(merges=merges),
        "rules": rules,
    }
    found = bpe.research.train_boundless(texts=texts, vocab_size=sizes, **options)
    for size, tok in zip(sizes, found, strict=True):
        expected = naive.train(documents, size, transition, is_eligible(PATTERNS[0]), (), 1, merges, refused)
        n = tok.spec.n_merges_within_words
        assert merges_of(tok)[:n] == pairs(expected.word_merges)
        assert merges_of(tok)[n:] == pairs(expected.super_merges)
        assert tok.spec.training is not None
        assert tok.spec.training.merges == len(tok.merges)
        counts = counts_in_parts(texts, size, options)
        assert bpe.research.train_boundless(counts=counts, vocab_size=size, **options) == tok


def counts_in_parts(texts: list[str], size: int, options: dict[str, Any]) -> tuple[WordCounts, WordCounts]:
    """The counts of both phases, each counted in two parts."""
    first, other = (
        bpe.count_words(texts=part, pretokenizer=options["pretokenizer"]) for part in (texts[:3], texts[3:])
    )
    first |= other
    transition = options["transition"] or size
    words = bpe.research.train_boundless(counts=first, vocab_size=transition, **(options | {"transition": transition}))
    second, other = (bpe.research.count_runs(words, texts=part) for part in (texts[:3], texts[3:]))
    second |= other
    return first, second


def test_runs_are_counted_apart_for_their_words_only() -> None:
    """Counts of runs need the tokenizer of the first phase, and are refused with another one."""
    texts = ["by the sea, by the way"] * 3
    first = bpe.count_words(texts=texts)
    words, few = (bpe.research.train_boundless(size, counts=first, vocab_size=size) for size in (268, 258))
    assert words.spec.n_merges_within_words == len(words.merges)
    runs = bpe.research.count_runs(words, texts=texts)
    assert dict(runs.items()) == {b"by\xff the\xff sea\xff": 3, b" by\xff the\xff way\xff": 3}
    assert len(bpe.research.count_runs(few, texts=texts)) == 0
    plain = bpe.train(texts=texts, vocab_size=300)
    for wrong, message in (
        (None, "tok is None; runs of words depend on the word phase"),
        (plain, "was not trained with bpe.research.train_boundless"),
        (bpe.research.train_boundless(texts=texts, vocab_size=268), "has merges across words"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            bpe.research.count_runs(wrong, texts=texts)  # type: ignore[arg-type]
    for size, counts, message in (
        (258, (first, runs), "not one eligible token each after the word phase"),
        (268, (first, first), "words of documents, and this needs those of runs"),
        ([258, 268], (first, runs), "has runs of words of one size"),
        (268, first, "must be a tuple of two"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            bpe.research.train_boundless(counts=counts, vocab_size=size)  # type: ignore[arg-type]
    empty = bpe.research.count_runs(words, texts=["1 2"])
    alone = bpe.research.train_boundless(counts=(first, empty), vocab_size=268)
    assert alone.merges.tolist() == words.merges.tolist()


@given(
    st.dictionaries(st.text("ab", min_size=1, max_size=20), st.integers(1, 4), min_size=1, max_size=8),
    st.integers(0, 12),
)
def test_pairs_are_counted_without_overlap(words: dict[str, int], merges: int) -> None:
    """Runs of one letter: the naive trainer's merges and counts, in every path of the kernel."""
    byte_words = {tuple(bytes([byte]) for byte in word.encode()): count for word, count in words.items()}
    expected, _ = naive.learn(byte_words, merges, [])
    for tuning in TUNINGS:
        found: list[naive.Merge] = []
        config = TrainConfig(
            counts=words,
            pretokenizer=None,
            num_merges=merges,
            rules=bpe.MergeRules(tie_break="smallest"),
            on_merge=partial(lambda found, _, left, right, __, count: found.append((left, right, count)), found),
            count_non_overlapping=True,
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(trainer, "tuning_for_tests", tuning)
            TrainingJob(config, trainer.learn_merges).run(partial(train_plain_or_superwords, None))
        assert found == expected


# Encoding -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tok() -> bpe.Tokenizer:
    """A tokenizer with merges across words in several scripts."""
    rng = random.Random(7)
    texts = [text_of(rng, 60, WORDS) for _ in range(40)]
    trained = bpe.research.train_boundless(texts=texts, vocab_size=460, special_tokens=["<s>"])
    assert len(trained.merges) - trained.spec.n_merges_within_words > 30
    return trained


@pytest.fixture(scope="module")
def naive_model(tok: bpe.Tokenizer) -> naive.TrainedModel:
    """Its merges for the naive encoder."""
    merges, n = [(left, right, 0) for left, right in merges_of(tok)], tok.spec.n_merges_within_words
    return naive.TrainedModel(merges[:n], merges[n:])


@given(st.lists(st.one_of(st.sampled_from(WORDS), st.sampled_from([" ", " the", " of the"]), st.text(max_size=3))))
def test_every_way_to_encode(tok: bpe.Tokenizer, naive_model: naive.TrainedModel, words: list[str]) -> None:
    """Batches, streams, offsets, counting and truncating agree with the naive encoder, and decoding gives the text."""
    text = "".join(words)
    data = text.encode("utf-8", "replace")
    expected = naive.encode(bpe.Pretokenizer("gpt2").split_bytes(text), naive_model)
    ids = tok.encode(text)
    assert [tok.token_bytes(token_id) for token_id in ids.tolist()] == expected == tok.tokens(text)
    assert tok.decode_bytes(ids) == b"".join(expected)
    assert [row.tolist() for row in tok.encode_batch([text, "", text])] == [ids.tolist(), [], ids.tolist()]
    assert tok.count_tokens(text) == len(ids)
    parts = [text[offset : offset + 5] for offset in range(0, len(text), 5)]
    assert [token_id for part in tok.encode_stream(parts) for token_id in part.tolist()] == ids.tolist()
    again, spans = tok.encode_with_offsets(data, unit="byte")
    assert again.tolist() == tok.encode(data).tolist()
    assert b"".join(data[start:end] for start, end in spans.tolist()) == data
    for most in (0, 1, len(ids) // 2):
        assert tok.count_tokens(tok.truncate(text, most)) <= most


@pytest.mark.parametrize(
    "text", ["the " * 3000, " of the" * 3000, "the\n" * 3000, "a" * 5000, " the end" * 999 + "x" * 300]
)
def test_long_runs(tok: bpe.Tokenizer, naive_model: naive.TrainedModel, text: str, tmp_path: Path) -> None:
    """Runs of thousands of words, also where blocks of a file, or a stream, would be cut."""
    pretokens = bpe.Pretokenizer("gpt2").split_bytes(text)
    expected = tok.encode(text).tolist()
    assert [tok.token_bytes(token_id) for token_id in expected[:50]] == naive.encode(pretokens[:200], naive_model)[:50]
    assert tok.decode(expected) == text
    (tmp_path / "text").write_text(text, newline="", encoding="utf-8")
    assert tok.encode_files(tmp_path / "text", threads=2).ids.tolist() == expected
    parts = [text[offset : offset + 777] for offset in range(0, len(text), 777)]
    assert [token_id for part in tok.encode_stream(parts) for token_id in part.tolist()] == expected


def test_special_tokens_end_runs(tok: bpe.Tokenizer) -> None:
    ids = [*tok.encode(" of the").tolist(), 0, *tok.encode(" of the").tolist()]
    assert tok.encode(" of the<s> of the", allowed_special="all").tolist() == ids
    assert tok.encode_batch([" of the<s> of the"], allowed_special="all")[0].tolist() == ids
    batch = tok.encode_batch([" of", " the"], prepend="<s>")
    assert [row.tolist() for row in batch] == [[0, *tok.encode(" of").tolist()], [0, *tok.encode(" the").tolist()]]


def test_encoding_of_a_corpus(corpus: Callable[[str, int], bytes], tmp_path: Path) -> None:
    """On real text, one document and many: the naive encoder's tokens."""
    text = corpus("english", 20_000).decode()
    (tmp_path / "text").write_text(text, newline="", encoding="utf-8")
    trained = bpe.research.train_boundless(files=tmp_path / "text", vocab_size=800)
    merges, n = [(left, right, 0) for left, right in merges_of(trained)], trained.spec.n_merges_within_words
    naive_model = naive.TrainedModel(merges[:n], merges[n:])
    lines = text.splitlines(keepends=True)[:60]
    for line, ids in zip(lines, trained.encode_batch(lines), strict=True):
        expected = naive.encode(bpe.Pretokenizer("gpt2").split_bytes(line), naive_model)
        assert [trained.token_bytes(token_id) for token_id in ids.tolist()] == expected
    assert trained.encode_files(tmp_path / "text", threads=2).ids.tolist() == trained.encode(text).tolist()


# The file, and what is refused ----------------------------------------------------------------------------------------


def test_saved_and_loaded(tok: bpe.Tokenizer, tmp_path: Path) -> None:
    """The same tokenizer comes back; stock `tokenizers` refuses the file."""
    path = tmp_path / "tokenizer.json"
    tok.save(path)
    assert json.loads(path.read_text(encoding="utf-8"))["model"]["type"] == "bpe.BoundlessBPE"
    for back in (bpe.Tokenizer.load(path), pickle.loads(pickle.dumps(tok))):
        assert back == tok
        assert back.encode("by the sea of the end").tolist() == tok.encode("by the sea of the end").tolist()
    with pytest.raises(Exception, match="variant"):
        tokenizers.Tokenizer.from_file(str(path))
    assert tok != bpe.Tokenizer(replace(tok.spec, n_merges_within_words=None))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"word_merges": -1}, r"word_merges in files\) is -1; it must be from 0"),
        ({"word_merges": "3"}, "it is '3'; it must be"),
        ({"word_merges": 10**6}, "it must be from 0 to the number of merges"),
        ({"word_merges": None}, "must be"),
        ({"end_of_word": "</w>"}, "need a byte model without end_of_word"),
        ({"ignore_merges": True}, "need a byte model"),
        ({"dropout": 0.5}, "need a byte model"),
        ({"type": "bpe.BPE"}, "word_merges' is not known"),
        ({"unk_token": "<s>"}, "must|need"),
    ],
)
def test_damaged_files(tok: bpe.Tokenizer, tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = tmp_path / "tokenizer.json"
    tok.save(path)
    value = json.loads(path.read_text(encoding="utf-8"))
    value["model"].update(change)
    path.write_text(json.dumps(value), encoding="utf-8")
    with pytest.raises(bpe.FormatError, match=message):
        bpe.Tokenizer.load(path)


def test_supertokens_are_made_once_and_in_order(tok: bpe.Tokenizer) -> None:
    """A spec whose supertokens are made twice, or used before they are made, is refused."""
    spec, n = tok.spec, tok.spec.n_merges_within_words
    order = np.r_[:n, len(spec.merges) - 1 : n - 1 : -1]
    with pytest.raises(ValueError, match="each must make a new token"):
        bpe.Tokenizer(replace(spec, merges=spec.merges[order], merge_results=spec.merge_results[order]))
    for offset in (0, n):
        order = np.r_[: len(spec.merges), offset]
        with pytest.raises(ValueError, match="each must make a new token"):
            bpe.Tokenizer(replace(spec, merges=spec.merges[order], merge_results=spec.merge_results[order]))


def _without_a_word(spec: TokenizerSpec) -> TokenizerSpec:
    """The tokenizer without the merge that makes the first word of its first supertoken; all tokens stay."""
    assert spec.n_merges_within_words is not None
    kept = spec.merge_results != spec.merges[spec.n_merges_within_words, 0]
    return replace(
        spec,
        merges=spec.merges[kept],
        merge_results=spec.merge_results[kept],
        n_merges_within_words=spec.n_merges_within_words - 1,
    )


def test_smaller_and_larger_vocabularies(tok: bpe.Tokenizer) -> None:
    """Truncating and pruning keep the levels apart; what is not defined is refused."""
    n = tok.spec.n_merges_within_words
    words = tok.truncate_vocab(257 + n)[0]
    assert words.spec.n_merges_within_words == n == len(words.merges)
    assert words.tokens("by the sea") == [b"by", b" the", b" sea"]
    shorter = tok.truncate_vocab(tok.vocab_size - 5)[0]
    assert merges_of(shorter) == merges_of(tok)[:-5]
    pruned, _ = tok.without_tokens([int(tok.spec.merge_results[n])])
    assert merges_of(pruned)[:n] == merges_of(tok)[:n]
    assert pruned.spec.n_merges_within_words == n
    assert tok.unreachable().tolist() == []
    assert int(tok.spec.merge_results[n]) in bpe.Tokenizer(_without_a_word(tok.spec)).unreachable().tolist()
    with pytest.raises(ValueError, match="cannot be extended"):
        bpe.extend(tok, {"a": 1}, 500)
    for call in (tok.explain, partial(show_merges, tok)):
        with pytest.raises(ValueError, match="within words only"):
            call("by the sea")
    with pytest.raises(ValueError, match=r"dropout=0\.1"):
        tok.encode("by the sea", dropout=0.1)
    with pytest.raises(ValueError, match="n_merges_within_words: "):
        tok.save("out.tiktoken")


@pytest.mark.parametrize(
    ("options", "message"),
    REFUSED_ARGUMENTS,
)
def test_refused_arguments(options: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"texts": ["a b"], "vocab_size": 300}
    with pytest.raises((TypeError, ValueError), match=message):
        bpe.research.train_boundless(**(given | options))
    with pytest.raises(TypeError, match="transition is None"):
        bpe.SuperWords(None)  # type: ignore[arg-type]


def test_ends_early_and_progress(caplog: pytest.LogCaptureFixture) -> None:
    """A corpus that runs out of pairs, and one without runs; progress of both phases."""
    stages: list[str] = []
    tok = bpe.research.train_boundless(
        texts=["by the sea"] * 3,
        vocab_size=400,
        progress=lambda each: stages.append(each.stage),
    )
    assert tok.spec.training is not None
    assert tok.spec.training.stopped == "no pairs left"
    assert tok.tokens("by the sea") == [b"by the sea"]
    assert tok.spec.training.merges == len(tok.merges)
    alone = bpe.research.train_boundless(texts=["abab", "12 12"], vocab_size=300)
    assert alone.spec.n_merges_within_words == len(alone.merges)
    assert alone.tokens("abab abab") == [b"abab", b" ", b"abab"]


def test_checkpoint_of_the_word_phase(tmp_path: Path) -> None:
    """A training that is interrupted in the second phase goes on from the checkpoint of the first."""
    rng = random.Random(3)
    texts = [text_of(rng, 50, WORDS) for _ in range(20)]
    options: dict[str, Any] = {"texts": texts, "vocab_size": 420}

    def stop(step: int, left: bytes, right: bytes, token: bytes, count: int) -> None:
        if b" " in token[1:]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bpe.research.train_boundless(**options, checkpoint=tmp_path / "saved", on_merge=stop)
    resumed = bpe.research.train_boundless(**options, checkpoint=tmp_path / "saved")
    assert resumed == bpe.research.train_boundless(**options)


def test_runs_that_do_not_fit_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are spilled to disk once they exceed `max_memory`; the tokenizer is the same."""
    rng = random.Random(11)
    texts = [text_of(rng, 200, WORDS) for _ in range(30)]
    (tmp_path / "corpus").write_text("\0".join(texts), newline="", encoding="utf-8")
    spills: list[int] = []
    add = Spill.add
    monkeypatch.setattr(Spill, "add", lambda spill, table: (spills.append(len(table)), add(spill, table)))
    monkeypatch.setattr(runs, "BYTES_PER_STEP_LIMITED", 2000)
    monkeypatch.setattr(runs, "MIN_MEMORY", 1 << 40)  # leaves no memory for tables
    expected = bpe.research.train_boundless(texts=texts, vocab_size=420)
    assert not spills
    corpora: tuple[tuple[dict[str, Any], int], ...] = (
        ({"texts": texts}, 5),
        ({"files": bpe.Sources(tmp_path / "corpus", separator="\0")}, 1),
    )
    for corpus, min_spills in corpora:
        assert bpe.research.train_boundless(**corpus, vocab_size=420, max_memory="4G") == expected
        assert len(spills) >= min_spills
        spills.clear()


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "tokenizer.json"
    bpe.research.train_boundless(texts=[text_of(random.Random(5), 2000, WORDS)], vocab_size=400).save(out)
    assert main(["info", str(out)]) == 0
    assert "across words" in capsys.readouterr().out


def test_eligible_tokens() -> None:
    """The default takes any letter, the paper's pattern no digits or punctuation and no single letter."""
    spec: TokenizerSpec = bpe.train(
        counts={"ab": 3, " x1": 2, "_a": 2, "1-": 2, "don't": 2, "é": 9}, num_merges=12, pretokenizer=None
    ).spec

    def found(pattern: str) -> set[bytes]:
        return {spec.vocabulary[token_id] for token_id in runs.find_eligible_tokens(spec, pattern).tolist()}

    letters, paper = (found(pattern) for pattern in PATTERNS)
    assert {b"ab", b" x1", b"_a", b"don't", b"a", "é".encode()} <= letters
    assert b"1-" not in letters
    assert {b"ab", b"_a", b"don't"} <= paper < letters
    assert not paper & {b" x1", b"a", "é".encode()}
