"""Decoding: round trips, incremental decoding, errors, and the ids that are refused."""

from __future__ import annotations

import copy
import inspect
import pickle
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from decoded import TEXT, make_byte_model, make_with_mark, make_with_steps
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

import bpe
from bpe.batch import TokenBatch
from bpe.vocab.symbols import find_unk_id
from bpe.vocab.vocabulary import Vocabulary

# Short calls, without a Python frame ----------------------------------------------------------------------------------

IDS = st.integers(0, 330) | st.sampled_from([-1, 2**31, 2**32 - 1, 2**32, 2**64, True, np.uint32(5), 1.5, "a", None])


def outcome(decode: Callable[..., Any], *args: Any) -> object:
    """The result of a call, or the type and message of its error."""
    try:
        return decode(*args)
    except (TypeError, ValueError, OverflowError) as error:
        return type(error), str(error)


@examples(27)
@given(
    ids=st.lists(st.integers(0, 330), max_size=40) | st.lists(IDS, max_size=6),
    kind=st.sampled_from([list, tuple, np.uint32, np.int64, np.uint8, "strided", "read-only"]),
)
def test_short_calls_decode_as_all_others(ids: list[Any], kind: Any) -> None:
    given_ids: Any = ids
    if kind not in (list, tuple):
        numbers = [n if isinstance(n, int) and 0 <= n < 2**32 else 7 for n in ids]
        given_ids = np.array(numbers, dtype=np.int64).astype(np.uint32 if isinstance(kind, str) else kind)
        if kind == "strided":
            given_ids = np.repeat(given_ids, 2)[::2]
        elif kind == "read-only":
            given_ids.flags.writeable = False
    elif kind is tuple:
        given_ids = tuple(ids)
    for tok in (make_byte_model(), make_with_mark(True), make_with_mark(False)):
        for method in (bpe.Tokenizer.decode, bpe.Tokenizer.decode_bytes):
            assert outcome(method, tok, given_ids) == outcome(inspect.unwrap(method), tok, given_ids)


