"""GGUF files and models of sentencepiece that are written: they come back equal, and the programs of the formats read
them to the same ids; what a format cannot hold is refused with the reason.

Any number of generated files: `check_gguf.py` and `check_sentencepiece.py` in `benchmarks/checks`.
"""

from __future__ import annotations

import json
import random
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import generated_models
import numpy as np
import pytest
from checks import load_check
from llama_cpp import LlamaCpp
from sentencepiece_files import CONTROL, NORMAL, SPACE, UNKNOWN, USER_DEFINED, build_model, list_usual_pieces

import bpe
from bpe.formats import gguf, sentencepiece
from bpe.formats.gguf.header import read_values, write_values
from bpe.formats.gguf.patterns import NAMES_OF_LINE_PATTERNS, PRETOKENIZERS
from bpe.formats.gguf.reading import build_pretokenizer

TEXTS = [
    "low lower lowest Hello world's 123 한국어",
    "  x  </s> low<|im_end|>",
    "",
    "naïve\n\n def f(x):\n\treturn 12345",
]
MERGES = ["lo", f"{SPACE}lo", "er", f"{SPACE}low", "aa", "aaa", "es", "est", f"{SPACE}lower"]
CHARS = f"{SPACE}lowerstan한\n"


@pytest.fixture(scope="module")
def trained() -> bpe.Tokenizer:
    special = ["<s>", "</s>", "<|im_end|>"]
    tok = bpe.train(texts=TEXTS * 3, vocab_size=280, special_tokens=special, pretokenizer="llama3")
    tok = bpe.Tokenizer(replace(tok.spec, template=((0,), ())))
    return tok.with_tokens(added=["C++"], roles={"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<|im_end|>"})


def make_llama(*, unk: str | None = "<unk>", all_splits: bool = True) -> bpe.Tokenizer:
    """A tokenizer.json as transformers makes it of a model like Llama 2's: every split of each piece is a merge."""
    pieces = list_usual_pieces(MERGES, CHARS)
    ids = {piece: token_id for token_id, (piece, _, _) in enumerate(pieces)}
    splits = [
        [(ids[token[:i]], ids[token[i:]]) for i in range(1, len(token)) if token[:i] in ids and token[i:] in ids]
        for token in MERGES
    ]
    names = list(ids)
    pairs = [pair for all_pairs in splits for pair in sorted(all_pairs)[: None if all_splits else 1]]
    merges = [[names[left], names[right]] for left, right in pairs]
    value = {
        "added_tokens": [
            {"id": i, "content": name, "special": True, "normalized": False}
            for i, name in enumerate(("<unk>", "<s>", "</s>"))
        ],
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "Prepend", "prepend": SPACE},
                {"type": "Replace", "pattern": {"String": " "}, "content": SPACE},
            ],
        },
        "pre_tokenizer": None,
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ],
        },
        "model": {
            "type": "BPE", "unk_token": unk, "fuse_unk": True, "byte_fallback": True, "vocab": ids, "merges": merges,
        },
    }  # fmt: skip
    return bpe.Tokenizer(bpe.formats.huggingface.read(json.dumps(value).encode()))


def check_llama_cpp(tok: bpe.Tokenizer, path: Path, texts: list[str]) -> None:
    pytest.importorskip("xllamacpp", reason="llama.cpp is not installed")
    with closing(LlamaCpp()) as llama:
        result = llama.ask(str(path), texts)
    for i, text in enumerate(texts):
        assert tok.encode(text).tolist() == result["plain"][i], text
        assert tok.encode(text, allowed_special="all").tolist() == result["special"][i], text
        assert tok.encode(text, allowed_special="all", template=True).tolist() == result["template"][i], text


# GGUF -----------------------------------------------------------------------------------------------------------------


def test_values_come_back() -> None:
    values = {"a": "x", "tokens": ["é", ""], "types": [1, -3], "scores": [0.5, -1e9], "n": 2**32 - 1, "yes": True}
    data = write_values({f"tokenizer.ggml.{key}": value for key, value in values.items()})
    assert read_values(data) == values
    assert len(data) % 32 == 0


