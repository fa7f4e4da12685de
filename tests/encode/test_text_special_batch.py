"""The modules below the tokenizer: text as bytes, special tokens, vocabulary, batches, errors."""

from __future__ import annotations

import os
import pickle
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import gpt2_byte_order, split_specials
from strategies import examples

import bpe
from bpe.base.atomic_files import atomic_write
from bpe.base.utf8 import check_utf8, decode_losslessly, encode_losslessly, to_bytes
from bpe.batch import TokenBatch, as_id_array
from bpe.errors import FormatError, check_choice, check_int, describe, short_repr
from bpe.pretokenize.pipeline import Segment
from bpe.text.letters import list_byte_alphabet, list_byte_letters, map_letters_to_bytes, spell_token_in_letters
from bpe.vocab.special_tokens import SpecialTokens, check_special_tokens
from bpe.vocab.vocabulary import ORDINARY, SPECIAL, UNUSED, Vocabulary

# Text ---------------------------------------------------------------------------------------------------------------


@examples(32)
@given(text=st.text(max_size=20))
def test_str_and_bytes_give_the_same_bytes(text: str) -> None:
    data = text.encode()
    assert to_bytes(text) == to_bytes(data) == to_bytes(bytearray(data)) == to_bytes(memoryview(data)) == data


def test_lone_surrogates_become_replacement_characters() -> None:
    high, low = chr(0xD83D), chr(0xDE0A)
    assert to_bytes(high + low) == "😊".encode()
    assert to_bytes(f"a{high}b{low}c") == "a\ufffdb\ufffdc".encode()
    assert to_bytes(low + high) == "\ufffd\ufffd".encode()
    assert to_bytes(high + high + low) == "\ufffd😊".encode()
    assert to_bytes("😊" + low) == "😊\ufffd".encode()


@examples(32)
@given(text=st.text(st.characters(codec=None, min_codepoint=0xD7F0, max_codepoint=0xE010), max_size=8))
def test_surrogates_as_in_tiktoken(text: str) -> None:
    """tiktoken's own way is to convert to UTF-16 and back."""
    assert to_bytes(text) == text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


@pytest.mark.parametrize("text", [None, 3, 1.5, ["a"], {"a": 1}, np.array([1])])
def test_values_that_are_not_text_are_refused(text: object) -> None:
    with pytest.raises(TypeError, match=rf"text is {re.escape(describe(text))}; it must be str or bytes"):
        to_bytes(text)  # type: ignore[arg-type]


@examples(32)
@given(data=st.binary(max_size=20))
def test_escape_round_trips(data: bytes) -> None:
    assert encode_losslessly(decode_losslessly(data)) == data


def test_check_utf8() -> None:
    check_utf8("aé語😊".encode())
    check_utf8(b"")
    for data, offset in ((b"ab\xff", 2), (b"\xc3", 0), ("é".encode() + b"\x80", 2), (b"\xed\xa0\x80", 0)):
        message = rf"the corpus is not UTF-8: byte 0x{data[offset]:02x} at offset {offset} \(.*\); .*model=\"byte\""
        with pytest.raises(ValueError, match=message):
            check_utf8(data, "the corpus")


def test_atomic_write(tmp_path: Path) -> None:
    target = tmp_path / "out.bin"
    with atomic_write(target) as file:
        file.write(b"one")
        assert not target.exists()
    assert target.read_bytes() == b"one"

    def fail() -> None:
        with atomic_write(target) as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert target.read_bytes() == b"one"
    assert os.listdir(tmp_path) == ["out.bin"]
    with pytest.raises(FileNotFoundError), atomic_write(tmp_path / "none" / "out.bin"):
        pass


@pytest.mark.skipif(sys.platform == "win32", reason="permission bits are POSIX")
def test_atomic_write_keeps_permissions(tmp_path: Path) -> None:
    target = tmp_path / "out.bin"
    old = os.umask(0o027)
    try:
        with atomic_write(target):
            pass
        assert target.stat().st_mode & 0o777 == 0o640
        target.chmod(0o604)
        with atomic_write(str(target)):
            pass
        assert target.stat().st_mode & 0o777 == 0o604
    finally:
        os.umask(old)


