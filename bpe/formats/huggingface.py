"""Reads Hugging Face's tokenizer.json, the native format of this package, and the package's extensions of it.

A tokenizer that `tokenizers` (0.20 and newer) can express is saved in its schema, and gives the same ids there. Other
tokenizers are saved in the same schema with types that `tokenizers` rejects:

- model `bpe.BPE`: an end-of-word mark that is a symbol of its own, merges that share ranks, CLIP's start and end token,
  or a special token spelled like an ordinary one. Its vocab holds only the ordinary tokens; the ids of special tokens
  are in added_tokens, that of the unknown token in unk_id.
- normalizers `bpe.UnescapeHTML`, `bpe.FixText`, `bpe.Lowercase` (with final sigma) and `bpe.Replace`;
- pre_tokenizer `bpe.Regex`: a pattern of the `regex` package that may mean something else to Oniguruma, the engine of
  `tokenizers` (see `oniguruma.py`), or such a pattern with a prefix space. `bpe.Replace` holds such a pattern, too.

(For an unknown type, `tokenizers` guesses it from the fields: `bpe.Strip` with Strip's fields would load as Strip.)

The reader accepts these files and those that `tokenizers` writes for a byte-level or character-level BPE. It rejects
anything unknown that could change ids; it ignores fields that affect only offsets (trim_offsets). The writer is in
`huggingface_write.py`.

A named pretokenizer is saved with a field `unicode_version` in the outermost object of pre_tokenizer, where
`tokenizers` ignores it (at the top of the file it would not). A file with another version than this release's is
rejected; a file without the field, as other programs write it, is accepted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from itertools import chain
from operator import add, itemgetter
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from bpe.base.offsets import offsets_of
from bpe.errors import FormatError, counted, shown
from bpe.formats import _json_tokens as jsontokens
from bpe.formats.huggingface_write import (
    COLLAPSE,
    DIGITS,
    MAX_DEPTH,
    PREFIXED,
    WORDS,
    differs,
    ending,
    from_text,
    spelled_all,
    unreadable,
    write,
)
from bpe.formats.json_fields import LATER, as_object, get, get_text, load, make_at, refuse, type_of
from bpe.formats.oniguruma import NAMED, escaped, means_the_same, published
from bpe.pretokenize.patterns import DEEPSEEK_STEPS, DEEPSEEK_STEPS_ESCAPED
from bpe.pretokenize.pretokenizer import Gaps, Pretokenizer, check_unicode_version
from bpe.text import normalizers as n
from bpe.vocab.byte_letters import letter_bytes
from bpe.vocab.spec import FLAGS, Model, TokenizerSpec
from bpe.vocab.special_tokens import effective_flags
from bpe.vocab.vocabulary import ID_LIMIT, Vocabulary, end_to_end

__all__ = ["read", "unreadable", "write"]

_TOP = (
    "version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder",
    "model",
)  # fmt: skip
_MODEL = (
    "type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback",
    "ignore_merges", "vocab", "merges",
)  # fmt: skip
_OWN_MODEL = (
    "type", "unk_token", "unk_id", "fuse_unk", "ignore_merges", "end_of_word", "end_of_word_glued", "ends_word", "clip",
    "merge_ranks", "vocab", "merges",
)  # fmt: skip
#: The patterns of the three Splits that are DeepSeek's pretokenizer, as published and with CR and LF as escapes.
DEEPSEEK_SPLITS = (list(DEEPSEEK_STEPS), list(DEEPSEEK_STEPS_ESCAPED))
_TOKEN = ("id", "content", "single_word", "lstrip", "rstrip", "normalized", "special")


def read(data: bytes, path: str | None = None) -> TokenizerSpec:
    """Read a tokenizer.json.

    Args:
        data: the content of the file.
        path: its path, for errors.

    Raises:
        FormatError: for an invalid file, and for a feature that this release does not support.

    """
    try:
        return _read_with_kernel(data) or _read(load(data))
    except FormatError as error:
        raise FormatError(error.message, path=path, where=error.where) from None


#: The placeholders of the vocab and the merges for `json`. They are numbers, because JSON spells a number in one way.
_PLACEHOLDERS = (8273645190382745101, 8273645190382745102)
_VOCAB, _MERGES = re.compile(rb'"vocab"\s*:\s*(?=\{)'), re.compile(rb'"merges"\s*:\s*(?=\[)')


def _read_with_kernel(data: bytes) -> TokenizerSpec | None:
    """The fast path of `read`. Returns None for an unusual or invalid file.

    A kernel reads the vocab and the merges; `json` reads the rest, with a placeholder number in place of each of them.
    If `json` finds the placeholders as fields of the model, then the kernel has read the values of these fields.
    """
    vocab, merges = _VOCAB.search(data), _MERGES.search(data)
    if vocab is None or merges is None or any(str(number).encode() in data for number in _PLACEHOLDERS):
        return None
    tokens = jsontokens.read_vocab(data, vocab.end(), _byte_by_letter()[:512])
    pairs = None if tokens is None else tokens.merges(data, merges.end())
    if tokens is None or pairs is None:
        return None
    rest, done = [], 0
    for start, end, placeholder in sorted(
        ((vocab.end(), tokens.end, _PLACEHOLDERS[0]), (merges.end(), pairs[2], _PLACEHOLDERS[1]))
    ):
        rest += [data[done:start], str(placeholder).encode()]
        done = end
    try:
        value = load(b"".join([*rest, data[done:]]))
        model = value.get("model") if isinstance(value, dict) else None
        if not isinstance(model, dict) or (model.get("vocab"), model.get("merges")) != _PLACEHOLDERS:
            return None
        return _read(value, _KernelLists(tokens, *pairs[:2]))
    except (FormatError, _UnusualError):
        return None


class _UnusualError(Exception):
    """Raised by the fast path for a file that it does not support."""


class _KernelLists:
    """The vocab and the merges as the kernel read them. Tokens can be removed from the vocab."""

    def __init__(self, tokens: jsontokens.VocabTokens, pairs: NDArray[np.int32], results: NDArray[np.int32]) -> None:
        self.tokens, self.pairs, self.results = tokens, pairs, results
        self._removed: dict[int, int] = {}  # the removed tokens: index → id
        self.others: dict[str, int] = {}  # the tokens that are not spelled in GPT-2's letters
        for string, number in tokens.others:
            token = load(string)
            if not isinstance(token, str) or not token or token in self.others:
                raise _UnusualError
            self.others[token] = number

    def __len__(self) -> int:
        return len(self.tokens)

    def __contains__(self, token: str) -> bool:
        return token in self.others or self.tokens.find(*spelled_all("byte", [token])) >= 0

    def pop_all(self, tokens: Iterable[str]) -> list[int | None]:
        """Remove distinct tokens; returns the id of each, or None for a token that is not in the vocab."""
        tokens = list(tokens)
        numbers: list[int | None] = [None] * len(tokens)
        for i, index in enumerate(map(self.tokens.find, spelled_all("byte", tokens))):
            if index >= 0 and index not in self._removed:
                numbers[i] = self._removed[index] = int(self.tokens.numbers[index])
        if self.others:
            numbers = [self.others.pop(token, number) for token, number in zip(tokens, numbers, strict=True)]
        return numbers

    def vocabulary(self, special: dict[str, int]) -> Vocabulary:
        """The vocabulary of the remaining tokens and the special tokens; raises _UnusualError for a repeated id."""
        blob, offsets, numbers = self.tokens.blob, self.tokens.offsets, self.tokens.numbers
        removed = np.array(list(self._removed.values()), dtype=np.int32)
        if np.isin(removed, self.pairs).any() or np.isin(removed, self.results).any():
            raise _UnusualError
        order = np.argsort(numbers, kind="stable")
        if len(removed) or np.any(order[1:] < order[:-1]):
            order = order[~np.isin(order, list(self._removed))]
            numbers = numbers[order]
            blob, offsets = end_to_end(blob, offsets[order], np.diff(offsets)[order])
        if np.any(numbers[1:] == numbers[:-1]):
            raise _UnusualError
        by_id = {number: name.encode() for name, number in special.items()}
        own = np.array(list(by_id), dtype=np.int32)
        if not len(numbers) or len(own) < len(special) or np.isin(own, numbers).any() or "" in special:
            raise _UnusualError
        return Vocabulary.from_sorted(blob.tobytes(), offsets, numbers, by_id)

    def merges(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """(pairs of ids, merge results); raises _UnusualError for a repeated pair."""
        keys = np.sort(self.pairs[:, 0].astype(np.int64) << 32 | self.pairs[:, 1])
        if np.any(keys[1:] == keys[:-1]):
            raise _UnusualError
        return self.pairs, self.results


def _read(value: object, listed: _KernelLists | None = None) -> TokenizerSpec:
    top = as_object(value, "the file", _TOP)
    if top.get("version", "1.0") != "1.0":
        refuse("version", top["version"], 'the version known is "1.0"', "save it with a current tokenizers")
    _check_kind(top.get("model"))
    for name in ("truncation", "padding"):
        if top.get(name) is not None:
            refuse(name, top[name], f"it must be null: {LATER}", f"save the tokenizer without {name} (no_{name}())")
    byte, pretokenizer = _pre_tokenizer(top.get("pre_tokenizer"))
    normalizer = None if top.get("normalizer") is None else _normalizer(top["normalizer"], "normalizer")
    added, flags = _added_tokens(top.get("added_tokens", []), normalizer)
    if "model" not in top:
        raise FormatError("it has no model; a tokenizer.json has one", where="the file")
    own = type_of(top["model"], "model", "BPE") == "bpe.BPE"
    if listed is not None and (own or not byte):
        raise _UnusualError
    spec = _model(top["model"], own, byte, added, pretokenizer, normalizer, listed)
    template = _template(top.get("post_processor"), "post_processor", spec.vocabulary)
    spec = replace(spec, token_flags=flags, template=template if any(template) else None)
    if not own and (reason := differs(spec, distinct=True)) is not None:
        raise FormatError(f"{reason}; {LATER}: rename that token or switch off that option", where="model")
    _check_decoder(top.get("decoder"), byte, spec)
    return spec


def _check_kind(model: object) -> None:
    """Reject unsupported model types first."""
    kind = type_of(model, "model", "BPE") if isinstance(model, dict) else "BPE"
    if kind not in ("BPE", "bpe.BPE"):
        refuse("model.type", kind, "it must be BPE", "other models are not byte-pair encoding")
    if isinstance(model, dict) and model.get("byte_fallback") is True:
        refuse(
            "model.byte_fallback", True,
            f"it must be false: the vocabulary is of SentencePiece's kind (Llama 2, Gemma), and {LATER}",
            "use a tokenizer with a byte-level model",
        )  # fmt: skip


# Normalizer and pretokenizer ------------------------------------------------------------------------------------------


def _normalizer(value: object, where: str, depth: int = 0) -> n.Normalizer:
    kind = type_of(value, where)
    assert isinstance(value, dict)
    if kind == "Sequence":
        if depth == MAX_DEPTH:
            raise FormatError(f"nested more than {MAX_DEPTH} deep; a Sequence of one level does the same", where=where)
        steps = get(as_object(value, where, ("type", "normalizers")), where, "normalizers", list)
        return n.Sequence(*(_normalizer(each, f"{where}.normalizers[{i}]", depth + 1) for i, each in enumerate(steps)))
    if kind in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase"):
        as_object(value, where, ("type",))
        simple: n.Normalizer = getattr(n, kind)()
        return simple
    if kind == "Strip":
        as_object(value, where, ("type", "strip_left", "strip_right"))
        return n.Strip(get(value, where, "strip_left", bool), get(value, where, "strip_right", bool))
    if kind == "Replace":
        pattern = _pattern(as_object(value, where, ("type", "pattern", "content")), where)
        content = get(value, where, "content", str)
        if (pattern, content) == COLLAPSE:
            return n.CollapseWhitespace()
        return make_at(where, lambda: n.Replace(pattern, content))
    if kind in ("bpe.UnescapeHTML", "bpe.FixText", "bpe.Lowercase", "bpe.Replace"):
        return make_at(where, lambda: n.from_json({**value, "type": kind.removeprefix("bpe.")}))
    known = "Sequence, NFC, NFD, NFKC, NFKD, Lowercase, Strip and Replace"
    raise FormatError(f"a normalizer of type {kind!r} is not known; {LATER}. Known are {known}", where=where)


def _pattern(item: dict[str, Any], where: str) -> str:
    """The pattern of a Split or a Replace, in the syntax of the `regex` package."""
    where += ".pattern"
    pattern = as_object(item.get("pattern"), where, ("Regex", "String"))
    if len(pattern) != 1:
        refuse(where, pattern, "it must have either Regex or String", "remove the other")
    (kind,) = pattern
    text = get(pattern, where, kind, str)
    if not text:
        refuse(where, text, "it must not be empty", "remove this step, which does nothing")
    if kind == "String":
        return escaped(text)
    if text not in NAMED and not means_the_same(text):
        refuse(
            where, text, "it may mean different things to Oniguruma and the `regex` package, or it can match the empty "
            "string", "rewrite it without anchors, \\w, \\b, flags, look-behind and {n,m}+",
        )  # fmt: skip
    return text


def _pre_tokenizer(value: object) -> tuple[bool, Pretokenizer | None]:
    """(whether the model is byte-level, its pretokenizer). Checks the `unicode_version` of this package's files."""
    if isinstance(value, dict) and "unicode_version" in value:
        value = dict(value)
        version = value.pop("unicode_version")
        byte, pretokenizer = _pre_tokenizer(value)
        make_at("pre_tokenizer", lambda: check_unicode_version(pretokenizer, version))
        return byte, pretokenizer
    where, steps = "pre_tokenizer", [] if value is None else [value]
    positions = [where]
    if value is not None and type_of(value, where) == "Sequence":
        steps = get(as_object(value, where, ("type", "pretokenizers")), where, "pretokenizers", list)
        positions = [f"{where}.pretokenizers[{i}]" for i in range(len(steps))]
    kinds = [type_of(step, position) for step, position in zip(steps, positions, strict=False)]
    byte = bool(kinds) and kinds[-1] == "ByteLevel"
    if [_isolated(step, kind) for step, kind in zip(steps[:3], kinds, strict=False)] in DEEPSEEK_SPLITS:
        steps = [{"type": "bpe.Regex", "name": "deepseek_v3", "add_prefix_space": False}, *steps[3:]]
        kinds, positions = ["bpe.Regex", *kinds[3:]], [where, *positions[3:]]
    if steps[:1] == [DIGITS] and byte and len(steps) == 2:
        level = cast("dict[str, Any]", steps[1])
        if level.get("use_regex", True) is True and level.get("add_prefix_space") is False:
            steps = [{"type": "bpe.Regex", "name": "starcoder", "add_prefix_space": False}]
            steps.append({**level, "use_regex": False})
            kinds[0] = "bpe.Regex"
    if len(steps) - byte > 1:
        rule = f"a Sequence must be at most one splitter and one ByteLevel after it: {LATER}"
        refuse(where, value, rule, "combine the splitters into one pattern")
    splitter = _splitter(steps[0], kinds[0], positions[0]) if len(steps) > byte else None
    if not byte:
        return False, splitter
    level = as_object(steps[-1], positions[-1], ("type", "add_prefix_space", "trim_offsets", "use_regex"))
    prefix = get(level, positions[-1], "add_prefix_space", bool)
    use_regex = get(level, positions[-1], "use_regex", bool, True)
    if splitter is not None and (prefix or use_regex):
        refuse(
            f"{positions[-1]}.{'add_prefix_space' if prefix else 'use_regex'}", True,
            f"after another pre_tokenizer, add_prefix_space and use_regex must be false: {LATER}",
            "set both to false if that is what the tokenizer was trained with",
        )  # fmt: skip
    if use_regex:
        return True, Pretokenizer("gpt2", add_prefix_space=prefix)
    return True, PREFIXED if prefix else splitter


