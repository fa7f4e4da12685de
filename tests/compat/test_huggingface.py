"""The interface of `tokenizers`: the same results as that package, for every shape and configuration."""

import asyncio
import copy
import enum
import gc
import inspect
import json
import pickle
import random
import subprocess
import sys
import threading
import weakref
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from strategies import SOAK

import bpe
from bpe.compat import _rows
from bpe.compat.core import Core
from bpe.compat.huggingface import BPE, AddedToken, DecodeStream, Encoding, Tokenizer
from bpe.compat.state import State
from bpe.formats import huggingface as format_huggingface

tokenizers = pytest.importorskip("tokenizers", reason="compares with the tokenizers package")
sys.path.insert(0, str(Path(__file__).parent))
from shapes import HOSTILE, SHAPES, shape  # noqa: E402

COLUMNS = (
    "ids", "tokens", "offsets", "type_ids", "attention_mask", "special_tokens_mask", "word_ids", "sequence_ids",
    "n_sequences",
)  # fmt: skip


@pytest.fixture(scope="module")
def tok() -> Tokenizer:
    return Tokenizer(bpe.train(texts=["low lower lowest"] * 3, vocab_size=262, special_tokens=["<s>", "</s>"]))


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_few_ids_are_decoded_as_many(name: str) -> None:
    """By a kernel or not, after added tokens and another decoder too, and as `tokenizers` does."""
    data, rng = shape(name), random.Random(name)
    tok, peer = Tokenizer.from_str(data), tokenizers.Tokenizer.from_str(data)
    for change in ("none", "tokens", "decoder"):
        if change == "tokens":
            for tokenizer in (tok, peer):
                tokenizer.add_tokens(["<more>"])
                tokenizer.add_special_tokens(["<special>"])
        elif change == "decoder":
            for tokenizer in (tok, peer):
                tokenizer.decoder = tokenizers.decoders.ByteLevel()
        n = peer.get_vocab_size()
        for size in (0, 1, 2, 5, 40, 1100):
            ids = [rng.randrange(n + 2) for _ in range(size)]
            for ids_of_a_type in (
                ids,
                tuple(ids),
                np.array(ids, dtype=np.int64),
                [np.int64(token_id) for token_id in ids],
            ):
                for skip in (True, False):
                    expected = peer.decode(ids, skip)
                    assert (
                        tok.decode(ids_of_a_type, skip)
                        == inspect.unwrap(Tokenizer.decode)(tok, ids_of_a_type, skip)
                        == expected
                    )
                    assert tok.decode(ids_of_a_type, skip_special_tokens=skip) == expected
        for invalid_ids in ([-1], [0, 2**32], ["a"], [None], [1.5], 5, None):
            with pytest.raises((TypeError, OverflowError)):
                tok.decode(invalid_ids)  # type: ignore[arg-type]


def list_columns(encoding: Any) -> dict[str, Any]:
    values = {name: getattr(encoding, name) for name in COLUMNS}
    return {**values, "length": len(encoding), "overflowing": [list_columns(window) for window in encoding.overflowing]}


def get_outcome(call: Any) -> Any:
    """The result of a call; for an error, what it is about."""
    try:
        return call()
    except BaseException as error:  # noqa: BLE001  # tokenizers panics where a stride is too large
        return "error", "stride" if "stride" in str(error) else str(error).split(":")[0]


def configure(tokenizer: Any, rng: random.Random) -> None:
    if rng.random() < 0.5:
        tokenizer.enable_padding(
            length=rng.choice([None, 12, 3]), direction=rng.choice(["left", "right"]), pad_id=2,
            pad_type_id=rng.choice([0, 3]), pad_token="<pad>", pad_to_multiple_of=rng.choice([None, 4]),
        )  # fmt: skip
    if rng.random() < 0.6:
        arguments = {
            "max_length": rng.choice([2, 3, 4, 5, 8, 20]), "stride": rng.choice([0, 0, 1, 2]),
            "strategy": rng.choice(["longest_first", "longest_first", "only_first"]),
            "direction": rng.choice(["left", "right"]),
        }  # fmt: skip
        get_outcome(lambda: tokenizer.enable_truncation(**arguments))
    tokenizer.encode_special_tokens = rng.random() < 0.3


def draw_encodings(tokenizer: Any, rng: random.Random) -> Any:
    text, other_text, rows = rng.choice(HOSTILE), rng.choice(HOSTILE), rng.sample(HOSTILE, 5)
    add = rng.random() < 0.7
    kind = rng.randrange(6)
    if kind == 0:
        return get_outcome(lambda: [tokenizer.encode(text, add_special_tokens=add)])
    if kind == 1:
        return get_outcome(lambda: [tokenizer.encode(text, other_text, add_special_tokens=add)])
    if kind == 2:
        return get_outcome(lambda: tokenizer.encode_batch(rows, add_special_tokens=add))
    if kind == 3:
        pairs = [(a, b) for a, b in zip(rows, rows[::-1], strict=True)]
        return get_outcome(lambda: tokenizer.encode_batch(pairs, add_special_tokens=add))
    if kind == 4:
        return get_outcome(lambda: [tokenizer.encode(text.split(), is_pretokenized=True, add_special_tokens=add)])
    words = [text.split(), (text.split(), other_text.split())]
    return get_outcome(lambda: tokenizer.encode_batch(words, is_pretokenized=True, add_special_tokens=add))


@pytest.mark.parametrize("name", SHAPES)
def test_encodings_are_those_of_tokenizers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")  # so that its error is that of the first text with one
    for seed in range(18 * SOAK):
        results = []
        for tokenizer in (tokenizers.Tokenizer.from_str(shape(name)), Tokenizer.from_str(shape(name))):
            rng = random.Random(f"{name}{seed}")
            configure(tokenizer, rng)
            result = draw_encodings(tokenizer, rng)
            if isinstance(result, list):
                asked = [position for encoding in result for position in list_positions(encoding)]
                texts = [
                    tokenizer.decode(encoding.ids, skip_special_tokens=skip)
                    for encoding in result
                    for skip in (True, False)
                ]
                result = [*map(list_columns, result), asked, texts]
            results.append(result)
        assert results[1] == results[0]


def list_positions(encoding: Any) -> list[Any]:
    result = []
    for i in range(9):
        result.append((encoding.token_to_sequence(i), encoding.token_to_chars(i), encoding.token_to_word(i)))
        for sequence in (0, 1):
            result.append((encoding.char_to_token(i, sequence), encoding.char_to_word(i, sequence)))
            result.append((encoding.word_to_tokens(i, sequence), encoding.word_to_chars(i, sequence)))
    return result


