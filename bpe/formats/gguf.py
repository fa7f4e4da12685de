"""The tokenizer section of a GGUF file, llama.cpp's format of models; the weights are never read.

The header is a list of keys with typed values; those under `tokenizer.ggml.` describe the tokenizer. Model `gpt2` is a
byte-level BPE, whose pretokenizer has a name (`pre`). Model `llama` is sentencepiece's BPE, with scores instead of
merges. Ids are llama.cpp's, which applies no normalizer (the NFC of Qwen 2 is not in the file). Source: ggml's gguf.md.
Not here: other kinds of tokenizers (`bert`, `t5`, `rwkv`), which are refused by name.
"""

from __future__ import annotations

import json
import mmap
import os
import stat
import struct
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bpe.errors import FormatError, shown
from bpe.formats import huggingface, sentencepiece
from bpe.pretokenize.pretokenizer import Pretokenizer
from bpe.vocab.spec import TokenizerSpec

MAGIC = b"GGUF"
PREFIX = "tokenizer.ggml."
#: The number of a scalar type → its struct format.
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
#: The most keys, and the most items of an array that is read.
_MOST_KEYS, _MOST_ITEMS = 1 << 20, 1 << 24

#: The value of `pre` → (pretokenizer, whether a pretoken that is a token is not merged), for those that llama.cpp and a
#: pretokenizer of this package split alike.
PRETOKENIZERS: Mapping[str, tuple[str, bool]] = {
    **dict.fromkeys(("gpt-2", "phi-2", "roberta-bpe", "mpt", "olmo", "jais", "gigachat"), ("gpt2", False)),
    **dict.fromkeys(("llama3", "llama-v3", "llama-bpe", "falcon3", "pixtral"), ("llama3", True)),
    **dict.fromkeys(("qwen2", "stablelm2", "deepseek-r1-qwen"), ("qwen2", False)),
    **dict.fromkeys(("gpt-4o", "llama4"), ("o200k", False)),
    **dict.fromkeys(("dbrx", "smaug-bpe"), ("llama3", False)),
    **dict.fromkeys(("starcoder", "refact", "command-r", "smollm", "codeshell"), ("starcoder", False)),
    "tekken": ("tekken", True),
    "deepseek-v3": ("deepseek_v3", False),
}

#: The key with the id of a role, as ggml spells it → the role.
ROLE_KEYS: Mapping[str, str] = {
    "bos_token_id": "bos_token", "eos_token_id": "eos_token", "unknown_token_id": "unk_token",
    "seperator_token_id": "sep_token", "padding_token_id": "pad_token", "cls_token_id": "cls_token",
    "mask_token_id": "mask_token",
}  # fmt: skip


def mapped(path: str | os.PathLike[str]) -> mmap.mmap | None:
    """A GGUF file mapped into memory, so that its weights are not read; None for any other file.

    Raises:
        OSError: for a file that cannot be read.

    """
    if not stat.S_ISREG(os.stat(path).st_mode):
        return None
    with open(path, "rb") as file:
        if file.read(4) != MAGIC:
            return None
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def read(data: bytes | mmap.mmap, path: str | None = None) -> TokenizerSpec:
    """Read the tokenizer of a GGUF file.

    Raises:
        FormatError: for an invalid file, one without a tokenizer, and a tokenizer that is not supported.

    """
    try:
        return _spec(_Header(data).values())
    except FormatError as error:
        raise FormatError(error.message, path=path, where=error.where) from None


class _Header:
    """The header of a GGUF file: each read checks that the file is long enough."""

    def __init__(self, data: bytes | mmap.mmap) -> None:
        self.data, self.at = data, 0

    def values(self) -> dict[str, Any]:
        """The values under `tokenizer.ggml.`, by the rest of their keys."""
        if self._bytes(4) != MAGIC:
            raise FormatError(f"it begins with {shown(self.data[:4])}; a GGUF file begins with {MAGIC!r}")
        version = self._scalar(4)
        if version not in (2, 3):
            raise FormatError(f"version {version} is not known; known are 2 and 3 (little-endian)", where="offset 4")
        self._scalar(10)
        count, found = self._scalar(10), {}
        if count > _MOST_KEYS:
            raise FormatError(f"it declares {count} keys; they must be at most {_MOST_KEYS}", where="offset 16")
        for _ in range(count):
            where = self.at
            key = self._string()
            value = self._value(self._scalar(4), wanted=key.startswith(PREFIX))
            if key.startswith(PREFIX):
                if key in found:
                    raise FormatError(f"the key {shown(key)} occurs twice", where=f"offset {where}")
                found[key.removeprefix(PREFIX)] = value
        return found

    def _bytes(self, size: int) -> bytes:
        if size > len(self.data) - self.at:
            left = len(self.data) - self.at
            raise FormatError(
                f"it declares {size} bytes, and {left} follow; the file may be truncated", where=f"offset {self.at}"
            )
        self.at += size
        return self.data[self.at - size : self.at]

    def _scalar(self, kind: int) -> Any:
        form = "<" + _SCALARS[kind]
        return struct.unpack(form, self._bytes(struct.calcsize(form)))[0]

    def _string(self) -> str:
        where = self.at
        try:
            return self._bytes(self._scalar(10)).decode()
        except UnicodeDecodeError as error:
            raise FormatError(f"a string is not UTF-8: {error}", where=f"offset {where}") from None

    def _value(self, kind: int, *, wanted: bool) -> Any:
        """A value; a large array that is not wanted is skipped."""
        if kind in _SCALARS:
            return self._scalar(kind)
        if kind == _STRING:
            return self._string()
        where = self.at
        if kind != _ARRAY:
            raise FormatError(f"value type {kind} is not known", where=f"offset {where}")
        item, count = self._scalar(4), self._scalar(10)
        if count > _MOST_ITEMS:
            raise FormatError(f"an array declares {count} items; at most {_MOST_ITEMS}", where=f"offset {where}")
        if item in _SCALARS:
            size = struct.calcsize("<" + _SCALARS[item])
            content = self._bytes(size * count)
            return list(struct.unpack(f"<{count}{_SCALARS[item]}", content)) if wanted else None
        if item != _STRING:
            raise FormatError(f"an array of type {item} is not known", where=f"offset {where}")
        return [self._string() for _ in range(count)]