def _isolated(value: Any, kind: str) -> object:
    """The pattern of a Split that keeps unmatched text; None for any other step."""
    if kind == "Split" and value.get("behavior") == "Isolated" and value.get("invert") is False:
        pattern = value.get("pattern")
        return pattern.get("Regex") if isinstance(pattern, dict) and len(pattern) == 1 and len(value) == 4 else None
    return None


def _splitter(value: object, kind: str, where: str) -> Pretokenizer:
    assert isinstance(value, dict)
    if kind in ("WhitespaceSplit", "Whitespace"):
        as_object(value, where, ("type",))
        return WORDS if kind == "Whitespace" else Pretokenizer("whitespace")
    if kind == "bpe.Regex":
        as_object(value, where, ("type", "name", "pattern", "gaps", "add_prefix_space"))
        prefix = get(value, where, "add_prefix_space", bool)
        if "name" in value:
            return make_at(where, lambda: Pretokenizer(value["name"], add_prefix_space=prefix))
        pattern, own = get(value, where, "pattern", str), cast("Gaps", get(value, where, "gaps", str))
        return make_at(where, lambda: Pretokenizer.from_regex(pattern, gaps=own, add_prefix_space=prefix))
    if kind == "Digits":
        individual = get(as_object(value, where, ("type", "individual_digits")), where, "individual_digits", bool)
        rule = f"it must be true, and its ByteLevel must have use_regex true and add_prefix_space false: {LATER}"
        refuse(f"{where}.individual_digits", individual, rule, "write a Split with a pattern of the pretokens")
    if kind != "Split":
        refuse(
            where, value, f"a pre_tokenizer of type {kind!r} is not known: {LATER}",
            "known are ByteLevel, Split, WhitespaceSplit, Whitespace, a Sequence of one of these and ByteLevel, and a "
            "Sequence of Digits (individual_digits) and ByteLevel (use_regex)",
        )  # fmt: skip
    pattern = _pattern(as_object(value, where, ("type", "pattern", "behavior", "invert")), where)
    behavior, invert = get(value, where, "behavior", str), get(value, where, "invert", bool)
    if behavior == "Removed" and not invert and pattern in (r"\s+", r"\s"):
        return Pretokenizer("whitespace")
    if behavior != "Isolated" and not (behavior == "Removed" and invert):
        rule = f"it must be Isolated, or Removed with invert (which is {invert}): {LATER}"
        refuse(f"{where}.behavior", behavior, rule, "write the pattern of the pretokens themselves")
    gaps: Gaps = "keep" if behavior == "Isolated" else "drop"
    if (name := published(pattern, gaps)) is not None:
        return Pretokenizer(name)
    return make_at(where, lambda: Pretokenizer.from_regex(pattern, gaps=gaps))


