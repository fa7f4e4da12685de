"""Conversations that end within their last message, which a model is to continue: `continue_final_message`.

A mark is appended to the message, and the rendered text is cut there:

    message        Sure:
    with a mark    Sure:MARK
    rendered       <|assistant|>Sure:MARK<|end|>
    cut            <|assistant|>Sure:

Source: `render_jinja_template` in `utils/chat_template_utils.py` of transformers 5.24.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from bpe.chats.messages import REASONING_FIELDS, Message
from bpe.errors import describe, short_repr

#: The field that is continued by default.
_CONTENT = "content"
#: The mark, which is that of transformers, since a template might look at it. A space is appended after it: where the
#: rendered text lacks that, the template strips texts.
_MARK = "CONTINUE_FINAL_MESSAGE_TAG"


class Continuation(NamedTuple):
    """What is continued of a conversation: a text of its last message.

    Attributes:
        fields: the names of the text's field; reasoning has several.
        mark: a mark that no text of the conversation has.

    """

    fields: tuple[str, ...]
    mark: str

    @classmethod
    def make(
        cls, choice: object, messages: list[Message], template_source: str, other_text: str
    ) -> Continuation | None:
        """Find the text that the argument `continue_final_message` chooses; None for none.

        Args:
            choice: True for the content of the last message, the name of another field, or False.
            messages: the conversation, as plain data.
            template_source: the template.
            other_text: all texts of the conversation.

        Raises:
            TypeError: for a choice that is neither a bool nor a str.
            ValueError: if the last message has no such text, or the template no such field.

        """
        if not isinstance(choice, (bool, str)):
            raise TypeError(
                f"continue_final_message is {describe(choice)}; it must be True, False or the name of a field"
            )
        if not choice:
            return None
        field, last_message = choice if isinstance(choice, str) else _CONTENT, messages[-1]
        value = last_message.get(field)
        fields = [field]
        if field in REASONING_FIELDS:
            fields = [name for name in REASONING_FIELDS if name in last_message and last_message[name] == value]
        if value is None or not any(name in template_source for name in fields):
            owner = "last message" if value is None else "chat template"
            raise ValueError(
                f"continue_final_message is {short_repr(choice)}, but the {owner} has no {field!r}; name a field "
                "that the last message has and the template writes"
            )
        mark, lower_text = _MARK, other_text.lower()
        while mark.lower() in lower_text:
            mark += "_"
        return cls(tuple(fields), mark)

    def mark_messages(self, messages: list[Message]) -> tuple[list[Message], str]:
        """Append the mark to the last message; returns a copy of the messages, and the text without the mark.

        Raises:
            ValueError: if the last message has no such text.

        """
        last_message, text = dict(messages[-1]), ""
        for name in self.fields:
            last_message[name], text = _append_to_text(last_message.get(name), f"{self.mark} ", name)
        return [*messages[:-1], last_message], text

    def cut(self, rendered_text: str, text: str) -> str:
        """Cut a rendered text after the last message's text, without white space that the template strips.

        Raises:
            ValueError: if the template does not write the text.

        """
        end = rendered_text.rfind(self.mark)
        if end < 0 or text.strip() not in rendered_text:
            raise ValueError(
                f"the chat template does not write the {self.fields[0]} of the last message as it is, so the text "
                "cannot end there; leave out continue_final_message"
            )
        keeps_space = rendered_text.startswith(" ", end + len(self.mark))
        return rendered_text[:end] if keeps_space else rendered_text[:end].rstrip()


def _append_to_text(value: Any, mark: str, name: str) -> tuple[Any, str]:
    """Append a mark to a text, or to the last text in a list of parts; returns the value, and the text without it."""
    if isinstance(value, str):
        return value + mark, value
    parts = list(value) if isinstance(value, (list, tuple)) else []
    for index, part in reversed([*enumerate(parts)]):
        if isinstance(part, dict) and isinstance(text := part.get("text"), str):
            parts[index] = {**part, "text": text + mark}
            return parts, text
    raise ValueError(f"{name} of the last message is {short_repr(value)}; only text can be continued")
