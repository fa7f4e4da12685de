"""Decoding: from ids to bytes and text, all at once or as the ids come.

Not here: copying the bytes of tokens together (`bpe/decode/_decoder.pyx`).
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpe.batch import TokenBatch, id_array
from bpe.decode._decoder import gather, texts_of_rows, token_table
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.vocabulary import Vocabulary

Ids = Sequence[int] | NDArray[Any]


class TokenDecoder:
    """The bytes that tokens stand for in a text: an end-of-word mark is a space, or nothing at the end of the text."""

    def __init__(self, spec: TokenizerSpec) -> None:
        self.limit = spec.vocabulary.limit
        # Copies, since the kernel reads by them: the spec's can be written to by whoever holds it.
        self._blob, self._offsets = spec.vocabulary.blob, spec.vocabulary.offsets.copy()
        self._ends_word = None if spec.ends_word is None else spec.ends_word.copy()
        if spec.end_of_word is not None and spec.ends_word is not None:
            shown = _unmarked(spec.vocabulary, spec.ends_word, len(spec.end_of_word.encode()))
            self._blob, self._offsets = shown
        self._cells, self._sizes = token_table(self._blob, self._offsets)

    def bytes_of(self, ids: Ids) -> bytes:
        """The bytes of a sequence of ids.

        Raises:
            TypeError: for ids that are not integers.
            ValueError: for an id that is no token.

        """
        array = np.ascontiguousarray(id_array(ids), dtype=np.uint32)
        data = self.pieces_of(array)
        if self._ends_word is not None and len(array) and self._ends_word[array[-1]]:
            return data[:-1]
        return data

    def texts_of(self, batch: TokenBatch, errors: str) -> list[str] | None:
        """The text of each row of ids, as `bytes_of` and `bytes.decode` give it; None if an id is no token."""
        ids, offsets = np.ascontiguousarray(batch.ids, dtype=np.uint32), np.ascontiguousarray(batch.offsets)
        marked = np.empty(0, dtype=np.uint8) if self._ends_word is None else self._ends_word.view(np.uint8)
        texts = texts_of_rows(ids, offsets, self._cells, self._sizes, self._blob, self._offsets, marked, errors)
        return None if isinstance(texts, int) else texts

    def pieces_of(self, array: NDArray[np.uint32], before: int = 0) -> bytes:
        """The bytes of a uint32 array of ids, with the space of a last mark; errors count `before` ids before it."""
        data = gather(array, self._cells, self._sizes, self._blob, self._offsets)
        if isinstance(data, int):
            number = int(array[data])
            rule = f"ids are from 0 to {self.limit - 1}" if number >= self.limit else "the vocabulary has a gap there"
            raise ValueError(f"token id {number} at place {before + data} is no token of this vocabulary: {rule}")
        return data


def _unmarked(vocabulary: Vocabulary, ends_word: NDArray[np.bool_], mark: int) -> tuple[bytes, NDArray[np.int64]]:
    """The tokens' bytes with a space in place of the end-of-word mark, as (blob, offsets)."""
    tokens = [b""] * vocabulary.limit
    for number, token in vocabulary.items():
        tokens[number] = token[: len(token) - mark] + b" " if ends_word[number] else token
    offsets = np.zeros(vocabulary.limit + 1, dtype=np.int64)
    np.cumsum([len(token) for token in tokens], out=offsets[1:])
    return b"".join(tokens), offsets


class ByteDecoder:
    """Bytes of ids as they come. The space of an end-of-word mark is kept back until more ids come."""

    def __init__(self, tokens: TokenDecoder) -> None:
        self._tokens = tokens
        self.begin()

    def begin(self) -> None:
        """Another text begins."""
        self._space, self._came = b"", 0

    def push(self, ids: Ids) -> bytes:
        """The bytes of some more ids; errors are those of `bytes_of`."""
        array = np.ascontiguousarray(id_array(ids), dtype=np.uint32)
        if not len(array):
            return b""
        data = self._space + self._tokens.pieces_of(array, self._came)
        self._space, self._came = b"", self._came + len(array)
        ends_word = self._tokens._ends_word
        if ends_word is not None and ends_word[array[-1]]:
            data, self._space = data[:-1], b" "
        return data


class IncrementalDecoder:
    """Turns ids that arrive one by one into text, each character as soon as it is complete.

    Bytes that can no longer become a character are replaced by U+FFFD, as in `bytes.decode(errors="replace")`;
    a character that is still incomplete is never an error. At most three bytes, and the space of one end-of-word
    mark, are held back. A decoder is for one thread at a time.

    Made by `Tokenizer.decoder`.

    >>> import bpe
    >>> tok = bpe.train(texts=["a b"], vocab_size=256)
    >>> decoder = tok.decoder()
    >>> one, two, three = tok.encode("aé").tolist()  # an a, and the two bytes of an é
    >>> decoder.push(one), decoder.push(two), decoder.push(three), decoder.push([one, two]), decoder.flush()
    ('a', '', 'é', 'a', '�')
    """

    def __init__(self, tokens: TokenDecoder) -> None:
        self._bytes = ByteDecoder(tokens)
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, ids: Ids | int | np.integer[Any]) -> str:
        """The text that one id or several complete; "" while a character is incomplete.

        Args:
            ids: an int, or what `Tokenizer.decode` takes.

        Raises:
            TypeError, ValueError: for ids that the vocabulary does not have; the decoder is then unchanged.

        """
        single = isinstance(ids, (int, np.integer)) and not isinstance(ids, bool)
        return self._utf8.decode(self._bytes.push([ids] if single else ids))  # type: ignore[list-item,arg-type]

    def flush(self) -> str:
        """The rest of the text after the last id, which is U+FFFD for an incomplete character; the decoder is reset."""
        rest = self._utf8.decode(b"", final=True)
        self._utf8.reset()
        self._bytes.begin()
        return rest
