"""Reads the model of a tokenizer.json: vocab, merges and their settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from operator import add
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from bpe.base.offsets import offsets_of
from bpe.errors import FormatError, counted, shown
from bpe.formats.huggingface.added_tokens import AddedTokens
from bpe.formats.huggingface.expressible import has_all_bytes
from bpe.formats.huggingface.kernel_lists import KernelLists, Located
from bpe.formats.huggingface.spelling import byte_by_letter, ending, from_text, known_id, token_id
from bpe.formats.json_fields import LATER, as_object, get, get_text, make_at, refuse, type_of
from bpe.pretokenize.pretokenizer import Pretokenizer
from bpe.vocab.byte_letters import byte_letters, letter_bytes
from bpe.vocab.spec import ROLES, Model, TokenizerSpec, check_events, check_word_merges
from bpe.vocab.training_record import Training
from bpe.vocab.vocabulary import AFTER_MERGING, ID_LIMIT, Vocabulary

if TYPE_CHECKING:
    from bpe.text import normalizers as n

_MODEL = (
    "type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback",
    "ignore_merges", "unknown_symbols", "roles", "training", "vocab", "merges",
)  # fmt: skip
_OWN_MODEL = (
    "type", "unk_token", "unk_id", "fuse_unk", "byte_fallback", "dropout", "ignore_merges", "unknown_symbols",
    "end_of_word", "end_of_word_glued", "ends_word", "clip", "merge_ranks", "roles", "training", "vocab",
    "merges",
)  # fmt: skip
#: The model of BoundlessBPE: an own model, with the number of its merges within words.
BOUNDLESS = "bpe.BoundlessBPE"
#: The model of PickyBPE: an own model without merges, with its events instead.
PICKY = "bpe.PickyBPE"
#: Own models: their fields.
OWN_MODELS = {"bpe.BPE": _OWN_MODEL, BOUNDLESS: (*_OWN_MODEL, "word_merges"), PICKY: (*_OWN_MODEL, "events")}
#: The most bytes of a prefix: each symbol of a text may need as many byte tokens.
MAX_PREFIX = 64


def check_kind(model: object) -> None:
    """Reject unsupported model types first."""
    kind = type_of(model, "model", "BPE") if isinstance(model, dict) else "BPE"
    if kind != "BPE" and kind not in OWN_MODELS:
        refuse("model.type", kind, "it must be BPE", "other models are not byte-pair encoding")


def read_model(
    value: dict[str, Any],
    own: bool,
    byte: bool,
    added: AddedTokens,
    pretokenizer: Pretokenizer | None,
    normalizer: n.Normalizer | None,
    located: Located | None,
) -> TokenizerSpec:
    """The tokenizer that a model describes, without its post-processor.

    With `located`, the vocab and the merges are read by the kernel; raises UnusualError for lists that need `json`.
    """
    across, picky = value.get("type") == BOUNDLESS, value.get("type") == PICKY
    item = as_object(value, "model", OWN_MODELS[value["type"]] if own else _MODEL)
    model: Model = "byte" if byte else "char"
    unk = get_text(item, "model", "unk_token")
    prefix = _prefix(item, byte)
    mark, glued = _end_of_word(item, own, model)
    listed = None if located is None else located.lists(byte, prefix)
    settings = TokenizerSpec(
        model=model,
        vocabulary=Vocabulary(()),
        merges=np.empty((0, 2), dtype=np.int32),
        merge_results=np.empty(0, dtype=np.int32),
        pretokenizer=pretokenizer,
        normalizer=normalizer,
        special_tokens=dict(added.ids),
        token_flags=added.flags,
        unk_token=unk,
        subword_prefix=prefix,
        end_of_word=mark,
        end_of_word_glued=glued and mark is not None,
        **_switches(item, byte),
    )
    vocabulary, merges, merge_results = _lists(item, own, settings, added, listed)
    ends = None if mark is None else ending(vocabulary, mark, glued)
    if own and item.get("ends_word") is not None and ends is not None:
        ends = np.zeros(vocabulary.limit, dtype=np.bool_)
        ends[_ids(item, "ends_word", vocabulary)] = True
    spec = replace(
        settings,
        vocabulary=vocabulary,
        merges=merges,
        merge_results=merge_results,
        merge_ranks=_ranks(item, len(merges)) if item.get("merge_ranks") is not None else None,
        word_merges=get(item, "model", "word_merges", int) if across else None,
        ends_word=ends,
        clip=_clip(item, vocabulary),
        roles=_roles(item, added.ids),
        training=_training(item),
    )
    if across:
        make_at("model", lambda: check_word_merges(spec))
    if picky:
        from bpe.formats.huggingface.events import read_events

        spec = replace(spec, events=read_events(get(item, "model", "events", list), vocabulary))
        make_at("model", lambda: check_events(spec))
    drops = _drops_unknown(item, own) if unk is None and not has_all_bytes(spec) else False
    return replace(spec, drop_unknown=drops)


def _roles(item: dict[str, Any], names: Mapping[str, int]) -> dict[str, str]:
    """The roles of special tokens, which `tokenizers` does not write."""
    found = get(item, "model", "roles", dict, {})
    for role, token in found.items():
        if role not in ROLES or not isinstance(token, str) or token not in names:
            rule = f"a role must be one of {', '.join(ROLES)}, and its token an added token"
            raise FormatError(f"{shown(role)} is {shown(token)}; {rule}", where="model.roles")
    return dict(found)


def _training(item: dict[str, Any]) -> Training | None:
    """The facts about the training, which `tokenizers` does not write."""
    if item.get("training") is None:
        return None
    return make_at("model.training", lambda: Training.from_json(item["training"]))


def _end_of_word(item: dict[str, Any], own: bool, model: Model) -> tuple[str | None, bool]:
    """(the end-of-word mark or None, whether it is glued to the last symbol of a word)."""
    if own:
        return get_text(item, "model", "end_of_word"), get(item, "model", "end_of_word_glued", bool, False)
    suffix = get_text(item, "model", "end_of_word_suffix")
    if suffix is None:
        return None, False
    try:
        return from_text(model, suffix).decode(), True
    except ValueError:
        rule = f"with ByteLevel it must be UTF-8, spelled in GPT-2's letters: {LATER}"
        refuse("model.end_of_word_suffix", suffix, rule, "train with another one, such as </w>")


def _lists(
    item: dict[str, Any], own: bool, settings: TokenizerSpec, added: AddedTokens, listed: KernelLists | None
) -> tuple[Vocabulary, NDArray[np.int32], NDArray[np.int32]]:
    """(vocabulary, pairs of ids, merge results) of the tokenizer with these `settings`."""
    unk, vocab = settings.unk_token, {} if listed is not None else _vocab(item)
    if own:
        named = dict(added.ids) if unk is None else {**added.ids, unk: token_id(item.get("unk_id"), "model.unk_id")}
        special = {name: number for name, number in named.items() if vocab.get(name) != number}
    else:
        source = vocab if listed is None else listed
        special, known = _specials_in_vocab(source, added, unk)
        for name in _tokens_of_text(item, settings, known, listed):
            del special[name]
            if listed is not None:
                listed.restore(name)
            else:
                vocab[name] = known[name]
        if settings.model == "byte":
            _check_bytes(item, source)
    if listed is not None:
        special = {**special, **listed.others}
        return make_at("model.vocab", lambda: listed.vocabulary(special)), *listed.merges()
    vocabulary = _vocabulary(settings.model, vocab, special)
    return vocabulary, *_merges(item, vocab, special, settings.subword_prefix or "")


def _tokens_of_text(
    item: dict[str, Any], settings: TokenizerSpec, known: dict[str, int], listed: KernelLists | None
) -> list[str]:
    """Which of the special tokens in a vocab text can become: they are ordinary tokens, too.

    `known` has all special tokens in the vocab.
    """
    from bpe.formats.huggingface.expressible import can_be_text

    if settings.model == "byte":  # the model sees only GPT-2's letters
        known = {name: number for name, number in known.items() if letter_bytes().keys() >= set(name)}
    merged: set[Any] = set()
    if known:
        merged = _texts_of_merges(item) if listed is None else listed.merged(known.values())
    return [
        name
        for name, number in known.items()
        if (name if listed is None else number) in merged or can_be_text(settings, name)
    ]


def _texts_of_merges(item: dict[str, Any]) -> set[Any]:
    """The parts and the products of all merges; nothing of invalid ones."""
    found: set[Any] = set()
    for merge in get(item, "model", "merges", list):
        parts = merge.split(" ") if isinstance(merge, str) else merge
        if isinstance(parts, list) and set(map(type, parts)) == {str}:
            found.update((*parts, "".join(parts)))
    return found


def _switches(item: dict[str, Any], byte: bool) -> dict[str, Any]:
    """The fields of a model that are the same in a `TokenizerSpec`."""
    switches = {name: get(item, "model", name, bool, False) for name in ("fuse_unk", "ignore_merges", "byte_fallback")}
    switches["byte_fallback"] &= not byte  # a byte-level model that has all bytes does not need it
    return {**switches, "dropout": _dropout(item)}


def _clip(item: dict[str, Any], vocabulary: Vocabulary) -> tuple[int, int] | None:
    """The start and the end token of CLIP's `tokenize`."""
    if item.get("clip") is None:
        return None
    clip = _ids(item, "clip", vocabulary)
    if len(clip) != 2:
        raise FormatError(
            f"it is {shown(clip)}; it must be two ids, of the start and the end token", where="model.clip"
        )
    return clip[0], clip[1]