# Special tokens -----------------------------------------------------------------------------------------------------

NAMES = {"<|end|>": 7, "<|end": 8, "[PAD]": 9, "é": 10, "a|b": 11}


@examples(45)
@given(
    atoms=st.lists(
        st.sampled_from(["<|end|>", "<|end", "|>", "[PAD]", "é", "a|b", "a", "|", " ", "<", "語"]), max_size=10
    ),
    names=st.sets(st.sampled_from(sorted(NAMES))),
)
def test_texts_are_divided_at_special_tokens(atoms: list[str], names: set[str]) -> None:
    text = "".join(atoms)
    pieces = list(SpecialTokens(NAMES).split(text.encode(), frozenset(names)))
    assert pieces == [
        (part.encode(), NAMES[part] if special else None) for part, special in split_specials(text, names)
    ]
    assert b"".join(part for part, _ in pieces) == text.encode()


def test_allowed_and_disallowed_special_tokens() -> None:
    tokens = SpecialTokens({"<a>": 1, "<b>": 2})
    every, none = frozenset({"<a>", "<b>"}), frozenset[str]()
    assert tokens.resolve_policy((), ()) == (none, none)
    assert tokens.resolve_policy("all", ()) == (every, none)
    assert tokens.resolve_policy((), "all") == (none, every)
    assert tokens.resolve_policy({"<a>"}, "all") == ({"<a>"}, {"<b>"})
    assert tokens.resolve_policy(["<a>"], ["<b>"]) == ({"<a>"}, {"<b>"})
    assert tokens.resolve_policy("all", "all") == (every, none)
    with pytest.raises(
        ValueError, match=r"allowed_special has \['<c>'\], which this tokenizer does not have; .*'<a>', '<b>'"
    ):
        tokens.resolve_policy({"<c>"}, ())
    with pytest.raises(TypeError, match=r'allowed_special is \'<a>\'; it must be "all" or a collection of names'):
        tokens.resolve_policy("<a>", ())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="disallowed_special is '<a>'"):
        tokens.resolve_policy((), "<a>")  # type: ignore[arg-type]


