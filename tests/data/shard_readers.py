"""Readers of shard formats, written from the published descriptions with `struct`, `csv` and NumPy, not from our code.

Each returns the documents of one shard as lists of ids; for nanogpt and llmc, which record no documents, one list.
"""

from __future__ import annotations

import csv
import gzip
import json
import struct
from collections.abc import Callable, Iterable
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np

Lists = list[list[int]]


def flatten(lists: Iterable[list[int]]) -> list[int]:
    return list(chain.from_iterable(lists))


def split_at(ids: Any, bounds: list[int]) -> Lists:
    assert bounds[0] == 0
    assert bounds[-1] == len(ids)
    return [ids[a:b].tolist() for a, b in pairwise(bounds)]


def read_native(path: Path) -> Lists:
    ids = np.load(path)
    assert ids.dtype in (np.uint16, np.uint32)
    offsets = np.load(path.with_name(path.name.replace(".npy", ".offsets.npy")))
    assert offsets.dtype == np.int64
    return split_at(ids, offsets.tolist())


def read_megatron(path: Path) -> Lists:
    """Read the index as `_IndexReader` of megatron/core/datasets/indexed_dataset.py does."""
    index = path.with_suffix(".idx").read_bytes()
    assert index[:9] == b"MMIDIDX\x00\x00"
    version, code, sequences, documents = struct.unpack_from("<QBQQ", index, 9)
    assert version == 1
    dtype = {4: np.int32, 8: np.uint16}[code]
    lengths = np.frombuffer(index, np.int32, sequences, 34)
    pointers = np.frombuffer(index, np.int64, sequences, 34 + 4 * sequences)
    indices = np.frombuffer(index, np.int64, documents, 34 + 12 * sequences)
    assert len(index) == 34 + 12 * sequences + 8 * documents
    assert indices.tolist() == list(range(sequences + 1))
    data = path.read_bytes()
    assert len(data) == int(lengths.sum()) * np.dtype(dtype).itemsize
    return [
        np.frombuffer(data, dtype, count, pointer).tolist()
        for count, pointer in zip(lengths.tolist(), pointers.tolist(), strict=True)
    ]


def read_nanogpt(path: Path) -> Lists:
    return [np.memmap(path, dtype=np.uint16, mode="r").tolist()] if path.stat().st_size else [[]]


def read_llmc(path: Path) -> Lists:
    """Check the header as the dataloader.h of llm.c does."""
    data = path.read_bytes()
    header = np.frombuffer(data, np.int32, 256)
    dtype = {(20240520, 1): np.uint16, (20240801, 7): np.uint32}[int(header[0]), int(header[1])]
    assert not header[3:].any()
    ids = np.frombuffer(data, dtype, offset=1024)
    assert len(ids) == header[2]
    return [ids.tolist()]


def read_datatrove(path: Path) -> Lists:
    ends = struct.unpack(f"<{path.with_name(path.name + '.index').stat().st_size // 8}Q", (
        path.with_name(path.name + ".index").read_bytes()
    ))  # fmt: skip
    name, count, metric = path.with_name(path.name + ".metadata").read_text().split("\n")
    width = int(name.rsplit("|", 1)[1])
    ids = np.frombuffer(path.read_bytes(), {2: np.uint16, 4: np.uint32}[width])
    assert len(ids) == int(count)
    assert metric.endswith("T")
    return split_at(ids, [0, *ends])


def read_dolma(path: Path) -> Lists:
    with gzip.open(path.with_name(path.name.replace(".npy", ".csv.gz")), "rt", newline="") as file:
        rows = [(int(start), int(end), name, src, int(loc)) for start, end, name, src, loc in csv.reader(file)]
    size = path.stat().st_size
    ends = [row[1] for row in rows]
    width = size // ends[-1] if ends and ends[-1] else 2
    ids = np.frombuffer(path.read_bytes(), {2: np.uint16, 4: np.uint32}[width])
    assert [row[0] for row in rows] == [0, *ends][:-1]
    assert [row[4] - 1 for row in rows] == [int(row[2]) for row in rows]
    return split_at(ids, [0, *ends])


def read_parquet(path: Path) -> Lists:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    assert pa.types.is_large_list(table.schema.field("input_ids").type)
    return table.column("input_ids").to_pylist()


def read_arrow(path: Path) -> Lists:
    import pyarrow as pa

    table = pa.ipc.open_file(path).read_all()
    assert pa.types.is_large_list(table.schema.field("input_ids").type)
    return table.column("input_ids").to_pylist()


READERS: dict[str, Callable[[Path], Lists]] = {
    "native": read_native,
    "megatron": read_megatron,
    "parquet": read_parquet,
    "arrow": read_arrow,
    "nanogpt": read_nanogpt,
    "llmc": read_llmc,
    "datatrove": read_datatrove,
    "dolma": read_dolma,
}
MAIN_FILES = {
    "native": "*[0-9].npy", "megatron": "*.bin", "parquet": "*.parquet", "arrow": "*.arrow", "nanogpt": "*.bin",
    "llmc": "*.bin", "datatrove": "*.ds", "dolma": "*.npy",
}  # fmt: skip


def read_folder(folder: Path, format_name: str) -> Lists:
    """Read the documents of all shards of a folder, in the order of their names, and check the manifest's sums."""
    import zlib

    manifest = json.loads((folder / "manifest.json").read_text())
    for shard in manifest["shards"]:
        for file in shard["files"]:
            data = (folder / file["name"]).read_bytes()
            assert len(data) == file["size"]
            assert f"{zlib.crc32(data):08x}" == file["crc32"]
    paths = sorted(folder.glob(MAIN_FILES[format_name]))
    assert len(paths) == len(manifest["shards"])
    return [document for path in paths for document in READERS[format_name](path)]
