"""Chat templates in files of tokenizers, and conversations in files: shards with loss masks."""

from __future__ import annotations

import gzip
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from templates import CHATML, PHI

import bpe
from bpe.data import Packed, TokenShards, convert_shards, encode_shards, verify, write_shards
from bpe.formats.configuration import read_chat_templates, write_chat_templates

pytest.importorskip("jinja2", minversion="3.1.6")
CONVERSATIONS = [
    [{"role": "user", "content": f"hello {index}"}, {"role": "assistant", "content": "there " * index}]
    for index in range(6)
]


@pytest.fixture(scope="module")
def tok() -> bpe.Tokenizer:
    names = ["<|im_start|>", "<|im_end|>", "<|user|>"]
    tok = bpe.train(texts=["hello there, how are you? user assistant"], vocab_size=300, special_tokens=names)
    return bpe.Tokenizer(replace(tok.spec, chat_templates={"default": CHATML}))


# Templates in files ---------------------------------------------------------------------------------------------------


def test_templates_of_a_folder(tok: bpe.Tokenizer, tmp_path: Path) -> None:
    bpe.Tokenizer(replace(tok.spec, chat_templates={})).save(tmp_path / "tokenizer.json")

    def load() -> dict[str, str]:
        return dict(bpe.Tokenizer.load(tmp_path).spec.chat_templates)

    assert load() == {}
    config = tmp_path / "tokenizer_config.json"
    for value, expected in (
        (None, {}), ("{{ a }}", {"default": "{{ a }}"}), ([], {}),
        ([{"name": "default", "template": "d"}, {"name": "rag", "template": "r"}], {"default": "d", "rag": "r"}),
    ):  # fmt: skip
        for pack in (bytes, gzip.compress):
            config.write_bytes(pack(json.dumps({"chat_template": value}).encode()))
            assert load() == expected
    (tmp_path / "additional_chat_templates").mkdir()
    (tmp_path / "additional_chat_templates" / "tool_use.jinja").write_text("t")
    (tmp_path / "additional_chat_templates" / "README.md").write_text("no template")
    assert load() == {"tool_use": "t"}  # files replace the field, as in transformers
    (tmp_path / "chat_template.jinja").write_text("é")
    assert load() == {"default": "é", "tool_use": "t"}
    (tmp_path / "additional_chat_templates" / "tool_use.jinja").write_bytes(gzip.compress(b"t"))
    assert load() == {"default": "é", "tool_use": "t"}
    bpe.convert(tmp_path, tmp_path / "copy.json")
    assert dict(bpe.Tokenizer.load(tmp_path / "copy.json").spec.chat_templates) == {"default": "é", "tool_use": "t"}


@pytest.mark.parametrize("value", [1, {"a": "b"}, [{"name": "x"}], ["x"], [{"name": 1, "template": "x"}]])
def test_invalid_templates_are_refused(tok: bpe.Tokenizer, tmp_path: Path, value: Any) -> None:
    tok.save(tmp_path / "tokenizer.json")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": value}))
    with pytest.raises(bpe.FormatError, match=r"tokenizer_config.json: chat_template: .* is no chat template"):
        bpe.Tokenizer.load(tmp_path)
    (tmp_path / "chat_template.jinja").write_bytes(b"\xff")
    with pytest.raises(bpe.FormatError, match=r"chat_template.jinja.*not UTF-8"):
        bpe.Tokenizer.load(tmp_path)


def test_invalid_templates_in_a_tokenizer_json_are_refused(tok: bpe.Tokenizer, tmp_path: Path) -> None:
    tok.save(tmp_path / "tokenizer.json")
    value = json.loads((tmp_path / "tokenizer.json").read_text())
    value["model"]["chat_templates"] = {"default": ["x"]}
    (tmp_path / "tokenizer.json").write_text(json.dumps(value))
    with pytest.raises(bpe.FormatError, match=r"model.chat_templates\['default'\]"):
        bpe.Tokenizer.load(tmp_path / "tokenizer.json")


