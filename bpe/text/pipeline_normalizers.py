"""The normalizers of `tokenizers` that sentencepiece's and BERT's vocabularies use; `bpe.normalizers` exports them."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import regex

from bpe.base.forks import cached_property
from bpe.errors import FormatError, check_bool, check_unicode, describe, short_repr
from bpe.text import alignment
from bpe.text.alignment import AlignedText
from bpe.text.character_sets import WHITE_SPACE, compile_char_class
from bpe.text.letters import LETTERS, measure_utf8, spell_text_in_letters
from bpe.text.normalizers import (
    NFC,
    NFD,
    NFKC,
    NFKD,
    CollapseWhitespace,
    FixText,
    Lowercase,
    Normalizer,
    Replace,
    Sequence,
    Strip,
    UnescapeHTML,
)

_NMT_REMOVED_CHARS = re.compile("[\x01-\x08\x0b\x0e-\x1f\x7f\x8f\x9f]")
_NMT_SPACE_CHARS = re.compile("[\t\n\x0c\r\u1680\u200b-\u200f\u2028\u2029\u2581\ufeff\ufffd]")
_OTHER_WHITE_SPACE = re.compile(f"[{WHITE_SPACE.replace(' ', '')}]")
#: The ideographs that BERT's tokenizers surround with spaces.
_IDEOGRAPHS = re.compile(
    "[\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002a6df\U0002a700-\U0002b73f\U0002b740-\U0002b81f\U0002b920-\U0002ceaf"
    "\uf900-\ufaff\U0002f800-\U0002fa1f]"
)


class _Prefix(Normalizer):
    """Puts the string of its only field before a text that is not empty."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not isinstance(value, str):
                raise TypeError(f"{name} is {describe(value)}; it must be a str")
            check_unicode(name, value)

    @property
    def _string(self) -> str:
        value: str = next(iter(vars(self).values()))
        return value

    def _normalize(self, text: str) -> str:
        return self._string + text if text else ""

    def _align(self, text: str) -> AlignedText:
        return alignment.apply_edits(text, [(0, 0, alignment.map_to_span(self._string, 0, 0))] if text else [])


@dataclass(frozen=True)
class Prepend(_Prefix):
    """Put a string before a text that is not empty, as Llama 2 puts `▁`.

    >>> Prepend("▁")("a"), Prepend("▁")("")
    ('▁a', '')
    """

    prepend: str


@dataclass(frozen=True)
class DummyPrefix(_Prefix):
    """Put a string before a text; added tokens are sought without it, as sentencepiece seeks user-defined pieces.

    It is also put before a text of which earlier steps have left nothing.

    >>> DummyPrefix("▁")("a<b>"), DummyPrefix("▁").spelling("<b>"), Prepend("▁").spelling("<b>")
    ('▁a<b>', '<b>', '▁<b>')
    """

    space: str

    def _normalize(self, text: str) -> str:
        return self.space + text

    def _align(self, text: str) -> AlignedText:
        return alignment.apply_edits(text, [(0, 0, alignment.map_to_span(self.space, 0, 0))])

    def spelling(self, name: str) -> str:
        """Spell the name as it is, without the prefix."""
        return name


class _Filter(Normalizer):
    """Removes some characters, and replaces others by a space."""

    removed_chars: re.Pattern[str] | None = None
    space_chars: re.Pattern[str] | None = None

    def _normalize(self, text: str) -> str:
        text = text if self.removed_chars is None else self.removed_chars.sub("", text)
        return text if self.space_chars is None else self.space_chars.sub(" ", text)

    def _align(self, text: str) -> AlignedText:
        def edits() -> Iterator[tuple[int, int, Iterator[alignment.MappedChar]]]:
            for match in self.removed_chars.finditer(text) if self.removed_chars is not None else ():
                yield *match.span(), iter(())

        result = alignment.apply_edits(text, edits())
        return dataclasses.replace(result, text=self._normalize(text))

    def find_last_split(self, text: str, start: int) -> int:
        """Find the end of the text, which may be split anywhere."""
        del start
        return len(text)


@dataclass(frozen=True)
class StripAccents(_Filter):
    """Remove combining marks, as `tokenizers` does; usually after `NFD` or `NFKD`.

    >>> StripAccents()("e\u0301a")
    'ea'
    """

    @property
    def removed_chars(self) -> re.Pattern[str]:  # type: ignore[override]
        """The characters that are removed."""
        return compile_char_class("ACCENTS")


