"""The model of a tokenizer.json: its settings, and the events of PickyBPE, read and written; lists: `lists.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bpe.base.fast_dataclasses import replace
from bpe.errors import FormatError, pluralize, short_repr
from bpe.formats.huggingface.added_tokens import AddedTokens
from bpe.formats.huggingface.expressible import can_be_text, explain_different_ids, has_all_bytes
from bpe.formats.huggingface.lists import KernelLists, Merges, ParsedLists, Span, read_lists
from bpe.formats.huggingface.spelling import find_word_ends, list_irregular_word_ends, read_spelling, spell_end_of_word
from bpe.formats.schema import (
    UNSUPPORTED,
    Field,
    accept_any,
    check_type,
    errors_at,
    read_fields,
    read_id,
    read_known_id,
    read_text,
    read_type,
    refuse,
)
from bpe.pretokenize.pretokenizer import Pretokenizer
from bpe.text.letters import list_byte_letters, map_letters_to_bytes, spell_token_in_letters
from bpe.vocab.spec import ROLES, SymbolType, TokenizerSpec, check_events, check_merges_across_words
from bpe.vocab.symbols import find_unk_id
from bpe.vocab.training_record import Training
from bpe.vocab.vocabulary import AFTER_MERGING, Vocabulary

if TYPE_CHECKING:
    from bpe.text.normalizers import Normalizer
    from bpe.vocab.events import Events

#: The most bytes of a prefix: each symbol of a text may need as many byte tokens.
MAX_PREFIX_BYTES = 64


def _read_dropout(value: Any, where: str) -> float:
    if value is not None and (type(value) not in (int, float) or not 0 <= value <= 1):
        refuse(where, value, "it must be null or a number from 0 to 1", "set it to null")
    return float(value or 0)


def _read_prefix(value: object, where: str) -> str | None:
    prefix = read_text(value, where)
    if prefix is not None and len(prefix.encode()) > MAX_PREFIX_BYTES:
        refuse(where, prefix, f"it must have at most {MAX_PREFIX_BYTES} bytes", "train with a shorter one")
    return prefix


#: The field with the fingerprint of a tokenizer whose pattern is cl100k, saved as Llama 3's.
CL100K_FIELD = "fingerprint_with_cl100k"
#: The fields that all models have. `tokenizers` ignores unknown_symbols, roles, chat_templates, training and the
#: fingerprint.
_COMMON_FIELDS = {
    "type": Field(accept_any, "BPE", kept=False),
    "dropout": Field(_read_dropout, 0.0),
    "unk_token": Field(read_text, None),
    "fuse_unk": Field(bool, False),
    "byte_fallback": Field(bool, False),
    "ignore_merges": Field(bool, False),
    "unknown_symbols": Field(read_text, None),
    "roles": Field(dict, {}),
    "chat_templates": Field(dict, {}),
    "training": Field(accept_any, None),
    CL100K_FIELD: Field(read_text, None, kept=False),
    "vocab": Field(dict),
    "merges": Field(list),
}
_EXTENSION_FIELDS = {
    **_COMMON_FIELDS,
    "unk_id": Field(accept_any, None),
    "end_of_word": Field(read_text, None),
    "end_of_word_glued": Field(bool, False),
    "ends_word": Field(accept_any, None),
    "clip": Field(accept_any, None),
    "merge_ranks": Field(accept_any, None),
}
#: The type of a model → its fields. Those that begin with `bpe.` are this package's own.
MODEL_FIELDS: Mapping[str, Mapping[str, Field]] = {
    "BPE": {
        **_COMMON_FIELDS,
        "continuing_subword_prefix": Field(_read_prefix, None),
        "end_of_word_suffix": Field(read_text, None),
    },
    "bpe.BPE": _EXTENSION_FIELDS,
    "bpe.BoundlessBPE": {**_EXTENSION_FIELDS, "word_merges": Field(int)},
    "bpe.PickyBPE": {**_EXTENSION_FIELDS, "events": Field(list)},
}


def check_model_type(model_json: object) -> None:
    """Reject unsupported model types first."""
    model_type = read_type(model_json, "model", "BPE") if isinstance(model_json, dict) else "BPE"
    if model_type not in MODEL_FIELDS:
        refuse("model.type", model_type, "it must be BPE", "other models are not byte-pair encoding")


def read_model(
    model_json: dict[str, Any],
    symbol_type: SymbolType,
    added_tokens: AddedTokens,
    pretokenizer: Pretokenizer | None,
    normalizer: Normalizer | None,
    list_spans: tuple[Span, Span] | None,
    arrays: tuple[Vocabulary, Merges] | None = None,
) -> TokenizerSpec:
    """Read the tokenizer that a model describes, without its post-processor and decoder.

    With `list_spans`, the kernel reads the vocab and the merges there; with `arrays`, these are they.

    Raises:
        NeedsParserError: for lists that need `json`.

    """
    model_type = read_type(model_json, "model", "BPE")
    is_extension = model_type != "BPE"
    fields = read_fields(
        model_json if list_spans is None else {**model_json, "vocab": {}, "merges": []},
        "model",
        MODEL_FIELDS[model_type],
    )
    prefix = fields.get("continuing_subword_prefix")
    if prefix is not None and symbol_type == "byte":
        where = "model.continuing_subword_prefix"
        refuse(where, prefix, f"with ByteLevel it must be null: {UNSUPPORTED}", "train without it")
    end_of_word, is_glued = _read_suffix(fields, is_extension, symbol_type)
    lists = (
        ParsedLists(fields["vocab"], fields["merges"], symbol_type, prefix or "")
        if list_spans is None
        else read_lists(*list_spans, symbol_type, prefix or "")
    )
    settings = TokenizerSpec(
        model=symbol_type,
        vocabulary=Vocabulary(()),
        merges=np.empty((0, 2), dtype=np.int32),
        merge_results=np.empty(0, dtype=np.int32),
        pretokenizer=pretokenizer,
        normalizer=normalizer,
        special_tokens=dict(added_tokens.ids),
        token_flags=added_tokens.flags,
        unk_token=fields["unk_token"],
        subword_prefix=prefix,
        end_of_word=end_of_word,
        end_of_word_glued=is_glued and end_of_word is not None,
        fuse_unk=fields["fuse_unk"],
        ignore_merges=fields["ignore_merges"],
        byte_fallback=fields["byte_fallback"] and symbol_type == "char",  # a byte-level model has all bytes
        dropout=fields["dropout"],
    )
    vocabulary, (merges, merge_results) = arrays or _read_tokens(lists, fields, is_extension, settings, added_tokens)
    spec = replace(
        settings,
        vocabulary=vocabulary,
        merges=merges,
        merge_results=merge_results,
        ends_word=None if end_of_word is None else find_word_ends(vocabulary, end_of_word, is_glued),
        roles=_read_roles(fields["roles"], added_tokens.ids),
        chat_templates=_read_chat_templates(fields["chat_templates"]),
        training=_read_training(fields["training"]),
    )
    if is_extension:
        spec = _read_extension_settings(spec, fields)
    if spec.unk_token is not None or has_all_bytes(spec):
        return spec
    return replace(spec, drop_unknown=_read_unknown_rule(fields["unknown_symbols"], is_extension))


def _read_suffix(fields: dict[str, Any], is_extension: bool, symbol_type: SymbolType) -> tuple[str | None, bool]:
    """Read the end-of-word mark, or None, and whether it is part of the last symbol, as a suffix always is."""
    if is_extension:
        return fields["end_of_word"], fields["end_of_word_glued"]
    suffix = fields["end_of_word_suffix"]
    try:
        return None if suffix is None else read_spelling(symbol_type, suffix).decode(), suffix is not None
    except ValueError:
        rule = f"with ByteLevel it must be UTF-8, spelled in GPT-2's letters: {UNSUPPORTED}"
        refuse("model.end_of_word_suffix", suffix, rule, "train with another one, such as </w>")


def _read_tokens(
    lists: KernelLists | ParsedLists,
    fields: dict[str, Any],
    is_extension: bool,
    model_spec: TokenizerSpec,
    added_tokens: AddedTokens,
) -> tuple[Vocabulary, Merges]:
    """Read the vocabulary and the merges of a model whose settings are those of `model_spec`."""
    unk = model_spec.unk_token
    if is_extension:
        special_ids = (
            dict(added_tokens.ids)
            if unk is None
            else {**added_tokens.ids, unk: read_id(fields["unk_id"], "model.unk_id")}
        )
        vocab_ids = lists.find_ids(special_ids)
        pairs = zip(special_ids.items(), vocab_ids, strict=True)
        return lists.build({name: token_id for (name, token_id), vocab_id in pairs if vocab_id != token_id})
    special_ids, ids_in_vocab = _find_special_tokens(lists, added_tokens, unk)
    dual_names = _find_dual_names(lists, model_spec, ids_in_vocab)
    lists.remove(ids_in_vocab.keys() - dual_names)
    if model_spec.model == "byte" and fields["byte_fallback"]:
        _check_bytes(lists)
    return lists.build({name: token_id for name, token_id in special_ids.items() if name not in dual_names})


def _find_special_tokens(
    lists: KernelLists | ParsedLists, added_tokens: AddedTokens, unk: str | None
) -> tuple[dict[str, int], dict[str, int]]:
    """Find the special tokens, the unknown token included, and those of them in the vocab: name → id.

    One that is not in the vocab must have the next free id, as in `tokenizers`.
    """
    special_ids, next_id = dict(added_tokens.ids), len(lists)
    vocab_ids = lists.find_ids(special_ids)
    for (name, token_id), expected in zip(special_ids.items(), vocab_ids, strict=True):
        if expected is None:
            expected = token_id if added_tokens.keep_ids else next_id
            next_id += 1
        if token_id != expected:
            refuse(
                f"added token {name!r}", token_id, f"`tokenizers` gives it the id {expected}", f"write {expected} there"
            )
    ids_in_vocab = {
        name: token_id for name, token_id in zip(special_ids, vocab_ids, strict=True) if token_id is not None
    }
    if unk is not None and unk not in special_ids:
        (unk_id_in_vocab,) = lists.find_ids([unk])
        if unk_id_in_vocab is None:
            refuse("model.unk_token", unk, "it must be a token of the vocab", "add it to the vocab, or set it to null")
        special_ids[unk] = ids_in_vocab[unk] = unk_id_in_vocab
    return special_ids, ids_in_vocab


def _find_dual_names(
    lists: KernelLists | ParsedLists, model_spec: TokenizerSpec, ids_in_vocab: dict[str, int]
) -> set[str]:
    """Find the special tokens of a vocab that are ordinary tokens too, because text can become them."""
    if model_spec.model == "byte":  # the model sees only GPT-2's letters
        ids_in_vocab = {
            name: token_id for name, token_id in ids_in_vocab.items() if map_letters_to_bytes().keys() >= set(name)
        }
    merged = lists.find_in_merges(ids_in_vocab) if ids_in_vocab else set()
    return {name for name in ids_in_vocab if name in merged or can_be_text(model_spec, name)}


def _check_bytes(lists: KernelLists | ParsedLists) -> None:
    """Refuse byte_fallback in a byte-level model that lacks bytes; it has no effect if it has all of them."""
    letters = list_byte_letters()
    missing = [letter for letter, token_id in zip(letters, lists.find_ids(letters), strict=True) if token_id is None]
    if missing:
        rule = f"the byte-level vocab lacks {pluralize(len(missing), 'byte')}, such as {missing[0]!r}: {UNSUPPORTED}"
        refuse("model.byte_fallback", True, rule, "add all 256 bytes to the vocab, or set it to false")


def _read_roles(roles: dict[str, Any], names: Mapping[str, int]) -> dict[str, str]:
    for role, token in roles.items():
        if role not in ROLES or not isinstance(token, str) or token not in names:
            rule = f"a role must be one of {', '.join(ROLES)}, and its token an added token"
            raise FormatError(f"{short_repr(role)} is {short_repr(token)}; {rule}", where="model.roles")
    return dict(roles)


def _read_chat_templates(templates: dict[str, Any]) -> dict[str, str]:
    for name, source in templates.items():
        if not isinstance(source, str):
            where = f"model.chat_templates[{short_repr(name)}]"
            raise FormatError(f"it is {short_repr(source)}; a template must be a string", where=where)
    return dict(templates)


def _read_training(value: object) -> Training | None:
    if value is None:
        return None
    with errors_at("model.training"):
        return Training.from_json(value)


def _read_unknown_rule(rule: str | None, is_extension: bool) -> bool | Literal["after merging"]:
    """Whether symbols without a token are left out, as `tokenizers` does; this package's files say if they raise."""
    if is_extension and rule == f"drop {AFTER_MERGING}":
        return AFTER_MERGING
    if rule not in (None, "error", "drop"):
        refuse("model.unknown_symbols", rule, 'it must be "error" or "drop"', "remove it for what `tokenizers` does")
    return rule == "drop" if is_extension else rule != "error"