# Added tokens and model -----------------------------------------------------------------------------------------------


def _added_tokens(value: object, normalizer: n.Normalizer | None) -> tuple[dict[str, int], dict[str, frozenset[str]]]:
    """(name → id of the special and other added tokens, in the file's order; name → flags that have an effect)."""
    if not isinstance(value, list):
        raise FormatError(f"{shown(value)} is not a list", where="added_tokens")
    names, flags = _usual_added_tokens(value) or _added_one_by_one(value)
    return names, effective_flags(flags, normalizer)


def _usual_added_tokens(value: list[Any]) -> tuple[dict[str, int], dict[str, frozenset[str]]] | None:
    """The fast path of `_added_one_by_one`, for valid lists whose tokens have all fields; None for other lists."""
    if not value or set(map(type, value)) != {dict} or set(map(len, value)) != {len(_TOKEN)}:
        return None
    try:
        ids, contents, *columns = [list(map(itemgetter(field), value)) for field in _TOKEN]
    except KeyError:
        return None
    if set(map(type, ids)) != {int} or set(map(type, contents)) != {str} or not 0 <= min(ids) <= max(ids) < ID_LIMIT:
        return None
    if set(chain.from_iterable(map(type, column) for column in columns)) != {bool} or "" in contents:
        return None
    if len(set(ids)) < len(ids) or len(set(contents)) < len(contents):
        return None
    codes = np.zeros(len(value), dtype=np.uint8)  # one bit per flag of a token
    for i, column in enumerate(columns):
        codes |= np.fromiter(column, np.uint8, len(column)) << np.uint8(i)
    of_code: dict[int, frozenset[str]] = {}
    for code in np.unique(codes).tolist():
        given = {flag: bool(code >> i & 1) for i, flag in enumerate(_TOKEN[2:])}
        own = {flag for flag in FLAGS[1:] if given[flag]}
        of_code[code] = frozenset(own if given["special"] else {*own, "ordinary"})
    flags = map(of_code.__getitem__, codes.tolist())
    return dict(zip(contents, ids, strict=True)), dict(zip(contents, flags, strict=True))