@pytest.mark.parametrize("name", SHAPES)
def test_added_tokens_and_streams_are_those_of_tokenizers(name: str) -> None:
    for seed in range(8):
        logs: list[list[Any]] = [[], []]
        both_tokenizers = [tokenizers.Tokenizer.from_str(shape(name)), Tokenizer.from_str(shape(name))]
        streams = [tokenizers.decoders.DecodeStream, DecodeStream]
        for tokenizer, stream, log in zip(both_tokenizers, streams, logs, strict=True):
            add_tokens(tokenizer, random.Random(seed), log)
            ids = tokenizer.encode("naïve 한국어 😀<s> the").ids
            for skip in (True, False):
                begun, later = stream(skip_special_tokens=skip), stream(ids[:3], skip)
                log.append([get_outcome(partial(begun.step, tokenizer, i)) for i in ids])
                log.append([get_outcome(partial(later.step, tokenizer, i)) for i in ids[3:]])
                log.append(get_outcome(partial(copy.copy(later).step, tokenizer, ids[:4])))
        assert logs[1] == logs[0]


def add_tokens(tokenizer: Any, rng: random.Random, log: list[Any]) -> None:
    added = tokenizers.AddedToken
    for _ in range(3):
        candidates = [
            "<x>", "the", "C++", "<s>", " low", "", "é", "Ġz", added("<m>", lstrip=True, rstrip=rng.random() < 0.5),
            added("the", special=True), added("<y>", single_word=True, normalized=False),
        ]  # fmt: skip
        tokens = [rng.choice(candidates) for _ in range(rng.randint(1, 3))]
        log.append(rng.choice([tokenizer.add_tokens, tokenizer.add_special_tokens])(tokens))
        log.append((tokenizer.get_vocab_size(), [tokenizer.token_to_id(name) for name in ("<x>", "the", "zzz")]))
        log.append({token_id: repr(token) for token_id, token in tokenizer.get_added_tokens_decoder().items()})
    for text in ("the <x> low <m> C++<y>x <y> the é Ġz", "<s>the <m> "):
        encoding = tokenizer.encode(text)
        log.append((encoding.ids, encoding.tokens, encoding.offsets, encoding.word_ids))
        log.append([tokenizer.decode(encoding.ids, skip_special_tokens=skip) for skip in (True, False)])
    log.append(json.loads(tokenizer.to_str())["added_tokens"])


@pytest.mark.parametrize("name", SHAPES)
def test_files_components_and_vocabulary(name: str, tmp_path: Path) -> None:
    peer, tok = tokenizers.Tokenizer.from_str(shape(name)), Tokenizer.from_str(shape(name))
    assert json.loads(tok.to_str()) == json.loads(peer.to_str()) == json.loads(tok.to_str(pretty=True))
    tok.save(str(tmp_path / "tokenizer.json"))
    assert tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json")).to_str() == peer.to_str()
    assert json.loads(Tokenizer.from_file(str(tmp_path / "tokenizer.json")).to_str()) == json.loads(tok.to_str())
    assert tok.get_vocab() == peer.get_vocab()
    assert tok.get_vocab(with_added_tokens=False) == peer.get_vocab(with_added_tokens=False)
    assert tok.get_vocab_size(with_added_tokens=False) == peer.get_vocab_size(with_added_tokens=False)
    assert [tok.id_to_token(i) for i in range(405)] == [peer.id_to_token(i) for i in range(405)]
    assert [tok.num_special_tokens_to_add(pair) for pair in (False, True)] == [
        peer.num_special_tokens_to_add(pair) for pair in (False, True)
    ]
    for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
        component, expected = getattr(tok, part), getattr(peer, part)
        assert type(component) is type(expected)
        if component is not None:
            assert component.__getstate__() == expected.__getstate__()
    if tok.pre_tokenizer is not None:
        text = "the lowest café"
        assert tok.pre_tokenizer.pre_tokenize_str(text) == peer.pre_tokenizer.pre_tokenize_str(text)
        assert tok.decoder.decode(["Ġlow", "er"]) == peer.decoder.decode(["Ġlow", "er"])


def test_components_are_set_and_changed_in_place() -> None:
    tok, peer = Tokenizer.from_str(shape("gpt2")), tokenizers.Tokenizer.from_str(shape("gpt2"))
    for tokenizer in (tok, peer):
        tokenizer.normalizer = tokenizers.normalizers.Lowercase()
        tokenizer.pre_tokenizer.add_prefix_space = True
        tokenizer.post_processor = tokenizers.processors.TemplateProcessing("<s> $A", "$A $B", [("<s>", 0)])
    assert list_columns(tok.encode("The LOW")) == list_columns(peer.encode("The LOW"))
    assert tok.to_str() == peer.to_str()
    for tokenizer in (tok, peer):
        tokenizer.normalizer = tokenizer.post_processor = None
        tokenizer.decoder = tokenizers.decoders.Fuse()
    assert list_columns(tok.encode("The LOW")) == list_columns(peer.encode("The LOW"))
    assert tok.decode([80, 81]) == peer.decode([80, 81])


