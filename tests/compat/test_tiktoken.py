"""`bpe.compat.tiktoken`, with a small vocabulary and OpenAI's: the behaviour that tiktoken's own tests describe."""

from __future__ import annotations

import copy
import inspect
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

import bpe
import bpe.compat.tiktoken as tiktoken
from bpe.formats.openai_encodings import ENCODINGS

END, USER = "<|endoftext|>", "<|user|>"
TEXTS = ["low lower lowest", "new newer newest  ", "naïve café 낮 😀", "123 456\n\n"] * 5
TEXT = st.text(max_size=30) | st.lists(st.sampled_from(["low", " new", "est", " ", "\n", END, "<|", "낮", "😀"])).map(
    "".join
)
GPT2 = bpe.Pretokenizer("gpt2").pattern


@cache
def make_small(pat_str: str = GPT2) -> tiktoken.Encoding:
    """A small encoding with two special tokens and a gap in its ids."""
    ranks = bpe.train(texts=TEXTS, vocab_size=290, pretokenizer="gpt2").vocab()
    return tiktoken.Encoding("small", pat_str=pat_str, mergeable_ranks=ranks, special_tokens={END: 290, USER: 295})


@cache
def make_with_names(*names: str) -> tiktoken.Encoding:
    """The same encoding with other special tokens."""
    special = {name: 290 + index for index, name in enumerate(names)}
    return tiktoken.Encoding(
        "named", pat_str=GPT2, mergeable_ranks=make_small()._mergeable_ranks, special_tokens=special
    )


@pytest.fixture
def named(openai_files: Callable[[str], Path], monkeypatch) -> Callable[[str], tiktoken.Encoding]:
    """`get_encoding` with the shared files as its cache."""

    def get(name: str) -> tiktoken.Encoding:
        monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(openai_files(name)))
        return tiktoken.get_encoding(name)

    return get


# Encoding and decoding ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", *TEXTS[:4], " lower", "x" * 1000, "lower" * 100])
def test_lists_of_int_that_decode_to_the_text(text) -> None:
    enc = make_small()
    ids = enc.encode(text)
    assert type(ids) is list
    assert set(map(type, ids)) <= {int}
    assert enc.encode_ordinary(text) == ids == enc.encode_to_numpy(text).tolist()
    assert enc.decode(ids) == text
    assert enc.decode_bytes(ids) == text.encode()
    assert enc.decode_tokens_bytes(ids) == [enc.decode_single_token_bytes(i) for i in ids]
    assert b"".join(enc.decode_tokens_bytes(ids)) == text.encode()


@given(TEXT)
@examples(11)
def test_round_trips(text) -> None:
    enc = make_small()
    assert enc.decode(enc.encode(text, disallowed_special=())) == text
    assert enc.encode_ordinary(text) == enc.encode(text, disallowed_special=())
    assert enc.decode(enc.encode(text, allowed_special="all")) == text


@given(st.binary(max_size=30))
@examples(11)
def test_bytes_round_trip(data) -> None:
    enc = make_small()
    assert enc.decode_bytes(enc._encode_bytes(data)) == data
    if data:
        assert enc.decode_bytes(enc._encode_single_piece(data)) == data


@given(st.lists(TEXT, max_size=5))
@examples(14)
def test_batches_are_the_texts_one_by_one(texts) -> None:
    enc = make_small()
    rows = enc.encode_batch(texts, allowed_special="all")
    assert rows == [enc.encode(text, allowed_special="all") for text in texts]
    assert enc.encode_ordinary_batch(texts, num_threads=3) == [enc.encode_ordinary(text) for text in texts]
    assert enc.decode_batch(rows) == texts
    assert enc.decode_bytes_batch(rows) == [text.encode() for text in texts]


