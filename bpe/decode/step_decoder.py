"""Decoding by the steps of a tokenizer.json, with the text that Hugging Face's `tokenizers` gives.

Most files have steps that change each token by itself, then `ByteFallback`, `Fuse` and `DecodeStrip` for all text.
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

from bpe.base.offsets import compute_offsets
from bpe.decode._decoder import TokenTable
from bpe.text import normalizers
from bpe.text.letters import read_letters_or_utf8, spell_token_in_letters
from bpe.text.oniguruma import translate
from bpe.vocab.output_steps import (
    ByteFallback,
    DecodeByteLevel,
    DecodeMetaspace,
    DecodeReplace,
    DecoderStep,
    DecodeStrip,
    DummySpace,
    Fuse,
    Suffix,
    WordPiece,
)
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.special_names import find_decoded_names
from bpe.vocab.vocabulary import ORDINARY

#: The character that stands for a space.
SPACE = "\u2581"

#: How many of the last tokens of a prompt are decoded at first.
_MIN_LAST_TOKENS = 8

#: A token that `ByteFallback` reads as a byte: Rust's parser of numbers accepts a sign, too.
_BYTE = re.compile(r"<0x(\+[0-9A-Fa-f]|[0-9A-Fa-f]{2})>")

#: A byte that is part of no character, decoded with `surrogateescape`.
_INVALID_BYTE = re.compile("[\udc80-\udcff]")

#: What WordPiece's clean-up replaces, in this order.
_CLEANUP = (
    (" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"), (" 'm", "'m"),
    (" do not", " don't"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re"),
)  # fmt: skip

#: A step that changes each token by itself, given whether it is the first and the last one.
TokenStep = Callable[[str, bool, bool], str]


def decode_strings(steps: Sequence[DecoderStep], tokens: list[str]) -> str:
    """Decode tokens to text: apply all steps, one after the other.

    >>> steps = DecodeReplace("\u2581", " "), ByteFallback(), Fuse(), DecodeStrip(" ", 1, 0)
    >>> decode_strings(steps, ["\u2581a", "<0xC3>", "<0xA9>"])
    'aé'
    """
    if steps and isinstance(last_step := steps[-1], DummySpace):
        steps = steps[:-1]
        tokens = _drop_space(last_step, steps, tokens)
    for step in steps:
        if isinstance(step, Fuse):
            tokens = ["".join(tokens)]
        elif isinstance(step, ByteFallback):
            tokens = _join_byte_tokens(tokens, step.by_character)
        elif isinstance(step, DecodeByteLevel):
            tokens = [b"".join(map(read_letters_or_utf8, tokens)).decode("utf-8", "replace")]
        else:
            change_token, last_index = _TOKEN_STEPS[type(step)](step), len(tokens) - 1
            tokens = [change_token(token, i == 0, i == last_index) for i, token in enumerate(tokens)]
    return "".join(tokens)


def read_byte(token: str) -> int | None:
    """Read a token as the byte that `ByteFallback` reads, or None.

    >>> read_byte("<0x0A>"), read_byte("<0x0>")
    (10, None)
    """
    match = _BYTE.fullmatch(token)
    return None if match is None else int(match[1], 16)


class StepDecoder:
    """Decodes ids by a tokenizer's decoder steps. Immutable, so a copy is the same object."""

    def __init__(self, spec: TokenizerSpec) -> None:
        assert spec.decoder is not None
        self._spec = spec
        self.steps = spec.decoder
        self._strings = spell_tokens(spec)
        dummy_space = spec.decoder[-1] if spec.decoder else None
        #: The step that takes the first token's space, or None.
        self.dummy_space = dummy_space if isinstance(dummy_space, DummySpace) else None
        drops_space = self.dummy_space is not None and self.dummy_space.each and SPACE in self._strings
        #: The id of the token that is dropped at the beginning of a text, or None.
        self._dropped_id = self._strings.index(SPACE) if drops_space else None
        plan = _make_plan(spec.decoder if self.dummy_space is None else spec.decoder[:-1])
        #: Whether the text of a token does not depend on other tokens, except for byte tokens and for the first and the
        #: last token.
        self.decodes_by_token = plan is not None
        self._token_steps, self._has_byte_tokens, strip_steps = plan or ([], False, [])
        #: Whether a byte that is part of no character becomes U+FFFD by itself, rather than the whole run.
        self.by_character = any(isinstance(step, ByteFallback) and step.by_character for step in spec.decoder)
        #: The steps that strip the whole text.
        self.strip_steps: list[DecodeStrip] = strip_steps
        self._table, kinds = self._build_token_table() if self.decodes_by_token else (None, b"")
        has_other_end = any(isinstance(step, Suffix) for step in spec.decoder)
        #: The tokens that `_stream.TokenStream` decodes: a table, or None, and the kind of each id.
        self.simple_tokens = (None, b"") if has_other_end else (self._table, kinds)

    def __deepcopy__(self, memo: dict[int, Any]) -> StepDecoder:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return StepDecoder, (self._spec,)

    def _build_token_table(self) -> tuple[TokenTable | None, bytes]:
        """Build a table of the bytes of tokens within a text, and the kind of each: 1, or 2 for a byte token.

        None, and no kinds, if the text of some token is empty.
        """
        texts, kinds = [], bytearray()
        for token in self._strings:
            byte = None if token is None else self.find_token_byte(token, False, False)
            text = b"" if token is None else self.apply_token_steps(token, False, False).encode()
            if not text and token is not None:
                return None, b""
            texts.append(text if byte is None else bytes([byte]))
            kinds.append(1 if byte is None else 2)
        return TokenTable(b"".join(texts), compute_offsets(list(map(len, texts)))), bytes(kinds)

    def encode_token_text(self, token: str, is_first: bool, is_last: bool) -> bytes:
        """Encode one token's text, if `decodes_by_token`, before the whole text is stripped."""
        byte = self.find_token_byte(token, is_first, is_last)
        return self.apply_token_steps(token, is_first, is_last).encode() if byte is None else bytes([byte])

    def apply_token_steps(self, token: str, is_first: bool, is_last: bool) -> str:
        """Apply the steps that change each token by itself."""
        if is_first and self.dummy_space is not None:
            token = token.removeprefix(SPACE)
        return reduce(lambda text, change: change(text, is_first, is_last), self._token_steps, token)

    def is_nothing_at_start(self, token: str) -> bool:
        """Whether a text that begins with a token is decoded as if it began after it, because of `DummySpace`."""
        step = self.dummy_space
        return step is not None and _is_nothing_at_start(step, self._token_steps, token)

    def find_token_byte(self, token: str, is_first: bool, is_last: bool) -> int | None:
        """Find the byte that a token stands for, or None."""
        return read_byte(self.apply_token_steps(token, is_first, is_last)) if self._has_byte_tokens else None

    def get_string(self, token_id: int) -> str | None:
        """Return the name of a token; None for an id that is no token."""
        return self._strings[token_id] if 0 <= token_id < len(self._strings) else None

    def join_tokens(self, ids: NDArray[np.uint32]) -> bytes | None:
        """Join the bytes of all tokens, before the text is stripped; None if tokens must be decoded together."""
        if self._table is None:
            return None
        while self._dropped_id is not None and len(ids) and ids[0] == self._dropped_id:
            ids = ids[1:]
        if not len(ids):
            return b""
        middle_bytes = self._table.decode_bytes(ids[1:-1]) if len(ids) > 2 else b""
        end_tokens = [self.get_string(int(ids[0])), self.get_string(int(ids[-1]))]
        if isinstance(middle_bytes, int) or None in end_tokens:
            return None
        if len(ids) == 1:
            return self.encode_token_text(end_tokens[0] or "", True, True)
        return (
            self.encode_token_text(end_tokens[0] or "", True, False)
            + middle_bytes
            + self.encode_token_text(end_tokens[1] or "", False, True)
        )

    def decode_bytes(self, ids: NDArray[np.uint32]) -> bytes:
        """Decode ids that are all tokens to bytes: byte tokens as bytes, whether or not they are UTF-8."""
        joined_bytes = self.join_tokens(ids)
        if joined_bytes is None:
            return self.decode_text(ids).encode()
        text = joined_bytes.decode("utf-8", "surrogateescape")
        return reduce(_strip_text, self.strip_steps, text).encode("utf-8", "surrogateescape")

    def decode_text(self, ids: NDArray[np.uint32]) -> str:
        """Decode ids that are all tokens to text."""
        joined_bytes = self.join_tokens(ids)
        if joined_bytes is not None:
            try:
                return reduce(_strip_text, self.strip_steps, joined_bytes.decode())
            except UnicodeDecodeError:
                pass  # byte tokens that are not UTF-8
        return decode_strings(self.steps, [self._strings[token_id] or "" for token_id in ids.tolist()])

    def stream(self) -> StepStream:
        """Make a decoder of ids that arrive one by one."""
        return StepStream(self)


