"""Bad input: each kind raises an error that names the value, the rule and the fix, or has a defined result."""

from __future__ import annotations

import gzip
import json
import os
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from options import from_reference_options

import bpe
from bpe.compat import huggingface, subword_nmt
from bpe.compat import tiktoken as compat_tiktoken
from bpe.normalizers import Lowercase
from bpe.pretokenize.pretokenizer import PipelinePretokenizer
from bpe.report import Playground, page_html

pytestmark = pytest.mark.usefixtures("quiet")

#: Options that `train` refuses.
INVALID_OPTIONS = [
    ({"vocab_size": 0}, ValueError, "vocab_size is 0; it must be"),
    ({"vocab_size": -5}, ValueError, "vocab_size is -5; it must be"),
    ({"vocab_size": 300.0}, TypeError, "vocab_size is 300.0, a float; it must be an int"),
    ({"vocab_size": "300"}, TypeError, "vocab_size is '300', a str; it must be an int"),
    ({"vocab_size": True}, TypeError, "vocab_size is True, a bool; it must be an int"),
    ({"vocab_size": 2**40}, ValueError, f"vocab_size is {2**40}; it must be from 1 to"),
    ({"num_merges": -1}, ValueError, "num_merges is -1; it must be"),
    ({"num_merges": 1.5}, TypeError, "num_merges is 1.5, a float"),
    ({"model": "word"}, ValueError, "model is 'word'; it must be one of 'byte', 'char'"),
    (
        {"tie_break": "last"},
        ValueError,
        "tie_break is 'last'; it must be one of 'id', 'first', 'smallest', 'greatest'",
    ),
    ({"pretokenizer": "gpt5"}, ValueError, "pretokenizer is 'gpt5'; it must be one of 'gpt2'"),
    ({"pretokenizer": r"\w+"}, ValueError, "not a name; pass a regular expression as bpe.Pretokenizer.from_regex"),
    ({"pretokenizer": 5}, TypeError, "pretokenizer is 5, an int; it must be a name"),
    ({"normalizer": "NFC"}, ValueError, "normalizer 'NFC' is not known; the names are nfc, "),
    ({"special_tokens": "<s>"}, TypeError, "special_tokens is '<s>'; it must be a list of str"),
    ({"special_tokens": ["<s>", "<s>"]}, ValueError, "special token '<s>' is given twice"),
    pytest.param(
        {"special_tokens": {"<s>", "<t>"}},
        TypeError,
        "whose order differs from run to run; it must be a list",
        id="a set of special tokens",  # the repr of a set differs from run to run
    ),
    ({"special_tokens": {"<s>": 5}}, TypeError, "{'<s>': 5}, a dict; it must be a list of names: their ids are"),
    ({"special_tokens": [""]}, ValueError, "special token '' is empty"),
    ({"special_tokens": [3]}, TypeError, "special token 3 is an int; it must be a str"),
    ({"unk_token": ""}, ValueError, "unk_token is ''; it must be at least one character, or None"),
    ({"unk_token": 3}, TypeError, "unk_token is 3, an int; it must be a str or None"),
    ({"end_of_word": ""}, ValueError, "end_of_word is ''; it must be at least one character, or None"),
    ({"end_of_word": b"_"}, TypeError, "end_of_word is b'_', a bytes; it must be a str or None"),
    (
        {"end_of_word_glued": True},
        ValueError,
        'end_of_word_glued=True needs a mark to glue: pass end_of_word="</w>" too',
    ),
    (
        {"end_of_word": "_", "special_tokens": ["_"]},
        ValueError,
        "end_of_word '_' is a special token too; it must differ",
    ),
    (
        {"end_of_word": "c", "model": "char"},
        ValueError,
        "end_of_word 'c' is also a character of the corpus; choose a mark",
    ),
    (
        {"special_tokens": ["a"]},
        ValueError,
        "special token 'a' is also a symbol of the alphabet; give the token another name",
    ),
    ({"special_tokens": ["Ġ"]}, ValueError, "special token 'Ġ' is also a symbol of the alphabet"),
    (
        {"initial_alphabet": "abc"},
        TypeError,
        r"initial is 'abc'; it must be None, 'corpus' or a list of symbols",
    ),
    ({"initial_alphabet": 3}, TypeError, "initial is 3; it must be None, 'corpus' or a list"),
    ({"initial_alphabet": ["ab"]}, ValueError, "initial has 'ab'; its symbols must be one byte each"),
    ({"initial_alphabet": [256]}, ValueError, "initial has 256; its symbols must be one byte each"),
    ({"initial_alphabet": ["한"]}, ValueError, "initial has '한'; its symbols must be one byte each"),
    (
        {"initial_alphabet": ["ab"], "model": "char"},
        ValueError,
        "initial has 'ab'; its symbols must be one character each",
    ),
    (
        {"initial_alphabet": [97], "model": "char"},
        ValueError,
        "initial has 97; its symbols must be one character each",
    ),
    ({"min_frequency": -1}, ValueError, "min_frequency is -1; it must be at least 0"),
    ({"min_frequency": 1.0}, TypeError, "min_frequency is 1.0, a float"),
    ({"max_token_length": 0}, ValueError, "max_token_length is 0; it must be"),
    ({"limit_alphabet": 0}, ValueError, "limit is 0; it must be"),
    (
        {"limit_alphabet": 10},
        ValueError,
        "limit is 10, fewer than the initial alphabet's 256 symbols",
    ),
    ({"first_id": -1}, ValueError, "first_id is -1; it must be"),
    ({"first_id": 2**31}, ValueError, f"{2**31}.*out of range|first_id is {2**31}"),
    ({"on_merge": 3}, TypeError, "on_merge is 3; it must be callable as on_merge"),
    ({"threads": 0}, ValueError, "threads is 0; it must be"),
    ({"threads": "two"}, TypeError, "threads is 'two', a str; it must be an int"),
]