@given(
    TEXT, st.sampled_from([{}, {"disallowed_special": ()}, {"allowed_special": "all"}, {"disallowed_special": {"low"}}])
)
def test_the_fast_path_gives_the_lists_of_the_methods(text, options) -> None:
    """Also for names that begin with nothing in common, and for no names."""

    def result(encode: Callable[..., list[int]], enc: tiktoken.Encoding) -> object:
        try:
            return encode(enc, text, **options)
        except ValueError as error:
            return str(error)

    for enc in (make_small(), make_with_names("low", "new"), make_with_names()):
        assert result(tiktoken.Encoding.encode, enc) == result(inspect.unwrap(tiktoken.Encoding.encode), enc)
        assert enc.encode_ordinary(text) == inspect.unwrap(tiktoken.Encoding.encode_ordinary)(enc, text)


def test_short_texts_of_other_types() -> None:
    class Text(str):
        __slots__ = ()

    enc = make_small()
    for encode in (enc.encode_ordinary, enc.encode):
        assert encode(Text("low lower")) == encode("low lower")
        with pytest.raises(TypeError, match="str"):
            encode(b"low lower")  # type: ignore[arg-type]


def test_surrogates_are_replaced_except_for_numpy() -> None:
    enc = make_small()
    assert enc.encode("\ud83d\ude00") == enc.encode("😀")
    assert enc.encode("\ud83d") == enc.encode_ordinary("\ud83d") == enc.encode("\ufffd")
    for method in (enc.encode_to_numpy, enc.encode_with_unstable, enc.encode_single_token):
        with pytest.raises(UnicodeEncodeError):
            method("a\ud83d")


@given(st.text(max_size=20))
@examples(11)
def test_an_offset_is_the_first_character_with_bytes_of_the_token(text) -> None:
    enc = make_small()
    ids = enc.encode(text, allowed_special="all")
    decoded, offsets = enc.decode_with_offsets(iter(ids))
    assert decoded == text
    for i, offset in enumerate(offsets):
        before = enc.decode(ids[:i], errors="ignore")
        assert offset == len(before)
        assert text.startswith(before)


def test_single_tokens() -> None:
    enc = make_small()
    for token, rank in enc._mergeable_ranks.items():
        assert enc.encode_single_token(token) == rank
        assert enc.decode_single_token_bytes(rank) == token
    assert enc.encode_single_token(END) == enc.eot_token == 290
    assert enc.decode_single_token_bytes(295) == USER.encode()
    assert enc.token_byte_values() == sorted(enc._mergeable_ranks)


def test_ids_without_a_token_are_key_errors() -> None:
    enc = make_small()
    for call in (
        lambda: enc.decode([0, 291]),
        lambda: enc.decode_bytes([291]),
        lambda: enc.decode_bytes(np.array([291])),
        lambda: enc.decode_batch([[0], [291]]),
        lambda: enc.decode_single_token_bytes(291),
        lambda: enc.decode_tokens_bytes([291]),
        lambda: enc.decode_with_offsets([296]),
    ):
        with pytest.raises(KeyError, match=r"29[16]"):
            call()
    with pytest.raises(KeyError, match="b'no token'"):
        enc.encode_single_token("no token")
    with pytest.raises(KeyError, match="endoftext"):
        _ = tiktoken.Encoding("x", pat_str=".", mergeable_ranks={b"a": 0}, special_tokens={}).eot_token


@pytest.mark.parametrize("ids", [[-1], [2**32], (2**32,), np.array([-1])])
def test_ids_that_are_not_32_bits_overflow(ids) -> None:
    with pytest.raises(OverflowError, match=r"out of range; ids are from 0 to"):
        make_small().decode(ids)


@pytest.mark.parametrize("ids", [[1.0], "ab", {1}, None, 3, (i for i in [1]), [[1]], ["a"], {1: 2}])
def test_ids_of_a_wrong_type(ids) -> None:
    with pytest.raises(TypeError):
        make_small().decode(ids)


