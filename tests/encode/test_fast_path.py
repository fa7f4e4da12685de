"""`Tokenizer.encode` of short texts: the fast path in the kernel gives the results of the Python method."""

from __future__ import annotations

import inspect
import itertools
import pickle
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bpe
from bpe.base._aho_corasick import Finder
from bpe.base.utf8 import to_bytes
from bpe.encode import _fast_path
from bpe.encode._special_encoder import SpecialEncoder
from bpe.encode.engine import join_ids
from bpe.encode.limits import truncate

CORPUS = ["low lower lowest don't 123 newest, 낮은 학교에 갔다 été ſ 😊 \n\n  wide-open"] * 4
TOKENIZERS = [
    *(bpe.train(texts=CORPUS, vocab_size=300, pretokenizer=name) for name in ("gpt2", "cl100k", "o200k", "whitespace")),
    bpe.train(texts=CORPUS, vocab_size=300, pretokenizer=None),
    bpe.train(texts=CORPUS, vocab_size=300, pretokenizer=bpe.Pretokenizer.from_regex(r"\w+|\W")),
    bpe.train(texts=CORPUS, vocab_size=300, normalizer=bpe.normalizers.Lowercase()),
    bpe.train(texts=CORPUS, num_merges=20, model="char", pretokenizer="whitespace", end_of_word="</w>", unk_token="?"),
]
TWINS = {tok: pickle.loads(pickle.dumps(tok)) for tok in TOKENIZERS}  # copies with caches of their own
PIECES = [*"aeiou lowest'\n\0", "low", " newest", "été", "낮은", "학교에", "😊", "\ud800", "\udc00", "123", "x" * 17]


@given(st.sampled_from(TOKENIZERS), st.lists(st.sampled_from(PIECES), max_size=200).map("".join))
def test_the_fast_path_gives_the_ids_of_the_method(tok: bpe.Tokenizer, text: str) -> None:
    expected = TWINS[tok]._engine.encode(text)
    for _ in range(2):
        actual = tok.encode(text)
        assert actual.dtype == np.uint32
        assert np.array_equal(actual, expected)
    for options in ({"disallowed_special": ()}, {"allowed_special": (), "disallowed_special": ()}, {"dropout": 0.0}):
        assert tok.encode(text, **options).tolist() == expected.tolist()
    with pytest.raises(TypeError, match="threads"):
        tok.encode(text, threads=2)  # type: ignore[call-arg]


@given(st.sampled_from(TOKENIZERS[:6]), st.lists(st.sampled_from(PIECES), max_size=30).map("".join), st.binary())
def test_the_fast_path_gives_the_ids_of_the_method_for_bytes(tok: bpe.Tokenizer, text: str, tail: bytes) -> None:
    """Bytes need not be UTF-8; 0xFF also occurs as padding in keys of the cache."""
    data = text.encode("utf-8", "replace") + tail
    expected = TWINS[tok]._engine.encode(data).tolist()
    assert [tok.encode(data).tolist() for _ in range(2)] == [expected] * 2


@given(st.sampled_from(TOKENIZERS), st.lists(st.lists(st.sampled_from(PIECES), max_size=40).map("".join), max_size=30))
def test_small_batches_equal_single_texts(tok: bpe.Tokenizer, texts: list[str]) -> None:
    batch = tok.encode_batch(texts)
    assert batch == bpe.TokenBatch.from_lists([tok._engine.encode(text) for text in texts])
    assert (batch.ids.dtype, batch.offsets.dtype) == (np.uint32, np.int64)
    assert np.array_equal(tok.count_tokens(texts), batch.lengths)
    mixed: list[Any] = [text.encode("utf-8", "replace") if number % 2 else text for number, text in enumerate(texts)]
    assert tok.encode_batch(mixed, threads=2) == bpe.TokenBatch.from_lists([tok.encode(text) for text in mixed])


@given(st.sampled_from(TOKENIZERS), st.lists(st.sampled_from(PIECES), max_size=200).map("".join), st.integers(1, 40))
def test_counts_are_the_numbers_of_ids(tok: bpe.Tokenizer, text: str, times: int) -> None:
    for piece in (text, text * times):
        count = len(TWINS[tok]._engine.encode(piece))
        assert [tok.count_tokens(piece), type(tok.count_tokens(piece))] == [count, int]
        data = piece.encode("utf-8", "replace")
        assert tok.count_tokens(data, disallowed_special=()) == len(TWINS[tok]._engine.encode(data))
        counts = tok.count_tokens([piece, "", data], threads=1)
        assert (counts.tolist(), counts.dtype) == ([count, 0, tok.count_tokens(data)], np.int64)


