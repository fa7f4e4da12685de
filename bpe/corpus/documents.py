"""The rows of an Arrow array as documents: one buffer and two arrays of offsets, without an object for each text."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from bpe.base.fast_dataclasses import dataclass, replace
from bpe.base.utf8 import check_utf8
from bpe.corpus.blocks import BLOCK_BYTES, Block, SplitFinder, divide_text, make_one_document_block
from bpe.corpus.reading import BufferPool

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Documents:
    """Texts in one buffer: text i is `data[starts[i]:ends[i]]`.

    Attributes:
        data: the bytes.
        starts: int64, shape (n,).
        ends: int64, shape (n,).
        source: the name to use in errors.

    """

    data: memoryview
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    source: str

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self.starts)

    def split_into_groups(self, size: int) -> Iterator[Documents]:
        """Yield the texts in order, in groups of about `size` bytes. A longer text ends its group."""
        for first, last in group_by_size(self.ends - self.starts, size):
            yield Documents(self.data, self.starts[first:last], self.ends[first:last], self.source)

    def texts(self) -> list[bytes]:
        """Return the texts as bytes objects."""
        data = self.data
        return [bytes(data[a:b]) for a, b in zip(self.starts.tolist(), self.ends.tolist(), strict=True)]


def group_by_size(sizes: NDArray[np.int64], size: int) -> Iterator[tuple[int, int]]:
    """Yield the bounds of groups of texts of about `size` bytes, of the bytes of each; a longer text ends its group."""
    totals = np.cumsum(sizes)  # bytes up to the end of each text
    first = 0
    while first < len(sizes):
        bytes_before = totals[first - 1] if first else 0
        last = min(int(np.searchsorted(totals, bytes_before + size, side="left")) + 1, len(sizes))
        yield first, last
        first = last


# Arrow ----------------------------------------------------------------------------------------------------------------


def read_arrow_documents(array: Any) -> list[Documents] | None:
    """Return the rows of an Arrow array of strings, read from its buffers; None if `array` is not an Arrow array.

    pyarrow is not imported: an array is recognized by its attributes. A null is an empty text.

    Raises:
        TypeError: for an Arrow array of another type.
        ValueError: for an array with invalid offsets.

    """
    chunks = getattr(array, "chunks", None)
    if chunks is not None and hasattr(array, "num_chunks"):
        parts = [read_arrow_documents(chunk) for chunk in chunks]
        return [document for part in parts if part is not None for document in part]
    if not (hasattr(array, "buffers") and hasattr(array, "type") and hasattr(array, "offset")):
        return None
    name = str(array.type)
    if name == "null":  # the type of a block or column that has no text at all
        zeros = np.zeros(len(array), dtype=np.int64)
        return [Documents(memoryview(b""), zeros, zeros, "an Arrow array")]
    offset_types = {"string": np.int32, "binary": np.int32, "large_string": np.int64, "large_binary": np.int64}
    if name not in offset_types:
        raise TypeError(
            f"texts is an Arrow array of {name}; it must be of {', '.join(offset_types)}: array.cast('large_string')"
        )
    validity, offsets, data = array.buffers()
    n, first_row = len(array), array.offset
    if n == 0:
        return []
    bounds = np.frombuffer(offsets, dtype=offset_types[name])[first_row : first_row + n + 1].astype(np.int64)
    size = 0 if data is None else data.size
    if len(bounds) != n + 1 or bounds[0] < 0 or bounds[-1] > size or (bounds[1:] < bounds[:-1]).any():
        raise ValueError(
            f"texts is an Arrow array of {n} rows with invalid offsets: they must not decrease, and stay within its "
            f"{size} bytes; array.validate(full=True) says where"
        )
    starts, ends = bounds[:-1], bounds[1:]
    if validity is not None:
        valid_bits = np.unpackbits(np.frombuffer(validity, dtype=np.uint8), bitorder="little")[
            first_row : first_row + n
        ]
        ends = np.where(valid_bits == 1, ends, starts)
    return [Documents(memoryview(b"" if data is None else data).cast("B"), starts, ends, "an Arrow array")]


def make_row_blocks(
    parts: Iterable[Documents], find_split: SplitFinder | None, *, requires_utf8: bool, threads: int
) -> Generator[Block, None, None]:
    """Yield the rows of an Arrow array in blocks, as `make_text_blocks` (`blocks.py`) divides other texts.

    The blocks are copies: another thread may write to the memory of the array.
    """
    n_texts_done, buffers = 0, BufferPool()
    for part in parts:
        for group in part.split_into_groups(BLOCK_BYTES):
            if requires_utf8:
                for index, text in enumerate(group.texts(), start=n_texts_done):
                    check_utf8(text, f"text {index}")
            n_texts_done += len(group)
            start, end = int(group.starts[-1]), int(group.ends[-1])
            # Only the last text of a group can be so long.
            is_long = find_split is not None and end - start > 2 * BLOCK_BYTES
            starts, ends = (group.starts[:-1], group.ends[:-1]) if is_long else (group.starts, group.ends)
            if len(starts):
                first = int(starts[0])
                data = part.data[first : int(ends[-1])]
                yield _copy_block(Block(data, starts - first, ends - first, part.source, first), buffers)
            if find_split is not None and is_long:
                data = part.data[start:end]
                for first, last in divide_text(data, find_split, threads):
                    yield _copy_block(
                        make_one_document_block(data[first:last], f"text {n_texts_done - 1}", first), buffers
                    )


def _copy_block(block: Block, buffers: BufferPool) -> Block:
    """Copy the text of a block into a buffer of a pool."""
    text = memoryview(buffers.take(len(block.text)))[: len(block.text)]
    text[:] = block.text
    return replace(block, text=text, buffers=buffers)