def test_what_a_sequence_of_ids_may_be() -> None:
    enc = make_small()
    assert enc.decode((1, 2)) == enc.decode(np.array([1, 2])) == enc.decode(bytes([1, 2])) == enc.decode([1, 2])
    assert enc.decode([True]) == enc.decode([1])
    assert enc.decode([]) == enc.decode(()) == enc.decode(np.array([])) == ""
    with pytest.raises(UnicodeDecodeError):
        enc.decode([enc.encode_single_token(b"\x80")], errors="strict")


@pytest.mark.parametrize("text", [b"ab", None, 3, ["a"]])
def test_a_text_is_a_str(text) -> None:
    enc = make_small()
    for method in (enc.encode, enc.encode_ordinary, enc.encode_to_numpy, enc.encode_with_unstable):
        with pytest.raises(TypeError, match="must be a str"):
            method(text)
    for batch in (enc.encode_batch, enc.encode_ordinary_batch):
        with pytest.raises(TypeError, match="must be a str"):
            batch(["a", text])


def test_the_number_of_threads_is_checked() -> None:
    enc = make_small()
    for call in (enc.encode_batch, enc.encode_ordinary_batch, enc.decode_batch, enc.decode_bytes_batch):
        with pytest.raises(ValueError, match="num_threads is 0"):
            call([], num_threads=0)
        with pytest.raises(ValueError, match=r"num_threads is -1\.5"):
            call([], num_threads=-1.5)
        with pytest.raises(TypeError, match="num_threads is '2', a str"):
            call([], num_threads="2")
        for num_threads in (100, None, 0.5, 2.5, True, np.int64(2), 2**70, float("inf")):
            assert call([], num_threads=num_threads) == []


# Special tokens -------------------------------------------------------------------------------------------------------


def test_special_tokens_are_an_error_unless_they_are_allowed() -> None:
    enc = make_small()
    text = f"low{END} new{USER}"
    for options in ({}, {"disallowed_special": {END}}, {"disallowed_special": [USER]}, {"allowed_special": {USER}}):
        with pytest.raises(ValueError, match="the text holds the disallowed special token"):
            enc.encode(text, **options)
        with pytest.raises(ValueError, match="disallowed"):
            enc.encode_batch(["low", text], **options)
    ordinary = enc.encode(text, disallowed_special=())
    assert not {290, 295} & set(ordinary)
    for allowed, expected in (({END}, {290}), ({USER}, {295}), ({END, USER}, {290, 295}), ("all", {290, 295})):
        ids = enc.encode(text, allowed_special=allowed, disallowed_special=())
        assert {290, 295} & set(ids) == expected
        assert enc.encode_batch([text], allowed_special=allowed, disallowed_special=()) == [ids]
        assert enc.encode_to_numpy(text, allowed_special=allowed, disallowed_special=()).tolist() == ids
    assert enc.encode(text, allowed_special="all", disallowed_special="all")[-1] == 295
    assert enc.encode("low", allowed_special={"no special token"}) == enc.encode("low")
    with pytest.raises(ValueError, match="'lo'"):
        enc.encode("low", disallowed_special={"lo"})


def test_long_texts_with_special_tokens() -> None:
    enc = make_small()
    part = f"low lower{END} new 낮{USER}"
    ids = enc.encode(part, allowed_special="all")
    assert enc.encode(part * 2000, allowed_special="all") == ids * 2000
    assert enc.encode(part * 2000, allowed_special={USER}, disallowed_special=()).count(295) == 2000


def test_policies_of_a_wrong_type() -> None:
    enc = make_small()
    for allowed in ([END], END, 3):
        with pytest.raises(TypeError, match='must be "all" or a set of names'):
            enc.encode("low", allowed_special=allowed)


def test_facts_about_the_vocabulary() -> None:
    enc = make_small()
    assert (enc.name, repr(enc)) == ("small", "<Encoding 'small'>")
    assert (enc.n_vocab, enc.max_token_value) == (296, 295)
    assert enc.special_tokens_set == {END, USER}
    assert enc._special_tokens == {END: 290, USER: 295}
    assert enc.is_special_token(290)
    assert not enc.is_special_token(289)
    with pytest.raises(TypeError, match=r"token is 3\.0"):
        enc.is_special_token(3.0)  # type: ignore[arg-type]


