"""Word counts: how often each distinct pretoken of a corpus occurs.

`WordCounts` is what a trainer needs to know of a corpus, and small: counts of the parts of a corpus, made anywhere, are merged
into those of the whole. Not here: the table itself (`_core/wordtable`) and training.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bpe._core.scan import cuts
from bpe._core.wordtable import WordTable
from bpe.errors import COUNT_LIMIT, FormatError, check_int, shown
from bpe.normalizers import Normalizer, as_normalizer
from bpe.normalizers import from_json as normalizer_from_json
from bpe.pretokenize import Pretokenizer, as_pretokenizer, scanner_of
from bpe.special import SpecialTokens, check_special_tokens
from bpe.text import Bytes, TextLike, atomic_write, check_utf8, to_bytes
from bpe.threads import in_order, thread_count

if TYPE_CHECKING:
    import pyarrow as pa

PathLike = str | os.PathLike[str]

#: Texts are given to threads in parts of about this many bytes.
PART = 1 << 22

MAGIC = b"BPECOUNT"
VERSION = 1


class WordCounts:
    """How often each distinct word occurs, in order of first appearance.

    Args:
        pretokenizer: what makes words of texts: a name, a `Pretokenizer`, or None (a text is one word).
        normalizer: what is done to a text before that, or None.
        special_tokens: strings that separate text and are part of no word.

    Counts are 64-bit; a sum beyond 2**63 - 1 is refused. Counts made otherwise do not merge.

    >>> counts = WordCounts("whitespace")
    >>> counts.add("low lower low")
    >>> dict(counts.items())
    {b'low': 2, b'lower': 1}

    """

    def __init__(
        self,
        pretokenizer: Pretokenizer | str | None = "gpt2",
        normalizer: Normalizer | Sequence[Normalizer] | None = None,
        special_tokens: Iterable[str] = (),
    ) -> None:
        self.pretokenizer = as_pretokenizer(pretokenizer)
        self.normalizer = as_normalizer(normalizer)
        self.special_tokens = check_special_tokens(special_tokens)
        self._table = WordTable()
        self._place = 0                 # where in the corpus the next text begins
        self._total = 0                 # of all counts; None while it must be summed anew
        self._stale = False

    # Filling ----------------------------------------------------------------------------------------------------------

    def add(self, text: TextLike) -> None:
        """Count the words of one text.

        Raises:
            TypeError: for anything but str and bytes.
            ValueError: for a count beyond 2**63 - 1.

        """
        data = to_bytes(text)
        splitter = _Splitter(self)
        for segment, place in splitter.segments(data, self._place):
            splitter.count(self._table, segment, 0, len(segment), place)
        self._place += len(data) + 1
        self._stale = True

    def update(self, counts: Mapping[str, int] | Mapping[bytes, int]) -> None:
        """Add words with their counts, in the mapping's order; a word is a pretoken already and is taken as it is.

        Raises:
            TypeError: for a word that is not str or bytes, or a count that is no int.
            ValueError: for an empty word, a negative count, or a total beyond 2**63 - 1; nothing is added then.

        """
        if not isinstance(counts, Mapping):
            raise TypeError(f"counts is {shown(counts)}, a {type(counts).__name__}; it must be a mapping of word to count")
        checked: list[tuple[bytes, int]] = []
        total = self.total
        for word, count in counts.items():
            if not isinstance(word, (str, bytes)):
                raise TypeError(f"word {shown(word)} is a {type(word).__name__}; it must be str or bytes")
            if not word:
                raise ValueError(f"word {word!r} is empty; leave it out: a word is at least one character")
            if isinstance(count, bool) or not hasattr(count, "__index__"):
                raise TypeError(f"the count of {shown(word)} is {shown(count)}; it must be an int")
            if count < 0:
                raise ValueError(f"the count of {shown(word)} is {count}; it must be at least 0")
            total += int(count)
            checked.append((to_bytes(word), int(count)))
        self._check_total(total)
        for word, count in checked:
            self._table.add(word, count, self._place)
            self._place += 1
        self._total, self._stale = total, False

    def merge(self, other: WordCounts) -> None:
        """Add another's counts, as if its corpus came after this one; the same as `|=`.

        Raises:
            ValueError: where the other was made with another pretokenizer, normalizer or other special tokens.

        """
        if not isinstance(other, WordCounts):
            raise TypeError(f"{shown(other)} is a {type(other).__name__}; only WordCounts merge (update takes a mapping)")
        for name in ("pretokenizer", "normalizer", "special_tokens"):
            ours, theirs = getattr(self, name), getattr(other, name)
            if ours != theirs:
                raise ValueError(
                    f"the counts were made with {name}={theirs!r}, these with {ours!r}; only counts made alike merge: count "
                    "one of the corpora anew"
                )
        self._check_total(self.total + other.total)
        blob, offsets, counts = other.arrays()
        self._add_arrays(blob, offsets, counts)

    def __ior__(self, other: WordCounts) -> WordCounts:
        self.merge(other)
        return self

    def _add_arrays(self, blob: NDArray[np.uint8], offsets: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        self._table.add_arrays(blob, offsets, counts, self._place)
        self._place += len(counts)
        self._stale = True

    @staticmethod
    def _check_total(total: int) -> None:
        if total > COUNT_LIMIT:
            raise ValueError(
                f"the counts sum to {total}, more than 2**63 - 1, the most that counts can be together; scale them down"
            )

    # Reading ----------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """How many distinct words there are."""
        return len(self._table)

    def __getitem__(self, word: str | bytes) -> int:
        """The count of a word, 0 if it does not occur."""
        return self._table.get(to_bytes(word))

    def __contains__(self, word: str | bytes) -> bool:
        return self[word] > 0

    @property
    def total(self) -> int:
        """The sum of all counts."""
        if self._stale:
            counts = self.arrays()[2]
            # In two halves, so that the sum cannot wrap before it is checked.
            self._total = (int((counts >> 32).sum()) << 32) + int((counts & 0xFFFFFFFF).sum())
            self._stale = False
        return self._total

    def arrays(self) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
        """The words in order of first appearance, as arrays.

        Returns:
            (uint8 blob; int64 offsets, shape (n + 1,): word i is `blob[offsets[i]:offsets[i + 1]]`; int64 counts).

        """
        return self._table.arrays()[:3]

    def items(self) -> Iterator[tuple[bytes, int]]:
        """(word, count) in order of first appearance."""
        blob, offsets, counts = self.arrays()
        data, bounds = blob.tobytes(), offsets.tolist()
        for start, end, count in zip(bounds, bounds[1:], counts.tolist(), strict=False):
            yield data[start:end], count

    def most_common(self, n: int | None = None) -> list[tuple[bytes, int]]:
        """The n words with the highest counts (all by default), of equal ones the earlier first.

        >>> counts = WordCounts()
        >>> counts.update({"a": 2, "b": 5, "c": 2})
        >>> counts.most_common(2)
        [(b'b', 5), (b'a', 2)]
        """
        blob, offsets, counts = self.arrays()
        order = np.argsort(-counts, kind="stable")[: None if n is None else check_int("n", n, 0)]
        return [(blob[offsets[i] : offsets[i + 1]].tobytes(), int(counts[i])) for i in order.tolist()]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WordCounts):
            return NotImplemented
        ours, theirs = self.arrays(), other.arrays()
        return self._made() == other._made() and all(map(np.array_equal, ours, theirs))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"WordCounts({len(self)} words, {self.total} in all, pretokenizer={self.pretokenizer!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (*self._made(), *self.arrays())

    def _made(self) -> tuple[Pretokenizer | None, Normalizer | None, tuple[str, ...]]:
        return self.pretokenizer, self.normalizer, self.special_tokens

    # Files ------------------------------------------------------------------------------------------------------------

    def save(self, path: PathLike) -> None:
        """Write the counts to one binary file, whole or not at all.

        Layout, little-endian: the 8 bytes BPECOUNT, a uint32 version (1), a uint64 length and as many bytes of JSON (`words`,
        the dtypes and sizes of the three arrays, how the counts were made), the lengths of the words, their counts, the
        words' bytes one after the other, and the SHA-256 of all before it.
        """
        blob, offsets, counts = self.arrays()
        lengths = _narrow(np.diff(offsets))
        counts = _narrow(counts)
        header = json.dumps(
            {
                "words": len(counts),
                "bytes": len(blob),
                "lengths": lengths.dtype.str,
                "counts": counts.dtype.str,
                "pretokenizer": None if self.pretokenizer is None else self.pretokenizer.to_json(),
                "normalizer": None if self.normalizer is None else self.normalizer.to_json(),
                "special_tokens": list(self.special_tokens),
            }
        ).encode()
        digest = hashlib.sha256()
        with atomic_write(path) as file:
            for part in (
                MAGIC + VERSION.to_bytes(4, "little") + len(header).to_bytes(8, "little") + header,
                lengths.tobytes(),
                counts.tobytes(),
                blob.tobytes(),
            ):
                digest.update(part)
                file.write(part)
            file.write(digest.digest())

    @classmethod
    def load(cls, path: PathLike) -> WordCounts:
        """Read counts that `save` wrote.

        Raises:
            FormatError: for a file that is truncated, altered or something else.
            OSError: for a file that cannot be read.

        """
        data = Path(path).read_bytes()
        if data[:8] != MAGIC:
            raise FormatError(f"begins with {shown(data[:8])}, not {MAGIC!r}: these are no word counts", path=path)
        if len(data) < 52 or hashlib.sha256(data[:-32]).digest() != data[-32:]:
            raise FormatError("the checksum is wrong: the file is truncated or altered; count again", path=path)
        version = int.from_bytes(data[8:12], "little")
        if version != VERSION:
            raise FormatError(f"is of version {version}; this release reads version {VERSION}", path=path)
        end = 20 + int.from_bytes(data[12:20], "little")
        try:
            header = json.loads(data[20:end])
            made = header["pretokenizer"], header["normalizer"]
            loaded = cls(
                None if made[0] is None else Pretokenizer.from_json(made[0]),
                None if made[1] is None else normalizer_from_json(made[1]),
                header["special_tokens"],
            )
            words = header["words"]
            lengths = np.frombuffer(data, dtype=header["lengths"], count=words, offset=end)
            counts = np.frombuffer(data, dtype=header["counts"], count=words, offset=end + lengths.nbytes)
            blob = np.frombuffer(data, np.uint8, count=header["bytes"], offset=end + lengths.nbytes + counts.nbytes)
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"the header is not understood: {error}", path=path) from None
        loaded._add_arrays(blob, _offsets(lengths), counts.astype(np.int64))
        return loaded

    def to_arrow(self) -> pa.Table:
        """The counts as an Arrow table: columns `word` (large_binary) and `count` (int64), in order (extra `arrow`)."""
        import pyarrow as pa

        blob, offsets, counts = self.arrays()
        words = pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), len(counts), [None, pa.py_buffer(offsets), pa.py_buffer(blob)]
        )
        return pa.table({"word": words, "count": pa.array(counts)})

    @classmethod
    def from_arrow(
        cls,
        table: pa.Table,
        pretokenizer: Pretokenizer | str | None = "gpt2",
        normalizer: Normalizer | Sequence[Normalizer] | None = None,
        special_tokens: Iterable[str] = (),
    ) -> WordCounts:
        """The counts in an Arrow table with columns `word` (binary or string) and `count` (an integer type).

        Raises:
            ValueError: for missing columns, nulls, empty words or negative counts.

        """
        made = cls(pretokenizer, normalizer, special_tokens)
        for name in ("word", "count"):
            if name not in table.column_names:
                raise ValueError(f"the table has columns {table.column_names}; it must have word and count")
            if table.column(name).null_count:
                raise ValueError(f"column {name} has {table.column(name).null_count} nulls; it must have none")
        for batch in table.select(["word", "count"]).to_batches():
            words, counts = batch.column(0).to_pylist(), batch.column(1).to_pylist()
            merged: dict[bytes, int] = {}
            for word, count in zip(words, counts, strict=True):
                data = to_bytes(word)
                merged[data] = merged.get(data, 0) + count
            made.update(merged)
        return made


def count_words(
    *,
    files: PathLike | Iterable[PathLike] | None = None,
    texts: Iterable[TextLike] | None = None,
    pretokenizer: Pretokenizer | str | None = "gpt2",
    normalizer: Normalizer | Sequence[Normalizer] | None = None,
    special_tokens: Iterable[str] = (),
    separator: str | None = None,
    threads: int | None = None,
    progress: bool = False,
) -> WordCounts:
    r"""Count the words of a corpus.

    Args:
        files: paths of UTF-8 text files; or
        texts: str or bytes, each a document; exactly one of the two.
        pretokenizer: what makes words of texts: a name, a `Pretokenizer`, or None (a text is one word).
        normalizer: what is done to a text before that.
        special_tokens: strings that separate text and are part of no word.
        separator: what separates the documents in a file; None makes each file one document.
        threads: how many to use; None is one per core. The result does not depend on it.
        progress: show a bar of the bytes done on stderr, if that is a terminal.

    Raises:
        TypeError: for texts that are one str, or not str or bytes.
        OSError: for a file that cannot be read.

    >>> count_words(texts=["low lower", "low"], pretokenizer="whitespace").most_common()
    [(b'low', 2), (b'lower', 1)]

    """
    if (files is None) == (texts is None):
        raise ValueError("give exactly one of files= and texts=")
    counts = WordCounts(pretokenizer, normalizer, special_tokens)
    count_into(counts, files, texts, separator, thread_count(threads), progress, utf8=False)
    return counts


def count_into(
    counts: WordCounts,
    files: PathLike | Iterable[PathLike] | None,
    texts: Iterable[TextLike] | None,
    separator: str | None,
    threads: int,
    progress: bool,
    *,
    utf8: bool,
) -> None:
    """Add the words of a corpus to counts that are still empty; with `utf8`, bytes that are not UTF-8 are an error.

    Each thread fills a table of its own with whole parts of the corpus; every word remembers the place of its first
    occurrence in the corpus, so the tables merge into the same counts however the parts were shared out.
    """
    documents = _file_documents(files, separator) if files is not None else _text_documents(texts)
    splitter = _Splitter(counts)
    tables: list[WordTable] = []

    def count(part: list[tuple[Bytes, int, int, int]]) -> int:
        table = tables.pop() if tables else WordTable()        # list.pop and append are atomic: no lock
        try:
            for data, start, end, place in part:
                splitter.count(table, data, start, end, place)
        finally:
            tables.append(table)
        return sum(end - start for _, start, end, _ in part)

    with _progress_bar(progress, files) as bar:
        for done in in_order(count, _parts(documents, splitter, utf8), threads):
            bar(done)
    if len(tables) == 1:
        counts._table = tables.pop()
    elif tables:
        blobs, offsets, numbers, places = zip(*(table.arrays() for table in tables), strict=True)
        starts = np.concatenate([offset[:-1] + base for offset, base in zip(offsets, _bases(blobs), strict=True)])
        lengths = np.concatenate([np.diff(offset) for offset in offsets])
        order = np.argsort(np.concatenate(places), kind="stable")
        tables.clear()
        _add_in_order(counts._table, np.concatenate(blobs), starts[order], lengths[order], np.concatenate(numbers)[order])
    counts._place = 1 << 62                                       # behind every place used so far
    counts._stale = True
    counts._check_total(counts.total)


def _bases(blobs: Sequence[NDArray[np.uint8]]) -> list[int]:
    return [0, *np.cumsum([len(blob) for blob in blobs]).tolist()][:-1]


def _add_in_order(
    table: WordTable,
    blob: NDArray[np.uint8],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> None:
    """Add the words `blob[start:start + length]` in the order given."""
    offsets = _offsets(lengths)
    gather = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
    table.add_arrays(blob[gather], offsets, counts, 0)


class _Splitter:
    """How the texts of some counts become words: special tokens out, normalize, pretokenize."""

    def __init__(self, counts: WordCounts) -> None:
        self.specials = SpecialTokens(dict.fromkeys(counts.special_tokens, 0))
        self.names = frozenset(counts.special_tokens)
        self.normalizer = counts.normalizer
        self.pretokenizer = counts.pretokenizer
        self.scanner = scanner_of(counts.pretokenizer)

    def segments(self, data: Bytes, place: int) -> Iterator[tuple[Bytes, int]]:
        """The text between special tokens, normalized, each with its place in the corpus.

        A place stays within its document however normalization changes lengths: later segments begin at their raw offset
        or behind the one before, whichever is later.
        """
        at = least = 0
        for segment, special in self.specials.pieces(data, self.names):
            if special is None:
                text: Bytes = segment
                if self.normalizer is not None:
                    text = self.normalizer.on_bytes(bytes(segment))
                if self.pretokenizer is not None:
                    text = self.pretokenizer.prepared(text)
                start = max(at, least)
                least = start + len(text)
                if len(text):
                    yield text, place + start
            at += len(segment)

    def count(self, table: WordTable, data: Bytes, start: int, end: int, place: int) -> None:
        """Count the words of `data[start:end]`, a segment or a part of one that was cut at a certain boundary."""
        if self.scanner is not None:
            table.count_scanned(self.scanner, data, start, end, place)
        elif self.pretokenizer is not None:
            starts, ends = self.pretokenizer.spans(bytes(data))
            table.count_spans(data, starts, ends, place)


def _parts(
    documents: Iterable[tuple[Bytes, str]], splitter: _Splitter, utf8: bool
) -> Iterator[list[tuple[Bytes, int, int, int]]]:
    """The corpus in parts of about PART bytes: lists of (data, start, end, place in the corpus)."""
    part: list[tuple[Bytes, int, int, int]] = []
    size = place = 0
    for data, source in documents:
        if utf8:
            check_utf8(data, source)
        reached = place
        for segment, at in splitter.segments(data, place):
            bounds = [0, len(segment)]
            if splitter.scanner is not None and len(segment) > 2 * PART:
                bounds = cuts(splitter.scanner, segment, PART)
            for start, end in zip(bounds, bounds[1:], strict=False):
                part.append((segment, start, end, at + start))
                size += end - start
                if size >= PART:
                    yield part
                    part, size = [], 0
            reached = at + len(segment)
        place = max(place + len(data), reached) + 1
    if part:
        yield part


def _text_documents(texts: Iterable[TextLike] | None) -> Iterator[tuple[Bytes, str]]:
    if isinstance(texts, (str, bytes, bytearray, memoryview)):
        raise TypeError(f"texts is one {type(texts).__name__}; it must be an iterable of texts: [{shown(texts, 20)}]")
    if not isinstance(texts, Iterable):
        raise TypeError(f"texts is {shown(texts)}, a {type(texts).__name__}; it must be an iterable of str or bytes")
    for number, text in enumerate(texts):
        yield to_bytes(text), f"text {number}"


def _file_documents(files: PathLike | Iterable[PathLike], separator: str | None) -> Iterator[tuple[Bytes, str]]:
    """The documents of files, which are mapped into memory, not read; (a view, its file's name)."""
    paths: list[PathLike] = [files] if isinstance(files, (str, os.PathLike)) else list(files)
    if separator is not None and not isinstance(separator, str):
        raise TypeError(f"separator is {shown(separator)}, a {type(separator).__name__}; it must be a str or None")
    if separator == "":
        raise ValueError("separator is ''; it must be at least one character, or None for one document per file")
    for path in paths:
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"file {shown(path)} is a {type(path).__name__}; it must be a path")
        with open(path, "rb"):          # all are there before the first is counted
            pass
    split = None if separator is None else re.compile(re.escape(separator.encode()))
    for path in paths:
        view = map_file(path)
        if split is None:
            if len(view):
                yield view, os.fspath(path)
            continue
        start = 0
        for match in split.finditer(view):
            if match.start() > start:
                yield view[start : match.start()], os.fspath(path)
            start = match.end()
        if start < len(view):
            yield view[start:], os.fspath(path)