def test_files_of_templates_are_read_as_they_are_written() -> None:
    templates = {"default": "{{ é }}\n", "tool_use": "t"}
    files = write_chat_templates(templates)
    assert list(files) == ["chat_template.jinja", "additional_chat_templates/tool_use.jinja"]
    assert read_chat_templates(files) == templates


@pytest.mark.parametrize("name", ["t.json", "t.compiled", "t.gguf", "vocab-merges", "tiktoken-folder", "pretrained"])
@pytest.mark.parametrize("templates", [{"default": "a\r\n\u2028é\0\n"}, {"tool_use": "", "A.b": "x", "default": ""}])
def test_chat_templates_come_back(name: str, templates: dict[str, str], tmp_path: Path) -> None:
    special = ["<|end|>", "<|user|>"]
    tok = bpe.train(texts=["low lower"] * 3, vocab_size=262, special_tokens=special, pretokenizer="qwen2")
    tok = bpe.Tokenizer(replace(tok.spec, chat_templates=templates, roles={"eos_token": "<|end|>"}))
    path = tmp_path / name
    if name == "pretrained":
        tok.save_pretrained(path)
    else:
        tok.save(path, format=None if "." in name else name, lossy=True)
    loaded = bpe.Tokenizer.load(path)
    assert (loaded.spec.chat_templates, loaded.roles) == (templates, tok.roles)


def test_templates_are_unicode(tok: bpe.Tokenizer) -> None:
    for templates in ({"default": "\ud800"}, {"\ud800": "x"}):
        with pytest.raises(ValueError, match=r"chat template.*\\ud800.* holds a lone surrogate"):
            bpe.Tokenizer(replace(tok.spec, chat_templates=templates))


# Conversations in files -----------------------------------------------------------------------------------------------


def write_records(path: Path, records: list[Any]) -> Path:
    data = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize("format_", ["native", "datatrove", "parquet", "arrow"])
def test_shards_of_conversations_are_those_of_the_naive_way(tok: bpe.Tokenizer, tmp_path: Path, format_: str) -> None:
    if format_ in ("parquet", "arrow"):
        pytest.importorskip("pyarrow")
    path = write_records(tmp_path / "chats.jsonl.gz", [{"a": {"messages": each}} for each in CONVERSATIONS])
    manifest = encode_shards(path, tok, tmp_path / "out", messages="a.messages", format=format_, shard_size=30)
    chats = [tok.chat(messages) for messages in CONVERSATIONS]
    write_shards(
        [(chat.ids, chat.mask) for chat in chats], tmp_path / "naive", format=format_, masks=True, shard_size=30,
        largest_id=tok.n_vocab - 1,
    )  # fmt: skip
    folders = [tmp_path / "out", tmp_path / "naive"]
    if format_ in ("parquet", "arrow"):  # which cannot be memory-mapped
        for folder in folders:
            convert_shards(folder, folder.with_suffix(".native"), "native")
        folders = [folder.with_suffix(".native") for folder in folders]
    shards, naive = map(TokenShards, folders)
    assert (manifest.documents, manifest.masks, len(manifest.shards) > 1) == (len(chats), True, True)
    assert shards.masks(0, shards.n_tokens).tolist() == naive.masks(0, naive.n_tokens).tolist()
    assert [ids.tolist() for ids in shards.documents] == [chat.ids.tolist() for chat in chats]
    assert verify(tmp_path / "out") == []
    assert bpe.Tokenizer.load(tmp_path / "out" / "tokenizer.json").spec.chat_templates == tok.spec.chat_templates


