"""The kernels of the engine, each compared with a naive twin: split filter, long pieces, cache, chunks, threads."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import cache, partial
from itertools import count, pairwise, product
from typing import Any

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

import bpe
from bpe.base._cpu import LEVELS, get_vector_level, set_vector_level
from bpe.base._visitor import Visitor
from bpe.base.threads import map_unordered, run_threads
from bpe.encode import _batch
from bpe.encode._batch import EncodeJob
from bpe.encode._encoder import Encoder
from bpe.encode._split_filter import SplitFilter
from bpe.encode.engine import Engine
from bpe.evaluation._tally import BY_SPACES, COLUMNS, TokenTally
from bpe.merge._merger import Merger
from bpe.merge.tables import MergeList, SymbolTables, TokenBytes
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.symbols import build_symbol_tables
from bpe.vocab.vocabulary import NO_TOKEN, Vocabulary

#: The vector level to restore.
VECTORS = get_vector_level()

Merge = tuple[int, int]

# Characters whose bytes share prefixes and suffixes, so that many tokens begin or end within a character.
CLOSE = "あいうぁ亜唖가각갂 ab1!\néü😊"


# Vocabularies of merges, in any order ---------------------------------------------------------------------------------


def byte_spec(
    merges: list[Merge], *, ignore_merges: bool = False, extra: tuple[bytes, ...] = (), pretokenizer: str | None = None
) -> TokenizerSpec:
    """A byte model: id i is byte i, then one id for each merge that makes a new token, then extra tokens."""
    tokens = [bytes([byte]) for byte in range(256)]
    ids: list[int] = []
    for left, right in merges:
        token = tokens[left] + tokens[right]
        if token not in tokens:
            tokens.append(token)
        ids.append(tokens.index(token))
    tokens += [token for token in extra if token not in tokens]
    return TokenizerSpec(
        model="byte",
        vocabulary=Vocabulary(enumerate(tokens)),
        merges=np.array(merges, dtype=np.int32).reshape(-1, 2),
        merge_results=np.array(ids, dtype=np.int32),
        pretokenizer=None if pretokenizer is None else bpe.Pretokenizer(pretokenizer),
        ignore_merges=ignore_merges,
    )


def naive(spec: TokenizerSpec, text: bytes) -> list[int]:
    """The ids of a text, merged by the oracle pretoken by pretoken."""
    tokens = dict(spec.vocabulary.items())
    ranks: dict[tuple[bytes, bytes], int] = {}
    for rank, (left, right) in enumerate(spec.merges.tolist()):
        ranks.setdefault((tokens[left], tokens[right]), rank)
    id_of_token = spec.vocabulary.id_of_token
    ids: list[int] = []
    for piece in [text] if spec.pretokenizer is None else spec.pretokenizer.split_bytes(text):
        if spec.ignore_merges and piece in id_of_token:
            ids.append(id_of_token[piece])
        elif piece:
            ids += [id_of_token[symbol] for symbol in reference.encode_word(reference.byte_word(piece), ranks)]
    return ids


WIDE_WORDS = ["가각갂", "각", "あいう" * 7, "亜唖" * 60, " 가각", " 각갂가", "あ a", "!", "갂\n", "é가", "가" * 5]


@pytest.mark.parametrize("pretokenizer", ["gpt2", "cl100k", "o200k", "whitespace", None])
@pytest.mark.parametrize("ignore_merges", [False, True])
def test_short_texts_that_come_again_have_the_ids_of_new_ones(pretokenizer: str | None, ignore_merges: bool) -> None:
    """Their pieces are looked up whole, and split only if the cache does not have them."""
    merges = [(0xEA, 0xB0), (256, 0x80), (256, 0x81), (0xE3, 0x81), (259, 0x82), (260, 0xE3), (32, 257), (257, 258)]
    extra = (" 가각".encode(), "각갂".encode(), "가각".encode(), "亜".encode())
    spec = byte_spec(merges, ignore_merges=ignore_merges, extra=extra, pretokenizer=pretokenizer)
    rng = random.Random(str(pretokenizer))
    texts = ["".join(rng.choices(WIDE_WORDS, k=n)) for n in (1, 1, 2, 3, 5, 5, 8, 13, 13, 30) for _ in range(3)]
    expected = [naive(spec, text.encode()) for text in texts]
    for limit in (32 << 20, 1 << 16):
        tok = bpe.Tokenizer(spec, cache_memory=limit).with_tokens(special=["<|end|>"])
        end = tok.special_tokens["<|end|>"]
        for _ in range(3):
            assert [tok.encode(text).tolist() for text in texts] == expected
            for text, ids in zip(texts, expected, strict=True):
                joined = f"{text}<|end|>{text}<|end|>"
                assert tok.encode(joined, allowed_special="all").tolist() == [*ids, end, *ids, end]
                assert tok.count_tokens(text) == len(ids)


@st.composite
def random_merges(draw: st.DrawFn, ordered: bool) -> list[Merge]:
    """Merges over few bytes. If `ordered`, each merges existing tokens into a new one."""
    bytes_ = draw(st.sampled_from([b"ab", b"abc", "あい亜".encode(), "가각a ".encode()]))
    known = sorted(set(bytes_))
    made: list[Merge] = []
    spelled = {bytes([byte]) for byte in known}
    text = {byte: bytes([byte]) for byte in known}
    for _ in range(draw(st.integers(0, 14))):
        pair = draw(st.sampled_from(known)), draw(st.sampled_from(known))
        token = text[pair[0]] + text[pair[1]]
        if token in spelled or len(token) > 12:
            continue
        spelled.add(token)
        text[256 + len(made)] = token
        known.append(256 + len(made))
        made.append(pair)
    if ordered:
        return made
    order = draw(st.permutations(range(len(made))))
    moved = {256 + old: 256 + new for new, old in enumerate(order)}
    return [(moved.get(made[old][0], made[old][0]), moved.get(made[old][1], made[old][1])) for old in order]


def spec_of_shuffled(merges: list[Merge], drop: set[int]) -> TokenizerSpec:
    """A byte model with merges that may come before the merges of their parts, and without those in `drop`.

    The tokens of dropped merges stay in the vocabulary, but merging never makes them.
    """
    text: dict[int, bytes] = {byte: bytes([byte]) for byte in range(256)}
    while any(256 + i not in text for i in range(len(merges))):
        for i, (left, right) in enumerate(merges):
            if left in text and right in text:
                text[256 + i] = text[left] + text[right]
    kept = [i for i in range(len(merges)) if i not in drop]
    return TokenizerSpec(
        model="byte",
        vocabulary=Vocabulary(sorted(text.items())),
        merges=np.array([merges[i] for i in kept], dtype=np.int32).reshape(-1, 2),
        merge_results=np.array([256 + i for i in kept], dtype=np.int32),
    )


def texts_of(merges: list[Merge]) -> st.SearchStrategy[bytes]:
    bytes_ = sorted({byte for pair in merges for byte in pair if byte < 256}) or [97]
    return st.lists(st.sampled_from(bytes_), max_size=200).map(bytes)


@examples(14)
@given(st.data(), st.booleans(), st.booleans())
def test_any_list_of_merges(data: st.DataObject, ordered: bool, unmerged_words: bool) -> None:
    """Merges in order and out of order, unmerged tokens, short pieces and long ones."""
    merges = data.draw(random_merges(ordered))
    drop = data.draw(st.sets(st.integers(0, 13), max_size=3))
    spec = spec_of_shuffled(merges, drop)
    if unmerged_words:
        object.__setattr__(spec, "ignore_merges", True)
    engine = Engine(spec)
    for text in data.draw(st.lists(texts_of(merges), max_size=4)):
        assert engine.encode(text).tolist() == naive(spec, text)
    for token in data.draw(st.lists(st.sampled_from(sorted(spec.vocabulary.id_of_token)), max_size=4)):
        assert engine.encode(token).tolist() == naive(spec, token)


@examples(14)
@given(st.data(), st.sampled_from([0, 3]))
def test_long_pieces_equal_the_oracle(data: st.DataObject, level: int) -> None:
    """Few letters, so that windows often do not fit together and their last tokens are merged again."""
    merges = data.draw(random_merges(ordered=True))
    spec = byte_spec(merges)
    letters = sorted({byte for pair in merges for byte in pair if byte < 256}) or [97]
    choose = random.Random(data.draw(st.integers(0, 999)))
    text = bytes(choose.choices(letters, k=data.draw(st.integers(60, 700) | st.integers(2049, 2200))))
    if data.draw(st.booleans()):
        period = choose.randint(1, 7)
        text = text[: choose.randint(0, 80)] + text[:period] * (len(text) // period) + text[-choose.randint(1, 80) :]
    try:
        set_vector_level(level)
        assert Engine(spec).encode(text).tolist() == naive(spec, text)
    finally:
        set_vector_level(VECTORS)


@pytest.mark.parametrize("letters", ["ab", "aaaaaab", "abcdefgh"])
def test_long_pieces_with_long_tokens_do_not_depend_on_vectors(letters: str) -> None:
    """Many merges of few letters make long tokens."""
    choose = random.Random(len(letters))
    texts = ["".join(choose.choices(letters, k=200)) for _ in range(200)]
    tok = bpe.train(texts=texts, num_merges=1500, pretokenizer=None)
    short, long = ("".join(choose.choices(letters, k=size)).encode() for size in (700, 20_000))
    assert tok.encode(short).tolist() == naive(tok.spec, short)
    try:
        set_vector_level(0)
        expected = tok.encode(long).tolist()
    finally:
        set_vector_level(VECTORS)
    assert tok.encode(long).tolist() == expected


@pytest.mark.parametrize("seed", range(14))
def test_long_uneven_pieces_do_not_depend_on_vectors(seed: int) -> None:
    """Vocabularies of many sizes, and texts whose letters have different frequencies."""
    choose = random.Random(seed)
    letters = choose.sample("abcdefghijkl", choose.choice([2, 2, 3, 4, 8, 12]))
    texts = ["".join(choose.choices(letters, k=300)) for _ in range(20)]
    tok = bpe.train(texts=texts, num_merges=choose.choice([50, 100, 100, 400]), pretokenizer=None)
    long = ["".join(choose.choices(letters, [choose.random() + 0.01 for _ in letters], k=3000)) for _ in range(20)]
    long += [text[:400] + text[: choose.randint(1, 40)] * 30 + text[:400] for text in long]
    try:
        set_vector_level(0)
        expected = [tok.encode(text).tolist() for text in long]
    finally:
        set_vector_level(VECTORS)
    assert [tok.encode(text).tolist() for text in long] == expected


@examples(14)
@given(st.data())
def test_long_pieces_with_tokens_longer_than_a_window(data: st.DataObject) -> None:
    """A heap merges the whole piece instead of windows. Text of few letters precedes the long token."""
    merges = data.draw(random_merges(ordered=True))
    made = 256 + len(merges)
    chain = [(255, 255), *((made + i, made + i) for i in range(11))]  # two bytes of 0xFF, four, and so on up to 4,096
    spec, whole = byte_spec(merges), byte_spec(merges + chain)
    letters = sorted({byte for pair in merges for byte in pair if byte < 256}) or [97]
    text = bytes(random.Random(data.draw(st.integers(0, 999))).choices(letters, k=data.draw(st.integers(60, 500))))
    run = data.draw(st.integers(1, 5)) * 4096 + data.draw(st.integers(0, 4095))
    expected = [made + 11] * (run // 4096)
    expected += [made + i - 1 if i else 255 for i in range(11, -1, -1) if run % 4096 >> i & 1]
    engine = Engine(whole)
    assert engine.encode(text + b"\xff" * run).tolist() == naive(spec, text) + expected
    assert engine.encode_pretoken(b"\xff" * run) == expected  # starts with an empty output buffer


@examples(7)
@given(st.integers(0, 999), st.sampled_from(["byte", "char"]), st.integers(1, 400))
def test_runs_with_tokens_longer_than_a_row_equal_the_oracle(seed: int, model: Any, longest: int) -> None:
    """Runs of random lengths, or the same one again and again: large windows, equal windows, and passes over runs."""
    choose = random.Random(seed)
    tok = trained_on_runs(model)
    runs = [choose.choice("ab") * choose.randint(1, longest) + "c" * choose.randint(0, 2) for _ in range(60)]
    for text in ("".join(runs), runs[0] * 60, runs[0][:1] * choose.randint(65, 5000)):
        piece = text[: choose.randint(65, 5000)].encode()
        assert tok.encode(piece).tolist() == naive(tok.spec, piece)


@cache
def trained_on_runs(model: Any) -> bpe.Tokenizer:
    choose = random.Random(1)
    texts = ["".join(choose.choice("ab") * choose.randint(1, 300) + "c" for _ in range(9)) for _ in range(30)]
    return bpe.train(texts=texts, num_merges=150, model=model, pretokenizer=None)


@pytest.mark.parametrize("glued", [False, True])
def test_long_words_of_a_character_model_equal_the_oracle(glued: bool) -> None:
    """The model has an end-of-word mark and an unknown token."""
    choose = random.Random(5)
    tok = bpe.train(
        texts=["".join(choose.choices("abcdeé漢", k=9)) for _ in range(300)],
        vocab_size=150,
        model="char",
        pretokenizer=None,
        end_of_word="</w>",
        end_of_word_glued=glued,
        unk_token="<unk>",
    )
    spelled = {token_id: token.decode() for token, token_id in tok.spec.vocabulary.id_of_token.items()}
    spelled[tok.token_id("<unk>")] = "<unk>"
    ranks = {(spelled[left], spelled[right]): rank for rank, (left, right) in enumerate(tok.merges.tolist())}
    for letters in ("abcdeé漢", "abc?", "?", "a"):
        text = "".join(choose.choices(letters, k=900))
        expected = reference.encode_word(reference.char_word(text, "</w>", glued), ranks)
        actual = [spelled[token_id] for token_id in tok.encode(text).tolist()]
        assert actual == ["<unk>" if "?" in token else token for token in expected]


@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize("mark", [{}, {"end_of_word": "</w>"}, {"end_of_word": "</w>", "end_of_word_glued": True}])
def test_words_of_many_windows(mark: dict[str, Any], fuse: bool) -> None:
    """The same ids as the heap gives; one word is compared with the reference too."""
    choose = random.Random(7)
    texts = ["".join(choose.choices("ab", k=40)) + "a" * choose.randrange(70) for _ in range(60)]
    tok = bpe.train(texts=texts, num_merges=100, model="char", pretokenizer=None, unk_token="<unk>", **mark)
    spec = replace(tok.spec, fuse_unk=fuse)
    large = replace(spec, merge_ranks=np.arange(len(spec.merges), dtype=np.int32) + (1 << 26))  # for the heap only
    runs = "a" * 5000 + "?" * 9000 + "ba" * 3000
    words = ["".join(choose.choices(letters, k=9000)) for letters in ("ab", "aaaaaaab", "ab?", "a", "?")]
    words += [runs, "é" * 4095 + "?", *("ab" * 2048 + tail for tail in ("", "a", "é"))]
    actual = [Engine(spec).encode(word).tolist() for word in words]
    assert actual == [Engine(large).encode(word).tolist() for word in words]
    spelled = {token_id: token.decode() for token, token_id in tok.spec.vocabulary.id_of_token.items()}
    ranks = {(spelled[left], spelled[right]): rank for rank, (left, right) in enumerate(tok.merges.tolist())}
    word = reference.char_word("ab" * 2048 + "a", mark.get("end_of_word"), "end_of_word_glued" in mark)
    assert fuse or tuple(spelled[token_id] for token_id in actual[-2]) == tuple(reference.encode_word(word, ranks))


def test_a_token_that_is_never_made_inside_some_words() -> None:
    """`bc` is a token, but `abc` never becomes a + bc, since ab is merged first. The word `bc` is one token."""
    a, b, c = b"abc"
    spec = byte_spec([(a, b), (b, c), (256, c)], extra=(b"abcab", b"cab"), ignore_merges=True)
    engine = Engine(spec)
    for text in (b"abc", b"abcab", b"cab", b"abcabc", b"bcab", b"ccabab", b"cabcabcab" * 20):
        assert engine.encode(text).tolist() == naive(spec, text)


# Split filter ---------------------------------------------------------------------------------------------------------


def held(tokens: list[bytes], text: bytes, place: int) -> bool:
    """Whether some token occurs in a text across a position."""
    for token in tokens:
        for inner in range(1, len(token)):
            start = place - inner
            if start >= 0 and text[start : start + len(token)] == token:
                return True
    return False


LATE_TEXTS = "low lower" * 9, "a" * 3000, "low " * 3000, "猫は無い。" * 400, "吾輩は猫である"


def test_tables_are_built_when_a_text_needs_them(hooks: Any) -> None:
    """A short text in ASCII needs neither the tree of tokens nor the split filter."""
    trained = bpe.train(texts=["low lower lowest 吾輩は猫である。" * 4], vocab_size=330)
    expected_ids = [trained.encode(text).tolist() for text in 2 * LATE_TEXTS][len(LATE_TEXTS) :]
    all_tables = [(False, False), (True, False), (False, False), (False, True), (False, True)]
    for text, ids, expected in zip(LATE_TEXTS, expected_ids, all_tables, strict=True):
        tok = bpe.Tokenizer(trained.spec)
        assert hooks.late_tables(tok._engine.encoder) == (False, False)
        for _ in range(2):
            assert tok.encode(text).tolist() == ids
        assert hooks.late_tables(tok._engine.encoder) == expected, text[:20]
    tok = bpe.Tokenizer(trained.spec)
    assert tok._engine.find_last_split("吾輩は猫である無輩".encode(), 0) > 20
    assert hooks.late_tables(tok._engine.encoder) == (False, True)


def test_threads_build_tables_at_once() -> None:
    trained = bpe.train(texts=["low lower lowest 吾輩は猫である。" * 4], vocab_size=330)
    expected = [trained.encode(text).tolist() for text in LATE_TEXTS]
    for _ in range(10):
        tok, barrier = bpe.Tokenizer(trained.spec), threading.Barrier(4)

        def encode_all(tok: bpe.Tokenizer = tok, barrier: threading.Barrier = barrier) -> list[list[int]]:
            barrier.wait()
            return [tok.encode(text).tolist() for text in LATE_TEXTS]

        with ThreadPoolExecutor(4) as pool:
            for future in [pool.submit(encode_all) for _ in range(4)]:
                assert future.result() == expected


def add_word(split: SplitFilter, word: bytes) -> None:
    """Add all pairs inside a word that must not be split."""
    split.add_words(word, np.array([0, len(word)]), np.array([0]))


@examples(32)
@given(
    st.lists(st.text(alphabet=CLOSE, min_size=1, max_size=3), max_size=6),
    st.text(alphabet=CLOSE, max_size=30),
    st.data(),
)
def test_split_points_are_where_no_token_reaches_across(
    hooks: Any, words: list[str], text: str, data: st.DataObject
) -> None:
    """Tokens are characters, parts of them, and what begins or ends within one."""
    raw = text.encode()
    tokens: list[bytes] = []
    split = SplitFilter()
    for word in words:
        token = word.encode()
        start = data.draw(st.integers(0, min(2, len(token) - 1)))
        end = data.draw(st.integers(start + 1, len(token)))
        tokens.append(token[start:end])
        add_word(split, token[start:end])
    unfolded = set(hooks.split_points(split, raw))
    split.fold()
    actual = hooks.split_points(split, raw)
    assert set(actual) <= unfolded
    for at in actual:
        assert not held(tokens, raw, at)
    if not tokens:  # then any border between characters of three bytes is one to cut at
        chars = np.cumsum([0, *(len(char.encode()) for char in text)]).tolist()
        wide = {b for (a, b), (_, c) in zip(pairwise(chars), pairwise(chars[1:]), strict=False) if b - a == c - b == 3}
        assert set(actual) == unfolded == wide


def test_merges_and_whole_tokens_fill_the_filter_alike(hooks: Any) -> None:
    merges = bpe.train(
        texts=["吾輩は猫である。名前はまだ無い。" * 4, "영화를 영화관에서"], vocab_size=330, pretokenizer=None
    )
    spec = merges.spec
    by_merges, by_tokens = SplitFilter(), SplitFilter()
    by_merges.add_merges(spec.merges, spec.vocabulary.blob, spec.vocabulary.offsets)
    for token in spec.vocabulary.id_of_token:
        add_word(by_tokens, token)
    text = "吾輩は猫である無輩영관화에서を名".encode() * 2
    assert hooks.split_points(by_merges, text) == hooks.split_points(by_tokens, text) != []


@pytest.mark.parametrize("level", sorted(LEVELS))
def test_split_points_of_a_slice(hooks: Any, level: str) -> None:
    """Every level finds those that the filter gives one at a time, in texts of all lengths, wherever words begin."""
    random_ = random.Random(3)
    split = SplitFilter()
    for word in ("あい", "いう", "가각", "각갂唖"):
        add_word(split, word.encode())
    split.fold()
    try:
        set_vector_level(LEVELS[level])
        for size in [*range(200), *range(2300, 2560, 13), 2560]:
            text = "".join(random_.choices(CLOSE, k=size)).encode()[random_.randrange(3) :][:size]
            assert hooks.split_points_of_slice(split, text) == hooks.split_points(split, text)
        text = ("あ" * 900).encode()[:2560]
        assert hooks.split_points_of_slice(split, text) == hooks.split_points(split, text) == list(range(3, 2557, 3))
    finally:
        set_vector_level(VECTORS)


def test_the_filter_refuses_ids_and_offsets_outside_its_tokens() -> None:
    offsets = np.array([0, 3, 6])
    for pair in ((0, 2), (-1, 0)):
        with pytest.raises(ValueError, match=r"merge 1 is of tokens .*; there are 2"):
            SplitFilter().add_merges(np.array([(0, 1), pair], dtype=np.int32), "猫無".encode(), offsets)
    with pytest.raises(ValueError, match="offset 2 is 6 after 3"):
        SplitFilter().add_merges(np.array([(0, 1)], dtype=np.int32), "猫".encode(), offsets)
    for word in (2, -1):
        with pytest.raises(ValueError, match=rf"word {word} is added; there are 2"):
            SplitFilter().add_words("猫無".encode(), offsets, np.array([word]))


def test_a_filter_of_too_many_pairs_is_given_up(hooks: Any) -> None:
    split = SplitFilter()
    for code in range(0x4E00, 0x4E00 + 64):
        for lead in range(0xE0, 0xF0):
            add_word(split, chr(code).encode() + bytes([lead]))
    assert hooks.split_points(split, "日本語猫無".encode()) == []


def test_building_the_filter_runs_no_python_code() -> None:
    """Else a signal handler could raise KeyboardInterrupt in a function without exceptions, and it would be lost."""
    text = "吾輩は猫である無輩".encode() * 9
    encoder = bpe.train(texts=["吾輩は猫である。" * 4], num_merges=9, pretokenizer="gpt2")._engine.encoder
    entered = []
    sys.setprofile(lambda frame, event, _: entered.append(frame.f_code) if event == "call" else None)
    try:
        encoder.find_last_split(text, 0)
    finally:
        sys.setprofile(None)
    assert entered == []
    assert encoder.find_last_split(text, 0) > 0


# Unreachable tokens --------------------------------------------------------------------------------------------------


def test_long_pieces_do_not_depend_on_the_list_of_unmerged_tokens() -> None:
    """`baa` is never made, since `aa` is merged first. One spec wrongly lists no unmerged tokens."""
    spec = byte_spec([(97, 97), (98, 97), (257, 97)], ignore_merges=True)
    ranks = np.arange(3, dtype=np.int32) + (1 << 26)  # too large for a row of a short piece
    text = b"aaaab" * 14
    right = bpe.Tokenizer(replace(spec, merge_ranks=ranks))
    assert right.encode(text).tolist() == naive(spec, text)
    wrong = bpe.Tokenizer(replace(spec, merge_ranks=ranks, unmerged=np.empty(0, dtype=np.int32)))
    assert wrong.encode(text).tolist() == naive(spec, text)


# Cache ----------------------------------------------------------------------------------------------------------------


def make_encoder(spec: TokenizerSpec, memory: int) -> Encoder:
    """Make the encoder of a plain byte model with a cache of a given size."""
    inner, last, _ = build_symbol_tables(spec)
    vocabulary = spec.vocabulary
    merges = MergeList(spec.merges, spec.merge_results, None, vocabulary.limit)
    merger = Merger(merges, SymbolTables(inner, last, NO_TOKEN, NO_TOKEN, False, False))
    encoder = Encoder(merger, TokenBytes(vocabulary.blob, vocabulary.offsets, None, 0), 1, memory)
    encoder.finish()
    return encoder


def many_words(seed: int, n: int) -> bytes:
    """Words of all lengths, with and without characters beyond ASCII, many of them repeated."""
    random_ = random.Random(seed)
    letters = "abcdefgh"
    words = ["".join(random_.choices(letters, k=random_.choice((1, 2, 4, 7, 8, 9, 12, 16, 17, 40)))) for _ in range(n)]
    words += ["".join(random_.choices("あいう가각", k=random_.randint(1, 6))) for _ in range(n // 4)]
    random_.shuffle(words)
    return " ".join(words + words[: n // 2]).encode()


def test_the_first_word_table_is_small_and_the_second_has_the_tokens(hooks: Any) -> None:
    """So that loading does not take the time to enter a vocabulary's tokens, and long texts find them."""
    tok = bpe.train(texts=[many_words(1, 2000).decode()], vocab_size=900, pretokenizer="gpt2")
    encoder, fresh = make_encoder(tok.spec, 32 << 20), partial(make_encoder, tok.spec, 32 << 20)
    assert (hooks.cache_state(encoder)["words"], hooks.cache_state(encoder)["bytes"]) == (0, 1 << 17)
    text = b" ".join(f"w{i}".encode() for i in range(100))
    assert np.array_equal(encoder.encode(text)[0], encoder.encode(text)[0])
    assert 90 <= hooks.cache_state(encoder)["words"] <= 110
    first_words = hooks.cache_state(encoder)["words"]
    words = [f"v{i}".encode() for i in range(5000)]
    expected = [fresh().encode(b" ".join(words[i : i + 500]))[0] for i in range(0, 5000, 500)]
    tokens = b" ".join(token for _, token in tok.spec.vocabulary.items())
    expected_tokens = fresh().encode(tokens)[0]
    for _ in range(2):  # the words of the first table, and the same word as a token and from there, stay
        for i, ids in enumerate(expected):
            assert np.array_equal(encoder.encode(b" ".join(words[500 * i : 500 * i + 500]))[0], ids)
            assert np.array_equal(encoder.encode(tokens)[0], expected_tokens)
    assert hooks.cache_state(encoder)["words"] > 5000 + first_words + 600


