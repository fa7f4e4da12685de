"""Parity-aware training gives the merges of its definition, and those of Hugging Face's trainer."""

from __future__ import annotations

import json
import logging
import random
from collections import UserDict, deque
from pathlib import Path
from typing import Any

import pytest
import reference
from options import from_reference_options
from strategies import SOAK, TIE_BREAKS, interrupt_at

import bpe
from bpe.base.memory_limits import measure_memory
from bpe.training import trainer as learning

pytestmark = pytest.mark.usefixtures("quiet")

Counts = dict[str, int]

#: Options that are refused.
WRONG_OPTIONS = [
    ({"ratios": {"a": 0.0}}, r"ratios\['a'\] is 0.0; it must be a number above 0"),
    ({"ratios": {"a": float("inf")}}, "must be a number above 0"),
    ({"ratios": [1.0]}, "ratios is .*; it must map each language"),
    ({"ratios": {"a": 1.0}, "dev": {"a": bpe.WordCounts()}}, "at most one of them"),
    ({"dev": {"a": {"word": 1}}}, r"dev\['a'\] is .*; it must be a bpe.WordCounts"),
    ({"window_size": 0}, "window_size is 0; it must be"),
    ({"alpha": -1.0}, "alpha is -1.0; it must be a number above 0"),
    ({"global_merges": -1}, "global_merges is -1; it must be"),
]


# The definition -------------------------------------------------------------------------------------------------------


def spell(word: str, options: dict[str, Any]) -> tuple[Any, ...]:
    """A word's initial symbols."""
    if options.get("model") == "char":
        return reference.char_word(word, options.get("end_of_word"), options.get("end_of_word_glued", False))
    return reference.byte_word(word.encode())


def length_of(words: list[tuple[tuple[Any, ...], int]]) -> int:
    """The number of tokens."""
    return sum(len(symbols) * count for symbols, count in words)


def choose(
    texts: list[list[Any]], starts: list[int], parity: dict[str, Any], over: set[int], recent: deque[int]
) -> int:
    """The language of the next step, by the definition."""
    candidates = [i for i in range(len(texts)) if i not in over]
    if parity.get("window_size") is not None:
        max_share = parity.get("alpha", 2.0) / len(texts)
        candidates = [i for i in candidates if recent.count(i) / parity["window_size"] <= max_share] or candidates
    lengths = [length_of(words) for words in texts]
    if parity.get("ratios") is None:
        return max(candidates, key=lambda i: (lengths[i], -i))
    ratios = list(parity["ratios"].values())
    return min(candidates, key=lambda i: (starts[i] / lengths[i] / ratios[i], i))


def parity_merges(
    corpus: dict[str, Counts], parity: dict[str, Any], options: dict[str, Any], max_merges: int, ids: dict[Any, int]
) -> list[tuple[Any, Any, int]]:
    """The merges (left, right, count) of the definition: everything is counted anew at each step. `ids` grows."""
    texts = [[(spell(word, options), count) for word, count in words.items()] for words in corpus.values()]
    dev = [
        [(spell(word, options), n) for word, n in parity["dev"][name].items()] for name in corpus if parity.get("dev")
    ]
    starts = [length_of(words) for words in texts]
    over: set[int] = set()
    recent: deque[int] = deque(maxlen=parity.get("window_size"))
    merges: list[tuple[Any, Any, int]] = []
    least = max(options.get("min_frequency", 1), 1)
    while len(merges) < max_merges and len(over) < len(texts):
        everything = len(merges) < parity.get("global_merges", 0)
        if everything:
            rng, counts = None, reference.pair_counts([word for words in texts for word in words])
        else:
            rng = choose(dev or texts, starts, parity, over, recent)
            counts = reference.pair_counts(texts[rng])
        longest = options.get("max_token_length") or 1 << 30
        fits = {pair: n for pair, n in counts.items() if n >= least and len(pair[0] + pair[1]) <= longest}
        if not fits:
            if everything:
                break
            over.add(rng)
            continue
        if rng is not None:
            recent.append(rng)
        tied = [pair for pair, n in fits.items() if n == max(fits.values())]
        left, right = reference.first_of_equals(tied, options.get("tie_break", "id"), ids)
        merges.append((left, right, fits[left, right]))
        ids[left + right] = len(ids)
        for each in (texts, dev):
            each[:] = [[(reference.merge_all(w, left, right), n) for w, n in words] for words in each]
    return merges


