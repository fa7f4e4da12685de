"""PickyBPE: the naive trainer's events and counts, and the naive encoder's tokens."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import picky as naive
import pytest
from hypothesis import given
from hypothesis import strategies as st
from merge_rules import RecordingVeto, draw_rules, draw_words, make_veto
from peers import Peer
from strategies import SOAK, interrupt_at

import bpe
from bpe import plots
from bpe.cli import main
from bpe.encode.engine import Engine
from bpe.formats.huggingface import write
from bpe.merge._replay import EventMerger
from bpe.merge.tables import EventList, SymbolTables
from bpe.text.letters import map_letters_to_bytes
from bpe.vocab.events import Events
from bpe.vocab.vocabulary import NO_TOKEN

tokenizers: Any = Peer("tokenizers")

pytestmark = pytest.mark.usefixtures("quiet")

LETTERS = ["ab", "abc", "abcd ", "a", "xyzwé", "한국어日本 ", "日本語一二三"]
THRESHOLDS = [0.01, 0.1, 0.3, 0.5, 0.6, 0.8, 0.9, 1.0]
WORDS = {"lower": 9, "lowest": 8, "slowly": 1, "newest": 6, "widest": 3, "lowlow": 2, "aaaa": 4, "日本語": 3}

#: Arguments that are refused.
REFUSED_ARGUMENTS = [
    ({"vocab_size": [300, 400]}, r"vocab_size is \[300, 400\]; with deletions"),
    ({"rules": bpe.MergeRules(tie_break="first")}, "tie_break is 'first'; with deletions"),
    ({"unk_token": "<unk>"}, "for byte models"),
    ({"model": "char"}, "for byte models"),
    ({"end_of_word": "</w>"}, "for byte models"),
    ({"max_memory": "20G", "vocab_size": 100}, "it must be at least 256"),
]


def text_of(rng: random.Random, letters: str, most: int) -> str:
    return "".join(rng.choice(letters) for _ in range(rng.randint(1, most)))


def words_of(rng: random.Random, letters: str) -> dict[str, int]:
    """Up to 14 random words, with counts that tie often."""
    most = rng.choice([4, 8, 16])
    return {text_of(rng, letters, most): rng.choice([1, 2, 3, rng.randint(1, 40)]) for _ in range(rng.randint(1, 14))}


def events_of(tok: bpe.Tokenizer) -> list[tuple[bytes, bytes] | bytes]:
    """The events of a tokenizer as its file lists them, in bytes."""
    letters = map_letters_to_bytes()

    def as_bytes(name: str) -> bytes:
        return bytes(letters[letter] for letter in name)

    listed = json.loads(write(tok.spec))["model"]["events"]
    return [(as_bytes(each[0]), as_bytes(each[1])) if isinstance(each, list) else as_bytes(each) for each in listed]


def without_counts(events: list[naive.Event]) -> list[tuple[bytes, bytes] | bytes]:
    return [event if isinstance(event, bytes) else event[:2] for event in events]


@pytest.mark.parametrize("seed", range(20 * SOAK))
def test_training_and_encoding_against_the_oracle(seed: int) -> None:
    """The same events, counts and ids, and the same tokens of other texts, from the cache and in batches too."""
    rng = random.Random(seed)
    letters = rng.choice(LETTERS)
    words, threshold = words_of(rng, letters), rng.choice(THRESHOLDS)
    min_frequency, longest = rng.choice([1, 1, 1, 2, 3]), rng.choice([None, None, 3, 6])
    tie_break: Any = rng.choice(["id", "smallest", "greatest"])
    specials = rng.choice([[], ["ab"], ["<s>"]])
    size = rng.choice([2, 5, 10, 30])
    counts: list[int] = []
    tok = bpe.research.train_picky(
        threshold,
        counts=words,
        vocab_size=256 + len(specials) + size,
        pretokenizer=None,
        special_tokens=specials,
        min_frequency=min_frequency,
        alphabet=bpe.Alphabet(first_id=rng.choice([0, 3])),
        on_merge=lambda step, left, right, token, count: counts.append(count),
        rules=bpe.MergeRules(max_token_length=longest, tie_break=tie_break),
    )
    expected = naive.learn(
        {word.encode(): count for word, count in words.items()},
        size,
        threshold,
        specials=tuple(name.encode() for name in specials),
        least=min_frequency,
        longest=longest,
        tie_break=tie_break,
    )
    assert events_of(tok) == without_counts(expected.events)
    assert counts == [event[2] for event in expected.events if isinstance(event, tuple)]
    assert [*tok.vocab()][256 + len(specials) :] == [token for token in expected.made if token in expected.live]
    texts = [text_of(rng, letters, most) for most in (1, 3, 9, 30, 200)] + list(words)
    tokens = [naive.encode(text.encode(), expected.events) for text in texts]
    for _ in range(2):
        assert [[tok.token_bytes(token_id) for token_id in tok.encode(text).tolist()] for text in texts] == tokens
    batch = tok.encode_batch(texts, threads=2)
    assert [[tok.token_bytes(token_id) for token_id in ids.tolist()] for ids in batch] == tokens
    assert [tok.tokens(text) for text in texts] == tokens
    assert tok.decode_batch(batch) == texts


@given(
    st.dictionaries(st.text("ab", min_size=1, max_size=20), st.integers(1, 4), min_size=1, max_size=8),
    st.integers(1, 30),
    st.sampled_from(THRESHOLDS),
)
def test_runs_of_equal_tokens(words: dict[str, int], merges: int, threshold: float) -> None:
    """Two letters: many merges of a token with itself, and tokens that are deleted and made again."""
    counts: list[int] = []
    tok = bpe.research.train_picky(
        threshold,
        counts=words,
        num_merges=merges,
        pretokenizer=None,
        on_merge=lambda step, left, right, token, count: counts.append(count),
    )
    expected = naive.learn({word.encode(): count for word, count in words.items()}, 0, threshold, num_merges=merges)
    assert events_of(tok) == without_counts(expected.events)
    assert counts == [event[2] for event in expected.events if isinstance(event, tuple)]
    for text in [*words, "abbaab" * 9]:
        assert tok.tokens(text) == naive.encode(text.encode(), expected.events)


@pytest.mark.parametrize("seed", range(20 * SOAK))
def test_rules_against_the_oracle(seed: int) -> None:
    """The same events with rules, of which a function sees the same pairs and counts."""
    rng = random.Random(f"rules {seed}")
    asked, naive_veto = (RecordingVeto(rng.choice([2, 3, 7])) if seed % 2 else None for _ in range(2))
    if asked is not None and naive_veto is not None:
        naive_veto.modulus = asked.modulus
    words, rules = draw_words(rng), draw_rules(rng, asked)
    threshold, merges = rng.choice(THRESHOLDS), rng.choice([3, 10, 40])
    tok = bpe.research.train_picky(
        threshold, counts=words, num_merges=merges, pretokenizer=None, threads=1, rules=rules
    )
    byte_words: dict[bytes, int] = {}
    for word, count in words.items():
        byte_words[word.encode()] = count
    veto = make_veto(replace(rules, veto=naive_veto))
    expected = naive.learn(byte_words, 0, threshold, num_merges=merges, veto=veto)
    assert events_of(tok) == without_counts(expected.events)
    assert (asked is None) or (naive_veto is not None and asked.calls == naive_veto.calls)


@pytest.fixture
def tok() -> bpe.Tokenizer:
    trained = bpe.research.train_picky(0.6, counts=WORDS, vocab_size=268, pretokenizer=None, special_tokens=["<s>"])
    assert len(trained.spec.events.deletions) > 3  # type: ignore[union-attr]
    return trained


def test_encoding_is_the_segmentation_of_the_training() -> None:
    """The corpus has as many tokens at the end of the training as encoding gives; text is cut into pretokens."""
    texts = ["the lower the slower", "the lowest of the low", "slowly the newest widens"] * 3
    tok = bpe.research.train_picky(0.8, texts=texts, vocab_size=270)
    assert tok.spec.training is not None
    assert tok.spec.training.curve[-1][2] == sum(map(len, texts)) / sum(tok.count_tokens(text) for text in texts)
    assert tok.spec.training.merges == tok.vocab_size - 256 + sum(
        1 for event in events_of(tok) if isinstance(event, bytes)
    )


def test_saved_and_loaded(tok: bpe.Tokenizer, tmp_path: Path) -> None:
    """The same tokenizer comes back; stock `tokenizers` refuses the file, other formats refuse the tokenizer."""
    path = tmp_path / "tokenizer.json"
    tok.save(path)
    assert json.loads(path.read_text(encoding="utf-8"))["model"]["type"] == "bpe.PickyBPE"
    for back in (bpe.Tokenizer.load(path), pickle.loads(pickle.dumps(tok))):
        assert back == tok
        assert back.encode("slowest lower").tolist() == tok.encode("slowest lower").tolist()
    with pytest.raises(Exception, match="variant"):
        tokenizers.Tokenizer.from_file(str(path))
    for name in ("tiktoken", "vocab-merges", "tekken"):
        with pytest.raises(ValueError, match=r"cannot hold|PickyBPE|events"):
            tok.save(tmp_path / "other", format=name)
    other = bpe.research.train_picky(1.0, counts=WORDS, vocab_size=268, pretokenizer=None)
    assert other.fingerprint != tok.fingerprint
    assert "events" in {each.field for each in bpe.diff(tok, other).tokenizers}


def test_files_offsets_and_added_tokens(tok: bpe.Tokenizer, tmp_path: Path) -> None:
    """What is built on encoding: files, streams, offsets, special tokens, truncation."""
    text = "slowest lower <s> widest 日本語"
    (tmp_path / "text").write_text(text, encoding="utf-8")
    ids = tok.encode(text)
    assert tok.encode_files(tmp_path / "text").ids.tolist() == ids.tolist()
    assert np.concatenate(list(tok.encode_stream([text[:7], text[7:]]))).tolist() == ids.tolist()
    ids_with_offsets, spans = tok.encode_with_offsets(text, unit="byte")
    assert ids_with_offsets.tolist() == ids.tolist()
    assert [text.encode()[start:end] for start, end in spans.tolist()] == tok.tokens(text)
    assert tok.truncate(text, 3) == tok.decode(ids[:3])
    chat = tok.with_tokens(special=["<user>"], added=["日本"])
    assert chat.encode("lower<user>", allowed_special="all").tolist() == [*tok.encode("lower"), chat.n_vocab - 2]
    assert chat.tokens("slowest") == tok.tokens("slowest")
    assert chat.without_tokens(["<user>", "日本"])[0] == tok


def test_explained(tok: bpe.Tokenizer) -> None:
    """Every event that changes a word, deletions too; the last line has the ids that encoding gives."""
    for word in [*WORDS, "slowestlow"]:
        lines = tok.explain(word).split("\n")
        assert lines[-1].split()[1:] == [str(token_id) for token_id in tok.encode(word).tolist()]
    small = bpe.research.train_picky(counts={"lower": 9, "lowest": 8, "slowly": 1}, vocab_size=259)
    assert "  low -> l o w  (event 4, deletion)    s l o w l y" in small.explain("slowly")


def test_what_is_refused(tok: bpe.Tokenizer) -> None:
    """What changes merges one by one has no meaning with deletions."""
    calls: list[Callable[[], object]] = [
        lambda: tok.truncate_vocab(260),
        lambda: tok.without_tokens([260]),
        lambda: bpe.prune(tok, 260, texts=["low"]),
        lambda: bpe.research.adapt(tok, 260, texts=["low"]),
        lambda: bpe.extend(tok, {"low": 1}, 500),
        lambda: plots.show_merges(tok, "low"),
        lambda: tok.encode("low", dropout=0.1),
        lambda: tok.encode_batch(["low"], dropout=0.1),
        tok.unreachable,
    ]
    for call in calls:
        with pytest.raises(ValueError, match="is not defined for a PickyBPE model"):
            call()


@pytest.mark.parametrize(
    ("options", "message"),
    REFUSED_ARGUMENTS,
)
def test_refused_arguments(options: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"texts": ["a b"], "vocab_size": 300}
    with pytest.raises((TypeError, ValueError), match=message):
        bpe.research.train_picky(**(given | options))


@pytest.mark.parametrize("threshold", [0, -1, 1.1, float("nan"), "0.9", None, True])
def test_refused_thresholds(threshold: Any) -> None:
    with pytest.raises(ValueError, match="it must be a number above 0 and at most 1"):
        bpe.research.train_picky(threshold, texts=["a b"], vocab_size=300)


def test_memory_is_checked_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit that the training may not fit in is refused before any merge."""
    monkeypatch.setattr("bpe.research.picky.BYTES_PER_SYMBOL", 1 << 40)
    with pytest.raises(ValueError, match=r"max_memory is .*training with deletions tracks every pair"):
        bpe.research.train_picky(counts=WORDS, vocab_size=260, max_memory="2G")


