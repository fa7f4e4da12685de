"""The two long lists of a tokenizer.json, `vocab` and `merges`, as JSON text, without an object for each line.

A kernel joins slices of bytes: 50 ms for a vocabulary of 50,000 tokens, 190 ms with a formatted string for each line,
which stalls other threads besides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bpe.base.offsets import offsets_of
from bpe.vocab.byte_letters import byte_letters
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.vocabulary import ORDINARY, end_to_end

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: GPT-2's letter for each byte as UTF-8 in a JSON string: one byte or two, and 0 after one.
_QUOTED_LETTERS = np.array(
    [list(encode_basestring(letter)[1:-1].encode().ljust(2, b"\0")) for letter in byte_letters()], dtype=np.uint8
)


def vocab_and_merges(spec: TokenizerSpec, names: dict[int, str]) -> tuple[bytes, bytes]:
    """The lines of the vocab, with the ordinary tokens and these names of others, and the lines of the merges."""
    tokens = _spelled_tokens(spec, names)
    entries = _lines((b',\n      "', b'": ', b""), tokens.of(tokens.numbers), _spelled_numbers(tokens.numbers))
    return entries, _lines((b',\n      ["', b'", "', b'"]'), *map(tokens.of, spec.merges.T))


class _Slices(NamedTuple):
    """Texts: text i is `blob[starts[i] : starts[i] + lengths[i]]`."""

    blob: NDArray[np.uint8]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]


@dataclass(frozen=True)
class _Tokens:
    """The tokens of the vocab as they are spelled between the quotes of JSON strings.

    Attributes:
        numbers: int64, their ids, which rise.
        slices: the spelling of each id.

    """

    numbers: NDArray[np.int64]
    slices: _Slices

    def of(self, ids: NDArray[np.integer]) -> _Slices:
        """The spellings of these ids."""
        return _Slices(self.slices.blob, self.slices.starts[ids], self.slices.lengths[ids])


def _spelled_tokens(spec: TokenizerSpec, names: dict[int, str]) -> _Tokens:
    """The ordinary tokens, and the tokens that have these names."""
    vocabulary = spec.vocabulary
    ordinary = np.flatnonzero(vocabulary.kinds == ORDINARY)
    if spec.model == "byte":
        letters = _QUOTED_LETTERS[np.frombuffer(vocabulary.blob, dtype=np.uint8)]
        bounds = offsets_of(1 + (letters[:, 1] != 0))[vocabulary.offsets]
        flat = letters.ravel()
        blob, starts, lengths = flat[flat != 0].tobytes(), bounds[:-1].copy(), np.diff(bounds)
    else:
        texts = [_quoted(token.decode()) for _, token in vocabulary.items(ORDINARY)]
        blob, bounds = b"".join(texts), offsets_of(list(map(len, texts)))
        starts, lengths = np.zeros((2, vocabulary.limit), dtype=np.int64)
        starts[ordinary], lengths[ordinary] = bounds[:-1], np.diff(bounds)
    quoted, others = list(map(_quoted, names.values())), list(names)
    bounds = offsets_of(list(map(len, quoted))) + len(blob)
    starts[others], lengths[others] = bounds[:-1], np.diff(bounds)
    blob += b"".join(quoted)
    numbers = np.sort(np.append(ordinary, np.array(others, dtype=np.int64)))
    return _Tokens(numbers, _Slices(np.frombuffer(blob, dtype=np.uint8), starts, lengths))


def _quoted(text: str) -> bytes:
    """A text as between the quotes of a JSON string."""
    return encode_basestring(text)[1:-1].encode()


def _spelled_numbers(numbers: NDArray[np.int64]) -> _Slices:
    """Numbers as decimal digits."""
    digits = "".join(map(str, numbers.tolist())).encode()
    bounds = offsets_of(1 + np.searchsorted(10 ** np.arange(1, 19), numbers, side="right"))
    return _Slices(np.frombuffer(digits, dtype=np.uint8), bounds[:-1], np.diff(bounds))


def _lines(between: Sequence[bytes], *columns: _Slices) -> bytes:
    """Lines of texts, one of each column, with constants before, between and after them. The first has no comma.

    A kernel joins the slices: a tenth of the time of formatting 50,000 lines.
    """
    count, width = len(columns[0].starts), len(between) + len(columns)
    if not count:
        return b""
    blob = np.concatenate([np.frombuffer(b"".join(between), dtype=np.uint8), *(column.blob for column in columns)])
    bases = offsets_of([len(text) for text in between] + [len(column.blob) for column in columns])
    starts, lengths = np.empty((2, count, width), dtype=np.int64)
    for i, text in enumerate(between):
        starts[:, 2 * i], lengths[:, 2 * i] = bases[i], len(text)
    for i, column in enumerate(columns):
        starts[:, 2 * i + 1], lengths[:, 2 * i + 1] = column.starts + bases[len(between) + i], column.lengths
    return end_to_end(blob, starts.ravel(), lengths.ravel())[0].tobytes().removeprefix(b",") + b"\n    "
