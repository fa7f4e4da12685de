"""Damaged and forged shards: refused in words, or read without a crash; hundreds of mutations of each format."""

from __future__ import annotations

import gzip
import os
import random
import shutil
import struct
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from strategies import SOAK

from bpe import FormatError
from bpe.data import TokenShards, write_shards
from bpe.data.formats import SHARD_FORMATS

MAPPED = ["native", "megatron", "nanogpt", "llmc", "datatrove", "dolma"]
#: Numbers that a forger would write over a count, an offset or a code.
EVIL = [0, 1, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1]


def mutate(rng: random.Random, data: bytes) -> bytes:
    """The data after one to three changes: a bit, a number, bytes removed or repeated, the end cut off."""
    for _ in range(rng.randint(1, 3)):
        if not data:
            break
        offset = rng.randrange(len(data))
        kind = rng.randrange(6)
        if kind == 0:
            data = data[:offset] + bytes([data[offset] ^ 1 << rng.randrange(8)]) + data[offset + 1 :]
        elif kind == 1:
            data = data[:offset]
        elif kind == 2:
            data = data[:offset] + data[offset : offset + rng.choice((1, 2, 8))] + data[offset:]
        elif kind == 3:
            data = data[:offset] + data[offset + rng.choice((1, 2, 8)) :]
        else:
            width, value = rng.choice(["<H", "<I", "<Q"]), rng.choice(EVIL)
            size = struct.calcsize(width)
            data = data[:offset] + struct.pack(width, value % 2 ** (8 * size)) + data[offset + size :]
    return data


def rewrite(path: Path, data: bytes) -> None:
    """Write a file anew: some file systems write a file that is truncated to the disk at once, in 10 ms."""
    path.unlink()
    path.write_bytes(data)


def read_everything(shards: TokenShards) -> None:
    """Use everything of shards that were accepted."""
    bounds = shards.document_bounds(0, shards.n_documents)
    assert bounds[0] == 0
    assert bounds[-1] == shards.n_tokens
    assert sum(map(len, shards.documents)) == shards.n_tokens == len(shards.tokens(0, shards.n_tokens))
    for position in range(0, shards.n_tokens, 3):
        document = shards.document_at(position)
        assert bounds[document] <= position < bounds[document + 1]
    shards.masks(0, shards.n_tokens)
    for shard in shards.shards:
        assert sum(len(batch.ids) for batch in shard.batches(7)) == shard.n_tokens


@pytest.mark.parametrize("validate", [True, False])
@pytest.mark.parametrize("format_name", MAPPED)
def test_mutated_shards(format_name: str, validate: bool, tmp_path: Path) -> None:
    masks = format_name == "native"
    docs = [[1, 2, 3], [], [70 if format_name == "nanogpt" else 70_000, 5], [9] * 20, []]
    write_shards([(ids, [1] * len(ids)) for ids in docs] if masks else docs, tmp_path, format=format_name, masks=masks)
    (tmp_path / "manifest.json").unlink()
    originals = {path: path.read_bytes() for path in tmp_path.iterdir()}
    main = tmp_path / SHARD_FORMATS[format_name].name_files("tokens-00000")[0]
    rng = random.Random(f"{format_name}{validate}")
    n_accepted = 0
    count = (150 if validate else 80) * SOAK
    for _ in range(count):
        path = rng.choice(list(originals))
        data = originals[path]
        if path.suffix == ".gz" and rng.random() < 0.8:
            rewrite(path, gzip.compress(mutate(rng, gzip.decompress(data)), 1))
        else:
            rewrite(path, mutate(rng, data))
        try:
            read_everything(TokenShards(main, end_of_text=9, validate=validate))
            n_accepted += 1
        except FormatError:
            pass
        except AssertionError:
            assert not validate  # offsets that were not checked may be wrong, but no access leaves the file
        rewrite(path, data)
    assert 0 < n_accepted < count


