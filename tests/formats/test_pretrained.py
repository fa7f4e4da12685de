"""`save_pretrained`: folders that AutoTokenizer reads, with equal ids, roles and templates, and `load` too."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import generated
import pytest

import bpe
from bpe.vocab.spec import ROLES

TEXTS = ["low lower lowest Hello world's 123 한국어", "<|end|> low <pad> x"]


class OtherItems(dict[str, Any]):
    """Other items at each call: what is checked must be what is written."""

    def items(self) -> Any:
        return {"default": "x"}.items()


@pytest.fixture(scope="module")
def tok() -> bpe.Tokenizer:
    return bpe.train(texts=TEXTS * 3, vocab_size=290, special_tokens=["<|end|>", "<pad>", "<|user|>"])


def load_peer(folder: Path) -> Any:
    return pytest.importorskip("transformers").AutoTokenizer.from_pretrained(folder)


def get_roles(peer: Any) -> dict[str, str]:
    return {role: name for role, name in peer.special_tokens_map.items() if role in ROLES}


# Roles ----------------------------------------------------------------------------------------------------------------


def test_roles_are_given_and_taken_away(tok: bpe.Tokenizer) -> None:
    with_roles = tok.with_tokens(special=["<|pad|>"], roles={"pad_token": "<|pad|>", "bos_token": "<|end|>"})
    assert with_roles.roles == {"bos_token": "<|end|>", "pad_token": "<|pad|>"}
    assert (with_roles.bos_token, with_roles.token_id("<|pad|>")) == ("<|end|>", tok.n_vocab)
    changed = with_roles.with_tokens(roles={"pad_token": None, "eos_token": "<|end|>"})
    assert changed.roles == {"bos_token": "<|end|>", "eos_token": "<|end|>"}
    assert (changed, tok.roles) == (with_roles, {})  # no id depends on them


@pytest.mark.parametrize(
    ("roles", "error", "message"),
    [
        (
            {"pad_token": "<|pad|>"},
            ValueError,
            r"pad_token is '<\|pad\|>', which is no special token .*'<pad>'.*special=",
        ),
        ({"pad": "<pad>"}, ValueError, r"role is 'pad'; it must be one of 'bos_token', "),
        ({"pad_token": 1}, TypeError, "pad_token is 1, an int; it must be the name of a special token, or None"),
        (["pad_token"], TypeError, r"roles is .*, a list; it must map roles to special tokens"),
        ("", TypeError, r"roles is '', a str; it must map roles to special tokens"),
    ],
)
def test_invalid_roles_are_refused(
    tok: bpe.Tokenizer, tmp_path: Path, roles: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        tok.with_tokens(roles=roles)
    with pytest.raises(error, match=message):
        tok.save_pretrained(tmp_path / "x", roles=roles)
    assert not (tmp_path / "x").exists()


# Folders --------------------------------------------------------------------------------------------------------------


def test_a_folder_for_transformers(tok: bpe.Tokenizer, tmp_path: Path) -> None:
    spec = replace(tok.spec, template=((0,), ()), token_flags={"<|user|>": frozenset({"lstrip"})})
    tok = bpe.Tokenizer(spec).with_tokens(added=["C++"])
    folder, roles = tmp_path / "a" / "model", {"bos_token": "<|end|>", "pad_token": "<pad>"}
    tok.save_pretrained(folder, roles=roles, chat_template="{{ x }}\n", model_max_length=99, padding_side="left")
    assert {path.name for path in folder.iterdir()} == {
        "tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
    }  # fmt: skip
    loaded = bpe.Tokenizer.load(folder)
    assert (loaded, loaded.roles, tok.roles) == (tok, roles, {})
    loaded.save_pretrained(tmp_path / "again", model_max_length=99, padding_side="left", chat_template="{{ x }}\n")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert json.loads((tmp_path / "again" / name).read_bytes()) == json.loads((folder / name).read_bytes())
    peer = load_peer(folder)
    assert (peer.chat_template, peer.model_max_length, peer.padding_side) == ("{{ x }}\n", 99, "left")
    assert get_roles(peer) == roles
    for text in (*TEXTS, "x  <|user|>C++ <|end|>y"):
        assert peer.encode(text) == tok.encode(text, allowed_special="all", template=True).tolist()
        ids = tok.encode(text, allowed_special="all")
        assert peer.decode(ids, skip_special_tokens=True) == tok.decode(ids, skip_special=True)


def test_generated_tokenizers_come_back(tmp_path: Path) -> None:
    """Any tokenizer with any roles: `load` and AutoTokenizer read what was written."""
    transformers, tokenizers = pytest.importorskip("transformers"), pytest.importorskip("tokenizers")
    n_written = 0
    for seed in range(40):
        rng = random.Random(seed)
        value, folder = generated.draw_tokenizer(rng), tmp_path / str(seed)
        try:
            if generated.is_undecided(value, tokenizers.Tokenizer.from_str(json.dumps(value))):
                continue
            (tmp_path / "one.json").write_text(json.dumps(value))
            tok = bpe.Tokenizer.load(tmp_path / "one.json")
        except Exception:  # noqa: BLE001  # that is what `tokenizers` raises; what is refused has its own tests
            continue
        names = [name for name in tok.special_tokens if "ordinary" not in tok.spec.token_flags.get(name, ())]
        tok = tok.with_tokens(roles={role: rng.choice(names) for role in ROLES if names and rng.random() < 0.3})
        chat_template = rng.choice([None, "{{ messages }}", {"default": "{{ a }}", "tool_use": "{{ b }}"}])
        tok.save_pretrained(folder, chat_template=chat_template)
        loaded, peer = bpe.Tokenizer.load(folder), transformers.AutoTokenizer.from_pretrained(folder)
        assert (loaded, loaded.roles) == (tok, tok.roles), seed
        assert (get_roles(peer), peer.chat_template) == (tok.roles, chat_template), seed
        for _ in range(4):
            text = generated.draw_text(rng, list(tok.special_tokens) or ["a"])
            try:
                ids = tok.encode(text, allowed_special="all").tolist()
            except ValueError:
                continue
            assert ids == peer.encode(text, add_special_tokens=False, truncation=False), (seed, text)
        n_written += 1
    assert n_written > 25


def test_what_the_folder_had_is_not_read(tok: bpe.Tokenizer, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Files of another tokenizer, which would add tokens and roles, and weights, which stay."""
    (tmp_path / "special_tokens_map.json").write_text('{"eos_token": "<other>", "additional_special_tokens": ["<y>"]}')
    (tmp_path / "added_tokens.json").write_text('{"<x>": 290}')
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "chat_template.jinja").write_text("{{ old }}")
    tok.save_pretrained(tmp_path, roles={"pad_token": "<pad>"})
    assert f"{tmp_path} has chat_template.jinja, which stays, and programs will use it" in caplog.text
    loaded = bpe.Tokenizer.load(tmp_path)
    assert (loaded, loaded.roles) == (tok, {"pad_token": "<pad>"})
    assert (tmp_path / "model.safetensors").read_bytes() == b"weights"
    peer = load_peer(tmp_path)
    assert (get_roles(peer), len(peer), peer.chat_template) == ({"pad_token": "<pad>"}, tok.n_vocab, "{{ old }}")


