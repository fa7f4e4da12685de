"""The model of a tokenizer.json: its settings, and the events of PickyBPE, read and written; lists: `lists.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bpe.base.records import replace
from bpe.errors import FormatError, pluralize, short_repr
from bpe.formats.huggingface.added_tokens import AddedTokens
from bpe.formats.huggingface.lists import KernelLists, Merges, ParsedLists, Span, read_lists
from bpe.formats.huggingface.spelling import (
    can_be_text,
    find_word_ends,
    from_text,
    has_all_bytes,
    list_word_ends_unless_derived,
    mark_text,
)
from bpe.formats.schema import (
    LATER,
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
from bpe.vocab.byte_letters import byte_letters, letter_bytes, to_letters
from bpe.vocab.spec import ROLES, Model, TokenizerSpec, check_events, check_word_merges
from bpe.vocab.symbols import unk_id
from bpe.vocab.training_record import Training
from bpe.vocab.vocabulary import AFTER_MERGING, Vocabulary

if TYPE_CHECKING:
    from bpe.text.normalizers import Normalizer
    from bpe.vocab.events import Events

#: The most bytes of a prefix: each symbol of a text may need as many byte tokens.
MAX_PREFIX = 64


def _read_dropout(value: Any, where: str) -> float:
    if value is not None and (type(value) not in (int, float) or not 0 <= value <= 1):
        refuse(where, value, "it must be null or a number from 0 to 1", "set it to null")
    return float(value or 0)


def _read_prefix(value: object, where: str) -> str | None:
    prefix = read_text(value, where)
    if prefix is not None and len(prefix.encode()) > MAX_PREFIX:
        refuse(where, prefix, f"it must have at most {MAX_PREFIX} bytes", "train with a shorter one")
    return prefix


#: The fields that all models have. `tokenizers` ignores unknown_symbols, roles and training.
_COMMON = {
    "type": Field(accept_any, "BPE", kept=False),
    "dropout": Field(_read_dropout, 0.0),
    "unk_token": Field(read_text, None),
    "fuse_unk": Field(bool, False),
    "byte_fallback": Field(bool, False),
    "ignore_merges": Field(bool, False),
    "unknown_symbols": Field(read_text, None),
    "roles": Field(dict, {}),
    "training": Field(accept_any, None),
    "vocab": Field(dict),
    "merges": Field(list),
}
_NATIVE_FIELDS = {
    **_COMMON,
    "unk_id": Field(accept_any, None),
    "end_of_word": Field(read_text, None),
    "end_of_word_glued": Field(bool, False),
    "ends_word": Field(accept_any, None),
    "clip": Field(accept_any, None),
    "merge_ranks": Field(accept_any, None),
}
#: The type of a model → its fields. Those that begin with `bpe.` are this package's own.
MODELS: Mapping[str, Mapping[str, Field]] = {
    "BPE": {
        **_COMMON,
        "continuing_subword_prefix": Field(_read_prefix, None),
        "end_of_word_suffix": Field(read_text, None),
    },
    "bpe.BPE": _NATIVE_FIELDS,
    "bpe.BoundlessBPE": {**_NATIVE_FIELDS, "word_merges": Field(int)},
    "bpe.PickyBPE": {**_NATIVE_FIELDS, "events": Field(list)},
}


def check_model_type(model: object) -> None:
    """Reject unsupported model types first."""
    kind = read_type(model, "model", "BPE") if isinstance(model, dict) else "BPE"
    if kind not in MODELS:
        refuse("model.type", kind, "it must be BPE", "other models are not byte-pair encoding")


def read_model(
    value: dict[str, Any],
    model: Model,
    added: AddedTokens,
    pretokenizer: Pretokenizer | None,
    normalizer: Normalizer | None,
    list_spans: tuple[Span, Span] | None,
) -> TokenizerSpec:
    """The tokenizer that a model describes, without its post-processor and decoder.

    With `list_spans`, the kernel reads the vocab and the merges there; raises UnusualError for lists that need `json`.
    """
    kind = read_type(value, "model", "BPE")
    is_native = kind != "BPE"
    item = read_fields(value if list_spans is None else {**value, "vocab": {}, "merges": []}, "model", MODELS[kind])
    prefix = item.get("continuing_subword_prefix")
    if prefix is not None and model == "byte":
        where = "model.continuing_subword_prefix"
        refuse(where, prefix, f"with ByteLevel it must be null: {LATER}", "train without it")
    mark, glued = (item["end_of_word"], item["end_of_word_glued"]) if is_native else _read_suffix(item, model)
    lists = (
        ParsedLists(item["vocab"], item["merges"], model, prefix or "")
        if list_spans is None
        else read_lists(*list_spans, model, prefix or "")
    )
    settings = TokenizerSpec(
        model=model,
        vocabulary=Vocabulary(()),
        merges=np.empty((0, 2), dtype=np.int32),
        merge_results=np.empty(0, dtype=np.int32),
        pretokenizer=pretokenizer,
        normalizer=normalizer,
        special_tokens=dict(added.ids),
        token_flags=added.flags,
        unk_token=item["unk_token"],
        subword_prefix=prefix,
        end_of_word=mark,
        end_of_word_glued=glued and mark is not None,
        fuse_unk=item["fuse_unk"],
        ignore_merges=item["ignore_merges"],
        byte_fallback=item["byte_fallback"] and model == "char",  # a byte-level model has all bytes
        dropout=item["dropout"],
    )
    vocabulary, (merges, merge_results) = _read_tokens(lists, item, is_native, settings, added)
    spec = replace(
        settings,
        vocabulary=vocabulary,
        merges=merges,
        merge_results=merge_results,
        ends_word=None if mark is None else find_word_ends(vocabulary, mark, glued),
        roles=_read_roles(item["roles"], added.ids),
        training=_read_training(item["training"]),
    )
    if is_native:
        spec = _read_native_settings(spec, item)
    if spec.unk_token is not None or has_all_bytes(spec):
        return spec
    return replace(spec, drop_unknown=_drops_unknown(item["unknown_symbols"], is_native))


def _read_suffix(item: dict[str, Any], model: Model) -> tuple[str | None, bool]:
    """(the end-of-word mark, True), or (None, False): a suffix is always part of the last symbol."""
    suffix = item["end_of_word_suffix"]
    try:
        return None if suffix is None else from_text(model, suffix).decode(), suffix is not None
    except ValueError:
        rule = f"with ByteLevel it must be UTF-8, spelled in GPT-2's letters: {LATER}"
        refuse("model.end_of_word_suffix", suffix, rule, "train with another one, such as </w>")


def _read_tokens(
    lists: KernelLists | ParsedLists, item: dict[str, Any], is_native: bool, settings: TokenizerSpec, added: AddedTokens
) -> tuple[Vocabulary, Merges]:
    """(vocabulary, merges) of the tokenizer with these `settings`."""
    unk = settings.unk_token
    if is_native:
        named = dict(added.ids) if unk is None else {**added.ids, unk: read_id(item["unk_id"], "model.unk_id")}
        in_vocab = lists.ids_of(named)
        return lists.build({name: i for (name, i), same in zip(named.items(), in_vocab, strict=True) if same != i})
    special, known = _find_specials(lists, added, unk)
    ordinary = _find_ordinary(lists, settings, known)
    lists.remove(known.keys() - ordinary)
    if settings.model == "byte" and item["byte_fallback"]:
        _check_bytes(lists)
    return lists.build({name: token_id for name, token_id in special.items() if name not in ordinary})


def _find_specials(
    lists: KernelLists | ParsedLists, added: AddedTokens, unk: str | None
) -> tuple[dict[str, int], dict[str, int]]:
    """Name → id of the special tokens, the unknown token included, and the same of those that are in the vocab.

    One that is not in the vocab must have the next free id, as in `tokenizers`.
    """
    special, following = dict(added.ids), len(lists)
    found = lists.ids_of(special)
    for (name, token_id), wanted in zip(special.items(), found, strict=True):
        if wanted is None:
            wanted = token_id if added.keep_ids else following
            following += 1
        if token_id != wanted:
            refuse(f"added token {name!r}", token_id, f"`tokenizers` gives it the id {wanted}", f"write {wanted} there")
    known = {name: token_id for name, token_id in zip(special, found, strict=True) if token_id is not None}
    if unk is not None and unk not in special:
        (in_vocab,) = lists.ids_of([unk])
        if in_vocab is None:
            refuse("model.unk_token", unk, "it must be a token of the vocab", "add it to the vocab, or set it to null")
        special[unk] = known[unk] = in_vocab
    return special, known


def _find_ordinary(lists: KernelLists | ParsedLists, settings: TokenizerSpec, known: dict[str, int]) -> set[str]:
    """The special tokens of a vocab that text can become: they are ordinary tokens, too."""
    if settings.model == "byte":  # the model sees only GPT-2's letters
        known = {name: token_id for name, token_id in known.items() if letter_bytes().keys() >= set(name)}
    merged = lists.find_merged(known) if known else set()
    return {name for name in known if name in merged or can_be_text(settings, name)}


def _check_bytes(lists: KernelLists | ParsedLists) -> None:
    """Refuse byte_fallback in a byte-level model that lacks bytes; it has no effect if it has all of them."""
    letters = byte_letters()
    lacking = [letter for letter, token_id in zip(letters, lists.ids_of(letters), strict=True) if token_id is None]
    if lacking:
        rule = f"the byte-level vocab lacks {pluralize(len(lacking), 'byte')}, such as {lacking[0]!r}: {LATER}"
        refuse("model.byte_fallback", True, rule, "add all 256 bytes to the vocab, or set it to false")


def _read_roles(roles: dict[str, Any], names: Mapping[str, int]) -> dict[str, str]:
    for role, token in roles.items():
        if role not in ROLES or not isinstance(token, str) or token not in names:
            rule = f"a role must be one of {', '.join(ROLES)}, and its token an added token"
            raise FormatError(f"{short_repr(role)} is {short_repr(token)}; {rule}", where="model.roles")
    return dict(roles)


def _read_training(value: object) -> Training | None:
    if value is None:
        return None
    with errors_at("model.training"):
        return Training.from_json(value)


def _drops_unknown(rule: str | None, is_native: bool) -> bool | Literal["after merging"]:
    """Whether symbols without a token are left out, as `tokenizers` does; this package's files say if they raise."""
    if is_native and rule == f"drop {AFTER_MERGING}":
        return AFTER_MERGING
    if rule not in (None, "error", "drop"):
        refuse("model.unknown_symbols", rule, 'it must be "error" or "drop"', "remove it for what `tokenizers` does")
    return rule == "drop" if is_native else rule != "error"


