"""The options of `bpe.train` one by one, as the naive reference takes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import bpe

_ALPHABET = {
    "initial_alphabet": "initial",
    "limit_alphabet": "limit",
    "character_coverage": "coverage",
    "byte_fallback": "byte_fallback",
    "first_id": "first_id",
}
_SOURCES = ("separator", "per_line", "encoding_errors")
_RULES = ("tie_break", "max_token_length")


def from_reference_options(**options: Any) -> dict[str, Any]:
    """The arguments of `bpe.train` and the like for these options, some of which are in classes."""
    if options.get("files") is not None:
        sources = {name: options.pop(name) for name in [*options] if name in _SOURCES}
        options["files"] = bpe.Sources(options["files"], **sources)
    alphabet = {_ALPHABET[name]: options.pop(name) for name in [*options] if name in _ALPHABET}
    rules = {name: options.pop(name) for name in [*options] if name in _RULES}
    if alphabet:
        options["alphabet"] = bpe.Alphabet(**alphabet)
    if rules:
        options["rules"] = replace(options.pop("rules", None) or bpe.MergeRules(), **rules)
    return options
