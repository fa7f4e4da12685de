"""Batches of texts of any kind, on any number of threads, have the ids of the texts one by one."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bpe
from bpe.base._cpu import get_vector_level, set_vector_level
from bpe.base.utf8 import to_bytes
from bpe.encode import _batch
from bpe.encode.engine import Engine

#: The vector level to restore.
VECTORS = get_vector_level()

#: Characters of one to four bytes of UTF-8, surrogates, and the first and last character of each kind.
EDGES = "a~\x7f\x80é\xff\u0100\u07ff\u0800가\ud7ff\ud800\udbff\udc00\udfff\ue000\uffff\U00010000😊\U0010ffff"
SYLLABLES = ["low", "lower ", " ", "\n", "é", "가나 ", "猫", "😊", "\ud800", "1"]


@pytest.mark.parametrize("level", [0, 3])
def test_transcoding_a_str_equals_pythons_utf8(level: int, hooks: Any) -> None:
    if set_vector_level(level) != level:
        pytest.skip("this machine lacks these vector instructions")

    @given(st.text(st.sampled_from(EDGES) | st.characters(), max_size=60), st.sampled_from(EDGES[3:]))
    def check(text: str, wide: str) -> None:
        text += wide  # so that the text is not ASCII
        assert hooks.utf8(text) == to_bytes(text)

    check()
    for begin in range(4):  # so that blocks of the transcoder end within surrogate pairs
        text = "é" * (65_536 - begin) + "\ud83d\ud83d\ude00\ud83d\ude00" * 3 + "猫" * 65_536
        assert hooks.utf8(text) == to_bytes(text)
    set_vector_level(VECTORS)


def texts_of(number: int) -> list[str | bytes]:
    """Texts of all widths, empty, short, and longer than a block of the transcoder, some of them bytes."""
    choose = random.Random(number)
    texts: list[str | bytes] = []
    for _ in range(60):
        words = choose.choices(SYLLABLES, k=choose.randint(1, 9))
        text = "".join(words) * choose.choice([0, 1, 1, 1, 2, 50, 3000])
        texts.append(text if choose.random() < 0.7 else to_bytes(text))
    return [*texts, "가나 low " * 60_000, "low é " * 50_000]


@pytest.mark.parametrize("merges", [0, 20])
def test_batches_of_texts_of_all_widths(merges: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without merges, there are more ids than the initial buffer holds."""
    monkeypatch.setattr(_batch, "MAX_PART_BYTES", 2000)
    monkeypatch.setattr(_batch, "MIN_PART_BYTES", 100)
    tok = bpe.train(texts=["low lower lowest 가나 나가 é猫"] * 3, num_merges=merges)
    texts = texts_of(merges)
    expected = [tok.encode(to_bytes(text)).tolist() for text in texts]
    for threads in (1, 2, 5):
        assert tok.encode_batch(texts, threads=threads).to_list() == expected


def test_text_without_spaces_is_divided_among_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """It can be split at its newlines."""
    monkeypatch.setattr(_batch, "MAX_PART_BYTES", 2000)
    monkeypatch.setattr(_batch, "MIN_PART_BYTES", 100)
    tok = bpe.train(texts=["猫である。名前"] * 3, num_merges=20)
    text = "吾輩は猫である。\n名前はまだ無い。\n" * 3000
    for variant in (text, text.encode(), "\U0001f431猫" + text):
        job = _batch.EncodeJob(tok._engine.encoder, 2)
        job.add_items([variant], np.array([0, 1], dtype=np.int64))
        assert job.prepare() > 20
        assert tok.encode_batch([variant], threads=2)[0].tolist() == tok.encode(to_bytes(variant)).tolist()