def test_names_of_special_tokens_that_are_no_names() -> None:
    """An id among the allowed names is an error, not without effect; every text has the empty name."""
    enc = make_small()
    for call in (
        enc.encode,
        enc.encode_to_numpy,
        enc.encode_with_unstable,
        lambda text, **k: enc.encode_batch([text], **k),
    ):
        for text in ("low", f"low{END}"):
            with pytest.raises(TypeError, match="allowed_special holds 290, an int; it must hold names"):
                call(text, allowed_special={290}, disallowed_special=())
            with pytest.raises(ValueError, match="disallowed special token ''"):
                call(text, allowed_special="all", disallowed_special={""})
    with pytest.raises(ValueError, match="disallowed special token"):
        enc.encode_batch(["low", f"low{END}"], disallowed_special=iter([END]))


# Construction ---------------------------------------------------------------------------------------------------------


def make_encoding(ranks, special=None, pat_str=r"\w+|\W", **options) -> tiktoken.Encoding:
    return tiktoken.Encoding("made", pat_str=pat_str, mergeable_ranks=ranks, special_tokens=special or {}, **options)


@pytest.mark.parametrize("largest_id", [2**32 - 1, 2**31, 2**31 - 1, 1_000_128])
def test_ids_that_are_too_far_apart_are_refused_with_the_limit(largest_id: int) -> None:
    """tiktoken takes any id below 2**32; here tables are indexed by it."""
    message = (
        rf"the largest id is {largest_id}; the ids of 2 tokens must be below 1000128, since .*: give the last tokens"
    )
    with pytest.raises(ValueError, match=message):
        make_encoding({b"a": 0}, {"<s>": largest_id})
    with pytest.raises(ValueError, match=message):
        make_encoding({b"a": 0, b"b": largest_id})
    with pytest.raises(OverflowError):
        make_encoding({b"a": 0}, {"<s>": 2**32})
    assert make_encoding({b"a": 0}, {"<s>": 1_000_127}).encode("a<s>", allowed_special="all") == [0, 1_000_127]


def test_arguments_that_do_not_fit_together() -> None:
    with pytest.raises(ValueError, match="holds no tokens"):
        make_encoding({})
    with pytest.raises(ValueError, match="gives b'a' and b'b' the same rank, 0"):
        make_encoding({b"a": 0, b"b": 0})
    with pytest.raises(TypeError, match="has the token 'a', a str"):
        make_encoding({"a": 0})
    with pytest.raises(OverflowError, match="rank of b'a' is -1"):
        make_encoding({b"a": -1})
    with pytest.raises(TypeError, match=r"rank of b'a' is 1\.5"):
        make_encoding({b"a": 1.5})
    with pytest.raises(ValueError, match="pattern"):
        make_encoding({b"a": 0}, pat_str="(")
    with pytest.raises(ValueError, match="explicit_n_vocab of 'made' is 3, but there are 2 tokens"):
        make_encoding({b"a": 0}, {"<s>": 1}, explicit_n_vocab=3)
    assert make_encoding({b"a": 0}, {"<s>": 1}, explicit_n_vocab=2).n_vocab == 2
    assert make_encoding({b"a": np.int64(0)}).encode("aa") == [0, 0]
    with pytest.raises(ValueError, match=r"byte 0x62 of the text b?'b' is not in the vocabulary"):
        make_encoding({b"a": 0}).encode("b")


def test_ranks_need_not_be_those_of_a_training() -> None:
    enc = make_encoding({b"a": 7, b"b": 3, b"ab": 20, b"abab": 1, b"bab": 9, b"": 11})
    assert enc.encode("abab ab b a".replace(" ", "")) == enc._encode_single_piece(b"abababba")
    assert enc.encode("abab") == [1]  # a whole word is looked up first
    assert enc.decode([11, 7]) == "a"
    assert enc.decode_single_token_bytes(11) == b""