def test_checkpoint(tmp_path: Path) -> None:
    """A training that is interrupted goes on from its checkpoint, with the same threshold only."""
    options: dict[str, Any] = {"counts": WORDS, "vocab_size": 268, "checkpoint": tmp_path / "saved"}

    with pytest.raises(KeyboardInterrupt):
        bpe.research.train_picky(0.6, on_merge=interrupt_at(7), **options)
    with pytest.raises(ValueError, match="made with deletions="):
        bpe.research.train_picky(0.7, **options)
    resumed = bpe.research.train_picky(0.6, **options)
    del options["checkpoint"]
    assert resumed == bpe.research.train_picky(0.6, **options)


def test_ends_early() -> None:
    for min_frequency, reason in ((1, "no pairs left"), (3, "min_frequency")):
        tok = bpe.research.train_picky(counts={"abab": 2, "cd": 9}, vocab_size=400, min_frequency=min_frequency)
        assert tok.spec.training is not None
        assert tok.spec.training.stopped == reason
        assert tok.tokens("cd") == [b"cd"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"events": None}, "it is null|it is None"),
        ({"events": {}}, "it must be an? (array|list)"),
        ({"events": [["l", "o"], 3]}, r"events\[1\].*is not an event"),
        ({"events": [["l", "o", "w"]]}, "is not an event"),
        ({"events": [["l", 1]]}, "is not an event"),
        ({"events": [["l", "zzz"]]}, "is neither in the vocab nor made"),
        ({"events": ["l"]}, "these must ascend"),
        ({"events": [["l", "o"], "e"]}, "which it is no part of"),
        ({"events": [["l", "o"], "l"]}, "only a token that a merge has made"),
        ({"events": [["l", "o"]]}, "the vocabulary must have the tokens that the events leave|does not exist"),
        ({"events": [["l", "o"], ["lo", "w"], "lo", ["lo", "w"]]}, "does not exist then"),
        ({"merges": [["l", "o"]]}, "must|its merges in events"),
        ({"end_of_word": "</w>"}, "byte model without end_of_word"),
        ({"ignore_merges": True}, "no ignore_merges"),
        ({"dropout": 0.5}, "dropout"),
        ({"type": "bpe.BPE"}, "events' is not known"),
        ({"type": "bpe.BoundlessBPE"}, "events' is not known"),
        ({"word_merges": 1}, "word_merges' is not known"),
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


