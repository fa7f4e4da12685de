"""The post_processor of a tokenizer.json, read and written."""

from __future__ import annotations

from typing import Any

from bpe.errors import FormatError, shown
from bpe.formats.huggingface.spelling import known_id
from bpe.formats.json_fields import LATER, as_object, get, refuse, type_of
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.vocabulary import Vocabulary


def read_template(value: Any, where: str, vocabulary: Vocabulary) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ids that a post-processor puts before and after a single text."""
    if value is None or (kind := type_of(value, where)) == "ByteLevel":
        return (), ()
    if kind == "Sequence":
        before: tuple[int, ...] = ()
        after: tuple[int, ...] = ()
        for i, each in enumerate(get(value, where, "processors", list)):
            outer = read_template(each, f"{where}.processors[{i}]", vocabulary)
            before, after = outer[0] + before, after + outer[1]
        return before, after
    if kind in ("RobertaProcessing", "BertProcessing"):
        first, last = (get(value, where, name, list) for name in ("cls", "sep"))
        ids = [known_id(pair[1] if len(pair) == 2 else None, where, vocabulary) for pair in (first, last)]
        return (ids[0],), (ids[1],)
    if kind != "TemplateProcessing":
        refuse(
            where, value, f"a post_processor of type {kind!r} is not known: {LATER}",
            "known are ByteLevel, TemplateProcessing, RobertaProcessing, BertProcessing and a Sequence of them; set it "
            "to null and add such tokens yourself",
        )  # fmt: skip
    tokens = get(value, where, "special_tokens", dict)
    sides: list[list[int]] = [[]]
    for i, piece in enumerate(get(value, where, "single", list)):
        position = f"{where}.single[{i}]"
        if not isinstance(piece, dict) or len(piece) != 1 or not {"SpecialToken", "Sequence"} & piece.keys():
            raise FormatError(
                f"{shown(piece)} is neither a SpecialToken nor a Sequence; it must be one", where=position
            )
        ((kind, content),) = piece.items()
        name = get(as_object(content, position, ("id", "type_id")), position, "id", str)
        if kind == "Sequence":
            sides.append([])
            continue
        listed = tokens.get(name)
        numbers = listed.get("ids") if isinstance(listed, dict) else None
        if not isinstance(numbers, list):
            raise FormatError(f"{shown(name)} has no ids in special_tokens; it must have them there", where=position)
        sides[-1] += [known_id(number, f"{where}.special_tokens[{shown(name)}].ids", vocabulary) for number in numbers]
    if len(sides) != 2:
        refuse(f"{where}.single", value["single"], f"it must have one Sequence: {LATER}", "set post_processor to null")
    return tuple(sides[0]), tuple(sides[1])


def write_post_processor(spec: TokenizerSpec) -> dict[str, Any] | None:
    """The post-processor that adds the template's ids to a text, or to each text of a pair."""
    if spec.template is None:
        return None
    before, after = ([(number, spec.vocabulary[number].decode()) for number in ids] for ids in spec.template)

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
