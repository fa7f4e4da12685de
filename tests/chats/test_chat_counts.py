"""`Tokenizer.count_chat`: by templates, and by OpenAI's rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import bpe

#: The conversation of OpenAI's cookbook, "How to count tokens with tiktoken", whose counts it gives.
EXAMPLE = """\
system||You are a helpful, pattern-following assistant that translates corporate jargon into plain English.
system|example_user|New synergies will help drive top-line growth.
system|example_assistant|Things working well together will increase revenue.
system|example_user|Let's circle back when we have more bandwidth to touch base on opportunities for increased leverage.
system|example_assistant|Let's talk later when we're less busy about how to do better.
user||This late pivot means we don't have time to boil the ocean for the client deliverable."""
ROWS = [line.split("|") for line in EXAMPLE.split("\n")]
MESSAGES = [{"role": role, "name": name or None, "content": content} for role, name, content in ROWS]


@pytest.mark.parametrize(
    ("encoding", "model", "expected"),
    [("cl100k", "gpt-3.5-turbo-0613", 129), ("cl100k", "gpt-3.5-turbo-0301", 127), ("cl100k", "gpt-4-0613", 129),
     ("cl100k", None, 129), ("o200k", "gpt-4o-2024-08-06", 124), ("o200k", None, 124)],
)  # fmt: skip
def test_counts_are_those_of_the_cookbook(
    shared_vocab: Callable[[str], Path], encoding: str, model: str | None, expected: int
) -> None:
    tok = bpe.Tokenizer.load(shared_vocab(f"{encoding}_base.tiktoken"))
    assert tok.count_chat(MESSAGES, model=model) == expected
    assert tok.count_chat(MESSAGES, model=model, add_generation_prompt=False) == expected - 3


@pytest.fixture(scope="module")
def tok() -> bpe.Tokenizer:
    return bpe.train(texts=["hello"], vocab_size=260, special_tokens=["<|end|>"])


def test_the_rule_by_hand(tok: bpe.Tokenizer) -> None:
    hello = tok.count_tokens("hello") + len("user")
    message = {"role": "user", "content": "hello"}
    assert tok.count_chat([message], model="gpt-4o") == 3 + hello + 3
    assert tok.count_chat([message | {"name": "ab"}], model="gpt-4") == 3 + hello + 1 + 2 + 3
    assert tok.count_chat([message | {"name": "ab"}], model="gpt-3.5-turbo-0301") == 4 + hello - 1 + 2 + 3
    reasoning = tok.count_chat([message | {"reasoning_content": "abc"}], model="gpt-4o")
    assert reasoning == 3 + hello + tok.count_tokens("abc") + 3
    parts = [{"type": "text", "text": "he"}, {"type": "text", "text": "llo"}]
    parted = tok.count_tokens("he") + tok.count_tokens("llo") + len("user")
    assert tok.count_chat([{"role": "user", "content": parts}], model="gpt-4o") == 3 + parted + 3


def test_a_template_counts(tok: bpe.Tokenizer) -> None:
    template = "{% for m in messages %}{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}>{% endif %}"
    with_template = bpe.Tokenizer(replace(tok.spec, chat_templates={"default": template}))
    messages = [{"role": "user", "content": "hello"}]
    count = tok.count_tokens("hello") + 1
    assert with_template.count_chat(messages) == tok.count_chat(messages, chat_template=template) == count + 1
    assert with_template.count_chat(messages, add_generation_prompt=False) == count
    assert with_template.count_chat(messages, model="gpt-4o") != count + 1


@pytest.mark.parametrize(
    ("messages", "options", "message"),
    [
        ([{"role": "user", "content": "a"}], {}, "no chat template, and is not one of OpenAI's chat models"),
        ([{"role": "user", "content": "a"}], {"model": "o1"}, "model is 'o1'; OpenAI documents"),
        ([{"role": "user", "content": [{"type": "image"}]}], {"model": "gpt-4o"}, "content of message 0 is .*text"),
        ([{"role": "user", "content": 5}], {"model": "gpt-4o"}, "content of message 0 is 5"),
        ([{"role": "user", "content": "a"}], {"model": "gpt-4o", "tools": [{}]}, "tools is .*leave it out"),
    ],
)  # fmt: skip
def test_what_cannot_be_counted(tok: bpe.Tokenizer, messages: list[Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tok.count_chat(messages, **options)
