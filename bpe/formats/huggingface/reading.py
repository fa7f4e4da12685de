"""Reads a tokenizer.json; the docstring of the package documents the format.

The walk: `read` lets `split_off_lists` find the two long lists, so that `json` reads the small rest; `_build` has each
part read, in the order in which they need each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from bpe.base.records import replace
from bpe.errors import FormatError
from bpe.formats.huggingface.added_tokens import read_added_tokens
from bpe.formats.huggingface.lists import Span, UnusualError, split_off_lists
from bpe.formats.huggingface.model import check_model_type, read_model
from bpe.formats.huggingface.post_processing import read_padding, read_post_processor, read_truncation
from bpe.formats.huggingface.spelling import explain_difference
from bpe.formats.huggingface.steps import read_decoder, read_normalizer, read_pre_tokenizer
from bpe.formats.schema import UNSUPPORTED, Field, accept_any, load, read_fields, refuse
from bpe.vocab.spec import TokenizerSpec

#: The values of the fields of added tokens, in the order in which `tokenizers` writes them.
TokenRows = Sequence[tuple[Any, ...]]


_TOP_FIELDS = {
    "version": Field(accept_any, "1.0"),
    "truncation": Field(accept_any, None),
    "padding": Field(accept_any, None),
    "added_tokens": Field(accept_any, []),
    "normalizer": Field(accept_any, None),
    "pre_tokenizer": Field(accept_any, None),
    "post_processor": Field(accept_any, None),
    "decoder": Field(accept_any, None),
    "model": Field(accept_any),
}


def read(data: bytes, added: TokenRows = (), keep_ids: bool = False) -> TokenizerSpec:
    """Read a tokenizer.json.

    Args:
        data: the content of the file.
        added: more added tokens. Reading 100,000 of them from JSON takes half a second.
        keep_ids: accept the ids in the file, even where `tokenizers` would number the added tokens differently (it does
            if they were added in several calls).

    Raises:
        FormatError: for an invalid file, and for a feature that this release does not support.

    """
    with suppress(FormatError, UnusualError):  # below, `json` reads the whole file, and errors name their position
        if (split := split_off_lists(data, load)) is not None:
            return _build(split[0], added, keep_ids, split[1:])
    return _build(load(data), added, keep_ids)


def read_with_lists(
    data: bytes, vocab: bytes, merges: bytes, added: TokenRows = (), keep_ids: bool = False
) -> TokenizerSpec | None:
    """Read a tokenizer.json whose model has an empty vocab and no merges, and these two lists of it as JSON.

    Returns None for an unusual or invalid file: joined, `read` reads it or raises its error.
    """
    with suppress(FormatError, UnusualError):
        return _build(load(data), added, keep_ids, ((vocab, 0, len(vocab)), (merges, 0, len(merges))))
    return None


def _build(
    value: object, extra_rows: TokenRows = (), keep_ids: bool = False, list_spans: tuple[Span, Span] | None = None
) -> TokenizerSpec:
    """The tokenizer of the parts of a file; with `list_spans`, a kernel reads the vocab and the merges there."""
    top = read_fields(value, "the file", _TOP_FIELDS)
    if top["version"] != "1.0":
        refuse("version", top["version"], 'the version known is "1.0"', "save it with a current tokenizers")
    check_model_type(top["model"])
    normalizer = None if top["normalizer"] is None else read_normalizer(top["normalizer"])
    is_byte_level, pretokenizer = read_pre_tokenizer(top["pre_tokenizer"], normalizer)
    added = read_added_tokens(top["added_tokens"], extra_rows, keep_ids, normalizer)
    spec = read_model(top["model"], "byte" if is_byte_level else "char", added, pretokenizer, normalizer, list_spans)
    post_processor, template = read_post_processor(top["post_processor"], spec.vocabulary)
    spec = replace(
        spec,
        template=template,
        post_processor=post_processor,
        truncation=read_truncation(top["truncation"]),
        padding=read_padding(top["padding"]),
    )
    if top["model"].get("type", "BPE") == "BPE" and (reason := explain_difference(spec, distinct=True)) is not None:
        raise FormatError(f"{reason}; {UNSUPPORTED}: rename that token or switch off that option", where="model")
    return replace(spec, decoder=read_decoder(top["decoder"], spec))
