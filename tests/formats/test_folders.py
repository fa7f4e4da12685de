"""Folders as transformers writes them: the tokens that only the configuration has, beside AutoTokenizer.

`benchmarks/checks/check_folders.py` compares any number of generated folders.
"""

from __future__ import annotations

import base64
import gzip
import json
import logging
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import generated
import pytest
from generated import make_token

import bpe
from bpe.formats import packed
from bpe.formats.tiktoken_folder import KIMI_PATTERN
from bpe.vocab.spec import ROLES

VOCAB = generated.BYTE_LETTERS | {"lo": 256, "low": 257}
MERGES = [["l", "o"], ["lo", "w"]]
RANKS = b"".join(b"%s %d\n" % (base64.b64encode(bytes([byte])), byte) for byte in range(256))
MARKED = {"content": "<m>", "lstrip": True, "rstrip": False, "single_word": False, "normalized": False}


def build_tokenizer_json(*added: dict[str, Any]) -> dict[str, Any]:
    return generated.make_file(VOCAB, MERGES, added)


def write_folder(folder: Path, files: dict[str, Any]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return folder


#: Folders whose added tokens only the configuration has: the files beside the model, and the tokens with their ids.
FOLDERS: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "decoder": (
        {
            "tokenizer_config.json": {
                "added_tokens_decoder": {"258": make_token("<p>"), "259": make_token("<x>", special=False)}
            }
        },
        {"<p>": 258, "<x>": 259},
    ),
    "another id": (
        {"tokenizer_config.json": {"added_tokens_decoder": {"300": make_token("<p>"), "258": make_token("<q>")}}},
        {"<q>": 258, "<p>": 259},
    ),
    "a token of the model": (
        {"tokenizer_config.json": {"added_tokens_decoder": {"9": make_token("low"), "7": make_token("!")}}},
        {"!": 0, "low": 257},
    ),
    "roles": (
        {"tokenizer_config.json": {"pad_token": "<p>", "mask_token": {**MARKED, "__type": "AddedToken"}}},
        {"<p>": 258, "<m>": 259},
    ),
    "list": (
        {"tokenizer_config.json": {"additional_special_tokens": ["<a>", "low", "<b>"]}},
        {"low": 257, "<a>": 258, "<b>": 259},
    ),
    "dict": (
        {"tokenizer_config.json": {"extra_special_tokens": {"image_token": "<im>"}, "audio_token": "<au>"}},
        {"<au>": 258, "<im>": 259},
    ),
    "added_tokens.json": ({"tokenizer_config.json": {}, "added_tokens.json": {"<q>": 258}}, {"<q>": 258}),
    "map": (
        {
            "tokenizer_config.json": {},
            "special_tokens_map.json": {"pad_token": MARKED, "additional_special_tokens": ["<a>"]},
        },
        {"<m>": 258, "<a>": 259},
    ),
    "map beside a decoder": (
        {
            "tokenizer_config.json": {"added_tokens_decoder": {"258": make_token("<p>")}},
            "special_tokens_map.json": {"pad_token": "<z>"},
            "added_tokens.json": {"<y>": 259},
        },
        {"<p>": 258},
    ),
    "one token of several roles": (
        {
            "tokenizer_config.json": {"extra_special_tokens": ["<x>"]},
            "special_tokens_map.json": {"bos_token": "!", "pad_token": {**MARKED, "content": "!"}, "cls_token": "!"},
        },
        {"!": 0, "<x>": 258},
    ),
    "one content with two ids": (
        {
            "tokenizer_config.json": {
                "added_tokens_decoder": {"259": make_token("<p>", special=False), "258": make_token("<p>", lstrip=True)}
            }
        },
        {"<p>": 258},
    ),
    "an id that is taken": (
        {
            "tokenizer.json": build_tokenizer_json({"id": 258, **make_token("<y>")}),
            "tokenizer_config.json": {"pad_token": {**MARKED, "content": "<p>", "__type": "AddedToken"}},
            "added_tokens.json": {"<p>": 258},
        },
        {"<y>": 258, "<p>": 259},
    ),
    "a dict and a list": (
        {
            "tokenizer_config.json": {"extra_special_tokens": {"image_token": "<im>"}},
            "special_tokens_map.json": {"extra_special_tokens": ["<a>"], "audio_token": "<au>"},
        },
        {"<au>": 258, "<im>": 259, "<a>": 260},
    ),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_added_tokens_of_the_configuration(name: str, tmp_path: Path) -> None:
    files, ids = FOLDERS[name]
    config = {"tokenizer_class": "PreTrainedTokenizerFast"} | files["tokenizer_config.json"]
    folder = write_folder(
        tmp_path / "one", {"tokenizer.json": build_tokenizer_json(), **files, "tokenizer_config.json": config}
    )
    tok = bpe.Tokenizer.load(folder)
    assert tok.special_tokens == ids
    tok.save(tmp_path / "again.json")
    assert bpe.Tokenizer.load(tmp_path / "again.json") == tok
    text = "low " + "".join(f"{token}x {token}" for token in ids) + "! lo"
    peer = pytest.importorskip("transformers").AutoTokenizer.from_pretrained(folder)
    expected = peer.encode(text, add_special_tokens=False)
    assert tok.encode(text, allowed_special="all").tolist() == expected
    assert tok.decode(expected, skip_special=True) == peer.decode(expected, skip_special_tokens=True)
    assert {token.content: token_id for token_id, token in peer.added_tokens_decoder.items()} == ids
    assert {role: name for role, name in peer.special_tokens_map.items() if role in ROLES} == tok.roles


def test_flags_that_mattered_to_no_id_before(tmp_path: Path) -> None:
    files = {
        "tokenizer.json": build_tokenizer_json(make_token("w", id=86, normalized=True)),
        "tokenizer_config.json": {"added_tokens_decoder": {"257": make_token("low", single_word=True)}},
    }
    tok = bpe.Tokenizer.load(write_folder(tmp_path / "one", files))
    assert tok.encode("low xlow", allowed_special="all").tolist() == [257, 220, 87, 256, 86]


def test_ids_with_gaps_are_refused(tmp_path: Path) -> None:
    gap = build_tokenizer_json()
    gap["model"]["vocab"] = VOCAB | {"zz": 400}
    folder = write_folder(tmp_path / "one", {"tokenizer.json": gap, "tokenizer_config.json": {"pad_token": "<p>"}})
    with pytest.raises(bpe.FormatError, match="have gaps below 401, so that the next id, of the token '<p>'"):
        bpe.Tokenizer.load(folder)


def test_a_rank_file_named_tokenizer_model(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "one", {"tokenizer.model": RANKS})
    for path in (folder, folder / "tokenizer.model"):
        with pytest.raises(bpe.FormatError, match="it is a rank file, and its pattern is unknown"):
            bpe.Tokenizer.load(path)
    write_folder(folder, {"tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizer", "pat_str": "\\w+|\\W+"}})
    assert bpe.Tokenizer.load(folder).encode("a b").tolist() == [97, 32, 98]


