"""The kernels for rank files: equal to reading line by line, and to merging each token's bytes."""

from __future__ import annotations

import random
from contextlib import nullcontext
from itertools import product
from typing import Any

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples
from written import write_rank_file

import bpe
from bpe.errors import FormatError
from bpe.formats import _ranks, tiktoken
from bpe.vocab.vocabulary import Vocabulary


def flatten_tokens(tokens: list[bytes]) -> tuple[bytes, Any]:
    offsets = np.zeros(len(tokens) + 1, dtype=np.int64)
    np.cumsum([len(token) for token in tokens], out=offsets[1:])
    return b"".join(tokens), offsets


def recover_merges_naively(tokens: list[bytes]) -> list[list[int]]:
    """Encode each token's bytes with the merges found so far; if two symbols remain, their pair is its merge."""
    index_of = {token: index for index, token in enumerate(tokens)}
    ranks: dict[tuple[bytes, bytes], int] = {}
    pairs_by_token = [[-1, -1] for _ in tokens]
    for index, token in enumerate(tokens):
        symbols = [token[i : i + 1] for i in range(len(token))]
        if len(symbols) < 2 or any(symbol not in index_of for symbol in symbols):
            continue
        left = reference.encode_word(symbols, ranks)
        if len(left) == 2:
            ranks[left[0], left[1]] = index
            pairs_by_token[index] = [index_of[left[0]], index_of[left[1]]]
    return pairs_by_token


# Merges -------------------------------------------------------------------------------------------------------------


@examples(22)
@given(tokens=st.lists(st.text("abc", min_size=1, max_size=12).map(str.encode), unique=True, max_size=40))
def test_merges_of_random_tokens(tokens: list[bytes]) -> None:
    """Bytes may have no token or a worse rank than tokens that contain them; merging does not give some tokens."""
    assert _ranks.RankTable(*flatten_tokens(tokens)).recover_pairs().tolist() == recover_merges_naively(tokens)


@examples(14)
@given(
    texts=st.lists(st.text("abc ", max_size=30), min_size=1, max_size=6),
    size=st.integers(257, 330),
    swaps=st.lists(st.tuples(st.integers(0, 330), st.integers(0, 330)), max_size=4),
)
def test_merges_of_trained_vocabularies(texts: list[str], size: int, swaps: list[tuple[int, int]]) -> None:
    """Training's merges are recovered; if some tokens change places, the result equals the naive one."""
    tok = bpe.train(texts=["a", *texts], vocab_size=size)
    tokens = list(tok.vocab())
    assert _ranks.RankTable(*flatten_tokens(tokens)).recover_pairs()[256:].tolist() == tok.merges.tolist()
    for i, j in swaps:
        if max(i, j) < len(tokens):
            tokens[i], tokens[j] = tokens[j], tokens[i]
    assert _ranks.RankTable(*flatten_tokens(tokens)).recover_pairs().tolist() == recover_merges_naively(tokens)


def test_merges_of_long_tokens() -> None:
    for letters in ("a", "ab", "aab"):
        tokens = [b"a", b"b", *((letters * 150)[:size].encode() for size in range(2, 150))]
        assert _ranks.RankTable(*flatten_tokens(tokens)).recover_pairs().tolist() == recover_merges_naively(tokens)


def list_splits_naively(tokens: list[bytes]) -> list[tuple[int, int, int]]:
    index_of = {token: index for index, token in enumerate(tokens)}
    return [
        (index_of[token[:cut]], index_of[token[cut:]], index)
        for index, token in enumerate(tokens)
        for cut in range(1, len(token))
        if token[:cut] in index_of and token[cut:] in index_of
    ]