def test_disallowed_special_tokens_are_refused() -> None:
    tokens = SpecialTokens({"<a>": 1, "<b>": 2})
    tokens.refuse(b"x<a>", frozenset())
    tokens.refuse(b"x<b>", frozenset({"<a>"}))
    with pytest.raises(
        ValueError, match=r"disallowed special token '<a>' at byte 3; .*allowed_special=\{'<a>'\}; .*'all'"
    ):
        tokens.refuse("é <a>".encode(), frozenset({"<a>"}))


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        ("<a>", TypeError, r"special_tokens is '<a>'; it must be a list of str"),
        (b"<a>", TypeError, "it must be a list of str"),
        (7, TypeError, "it must be a list of str"),
        ([b"<a>"], TypeError, r"special token b'<a>' is a bytes; it must be a str"),
        (["<a>", ""], ValueError, "special token '' is empty; it must be at least one character"),
        (["<a>", "<b>", "<a>"], ValueError, "special token '<a>' is given twice; each has one id"),
        (["\ud800"], ValueError, "holds a lone surrogate; it must be valid Unicode"),
    ],
)
def test_invalid_special_tokens_are_refused(names: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        check_special_tokens(names)


def test_special_tokens_keep_their_order() -> None:
    assert check_special_tokens(name for name in ("<z>", "<a>")) == ("<z>", "<a>")
    assert check_special_tokens({"b": 1, "a": 0}.keys()) == ("b", "a")


# Vocabulary ---------------------------------------------------------------------------------------------------------


def test_vocabulary_lookups() -> None:
    vocabulary = Vocabulary([(1, b"a"), (5, b"bc"), (2, b"d")], [(9, b"<end>")])
    assert vocabulary.limit == 10
    assert len(vocabulary) == 4
    assert [vocabulary[token_id] for token_id in range(10)] == [
        b"",
        b"a",
        b"d",
        b"",
        b"",
        b"bc",
        b"",
        b"",
        b"",
        b"<end>",
    ]
    assert list(vocabulary.items()) == [(1, b"a"), (2, b"d"), (5, b"bc"), (9, b"<end>")]
    assert list(vocabulary.items(SPECIAL)) == [(9, b"<end>")]
    assert vocabulary.id_of_token == {b"a": 1, b"d": 2, b"bc": 5}
    assert vocabulary.kinds.tolist() == [UNUSED, *[ORDINARY] * 2, UNUSED, UNUSED, ORDINARY, *[UNUSED] * 3, SPECIAL]
    assert vocabulary.lengths.tolist() == [0, 1, 1, 0, 0, 2, 0, 0, 0, 5]
    assert vocabulary.lengths.dtype == np.uint32
    assert vocabulary.offsets.dtype == np.int64
    assert [token_id in vocabulary for token_id in (0, 1, 9, 10, -1)] == [False, True, True, False, False]
    reloaded = Vocabulary.from_arrays(vocabulary.blob, vocabulary.offsets, vocabulary.kinds)
    assert list(reloaded.items()) == list(vocabulary.items())
    with pytest.raises(ValueError, match="read-only"):
        vocabulary.offsets[0] = 3


def test_a_special_token_may_equal_an_ordinary_one() -> None:
    assert Vocabulary([(0, b"a")], [(1, b"a")]).id_of_token == {b"a": 0}


def test_empty_vocabulary() -> None:
    vocabulary = Vocabulary([])
    assert (len(vocabulary), vocabulary.limit, vocabulary.blob) == (0, 0, b"")


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([(-1, b"a")], r"token id -1 of b'a' is out of range; ids are from 0 to 2147483647"),
        ([(2**31, b"a")], "out of range"),
        ([(1, b"a"), (1, b"b")], r"token id 1 is given twice: b'a' and b'b'"),
        ([(1, b"")], "token id 1 has an empty token; a token is at least one byte"),
        ([(1, b"a"), (2, b"a")], r"token b'a' has two ids, 1 and 2; a token has one id"),
        (
            [(2**30, b"a")],
            "the greatest token id is 1073741824; in a vocabulary of 1 token, ids must be below 1000064",
        ),
    ],
)
def test_invalid_vocabularies_are_refused(tokens: list[tuple[int, bytes]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Vocabulary(tokens)


def test_byte_letters() -> None:
    letters = list_byte_letters()
    assert len(set(letters)) == 256
    assert "".join(letters[byte] for byte in b" \n\t\x00\x7f\xad") == "ĠĊĉĀġŃ"
    assert all(letters[byte] == chr(byte) for byte in b"!~aZ09")
    assert [bytes([byte]) for byte in list_byte_alphabet()] == gpt2_byte_order()
    assert list(list_byte_alphabet()[:188]) == [*range(33, 127), *range(161, 173), *range(174, 256)]
    assert {letter: byte for byte, letter in enumerate(letters)} == map_letters_to_bytes()
    assert spell_token_in_letters(bytes(range(256))) == "".join(letters)


# Batches ------------------------------------------------------------------------------------------------------------


@examples(32)
@given(
    rows=st.lists(st.lists(st.integers(0, 2**32 - 1), max_size=6), max_size=6),
    extra=st.integers(0, 3) | st.none(),
    side=st.sampled_from(["left", "right"]),
)
def test_batches_behave_like_lists_of_ids(rows: list[list[int]], extra: int | None, side: str) -> None:
    batch = TokenBatch.from_lists(rows)
    assert len(batch) == len(rows)
    assert batch.to_list() == rows
    assert [row.tolist() for row in batch] == rows
    assert [batch[i].tolist() for i in range(-len(rows), len(rows))] == rows + rows
    assert batch.lengths.tolist() == [len(row) for row in rows]
    assert batch.offsets.dtype == np.int64
    longest = max(map(len, rows), default=0)
    width = longest if extra is None else longest + extra
    padded, lengths = batch.padded(None if extra is None else width, pad_id=9, side=side)
    fill = [[9] * (width - len(row)) for row in rows]
    assert padded.tolist() == [f + row if side == "left" else row + f for f, row in zip(fill, rows, strict=True)]
    assert padded.shape == (len(rows), width)
    assert lengths.tolist() == [len(row) for row in rows]


def test_truncate() -> None:
    batch = TokenBatch.from_lists([[1, 2, 3], [4], []])
    for side in ("left", "right"):
        padded, lengths = batch.padded(2, side=side, truncate=True)
        assert padded.tolist() == [[1, 2], [4, 0] if side == "right" else [0, 4], [0, 0]]
        assert lengths.tolist() == [2, 1, 0]
    assert batch.padded(0, truncate=True)[0].shape == (3, 0)
    with pytest.raises(ValueError, match="text 0 has 3 ids, more than length=2; pass truncate=True or a greater"):
        batch.padded(2)
    with pytest.raises(ValueError, match="side is 'top'; it must be one of 'right', 'left'"):
        batch.padded(side="top")
    with pytest.raises(ValueError, match="pad_id is -1; it must be from 0 to"):
        batch.padded(pad_id=-1)
    with pytest.raises(TypeError, match=r"must be an int, and .* pass the id, tok.special_tokens\['<pad>'\]"):
        batch.padded(pad_id="<pad>")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="length is -2"):
        batch.padded(-2)


def test_batch_of_narrow_ids() -> None:
    batch = TokenBatch(np.array([1, 2], dtype=np.uint16), np.array([0, 2]))
    assert batch.padded(3)[0].dtype == np.uint16
    assert batch[0].base is batch.ids
    with pytest.raises(ValueError, match="pad_id is 65536; it must be from 0 to 65535"):
        batch.padded(pad_id=65536)


def test_batch_compares_by_content() -> None:
    rows = [[1, 2], [3]]
    assert TokenBatch.from_lists(rows) == TokenBatch.from_lists(rows)
    assert TokenBatch.from_lists(rows) != TokenBatch.from_lists([[1], [2, 3]])
    assert TokenBatch.from_lists(rows) != rows
    reloaded = pickle.loads(pickle.dumps(TokenBatch.from_lists(rows)))
    assert reloaded == TokenBatch.from_lists(rows)
    assert repr(reloaded) == "TokenBatch(2 texts, 3 ids, uint32)"
    assert repr(TokenBatch.from_lists([[7]])) == "TokenBatch(1 text, 1 id, uint32)"
    with pytest.raises(TypeError, match="unhashable"):
        hash(reloaded)
    for index in (2, -3):
        with pytest.raises(IndexError, match=f"index {index} is out of range; the batch has 2 texts"):
            reloaded[index]


def test_slices_of_a_batch() -> None:
    rows = [[1, 2], [], [3], [4, 5, 6]]
    batch = TokenBatch.from_lists(rows)
    for first in (None, 0, 1, 3, 9, -2):
        for end in (None, 0, 2, 4, 9, -1):
            assert batch[first:end].to_list() == rows[first:end]
    assert np.shares_memory(batch[1:3].ids, batch.ids)
    with pytest.raises(ValueError, match=r"the slice has step 2; it must be 1 \(for other rows, use TokenBatch"):
        batch[::2]
    for index in ("a", [0, 1], np.array([True, False]), 1.0):
        with pytest.raises(TypeError, match="it must be an int or a slice"):
            batch[index]  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("ids", "offsets", "error", "message"),
    [
        (np.array([1.0]), np.array([0, 1]), TypeError, "ids are float64 of shape"),
        (np.array([1], dtype=np.int64), np.array([0, 1]), TypeError, "must be uint32 or uint16, 1-D"),
        (np.array([[1]], dtype=np.uint32), np.array([0, 1]), TypeError, "must be uint32 or uint16, 1-D"),
        (np.array([1], dtype=np.uint32), np.array([0, 1], dtype=np.int32), TypeError, "offsets are int32"),
        (np.array([1], dtype=np.uint32), np.array([], dtype=np.int64), TypeError, "n \\+ 1 long"),
        (np.array([1], dtype=np.uint32), np.array([0, 2]), ValueError, "must rise from 0 to the number of ids, 1"),
        (np.array([1], dtype=np.uint32), np.array([1, 1]), ValueError, "must rise from 0"),
        (np.array([1], dtype=np.uint32), np.array([0, 1, 0, 1]), ValueError, "must rise from 0"),
    ],
)
def test_invalid_batches_are_refused(
    ids: np.ndarray, offsets: np.ndarray, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        TokenBatch(ids, offsets)


def test_to_arrow() -> None:
    pytest.importorskip("pyarrow")
    assert TokenBatch.from_lists([[1, 2], [], [3]]).to_arrow().to_pylist() == [[1, 2], [], [3]]


@pytest.mark.parametrize("given", [TokenBatch.from_lists([[1]]), bpe.WordCounts()], ids=["batch", "counts"])
def test_to_arrow_without_pyarrow(monkeypatch: pytest.MonkeyPatch, given: TokenBatch | bpe.WordCounts) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        ModuleNotFoundError, match=r"to_arrow needs pyarrow; install the extra: pip install 'bytepair\[arrow\]'"
    ):
        given.to_arrow()


