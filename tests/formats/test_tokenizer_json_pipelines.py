"""Pipelines of tokenizer.json give the ids, spans, words and texts that `tokenizers` gives."""

from __future__ import annotations

import json
import pickle
import random
from typing import Any

import pipelines
import pytest
from strategies import SOAK

import bpe
import bpe.pretokenizers
from bpe.errors import FormatError
from bpe.formats import huggingface
from bpe.pretokenize.patterns import DEEPSEEK_STEPS
from bpe.text.matching import Deadline

tokenizers = pytest.importorskip("tokenizers")

GPT2, LLAMA3 = pipelines.GPT2, pipelines.LLAMA3
LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
WITH_REGEX = {**LEVEL, "use_regex": True}


def describe_split(pattern: str, behavior: str = "Isolated", invert: bool = False) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}


def describe_metaspace(scheme: str, halved: bool = True) -> dict[str, Any]:
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": halved}


DIGITS = {"type": "Digits", "individual_digits": True}
LETTERS = "[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-Ֆ]"
#: name → (normalizers, steps) of published tokenizers and of each kind of step.
SHAPES: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "gpt2": ([], [WITH_REGEX]),
    "roberta": ([], [{**WITH_REGEX, "add_prefix_space": True}]),
    "no regex": ([], [{**LEVEL, "add_prefix_space": True}]),
    "llama3": ([], [describe_split(LLAMA3), LEVEL]),
    "qwen": ([{"type": "NFC"}], [describe_split(LLAMA3.replace("{1,3}", "")), LEVEL]),
    "starcoder": ([], [DIGITS, WITH_REGEX]),
    "digits together": ([], [{**DIGITS, "individual_digits": False}, WITH_REGEX]),
    "deepseek": ([], [*(describe_split(step) for step in DEEPSEEK_STEPS), LEVEL]),
    "deepseek llm": (
        [],
        [
            describe_split("[\r\n]"),
            describe_split(rf"\s?{LETTERS}+"),
            describe_split(r"\s?[!-/:-~！-／：-～‘-‟\u3000-。]+"),
            describe_split(r"\s+$"),
            describe_split("[一-龥ࠀ-一가-\ud7ff]+"),
            DIGITS,
            LEVEL,
        ],
    ),
    "falcon": (
        [],
        [
            {"type": "Punctuation", "behavior": "Contiguous"},
            WITH_REGEX,
            {**DIGITS, "individual_digits": False},
            describe_split("[0-9][0-9][0-9]"),
        ],
    ),
    "bloom": ([], [describe_split(r" ?[^\s.,!?…。，、]+"), LEVEL]),
    "prefix after a split": ([], [describe_split(r"\d"), {**WITH_REGEX, "add_prefix_space": True}]),
    "letters": ([{"type": "NFC"}, {"type": "ByteLevel"}], [describe_split("Ġ?[^Ġ]+")]),
    "llama2": (
        [{"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}],
        [],
    ),
    "gemma": (
        [{"type": "Replace", "pattern": {"String": " "}, "content": "▁"}],
        [{"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}],
    ),
    "metaspace": ([], [describe_metaspace("always")]),
    "metaspace first": ([{"type": "Strip", "strip_left": True, "strip_right": False}], [describe_metaspace("first")]),
    "metaspace whole": ([], [describe_metaspace("first", halved=False)]),
    "metaspace digits": ([{"type": "NFKC"}], [describe_metaspace("never"), DIGITS]),
    "bert": (
        [{"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None}],
        [{"type": "BertPreTokenizer"}],
    ),
    "accents": ([{"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"}], [{"type": "Whitespace"}]),
    "scripts": ([{"type": "Nmt"}], [{"type": "WhitespaceSplit"}, {"type": "UnicodeScripts"}]),
    "delimiter": ([], [{"type": "CharDelimiterSplit", "delimiter": "-"}, {"type": "FixedLength", "length": 3}]),
}
SHAPES["bert"][0][0]["lowercase"] = True


def train_peer(normalizers: list[dict[str, Any]], steps: list[dict[str, Any]]) -> Any:
    """A small tokenizer of `tokenizers`."""
    rng = random.Random(5)
    byte = any(step["type"] == "ByteLevel" for step in normalizers + steps)
    shell = json.loads(tokenizers.Tokenizer(tokenizers.models.BPE(unk_token=None if byte else "<unk>")).to_str())
    shell["normalizer"] = pipelines.make_sequence("normalizers", normalizers)
    shell["pre_tokenizer"] = pipelines.make_sequence("pretokenizers", steps)
    learner = tokenizers.Tokenizer.from_str(json.dumps(shell))
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=["<s>", "</s>", *([] if byte else ["<unk>"])],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet() if byte else [],
        show_progress=False,
    )
    learner.train_from_iterator([pipelines.draw_text(rng, 40).replace("<", "") for _ in range(60)], trainer)
    if byte:
        learner.decoder = tokenizers.decoders.ByteLevel()
    learner.post_processor = tokenizers.processors.ByteLevel(trim_offsets=True)
    return learner


def check(theirs: Any, ours: bpe.Tokenizer, text: str) -> None:
    """Compare the results of both libraries for one text."""
    expected = theirs.encode(text, add_special_tokens=False)
    assert ours.encode(text, allowed_special="all").tolist() == expected.ids, (text, ours)
    ids, spans, words = ours._offset_encoder.encode_with_word_numbers(
        text, frozenset(ours.special_tokens), "char", "tokenizers"
    )
    assert ids.tolist() == expected.ids
    assert [*map(tuple, spans.tolist())] == expected.offsets, (text, ours)
    assert words.tolist() == expected.word_ids, (text, ours)
    assert ours.encode(text, allowed_special="all", template=True).tolist() == theirs.encode(text).ids


@pytest.mark.parametrize("name", SHAPES)
def test_published_shapes(name: str) -> None:
    peer = train_peer(*SHAPES[name])
    data = peer.to_str().encode()
    tok = bpe.Tokenizer(huggingface.read(data))
    rng = random.Random(name)
    texts = [pipelines.draw_text(rng) for _ in range(25)]
    for text in texts:
        check(peer, tok, text)
        ids = tok.encode(text)
        if tok.spec.model == "byte":
            assert tok.decode(ids) == peer.decode(ids.tolist(), skip_special_tokens=False)
    assert tok.encode_batch(texts, allowed_special="all").to_list() == [
        encoding.ids for encoding in peer.encode_batch(texts, add_special_tokens=False)
    ]
    assert [*tok.encode_stream(texts[:1])] == [] or tok.encode(texts[0]).tolist() == [
        token_id for part in tok.encode_stream([texts[0][:3], texts[0][3:]]) for token_id in part.tolist()
    ]
    data_written = huggingface.write(tok.spec)
    assert bpe.Tokenizer(huggingface.read(data_written)) == tok
    assert pickle.loads(pickle.dumps(tok)) == tok
    assert huggingface.explain_refusal(tok.spec) is None
    reloaded = tokenizers.Tokenizer.from_str(data_written.decode())
    assert [reloaded.encode(text).ids for text in texts] == [peer.encode(text).ids for text in texts]


@pytest.mark.parametrize("seed", range(24))
def test_random_pipelines(seed: int) -> None:
    rng = random.Random(seed)
    peer = pipelines.train_tokenizer(rng, [pipelines.draw_text(rng, 40) for _ in range(15)], 350)
    data = peer.to_str().encode()
    try:
        tok = bpe.Tokenizer(huggingface.read(data))
    except FormatError:  # a token that text can spell
        return
    for _ in range(15):
        check(peer, tok, pipelines.draw_text(rng))
    assert bpe.Tokenizer(huggingface.read(huggingface.write(tok.spec))) == tok


def test_damaged_pipelines_are_refused_or_read() -> None:
    """Each value of the pipeline is replaced by others: FormatError, or a tokenizer that encodes."""
    rng = random.Random(3)
    values: list[Any] = [None, True, -1, 7, 1 << 70, 0.5, "", "x", "\U0001f600", [], ["a"], {}, {"type": "NFC"}]
    for name in ("deepseek llm", "falcon", "bert", "metaspace first", "llama2"):
        file = json.loads(train_peer(*SHAPES[name]).to_str())
        for _ in range(15 * SOAK):
            damaged_file = json.loads(json.dumps(file))
            part = rng.choice(
                [field for field in ("normalizer", "pre_tokenizer", "post_processor") if damaged_file[field]]
            )
            parent: Any = damaged_file
            key: Any = part
            while isinstance(parent[key], (dict, list)) and parent[key] and rng.random() < 0.8:
                parent, key = (
                    parent[key],
                    rng.choice([*parent[key]] if isinstance(parent[key], dict) else range(len(parent[key]))),
                )
            parent[key] = rng.choice(values)
            try:
                tok = bpe.Tokenizer(huggingface.read(json.dumps(damaged_file).encode()))
            except FormatError:
                continue
            tok.encode("a 12! é")


def test_blocks_are_kept() -> None:
    peer = train_peer(*SHAPES["gpt2"])
    peer.enable_truncation(7, stride=2, strategy="only_first", direction="left")
    peer.enable_padding(pad_id=1, pad_token="</s>", length=9, pad_to_multiple_of=4)
    file = json.loads(peer.to_str())
    spec = huggingface.read(json.dumps(file).encode())
    written_file = json.loads(huggingface.write(spec))
    for name in ("truncation", "padding", "post_processor"):
        assert written_file[name] == file[name]
    assert bpe.Tokenizer(spec).encode("a b c d e f g h i j").size > 9  # not applied here
    for name, field, value in (
        ("truncation", "max_length", "x"),
        ("truncation", "strategy", "First"),
        ("padding", "pad_id", -1),
    ):
        invalid_file = json.loads(json.dumps(file))
        invalid_file[name][field] = value
        with pytest.raises(FormatError, match=name):
            huggingface.read(json.dumps(invalid_file).encode())


def test_unsupported_is_refused_by_name() -> None:
    file = json.loads(train_peer(*SHAPES["gpt2"]).to_str())
    for part, value, name in (
        ("normalizer", {"type": "Furigana"}, "Furigana"),
        ("pre_tokenizer", {"type": "Logos"}, "Logos"),
        ("post_processor", {"type": "Own"}, "Own"),
        ("normalizer", {"type": "Sequence", "normalizers": [{"type": "ByteLevel"}, {"type": "NFC"}]}, "NFC"),
        (
            "pre_tokenizer",
            {"type": "Sequence", "pretokenizers": [WITH_REGEX, describe_metaspace("always")]},
            "Metaspace",
        ),
        ("pre_tokenizer", describe_split("(?~a)"), "pattern"),
    ):
        with pytest.raises(FormatError, match=name):
            huggingface.read(json.dumps({**file, part: value}).encode())


def test_many_steps() -> None:
    steps = bpe.pretokenizers.Digits(individual_digits=True), *[bpe.pretokenizers.FixedLength(2)] * 2000
    counts = bpe.count_words(texts=["abc12"], pretokenizer=steps)
    assert sorted(counts.items()) == [(b"1", 1), (b"2", 1), (b"ab", 1), (b"c", 1)]


def test_slow_patterns_name_themselves() -> None:
    with pytest.raises(TimeoutError, match=r"pattern '\(\?:a\|aa\)\+b' took more than"):
        bpe.pretokenizers.Split("(?:a|aa)+b").find_spans_within("a" * 60, Deadline(0.05, 60))
