"""Writes Hugging Face's tokenizer.json; `bpe/formats/huggingface.py` documents the format and reads it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from json.encoder import encode_basestring
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bpe.errors import shown
from bpe.formats.oniguruma import SPELLED, means_the_same, published
from bpe.pretokenize.patterns import DEEPSEEK_STEPS
from bpe.pretokenize.pretokenizer import Pretokenizer
from bpe.text import normalizers as n
from bpe.text.unicode import normalized
from bpe.vocab.byte_letters import byte_letters, letter_bytes, to_letters
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.vocabulary import ORDINARY, SPECIAL, Vocabulary, end_to_end

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: How `CollapseWhitespace` is saved; an equal `Replace` by the user is saved as `bpe.Replace`.
COLLAPSE = (r"\p{White_Space}+", " ")
#: Hugging Face's `Whitespace`. Its `\w` is that of the `regex` package, not Oniguruma's.
WORDS = Pretokenizer.from_regex(r"\w+|[^\w\s]+")
#: ByteLevel(use_regex=false, add_prefix_space=true): the whole text is one pretoken, after the space.
PREFIXED = Pretokenizer.from_regex("(?s:.+)", add_prefix_space=True)
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
#: The fields of a Split that keeps unmatched text, and of one that drops it.
ISOLATED = {"behavior": "Isolated", "invert": False}
REMOVED = {"behavior": "Removed", "invert": True}
#: The only pretokenizer that is saved as several Splits.
DEEPSEEK = Pretokenizer("deepseek_v3")
#: The step that isolates digits, and the pretokenizer that has it before gpt2's pattern.
DIGITS = {"type": "Digits", "individual_digits": True}
STARCODER = Pretokenizer("starcoder")
#: How deep normalizers may be nested.
MAX_DEPTH = 50

_dump = json.JSONEncoder(ensure_ascii=False).encode
_LETTER_OF = dict(enumerate(byte_letters()))


def write(spec: TokenizerSpec) -> bytes:
    """Serialize a tokenizer as tokenizer.json. Equal tokenizers give equal bytes.

    Raises:
        ValueError: for a spec whose fields contradict each other.

    """
    _check(spec)
    ordinary = _ordinary_texts(spec)
    special = {number: token.decode() for number, token in spec.vocabulary.items(SPECIAL)}
    own = differs(spec) is not None
    mark = None if spec.end_of_word is None else mark_text(spec)
    decoder: dict[str, Any]
    if spec.model == "byte":
        decoder = {**BYTE_LEVEL, "add_prefix_space": True, "use_regex": True}
    else:
        decoder = {"type": "Fuse"} if mark is None else {"type": "BPEDecoder", "suffix": mark}
    head: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None if spec.normalizer is None else _normalizer(spec.normalizer),
        "pre_tokenizer": _pre_tokenizer(spec.model == "byte", spec.pretokenizer),
        "post_processor": _post_processor(spec),
        "decoder": decoder,
    }
    model = _own_model(spec, special) if own else _model(spec, mark)
    vocabulary = {**ordinary, **{number: name for number, name in special.items() if not own or _unspelled(spec, name)}}
    quoted = {number: encode_basestring(vocabulary[number]) for number in sorted(vocabulary)}
    entries = (f"{text}: {number}" for number, text in quoted.items())
    _check_merges(spec)
    pairs = (f"[{quoted[left]}, {quoted[right]}]" for left, right in spec.merges.tolist())
    added = "".join(_added_tokens(spec))
    text = (
        json.dumps(head, ensure_ascii=False, indent=2)[:-2].replace(
            '"added_tokens": []', f'"added_tokens": [{added}]', 1
        )
        + ',\n  "model": {\n'
        + "".join(f"    {_dump(key)}: {_dump(value)},\n" for key, value in model.items())
        + f'    "vocab": {_lines("{", entries, "}")},\n    "merges": {_lines("[", pairs, "]")}\n  }}\n}}\n'
    )
    return text.encode()


def check_name(path: str | os.PathLike[str]) -> None:
    """Raise ValueError for a file name that belongs to another format."""
    name = Path(os.fspath(path)).name.lower()
    if name.endswith(".tiktoken"):
        kind, instead = "a rank file", "name it .json"
    elif name in ("vocab.json", "merges.txt"):
        kind, instead = "half of GPT-2's pair of files", "name it tokenizer.json"
    elif name.endswith((".gz", ".bz2", ".xz", ".zst", ".zip")):
        kind, instead = "a compressed file", "name it .json and compress it afterwards"
    else:
        return
    raise ValueError(f"path is {os.fspath(path)!r}, the name of {kind}; save writes a tokenizer.json: {instead}")


def differs(spec: TokenizerSpec, *, distinct: bool = False) -> str | None:
    """The reason why Hugging Face's BPE model would give other ids than this tokenizer; None if the ids are equal.

    `distinct` says that no special token is spelled like an ordinary one, as in every tokenizer read from a file.
    """
    names = set(spec.special_tokens) | ({spec.unk_token} if spec.unk_token is not None else set())
    if spec.clip is not None:
        return "it has the start and end token of CLIP's tokenize"
    if spec.merge_ranks is not None:
        return "several of its merges share a rank"
    mark = None if spec.end_of_word is None else mark_text(spec)
    if mark is not None:
        if not spec.end_of_word_glued:
            return "its end-of-word mark is a symbol of its own"
        if spec.ignore_merges:
            return (
                "it has ignore_merges and an end-of-word mark: this package looks words up with the mark, tokenizers "
                "without"
            )
        if _odd_ends(spec) is not None:
            return "its tokens that end words are not those that end with the mark"
    if not distinct:
        spelled = dict(zip(names, spelled_all(spec.model, names), strict=True))
        ordinary = spec.vocabulary.ordinary_among({token for token in spelled.values() if token})
        same = [name for name, token in spelled.items() if token in ordinary] if ordinary else []
        if same:
            return f"its special token {min(same)!r} is spelled like an ordinary token"
    if not spec.ignore_merges:  # then text can become only such a name that needs no merge
        names = {name for name in names if len(name.removesuffix(mark) if mark else name) == 1}
        names -= set() if spec.fuse_unk else {spec.unk_token}
    occurring = [name for name in names if _may_occur(spec, name)]
    return f"ordinary text can spell its special or unknown token {min(occurring)!r}" if occurring else None


def unreadable(spec: TokenizerSpec) -> str | None:
    """The reason why `tokenizers` rejects the file of this tokenizer; None if it loads it."""
    reason = differs(spec)
    if reason is not None:
        return reason
    parts: list[Any] = [None if spec.normalizer is None else _normalizer(spec.normalizer)]
    parts.append(_pre_tokenizer(spec.model == "byte", spec.pretokenizer))
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            kind = str(part.get("type", ""))
            if kind.startswith("bpe."):
                what = "a pretokenizer pattern" if kind == "bpe.Regex" else f"the normalizer {kind[4:]}"
                return f"it has {what} that tokenizers cannot apply, or applies differently"
            parts += part.values()
        elif isinstance(part, list):
            parts += part
    return None


def _may_occur(spec: TokenizerSpec, name: str) -> bool:
    """Whether the model may see the spelling of a special token, although special tokens are split off first."""
    if spec.model == "byte" and not letter_bytes().keys() >= set(name):
        return False  # the model sees only GPT-2's letters
    if name not in spec.special_tokens or not isinstance(spec.normalizer, (n.NFC, n.NFD, type(None))):
        return True
    if spec.normalizer is not None and len(name) == 1 and name in _composed(type(spec.normalizer).__name__):
        return True
    if spec.end_of_word is not None and name.endswith(mark_text(spec)):
        return True
    return spec.model == "byte" and not name.isascii()


@cache
def _composed(form: str) -> frozenset[str]:
    """The characters that normalization to NFC or NFD makes of other text: é of e and U+0301, K of the Kelvin sign."""
    decomposed = {chr(code): normalized("NFD", chr(code)) for code in range(sys.maxunicode + 1)}
    changed = {char: text for char, text in decomposed.items() if text != char}
    if form == "NFD":
        return frozenset("".join(changed.values()))
    return frozenset(normalized("NFC", char) for char in changed)


def ending(vocabulary: Vocabulary, mark: str, glued: bool) -> NDArray[np.bool_]:
    """Which ordinary tokens end with the mark: bool, one per id.

    A mark that is glued to symbols is never a token by itself, so a token that is spelled like the mark is text.
    """
    tail = mark.encode()
    found = np.zeros(vocabulary.limit, dtype=np.bool_)
    tokens = vocabulary.items(ORDINARY)
    found[[number for number, token in tokens if token.endswith(tail) and not (glued and token == tail)]] = True
    return found


def _odd_ends(spec: TokenizerSpec) -> list[int] | None:
    """The ids of the tokens that end words; None if these are exactly the tokens that `ending` finds."""
    if spec.ends_word is None or np.array_equal(
        spec.ends_word, ending(spec.vocabulary, spec.end_of_word or "", spec.end_of_word_glued)
    ):
        return None
    return [int(number) for number in np.flatnonzero(spec.ends_word)]


def mark_text(spec: TokenizerSpec) -> str:
    """The spelling of the end-of-word mark in a file: in GPT-2's letters for a byte model."""
    mark = spec.end_of_word or ""
    return to_letters(mark.encode()) if spec.model == "byte" else mark