def test_special_tokens_may_share_ids_and_spellings() -> None:
    enc = make_encoding(
        {b"a": 0, b"<s>": 1, b"<": 2, b"s": 3, b">": 4}, {"<s>": 1, "<a>": 0, "<b>": 0}, pat_str=r"<s>|."
    )
    assert enc.encode("<s>", disallowed_special=()) == enc.encode("<s>", allowed_special="all") == [1]
    assert enc.encode("<a><b>a", allowed_special="all") == [0, 0, 0]
    assert enc.decode([0, 1]) == "a<s>"


# Copies, pickles, threads ---------------------------------------------------------------------------------------------


def test_an_encoding_is_pickled_by_value() -> None:
    enc = make_small()
    data = pickle.dumps(enc)
    again = pickle.loads(data)
    assert pickle.dumps(again) == data
    assert again.encode(f"lower{END}", allowed_special="all") == enc.encode(f"lower{END}", allowed_special="all")
    assert (again.name, again._pat_str, again._special_tokens) == (enc.name, enc._pat_str, enc._special_tokens)
    assert again._mergeable_ranks == enc._mergeable_ranks
    for made_from in (copy.copy(enc), copy.deepcopy(enc)):
        assert made_from.encode("lower") == enc.encode("lower")


def test_the_set_of_special_tokens_has_the_order_of_tiktoken_s() -> None:
    """For a fixed PYTHONHASHSEED. A set made of a dict reserves room, so that its order may be another one."""
    special = {f"<|{i}|>": 256 + i for i in range(1500)}
    ranks = {bytes([byte]): byte for byte in range(256)}
    enc = tiktoken.Encoding("x", pat_str=r"\w+|\W+", mergeable_ranks=ranks, special_tokens=special)
    assert list(enc.special_tokens_set) == list(set(special.keys()))


def test_pickles_do_not_depend_on_the_process() -> None:
    program = (
        "import pickle, hashlib, bpe.compat.tiktoken as t\n"
        "ranks = {bytes([b]): b for b in range(256)} | {b'ab': 256}\n"
        "enc = t.Encoding('x', pat_str='.', mergeable_ranks=ranks, special_tokens={'<b>': 300, '<a>': 301})\n"
        "print(hashlib.sha256(pickle.dumps(enc)).hexdigest())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_a_registered_encoding_is_pickled_by_name(named) -> None:
    enc = named("r50k_base")
    data = pickle.dumps(enc)
    assert len(data) < 200
    again = pickle.loads(data)
    assert again.encode("hello world") == [31373, 995]
    assert again is not enc  # as in tiktoken: it shares everything with the registered one
    assert again._mergeable_ranks is enc._mergeable_ranks or again._mergeable_ranks == enc._mergeable_ranks


def test_threads_share_an_encoding() -> None:
    enc = tiktoken.Encoding("t", pat_str=GPT2, mergeable_ranks=make_small()._mergeable_ranks, special_tokens={END: 290})
    expected = [make_small().encode(text) for text in TEXTS]
    results: list[list[list[int]]] = []
    threads = [
        threading.Thread(target=lambda: results.append([enc.encode(text) for text in TEXTS * 20])) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected * 20] * 6


# Unstable tokens ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["low", "low lo", "new ", "new\n\n", "낮", "low é", f"low{END}", "", "  "])
def test_unstable_tokens_and_completions_cover_the_text(text) -> None:
    enc = make_small()
    stable, completions = enc.encode_with_unstable(text, allowed_special="all")
    assert text.encode().startswith(enc.decode_bytes(stable))
    assert completions == sorted(completions)
    for completion in completions:
        assert enc.decode_bytes(stable + completion).startswith(text.encode())
    if text and not text.endswith(END):
        assert enc.encode(text, allowed_special="all")[len(stable) :] in completions
    else:
        assert completions == []


# The values that tiktoken's tests give for OpenAI's encodings ---------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "ids"),
    [
        ("gpt2", "hello world", [31373, 995]),
        ("gpt2", f"hello {END}", [31373, 220, 50256]),
        ("gpt2", "0" * 9, [10535, 830]),
        ("gpt2", "0" * 17, [8269, 10535, 830]),
        ("r50k_base", "", []),
        ("r50k_base", "hello world", [31373, 995]),
        ("cl100k_base", "hello world", [15339, 1917]),
        ("cl100k_base", f"hello {END}", [15339, 220, 100257]),
        ("cl100k_base", "rer", [38149]),
        ("cl100k_base", "'rer", [2351, 81]),
        ("cl100k_base", "today\n ", [31213, 198, 220]),
        ("cl100k_base", "today\n \n", [31213, 27907]),
        ("cl100k_base", "today\n  \n", [31213, 14211]),
        ("cl100k_base", " \x850", [220, 126, 227, 15]),
        ("cl100k_base", "👍", [9468, 239, 235]),
        ("cl100k_base", "\ud83d\udc4d", [9468, 239, 235]),
    ],
)
def test_known_ids(named, name, text, ids) -> None:
    enc = named(name)
    assert enc.encode(text, allowed_special="all") == ids
    assert enc.decode(ids) == text.encode("utf-16", "surrogatepass").decode("utf-16")
    assert enc._encode_only_native_bpe("hello world") == enc.encode("hello world")