#: Changes of a tokenizer.json that loading refuses.
INVALID_FIELDS = [
    (("model", "type"), "WordPiece"),
    (("model", "type"), 3),
    (("model", "vocab"), None),
    (("model", "vocab"), []),
    (("model", "vocab"), {"a": "0"}),
    (("model", "vocab"), {"a": -1}),
    (("model", "vocab"), {"a": 1.5}),
    (("model", "vocab"), {"a": 2**40}),
    (("model", "vocab"), {"a": True}),
    (("model", "merges"), None),
    (("model", "merges"), {}),
    (("model", "merges"), [3]),
    (("model", "merges"), [["l"]]),
    (("model", "merges"), [["l", 3]]),
    (("model", "merges"), ["l"]),
    (("model", "merges"), [["l", "zzz"]]),
    (("model", "merges"), [["l", "o", "lo"], ["w"]]),
    (("model", "merges"), [["x", "y"]]),
    (("model", "unk_token"), 3),
    (("added_tokens",), 3),
    (("added_tokens",), [{"id": 0}]),
    (("added_tokens",), [{"id": "0", "content": "<s>", "special": True}]),
    (("pre_tokenizer",), {"type": "Nope"}),
    (("pre_tokenizer",), 3),
    (("normalizer",), {"type": "Nope"}),
    (("normalizer",), "NFC"),
]


def refused(error: type[Exception], message: str, **options: Any) -> None:
    """`bpe.train` raises `error` with a message that matches."""
    with pytest.raises(error, match=message):
        bpe.train(**from_reference_options(**options))


# The corpus ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["byte", "char"])
@pytest.mark.parametrize(
    "given",
    [
        {"texts": []},
        {"texts": [""]},
        {"texts": ["", b""]},
        {"counts": {}},
        {"counts": {"a": 0}},
        {"counts": bpe.WordCounts()},
        {"files": []},
        {"texts": [" \n\t "], "pretokenizer": "whitespace"},
        {"texts": ["<s><s>"], "special_tokens": ["<s>"]},
        {"texts": ["abc"], "normalizer": bpe.normalizers.Remove(".")},
    ],
    ids=str,
)
def test_empty_corpus(model: Any, given: dict[str, Any]) -> None:
    refused(
        ValueError,
        r"the corpus has no words to train on; give text",
        model=model,
        num_merges=3,
        **given,
    )