def test_a_byte_level_model_goes_to_gguf(trained: bpe.Tokenizer, tmp_path: Path) -> None:
    trained.save(tmp_path / "x.gguf")
    loaded = bpe.Tokenizer.load(tmp_path / "x.gguf")
    assert (loaded, loaded.roles, loaded.template) == (trained, trained.roles, ((0,), ()))
    check_llama_cpp(trained, tmp_path / "x.gguf", [*TEXTS, "C++<s>x"])


def test_each_pretokenizer_goes_to_gguf(trained: bpe.Tokenizer) -> None:
    for pre in PRETOKENIZERS.keys() - NAMES_OF_LINE_PATTERNS:  # whose models are those of characters
        pattern = PRETOKENIZERS[pre]
        spec = replace(trained.spec, pretokenizer=build_pretokenizer(pattern, is_byte_level=True), template=None)
        spec = replace(spec, ignore_merges=pattern.ignore_merges, unmerged=None)
        assert bpe.Tokenizer(gguf.read(gguf.write(spec))) == bpe.Tokenizer(spec), pre


def test_the_names_of_chat_templates_are_listed(trained: bpe.Tokenizer) -> None:
    """As gguf-py lists them: without the one that is used by default."""
    for templates, listed in (
        ({"default": "d"}, None),
        ({"default": "d", "rag": "r", "tool_use": ""}, ["rag", "tool_use"]),
    ):
        values = read_values(gguf.write(replace(trained.spec, chat_templates=templates)))
        assert values.get("tokenizer.chat_templates") == listed


def test_a_template_of_the_end_goes_to_gguf(trained: bpe.Tokenizer, tmp_path: Path) -> None:
    for template in (((0,), (1,)), ((), (1,)), None):
        tok = bpe.Tokenizer(replace(trained.spec, template=template, roles={}))
        tok.save(tmp_path / "x.gguf")
        assert bpe.Tokenizer.load(tmp_path / "x.gguf") == tok
        check_llama_cpp(tok, tmp_path / "x.gguf", ["low"])


@pytest.mark.parametrize("all_splits", [True, False])
def test_a_model_like_llama_2_goes_to_gguf(all_splits: bool, tmp_path: Path) -> None:
    tok = make_llama(all_splits=all_splits)
    tok = bpe.Tokenizer(replace(tok.spec, template=((1,), ()))).with_tokens(roles={"bos_token": "<s>"})
    tok.save(tmp_path / "x.gguf")
    loaded = bpe.Tokenizer.load(tmp_path / "x.gguf")
    diff = bpe.diff(tok, loaded, [text.replace("<|im_end|>", "") for text in TEXTS])
    assert not diff
    fields = ["merges"] * (not all_splits) + ["unk_token", "fuse_unk"]
    assert [difference.field for difference in diff.tokenizers if difference.field != "merges"] == fields[-2:]
    check_llama_cpp(loaded, tmp_path / "x.gguf", ["low lower", "aaaa lowest", "한 글", "", "<s>low</s> low"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pretokenizer": "cl100k"}, "cannot hold this tokenizer: llama.cpp knows no pretokenizer like its own"),
        ({"pretokenizer": None}, "cannot hold this tokenizer: llama.cpp knows no pretokenizer like its own"),
        ({"template": ((0, 1), ())}, "its template has several ids before or after a text"),
        ({"normalizer": bpe.normalizers.NFC()}, "format gguf does not keep normalizer: NFC"),
        ({"pretokenizer": "o200k"}, "not keep pretokenizer: llama.cpp approximates the pattern gpt-4o: it cuts some"),
        ({"token_flags": {"<s>": frozenset({"lstrip"})}}, "format gguf does not keep token_flags: "),
    ],
)
def test_what_gguf_cannot_hold_is_refused(
    change: dict[str, Any], message: str, trained: bpe.Tokenizer, tmp_path: Path
) -> None:
    tok = bpe.Tokenizer(replace(trained.spec, **change))
    with pytest.raises(ValueError, match=message):
        tok.save(tmp_path / "x.gguf")
    assert not list(tmp_path.iterdir())
    if "does not keep" in message:
        tok.save(tmp_path / "x.gguf", lossy=True)
        assert bpe.Tokenizer.load(tmp_path / "x.gguf").special_tokens == tok.special_tokens