def test_id_array_accepts_every_integer_type() -> None:
    for kind in (np.uint8, np.int8, np.uint16, np.int32, np.uint32, np.int64, np.uint64):
        assert as_id_array(np.array([1, 2], dtype=kind)).tolist() == [1, 2]
    assert as_id_array([1, np.uint16(2)]).tolist() == [1, 2]
    assert as_id_array((3,)).tolist() == [3]
    assert as_id_array([2**32 - 1]).tolist() == [2**32 - 1]
    assert as_id_array([]).dtype == np.uint32
    assert as_id_array(np.array([], dtype=np.float64)).dtype == np.uint32


@pytest.mark.parametrize(
    "ids", [[1.0], np.array([1.0]), ["a"], [None], [True], np.array([1], dtype=object), [[1]], 3, "12", [b"a"]]
)
def test_id_array_refuses_other_values(ids: object) -> None:
    with pytest.raises(TypeError, match=r"ids (are of dtype|have shape|is) .*; (they|it) must be"):
        as_id_array(ids)  # type: ignore[arg-type]


@pytest.mark.parametrize(("ids", "bad"), [([1, -1], -1), ([2**32], 2**32), (np.array([5, 2**40]), 2**40)])
def test_id_array_out_of_range(ids: list[int], bad: int) -> None:
    with pytest.raises(ValueError, match=rf"token id {bad} is out of range; ids are from 0 to 2\*\*32 - 1"):
        as_id_array(ids)