def _vocabulary(model: Model, vocab: dict[str, int], special: dict[str, int]) -> Vocabulary:
    byte = model == "byte"
    special = {**special, **(_take_unspelled(vocab) if byte else {})}
    vocabulary = _vocabulary_in_order(vocab, special) if byte else None
    if vocabulary is None:
        tokens = _ordinary(model, vocab)
        vocabulary = make_at(
            "model.vocab", lambda: Vocabulary(tokens, ((number, name.encode()) for name, number in special.items()))
        )
    return vocabulary


def _prefix(item: dict[str, Any], byte: bool) -> str | None:
    """The field continuing_subword_prefix."""
    prefix = get_text(item, "model", "continuing_subword_prefix")
    where = "model.continuing_subword_prefix"
    if prefix is not None and byte:
        refuse(where, prefix, f"with ByteLevel it must be null: {LATER}", "train without it")
    if prefix is not None and len(prefix.encode()) > MAX_PREFIX:
        refuse(where, prefix, f"it must have at most {MAX_PREFIX} bytes", "train with a shorter one")
    return prefix


def _dropout(item: dict[str, Any]) -> float:
    dropout = item.get("dropout")
    if dropout is None:
        return 0.0
    if type(dropout) not in (int, float) or not 0 <= dropout <= 1:
        refuse("model.dropout", dropout, "it must be null or a number from 0 to 1", "set it to null")
    return float(dropout)