def test_ids_with_gaps_are_refused(trained: bpe.Tokenizer, tmp_path: Path) -> None:
    tok = trained.without_tokens(["<|im_end|>"], renumber=False)[0]
    with pytest.raises(ValueError, match="id 2 has no token, and the file has one for each id"):
        tok.save(tmp_path / "x.gguf")


def test_generated_gguf_files_come_back() -> None:
    """What is read of a generated file is written again, and comes back equal unless a loss is named."""
    pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    check = load_check("check_gguf")
    results = {"same": 0, "lost": 0}
    for seed in range(40):
        rng = random.Random(seed)
        values = check.MODELS[rng.choices(list(check.MODELS), (4, 3, 1))[0]](rng)
        try:
            spec = gguf.read(generated_models.build_gguf(values) + bytes(64))
        except bpe.FormatError:
            continue
        try:
            again = gguf.read(gguf.write(spec))
        except (bpe.FormatError, ValueError):
            results["lost"] += 1
            continue
        results["same" if bpe.Tokenizer(again) == bpe.Tokenizer(spec) else "lost"] += 1
    assert results["same"] > 8 * results["lost"] > 0 or results["lost"] == 0


# sentencepiece --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("escape", [True, False])
@pytest.mark.parametrize("remove", [True, False])
@pytest.mark.parametrize("dummy", [True, False])
@pytest.mark.parametrize("fallback", [True, False])
def test_each_configuration_of_sentencepiece_comes_back(
    fallback: bool, dummy: bool, remove: bool, escape: bool, tmp_path: Path
) -> None:
    merges = MERGES if escape else [piece.replace(SPACE, " ") for piece in MERGES]
    pieces = list_usual_pieces(merges, CHARS if escape else CHARS.replace(SPACE, " "), bytes_too=fallback)
    pieces.append(("<u>", 0.0, USER_DEFINED))
    data = build_model(pieces, byte_fallback=fallback, dummy=dummy, remove=remove, escape=escape)
    tok = bpe.Tokenizer(sentencepiece.read(data))
    tok.save(tmp_path / "x.model")
    loaded = bpe.Tokenizer.load(tmp_path / "x.model")
    assert (loaded, loaded.roles) == (tok, tok.roles)
    peer = pytest.importorskip("sentencepiece").SentencePieceProcessor(model_file=str(tmp_path / "x.model"))
    for text in (*TEXTS, " low  lower ", "x<u> aaaa<u>", "한 low\nqq"):
        ids = peer.encode(text)
        assert tok.encode(text).tolist() == ids, text
        assert tok.decode(ids) == peer.decode(ids), text
    assert (peer.bos_id(), peer.eos_id(), peer.unk_id(), peer.pad_id()) == (1, 2, 0, -1)


@pytest.mark.parametrize("user", [True, False])
@pytest.mark.parametrize("escape", [True, False])
@pytest.mark.parametrize("remove", [True, False])
@pytest.mark.parametrize("dummy", [True, False])
@pytest.mark.parametrize("fallback", [True, False])
def test_each_configuration_goes_to_tokenizers(
    fallback: bool, dummy: bool, remove: bool, escape: bool, user: bool, tmp_path: Path
) -> None:
    """`tokenizers` gives the same ids for the tokenizer.json of a model, or the reason is named why it cannot."""
    merges = MERGES if escape else [piece.replace(SPACE, " ") for piece in MERGES]
    pieces = list_usual_pieces(merges, CHARS if escape else CHARS.replace(SPACE, " "), bytes_too=fallback)
    pieces += [("<u>", 0.0, USER_DEFINED)] * user
    tok = bpe.Tokenizer(
        sentencepiece.read(build_model(pieces, byte_fallback=fallback, dummy=dummy, remove=remove, escape=escape))
    )
    if user and dummy:
        with pytest.raises(ValueError, match="it puts a space before a text, but not before the user-defined pieces"):
            tok.save_pretrained(tmp_path)
        return
    tok.save(tmp_path / "tokenizer.json")
    peer = pytest.importorskip("tokenizers").Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in (*TEXTS, " low  lower ", "x<u> aaaa<u>", "한 low\nqq", "<u>", " "):
        ids = tok.encode(text, allowed_special="all").tolist()
        assert peer.encode(text, add_special_tokens=False).ids == ids, text