def test_empty_file(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    refused(ValueError, "the corpus has no words", files=[tmp_path / "empty.txt"], num_merges=3)
    (tmp_path / "one.txt").write_text("aa", encoding="utf-8")
    tok = bpe.train(files=[tmp_path / "empty.txt", tmp_path / "one.txt"], num_merges=3)
    assert b"aa" in tok.vocab()


@pytest.mark.parametrize("word", ["", b""])
def test_empty_word(word: Any) -> None:
    refused(
        ValueError,
        rf"word {word!r} is empty; leave it out: a word is at least one character",
        counts={"a": 1, word: 2},
        num_merges=1,
    )


def test_invalid_counts_are_refused() -> None:
    refused(ValueError, "the count of 'a' is -1; it must be at least 0", counts={"a": -1}, num_merges=1)
    refused(TypeError, "the count of 'a' is 1.5; it must be an int", counts={"a": 1.5}, num_merges=1)
    refused(TypeError, "the count of 'a' is None; it must be an int", counts={"a": None}, num_merges=1)
    refused(TypeError, "word 1 is an int; it must be str or bytes", counts={1: 1}, num_merges=1)
    refused(TypeError, r"counts is \['a'\], a list; it must be a mapping of word to count", counts=["a"], num_merges=1)


def test_counts_that_overflow_64_bits() -> None:
    refused(
        ValueError,
        rf"the counts sum to {2**63}; the sum must be at most 2\*\*63 - 1: scale the counts down",
        counts={"a": 2**62, "b": 2**62},
        num_merges=1,
    )
    refused(ValueError, r"the counts sum to .*; the sum must be at most 2\*\*63", counts={"ab": 10**30}, num_merges=1)
    # The sum of the words fits; the sum of their symbols and pairs does not.
    refused(ValueError, r"more than 2\*\*63 - 1.*scale", counts={"abababab": 2**61}, num_merges=1)
    tok = bpe.train(counts={"ab": 2**60}, num_merges=1)
    assert b"ab" in tok.vocab()


def test_one_text_instead_of_texts() -> None:
    for text in ("abc", b"abc"):
        refused(TypeError, r"texts is one \w+; it must be an iterable of texts: \[", texts=text, num_merges=1)
    refused(TypeError, "texts is 3, an int; it must be an iterable of str or bytes", texts=3, num_merges=1)
    refused(TypeError, "text 1 is None; it must be str or bytes", texts=["a", None], num_merges=1)


def test_not_exactly_one_source() -> None:
    refused(ValueError, "nothing given; give exactly one of files=, texts= and counts=", num_merges=1)
    refused(ValueError, "texts and counts given; give exactly one of", texts=["a"], counts={"a": 1}, num_merges=1)
    refused(ValueError, "files and texts and counts given", files=[], texts=[], counts={}, num_merges=1)
    refused(ValueError, "vocab_size is None and num_merges is None; give exactly one of them", texts=["a"])
    refused(
        ValueError,
        "vocab_size is 300 and num_merges is 1; give exactly one of them",
        texts=["a"],
        vocab_size=300,
        num_merges=1,
    )


# Files --------------------------------------------------------------------------------------------------------------


def test_missing_or_unreadable_files(tmp_path: Path) -> None:
    good = tmp_path / "good.txt"
    good.write_text("aa bb", encoding="utf-8")
    for threads in (1, 2):
        with pytest.raises(FileNotFoundError, match=r"none\.txt") as caught:
            bpe.train(files=[good, tmp_path / "none.txt"], num_merges=1, threads=threads)
        assert isinstance(caught.value, OSError)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"the directory has no files.*empty"):
        bpe.train(files=[tmp_path / "empty"], num_merges=1)
    refused(TypeError, "file 3 is an int; it must be a path", files=[3], num_merges=1)
    refused(TypeError, "files is 3, an int; it must be a path", files=3, num_merges=1)
    for load in (bpe.Tokenizer.load, bpe.WordCounts.load, bpe.Tokenizer.from_clip):
        with pytest.raises(FileNotFoundError, match=r"none\.json"):
            load(tmp_path / "none.json")
        with pytest.raises(OSError, match=tmp_path.name):
            load(tmp_path)
    with pytest.raises(FileNotFoundError, match="none"):
        bpe.Tokenizer.from_tiktoken(tmp_path / "none", "gpt2")


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="permissions do not restrict the super-user"
)
def test_file_without_permission(tmp_path: Path) -> None:
    locked = tmp_path / "locked.txt"
    locked.write_text("aa", encoding="utf-8")
    locked.chmod(0)
    with pytest.raises(PermissionError, match=r"locked\.txt"):
        bpe.train(files=[locked], num_merges=1)


def test_saving_to_an_impossible_path(tmp_path: Path) -> None:
    tok = bpe.train(texts=["a"], num_merges=0)
    with pytest.raises(OSError, match="none"):
        tok.save(tmp_path / "none" / "tokenizer.json")
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(OSError, match=r"folder\.json"):
        tok.save(tmp_path / "folder.json")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.json"]


# Bytes that are not UTF-8 -------------------------------------------------------------------------------------------


