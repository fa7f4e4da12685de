"""Decoding by the steps of a tokenizer.json, with the text that Hugging Face's `tokenizers` gives.

Most files have steps that change each token by itself, then `ByteFallback`, `Fuse` and a `Strip` of the whole text.
For these, the text of each token is computed once, and the kernel of `_decoder.pyx` joins them. Other lists of steps,
and byte tokens that are not UTF-8, are run step by step.

Tokenizers without such steps: `decoder.py`.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpe.base.offsets import offsets_of
from bpe.decode._decoder import TokenTable
from bpe.text import normalizers
from bpe.text.oniguruma import translate
from bpe.vocab.after_encoding import (
    ByteFallback,
    ByteLevel,
    DecoderStep,
    DummySpace,
    Fuse,
    Metaspace,
    Replace,
    Strip,
    Suffix,
    WordPiece,
)
from bpe.vocab.byte_letters import bytes_or_utf8, to_letters
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.special_names import find_decoded_names
from bpe.vocab.vocabulary import ORDINARY

#: The character that stands for a space.
SPACE = "\u2581"

#: A token that `ByteFallback` reads as a byte: Rust's parser of numbers accepts a sign, too.
_BYTE = re.compile(r"<0x(\+[0-9A-Fa-f]|[0-9A-Fa-f]{2})>")

#: A byte that is part of no character, decoded with `surrogateescape`.
_BAD = re.compile("[\udc80-\udcff]")

#: What WordPiece's clean-up replaces, in this order.
_CLEANUP = (
    (" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"), (" 'm", "'m"),
    (" do not", " don't"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re"),
)  # fmt: skip

#: A step that changes each token by itself, given whether it is the first and the last one.
TokenStep = Callable[[str, bool, bool], str]


def decode_strings(steps: Sequence[DecoderStep], tokens: list[str]) -> str:
    """The text of tokens: all steps, one after the other.

    >>> steps = Replace("\u2581", " "), ByteFallback(), Fuse(), Strip(" ", 1, 0)
    >>> decode_strings(steps, ["\u2581a", "<0xC3>", "<0xA9>"])
    'aé'
    """
    if steps and isinstance(last := steps[-1], DummySpace):
        steps, tokens = steps[:-1], _drop_space(last, tokens)
    for step in steps:
        if isinstance(step, Fuse):
            tokens = ["".join(tokens)]
        elif isinstance(step, ByteFallback):
            tokens = _with_bytes(tokens, step.by_character)
        elif isinstance(step, ByteLevel):
            tokens = [b"".join(map(bytes_or_utf8, tokens)).decode("utf-8", "replace")]
        else:
            change, end = _TOKEN_STEPS[type(step)](step), len(tokens) - 1
            tokens = [change(token, i == 0, i == end) for i, token in enumerate(tokens)]
    return "".join(tokens)


def read_byte(token: str) -> int | None:
    """The byte that `ByteFallback` reads a token as, or None.

    >>> read_byte("<0x0A>"), read_byte("<0x0>")
    (10, None)
    """
    found = _BYTE.fullmatch(token)
    return None if found is None else int(found[1], 16)


class ChainDecoder:
    """Decodes ids by a tokenizer's decoder steps. Immutable, so a copy is the same object."""

    def __init__(self, spec: TokenizerSpec) -> None:
        assert spec.decoder is not None
        self._spec = spec
        self.steps = spec.decoder
        self._strings = spell_tokens(spec)
        dummy_space = spec.decoder[-1] if spec.decoder else None
        #: The step that takes the first token's space, or None.
        self.dummy_space = dummy_space if isinstance(dummy_space, DummySpace) else None
        drops = self.dummy_space is not None and self.dummy_space.each and SPACE in self._strings
        #: The id of the token that is dropped at the beginning of a text, or None.
        self._empty_id = self._strings.index(SPACE) if drops else None
        plan = _make_plan(spec.decoder if self.dummy_space is None else spec.decoder[:-1])
        #: Whether the text of a token does not depend on other tokens, except for byte tokens and for the first and the
        #: last token.
        self.by_token = plan is not None
        self._changes, self._bytes, strips = plan or ([], False, [])
        #: Whether a byte that is part of no character becomes U+FFFD by itself, rather than the whole run.
        self.by_character = any(isinstance(step, ByteFallback) and step.by_character for step in spec.decoder)
        #: The steps that strip the whole text.
        self.strips: list[Strip] = strips
        self._table = self._token_table() if self.by_token else None

    def __deepcopy__(self, memo: dict[int, Any]) -> ChainDecoder:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return ChainDecoder, (self._spec,)

    def _token_table(self) -> TokenTable | None:
        """The bytes of the tokens within a text; None if the text of some token is empty."""
        texts = [b"" if token is None else self.bytes_within(token, False, False) for token in self._strings]
        if any(not text for text, token in zip(texts, self._strings, strict=True) if token is not None):
            return None
        return TokenTable(b"".join(texts), offsets_of(list(map(len, texts))))

    def bytes_within(self, token: str, first: bool, last: bool) -> bytes:
        """The bytes of one token's text, if `by_token`, before the whole text is stripped."""
        byte = self.byte_within(token, first, last)
        return self.apply_token_steps(token, first, last).encode() if byte is None else bytes([byte])

    def apply_token_steps(self, token: str, first: bool, last: bool) -> str:
        """A token after the steps that change each token by itself."""
        if first and self.dummy_space is not None:
            token = token.removeprefix(SPACE)
        return reduce(lambda text, change: change(text, first, last), self._changes, token)

    def byte_within(self, token: str, first: bool, last: bool) -> int | None:
        """The byte that a token stands for, or None."""
        return read_byte(self.apply_token_steps(token, first, last)) if self._bytes else None

    def get_string(self, token_id: int) -> str | None:
        """The name of a token; None for an id that is no token."""
        return self._strings[token_id] if 0 <= token_id < len(self._strings) else None

    def join_tokens(self, ids: NDArray[np.uint32]) -> bytes | None:
        """The bytes of all tokens, before the text is stripped; None if tokens must be decoded together."""
        if self._table is None:
            return None
        while self._empty_id is not None and len(ids) and ids[0] == self._empty_id:
            ids = ids[1:]
        if not len(ids):
            return b""
        middle = self._table.bytes_of(ids[1:-1]) if len(ids) > 2 else b""
        ends = [self.get_string(int(ids[0])), self.get_string(int(ids[-1]))]
        if isinstance(middle, int) or None in ends:
            return None
        if len(ids) == 1:
            return self.bytes_within(ends[0] or "", True, True)
        return self.bytes_within(ends[0] or "", True, False) + middle + self.bytes_within(ends[1] or "", False, True)

    def bytes_of(self, ids: NDArray[np.uint32]) -> bytes:
        """The bytes of ids that are all tokens: byte tokens as bytes, whether or not they are UTF-8."""
        joined = self.join_tokens(ids)
        if joined is None:
            return self.text_of(ids).encode()
        text = joined.decode("utf-8", "surrogateescape")
        return reduce(_strip_text, self.strips, text).encode("utf-8", "surrogateescape")

    def text_of(self, ids: NDArray[np.uint32]) -> str:
        """The text of ids that are all tokens."""
        joined = self.join_tokens(ids)
        if joined is not None:
            try:
                return reduce(_strip_text, self.strips, joined.decode())
            except UnicodeDecodeError:
                pass  # byte tokens that are not UTF-8
        return decode_strings(self.steps, [self._strings[token_id] or "" for token_id in ids.tolist()])

    def stream(self) -> ChainStream:
        """A decoder of ids that arrive one by one."""
        return ChainStream(self)