@dataclass(frozen=True)
class Nmt(_Filter):
    r"""Remove control characters and make other white space a space, as sentencepiece's `nmt` rules do.

    >>> Nmt()("a\tb\u200bc\x01")
    'a b c'
    """

    removed_chars = _NMT_REMOVED_CHARS
    space_chars = _NMT_SPACE_CHARS


class _CleanText(_Filter):
    space_chars = _OTHER_WHITE_SPACE

    @property
    def removed_chars(self) -> re.Pattern[str]:  # type: ignore[override]
        return compile_char_class("BERT_CONTROL")


class _StripBertAccents(_Filter):
    @property
    def removed_chars(self) -> re.Pattern[str]:  # type: ignore[override]
        return compile_char_class("BERT_ACCENTS")


class _SpaceIdeographs(Normalizer):
    """Puts a space before and after each ideograph."""

    def _normalize(self, text: str) -> str:
        return _IDEOGRAPHS.sub(r" \g<0> ", text)

    def _align(self, text: str) -> AlignedText:
        def edits() -> Iterator[tuple[int, int, Iterator[alignment.MappedChar]]]:
            for match in _IDEOGRAPHS.finditer(text):
                start, end = match.span()
                spaced_chars = (" ", start, start, start), (match[0], start, end, start), (" ", end, end, start)
                yield start, end, iter(spaced_chars)

        return alignment.apply_edits(text, edits())

    def find_last_split(self, text: str, start: int) -> int:
        del start
        return len(text)


@dataclass(frozen=True)
class BertNormalizer(Normalizer):
    r"""What BERT does to a text: clean it, separate ideographs, remove accents, lower its case.

    >>> BertNormalizer()("Crème\t中")
    'creme  中 '
    """

    clean_text: bool = True
    handle_chinese_chars: bool = True
    strip_accents: bool = True
    lowercase: bool = True

    def __post_init__(self) -> None:
        for name, value in self.__getstate__().items():
            object.__setattr__(self, name, check_bool(name, value))

    @cached_property
    def steps(self) -> Sequence:
        """The normalizers that it consists of, in order."""
        steps: list[Normalizer] = [_CleanText()] if self.clean_text else []
        steps += [_SpaceIdeographs()] if self.handle_chinese_chars else []
        steps += [NFD(), _StripBertAccents()] if self.strip_accents else []
        return Sequence(*steps, Lowercase()) if self.lowercase else Sequence(*steps)

    def _normalize(self, text: str) -> str:
        return self.steps._normalize(text)

    def _align(self, text: str) -> AlignedText:
        return self.steps._align(text)

    def flat_steps(self) -> list[Normalizer]:
        """List the steps."""
        return self.steps.flat_steps()

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True)
class ByteLevel(Normalizer):
    """Spell each byte of the text's UTF-8 as one of GPT-2's letters. The pretokenizer then sees letters.

    >>> ByteLevel()("a é")
    'aĠÃ©'
    """

    def _normalize(self, text: str) -> str:
        return spell_text_in_letters(text)

    def _align(self, text: str) -> AlignedText:
        starts = np.arange(len(text), dtype=np.int64).repeat(measure_utf8(text))
        return AlignedText(spell_text_in_letters(text), starts, starts + 1, sources=starts)

    def find_last_split(self, text: str, start: int) -> int:
        """Find the end of the text, which may be split anywhere."""
        del start
        return len(text)


