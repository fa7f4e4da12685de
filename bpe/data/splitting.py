"""Train/validation split by content: documents with the same bytes are always on the same side.

A document is for validation if the BLAKE2b hash of its UTF-8 bytes, 8 bytes long and read as a little-endian number, is
less than `fraction * 2**64`. Nothing else decides: not the position, the file name, the tokenizer or a seed. So
duplicates are never in both, all parts of a corpus use the same rule, and the documents of a fraction are also those of
every larger fraction.
"""

from __future__ import annotations

from contextlib import closing
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from bpe.base.utf8 import Bytes
from bpe.corpus.blocks import document_cut
from bpe.corpus.sources import Sources
from bpe.errors import FormatError, counted

#: Sources of about this many bytes of text or less are read before the work, to see that both sides have documents.
_SMALL = 16 << 20


def content_hashes(text: Bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The hash of each document: document i is `text[starts[i]:ends[i]]`.

    >>> data, bounds = b"onetwoone", np.array([0, 3, 6, 9])
    >>> [f"{number:x}" for number in content_hashes(data, bounds[:-1], bounds[1:]).tolist()]
    ['c915768baaddf234', '3074a796c55eef5', 'c915768baaddf234']
    """
    view = memoryview(text)
    digests = b"".join(
        blake2b(view[start:end], digest_size=8).digest()
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    )
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


def is_validation(hashes: NDArray[np.uint64], fraction: float) -> NDArray[np.bool_]:
    """Whether each document is for validation, given a fraction from 0 to 1.

    >>> is_validation(np.array([0, 1 << 63, (1 << 64) - 1], dtype=np.uint64), 0.5)
    array([ True, False, False])
    """
    if fraction >= 1:
        return np.ones(len(hashes), dtype=np.bool_)
    return hashes < np.uint64(int(fraction * 2**64))


def check_fraction(fraction: object) -> float:
    """The argument `validation` as a float from 0 to 1."""
    if isinstance(fraction, bool) or not isinstance(fraction, (int, float)):
        raise TypeError(f"validation is {fraction!r}; it must be a number from 0 to 1, such as 0.001")
    if not 0 <= fraction <= 1:  # also refuses NaN
        raise ValueError(f"validation is {fraction}; it must be from 0 to 1: the fraction of documents, such as 0.001")
    return float(fraction)


def check_sides(sources: Sources, fraction: float) -> None:
    """Refuse a split that leaves one side without documents, where the sources are small or one document.

    Raises:
        ValueError: if it does.

    """
    if not 0 < fraction < 1:
        return
    file = sources.files[0] if len(sources.files) == 1 else None
    if file is not None and file.format == "text" and not sources.separators:
        _refuse_side(1, "one side", f"a text file is one document, {file.name}, without a separator")
    if not sources.regular or (sources.text_size or 0) > _SMALL:
        return
    documents = 0
    found: set[bool] = set()
    again = sources.counting_anew()
    try:
        with closing(again.blocks(document_cut(again.separators, again.keep_separator), 1)) as blocks:
            for block in blocks:
                hashes = content_hashes(block.text, *block.documents(empty=True))
                block.release()
                documents += len(hashes)
                found.update(is_validation(hashes, fraction).tolist())
                if len(found) > 1:
                    return
    except FormatError:  # the work says so, after the shards before
        return
    if documents:
        side = "validation" if True in found else "training"
        _refuse_side(documents, side, "the hash of a document's text decides")


def _refuse_side(documents: int, side: str, reason: str) -> None:
    raise ValueError(
        f"validation would put the sources' {counted(documents, 'document')} all on {side}: {reason}; pass separator= "
        "or per_line=True where files have several documents, another fraction, or none"
    )