# This package's own models --------------------------------------------------------------------------------------------


def _read_extension_settings(spec: TokenizerSpec, fields: dict[str, Any]) -> TokenizerSpec:
    """Read the settings that only this package's own models have; returns the tokenizer with them."""
    clip, ranks, ends_word = fields["clip"], fields["merge_ranks"], spec.ends_word
    if ends_word is not None and fields["ends_word"] is not None:
        ends_word = np.zeros(spec.vocabulary.limit, dtype=np.bool_)
        ends_word[_read_ids(fields["ends_word"], "model.ends_word", spec.vocabulary)] = True
    if clip is not None and len(clip := _read_ids(clip, "model.clip", spec.vocabulary)) != 2:
        raise FormatError(
            f"it is {short_repr(clip)}; it must be two ids, of the start and the end token", where="model.clip"
        )
    if ranks is not None and len(ranks := _read_ids(ranks, "model.merge_ranks")) != len(spec.merges):
        raise FormatError(
            f"it has {pluralize(len(ranks), 'rank')} for {pluralize(len(spec.merges), 'merge')}; each merge must "
            "have one",
            where="model.merge_ranks",
        )
    spec = replace(
        spec,
        ends_word=ends_word,
        clip=None if clip is None else (clip[0], clip[1]),
        merge_ranks=None if ranks is None else np.array(ranks, dtype=np.int32),
        n_merges_within_words=fields.get("word_merges"),
        events=_read_events(fields["events"], spec.vocabulary) if "events" in fields else None,
    )
    with errors_at("model"):
        check_merges_across_words(spec)
        check_events(spec)
    return spec