def from_text(model: str, token: str) -> bytes:
    """The bytes of an ordinary token in a file; ValueError for a character that is not one of GPT-2's letters."""
    if model == "char" or (token.isascii() and token.isprintable() and " " not in token):
        return token.encode()
    return token.translate(_BYTE_OF).encode("latin-1")


def spelled_all(model: str, names: Iterable[str]) -> list[bytes]:
    """For each name, the bytes of the ordinary token that a file would spell like it; b"" if there is none."""
    names = list(names)
    joined = "".join(names)
    if model == "char" or (joined.isascii() and joined.isprintable() and " " not in joined):
        return list(map(str.encode, names))  # `from_text` for each of 100,000 names takes five times as long
    return [from_text(model, name) if letter_bytes().keys() >= set(name) else b"" for name in names]


# Latin-1 characters that are not GPT-2 letters map to U+FFFF, so that encoding them as Latin-1 fails.
_BYTE_OF = dict.fromkeys(range(256), "\uffff") | {ord(letter): chr(byte) for letter, byte in letter_bytes().items()}


# Parts of the file ----------------------------------------------------------------------------------------------------


def _model(spec: TokenizerSpec, mark: str | None) -> dict[str, Any]:
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": spec.unk_token,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": mark,
        "fuse_unk": spec.fuse_unk,
        "byte_fallback": False,
        "ignore_merges": spec.ignore_merges,
    }