# This package's own models --------------------------------------------------------------------------------------------


def _read_native_settings(spec: TokenizerSpec, item: dict[str, Any]) -> TokenizerSpec:
    """The tokenizer with the settings that only this package's own models have."""
    clip, ranks, ends = item["clip"], item["merge_ranks"], spec.ends_word
    if ends is not None and item["ends_word"] is not None:
        ends = np.zeros(spec.vocabulary.limit, dtype=np.bool_)
        ends[_read_ids(item["ends_word"], "model.ends_word", spec.vocabulary)] = True
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
        ends_word=ends,
        clip=None if clip is None else (clip[0], clip[1]),
        merge_ranks=None if ranks is None else np.array(ranks, dtype=np.int32),
        word_merges=item.get("word_merges"),
        events=_read_events(item["events"], spec.vocabulary) if "events" in item else None,
    )
    with errors_at("model"):
        check_word_merges(spec)
        check_events(spec)
    return spec


def _read_ids(value: object, where: str, vocabulary: Vocabulary | None = None) -> list[int]:
    """A list of ids; with a vocabulary, of ids of tokens."""
    ids = check_type(value, where, list)
    if vocabulary is None:
        return [read_id(each, f"{where}[{i}]") for i, each in enumerate(ids)]
    return [read_known_id(each, f"{where}[{i}]", vocabulary) for i, each in enumerate(ids)]