@examples(22)
@given(tokens=st.lists(st.text("ab", min_size=1, max_size=12).map(str.encode), unique=True, max_size=40))
def test_tokens_made_of_tokens_with_worse_ranks(tokens: list[bytes]) -> None:
    """If there are such tokens, every split of a token is a merge with that token's rank, by tiktoken's rule."""
    blob, offsets = flatten_tokens(tokens)
    all_indices = np.arange(len(tokens), dtype=np.int64)
    table = _ranks.RankTable(blob, offsets)
    assert list(map(tuple, table.list_splits(all_indices).tolist())) == list_splits_naively(tokens)
    pairs = table.recover_pairs()
    token_ranks = 3 * all_indices.astype(np.int32)
    ranked_tokens = tiktoken.RankedTokens(blob, offsets, token_ranks)
    merges, results, ranks, unmerged_ids = tiktoken.recover_ranked_merges(ranked_tokens, table)
    index_of = {token: index for index, token in enumerate(tokens)}
    unmerged = [index for index in range(len(tokens)) if pairs[index, 0] < 0 and len(tokens[index]) > 1]
    with_late_part = [
        index
        for index in unmerged
        if all(bytes([byte]) in index_of for byte in tokens[index])
        and len(merge_by_ranks(tokens[index], index_of)) == 1
    ]
    assert (ranks is not None) == bool(with_late_part)
    if ranks is not None:
        assert [(left // 3, right // 3) for left, right in merges.tolist()] == [
            row[:2] for row in list_splits_naively(tokens)
        ]
        assert results.tolist() == ranks.tolist() == [3 * row[2] for row in list_splits_naively(tokens)]
        assert unmerged_ids is None
    else:
        assert unmerged_ids is not None
        assert unmerged_ids.tolist() == [3 * index for index in unmerged]


def merge_by_ranks(token: bytes, ranks: dict[bytes, int]) -> list[bytes]:
    """The bytes of a token merged by tiktoken's rule, without looking up the whole token first."""
    parts = [token[i : i + 1] for i in range(len(token))]
    return reference.merge_lowest(parts, lambda left, right: ranks.get(left + right, reference.NOT_A_PAIR))


def test_loading_long_tokens_is_near_linear(tmp_path: Any) -> None:
    """Each of these once took time quadratic in its longest token: hours for some."""
    letters = [bytes([byte]) for byte in range(256)]
    random.seed(1)
    for tokens in (
        [b"aa", b"a" * 300_000],
        [b"abc", b"ab", b"x" * 300_000],
        [b"abc", b"ab", *(bytes(random.choices(b"ab", k=300)) for _ in range(1000))],
        [b"ab" * 2**k for k in range(17, -1, -1)] + [b"ab" * 150_000],
        [b"a" * 300_001, b"a" * 300_000],
    ):
        path = tmp_path / "ranks.tiktoken"
        path.write_bytes(write_rank_file({token: rank for rank, token in enumerate([*letters, *tokens])}))
        tok = bpe.Tokenizer.from_tiktoken(path, None)
        assert tok.encode(tokens[-1]).tolist() == [255 + len(tokens)]


def test_many_special_tokens_of_a_rank_file(tmp_path: Any) -> None:
    """Loading once searched all ranks for each of them."""
    path = tmp_path / "ranks.tiktoken"
    path.write_bytes(write_rank_file({b"%d" % token_id: token_id for token_id in range(20_000)}))
    special = {f"<{token_id}>": token_id for token_id in range(20_000, 50_000)}
    tok = bpe.Tokenizer.from_tiktoken(path, None, special)
    assert tok.encode("7<20000><49999>8", allowed_special="all").tolist() == [7, 20_000, 49_999, 8]
    with pytest.raises(bpe.FormatError, match="special token '77' is an ordinary token too"):
        bpe.Tokenizer.from_tiktoken(path, None, {**special, "77": 50_000})


def test_an_empty_list_of_tokens() -> None:
    assert _ranks.RankTable(b"", np.zeros(1, dtype=np.int64)).recover_pairs().shape == (0, 2)
    assert _ranks.read_ranks(b"") is None


# Repeated tokens ----------------------------------------------------------------------------------------------------


@examples(45)
@given(tokens=st.lists(st.binary(min_size=1, max_size=10) | st.text("ab", min_size=1, max_size=9).map(str.encode)))
def test_repeated_tokens_are_detected(tokens: list[bytes]) -> None:
    assert _ranks.RankTable(*flatten_tokens(tokens)).distinct == (len(set(tokens)) == len(tokens))


def test_tokens_that_differ_in_zero_bytes_are_different() -> None:
    assert _ranks.RankTable(*flatten_tokens([b"a", b"a\0", b"a\0\0", b"\0", b"\0\0", b"\0" * 7, b"\0" * 8])).distinct


# Reading ------------------------------------------------------------------------------------------------------------


@examples(27)
@given(ranks=st.dictionaries(st.binary(min_size=1, max_size=20), st.integers(0, 2**31 - 1), min_size=1))
def test_ranks_round_trip(ranks: dict[bytes, int]) -> None:
    ordered = dict(zip(ranks, sorted(set(ranks.values())), strict=False))
    data = write_rank_file(ordered)
    for content in (data, data.removesuffix(b"\n")):
        read = _ranks.read_ranks(content)
        assert read is not None
        blob, offsets, kernel_ranks = read
        assert (blob, offsets.tolist()) == (b"".join(ordered), flatten_tokens(list(ordered))[1].tolist())
        assert kernel_ranks.tolist() == list(ordered.values())
    tokens = tiktoken._read_line_by_line(data)
    assert (blob, offsets.tolist(), kernel_ranks.tolist()) == (tokens[0], tokens[1].tolist(), tokens[2].tolist())
    shuffled = list(ordered.items())
    random.Random(1).shuffle(shuffled)
    unusual_tokens = tiktoken._read_line_by_line(write_rank_file(dict(shuffled), "\r\n\r\n"))
    assert (blob, offsets.tolist(), kernel_ranks.tolist()) == (
        unusual_tokens[0],
        unusual_tokens[1].tolist(),
        unusual_tokens[2].tolist(),
    )


@examples(45)
@given(
    data=st.lists(
        st.sampled_from([b"YQ==", b"YWI=", b"YWJj", b" ", b"\n", b"0", b"17", b"=", b"Y", b"\r", b"-", b"\xff"])
    ).map(b"".join)
)
def test_the_kernel_equals_reading_line_by_line(data: bytes) -> None:
    read = _ranks.read_ranks(data)
    if read is None or not _ranks.RankTable(*read[:2]).distinct:
        return
    tokens = tiktoken._read_line_by_line(data)
    assert (read[0], read[1].tolist(), read[2].tolist()) == (tokens[0], tokens[1].tolist(), tokens[2].tolist())


@pytest.mark.parametrize(
    "data",
    [
        b"YQ== 0\r\n",
        b"YQ==  0\n",
        b"YQ== 0\n\n",
        b" YQ== 0\n",
        b"YR== 0\n",
        b"YWK= 0\n",
        b"YQ= 0\n",
        b"Y=== 0\n",
        b"==== 0\n",
        b" 0\n",
        b"YQ== \n",
        b"YQ==\n",
        b"YQ== 1\nYg== 0\n",
        b"YQ== 1\nYg== 1\n",
        b"YQ== 2147483648\n",
        b"YQ== 99999999999\n",
        b"YQ== +1\n",
        b"YQ== 1_0\n",
        b"YQ==\t0\n",
    ],
)
def test_the_kernel_leaves_unusual_lines_to_python(data: bytes) -> None:
    assert _ranks.read_ranks(data) is None


# The vocabulary of a rank file --------------------------------------------------------------------------------------


@examples(32)
@given(
    numbers=st.lists(st.integers(0, 60), unique=True, max_size=20).map(sorted),
    special=st.dictionaries(st.integers(0, 70), st.binary(min_size=1, max_size=3), max_size=5),
)
def test_vocabulary_from_arrays_equals_the_one_from_objects(numbers: list[int], special: dict[int, bytes]) -> None:
    tokens = [b"t%d" % token_id for token_id in numbers]
    special = {token_id: b"<" + token for token_id, token in special.items() if token_id not in numbers}
    from_objects = Vocabulary(zip(numbers, tokens, strict=True), special.items())
    from_arrays = Vocabulary.from_sorted(*flatten_tokens(tokens), np.array(numbers, dtype=np.int32), special)
    assert (from_objects.blob, from_objects.limit) == (from_arrays.blob, from_arrays.limit)
    assert from_objects.offsets.tolist() == from_arrays.offsets.tolist()
    assert from_objects.kinds.tolist() == from_arrays.kinds.tolist()
    for max_length in (0, 2, 3, 9):
        assert list(from_objects.items(None, max_length)) == [
            item for item in from_objects.items() if len(item[1]) <= max_length
        ]


def test_special_tokens_between_ranks(tmp_path: Any) -> None:
    path = tmp_path / "ranks.tiktoken"
    path.write_bytes(write_rank_file({b"a": 0, b"b": 1, b"ab": 3}))
    tok = bpe.Tokenizer.from_tiktoken(path, "gpt2", {"<s>": 2, "<t>": 7})
    assert tok.vocab() == {b"a": 0, b"b": 1, b"<s>": 2, b"ab": 3, b"<t>": 7}
    assert tok.encode("ab<s>a<t>", allowed_special="all").tolist() == [3, 2, 0, 7]
    assert tok.merges.tolist() == [[0, 1]]


@examples(14)
@given(
    tokens=st.lists(st.text("abc", min_size=2, max_size=6).map(str.encode), unique=True, max_size=20),
    text=st.text("abc "),
)
def test_the_readers_unmerged_tokens_are_right(tmp_path_factory: Any, tokens: list[bytes], text: str) -> None:
    """The unmerged tokens that the reader finds equal those found by encoding each token."""
    path = tmp_path_factory.mktemp("ranks") / "ranks.tiktoken"
    path.write_bytes(write_rank_file({token: rank for rank, token in enumerate([b"a", b"b", b"c", b" ", *tokens])}))
    tok = bpe.Tokenizer.from_tiktoken(path, "whitespace")
    from dataclasses import replace

    computed = bpe.Tokenizer(replace(tok.spec, unmerged=None))
    assert tok == computed
    for word in (text, " ".join(token.decode() for token in tokens)):
        assert tok.encode(word).tolist() == computed.encode(word).tolist()


def test_a_token_without_bytes_is_left_out(tmp_path):
    """The last line of Whisper's multilingual.tiktoken is such a token."""
    path = tmp_path / "ranks"
    path.write_bytes(b"YQ== 0\nYg== 1\nYWI= 2\n= 3\n")
    tok = bpe.Tokenizer.from_tiktoken(path, "gpt2", {"<s>": 4})
    assert tok.encode("ab<s>", allowed_special="all").tolist() == [2, 4]
    assert tok.vocab() == {b"a": 0, b"b": 1, b"ab": 2, b"<s>": 4}


def test_many_tokens_of_one_hash_are_refused() -> None:
    """Sequences of Thue and Morse and their complements have one polynomial hash whatever its base is."""
    signs = [number.bit_count() % 2 for number in range(1024)]
    blocks = bytes(b"ab"[sign] for sign in signs), bytes(b"ba"[sign] for sign in signs)
    tokens = [b"".join(parts) for parts in product(blocks, repeat=5)]
    for n, refused in ((17, False), (18, True)):
        with pytest.raises(FormatError, match="have one hash") if refused else nullcontext():
            assert _ranks.RankTable(*flatten_tokens(tokens[:n])).distinct