def _own_model(spec: TokenizerSpec, special: dict[int, str]) -> dict[str, Any]:
    """The fields of model `bpe.BPE`. Its vocab has no special tokens and no unknown token."""
    return {
        "type": "bpe.BPE",
        "unk_token": spec.unk_token,
        "unk_id": next((number for number, name in special.items() if name == spec.unk_token), None),
        "fuse_unk": spec.fuse_unk,
        "ignore_merges": spec.ignore_merges,
        "end_of_word": spec.end_of_word,
        "end_of_word_glued": spec.end_of_word_glued,
        "ends_word": _odd_ends(spec),
        "clip": None if spec.clip is None else list(spec.clip),
        "merge_ranks": None if spec.merge_ranks is None else spec.merge_ranks.tolist(),
    }


def _added_tokens(spec: TokenizerSpec) -> Iterator[str]:
    """Yield the added tokens as JSON text, sorted by id. Equals the output of `json`, which takes 50 times as long."""
    ends: dict[frozenset[str], str] = {}  # flags → the JSON of their fields
    separator = "\n"
    for number, name in sorted(_inverse(spec).items()):
        flags: frozenset[str] = spec.token_flags.get(name, frozenset())
        if flags not in ends:
            given = {flag: flag in flags for flag in ("single_word", "lstrip", "rstrip", "normalized")}
            fields = {**given, "special": "ordinary" not in flags}
            ends[flags] = ",\n".join(f'      "{key}": {_dump(value)}' for key, value in fields.items())
        yield f'{separator}    {{\n      "id": {number},\n      "content": {_dump(name)},\n{ends[flags]}\n    }}'
        separator = ",\n"
    if spec.special_tokens:
        yield "\n  "


