"""The truncation and padding blocks of a tokenizer.json, read and written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bpe.formats.huggingface.spelling import token_id
from bpe.formats.json_fields import as_object, get, make_at, refuse

if TYPE_CHECKING:
    from bpe.vocab.post_processing import Padding, Truncation

#: The fields of the two blocks.
TRUNCATION = ("max_length", "strategy", "stride", "direction")
PADDING = ("strategy", "direction", "pad_to_multiple_of", "pad_id", "pad_type_id", "pad_token")


def read_truncation(value: object) -> Truncation | None:
    """The truncation block; None for null."""
    if value is None:
        return None
    from bpe.vocab.post_processing import Truncation

    where = "truncation"
    item = as_object(value, where, TRUNCATION)
    fields: dict[str, Any] = {name: get(item, where, name, int) for name in ("max_length", "stride")}
    fields["strategy"] = get(item, where, "strategy", str)
    fields["direction"] = get(item, where, "direction", str, "Right")
    return make_at(where, lambda: Truncation(**fields))


def write_truncation(one: Truncation | None) -> dict[str, Any] | None:
    """The truncation block of a file."""
    if one is None:
        return None
    names = ("direction", "max_length", "strategy", "stride")
    return {name: getattr(one, name) for name in names}


def read_padding(value: object) -> Padding | None:
    """The padding block; None for null."""
    if value is None:
        return None
    from bpe.vocab.post_processing import Padding

    where = "padding"
    item = as_object(value, where, PADDING)
    fields: dict[str, Any] = {name: token_id(item.get(name), f"{where}.{name}") for name in ("pad_id", "pad_type_id")}
    strategy, multiple = item.get("strategy"), item.get("pad_to_multiple_of")
    if isinstance(strategy, dict):
        fixed = as_object(strategy, f"{where}.strategy", ("Fixed",))
        fields["length"] = get(fixed, f"{where}.strategy", "Fixed", int)
    elif strategy != "BatchLongest":
        refuse(f"{where}.strategy", strategy, 'it must be "BatchLongest" or {"Fixed": n}', "write one of these")
    if multiple is not None:
        fields["pad_to_multiple_of"] = get(item, where, "pad_to_multiple_of", int)
    fields |= {"direction": get(item, where, "direction", str), "pad_token": get(item, where, "pad_token", str)}
    return make_at(where, lambda: Padding(**fields))


def write_padding(one: Padding | None) -> dict[str, Any] | None:
    """The padding block of a file."""
    if one is None:
        return None
    names = ("direction", "pad_to_multiple_of", "pad_id", "pad_type_id", "pad_token")
    strategy = "BatchLongest" if one.length is None else {"Fixed": one.length}
    return {"strategy": strategy, **{name: getattr(one, name) for name in names}}