class StepStream:
    """Decodes ids that arrive one by one, and returns text as soon as no later id can change it.

    The last token is held back if it differs at the end of a text, and so are characters that may be stripped from the
    end. Steps that depend on all tokens hold back the whole text. Byte tokens are held back until they are a character.
    If the run of these tokens is not UTF-8, its bytes become U+FFFD, but for characters that have been returned.
    """

    def __init__(self, decoder: StepDecoder) -> None:
        self._decoder = decoder
        self._holds_last_token = any(isinstance(step, Suffix) for step in decoder.steps)
        self.begin()

    def begin(self) -> None:
        """Begin a new text."""
        self._held_tokens: list[str] = []  # tokens
        self._n_tokens = 0
        self.run = b""  # byte tokens that are not yet a character
        self._run_is_invalid = False  # whether the run of byte tokens is not UTF-8
        self._strip_streams = [_StripStream(step) for step in self._decoder.strip_steps]

    @property
    def is_settled(self) -> bool:
        """Whether the next token is decoded by itself, unless it is in or after a run of byte tokens."""
        if not self._decoder.decodes_by_token or self._holds_last_token or self._run_is_invalid:
            return False
        return self._is_begun and all(step.stop == 0 for step in self._decoder.strip_steps)

    @property
    def _is_begun(self) -> bool:
        """Whether the text of the next token does not depend on whether it is the first."""
        return self._n_tokens > 0 and not any(strip.n_removable for strip in self._strip_streams)

    def skip(self, n_tokens: int, spell: Callable[[int, int], list[str]]) -> None:
        """Take the state after many tokens, of which `spell(start, stop)` returns some.

        The first tokens are decoded until the next ones are in the middle of the text, then as many of the last ones as
        what is held back depends on: from one that ends a run of byte tokens.
        """
        n_begun = 0
        while n_begun < n_tokens and not self._is_begun and self._decoder.decodes_by_token:
            self.push(spell(n_begun, n_begun + 1))
            n_begun += 1
        n_last = _MIN_LAST_TOKENS
        while n_begun < n_tokens - n_last and self._decoder.decodes_by_token:
            tokens = spell(n_tokens - n_last, n_tokens)
            while tokens and self._decoder.find_token_byte(tokens[0], False, False) is not None:
                del tokens[0]
            if tokens:
                stream = StepStream(self._decoder)
                stream._n_tokens = 1
                for strip in stream._strip_streams:
                    strip.n_removable = 0
                stream.push(tokens)
                if all(strip.is_full for strip in stream._strip_streams):
                    vars(self).update(vars(stream))
                    return
            n_last *= 2
        self.push(spell(n_begun, n_tokens))

    def push(self, tokens: Sequence[str]) -> str:
        """Add tokens; return the text that they complete."""
        self._held_tokens += tokens
        if not self._decoder.decodes_by_token:
            return ""
        n_ready = len(self._held_tokens) - self._holds_last_token
        text = "".join(self._decode_token(token, False) for token in self._held_tokens[: max(n_ready, 0)])
        del self._held_tokens[: max(n_ready, 0)]
        return reduce(lambda text, strip: strip.push(text), self._strip_streams, text)

    def flush(self) -> str:
        """End the text; return the rest of it."""
        if not self._decoder.decodes_by_token:
            text = decode_strings(self._decoder.steps, self._held_tokens)
        else:
            text = "".join(
                self._decode_token(token, i == len(self._held_tokens) - 1) for i, token in enumerate(self._held_tokens)
            )
            text += self._end_run()
            for strip in self._strip_streams:
                text = strip.push(text) + strip.flush()
        self.begin()
        return text

    def _decode_token(self, token: str, is_last: bool) -> str:
        is_first = self._n_tokens == 0
        if is_first and self._decoder.is_nothing_at_start(token):
            return ""
        self._n_tokens += 1
        byte = self._decoder.find_token_byte(token, is_first, is_last)
        if byte is not None:
            return self._add_byte(byte)
        return self._end_run() + self._decoder.apply_token_steps(token, is_first, is_last)

    def _add_byte(self, byte: int) -> str:
        """Add a byte token; return the text that it completes."""
        self.run += bytes([byte])
        if self._run_is_invalid:
            return self._replace_run()
        try:
            text, n_used = codecs.utf_8_decode(self.run, "strict", False)
        except UnicodeDecodeError:
            if not self._decoder.by_character:
                self._run_is_invalid = True
                return self._replace_run()
            text, n_used = codecs.utf_8_decode(self.run, "surrogateescape", False)
        self.run = self.run[n_used:]
        return _INVALID_BYTE.sub("\ufffd", text)

    def _replace_run(self) -> str:
        run, self.run = self.run, b""
        return "\ufffd" * len(run)

    def _end_run(self) -> str:
        """End a run of byte tokens; return the rest of its text."""
        self._run_is_invalid = False
        return self._replace_run()


