"""What a tokenizer.json does after encoding: post_processor, truncation and padding, read and written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bpe.errors import FormatError, short_repr
from bpe.formats.huggingface.spelling import map_special_ids
from bpe.formats.huggingface.steps import iterate_sequence
from bpe.formats.schema import (
    TYPE_FIELD,
    UNSUPPORTED,
    Field,
    check_object,
    check_type,
    errors_at,
    read_field,
    read_fields,
    read_id,
    read_known_id,
    read_type,
    refuse,
)
from bpe.text.letters import spell_token_in_letters
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.vocabulary import Vocabulary

if TYPE_CHECKING:
    from bpe.vocab.output_steps import Padding, PostProcessor, Truncation

#: The ids before and after a text.
Template = tuple[tuple[int, ...], tuple[int, ...]]


def _read_pair(value: Any, where: str) -> Any:
    """Read a list of a token and its id; returns the id."""
    if type(value) is not list or len(value) != 2 or type(value[0]) is not str:
        refuse(where, value, "it must be a list of a token and its id", "write [token, id]")
    return value[1]


_IGNORED_BOOL = Field(bool, True, kept=False)
_CLS_AND_SEP_FIELDS = {
    **TYPE_FIELD,
    **{name: Field(_read_pair) for name in ("cls", "sep")},
    **dict.fromkeys(("trim_offsets", "add_prefix_space"), _IGNORED_BOOL),
}
#: The type of a post-processor → its fields. Those that change only spans are checked.
POST_PROCESSOR_FIELDS: Mapping[str, Mapping[str, Field]] = {
    "ByteLevel": {**TYPE_FIELD, **dict.fromkeys(("add_prefix_space", "trim_offsets", "use_regex"), _IGNORED_BOOL)},
    "TemplateProcessing": {**TYPE_FIELD, "single": Field(list), "pair": Field(list), "special_tokens": Field(dict)},
    "RobertaProcessing": _CLS_AND_SEP_FIELDS,
    "BertProcessing": _CLS_AND_SEP_FIELDS,
}


def read_post_processor(value: Any, vocabulary: Vocabulary) -> tuple[PostProcessor | None, Template | None]:
    """Read the post-processor, and the ids that it puts before and after a single text; None for what is absent."""
    if value is None:
        return None, None
    from bpe.vocab.output_steps import PostProcessor

    template = _read_template(value, "post_processor", vocabulary)
    return PostProcessor.from_json(value), template if any(template) else None


def _read_template(value: Any, where: str, vocabulary: Vocabulary, depth: int = 0) -> Template:
    """Read the ids that a post-processor puts before and after a single text; checks all of its fields."""
    type_name = read_type(value, where)
    if type_name == "Sequence":
        before: tuple[int, ...] = ()
        after: tuple[int, ...] = ()
        for member, position in iterate_sequence(value, where, "processors", depth):
            member_ids = _read_template(member, position, vocabulary, depth + 1)
            before, after = member_ids[0] + before, after + member_ids[1]
        return before, after
    if type_name not in POST_PROCESSOR_FIELDS:
        fix = f"known are Sequence, {', '.join(POST_PROCESSOR_FIELDS)}; set it to null and add such tokens yourself"
        refuse(where, value, f"a post_processor of type {type_name!r} is not known: {UNSUPPORTED}", fix)
    fields = read_fields(value, where, POST_PROCESSOR_FIELDS[type_name])
    if type_name == "TemplateProcessing":
        template = _read_template_ids(fields, where, "single", vocabulary)
        _read_template_ids(fields, where, "pair", vocabulary)
        if len(template) != 2:
            rule = f"it must have one Sequence: {UNSUPPORTED}"
            refuse(f"{where}.single", fields["single"], rule, "set post_processor to null")
        return tuple(template[0]), tuple(template[1])
    if type_name == "ByteLevel":
        return (), ()
    first, last = (read_known_id(fields[name], f"{where}.{name}", vocabulary) for name in ("cls", "sep"))
    return (first,), (last,)


def _read_template_ids(fields: dict[str, Any], where: str, field: str, vocabulary: Vocabulary) -> list[list[int]]:
    """Read the ids before, between and after the texts of a template."""
    template_ids: list[list[int]] = [[]]
    for i, piece in enumerate(fields[field]):
        position = f"{where}.{field}[{i}]"
        if not isinstance(piece, dict) or len(piece) != 1 or not {"SpecialToken", "Sequence"} & piece.keys():
            raise FormatError(
                f"{short_repr(piece)} is neither a SpecialToken nor a Sequence; it must be one", where=position
            )
        ((piece_type, content),) = piece.items()
        name = read_fields(content, position, {"id": Field(str), "type_id": Field(read_id)})["id"]
        if piece_type == "Sequence":
            if name not in ("A", "B"):
                refuse(f"{position}.id", name, "it must be A or B", "write the one that is meant")
            template_ids.append([])
            continue
        entry = fields["special_tokens"].get(name)
        ids = entry.get("ids") if isinstance(entry, dict) else None
        if not isinstance(ids, list):
            raise FormatError(
                f"{short_repr(name)} has no ids in special_tokens; it must have them there", where=position
            )
        template_ids[-1] += [
            read_known_id(token_id, f"{where}.special_tokens[{short_repr(name)}].ids", vocabulary) for token_id in ids
        ]
    return template_ids


def write_post_processor(spec: TokenizerSpec) -> dict[str, Any] | None:
    """Return the post-processor of the file that was read, or one that adds the template's ids to each text."""
    if spec.post_processor is not None:
        value = spec.post_processor.value
        template = _read_template(value, "post_processor", spec.vocabulary)
        if (template if any(template) else None) == spec.template:
            return value
    if spec.template is None:
        return None
    names = map_special_ids(spec)

    def spell(token_id: int) -> str:
        token = spec.vocabulary[token_id]
        return names.get(token_id) or (spell_token_in_letters(token) if spec.model == "byte" else token.decode())

    def surround(text: str, type_id: int) -> list[dict[str, Any]]:
        left, right = (
            [{"SpecialToken": {"id": spell(token_id), "type_id": type_id}} for token_id in ids]
            for ids in spec.template or ()
        )
        return [*left, {"Sequence": {"id": text, "type_id": type_id}}, *right]

    token_ids = sorted({token_id for ids in spec.template for token_id in ids})
    return {
        "type": "TemplateProcessing",
        "single": surround("A", 0),
        "pair": surround("A", 0) + surround("B", 1),
        "special_tokens": {
            spell(token_id): {"id": spell(token_id), "ids": [token_id], "tokens": [spell(token_id)]}
            for token_id in token_ids
        },
    }