def _added_one_by_one(value: list[Any]) -> tuple[dict[str, int], dict[str, frozenset[str]]]:
    """(name → id, name → flags) of any list; errors name the position."""
    names: dict[str, int] = {}
    flags: dict[str, frozenset[str]] = {}
    numbers: set[int] = set()
    for i, item in enumerate(value):
        where = f"added_tokens[{i}]"
        token = as_object(item, where, _TOKEN)
        name, number = get(token, where, "content", str), _id(token.get("id"), f"{where}.id")
        own = {flag for flag in FLAGS[1:] if get(token, where, flag, bool, False)}
        if not get(token, where, "special", bool, True):
            own.add("ordinary")
        if not name or name in names or number in numbers:
            refuse(where, item, "a token must not be empty, and its text and its id must be unique", "remove it")
        names[name] = number
        numbers.add(number)
        flags[name] = frozenset(own)
    return names, flags


def _template(value: Any, where: str, vocabulary: Vocabulary) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ids that a post-processor puts before and after a single text."""
    if value is None or (kind := type_of(value, where)) == "ByteLevel":
        return (), ()
    if kind == "Sequence":
        before: tuple[int, ...] = ()
        after: tuple[int, ...] = ()
        for i, each in enumerate(get(value, where, "processors", list)):
            outer = _template(each, f"{where}.processors[{i}]", vocabulary)
            before, after = outer[0] + before, after + outer[1]
        return before, after
    if kind in ("RobertaProcessing", "BertProcessing"):
        first, last = (get(value, where, name, list) for name in ("cls", "sep"))
        ids = [_known(pair[1] if len(pair) == 2 else None, where, vocabulary) for pair in (first, last)]
        return (ids[0],), (ids[1],)
    if kind != "TemplateProcessing":
        refuse(
            where, value, f"a post_processor of type {kind!r} is not known: {LATER}",
            "known are ByteLevel, TemplateProcessing, RobertaProcessing, BertProcessing and a Sequence of them; set it "
            "to null and add such tokens yourself",
        )  # fmt: skip
    tokens = get(value, where, "special_tokens", dict)
    sides: list[list[int]] = [[]]
    for i, piece in enumerate(get(value, where, "single", list)):
        position = f"{where}.single[{i}]"
        if not isinstance(piece, dict) or len(piece) != 1 or not {"SpecialToken", "Sequence"} & piece.keys():
            raise FormatError(
                f"{shown(piece)} is neither a SpecialToken nor a Sequence; it must be one", where=position
            )
        ((kind, content),) = piece.items()
        name = get(as_object(content, position, ("id", "type_id")), position, "id", str)
        if kind == "Sequence":
            sides.append([])
            continue
        listed = tokens.get(name)
        numbers = listed.get("ids") if isinstance(listed, dict) else None
        if not isinstance(numbers, list):
            raise FormatError(f"{shown(name)} has no ids in special_tokens; it must have them there", where=position)
        sides[-1] += [_known(number, f"{where}.special_tokens[{shown(name)}].ids", vocabulary) for number in numbers]
    if len(sides) != 2:
        refuse(f"{where}.single", value["single"], f"it must have one Sequence: {LATER}", "set post_processor to null")
    return tuple(sides[0]), tuple(sides[1])


def _known(number: object, where: str, vocabulary: Vocabulary) -> int:
    """Return `number` if it is the id of a token; raise FormatError otherwise."""
    if _id(number, where) not in vocabulary:
        raise FormatError(f"no token has the id {number}; it must be the id of a token", where=where)
    assert isinstance(number, int)
    return number


def _id(value: object, where: str) -> int:
    if type(value) is not int or not 0 <= value < ID_LIMIT:
        raise FormatError(f"{shown(value)} is not a token id; it must be an int from 0 to {ID_LIMIT - 1}", where=where)
    return value


def _model(
    value: dict[str, Any],
    own: bool,
    byte: bool,
    added: dict[str, int],
    pretokenizer: Pretokenizer | None,
    normalizer: n.Normalizer | None,
    listed: _KernelLists | None,
) -> TokenizerSpec:
    item = as_object(value, "model", _OWN_MODEL if own else _MODEL)
    model: Model = "byte" if byte else "char"
    unk = get_text(item, "model", "unk_token")
    vocab = {} if listed is not None else _vocab(item)
    if own:
        special = dict(added)
        mark = get_text(item, "model", "end_of_word")
        glued = get(item, "model", "end_of_word_glued", bool, False)
        if unk is not None:
            special[unk] = _id(item.get("unk_id"), "model.unk_id")
    else:
        _check_plain(item)
        suffix = get_text(item, "model", "end_of_word_suffix")
        mark = suffix and (make_at("model.end_of_word_suffix", lambda: from_text(model, suffix).decode()))
        glued = mark is not None
        special = _specials_in_vocab(vocab if listed is None else listed, added, unk)
    if listed is not None:
        special = {**special, **listed.others}
        vocabulary = make_at("model.vocab", lambda: listed.vocabulary(special))
        merges, merge_results = listed.merges()
    else:
        vocabulary, merges, merge_results = _tokens(item, model, byte, vocab, special)
    ends = None if mark is None else ending(vocabulary, mark, glued)
    if own and item.get("ends_word") is not None and ends is not None:
        ends = np.zeros(vocabulary.limit, dtype=np.bool_)
        ends[_ids(item, "ends_word", vocabulary)] = True
    ranks = _ranks(item, len(merges)) if item.get("merge_ranks") is not None else None
    clip = _ids(item, "clip", vocabulary) if item.get("clip") is not None else None
    if clip is not None and len(clip) != 2:
        raise FormatError(
            f"it is {shown(clip)}; it must be two ids, of the start and the end token", where="model.clip"
        )
    return TokenizerSpec(
        model=model,
        vocabulary=vocabulary,
        merges=merges,
        merge_results=merge_results,
        merge_ranks=ranks,
        pretokenizer=pretokenizer,
        normalizer=normalizer,
        special_tokens=dict(added),
        unk_token=unk,
        fuse_unk=get(item, "model", "fuse_unk", bool, False),
        end_of_word=mark,
        end_of_word_glued=glued and mark is not None,
        ends_word=ends,
        ignore_merges=get(item, "model", "ignore_merges", bool, False),
        clip=None if clip is None else (clip[0], clip[1]),
    )


def _tokens(
    item: dict[str, Any], model: Model, byte: bool, vocab: dict[str, int], special: dict[str, int]
) -> tuple[Vocabulary, NDArray[np.int32], NDArray[np.int32]]:
    """(vocabulary, pairs of ids, merge results)."""
    special = {**special, **(_take_unspelled(vocab) if byte else {})}
    vocabulary = _vocabulary_in_order(vocab, special) if byte else None
    if vocabulary is None:
        tokens = _ordinary(model, vocab)
        vocabulary = make_at(
            "model.vocab", lambda: Vocabulary(tokens, ((number, name.encode()) for name, number in special.items()))
        )
    return vocabulary, *_merges(item, vocab, special)


def _check_plain(item: dict[str, Any]) -> None:
    """Reject options of Hugging Face's BPE that are not supported."""
    if item.get("dropout") is not None and (type(item["dropout"]) not in (int, float) or item["dropout"] != 0):
        refuse("model.dropout", item["dropout"], f"it must be null or 0: {LATER}", "set it to null")
    get(item, "model", "byte_fallback", bool, False)  # checks the type; `_check_kind` has rejected true
    if (prefix := get_text(item, "model", "continuing_subword_prefix")) is not None:
        refuse("model.continuing_subword_prefix", prefix, f"it must be null: {LATER}", "train without it")