def test_prompts_are_cached_until_the_tokenizer_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    n_cached: list[int] = []
    encode = bpe.PromptCache.encode
    monkeypatch.setattr(bpe.PromptCache, "encode", lambda self, text: n_cached.append(1) or encode(self, text))
    tokenizer, peer = Tokenizer.from_str(shape("gpt2")), tokenizers.Tokenizer.from_str(shape("gpt2"))
    text = "the low tower " * 2000
    assert tokenizer.encode(text).ids == peer.encode(text).ids  # this plan has no cache
    for changed in (tokenizer, peer):
        changed.pre_tokenizer.add_prefix_space = True  # noticed by the next call
    tokenizer.cache_prompts("1M")
    copied = copy.copy(tokenizer)
    assert tokenizer.encode(text).ids == copied.encode(text).ids == peer.encode(text).ids
    assert len(n_cached) == 2
    for changed in (tokenizer, peer):
        changed.add_tokens(["tower"])
    assert tokenizer.encode(text).ids == peer.encode(text).ids
    assert pickle.loads(pickle.dumps(copied)).encode(text).ids == copied.encode(text).ids
    assert len(n_cached) == 3


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (-2, "max_bytes is -2"),
        ("a lot", "max_bytes is 'a lot'"),
        (1.5, r"max_bytes is 1\.5"),
        (None, "max_bytes is None"),
    ],
)
def test_sizes_of_prompt_caches_are_checked(size: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        Tokenizer.from_str(shape("gpt2")).cache_prompts(size)


def test_merge_truncate_and_pad_encodings() -> None:
    tok, peer = Tokenizer.from_str(shape("roberta")), tokenizers.Tokenizer.from_str(shape("roberta"))
    for growing in (True, False):
        results = []
        for tokenizer, kind in ((tok, Encoding), (peer, tokenizers.Encoding)):
            parts = [tokenizer.encode(text) for text in ("the low", "lower prices", "<mask> x")]
            merged = kind.merge(parts, growing)
            merged.truncate(7, stride=2, direction="left")
            merged.pad(9, pad_id=3, pad_token="?", direction="left", pad_type_id=1)
            merged.set_sequence_id(1)
            results.append(list_columns(merged))
        assert results[0] == results[1]
    encoding = tok.encode("the low")
    with pytest.raises(ValueError, match="Invalid truncation direction value : up"):
        encoding.truncate(1, direction="up")
    with pytest.raises(ValueError, match="stride is 3; it must be less than max_length, which is 2"):
        encoding.truncate(2, stride=3)
    with pytest.warns(DeprecationWarning, match="word_ids"):
        assert encoding.words == encoding.word_ids


def test_padded_encodings_are_truncated_and_merged_as_by_tokenizers() -> None:
    tok, peer = Tokenizer.from_str(shape("roberta")), tokenizers.Tokenizer.from_str(shape("roberta"))
    results: list[list[Any]] = []
    for tokenizer, kind in ((tok, Encoding), (peer, tokenizers.Encoding)):
        padded: Any = tokenizer.encode("the low")
        padded.pad(7)
        results.append([list_columns(kind.merge([tokenizer.encode("lower"), padded, padded], True))])
        merged = kind.merge([kind.merge([padded, padded], True)] * 2, True)
        results[-1].append([list_columns(merged), [merged.char_to_token(position) for position in range(20)]])
        for size in (4, 0):  # what was cut off before goes with it
            padded.truncate(size, stride=min(size, 1))
            results[-1].append(list_columns(padded))
        padded = tokenizer.encode("the low")
        padded.pad(7)
        padded.truncate(0)
        results[-1].append(list_columns(padded))
    assert results[0] == results[1]


def test_positions_are_checked_as_by_tokenizers() -> None:
    methods = "token_to_chars token_to_word token_to_sequence char_to_token char_to_word word_to_chars word_to_tokens"
    peer = tokenizers.Tokenizer.from_str(shape("roberta"))
    encodings: list[Any] = [Tokenizer.from_str(shape("roberta")).encode("the low"), peer.encode("the low")]
    for name in methods.split():
        for index, error in ((-1, OverflowError), (2**64, OverflowError), ("1", TypeError), (1.0, TypeError)):
            for encoding in encodings:
                with pytest.raises(error):
                    getattr(encoding, name)(index)
        assert getattr(encodings[0], name)(2**31) == getattr(encodings[1], name)(2**31)
    for call in (lambda encoding: encoding.pad(9, pad_id=-1), lambda encoding: encoding.truncate(-1)):
        for encoding in encodings:
            with pytest.raises(OverflowError):
                call(encoding)


def test_a_word_instead_of_a_bool_is_refused_as_by_tokenizers() -> None:
    for kind in (Tokenizer, tokenizers.Tokenizer):
        tok: Any = kind.from_str(shape("roberta"))
        methods = tok.get_vocab, tok.get_vocab_size, tok.num_special_tokens_to_add, tok.to_str
        for call in (*methods, partial(setattr, tok, "encode_special_tokens")):
            with pytest.raises(TypeError):
                call("no")
            call(False)


@pytest.mark.parametrize("name", ["bert", "roberta", "gpt2"])
def test_what_is_cut_off_of_pairs_is_combined_when_it_is_read(name: str) -> None:
    results = []
    for tokenizer, kind in (
        (Tokenizer.from_str(shape(name)), Encoding),
        (tokenizers.Tokenizer.from_str(shape(name)), tokenizers.Encoding),
    ):
        tokenizer.enable_truncation(9, stride=1)
        tokenizer.enable_padding(length=11)
        pair: Any = tokenizer.encode("the lowest price " * 4, "of the lazy dog " * 3)
        merged: Any = kind.merge([pair, tokenizer.encode("lower prices " * 6)])
        if kind is Encoding:
            assert callable(pair.resolved.overflowing)
            assert callable(merged.resolved.overflowing)
            assert list_columns(pickle.loads(pickle.dumps(pair.copy()))) == list_columns(pair.copy())
        results.append([list_columns(pair)])
        pair.pad(20, pad_token="later")  # what was merged before does not change
        merged.pad(40)
        results[-1] += [list_columns(pair), list_columns(merged)]
    assert results[0] == results[1]


def test_time_limits_stay_where_a_tokenizer_is_changed_or_pickled() -> None:
    pretokenizer = bpe.Pretokenizer.from_regex(r"\w+|\W")
    native = bpe.train(texts=["low lower lowest"] * 3, vocab_size=260, pretokenizer=pretokenizer)
    tok = Tokenizer(bpe.Tokenizer(native.spec, timeout=77, cache_memory="1M"))
    tok.normalizer = tokenizers.normalizers.Replace("a", "b")
    for other in (tok, copy.deepcopy(tok), pickle.loads(pickle.dumps(tok))):
        other.add_tokens(["lo"])
        assert other.native.spec.pretokenizer.timeout == 77
        assert other.native.cache_memory == 1 << 20


@pytest.mark.parametrize("name", ["llama3", "nfc"])
def test_pickles_and_copies(name: str) -> None:
    tok = Tokenizer.from_str(shape(name))
    tok.enable_truncation(8, stride=1)
    tok.enable_padding(pad_id=2, pad_token="<pad>")
    for other in (pickle.loads(pickle.dumps(tok)), copy.deepcopy(tok), copy.copy(tok)):
        assert other.to_str() == tok.to_str()
        for text in HOSTILE:
            assert list_columns(other.encode(text)) == list_columns(tok.encode(text))
        other.add_tokens(["new"])
        other.no_truncation()
        assert tok.token_to_id("new") is None
        assert tok.truncation is not None
    encoding = tok.encode("the lowest price of the lazy dog", "a pair")
    assert list_columns(pickle.loads(pickle.dumps(encoding))) == list_columns(encoding)
    merged = Encoding.merge([tok.encode("the lowest price of the lazy dog") for _ in range(3)])
    assert list_columns(pickle.loads(pickle.dumps(merged))) == list_columns(merged)


def test_post_process_is_that_of_tokenizers() -> None:
    results = []
    for tokenizer in (Tokenizer.from_str(shape("bert")), tokenizers.Tokenizer.from_str(shape("bert"))):
        tokenizer.enable_padding(length=12)
        parts = [tokenizer.encode(text, add_special_tokens=False) for text in ("the low", "price")]
        tokenizer.no_padding()
        parts = [tokenizer.encode(text, add_special_tokens=False) for text in ("the low", "price")]
        tokenizer.enable_padding(length=12)
        results.append([list_columns(tokenizer.post_process(parts[0])), list_columns(tokenizer.post_process(*parts))])
    assert results[0] == results[1]


@pytest.mark.parametrize("bad", [None, 3, ["a"], b"a"])
def test_wrong_inputs_are_refused(tok: Tokenizer, bad: Any) -> None:
    with pytest.raises(TypeError, match="TextInputSequence must be str"):
        tok.encode(bad)
    with pytest.raises(TypeError, match="TextEncodeInput must be Union"):
        tok.encode_batch(["a", bad])
    with pytest.raises(TypeError, match="input is "):
        tok.encode_batch("abc")
    with pytest.raises(TypeError, match="PreTokenizedInputSequence must be Union"):
        tok.encode("a", is_pretokenized=True)


class Tag(str, enum.Enum):
    LOW = "low"


@pytest.mark.parametrize("words", [[Tag.LOW, "x"], (np.str_("a\0"), np.str_("low")), np.array(["low", "er"])])
def test_words_of_subclasses_of_str_are_encoded_as_the_characters_that_they_have(words: Any) -> None:
    own = Tokenizer(bpe.train(texts=["the low lower"], vocab_size=258))
    expected = own.encode([str.__str__(word) for word in words], is_pretokenized=True).ids
    assert own.encode(words, is_pretokenized=True).ids == expected
    assert own.encode_batch([words], is_pretokenized=True)[0].ids == expected


@pytest.mark.parametrize("name", ["normalizer", "pre_tokenizer", "post_processor", "decoder"])
@pytest.mark.parametrize(
    "value",
    [
        True, "x", [], {}, {"type": None}, {"type": "x"}, {"type": "Sequence"},
        {"type": "Sequence", "normalizers": [3], "pretokenizers": [3], "processors": [3], "decoders": [3]},
    ],
)  # fmt: skip
def test_a_component_that_nobody_reads_is_refused(tok: Tokenizer, name: str, value: object) -> None:
    """They were found where they were used, by an error that said nothing."""
    with pytest.raises(bpe.FormatError, match=f"{name}: "):
        Tokenizer.from_str(json.dumps(json.loads(tok.to_str()) | {name: value}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"post_processor": {"type": "RobertaProcessing"}}, "post_processor: .* is not known"),
        ({"post_processor": {"type": "BertProcessing", "sep": [1], "cls": None}}, "post_processor: .* is not known"),
        ({"model": {}}, "model: it has no vocab; a BPE model has vocab and merges"),
        ({"version": 5}, 'version: it is 5; the version known is "1.0"'),
        ({"added_tokens": {}}, "added_tokens: it is {}; it must be a list"),
        ({"added_tokens": None}, "added_tokens: it is None; it must be a list"),
    ],
)
def test_fields_of_a_file_are_checked(tok: Tokenizer, changes: dict[str, object], message: str) -> None:
    with pytest.raises(bpe.FormatError, match=message):
        Tokenizer.from_str(json.dumps(json.loads(tok.to_str()) | changes))