def test_a_small_cache_gives_the_same_ids_and_stays_small(hooks: Any) -> None:
    tok = bpe.train(texts=[many_words(1, 2000).decode()], vocab_size=400, pretokenizer="gpt2")
    encoder, roomy = make_encoder(tok.spec, 1 << 18), make_encoder(tok.spec, 32 << 20)
    for seed in range(4):
        text = many_words(seed, 20_000)
        assert np.array_equal(encoder.encode(text)[0], roomy.encode(text)[0])
    state = hooks.cache_state(encoder)
    assert state["bytes"] <= 1 << 18
    assert state["words"] <= state["room"]
    assert state["rejected"] > 1000
    assert hooks.cache_state(roomy)["bytes"] <= 32 << 20
    assert hooks.cache_state(roomy)["rejected"] < 100


def test_the_cache_holds_a_hundred_thousand_long_words(hooks: Any) -> None:
    """Phrases of a script without spaces, or long compounds, all stay for a second pass, within the limit."""
    random_ = random.Random(3)
    syllables = ["".join(random_.choices("abcdefghijklmnop", k=6)) for _ in range(300)]
    words = ["".join(random_.choices(syllables, k=random_.randint(4, 6))) for _ in range(100_000)]
    encoder = make_encoder(bpe.train(texts=syllables, vocab_size=3000, pretokenizer="gpt2").spec, 32 << 20)
    for _ in range(2):  # when a table is full, the rest of the chunk is rejected, and then a larger table replaces it
        encoder.encode(" ".join(words).encode())
    state = hooks.cache_state(encoder)
    assert state["long"] == 100_000
    assert state["bytes"] <= 32 << 20


