"""The post_processor of a tokenizer.json, read and written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bpe.errors import FormatError, shown
from bpe.formats.huggingface.spelling import known_id, names_by_id, token_id
from bpe.formats.json_fields import LATER, MAX_DEPTH, as_object, get, refuse, type_of
from bpe.vocab.byte_letters import to_letters
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.vocabulary import Vocabulary

if TYPE_CHECKING:
    from bpe.vocab.post_processing import PostProcessor

#: The ids before and after a text.
Template = tuple[tuple[int, ...], tuple[int, ...]]


def read_post_processor(value: Any, vocabulary: Vocabulary) -> tuple[PostProcessor | None, Template | None]:
    """(the post-processor, the ids that it puts before and after a single text), or None for each."""
    if value is None:
        return None, None
    from bpe.vocab.post_processing import PostProcessor

    template = read_template(value, "post_processor", vocabulary)
    return PostProcessor.of(value), template if any(template) else None


def read_template(value: Any, where: str, vocabulary: Vocabulary, depth: int = 0) -> Template:
    """The ids that a post-processor puts before and after a single text; checks all of its fields."""
    kind = type_of(value, where)
    if kind == "ByteLevel":
        item = as_object(value, where, ("type", "add_prefix_space", "trim_offsets", "use_regex"))
        for name in ("add_prefix_space", "trim_offsets", "use_regex"):
            get(item, where, name, bool, True)
        return (), ()
    if kind == "Sequence":
        if depth == MAX_DEPTH:
            raise FormatError(f"nested more than {MAX_DEPTH} deep; a Sequence of one level does the same", where=where)
        as_object(value, where, ("type", "processors"))
        before: tuple[int, ...] = ()
        after: tuple[int, ...] = ()
        for i, each in enumerate(get(value, where, "processors", list)):
            outer = read_template(each, f"{where}.processors[{i}]", vocabulary, depth + 1)
            before, after = outer[0] + before, after + outer[1]
        return before, after
    if kind in ("RobertaProcessing", "BertProcessing"):
        as_object(value, where, ("type", "cls", "sep", "trim_offsets", "add_prefix_space"))
        for name in ("trim_offsets", "add_prefix_space"):
            get(value, where, name, bool, True)
        pairs = [(name, get(value, where, name, list)) for name in ("cls", "sep")]
        for name, pair in pairs:
            if len(pair) != 2 or type(pair[0]) is not str:
                refuse(f"{where}.{name}", pair, "it must be a list of a token and its id", "write [token, id]")
        first, last = (known_id(pair[1], f"{where}.{name}", vocabulary) for name, pair in pairs)
        return (first,), (last,)
    if kind != "TemplateProcessing":
        refuse(
            where, value, f"a post_processor of type {kind!r} is not known: {LATER}",
            "known are ByteLevel, TemplateProcessing, RobertaProcessing, BertProcessing and a Sequence of them; set it "
            "to null and add such tokens yourself",
        )  # fmt: skip
    as_object(value, where, ("type", "single", "pair", "special_tokens"))
    sides = _sides(value, where, "single", vocabulary)
    _sides(value, where, "pair", vocabulary)
    if len(sides) != 2:
        refuse(f"{where}.single", value["single"], f"it must have one Sequence: {LATER}", "set post_processor to null")
    return tuple(sides[0]), tuple(sides[1])


def _sides(value: dict[str, Any], where: str, template: str, vocabulary: Vocabulary) -> list[list[int]]:
    """The ids before, between and after the texts of a template."""
    tokens = get(value, where, "special_tokens", dict)
    sides: list[list[int]] = [[]]
    for i, piece in enumerate(get(value, where, template, list)):
        position = f"{where}.{template}[{i}]"
        if not isinstance(piece, dict) or len(piece) != 1 or not {"SpecialToken", "Sequence"} & piece.keys():
            raise FormatError(
                f"{shown(piece)} is neither a SpecialToken nor a Sequence; it must be one", where=position
            )
        ((kind, content),) = piece.items()
        name = get(as_object(content, position, ("id", "type_id")), position, "id", str)
        token_id(content.get("type_id"), f"{position}.type_id")
        if kind == "Sequence":
            if name not in ("A", "B"):
                refuse(f"{position}.id", name, "it must be A or B", "write the one that is meant")
            sides.append([])
            continue
        listed = tokens.get(name)
        numbers = listed.get("ids") if isinstance(listed, dict) else None
        if not isinstance(numbers, list):
            raise FormatError(f"{shown(name)} has no ids in special_tokens; it must have them there", where=position)
        sides[-1] += [known_id(number, f"{where}.special_tokens[{shown(name)}].ids", vocabulary) for number in numbers]
    return sides


def _text(spec: TokenizerSpec, number: int) -> str:
    """The spelling of an ordinary token in a file."""
    token = spec.vocabulary[number]
    return to_letters(token) if spec.model == "byte" else token.decode()


def write_post_processor(spec: TokenizerSpec) -> dict[str, Any] | None:
    """The post-processor of the file that was read, or one that adds the template's ids to each text."""
    if spec.post_processor is not None:
        value = spec.post_processor.value
        template = read_template(value, "post_processor", spec.vocabulary)
        if (template if any(template) else None) == spec.template:
            return value
    if spec.template is None:
        return None
    names = names_by_id(spec)
    before, after = ([(number, names.get(number) or _text(spec, number)) for number in ids] for ids in spec.template)

    def around(text: str, type_id: int) -> list[dict[str, Any]]:
        left, right = (
            [{"SpecialToken": {"id": name, "type_id": type_id}} for _, name in ids] for ids in (before, after)
        )
        return [*left, {"Sequence": {"id": text, "type_id": type_id}}, *right]

    return {
        "type": "TemplateProcessing",
        "single": around("A", 0),
        "pair": around("A", 0) + around("B", 1),
        "special_tokens": {
            name: {"id": name, "ids": [number], "tokens": [name]} for number, name in sorted({*before, *after})
        },
    }