def test_a_byte_model_accepts_invalid_utf8(tmp_path: Path) -> None:
    """A byte model learns from it, encodes it and decodes it unchanged."""
    data = b"\xff\xfe\xff\xfe \xff\xfe\xe3\x82"
    path = tmp_path / "latin.txt"
    path.write_bytes(data)
    tok = bpe.train(texts=[data], num_merges=2)
    assert b"\xff\xfe" in tok.vocab()
    assert bpe.train(files=bpe.Sources([path], encoding_errors="bytes"), num_merges=2) == tok
    assert tok.decode_bytes(tok.encode(data)) == data
    assert tok.decode(tok.encode(b"a\xff")) == "a\ufffd"
    normalized = bpe.train(texts=[data], num_merges=2, normalizer=Lowercase())
    assert normalized.decode_bytes(normalized.encode(b"A\xff")) == b"a\xff"


def test_a_character_model_refuses_invalid_utf8(tmp_path: Path) -> None:
    """Training and encoding raise an error with the offset."""
    data = "ab 한".encode() + b"\xffcd"
    path = tmp_path / "latin.txt"
    path.write_bytes(data)
    message = r"is not UTF-8: byte 0xff at offset 6 .*; a character model takes UTF-8 only: .*model=\"byte\""
    options: dict[str, Any] = {"num_merges": 1, "model": "char"}
    for threads in (1, 2):
        refused(ValueError, "text 1 " + message, texts=["ok", data], threads=threads, **options)
        refused(
            bpe.FormatError, r"latin\.txt, offset 6: byte 0xff is not UTF-8", files=[path], threads=threads, **options
        )
    refused(ValueError, message, texts=[data], normalizer=Lowercase(), **options)
    refused(ValueError, r"is not UTF-8: byte 0xff at offset", counts={b"ab\xff": 1}, **options)
    refused(ValueError, r"is not UTF-8: byte 0x(c3|a9) at offset", counts={b"a\xc3": 1, b"\xa9b": 1}, **options)
    counts = bpe.count_words(texts=[data], pretokenizer="whitespace")
    refused(ValueError, r"is not UTF-8: byte 0xff at offset", counts=counts, **options)
    tok = bpe.train(counts={"ab": 1}, unk_token="?", **options)
    short = partial(tok.truncate, max_tokens=9)
    for call in (tok.encode, tok.tokens, tok.count_tokens, tok.explain, tok.encode_with_offsets, short):
        with pytest.raises(ValueError, match=message):
            call(data)
    with pytest.raises(ValueError, match=message):
        tok.encode_batch(["ab", data])


# Surrogates ---------------------------------------------------------------------------------------------------------


def test_lone_surrogates_in_a_corpus_become_replacement_characters() -> None:
    """They are read as U+FFFD, as in encoding."""
    for model in ("byte", "char"):
        tok = bpe.train(texts=["a\ud800\ud800"], num_merges=1, model=model, pretokenizer=None)
        assert tok == bpe.train(texts=["a\ufffd\ufffd"], num_merges=1, model=model, pretokenizer=None)
        assert bpe.train(texts=["\ud83d\ude0a"], num_merges=1, model=model) == bpe.train(
            texts=["😊"], num_merges=1, model=model
        )
        assert tok.decode(tok.encode("\ud800")) == "\ufffd"
    counted = bpe.train(counts={"a\ud800": 1}, num_merges=1, model="char")
    assert counted.vocab() == {"a": 0, "\ufffd": 1, "a\ufffd": 2}