def test_id_array_of_numbers_beyond_64_bits() -> None:
    with pytest.raises((TypeError, ValueError), match=r"ids|token id"):
        as_id_array([2**64])


# Errors -------------------------------------------------------------------------------------------------------------


def test_format_error() -> None:
    error = FormatError("no such thing", path=Path("dir") / "a.json", where="line 7")
    assert str(error) == f"{os.path.join('dir', 'a.json')}, line 7: no such thing"
    assert isinstance(error, ValueError)
    assert str(FormatError("x")) == "x"
    assert str(FormatError("x", where="offset 3")) == "offset 3: x"
    reloaded = pickle.loads(pickle.dumps(error))
    assert (str(reloaded), reloaded.path, reloaded.where) == (str(error), error.path, error.where)


def test_argument_checks() -> None:
    assert check_int("n", np.int16(3), 0) == 3
    assert type(check_int("n", np.int16(3), 0)) is int
    for value in (True, 1.0, "1", None):
        with pytest.raises(TypeError, match=rf"n is {re.escape(describe(value))}; it must be an int of at least 0"):
            check_int("n", value, 0)
    with pytest.raises(TypeError, match="n is None; it must be an int from 0 to 8"):
        check_int("n", None, 0, 8)
    with pytest.raises(ValueError, match="n is -1; it must be at least 0"):
        check_int("n", -1, 0)
    with pytest.raises(ValueError, match="n is 9; it must be from 0 to 8"):
        check_int("n", 9, 0, 8)
    assert check_choice("k", "a", ("a", "b")) == "a"
    for wrong in ("c", 3, None, ["a"]):
        with pytest.raises(ValueError, match=rf"k is {re.escape(repr(wrong))}; it must be one of 'a', 'b'"):
            check_choice("k", wrong, ("a", "b"))
    assert short_repr("a" * 100) == "'" + "a" * 58 + "…"