@pytest.mark.parametrize(
    ("auto_map", "known"),
    [
        (None, True),
        ({"AutoTokenizer": ["tokenization_kimi.TikTokenTokenizer", None]}, True),
        ({"AutoTokenizer": ["moonshotai/Kimi-K2--tokenization_kimi.TikTokenTokenizer", None]}, True),
        ({"AutoTokenizer": ["tokenization_moonshot.TikTokenTokenizer", None]}, True),
        ({"AutoTokenizer": ["tokenization_other.TikTokenTokenizer", None]}, False),
        (["tokenization_other.TikTokenTokenizer", None], False),
        ({"AutoTokenizer": 5}, False),
    ],
)
def test_kimis_pattern_is_taken_for_its_repositories_alone(auto_map: Any, known: bool, tmp_path: Path) -> None:
    config = {"tokenizer_class": "TikTokenTokenizer", "auto_map": auto_map}
    folder = write_folder(tmp_path / "one", {"tiktoken.model": RANKS, "tokenizer_config.json": config})
    if known:
        tok = bpe.Tokenizer.load(folder)
        assert tok.pretokenizer is not None
        assert tok.pretokenizer.pattern.removeprefix("(?V1)") == KIMI_PATTERN
        return
    rule = "the pattern of the class TikTokenTokenizer is known only for tokenization_kimi and tokenization_moonshot"
    with pytest.raises(bpe.FormatError, match=f"auto_map: .*{rule}: write the pattern to the field pat_str"):
        bpe.Tokenizer.load(folder)