@pytest.mark.parametrize("seed", range(24 * SOAK))
def test_events_at_random(tok: bpe.Tokenizer, tmp_path: Path, seed: int) -> None:
    """Events left out, doubled or in another order give a tokenizer that encodes by them, or FormatError."""
    rng, path = random.Random(seed), tmp_path / "tokenizer.json"
    value = json.loads(write(tok.spec))
    events = value["model"]["events"]
    for _ in range(rng.randint(1, 2)):
        at, other = rng.randrange(len(events)), rng.randrange(len(events))
        if seed % 3 == 0:
            events[at], events[other] = events[other], events[at]
        elif seed % 3 == 1:
            events.insert(at, events[other])
        else:
            del events[at]
    path.write_text(json.dumps(value), encoding="utf-8")
    try:
        back = bpe.Tokenizer.load(path)
    except bpe.FormatError:
        return
    listed: list[naive.Event] = [e if isinstance(e, bytes) else (*e, 0) for e in events_of(back)]
    for text in [*WORDS, "slowlylowest"]:
        assert back.tokens(text) == naive.encode(text.encode(), listed)


def test_events_are_checked(tok: bpe.Tokenizer) -> None:
    """A spec with events of other types and shapes, and the kernel's own checks."""
    events = tok.spec.events
    assert events is not None
    with pytest.raises(TypeError, match=r"events\.pairs is int64"):
        Events(events.pairs.astype(np.int64), events.results, events.deletions)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"events\.deletions is int32 of shape"):
        Events(events.pairs, events.results, events.deletions[:, :1])
    with pytest.raises(TypeError, match="a list; it must be a bpe"):
        bpe.Tokenizer(replace(tok.spec, events=[]))  # type: ignore[arg-type]
    results = events.results.copy()
    results[0] = 0
    with pytest.raises(ValueError, match="which does not spell"):
        bpe.Tokenizer(replace(tok.spec, events=Events(events.pairs, results, events.deletions)))
    engine = Engine(replace(tok.spec, events=None))
    merges, width = engine.merger.merges, np.ones(tok.n_vocab, dtype=np.uint32)
    symbols = SymbolTables(engine.symbols.inner_ids, engine.symbols.last_ids, NO_TOKEN, NO_TOKEN, False, False)
    one, none = np.zeros(1, dtype=np.int32), np.zeros(0, dtype=np.int32)
    starts = np.array([0, 1])
    for wrong, message in (
        (EventList(one, one, starts, one + 10**6, width), "splits have tokens from"),
        (EventList(one, one, starts, one, width[:3]), "lengths of"),
        (EventList(one + 1, one, starts, one, width), "do not have the indices"),
        (EventList(one, one, starts, one, width * 0), "a token has no symbol"),
        (EventList(one, one, starts, one, width * 2), "the token of a symbol has more than one symbol"),
        (EventList(one, one, np.array([0, 2]), np.zeros(2, dtype=np.int32), width), "changes the number of symbols"),
        (EventList(none, none, starts, one, width), "there are 2 offsets"),
        (EventList(one, one, np.array([0, 5]), one, width), "offset 1 is 5"),
    ):
        with pytest.raises(ValueError, match=message):
            EventMerger(merges, symbols, wrong)


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "corpus").write_text("the lower the slower the lowest " * 9, encoding="utf-8")
    out = tmp_path / "tokenizer.json"
    trained = bpe.research.train_picky(0.8, files=tmp_path / "corpus", vocab_size=266)
    trained.save(out)
    assert bpe.Tokenizer.load(out) == trained
    assert main(["info", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "PickyBPE" in printed
    assert "deletion" in printed