@examples(19)
@given(
    parts=st.lists(
        st.text(max_size=5)
        | st.sampled_from(["<|a|>", "<|ab|>", "<|a", "|>", "low lower", " é영화 ", "\ufffd", "\ud800"])
    ),
    allowed=st.sampled_from(["all", ("<|a|>",), ("<|ab|>", "<|a|>")]),
)
def test_texts_with_special_tokens_are_encoded_part_by_part(parts: list[str], allowed: Any) -> None:
    """As the segments between the tokens by themselves."""
    text = "".join(parts)
    for model in ("byte", "char"):
        tok = small_tokenizer(model)
        engine = tok._engine
        names = engine.specials.resolve_allowed(allowed)
        expected: list[int] = []
        for piece, token_id in engine.specials.split(to_bytes(text), names):
            segment = Segment(bytes(piece), engine.spec.pretokenizer)
            expected += engine.encode_segment(segment).tolist() if token_id is None else [token_id]
        options: Any = {"allowed_special": allowed, "disallowed_special": ()}
        for given_text in (text, to_bytes(text)):
            assert tok.encode(given_text, **options).tolist() == expected
        assert [row.tolist() for row in tok.encode_batch([text, "", text], **options)] == [expected, [], expected]


@cache
def small_tokenizer(model: Any) -> bpe.Tokenizer:
    return bpe.train(
        texts=["low lower lowest é영화 영화관"] * 3,
        num_merges=20,
        model=model,
        unk_token="<unk>" if model == "char" else None,
        special_tokens=["<|a|>", "<|ab|>"],
    )


@pytest.mark.parametrize("size", [1 << 10, 3 << 20])
def test_a_large_part_after_a_special_token_keeps_the_ids_before(size: int) -> None:
    """The memory for the ids of a large text is another one than that of short texts."""
    tok = small_tokenizer("byte")
    text = "low <|a|>" + "lower lowest é " * (size // 16) + "<|ab|>low" * 3
    ids = tok.encode(text, allowed_special="all")
    assert tok.decode(ids) == text
    assert np.array_equal(ids, tok.encode_batch([text], allowed_special="all").ids)


def test_a_large_unit_after_many_small_ones_keeps_their_ids() -> None:
    tok = bpe.train(
        texts=["By the way, he said. " * 5 + "12 "], vocab_size=290, superwords=bpe.SuperWords(transition=270)
    )
    data = b"By the 12 " * 256 + b"By the way, he said. " * 60_000
    starts = np.arange(257) * 10
    ids, known = tok._engine.encoder.encode_pretokens(data, starts, np.append(starts[1:], len(data)))
    assert known
    assert tok.decode_bytes(ids) == data


@pytest.mark.parametrize("size", [1, 300, 70_000])
@pytest.mark.parametrize(
    "characters", ["ab", "é ß", "한국 ", "😀 b", "a\ud83d\ude00", "\ud800한b\udc00 ", "\udfffé\U0010ffff"]
)
def test_long_texts_with_special_tokens_equal_short_ones(size: int, characters: str) -> None:
    """A str is converted to UTF-8 without the GIL, of any width of its characters, surrogates included."""
    tok = bpe.train(texts=["한국 ab é"], vocab_size=262, special_tokens=["<e>", "<f>"])
    part = characters * size
    text = f"<e>{part}<e><f>{part}<"
    ids_of_part = tok.encode(part).tolist()
    assert ids_of_part == tok.encode(to_bytes(part)).tolist()
    expected = [0, *ids_of_part, 0, 1, *tok.encode(f"{part}<").tolist()]
    assert tok.encode(text, allowed_special="all").tolist() == expected
    assert tok.encode(text, allowed_special={"<e>", "<f>"}).tolist() == expected
    assert tok.encode(text, allowed_special={"<f>"}).tolist()[-len(ids_of_part) :] == expected[-len(ids_of_part) :]