def test_tokens_outside_of_kimis_special_ids_are_no_tokens(tmp_path: Path) -> None:
    """As in Kimi's code. A flag of such a token was kept, and a text with its name ended in an OverflowError."""
    config = {"tokenizer_class": "TikTokenTokenizer", "added_tokens_decoder": {"0": make_token("<x>", special=False)}}
    folder = write_folder(tmp_path / "one", {"tiktoken.model": RANKS, "tokenizer_config.json": config})
    tok = bpe.Tokenizer.load(folder)
    assert "<x>" not in tok.special_tokens
    assert tok.decode(tok.encode("a<x>b")) == "a<x>b"
    with pytest.raises(ValueError, match="token_flags has '<x>', which is no special token; add it"):
        bpe.Tokenizer(replace(tok.spec, token_flags={"<x>": frozenset({"ordinary"})}))


def test_tokens_of_kimi_that_are_not_special(tmp_path: Path) -> None:
    decoder = {"256": make_token("[EOS]"), "257": make_token("<think>", special=False)}
    for extra_fields in ({}, {"pat_str": r"\w+|\W+"}):
        config = {"tokenizer_class": "TikTokenTokenizer", "added_tokens_decoder": decoder, **extra_fields}
        folder = write_folder(tmp_path / "one", {"tiktoken.model": RANKS, "tokenizer_config.json": config})
        tok = bpe.Tokenizer.load(folder)
        assert tok.decode([257, 111, 107, 256], skip_special=True) == "<think>ok"
        assert tok.encode("<think>[EOS]").tolist()[0] == 257
    tok.save(tmp_path / "again", format="tiktoken-folder")
    assert bpe.Tokenizer.load(tmp_path / "again") == tok


def test_a_tekken_json_beside_a_tokenizer_json_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = write_folder(tmp_path / "one", {"tokenizer.json": build_tokenizer_json(), "tekken.json": b"{}"})
    with caplog.at_level(logging.WARNING, logger="bpe"):
        bpe.Tokenizer.load(folder)
    assert "has a tokenizer.json and a tekken.json; the first is read: format='tekken' reads the other" in caplog.text


def test_gzip_data_is_decompressed_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = gzip.compress(RANKS + b"A" * (1 << 22))
    monkeypatch.setattr(packed, "max_unpacked", 1 << 20)
    path = tmp_path / "ranks.tiktoken"
    path.write_bytes(bomb)
    message = f"{len(bomb)} bytes of gzip data hold more than {1 << 20}, the most that are decompressed"
    with pytest.raises(bpe.FormatError, match=re.escape(message)):
        bpe.Tokenizer.from_tiktoken(path, "gpt2")
    assert packed.read_first_bytes(bomb, 200) == RANKS[:200]
    assert packed.read_first_bytes(bomb[:-20], 900) == RANKS[:900]  # the rest is not looked at
    many_members = b"".join(gzip.compress(RANKS[at : at + 9], 0) + bytes(at % 3) for at in range(0, len(RANKS), 9))
    monkeypatch.setattr(packed, "_STEP_BYTES", 70)  # members within a step, and across steps
    assert packed.unpack(many_members) == packed.unpack(gzip.compress(RANKS) + bytes(200)) == RANKS
    assert packed.read_first_bytes(many_members, 200) == RANKS[:200]
    two_members = gzip.compress(RANKS[:300]) + gzip.compress(RANKS[300:]) + bytes(9)
    path.write_bytes(two_members)
    assert bpe.Tokenizer.from_tiktoken(path, "gpt2").vocab_size == 256
    for damaged in (two_members[:-20], two_members[:40] + two_members[41:]):
        path.write_bytes(damaged)
        with pytest.raises(bpe.FormatError, match="the gzip data is damaged"):
            bpe.Tokenizer.from_tiktoken(path, "gpt2")
    for rest in (b"x", b"garbage" * 40):
        path.write_bytes(two_members + rest)
        end = len(two_members)
        message = f"the gzip data ends before byte {end}, and what follows is no gzip data; remove it (head -c {end})"
        with pytest.raises(bpe.FormatError, match=re.escape(message)):
            bpe.Tokenizer.from_tiktoken(path, "gpt2")
