"""Messages of a conversation: copied to plain data for a template, and with characters of special tokens replaced.

A template sees copies made of JSON's types only, as in transformers: objects of callers may have methods that the
sandbox does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from inspect import isfunction, ismethod
from typing import Any

import numpy as np

from bpe.chats.tools import make_schema
from bpe.errors import describe, short_repr

#: The fields of a message that hold reasoning; templates read the first, those of gpt-oss the second.
REASONING_FIELDS = ("reasoning_content", "thinking", "reasoning")
#: The field that says who speaks. Programs set it, not users.
ROLE = "role"
#: How deep data may be nested.
MAX_DEPTH = 100

Message = dict[str, Any]


def copy_messages(messages: object, *, rename_reasoning: bool = True) -> list[Message]:
    """Copy a conversation to plain data, without fields that are None, and with reasoning under its usual names, too.

    Raises:
        TypeError: for anything but a non-empty list of messages: dicts, dataclasses or pydantic models.
        ValueError: for an empty conversation.

    """
    if isinstance(messages, (str, bytes, Mapping)) or not isinstance(messages, Sequence):
        raise TypeError(
            f"messages is {describe(messages)}; it must be a list of dicts, such as "
            "[{'role': 'user', 'content': 'Hello'}]"
        )
    if not messages:
        raise ValueError("messages is empty; it must have at least one message")
    copies = []
    for index, message in enumerate(messages):
        message_copy = to_plain(message)
        if not isinstance(message_copy, dict):
            raise TypeError(f"message {index} is {describe(message)}; it must be a dict with a role and a content")
        message_copy = {name: value for name, value in message_copy.items() if value is not None}
        reasoning = next((message_copy[name] for name in REASONING_FIELDS if name in message_copy), None)
        if reasoning is not None and rename_reasoning:
            message_copy = {"thinking": reasoning, **message_copy, "reasoning_content": reasoning}
        copies.append(message_copy)
    return copies


def copy_objects(argument: str, values: object) -> list[Message] | None:
    """Copy the argument `tools` or `documents`, a list of dicts, to plain data; None for None.

    Of a function among the tools, the JSON schema is made.

    Raises:
        TypeError: for anything else.
        ValueError: for a function of which no schema can be made.

    """
    if values is None:
        return None
    if argument == "tools" and isinstance(values, (list, tuple)):
        values = [make_schema(value) if isfunction(value) or ismethod(value) else value for value in values]
    if not isinstance(values, (list, tuple)) or not all(isinstance(value, Mapping) for value in values):
        rule = "a list of dicts, the JSON schemas, or of functions" if argument == "tools" else "a list of dicts"
        raise TypeError(f"{argument} is {short_repr(values)}; it must be {rule}")
    return [to_plain(value) for value in values]


def to_plain(value: Any, depth: int = 0) -> Any:
    """Copy a value to JSON's types; an object of another type, such as an image, becomes its name: "<Image>".

    Raises:
        ValueError: for data nested more than `MAX_DEPTH` deep, such as a list that has itself.

    >>> to_plain({"a": (1, np.float64(0.5), None), "b": {1, 2}})
    {'a': (1, 0.5, None), 'b': '<set>'}
    """
    if value is None or type(value) in (str, int, float, bool):
        return value
    if depth == MAX_DEPTH:
        raise ValueError(f"the conversation has data nested more than {MAX_DEPTH} deep; make it flatter")
    depth += 1
    if isinstance(value, np.generic):
        return to_plain(value.item(), depth)
    if isinstance(value, str):  # of a subclass, whose methods a template must not call
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, Mapping):
        return {to_plain(key, depth): to_plain(item, depth) for key, item in value.items()}
    if isinstance(value, list):
        return [to_plain(item, depth) for item in value]
    if isinstance(value, tuple):
        return tuple(to_plain(item, depth) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name), depth) for field in fields(value)}
    if callable(getattr(value, "model_dump", None)):
        return to_plain(value.model_dump(), depth)
    return f"<{type(value).__name__}>"


def iterate_texts(value: Any) -> Iterator[str]:
    """Yield all strings of plain data, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from iterate_texts(key)
            yield from iterate_texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from iterate_texts(item)


def map_texts(value: Any, change: Callable[[str], str], change_key: Callable[[str], str]) -> Any:
    """Change all strings of plain data, and the keys of dicts."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {
            change_key(key) if isinstance(key, str) else key: map_texts(item, change, change_key)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return type(value)(map_texts(item, change, change_key) for item in value)
    return value


def map_message_texts(
    messages: list[Message], change: Callable[[str], str], change_key: Callable[[str], str]
) -> list[Message]:
    """Change all strings of messages but their roles."""
    return [
        {
            new_name: new_item
            for name, item in message.items()
            for new_name, new_item in (
                {name: item} if name == ROLE else map_texts({name: item}, change, change_key)
            ).items()
        }
        for message in messages
    ]
