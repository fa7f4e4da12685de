"""The role of each special token (`eos_token`, …): read from every format that says it, and kept or named as lost."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from sentencepiece_files import build_gguf

import bpe
from bpe.vocab.spec import ROLES
from bpe.vocab.special_names import find_eos_token

NAMES = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
#: What the tokenizer_config.json of Qwen 2.5 says.
QWEN = {
    "tokenizer_class": "Qwen2Tokenizer",
    "bos_token": None,
    "eos_token": {"content": "<|im_end|>", "special": True},
    "pad_token": "<|endoftext|>",
}
ROLES_READ = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "unk_token": "<|endoftext|>"}


@pytest.fixture(scope="module")
def plain() -> bpe.Tokenizer:
    return bpe.train(texts=["low lower lowest"] * 3, vocab_size=262, special_tokens=NAMES)


@pytest.fixture
def folder(plain: bpe.Tokenizer, tmp_path: Path) -> Path:
    """A tokenizer's folder as models are published."""
    path = tmp_path / "model"
    path.mkdir()
    plain.save(path / "tokenizer.json")
    config = QWEN | {"chat_template": "{{ messages }}", "model_max_length": 32768, "padding_side": "right"}
    (path / "tokenizer_config.json").write_text(json.dumps(config))
    return path


def test_roles_are_read_from_the_configuration_in_a_folder(plain: bpe.Tokenizer, folder: Path) -> None:
    tok = bpe.Tokenizer.load(folder)
    assert tok.roles == ROLES_READ
    assert (tok.bos_token, tok.eos_token) == (None, "<|im_end|>")
    assert plain.eos_token == "<|endoftext|>"  # a guess by its name
    assert tok == plain  # roles change no id
    assert bpe.Tokenizer.load(folder / "tokenizer.json").roles == {}
    (folder / "tokenizer_config.json").write_text('{"pad_token": "<|im_start|>"}')
    assert bpe.Tokenizer.load(folder).eos_token == "<|endoftext|>"  # again by its name
    (folder / "tokenizer_config.json").write_text(json.dumps(QWEN))
    (folder / "special_tokens_map.json").write_text('{"eos_token": "<|im_start|>", "cls_token": "<|im_start|>"}')
    # as in transformers 5, which ignores the map only beside an added_tokens_decoder
    assert bpe.Tokenizer.load(folder).roles == ROLES_READ | dict.fromkeys(("eos_token", "cls_token"), "<|im_start|>")
    (folder / "tokenizer_config.json").write_text(json.dumps(QWEN | {"added_tokens_decoder": {}}))
    assert bpe.Tokenizer.load(folder).roles == ROLES_READ


def test_roles_are_kept(folder: Path, tmp_path: Path) -> None:
    tok = bpe.Tokenizer.load(folder)
    assert pickle.loads(pickle.dumps(tok)).roles == ROLES_READ
    assert pickle.loads(pickle.dumps(tok.spec)).roles == ROLES_READ
    for name, format_ in (("tokenizer.json", None), ("pair", "vocab-merges"), ("kimi", "tiktoken-folder")):
        losses = bpe.convert(folder, tmp_path / name, to_format=format_)
        assert not [loss for loss in losses if loss.field == "roles"]
        reloaded = bpe.Tokenizer.load(tmp_path / name)
        assert (reloaded, reloaded.roles) == (tok, ROLES_READ)
    assert bpe.Tokenizer.load(tmp_path / "pair").spec.roles == ROLES_READ
    bpe.convert(tmp_path / "pair", tmp_path / "again", to_format="vocab-merges")
    for path in (tmp_path / "pair").iterdir():
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes()