@pytest.mark.parametrize("middle_size", [1, 40, 300])
def test_texts_that_differ_in_the_middle_only(middle_size: int) -> None:
    """A text with the ends and the size of an earlier one is first taken for one that comes again."""
    texts = [f"낮은 학교에 갔다 {middle * middle_size} 학교에" for middle in ("갔", "모", "낮")]
    for tok in TOKENIZERS:
        for text in (*texts, *texts[::-1]):
            assert tok.encode(text).tolist() == TWINS[tok]._engine.encode(text).tolist()


def test_counts_of_long_texts_need_no_array() -> None:
    for tok in TOKENIZERS:
        for text in ("low newest 123 " * 9000, "낮은 학교에 " * 9000, "low", "x" * 40_000):
            expected = len(TWINS[tok]._engine.encode(text))
            assert tok.count_tokens(text) == tok.count_tokens(text.encode()) == tok.count_tokens([text])[0] == expected


@given(st.sampled_from(TOKENIZERS), st.lists(st.sampled_from(PIECES), max_size=200).map("".join), st.integers(1, 20))
def test_offsets_of_the_kernel_are_those_of_pretokens(tok: bpe.Tokenizer, text: str, times: int) -> None:
    twin = TWINS[tok]._offset_encoder
    always = tok._engine.specials.always_names
    units: list[Any] = ["char", "byte"]
    for unit in units:
        for piece in (text, text * times, text.encode("utf-8", "replace") * times):
            ids, spans = tok.encode_with_offsets(piece, unit)
            expected = twin._encode_by_pretokens(piece, to_bytes(piece), always, unit)
            assert ids.tolist() == expected[0].tolist()
            assert spans.tolist() == expected[1].tolist()
            assert (ids.dtype, spans.dtype, spans.shape) == (np.uint32, np.int64, (len(ids), 2))


def test_offsets_refuse_what_the_method_refuses() -> None:
    tok: Any = TOKENIZERS[1]
    for arguments, keywords in (((), {}), ((3,), {}), (("a", "word"), {}), (("a", 3), {}), (("a",), {"special": 1})):
        with pytest.raises((TypeError, ValueError)):
            tok.encode_with_offsets(*arguments, **keywords)
    assert tok.encode_with_offsets("low", unit="byte")[1].tolist() == tok.encode_with_offsets("low")[1].tolist()
    assert list(inspect.signature(tok.encode_with_offsets).parameters)[:2] == ["text", "unit"]


@given(
    st.sampled_from(TOKENIZERS),
    st.lists(st.sampled_from(PIECES), max_size=100).map("".join),
    st.integers(1, 100),
    st.integers(0, 200) | st.integers(0, 1 << 40),
)
def test_truncation_in_the_kernel_is_that_of_the_method(
    tok: bpe.Tokenizer, text: str, times: int, max_tokens: int
) -> None:
    for piece in (text * times, text.encode("utf-8", "replace") * times):
        expected = truncate(TWINS[tok]._offset_encoder, piece, max_tokens, frozenset())
        actual = tok.truncate(piece, max_tokens)
        assert (actual, type(actual)) == (expected, type(expected))
        assert actual is piece or tok.count_tokens(actual) <= max_tokens < tok.count_tokens(piece)


def test_texts_of_every_short_length() -> None:
    """Short texts are copied in vectors, and truncation encodes their beginning up to a safe split point."""
    text = "low newest (wide) don't 1234\n\nlower, " * 8 + "x" * 40 + "낮은 학교에 갔다 été" * 4
    for tok in TOKENIZERS[:5]:
        twin = TWINS[tok]
        for size in range(len(text)):
            ids = twin._engine.encode(text[:size])
            assert tok.encode(text[:size]).tolist() == ids.tolist()
            assert tok.count_tokens(text[:size]) == len(ids)
            assert tok.truncate(text, size) == truncate(twin._offset_encoder, text, size, frozenset())


def test_truncation_where_bytes_have_no_token() -> None:
    """A symbol without an id far after the cut has the result that it has in the method."""
    vocab = {name: token_id for token_id, name in enumerate(["l", "o", "w", "Ġ", "lo", "low"])}
    tok = bpe.Tokenizer.from_vocab_merges(vocab, [("l", "o"), ("lo", "w")])
    twin = pickle.loads(pickle.dumps(tok))
    for text in ("low " * 30 + "x", "low " * 3 + "x" + "low " * 80):
        for max_tokens in (0, 1, 3, 70):
            assert tok.truncate(text, max_tokens) == truncate(twin._offset_encoder, text, max_tokens, frozenset())


