"""Random conversations, and their comparison with transformers, for tests and checks of chat templates."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import bpe
from bpe.chats.encoding import find_matches
from bpe.chats.messages import iterate_texts

WORDS = [
    "What is the weather in Paris?", " leading", "trailing \n", "", "\n\n", "def f(x):\n    return x < 1 | 2 > 0",
    "naïve café e\u0301", "한국어", "😀", "<b>bold</b>", "a|b", "<think>hm</think>\n\nyes", "</think>",
    "{'a': 1}", "[1, 2]",
]  # fmt: skip
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a <city>.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "the city"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
    },
}


def get_weather(city: str, days: int | None = None) -> list[str]:
    """Weather of a <city>.

    Args:
        city: the city
        days: how many days

    Returns:
        a line for each day
    """


def draw_text(order: random.Random, names: list[str], has_parts: bool) -> str:
    """Draw what somebody writes, at times with special tokens, whole or in parts."""
    parts = [order.choice(WORDS) for _ in range(order.choice((1, 1, 2, 3)))]
    if names and order.random() < 0.3:
        name = order.choice(names)
        cut = order.randrange(1, len(name)) if has_parts else 0
        parts.insert(order.randrange(len(parts) + 1), order.choice((name[:cut], name[cut:])) if cut else name)
    return order.choice(("", " ")).join(parts)


def draw_conversation(order: random.Random, names: list[str]) -> dict[str, Any]:
    """Draw a conversation, with the options of the call, and whether special tokens in it may be in parts."""
    has_parts = order.random() < 0.3

    def text() -> str:
        return draw_text(order, names, has_parts)

    messages: list[dict[str, Any]] = []
    if order.random() < 0.5:
        messages.append({"role": "system", "content": text()})
    has_tools = order.random() < 0.3
    for _ in range(order.randrange(1, 4)):
        messages.append({"role": "user", "content": text()})
        if order.random() < 0.1:
            messages[-1]["content"] = [{"type": "text", "text": text()}]
        if has_tools and order.random() < 0.6:
            call = {"name": "get_weather", "arguments": {"city": text(), "days": 2}}
            calls = [{"id": "a" * 9, "type": "function", "function": call}]
            messages.append({"role": "assistant", "content": "", "tool_calls": calls})
            messages.append({"role": "tool", "name": "get_weather", "content": text(), "tool_call_id": "a" * 9})
        messages.append({"role": "assistant", "content": text()})
        if order.random() < 0.15:
            messages[-1]["reasoning_content"] = text()
        if order.random() < 0.1:
            messages[-1]["tool_calls"] = None
    options: dict[str, Any] = {}
    if order.random() < 0.3:
        messages.pop()
        options["add_generation_prompt"] = True
    elif messages[-1]["role"] == "assistant" and order.random() < 0.2:
        options["continue_final_message"] = order.choice(
            [True, *(name for name in ("reasoning_content",) if name in messages[-1])]
        )
    if has_tools:
        options["tools"] = [order.choice((TOOL, get_weather))]
    if order.random() < 0.2:
        options["enable_thinking"] = False
    return {"messages": messages, "options": options, "has_parts": has_parts}


def has_special_text(conversation: dict[str, Any], names: list[str]) -> bool:
    """Whether a text of a conversation has a special token, or may have a part of one."""
    texts = [value for message in conversation["messages"] for name, value in message.items() if name != "role"]
    joined = "\n".join(iterate_texts([texts, conversation["options"]]))
    return conversation["has_parts"] or any(name in joined for name in names)


# Comparing with transformers ------------------------------------------------------------------------------------------

#: What control tokens look like in templates.
CONTROL_TOKEN = re.compile(r"<[|｜][^|｜<>{}\s]+[|｜]>|</?(?:s|bos|eos|pad|[a-z]+_of_[a-z]+)>|\[/?[A-Z_]+\]")


def make_tokenizers(template: str, folder: Path) -> list[tuple[bpe.Tokenizer, Any]]:
    """Make tokenizers with the control tokens of a template, and the same of transformers."""
    from transformers import PreTrainedTokenizerFast

    names = list(dict.fromkeys(["<s>", "</s>", "<unk>", *CONTROL_TOKEN.findall(template)]))
    texts = ["The user asks: what is the weather in Paris? " * 3, "def main(): return {'a': [1, 2]}\n\n"]
    pairs = []
    byte_model = bpe.train(texts=texts, vocab_size=300 + len(names), special_tokens=names, pretokenizer="cl100k")
    char_model = bpe.train(
        texts=texts, vocab_size=400 + len(names), special_tokens=names, model="char", pretokenizer="metaspace",
        unk_token="<unk>", alphabet=bpe.Alphabet(byte_fallback=True),
    )  # fmt: skip
    for index, tokenizer in enumerate((byte_model, char_model)):
        path = folder / str(index)
        path.mkdir()
        tokenizer.save(path / "tokenizer.json")
        roles = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
        config = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": template, **roles}
        (path / "tokenizer_config.json").write_text(json.dumps(config))
        pairs.append((bpe.Tokenizer.load(path), PreTrainedTokenizerFast.from_pretrained(path)))
    return pairs


def compare_conversation(
    tokenizer: bpe.Tokenizer, peer: Any, conversation: dict[str, Any], counts: Counter[str]
) -> str:
    """Compare the results for one conversation; return the difference in words, "" for none."""
    messages, options = conversation["messages"], conversation["options"]
    try:
        expected_text = peer.apply_chat_template(messages, tokenize=False, **options)
    except Exception:  # noqa: BLE001  # whatever templates do
        counts["refused"] += 1
        try:
            chat = tokenizer.chat(messages, allowed_special="all", **options)
        except ValueError:
            return ""
        return f"transformers refuses it, and not {chat!r}"
    is_whole = "continue_final_message" not in options
    counts["continued"] += not is_whole
    expected = peer.apply_chat_template(messages, return_assistant_tokens_mask=is_whole, **options)
    chat = tokenizer.chat(messages, allowed_special="all", **options)
    if chat.text != expected_text:
        return f"texts {chat.text!r} and {expected_text!r}"
    if chat.ids.tolist() != expected["input_ids"]:
        return f"ids of {chat.text!r}"
    if not is_whole:
        return compare_safe(tokenizer, peer, conversation, chat, counts)
    if chat._request.template.marks_assistant:
        counts["masks"] += any(expected["assistant_masks"])
        if chat.mask.tolist() != expected["assistant_masks"]:
            return f"masks of {chat.text!r}"
    else:
        try:
            counts["masks by comparing"] += len(chat.mask) == len(chat.ids)
        except ValueError:
            counts["no mask"] += 1
    return compare_safe(tokenizer, peer, conversation, chat, counts)


def compare_safe(
    tokenizer: bpe.Tokenizer, peer: Any, conversation: dict[str, Any], allowed: Any, counts: Counter[str]
) -> str:
    """Compare the default, in which users' special tokens are text, with transformers' own way of doing so."""
    messages, options = conversation["messages"], conversation["options"]
    try:
        chat = tokenizer.chat(messages, **options)
    except ValueError:
        counts["unknown"] += 1
        return ""
    names = list(tokenizer.special_tokens)
    if not has_special_text(conversation, names):
        return "" if np.array_equal(chat.ids, allowed.ids) else f"ids of {chat.text!r}, without tokens of users"
    counts["with tokens of users"] += 1
    counts["tokens kept as text"] += len(find_matches(chat.text, tokenizer._engine.specials)) - int(
        np.isin(chat.ids, list(tokenizer.special_tokens.values())).sum()
    )
    spans = find_spans(peer, messages, options)
    if conversation["has_parts"] or "".join(text for text, _ in spans) != chat.text:
        return ""  # transformers looks at whole tokens only, and may change what the template does
    expected = tokenizer.encode_spans(spans).tolist()
    return "" if expected == chat.ids.tolist() else f"ids of {chat.text!r}, users' tokens being text"


def find_spans(peer: Any, messages: list[dict[str, Any]], options: dict[str, Any]) -> list[tuple[str, bool]]:
    """Divide a rendered text at the special tokens of users, which transformers marks in messages: (text, trusted)."""
    from transformers.utils import chat_template_utils

    options = dict(options)
    tools = options.pop("tools", None)
    ending = {name: options.pop(name, False) for name in ("add_generation_prompt", "continue_final_message")}
    template = peer.get_chat_template(None, tools)
    conversations, tools, _, options = peer._mark_chat_inputs(
        template, [chat_template_utils._normalize_chat_messages(messages)], tools, None, options, True, False
    )
    rendered, _ = chat_template_utils.render_jinja_template(
        conversations, tools, chat_template=template, **ending,
        **peer.special_tokens_map, **options,
    )  # fmt: skip
    parts = re.split("\U000f0000(.*?)\U000f0001", rendered[0], flags=re.DOTALL)
    return [(part, index % 2 == 0) for index, part in enumerate(parts)]