# Truncation and padding -----------------------------------------------------------------------------------------------


def _read_length(value: object, where: str) -> int | None:
    """Read the length of padded texts; None for that of the longest."""
    if isinstance(value, dict):
        return read_field(check_object(value, where, ("Fixed",)), where, "Fixed", int)
    if value != "BatchLongest":
        refuse(where, value, 'it must be "BatchLongest" or {"Fixed": n}', "write one of these")
    return None


def _read_multiple(value: object, where: str) -> int | None:
    return None if value is None else check_type(value, where, int)


#: The fields of the two blocks.
TRUNCATION_FIELDS = {
    "max_length": Field(int),
    "strategy": Field(str),
    "stride": Field(int),
    "direction": Field(str, "Right"),
}
PADDING_FIELDS = {
    "strategy": Field(_read_length),
    "direction": Field(str),
    "pad_to_multiple_of": Field(_read_multiple, None),
    "pad_id": Field(read_id),
    "pad_type_id": Field(read_id),
    "pad_token": Field(str),
}


def read_truncation(value: object) -> Truncation | None:
    """Read the truncation block; None for null."""
    if value is None:
        return None
    from bpe.vocab.output_steps import Truncation

    fields = read_fields(value, "truncation", TRUNCATION_FIELDS)
    with errors_at("truncation"):
        return Truncation(**fields)


def write_truncation(truncation: Truncation | None) -> dict[str, Any] | None:
    """Return the truncation block of a file."""
    names = ("direction", "max_length", "strategy", "stride")
    return None if truncation is None else {name: getattr(truncation, name) for name in names}


def read_padding(value: object) -> Padding | None:
    """Read the padding block; None for null."""
    if value is None:
        return None
    from bpe.vocab.output_steps import Padding

    fields = read_fields(value, "padding", PADDING_FIELDS)
    with errors_at("padding"):
        return Padding(length=fields.pop("strategy"), **fields)


def write_padding(padding: Padding | None) -> dict[str, Any] | None:
    """Return the padding block of a file."""
    if padding is None:
        return None
    strategy = "BatchLongest" if padding.length is None else {"Fixed": padding.length}
    return {name: strategy if name == "strategy" else getattr(padding, name) for name in PADDING_FIELDS}
