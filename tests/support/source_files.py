"""Documents written to files of every format and compression, and read again, for the tests of sources."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import sys
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import bpe
from bpe.corpus import parquet, reading
from bpe.corpus.blocks import Block, make_document_end_finder

zstd = pytest.importorskip("backports.zstd" if sys.version_info < (3, 14) else "compression.zstd")

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstd.compress,
}
COLUMNS = ("parquet", "arrow", "feather")


def write_compressed(path: Path, data: bytes) -> Path:
    """Write data as the path's extension says."""
    path.write_bytes(PACKERS.get(path.suffix, PACKERS[""])(data))
    return path


def make_jsonl(texts: Iterable[str], **more: Any) -> bytes:
    return b"".join(json.dumps({"id": 1, "text": text, **more}).encode() + b"\n" for text in texts)


def make_delimited(texts: Iterable[str], delimiter: str = ",") -> bytes:
    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    writer.writerows([["id", "text", "url"], *([index, text, "u"] for index, text in enumerate(texts))])
    return out.getvalue().encode()


def write_columns(path: Path, texts: list[str | None], rows: int = 3, kind: str = "string") -> Path:
    pa = pytest.importorskip("pyarrow")
    array = pa.array(texts, type=pa.string()).cast(kind)
    table = pa.table({"id": list(range(len(texts))), "text": array})
    if path.suffix == ".parquet":
        pytest.importorskip("pyarrow.parquet").write_table(table, path, row_group_size=rows)
        return path
    new = pa.ipc.new_stream if path.suffix == ".arrow" else pa.ipc.new_file
    with new(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    return path


def write(path: Path, texts: list[str], separator: str = "|") -> Path:
    """Write documents in the format that the path's extension names."""
    kind = path.name.split(".")[1]
    if kind in COLUMNS:
        return write_columns(path, list(texts))
    if kind == "jsonl":
        return write_compressed(path, make_jsonl(texts))
    if kind in ("csv", "tsv"):
        return write_compressed(path, make_delimited(texts, "\t" if kind == "tsv" else ","))
    return write_compressed(path, separator.join(texts).encode())


def join_blocks(blocks: Iterable[Block], *, release: bool = True) -> list[bytes]:
    """The documents of blocks, whose parts are put together."""
    parts: list[bytes] = []
    for block in blocks:
        block.check()
        starts, ends = block.find_documents(keep_empty=True)
        texts = [bytes(block.text[a:b]) for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
        if not block.begins_document:
            parts[-1] += texts.pop(0)
        parts += texts
        if release:
            block.release()
    return parts


def read(given_sources: bpe.Sources, **options: Any) -> list[str]:
    cut = make_document_end_finder(given_sources.separators, given_sources.keep_separator)
    with closing(given_sources.blocks(cut, 1, **options)) as blocks:
        return [document.decode() for document in join_blocks(blocks)]


def use_small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read files in blocks of a few bytes."""
    monkeypatch.setattr(reading, "MAX_READ", 40)
    monkeypatch.setattr(reading, "MIN_READ", 10)
    monkeypatch.setattr("bpe.corpus.blocks.BLOCK_BYTES", 16)
    monkeypatch.setattr(parquet, "BATCH_BYTES", 64)
