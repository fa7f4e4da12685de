"""What `tokenizers`' own tests for BPE describe: each test runs with that package and with `bpe.compat.huggingface`."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import bpe.compat.huggingface as compat

tokenizers = pytest.importorskip("tokenizers", reason="compares with the tokenizers package")

WORDS = ["we", "sail", "at", "dawn", "crew"]


@pytest.fixture(params=["tokenizers", "bpe"])
def lib(request: Any) -> SimpleNamespace:
    """The classes of one of the two packages."""
    if request.param == "tokenizers":
        return SimpleNamespace(
            Tokenizer=tokenizers.Tokenizer,
            AddedToken=tokenizers.AddedToken,
            DecodeStream=tokenizers.decoders.DecodeStream,
        )
    return SimpleNamespace(Tokenizer=compat.Tokenizer, AddedToken=compat.AddedToken, DecodeStream=compat.DecodeStream)


def of_words(lib: SimpleNamespace) -> Any:
    """A tokenizer without a vocabulary, and with a few added tokens."""
    tok = lib.Tokenizer(tokenizers.models.BPE())
    assert tok.add_tokens(WORDS) == len(WORDS)
    return tok


def of_bytes(lib: SimpleNamespace) -> Any:
    """A byte-level tokenizer of bytes alone, after "<s>" and "</s>"."""
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tok = lib.Tokenizer(tokenizers.models.BPE({letter: token_id for token_id, letter in enumerate(letters)}, []))
    tok.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = tokenizers.decoders.ByteLevel()
    assert tok.add_special_tokens(["<s>", "</s>"]) == 2
    return tok


def test_added_tokens_without_a_vocabulary(lib: SimpleNamespace) -> None:
    tok = of_words(lib)
    encoding = tok.encode("we sail at dawn")
    assert (encoding.tokens, encoding.ids) == (["we", "sail", "at", "dawn"], [0, 1, 2, 3])
    assert encoding.overflowing == []
    assert tok.encode("we sail", "crew").tokens == ["we", "sail", "crew"]
    assert tok.encode(["we", "sail"], is_pretokenized=True).tokens == ["we", "sail"]
    assert [encoding.ids for encoding in tok.encode_batch(["we", ("we", "crew")])] == [[0], [0, 4]]
    assert tok.get_vocab() == {word: token_id for token_id, word in enumerate(WORDS)}
    assert tok.get_vocab(with_added_tokens=False) == {}
    assert (tok.get_vocab_size(), tok.get_vocab_size(with_added_tokens=False)) == (5, 0)
    assert tok.decode([0, 1, 2, 3]) == "we sail at dawn"
    assert tok.decode_batch([[0, 1], [4]]) == ["we sail", "crew"]


def test_adding_tokens_of_both_kinds(lib: SimpleNamespace) -> None:
    tok = of_words(lib)
    tokens = [lib.AddedToken("sea"), lib.AddedToken("salt", normalized=False), lib.AddedToken()]
    assert [token.normalized for token in tokens[:2]] == [True, False]
    assert tok.add_tokens(tokens) == 2  # an empty one is ignored
    special = [lib.AddedToken("<a>"), lib.AddedToken("<b>", normalized=True), lib.AddedToken()]
    assert tok.add_special_tokens(special) == 2
    assert [(token.special, token.normalized) for token in special[:2]] == [(True, False), (True, True)]
    assert tok.add_tokens(["we"]) == 0
    token_ids = [tok.token_to_id(name) for name in ("sea", "salt", "<a>", "<b>", "absent")]
    assert token_ids == [5, 6, 7, 8, None]
    flags = {token_id: token.special for token_id, token in tok.get_added_tokens_decoder().items()}
    assert flags == {**dict.fromkeys(range(7), False), 7: True, 8: True}
    assert tok.decode([0, 7, 1], skip_special_tokens=True) == "we sail"
    assert tok.decode([0, 7, 1], skip_special_tokens=False) == "we <a> sail"


def test_ids_of_new_tokens(lib: SimpleNamespace) -> None:
    tok = lib.Tokenizer(tokenizers.models.BPE({"a": 0, "b": 7, "c": 2}, []))
    assert tok.add_tokens(["new", "b", "newer", "new", "b", "newest"]) == 4
    assert [tok.token_to_id(name) for name in ("new", "b", "newer", "newest")] == [3, 7, 4, 5]
    assert tok.add_tokens(["last"]) == 1  # its id follows those of all added tokens
    assert tok.token_to_id("last") == 8


@pytest.mark.parametrize(
    ("token", "what"),
    [
        ({"id": "1", "content": "x"}, "id is '1'; it must be a whole number from 0"),
        ({"id": -1, "content": "x"}, "id is -1"),
        ({"id": 1, "content": 7}, "content is 7; it must be a str"),
        ({"id": 1, "content": "x", "special": 1}, "special is 1; it must be a bool"),
    ],
)
def test_added_tokens_of_other_types_are_refused(token: dict[str, Any], what: str) -> None:
    """When the file is read, not when the tokenizer is first used."""
    document = {"added_tokens": [{"id": 0, "content": "a"}, token], "model": {"type": "BPE", "vocab": {}, "merges": []}}
    with pytest.raises(ValueError, match=r"added_tokens\[1\].*" + what):
        compat.Tokenizer.from_str(json.dumps(document))


def test_many_added_tokens() -> None:
    tok = of_words(SimpleNamespace(Tokenizer=compat.Tokenizer))
    assert tok.add_tokens([f"<{token_id}>" for token_id in range(100_000)]) == 100_000  # minutes if each looks at all
    assert [tok.token_to_id(name) for name in ("<0>", "<99999>")] == [5, 100_004]


SINGLE: list[Any] = [
    ["we sail", "at dawn"],
    ("we sail", "at dawn"),
    np.array(["we sail", "at dawn"]),
    np.array(["we sail", "at dawn"], dtype=object),
]
PAIRS: list[Any] = [
    [("we sail", "crew"), ("at dawn", "crew")],
    [["we sail", "crew"], ["at dawn", "crew"]],
    (("we sail", "crew"), ("at dawn", "crew")),
    np.array([["we sail", "crew"], ["at dawn", "crew"]]),
]
SPLIT: list[Any] = [
    [["we", "sail"], ["at", "dawn"]],
    (("we", "sail"), ("at", "dawn")),
    np.array([["we", "sail"], ["at", "dawn"]], dtype=object),
]
SPLIT_PAIRS: list[Any] = [
    [(["we", "sail"], ["crew"]), (["at", "dawn"], ["crew"])],
    [[["we", "sail"], ["crew"]], [["at", "dawn"], ["crew"]]],
    ((("we", "sail"), ("crew",)), (("at", "dawn"), ("crew",))),
    np.array([[["we", "sail"], ["crew"]], [["at", "dawn"], ["crew"]]], dtype=object),
]


@pytest.mark.parametrize(
    ("inputs", "split", "pairs"),
    [
        *[(encoding, False, False) for encoding in SINGLE],
        *[(encoding, False, True) for encoding in PAIRS],
        *[(encoding, True, False) for encoding in SPLIT],
        *[(encoding, True, True) for encoding in SPLIT_PAIRS],
    ],
)
def test_inputs_of_every_type(lib: SimpleNamespace, inputs: Any, split: bool, pairs: bool) -> None:
    expected = [["we", "sail"], ["at", "dawn"]]
    encodings = of_words(lib).encode_batch(inputs, is_pretokenized=split)
    assert [encoding.tokens for encoding in encodings] == [[*row, "crew"] if pairs else row for row in expected]
    assert [encoding.n_sequences for encoding in encodings] == [2 if pairs else 1] * 2


@pytest.mark.parametrize(
    ("arguments", "split", "message"),
    [
        (([["we", "sail"]],), False, "TextInputSequence must be str"),
        (("we", [["crew"]]), False, "TextInputSequence must be str"),
        (("we", ["crew"]), False, "TextInputSequence must be str"),
        (("we",), True, "InputSequence must be Union"),
        (("we", ["crew"]), True, "InputSequence must be Union"),
        ((["we"], "crew"), True, "InputSequence must be Union"),
    ],
)
def test_malformed_inputs(lib: SimpleNamespace, arguments: tuple[Any, ...], split: bool, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        of_words(lib).encode(*arguments, is_pretokenized=split)


def test_truncation_and_its_settings(lib: SimpleNamespace) -> None:
    tok = of_words(lib)
    tok.enable_truncation(2)
    assert tok.encode("we sail at dawn").tokens == ["we", "sail"]
    assert [window.tokens for window in tok.encode("we sail at dawn").overflowing] == [["at", "dawn"]]
    assert tok.encode("we sail at", "crew").tokens == ["we", "crew"]
    tok.enable_truncation(**{**tok.truncation, "direction": "left"})
    assert tok.encode("we sail at dawn").tokens == ["at", "dawn"]
    assert tok.encode("we sail at", "crew").tokens == ["at", "crew"]
    assert tok.truncation == {"max_length": 2, "stride": 0, "strategy": "longest_first", "direction": "left"}
    tok.no_truncation()
    assert tok.truncation is None
    assert len(tok.encode("we sail at dawn")) == 4


def test_padding_and_its_settings(lib: SimpleNamespace) -> None:
    tok = of_words(lib)
    tok.enable_padding()
    assert tok.encode("we sail").tokens == ["we", "sail"]
    assert [len(encoding) for encoding in tok.encode_batch(["we", "we sail at dawn"])] == [4, 4]
    tok.enable_padding(length=4, pad_id=3, pad_token="<pad>", direction="left")
    pair_encoding = tok.encode("we", "crew")
    assert pair_encoding.tokens == ["<pad>", "<pad>", "we", "crew"]
    assert (pair_encoding.ids, pair_encoding.attention_mask, pair_encoding.special_tokens_mask) == (
        [3, 3, 0, 4],
        [0, 0, 1, 1],
        [1, 1, 0, 0],
    )
    settings = tok.padding
    tok.no_padding()
    assert tok.padding is None
    tok.enable_padding(**settings)
    assert tok.padding == settings


def test_post_processing_encodings(lib: SimpleNamespace) -> None:
    tok = of_words(lib)
    tok.enable_truncation(2)
    tok.enable_padding(length=4)
    encoding, other = tok.encode("we sail at dawn"), tok.encode("crew")
    assert tok.post_process(encoding).tokens == ["we", "sail", "[PAD]", "[PAD]"]
    assert tok.post_process(encoding, other).tokens == ["we", "crew", "[PAD]", "[PAD]"]


def test_templates_can_be_left_out(lib: SimpleNamespace) -> None:
    tok = of_bytes(lib)
    tok.post_processor = tokenizers.processors.RobertaProcessing(
        ("</s>", tok.token_to_id("</s>")), ("<s>", tok.token_to_id("<s>"))
    )
    assert tok.encode("ab c").tokens == ["<s>", "a", "b", "Ġ", "c", "</s>"]
    assert tok.encode("ab c", add_special_tokens=False).tokens == ["a", "b", "Ġ", "c"]
    assert (tok.num_special_tokens_to_add(False), tok.num_special_tokens_to_add(True)) == (2, 4)


def test_positions_in_a_pair(lib: SimpleNamespace) -> None:
    tok = of_bytes(lib)
    tok.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [
            tokenizers.pre_tokenizers.Whitespace(),
            tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tok.post_processor = tokenizers.processors.BertProcessing(
        ("</s>", tok.token_to_id("</s>")), ("<s>", tok.token_to_id("<s>"))
    )
    encoding, pair = tok.encode("ab é"), tok.encode("ab é", "c?")
    assert encoding.sequence_ids == [None, 0, 0, 0, 0, None]
    assert pair.sequence_ids == [None, 0, 0, 0, 0, None, 1, 1, None]
    assert (encoding.n_sequences, pair.n_sequences) == (1, 2)
    assert [pair.token_to_sequence(i) for i in (0, 1, 5, 6, 8, 1200)] == [None, 0, None, 1, None, None]
    assert [pair.word_to_tokens(i) for i in (0, 1, 7)] == [(1, 3), (3, 5), None]
    assert [pair.word_to_tokens(i, 1) for i in (0, 1, 2)] == [(6, 7), (7, 8), None]
    assert [encoding.word_to_chars(0), encoding.word_to_chars(1), pair.word_to_chars(1, 1)] == [(0, 2), (3, 4), (1, 2)]
    assert [pair.token_to_chars(i) for i in (0, 1, 3, 4, 5, 7)] == [None, (0, 1), (3, 4), (3, 4), None, (1, 2)]
    assert [pair.token_to_word(i) for i in (0, 2, 4, 5, 6, 7)] == [None, 0, 1, None, 0, 1]
    assert [pair.char_to_token(i) for i in (0, 2, 3)] == [1, None, 3]
    assert [pair.char_to_token(i, 1) for i in (0, 1, 2)] == [6, 7, None]
    assert [pair.char_to_word(i) for i in (1, 2, 3)] == [0, None, 1]
    assert pair.char_to_word(1, 1) == 1


def test_an_encoding_is_truncated_and_pickled(lib: SimpleNamespace) -> None:
    encoding = of_bytes(lib).encode("abc")
    loaded = pickle.loads(pickle.dumps(encoding))
    assert (loaded.tokens, loaded.offsets) == (encoding.tokens, encoding.offsets)
    with pytest.raises(ValueError, match="Invalid truncation direction value : up"):
        encoding.truncate(2, 1, "up")
    encoding.truncate(2, 1, "right")
    assert encoding.tokens == ["a", "b"]
    assert encoding.overflowing[0].tokens == ["b", "c"]


def test_streams_of_ids(lib: SimpleNamespace) -> None:
    tok = of_words(lib)
    stream = lib.DecodeStream(skip_special_tokens=False)
    assert [stream.step(tok, token_id) for token_id in (0, 1)] == ["we", " sail"]
    other = copy.copy(stream)
    assert [stream.step(tok, 2), other.step(tok, 3), stream.step(tok, 3)] == [" at", " dawn", " dawn"]
    assert lib.DecodeStream(ids=[0, 1, 2]).step(tok, 3) == " dawn"
    assert lib.DecodeStream().step(tok, [0, 1, 2]) == "we sail at"


def test_streams_of_parts_of_characters(lib: SimpleNamespace) -> None:
    tok = of_bytes(lib)
    first, *rest = ids = tok.encode("อั").ids
    assert len(ids) == 6
    stream = lib.DecodeStream()
    assert [stream.step(tok, token_id) for token_id in ids] == [None, None, "อ", None, None, "ั"]
    assert lib.DecodeStream().step(tok, ids) == "อั"
    stream = lib.DecodeStream()
    assert stream.step(tok, [first]) is None
    assert stream.step(tok, rest) == "อั"
    assert lib.DecodeStream(ids[:5]).step(tok, ids[5]) == "อั"  # the text of these ids is incomplete


def test_special_tokens_as_text(lib: SimpleNamespace) -> None:
    tok = of_bytes(lib)
    tok.add_tokens(["<w>"])
    assert tok.encode_special_tokens is False
    assert tok.encode("a<s><w>").tokens == ["a", "<s>", "<w>"]
    tok.encode_special_tokens = True
    assert tok.encode_special_tokens is True
    assert tok.encode("a<s><w>").tokens == ["a", "<", "s", ">", "<w>"]


def test_components_are_removed(lib: SimpleNamespace) -> None:
    tok = of_bytes(lib)
    tok.normalizer = tokenizers.normalizers.Lowercase()
    assert tok.encode("AB").tokens == ["a", "b"]
    for name in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
        setattr(tok, name, None)
        assert getattr(tok, name) is None
    assert tok.encode("AB").tokens == ["A", "B"]
    assert tok.decode(tok.encode("AB").ids) == "A B"


def test_the_settings_of_the_model_are_set_in_place(lib: SimpleNamespace) -> None:
    tok = lib.Tokenizer(tokenizers.models.BPE({"a": 0, "?": 1, "aa": 2}, [("a", "a")], unk_token="?"))
    assert tok.encode("aaxx").tokens == ["aa", "?", "?"]
    model = tok.model
    model.fuse_unk = True  # each text is another one: `tokenizers` keeps the results of words
    assert (tok.model.fuse_unk, tok.encode("aaxxx").tokens) == (True, ["aa", "?"])
    model.unk_token = "a"
    assert (tok.model.unk_token, tok.encode("x?").ids) == ("a", [0, 1])
    model.dropout = 1.0
    assert tok.encode("aaaa").ids == [0] * 4
    model.dropout = None
    assert tok.encode("aaaaa").ids == [2, 2, 0]
    with pytest.raises(AttributeError):
        _ = model.unknown


def test_files_there_and_back(lib: SimpleNamespace, tmp_path: Path) -> None:
    tok = of_bytes(lib)
    tok.enable_padding(length=6)
    tok.enable_truncation(5)
    for pretty in (False, True):
        tok.save(str(tmp_path / "tokenizer.json"), pretty)
        text = (tmp_path / "tokenizer.json").read_text()
        assert ("\n" in text, text) == (pretty, tok.to_str(pretty))
        for loaded in (
            lib.Tokenizer.from_file(str(tmp_path / "tokenizer.json")),
            lib.Tokenizer.from_str(text),
            lib.Tokenizer.from_buffer(text.encode()),
            pickle.loads(pickle.dumps(tok)),
            copy.deepcopy(tok),
        ):
            assert json.loads(loaded.to_str()) == json.loads(tok.to_str())
            assert loaded.encode("abc def").ids == tok.encode("abc def").ids
    for text in ("", "{", "{}", '{"model": 3}', '{"version": "1.0", "model": {"type": "BPE", "vocab": 3}}'):
        with pytest.raises(Exception):  # noqa: B017, PT011  # tokenizers raises Exception itself
            lib.Tokenizer.from_str(text)


def test_truncation_and_padding_in_files(lib: SimpleNamespace) -> None:
    tok = of_bytes(lib)
    tok.enable_truncation(5, stride=1, strategy="only_first", direction="left")
    tok.enable_padding(length=6, pad_id=3, direction="left", pad_to_multiple_of=4)
    value = json.loads(tok.to_str())
    for block in ("truncation", "padding"):  # further fields are ignored
        loaded = lib.Tokenizer.from_str(json.dumps({**value, block: {**value[block], "more": 1}}))
        assert json.loads(loaded.to_str()) == value
    for block, field, bad in (
        ("truncation", "max_length", -1),
        ("truncation", "stride", "1"),
        ("truncation", "direction", "Up"),
        ("truncation", "strategy", "First"),
        ("padding", "pad_id", "3"),
        ("padding", "pad_token", 3),
        ("padding", "direction", "left"),
        ("padding", "strategy", "Longest"),
        ("padding", "strategy", {"Fixed": "6"}),
        ("padding", "pad_to_multiple_of", 2.5),
    ):
        with pytest.raises(Exception) as error_info:  # noqa: PT011  # tokenizers raises Exception itself
            lib.Tokenizer.from_str(json.dumps({**value, block: {**value[block], field: bad}}))
        assert lib.Tokenizer is tokenizers.Tokenizer or block in str(error_info.value)


def test_training(lib: SimpleNamespace, tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("hop hopped hopping 12\nhop hops 34\n" * 9)
    files = []
    for source in ("file", "iterator", "lists"):
        tok = lib.Tokenizer(tokenizers.models.BPE(unk_token="[UNK]", continuing_subword_prefix="##"))
        tok.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
            [tokenizers.pre_tokenizers.Whitespace(), tokenizers.pre_tokenizers.Digits(individual_digits=True)]
        )
        trainer = tokenizers.trainers.BpeTrainer(special_tokens=["[UNK]"], show_progress=False, vocab_size=40)
        tok.encode_special_tokens = True
        lines = (tmp_path / "words.txt").read_text().splitlines(True)
        if source == "file":
            tok.train([str(tmp_path / "words.txt")], trainer)
        else:
            tok.train_from_iterator(iter(lines) if source == "iterator" else [lines[:5], lines[5:]], trainer, length=18)
        assert tok.encode_special_tokens is True
        assert tok.encode("hopped 12 é").tokens[-3:] == ["1", "2", "[UNK]"]
        assert "".join(tok.encode("hopping").tokens).replace("##", "") == "hopping"
        assert lib.Tokenizer.from_str(tok.to_str()).encode("hops").ids == tok.encode("hops").ids
        files.append(tok.get_vocab())
    assert files[0] == files[1] == files[2]
    with pytest.raises(Exception, match="UnigramTrainer can only train a Unigram"):
        lib.Tokenizer(tokenizers.models.BPE()).train([], tokenizers.trainers.UnigramTrainer(show_progress=False))


@pytest.mark.parametrize(
    ("method", "arguments", "error"),
    [
        ("token_to_id", {"token": 1}, TypeError),
        ("token_to_id", {"token": None}, TypeError),
        ("id_to_token", {"id": "a"}, TypeError),
        ("id_to_token", {"id": -1}, OverflowError),
        ("id_to_token", {"id": 1 << 32}, OverflowError),
        ("enable_truncation", {"max_length": -1}, OverflowError),
        ("enable_truncation", {"max_length": 1 << 64}, OverflowError),
        ("enable_truncation", {"max_length": 3, "stride": -1}, OverflowError),
        ("enable_truncation", {"max_length": 1.0}, TypeError),
        ("enable_padding", {"length": -1}, OverflowError),
        ("enable_padding", {"pad_to_multiple_of": -1}, OverflowError),
        ("enable_padding", {"pad_id": -1}, OverflowError),
        ("enable_padding", {"pad_type_id": 1 << 32}, OverflowError),
    ],
)
def test_arguments_out_of_range_raise_the_same_error(lib, method, arguments, error):
    with pytest.raises(error):
        getattr(of_words(lib), method)(**arguments)