def test_names_with_lone_surrogates_are_refused() -> None:
    refused(
        ValueError, "lone surrogate; it must be valid Unicode", texts=["a"], num_merges=0, special_tokens=["\ud800"]
    )
    for name in ("unk_token", "end_of_word"):
        with pytest.raises(ValueError, match=r"surrogate|Unicode"):
            bpe.train(texts=["a"], num_merges=0, model="char", **{name: "\ud800"})
    with pytest.raises(ValueError, match="initial has"):
        bpe.train(texts=["a"], num_merges=0, model="char", alphabet=bpe.Alphabet(initial=["\ud800"]))
    tok = bpe.train(texts=["a"], num_merges=0)
    with pytest.raises(ValueError, match="is no token of this vocabulary"):
        tok.token_id("\ud800")
    for call, name in (
        (partial(tok.encode, "a"), "disallowed_special"), (partial(tok.encode_stream, ["a"]), "cut_after"),
        (partial(tok.encode_files, []), "separator"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=f"{name}:? .* holds a lone surrogate; it must be valid Unicode"):
            list(call(**{name: ["\ud800"] if name == "disallowed_special" else "\ud800"}))


# Options ------------------------------------------------------------------------------------------------------------


def test_vocab_size_below_alphabet_and_specials() -> None:
    message = r"vocab_size is 100, but the alphabet has 256 symbols, with 2 special tokens .* at least 258.*'corpus'"
    refused(ValueError, message, texts=["abc"], vocab_size=100, special_tokens=["<s>", "<t>"])
    refused(
        ValueError,
        r"vocab_size is 257, but .* at least 258",
        texts=["abc"],
        vocab_size=257,
        special_tokens=["<s>", "<t>"],
    )
    assert bpe.train(texts=["abc"], vocab_size=258, special_tokens=["<s>", "<t>"]).vocab_size == 258
    message = r"vocab_size is 3, but the alphabet has 3 symbols, with 1 special token beside it; it must be at least 4"
    refused(ValueError, message, texts=["abc"], vocab_size=3, model="char", unk_token="?")
    refused(
        ValueError,
        "vocab_size is 3, but the alphabet has 4 symbols",
        texts=["abc"],
        vocab_size=3,
        model="char",
        end_of_word="_",
    )
    assert bpe.train(texts=["abc"], vocab_size=4, model="char", unk_token="?").vocab_size == 4


@pytest.mark.parametrize(
    ("options", "error", "message"),
    INVALID_OPTIONS,
    ids=lambda value: str(value)[:50],
)
def test_invalid_options_are_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    size = {} if {"vocab_size", "num_merges"} & options.keys() else {"num_merges": 2}
    refused(error, message, texts=["abc abc"], **size, **options)


def test_a_special_token_equal_to_a_character() -> None:
    refused(
        ValueError,
        "special token 'a' is also a symbol of the alphabet",
        counts={"abc": 1},
        num_merges=1,
        model="char",
        special_tokens=["a"],
    )
    # In texts a special token separates words, so it is not a character of the corpus.
    tok = bpe.train(texts=["abc abc"], num_merges=1, model="char", special_tokens=["a"])
    assert tok.vocab() == {"a": 0, "b": 1, "c": 2, "bc": 3}


def test_ids_beyond_31_bits_are_refused() -> None:
    """Ids that do not fit 31 bits raise an error instead of wrapping around."""
    with pytest.raises(ValueError, match=r"id"):
        bpe.train(texts=["abc"], num_merges=0, alphabet=bpe.Alphabet(first_id=2**31 - 100))


def test_an_exception_in_on_merge_is_raised() -> None:
    def on_merge(*_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bpe.train(texts=["abc abc"], num_merges=2, on_merge=on_merge)


def test_counts_made_with_other_settings_are_refused() -> None:
    counts = bpe.count_words(texts=["a b"], pretokenizer="cl100k")
    refused(
        ValueError,
        r"the counts were made with pretokenizer=.*cl100k.*, but pretokenizer=.*gpt2.*; leave the argument out, or",
        counts=counts,
        num_merges=1,
        pretokenizer="gpt2",
    )
    refused(
        ValueError,
        r"the counts were made with normalizer=None, but",
        counts=counts,
        num_merges=1,
        normalizer=Lowercase(),
    )
    assert bpe.train(counts=counts, num_merges=1).pretokenizer == bpe.Pretokenizer("cl100k")


# Files of tokenizers ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("saved") / "tokenizer.json"
    bpe.train(texts=["low lower 한국"], num_merges=6, special_tokens=["<s>"]).save(path)
    return path.read_bytes()


def load_refused(path: Path, data: bytes, message: str = ".") -> bpe.FormatError:
    path.write_bytes(data)
    with pytest.raises(bpe.FormatError, match=message) as caught:
        bpe.Tokenizer.load(path)
    assert caught.value.path == str(path)
    return caught.value


def test_truncated_file(saved: bytes, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    for size in (*range(0, len(saved) - 2, 53), len(saved.rstrip()) - 1):
        load_refused(path, saved[:size], r"tokenizer\.json")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"3",
        b"{}",
        b'"x"',
        b"{",
        b"\xff",
        b"\x00" * 100,
        b'{"model": null}',
        b'{"model": []}',
        b"[" * 100_000,
    ],
)
def test_files_of_other_kinds_are_refused(data: bytes, tmp_path: Path) -> None:
    load_refused(tmp_path / "wrong.json", data)


@pytest.mark.parametrize(
    ("where", "value"),
    INVALID_FIELDS,
    ids=str,
)
def test_invalid_fields_are_refused_by_name(saved: bytes, tmp_path: Path, where: tuple[str, ...], value: Any) -> None:
    """A field with a wrong value raises an error that names the field."""
    data = json.loads(saved)
    parent = data
    for name in where[:-1]:
        parent = parent[name]
    parent[where[-1]] = value
    error = load_refused(tmp_path / "wrong.json", json.dumps(data).encode())
    assert len(str(error)) < 1000


def test_two_tokens_with_one_id(saved: bytes, tmp_path: Path) -> None:
    data = json.loads(saved)
    vocab = data["model"]["vocab"]
    first, second = list(vocab)[10:12]
    vocab[second] = vocab[first]
    load_refused(tmp_path / "wrong.json", json.dumps(data).encode(), r"twice|two|same|duplicate")


def test_random_damage_loads_or_raises_format_error(saved: bytes, tmp_path: Path) -> None:
    """After a change of one byte or slice, the file loads as some tokenizer or raises FormatError."""
    random_ = random.Random(1)
    path = tmp_path / "wrong.json"
    for _ in range(400):
        data = bytearray(saved)
        if random_.random() < 0.5:
            data[random_.randrange(len(data))] = random_.choice(b'{}[]",:0a-\\\xff')
        else:
            at = random_.randrange(len(data))
            del data[at : at + random_.randint(1, 40)]
        path.write_bytes(data)
        try:
            tok = bpe.Tokenizer.load(path)
        except bpe.FormatError:
            continue
        try:
            tok.decode(tok.encode("low 한"))
        except ValueError as error:
            assert "is not in the vocabulary" in str(error)  # noqa: PT017


# Rank files ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "holds no ranks"),
        (b"\n\n", "holds no ranks"),
        (b"YQ== 0\nYg==\n", "line 2: .*is not a token in base64, a space and a rank"),
        (b"YQ== 0\nYg== x\n", "line 2: .*is not a token in base64"),
        (b"YQ== 0\nYg== 1 2\n", "line 2: .*is not a token in base64"),
        (b"YQ== 0\n!!!! 1\n", "line 2: .*is not a token in base64"),
        (b"YQ== 0\nYg== -1\n", "line 2: .*(a rank is|ranks are) from 0 to"),
        (b"YQ== 0\nYg== 99999999999\n", "line 2: .*(a rank is|ranks are) from 0 to"),
        (b"YQ== 0\nYQ== 1\n", "line 2: token b'a' is given twice"),
        (b"YQ== 0\nYg== 0\n", "line 2: rank 0 is given twice"),
        (b"\x1f\x8b\x08damaged", "the gzip data is damaged"),
        (b"{}", "line 1"),
        (b"YQ== 2000000000\n", "ids must be below 1000064"),
    ],
)
def test_invalid_rank_files_are_refused(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "wrong.tiktoken"
    path.write_bytes(data)
    with pytest.raises(bpe.FormatError, match=message) as caught:
        bpe.Tokenizer.from_tiktoken(path, "gpt2")
    assert caught.value.path == str(path)


def test_damaged_gzip_data(tmp_path: Path) -> None:
    """A file damaged at any position loads or raises FormatError."""
    path, whole = tmp_path / "packed", gzip.compress(b"YQ== 0\nYg== 1\n")
    for at in range(2, len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :])
        for load in (lambda: bpe.Tokenizer.from_tiktoken(path, "gpt2"), lambda: bpe.Tokenizer.from_clip(path)):
            with suppress(bpe.FormatError):
                load()