def _drops_unknown(item: dict[str, Any], own: bool) -> bool | Literal["after merging"]:
    """Whether symbols without a token are left out, as `tokenizers` does; this package's files say if they raise."""
    rule = get_text(item, "model", "unknown_symbols")
    if own and rule == f"drop {AFTER_MERGING}":
        return AFTER_MERGING
    if rule not in (None, "error", "drop"):
        refuse("model.unknown_symbols", rule, 'it must be "error" or "drop"', "remove it for what `tokenizers` does")
    return rule == "drop" if own else rule != "error"


def _check_bytes(item: dict[str, Any], vocab: dict[str, int] | KernelLists) -> None:
    """Refuse byte_fallback in a byte-level model that lacks bytes; it has no effect if it has all of them."""
    if get(item, "model", "byte_fallback", bool, False):
        lacking = [letter for letter in byte_letters() if letter not in vocab]
        if lacking:
            rule = f"the byte-level vocab lacks {counted(len(lacking), 'byte')}, such as {lacking[0]!r}: {LATER}"
            refuse("model.byte_fallback", True, rule, "add all 256 bytes to the vocab, or set it to false")


def _vocab(item: dict[str, Any]) -> dict[str, int]:
    vocab: dict[str, int] = get(item, "model", "vocab", dict)
    numbers = vocab.values()
    if numbers and (set(map(type, numbers)) != {int} or not 0 <= min(numbers) <= max(numbers) < ID_LIMIT):
        for token, number in vocab.items():
            token_id(number, f"model.vocab[{shown(token)}]")
    if "" in vocab:
        raise FormatError("a token is empty; it must have at least one character", where="model.vocab['']")
    return vocab