class ChainStream:
    """Decodes ids that arrive one by one, and returns text as soon as no later id can change it.

    The last token is held back if it differs at the end of a text, and so are characters that may be stripped from the
    end. Steps that depend on all tokens hold back the whole text. Byte tokens are held back until they are a character.
    If the run of these tokens is not UTF-8, its bytes become U+FFFD, but for characters that have been returned.
    """

    def __init__(self, chain: ChainDecoder) -> None:
        self._chain = chain
        self._holds_one = any(isinstance(step, Suffix) for step in chain.steps)
        self.begin()

    def begin(self) -> None:
        """Begin a new text."""
        self._held: list[str] = []  # tokens
        self._n_tokens = 0
        self._run = b""  # byte tokens that are not yet a character
        self._is_bad = False  # whether the run of byte tokens is not UTF-8
        self._ends = [_StripStream(step) for step in self._chain.strips]

    def push(self, tokens: Sequence[str]) -> str:
        """The text that tokens complete."""
        self._held += tokens
        if not self._chain.by_token:
            return ""
        n = len(self._held) - self._holds_one
        done = "".join(self._token(token, False) for token in self._held[: max(n, 0)])
        del self._held[: max(n, 0)]
        return reduce(lambda text, end: end.push(text), self._ends, done)

    def flush(self) -> str:
        """The rest of the text."""
        if not self._chain.by_token:
            text = decode_strings(self._chain.steps, self._held)
        else:
            text = "".join(self._token(token, i == len(self._held) - 1) for i, token in enumerate(self._held))
            text += self._bytes()
            for end in self._ends:
                text = end.push(text) + end.flush()
        self.begin()
        return text

    def _token(self, token: str, last: bool) -> str:
        first, dummy_space = self._n_tokens == 0, self._chain.dummy_space
        if first and token == SPACE and dummy_space is not None and dummy_space.each:
            return ""
        self._n_tokens += 1
        byte = self._chain.byte_within(token, first, last)
        if byte is not None:
            return self._byte(byte)
        return self._bytes() + self._chain.apply_token_steps(token, first, last)

    def _byte(self, byte: int) -> str:
        """The text that a byte token completes."""
        self._run += bytes([byte])
        if self._is_bad:
            return self._rest()
        try:
            text, used = codecs.utf_8_decode(self._run, "strict", False)
        except UnicodeDecodeError:
            if not self._chain.by_character:
                self._is_bad = True
                return self._rest()
            text, used = codecs.utf_8_decode(self._run, "surrogateescape", False)
        self._run = self._run[used:]
        return _BAD.sub("\ufffd", text)

    def _rest(self) -> str:
        run, self._run = self._run, b""
        return "\ufffd" * len(run)

    def _bytes(self) -> str:
        """The rest of a run of byte tokens, which ends here."""
        self._is_bad = False
        return self._rest()