def test_special_tokens_of_rank_files(tmp_path: Path) -> None:
    path = tmp_path / "ranks.tiktoken"
    path.write_bytes(b"YQ== 0\nYg== 1\n")
    for special, error in (
        ({"<s>": 1}, ValueError),
        ({"a": 5}, ValueError),
        ({"<s>": -1}, ValueError),
        ({"<s>": "5"}, TypeError),
        ({"": 5}, (TypeError, ValueError)),
        ({5: 5}, TypeError),
        ({"<s>": 5, "<t>": 5}, ValueError),
    ):
        with pytest.raises(error):
            bpe.Tokenizer.from_tiktoken(path, "gpt2", special)  # type: ignore[arg-type]
    tok = bpe.Tokenizer.from_tiktoken(path, "gpt2", {"<s>": 5})
    assert tok.encode("ab").tolist() == [0, 1]
    with pytest.raises(ValueError, match="byte 0x63 of the text 'abc' is not in the vocabulary"):
        tok.encode("abc")


def test_a_single_value_instead_of_an_iterable_is_refused(tmp_path: Path) -> None:
    tok = bpe.train(texts=["a"], num_merges=0)
    (tmp_path / "text").write_text("low")
    calls: list[tuple[Callable[[Any], object], Any, str]] = [
        (tok.encode_batch, None, "texts is None; it must be an iterable of texts"),
        (tok.count_tokens, 3, "texts is 3, an int"),
        (tok.decode_batch, None, "batch is None; it must be a TokenBatch or an iterable of"),
        (tok.encode_files, None, "files is None; it must be a path"),
        (tok.encode_files, b"text", "files is b'text', a bytes; it must be a path"),
        (
            lambda names: tok.encode("a", allowed_special=names),
            3,
            'allowed_special is 3, an int; it must be "all" or a',
        ),
        (lambda names: tok.encode("a", disallowed_special=names), [b"x"], "disallowed_special has b'x', a bytes;"),
        (tok.count_tokens, np.array("a"), "texts is array.'a'.*; it must be an iterable of texts"),
        (tok.token_bytes, np.array([1, 2]), "token_id is array.*; it must be an int"),
    ]
    for call, argument, message in calls:
        with pytest.raises(TypeError, match=message):
            call(argument)
    with (tmp_path / "text").open() as file, pytest.raises(TypeError, match="a TextIOWrapper; it must be a path"):
        tok.encode_files(file)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError, match=r"the folder does not exist; make it first: .*gone'"):
        tok.save(tmp_path / "gone" / "t.json")
    assert tok.encode(np.bytes_(b"ab")).tolist() == tok.encode("ab").tolist()