def random_corpus(rng: random.Random) -> dict[str, Counts]:
    """Words of two to four languages, which share letters and some words."""
    shared = ["ab", "aaaa", "abab"]
    corpus = {}
    for name in "xyzw"[: rng.randint(2, 4)]:
        letters = rng.choice(["ab", "abc", "bcd", "éa", "cd"])
        corpus[name] = {
            "".join(rng.choices(letters, k=rng.choice((1, 2, 3, 5, 8, 13)))): rng.randint(1, 9)
            for _ in range(rng.randint(1, 6))
        }
        if rng.random() < 0.5:
            corpus[name][rng.choice(shared)] = rng.randint(1, 20)
    return corpus


def random_options(rng: random.Random, corpus: dict[str, Counts]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(Keyword arguments of `train_parity`, with counts as dicts; options of `train`)."""
    parity: dict[str, Any] = {"global_merges": rng.choice((0, 0, 3, 100))}
    kind = rng.choice(("corpus", "dev", "ratios"))
    if kind == "dev":
        parity["dev"] = dict(zip(corpus, rng.sample([*random_corpus(rng).values()] * 4, len(corpus)), strict=True))
    if kind == "ratios":
        parity["ratios"] = {name: rng.choice((0.5, 1.0, 3)) for name in corpus}
    if rng.random() < 0.5:
        parity |= {"window_size": rng.choice((1, 3, 10)), "alpha": rng.choice((0.4, 1.0, 2.0))}
    options: dict[str, Any] = {"tie_break": rng.choice(TIE_BREAKS), "min_frequency": rng.choice((0, 1, 4))}
    if rng.random() < 0.2:
        options["max_token_length"] = rng.randint(2, 5)
    if rng.random() < 0.3:
        options["model"] = "char"
        if rng.random() < 0.5:
            options |= {"end_of_word": "_", "end_of_word_glued": rng.random() < 0.5}
            options.pop("max_token_length", None)
    return parity, options


def counts_of(words: Counts, options: dict[str, Any]) -> bpe.WordCounts:
    counts = bpe.WordCounts("whitespace" if options.get("model") == "char" else "gpt2")
    counts.update(words)
    return counts


def trained(corpus: dict[str, Counts], parity: dict[str, Any], **options: Any) -> tuple[bpe.Tokenizer, list[Any]]:
    calls: list[Any] = []
    counts = {name: counts_of(words, options) for name, words in corpus.items()}
    if parity.get("dev"):
        parity = parity | {"dev": {name: counts_of(words, options) for name, words in parity["dev"].items()}}
    tok = bpe.research.train_parity(
        counts=counts, on_merge=lambda *merge: calls.append(merge), **parity, **from_reference_options(**options)
    )
    return tok, calls


@pytest.mark.parametrize("seed", range(6))
def test_merges_are_those_of_the_definition(seed: int) -> None:
    """Forty-two random corpora, more in a soak test, with all options, until no pair is left."""
    rng = random.Random(seed)
    for _ in range(7 * SOAK):
        corpus = random_corpus(rng)
        parity, options = random_options(rng, corpus)
        max_merges = rng.choice((5, 200))
        tok, calls = trained(corpus, parity, num_merges=max_merges, **options)
        ids = {
            token: token_id for token, token_id in tok.vocab().items() if token_id < tok.vocab_size - len(tok.merges)
        }
        expected = parity_merges(corpus, parity, options, max_merges, ids)
        assert [(left, right, count) for _, left, right, _, count in calls] == expected, (corpus, parity, options)
        assert tok.vocab() == ids
        assert tok.spec.training is not None
        assert tok.spec.training.merges == len(expected)


def test_every_way_through_the_kernel_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads, 32-bit symbols, little memory and the filter change nothing."""
    rng = random.Random(7)
    corpus = {
        name: {"".join(rng.choices(letters, k=rng.randint(1, 12))): rng.randint(1, 30) for _ in range(300)}
        for name, letters in (("a", "abcd"), ("b", "cdefg"), ("c", "xy"))
    }
    parity = {"global_merges": 20, "window_size": 10, "alpha": 1.2}
    expected, merges = trained(corpus, parity, num_merges=400)
    for tuning in (
        {"max_dense_tokens": 0},
        {"wide_from_tokens": 300},
        {"min_cells": 1, "parallel_threshold": 1, "threads": 3},
        {"memory": 1 << 14},
    ):
        monkeypatch.setattr(learning, "tuning_for_tests", tuning)
        assert trained(corpus, parity, num_merges=400) == (expected, merges)


# Hugging Face's trainer -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dev", "ratios", "corpus", "window", "global"])
def test_hugging_faces_trainer_learns_the_same(kind: str) -> None:
    tokenizers = pytest.importorskip("tokenizers", minversion="0.23.2")
    if not hasattr(tokenizers.trainers, "ParityBpeTrainer"):
        pytest.skip("this release of tokenizers has no ParityBpeTrainer")
    rng = random.Random(kind)
    languages = ("en", "de", "ru")
    texts = {}
    for name, letters in zip(languages, ("abcdefg", "abcxyzö", "бвгдежз"), strict=True):
        stems = ["".join(rng.choices(letters, k=rng.randint(2, 6))) for _ in range(25)]
        texts[name] = [
            " ".join(rng.choice(stems) + rng.choice(["", "a", "ab", "б"]) for _ in range(8)) for _ in range(40)
        ]
    parallel = {name: lines[::-1][:10] for name, lines in texts.items()}
    theirs: dict[str, Any] = {"num_merges": 120, "show_progress": False}
    ours: dict[str, Any] = {}
    given: dict[str, Any] = {}
    if kind in ("dev", "window", "global"):
        given["dev_iterators"] = [iter(parallel[name]) for name in languages]
        ours["dev"] = {name: bpe.count_words(texts=parallel[name], pretokenizer="whitespace") for name in languages}
    if kind == "ratios":
        given["ratio"] = [1.0, 1.5, 0.7]
        ours["ratios"] = dict(zip(languages, given["ratio"], strict=True))
    if kind == "window":
        theirs |= {"variant": "window", "window_size": 10, "alpha": 1.1}
        ours |= {"window_size": 10, "alpha": 1.1}
    if kind == "global":
        theirs["global_merges"] = ours["global_merges"] = 30
    peer = tokenizers.Tokenizer(tokenizers.models.BPE())
    peer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    trainer = tokenizers.trainers.ParityBpeTrainer(**theirs)
    trainer.train_from_iterator(peer, [iter(texts[name]) for name in languages], **given)
    rules = bpe.MergeRules(tie_break="greatest")
    tok = bpe.research.train_parity(texts=texts, model="char", num_merges=120, rules=rules, **ours)
    merges = [(tok.token_bytes(left).decode(), tok.token_bytes(right).decode()) for left, right in tok.merges.tolist()]
    assert [tuple(pair) for pair in json.loads(peer.to_str())["model"]["merges"]] == merges
    assert tok.vocab() == dict(sorted(peer.get_vocab().items(), key=lambda item: item[1]))


# The corpus, limits and checkpoints -----------------------------------------------------------------------------------

TEXTS = {
    "en": ["the cat and the hat\n", "lower, lowest and newest\n"] * 9,
    "ko": ["고양이와 모자\n", "가장 새로운 고양이\n"] * 4,
    "ru": ["кот и шляпа\n", "самый новый кот\n"] * 5,
}
PARITY: dict[str, Any] = {"ratios": {"en": 1.0, "ko": 1.2, "ru": 1.1}, "global_merges": 4}


def files_of(folder: Path) -> dict[str, Path]:
    paths = {}
    for name, texts in TEXTS.items():
        paths[name] = folder / f"{name}.txt"
        paths[name].write_text("".join(texts), encoding="utf-8", newline="")
    return paths


def test_files_texts_counts_threads_and_memory_give_the_same(tmp_path: Path) -> None:
    joined_texts = {name: ["".join(texts)] for name, texts in TEXTS.items()}
    expected = bpe.research.train_parity(texts=joined_texts, vocab_size=320, **PARITY, threads=1)
    counts = {name: bpe.count_words(texts=texts) for name, texts in joined_texts.items()}
    counts_before = {name: dict(each.items()) for name, each in counts.items()}
    assert bpe.research.train_parity(files=files_of(tmp_path), vocab_size=320, **PARITY, threads=2) == expected
    assert bpe.research.train_parity(counts=counts, vocab_size=320, **PARITY) == expected
    assert {name: dict(each.items()) for name, each in counts.items()} == counts_before
    assert bpe.research.train_parity(texts=joined_texts, vocab_size=320, **PARITY, max_memory="3G") == expected
    with pytest.raises(ValueError, match="max_memory"):
        bpe.research.train_parity(
            texts=joined_texts, vocab_size=320, **PARITY, max_memory=measure_memory() + (66 << 20)
        )
    sizes = bpe.research.train_parity(texts=joined_texts, vocab_size=[320, 290], **PARITY)
    assert sizes == [expected, expected.truncate_vocab(290)[0]]
    assert sizes[1] == bpe.research.train_parity(texts=joined_texts, vocab_size=290, **PARITY)


@pytest.mark.parametrize("form", ["files", "texts"])
def test_an_interrupted_training_resumes(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus: Any = files_of(tmp_path) if form == "files" else TEXTS
    options: dict[str, Any] = {form: corpus, "num_merges": 60, **PARITY}
    expected = bpe.research.train_parity(**options)
    path = tmp_path / "run.ckpt"

    with pytest.raises(KeyboardInterrupt):
        bpe.research.train_parity(**options, checkpoint=path, on_merge=interrupt_at(25))
    if form == "files":
        monkeypatch.setattr("bpe.training.job.fill_from_corpus", None)  # must not be called
    steps: list[int] = []
    tok = bpe.research.train_parity(**options, checkpoint=path, on_merge=lambda step, *_: steps.append(step))
    assert tok == expected
    assert steps == list(range(26, 61))
    assert tok.spec.training is not None
    assert expected.spec.training is not None
    assert tok.spec.training.curve == expected.spec.training.curve
    with pytest.raises(ValueError, match=r"was made with parity=.*but parity="):
        bpe.research.train_parity(**options | {"ratios": None}, checkpoint=path)


def test_a_language_without_pairs_leaves_its_turns_to_the_others() -> None:
    corpus = {"a": {"a": 1000}, "b": {"bcbcbc": 2}}
    tok, calls = trained(corpus, {}, num_merges=9)
    assert [merge[3] for merge in calls] == [b"bc", b"bcbc", b"bcbcbc"]
    assert tok.spec.training is not None
    assert tok.spec.training.stopped == "no pairs left"
    tok, _ = trained(corpus, {}, num_merges=9, min_frequency=3)
    assert tok.spec.training is not None
    assert (tok.spec.training.stopped, tok.spec.training.merges) == ("min_frequency", 2)


# Wrong arguments ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parity", "message"),
    WRONG_OPTIONS,
)
def test_wrong_options_are_refused(parity: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        bpe.research.train_parity(texts=TEXTS, vocab_size=300, **parity)


def test_corpora_without_languages_are_refused() -> None:
    ratios = {"a": 1.0, "b": 1.0}
    for corpus, message in (
        ({"texts": ["text"]}, "texts is .*; it must map each language to its own texts"),
        ({"texts": {}}, "it must map each language"),
        ({"texts": {1: ["text"]}}, "the name of a language must be a str"),
        ({"counts": {"a": None, "b": bpe.WordCounts()}}, "counts of 'a' is None; it must map each language"),
        ({"texts": {"a": ["text"]}}, "ratios has the languages 'a', 'b', the corpus has 'a'; they must be the same"),
        ({"texts": {"a": ["text"], "b": []}}, "language 'b': the corpus has no words"),
        ({"counts": {"a": bpe.WordCounts("o200k"), "b": bpe.WordCounts()}}, "counts of 'b' in the corpus were made"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            bpe.research.train_parity(**corpus, vocab_size=300, ratios=ratios)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="rules has a veto function"):
        bpe.research.train_parity(texts=TEXTS, vocab_size=300, rules=bpe.MergeRules(veto=lambda *_: False))


def test_training_without_ratios_or_a_development_text_warns(caplog: pytest.LogCaptureFixture) -> None:
    corpus = {"en": ["the cat and the hat"] * 9, "ko": ["고양이와 모자"]}
    with caplog.at_level(logging.WARNING, "bpe"):
        bpe.research.train_parity(texts=corpus, vocab_size=260, ratios={"en": 1.0, "ko": 1.0})
        assert not caplog.messages
        bpe.research.train_parity(texts=corpus, vocab_size=260)
    assert "neither dev nor ratios is given, so the language with the longest corpus chooses" in caplog.messages[0]


class ChangingMapping(UserDict[str, Any]):
    """A mapping that has another value for each language after it was read once."""

    def __getitem__(self, name: str) -> Any:
        value, self.data[name] = self.data[name], "changed"
        return value


@pytest.mark.parametrize("name", ["dev", "counts", "texts", "ratios"])
def test_what_is_checked_of_a_mapping_is_what_is_used(name: str) -> None:
    texts = {"en": ["the cat and the hat"] * 9, "ko": ["고양이와 모자"]}
    counts = {language: bpe.count_words(texts=lines) for language, lines in texts.items()}
    values: dict[str, Any] = {"dev": counts, "counts": counts, "texts": texts, "ratios": {"en": 1.0, "ko": 1.0}}
    options = {name: values[name]} if name in ("counts", "texts") else {name: values[name], "texts": texts}
    expected = bpe.research.train_parity(**options, vocab_size=260)
    assert bpe.research.train_parity(**{**options, name: ChangingMapping(values[name])}, vocab_size=260) == expected