def _vocab(item: dict[str, Any]) -> dict[str, int]:
    vocab: dict[str, int] = get(item, "model", "vocab", dict)
    numbers = vocab.values()
    if numbers and (set(map(type, numbers)) != {int} or not 0 <= min(numbers) <= max(numbers) < ID_LIMIT):
        for token, number in vocab.items():
            _id(number, f"model.vocab[{shown(token)}]")
    if "" in vocab:
        raise FormatError("a token is empty; it must have at least one character", where="model.vocab['']")
    return vocab


def _specials_in_vocab(vocab: dict[str, int] | _KernelLists, added: dict[str, int], unk: str | None) -> dict[str, int]:
    """Remove the special tokens from the vocab; one that is not in it must have the next free id, as in `tokenizers`.

    Returns name → id of all special tokens, including the unknown token.
    """
    special, following = dict(added), len(vocab)
    known = [vocab.pop(name, None) for name in added] if isinstance(vocab, dict) else vocab.pop_all(added)
    for (name, number), wanted in zip(added.items(), known, strict=True):
        if wanted is None:
            wanted = following
            following += 1
        if number != wanted:
            refuse(f"added token {name!r}", number, f"`tokenizers` gives it the id {wanted}", f"write {wanted} there")
    if unk is not None and unk not in special:
        if unk not in vocab:
            refuse("model.unk_token", unk, "it must be a token of the vocab", "add it to the vocab, or set it to null")
        (special[unk],) = [vocab.pop(unk)] if isinstance(vocab, dict) else cast("list[int]", vocab.pop_all([unk]))
    return special