def test_packed_rows_have_the_masks(tok: bpe.Tokenizer, tmp_path: Path) -> None:
    path = write_records(tmp_path / "chats.jsonl", [{"messages": each} for each in CONVERSATIONS])
    encode_shards(path, tok, tmp_path / "out", messages="messages")
    packed = Packed(TokenShards(tmp_path / "out"), length=40)
    batch = packed.read(np.arange(len(packed)))
    labels = batch["labels"]
    spoken = int(sum(tok.chat(messages).mask.sum() for messages in CONVERSATIONS))
    assert int((labels != -100).sum()) == spoken


def test_a_finished_folder_is_left_and_another_call_is_refused(tok: bpe.Tokenizer, tmp_path: Path) -> None:
    path = write_records(tmp_path / "chats.jsonl", [{"messages": each} for each in CONVERSATIONS])
    manifest = encode_shards(path, tok, tmp_path / "out", messages="messages")
    times = {each.name: each.stat().st_mtime_ns for each in (tmp_path / "out").iterdir()}
    assert encode_shards(path, tok, tmp_path / "out", messages="messages") == manifest
    assert {each.name: each.stat().st_mtime_ns for each in (tmp_path / "out").iterdir()} == times
    changes: list[dict[str, Any]] = [
        {"chat_templates": {"default": PHI}}, {"chat_templates": {"default": CHATML, "tool_use": PHI}},
        {"roles": {"eos_token": "<|im_end|>"}},  # templates have roles as variables
    ]  # fmt: skip
    others = [bpe.Tokenizer(replace(tok.spec, **change)) for change in changes]
    for tokenizer, options in (*((other, {}) for other in others), (tok, {"shard_size": 5})):
        with pytest.raises(ValueError, match="was made with other sources, options, tokenizer or chat template"):
            encode_shards(path, tokenizer, tmp_path / "out", messages="messages", **options)  # type: ignore[arg-type]


def test_a_finished_folder_of_changed_conversations_is_refused(tok: bpe.Tokenizer, tmp_path: Path) -> None:
    path = write_records(tmp_path / "c.jsonl", [{"messages": [{"role": "user", "content": "low"}]}])
    encode_shards(path, tok, tmp_path / "out", messages="messages")
    path.write_text(path.read_text().replace("low", "new"))
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 10**12))
    with pytest.raises(ValueError, match=r"c.jsonl was changed after it was encoded to .*; name another folder"):
        encode_shards(path, tok, tmp_path / "out", messages="messages")


