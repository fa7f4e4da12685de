"""Bad records: an error that names the file and the record, or skipped and counted; missing packages."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bpe.base.forks import lock_of
from bpe.base.offsets import offsets_of
from bpe.base.utf8 import to_bytes
from bpe.corpus.blocks import Block
from bpe.corpus.reading import Buffers, EncodingErrors
from bpe.errors import FormatError

OnError = Literal["raise", "skip"]

#: Held while records are counted: one lock for all, since that takes no time.
_lock = lock_of(sys.modules[__name__])


@dataclass(slots=True)
class BadRecords:
    """What happens with bad records.

    Attributes:
        on_error: "raise" or "skip".
        skipped: the number of records skipped so far.
        total: where they are counted too, with those of other calls, or None.

    """

    on_error: OnError
    skipped: int = 0
    total: BadRecords | None = None

    @property
    def raises(self) -> bool:
        """Whether a bad record is an error."""
        return self.on_error == "raise"

    def add(self, message: str, source: str, where: str = "") -> None:
        """Raise FormatError for a record, or count it.

        Args:
            message: what is wrong, and the rule.
            source: the file.
            where: the line or row.

        """
        if self.raises:
            raise FormatError(
                f'{message}; correct it, or pass on_error="skip" to leave out such records', path=source, where=where
            )
        self.skip(1)

    def skip(self, count: int) -> None:
        """Count records that are skipped. Other threads may add to the same total."""
        with _lock:
            self.skipped += count
            if self.total is not None:
                self.total.skip(count)


@dataclass(slots=True)
class Tally:
    """What was read for blocks that had no documents; the next block adds the bytes to its own.

    Attributes:
        bytes: bytes of files.
        skipped: the number of bad records before the records that are read now.

    """

    bytes: int = 0
    skipped: int = 0

    def taken(self, more: int) -> int:
        """`more` and the bytes before."""
        size, self.bytes = self.bytes + more, 0
        return size


@dataclass(frozen=True, slots=True)
class Run:
    """What the readers of structured files need to know about a file.

    Attributes:
        source: its name, for errors.
        number: its index among the sources.
        field: the field or column that holds the text.
        bad: what happens with bad records.
        encoding_errors: how bytes that are not UTF-8 are handled.
        tally: bytes that no block has counted yet.
        states: what the files of this call were when they were first opened.

    """

    source: str
    number: int
    field: str
    bad: BadRecords
    encoding_errors: EncodingErrors
    tally: Tally
    states: dict[str, tuple[int, int]]

    def block(self, texts: list[str] | list[bytes] | list[str | bytes], position: int, size: int) -> Block | None:
        """A block of whole documents, copied into one buffer; None if there are none."""
        data, lengths = _joined(texts)
        return self.block_of(memoryview(data), offsets_of(lengths), position, size, None)

    def block_of(
        self, text: memoryview, offsets: NDArray[np.int64], position: int, size: int, buffers: Buffers | None
    ) -> Block | None:
        """A block of whole documents that are end to end in `text`; None if there are none."""
        skipped, self.tally.skipped = self.tally.skipped, self.bad.skipped
        if len(offsets) < 2:
            self.tally.bytes += size
            return None
        return Block(
            text,
            offsets[:-1],
            offsets[1:],
            [],
            False,
            self.source,
            position,
            self.tally.taken(size),
            buffers=buffers,
            file=self.number,
            position=position,
            skipped=skipped,
        )


def _joined(texts: list[Any]) -> tuple[bytes, list[int]]:
    """The UTF-8 of texts, end to end, and its length for each text."""
    try:
        if all(map(str.isascii, texts)):
            return "".join(texts).encode(), list(map(len, texts))
        encoded = list(map(str.encode, texts))
    except (TypeError, UnicodeEncodeError):  # bytes, of a document that is not UTF-8, or a lone surrogate
        encoded = list(map(to_bytes, texts))
    return b"".join(encoded), list(map(len, encoded))


def needed(package: str, extra: str, what: str, source: str) -> Any:
    """Import an optional package.

    Args:
        package: its name.
        extra: the extra of this package that installs it.
        what: what it is needed for.
        source: the file that needs it.

    Raises:
        ImportError: if it is not installed; it names the file and the extra.

    """
    try:
        return importlib.import_module(package)
    except ImportError:
        top = package.partition(".")[0] if not package.startswith("backports.") else package
        raise ImportError(
            f"{source}: {what} needs the package {top}, which is not installed: pip install 'bytepair[{extra}]'",
            name=top,
        ) from None
