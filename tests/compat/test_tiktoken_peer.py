"""`bpe.compat.tiktoken` beside the installed tiktoken: equal members, ids, bytes, offsets, completions and errors."""

from __future__ import annotations

import inspect
from functools import cache, partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

import bpe
import bpe.compat.tiktoken as compat
from bpe.formats.openai_encodings import ENCODINGS

tiktoken = pytest.importorskip("tiktoken", reason="tiktoken is not installed")

KIMI = (
    r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
PATTERNS = {
    **{name: bpe.Pretokenizer(name).pattern for name in ("gpt2", "cl100k", "o200k")},
    "kimi": KIMI,
    "end": r"\w+$|\s++$|\w|\s|[^\w\s]+",
    "gaps": r"[a-z]+|\d",
}
SPECIAL = {"<|endoftext|>": 310, "<|user|>": 311, "<|endofprompt|>": 330}
WORDS = [
    "low",
    " new",
    "EST",
    "'s",
    "'LL",
    " ",
    "  ",
    "\n",
    "\r\n",
    "\t",
    "12345",
    "!?",
    "한국어",
    "漢字",
    "é",
    "😀",
    "\x85",
]
WORDS += ["\u3000", "$", *SPECIAL, "<|", "|>", "\ud83d", "\udc4d", "\ufffd", "\ufeff"]
TEXT = st.lists(st.sampled_from(WORDS) | st.text(max_size=3), max_size=8).map("".join)


@cache
def ranks() -> dict[bytes, int]:
    texts = ["low lower LOWEST it's 12345!!", "new newer newest  ", "漢字 한국어 😀\n\n"] * 4
    return bpe.train(texts=texts, vocab_size=310).vocab()


@cache
def make_pair(pattern: str) -> tuple[Any, Any]:
    """(tiktoken's encoding, ours) of a pattern in PATTERNS."""
    arguments = {"pat_str": PATTERNS[pattern], "mergeable_ranks": ranks(), "special_tokens": SPECIAL}
    return tiktoken.Encoding("small", **arguments), compat.Encoding("small", **arguments)


def get_result(call: Any) -> Any:
    """What a call returns, or the type of the exception that it raises."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001 (their type is compared)
        return type(error)


def assert_same(pattern: str, method: str, *arguments: Any, **options: Any) -> None:
    a, b = (get_result(partial(getattr(enc, method), *arguments, **options)) for enc in make_pair(pattern))
    assert a == b, (method, arguments, options)


def test_members() -> None:
    private = {"_encode_bytes", "_encode_single_piece", "_encode_only_native_bpe", "__getstate__", "__setstate__"}
    members = {name for name in dir(tiktoken.Encoding) if not name.startswith("_")} | private
    assert members <= set(dir(compat.Encoding))
    attributes = {name for name in vars(make_pair("gpt2")[0]) if name != "_core_bpe"}
    assert all(hasattr(make_pair("gpt2")[1], name) for name in attributes)
    assert {name for name in dir(compat.Encoding) if not name.startswith("_")} <= members | {"name"}
    for name in members - private:
        member = getattr(tiktoken.Encoding, name)
        if inspect.isfunction(member):
            expected, parameters = (
                inspect.signature(getattr(library.Encoding, name)).parameters for library in (tiktoken, compat)
            )
            assert list(expected) == list(parameters)
            for key, parameter in expected.items():
                assert parameter.kind == parameters[key].kind
                assert parameter.default in (parameters[key].default, set())
    names = {name for name in dir(tiktoken) if not name.startswith("_") and callable(getattr(tiktoken, name))}
    assert names <= set(compat.__all__)


@pytest.mark.parametrize("pattern", PATTERNS)
@given(text=TEXT)
@examples(5)
def test_encoding(pattern, text) -> None:
    assert_same(pattern, "encode_ordinary", text)
    assert_same(pattern, "encode_ordinary_batch", [text, "low", text], num_threads=2)
    for options in (
        {},
        {"allowed_special": "all"},
        {"disallowed_special": ()},
        {"allowed_special": {"<|user|>"}, "disallowed_special": ()},
        {"allowed_special": {"<|user|>", "low"}},
        {"disallowed_special": ("low", "<|user|>")},
    ):
        assert_same(pattern, "encode", text, **options)
        assert_same(pattern, "encode_batch", [text], num_threads=1, **options)
    a, b = (
        get_result(lambda enc=enc: enc.encode_to_numpy(text, disallowed_special=()).tolist())
        for enc in make_pair(pattern)
    )
    assert a == b


@pytest.mark.parametrize("pattern", ["gpt2", "cl100k"])
@given(text=TEXT, tail=st.binary(max_size=4))
@examples(11)
def test_bytes_and_pieces(pattern, text, tail) -> None:
    data = text.encode("utf-8", "surrogatepass") + tail
    assert_same(pattern, "_encode_bytes", data)
    assert_same(pattern, "_encode_only_native_bpe", text)
    assert_same(pattern, "encode_single_token", data)
    assert_same(pattern, "encode_single_token", text)
    if data:
        assert_same(pattern, "_encode_single_piece", data)


@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", "gaps"])
@given(text=TEXT)
@examples(11)
def test_unstable_tokens(pattern, text) -> None:
    for options in ({"disallowed_special": ()}, {"allowed_special": "all"}, {}):
        a, b = (get_result(partial(enc.encode_with_unstable, text, **options)) for enc in make_pair(pattern))
        assert (a if isinstance(a, type) else (a[0], sorted(a[1]))) == b


@given(ids=st.lists(st.integers(0, 335), max_size=8))
@examples(11)
def test_decoding(ids) -> None:
    for method in ("decode", "decode_bytes", "decode_tokens_bytes", "decode_with_offsets"):
        assert_same("gpt2", method, ids)
    for errors in ("strict", "ignore"):
        assert_same("gpt2", "decode", ids, errors)
    assert_same("gpt2", "decode_batch", [ids, [1]], errors="ignore", num_threads=2)
    assert_same("gpt2", "decode_bytes_batch", [ids, [1]], num_threads=2)
    for token_id in ids:
        assert_same("gpt2", "decode_single_token_bytes", token_id)
        assert_same("gpt2", "is_special_token", token_id)


@pytest.mark.parametrize(
    ("method", "argument"),
    [
        *(("decode", ids) for ids in ([-1], [2**32], [1.0], "ab", b"ab", (1, 2), {1}, None, [True], [310], [331])),
        *(("decode_single_token_bytes", token_id) for token_id in (-1, 2**32, "a", 331, 305)),
        *(("encode_single_token", token) for token in ("no token", b"\xff\xff", 5, "", "<|user|>", "\ud800")),
        *(("encode", text) for text in (b"ab", None)),
        *(("encode_ordinary", text) for text in (b"ab", None)),
        *(("encode_batch", texts) for texts in ("low", ["a", b"b"], [], ("a", "b"))),
        *(("decode_batch", rows) for rows in ([[1], [331]], [1], [])),
        ("decode_with_offsets", [128, 128]),
        ("_encode_bytes", "a"),
    ],
)
def test_errors_have_the_same_type(method, argument) -> None:
    assert_same("gpt2", method, argument)


@pytest.mark.parametrize("allowed", [["<|user|>"], "<|user|>", {"<|user|>"}, frozenset(), set()])
@pytest.mark.parametrize("disallowed", ["all", (), ["low"], {"<|user|>"}])
def test_policies(allowed, disallowed) -> None:
    for text in ("new<|user|>", "low"):
        assert_same("gpt2", "encode", text, allowed_special=allowed, disallowed_special=disallowed)


def test_key_errors_have_the_same_arguments() -> None:
    for method, argument in (
        ("decode", [331]),
        ("decode_single_token_bytes", 331),
        ("encode_single_token", "no token"),
    ):
        arguments = []
        for enc in make_pair("gpt2"):
            with pytest.raises(KeyError) as error_info:
                getattr(enc, method)(argument)
            arguments.append(error_info.value.args)
        assert arguments[0] == arguments[1]


@given(st.lists(st.binary(min_size=1, max_size=4), max_size=30, unique=True), st.randoms(), st.binary(max_size=20))
@examples(5)
def test_any_ranks(tokens, random, data) -> None:
    """Ranks with gaps, in any order, of tokens that merging may not reach."""
    all_tokens = [*{*(bytes([byte]) for byte in range(256)), *tokens}]
    ranks = random.sample(range(2 * len(all_tokens)), len(all_tokens))
    arguments = {
        "pat_str": r"\w+|\W+",
        "mergeable_ranks": dict(zip(all_tokens, ranks, strict=True)),
        "special_tokens": {},
    }
    a, b = tiktoken.Encoding("any", **arguments), compat.Encoding("any", **arguments)
    for sample in (data, data + data, b"".join(tokens[:5])):
        assert a._encode_bytes(sample) == b._encode_bytes(sample)
        if sample:
            assert a._encode_single_piece(sample) == b._encode_single_piece(sample)
        text = sample.decode("latin-1")
        assert a.encode(text) == b.encode(text)
        assert a.encode_with_unstable(text)[0] == b.encode_with_unstable(text)[0]
        assert sorted(a.encode_with_unstable(text)[1]) == b.encode_with_unstable(text)[1]
    assert a.token_byte_values() == b.token_byte_values()
    assert a.n_vocab == b.n_vocab


@pytest.mark.parametrize("name", ["gpt2", "r50k_base", "cl100k_base", "o200k_base", "o200k_harmony"])
def test_published_encodings(name, openai_files, corpus, monkeypatch) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(openai_files(name)))
    a, b = tiktoken.get_encoding(name), compat.get_encoding(name)
    assert a._pat_str == b._pat_str
    assert a._mergeable_ranks == b._mergeable_ranks
    assert a._special_tokens == b._special_tokens == ENCODINGS[name].special_tokens
    assert (a.n_vocab, a.eot_token, repr(a)) == (b.n_vocab, b.eot_token, repr(b))
    assert a.token_byte_values() == b.token_byte_values()
    for source in ("english", "korean", "japanese", "python"):
        text = corpus(source, 6_000).decode()
        ids = a.encode(text, allowed_special="all")
        assert b.encode(text, allowed_special="all") == ids
        assert b.encode_ordinary(text) == a.encode_ordinary(text)
        assert b.decode_with_offsets(ids) == a.decode_with_offsets(ids)
