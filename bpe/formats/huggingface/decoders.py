"""The decoder of a tokenizer.json."""

from __future__ import annotations

from bpe.formats.json_fields import get, refuse, type_of
from bpe.vocab.spec import TokenizerSpec


def check_decoder(value: object, byte: bool, spec: TokenizerSpec) -> None:
    """Reject a decoder that gives other text than this package's; null means this package's."""
    if value is None:
        return
    kind = type_of(value, "decoder")
    wanted = "ByteLevel" if byte else "Fuse" if spec.end_of_word is None else "BPEDecoder"
    assert isinstance(value, dict)
    suffix = get(value, "decoder", "suffix", str) if kind == "BPEDecoder" else None
    if kind != wanted or (suffix is not None and suffix != spec.end_of_word):
        mark = "" if suffix is None and wanted != "BPEDecoder" else f" with the suffix {spec.end_of_word!r}"
        refuse("decoder", value, f"for this model it must be {wanted}{mark}", "set it to that or to null")