def test_a_full_cache_keeps_its_words_until_many_are_rejected(hooks: Any) -> None:
    random_ = random.Random(4)
    syllables = ["".join(random_.choices("abcdefghijklmnop", k=6)) for _ in range(100)]
    words = ["".join(random_.choices(syllables, k=4)) for _ in range(1600)]
    encoder = make_encoder(bpe.train(texts=syllables, vocab_size=3000, pretokenizer="gpt2").spec, 1 << 18)
    early, late = ("".join(f" {word}" for word in some).encode() for some in (words[:1100], words[1100:]))

    def encoded(text: bytes) -> tuple[list[int], int]:
        return encoder.encode(text)[0].tolist(), hooks.cache_state(encoder)["long"]

    for _ in range(2):  # the table grows in the first pass
        ids, most = encoded(early)
    assert most == 1024
    first, held = encoded(late)
    assert held == most
    assert encoded(early) == (ids, most)
    for _ in range(20):  # after 10,000 rejected words, an empty table replaces the full one
        ids_again, held = encoded(late)
        assert ids_again == first
    assert held == 500


def without_byte(spec: TokenizerSpec, byte: int) -> TokenizerSpec:
    """The same vocabulary without the token of a byte."""
    tokens = {id_: token for id_, token in spec.vocabulary.items() if token != bytes([byte])}
    return replace(spec, vocabulary=Vocabulary(sorted(tokens.items())))