def _spec(values: dict[str, Any]) -> TokenizerSpec:
    kind = values.get("model")
    if kind is None:
        raise FormatError(f"it has no key {PREFIX}model; the file has no tokenizer")
    if kind not in ("gpt2", "llama"):
        raise FormatError(
            f"it is {shown(kind)}, which is not byte-pair encoding, or not supported; known are gpt2 and llama",
            where=f"{PREFIX}model",
        )
    tokens = _list(values, "tokens", str)
    types = _list(values, "token_type", int) if "token_type" in values else [sentencepiece.NORMAL] * len(tokens)
    if len(types) != len(tokens):
        raise FormatError(f"it has {len(types)} items for {len(tokens)} tokens", where=f"{PREFIX}token_type")
    spec = _gpt2(values, tokens, types) if kind == "gpt2" else _llama(values, tokens, types)
    names = {number: name for name, number in spec.special_tokens.items()}
    ids = {role: values.get(key) for key, role in ROLE_KEYS.items()}
    known = {role: names[number] for role, number in ids.items() if isinstance(number, int) and number in names}
    return replace(spec, roles=known)  # llama.cpp ignores ids of no token, too


def _list(values: dict[str, Any], name: str, kind: type) -> list[Any]:
    found = values.get(name)
    if not isinstance(found, list) or not set(map(type, found)) <= {kind}:
        raise FormatError(f"it is not an array of {kind.__name__}; it must be one", where=PREFIX + name)
    return found


def _gpt2(values: dict[str, Any], tokens: list[str], types: list[int]) -> TokenizerSpec:
    """The spec of a byte-level model."""
    pre = values.get("pre", "gpt-2")
    if not isinstance(pre, str) or pre not in PRETOKENIZERS:
        raise FormatError(
            f"it is {shown(pre)}, whose pattern is not known; known are {', '.join(PRETOKENIZERS)}",
            where=f"{PREFIX}pre",
        )
    vocab = {token: number for number, token in enumerate(tokens)}
    if len(vocab) < len(tokens):
        twice = next(token for number, token in enumerate(tokens) if vocab[token] != number)
        raise FormatError(f"token {shown(twice)} occurs twice; each must be unique", where=f"{PREFIX}tokens")
    added = [
        {
            "id": number,
            "content": tokens[number],
            "normalized": False,
            "special": kind != sentencepiece.USER_DEFINED,
        }
        for number, kind in enumerate(types)
        if kind in (sentencepiece.UNKNOWN, sentencepiece.CONTROL, sentencepiece.USER_DEFINED)
    ]
    name, whole = PRETOKENIZERS[pre]
    value = {
        "added_tokens": added,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
        "model": {"type": "BPE", "ignore_merges": whole, "vocab": vocab, "merges": _list(values, "merges", str)},
    }
    prefix = bool(values.get("add_space_prefix", False))
    spec = huggingface.read(json.dumps(value, ensure_ascii=False).encode())
    return replace(spec, pretokenizer=Pretokenizer(name, add_prefix_space=prefix))


def _llama(values: dict[str, Any], tokens: list[str], types: list[int]) -> TokenizerSpec:
    """The spec of sentencepiece's model. llama.cpp removes no spaces and has no other normalizer."""
    scores = _list(values, "scores", float)
    if len(scores) != len(tokens):
        raise FormatError(f"it has {len(scores)} items for {len(tokens)} tokens", where=f"{PREFIX}scores")
    dummy = bool(values.get("add_space_prefix", True))
    if dummy and sentencepiece.USER_DEFINED in types:  # sentencepiece puts a space before the text only
        name = tokens[types.index(sentencepiece.USER_DEFINED)]
        raise FormatError(
            f"token {shown(name)} is user-defined, after which llama.cpp puts a space (add_space_prefix); this is not "
            "supported: load the tokenizer.model or tokenizer.json that the file was made from"
        )
    return sentencepiece.spec_of(
        sentencepiece.Model(
            pieces=tokens,
            scores=scores,
            types=types,
            byte_fallback=sentencepiece.BYTE in types,
            dummy_prefix=dummy,
            remove_spaces=False,
        )
    )