def _read_events(listed: list[Any], vocabulary: Vocabulary) -> Events:
    """The events of a PickyBPE model: a list in order, a merge as [left, right], a deletion as a token.

    A deletion follows the merge that it belongs to. Deleted tokens are not in the vocab; merges spell them. Whether the
    events fit the vocabulary is checked by `check_events`.
    """
    from bpe.vocab.events import Events

    tokens = {to_letters(token): token_id for token, token_id in vocabulary.ids.items()}
    merges: list[tuple[int, int, int]] = []
    deletions: list[tuple[int, int]] = []
    n_deleted = 0
    for index, event in enumerate(listed):
        where, names = f"model.events[{index}]", event if type(event) is list else (event,)
        if len(names) != (2 if type(event) is list else 1) or set(map(type, names)) != {str}:
            rule = 'it must be a merge ["left", "right"], or the token that is deleted'
            raise FormatError(f"{short_repr(event)} is not an event; {rule}", where=where)
        unknown = next((name for name in names if name not in tokens), None)
        if unknown is not None:
            rule = "is neither in the vocab nor made by an earlier event; it must be"
            raise FormatError(f"{short_repr(unknown)} {rule}", where=where)
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


def write_model(spec: TokenizerSpec, is_native: bool, facts: bool) -> dict[str, Any]:
    """The settings of a model; a native one has no special tokens and no unknown token in its vocab.

    With `facts`, they include the facts about the training and the roles of special tokens, which change no id.

    Raises:
        ValueError: for a native model with a subword prefix.

    """
    fields = _write_native(spec) if is_native else _write_bpe(spec)
    if facts and spec.training is not None:
        fields["training"] = spec.training.to_json()
    if facts and spec.roles:
        fields["roles"] = dict(spec.roles)
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
        "end_of_word_suffix": None if spec.end_of_word is None else mark_text(spec),
        "fuse_unk": spec.fuse_unk,
        "byte_fallback": spec.byte_fallback,
        "ignore_merges": spec.ignore_merges,
        **({"unknown_symbols": "error"} if raises_unknown(spec) else {}),
    }