def _take_unspelled(vocab: dict[str, int]) -> dict[str, int]:
    """Remove the tokens of a byte model's vocab that are not spelled in GPT-2's letters. Encoding never produces them.

    Some published files have such tokens, for example emoji. Decoding gives their own text.
    """
    codes = np.frombuffer("".join(vocab).encode("utf-16-le"), dtype=np.uint16)
    if np.all(_byte_by_letter()[codes] >= 0):
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
    found = _byte_by_letter()[codes]
    by_id = {number: name.encode() for name, number in special.items()}
    if not len(numbers) or np.any(numbers[1:] <= numbers[:-1]) or np.any(found < 0):
        return None
    own = np.array(list(by_id), dtype=np.int64)
    if len(own) < len(special) or "" in special or np.any(numbers[np.searchsorted(numbers, own) - len(numbers)] == own):
        return None
    offsets = offsets_of(list(map(len, vocab)))  # a letter is a byte
    blob = found.astype(np.uint8).tobytes()
    return make_at("model.vocab", lambda: Vocabulary.from_sorted(blob, offsets, numbers, by_id))


@cache
def _byte_by_letter() -> NDArray[np.int16]:
    """UTF-16 code unit → byte whose GPT-2 letter it is, or -1."""
    table = np.full(1 << 16, -1, dtype=np.int16)
    for letter, byte in letter_bytes().items():
        table[ord(letter)] = byte
    return table