def test_wrong_arguments_are_refused(tok: Tokenizer) -> None:
    with pytest.raises(ValueError, match="Unknown `strategy`: `x`"):
        tok.enable_truncation(3, strategy="x")
    with pytest.raises(ValueError, match="Unknown `direction`: `x`"):
        tok.enable_padding(direction="x")
    nested: list[object] = []
    for _ in range(2000):
        nested = [nested]
    for arguments in ({"strategy": nested}, {"direction": nested}):
        with pytest.raises(TypeError, match=rf"{next(iter(arguments))} is .*; it must be a str"):
            tok.enable_truncation(3, **arguments)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"direction is None; it must be a str"):
        tok.enable_padding(direction=None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="pad_token is 3"):
        tok.enable_padding(pad_token=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="stride set to 5, which is greater"):
        tok.enable_truncation(3, stride=5)
    with pytest.raises(TypeError, match="a BPE model"):
        Tokenizer(3)
    with pytest.raises(bpe.FormatError, match="it is not JSON"):
        Tokenizer.from_str("{")
    with pytest.raises(bpe.FormatError, match="it must be BPE"):
        Tokenizer.from_str('{"model": {"type": "Unigram", "vocab": []}}')
    with pytest.raises(OverflowError):
        tok.decode([-1])
    assert tok.decode([10_000_000, 257]) == tok.decode([257])


def test_the_call_of_one_text_is_made_once() -> None:
    """An encoding of one text keeps its ids until its call is asked for, which all columns share from then on."""
    tok = Tokenizer(bpe.train(texts=["low lower lowest"] * 3, vocab_size=260))
    for add_special_tokens in (True, False):
        encoding = tok.encode("lowest é" * 40, add_special_tokens=add_special_tokens)
        assert encoding.call is encoding.call
        assert encoding.call.texts == "lowest é" * 40
        assert encoding.call.ids.tolist() == encoding.ids == tok.native.encode("lowest é" * 40).tolist()
        assert len(encoding.tokens) == len(encoding.ids)


def test_the_call_of_one_pair_is_made_once() -> None:
    tok = Tokenizer(bpe.train(texts=["low lower lowest"] * 3, vocab_size=260))
    for texts in (("lowest é", "low"), ("low", ""), ("", "lowest"), ("low한" * 2000, "é" * 5000)):
        encoding = tok.encode(*texts)
        assert encoding.call is encoding.call
        assert encoding.call.texts == texts
        assert encoding.ids == [token_id for text in texts for token_id in tok.native.encode(text).tolist()]
        assert (encoding.n_sequences, len(encoding)) == (2, len(encoding.ids))


