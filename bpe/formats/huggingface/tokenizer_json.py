"""Reads and writes a whole tokenizer.json; the docstring of the package documents the format.

Reading: `read` lets `split_off_lists` find the two long lists, so that `json` reads the small rest; `_build` has each
part read, in the order in which they need each other. Writing: `write` checks the spec, and joins the written parts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from bpe.base.fast_dataclasses import replace
from bpe.errors import FormatError, short_repr
from bpe.formats.huggingface.added_tokens import read_added_tokens, write_added_tokens
from bpe.formats.huggingface.expressible import (
    CL100K,
    LLAMA3,
    explain_different_ids,
    find_ids_left_out_of_vocab,
    gives_ids_of_llama3,
)
from bpe.formats.huggingface.lists import Merges, NeedsParserError, Span, split_off_lists, write_lists
from bpe.formats.huggingface.model import CL100K_FIELD, check_model_type, read_model, write_model
from bpe.formats.huggingface.post_processing import (
    read_padding,
    read_post_processor,
    read_truncation,
    write_padding,
    write_post_processor,
    write_truncation,
)
from bpe.formats.huggingface.spelling import find_dual_names, is_never_encoded, map_special_ids, read_spelling
from bpe.formats.huggingface.steps import (
    read_decoder,
    read_normalizer,
    read_pre_tokenizer,
    write_decoder,
    write_normalizer,
    write_pre_tokenizer,
)
from bpe.formats.schema import UNSUPPORTED, Field, accept_any, parse_json, read_fields, refuse
from bpe.vocab._spec import find_wrong_merge
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.vocabulary import ORDINARY, SPECIAL, UNUSED, Vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray

_dump = json.JSONEncoder(ensure_ascii=False).encode
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


def read(data: bytes, added_tokens: TokenRows = (), keep_ids: bool = False) -> TokenizerSpec:
    """Read a tokenizer.json.

    Args:
        data: the content of the file.
        added_tokens: more added tokens. Reading 100,000 of them from JSON takes half a second.
        keep_ids: accept the ids in the file, even where `tokenizers` would number the added tokens differently (it does
            if they were added in several calls).

    Raises:
        FormatError: for an invalid file, and for a feature that this release does not support.

    """
    with suppress(FormatError, NeedsParserError):  # below, `json` reads the whole file, and errors name their position
        if (split := split_off_lists(data, parse_json)) is not None:
            return _build(split[0], added_tokens, keep_ids, split[1:])
    return _build(parse_json(data), added_tokens, keep_ids)


def read_with_lists(
    data: bytes, vocab: bytes, merges: bytes, added_tokens: TokenRows = (), keep_ids: bool = False
) -> TokenizerSpec | None:
    """Read a tokenizer.json whose model has an empty vocab and no merges, and these two lists of it as JSON.

    Returns None for an unusual or invalid file: joined, `read` reads it or raises its error.
    """
    with suppress(FormatError, NeedsParserError):
        return _build(parse_json(data), added_tokens, keep_ids, ((vocab, 0, len(vocab)), (merges, 0, len(merges))))
    return None


def read_with_arrays(
    data: bytes,
    vocabulary: Vocabulary,
    merges: NDArray[np.int32],
    merge_results: NDArray[np.int32],
    unmerged: NDArray[np.int32] | None,
) -> TokenizerSpec:
    """Read what `write_without_lists` wrote, with the vocabulary and the merges, which `check_spec` is to check."""
    spec = _build(parse_json(data), arrays=(vocabulary, (merges, merge_results)))
    return replace(spec, unmerged=unmerged)


def _build(
    value: object,
    extra_rows: TokenRows = (),
    keep_ids: bool = False,
    list_spans: tuple[Span, Span] | None = None,
    arrays: tuple[Vocabulary, Merges] | None = None,
) -> TokenizerSpec:
    """Build the tokenizer of the parts of a file; `list_spans` and `arrays` as for `read_model`."""
    top = read_fields(value, "the file", _TOP_FIELDS)
    if top["version"] != "1.0":
        refuse("version", top["version"], 'the version known is "1.0"', "save it with a current tokenizers")
    check_model_type(top["model"])
    normalizer = None if top["normalizer"] is None else read_normalizer(top["normalizer"])
    is_byte_level, pretokenizer = read_pre_tokenizer(top["pre_tokenizer"], normalizer)
    added_tokens = read_added_tokens(top["added_tokens"], extra_rows, keep_ids, normalizer)
    if arrays is not None:
        _check_limit(added_tokens.ids, arrays[0].limit)
    spec = read_model(
        top["model"], "byte" if is_byte_level else "char", added_tokens, pretokenizer, normalizer, list_spans, arrays
    )
    post_processor, template = read_post_processor(top["post_processor"], spec.vocabulary)
    spec = replace(
        spec,
        template=template,
        post_processor=post_processor,
        truncation=read_truncation(top["truncation"]),
        padding=read_padding(top["padding"]),
    )
    if (
        top["model"].get("type", "BPE") == "BPE"
        and (reason := explain_different_ids(spec, has_distinct_names=True)) is not None
    ):
        raise FormatError(f"{reason}; {UNSUPPORTED}: rename that token or switch off that option", where="model")
    spec = replace(spec, decoder=read_decoder(top["decoder"], spec))
    expected = top["model"].get(CL100K_FIELD)
    if expected is None or spec.pretokenizer != LLAMA3:
        return spec
    with_cl100k = replace(spec, pretokenizer=CL100K)
    return with_cl100k if _compute_fingerprint(with_cl100k) == expected else spec  # else it was changed since


def _check_limit(special_ids: Mapping[str, int], limit: int) -> None:
    """Raise ValueError for a special token that is not in a vocabulary with this limit."""
    for name, token_id in special_ids.items():
        if token_id >= limit:
            raise ValueError(f"special token {short_repr(name)} has id {token_id}; ids are from 0 to {limit - 1}")


def _compute_fingerprint(spec: TokenizerSpec) -> str:
    from bpe.vocab.comparing import compute_fingerprint

    return compute_fingerprint(spec)


# Writing --------------------------------------------------------------------------------------------------------------


def write(spec: TokenizerSpec, *, with_record: bool = False) -> bytes:
    """Serialize a tokenizer as tokenizer.json. Equal tokenizers give equal bytes.

    `with_record` adds what no id depends on to the model, in fields that `tokenizers` ignores: the facts about its
    training, the roles of special tokens, and the chat templates. The pattern cl100k is then written as Llama 3's,
    which other programs read, if the ids are the same, with the fingerprint by which `read` recognizes it.

    Raises:
        ValueError: for a spec whose fields contradict each other.

    """
    special_names, is_extension = _list_special_names(spec), explain_different_ids(spec) is not None
    as_llama3 = with_record and not is_extension and gives_ids_of_llama3(spec)
    start = _write_start(spec, special_names, is_extension, with_record, as_llama3)
    vocab, merges = write_lists(spec, _list_names_in_vocab(spec, special_names, is_extension))
    return b"".join((start, b'    "vocab": {', *vocab, b'},\n    "merges": [', *merges, b"]\n  }\n}\n"))


def write_without_lists(spec: TokenizerSpec) -> bytes:
    """Serialize a tokenizer as tokenizer.json likewise, with an empty vocab and no merges."""
    start = _write_start(spec, _list_special_names(spec), explain_different_ids(spec) is not None, True, False)
    return start + b'    "vocab": {},\n    "merges": []\n  }\n}\n'


def _list_special_names(spec: TokenizerSpec) -> dict[int, str]:
    """List the special entries of the vocabulary: id → name."""
    return {token_id: token.decode() for token_id, token in spec.vocabulary.items(SPECIAL)}


def _write_start(
    spec: TokenizerSpec, special_names: dict[int, str], is_extension: bool, with_record: bool, as_llama3: bool
) -> bytes:
    """Check a tokenizer, and write everything before the two lists of its tokenizer.json."""
    _check_special_tokens(spec, special_names)
    head: dict[str, Any] = {
        "version": "1.0",
        "truncation": write_truncation(spec.truncation),
        "padding": write_padding(spec.padding),
        "added_tokens": [],
        "normalizer": write_normalizer(spec.normalizer),
        "pre_tokenizer": write_pre_tokenizer(spec.model == "byte", LLAMA3 if as_llama3 else spec.pretokenizer),
        "post_processor": write_post_processor(spec),
        "decoder": write_decoder(spec),
    }
    model = write_model(spec, is_extension, with_record)
    if as_llama3:
        model[CL100K_FIELD] = _compute_fingerprint(spec)
    _check_merges(spec, is_extension)
    added_tokens = "".join(write_added_tokens(spec))
    start = (
        json.dumps(head, ensure_ascii=False, indent=2)[:-2].replace(
            '"added_tokens": []', f'"added_tokens": [{added_tokens}]', 1
        )
        + ',\n  "model": {\n'
        + "".join(f"    {_dump(key)}: {_dump(value)},\n" for key, value in model.items())
    )
    return start.encode()


def _list_names_in_vocab(spec: TokenizerSpec, special_names: dict[int, str], is_extension: bool) -> dict[int, str]:
    """List the special entries of the vocabulary that the vocab of the file has, too: id → name."""
    if is_extension:
        return {token_id: name for token_id, name in special_names.items() if is_never_encoded(spec, name)}
    outside_vocab = find_ids_left_out_of_vocab(spec)
    return {token_id: name for token_id, name in special_names.items() if token_id not in outside_vocab}


def check_special_entries(spec: TokenizerSpec) -> None:
    """Raise ValueError for special tokens that are not the special entries of the vocabulary."""
    _check_special_tokens(spec, _list_special_names(spec))


def _check_special_tokens(spec: TokenizerSpec, special_names: dict[int, str]) -> None:
    """Raise ValueError for a spec whose fields contradict each other, so that its file could not be read back.

    `special_names` has the special entries of its vocabulary.
    """
    names = map_special_ids(spec)
    if len(names) < len(spec.special_tokens):
        first = next(name for name, token_id in spec.special_tokens.items() if names[token_id] != name)
        token_id = spec.special_tokens[first]
        raise ValueError(
            f"special tokens {first!r} and {names[token_id]!r} have the same id, {token_id}; in a tokenizer.json, each "
            "has its own: leave one of them out of special_tokens"
        )
    unnamed_ids = {token_id: name for token_id, name in special_names.items() if token_id not in names}
    unnamed_texts = [
        name for name in unnamed_ids.values() if not is_never_encoded(spec, name) or name == spec.unk_token
    ]
    dual_names = find_dual_names(spec)
    ambiguous_names = {
        token_id: name for token_id, name in dual_names.items() if _is_spelled_like(spec, token_id, name)
    }
    if names.items() - special_names.items() - ambiguous_names.items() or unnamed_texts not in ([], [spec.unk_token]):
        raise ValueError(
            f"special tokens {short_repr(names)} and unknown token {spec.unk_token!r} are not the special entries of "
            f"the vocabulary, {short_repr(special_names)}; they must be the same"
        )
    if spec.unk_token is not None and spec.unk_token not in {*special_names.values(), *ambiguous_names.values()}:
        raise ValueError(f"unk_token {spec.unk_token!r} is not in the vocabulary; add it as a special token")
    if (spec.end_of_word is None) != (spec.ends_word is None) or (spec.end_of_word_glued and spec.end_of_word is None):
        raise ValueError("end_of_word, end_of_word_glued and ends_word go together; set all three or none")


def _is_spelled_like(spec: TokenizerSpec, token_id: int, name: str) -> bool:
    """Whether an ordinary token is spelled like a name."""
    try:
        return read_spelling(spec.model, name) == spec.vocabulary[token_id]
    except ValueError:
        return False


def _check_merges(spec: TokenizerSpec, is_extension: bool) -> None:
    """Raise ValueError for a merge whose result is not the concatenation of its tokens.

    In a byte model, and in a model of this package's own, its tokens must be ordinary.
    """
    if not len(spec.merges) or (spec.subword_prefix and not is_extension):
        return
    vocabulary = spec.vocabulary
    left, right, result = spec.merges[:, 0], spec.merges[:, 1], spec.merge_results
    is_known = np.append(
        vocabulary.kinds == ORDINARY if is_extension or spec.model == "byte" else vocabulary.kinds != UNUSED, False
    )
    ids = np.stack((left, right, result))
    out_of_range = (ids < 0) | (ids >= vocabulary.limit)
    is_wrong = np.logical_not(is_known[np.where(out_of_range, vocabulary.limit, ids)].all(axis=0, keepdims=True))[0]
    if not is_wrong.any():
        lengths = vocabulary.lengths.astype(np.int64)
        is_wrong = lengths[left] + lengths[right] != lengths[result]
    if not is_wrong.any():
        is_checked = np.ones(vocabulary.limit, dtype=np.uint8)
        merges, results = (np.ascontiguousarray(array, dtype=np.int32) for array in (spec.merges, result))
        wrong_index = find_wrong_merge(merges, results, vocabulary.blob, vocabulary.offsets, is_checked)
        if wrong_index < 0:
            return
        is_wrong[wrong_index] = True
    first = int(np.argmax(is_wrong))
    raise ValueError(
        f"the merge of ids {left[first]} and {right[first]} produces token {result[first]}, which is not spelled as "
        "their concatenation; it must be"
    )
