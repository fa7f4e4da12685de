"""Damaged files, which `on_error="skip_files"` leaves out as a whole: their data cannot be decompressed or read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpe.corpus.reading import DamagedFileError
from bpe.errors import get_log

if TYPE_CHECKING:
    from bpe.corpus.listing import SourceFile
    from bpe.corpus.records import RecordContext

log = get_log()


def can_be_damaged(file: SourceFile) -> bool:
    """Whether a file can be read twice, and has data that may be damaged: compressed, Parquet or Arrow."""
    return file.kind in ("file", "remote") and (file.compression is not None or file.format in ("parquet", "arrow"))


def find_damage(context: RecordContext) -> str | None:
    """Read a file as a whole; returns what is wrong with it, which the log says too, or None."""
    file = context.file
    try:
        if file.compression is not None:
            from bpe.corpus.streams import read_compressed

            read_compressed(file, context.state.file_stamps)
        else:
            from bpe.corpus.parquet import read_column

            read_column(context)
    except DamagedFileError as error:
        log.warning("%s is left out: %s", file.name, error.reason)
        return error.reason
    return None