def _read_ids(value: object, where: str, vocabulary: Vocabulary | None = None) -> list[int]:
    """Read a list of ids; with a vocabulary, all must be ids of its tokens."""
    ids = check_type(value, where, list)
    if vocabulary is None:
        return [read_id(token_id, f"{where}[{i}]") for i, token_id in enumerate(ids)]
    return [read_known_id(token_id, f"{where}[{i}]", vocabulary) for i, token_id in enumerate(ids)]


def _read_events(events: list[Any], vocabulary: Vocabulary) -> Events:
    """Read the events of a PickyBPE model: a list in order, a merge as [left, right], a deletion as a token.

    A deletion follows the merge that it belongs to. Deleted tokens are not in the vocab; merges spell them. Whether the
    events fit the vocabulary is checked by `check_events`.
    """
    from bpe.vocab.events import Events

    tokens = {spell_token_in_letters(token): token_id for token, token_id in vocabulary.id_of_token.items()}
    merges: list[tuple[int, int, int]] = []
    deletions: list[tuple[int, int]] = []
    n_deleted = 0
    for index, event in enumerate(events):
        where, names = f"model.events[{index}]", event if type(event) is list else (event,)
        if len(names) != (2 if type(event) is list else 1) or set(map(type, names)) != {str}:
            rule = 'it must be a merge ["left", "right"], or the token that is deleted'
            raise FormatError(f"{short_repr(event)} is not an event; {rule}", where=where)
        unknown_name = next((name for name in names if name not in tokens), None)
        if unknown_name is not None:
            rule = "is neither in the vocab nor made by an earlier event; it must be"
            raise FormatError(f"{short_repr(unknown_name)} {rule}", where=where)
        if len(names) == 2:
            result = names[0] + names[1]
            if result not in tokens:
                n_deleted += 1
                tokens[result] = -n_deleted
            merges.append((tokens[names[0]], tokens[names[1]], tokens[result]))
        else:
            deletions.append((len(merges) - 1, tokens[names[0]]))
    rows = np.array(merges, dtype=np.int32).reshape(-1, 3)
    removals = np.array(deletions, dtype=np.int32).reshape(-1, 2)
    with errors_at("model.events"):
        return Events(np.ascontiguousarray(rows[:, :2]), np.ascontiguousarray(rows[:, 2]), removals)