def _post_processor(spec: TokenizerSpec) -> dict[str, Any] | None:
    """The post-processor that adds the template's ids to a text, or to each text of a pair."""
    if spec.template is None:
        return None
    before, after = ([(number, spec.vocabulary[number].decode()) for number in ids] for ids in spec.template)

    def around(text: str, type_id: int) -> list[dict[str, Any]]:
        left, right = (
            [{"SpecialToken": {"id": name, "type_id": type_id}} for _, name in ids] for ids in (before, after)
        )
        return [*left, {"Sequence": {"id": text, "type_id": type_id}}, *right]

    return {
        "type": "TemplateProcessing",
        "single": around("A", 0),
        "pair": around("A", 0) + around("B", 1),
        "special_tokens": {
            name: {"id": name, "ids": [number], "tokens": [name]} for number, name in sorted({*before, *after})
        },
    }


def _normalizer(one: n.Normalizer, depth: int = 0) -> dict[str, Any]:
    if depth > MAX_DEPTH:
        raise ValueError(f"normalizers are nested more than {MAX_DEPTH} deep; a Sequence of one level does the same")
    if isinstance(one, n.Sequence):
        return {"type": "Sequence", "normalizers": [_normalizer(each, depth + 1) for each in one.normalizers]}
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


def _pre_tokenizer(byte: bool, one: Pretokenizer | None) -> dict[str, Any] | None:
    """The steps of the pretokenizer, with its Unicode version, which `tokenizers` ignores."""
    steps = _pre_tokenizer_steps(byte, one)
    if steps is None or one is None or one.unicode_version is None:
        return steps
    return {**steps, "unicode_version": one.unicode_version}


def _pre_tokenizer_steps(byte: bool, one: Pretokenizer | None) -> dict[str, Any] | None:
    if byte and (one is None or one.name == "gpt2" or one == PREFIXED):
        prefix = one is not None and one.add_prefix_space
        return {**BYTE_LEVEL, "add_prefix_space": prefix, "use_regex": one is not None and one.name == "gpt2"}
    if one is None:
        return None
    if byte and one == STARCODER:
        return {"type": "Sequence", "pretokenizers": [DIGITS, {**BYTE_LEVEL, "use_regex": True}]}
    steps = [_splitter(one)]
    if one == DEEPSEEK:
        steps = [{"type": "Split", "pattern": {"Regex": step}, **ISOLATED} for step in DEEPSEEK_STEPS]
    if byte:
        steps.append(dict(BYTE_LEVEL))
    return steps[0] if len(steps) == 1 else {"type": "Sequence", "pretokenizers": steps}


def _splitter(one: Pretokenizer) -> dict[str, Any]:
    if one.add_prefix_space or one.name == "deepseek_v3":
        which = {"pattern": one.pattern, "gaps": one.gaps} if one.name is None else {"name": one.name}
        return {"type": "bpe.Regex", **which, "add_prefix_space": one.add_prefix_space}
    if one.name == "whitespace":
        return {"type": "WhitespaceSplit"}
    if one == WORDS:
        return {"type": "Whitespace"}
    own = published(one.pattern, one.gaps) is not None or not means_the_same(one.pattern) or one.gaps == "error"
    if one.name is None and own:
        return {"type": "bpe.Regex", "pattern": one.pattern, "gaps": one.gaps, "add_prefix_space": False}
    pattern = one.pattern if one.name is None else SPELLED[one.name]
    covers = one.name in ("gpt2", "cl100k", "o200k", "llama3", "qwen2", "tekken", "starcoder")
    keeps = covers or one.gaps == "keep"
    return {"type": "Split", "pattern": {"Regex": pattern}, **(ISOLATED if keeps else REMOVED)}


# Private --------------------------------------------------------------------------------------------------------------


