"""Chat templates of transformers' tokenizers, rendered without the copies that transformers makes of each message.

transformers copies a conversation three times and makes Jinja's context from chained maps, which takes longer than the
template itself. Here a kernel copies it once, and the context is made from a dict; the template is the one that
transformers compiled, in its sandbox. Conversations with anything but JSON's types, and those for which transformers
does more (reasoning, tools, errors), are left to it.
"""

from __future__ import annotations

import inspect
from functools import lru_cache
from typing import Any

from bpe.compat._calls import REASONING_FIELDS, copy_messages
from bpe.errors import raise_if_of_signal_handler

#: The options of `apply_chat_template`, and the defaults that this module knows.
_DEFAULTS: dict[str, Any] = {
    "tools": None, "documents": None, "chat_template": None, "add_generation_prompt": False,
    "continue_final_message": False, "tokenize": True, "sanitize_control_tokens": False, "padding": False,
    "truncation": False, "max_length": None, "return_tensors": None, "return_dict": True,
    "return_assistant_tokens_mask": False, "tokenizer_kwargs": None,
}  # fmt: skip
#: Of these, the options that must be the default, and those that the tokenizer is called with.
_MUST_BE_DEFAULT = (
    "tools", "documents", "continue_final_message", "sanitize_control_tokens", "return_assistant_tokens_mask",
)  # fmt: skip
_CALL_OPTIONS = ("padding", "truncation", "max_length", "return_tensors")
#: Names that transformers has for other things than variables of templates.
_RESERVED_NAMES = frozenset(("messages", "conversations", *REASONING_FIELDS))
#: A conversation and a template that show what transformers does with it.
_PROBE = [{"role": "user", "content": " x", "name": None, "parts": [1, {"a": None, "b": [2.5, True]}]}]
_PROBE_TEMPLATE = "{{ messages }}{{ tools }}{{ documents }}{{ add_generation_prompt }}{{ x }}{{ range(3) | list }}"


def make_chat_method(original_method: Any) -> Any:
    """Make `apply_chat_template` from the method of transformers, which handles what `_apply` does not."""
    parameters = list(inspect.signature(original_method).parameters.values())
    is_known = {parameter.name: parameter.default for parameter in parameters[2:-1]} == _DEFAULTS
    comparisons: list[bool] = []  # whether the first call found that both render the same

    def apply_chat_template(self: Any, conversation: Any, *args: Any, **options: Any) -> Any:
        if is_known and not args:
            if not comparisons:
                probe = {"chat_template": _PROBE_TEMPLATE, "tokenize": False, "x": "y"}
                comparisons.append(original_method(self, _PROBE, **probe) == _apply(self, _PROBE, probe))
            result = _apply(self, conversation, options) if comparisons[0] else None
            if result is not None:
                return result
        return original_method(self, conversation, *args, **options)

    return apply_chat_template


def _apply(tokenizer: Any, conversation: Any, options: dict[str, Any]) -> Any:
    """Apply the chat template; None where transformers' own code must do so."""
    if any(options.get(name, _DEFAULTS[name]) is not _DEFAULTS[name] for name in _MUST_BE_DEFAULT):
        return None
    messages = copy_messages(conversation) if type(conversation) is list else None
    tokenize, more = options.get("tokenize", True), options.get("tokenizer_kwargs")
    if not messages or type(tokenize) is not bool or not (more is None or (type(more) is dict and tokenize)):
        return None
    if more and not more.keys().isdisjoint((*_CALL_OPTIONS, "add_special_tokens", "sanitize_control_tokens")):
        return None
    variables = {name: value for name, value in options.items() if name not in _DEFAULTS}
    if variables and (copy_messages([variables]) is None or not _RESERVED_NAMES.isdisjoint(variables)):
        return None
    try:
        template = tokenizer.get_chat_template(options.get("chat_template"), None)
        compiled, shared = _compile(template)
        environment = compiled.environment
        names = {
            **shared, "messages": messages, "tools": None, "documents": None,
            "add_generation_prompt": options.get("add_generation_prompt", False),
            **tokenizer.special_tokens_map, **variables,
        }  # fmt: skip
        context = environment.context_class(environment, names, compiled.name, compiled.blocks, globals=shared)
        text: str = environment.concat(compiled.root_render_func(context))
    except Exception as error:  # noqa: BLE001  # transformers renders again, and says where in the template it is
        raise_if_of_signal_handler(error)
        return None
    if not tokenize:
        return text
    call_options = {name: options[name] for name in _CALL_OPTIONS if name in options}
    result = tokenizer(text, **{"truncation": False, **call_options, "add_special_tokens": False, **(more or {})})
    return result if options.get("return_dict", True) else result["input_ids"]


@lru_cache(128)
def _compile(template: str) -> tuple[Any, dict[str, Any]]:
    """Return the template that transformers compiles, and its globals as one dict."""
    from transformers.utils.chat_template_utils import _compile_jinja_template

    compiled = _compile_jinja_template(template)
    return compiled, dict(compiled.globals)