def test_a_conversion_says_what_is_lost(folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    losses = bpe.convert(folder, tmp_path / "ranks.tiktoken", lossy=True)
    by_field = {loss.field: loss for loss in losses}
    assert all(by_field[name].harmless for name in ("roles", "chat_templates", "model_max_length"))
    assert "padding_side" not in by_field
    assert by_field["roles"].message == (
        "eos_token is '<|im_end|>' in the tokenizer, none in the file; unk_token is '<|endoftext|>' in the tokenizer, "
        "none in the file; pad_token is '<|endoftext|>' in the tokenizer, none in the file"
    )
    assert "does not keep chat_templates: 'default' only in the tokenizer" in caplog.text
    assert bpe.convert(folder / "tokenizer.json", tmp_path / "copy.json") == []


def test_diff_lists_roles_as_harmless(plain: bpe.Tokenizer, folder: Path) -> None:
    diff = bpe.diff(plain, bpe.Tokenizer.load(folder))
    assert not diff
    assert str(diff.tokenizers[0]) == (
        "roles: eos_token is none in the first, '<|im_end|>' in the second; unk_token is none in the first, "
        "'<|endoftext|>' in the second; pad_token is none in the first, '<|endoftext|>' in the second; this changes no "
        "id"
    )


def test_roles_go_with_their_tokens(folder: Path) -> None:
    tok = bpe.Tokenizer.load(folder)
    roles = dict.fromkeys(("unk_token", "pad_token"), "<|endoftext|>")
    assert tok.without_tokens(["<|im_end|>"])[0].roles == roles
    assert tok.without_tokens([tok.token_id("<|im_end|>")])[0].roles == roles
    assert tok.with_tokens(special=["<pad>"]).roles == ROLES_READ
    assert bpe.extend(tok, {"lowlow": 9}, 263).roles == ROLES_READ


def test_a_token_of_a_role_is_added(folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text('{"eos_token": "<|im_end|>", "pad_token": "[PAD]"}')
    tok = bpe.Tokenizer.load(folder)
    assert tok.roles == {"eos_token": "<|im_end|>", "pad_token": "[PAD]"}
    assert tok.special_tokens["[PAD]"] == tok.n_vocab - 1 == 262


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (b'{"eos_token": 3}', "tokenizer_config.json: eos_token: 3 is not a token"),
        (b'{"eos_token": {"content": 3}}', "tokenizer_config.json: eos_token: .* is not a token"),
        (b"[]", r"tokenizer_config.json: \[\] is not an object"),
        (b"{", "tokenizer_config.json"),
    ],
)
def test_a_damaged_configuration_is_refused(folder: Path, config: bytes, message: str) -> None:
    (folder / "tokenizer_config.json").write_bytes(config)
    with pytest.raises(bpe.FormatError, match=message):
        bpe.Tokenizer.load(folder)


@pytest.mark.parametrize("roles", [{"eos_token": "<none>"}, {"end": "<|im_end|>"}, {"eos_token": 3}, [], 3])
def test_damaged_roles_of_a_tokenizer_json_are_refused(folder: Path, tmp_path: Path, roles: object) -> None:
    bpe.convert(folder, tmp_path / "one.json")
    value = json.loads((tmp_path / "one.json").read_text())
    assert value["model"]["roles"] == ROLES_READ
    value["model"]["roles"] = roles
    (tmp_path / "one.json").write_text(json.dumps(value))
    with pytest.raises(bpe.FormatError, match=r"roles"):
        bpe.Tokenizer.load(tmp_path / "one.json")


def test_roles_must_be_known_and_special(plain: bpe.Tokenizer) -> None:
    for roles, message in (
        ({"eos_token": "<none>"}, "eos_token is '<none>', which is no special token; add it, or leave the role out"),
        ({"end": "<|im_end|>"}, "role is 'end'; it must be one of 'bos_token', "),
    ):
        with pytest.raises(ValueError, match=message):
            bpe.Tokenizer(replace(plain.spec, roles=roles))
    with_all_roles = replace(plain.spec, roles=dict.fromkeys(ROLES, "<|im_end|>"))
    assert bpe.Tokenizer(with_all_roles).roles == dict.fromkeys(ROLES, "<|im_end|>")


def test_roles_of_a_gguf_file(plain: bpe.Tokenizer) -> None:
    special = {token_id: name for name, token_id in plain.special_tokens.items()}
    values: dict[str, object] = {
        "model": "gpt2",
        "pre": "gpt-2",
        "tokens": [special.get(i) or bpe.text.letters.spell_token_in_letters(plain.token_bytes(i)) for i in range(262)],
        "token_type": [3 if i in special else 1 for i in range(262)],
        "merges": [
            " ".join(bpe.text.letters.spell_token_in_letters(plain.token_bytes(int(i))) for i in pair)
            for pair in plain.merges
        ],
        "bos_token_id": 1,
        "eos_token_id": plain.special_tokens["<|im_end|>"],
        "padding_token_id": 2**32 - 1,  # llama.cpp's way to say that there is none
        "mask_token_id": 200,  # no special token
    }
    from bpe.formats import gguf

    spec = gguf.read(build_gguf({f"tokenizer.ggml.{key}": value for key, value in values.items()}))
    assert spec.roles == {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}
    assert find_eos_token(spec) == "<|im_end|>"
    values["eos_token_id"] = [1]
    assert gguf.read(build_gguf({f"tokenizer.ggml.{key}": value for key, value in values.items()})).roles == {
        "bos_token": "<|im_start|>"
    }
