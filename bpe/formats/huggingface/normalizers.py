"""The normalizer of a tokenizer.json, read and written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bpe.errors import FormatError
from bpe.formats.json_fields import LATER, MAX_DEPTH, as_object, get, make_at, refuse, type_of
from bpe.pretokenize.patterns import NAMED

if TYPE_CHECKING:
    from bpe.text import normalizers as n


def read_normalizer(value: object, where: str, depth: int = 0) -> n.Normalizer:
    """The normalizer that a file describes."""
    from bpe.text import normalizers as n

    kind = type_of(value, where)
    assert isinstance(value, dict)
    if kind == "Sequence":
        if depth == MAX_DEPTH:
            raise FormatError(f"nested more than {MAX_DEPTH} deep; a Sequence of one level does the same", where=where)
        steps = get(as_object(value, where, ("type", "normalizers")), where, "normalizers", list)
        return n.Sequence(
            *(read_normalizer(each, f"{where}.normalizers[{i}]", depth + 1) for i, each in enumerate(steps))
        )
    if kind in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase"):
        as_object(value, where, ("type",))
        simple: n.Normalizer = getattr(n, kind)()
        return simple
    if kind == "Strip":
        as_object(value, where, ("type", "strip_left", "strip_right"))
        return n.Strip(get(value, where, "strip_left", bool), get(value, where, "strip_right", bool))
    if kind == "Replace":
        return _read_replace(as_object(value, where, ("type", "pattern", "content")), where)
    if kind in _FIELDS:
        return _read_fields(value, kind, where)
    if kind in _OWN:
        return make_at(where, lambda: n.from_json({**value, "type": kind.removeprefix("bpe.")}))
    known = f"Sequence, NFC, NFD, NFKC, NFKD, Lowercase, Strip, Replace, {', '.join(_FIELDS)}"
    raise FormatError(f"a normalizer of type {kind!r} is not known; {LATER}. Known are {known}", where=where)


#: Types that `tokenizers` refuses.
_OWN = (
    "bpe.UnescapeHTML",
    "bpe.FixText",
    "bpe.Lowercase",
    "bpe.Replace",
    "bpe.CharacterMap",
    "bpe.CharacterMapBeside",
    "bpe.DummyPrefix",
)
#: The fields of the other normalizers: name → type.
_FIELDS: dict[str, dict[str, type]] = {
    "BertNormalizer": {"clean_text": bool, "handle_chinese_chars": bool, "strip_accents": bool, "lowercase": bool},
    "ByteLevel": {},
    "Nmt": {},
    "Precompiled": {"precompiled_charsmap": str},
    "Prepend": {"prepend": str},
    "StripAccents": {},
}


def _read_fields(item: dict[str, Any], kind: str, where: str) -> n.Normalizer:
    """A normalizer that is its fields."""
    from bpe.text import normalizers as n

    fields = _FIELDS[kind]
    as_object(item, where, ("type", *fields))
    if kind == "BertNormalizer" and item.get("strip_accents") is None:  # null: as lowercase
        item = {**item, "strip_accents": item.get("lowercase")}
    if kind == "Precompiled" and item.get("precompiled_charsmap") is None:  # a model without a map
        item = {**item, "precompiled_charsmap": ""}
    found: dict[str, Any] = {name: get(item, where, name, wanted) for name, wanted in fields.items()}
    made: n.Normalizer = make_at(where, lambda: n.REGISTRY[kind](**found))
    return made


def _read_replace(item: dict[str, Any], where: str) -> n.Normalizer:
    from bpe.formats.huggingface.patterns import read_expression, read_pattern
    from bpe.text import normalizers as n
    from bpe.text.oniguruma import escaped, means_the_same

    pattern, literal = read_pattern(item, where)
    content = get(item, where, "content", str)
    if not literal and (pattern, content) == COLLAPSE:
        return n.CollapseWhitespace()
    converted = escaped(pattern) if literal else read_expression(pattern, where, of_texts=True)
    spelled = None if literal or pattern in NAMED or means_the_same(pattern) else pattern
    return make_at(where, lambda: n.Replace(converted, content, spelled=spelled))


def spells_letters(normalizer: n.Normalizer | None, where: str = "normalizer") -> bool:
    """Whether a normalizer spells text in GPT-2's letters.

    Raises:
        FormatError: for a normalizer that changes the letters afterwards.

    """
    from bpe.text import normalizers as n
    from bpe.text.pipeline_normalizers import ByteLevel

    found = isinstance(normalizer, ByteLevel)
    for one in normalizer.normalizers if isinstance(normalizer, n.Sequence) else ():
        if found:
            rule = f"after ByteLevel, the last normalizer, no other can follow: {LATER}"
            refuse(where, type(one).__name__, rule, "put it before ByteLevel")
        found = spells_letters(one, where)
    return found


#: How `CollapseWhitespace` is saved; an equal `Replace` by the user is saved as `bpe.Replace`.
COLLAPSE = (r"\p{White_Space}+", " ")


def write_normalizer(one: n.Normalizer, depth: int = 0) -> dict[str, Any]:
    """The normalizer as a file has it."""
    from bpe.text import normalizers as n
    from bpe.text.oniguruma import means_the_same

    if depth > MAX_DEPTH:
        raise ValueError(f"normalizers are nested more than {MAX_DEPTH} deep; a Sequence of one level does the same")
    if isinstance(one, n.Sequence):
        return {"type": "Sequence", "normalizers": [write_normalizer(each, depth + 1) for each in one.normalizers]}
    if isinstance(one, n.Strip):
        return {"type": "Strip", "strip_left": one.left, "strip_right": one.right}
    if isinstance(one, n.CollapseWhitespace):
        return {"type": "Replace", "pattern": {"Regex": COLLAPSE[0]}, "content": COLLAPSE[1]}
    if isinstance(one, n.Replace) and (one.pattern, one.replacement) != COLLAPSE:
        spelled = one.pattern if one.spelled is None and means_the_same(one.pattern) else one.spelled
        if spelled is not None:
            return {"type": "Replace", "pattern": {"Regex": spelled}, "content": one.replacement}
    if type(one).__name__ in _FIELDS:
        return one.to_json()
    if isinstance(one, (n.NFC, n.NFD, n.NFKC, n.NFKD)) or one == n.Lowercase():
        return {"type": type(one).__name__}
    fields = one.to_json()
    return {**fields, "type": f"bpe.{fields['type']}"}