# Ids ----------------------------------------------------------------------------------------------------------------


def test_a_word_instead_of_a_bool_is_refused(tmp_path: Path) -> None:
    tok = bpe.train(texts=["low lower"], vocab_size=258)
    (tmp_path / "a.txt").write_text("low")
    batch, counts = tok.encode_batch(["low"]), bpe.count_words(texts=["low"])
    path, shards = tmp_path / "a.txt", tmp_path / "shards"
    bpe.data.write_shards([range(9)], shards)
    rows = bpe.data.Blocks(bpe.data.TokenShards(shards), length=2)
    calls: list[tuple[str, Callable[..., Any]]] = [
        ("parallel", partial(bpe.evaluate, tok, texts={"a": ["a"], "b": ["b"]})),
        ("split_digits", partial(bpe.train, texts=["a"], vocab_size=256)),
        ("end_of_word_glued", partial(bpe.train, texts=["a"], model="char", num_merges=0, end_of_word="_")),
        ("per_line", partial(tok.encode_files, path)),
        ("separator_ends", partial(bpe.Sources, path, separator="x")),
        ("lossy", partial(tok.save, tmp_path / "tokenizer.json")),
        ("renumber", partial(tok.truncate_vocab, 257)),
        ("any_documents", partial(counts.merge, counts)),
        ("truncate", partial(batch.padded, 2)),
        ("keep_columns", partial(bpe.data.map_function, tok)),
        ("extend", partial(bpe.data.encode_shards, path, tok, tmp_path / "out")),
        ("drop_masks", partial(bpe.data.convert_shards, shards, tmp_path / "converted")),
        ("drop_last", partial(rows.batches, 2)),
        ("lines", partial(bpe.SuperWords, 300)),
        ("add_prefix_space", partial(bpe.Pretokenizer, "gpt2")),
        ("letters", PipelinePretokenizer),
        ("add_prefix_space", bpe.pretokenizers.ByteLevel),
        ("split", bpe.pretokenizers.Metaspace),
        ("invert", partial(bpe.pretokenizers.Split, "a", "Isolated")),
        ("individual_digits", bpe.pretokenizers.Digits),
        ("left", bpe.normalizers.Strip),
        ("final_sigma", Lowercase),
        ("clean_text", bpe.normalizers.BertNormalizer),
    ]
    for name, call in calls:
        with pytest.raises(TypeError, match=f"{name} is 'no', a str; it must be a bool"):
            call(**{name: "no"})
        call(**{name: False})


def test_invalid_ids_are_refused() -> None:
    """A few of the errors; tests/decode/test_decode.py has all of them."""
    tok = bpe.train(texts=["a"], num_merges=0)
    with pytest.raises(
        ValueError, match="token id 256 at position 1 is no token of this vocabulary: ids are from 0 to 255"
    ):
        tok.decode([0, 256])
    with pytest.raises(ValueError, match="token id -1 is out of range"):
        tok.decode([-1])
    for array in (np.array([1.0]), np.array([1], dtype=object)):
        with pytest.raises(TypeError, match="they must be integers: an array of an integer type or a list of int"):
            tok.decode(array)