def test_known_bytes_and_offsets(named) -> None:
    enc = named("cl100k_base")
    assert enc._encode_bytes(b" \xec\x8b\xa4\xed") == [62085]
    for text, offsets in (
        ("", []),
        ("hello world", [0, 5]),
        (f"hello world{END} green cow", [0, 5, 11, 24, 30]),
        ("我非常渴望与人工智能一起工作", [0, 1, 2, 3, 3, 4, 4, 5, 6, 7, 8, 8, 9, 10, 11, 12, 13]),
        ("நடிகர் சூர்யா", [0, 0, 1, 1, 2, 3, 4, 4, 5, 6, 7, 8, 8, 9, 9, 10, 11, 12, 12]),
        (" Ġ除", [0, 1]),
    ):
        assert enc.decode_with_offsets(enc.encode(text, allowed_special="all")) == (text, offsets)
    with pytest.raises(UnicodeDecodeError):
        enc.decode_with_offsets(enc._encode_bytes(b"\x80"))
    assert enc.encode_with_unstable("hello fanta")[0] == [15339]


def test_repetitive_texts(named) -> None:
    enc = named("cl100k_base")
    for part in ("^", "0", "a", "'s", " ", "\n"):
        for text in (part * 10_000, " " + part * 10_000, " " + part * 10_000 + "\n"):
            assert enc.decode(enc.encode(text)) == text
    assert enc.encode("x" * 1_000_000)


def test_every_token_is_one_token(named) -> None:
    enc = named("r50k_base")
    for token_id in range(enc.n_vocab):
        assert enc.encode_single_token(enc.decode_single_token_bytes(token_id)) == token_id


def test_names_and_models(named) -> None:
    assert tiktoken.list_encoding_names()[: len(ENCODINGS)] == list(ENCODINGS)
    assert tiktoken.encoding_name_for_model("gpt-4o") == "o200k_base"
    assert named("r50k_base") is tiktoken.encoding_for_model("davinci")
    with pytest.raises(KeyError, match="not known"):
        tiktoken.encoding_for_model("no-such-model")
    for name in ("no such encoding", 3):
        with pytest.raises(ValueError, match="encoding"):
            tiktoken.get_encoding(name)  # type: ignore[arg-type]
    assert bpe.get_encoding("r50k_base").encode("hello world").tolist() == [31373, 995]