def map_file(path: PathLike) -> memoryview:
    """The bytes of a file without reading them: a map of it, or what a pipe gives."""
    with open(path, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return memoryview(file.read())
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


@contextmanager
def _progress_bar(progress: bool, files: PathLike | Iterable[PathLike] | None) -> Iterator[Any]:
    """A function to call with bytes done."""
    if not progress:
        yield lambda done: None
        return
    from tqdm import tqdm

    paths = [] if files is None else [files] if isinstance(files, (str, os.PathLike)) else list(files)
    total = sum(Path(path).stat().st_size for path in paths) or None
    with tqdm(total=total, desc="count", unit="B", unit_scale=True, disable=None) as bar:
        yield bar.update


def _narrow(numbers: NDArray[np.int64]) -> NDArray[Any]:
    """The numbers (none negative) in the narrowest little-endian unsigned type that holds them."""
    kind = np.min_scalar_type(int(numbers.max(initial=0)))
    return numbers.astype(kind.newbyteorder("<"))


def _offsets(lengths: NDArray[Any]) -> NDArray[np.int64]:
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _rebuild(
    pretokenizer: Pretokenizer | None,
    normalizer: Normalizer | None,
    special_tokens: tuple[str, ...],
    blob: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> WordCounts:
    made = WordCounts(pretokenizer, normalizer, special_tokens)
    made._add_arrays(blob, offsets, counts)
    return made