def test_chat_templates_are_in_their_own_files(
    tok: bpe.Tokenizer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Those that the user deletes are gone, and those of an earlier call that are no longer written are named."""
    tok.save_pretrained(tmp_path, chat_template={"default": "a", "tool_use": "b", "rag": "c"})
    (tmp_path / "additional_chat_templates" / "rag.jinja").unlink()
    loaded = bpe.Tokenizer.load(tmp_path)
    assert loaded.spec.chat_templates == {"default": "a", "tool_use": "b"} == load_peer(tmp_path).chat_template
    loaded.save_pretrained(tmp_path)
    assert caplog.text == ""
    tok.save_pretrained(tmp_path, chat_template="d")
    assert "additional_chat_templates/tool_use.jinja, which stays, and programs will use it" in caplog.text
    for path in ("chat_template.jinja", "additional_chat_templates/tool_use.jinja"):
        (tmp_path / path).unlink()
    assert bpe.Tokenizer.load(tmp_path).spec.chat_templates == {}


def test_a_tokenizer_json_beside_another_template_is_named(
    tok: bpe.Tokenizer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tok.save_pretrained(tmp_path, chat_template="{{ old }}")
    bpe.Tokenizer.load(tmp_path).save(tmp_path / "tokenizer.json")  # which has the same one
    changed = bpe.Tokenizer(replace(tok.spec, chat_templates={"default": "{{ new }}"}))
    changed.save(tmp_path / "other.json")
    assert caplog.text == ""
    for path, options in ((tmp_path / "tokenizer.json", {}), (tmp_path, {"format": "huggingface"})):
        caplog.clear()
        changed.save(path, **options)
        assert f"{tmp_path} has chat_template.jinja, which stays, and programs will use it" in caplog.text


def test_padding_of_a_tokenizer_json_gives_no_role(tok: bpe.Tokenizer, tmp_path: Path) -> None:
    from bpe.vocab.output_steps import Padding

    padded = bpe.Tokenizer(replace(tok.spec, padding=Padding(pad_token="<pad>", pad_id=1)))
    padded.save_pretrained(tmp_path)
    assert bpe.Tokenizer.load(tmp_path).spec.padding == padded.spec.padding
    assert get_roles(load_peer(tmp_path)) == {}


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"chat_template": 3}, TypeError, "chat_template is 3, an int; it must be a str, the template, or map names"),
        ({"chat_template": {"a": b"x"}}, TypeError, "it must be a str, the template, or map names to templates"),
        ({"chat_template": OtherItems(a=1)}, TypeError, "it must be a str, the template, or map names to templates"),
        (
            {"chat_template": {"../a": "x"}},
            ValueError,
            r"a chat template has the name '\.\./a', which is a part of a file",
        ),
        ({"chat_template": "\ud800"}, ValueError, r"chat_template '\\ud800' holds a lone surrogate"),
        ({"model_max_length": 0}, ValueError, "model_max_length is 0; it must be at least 1"),
        ({"padding_side": "top"}, ValueError, "padding_side is 'top'; it must be one of 'left', 'right'"),
    ],
)
def test_invalid_settings_are_refused(
    tok: bpe.Tokenizer, tmp_path: Path, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        tok.save_pretrained(tmp_path / "x", **arguments)
    assert not (tmp_path / "x").exists()


def test_what_transformers_cannot_load_is_refused(tok: bpe.Tokenizer, tmp_path: Path) -> None:
    own = bpe.train(texts=TEXTS, num_merges=3, model="char", end_of_word="</w>")
    with pytest.raises(ValueError, match="transformers cannot load this tokenizer: its end-of-word mark is a symbol"):
        own.save_pretrained(tmp_path / "x")
    with pytest.raises(ValueError, match=r"does not keep token_flags: .*'C\+\+'.*; tok\.save"):
        tok.with_tokens(added=["C++"], roles={"sep_token": "C++"}).save_pretrained(tmp_path / "x")
    assert not (tmp_path / "x").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="a file; this format needs a folder"):
        tok.save_pretrained(tmp_path / "file")