@dataclass(frozen=True)
class Precompiled(Normalizer):
    """The character map of a sentencepiece model, as base64: a trie of UTF-8 and the replacements.

    As in `tokenizers`, it is applied to each grapheme of fewer than 6 bytes, and otherwise to each character. The
    first, shortest entry that a grapheme begins with replaces all of it.

    Raises:
        ValueError: for text that is not base64, or not such a map.

    """

    precompiled_charsmap: str

    def __post_init__(self) -> None:
        self._map  # noqa: B018 (refuses a bad map now)

    @cached_property
    def _map(self) -> tuple[list[int], bytes]:
        if not isinstance(self.precompiled_charsmap, str):
            raise TypeError(
                f"precompiled_charsmap is {describe(self.precompiled_charsmap)}; it must be a str of base64"
            )
        try:
            data = base64.b64decode(self.precompiled_charsmap, validate=True)
        except (binascii.Error, ValueError) as error:
            raise ValueError(f"precompiled_charsmap is not base64 ({error}); it must be") from None
        size = int.from_bytes(data[:4], "little")
        if not data:
            return [], b""
        if len(data) < 4 or size % 4 or size > len(data) - 4 or not size:
            raise ValueError(
                f"precompiled_charsmap says that its trie has {size} bytes, and has {max(len(data) - 4, 0)} in all; "
                "the map may be truncated"
            )
        blob = data[4 + size :]
        try:
            blob.decode()
        except UnicodeDecodeError:
            raise ValueError("precompiled_charsmap has replacements that are not UTF-8; they must be") from None
        return np.frombuffer(data, dtype="<u4", count=size // 4, offset=4).tolist(), blob

    @cached_property
    def _replacements(self) -> dict[str, str | None]:
        return {}

    def _find_replacement(self, part: str) -> str | None:
        """Find the replacement for a part of the text; None if the map has none."""
        replacements = self._replacements
        if part in replacements:
            return replacements[part]
        if len(replacements) > 1 << 16:
            replacements.clear()
        replacements[part] = replacement = self._look_up(part.encode("utf-8", "surrogateescape"))
        return replacement

    def _look_up(self, key: bytes) -> str | None:
        array, blob = self._map
        if not array:
            return None
        index = _decode_offset(array[0])
        for byte in key:
            index ^= byte
            if byte == 0 or index >= len(array) or array[index] & (1 << 31 | 0xFF) != byte:
                return None
            has_leaf = array[index] >> 8 & 1
            index ^= _decode_offset(array[index])
            if index >= len(array):
                return None
            if has_leaf:
                return _read_replacement(array[index], blob)
        return None

    def _split_pieces(self, text: str) -> Iterator[tuple[int, str, str | None]]:
        """Split a text: yields (position, part of the text, its replacement or None)."""
        position = 0
        for grapheme in regex.findall(r"\X", text):
            replacement = (
                self._find_replacement(grapheme) if len(grapheme.encode("utf-8", "surrogateescape")) < 6 else None
            )
            if replacement is not None:
                yield position, grapheme, replacement
            else:
                for i, char in enumerate(grapheme):
                    yield position + i, char, self._find_replacement(char)
            position += len(grapheme)

    def _normalize(self, text: str) -> str:
        return "".join(
            part if replacement is None else replacement for _, part, replacement in self._split_pieces(text)
        )

    def _align(self, text: str) -> AlignedText:
        pieces = list(self._split_pieces(text))
        result = alignment.apply_edits(
            text,
            (
                (start, start + len(part), alignment.map_to_span(replacement, start, start + len(part)))
                for start, part, replacement in pieces
                if replacement is not None
            ),
        )
        # Of a longer replacement, the last characters count as inserted; of a shorter one, the last character stands
        # for the rest, as in `tokenizers`.
        counts: list[int] = []  # of each character: how many source characters it stands for
        for _, part, replacement in pieces:
            result_part = part if replacement is None else replacement
            counts += [int(i < len(part)) for i in range(len(result_part))]
            if len(part) > len(result_part) and counts:
                counts[-1] += len(part) - len(result_part)
        sources = np.minimum(alignment.find_sources(counts), max(len(text) - 1, 0))
        return dataclasses.replace(result, sources=sources)

    def __getstate__(self) -> dict[str, Any]:
        return {"precompiled_charsmap": self.precompiled_charsmap}

    def __repr__(self) -> str:
        return f"Precompiled({short_repr(self.precompiled_charsmap, 40)})"


@dataclass(frozen=True, repr=False)
class CharacterMap(Precompiled):
    """The character map of a sentencepiece model, applied as sentencepiece does.

    At each position, the longest entry that the text goes on with is replaced.

    Raises:
        ValueError: for text that is not base64, or not such a map.

    """

    def _split_pieces(self, text: str) -> Iterator[tuple[int, str, str | None]]:
        """Split a text: yields (position, part of the text, its replacement or None)."""
        position, replacements, unchanged_strings = 0, self._replacements, self._unchanged_strings
        while position < len(text):
            char = text[position]
            if char in unchanged_strings and (
                piece := next((string for string in unchanged_strings[char] if text.startswith(string, position)), "")
            ):
                yield position, piece, None
                position += len(piece)
                continue
            if char in replacements:  # no longer entry begins with it
                yield position, char, replacements[char]
                position += 1
                continue
            length, replacement, is_final = self._match_longest(text, position)
            if is_final and len(replacements) < 1 << 16:
                replacements[char] = replacement
            yield position, text[position : position + length], replacement
            position += length

    def _match_longest(self, text: str, start: int) -> tuple[int, str | None, bool]:
        """Match an entry: (number of characters, replacement or None, whether all entries have one character)."""
        array, blob = self._map
        index = _decode_offset(array[0]) if array else 0
        length, replacement, position = 1, None, start
        while array and position < len(text):
            for byte in text[position].encode("utf-8", "surrogateescape"):
                index ^= byte
                if byte == 0 or index >= len(array) or array[index] & (1 << 31 | 0xFF) != byte:
                    return length, replacement, position == start
                has_leaf = array[index] >> 8 & 1
                index ^= _decode_offset(array[index])
            position += 1
            if has_leaf and index < len(array):
                length, replacement = position - start, _read_replacement(array[index], blob)
        return length, replacement, not array

    def __repr__(self) -> str:
        return f"CharacterMap({short_repr(self.precompiled_charsmap, 40)})"

    @property
    def _unchanged_strings(self) -> Mapping[str, list[str]]:
        """The strings that stay unchanged, by their first character, the longest first."""
        return {}


@dataclass(frozen=True, repr=False)
class CharacterMapBeside(CharacterMap):
    """A `CharacterMap` that leaves some strings unchanged, as sentencepiece leaves user-defined pieces.

    They are separated by U+0000. Where one begins, it is taken before any entry of the map.
    """

    pieces: str

    @cached_property
    def _unchanged_strings(self) -> Mapping[str, list[str]]:
        strings: dict[str, list[str]] = {}
        for piece in sorted(filter(None, self.pieces.split("\0")), key=len, reverse=True):
            strings.setdefault(piece[0], []).append(piece)
        return strings

    def spelling(self, name: str) -> str:
        """Spell the name as it is."""
        return name

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "pieces": self.pieces}

    def __repr__(self) -> str:
        return f"CharacterMapBeside({short_repr(self.precompiled_charsmap, 40)}, {short_repr(self.pieces, 40)})"