def _specials_in_vocab(
    vocab: dict[str, int] | KernelLists, added: AddedTokens, unk: str | None
) -> tuple[dict[str, int], dict[str, int]]:
    """Remove the special tokens from the vocab; one that is not in it must have the next free id, as in `tokenizers`.

    Returns:
        name → id of all special tokens, the unknown token included, and the same of those that were in the vocab.

    """
    special, following = dict(added.ids), len(vocab)
    found = [vocab.pop(name, None) for name in special] if isinstance(vocab, dict) else vocab.pop_all(special)
    for (name, number), wanted in zip(special.items(), found, strict=True):
        if wanted is None:
            wanted = number if added.keep_ids else following
            following += 1
        if number != wanted:
            refuse(f"added token {name!r}", number, f"`tokenizers` gives it the id {wanted}", f"write {wanted} there")
    known = {name: number for name, number in zip(special, found, strict=True) if number is not None}
    if unk is not None and unk not in special:
        if unk not in vocab:
            refuse("model.unk_token", unk, "it must be a token of the vocab", "add it to the vocab, or set it to null")
        (number,) = [vocab.pop(unk)] if isinstance(vocab, dict) else cast("list[int]", vocab.pop_all([unk]))
        special[unk] = known[unk] = number
    return special, known


def _take_unspelled(vocab: dict[str, int]) -> dict[str, int]:
    """Remove the tokens of a byte model's vocab that are not spelled in GPT-2's letters. Encoding never produces them.

    Some published files have such tokens, for example emoji. Decoding gives their own text.
    """
    codes = np.frombuffer("".join(vocab).encode("utf-16-le"), dtype=np.uint16)
    if np.all(byte_by_letter()[codes] >= 0):
        return {}
    letters = letter_bytes().keys()
    return {token: vocab.pop(token) for token in [token for token in vocab if not letters >= set(token)]}


def _ordinary(model: str, vocab: dict[str, int]) -> list[tuple[int, bytes]]:
    return [(number, from_text(model, token)) for token, number in vocab.items()]


def _vocabulary_in_order(vocab: dict[str, int], special: dict[str, int]) -> Vocabulary | None:
    """The vocabulary of a byte model whose ids ascend in the file, without a Python object for each token.

    Returns None for any other vocab, valid or not; `_ordinary` and `Vocabulary` handle those.
    """
    numbers = np.array(list(vocab.values()), dtype=np.int32)
    codes = np.frombuffer("".join(vocab).encode("utf-16-le"), dtype=np.uint16)
    found = byte_by_letter()[codes]
    by_id = {number: name.encode() for name, number in special.items()}
    if not len(numbers) or np.any(numbers[1:] <= numbers[:-1]) or np.any(found < 0):
        return None
    own = np.array(list(by_id), dtype=np.int64)
    if len(own) < len(special) or "" in special or np.any(numbers[np.searchsorted(numbers, own) - len(numbers)] == own):
        return None
    offsets = offsets_of(list(map(len, vocab)))  # a letter is a byte
    blob = found.astype(np.uint8).tobytes()
    return make_at("model.vocab", lambda: Vocabulary.from_sorted(blob, offsets, numbers, by_id))


