"""Reads a tokenizer.json: the fast path with a kernel, and the whole file; the package's docstring documents it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bpe.errors import FormatError
from bpe.formats import _json_tokens as jsontokens
from bpe.formats.huggingface.added_tokens import read_added_tokens
from bpe.formats.huggingface.decoders import read_decoder
from bpe.formats.huggingface.expressible import differs
from bpe.formats.huggingface.kernel_lists import Located, UnusualError
from bpe.formats.huggingface.lengths import read_padding, read_truncation
from bpe.formats.huggingface.model import OWN_MODELS, check_kind, read_model
from bpe.formats.huggingface.normalizers import read_normalizer, spells_letters
from bpe.formats.huggingface.post_processors import read_post_processor
from bpe.formats.huggingface.pretokenizers import read_pre_tokenizer
from bpe.formats.json_fields import LATER, as_object, load, refuse, type_of
from bpe.vocab.spec import TokenizerSpec

_TOP = (
    "version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder",
    "model",
)  # fmt: skip


def read(data: bytes, path: str | None = None, added: Sequence[tuple[Any, ...]] = ()) -> TokenizerSpec:
    """Read a tokenizer.json.

    Args:
        data: the content of the file.
        path: its path, for errors.
        added: more added tokens: the values of the fields of each, in the order in which `tokenizers` writes them.
            Reading 100,000 of them from JSON takes half a second.

    Raises:
        FormatError: for an invalid file, and for a feature that this release does not support.

    """
    try:
        return _read_with_kernel(data, added) or _read(load(data), added)
    except FormatError as error:
        raise FormatError(error.message, path=path, where=error.where) from None


#: The placeholders of the vocab and the merges for `json`. They are numbers, because JSON spells a number in one way.
_PLACEHOLDERS = (8273645190382745101, 8273645190382745102)
_VOCAB, _MERGES = re.compile(rb'"vocab"\s*:\s*(?=\{)'), re.compile(rb'"merges"\s*:\s*(?=\[)')


def _read_with_kernel(data: bytes, added: Sequence[tuple[Any, ...]] = ()) -> TokenizerSpec | None:
    """The fast path of `read`. Returns None for an unusual or invalid file.

    A kernel reads the vocab and the merges; `json` reads the rest, with a placeholder number in place of each of them.
    If `json` finds the placeholders as fields of the model, then the kernel has read the values of these fields.
    """
    vocab, merges = _VOCAB.search(data), _MERGES.search(data)
    if vocab is None or merges is None or any(str(number).encode() in data for number in _PLACEHOLDERS):
        return None
    located = Located(data, *((each.end(), jsontokens.value_end(data, each.end())) for each in (vocab, merges)))
    rest, done = [], 0
    for (start, end), placeholder in sorted(zip((located.vocab, located.merges), _PLACEHOLDERS, strict=True)):
        if end < 0 or start < done:
            return None
        rest += [data[done:start], str(placeholder).encode()]
        done = end
    try:
        value = load(b"".join([*rest, data[done:]]))
        model = value.get("model") if isinstance(value, dict) else None
        if not isinstance(model, dict) or (model.get("vocab"), model.get("merges")) != _PLACEHOLDERS:
            return None
        return _read(value, added, located)
    except (FormatError, UnusualError):
        return None


def _read(value: object, added: Sequence[tuple[Any, ...]] = (), located: Located | None = None) -> TokenizerSpec:
    top = as_object(value, "the file", _TOP)
    if top.get("version", "1.0") != "1.0":
        refuse("version", top["version"], 'the version known is "1.0"', "save it with a current tokenizers")
    check_kind(top.get("model"))
    normalizer = None if top.get("normalizer") is None else read_normalizer(top["normalizer"], "normalizer")
    byte, pretokenizer = read_pre_tokenizer(top.get("pre_tokenizer"), spells_letters(normalizer))
    tokens, flags = read_added_tokens(top.get("added_tokens", []), added, normalizer)
    if "model" not in top:
        raise FormatError("it has no model; a tokenizer.json has one", where="the file")
    own = type_of(top["model"], "model", "BPE") in OWN_MODELS
    if located is not None and own:
        raise UnusualError
    listed = None if located is None else located.lists(byte)
    spec = read_model(top["model"], own, byte, tokens, pretokenizer, normalizer, listed, flags)
    post_processor, template = read_post_processor(top.get("post_processor"), spec.vocabulary)
    spec = replace(
        spec,
        token_flags=flags,
        template=template,
        post_processor=post_processor,
        truncation=read_truncation(top.get("truncation")),
        padding=read_padding(top.get("padding")),
    )
    if not own and (reason := differs(spec, distinct=True)) is not None:
        raise FormatError(f"{reason}; {LATER}: rename that token or switch off that option", where="model")
    return replace(spec, decoder=read_decoder(top.get("decoder"), spec))
