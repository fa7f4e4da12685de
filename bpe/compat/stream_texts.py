"""What each token adds to the text of a `DecodeStream`, so that most of its steps decode nothing."""

from __future__ import annotations

from typing import Any

from bpe.base._id_lists import as_array
from bpe.decode._decoder import TokenTable
from bpe.decode.step_decoder import is_additive
from bpe.errors import FormatError
from bpe.formats.huggingface.steps import read_decoder
from bpe.vocab.spec import TokenizerSpec

#: Ids of a prompt that are not shortened.
_MAX_PROMPT_IDS = 64


class StreamTexts:
    """The texts of tokens, learned when a stream first has them; for decoders of which `adds_up` is true.

    A token that follows a text that does not end with U+FFFD always adds the same to it, if what it adds and its text
    alone are complete characters.

    Args:
        skip_special: whether the stream leaves out special tokens.
        table: the bytes of tokens, if the text of each is its bytes; or None.
        is_kept: by id, for the table: 1 unless the id is left out.

    Attributes:
        entries: id → what the token adds, and its text alone; bytes for parts of characters; None for tokens that must
            be decoded.

    """

    def __init__(self, skip_special: bool, table: TokenTable | None, is_kept: bytes) -> None:
        self._skip_special, self._table, self._is_kept = skip_special, table, is_kept
        self.entries: dict[int, tuple[str, str] | bytes | None] = {}

    def learn(self, tokenizer: Any, token_id: int) -> tuple[str, str] | bytes | None:
        """Return the entry of a token, which is decoded unless it is known."""
        if token_id not in self.entries:
            alone, twice = (tokenizer.decode([token_id] * n, self._skip_special) for n in (1, 2))
            added = twice[len(alone) :]
            is_regular = alone and added and twice.startswith(alone) and "\ufffd" not in twice
            if is_regular:
                self.entries[token_id] = alone if added == alone else added, alone
            else:
                is_part = self._table is not None and token_id < len(self._is_kept) and self._is_kept[token_id]
                self.entries[token_id] = self._table.get_token(token_id) if is_part and self._table else None
        return self.entries[token_id]

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
            entry = self.learn(tokenizer, ids[start])
            if isinstance(entry, tuple) and len(entry[1]) > 1:
                is_complete = not tokenizer.decode(ids[start:], self._skip_special).endswith("\ufffd")
                return ids[start:] if is_complete else ids
        return ids


def adds_up(decoder: Any, spec: TokenizerSpec) -> bool:
    """Whether a decoder, given as JSON, changes each token by itself and joins them, but for runs of byte tokens."""
    if isinstance(decoder, dict) and decoder.get("type") == "ByteLevel":
        return True
    if decoder is None:
        return False
    try:
        steps = read_decoder(decoder, spec)
    except FormatError:
        return False
    return steps is not None and is_additive(steps)