@pytest.mark.parametrize("n", [0, 1, 1023, 1024, 1025, 3000])
def test_lists_of_any_length_decode_alike(n: int) -> None:
    """Also with tokens whose bytes take more memory than a short call has."""
    tok = bpe.train(texts=["a" * 4000], num_merges=12)
    longest = max(range(len(tok)), key=lambda number: len(tok.token_bytes(number)))
    for ids in ([longest] * n, [0] * n, [*range(len(tok))] * (n // 200)):
        expected = b"".join(tok.token_bytes(number) for number in ids)
        assert tok.decode_bytes(ids) == tok.decode_bytes(np.array(ids, dtype=np.uint32)) == expected
        assert tok.decode(ids) == expected.decode("utf-8", "replace")


def test_short_calls_take_all_arguments() -> None:
    tok = make_byte_model()
    ids = tok.encode("é<|end|>", allowed_special="all").tolist()
    assert tok.decode(ids=ids) == tok.decode(ids, "strict") == tok.decode(ids, errors="strict") == "é<|end|>"
    assert tok.decode(ids, skip_special=True) == "é"
    part = [tok.vocab()[b"\xc3"]]
    assert tok.decode(part, "ignore") == ""
    assert tok.decode(part) == "\ufffd"
    assert tok.decode_bytes(ids=ids, skip_special=True) == "é".encode()
    with pytest.raises(UnicodeDecodeError):
        tok.decode(part, "strict")
    with pytest.raises(TypeError):
        tok.decode()
    with pytest.raises(TypeError):
        tok.decode(ids, skip=True)


# Round trips ----------------------------------------------------------------------------------------------------------


@examples(22)
@given(text=st.text(max_size=40) | st.lists(st.sampled_from(list(TEXT))).map("".join))
def test_text_round_trips(text: str) -> None:
    tok = make_byte_model()
    ids = tok.encode(text)
    for same in (
        ids,
        ids.tolist(),
        tuple(ids.tolist()),
        ids.astype(np.int64),
        ids.astype(np.uint16),
        ids.astype(np.int32),
    ):
        assert tok.decode(same) == text
    assert tok.decode(ids, errors="strict") == text
    assert tok.decode_bytes(ids) == text.encode()
    assert tok.decode_batch([ids, ids]) == [text, text]


@examples(32)
@given(data=st.binary(max_size=60))
def test_bytes_round_trip(data: bytes) -> None:
    tok = make_byte_model()
    assert tok.decode_bytes(tok.encode(data)) == data
    assert tok.decode(tok.encode(data)) == data.decode("utf-8", "replace")


@examples(32)
@given(ids=st.lists(st.integers(0, 316), max_size=20))
def test_any_ids_decode_to_the_bytes_of_their_tokens(ids: list[int]) -> None:
    """Ids in any order decode to the concatenated bytes of their tokens."""
    tok = make_byte_model()
    assert tok.vocab_size == 317
    data = b"".join(map(tok.token_bytes, ids))
    assert tok.decode_bytes(ids) == data
    for errors in ("replace", "ignore", "backslashreplace", "surrogateescape"):
        assert tok.decode(ids, errors=errors) == data.decode("utf-8", errors)


def test_invalid_utf8_is_handled_by_the_errors_argument() -> None:
    tok = make_byte_model()
    ids = tok.encode(b"a\xff\xe3b").tolist()
    assert tok.decode(ids) == tok.decode(ids, errors="replace") == "a\ufffd\ufffdb"
    assert tok.decode(ids, errors="ignore") == "ab"
    with pytest.raises(UnicodeDecodeError, match="can't decode byte 0xff in position 1"):
        tok.decode(ids, errors="strict")
    with pytest.raises(LookupError, match="nope"):
        tok.decode(ids, errors="nope")


def test_special_tokens_decode_to_their_names() -> None:
    tok = make_byte_model()
    ids = tok.encode("low<|end|>low", allowed_special="all")
    assert tok.special_tokens["<|end|>"] in ids
    assert tok.decode(ids) == "low<|end|>low"
    assert tok.decode_bytes([tok.special_tokens["<|end|>"]]) == b"<|end|>"


def test_decoding_no_ids() -> None:
    tok = make_byte_model()
    for ids in ([], (), np.empty(0, dtype=np.uint32), np.empty(0, dtype=np.int64)):
        assert tok.decode(ids) == ""
        assert tok.decode_bytes(ids) == b""
    assert tok.decode_batch([]) == []
    assert tok.decode_batch(tok.encode_batch([])) == []
    assert tok.decode_batch(tok.encode_batch(["", "a", ""])) == ["", "a", ""]


def test_batches() -> None:
    tok = make_byte_model()
    texts = [TEXT, "", "low", "😊"]
    batch = tok.encode_batch(texts)
    assert tok.decode_batch(batch) == texts
    assert tok.decode_batch(batch.to_list()) == texts
    assert tok.decode_batch(iter(batch)) == texts
    assert tok.decode_batch(TokenBatch(batch.ids.astype(np.uint16), batch.offsets)) == texts
    assert tok.decode_batch([tok.encode(b"\xff")], errors="ignore") == [""]


def test_slices_and_strides() -> None:
    tok = make_byte_model()
    ids = tok.encode("a1b2c3")
    assert tok.decode(np.repeat(ids, 2)[::2]) == "a1b2c3"
    assert tok.decode(ids[::-1]) == "3c2b1a"
    assert tok.decode(ids.astype(">u4")) == "a1b2c3"
    ids.flags.writeable = False
    assert tok.decode(ids) == "a1b2c3"


# End-of-word marks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["char", "byte"])
@pytest.mark.parametrize("glued", [False, True])
def test_end_of_word_marks_decode_to_spaces(glued: bool, model: str) -> None:
    tok = make_with_mark(glued, model)
    for text in ("low", "low lower", "the 영화를 é 猫 low", ""):
        assert tok.decode(tok.encode(text)) == text
        assert tok.decode(tok.encode(f"  {text}\n ")) == text
    ids = tok.encode("low lower").tolist()
    assert tok.decode(ids + ids) == "low lower low lower"
    mark = tok.tokens("low lower")[-1]
    assert mark.endswith("</w>" if model == "char" else b"</w>")
    assert tok.decode(tok.encode("low<|end|>low", allowed_special="all")) == "low <|end|>low"


@pytest.mark.parametrize("glued", [False, True])
@pytest.mark.parametrize("normalizer", [None, "lower"])
def test_every_token_is_decoded_by_itself(glued: bool, normalizer: str | None) -> None:
    """With marks, and names that the normalizer changes: as a loop over the tokens finds."""
    spec, flags = make_with_mark(glued).spec, {"<|end|>": frozenset({"normalized"})}
    names = {"<|end|>": spec.special_tokens["<|end|>"], "<UNK>": find_unk_id(spec)}
    made = [(names["<UNK>"], b"<UNK>"), (names["<|end|>"], b"<|end|>")]
    spec = replace(
        spec,
        vocabulary=Vocabulary(spec.vocabulary.items(1), made),
        special_tokens=names,
        unk_token="<UNK>",
        token_flags=flags | {"<UNK>": frozenset({"normalized"})},
        normalizer=normalizer,
    )
    tok = bpe.Tokenizer(spec)
    last = tok.token_id("l")
    for number, token in spec.vocabulary.items():
        text = token.decode()
        expected = text.removesuffix("</w>") + " " * text.endswith("</w>")
        if normalizer and number == names["<UNK>"]:
            expected = "<unk>"
        assert tok.decode([number, last]) == expected + "l"


def test_a_single_mark_decodes_to_nothing() -> None:
    tok = make_with_mark(False)
    mark = tok.token_id("</w>")
    assert tok.decode([mark]) == ""
    assert tok.decode([mark, mark]) == " "
    assert tok.token_bytes(mark) == b"</w>"


def test_the_unknown_token_decodes_to_its_name() -> None:
    tok = make_with_mark(False)
    assert tok.decode(tok.encode("low zow")) == "low <unk>ow"


def test_a_model_without_marks_loses_white_space() -> None:
    tok = bpe.train(texts=["low lower"], num_merges=3, model="char")
    assert tok.decode(tok.encode("low lower")) == "lowlower"


# Incremental decoding -------------------------------------------------------------------------------------------------


@examples(18)
@given(ids=st.lists(st.integers(0, 316), max_size=25), cuts=st.lists(st.integers(0, 25), max_size=4))
def test_incremental_decoding_gives_the_same_text(ids: list[int], cuts: list[int]) -> None:
    tok = make_byte_model()
    decoder = tok.decoder()
    assert "".join([*(decoder.push(number) for number in ids), decoder.flush()]) == tok.decode(ids)
    bounds = sorted({0, len(ids), *(cut for cut in cuts if cut <= len(ids))})
    parts = [decoder.push(ids[a:b]) for a, b in pairwise(bounds)]
    assert "".join([*parts, decoder.flush()]) == tok.decode(ids)


def test_push_returns_only_complete_characters() -> None:
    tok = bpe.train(counts={"a": 1}, num_merges=0)
    decoder = tok.decoder()
    seen = [decoder.push(int(number)) for number in tok.encode("aé猫😊")]
    assert seen == ["a", "", "é", "", "", "猫", "", "", "", "😊"]
    assert decoder.flush() == ""
    assert decoder.push(tok.encode("😊")[:3]) == ""
    assert decoder.flush() == "\ufffd"
    assert decoder.push(tok.encode("a")) == "a"
    assert decoder.push(tok.encode(b"\xe3")) == ""
    assert decoder.push(tok.encode("x")) == "\ufffdx"
    assert decoder.push([]) == ""
    assert decoder.push(np.uint32(tok.token_id("a"))) == "a"
    assert decoder.flush() == ""


def test_pushed_text_is_always_a_prefix_of_the_text() -> None:
    """No character is ever returned in part."""
    tok = make_byte_model()
    decoder, text = tok.decoder(), ""
    for number in tok.encode(TEXT).tolist():
        text += decoder.push(number)
        assert TEXT.startswith(text)
    assert text + decoder.flush() == TEXT


@pytest.mark.parametrize("glued", [False, True])
def test_incremental_decoding_of_end_of_word_marks(glued: bool) -> None:
    tok = make_with_mark(glued)
    random_ = random.Random(1)
    words = TEXT.split()
    for _ in range(100):
        ids = tok.encode(" ".join(random_.choices(words, k=random_.randint(0, 5)))).tolist()
        decoder = tok.decoder()
        assert "".join([*(decoder.push(number) for number in ids), decoder.flush()]) == tok.decode(ids)
        assert "".join([decoder.push(ids), decoder.push([]), decoder.flush()]) == tok.decode(ids)
        assert decoder.push(ids) + decoder.flush() == tok.decode(ids)


def test_decoders_are_independent() -> None:
    tok = make_byte_model()
    first, second = tok.decoder(), tok.decoder()
    ids = tok.encode(b"\xe7").tolist()
    assert first.push(ids) == ""
    assert second.push(tok.encode("a")) == "a"
    assert first.flush() == "\ufffd"


@pytest.mark.parametrize(
    "make",
    [
        make_byte_model,
        lambda: make_with_mark(True),
        lambda: make_with_mark(False),
        make_with_steps,
        lambda: make_with_steps("bytes"),
    ],
)
def test_a_copied_decoder_goes_on_from_the_same_state(make: Callable[[], bpe.Tokenizer]) -> None:
    tok, random_ = make(), random.Random(5)
    ids = random_.choices(range(tok.vocab_size), k=40)
    whole = tok.decoder()
    expected = whole.push(ids) + whole.flush()
    for at in range(len(ids)):
        decoder = tok.decoder()
        before = decoder.push(ids[:at])
        copies = [copy.copy(decoder), copy.deepcopy(decoder), pickle.loads(pickle.dumps(decoder)), decoder]
        rests = [each.push(ids[at:]) + each.flush() for each in copies]
        assert {before + rest for rest in rests} == {expected}
        assert copies[0]._bytes._tokens is decoder._bytes._tokens


def test_a_refused_id_does_not_change_the_decoder() -> None:
    tok = bpe.train(counts={"a": 1}, num_merges=0)
    decoder = tok.decoder()
    begun, rest = tok.encode("é").tolist()
    assert decoder.push(begun) == ""
    for wrong, error in (
        (999, ValueError),
        (-1, ValueError),
        (1.5, TypeError),
        ("a", TypeError),
        (None, TypeError),
        (True, TypeError),
    ):
        with pytest.raises(error):
            decoder.push(wrong)  # type: ignore[arg-type]
    assert decoder.push(rest) == "é"


# Ids that are refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ids", "error", "message"),
    [
        ([0, 317], ValueError, r"token id 317 at position 1 is no token of this vocabulary: ids are from 0 to 316"),
        ([2**32 - 1], ValueError, "token id 4294967295 at position 0"),
        ([2**32], ValueError, r"token id 4294967296 is out of range; ids are from 0 to 2\*\*32 - 1"),
        ([-1], ValueError, "token id -1 is out of range"),
        (np.array([3, -7], dtype=np.int64), ValueError, "token id -7 is out of range"),
        (np.array([2**63], dtype=np.uint64), ValueError, "token id 9223372036854775808 is out of range"),
        ([1.0, 2.0], TypeError, "ids are of dtype float64; they must be integers"),
        (np.array([1.0]), TypeError, "ids are of dtype float64"),
        (np.array([1], dtype=object), TypeError, "ids are of dtype object"),
        (["a"], TypeError, "ids are of dtype <U1"),
        ([None], TypeError, "ids are of dtype object"),
        ([True, False], TypeError, "ids are of dtype bool"),
        (np.array([True]), TypeError, "ids are of dtype bool"),
        ([1, 2.5], TypeError, "ids are of dtype float64"),
        ([[1, 2]], TypeError, r"ids have shape \(1, 2\); they must be one sequence \(decode_batch takes several\)"),
        (np.zeros((2, 0), dtype=np.uint32), TypeError, r"ids have shape \(2, 0\)"),
        (7, TypeError, "ids is 7, an int; it must be a sequence of int"),
        ("12", TypeError, "ids is '12', a str; it must be a sequence of int"),
        ([2**70], ValueError, f"token id {2**70} is out of range"),
        ([-(2**70), 1], ValueError, "token id -.* is out of range"),
        ([[1], [2, 3]], TypeError, "decode_batch takes several"),
        (None, TypeError, "ids"),
        (np.array([1 + 0j]), TypeError, "ids are of dtype complex128"),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), TypeError, "ids are of dtype datetime64"),
    ],
)
def test_invalid_ids_are_refused(ids: Any, error: type[Exception], message: str) -> None:
    tok = make_byte_model()
    with pytest.raises(error, match=message):
        tok.decode(ids)
    with pytest.raises(error, match=message):
        tok.decode_bytes(ids)
    with pytest.raises(error, match=message):
        tok.decode_batch([[0], ids])
    if not isinstance(ids, int):
        with pytest.raises(error, match=message):
            tok.decoder().push(ids)