def test_relative_names_are_those_of_the_folder_of_the_call(
    tok: bpe.Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    for folder, text in ((tmp_path, "low"), (tmp_path / "sub", "new")):
        write_records(folder / "c.jsonl", [{"messages": [{"role": "user", "content": text}]}])
    monkeypatch.chdir(tmp_path)
    manifest = encode_shards("c.jsonl", tok, "out", messages="messages")
    monkeypatch.chdir("sub")
    assert encode_shards("../c.jsonl", tok, "../out", messages="messages") == manifest
    with pytest.raises(ValueError, match="was made with other sources"):
        encode_shards("c.jsonl", tok, "../out", messages="messages")


def test_records_with_tools(tok: bpe.Tokenizer, tmp_path: Path) -> None:
    with_tools = bpe.Tokenizer(replace(tok.spec, chat_templates={"default": "{{ tools | tojson }}" + CHATML}))
    tools = [{"name": "f"}]
    records = [{"messages": CONVERSATIONS[1], "tools": value} for value in (tools, json.dumps(tools), None)]
    encode_shards(write_records(tmp_path / "c.jsonl", records), with_tools, tmp_path / "out", messages="messages")
    expected = [with_tools.chat(CONVERSATIONS[1], tools=value).ids.tolist() for value in (tools, tools, None)]
    assert [ids.tolist() for ids in TokenShards(tmp_path / "out").documents] == expected
    write_records(tmp_path / "bad.jsonl", [{"messages": CONVERSATIONS[1], "tools": "x"}])
    with pytest.raises(bpe.FormatError, match=r"bad.jsonl, line 1: tools is 'x'; it must be a list of schemas"):
        encode_shards(tmp_path / "bad.jsonl", with_tools, tmp_path / "bad", messages="messages")


def test_bad_records_are_named_or_skipped(tok: bpe.Tokenizer, tmp_path: Path) -> None:
    bad: list[tuple[Any, str]] = [
        ({"text": "x"}, "no field 'messages' with messages; it has"),
        ({"messages": []}, "messages is empty"),
        ({"messages": "x"}, "messages is 'x'"),
        ([1], "no field 'messages'"),
        ({"messages": [1]}, "message 0 is 1"),
    ]
    for record, message in bad:
        path = write_records(tmp_path / "chats.jsonl", [{"messages": CONVERSATIONS[0]}, record])
        with pytest.raises(bpe.FormatError, match=rf"chats.jsonl, line 2: .*{message}"):
            encode_shards(path, tok, tmp_path / "out", messages="messages")
        assert not list((tmp_path / "out").glob("tokens*"))
    path = write_records(tmp_path / "more.jsonl", [record for record, _ in bad] + [{"messages": CONVERSATIONS[0]}])
    manifest = encode_shards(bpe.Sources(path, on_error="skip"), tok, tmp_path / "skipped", messages="messages")
    assert (manifest.documents, manifest.skipped) == (1, len(bad))


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_what_no_record_can_mend_is_refused_before_any_is_read(
    tok: bpe.Tokenizer, tmp_path: Path, on_error: Any
) -> None:
    """Else each record would be left out, without a word, or be named as the fault."""
    path = write_records(tmp_path / "chats.jsonl", [{"messages": CONVERSATIONS[0]}])
    changes: list[tuple[dict[str, Any], Any, str]] = [
        ({"chat_templates": {"default": "{% if %}"}}, (), "^chat template, line 1"),
        ({"chat_templates": {"default": PHI, "tool_use": "{% if %}"}}, (), "^chat template, line 1"),
        ({"dropout": 0.5}, (), "^the tokenizer's dropout"),
        ({}, {"<|im_end|>"}, r"^allowed_special is .* it must be \(\) or 'all'"),
    ]
    for change, allowed, message in changes:
        with pytest.raises(ValueError, match=message):
            encode_shards(
                bpe.Sources(path, on_error=on_error), bpe.Tokenizer(replace(tok.spec, **change)), tmp_path / "out",
                messages="messages", allowed_special=allowed,
            )  # fmt: skip
        assert not (tmp_path / "out").exists()


def test_what_is_wrong_with_the_call_is_no_bad_record(tok: bpe.Tokenizer, tmp_path: Path) -> None:
    """Else all records would be left out."""
    path = write_records(tmp_path / "chats.jsonl", [{"messages": CONVERSATIONS[0]}] * 2)
    sources = bpe.Sources(path, on_error="skip")
    damaged = bpe.Tokenizer(replace(tok.spec, chat_templates={"default": "x", "tool_use": "{% for"}))
    cases: list[tuple[bpe.Sources, bpe.Tokenizer, Any, str]] = [
        (sources, tok, ["<|im_end|>"], r"allowed_special is \['<\|im_end\|>'\], a list; it must be \(\) or 'all'"),
        (sources, damaged, (), "chat template, line 1: unexpected 'end of template'"),
        (sources.part(0, 2), tok, (), "sources are a part of files; with messages=, give whole files"),
    ]
    for given, tokenizer, allowed_special, message in cases:
        with pytest.raises(ValueError, match=message):
            encode_shards(given, tokenizer, tmp_path / "out", messages="messages", allowed_special=allowed_special)
        assert not (tmp_path / "out").exists()


def test_a_folder_of_another_template_for_tools_is_refused(tok: bpe.Tokenizer, tmp_path: Path) -> None:
    path = write_records(tmp_path / "chats.jsonl", [{"messages": CONVERSATIONS[0], "tools": [{"name": "f"}]}])
    for_tools = [bpe.Tokenizer(replace(tok.spec, chat_templates={"default": "x", "tool_use": x})) for x in ("a", "b")]
    encode_shards(path, for_tools[0], tmp_path / "out", messages="messages")
    with pytest.raises(ValueError, match="was made with other sources, options, tokenizer or chat template"):
        encode_shards(path, for_tools[1], tmp_path / "out", messages="messages")


def test_a_folder_that_was_finished_meanwhile_stays(
    tok: bpe.Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two calls find the folder empty; the second one waits until the first has finished it."""
    from bpe.data import writing

    path = write_records(tmp_path / "chats.jsonl", [{"messages": CONVERSATIONS[0]}])
    lock_folder = writing.lock_folder

    def lock_later(folder: Path) -> Any:
        monkeypatch.setattr(writing, "lock_folder", lock_folder)
        write_shards([[1, 2, 3]], folder)
        return lock_folder(folder)

    monkeypatch.setattr(writing, "lock_folder", lock_later)
    with pytest.raises(FileExistsError, match=r"out has a manifest\.json already"):
        encode_shards(path, tok, tmp_path / "out", messages="messages")
    assert [ids.tolist() for ids in TokenShards(tmp_path / "out").documents] == [[1, 2, 3]]


def test_arguments_that_messages_exclude(tok: bpe.Tokenizer, tmp_path: Path) -> None:
    path = write_records(tmp_path / "chats.jsonl", [{"messages": CONVERSATIONS[0]}])
    options: dict[str, Any]
    for options in ({"append": 0}, {"seed": 1}, {"shards": 2}, {"validation": 0.1}):
        with pytest.raises(ValueError, match=f"{next(iter(options))} is .* cannot be combined with messages"):
            encode_shards(path, tok, tmp_path / "out", messages="messages", **options)
    with pytest.raises(ValueError, match="rank=0, world=2 is given; it cannot be combined with messages"):
        encode_shards(path, tok, tmp_path / "out", messages="messages", rank=0, world=2)
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(ValueError, match=r"a.txt is read as text; with messages=, sources must be JSON Lines"):
        encode_shards(tmp_path / "a.txt", tok, tmp_path / "out", messages="messages")
    with pytest.raises(ValueError, match="nanogpt shards cannot hold loss masks"):
        encode_shards(path, tok, tmp_path / "out", messages="messages", format="nanogpt")
    with pytest.raises(ValueError, match="no default chat template"):
        encode_shards(path, bpe.train(texts=["a"], vocab_size=256), tmp_path / "out", messages="messages")
    with pytest.raises(ValueError, match="messages is ''"):
        encode_shards(path, tok, tmp_path / "out", messages="")


def test_the_command_encodes_conversations(
    tok: bpe.Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from bpe.cli import main

    monkeypatch.chdir(tmp_path)
    write_records(tmp_path / "chats.jsonl", [{"messages": each} for each in CONVERSATIONS])
    (tmp_path / "model").mkdir()
    bpe.Tokenizer(replace(tok.spec, chat_templates={})).save(tmp_path / "model" / "tokenizer.json")
    (tmp_path / "model" / "chat_template.jinja").write_text(CHATML)
    command = ["encode", "chats.jsonl", "--messages", "messages", "-t", "model", "--quiet"]
    assert main([*command, "--format", "native", "-o", "out"]) == 0
    encode_shards(tmp_path / "chats.jsonl", tok, tmp_path / "same", messages="messages")
    for name in ("tokens-00000.npy", "tokens-00000.mask.npy"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "same" / name).read_bytes()
    assert main(command) == 2
    assert "--messages is for training shards" in capsys.readouterr().err
    assert main([*command, "-t", "model/tokenizer.json", "--format", "native", "-o", "other"]) == 1
    advice = "; give the folder that has the tokenizer's tokenizer_config.json or chat_template.jinja\n"
    assert capsys.readouterr().err.endswith(advice)