def test_a_str_is_divided_where_split_points_are_far_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the characters that are converted together, and with surrogate pairs, which become one character."""
    monkeypatch.setattr(_batch, "MAX_PART_BYTES", 2000)
    monkeypatch.setattr(_batch, "MIN_PART_BYTES", 100)
    tok = bpe.train(texts=["low lower 가나"] * 3, num_merges=10)
    for distance in (1022, 1023, 1024, 1025, 5000):
        for filler in ("1", "é1", "\ud83d\ude001", "\ud83d1"):
            text = "가" + f"{filler * (distance // len(filler))}low\n" * 30
            job = _batch.EncodeJob(tok._engine.encoder, 2)
            job.add_items([text], np.array([0, 1], dtype=np.int64))
            assert job.prepare() > (10 if "\ud83d" not in filler else 0)
            assert tok.encode_batch([text], threads=2)[0].tolist() == tok.encode(to_bytes(text)).tolist()


@pytest.mark.parametrize("joined", [1 << 18, 100, 0])
def test_special_tokens_are_found_wherever_they_are_in_a_batch(joined: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts are searched together: also the last one, bytes, long ones and a subclass of str."""
    monkeypatch.setattr(bpe.encode.engine, "_MAX_JOINED_CHARS", joined)
    tok = bpe.train(
        texts=["low lower"] * 3, num_merges=5, special_tokens=["<|end|>", "<a>", "<b>", "<c>", "<d>", "<e>"]
    )

    class Text(str):
        __slots__ = ()

    for number in (1, 15, 16, 17, 40):
        for at in {0, number // 2, number - 1}:
            for special in ("low<|end|>", b"low<|end|>", Text("low<|end|>"), "low " * 50 + "<e>", "<|en", ""):
                texts: list[str | bytes] = ["d|>low"] * number
                texts[at] = special
                expected = [tok.encode(text, allowed_special="all").tolist() for text in texts]
                assert tok.encode_batch(texts, allowed_special="all", threads=1).to_list() == expected


def test_changing_a_result_does_not_affect_others() -> None:
    """Results of this size may share memory with the output buffer, or be copied from it."""
    tok = bpe.train(texts=["low lower lowest"], num_merges=3)
    text = "low lower\n" * 30_000
    short = tok.encode(text[:100]).tolist()
    expected = short * (len(tok.encode(text)) // len(short))
    results = []
    for _ in range(3):
        results.append(tok.encode(text))
        assert tok.encode(text[:100]).tolist() == short
    for result in results:
        assert result.tolist() == expected
        result[:] = 0


def encode_alternated(hooks: Any, engine: Engine, texts: list[str], workers: int) -> list[int]:
    """As that many threads do that are equally fast."""
    job = _batch.EncodeJob(engine.encoder, workers)
    job.add_items(list(texts), np.arange(len(texts) + 1, dtype=np.int64))
    assert job.prepare() >= 3 * workers
    hooks.work_alternated(job, workers)
    ids, _, _ = job.result()
    return ids.tolist()


def test_threads_share_the_words_of_one_table(hooks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short, middle and long words, with one id to many: no thread gets a wrong one from another.

    In tables that are full and replaced again and again, and in one that has room for all.
    """
    monkeypatch.setattr(_batch, "MAX_PART_BYTES", 4000)
    monkeypatch.setattr(_batch, "MIN_PART_BYTES", 1000)
    choose = random.Random(3)
    syllables = ["low", "er", "st", "é", "a", "q", "zz"]
    words = ["".join(choose.choices(syllables, k=choose.randint(1, 12))) for _ in range(6000)]
    tok = bpe.train(texts=["low lower lowest zz"] * 3, num_merges=12)
    texts = [" ".join(choose.choices(words, k=40)) for _ in range(800)]
    expected = [tok.encode(text).tolist() for text in texts]
    flat = [token for ids in expected for token in ids]
    for cache_memory in (1 << 16, 32 << 20):
        engine = Engine(tok.spec, cache_memory=cache_memory)
        assert engine.encode_batch(texts, 3).to_list() == expected
    engine = Engine(tok.spec)
    for _ in range(2):
        assert encode_alternated(hooks, engine, texts, 3) == flat
    known = hooks.cache_state(engine.encoder)
    assert known["words"] + known["long"] + known["rejected"] > 0.99 * len(set(" ".join(texts).split()))


#: How many first ids of a text are wanted: around the pieces that a scan or a chunk takes at once, and any number.
WANTED = (1, 2, 7, 63, 64, 65, 448, 512, 513, 3000, 1 << 31)


def draw_long_texts(number: int) -> list[str | bytes]:
    """Draw texts of a few thousand tokens, of all widths, some with special tokens and long words."""
    choose = random.Random(number)
    parts = [*SYLLABLES, "lowest", "가나가나나가가나 ", "猫である", "<e>", "x" * 90, "\t\t", "  ", "🙂" * 9]
    texts: list[str | bytes] = ["", "low", "lowest <e><e> low"]
    for length in (3, 60, 500, 700, 3000, 9000):
        text = "".join(choose.choices(parts, k=length))
        texts += [text, to_bytes(text), " low" * length, "가나 나가" * length]
    return texts


@pytest.mark.parametrize(
    "kind", ["bytes", "no merges", "normalized", "whole words", "marked", "superwords", "boundless"]
)
def test_the_first_ids_of_texts_are_those_of_whole_texts(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is left out after them; texts are divided in stretches and among threads."""
    monkeypatch.setattr(_batch, "MAX_PART_BYTES", 8000)
    monkeypatch.setattr(_batch, "MIN_PART_BYTES", 500)
    corpus = ["low lower lowest 가나 나가 é猫である the low of the low of"] * 3
    options: dict[str, Any] = {
        "no merges": {"num_merges": 0},
        "normalized": {"normalizer": bpe.normalizers.Lowercase(), "vocab_size": 300},
        "whole words": {"pretokenizer": None, "vocab_size": 300},
        "marked": {"model": "char", "end_of_word": "</w>", "unk_token": "<unk>", "vocab_size": 60},
        "superwords": {"vocab_size": 300, "superwords": bpe.SuperWords(280)},
    }.get(kind, {"vocab_size": 300})
    train = bpe.research.train_boundless if kind == "boundless" else bpe.train
    engine = train(texts=corpus, special_tokens=["<e>"], **options)._engine
    for names in (frozenset(), frozenset(["<e>"])):
        texts: list[Any] = draw_long_texts(len(names) + len(kind))
        if kind == "marked":
            texts = [text for text in texts if isinstance(text, str)]
        expected = engine.encode_batch(texts, 1, names).to_list()
        for wanted in WANTED:
            for threads in (1, 3):
                found = engine.encode_batch(texts, threads, names, max_ids=wanted).to_list()
                for ids, whole_ids in zip(found, expected, strict=True):
                    assert ids[:wanted] == whole_ids[:wanted]
                    assert len(ids) >= min(wanted, len(whole_ids))


def test_ids_that_are_not_wanted_are_not_computed() -> None:
    tok = bpe.train(texts=["low lower 가나"] * 3, vocab_size=270)
    for text in (" low" * 100_000, "가나 나가" * 50_000, "low\n" * 100_000):
        for wanted in (1, 100, 1000):
            n_ids = len(tok._engine.encode_batch([text] * 9, 1, max_ids=wanted).ids)
            assert 9 * wanted <= n_ids < 9 * (2 * wanted + 64)
    assert len(tok.encode_batch([" low" * 1000]).ids) == len(tok.encode(" low" * 1000))  # no later call has the limit


def test_unknown_symbols_among_the_wanted_ids_are_errors() -> None:
    tok = bpe.train(texts=["low lower"] * 3, model="char", vocab_size=20)
    texts = ["low " * 1000, "low " * 20 + "é" + "low " * 1000, "low "]
    for wanted in (90, 1000, 5000):
        with pytest.raises(ValueError, match="'é'"):
            tok._engine.encode_batch(texts, 1, max_ids=wanted)
    assert tok._engine.encode_batch(texts, 1, max_ids=5)[1][:5].tolist() == tok.encode("low " * 9)[:5].tolist()