# Writing --------------------------------------------------------------------------------------------------------------


def write_model(spec: TokenizerSpec, is_extension: bool, with_record: bool) -> dict[str, Any]:
    """Return the settings of a model; with `is_extension`, its vocab lacks the special tokens and the unknown token.

    `with_record` adds the facts about the training, the roles of special tokens and the chat templates, which change no
    id.

    Raises:
        ValueError: for a model of an own type with a subword prefix.

    """
    fields = _write_extension(spec) if is_extension else _write_bpe(spec)
    if with_record and spec.training is not None:
        fields["training"] = spec.training.to_json()
    if with_record and spec.roles:
        fields["roles"] = dict(spec.roles)
    if with_record and spec.chat_templates:
        fields["chat_templates"] = dict(spec.chat_templates)
    return fields


def raises_unknown(spec: TokenizerSpec) -> bool:
    """Whether a symbol without a token raises an error, where `tokenizers` leaves it out and ignores this field."""
    return spec.unk_token is None and not spec.drop_unknown and not has_all_bytes(spec)


def _write_bpe(spec: TokenizerSpec) -> dict[str, Any]:
    return {
        "type": "BPE",
        "dropout": spec.dropout or None,
        "unk_token": spec.unk_token,
        "continuing_subword_prefix": spec.subword_prefix,
        "end_of_word_suffix": None if spec.end_of_word is None else spell_end_of_word(spec),
        "fuse_unk": spec.fuse_unk,
        "byte_fallback": spec.byte_fallback,
        "ignore_merges": spec.ignore_merges,
        **({"unknown_symbols": "error"} if raises_unknown(spec) else {}),
    }


