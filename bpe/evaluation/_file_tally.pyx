"""Tallying files and texts for several tokenizers, with little of Python between reading, encoding and counting.

A block of text displaces the interpreter from the core's caches. A few steps of Python after each block would then take
a tenth of the whole time, so several blocks are tallied before their results go to Python.
"""

from bpe.base._types cimport byte_t
from bpe.base._utf8 cimport UTF8_PADDING, CodeUnits, is_utf8, max_utf8_size, to_utf8, get_code_units_of_item
from bpe.corpus._file_reader cimport FileBlock, FileReader
from bpe.encode._batch cimport visit_spans
from bpe.encode._encoder cimport Encoder
from bpe.evaluation._common_cuts cimport CommonCuts, find_block_end
from bpe.evaluation._tally cimport TokenTally
from libc.string cimport memcpy

from bpe.errors import as_format_error

cdef enum:
    MAX_JOINED_BYTES = 1 << 19  # bytes of texts in a block, unless a text is longer; they stay in a core's cache


def tally_blocks(
    FileReader reader not None, FileBlock block not None, CommonCuts cuts not None, adapters, tallies, Py_ssize_t n
):
    """Tally the next blocks of a file, up to n: for each (number, begins, closes, bytes, rows of each tokenizer).

    Args:
        reader: the file.
        block: memory that no other thread uses.
        cuts: where blocks may end for all tokenizers.
        adapters, tallies: the tokenizers (`NativeAdapter`), and a `TokenTally` for each that no other thread uses.
        n: the most blocks to read; an empty list is returned at the end of the file.

    Raises:
        FormatError, OSError: for the first block that must be UTF-8 and is not, or that cannot be read, and for text
            that a tokenizer cannot encode.

    """
    cdef bint has_block, valid
    blocks = []
    while len(blocks) < n:
        with nogil:
            has_block = reader.take_block(block, find_block_end, &cuts.encoders)
            if has_block:
                block.split(reader)
        if not has_block:
            break
        valid = reader.requires_utf8 or is_utf8(block.data, block.n)
        rows = []
        for adapter, tally in zip(adapters, tallies, strict=True):
            rows.append(tally_rows(block, adapter, tally, valid, block.source))
        blocks.append((block.index, block.begins_document, block.ends_document, block.n, rows))
    return blocks


def tally_texts(list texts not None, FileBlock block not None, adapters, tallies):
    """Tally texts, str or bytes: (their bytes, for each tokenizer its rows in parts). Arguments as for `tally_blocks`.

    Raises:
        FormatError: for a text that a tokenizer cannot encode.

    """
    cdef CodeUnits units
    cdef Py_ssize_t size, total = 0, i = 0
    cdef bint valid
    rows = []
    for _ in adapters:
        rows.append([])
    while i < len(texts):
        block.n = block.n_documents = 0
        valid = True
        while i < len(texts) and (block.n == 0 or block.n < MAX_JOINED_BYTES):
            text = texts[i]                                # a reference, whatever happens to the list
            units = get_code_units_of_item(text)
            block.reserve(block.n + max_utf8_size(&units) + UTF8_PADDING, block.n)
            if units.width:
                size = to_utf8(&units, block.data + block.n)
            else:
                size = units.n
                memcpy(block.data + block.n, units.data, size)
            valid = valid and (isinstance(text, str) or is_utf8(block.data + block.n, size))
            block.add_document(block.n, block.n + size)
            block.n += size
            i += 1
        total += block.n
        for parts, adapter, tally in zip(rows, adapters, tallies, strict=True):
            parts.append(tally_rows(block, adapter, tally, valid, ""))
    return total, rows


cdef object tally_rows(FileBlock block, adapter, TokenTally tally, bint valid, source):
    """Encode and tally the documents of a block. Returns the rows of the tally."""
    with as_format_error(source or adapter.name):
        return tally_block(block, adapter, tally, valid)


cdef object tally_block(FileBlock block, adapter, TokenTally tally, bint valid):
    """Encode and tally the documents of a block; errors are those of the tokenizer."""
    cdef Encoder encoder = adapter.engine.encoder
    cdef Py_ssize_t unknown
    try:
        if adapter.counts_in_encoder:
            tally.open(block.data, block.starts, block.sizes, block.n_documents, valid)
            unknown = visit_spans(
                encoder, tally, block.data, block.n, block.starts, block.sizes, block.n_documents
            ) if block.n_documents else -1
            if unknown >= 0:
                adapter.engine.raise_for_unknown(
                    bytes(<byte_t[: block.sizes[unknown]]>(block.data + block.starts[unknown]))
                )
        else:
            text, starts, ends = block.get_documents()
            tally.begin(text, starts, ends, valid)
            adapter.tally(text, starts, ends, tally)
        return tally.rows
    finally:
        tally.end()