class _StripStream:
    """`Strip` of a text that arrives in parts."""

    def __init__(self, step: Strip) -> None:
        self._step = step
        self._start = step.start  # characters at the beginning that may still be removed
        self._tail = ""

    def push(self, text: str) -> str:
        n = 0
        while n < min(self._start, len(text)) and text[n] == self._step.content:
            n += 1
        self._start = 0 if n < len(text) else self._start - n
        text = self._tail + text[n:]
        kept = max(len(text) - self._step.stop, 0)
        self._tail = text[kept:]
        return text[:kept]

    def flush(self) -> str:
        return self._tail.rstrip(self._step.content)


# Steps ----------------------------------------------------------------------------------------------------------------


def spell_tokens(spec: TokenizerSpec) -> list[str | None]:
    """By id, the tokens as a tokenizer.json spells them for its decoder; None for an id that is no token."""
    strings: list[str | None] = [None] * spec.vocabulary.limit
    for token_id, token in spec.vocabulary.items():
        ordinary = spec.model == "byte" and spec.vocabulary.kinds[token_id] == ORDINARY
        strings[token_id] = to_letters(token) if ordinary else token.decode()
    for token_id, text in find_decoded_names(spec).items():
        strings[token_id] = text
    return strings


def _make_plan(steps: Sequence[DecoderStep]) -> tuple[list[TokenStep], bool, list[Strip]] | None:
    """(Steps on single tokens, whether ByteFallback follows, strips of the whole text); None for other lists."""
    rest = list(steps)
    changes: list[TokenStep] = []
    while rest and type(rest[0]) in _TOKEN_STEPS:
        step = rest.pop(0)
        changes.append(_TOKEN_STEPS[type(step)](step))
    with_bytes = bool(rest) and isinstance(rest[0], ByteFallback)
    rest = rest[with_bytes:]
    if rest and isinstance(rest[0], Fuse):
        strips = [step for step in rest[1:] if isinstance(step, Strip)]
        return (changes, with_bytes, strips) if len(strips) == len(rest) - 1 else None
    return None if rest else (changes, with_bytes, [])


def _drop_space(step: DummySpace, tokens: list[str]) -> list[str]:
    """The tokens without those that `DummySpace` makes empty, and the next one without its space."""
    n_empty = next((i for i, token in enumerate(tokens) if token != SPACE), len(tokens)) if step.each else 0
    return [token.removeprefix(SPACE) if i == 0 else token for i, token in enumerate(tokens[n_empty:])]


def _with_bytes(tokens: list[str], by_character: bool) -> list[str]:
    """`ByteFallback`."""
    found: list[str] = []
    run = bytearray()
    for token in [*tokens, None]:
        byte = None if token is None else read_byte(token)
        if byte is not None:
            run.append(byte)
            continue
        if run:
            found += _decode_run(run, by_character)
            run = bytearray()
        if token is not None:
            found.append(token)
    return found


def _decode_run(run: bytearray, by_character: bool) -> list[str]:
    """What a run of byte tokens becomes: its text, with U+FFFD for each byte that is not UTF-8, or for all bytes."""
    try:
        return [run.decode()]
    except UnicodeDecodeError:
        text = run.decode("utf-8", "surrogateescape")
        return [_BAD.sub("\ufffd", text)] if by_character else ["\ufffd"] * len(run)


def _strip_text(text: str, step: Strip) -> str:
    start, end = 0, len(text)
    while start < min(step.start, end) and text[start] == step.content:
        start += 1
    least = max(start, end - step.stop)
    while end > least and text[end - 1] == step.content:
        end -= 1
    return text[start:end]


def _replace(step: Any) -> TokenStep:
    if step.literal:
        return lambda token, _first, _last: token.replace(step.pattern, step.content)
    replace = normalizers.Replace(translate(step.pattern).expression, step.content)
    return lambda token, _first, _last: replace(token)


def _strip(step: Any) -> TokenStep:
    return lambda token, _first, _last: _strip_text(token, step)


def _metaspace(step: Any) -> TokenStep:
    return lambda token, first, _last: token.replace(step.replacement, "" if first and step.prepended else " ")


def _suffix(step: Any) -> TokenStep:
    return lambda token, _first, last: token.replace(step.suffix, "" if last else " ")


def _word_piece(step: Any) -> TokenStep:
    def change(token: str, first: bool, _last: bool) -> str:
        if not first:
            token = token[len(step.prefix) :] if token.startswith(step.prefix) else " " + token
        if step.cleanup:
            for old, new in _CLEANUP:
                token = token.replace(old, new)
        return token

    return change


_TOKEN_STEPS: dict[type, Callable[[Any], TokenStep]] = {
    Replace: _replace,
    Strip: _strip,
    Metaspace: _metaspace,
    Suffix: _suffix,
    WordPiece: _word_piece,
}
