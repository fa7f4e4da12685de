"""Tallying a file's blocks for several tokenizers, with little of Python between reading, encoding and counting.

Each block displaces the interpreter's code and objects from the core's caches; what Python does after it, a tenth of a
millisecond's work, would take as long as tallying 40 KB. So Python handles the results of several blocks together, and
the blocks can be small enough for the caches. Not here: documents that continue in the next block (`tallying.py`).
"""

from bpe.base._types cimport byte_t
from bpe.base._utf8 cimport is_utf8
from bpe.corpus._file_reader cimport FileBlock, FileReader
from bpe.encode._batch cimport visit_spans
from bpe.encode._encoder cimport Encoder
from bpe.evaluation._common_cuts cimport CommonCuts, last_cut
from bpe.evaluation._tally cimport TokenTally


def tally_blocks(
    FileReader reader not None, FileBlock block not None, CommonCuts cuts not None, adapters, tallies, Py_ssize_t n
):
    """Tally the next blocks of a file, up to n: for each (number, begins, closes, bytes, rows of each tokenizer).

    Args:
        reader: the file.
        block: memory that no other thread uses.
        cuts: where blocks may end for all tokenizers.
        adapters, tallies: the tokenizers (`OwnAdapter`), and a `TokenTally` for each that no other thread uses.
        n: the most blocks to read; an empty list is returned at the end of the file.

    Raises:
        FormatError, OSError: for the first block that must be UTF-8 and is not, or that cannot be read.
        ValueError: for text that a tokenizer cannot encode.

    """
    cdef bint found, valid
    blocks = []
    while len(blocks) < n:
        with nogil:
            found = reader.take(block, last_cut, &cuts.encoders)
            if found:
                block.split(reader)
        if not found:
            break
        valid = reader.checked or is_utf8(block.data, block.n)
        rows = [rows_of(block, adapter, tally, valid) for adapter, tally in zip(adapters, tallies, strict=True)]
        blocks.append((block.number, block.begins, block.closes, block.n, rows))
    return blocks


cdef object rows_of(FileBlock block, adapter, TokenTally tally, bint valid):
    """Encode and tally the documents of a block; the rows of the tally."""
    cdef Encoder encoder = adapter.engine.kernel
    cdef Py_ssize_t unknown
    try:
        if adapter.counted:
            tally.open(block.data, block.starts, block.sizes, block.n_documents, valid)
            unknown = visit_spans(
                encoder, tally, block.data, block.n, block.starts, block.sizes, block.n_documents
            ) if block.n_documents else -1
            if unknown >= 0:
                adapter.engine.refuse_unknown(
                    bytes(<byte_t[: block.sizes[unknown]]>(block.data + block.starts[unknown]))
                )
        else:
            text, starts, ends = block.documents()
            tally.begin(text, starts, ends, valid)
            adapter.tally(text, starts, ends, tally)
        return tally.rows
    finally:
        tally.end()