def _write_native(spec: TokenizerSpec) -> dict[str, Any]:
    if spec.subword_prefix:
        raise ValueError(
            f"the tokenizer has the subword prefix {spec.subword_prefix!r}; a tokenizer.json cannot hold that together "
            "with settings that `tokenizers` lacks"
        )
    kind = "bpe.BPE" if spec.word_merges is None else "bpe.BoundlessBPE"
    drops = {False: None, True: "drop", AFTER_MERGING: f"drop {AFTER_MERGING}"}[spec.drop_unknown]
    optional = {  # fields that are left out where they have no value
        "byte_fallback": spec.byte_fallback or None,
        "dropout": spec.dropout or None,
        "unknown_symbols": drops,
    }
    return {
        "type": kind if spec.events is None else "bpe.PickyBPE",
        "unk_token": spec.unk_token,
        "unk_id": None if spec.unk_token is None else unk_id(spec),
        "fuse_unk": spec.fuse_unk,
        **{name: value for name, value in optional.items() if value is not None},
        "ignore_merges": spec.ignore_merges,
        "end_of_word": spec.end_of_word,
        "end_of_word_glued": spec.end_of_word_glued,
        "ends_word": list_word_ends_unless_derived(spec),
        "clip": None if spec.clip is None else list(spec.clip),
        **({} if spec.word_merges is None else {"word_merges": int(spec.word_merges)}),
        **({} if spec.events is None else {"events": _write_events(spec.events, spec.vocabulary)}),
        "merge_ranks": None if spec.merge_ranks is None else spec.merge_ranks.tolist(),
    }


def _write_events(events: Events, vocabulary: Vocabulary) -> list[Any]:
    """The list that `_read_events` reads."""
    from bpe.vocab.events import follow_events

    deleted = follow_events(events, vocabulary).deleted

    def spell(token: int) -> str:
        return to_letters(vocabulary[token] if token >= 0 else deleted[-1 - token])

    removed: dict[int, list[str]] = {}  # the index of a merge → the tokens that are deleted after it
    for index, token in events.deletions.tolist():
        removed.setdefault(index, []).append(spell(token))
    listed: list[Any] = []
    for index, (left, right) in enumerate(events.pairs.tolist()):
        listed += [[spell(left), spell(right)], *removed.get(index, ())]
    return listed
