"""Counting words and encoding with Ray Data (extra `ray`).

An adapter: Ray reads, shuffles, spills and retries; what an actor does to a batch is in `arrow_functions.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bpe.batch import load_pyarrow
from bpe.count.word_counts import WordCounts
from bpe.data.mapping import MapFunction, map_function
from bpe.distributed.arrow_functions import count_batch, encode_batch, gather_counts, get_words
from bpe.errors import check_int, describe
from bpe.pretokenize.pretokenizer import Pretokenizer
from bpe.text.normalizers import NormalizerLike
from bpe.tokenizer import Tokenizer

if TYPE_CHECKING:
    from ray.data import Dataset

#: Parts of the words for each core of the cluster. The counts of one part are merged in one task's memory.
PARTS_PER_CORE = 4


def count(
    dataset: Dataset,
    column: str = "text",
    *,
    pretokenizer: Pretokenizer | str | None = "gpt2",
    normalizer: NormalizerLike | None = None,
    special_tokens: Iterable[str] = (),
    min_count: int = 1,
    parts: int | None = None,
    concurrency: int | tuple[int, int] | None = None,
) -> WordCounts:
    """Count the words in a column of texts, for `bpe.train(counts=...)`.

    The counts equal those of `bpe.count_words(texts=...)`. A Ray dataset has no order of documents, so the words are
    sorted by their bytes: `bpe.train` gives the same tokenizer as in one process with the tie rules "id" (the default),
    "smallest" and "greatest", which do not depend on the order; with "first", which does, it may give another. A null
    is an empty text.

    Actors count each block; the shuffle brings all counts of a word together, and Ray spills it to disk. The driver
    receives each distinct word of the corpus once, block by block.

    Args:
        dataset: a Ray dataset.
        column: the column with the texts, of type string or binary.
        pretokenizer: as for `bpe.count_words`, as are the next two.
        normalizer: how a text is changed before it is split.
        special_tokens: strings that separate text and are part of no word.
        min_count: leave out rarer words, to spare the driver's memory. Training then gives other merges wherever
            these words matter; the default, 1, leaves out none.
        parts: into how many parts the words are divided for merging; None means 4 for each core of the cluster. The
            counts of a part must fit into the memory of a task.
        concurrency: the number of actors, or the least and the most; None means up to one for each core.

    Raises:
        TypeError: if `dataset` is not a Ray dataset.
        ModuleNotFoundError: without Ray or pyarrow.

    """
    cores = _count_cores(dataset)
    settings = WordCounts(pretokenizer, normalizer, special_tokens)
    min_sum = check_int("min_count", min_count, 1)
    parts = PARTS_PER_CORE * cores if parts is None else check_int("parts", parts, 1)
    if not dataset.take(1):  # blocks without rows keep their columns, by which Ray cannot group
        return settings
    word_counts = dataset.select_columns([column]).map_batches(
        _CountActor,
        fn_constructor_args=(column, settings, parts),
        batch_format="pyarrow",
        batch_size=None,  # a whole block: the larger a batch, the fewer words are sent twice
        compute=_make_pool(concurrency, cores),
    )
    merged_counts = word_counts.groupby("part", num_partitions=parts).map_groups(
        _merge_part, fn_kwargs={"min_count": min_sum}, batch_format="pyarrow"
    )
    return gather_counts(merged_counts.iter_batches(batch_size=None, batch_format="pyarrow"), settings)


def encode(
    dataset: Dataset,
    tokenizer: Tokenizer,
    column: str = "text",
    *,
    concurrency: int | tuple[int, int] | None = None,
    **options: Any,
) -> Dataset:
    """Add the ids of a column of texts to a Ray dataset, as a `large_list<int32>` column.

    The ids equal `Tokenizer.encode`'s. Ray encodes when the result is used, for instance when it is written. Ids take
    about as much space as text; with `keep_columns=False`, other columns are left out.

    Args:
        dataset: a Ray dataset.
        tokenizer: the tokenizer. It is put into the object store once, and each actor makes its own from there.
        column: the column with the texts, of type string or binary. A null is an empty text.
        concurrency: the number of actors, or the least and the most; None means up to one for each core.
        options: `output`, `length`, `append`, `prepend`, `allowed_special` and `keep_columns`, as for
            `bpe.data.map_function`.

    Raises:
        TypeError, ValueError: for a `dataset` that is not a Ray dataset, and for options as `map_function`.
        ModuleNotFoundError: without Ray or pyarrow.

    """
    cores = _count_cores(dataset)
    import ray

    encode = map_function(tokenizer, column, **options)
    columns = dataset if encode.keep_columns else dataset.select_columns([column])
    return columns.map_batches(
        _EncodeActor,
        fn_constructor_args=(ray.put(encode),),
        batch_format="pyarrow",
        batch_size=None,
        compute=_make_pool(concurrency, cores),
    )


class _CountActor:
    """An actor that counts the words of blocks."""

    def __init__(self, column: str, settings: WordCounts, parts: int) -> None:
        self.column, self.settings, self.parts = column, settings, parts

    def __call__(self, block: Any) -> Any:
        """Count the words of a block; each has the number of the part that it belongs to."""
        pa = load_pyarrow()
        word_counts = count_batch(block.column(self.column), self.settings)
        part = hash_parts(*get_words(word_counts.column("word")), self.parts)
        columns = {"word": word_counts.column("word"), "count": word_counts.column("count"), "part": pa.array(part)}
        return pa.table(columns)


class _EncodeActor:
    """An actor with a tokenizer."""

    def __init__(self, encode: Any) -> None:
        import ray

        self.encode: MapFunction = ray.get(encode)

    def __call__(self, block: Any) -> Any:
        """Encode a block."""
        return encode_batch(block, self.encode)


def _merge_part(rows: Any, min_count: int) -> Any:
    """Add up the counts of each word of a part, and drop sums below `min_count`."""
    import pyarrow.compute as pc

    sums = rows.group_by("word").aggregate([("count", "sum")]).rename_columns(["word", "count"])
    return sums.filter(pc.field("count") >= min_count) if min_count > 1 else sums


def hash_parts(blob: NDArray[np.uint8], offsets: NDArray[np.int64], parts: int) -> NDArray[np.int64]:
    """Compute the part, from 0 to `parts` - 1, of each word `blob[offsets[i]:offsets[i + 1]]`: int64.

    The part, the same on every machine, depends on the length and on the first and the last 8 bytes, which divides
    words of text evenly.

    >>> hash_parts(np.frombuffer(b"lowlower", dtype=np.uint8), np.array([0, 3, 8]), 1)
    array([0, 0])
    """
    lengths = np.diff(offsets).astype(np.uint64)
    padded = np.concatenate([np.zeros(8, np.uint8), blob, np.zeros(8, np.uint8)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, 8)
    used_bits = np.minimum(lengths, 8).astype(np.uint64) * np.uint64(8)
    shift = np.uint64(64) - used_bits
    # Without the next word's bytes.
    first_bytes = np.ascontiguousarray(windows[offsets[:-1] + 8]).view("<u8").ravel() << shift
    last_bytes = np.ascontiguousarray(windows[offsets[1:]]).view("<u8").ravel() >> shift
    hashes = (first_bytes ^ (last_bytes * np.uint64(0x9E3779B97F4A7C15)) ^ lengths) * np.uint64(0xBF58476D1CE4E5B9)
    part: NDArray[np.int64] = ((hashes >> np.uint64(33)) % np.uint64(parts)).astype(np.int64)
    return part


def _make_pool(concurrency: int | tuple[int, int] | None, cores: int) -> Any:
    """Make Ray's strategy of the argument `concurrency`."""
    import ray.data

    if concurrency is None:
        min_size, max_size = 1, cores
    else:
        min_size, max_size = concurrency if isinstance(concurrency, tuple) else (concurrency, concurrency)
    return ray.data.ActorPoolStrategy(min_size=check_int("concurrency", min_size, 1), max_size=max_size)


def _count_cores(dataset: Any) -> int:
    """Check the dataset, and count the cores of the cluster."""
    try:
        import ray
        import ray.data
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "bpe.distributed.ray needs Ray Data; install the extra: pip install 'bytepair[ray]'"
        ) from None
    load_pyarrow("bpe.distributed.ray")
    if not isinstance(dataset, ray.data.Dataset):
        raise TypeError(
            f"dataset is {describe(dataset)}; it must be a ray.data.Dataset, such as ray.data.read_parquet gives"
        )
    return max(1, int(ray.cluster_resources().get("CPU", 1)))