def test_ragged_lists_are_refused() -> None:
    with pytest.raises((TypeError, ValueError), match=r"ids|inhomogeneous"):
        make_byte_model().decode([[1], [2, 3]])  # type: ignore[list-item]


def test_gaps_between_ids(tmp_path: Any) -> None:
    import base64

    path = tmp_path / "ranks.tiktoken"
    path.write_bytes(b"".join(base64.b64encode(bytes([byte])) + b" %d\n" % byte for byte in range(256)))
    tok = bpe.Tokenizer.from_tiktoken(path, "gpt2", {"<|end|>": 300})
    assert tok.decode([97, 300]) == "a<|end|>"
    with pytest.raises(
        ValueError, match=r"token id 299 at position 1 is no token of this vocabulary: the vocabulary has a gap there"
    ):
        tok.decode([97, 299])
    with pytest.raises(ValueError, match=r"token id 301 at position 0 .*ids are from 0 to 300"):
        tok.decode([301])
    shifted = bpe.train(counts={"a": 1}, num_merges=0, alphabet=bpe.Alphabet(first_id=10))
    with pytest.raises(ValueError, match="token id 9 at position 0"):
        shifted.decode([9])
    assert shifted.decode(shifted.encode("hé")) == "hé"


def test_results_larger_or_smaller_than_estimated() -> None:
    """For over a million ids, the size of the text is estimated from some of them."""
    tok = bpe.train(texts=["supercalifragilistic " * 3], vocab_size=300)
    long, short = tok.token_id("supercalifragilistic"), tok.token_id("s")
    ids = np.full(1_200_000, long, dtype=np.uint32)
    ids[::61] = short
    one = b"s" + b"supercalifragilistic" * 60
    assert tok.decode_bytes(ids) == (one * (len(ids) // 61 + 1))[: int(tok.token_byte_lengths[ids].sum())]
    ids[::61], ids[1::61] = long, short
    assert len(tok.decode_bytes(ids)) == int(tok.token_byte_lengths[ids].sum())
    ids[-1] = 5000
    with pytest.raises(ValueError, match="token id 5000 at position 1199999 is no token"):
        tok.decode(ids)


def test_ids_without_a_token_are_skipped_where_a_call_says_so():
    tok = bpe.train(texts=["a b"], vocab_size=256, alphabet=bpe.Alphabet(first_id=2)).with_tokens(special=["<|end|>"])
    a, end = tok.token_id("a"), tok.token_id("<|end|>")
    ids = [a, 0, 300, -100, end, 2**40, a]
    large_ids = [[a, *large, end, a] for large in ([2**63], [2**70], [-(2**70), 2**64], [np.uint64(2**64 - 1)])]
    for listed in (ids, np.array(ids), *large_ids, tuple(large_ids[0])):
        assert tok.decode(listed, skip_invalid=True) == "a<|end|>a"
        assert tok.decode(listed, skip_invalid=True, skip_special=True) == "aa"
        assert tok.decode_bytes(listed, skip_invalid=True) == b"a<|end|>a"
        assert tok.decode_batch([listed, []], skip_invalid=True) == ["a<|end|>a", ""]
    decoder = tok.decoder(skip_invalid=True)
    assert "".join([*map(decoder.push, ids), decoder.push(ids), decoder.flush()]) == 2 * "a<|end|>a"
    with pytest.raises(ValueError, match="to leave out such ids, pass skip_invalid=True"):
        tok.decode([a, 0])
    for large in (2**63, 2**64 - 1, 2**70, -(2**70)):
        assert decoder.push(large) == ""
        with pytest.raises(ValueError, match=f"token id {large} is out of range"):
            tok.decode([a, large])
    assert tok.decode([np.int64(a), np.uint64(a)]) == "aa"  # float64 in NumPy
    with pytest.raises(TypeError):
        tok.decode([0.5], skip_invalid=True)