@pytest.mark.parametrize("name", SHAPES)
def test_pairs_are_those_of_tokenizers(name: str) -> None:
    """One by one, in a batch, of long texts, with special tokens in either text."""
    peer, tok = tokenizers.Tokenizer.from_str(shape(name)), Tokenizer.from_str(shape(name))
    for tokenizer in (peer, tok):
        tokenizer.add_special_tokens(["<s>", "<sep>"])
    valid_texts = [
        text for text in HOSTILE if isinstance(get_outcome(lambda text=text: peer.encode(text)), tokenizers.Encoding)
    ]
    texts = [*valid_texts, "the <s> low", "lowest<sep>", "the lowest price " * 400]
    pairs = list(zip(texts, texts[::-1], strict=True))
    for add in (True, False):
        expected = [list_columns(peer.encode(*pair, add_special_tokens=add)) for pair in pairs]
        assert [list_columns(tok.encode(*pair, add_special_tokens=add)) for pair in pairs] == expected
        assert list(map(list_columns, tok.encode_batch(list(map(list, pairs)), add_special_tokens=add))) == expected


@pytest.mark.parametrize(
    ("normalizer", "name"),
    [
        ({"type": "Strip", "strip_left": True, "strip_right": True}, " "),
        ({"type": "StripAccents"}, "\u0301"),
        ({"type": "Nmt"}, "\u0001"),
    ],
)
def test_a_token_that_is_normalized_away_is_left_to_tokenizers(normalizer: dict[str, Any], name: str) -> None:
    """It is found between any two characters, so that no merge joins these."""
    value = json.loads(Tokenizer(bpe.train(texts=["low lower lowest"] * 3, vocab_size=260)).to_str())
    value["normalizer"] = normalizer
    value["added_tokens"] = [dict.fromkeys(("single_word", "lstrip", "rstrip", "special"), False)]
    value["added_tokens"][0] |= {"id": 260, "content": name, "normalized": True}
    text = json.dumps(value)
    peer, tok = tokenizers.Tokenizer.from_str(text), Tokenizer.from_str(text)
    for sample in ("low low", "lowest", ""):  # tokenizers panics on texts that are not ASCII
        assert list_columns(tok.encode(sample)) == list_columns(peer.encode(sample))
    with pytest.raises(bpe.FormatError, match="splits every text at the empty string"):
        format_huggingface.read(text.encode())


@pytest.mark.parametrize("vocab", [[0, 1, 2], [2, 0, 1], [0, 1, 9]])
def test_added_tokens_get_the_ids_that_tokenizers_gives_them(vocab: list[int]) -> None:
    """Whatever the file says: with gaps as in o200k's ids, in any order, repeated, empty."""
    model = {"type": "BPE", "vocab": dict(zip(["a", "b", "ab"], vocab, strict=True)), "merges": ["a b"]}
    for seed in range(30 * SOAK):
        rng = random.Random(seed)
        names = rng.choices(["a", "b", "<x>", "<y>", "<z>", ""], k=rng.randrange(5))
        names = names[:2] if vocab[-1] == 9 else names  # tokenizers may give one id twice
        flags = ("single_word", "lstrip", "rstrip", "normalized", "special")
        added = [
            {"id": rng.randrange(12), "content": name, **{flag: rng.random() < 0.3 for flag in flags}} for name in names
        ]
        text = json.dumps({"version": "1.0", "added_tokens": added, "model": model})
        results = []
        for tokenizer in (tokenizers.Tokenizer.from_str(text), Tokenizer.from_str(text)):
            tokens = {token_id: repr(token) for token_id, token in tokenizer.get_added_tokens_decoder().items()}
            ids = [tokenizer.token_to_id(name) for name in ("a", "<x>", "<y>", "<z>", "")]
            of_ids = [(tokenizer.id_to_token(token_id), tokenizer.decode([token_id], False)) for token_id in range(14)]
            more = tokenizer.add_tokens(["b", "<new>", "ab"]), tokenizer.token_to_id("<new>")
            encoded = tokenizer.encode("a<x>b<y>ab<z><new>").ids
            results.append([tokens, ids, of_ids, more, encoded, tokenizer.get_vocab(), tokenizer.get_vocab_size()])
        assert results[1] == results[0]


@pytest.mark.parametrize("token", ["é", "a", "x", "th", "the", "<unk>"])
@pytest.mark.parametrize("ignore_merges", [False, True])
def test_the_text_of_a_special_token_may_be_a_symbol_of_characters(token: str, ignore_merges: bool) -> None:
    """Where special tokens are encoded as text: merges of such a symbol are done, and it is not unknown."""
    document = json.loads(shape("characters"))
    document["pre_tokenizer"] = None
    document["model"] |= {"end_of_word_suffix": None, "unk_token": None, "ignore_merges": ignore_merges}
    results = []
    for tokenizer_class in (tokenizers.Tokenizer, Tokenizer):
        tok = tokenizer_class.from_str(json.dumps(document))
        tok.add_special_tokens([token])
        for as_text in (False, True):
            tok.encode_special_tokens = as_text
            texts = ["naïve café the x <unk>", token, f"{token}{token}a"]
            results.append([(encoding.ids, encoding.offsets) for encoding in tok.encode_batch(texts)])
    assert results[:2] == results[2:]


@pytest.mark.parametrize("tokens", [["é"], ["x̂"], ["☃", "the"], ["the", "☃"], ["a", "☃", "the", " "]])
@pytest.mark.parametrize("ignore_merges", [False, True])
def test_files_keep_which_special_tokens_of_characters_text_can_spell(
    tokens: list[str], ignore_merges: bool, tmp_path: Path
) -> None:
    """A special token of the vocab is a symbol, or a word with `ignore_merges`; one outside the vocab is not."""
    document = json.loads(shape("characters"))
    document["pre_tokenizer"] = None
    document["model"] |= {"end_of_word_suffix": None, "unk_token": None, "ignore_merges": ignore_merges}
    peer = tokenizers.Tokenizer.from_str(json.dumps(document))
    peer.add_special_tokens(tokens)
    peer.save(str(tmp_path / "theirs.json"))
    tok = bpe.Tokenizer.load(tmp_path / "theirs.json")
    tok.save(tmp_path / "ours.json")
    again = bpe.Tokenizer.load(tmp_path / "ours.json")
    assert again == tok
    peers = (peer, tokenizers.Tokenizer.from_file(str(tmp_path / "ours.json")))
    for tokenizer in peers:
        tokenizer.encode_special_tokens = True
    for text in ("naïve café the x ☃", "the", "☃", "a", " "):
        results = [tokenizer.encode(text).ids for tokenizer in peers] + [
            tokenizer.encode(text).tolist() for tokenizer in (tok, again)
        ]
        assert results == [results[0]] * 4