@pytest.mark.parametrize("format_name", ["parquet", "arrow"])
def test_mutated_columns(format_name: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    write_shards([[1, 2, 3], [], [70_000, 5], [9] * 20], tmp_path, format=format_name)
    path = tmp_path / SHARD_FORMATS[format_name].name_files("tokens-00000")[0]
    data = path.read_bytes()
    rng = random.Random(format_name)
    for _ in range(30 * SOAK):
        rewrite(path, mutate(rng, data))
        try:
            for batch in SHARD_FORMATS[format_name].open(path).batches(5):
                assert len(batch.ids) == int(batch.lengths.sum())
        except FormatError:
            pass


@pytest.mark.parametrize("format_name", MAPPED)
def test_a_changed_file_of_a_manifest_is_refused(format_name: str, tmp_path: Path) -> None:
    write_shards([[1, 2, 3], [4]], tmp_path, format=format_name)
    for name in SHARD_FORMATS[format_name].name_files("tokens-00000"):
        data = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(data + b"\0")
        with pytest.raises(
            FormatError, match=rf"{name}: the file has {len(data) + 1} bytes; the manifest has {len(data)}"
        ):
            TokenShards(tmp_path)
        (tmp_path / name).unlink()
        with pytest.raises(FormatError, match=rf"{name}: the file is missing; the manifest has"):
            TokenShards(tmp_path)
        (tmp_path / name).write_bytes(data)
    TokenShards(tmp_path)


def write_shard(tmp_path: Path, format_name: str) -> Path:
    write_shards([[1, 2, 3], [], [4]], tmp_path, format=format_name)
    (tmp_path / "manifest.json").unlink()
    return tmp_path / SHARD_FORMATS[format_name].name_files("tokens-00000")[0]


@pytest.mark.parametrize(
    ("format_name", "ending", "at", "data", "message"),
    [
        ("megatron", ".idx", 0, b"x", "does not begin with a Megatron index's 34 bytes"),
        ("megatron", ".idx", 9, struct.pack("<Q", 2), "offset 9: its version is 2; it must be 1"),
        ("megatron", ".idx", 17, b"\x07", r"offset 17: its dtype code is 7 \(float32\); token ids are 1 "),
        ("megatron", ".idx", 18, struct.pack("<Q", 2**63), "declares 9223372036854775808 sequences and 4 document ind"),
        (
            "megatron",
            ".idx",
            34,
            struct.pack("<i", -1),
            "sequence 0 has length -1 and pointer 0; sequences must follow",
        ),
        ("megatron", ".idx", 46, struct.pack("<q", 2), "sequence 0 has length 3 and pointer 2"),
        ("megatron", ".idx", 78, struct.pack("<q", 9), "offset 1 is 9; offsets must never fall and be at most 3"),
        ("llmc", ".bin", 0, struct.pack("<i", 20240801), "magic number and version are 20240801 and 1; they must be"),
        ("llmc", ".bin", 8, struct.pack("<i", -1), "declares -1 ids"),
        ("llmc", ".bin", 8, struct.pack("<i", 5), "declares 5 ids, 1034 bytes; the file has 1032"),
        ("datatrove", ".ds.index", 8, struct.pack("<Q", 2**64 - 1), "offset 1 is 18446744073709551615; offsets must n"),
        (
            "datatrove",
            ".ds.index",
            16,
            struct.pack("<Q", 2**63),
            "its second line is '4'; it must be 9223372036854775808",
        ),
        ("datatrove", ".ds.metadata", 8, b"4", r"its first line is 'unknown\|4'|it has 8 bytes; 4 ids take 16"),
        ("datatrove", ".ds.metadata", 10, b"5", "its second line is '5'; it must be 4, the number of tokens"),
        ("native", ".offsets.npy", 128, struct.pack("<q", 1), "its first offset is 1; it must be 0"),
        ("native", ".offsets.npy", 136, struct.pack("<q", -1), "offset 1 is -1; offsets must never fall"),
        ("native", ".offsets.npy", 152, struct.pack("<q", 3), "its last offset is 3; it must be 4"),
        ("native", ".npy", 61, b"9", "its header declares 146 bytes; the file has 136"),
    ],
)
def test_messages(format_name: str, ending: str, at: int, data: bytes, message: str, tmp_path: Path) -> None:
    main = write_shard(tmp_path, format_name)
    path = tmp_path / f"tokens-00000{ending}"
    old = path.read_bytes()
    path.write_bytes(old[:at] + data + old[at + len(data) :])
    with pytest.raises(FormatError, match=message) as caught:
        TokenShards(main)
    assert caught.value.path is not None


def test_messages_of_rows(tmp_path: Path) -> None:
    main = write_shard(tmp_path, "dolma")
    rows = tmp_path / "tokens-00000.csv.gz"
    for text, message in [
        (b"0,3,a,b,1\r\n4,4,a,b,1\r\n", "row 2: the row begins with 4,4; it must begin with the document's start, 3"),
        (b"0,9,a,b,1\r\n", "row 1: the row begins with 0,9; .* its end, at most 4"),
        (b'0,3,a,"b\n9",1\r\n3,2,a,b,1\r\n', "row 2: the row begins with 3,2"),
        (b"0,3\n3,99999999999999999999\n", "row 2: the row begins with 3,9223372036854775807"),
        (b"0,3\r\n0,x\r\n", "row 2: the row is '0,x'"),
        (b"0,3,a\n,4,a\n", "row 2: the row is ',4,a'"),
        (b"\r\n0,4\n", "row 1: the row is ''"),
        (b"0,3\n\n3,4\n", "row 2: the row is ''"),
        (b'0,3,"a"\n0,-1\n', "row 2: the row is '0,-1'"),
        (b"0 3", "row 1: the row is '0 3'"),
        (b"0,3," + b"a" * 5_000_000, "row 1: it has more than 1048576 bytes"),
        (b"0,3,a,b,1\r\n", "it has 8 bytes; 3 ids take 6 or 12"),
        (b'"' + b"a" * 200_000, "it is not CSV: field larger than field limit"),
    ]:
        rows.write_bytes(gzip.compress(text))
        with pytest.raises(FormatError, match=message):
            TokenShards(main)
    for text in (
        b"0,3,a,b,1\r\n3,4,c,d,2\r\n",
        b"0,3\n3,4",
        b'0,3,"a\n9,9","",1\n3,4,,,',
        b"0,3\r\n3,4,\xff\r\n\r\n"[:-2],
    ):
        rows.write_bytes(gzip.compress(text))
        assert TokenShards(main).document_bounds(0, 2).tolist() == [0, 3, 4]
    rows.write_bytes(gzip.compress(b"0,4,a,b,1\r\n")[:-3])
    with pytest.raises(FormatError, match="cannot be decompressed"):
        TokenShards(main)
    rows.unlink()
    with pytest.raises(FormatError, match=r"csv\.gz: the file is missing; a shard needs all of its files"):
        TokenShards(main)


@pytest.mark.parametrize("format_name", ["nanogpt", "llmc", "native", "megatron", "datatrove"])
def test_truncated_ids_are_refused(format_name: str, tmp_path: Path) -> None:
    main = write_shard(tmp_path, format_name)
    main.write_bytes(main.read_bytes()[:-1])
    with pytest.raises(FormatError):
        TokenShards(main)


def test_offsets_that_change_later(tmp_path: Path) -> None:
    """Offsets are checked again where they are used: another process may write to the file."""
    main = write_shard(tmp_path, "native")
    shards = TokenShards(main)
    path = tmp_path / "tokens-00000.offsets.npy"
    with path.open("r+b") as file:
        file.seek(136)
        file.write(struct.pack("<q", 2**62))
    with pytest.raises(FormatError, match="document 0 does not lie within the shard's 4 tokens"):
        shards.documents[0]


def test_many_offsets_are_checked_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bpe.data.formats import reading

    monkeypatch.setattr(reading, "NUMBERS_AT_ONCE", 3)
    for format_name in ("native", "megatron", "datatrove", "dolma"):
        folder = tmp_path / format_name
        write_shards([[1] * (i % 3) for i in range(20)], folder, format=format_name)
        TokenShards(folder)
        shutil.rmtree(folder)
    main = write_shard(tmp_path, "native")
    np.save(tmp_path / "tokens-00000.offsets.npy", np.array([0, 1, 2, 3, 2, 4]))
    with pytest.raises(FormatError, match="offset 4 is 2; offsets must never fall"):
        TokenShards(main)


def write_columns(tmp_path: Path, format_name: str, table: Any) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / f"x.{format_name}"
    if format_name == "parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table)
    return path


@pytest.mark.parametrize("format_name", ["parquet", "arrow"])
def test_columns_of_other_writers(format_name: str, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    for kind in (pa.list_(pa.int64()), pa.large_list(pa.int32()), pa.list_(pa.uint8())):
        path = write_columns(
            tmp_path, format_name, pa.table({"text": ["a", "b"], "input_ids": pa.array([[1, 2], []], kind)})
        )
        (batch,) = SHARD_FORMATS[format_name].open(path).batches()
        assert (batch.ids.tolist(), batch.lengths.tolist()) == ([1, 2], [2, 0])
    for table, message in [
        (pa.table({"ids": [[1]]}), "its column input_ids is None; it must be a list of integers"),
        (pa.table({"input_ids": [1]}), "its column input_ids is int64"),
        (pa.table({"input_ids": [[1.5]]}), "its column input_ids is list<.*: double>"),
        (pa.table({"input_ids": [[1], None]}), "it has null rows or ids"),
        (pa.table({"input_ids": [[1, None]]}), "it has null rows or ids"),
        (pa.table({"input_ids": [[-1]]}), "token id -1 is out of range"),
        (pa.table({"input_ids": [[1]], "loss_mask": pa.array([[1, 1]], pa.list_(pa.uint8()))}), "not as long as its r"),
    ]:
        with pytest.raises(FormatError, match=message):
            list(SHARD_FORMATS[format_name].open(write_columns(tmp_path, format_name, table)).batches())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("name", ["manifest.json", "tokens.npy", "tokens.bin", "tokens.offsets.npy"])
def test_a_shard_or_manifest_that_is_no_regular_file(name: str, tmp_path: Path) -> None:
    """A pipe was waited for, and a device read until the memory was full."""
    for number, make in enumerate((os.mkfifo, partial(os.symlink, "/dev/zero"))):
        folder = tmp_path / str(number)
        folder.mkdir()
        make(folder / name)
        for path in (folder, folder / name):
            if path != folder / "manifest.json":
                with pytest.raises(FormatError, match=r"it is no (regular )?file|has neither a manifest"):
                    TokenShards(path)
