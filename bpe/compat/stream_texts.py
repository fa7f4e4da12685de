"""What each token adds to the text of a `DecodeStream`, so that most of its steps decode nothing."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Any

from bpe.base._id_lists import as_array
from bpe.decode._decoder import TokenTable
from bpe.decode.step_decoder import find_byte, is_additive
from bpe.errors import FormatError
from bpe.formats.huggingface.steps import read_decoder
from bpe.vocab.output_steps import DecoderStep, DecodeStrip
from bpe.vocab.spec import TokenizerSpec

#: Ids of a prompt that are not shortened.
_MAX_PROMPT_IDS = 64


class StreamTexts:
    """The texts of tokens, decoded when a stream first has them; for decoders with additive steps.

    A token that follows a text that does not end with U+FFFD always adds the same to it, if what it adds and its text
    alone are complete characters. A space that is stripped from the beginning adds itself to later text.

    Args:
        skip_special: whether the stream leaves out special tokens.
        steps: the steps of the decoder; none for ByteLevel.
        names: what each token is decoded as, by id.
        table: the bytes of tokens, if the text of each is its bytes; or None.
        is_kept: by id, for the table: 1 unless the id is left out.

    Attributes:
        entries: id → what the token adds, and its text alone; bytes for parts of characters; None for tokens that must
            be decoded.

    """

    def __init__(
        self,
        skip_special: bool,
        steps: Sequence[DecoderStep],
        names: Sequence[str | None],
        table: TokenTable | None,
        is_kept: bytes,
    ) -> None:
        self._skip_special, self._steps, self._names = skip_special, steps, names
        self._table, self._is_kept = table, is_kept
        strips = [step.content for step in steps if isinstance(step, DecodeStrip)]
        self._stripped, self._n_strips = set(strips), len(strips)
        self.entries: dict[int, tuple[str, str] | bytes | None] = {}

    def get_entry(self, tokenizer: Any, token_id: int) -> tuple[str, str] | bytes | None:
        """Return the entry of a token, which is decoded unless it is known."""
        if token_id not in self.entries:
            alone, twice, thrice = (tokenizer.decode([token_id] * n, self._skip_special) for n in (1, 2, 3))
            added = thrice[len(twice) :]
            is_regular = added and "\ufffd" not in thrice and twice == alone + added and thrice == twice + added
            if is_regular and (alone or self._leaves_no_strip(added)):
                self.entries[token_id] = alone if added == alone else added, alone
            else:
                self.entries[token_id] = self._find_bytes(token_id, alone)
        return self.entries[token_id]

    def _leaves_no_strip(self, added: str) -> bool:
        """Whether a token without a text alone, which adds this later, leaves nothing to strip from the next token.

        A second such token has this text, so that no more can be stripped if it begins with what is stripped.
        """
        return not self._stripped or (self._n_strips == 1 and added[0] in self._stripped)

    def _find_bytes(self, token_id: int, alone: str) -> bytes | None:
        """Find the bytes of a token that is part of a character, and whose text alone is U+FFFD or none."""
        if self._table is not None:
            is_kept = token_id < len(self._is_kept) and self._is_kept[token_id]
            return self._table.get_token(token_id) if is_kept else None
        name = self._names[token_id] if alone == "\ufffd" and token_id < len(self._names) else None
        byte = None if name is None else find_byte(self._steps, name)
        return None if byte is None else bytes([byte])

    def decode(self, data: bytes, ends_with_part: bool) -> str | None:
        """Decode the bytes of tokens after a text; U+FFFD at the end if they are incomplete, None if that is not known.

        With `ByteFallback`, only a run of byte tokens is known, until one is no text: it replaces the run before it.
        """
        if self._table is not None:
            return data.decode("utf-8", "replace")
        try:
            text, n_used = codecs.utf_8_decode(data, "strict", False)
        except UnicodeDecodeError:
            return None
        if n_used == 0:
            return "\ufffd"
        return text if ends_with_part and text not in self._stripped and text != "\ufffd" else None

    def shorten(self, tokenizer: Any, ids: list[int]) -> list[int]:
        """Return the last ids of a prompt, after which a stream goes on as after all ids.

        The first of them is no byte token, whose text is one character. All ids are returned if the prompt is short, or
        if its end is no complete character: then the stream returns the text of the prompt, too.
        """
        if len(ids) <= _MAX_PROMPT_IDS:
            return ids
        try:
            as_array(ids)
        except (TypeError, OverflowError):
            return ids  # decoding raises the error
        for start in range(len(ids) - 1, len(ids) - _MAX_PROMPT_IDS, -1):
            entry = self.get_entry(tokenizer, ids[start])
            if isinstance(entry, tuple) and len(entry[1]) > 1:
                is_complete = not tokenizer.decode(ids[start:], self._skip_special).endswith("\ufffd")
                return ids[start:] if is_complete else ids
        return ids


def read_additive_steps(decoder: Any, spec: TokenizerSpec) -> Sequence[DecoderStep] | None:
    """Read the steps of a decoder, given as JSON, that change each token by itself and join them; None for others.

    Byte tokens make exceptions. For ByteLevel there are no steps: the text of a token is its bytes.
    """
    if isinstance(decoder, dict) and decoder.get("type") == "ByteLevel":
        return ()
    try:
        steps = None if decoder is None else read_decoder(decoder, spec)
    except FormatError:
        return None
    return steps if steps and is_additive(steps) else None