@pytest.mark.parametrize("level", sorted(LEVELS))
@pytest.mark.parametrize("complete", [False, True])
def test_new_words_of_a_chunk_are_merged_together(complete: bool, level: str, hooks: Any) -> None:
    """One or many new words at once, of all lengths, some of them twice: each gets its ids and is entered once."""
    random_ = random.Random(8)
    merges = [(97, 98), (99, 100), (256, 257), (32, 97), (98, 98), (258, 97), (259, 256), (98, 99), (258, 258)]
    spec = byte_spec(merges, pretokenizer="gpt2")
    spec = spec if complete else without_byte(spec, 0xFF)
    words = ["".join(random_.choices("abcd", k=random_.randint(1, 70))) for _ in range(200)]
    try:
        set_vector_level(LEVELS[level])
        for n in (1, 2, 15, 16, 17, 40, 200):
            text = "".join(f" {word}" for word in words[:n] + random_.choices(words[:n], k=n)).encode()
            encoder, expected = make_encoder(spec, 32 << 20), naive(spec, text)
            before = hooks.cache_state(encoder)
            for _ in range(2):
                assert encoder.encode(text)[0].tolist() == expected
            if n == 200:  # more than a new table has room for
                continue
            after = hooks.cache_state(encoder)
            ids = {word: len(naive(spec, f" {word}".encode())) for word in set(words[:n])}
            entered = after["words"] + after["long"] - before["words"] - before["long"]
            seeds = sum(f" {word}".encode() in spec.vocabulary.id_of_token for word in ids)
            assert entered == len(ids) - seeds
            assert after["spilled"] - before["spilled"] == sum((n + 8) // 8 * 8 for n in ids.values() if n > 2)
    finally:
        set_vector_level(VECTORS)


def test_new_words_with_a_byte_without_a_token_have_an_unknown_symbol() -> None:
    encoder = make_encoder(without_byte(byte_spec([(97, 98), (256, 97)], pretokenizer="gpt2"), 98), 1 << 20)
    ids, known = encoder.encode(b" ac aba bbb ca")
    assert not known
    assert ids.tolist() == [32, 97, 99, 32, 97, NO_TOKEN, 97, 32, *[NO_TOKEN] * 3, 32, 99, 97]


@pytest.mark.parametrize("glued", [False, True])
@pytest.mark.parametrize(("model", "pretokenizer"), [("char", "whitespace"), ("byte", "clip"), ("byte", "gpt2")])
def test_parts_of_split_words_have_no_mark_except_the_last(
    model: str, pretokenizer: str, glued: bool, hooks: Any
) -> None:
    """The same characters occur as words, word ends and inside words; ids equal those without splits and cache."""
    random_ = random.Random(5)
    letters = CLOSE.replace(" ", "")
    words = ["".join(random_.choices(letters, k=random_.choice((1, 2, 3, 5, 9, 40)))) for _ in range(2000)]
    words += [word + random_.choice(words) for word in words[:1000]]
    options: dict[str, Any] = {"unk_token": "<unk>"} if model == "char" else {}
    tok = bpe.train(
        texts=words[:300], num_merges=150, model=model, pretokenizer=pretokenizer, end_of_word="</w>",
        end_of_word_glued=glued, **options,
    )  # fmt: skip
    text = " ".join(random_.choices(words, k=4000))
    plain = Engine(tok.spec)
    ids = {piece: plain.encode_pretoken(piece) for piece in set(plain.iterate_pretokens(text, frozenset()))}
    expected = [token_id for piece in plain.iterate_pretokens(text, frozenset()) for token_id in ids[piece]]
    try:
        for level, memory in product(("none", "avx2", "avx512"), (1 << 18, 32 << 20)):
            set_vector_level(LEVELS[level])
            engine = Engine(tok.spec, cache_memory=memory)
            for _ in range(2):
                assert engine.encode(text).tolist() == expected, (level, memory)
            assert hooks.cache_state(engine.encoder)["parts"] > 20
    finally:
        set_vector_level(VECTORS)


@pytest.mark.parametrize("level", sorted(LEVELS))
def test_words_that_are_evicted_and_inserted_again(level: str) -> None:
    """A word's ids may be spilled again while the front table still has the word."""
    random_ = random.Random(11)
    words = ["".join(random_.choices("abcdefgh", k=random_.randint(4, 7))) for _ in range(6000)]
    text = " ".join(word for i in range(0, 6000, 40) for word in words[i : i + 40] * 4).encode()
    spec = byte_spec([(97, 98), (99, 100)], pretokenizer="gpt2")
    try:
        set_vector_level(LEVELS[level])
        actual = make_encoder(spec, 0).encode(text)[0]
    finally:
        set_vector_level(VECTORS)
    assert actual.tolist() == naive(spec, text)


@pytest.mark.parametrize("level", sorted(LEVELS))
def test_pieces_of_any_size_below_4_gib_are_no_short_words(level: str, hooks: Any) -> None:
    """A signed comparison would take a piece of 2 GiB for a word, and give it the ids of its first eight bytes."""
    sizes = [2**k + d for k in (3, 8, 15, 16, 28, 29, 31) for d in range(-2, 3)] + [2**32 - 2, 2**32 - 1]
    try:
        set_vector_level(LEVELS[level])
        actual = [hooks.pieces_without_key(b"abcdefgh", sizes[:n]) for n in (1, 7, 8, 9, len(sizes))]
    finally:
        set_vector_level(VECTORS)
    assert actual == [[i for i, size in enumerate(sizes[:n]) if size > 8] for n in (1, 7, 8, 9, len(sizes))]


def wide_text(seed: int, characters: int, size: int) -> bytes:
    """Words of many different three-byte characters, with some repeated pairs and other characters between them."""
    random_ = random.Random(seed)
    wide = [chr(0x4E00 + 7 * i) for i in range(characters)]
    pairs = ["".join(random_.choices(wide, k=random_.choice((2, 2, 3)))) for _ in range(20)]
    drawn = (random_.choice(pairs if random_.random() < 0.05 else wide) for _ in range(size))
    return "".join(c + random_.choice(" é,1") if random_.random() < 0.04 else c for c in drawn).encode()


@pytest.mark.parametrize("level", sorted(LEVELS))
@pytest.mark.parametrize("twice", [False, True])
def test_more_characters_than_the_front_table_holds(twice: bool, level: str) -> None:
    """Ids are the same, cold and warm. With `twice`, two merges make the same token."""
    text = wide_text(5, 2500, 5000)
    spec = bpe.train(texts=[text.decode()], vocab_size=700, pretokenizer="gpt2").spec
    if twice:
        merges = [tuple(pair) for pair in spec.merges.tolist()]
        spec = byte_spec([(0xE4, 0xB8), (0xB8, 0x80), (0xE4, 257), (256, 0x80), *merges[5:200]], pretokenizer="gpt2")
    encoder = make_encoder(spec, 0)
    try:
        set_vector_level(LEVELS[level])
        for data in (text, wide_text(6, 2500, 3000), text):
            assert encoder.encode(data)[0].tolist() == naive(spec, data)
    finally:
        set_vector_level(VECTORS)


@pytest.mark.parametrize("level", sorted(LEVELS))
def test_words_that_differ_in_padding_bytes_are_different(level: str) -> None:
    """Words that end with 0xFF and words of zeros differ from the same words without these bytes."""
    spec = byte_spec([(0xFF, 0xFF), (97, 0xFF), (97, 256), (0, 0), (258, 258)])
    words = [b"a", b"a\xff", b"a\xff\xff", b"\xff" * 8, b"\xff" * 9, b"\0" * 8, b"\0" * 9, b"aaaaaaaa\xff", b"a" * 16]
    words += [
        b"a" * 15 + b"\xff",
        b"a" * 16 + b"\xff" * 3,
        b"\xff",
        b"a" * 300,
    ]  # the last one is too long for the tables
    try:
        set_vector_level(LEVELS[level])
        engine = Engine(spec)
        for _ in range(3):
            batch = engine.encode_batch(words, 1)
            assert batch.to_list() == [naive(spec, word) for word in words]
    finally:
        set_vector_level(VECTORS)


@pytest.mark.parametrize("level", sorted(LEVELS))
def test_words_of_all_sizes_in_batches_of_all_sizes(level: str) -> None:
    """New and cached words, with one id, two, some spilled ids, and more than one copy instruction handles."""
    random_ = random.Random(5)
    spec = byte_spec([(97, 98), (256, 256), (257, 257), (99, 99), (0, 0), (260, 260), (261, 97)])
    words = [bytes(random_.choices(b"aabbabcd\0", k=size)) for size in [*range(1, 19), 30] for _ in range(6)]
    words += [b"ab" * n for n in range(1, 10)] + [b"abababab" * n + b"dcd" * 3 for n in range(3)] + [b"\0" * 8]
    try:
        set_vector_level(LEVELS[level])
        engine = Engine(spec)
        for n in [*range(1, 70), 200]:
            group = [random_.choice(words) if random_.random() < 0.9 else random_.randbytes(4) for _ in range(n)]
            assert engine.encode_batch(group, 1).to_list() == [naive(spec, word) for word in group]
    finally:
        set_vector_level(VECTORS)


@pytest.mark.parametrize("level", sorted(LEVELS))
def test_every_vector_level_gives_the_same_ids(level: str) -> None:
    text = many_words(7, 3000)
    tok = bpe.train(texts=[text.decode()], vocab_size=500, pretokenizer="gpt2")
    expected = tok.encode(text)
    try:
        set_vector_level(LEVELS[level])
        rebuilt = bpe.Tokenizer(tok.spec)
        assert np.array_equal(rebuilt.encode(text), expected)
        assert np.array_equal(rebuilt.encode(text), expected)
    finally:
        set_vector_level(VECTORS)
    assert expected.tolist() == naive(tok.spec, text)


# Many texts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_documents_of_one_buffer_equal_single_texts(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents anywhere in a buffer: empty ones, overlapping ones, and one of several parts."""
    monkeypatch.setattr(_batch, "MAX_PART_BYTES", 1 << 16)
    tok = bpe.train(texts=[many_words(3, 2000).decode()], vocab_size=500, pretokenizer="gpt2")
    buffer = many_words(4, 20_000)
    random_ = random.Random(5)
    bounds = sorted(random_.randrange(len(buffer)) for _ in range(300))
    starts = [0, 7, 7, len(buffer), *bounds[:-1]]
    ends = [len(buffer), 7, 9, len(buffer), *bounds[1:]]
    engine = Engine(tok.spec)
    assert len(buffer) > 3 * _batch.MAX_PART_BYTES
    batch = engine.encode_documents(buffer, np.array(starts), np.array(ends), threads)
    assert batch == engine.encode_batch([buffer[a:b] for a, b in zip(starts, ends, strict=True)], 1)
    assert np.array_equal(batch[0], tok.encode(buffer))


@pytest.mark.parametrize("train", [bpe.train, partial(bpe.train, model="char"), bpe.research.train_boundless])
def test_visited_documents_have_the_ids_of_encoded_ones(train: Any) -> None:
    """Also where a visitor takes the ids of a text in several parts."""
    texts = [text.encode() for text in ("low lower 42", "", "낮은 lowest", "low " * 50_000, "", "lower")]
    tok = train(texts=texts, vocab_size=290)
    ends = np.cumsum([len(text) for text in texts])
    starts, buffer, engine = np.concatenate(([0], ends[:-1])), b"".join(texts), tok._engine
    for part in (slice(0, 6), slice(1, 2), slice(0, 0)):
        expected = engine.encode_documents(buffer, starts[part], ends[part], 1)
        tally = TokenTally(np.array(tok.token_byte_lengths), BY_SPACES)
        tally.begin(buffer, starts[part], ends[part], True)
        engine.visit_documents(buffer, starts[part], ends[part], tally)
        assert tally.rows[:, COLUMNS.index("tokens")].tolist() == np.diff(expected.offsets).tolist()
        assert tally.counts().tolist() == np.bincount(expected.ids, minlength=tok.n_vocab).tolist()
    few = TokenTally(np.array([1]), BY_SPACES)
    few.begin(buffer, starts, ends, True)
    with pytest.raises(ValueError, match="it must be below 1"):
        engine.visit_documents(buffer, starts, ends, few)
    assert engine.encode_documents(buffer, starts, ends, 1).to_list() == [tok.encode(text).tolist() for text in texts]


def test_visiting_refuses_symbols_without_an_id() -> None:
    engine = bpe.train(counts={"hug": 3}, num_merges=2, alphabet=bpe.Alphabet(initial="corpus"))._engine
    starts, ends = np.array([0, 3]), np.array([3, 6])
    tally = TokenTally(np.ones(9), BY_SPACES)
    tally.begin(b"hugbug", starts, ends, True)
    with pytest.raises(ValueError, match="byte 0x62 of the text b'bug' is not in the vocabulary"):
        engine.visit_documents(b"hugbug", starts, ends, tally)


def test_a_visitor_without_a_method_take_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="Visitor takes no ids"):
        Visitor().visit(np.array([1], dtype=np.uint32), np.array([0, 1]))