def _write_extension(spec: TokenizerSpec) -> dict[str, Any]:
    if spec.subword_prefix:
        raise ValueError(
            f"the tokenizer has the subword prefix {spec.subword_prefix!r}, and {explain_different_ids(spec)}; a "
            "tokenizer.json cannot hold both: change one of them"
        )
    model_type = "bpe.BPE" if spec.n_merges_within_words is None else "bpe.BoundlessBPE"
    unknown_symbols = {False: None, True: "drop", AFTER_MERGING: f"drop {AFTER_MERGING}"}[spec.drop_unknown]
    optional_fields = {  # fields that are left out where they have no value
        "byte_fallback": spec.byte_fallback or None,
        "dropout": spec.dropout or None,
        "unknown_symbols": unknown_symbols,
    }
    return {
        "type": model_type if spec.events is None else "bpe.PickyBPE",
        "unk_token": spec.unk_token,
        "unk_id": None if spec.unk_token is None else find_unk_id(spec),
        "fuse_unk": spec.fuse_unk,
        **{name: value for name, value in optional_fields.items() if value is not None},
        "ignore_merges": spec.ignore_merges,
        "end_of_word": spec.end_of_word,
        "end_of_word_glued": spec.end_of_word_glued,
        "ends_word": list_irregular_word_ends(spec),
        "clip": None if spec.clip is None else list(spec.clip),
        **({} if spec.n_merges_within_words is None else {"word_merges": int(spec.n_merges_within_words)}),
        **({} if spec.events is None else {"events": _write_events(spec.events, spec.vocabulary)}),
        "merge_ranks": None if spec.merge_ranks is None else spec.merge_ranks.tolist(),
    }


def _write_events(events: Events, vocabulary: Vocabulary) -> list[Any]:
    """Return the list that `_read_events` reads."""
    from bpe.vocab.events import follow_events

    deleted = follow_events(events, vocabulary).deleted

    def spell(token: int) -> str:
        return spell_token_in_letters(vocabulary[token] if token >= 0 else deleted[-1 - token])

    deleted_after: dict[int, list[str]] = {}  # the index of a merge → the tokens that are deleted after it
    for index, token in events.deletions.tolist():
        deleted_after.setdefault(index, []).append(spell(token))
    event_list: list[Any] = []
    for index, (left, right) in enumerate(events.pairs.tolist()):
        event_list += [[spell(left), spell(right)], *deleted_after.get(index, ())]
    return event_list