def _decode_offset(unit: int) -> int:
    """Decode the offset of a unit of the trie, as sentencepiece's double array stores it."""
    return unit >> 10 << ((unit & 1 << 9) >> 6)


def _read_replacement(leaf: int, blob: bytes) -> str:
    """Read the replacement that a leaf of the trie points to: up to the next zero byte."""
    start = leaf & (1 << 31) - 1
    end = blob.find(b"\0", start)
    return blob[start : end if end >= 0 else len(blob)].decode("utf-8", "replace")


@cache
def list_normalizer_classes() -> dict[str, Any]:
    """List the classes of normalizers but Sequence, by name: those of `normalizers.py` and of this module."""
    basic = (NFC, NFD, NFKC, NFKD, Lowercase, Strip, CollapseWhitespace, Replace, UnescapeHTML, FixText)
    pipeline = (
        Prepend,
        DummyPrefix,
        StripAccents,
        Nmt,
        BertNormalizer,
        ByteLevel,
        Precompiled,
        CharacterMap,
        CharacterMapBeside,
    )
    return {kind.__name__: kind for kind in (*basic, *pipeline)}


def from_json(data: Any) -> Normalizer:
    """Create the normalizer that `Normalizer.to_json` wrote.

    >>> from_json(Replace("a", "b").to_json())
    Replace(pattern='a', replacement='b')

    Raises:
        FormatError: for any other object.

    """
    if not isinstance(data, dict) or not isinstance(data.get("type"), str):
        raise FormatError(f"normalizer {short_repr(data)} is not an object with a type")
    fields = {name: value for name, value in data.items() if name != "type"}
    kind, classes = data["type"], list_normalizer_classes()
    if kind == "Sequence" and set(fields) == {"normalizers"} and isinstance(fields["normalizers"], list):
        return Sequence(*map(from_json, fields["normalizers"]))
    if kind not in classes:
        raise FormatError(
            f"normalizer type {kind!r} is not known; it must be one of {', '.join([*classes, 'Sequence'])}"
        )
    field_types = {field.name: field.type for field in dataclasses.fields(classes[kind])}
    for name, value in fields.items():
        if name not in field_types or type(value).__name__ != field_types[name]:
            raise FormatError(f"normalizer {kind} has {name}={short_repr(value)}; its fields are {field_types}")
    try:
        normalizer = classes[kind](**fields)
    except (TypeError, ValueError) as error:
        raise FormatError(f"normalizer {kind}: {error}") from None
    assert isinstance(normalizer, Normalizer)
    return normalizer


__all__ = [
    "LETTERS",
    "BertNormalizer",
    "ByteLevel",
    "CharacterMap",
    "CharacterMapBeside",
    "DummyPrefix",
    "Nmt",
    "Precompiled",
    "Prepend",
    "StripAccents",
]