@pytest.mark.parametrize("length", [0, 3, 2**32 - 1])
def test_lengths_of_another_vocabulary_read_nothing_beyond_the_text(length: int) -> None:
    tok: Any = pickle.loads(pickle.dumps(TOKENIZERS[1]))
    tok._fast_offsets = _fast_path.FastOffsetEncoder(tok._fast_encoder, np.full(300, length, dtype=np.uint32))
    for text in ("low é lowest", "low lowest", b"low lowest", b"low lowest " * 1000):
        assert text.startswith(tok.truncate(text, 2))
        assert len(tok.encode_with_offsets(text, "byte")[0]) == tok.count_tokens(text)


NAMES = ["<|end|>", "<|e", "low<", "é!", "\n<"]
SPECIAL_PIECES = [*PIECES, *NAMES, "<|end|", "\n"]


@given(
    st.sampled_from([tok for tok in TOKENIZERS if tok.spec.model == "byte"]),
    st.lists(st.sampled_from(SPECIAL_PIECES), max_size=100).map("".join),
    st.integers(1, 60),
)
def test_special_tokens_of_the_kernel_are_those_of_segments(tok: bpe.Tokenizer, text: str, times: int) -> None:
    special = with_names(tok)
    engine = special._engine
    for allowed in (frozenset(NAMES), frozenset(NAMES[:1])):
        for piece in (text, text * times, text.encode("utf-8", "replace") * times):
            segments = engine._preparer.prepare(to_bytes(piece), allowed, None)
            expected = join_ids([engine.encode_segment(segment) for segment in segments]).tolist()
            options: list[Any] = [allowed, set(allowed)] + ["all"] * (len(allowed) == len(NAMES))
            for option in options:
                assert special.encode(piece, allowed_special=option).tolist() == expected
                assert special.count_tokens(piece, allowed_special=option) == len(expected)


@cache
def with_names(tok: bpe.Tokenizer) -> bpe.Tokenizer:
    return tok.with_tokens(special=NAMES)


@pytest.mark.parametrize("word", ["low lowest ", "한국 low é"], ids=["ascii", "wide"])
def test_long_and_short_texts_between_special_tokens(word: str) -> None:
    """Long texts that did not come before are one feed, with the special tokens between them; others are not."""
    special = with_names(TOKENIZERS[1])
    parts = [word, word * 20, word * 21, ""]
    ids = [special.encode(part, disallowed_special=()).tolist() for part in parts]
    end = special.encode("<|end|>", allowed_special="all").tolist()
    for chosen in itertools.product(range(len(parts)), repeat=4):
        text = "<|end|>".join(parts[i] for i in chosen)
        expected = [token for i in chosen for token in (*ids[i], *end)][: -len(end)]
        for same in (text, text, text.encode()):
            assert special.encode(same, allowed_special="all").tolist() == expected


def test_special_tokens_need_an_id_for_each_string() -> None:
    encoder, finder = TOKENIZERS[1]._engine.encoder, Finder([b"a", b"b"])
    assert SpecialEncoder(encoder, finder, np.array([7, 8], dtype=np.uint32)).encode("ba") is not None
    for n in (0, 1, 3):
        with pytest.raises(ValueError, match=f"token_ids has {n} elements; it must have 2"):
            SpecialEncoder(encoder, finder, np.zeros(n, dtype=np.uint32))


def test_batches_that_the_fast_path_leaves_to_python() -> None:
    tok = TOKENIZERS[1]
    for texts, threads in ((["a", 3], 1), (["a"], 0), (["a"], 5000), (["a"], 1.0), ("a", 1), ([None], None)):
        wrong: Any = texts
        with pytest.raises((TypeError, ValueError)):
            tok.encode_batch(wrong, threads=threads)  # type: ignore[arg-type]
    long = ["low " * 5000, "x", bytearray(b"low"), "é" * 70_000]
    assert [ids.tolist() for ids in tok.encode_batch(long)] == [tok.encode(text).tolist() for text in long]
    assert len(tok.encode_batch([])) == 0


@pytest.mark.parametrize("size", [127, 128, 129, 511, 1364, 1365, 1366, 4095, 4096, 4097])
def test_texts_around_the_longest_of_the_fast_path(size: int) -> None:
    for tok in TOKENIZERS[:4]:
        for piece in ("a low ", "\0", "e", "é", "낮 ", "é낮x"):
            text = (piece * size)[:size]
            assert np.array_equal(tok.encode(text), tok.encode_batch([text])[0]), (tok, piece)


def test_unknown_characters_are_refused() -> None:
    tok = bpe.train(texts=["low lower"], num_merges=2, model="char")
    for _ in range(2):
        ids = tok.encode("low").tolist()
        assert tok.tokens("low") == [token for token, token_id in tok.vocab().items() if token_id in ids]
        for text in ("lox", "l낮", "x" * 300):
            with pytest.raises(ValueError, match="is not in the vocabulary"):
                tok.encode(text)