class _StripStream:
    """`DecodeStrip` of a text that arrives in parts."""

    def __init__(self, step: DecodeStrip) -> None:
        self._step = step
        self.n_removable = step.start  # characters at the beginning that may still be removed
        self._tail = ""

    @property
    def is_full(self) -> bool:
        """Whether all characters are held back that may be."""
        return len(self._tail) == self._step.stop

    def push(self, text: str) -> str:
        n_removed = 0
        while n_removed < min(self.n_removable, len(text)) and text[n_removed] == self._step.content:
            n_removed += 1
        self.n_removable = 0 if n_removed < len(text) else self.n_removable - n_removed
        text = self._tail + text[n_removed:]
        n_final = max(len(text) - self._step.stop, 0)
        self._tail = text[n_final:]
        return text[:n_final]

    def flush(self) -> str:
        return self._tail.rstrip(self._step.content)


# Steps ----------------------------------------------------------------------------------------------------------------


def spell_tokens(spec: TokenizerSpec) -> list[str | None]:
    """Spell tokens, by id, as a tokenizer.json does for its decoder; None for an id that is no token."""
    strings: list[str | None] = [None] * spec.vocabulary.limit
    for token_id, token in spec.vocabulary.items():
        is_ordinary = spec.model == "byte" and spec.vocabulary.kinds[token_id] == ORDINARY
        strings[token_id] = spell_token_in_letters(token) if is_ordinary else token.decode()
    for token_id, text in find_decoded_names(spec).items():
        strings[token_id] = text
    return strings


