"""Decoding: converts ids to bytes and text, all at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import numpy as np

from bpe.base.forks import cached_property
from bpe.base.offsets import compute_offsets
from bpe.base.utf8 import to_str
from bpe.batch import TokenBatch, as_id_array, have_no_integer_type
from bpe.decode import _decoder
from bpe.decode._decoder import TokenTable
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.vocabulary import UNUSED, join_slices

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bpe.decode.step_decoder import StepDecoder

Ids: TypeAlias = "Sequence[int] | NDArray[Any]"

_Method = TypeVar("_Method", bound=Callable[..., Any])


def with_fast_decode(method: _Method) -> _Method:
    """Wrap `decode` or `decode_bytes` of a tokenizer in a fast path for few ids, without a Python frame."""
    return cast("_Method", wraps(method)(_decoder.with_fast_decode(method, method.__name__ == "decode")))


class TokenDecoder:
    """Decodes ids to bytes. An end-of-word mark becomes a space, or nothing at the end of the text.

    A tokenizer with decoder steps of its own is decoded by these (`step_decoder.py`). Immutable, so a copy is the same
    object.
    """

    def __init__(self, spec: TokenizerSpec) -> None:
        from bpe.vocab.output_steps import DecodeByteLevel
        from bpe.vocab.special_names import find_decoded_bytes, find_special_ids

        self._spec = spec
        self.limit = spec.vocabulary.limit
        # Whether text is the bytes of all tokens, marks included.
        byte_level = spec.model == "byte" and spec.decoder == (DecodeByteLevel(),)
        self.step_decoder: StepDecoder | None = None
        if spec.decoder is not None and not byte_level:
            from bpe.decode.step_decoder import StepDecoder

            self.step_decoder = StepDecoder(spec)
        self._is_token = spec.vocabulary.kinds != UNUSED
        # A copy, because the caller may still write to the spec's arrays.
        self.ends_word = None if spec.ends_word is None or byte_level else spec.ends_word.copy()
        if self.ends_word is not None:
            self.ends_word[list(find_decoded_bytes(spec, byte_level=False))] = False  # their text has no mark
        self._table = TokenTable(*_decode_tokens(spec, byte_level))
        #: For `with_fast_decode`: the table, or None where a text is more than the bytes of its tokens.
        self.fast_table = self._table if self.step_decoder is None and self.ends_word is None else None
        self._is_special = np.zeros(self.limit + 1, dtype=np.bool_)  # the last entry is for ids outside the vocabulary
        self._is_special[find_special_ids(spec)] = True

    def __deepcopy__(self, memo: dict[int, Any]) -> TokenDecoder:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return TokenDecoder, (self._spec,)

    def drop_special_ids(self, ids: Ids) -> NDArray[np.uint32]:
        """Drop the ids of special tokens.

        Raises:
            TypeError, ValueError: as `decode_bytes`.

        """
        array = np.ascontiguousarray(as_id_array(ids), dtype=np.uint32)
        if len(array) and array.max() >= self.limit:
            self.check(array)
        return array[~self._is_special.take(array, mode="clip")]  # another thread may change the array now

    def select_ids(self, ids: Ids, skip_special: bool, skip_invalid: bool) -> Ids:
        """Select the ids to decode: `skip_invalid` drops ids without a token, `skip_special` special tokens."""
        if skip_invalid:
            ids = self.select_valid_ids(ids)
        return self.drop_special_ids(ids) if skip_special else ids

    def select_valid_ids(self, ids: Ids) -> NDArray[np.uint32]:
        """Select the ids that have a token; negative ids and large ones, as in labels, are left out too.

        Raises:
            TypeError: for ids that are not integers.

        """
        array = np.asarray(ids)
        if have_no_integer_type(ids, array):
            array = np.array([token_id for token_id in ids if 0 <= token_id < self.limit], dtype=np.uint32)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            array = as_id_array(ids)  # an empty list, or an error
        ids_in_range: NDArray[np.uint32] = array[(array >= 0) & (array < self.limit)].astype(np.uint32)
        valid_ids: NDArray[np.uint32] = ids_in_range[self._is_token.take(ids_in_range, mode="clip")]
        return valid_ids

    def drop_special_in_batch(self, batch: TokenBatch) -> TokenBatch:
        """Drop the special tokens of a batch; ids outside the vocabulary stay."""
        is_kept = ~self._is_special[np.minimum(batch.ids, self.limit)]
        n_kept_before = compute_offsets(is_kept)
        return TokenBatch(batch.ids[is_kept], n_kept_before[batch.offsets])

    def decode_bytes(self, ids: Ids) -> bytes:
        """Decode a sequence of ids to bytes.

        Raises:
            TypeError: for ids that are not integers.
            ValueError: for an id without a token.

        """
        array = np.ascontiguousarray(as_id_array(ids), dtype=np.uint32)
        if self.step_decoder is not None:
            self.check(array)
            return self.step_decoder.decode_bytes(array)
        data = self.decode_with_final_space(array)
        if self.ends_word is not None and len(array) and self.ends_word[array[-1]]:
            return data[:-1]
        return data

    def decode_text(self, ids: Ids, errors: str) -> str:
        """Decode a sequence of ids to text; raises the errors of `decode_bytes`, and of `bytes.decode`."""
        if self.step_decoder is None or errors != "replace":
            return to_str(self.decode_bytes(ids), errors)
        array = np.ascontiguousarray(as_id_array(ids), dtype=np.uint32)
        self.check(array)
        return self.step_decoder.decode_text(array)

    def decode_texts(self, batch: TokenBatch, errors: str) -> list[str] | None:
        """Decode each row to the text that `decode_text` gives; None if rows must be decoded one by one."""
        if self.step_decoder is not None:
            return None
        ids, offsets = np.ascontiguousarray(batch.ids, dtype=np.uint32), np.ascontiguousarray(batch.offsets)
        ends_word = np.empty(0, dtype=np.uint8) if self.ends_word is None else self.ends_word.view(np.uint8)
        texts = self._table.decode_texts(ids, offsets, ends_word, errors)
        return None if isinstance(texts, int) else texts

    def decode_with_final_space(self, array: NDArray[np.uint32], n_before: int = 0) -> bytes:
        """Decode a uint32 array of ids to bytes, including the space of a final mark.

        `n_before` is the number of ids before the array; it is added to the position in error messages.
        """
        data = self._table.decode_bytes(array)
        if isinstance(data, int):
            raise self._make_error(int(array[data]), n_before + data)
        return data

    def find_simple_tokens(self, skip_special: bool) -> tuple[TokenTable | None, bytes, bool]:
        """Find the tokens that `_stream.TokenStream` decodes by itself: the arguments of its `set_table`."""
        steps = self.step_decoder
        table, kinds = (self.fast_table, b"") if steps is None else steps.simple_tokens
        return table, self._simple_ordinary_kinds if skip_special else kinds, steps is not None

    @cached_property
    def _simple_ordinary_kinds(self) -> bytes:
        """The kinds of tokens for a stream that skips special tokens, which Python drops."""
        kinds = b"" if self.step_decoder is None else self.step_decoder.simple_tokens[1]
        ordinary = (~self._is_special[:-1]).view(np.uint8)
        return (ordinary * np.frombuffer(kinds, np.uint8) if kinds else ordinary).tobytes()

    def spell(self, ids: Ids, n_before: int) -> list[str]:
        """Spell ids, in which `n_before` ids precede, for the decoder steps; errors are those of `decode_bytes`."""
        assert self.step_decoder is not None
        array = np.ascontiguousarray(as_id_array(ids), dtype=np.uint32)
        self.check(array, n_before)
        return [self.step_decoder.get_string(token_id) or "" for token_id in array.tolist()]

    def check(self, array: NDArray[np.uint32], n_before: int = 0) -> None:
        """Raise ValueError for an id without a token."""
        if array.max(initial=0) < self.limit and (len(array) == 0 or self._is_token.take(array, mode="clip").all()):
            return
        for index, token_id in enumerate(array.tolist()):  # none, if another thread has corrected the array meanwhile
            if token_id >= self.limit or not self._is_token[token_id]:
                raise self._make_error(token_id, n_before + index)

    def _make_error(self, token_id: int, position: int) -> ValueError:
        rule = f"ids are from 0 to {self.limit - 1}" if token_id >= self.limit else "the vocabulary has a gap there"
        return ValueError(
            f"token id {token_id} at position {position} is no token of this vocabulary: {rule}; to leave out such "
            "ids, pass skip_invalid=True (bpe decode --skip-invalid)"
        )


def _decode_tokens(spec: TokenizerSpec, byte_level: bool) -> tuple[bytes, NDArray[np.int64]]:
    """Decode each token by itself to bytes: (blob, offsets).

    An end-of-word mark becomes a space; with `byte_level` it stays, as in the decoder ByteLevel.
    """
    from bpe.vocab.special_names import find_decoded_bytes

    vocabulary, mark_size = spec.vocabulary, 0 if byte_level else len((spec.end_of_word or "").encode())
    bytes_of_id = find_decoded_bytes(spec, byte_level=byte_level)
    if not bytes_of_id and (not mark_size or spec.ends_word is None):
        return vocabulary.blob, vocabulary.offsets.copy()  # a copy: the kernel trusts the offsets, which others can set
    blob, starts = np.frombuffer(vocabulary.blob, dtype=np.uint8).copy(), vocabulary.offsets[:-1].copy()
    lengths = vocabulary.lengths.astype(np.int64)
    if mark_size and spec.ends_word is not None:  # the first byte of a mark becomes a space, and the others are cut off
        blob[(starts + lengths)[spec.ends_word] - mark_size] = ord(" ")
        lengths[spec.ends_word] -= mark_size - 1
    token_ids = list(bytes_of_id)
    lengths[token_ids] = list(map(len, bytes_of_id.values()))
    starts[token_ids] = len(blob) + compute_offsets(lengths[token_ids])[:-1]
    added_bytes = np.frombuffer(b"".join(bytes_of_id.values()), np.uint8)
    decoded_bytes, offsets = join_slices(np.concatenate((blob, added_bytes)), starts, lengths)
    return decoded_bytes.tobytes(), offsets
