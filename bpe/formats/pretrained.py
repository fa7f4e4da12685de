"""Writes the folder of a tokenizer that `transformers` reads: tokenizer.json, its configuration and chat templates.

`AutoTokenizer.from_pretrained` of transformers 4 and 5 reads it. The configuration lists all added tokens
(`added_tokens_decoder`), so that a special_tokens_map.json or an added_tokens.json that is in the folder already is
ignored, by transformers and by `loading.py`. Other formats of several files, such as vocab.json: `saving.py`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bpe.base.fast_dataclasses import replace
from bpe.errors import check_choice, check_int, check_unicode, describe
from bpe.formats import huggingface
from bpe.formats.configuration import ADDED_TOKENS_FIELD, OLD_EXTRA_FIELD, describe_added_tokens, write_chat_templates
from bpe.formats.loading import read_pretrained
from bpe.formats.saving import compare_all, write_folder
from bpe.formats.signatures import CONFIG_JSON, TOKENIZER_JSON
from bpe.vocab.spec import DEFAULT_TEMPLATE, NO_TEMPLATES, TokenizerSpec

#: The class that reads any tokenizer.json; transformers 5 calls it TokenizersBackend, and knows this name too.
_CLASS_NAME = "PreTrainedTokenizerFast"


def save_pretrained(
    spec: TokenizerSpec,
    folder: str | os.PathLike[str],
    chat_template: str | Mapping[str, str] | None,
    model_max_length: int | None = None,
    padding_side: str | None = None,
) -> None:
    """Write the folder; `Tokenizer.save_pretrained` documents the arguments."""
    config: dict[str, Any] = {}
    if model_max_length is not None:
        config["model_max_length"] = check_int("model_max_length", model_max_length, 1)
    if padding_side is not None:
        config["padding_side"] = check_choice("padding_side", padding_side, ("left", "right"))
    if chat_template is not None:
        spec = replace(spec, chat_templates=_check_templates(chat_template))
    reason = huggingface.explain_refusal(spec)
    if reason is not None:
        raise ValueError(
            f"transformers cannot load this tokenizer: {reason}; tok.save(path) writes a tokenizer.json that only this "
            "package reads"
        )
    config = {**_make_config(spec), **config}
    files = {
        # Chat templates are in their own files alone, where programs change them.
        TOKENIZER_JSON: huggingface.write(replace(spec, chat_templates=NO_TEMPLATES), with_record=True),
        CONFIG_JSON: (json.dumps(config, ensure_ascii=False, indent=2) + "\n").encode(),
        **write_chat_templates(spec.chat_templates),
    }
    differences = compare_all(spec, read_pretrained(files), ("the tokenizer", "the folder"))
    if differences:
        raise ValueError(
            f"a folder of transformers does not keep {'; '.join(map(str, differences))}; tok.save(path) writes a "
            "tokenizer.json alone, which keeps everything"
        )
    path = Path(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_folder(files, path)


def _make_config(spec: TokenizerSpec) -> dict[str, Any]:
    """Make the object of tokenizer_config.json, without the settings of models."""
    names_with_role = set(spec.roles.values())
    config: dict[str, Any] = {
        "tokenizer_class": _CLASS_NAME,
        "clean_up_tokenization_spaces": False,
        ADDED_TOKENS_FIELD: describe_added_tokens(spec),
        **spec.roles,
        OLD_EXTRA_FIELD: [
            name
            for name in spec.special_tokens
            if name not in names_with_role and "ordinary" not in spec.token_flags.get(name, ())
        ],
    }
    if spec.padding is not None and "pad_token" not in spec.roles:
        config["pad_token"] = None  # else transformers takes the token that the tokenizer.json pads with
    return config


def _check_templates(chat_template: object) -> dict[str, str]:
    """Return the chat templates by their names.

    Raises:
        TypeError: for anything but a str, or a mapping of str to str.
        ValueError: for a template with a lone surrogate.

    """
    if isinstance(chat_template, str):
        chat_template = {DEFAULT_TEMPLATE: chat_template}
    templates = dict(chat_template) if isinstance(chat_template, Mapping) else None
    if templates is None or not all(isinstance(text, str) for item in templates.items() for text in item):
        raise TypeError(
            f"chat_template is {describe(chat_template)}; it must be a str, the template, or map names to templates"
        )
    for template in templates.values():
        check_unicode("chat_template", template)
    return templates
