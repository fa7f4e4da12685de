"""The normalizer of a tokenizer.json, read and written."""

from __future__ import annotations

from typing import Any

from bpe.errors import FormatError
from bpe.formats.huggingface.patterns import read_pattern
from bpe.formats.json_fields import LATER, as_object, get, make_at, type_of
from bpe.formats.oniguruma import means_the_same
from bpe.text import normalizers as n


def read_normalizer(value: object, where: str, depth: int = 0) -> n.Normalizer:
    """The normalizer that a file describes."""
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
        pattern = read_pattern(as_object(value, where, ("type", "pattern", "content")), where)
        content = get(value, where, "content", str)
        if (pattern, content) == COLLAPSE:
            return n.CollapseWhitespace()
        return make_at(where, lambda: n.Replace(pattern, content))
    if kind in ("bpe.UnescapeHTML", "bpe.FixText", "bpe.Lowercase", "bpe.Replace"):
        return make_at(where, lambda: n.from_json({**value, "type": kind.removeprefix("bpe.")}))
    known = "Sequence, NFC, NFD, NFKC, NFKD, Lowercase, Strip and Replace"
    raise FormatError(f"a normalizer of type {kind!r} is not known; {LATER}. Known are {known}", where=where)


#: How `CollapseWhitespace` is saved; an equal `Replace` by the user is saved as `bpe.Replace`.
COLLAPSE = (r"\p{White_Space}+", " ")
#: How deep normalizers may be nested.
MAX_DEPTH = 50


def write_normalizer(one: n.Normalizer, depth: int = 0) -> dict[str, Any]:
    """The normalizer as a file has it."""
    if depth > MAX_DEPTH:
        raise ValueError(f"normalizers are nested more than {MAX_DEPTH} deep; a Sequence of one level does the same")
    if isinstance(one, n.Sequence):
        return {"type": "Sequence", "normalizers": [write_normalizer(each, depth + 1) for each in one.normalizers]}
    if isinstance(one, n.Strip):
        return {"type": "Strip", "strip_left": one.left, "strip_right": one.right}
    if isinstance(one, n.CollapseWhitespace):
        return {"type": "Replace", "pattern": {"Regex": COLLAPSE[0]}, "content": COLLAPSE[1]}
    if isinstance(one, n.Replace) and (one.pattern, one.replacement) != COLLAPSE and means_the_same(one.pattern):
        return {"type": "Replace", "pattern": {"Regex": one.pattern}, "content": one.replacement}
    if isinstance(one, (n.NFC, n.NFD, n.NFKC, n.NFKD)) or one == n.Lowercase():
        return {"type": type(one).__name__}
    fields = one.to_json()
    return {**fields, "type": f"bpe.{fields['type']}"}
