"""Chat templates that fail, and calls that cannot be answered."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

import pytest

import bpe
from bpe.chats.templates import ChatTemplate

jinja2 = pytest.importorskip("jinja2", minversion="3.1.6")


def test_jinja_whose_sandbox_has_holes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jinja2, "__version__", "3.1.5")
    with pytest.raises(ImportError, match=r"jinja2 is 3\.1\.5, whose sandbox has holes; install 3\.1\.6 or later"):
        ChatTemplate("{{ messages }}")


def test_a_template_that_calls_itself_without_end_is_refused() -> None:
    template = ChatTemplate("{% macro call() %}{{ call() }}{% endmacro %}{{ call() }}")
    with pytest.raises(ValueError, match="the chat template recurses too deeply for these messages"):
        template.render({})


def test_the_timeout_of_a_signal_handler_passes_through_a_template() -> None:
    def run_handler() -> NoReturn:
        raise TimeoutError("of a handler")

    with pytest.raises(TimeoutError, match="of a handler"):
        ChatTemplate("{{ wait() }}").render({"wait": run_handler})


def test_a_mask_of_random_ids_is_refused() -> None:
    spec = bpe.train(texts=["hello"], vocab_size=258).spec
    chat = bpe.Tokenizer(replace(spec, dropout=0.5)).chat(
        [{"role": "assistant", "content": "hello"}], chat_template="{{ messages[0].content }}"
    )
    with pytest.raises(ValueError, match="dropout makes ids random; a mask needs a tokenizer without"):
        _ = chat.mask
