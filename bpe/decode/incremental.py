"""Decoding ids that arrive one by one, to bytes and to text."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np

from bpe.batch import as_id_array
from bpe.decode import _stream
from bpe.decode.decoder import Ids, TokenDecoder
from bpe.errors import describe, pluralize

#: The most bytes of a character; each token has at least one.
_MAX_CHARACTER_BYTES = 4

_Method = TypeVar("_Method", bound=Callable[..., Any])


def _with_fast_push(method: _Method) -> _Method:
    """Wrap `push` in a fast path for one id, without a Python frame."""
    return cast("_Method", wraps(method)(_stream.with_fast_push(method)))


class ByteDecoder:
    """Decodes ids to bytes incrementally. The space of an end-of-word mark is held back until another id follows."""

    def __init__(self, tokens: TokenDecoder) -> None:
        self._tokens = tokens
        self.stream = None if tokens.step_decoder is None else tokens.step_decoder.stream()
        self.begin()

    def begin(self) -> None:
        """Begin a new text."""
        self._space, self.n_ids = b"", 0
        if self.stream is not None:
            self.stream.begin()

    def end(self) -> bytes:
        """End the text, and begin a new one; return the rest."""
        data = b"" if self.stream is None else self.stream.flush().encode()
        self.begin()
        return data

    def push(self, ids: Ids) -> bytes:
        """Decode the next ids of the text; errors are those of `decode_bytes`."""
        array = np.ascontiguousarray(as_id_array(ids), dtype=np.uint32)
        if not len(array):
            return b""
        if self.stream is not None:
            tokens = self._tokens.spell(array, self.n_ids)
            self.n_ids += len(array)
            return self.stream.push(tokens).encode()
        data = self._space + self._tokens.decode_with_final_space(array, self.n_ids)
        self._space, self.n_ids = b"", self.n_ids + len(array)
        ends_word = self._tokens.ends_word
        if ends_word is not None and ends_word[array[-1]]:
            data, self._space = data[:-1], b" "
        return data


class IncrementalDecoder(_stream.TokenStream):
    """Decodes ids that arrive one by one, and returns each character as soon as it is complete.

    Invalid bytes are replaced by U+FFFD, as in `bytes.decode(errors="replace")`; an incomplete character at the end is
    held back, not replaced. At most three bytes, and the space of one end-of-word mark, are held back; with decoder
    steps, also what a later id may change. A character of byte tokens such as `<0xEB>` is not held back, though a later
    token of their run that is no text makes `Tokenizer.decode` replace all of it. A decoder must not be used by several
    threads at once. A copy, or a pickled decoder, goes on from the same state by itself.

    `Tokenizer.decoder` creates one.

    >>> import bpe
    >>> tok = bpe.train(texts=["a b"], vocab_size=256)
    >>> decoder = tok.decoder()
    >>> one, two, three = tok.encode("aé").tolist()  # an a, and the two bytes of an é
    >>> decoder.push(one), decoder.push(two), decoder.push(three), decoder.push([one, two]), decoder.flush()
    ('a', '', 'é', 'a', '�')
    """

    def __init__(
        self,
        tokens: TokenDecoder,
        *,
        skip_invalid: bool = False,
        skip_special: bool = False,
        prompt: Ids | None = None,
    ) -> None:
        self._tokens, self._skip_invalid, self._skip_special = tokens, skip_invalid, skip_special
        self._bytes = ByteDecoder(tokens)
        self.set_table(*tokens.find_simple_tokens(skip_special))
        self._save_state(b"", 0)
        if prompt is not None:
            self._begin_after(prompt)

    def __copy__(self) -> IncrementalDecoder:
        from copy import deepcopy

        return deepcopy(self)

    def __reduce__(self) -> tuple[Any, ...]:
        self._load_bytes()
        return _restore, (type(self), vars(self), *self.get_state())

    @_with_fast_push
    def push(self, ids: Ids | int | np.integer[Any]) -> str:
        """Decode one or more ids; return the text that they complete, "" while a character is incomplete.

        Args:
            ids: an int, or any argument of `Tokenizer.decode`.

        Raises:
            TypeError, ValueError: for ids that are not in the vocabulary; the state of the decoder does not change.

        """
        is_single = isinstance(ids, (int, np.integer)) and not isinstance(ids, bool)
        id_list: Ids = [ids] if is_single else ids  # type: ignore[list-item,assignment]
        incomplete, n_ids = self.get_state()
        kept_ids = self._select(id_list, n_ids) if self._skip_invalid or self._skip_special else id_list
        decoder = self._load_bytes()
        data = decoder.push(kept_ids)
        n_ids = decoder.n_ids if kept_ids is id_list else n_ids + len(id_list)
        return self._decode_complete(data if decoder.stream is not None else incomplete + data, n_ids, False)

    def steps(self, ids: Ids) -> list[str]:
        """Decode ids one by one; return for each the text that it completes, as `push` returns it.

        Raises:
            TypeError, ValueError: as `push`, for any of the ids; the state of the decoder does not change.

        >>> import bpe
        >>> tok = bpe.train(texts=["a b"], vocab_size=256)
        >>> tok.decoder().steps(tok.encode("aé"))
        ['a', '', 'é']

        """
        id_list = _list_ids(ids)
        texts = self.push_each(id_list)
        if texts is None:
            self._select(id_list, self.get_state()[1])  # raises before the state changes
            texts = [self.push(int(token_id)) for token_id in id_list]  # True is the id 1, as in a list
        return texts

    @staticmethod
    def push_batch(decoders: Sequence[IncrementalDecoder], ids: Ids) -> list[str]:
        """Push one id to each of several decoders; return the text that each completes.

        Raises:
            TypeError, ValueError: as `push`, for any of the ids, and unless there is one id for each decoder; the
                decoders do not change.

        >>> import bpe
        >>> tok = bpe.train(texts=["a b"], vocab_size=256)
        >>> decoders = [tok.decoder(), tok.decoder()]
        >>> bpe.decode.IncrementalDecoder.push_batch(decoders, tok.encode("ab"))
        ['a', 'b']

        """
        decoder_list, id_list = list(decoders), _list_ids(ids)
        if len(decoder_list) != len(id_list):
            raise ValueError(
                f"there are {pluralize(len(decoder_list), 'decoder')} and {pluralize(len(id_list), 'id')}; give one id "
                "for each decoder"
            )
        texts = _stream.push_to_all(decoder_list, id_list)
        if texts is None:
            for decoder, token_id in zip(decoder_list, id_list, strict=True):
                if not isinstance(decoder, IncrementalDecoder):
                    raise TypeError(f"a decoder is {describe(decoder)}; it must be one that Tokenizer.decoder made")
                decoder._select([token_id], decoder.get_state()[1])  # raises before a state changes
            texts = [decoder.push(int(token_id)) for decoder, token_id in zip(decoder_list, id_list, strict=True)]
        return texts

    def flush(self) -> str:
        """End the text and reset the decoder. Returns the text held back: U+FFFD for an incomplete character."""
        decoder = self._load_bytes()
        incomplete = b"" if decoder.stream is not None else self.get_state()[0]
        return self._decode_complete(incomplete + decoder.end(), 0, True)

    def _begin_after(self, prompt: Ids) -> None:
        """Take the state after a prompt. Only its last ids are decoded, and with decoder steps the first ones."""
        is_array = isinstance(prompt, np.ndarray) and prompt.ndim == 1
        ids: Ids = prompt if is_array or isinstance(prompt, list) else as_id_array(prompt)
        decoder, n_ids, n_last = self._bytes, len(ids), _MAX_CHARACTER_BYTES
        drops_ids = self._skip_invalid or self._skip_special
        if decoder.stream is not None:
            kept_ids = self._select(ids, 0) if drops_ids else ids
            decoder.stream.skip(len(kept_ids), lambda start, stop: self._tokens.spell(kept_ids[start:stop], start))
            self._save_state(b"", n_ids)
            return
        while True:
            decoder.n_ids = max(n_ids - n_last, 0)
            last_ids = ids[decoder.n_ids :]
            last_ids = self._select(last_ids, decoder.n_ids) if drops_ids else last_ids
            if len(last_ids) >= _MAX_CHARACTER_BYTES or n_last >= n_ids:
                break
            n_last *= 8
        self._decode_complete(decoder.push(last_ids), n_ids, False)

    def _select(self, ids: Ids, n_before: int) -> Ids:
        """Select the ids to decode; raises the errors of `push`."""
        if self._skip_invalid:
            return self._tokens.select_ids(ids, self._skip_special, True)
        self._tokens.check(np.ascontiguousarray(as_id_array(ids), dtype=np.uint32), n_before)
        return self._tokens.drop_special_ids(ids) if self._skip_special else ids

    def _load_bytes(self) -> ByteDecoder:
        """Bring the decoder of bytes to the state of the kernel."""
        incomplete, self._bytes.n_ids = self.get_state()
        if self._bytes.stream is not None:
            self._bytes.stream.run = incomplete
        return self._bytes

    def _save_state(self, incomplete: bytes, n_ids: int) -> None:
        """Give the kernel the state; that of decoder steps has the incomplete character in its run of byte tokens."""
        stream = self._bytes.stream
        self.set_state(incomplete if stream is None else stream.run, n_ids, stream is None or stream.is_settled)

    def _decode_complete(self, data: bytes, n_ids: int, final: bool) -> str:
        text, n_used = codecs.utf_8_decode(data, "replace", final)
        self._save_state(data[n_used:], n_ids)
        return text


def _list_ids(ids: Ids) -> list[int]:
    return ids if type(ids) is list else np.asarray(ids if isinstance(ids, np.ndarray) else as_id_array(ids)).tolist()


def _restore(
    kind: type[IncrementalDecoder], attributes: dict[str, Any], incomplete: bytes, n_ids: int
) -> IncrementalDecoder:
    """Rebuild a decoder that was copied or pickled."""
    decoder = kind.__new__(kind)
    vars(decoder).update(attributes)
    decoder.set_table(*decoder._tokens.find_simple_tokens(decoder._skip_special))
    decoder._save_state(incomplete, n_ids)
    return decoder