def test_a_special_token_as_text_hides_what_the_normalizer_spells_inside_it() -> None:
    """The normalizer spells the special token `<é` as `<▁`, and the other added token as `▁`, which is within it."""
    document = json.loads(shape("characters"))
    document["pre_tokenizer"] = document["post_processor"] = None
    document["normalizer"] = {"type": "Replace", "pattern": {"Regex": r"\w$"}, "content": "▁"}
    document["model"] |= {"vocab": {"<": 0, "▁": 1, "a": 2, "c": 3, "<é": 4, "▁a": 5}, "merges": [["▁", "a"]]}
    document["model"] |= {"end_of_word_suffix": None, "unk_token": None}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": True}
    document["added_tokens"] = [
        {"id": 3, "content": "c", "special": False, **flags},
        {"id": 4, "content": "<é", "special": True, **flags},
    ]
    results = []
    for tokenizer_class in (tokenizers.Tokenizer, Tokenizer):
        tok = tokenizer_class.from_str(json.dumps(document))
        tok.encode_special_tokens = True
        results.append([tok.encode(text, add_special_tokens=False).ids for text in ("▁<▁a<", "a▁<", "<▁")])
    assert results[1] == results[0]


def test_a_special_token_that_is_added_again_without_the_flag_stays_text() -> None:
    """`tokenizers` keeps it among the special tokens until the file is read again."""
    results = []
    for tokenizer_class in (tokenizers.Tokenizer, Tokenizer):
        tok = tokenizer_class.from_str(shape("bert"))
        tok.add_special_tokens(["<x>", "<y>"])
        tok.add_tokens([tokenizers.AddedToken("<x>", special=False, rstrip=True)])
        rows = []
        for tokenizer in (tok, tokenizer_class.from_str(tok.to_str())):
            for tokenizer.encode_special_tokens in (False, True):
                rows.append(tokenizer.encode("the<x> <y>the", add_special_tokens=False).tokens)
        results.append((rows, str(tok.get_added_tokens_decoder())))
    assert results[1] == results[0]


def test_a_stride_without_room_for_the_template_truncates_nothing() -> None:
    """The template is longer than the limit: `tokenizers` takes the negative rest as a very large number."""
    results = []
    for tokenizer_class in (tokenizers.Tokenizer, Tokenizer):
        tok = tokenizer_class.from_str(shape("bert"))
        tok.enable_truncation(1, stride=1)
        encoding = tok.encode("the lowest price")
        results.append((encoding.ids, len(encoding.overflowing), tok.truncation))
        with pytest.raises(ValueError, match="effective max length of 1"):
            tok.enable_truncation(3, stride=2)
    assert results[0] == results[1]


def test_tokens_added_after_a_gap_keep_their_ids() -> None:
    """`tokenizers` numbers them after the largest id if a call adds them, and otherwise when it reads a file."""
    native = Tokenizer(bpe.train(texts=["low lower lowest"] * 3, vocab_size=262, special_tokens=["<s>", "<e>"]))
    value = json.loads(native.to_str())
    value["model"]["vocab"]["<e>"] = 300
    value["added_tokens"][-1]["id"] = 300
    peer, tok = (kind.from_str(json.dumps(value)) for kind in (tokenizers.Tokenizer, Tokenizer))
    for tokenizer in (peer, tok):
        assert tokenizer.add_tokens(["<x>", tokenizers.AddedToken("<y>", lstrip=True)]) == 2
    text = "low<x>er <y><e><s>"
    assert tok.native is not None
    assert list_columns(tok.encode(text)) == list_columns(peer.encode(text))
    assert tok.encode("<x><y>").ids == [tok.token_to_id("<x>"), tok.token_to_id("<y>")] == [301, 302]
    assert tok.decode([301, 302, 299, 300], False) == peer.decode([301, 302, 299, 300], False)
    assert list_columns(tok._state.core.encode_by_tokenizers(text, False)) == list_columns(
        peer.encode(text)
    )  # by `tokenizers` itself
    copied = copy.deepcopy(tok)
    assert copied.encode(text).ids == tok.encode(text).ids
    read, reread = (
        kind.from_str(tokenizer.to_str()) for kind, tokenizer in ((Tokenizer, tok), (tokenizers.Tokenizer, peer))
    )
    assert list_columns(read.encode(text)) == list_columns(reread.encode(text))
    assert read.token_to_id("<x>") == reread.token_to_id("<x>")