def _merges(
    item: dict[str, Any], vocab: dict[str, int], special: dict[str, int]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """(pairs of ids, merge results)."""
    listed = get(item, "model", "merges", list)
    kinds = set(map(type, listed))
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
    listed: list[Any], vocab: dict[str, int], special: dict[str, int]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """(pairs of ids, merge results) of any list; errors name the position."""
    merges: dict[tuple[int, int], int] = {}
    for i, merge in enumerate(listed):
        try:
            left, right = merge.split(" ") if type(merge) is str else merge
            pair, number = (vocab[left], vocab[right]), vocab[left + right]
        except (KeyError, TypeError, ValueError, AttributeError):
            raise FormatError(_merge_fault(merge, vocab, special), where=f"model.merges[{i}]") from None
        if type(merge) is dict or merges.setdefault(pair, number) != number or len(merges) != i + 1:
            fault = "it is not a pair" if type(merge) is dict else "it occurs twice; merges must be unique"
            raise FormatError(f"{shown(merge)}: {fault}", where=f"model.merges[{i}]")
    results = np.array(list(merges.values()), dtype=np.int32)
    return np.array(list(merges), dtype=np.int32).reshape(-1, 2), results


def _merge_fault(merge: object, vocab: dict[str, int], special: dict[str, int]) -> str:
    pair = merge.split(" ") if isinstance(merge, str) else merge
    if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(part, str) for part in pair):
        return f'{shown(merge)} is not a merge; it must be ["left", "right"] or "left right"'
    left, right = pair
    for token, role in ((left, "left part"), (right, "right part"), (left + right, "product")):
        if token in special:
            return f"{shown(merge)}: its {role} {token!r} is a special or the unknown token; {LATER}"
        if token not in vocab:
            return f"{shown(merge)}: its {role} {shown(token)} is not in the vocab; it must be"
    raise AssertionError(merge)


def _ids(item: dict[str, Any], name: str, vocabulary: Vocabulary) -> list[int]:
    numbers = get(item, "model", name, list)
    for i, number in enumerate(numbers):
        if _id(number, f"model.{name}[{i}]") not in vocabulary:
            raise FormatError(f"no token has the id {number}; it must be the id of a token", where=f"model.{name}[{i}]")
    return numbers


def _ranks(item: dict[str, Any], count: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    ranks = get(item, "model", "merge_ranks", list)
    for i, rank in enumerate(ranks):
        _id(rank, f"model.merge_ranks[{i}]")
    if len(ranks) != count:
        raise FormatError(
            f"it has {counted(len(ranks), 'rank')} for {counted(count, 'merge')}; each merge must have one",
            where="model.merge_ranks",
        )
    return np.array(ranks, dtype=np.int32)


def _check_decoder(value: object, byte: bool, spec: TokenizerSpec) -> None:
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