def _merges(
    item: dict[str, Any], vocab: dict[str, int], special: dict[str, int], prefix: str = ""
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """(pairs of ids, merge results). The right part of a merge loses the prefix, as in `tokenizers`."""
    listed = get(item, "model", "merges", list)
    kinds = set(map(type, listed))
    if prefix:
        return _merges_one_by_one(listed, vocab, special, prefix)
    try:
        pairs = [merge.split(" ") for merge in listed] if kinds == {str} else listed if kinds == {list} else []
        texts = list(chain.from_iterable(pairs))
        parts = np.fromiter(map(vocab.__getitem__, texts), dtype=np.int64, count=len(texts))
        results = np.fromiter(map(vocab.__getitem__, map(add, texts[0::2], texts[1::2])), np.int64, len(texts) // 2)
    except (KeyError, TypeError, ValueError):
        return _merges_one_by_one(listed, vocab, special)
    if len(pairs) < len(listed) or not set(map(len, pairs)) <= {2}:
        return _merges_one_by_one(listed, vocab, special)
    keys = np.sort(parts[0::2] << 32 | parts[1::2])
    if np.any(keys[1:] == keys[:-1]):
        return _merges_one_by_one(listed, vocab, special)
    return parts.astype(np.int32).reshape(-1, 2), results.astype(np.int32)


def _merges_one_by_one(
    listed: list[Any], vocab: dict[str, int], special: dict[str, int], prefix: str = ""
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """(pairs of ids, merge results) of any list; errors name the position."""
    merges: dict[tuple[int, int], int] = {}
    for i, merge in enumerate(listed):
        try:
            left, right = merge.split(" ") if type(merge) is str else merge
            pair, number = (vocab[left], vocab[right]), vocab[left + _without(prefix, right)]
        except (KeyError, TypeError, ValueError, AttributeError):
            raise FormatError(_merge_fault(merge, vocab, special, prefix), where=f"model.merges[{i}]") from None
        if type(merge) is dict or merges.setdefault(pair, number) != number or len(merges) != i + 1:
            fault = "it is not a pair" if type(merge) is dict else "it occurs twice; merges must be unique"
            raise FormatError(f"{shown(merge)}: {fault}", where=f"model.merges[{i}]")
    results = np.array(list(merges.values()), dtype=np.int32)
    return np.array(list(merges), dtype=np.int32).reshape(-1, 2), results


def _without(prefix: str, right: str) -> str:
    """The right part of a merge without as many bytes as the prefix has, whatever they are.

    Raises:
        ValueError: if nothing or no whole character is left.

    """
    if not prefix:
        return right
    rest = right.encode()[len(prefix.encode()) :]
    if not rest:
        raise ValueError(f"{right!r} is no longer than the prefix {prefix!r}")
    return rest.decode()


def _merge_fault(merge: object, vocab: dict[str, int], special: dict[str, int], prefix: str) -> str:
    pair = merge.split(" ") if isinstance(merge, str) else merge
    if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(part, str) for part in pair):
        return f'{shown(merge)} is not a merge; it must be ["left", "right"] or "left right"'
    left, right = pair
    try:
        product = left + _without(prefix, right)
    except ValueError:
        return f"{shown(merge)}: its right part must be longer than the prefix {prefix!r}"
    for token, role in ((left, "left part"), (right, "right part"), (product, "product")):
        if token in special:
            return f"{shown(merge)}: its {role} {token!r} is a special or the unknown token; {LATER}"
        if token not in vocab:
            return f"{shown(merge)}: its {role} {shown(token)} is not in the vocab; it must be"
    raise AssertionError(merge)


def _ids(item: dict[str, Any], name: str, vocabulary: Vocabulary) -> list[int]:
    numbers = get(item, "model", name, list)
    return [known_id(number, f"model.{name}[{i}]", vocabulary) for i, number in enumerate(numbers)]


def _ranks(item: dict[str, Any], count: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    ranks = get(item, "model", "merge_ranks", list)
    for i, rank in enumerate(ranks):
        token_id(rank, f"model.merge_ranks[{i}]")
    if len(ranks) != count:
        raise FormatError(
            f"it has {counted(len(ranks), 'rank')} for {counted(count, 'merge')}; each merge must have one",
            where="model.merge_ranks",
        )
    return np.array(ranks, dtype=np.int32)
