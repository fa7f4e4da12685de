"""What a worker does to a batch of Arrow data, and how the driver gathers merged counts.

The adapters for the engines (`ray.py`, `spark.py`) call these functions, and so can any other program that moves Arrow
data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bpe.batch import load_pyarrow
from bpe.corpus.documents import read_arrow_documents
from bpe.count.word_counts import WordCounts, add_documents, empty_like, fill_counts
from bpe.data.mapping import MapFunction
from bpe.errors import describe

if TYPE_CHECKING:
    import pyarrow as pa

#: The bytes of a worker's table of counts after which it sends them on. A table of this size holds about a million
#: words, more than 128 MB of English text have, and several workers fit into the memory that Spark leaves to Python.
TABLE_MEMORY = 1 << 26


def count_batch(texts: Any, settings: WordCounts) -> pa.RecordBatch:
    """Count the words of a batch of texts.

    Args:
        texts: an Arrow array or chunked array of strings; a null is an empty text.
        settings: counts, usually empty, whose pretokenizer, normalizer and special tokens split the texts.

    Returns:
        the columns `word` (large_binary), `count` (int64) and `first` (int64), in order of first appearance; `first`
        counts from 0.

    Raises:
        TypeError: for texts that are not an Arrow array of strings.

    >>> import pyarrow as pa
    >>> count_batch(pa.array(["low lower", None, "low"]), WordCounts("whitespace")).to_pydict()
    {'word': [b'low', b'lower'], 'count': [2, 1], 'first': [0, 1]}

    """
    return next(count_batches([texts], settings, empty=True))


def count_batches(
    batches: Iterable[Any],
    settings: WordCounts,
    *,
    position: int = 0,
    table_memory: int = TABLE_MEMORY,
    empty: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Count the words of many batches in bounded memory; each record batch is as `count_batch` returns it.

    Args:
        batches: Arrow arrays, as for `count_batch`, in order.
        settings: as for `count_batch`.
        position: the number at which `first` begins to count. A word may occur in several record batches. Its smallest
            `first` orders it among the others by first appearance.
        table_memory: the bytes of the table of counts, after which it is yielded and emptied.
        empty: yield a record batch, even if there are no words.

    """
    arrow = load_pyarrow("count_batches")
    counts = empty_like(settings)  # of the driver: another version here is an error, not a mixture

    def take_words() -> pa.RecordBatch:
        nonlocal position
        blob, offsets, word_counts = counts.arrays()
        buffers = [None, arrow.py_buffer(offsets), arrow.py_buffer(blob)]
        word_array = arrow.LargeBinaryArray.from_buffers(arrow.large_binary(), len(word_counts), buffers)
        positions = np.arange(position, position + len(word_counts))
        position += len(word_counts)
        counts.clear()
        return arrow.record_batch(
            {"word": word_array, "count": arrow.array(word_counts), "first": arrow.array(positions)}
        )

    for texts in batches:
        documents = read_arrow_documents(texts)
        if documents is None:
            raise TypeError(f"texts is {describe(texts)}; it must be an Arrow array of strings")
        memory = add_documents(counts, documents)
        if memory > table_memory and len(counts):
            yield take_words()
    if len(counts) or empty:
        yield take_words()


def encode_batch(batch: Any, encode: MapFunction) -> pa.Table:
    """Encode a batch of rows on one thread: an engine runs a task on each core.

    Args:
        batch: an Arrow table or record batch.
        encode: what `bpe.data.map_function` returns: the tokenizer, the names of the columns and the options.

    Returns:
        the table with a column of ids, `large_list<int32>`.

    >>> import bpe, pyarrow as pa
    >>> from bpe.data import map_function
    >>> tok = bpe.train(texts=["low lower lowest"] * 3, vocab_size=260)
    >>> encode_batch(pa.table({"text": ["low", "lower"]}), map_function(tok)).column("input_ids").to_pylist()
    [[257], [257, 68, 81]]

    """
    return encode.encode_table(batch, threads=1)


def gather_counts(batches: Iterable[Any], settings: WordCounts) -> WordCounts:
    """Make a `WordCounts` of counts that an engine has merged, so that each word is in one row.

    Args:
        batches: Arrow tables or record batches with columns `word` (a binary type), `count` (int64) and, if the order
            of first appearance is known, `first` (int64). Without `first`, the words are sorted by their bytes.
        settings: as for `count_batch`.

    >>> import pyarrow as pa
    >>> rows = pa.table({"word": [b"low", b"lower"], "count": [2, 1], "first": [7, 3]})
    >>> list(gather_counts([rows], WordCounts("whitespace")).items())
    [(b'lower', 1), (b'low', 2)]

    """
    arrow = load_pyarrow("gather_counts")
    counts = empty_like(settings)
    # An array of `binary` holds at most 2 GB.
    tables = [
        arrow.table({name: batch.column(name) for name in batch.schema.names}).cast(_widen_schema(batch.schema))
        for batch in batches
        if batch.num_rows
    ]
    if not tables:
        return counts
    table = arrow.concat_tables(tables)
    del tables
    table = table.sort_by("first" if "first" in table.column_names else "word")
    words = table.column("word").combine_chunks()
    words = words.chunk(0) if isinstance(words, arrow.ChunkedArray) else words
    blob, offsets = get_words(words)
    fill_counts(counts, (blob, offsets, table.column("count").to_numpy().astype(np.int64)))
    return counts


def _widen_schema(schema: pa.Schema) -> pa.Schema:
    """Change the type of `word` to large_binary."""
    arrow = load_pyarrow()
    return schema.set(schema.get_field_index("word"), arrow.field("word", arrow.large_binary()))


def get_words(words: Any) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the bytes of a large_binary array, and its offsets from 0."""
    _, offsets, data = words.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int64)[words.offset : words.offset + len(words) + 1]
    blob = np.frombuffer(b"" if data is None else data, dtype=np.uint8)
    return blob[bounds[0] : bounds[-1]], bounds - bounds[0]