def is_additive(steps: Sequence[DecoderStep]) -> bool:
    """Whether each token adds its text to that of the tokens before it, but for byte tokens and the first token."""
    plan = _make_plan(steps)
    return plan is not None and not any(
        isinstance(step, Suffix) or (step in plan[2] and step.stop > 0) for step in steps
    )


def find_byte(steps: Sequence[DecoderStep], token: str) -> int | None:
    """Find the byte that a token within a text stands for, by additive steps; None for any other token."""
    token_steps, has_byte_tokens, _ = _make_plan(steps) or ([], False, [])
    if not has_byte_tokens:
        return None
    return read_byte(reduce(lambda text, change: change(text, False, False), token_steps, token))


def _make_plan(steps: Sequence[DecoderStep]) -> tuple[list[TokenStep], bool, list[DecodeStrip]] | None:
    """Divide steps: (those on single tokens, whether ByteFallback follows, strips of the text); None for others."""
    remaining_steps = list(steps)
    token_steps: list[TokenStep] = []
    while remaining_steps and type(remaining_steps[0]) in _TOKEN_STEPS:
        step = remaining_steps.pop(0)
        token_steps.append(_TOKEN_STEPS[type(step)](step))
    has_byte_tokens = bool(remaining_steps) and isinstance(remaining_steps[0], ByteFallback)
    remaining_steps = remaining_steps[has_byte_tokens:]
    if remaining_steps and isinstance(remaining_steps[0], Fuse):
        strip_steps = [step for step in remaining_steps[1:] if isinstance(step, DecodeStrip)]
        return (token_steps, has_byte_tokens, strip_steps) if len(strip_steps) == len(remaining_steps) - 1 else None
    return None if remaining_steps else (token_steps, has_byte_tokens, [])


