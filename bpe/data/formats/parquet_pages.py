"""Columns of lists of integers in Parquet's pages: for a row group a dictionary, and one page of indices in it.

    dictionary  | header | distinct values, the most frequent one first |
    data        | header | repetition levels | definition levels | width | index of each value |

All but the headers is compressed by zstd. Indices of 16 bits compress better than the values, by 10 to 20% for ids of
texts, and in half the time. Where they are too few bits or save nothing, the page has the values themselves.

There is a *level* of each kind for each value, and for each empty list. The repetition level is 0 where a list begins
and 1 elsewhere; the definition level is 3 for a value and 1 for an empty list. pyarrow's writer, which handles any
nesting, takes 13 to 20 ns for a value, besides compressing it.

Source: parquet-format (README.md, Encodings.md and parquet.thrift).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bpe.batch import load_pyarrow
from bpe.corpus.page_headers import DATA_PAGE, DICTIONARY_PAGE, PLAIN, RLE, RLE_DICTIONARY
from bpe.data.formats._value_ranks import rank_values
from bpe.data.formats.thrift import STRUCT, append_integer, make_integer, serialize

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The fields of a page's header for the two kinds of pages.
_DATA_FIELD, _DICTIONARY_FIELD = 5, 7
_VALUE_LEVEL, _DEFINITION_BITS, _INDEX_BITS = 3, 2, 16


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its header and what follows it in the file, and the size of both without compression."""

    header: bytes
    data: Any
    uncompressed_size: int

    @property
    def size(self) -> int:
        """The size in bytes in the file."""
        return len(self.header) + len(self.data)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a row group: the number of its levels, its page, and the page with the dictionary, if it has one."""

    n_levels: int
    data: Page
    dictionary: Page | None = None

    @property
    def pages(self) -> list[Page]:
        """The pages in the order of the file."""
        return [self.data] if self.dictionary is None else [self.dictionary, self.data]


def encode_column(lengths: NDArray[np.int64], parts: list[NDArray[Any]]) -> Column:
    """Encode lists of integers of at most 32 bits; there is at least one list.

    Args:
        lengths: the number of integers in each list.
        parts: the integers of all lists, in several arrays.

    """
    values = np.concatenate([np.empty(0, dtype="<u4"), *parts], dtype="<u4", casting="unsafe")
    n_levels, levels = _encode_levels(lengths)
    ranked = rank_values(values)
    if ranked is None:
        return Column(n_levels, _make_data_page([*levels, values], n_levels, PLAIN))
    dictionary, indices = ranked
    n_groups = -(-len(indices) // 8)
    indices.resize(8 * n_groups, refcheck=False)  # filled with zeros
    width_and_header = bytes([_INDEX_BITS]) + _encode_packed_header(n_groups)
    counts = {1: make_integer(len(dictionary)), 2: make_integer(PLAIN)}
    return Column(
        n_levels,
        _make_data_page([*levels, width_and_header, indices.astype("<u2", copy=False)], n_levels, RLE_DICTIONARY),
        _make_page(DICTIONARY_PAGE, dictionary.astype("<u4", copy=False).tobytes(), _DICTIONARY_FIELD, counts),
    )


def _make_data_page(parts: list[Any], n_levels: int, encoding: int) -> Page:
    facts = {1: make_integer(n_levels), 2: make_integer(encoding), 3: make_integer(RLE), 4: make_integer(RLE)}
    return _make_page(DATA_PAGE, b"".join(parts), _DATA_FIELD, facts)


def _make_page(kind: int, body: bytes, field: int, facts: dict[int, Any]) -> Page:
    data = load_pyarrow().Codec("zstd", compression_level=1).compress(body)
    header = serialize(
        {1: make_integer(kind), 2: make_integer(len(body)), 3: make_integer(len(data)), field: (STRUCT, facts)}
    )
    return Page(header, data, len(header) + len(body))


def _encode_levels(lengths: NDArray[np.int64]) -> tuple[int, list[bytes]]:
    """Encode the levels of lists: (their number, the repetition and the definition levels)."""
    counts = np.maximum(lengths, 1)
    ends = np.cumsum(counts)
    n_levels = int(ends[-1])
    repeats = np.ones(n_levels, dtype=np.bool_)
    repeats[ends - counts] = False
    definitions = (_encode_varint(n_levels << 1), bytes([_VALUE_LEVEL]))  # a run of equal levels
    if not lengths.all():
        bits = np.ones((n_levels, _DEFINITION_BITS), dtype=np.bool_)
        bits[:, 1] = np.repeat(lengths > 0, counts)  # 3 or 1, the lowest bit first
        definitions = _pack_bits(bits)
    encoded = []
    for levels in (_pack_bits(repeats), definitions):
        encoded += [sum(map(len, levels)).to_bytes(4, "little"), *levels]
    return n_levels, encoded


def _pack_bits(bits: NDArray[np.bool_]) -> tuple[bytes, bytes]:
    """Encode levels, given as their bits, in groups of eight levels; the last one is filled with zeros."""
    n_groups = -(-len(bits) // 8)
    n_bytes = n_groups * (bits.size // len(bits))
    return _encode_packed_header(n_groups), np.packbits(bits, bitorder="little").tobytes().ljust(n_bytes, b"\0")


def _encode_packed_header(n_groups: int) -> bytes:
    return _encode_varint(n_groups << 1 | 1)


def _encode_varint(value: int) -> bytes:
    out = bytearray()
    append_integer(out, value)
    return bytes(out)
