"""`Sources`: the files of a corpus, of any format and compression, as one sequence of documents.

A unit is a part of a file that can be read by itself; units make the parts for several machines.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from itertools import islice, takewhile
from operator import eq
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from bpe._names import SOURCE_FORMATS
from bpe.corpus._file_reader import KERNEL_READ_BYTES, FileReader
from bpe.corpus._sequential_reader import SequentialReader
from bpe.corpus.blocks import Block, PathLike, Position, can_overlap_itself, make_document_end_finder, parse_separators
from bpe.corpus.contents import SIGNATURE_BYTES, ExpectedText, check_text, warn_about_text
from bpe.corpus.damage import can_be_damaged, find_damage
from bpe.corpus.dropping import drop_invalid, drop_trailing_documents, skip_documents
from bpe.corpus.reading import (
    MAX_SHARED_READ,
    BlockEndFinder,
    EncodingErrors,
    ReadSchedule,
    Stream,
    UnitTexts,
    check_encoding_errors,
    read_text,
)
from bpe.corpus.records import BadRecords, OnError, Quoting, ReadState, RecordContext
from bpe.errors import FormatError, check_bool, check_choice, check_int, describe, ignore_system_errors, pluralize

if TYPE_CHECKING:
    from bpe.corpus.listing import SourceFile

#: The size of a unit in bytes, about.
UNIT_BYTES = 256 << 20
#: How much text a byte of a compressed or columnar file is assumed to hold.
ASSUMED_EXPANSION = 4


class SourceUnit(NamedTuple):
    """A part of a file that can be read by itself.

    Attributes:
        file_index: the index of the file.
        start, end: row groups of a Parquet file, else bytes of an uncompressed file; an end of None is that of the
            file.
        disk_bytes: its bytes on disk, about; None if unknown.

    """

    file_index: int
    start: int
    end: int | None
    disk_bytes: int | None


class Sources:
    """Files of a corpus: text, JSON Lines, CSV, TSV, Parquet and Arrow, also compressed, local or remote.

    Pass it as `files` to `train`, `count_words` and `Tokenizer.encode_files`.

    Args:
        paths: one path or several: files, globs such as `data/*.jsonl.zst`, directories (all files in them, sorted),
            "-" for standard input, and with fsspec paths with a scheme, such as "s3://bucket/data/".
        format: "auto" takes the format of each file from its name: .jsonl and .ndjson; .csv; .tsv; .parquet; .arrow,
            .feather and .ipc; any other is text. Otherwise the format of all: "text", "jsonl", "csv", "tsv", "parquet"
            or "arrow". Text, JSON Lines, CSV and TSV may be compressed (.gz, .bz2, .xz, .zst, or by their first bytes).
        field: the field of JSON Lines, or the column, that holds the text; dots lead to nested fields.
        separator: the string between the documents of text files; None makes each file one document.
        per_line: make each line of a text file a document, its newline included.
        encoding_errors: how bytes that are not UTF-8 are handled: "strict", an error; "replace", each becomes U+FFFD;
            "bytes", they stay as they are (byte models only).
        on_error: "raise" makes a bad record an error that names the file and the line or row; "skip" leaves bad records
            out and counts them: a line that is not JSON, a field that is missing, null or no string, a row with too few
            or too many fields, text that is not UTF-8. "skip_files" also leaves out, as a whole, each file whose data
            cannot be decompressed, or is damaged Parquet or Arrow, and lists it in `damaged_files`: to know that, such
            files are read twice. From a pipe, such data is always an error.
        separator_ends: whether a separator ends a document rather than separating two, so that one at the end of a
            file starts no empty document.
        quoting: quotation marks in CSV and TSV: "excel", those around a field are no part of it, as in the module csv;
            "none", they are text; "auto", as "excel", but a row of TSV whose first and last line have as many fields as
            the header is an error.

    Attributes:
        files: the files, in order.
        size: their bytes on disk, or None if unknown before they are read.
        regular: whether any thread may read all of them: none is a pipe or remote.
        separators, keep_separator: the strings that documents of text files end at, and whether they belong to the
            document before.
        encoding_errors: as given.

    Raises:
        TypeError, ValueError: for arguments that are invalid or contradict each other.
        OSError: for a file that cannot be read, a glob or a directory without files.
        ImportError: for a path with a scheme, without fsspec.

    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.jsonl").write_text('{"text": "low"}\\n{"text": null}\\n{"text": "lower"}\\n')
    >>> sources = Sources(folder, on_error="skip")
    >>> list(sources.documents()), sources.skipped
    ([b'low', b'lower'], 1)

    """

    def __init__(
        self,
        paths: PathLike | Iterable[PathLike],
        *,
        format: str = "auto",  # noqa: A002 (the name that users know)
        field: str = "text",
        separator: str | None = None,
        per_line: bool = False,
        encoding_errors: EncodingErrors = "strict",
        on_error: OnError = "raise",
        separator_ends: bool = False,
        quoting: Quoting = "auto",
    ) -> None:
        from bpe.corpus.listing import list_sources

        self.format = check_choice("format", format, SOURCE_FORMATS)
        if not isinstance(field, str) or not all(field.split(".")):
            raise ValueError(
                f"field is {describe(field)}; it must be the name of a field, with dots between nested ones: "
                "'meta.text'"
            )
        self.field = field
        self.separators = parse_separators(separator, per_line)
        self.keep_separator = bool(per_line)
        self.encoding_errors = check_encoding_errors(encoding_errors)
        self._bad_records = BadRecords(check_choice("on_error", on_error, ("raise", "skip", "skip_files")))
        self.separator_ends = check_bool("separator_ends", separator_ends)
        self.quoting: Quoting = check_choice("quoting", quoting, ("auto", "excel", "none"))
        guesses_formats = self.format == "auto"
        nul = not guesses_formats or any(b"\0" in string for string in self.separators)
        self._expected = ExpectedText(nul, field if guesses_formats else None)
        expected = None if self.encoding_errors == "bytes" else self._expected
        self.files: tuple[SourceFile, ...] = list_sources(paths, self.format, expected)
        if self.separators and self.files and all(file.format != "text" for file in self.files):
            argument = "per_line=True" if per_line else f"separator={separator!r}"
            raise ValueError(
                f"{argument} is for text, but {self.files[0].name} is read as {self.files[0].format}; leave it out, or "
                'pass format="text"'
            )
        self._whole_files = [SourceUnit(index, 0, None, file.size) for index, file in enumerate(self.files)]
        self._part: tuple[SourceUnit, ...] | None = None
        # by the index of the file, for all copies: what is wrong with it, None if nothing is
        self._damage: dict[int, str | None] = {}

    def __repr__(self) -> str:
        size = "" if self.size is None else f", {pluralize(self.size, 'byte')}"
        return f"Sources({pluralize(len(self._list_used_files()), 'file')}{size})"

    @classmethod
    def of(
        cls,
        files: Files,
        separator: str | None = None,
        per_line: bool = False,
        encoding_errors: EncodingErrors = "strict",
        *,
        is_char_model: bool = False,
    ) -> Sources:
        """Return the argument `files` of a call as `Sources`, with the other arguments if it names paths.

        Raises:
            ValueError: for sources given with arguments that they have themselves; as for `Sources`.

        """
        if not isinstance(files, Sources):
            check_encoding_errors(encoding_errors, is_char_model=is_char_model)
            return cls(files, separator=separator, per_line=per_line, encoding_errors=encoding_errors)
        if separator is not None or per_line or encoding_errors != "strict":
            raise ValueError(
                "files is a bpe.Sources, which has separator, per_line and encoding_errors itself; give them to it"
            )
        check_encoding_errors(files.encoding_errors, is_char_model=is_char_model)
        return files

    # What the sources are ---------------------------------------------------------------------------------------------

    @property
    def on_error(self) -> OnError:
        """What happens with bad records."""
        return self._bad_records.on_error

    @property
    def skipped(self) -> int:
        """The bad records that were skipped so far."""
        return self._bad_records.count

    @property
    def damaged_files(self) -> dict[str, str]:
        """The damaged files that were left out so far, by name with what is wrong, in order."""
        damage = {index: self._damage.get(index) for index in sorted({unit[0] for unit in self._list_units_to_read()})}
        return {self.files[index].name: reason for index, reason in damage.items() if reason is not None}

    @property
    def size(self) -> int | None:
        """The bytes on disk, or None if unknown before they are read."""
        sizes = [unit.disk_bytes for unit in self._list_units_to_read()]
        return None if None in sizes else sum(size for size in sizes if size is not None) or None

    @property
    def text_size(self) -> int | None:
        """An estimate of the bytes of text, from the sizes of the files."""
        total = 0
        for unit in self._list_units_to_read():
            file = self.files[unit.file_index]
            if unit.disk_bytes is None:
                return None
            total += unit.disk_bytes * (1 if file.compression is None and file.format == "text" else ASSUMED_EXPANSION)
        return total or None

    @property
    def regular(self) -> bool:
        """Whether any thread may read all files, since none is a pipe or remote."""
        return all(file.kind == "file" for file in self._list_used_files())

    @property
    def kernel_reads_all(self) -> bool:
        """Whether a `FileReader` reads all files, from their beginnings on."""
        return all(map(self._find_kernel_format, self._list_units_to_read()))

    def estimate_size_before(self, position: Position) -> int:
        """Estimate the bytes on disk before a position."""
        file = self.files[position.file_index]
        bytes_before = sum(earlier.size or 0 for earlier in self.files[: position.file_index])
        return bytes_before + (min(position.offset, file.size or 0) if file.compression is None else 0)

    def add_bad_records(self, count: int) -> None:
        """Add the bad records that were skipped before the position that reading goes on from."""
        self._bad_records.skip(count)

    def is_left_out(self, index: int) -> bool:
        """Whether a file is left out, since it is damaged; it is read as a whole to know that."""
        if self.on_error != "skip_files" or not can_be_damaged(self.files[index]):
            return False
        if index not in self._damage:
            state = ReadState(None, ReadSchedule(None, 1), None, 0, whole_documents=False)
            self._damage[index] = find_damage(self._make_context(self._whole_files[index], state))
        return self._damage[index] is not None

    def leave_out(self, damaged_files: Mapping[str, str]) -> None:
        """Leave out files that were damaged when they were read before: name → what was wrong."""
        for index, file in enumerate(self.files):
            if file.name in damaged_files:
                self._damage[index] = damaged_files[file.name]

    def plan(self) -> dict[str, Any]:
        """Return what determines the documents and their order, as JSON values: files, options, the part."""
        return {
            "version": 1,
            "files": [[file.name, file.size, file.format, file.compression] for file in self.files],
            "format": self.format,
            "field": self.field,
            "separator": self.separators[0].decode() if self.separators and not self.keep_separator else None,
            "per_line": self.keep_separator,
            "encoding_errors": self.encoding_errors,
            "on_error": self.on_error,
            "separator_ends": self.separator_ends,
            "part": None if self._part is None else [[unit.file_index, unit.start, unit.end] for unit in self._part],
            **({} if self.quoting == "auto" else {"quoting": self.quoting}),
        }

    # Parts ------------------------------------------------------------------------------------------------------------

    def units(self) -> list[SourceUnit]:
        """List the parts of files that can be read by themselves, in order.

        A unit is a file, or of a large one about 256 MB: row groups of a Parquet file, bytes of uncompressed JSON Lines
        or text with separators, from the start of a document. Units depend on the files alone.

        Raises:
            OSError, FormatError: for a file that cannot be read.

        """
        if self._part is not None:
            return list(self._part)
        return [unit for index in range(len(self.files)) for unit in self._divide_file(index)]

    def part(self, rank: int, world: int) -> Sources:
        """Select the part of one rank, from 0 to `world - 1`: consecutive units, about as many bytes in each part.

        All parts in order have all documents in order; a part may be empty.

        Raises:
            ValueError: for sources of unknown size, such as pipes; for a rank that is not less than `world`.

        """
        world = check_int("world", world, 1)
        rank = check_int("rank", rank, 0, world - 1)
        units = self.units()
        for unit in units:
            if unit.disk_bytes is None:
                raise ValueError(
                    f"{self.files[unit.file_index].name} has no size, so it cannot be divided into parts; write it to "
                    "a file first"
                )
        sizes = np.array([max(unit.disk_bytes or 0, 1) for unit in units], dtype=np.float64)
        middles = np.cumsum(sizes) - sizes / 2
        owners = np.minimum((middles * world / max(sizes.sum(), 1)).astype(np.int64), world - 1)
        return self._restrict(tuple(unit for unit, owner in zip(units, owners, strict=True) if owner == rank))

    def with_ending_separators(self) -> Sources:
        """Return these sources with `separator_ends=True`."""
        if self.separator_ends:
            return self
        copy = self._restrict(self._part)
        copy.separator_ends = True
        return copy

    def with_own_count(self) -> Sources:
        """Return these sources, to be read once more, with a count of skipped records of their own."""
        copy = self._restrict(self._part)
        copy._bad_records = BadRecords(self.on_error)
        return copy

    def for_one_call(self) -> Sources:
        """Return these sources for one call, which counts its own skipped records; they are counted here too."""
        copy = self.with_own_count()
        copy._bad_records.parent = self._bad_records
        return copy

    def select_file(self, index: int) -> Sources:
        """Restrict the sources to one file, with the same numbering of files."""
        return self._restrict(tuple(unit for unit in self._list_units_to_read() if unit.file_index == index))

    def _restrict(self, units: tuple[SourceUnit, ...] | None) -> Sources:
        """Return a copy that reads some units, and shares the count of skipped records."""
        copy = object.__new__(Sources)
        copy.__dict__.update(self.__dict__)
        copy._part = units
        return copy

    def _list_units_to_read(self) -> list[SourceUnit]:
        """List the units to read; whole files unless the sources are a part."""
        return self._whole_files if self._part is None else list(self._part)

    def _list_used_files(self) -> Sequence[SourceFile]:
        if self._part is None:
            return self.files
        return [self.files[index] for index in dict.fromkeys(unit.file_index for unit in self._part)]

    def _divide_file(self, index: int) -> list[SourceUnit]:
        file = self.files[index]
        size = file.size or 0
        one_unit = [SourceUnit(index, 0, None, file.size)]
        if size <= UNIT_BYTES:
            return one_unit
        if file.format == "parquet":
            return one_unit if self.is_left_out(index) else self._divide_parquet(index)
        separators = [b"\n"] if file.format == "jsonl" else self.separators
        separator = separators[0] if separators else b""
        is_text = file.format in ("jsonl", "text") and file.is_seekable and self.encoding_errors != "replace"
        if not is_text or not separator or can_overlap_itself(separator):
            return one_unit
        bounds = [0]
        with open(file.name, "rb") as open_file:
            for offset in range(UNIT_BYTES, size, UNIT_BYTES):
                if (
                    offset > bounds[-1]
                    and (bound := _find_separator_end(open_file, offset, separator, size)) is not None
                ):
                    bounds.append(bound)
        ends = [*bounds[1:], None]
        return [SourceUnit(index, a, b, (size if b is None else b) - a) for a, b in zip(bounds, ends, strict=True)]

    def _divide_parquet(self, index: int) -> list[SourceUnit]:
        """Divide a Parquet file into units of whole row groups."""
        from bpe.corpus.parquet import list_row_groups

        file = self.files[index]
        group_sizes = list_row_groups(file)
        size, n_rows = file.size or 0, max(sum(group_sizes), 1)
        units: list[SourceUnit] = []
        first_group = n_rows_done = 0
        bytes_in_units = 0
        for group, n_group_rows in enumerate(group_sizes, 1):
            n_rows_done += n_group_rows
            bytes_done = size * n_rows_done // n_rows
            if bytes_done - bytes_in_units >= UNIT_BYTES or group == len(group_sizes):
                units.append(SourceUnit(index, first_group, group, bytes_done - bytes_in_units))
                first_group, bytes_in_units = group, bytes_done
        return units or [SourceUnit(index, 0, None, file.size)]

    # Reading ----------------------------------------------------------------------------------------------------------

    @overload
    def blocks(
        self, find_block_end: BlockEndFinder | None, threads: int, *, start: Position | None = None
    ) -> Generator[Block, None, None]: ...

    @overload
    def blocks(
        self,
        find_block_end: BlockEndFinder | None,
        threads: int,
        *,
        start: Position | None = None,
        unsplittable: list[bytes] | None,
        block_bytes: int = KERNEL_READ_BYTES,
        whole_documents: bool = False,
    ) -> Generator[Block | FileReader, None, None]: ...

    def blocks(
        self,
        find_block_end: BlockEndFinder | None,
        threads: int,
        *,
        start: Position | None = None,
        unsplittable: list[bytes] | None = None,
        block_bytes: int = KERNEL_READ_BYTES,
        whole_documents: bool = False,
    ) -> Generator[Any, None, None]:
        """Read the documents in blocks for `threads` threads, from a position on. Close the generator.

        A block of text ends where `find_block_end` allows; blocks of other formats have whole documents. Any thread may
        take the next block if the sources are `regular`, otherwise only the caller's.

        Args:
            find_block_end: finds where a block of a text may end; None if only whole files may be taken.
            threads: the number of threads that take blocks.
            start: where to begin: `Block.resume_position` of a block that an earlier call gave, with any number of
                documents more; None for the beginning.
            unsplittable: strings that must not be cut: for whole files of text or JSON Lines that need nothing else,
                the generator yields a `FileReader` in place of their blocks, again and again until it is finished. None
                for blocks only.
            block_bytes: how many bytes a `FileReader` reads at once.
            whole_documents: whether its blocks end where documents do.

        Raises:
            FormatError: for a file that is not of its format, and for a bad record.
            OSError: for a file that cannot be read, or is changed while it is read.
            TypeError: for a `start` that is no position.
            ValueError: for a position that is not in these sources.

        """
        if start is not None and not isinstance(start, Position):
            raise TypeError(f"start is {describe(start)}; it must be None, or a position of a block of these sources")
        units = self._list_units_to_read()
        seekable = all(file.is_seekable and file.format == "text" for file in self._list_used_files())
        schedule = ReadSchedule(self.size if seekable and start is None else None, threads)
        drops_invalid = self._drops_invalid_texts()
        state = ReadState(find_block_end, schedule, unsplittable, block_bytes, whole_documents)
        documents_to_skip = 0
        if start is not None:
            units, documents_to_skip = self._find_units(units, start), start.documents_to_skip
        is_inside = start is not None and (start.offset > 0 or start.documents_to_skip > 0)  # so it was read before
        n_done = 0
        with self._open_next_files(units, threads, state):
            while n_done < len(units):
                if not (is_inside and n_done == 0) and self.is_left_out(units[n_done].file_index):
                    n_done += 1
                    continue
                n_by_kernel = 0 if documents_to_skip else self._count_units_for_kernel(units, n_done, state)
                if n_by_kernel:
                    yield from self._read_in_kernel(units[n_done : n_done + n_by_kernel], state)
                    n_done += n_by_kernel
                    continue
                unit, n_done = units[n_done], n_done + 1
                state.n_bad_records = self.skipped
                blocks: Iterator[Any]
                if self.files[unit.file_index].format == "text":
                    blocks = self._read_text(unit, state)
                    if self._drops_trailing_document(unit):
                        blocks = drop_trailing_documents(blocks)
                    blocks = drop_invalid(blocks, self._bad_records) if drops_invalid else blocks
                else:
                    blocks = self._read_records(unit, state)
                yield from skip_documents(blocks, documents_to_skip, start) if documents_to_skip else blocks
                documents_to_skip = 0

    def blocks_with_documents(
        self, start: Position | None = None
    ) -> Generator[tuple[Block, NDArray[np.int64], NDArray[np.int64]], None, None]:
        """Yield blocks that end after a document where they can, from a position on, with the bounds of the documents.

        The text of a block must not be used after the next one was taken.
        """
        with closing(
            self.blocks(make_document_end_finder(self.separators, self.keep_separator), 1, start=start)
        ) as blocks:
            for block in blocks:
                yield block, *block.find_documents(keep_empty=True)
                block.release()

    def documents(self, start: Position | None = None) -> Generator[bytes, None, None]:
        """Read the documents one by one, empty ones included, from a position on.

        Raises:
            FormatError, OSError: as for `blocks`; for text that is not UTF-8.

        """
        with closing(self.blocks_with_documents(start)) as blocks:
            for block, starts, ends in blocks:
                block.check()
                for first, last in zip(starts.tolist(), ends.tolist(), strict=True):
                    yield bytes(block.text[first:last])

    def count_documents(self, file_index: int, start: int, end: int | None) -> int | None:
        """Count the documents from one offset of a file to another, or to its end if that is None.

        None for a pipe or a file of another machine, and where offsets are those of changed text.

        Raises:
            FormatError, OSError: as for `blocks`; for an end where no document begins.

        """
        from bpe.corpus.streams import read_text_before

        file = self.files[file_index]
        if file.format == "text" and not self.separators:
            return int(end != 0)  # the document begins at 0
        if file.kind != "file" or self.encoding_errors == "replace":
            return None
        if start == (file.size if end is None and file.is_seekable else end):
            return 0
        if end is not None and file.offsets_are_bytes:
            separator = self.separators[0] if file.format == "text" else b"\n"
            if read_text_before(file, end, len(separator)) != separator:
                raise FormatError("no document begins there", path=file.name, where=f"offset {end}")
        part = self._restrict((SourceUnit(file_index, start, end, None),)).with_own_count()
        with closing(part.blocks_with_documents()) as blocks:
            return sum(len(starts) for _, starts, _ in blocks)

    def hash_documents(self, file_index: int, n_documents: int) -> str | None:
        """Compute the SHA-256 of the first documents of a file, in these sources, in hex; bad records are left out.

        None if there are fewer than `n_documents`, or reading is of a kind that cannot be repeated.
        """
        import hashlib

        unit = next((unit for unit in self._list_units_to_read() if unit.file_index == file_index), None)
        if unit is None or self.files[file_index].kind != "file":
            return None
        part = self._restrict((SourceUnit(file_index, unit.start, None, None),))
        part._bad_records = BadRecords("skip")
        digest, n_left = hashlib.sha256(), n_documents
        with closing(part.blocks_with_documents()) as blocks:
            for block, starts, ends in blocks:
                if not (block.begins_document and block.ends_document):
                    return None
                for start, end in zip(starts[:n_left].tolist(), ends[:n_left].tolist(), strict=True):
                    digest.update((end - start).to_bytes(8, "little"))
                    digest.update(block.text[start:end])
                n_left -= min(n_left, len(starts))
                if not n_left:
                    break
        return None if n_left else digest.hexdigest()

    def _find_units(self, units: list[SourceUnit], start: Position) -> list[SourceUnit]:
        """List the units from a position on."""
        for index, unit in enumerate(units):
            if unit.file_index > start.file_index:
                break
            if (
                unit.file_index == start.file_index
                and unit.start <= start.offset
                and (unit.end is None or start.offset < unit.end)
            ):
                first = SourceUnit(unit.file_index, start.offset, unit.end, unit.disk_bytes)
                return [first, *units[index + 1 :]]
        if start.file_index >= len(self.files) and not start.offset and not start.documents_to_skip:
            return []
        raise ValueError(f"{start} is no position in these sources; begin where reading them has been")

    @contextmanager
    def _open_next_files(self, units: list[SourceUnit], threads: int, state: ReadState) -> Iterator[None]:
        """Let compressed files be read before it is their turn; at the end they are closed."""
        if threads == 1:
            yield
            return
        files = ((unit.file_index, self.files[unit.file_index]) for unit in units if unit[1:3] == (0, None))
        compressed_files = [
            (index, file)
            for index, file in files
            if file.compression is not None and file.kind == "file" and file.format not in ("parquet", "arrow")
        ]
        if len(compressed_files) < 2:
            yield
            return
        from bpe.corpus.streams import NextFiles

        state.next_files = NextFiles(compressed_files, threads, self.encoding_errors, state.file_stamps)
        with closing(state.next_files):
            yield

    def _drops_trailing_document(self, unit: SourceUnit) -> bool:
        """Whether a separator at the end of a unit of text starts no empty document."""
        return bool(self.separators) and not self.keep_separator and (self.separator_ends or unit.end is not None)

    def _make_context(self, unit: SourceUnit, state: ReadState, start: int | None = None) -> RecordContext:
        """Make what the readers of records need to know about a unit, or about the rest of it from `start` on."""
        return RecordContext(
            self.files[unit.file_index],
            file_index=unit.file_index,
            start=unit.start if start is None else start,
            end=unit.end,
            field=self.field,
            quoting=self.quoting,
            bad_records=self._bad_records,
            encoding_errors=self.encoding_errors,
            state=state,
        )

    def _read_records(self, unit: SourceUnit, state: ReadState) -> Iterator[Block]:
        """Read the documents of a unit that is no text, in blocks."""
        file, context = self.files[unit.file_index], self._make_context(unit, state)
        if file.format in ("parquet", "arrow"):
            from bpe.corpus.parquet import read_blocks

            yield from read_blocks(context)
            return
        with self._make_reader([unit], state, SequentialReader, MAX_SHARED_READ) as reader:
            assert isinstance(reader, SequentialReader)
            yield from context.read_blocks(reader)

    def _drops_invalid_texts(self) -> bool:
        """Whether documents of text files that are not UTF-8 are bad records to leave out."""
        return self.on_error != "raise" and self.encoding_errors == "strict"

    def _read_text(self, unit: SourceUnit, state: ReadState) -> Generator[Block, None, None]:
        """Read the documents of a unit of text in blocks."""
        file = self.files[unit.file_index]
        keep_separator, separators, errors = self.keep_separator, self.separators, self.encoding_errors
        with state.open_stream(unit.file_index, file, unit.start, unit.end, errors) as stream:
            find_block_end = state.find_block_end
            if self._drops_invalid_texts() or (find_block_end is None and self._drops_trailing_document(unit)):
                find_block_end = make_document_end_finder(separators, keep_separator)
            for block in read_text(
                stream,
                find_block_end,
                state.buffers,
                state.schedule,
                line_end=separators[0] if keep_separator else b"",
                encoding_errors=errors,
                expected=self._expected,
            ):
                bounds = np.array([0, len(block.text)], dtype=np.int64)
                yield Block(
                    block.text,
                    bounds[:1],
                    bounds[1:],
                    file.name,
                    block.offset,
                    separators=separators,
                    keep_separator=keep_separator,
                    disk_bytes=block.disk_bytes,
                    begins_document=block.begins_document,
                    ends_document=block.ends_document,
                    must_be_utf8=errors == "strict",
                    buffers=state.buffers,
                    file_index=unit.file_index,
                    resume_offset=block.offset,
                )

    def _count_units_for_kernel(self, units: list[SourceUnit], first: int, state: ReadState) -> int:
        """Count the units from one on that one reader without Python code may read."""
        if state.unsplittable is None:
            return 0
        kernel_format = self._find_kernel_format(units[first])
        if kernel_format is None:
            return 0
        others: Iterator[SourceUnit] = islice(units, first + 1, None)
        if self.on_error == "skip_files":
            others = takewhile(lambda unit: not can_be_damaged(self.files[unit.file_index]), others)
        formats = map(self._find_kernel_format, others)
        return 1 + sum(1 for _ in takewhile(partial(eq, kernel_format), formats))

    def _find_kernel_format(self, unit: SourceUnit) -> tuple[str, bool] | None:
        """Find how a kernel reads a unit: (the format, whether the file is plain); None if none does."""
        _, file_format, compression, size, kind = self.files[unit.file_index]
        is_plain = compression is None and self.encoding_errors != "replace"
        if file_format in ("parquet", "arrow") or kind != "file":
            return None
        if is_plain and not size and not _is_empty(self.files[unit.file_index].name):  # such as a file of /proc
            return None
        return file_format, is_plain

    def _read_in_kernel(self, units: list[SourceUnit], state: ReadState) -> Generator[FileReader, None, None]:
        """Yield a reader of units of one kernel format until it is finished."""
        kernel_format = self._find_kernel_format(units[0])
        reader_type = FileReader if kernel_format in (("text", True), ("jsonl", True)) else SequentialReader
        with self._make_reader(units, state, reader_type, state.block_bytes) as reader:
            while not reader.is_finished:
                yield reader

    @contextmanager
    def _make_reader(
        self, units: list[SourceUnit], state: ReadState, reader_type: type[FileReader], block_bytes: int
    ) -> Iterator[FileReader]:
        """Make a reader of units of one kernel format, whose files are closed after an error."""
        file = self.files[units[0].file_index]
        has_records, drops_invalid = file.format != "text", self._drops_invalid_texts()
        requires_utf8 = self.encoding_errors == "strict" and not has_records and not drops_invalid
        names = [self.files[unit.file_index].name for unit in units]
        rows = [
            (unit.file_index, unit.start, -1 if unit.end is None else unit.end, self.files[unit.file_index].size or 0)
            for unit in units
        ]
        reader = reader_type(
            names,
            np.array(rows, dtype=np.int64),
            separators=[b"\n"] if has_records else self.separators,
            keep_separator=has_records or self.keep_separator,
            strings=[] if has_records else state.unsplittable or [],
            requires_utf8=requires_utf8,
            separator_ends=self.separator_ends,
            block_bytes=block_bytes,
            check_first_bytes=self._make_check(file.format) if self.encoding_errors != "bytes" else None,
            note_stamp=None if len(set(names)) == len(names) else state.note_stamp,
        )
        if isinstance(reader, SequentialReader) and self._find_kernel_format(units[0]) != (file.format, True):
            open_text, expected = partial(self._open_text, units, state), None if has_records else self._expected
            reader.set_texts(UnitTexts(open_text, expected, self.encoding_errors))
        if state.whole_documents:
            reader.keep_documents_whole()
        if drops_invalid and not has_records:
            reader.drop_invalid(self._bad_records.skip)
        if file.format == "jsonl":
            self._set_field(reader, units, state)
        elif isinstance(reader, SequentialReader) and has_records:
            self._set_rows(reader, units, state)
        try:
            yield reader
        except BaseException:  # otherwise the threads close the files when they have read them
            reader.close()
            raise
        finally:
            if isinstance(reader, SequentialReader):
                reader.abandon_text()

    def _make_check(self, file_format: str) -> Callable[[bytes, str], None]:
        """Make the function that checks the first bytes of a plain file of some format."""

        def check_first_bytes(first_bytes: bytes, name: str) -> None:
            check_text(first_bytes if file_format in ("csv", "tsv") else first_bytes[:SIGNATURE_BYTES], name)
            if file_format == "text":
                warn_about_text(first_bytes, name, self._expected)

        return check_first_bytes

    def _open_text(self, units: list[SourceUnit], state: ReadState, unit_index: int) -> AbstractContextManager[Stream]:
        unit = units[unit_index]
        return state.open_stream(
            unit.file_index, self.files[unit.file_index], unit.start, unit.end, self.encoding_errors
        )

    def _set_field(self, reader: FileReader, units: list[SourceUnit], state: ReadState) -> None:
        """Have a reader read JSON Lines."""
        from bpe.corpus.jsonl import make_field_path, parse_line

        def parse(line: bytes, unit_index: int, start: int, line_index: int) -> bytes | None:
            return parse_line(line, self._make_context(units[unit_index], state, start), line_index)

        reader.set_field(make_field_path(self.field), parse)

    def _set_rows(self, reader: SequentialReader, units: list[SourceUnit], state: ReadState) -> None:
        """Have a reader read the rows of CSV or TSV."""
        from bpe.corpus.delimited import DELIMITERS, Dialect, find_header, parse_row

        dialect = Dialect(DELIMITERS[self.files[units[0].file_index].format], self.quoting)
        columns: dict[int, list[str]] = {}  # by unit

        def read(rows: bytes, unit_index: int) -> tuple[int, int, int]:
            n_bytes, names = find_header(rows, self._make_context(units[unit_index], state), dialect)
            columns[unit_index] = names
            return n_bytes, names.index(self.field) if names else 0, len(names)

        def parse(record: bytes, unit_index: int, start: int, line_index: int) -> bytes | None:
            context = self._make_context(units[unit_index], state, start)
            return parse_row(record, columns[unit_index], context, dialect, line_index)

        reader.set_rows(dialect.make_kernel(requires_utf8=self.encoding_errors != "bytes"), read, parse)


#: What `files=` of training and of `bpe.evaluate` takes.
Files = PathLike | Iterable[PathLike] | Sources


def _is_empty(name: str) -> bool:
    """Whether a file of 0 bytes has no content either, as those of /proc have."""
    with ignore_system_errors(), open(name, "rb") as file:
        return not file.read(1)
    return False


def _find_separator_end(file: BinaryIO, start: int, separator: bytes, size: int) -> int | None:
    """Find the position after the first separator at or after `start`; None if it would be the end of the file."""
    file.seek(start)
    unsearched = b""
    while data := file.read(1 << 20):
        unsearched += data
        position = unsearched.find(separator)
        if position >= 0:
            separator_end = start + position + len(separator)
            return separator_end if separator_end < size else None
        start += max(len(unsearched) - len(separator) + 1, 0)
        unsearched = unsearched[max(len(unsearched) - len(separator) + 1, 0) :]
    return None