def test_why_tokenizers_cannot_apply_a_character_map(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    data = build_model(
        list_usual_pieces(MERGES, CHARS), byte_fallback=True, charsmap=b"\x04\0\0\0\0\0\0\0", dummy=False
    )
    bpe.Tokenizer(sentencepiece.read(data)).save(tmp_path / "tokenizer.json")
    assert "a character map of sentencepiece, which tokenizers applies to graphemes" in caplog.text


@pytest.mark.parametrize("rules", ["nmt_nfkc", "nfkc_cf"])
def test_a_character_map_comes_back(rules: str) -> None:
    pytest.importorskip("sentencepiece")
    charsmap = load_check("check_sentencepiece").make_charsmap(rules)
    pieces = [*list_usual_pieces(MERGES, CHARS), ("<u>", 0.0, USER_DEFINED)]
    for some_pieces in (pieces, pieces[:-1]):
        spec = sentencepiece.read(build_model(some_pieces, byte_fallback=True, charsmap=charsmap))
        assert bpe.Tokenizer(sentencepiece.read(sentencepiece.write(spec))) == bpe.Tokenizer(spec)


def test_equal_scores_come_back() -> None:
    pieces = [("<unk>", 0.0, UNKNOWN), ("<c>", 0.0, CONTROL), *((token, -1.0, NORMAL) for token in ("ab", "bc", "abc"))]
    pieces += [(token, -2.0, NORMAL) for token in ("ca", *"abc", SPACE)]
    spec = sentencepiece.read(build_model(pieces))
    assert spec.merge_ranks is not None
    again = bpe.Tokenizer(sentencepiece.read(sentencepiece.write(spec)))
    assert again == bpe.Tokenizer(spec)


def test_what_sentencepiece_cannot_hold_is_refused(trained: bpe.Tokenizer, tmp_path: Path) -> None:
    llama = make_llama()
    for tok, message in (
        (trained, "cannot hold this tokenizer: its symbols are bytes, and sentencepiece's are characters"),
        (make_llama(unk=None), "it has no unknown token, and sentencepiece needs one"),
        (bpe.Tokenizer(replace(llama.spec, normalizer="nfc")), "sentencepiece has no normalizer like its own"),
        (llama, r"does not keep decoder: \(DecodeReplace"),
    ):
        with pytest.raises(ValueError, match=message):
            tok.save(tmp_path / "x.model")
    assert not list(tmp_path.iterdir())
    llama.save(tmp_path / "x.model", lossy=True)
    peer = pytest.importorskip("sentencepiece").SentencePieceProcessor(model_file=str(tmp_path / "x.model"))
    for text in (*TEXTS, "aaaa lowest"):
        assert peer.encode(text) == llama.encode(text).tolist()


def test_merges_that_no_text_needs_change_no_id() -> None:
    """All splits of each piece, or the one that merging uses; another order, or without the one, is another model."""
    tok = make_llama()
    assert len(tok.spec.merges) > len(MERGES)
    read = bpe.Tokenizer(gguf.read(gguf.write(tok.spec)))
    assert len(read.spec.merges) == len(MERGES)
    assert not bpe.diff(tok, read)
    for kept in (slice(None, None, -1), slice(None, -1)):
        merges, results = (np.ascontiguousarray(part[kept]) for part in (read.spec.merges, read.spec.merge_results))
        assert bpe.diff(tok, bpe.Tokenizer(replace(read.spec, merges=merges, merge_results=results)))