def _ordinary_texts(spec: TokenizerSpec) -> dict[int, str]:
    """Id → text of the ordinary tokens; of a byte model, in GPT-2's letters."""
    vocabulary = spec.vocabulary
    if spec.model != "byte":
        return {number: token.decode() for number, token in vocabulary.items(ORDINARY)}
    letters = vocabulary.blob.decode("latin-1").translate(_LETTER_OF)  # a letter for each byte
    numbers = np.flatnonzero(vocabulary.kinds == ORDINARY)
    bounds = (vocabulary.offsets[numbers].tolist(), vocabulary.offsets[numbers + 1].tolist())
    return {number: letters[start:end] for number, start, end in zip(numbers.tolist(), *bounds, strict=True)}


def _inverse(spec: TokenizerSpec) -> dict[int, str]:
    return {number: name for name, number in spec.special_tokens.items()}


def _check(spec: TokenizerSpec) -> None:
    """Raise ValueError for a spec whose fields contradict each other, so that its file could not be read back."""
    names = _inverse(spec)
    if len(names) < len(spec.special_tokens):
        first = next(name for name, number in spec.special_tokens.items() if names[number] != name)
        number = spec.special_tokens[first]
        raise ValueError(
            f"special tokens {first!r} and {names[number]!r} have the same id, {number}; in a tokenizer.json, each has "
            "its own: leave one of them out of special_tokens"
        )
    special = {number: token.decode() for number, token in spec.vocabulary.items(SPECIAL)}
    rest = {number: name for number, name in special.items() if number not in names}
    others = [name for name in rest.values() if not _unspelled(spec, name) or name == spec.unk_token]
    if names.items() - special.items() or others not in ([], [spec.unk_token]):
        raise ValueError(
            f"special tokens {shown(names)} and unknown token {spec.unk_token!r} are not the special entries of the "
            f"vocabulary, {shown(special)}; they must be the same"
        )
    if spec.unk_token is not None and spec.unk_token not in special.values():
        raise ValueError(f"unk_token {spec.unk_token!r} is not in the vocabulary; add it as a special token")
    if (spec.end_of_word is None) != (spec.ends_word is None) or (spec.end_of_word_glued and spec.end_of_word is None):
        raise ValueError("end_of_word, end_of_word_glued and ends_word go together; set all three or none")


def _unspelled(spec: TokenizerSpec, name: str) -> bool:
    """Whether encoding never produces this token: it is neither special nor spelled in GPT-2's letters."""
    named = name in spec.special_tokens or name == spec.unk_token
    return spec.model == "byte" and not named and not letter_bytes().keys() >= set(name)


def _check_merges(spec: TokenizerSpec) -> None:
    """Raise ValueError for a merge whose result is not the concatenation of its tokens, or not of ordinary tokens."""
    if not len(spec.merges):
        return
    vocabulary = spec.vocabulary
    left, right, result = spec.merges[:, 0], spec.merges[:, 1], spec.merge_results
    known = np.append(vocabulary.kinds == ORDINARY, False)
    ids = np.stack((left, right, result))
    outside = (ids < 0) | (ids >= vocabulary.limit)
    bad = np.logical_not(known[np.where(outside, vocabulary.limit, ids)].all(axis=0, keepdims=True))[0]
    if not bad.any():
        lengths = vocabulary.lengths.astype(np.int64)
        bad = lengths[left] + lengths[right] != lengths[result]
    if not bad.any():
        blob = np.frombuffer(vocabulary.blob, dtype=np.uint8)
        pairs = spec.merges.ravel()
        parts, _ = end_to_end(blob, vocabulary.offsets[pairs], lengths[pairs])
        whole, offsets = end_to_end(blob, vocabulary.offsets[result], lengths[result])
        wrong = np.flatnonzero(parts != whole)
        if not len(wrong):
            return
        bad[np.searchsorted(offsets, wrong[0], side="right") - 1] = True
    first = int(np.argmax(bad))
    raise ValueError(
        f"the merge of ids {left[first]} and {right[first]} produces token {result[first]}, which is not spelled as "
        "their concatenation; it must be"
    )


def _lines(start: str, lines: Iterable[str], end: str) -> str:
    inside = ",\n".join("      " + line for line in lines)
    return f"{start}\n{inside}\n    {end}" if inside else start + end
