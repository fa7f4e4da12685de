"""Reads a tokenizer.json: the fast path with a kernel, and the whole file; the package's docstring documents it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bpe.errors import FormatError
from bpe.formats.huggingface.added_tokens import read_added_tokens
from bpe.formats.huggingface.kernel_lists import Located, UnusualError, divided
from bpe.formats.huggingface.lengths import read_padding, read_truncation
from bpe.formats.huggingface.model import OWN_MODELS, check_kind, read_model
from bpe.formats.huggingface.pretokenizers import read_pre_tokenizer
from bpe.formats.json_fields import LATER, as_object, load, refuse, type_of
from bpe.vocab.spec import TokenizerSpec

_TOP = (
    "version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder",
    "model",
)  # fmt: skip


def read(
    data: bytes, path: str | None = None, added: Sequence[tuple[Any, ...]] = (), keep_ids: bool = False
) -> TokenizerSpec:
    """Read a tokenizer.json.

    Args:
        data: the content of the file.
        path: its path, for errors.
        added: more added tokens: the values of the fields of each, in the order in which `tokenizers` writes them.
            Reading 100,000 of them from JSON takes half a second.
        keep_ids: accept ids of added tokens that `tokenizers` would not give them, as those that it gives in several
            calls.

    Raises:
        FormatError: for an invalid file, and for a feature that this release does not support.

    """
    try:
        return _read_with_kernel(data, added, keep_ids) or _read(load(data), added, keep_ids)
    except FormatError as error:
        raise FormatError(error.message, path=path, where=error.where) from None


def read_divided(
    data: bytes, vocab: bytes, merges: bytes, added: Sequence[tuple[Any, ...]] = (), keep_ids: bool = False
) -> TokenizerSpec | None:
    """Read a tokenizer.json whose model has an empty vocab and no merges, and these two lists of it as JSON.

    Returns None for an unusual or invalid file: joined, `read` reads it or raises its error.
    """
    try:
        return _read(load(data), added, keep_ids, Located((vocab, 0, len(vocab)), (merges, 0, len(merges))))
    except (FormatError, UnusualError):
        return None


def _read_with_kernel(
    data: bytes, added: Sequence[tuple[Any, ...]] = (), keep_ids: bool = False
) -> TokenizerSpec | None:
    """The fast path of `read`. Returns None for an unusual or invalid file."""
    try:
        found = divided(data, load)
        return None if found is None else _read(found[0], added, keep_ids, Located(*found[1:]))
    except (FormatError, UnusualError):
        return None


def _read(
    value: object, more: Sequence[tuple[Any, ...]] = (), keep_ids: bool = False, located: Located | None = None
) -> TokenizerSpec:
    from bpe.formats.huggingface.decoders import read_decoder
    from bpe.formats.huggingface.expressible import differs
    from bpe.formats.huggingface.post_processors import read_post_processor

    top = as_object(value, "the file", _TOP)
    if top.get("version", "1.0") != "1.0":
        refuse("version", top["version"], 'the version known is "1.0"', "save it with a current tokenizers")
    check_kind(top.get("model"))
    normalizer, in_letters = None, False
    if top.get("normalizer") is not None:
        from bpe.formats.huggingface.normalizers import read_normalizer, spells_letters

        normalizer = read_normalizer(top["normalizer"], "normalizer")
        in_letters = spells_letters(normalizer)
    byte, pretokenizer = read_pre_tokenizer(top.get("pre_tokenizer"), in_letters)
    added = read_added_tokens(top.get("added_tokens", []), more, keep_ids, normalizer)
    if "model" not in top:
        raise FormatError("it has no model; a tokenizer.json has one", where="the file")
    own = type_of(top["model"], "model", "BPE") in OWN_MODELS
    if located is not None and own:
        raise UnusualError
    spec = read_model(top["model"], own, byte, added, pretokenizer, normalizer, located)
    post_processor, template = read_post_processor(top.get("post_processor"), spec.vocabulary)
    spec = replace(
        spec,
        token_flags=added.flags,
        template=template,
        post_processor=post_processor,
        truncation=read_truncation(top.get("truncation")),
        padding=read_padding(top.get("padding")),
    )
    if not own and (reason := differs(spec, distinct=True)) is not None:
        raise FormatError(f"{reason}; {LATER}: rename that token or switch off that option", where="model")
    return replace(spec, decoder=read_decoder(top.get("decoder"), spec))
