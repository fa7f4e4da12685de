"""The tokens of conversations with OpenAI's models, whose templates are not published, by the documented rule.

Each message costs 3 tokens besides its fields' values, a name 1 more, and the beginning of the reply 3.
gpt-3.5-turbo-0301: 4 a message, and 1 less for a name, which replaces the role there. The rule is an estimate for
prompts of text: OpenAI documents none for images.

Source: "How to count tokens with tiktoken" (cookbook.openai.com).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bpe.chats.messages import copy_messages
from bpe.errors import short_repr

#: The tokens of the beginning of the reply: <|start|>assistant<|message|>.
REPLY_TOKENS = 3
#: Tokens of each message, and of a name.
_USUAL_RULE, _RULE_OF_0301 = (3, 1), (4, -1)
#: What the names of models with the usual rule begin with.
_CHAT_MODELS = ("gpt-3.5-turbo", "gpt-35-turbo", "gpt-4", "chatgpt-4o", "ft:gpt-3.5-turbo", "ft:gpt-4")
#: The id of <|endofprompt|> in the vocabularies of chat models, cl100k_base and o200k_base.
_END_OF_PROMPT, _END_OF_PROMPT_IDS = "<|endofprompt|>", (100276, 200018)


def count_by_rule(
    messages: object,
    model: str | None,
    count_tokens: Callable[[str], int],
    special_tokens: Mapping[str, int],
    *,
    with_reply: bool,
    options: Mapping[str, Any],
) -> int:
    """Count the tokens of a conversation with one of OpenAI's models; `Tokenizer.count_chat` documents the arguments.

    Raises:
        ValueError: for a model without a documented rule, for options, and for a value that is neither text nor a list
            of text parts, such as an image.

    """
    per_message, per_name = _find_rule(model, special_tokens)
    if unknown_options := [name for name, value in options.items() if value is not None]:
        raise ValueError(
            f"{unknown_options[0]} is {short_repr(options[unknown_options[0]])}; OpenAI's rule counts messages only: "
            "leave it out"
        )
    copies = copy_messages(messages, rename_reasoning=False)
    total = per_message * len(copies) + (REPLY_TOKENS if with_reply else 0)
    for index, message in enumerate(copies):
        total += per_name * ("name" in message)
        for name, value in message.items():
            total += sum(map(count_tokens, _list_texts(value, index, name)))
    return total


def _find_rule(model: str | None, special_tokens: Mapping[str, int]) -> tuple[int, int]:
    """Find the tokens of each message and of a name, for a model or, without its name, by the vocabulary."""
    if model is None:
        if special_tokens.get(_END_OF_PROMPT) in _END_OF_PROMPT_IDS:
            return _USUAL_RULE
        raise ValueError(
            "the tokenizer has no chat template, and is not one of OpenAI's chat models (cl100k_base, o200k_base); "
            "pass chat_template=, or model='gpt-4o' for OpenAI's rule"
        )
    if not isinstance(model, str) or not model.startswith(_CHAT_MODELS):
        raise ValueError(
            f"model is {short_repr(model)}; OpenAI documents how to count for models whose names begin with "
            f"{', '.join(_CHAT_MODELS)}"
        )
    return _RULE_OF_0301 if model == "gpt-3.5-turbo-0301" else _USUAL_RULE


def _list_texts(value: Any, index: int, name: str) -> list[str]:
    """List the texts of a field: a str, or a list of parts of type "text"."""
    if isinstance(value, str):
        return [value]
    parts = value if isinstance(value, (list, tuple)) else [value]
    texts = [part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None for part in parts]
    known_texts = [text for text in texts if isinstance(text, str)]
    if len(known_texts) == len(texts):
        return known_texts
    raise ValueError(
        f"{name} of message {index} is {short_repr(value)}; OpenAI's rule is for text: a str, or a list of "
        "{'type': 'text', 'text': …}"
    )
