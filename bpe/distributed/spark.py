"""Counting words and encoding with Apache Spark (extra `spark`), which needs Java.

An adapter: Spark reads, shuffles, spills and retries; what a task does to a batch is in `arrow_functions.py`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from bpe.batch import load_pyarrow
from bpe.count.word_counts import WordCounts
from bpe.data.mapping import map_function
from bpe.distributed.arrow_functions import count_batches, encode_batch, gather_counts
from bpe.errors import check_int, describe, raise_if_of_signal_handler
from bpe.pretokenize.pretokenizer import Pretokenizer
from bpe.text.normalizers import NormalizerLike
from bpe.tokenizer import Tokenizer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: A word's position is that of its partition times 2**PARTITION_BITS, and its number among the partition's words.
PARTITION_BITS = 40
#: Merged counts reach the driver in rows of about this many bytes, which are faster than a row for each word.
ROW_BYTES = 1 << 24


def count(
    frame: DataFrame,
    column: str = "text",
    *,
    pretokenizer: Pretokenizer | str | None = "gpt2",
    normalizer: NormalizerLike | None = None,
    special_tokens: Iterable[str] = (),
    min_count: int = 1,
) -> WordCounts:
    """Count the words in a column of texts, for `bpe.train(counts=...)`.

    The result equals `bpe.count_words(texts=...)` of the column's texts in the order of the frame's partitions, which
    `frame.collect()` has too, including the order of first appearance. A null is an empty text.

    Each task sends each distinct word of its partition through the shuffle of a `groupBy`, which spills to disk. The
    driver receives each distinct word of the corpus once, partition by partition.

    Args:
        frame: a Spark data frame.
        column: the column with the texts, of type string or binary.
        pretokenizer: as for `bpe.count_words`, as are the next two.
        normalizer: how a text is changed before it is split.
        special_tokens: strings that separate text and are part of no word.
        min_count: leave out rarer words, to spare the driver's memory. Training then gives other merges wherever
            these words matter; the default, 1, leaves out none.

    Raises:
        TypeError: if `frame` is not a Spark data frame.
        ModuleNotFoundError: without pyspark or pyarrow.

    """
    functions = _import_functions(frame)
    settings = WordCounts(pretokenizer, normalizer, special_tokens)
    min_sum = check_int("min_count", min_count, 1)

    def count_partition(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        position = 0 if context is None else context.partitionId() << PARTITION_BITS
        schema = pa.schema([("word", pa.binary()), ("count", pa.int64()), ("first", pa.int64())])
        for word_counts in count_batches((batch.column(0) for batch in batches), settings, position=position):
            yield word_counts.cast(schema)

    with _use_this_python(frame):
        words = frame.select(column).mapInArrow(count_partition, "word binary, count bigint, first bigint")
    sums = words.groupBy("word").agg(functions.sum("count").alias("count"), functions.min("first").alias("first"))
    if min_sum > 1:
        sums = sums.filter(functions.col("count") >= min_sum)
    with _use_this_python(frame):
        packed_rows = sums.mapInArrow(_pack_batches, "packed binary")
    rows = packed_rows.toLocalIterator(prefetchPartitions=True)
    arrow = load_pyarrow("bpe.distributed.spark")
    return gather_counts((arrow.ipc.open_stream(bytes(row[0])).read_all() for row in rows), settings)


def encode(frame: DataFrame, tokenizer: Tokenizer, column: str = "text", **options: Any) -> DataFrame:
    """Add the ids of a column of texts to a data frame, as `array<int>`.

    The ids equal `Tokenizer.encode`'s. Spark encodes when the result is used, for instance when it is written. Ids
    take about as much space as text; with `keep_columns=False`, or `frame.select`, other columns do not pass through
    Python.

    Args:
        frame: a Spark data frame.
        tokenizer: the tokenizer. Each Python worker of Spark makes it once, for all its tasks.
        column: the column with the texts, of type string or binary. A null is an empty text.
        options: `output`, `length`, `append`, `prepend`, `allowed_special` and `keep_columns`, as for
            `bpe.data.map_function`.

    Raises:
        TypeError, ValueError: for a `frame` that is not a Spark data frame, and for options as `map_function`.
        ModuleNotFoundError: without pyspark or pyarrow.

    """
    _import_functions(frame)
    from pyspark.sql.types import ArrayType, IntegerType, LongType, StructField, StructType

    function = map_function(tokenizer, column, **options)
    new_fields = [StructField(function.output, ArrayType(IntegerType(), containsNull=False))]
    if function.length is not None:
        new_fields.append(StructField(function.length, LongType()))
    names = {field.name for field in new_fields}
    kept_fields = [field for field in frame.schema.fields if field.name not in names] if function.keep_columns else []

    def encode_partition(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            table = encode_batch(batch, function)
            ids = table.column(function.output).cast(pa.list_(pa.int32()))
            index = table.schema.get_field_index(function.output)
            yield from table.set_column(index, function.output, ids).combine_chunks().to_batches()

    columns = frame if function.keep_columns else frame.select(column)
    with _use_this_python(frame):
        return columns.mapInArrow(encode_partition, StructType([*kept_fields, *new_fields]))


@contextmanager
def _use_this_python(frame: Any) -> Iterator[None]:
    """Let functions that the block adds to a frame run in this Python, if Spark runs on this machine alone.

    Otherwise Spark runs the first `python3` on the path, which is another one where this environment is not activated.
    PYSPARK_PYTHON has precedence. On a cluster nothing is changed: this Python may be absent there.
    """
    try:
        context = frame.sparkSession.sparkContext
    except Exception as error:  # noqa: BLE001 (Spark Connect, whose session has none, raises an error of its own)
        raise_if_of_signal_handler(error)
        context = None
    if context is None or not context.master.startswith("local") or "PYSPARK_PYTHON" in os.environ:
        yield
        return
    old_python, context.pythonExec = context.pythonExec, sys.executable
    try:
        yield
    finally:
        context.pythonExec = old_python


def _pack_batches(batches: Iterator[Any]) -> Iterator[Any]:
    """Pack batches in rows of about `ROW_BYTES`, each an Arrow stream."""
    import pyarrow as pa

    for group in _group_batches(batches, ROW_BYTES):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, group[0].schema) as writer:
            for batch in group:
                writer.write_batch(batch)
        yield pa.record_batch({"packed": pa.array([sink.getvalue().to_pybytes()], pa.binary())})


def _group_batches(batches: Iterator[Any], size: int) -> Iterator[list[Any]]:
    """Group record batches, about `size` bytes each."""
    group: list[Any] = []
    total = 0
    for batch in batches:
        group.append(batch)
        total += batch.nbytes
        if total >= size:
            yield group
            group, total = [], 0
    if group:
        yield group


def _import_functions(frame: Any) -> Any:
    """Import the module `pyspark.sql.functions`, and check the data frame."""
    try:
        from pyspark.sql import functions
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "bpe.distributed.spark needs pyspark; install the extra: pip install 'bytepair[spark]' (and Java 17)"
        ) from None
    load_pyarrow("bpe.distributed.spark")
    if not hasattr(frame, "mapInArrow"):
        raise TypeError(f"frame is {describe(frame)}; it must be a Spark data frame, such as spark.read.parquet gives")
    return functions