def test_a_spec_whose_merges_have_unknown_ids() -> None:
    spec = bpe.train(counts={"ab": 2, "abc": 1}, num_merges=2).spec
    for wrong in (-1, 258, 2**31 - 1):
        with pytest.raises(ValueError, match=f"a merge has id {wrong}, which is not in the vocabulary"):
            bpe.Tokenizer(replace(spec, merge_results=np.array([256, wrong], dtype=np.int32)))
        with pytest.raises(ValueError, match=f"a merge has id {wrong}, which is not in the vocabulary"):
            bpe.Tokenizer(replace(spec, merges=np.array([[64, 65], [wrong, 66]], dtype=np.int32)))
    assert bpe.Tokenizer(spec).encode("abc").tolist() == [257]


def read_paths(path: Any) -> list[Callable[[], object]]:
    """The calls that take the path of a file."""
    tok = bpe.train(texts=["low lower"], vocab_size=258)
    return [
        lambda: bpe.Tokenizer.load(path),
        lambda: bpe.Tokenizer.from_tiktoken(path, None),
        lambda: bpe.Tokenizer.from_vocab_merges(path, ["a b"]),
        lambda: bpe.Tokenizer.from_vocab_merges({"a": 0}, path),
        lambda: bpe.Tokenizer.from_clip(path),
        lambda: bpe.WordCounts.load(path),
        lambda: bpe.WordCounts.from_text(path),
        lambda: bpe.Sources(path),
        lambda: bpe.data.TokenShards(path),
        lambda: bpe.data.encode_shards(path, tok, "out"),
        lambda: bpe.data.write_shards([[1]], path),
        lambda: tok.save(path),
        lambda: tok.save_pretrained(path),
        lambda: bpe.WordCounts().save(path),
        lambda: bpe.train(texts=["a"], vocab_size=300, checkpoint=path),
        lambda: subword_nmt.BPE(path),
        lambda: huggingface.Tokenizer(tok).save(path),
    ]


def test_numbers_are_no_paths(tmp_path: Path) -> None:
    """`open` takes a number for a file that is open already, reads it, and closes it."""
    with (tmp_path / "open").open("w+") as file:
        for number in (file.fileno(), np.int64(file.fileno()), True, 1.5):
            for call in read_paths(number):
                with pytest.raises(TypeError, match=r"path|not (an )?int|not bool|not float|merges is|codes is|check"):
                    call()
        os.fstat(file.fileno())


def test_values_that_are_nested_deeply_are_named_by_their_type() -> None:
    value: list[Any] = []
    for _ in range(100_000):  # Python 3.13 shows thousands
        value = [value]
    with pytest.raises(TypeError, match="vocab_size is <list that is nested too deeply to show>, a list; it must be"):
        bpe.train(texts=["a"], vocab_size=value)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: bpe.WordCounts.from_arrow("x"), "table is 'x', a str; it must be a table"),
        (lambda: next(bpe.Sources(os.devnull).documents("x")), "start is 'x', a str; it must be None"),
        (lambda: page_html(make_small(), 3), "evaluation is 3, an int; it must be what bpe.evaluate returns"),
        (lambda: Playground(make_small(), 2130706433), "host is 2130706433, an int; it must be a str"),
        (lambda: bpe.data.map_function(make_small()).encode_table(3), "batch is 3, an int; it must be a table"),
        (
            lambda: compat_tiktoken.Encoding("x", pat_str="x", mergeable_ranks=3, special_tokens={"": -1}),
            "mergeable_ranks is",
        ),
        (lambda: compat_tiktoken.Encoding("x", pat_str="x", mergeable_ranks={}, special_tokens=3), "special_tokens is"),
        (lambda: huggingface.Tokenizer.from_str(b"{}"), "json is b'{}', a bytes; it must be a str"),
        (lambda: huggingface.Tokenizer(make_small()).post_process("x"), "encoding is 'x', a str; it must be"),
        (lambda: huggingface.Encoding.merge([None]), "encodings has None; each must be an Encoding"),
        (lambda: huggingface.DecodeStream().step(None, 1), "tokenizer is None; it must be a Tokenizer"),
        (lambda: subword_nmt.read_vocabulary([3], None), "line 1 is 3, an int; it must be a str"),
    ],
)
def test_other_types_are_named(call: Callable[[], object], expected: str) -> None:
    with pytest.raises(TypeError, match=expected):
        call()


def make_small() -> bpe.Tokenizer:
    return bpe.train(texts=["low lower"], vocab_size=258)


def test_plots_refuse_what_are_no_axes() -> None:
    pytest.importorskip("matplotlib")
    tok = bpe.train(texts=["low lower"], vocab_size=260)
    for plot in (bpe.plots.plot_lengths, partial(bpe.plots.plot_compression, text="low")):
        with pytest.raises(TypeError, match=r"ax is b'low', a bytes; it must be axes of matplotlib"):
            plot(tok, ax=b"low")