@pytest.mark.parametrize("name", ["gpt2", "llama3", "bert", "nfc"])
def test_new_tokens_take_the_tables_of_the_model(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading the model again takes 40 ms and more; the ids are those of `tokenizers` at each step."""
    peer, tok = (kind.from_str(shape(name)) for kind in (tokenizers.Tokenizer, Tokenizer))
    text = "the<x> lowé <x>z<y>\n<z><x>"
    assert list_columns(tok.encode(text)) == list_columns(peer.encode(text))
    encoder = tok.native._engine.encoder
    monkeypatch.setattr(Core, "_read_spec", None)
    for method, tokens in (
        ("add_tokens", ["<x>"]),
        ("add_special_tokens", ["<y>", "<z>"]),
        ("add_tokens", [tokenizers.AddedToken("<x>z", lstrip=True, normalized=False)]),
        ("add_tokens", ["\n<z>"]),
    ):
        assert getattr(tok, method)(tokens) == getattr(peer, method)(tokens)
        assert list_columns(tok.encode(text)) == list_columns(peer.encode(text))
        ids = [*tok.encode(text).ids, *range(tok.get_vocab_size() + 1)]
        for skip in (False, True):
            assert tok.decode(ids, skip) == peer.decode(ids, skip)
        assert tok.native._engine.encoder is encoder
    monkeypatch.undo()
    assert tok.add_tokens(["<n>", "the"]) == peer.add_tokens(["<n>", "the"])  # one of the model may be, too
    assert list_columns(tok.encode(text)) == list_columns(peer.encode(text))


def test_pairs_are_joined_only_if_each_has_two_str() -> None:
    class Text(str):
        __slots__ = ()

    assert _rows.join_pairs([("a", "b"), ["c", ""]]) == ["a", "b", "c", ""]
    assert _rows.join_pairs([]) == []
    for odd in (("a",), ("a", "b", "c"), ("a", 3), ("a", Text("b")), "ab", {"a": 1, "b": 2}, None, (["a"], ["b"])):
        assert _rows.join_pairs([("a", "b"), odd]) is None
    assert _rows.are_all_str(["a", ""])
    assert not _rows.are_all_str(["a", Text("b")])
    assert not _rows.has_name(["a", "<", ""], "<s")
    assert _rows.has_name(["a", Text("한<s>")], "<s")
    assert _rows.has_name(["a"], "")
    assert not _rows.has_name([], "")
    with pytest.raises(TypeError, match="a text is int; it must be str"):
        _rows.has_name(["a", 3], "<")  # type: ignore[list-item]


def test_bounds_of_texts_are_checked() -> None:
    call = Tokenizer(bpe.train(texts=["low lower lowest"] * 3, vocab_size=260)).encode_batch(["low", "é"])[0].call
    assert [call.find_bounds(i) for i in (0, 1)] == [(0, 1), (1, 3)]
    for i in (-1, 2):
        with pytest.raises(IndexError, match=f"text {i} is not one of 2"):
            call.find_bounds(i)
    with pytest.raises(TypeError, match="int is no subclass of Row"):
        _rows.make_rows(int, call, 2)  # type: ignore[type-var]


def test_threads_see_whole_configurations() -> None:
    """Each result is that of one configuration, while another thread changes all of them."""
    tok = Tokenizer.from_str(shape("llama3"))
    changes = (
        tok.no_truncation,
        tok.no_padding,
        lambda: tok.enable_truncation(6),
        lambda: tok.enable_padding(length=8),
    )
    expected = []
    for change in changes * 2:  # after the first four, the configurations are those of each further round
        change()
        expected.append([encoding.ids for encoding in tok.encode_batch(HOSTILE)])
    finished = threading.Event()
    unexpected: list[Any] = []

    def encode() -> None:
        while not finished.is_set():
            ids = [encoding.ids for encoding in tok.encode_batch(HOSTILE)]
            if ids not in expected:
                unexpected.append(ids)

    threads = [threading.Thread(target=encode) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        for change in changes:
            change()
    finished.set()
    for thread in threads:
        thread.join()
    assert not unexpected


def test_asynchronous_calls(tok: Tokenizer) -> None:
    async def run() -> list[Any]:
        batch = await tok.async_encode_batch(["low", "lower"])
        encoding = await tok.async_encode("low")
        return [[row.ids for row in batch], encoding.ids, await tok.async_decode_batch([[257], [66]])]

    assert asyncio.run(run()) == [[tok.encode("low").ids, tok.encode("lower").ids], tok.encode("low").ids, [
        tok.decode([257]), tok.decode([66])
    ]]  # fmt: skip


def test_numpy_inputs(tok: Tokenizer) -> None:
    texts = np.array(["low", "lower"])
    assert [encoding.ids for encoding in tok.encode_batch(texts)] == [tok.encode("low").ids, tok.encode("lower").ids]
    pairs = np.array([["low", "lower"], ["a", "b"]])
    assert [encoding.ids for encoding in tok.encode_batch(pairs)] == [
        tok.encode("low", "lower").ids,
        tok.encode("a", "b").ids,
    ]


def test_training_and_model_settings() -> None:
    tok = Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    assert (type(tok.model).__name__, tok.model.unk_token, tok.model.fuse_unk) == ("BPE", "<unk>", False)
    tok.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tok.train_from_iterator(
        ["low lower lowest"] * 3, tokenizers.trainers.BpeTrainer(vocab_size=15, show_progress=False)
    )
    assert tok.encode("low lowest").tokens == ["low", "lowest"]
    assert tok.model.token_to_id("low") == tok.token_to_id("low")
    tok.model = tokenizers.models.BPE(vocab={"a": 0, "b": 1, "ab": 2}, merges=[("a", "b")])
    assert tok.encode("abab").ids == [2, 2]
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        tok.model.nothing  # noqa: B018
    assert isinstance(pickle.loads(pickle.dumps(tok.model)), BPE)


def test_own_added_token(tok: Tokenizer) -> None:
    made = copy.copy(tok)
    assert made.add_tokens([AddedToken("<mask>", lstrip=True), "C++"]) == 2
    assert made.encode("low  <mask>").tokens == ["low", "  <mask>"]
    assert repr(AddedToken("x")) == repr(tokenizers.AddedToken("x"))
    assert made.get_added_tokens_decoder()[262] == tokenizers.AddedToken("<mask>", lstrip=True)


WITHOUT = """
import sys
sys.modules["tokenizers"] = None
from bpe.compat.huggingface import Tokenizer
text = open(sys.argv[1]).read()
tok = Tokenizer.from_str(text)
enc = tok.encode("the <mask> low C++", "e\\u0301")
print(enc.ids, enc.tokens, enc.offsets, enc.word_ids, tok.decode(enc.ids), repr(tok.get_added_tokens_decoder()[400]))
try:
    tok.pre_tokenizer
except ModuleNotFoundError as error:
    print(error)
"""


def test_without_tokenizers(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(shape("roberta"))
    output_lines = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(path)], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    peer = tokenizers.Tokenizer.from_str(shape("roberta"))
    enc = peer.encode("the <mask> low C++", "e\u0301")
    parts = (enc.ids, enc.tokens, enc.offsets, enc.word_ids, peer.decode(enc.ids))
    assert output_lines[0] == " ".join([*map(str, parts), repr(peer.get_added_tokens_decoder()[400])])
    assert "which is not installed; pip install tokenizers" in output_lines[1]


class WithoutInit(Tokenizer):
    """A subclass that forgets the class's own `__init__`."""

    def __init__(self) -> None:
        pass


@pytest.mark.parametrize("make", [WithoutInit, lambda: Tokenizer.__new__(Tokenizer)])
def test_a_tokenizer_that_was_not_initialized_says_so(make: Any) -> None:
    for use in (
        lambda tok: tok.encode("low"),
        lambda tok: tok.encode("low", "low"),
        lambda tok: tok.decode([1]),
        lambda tok: tok.encode_batch(["low"]),
        lambda tok: tok.padding,
        lambda tok: tok.get_vocab(),
        lambda tok: tok.no_padding(),
        lambda tok: setattr(tok, "decoder", None),
        lambda tok: setattr(tok, "model", tokenizers.models.BPE()),
        pickle.dumps,
    ):
        with pytest.raises(RuntimeError, match=r"made without `Tokenizer.__init__`; call super\(\).__init__"):
            use(make())
    with pytest.raises(TypeError):
        make()._state = None


def test_a_state_that_is_replaced_lives_until_the_call_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Making a plan runs Python code, during which another thread may replace the state of the tokenizer."""
    tok = Tokenizer(bpe.train(texts=["low lower lowest"] * 3, vocab_size=260))
    expected, events = tok.encode("low lower").ids, []
    tok.no_padding()
    make_plan = State.make_plan

    def replacing(state: State, template: bool) -> Any:
        plan = make_plan(state, template)
        encode, plan.encoder = plan.encode, None
        plan.encode = lambda text: (events.append("encoded"), encode(text))[1]
        weakref.finalize(state, events.append, "freed")
        tok.no_padding()
        return plan

    monkeypatch.setattr(State, "make_plan", replacing)
    assert tok.encode("low lower").ids == expected
    monkeypatch.undo()
    gc.collect()
    assert events == ["encoded", "freed"]


def test_the_call_of_an_encoding_cannot_be_pickled(tok: Tokenizer) -> None:
    """An encoding is pickled by itself; a call without offsets was read out of bounds."""
    call = tok.encode("low").call
    for make in (lambda: call, lambda: type(call).__new__(type(call))):
        for use in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="cannot pickle"):
                use(make())


def test_added_tokens_are_those_of_tokenizers(tok: Tokenizer) -> None:
    """Trainers and tokenizers of that package take no other class."""
    for flags in ({}, {"special": True}, {"special": True, "normalized": True}, {"lstrip": True, "single_word": True}):
        token, peer_token = AddedToken("<x>", **flags), tokenizers.AddedToken("<x>", **flags)
        assert token == peer_token
        assert peer_token == token
        assert hash(token) == hash(peer_token)
        assert repr(token) == repr(peer_token)
        assert token != tokenizers.AddedToken("<y>", **flags)
        assert isinstance(peer_token, AddedToken)
        assert isinstance(token, tokenizers.AddedToken)
    assert AddedToken("<x>", True).single_word
    assert AddedToken() == tokenizers.AddedToken()
    assert not isinstance("<x>", AddedToken)
    tokenizers.trainers.BpeTrainer(special_tokens=[AddedToken("<s>", special=True)])
    plain = tokenizers.Tokenizer(tokenizers.models.BPE())
    assert plain.add_tokens([AddedToken("<x>", lstrip=True)]) == 1
    assert plain.get_added_tokens_decoder()[0] == AddedToken("<x>", lstrip=True)
    made = copy.copy(tok)
    made.add_tokens([AddedToken("<x>", rstrip=True)])
    assert AddedToken("<x>", rstrip=True) in made.get_added_tokens_decoder().values()


def test_models_are_those_of_tokenizers(tok: Tokenizer) -> None:
    assert isinstance(tok.model, tokenizers.models.BPE)
    assert isinstance(tok.model, tokenizers.models.Model)
    assert isinstance(tok.model, BPE)
    assert isinstance(tok.model, tokenizers.models.Unigram) is False
    for again in (pickle.loads(pickle.dumps(tok.model)), copy.copy(tok.model), copy.deepcopy(tok.model)):
        assert type(again) is BPE
        assert again.__getstate__() == tok.model.__getstate__()
    made = copy.copy(tok)
    made.model.fuse_unk = True
    assert made.model.fuse_unk
    made.model = tok.model
    assert made.to_str() == tok.to_str()


PATCHED = """
import bpe, tokenizers
from bpe.compat import huggingface
plain = tokenizers.Tokenizer
tokenizers.Tokenizer, tokenizers.AddedToken = huggingface.Tokenizer, huggingface.AddedToken
tok = tokenizers.Tokenizer(bpe.train(texts=["low lower"], vocab_size=258))
tok.add_tokens([tokenizers.AddedToken("<x>")])
assert repr(tok).startswith('Tokenizer(version="1.0"'), repr(tok)
tok.normalizer = tokenizers.normalizers.NFC()
tok.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
assert tok.decoder is not None
tok.train_from_iterator(["a b", "a"], tokenizers.trainers.BpeTrainer(vocab_size=9, show_progress=False))
assert tok.encode("a b").tokens == ["a", "b"], tok.encode("a b").tokens
assert type(tok) is not plain
print("same")
"""


def test_ours_in_place_of_tokenizers() -> None:
    """A program may put the class here in the place of that one."""
    process = subprocess.run([sys.executable, "-c", PATCHED], capture_output=True, text=True, timeout=60, check=False)
    assert (process.stdout.strip(), process.stderr) == ("same", "")


def test_added_tokens_without_tokenizers() -> None:
    program = """
import sys
sys.modules["tokenizers"] = None
from bpe.compat.huggingface import AddedToken, BPE, Tokenizer
import bpe
one = AddedToken("<x>", special=True)
assert one == AddedToken("<x>", special=True) != AddedToken("<x>") and len({one, AddedToken("<x>", special=True)}) == 1
assert type(one) is AddedToken and isinstance(one, AddedToken) and not one.normalized
tok = Tokenizer(bpe.train(texts=["low"], vocab_size=257))
assert tok.add_tokens([one]) == 1 and isinstance(tok.model, BPE)
assert list(tok.get_added_tokens_decoder().values()) == [one]
print("same")
"""
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (process.stdout.strip(), process.stderr) == ("same", "")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("normalizer", {"type": "Prepend", "prepend": "a\ud800"}),
        ("decoder", {"type": "Replace", "pattern": {"String": "a"}, "content": "a\ud800"}),
        ("model", {"vocab": {"a\ud800": 0}, "merges": []}),
        ("model", {"vocab": {"a": 0}, "merges": [["a", "\ud800"]]}),
        ("model", {"vocab": {"a": 0}, "merges": [], "unk_token": "\ud800"}),
    ],
)
def test_lone_surrogates_in_a_file_are_refused(place: str, value: dict[str, Any]) -> None:
    """Python's JSON parser accepts them, and what has them cannot be saved."""
    data = json.dumps({"model": {"vocab": {"a": 0}, "merges": []}, place: value})
    with pytest.raises(bpe.FormatError, match=rf"{place}.*'a?\\ud800' holds a lone surrogate"):
        Tokenizer.from_str(data)
    with pytest.raises(Exception, match="unexpected end of hex escape"):
        tokenizers.Tokenizer.from_str(data)