def test_the_kernel_function_behaves_like_a_method() -> None:
    tok = TOKENIZERS[1]
    parameters = inspect.signature(tok.encode).parameters
    assert list(parameters) == ["text", "allowed_special", "disallowed_special", "dropout", "seed", "template"]
    assert [parameters[name].default for name in list(parameters)[1:]] == [(), (), None, None, False]
    assert (tok.encode.__name__, bpe.Tokenizer.encode.__qualname__) == ("encode", "Tokenizer.encode")
    assert "Encode one text" in (inspect.getdoc(bpe.Tokenizer.encode) or "")
    assert inspect.isroutine(tok.encode)
    bound: Any = tok.encode
    assert [ids.tolist() for ids in map(bound, ["low", b"low"])] == [tok.encode("low").tolist()] * 2
    assert np.array_equal(pickle.loads(pickle.dumps(bound))("low"), bound("low"))
    for arguments, keywords in (((), {}), ((3,), {}), (("a", "b"), {}), (("a",), {"special": 1})):
        with pytest.raises(TypeError):
            bound(*arguments, **keywords)


@pytest.mark.parametrize("name", ["encode", "count_tokens", "encode_with_offsets", "truncate"])
def test_the_kernel_functions_have_the_parameters_of_the_methods(name: str) -> None:
    function = getattr(bpe.Tokenizer, name)
    parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    expected = inspect.signature(function).parameters.values()
    assert [(each.name, each.kind, each.default) for each in parameters] == [
        (each.name, each.kind, each.default) for each in expected
    ]


def test_options_that_are_the_defaults_take_the_fast_path() -> None:
    tok: Any = pickle.loads(pickle.dumps(TOKENIZERS[1]))
    plain = {"allowed_special": (), "disallowed_special": ()}
    calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        ("encode", ("low é",), {**plain, "dropout": None, "seed": None, "template": False}),
        ("count_tokens", ("low é",), {**plain, "limit": None, "threads": 2}),
        ("encode_with_offsets", ("low é", "byte"), {**plain, "template": False, "convention": "whole"}),
        ("truncate", ("low é", 2), {"side": "right", "allowed_special": ()}),
    ]
    tok.encode_with_offsets("low")  # makes the encoder of offsets
    expected = [getattr(tok, name)(*arguments) for name, arguments, _ in calls]
    for engine in ("_engine", "_engine_without_dropout"):
        setattr(tok, engine, None)  # the methods need it
    for (name, arguments, options), result in zip(calls, expected, strict=True):
        assert repr(getattr(tok, name)(*arguments, **options)) == repr(result)
        with pytest.raises(TypeError, match="unknown"):
            getattr(tok, name)(*arguments, unknown=1)


def test_subclasses_of_str_and_tokenizer() -> None:
    class Text(str):
        """Another class of str."""

        __slots__ = ()

    class Louder(bpe.Tokenizer):
        """Encodes its text in capitals."""

        def encode(self, text: Any, **keywords: Any) -> Any:
            return super().encode(text.upper(), **keywords)

    tok = TOKENIZERS[1]
    assert np.array_equal(Louder(tok.spec).encode("low"), tok.encode("LOW"))
    assert np.array_equal(tok.encode(Text("low")), tok.encode("low"))


@pytest.mark.parametrize("name", [None, "nfc"])
def test_methods_of_a_subclass_of_str_are_not_used(name: str | None) -> None:
    class Text(str):
        """Lies about its content."""

        __slots__ = ()

        def __len__(self) -> int:
            return 1

        def __contains__(self, _: object) -> bool:
            return False

        def isascii(self) -> bool:
            return True

        def encode(self, *_: Any) -> bytes:
            return b"zz"

    tok = bpe.train(texts=["low lower é"], vocab_size=262, special_tokens=["<|end|>"], normalizer=name)
    for text in ("low", "é<|end|>", "low " * 3000):
        for call in (
            tok.encode,
            lambda text, tok=tok: tok.encode(text, allowed_special="all"),
            lambda text, tok=tok: tok.encode(text, dropout=1.0),
            tok.count_tokens,
            tok.tokens,
            lambda text, tok=tok: tok.encode_with_offsets(text)[1],
            lambda text, tok=tok: list(map(ord, tok.truncate(text, 3))),
            lambda text, tok=tok: tok.encode_batch([text, text], allowed_special="all").ids,
            lambda text, tok=tok: bpe.PromptCache(tok).encode(text)[0],
        ):
            assert np.array_equal(call(Text(text)), call(text))