def test_documents_outside_the_buffer_are_refused() -> None:
    engine = Engine(byte_spec([], pretokenizer="gpt2"))
    for start, end in ((-1, 2), (2, 1), (0, 4)):
        with pytest.raises(ValueError, match=f"document 0 is from {start} to {end}.*buffer of 3 bytes"):
            engine.encode_documents(b"abc", np.array([start]), np.array([end]), 1)
    assert engine.encode_documents(b"", np.array([0]), np.array([0]), 2).to_list() == [[]]
    none = np.empty(0, dtype=np.int64)
    assert engine.encode_documents(b"abc", none, none, 2).to_list() == []


def test_more_texts_than_a_chunk_holds() -> None:
    engine = Engine(byte_spec([(97, 98)], pretokenizer="gpt2"))
    texts = [b"", b"ab"] * 2000 + [b""] * 1500 + [b"ab ab"] * 1500
    ids = {text: naive(engine.spec, text) for text in set(texts)}
    assert engine.encode_batch(texts, 1).to_list() == [ids[text] for text in texts]


@pytest.mark.parametrize("n", [511, 512, 513, 1024, 1536])
def test_texts_with_exactly_as_many_pieces_as_a_chunk_holds(n: int) -> None:
    """A text whose pieces fill the scanner's arrays exactly ends there, with and without splits."""
    engine = Engine(byte_spec([(97, 98)], pretokenizer="gpt2"))
    for text in ("가나 " * (n // 2) + "다" * (n % 2), "가나다라마바 " * (n - 1) + "가나다라", "ab " * n):
        data = text.encode()
        assert engine.encode_batch([data, data], 1).to_list() == [naive(engine.spec, data)] * 2


def test_an_error_in_a_thread_is_raised() -> None:
    def fail() -> None:
        raise KeyError("as it should")

    for threads in (1, 3):
        with pytest.raises(KeyError, match="as it should"):
            run_threads(fail, threads, lambda: None)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_each_part_is_run_once_and_the_first_error_is_raised(threads: int) -> None:
    assert sorted(map_unordered(lambda part: part * part, range(100), threads)) == [part * part for part in range(100)]
    assert list(map_unordered(str, [], threads)) == []

    def fail(part: int) -> None:
        if part in (3, 4):
            raise KeyError(part)

    with pytest.raises(KeyError, match="3"):
        list(map_unordered(fail, count(), threads))

    def parts() -> Iterator[int]:
        yield from range(3)
        raise OSError("as it should")

    with pytest.raises(OSError, match="as it should"):
        list(map_unordered(str, parts(), threads))
    with closing(map_unordered(str, count(), threads)) as endless:
        next(endless)  # the other threads stop when the caller does


def test_eight_threads_share_a_small_job() -> None:
    engine = Engine(byte_spec([(97, 98)], pretokenizer="gpt2"))
    job = EncodeJob(engine.encoder, 8)
    job.add_items([b"abab ab"] * 10, np.arange(11))
    job.prepare()
    run_threads(job.work, 8, job.stop)
    ids, lengths, bad = job.result()
    assert lengths.tolist() == [4] * 10
    assert len(ids) == 40
    assert bad == -1