def _is_nothing_at_start(step: DummySpace, token_steps: Sequence[TokenStep], token: str) -> bool:
    """Whether a token at the beginning is no text, so that the next one loses its space."""
    if step.each and token == SPACE:
        return True
    return not reduce(lambda text, change: change(text, False, False), token_steps, token)


def _drop_space(step: DummySpace, steps: Sequence[DecoderStep], tokens: list[str]) -> list[str]:
    """Drop the first tokens that are no text, and the space of the next one; `steps` are those before `DummySpace`."""
    token_steps = (_make_plan(steps) or ([],))[0]
    indices = (i for i, token in enumerate(tokens) if not _is_nothing_at_start(step, token_steps, token))
    n_empty = next(indices, len(tokens))
    return [token.removeprefix(SPACE) if i == 0 else token for i, token in enumerate(tokens[n_empty:])]


def _join_byte_tokens(tokens: list[str], by_character: bool) -> list[str]:
    """Replace each run of byte tokens by its text, as `ByteFallback` does."""
    new_tokens: list[str] = []
    run = bytearray()
    for token in [*tokens, None]:
        byte = None if token is None else read_byte(token)
        if byte is not None:
            run.append(byte)
            continue
        if run:
            new_tokens += _decode_run(run, by_character)
            run = bytearray()
        if token is not None:
            new_tokens.append(token)
    return new_tokens


def _decode_run(run: bytearray, by_character: bool) -> list[str]:
    """Decode a run of byte tokens: U+FFFD for each byte that is not UTF-8, or for all bytes."""
    try:
        return [run.decode()]
    except UnicodeDecodeError:
        text = run.decode("utf-8", "surrogateescape")
        return [_INVALID_BYTE.sub("\ufffd", text)] if by_character else ["\ufffd"] * len(run)


def _strip_text(text: str, step: DecodeStrip) -> str:
    start, end = 0, len(text)
    while start < min(step.start, end) and text[start] == step.content:
        start += 1
    min_end = max(start, end - step.stop)
    while end > min_end and text[end - 1] == step.content:
        end -= 1
    return text[start:end]


def _make_replace_step(step: Any) -> TokenStep:
    if step.literal:
        return lambda token, _is_first, _is_last: token.replace(step.pattern, step.content)
    replace = normalizers.Replace(translate(step.pattern).expression, step.content)
    return lambda token, _is_first, _is_last: replace(token)


def _make_strip_step(step: Any) -> TokenStep:
    return lambda token, _is_first, _is_last: _strip_text(token, step)


def _make_metaspace_step(step: Any) -> TokenStep:
    return lambda token, is_first, _is_last: token.replace(step.replacement, "" if is_first and step.prepended else " ")


def _make_suffix_step(step: Any) -> TokenStep:
    return lambda token, _is_first, is_last: token.replace(step.suffix, "" if is_last else " ")


def _make_word_piece_step(step: Any) -> TokenStep:
    def change_token(token: str, is_first: bool, _is_last: bool) -> str:
        if not is_first:
            token = token[len(step.prefix) :] if token.startswith(step.prefix) else " " + token
        if step.cleanup:
            for old, new in _CLEANUP:
                token = token.replace(old, new)
        return token

    return change_token


_TOKEN_STEPS: dict[type, Callable[[Any], TokenStep]] = {
    DecodeReplace: _make_replace_step,
    DecodeStrip: _make_strip_step,
    DecodeMetaspace: _make_metaspace_step,
    Suffix: _make_suffix_step,
    WordPiece: _make_word_piece_step,
}
