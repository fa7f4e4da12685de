"""Every shard format, read back by code written from its description, and writing under adverse conditions."""

from __future__ import annotations

import gzip
import json
import os
import random
import struct
import threading
import time
import tracemalloc
import zlib
from collections import Counter
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shard_readers import READERS, flatten, read_folder
from strategies import examples

from bpe import TokenBatch
from bpe.base._cpu import get_vector_level, set_vector_level
from bpe.base._crc32 import combine_crc32, crc32
from bpe.base._team import Team
from bpe.base.threads import Workers, team_threads
from bpe.data import Blocks, Manifest, TokenShards, convert_shards, write_shards, writing
from bpe.data.formats import SHARD_FORMATS, columns, dolma, megatron
from bpe.data.formats._file_writer import write_at
from bpe.data.formats._value_ranks import rank_values
from bpe.data.formats.files import ONE_THREAD, Spool, WriterThreads
from bpe.data.formats.shard_format import ShardInfo, ShardWriter
from bpe.errors import FormatError

NEEDS_ARROW = ("parquet", "arrow")
DOCUMENTS = [format_name for format_name in SHARD_FORMATS if SHARD_FORMATS[format_name].features]


def skip_without_arrow(format_name: str) -> None:
    if format_name in NEEDS_ARROW:
        pytest.importorskip("pyarrow")


documents = st.lists(
    st.one_of(st.just([]), st.lists(st.integers(0, 300), max_size=1), st.lists(st.integers(0, 300), max_size=40)),
    max_size=30,
)


@pytest.mark.parametrize("format_name", SHARD_FORMATS)
@examples(8)
@given(docs=documents, size=st.one_of(st.none(), st.integers(1, 60)), offset=st.sampled_from([0, 65235, 2**31 - 301]))
def test_documents_are_read_back(tmp_path_factory: Any, format_name: str, docs: Any, size: Any, offset: int) -> None:
    skip_without_arrow(format_name)
    docs = [[token_id + offset for token_id in document] for document in docs]
    out = tmp_path_factory.mktemp("out")
    largest = max((max(document, default=0) for document in docs), default=0)
    try:
        SHARD_FORMATS[format_name].choose_dtype(largest)
    except ValueError:
        assert format_name == "nanogpt"
        return
    manifest = write_shards(docs, out, format=format_name, shard_size=size)
    documents_read = read_folder(out, format_name)
    if format_name in DOCUMENTS:
        assert documents_read == docs
    else:
        assert flatten(documents_read) == flatten(docs)
    assert (manifest.documents, manifest.tokens) == (len(docs), sum(map(len, docs)))
    assert Manifest.read(out) == manifest
    if size is not None:  # a shard ends with the document that reaches the size
        tokens = [shard.tokens for shard in manifest.shards]
        assert all(count >= size for count in tokens[:-1])


@pytest.mark.parametrize("format_name", SHARD_FORMATS)
def test_the_bytes_do_not_depend_on_the_calls(
    format_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One call, or one for every id: the files are the same."""
    skip_without_arrow(format_name)
    monkeypatch.setattr(columns, "_GROUP_TOKENS", 5)
    monkeypatch.setattr(columns, "_GROUP_DOCUMENTS", 3)
    monkeypatch.setattr(dolma, "_PIECE_BYTES", 50)
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 6, 50)
    ids = rng.integers(0, 500, lengths.sum()).astype(np.uint32)
    contents = []
    for name in ("once", "often"):
        (tmp_path / name).mkdir()
        writer = SHARD_FORMATS[format_name].open_writer(
            tmp_path / name, "x", SHARD_FORMATS[format_name].choose_dtype(500)
        )
        if name == "once":
            writer.write(ids, lengths)
        else:
            position = 0
            for length in lengths.tolist():
                for i in range(max(length, 1)):
                    part = ids[position : position + min(length, 1)]
                    position += len(part)
                    last = i >= length - 1
                    writer.write(part, np.array([len(part)]), begins_document=i == 0, ends_document=last)
        assert (writer.n_documents, writer.n_tokens) == (50, len(ids))
        files = writer.finish()
        contents.append((files, [(tmp_path / name / file.name).read_bytes() for file in files]))
        assert files[0].name == SHARD_FORMATS[format_name].name_files("x")[0]
        assert {*os.listdir(tmp_path / name)} == {*SHARD_FORMATS[format_name].name_files("x")}
    assert contents[0] == contents[1]
    if format_name in DOCUMENTS:
        bounds = [0, *np.cumsum(lengths).tolist()]
        expected = [ids[a:b].tolist() for a, b in pairwise(bounds)]
        assert READERS[format_name](tmp_path / "once" / SHARD_FORMATS[format_name].name_files("x")[0]) == expected


@pytest.mark.parametrize("folder", ["disk", "memory"])
@pytest.mark.parametrize("format_name", SHARD_FORMATS)
def test_the_bytes_do_not_depend_on_the_threads(
    format_name: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several threads write the pieces of a file: to a file system in memory through mappings."""
    skip_without_arrow(format_name)
    monkeypatch.setattr(columns, "_GROUP_TOKENS", 100_000)
    rng = np.random.default_rng(1)
    lengths = rng.integers(0, 3000, 1000)
    ids = rng.integers(0, 1 << 16, lengths.sum()).astype(np.uint32)
    contents, team = [], Team(5)
    with ExitStack() as stack:
        parent = tmp_path
        if folder == "memory":
            if not os.access("/dev/shm", os.W_OK):
                pytest.skip("no /dev/shm")
            parent = Path(stack.enter_context(TemporaryDirectory(dir="/dev/shm")))
        stack.enter_context(team_threads(team))
        workers = stack.enter_context(Workers(3))
        for threads in (ONE_THREAD, WriterThreads(team, workers)):
            out = parent / str(threads.team.size)
            out.mkdir()
            writer = SHARD_FORMATS[format_name].open_writer(out, "x", np.dtype("<u2"), threads=threads)
            for start in range(0, len(lengths), 350):
                part = slice(*(int(lengths[:row].sum()) for row in (start, start + 350)))
                writer.write(ids[part], lengths[start : start + 350])
            contents.append([(file, (out / file.name).read_bytes()) for file in writer.finish()])
    assert contents[0] == contents[1]
    assert all(int(file.crc32, 16) == zlib.crc32(data) for file, data in contents[0])


@pytest.mark.parametrize("n_threads", [1, 5])
def test_nothing_is_left_of_ids_that_are_too_large(n_threads: int, tmp_path: Path) -> None:
    team = Team(n_threads)
    with team_threads(team):
        writer = SHARD_FORMATS["nanogpt"].open_writer(tmp_path, "x", np.dtype("<u2"), threads=WriterThreads(team))
        ids = np.arange(3_000_000, dtype=np.uint32) & 0xFFFF
        writer.write(ids, np.array([len(ids)]))
        bad = ids.copy()
        bad[2_500_000] = 1 << 16
        with pytest.raises(ValueError, match="id 65536 does not fit"):
            writer.write(bad, np.array([len(bad)]))
        writer.write(ids[:7], np.array([7]))
        (file,) = writer.finish()
    expected = np.concatenate((ids, ids[:7])).astype("<u2").tobytes()
    assert (tmp_path / file.name).read_bytes() == expected
    assert int(file.crc32, 16) == zlib.crc32(expected)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("n_threads", [1, 5])
def test_an_error_of_several_threads_names_the_file(n_threads: int) -> None:
    team, file = Team(n_threads), os.open("/dev/full", os.O_RDWR)
    try:
        with team_threads(team), pytest.raises(OSError, match=r"No space left on device: 'ids\.bin'"):
            write_at(file, 0, bytes(9 << 20), team, "ids.bin")
        with pytest.raises(ValueError, match="position is 3; ids begin at a multiple of their size"):
            write_at(file, 3, bytes(8), team, "ids.bin", narrows=True, max_id=0xFFFF)
    finally:
        os.close(file)


# Files of other writers -----------------------------------------------------------------------------------------------


def test_masks_of_datatrove(tmp_path: Path) -> None:
    """Its own writer's masks are read and converted, and what is written here is what it writes."""
    tokenizer = pytest.importorskip("datatrove.pipeline.tokens.tokenizer")
    docs = [([1, 2, 3], [0, 1, 1]), ([], []), ([70_000], [0])]
    peer_file = tokenizer.TokenizedFile(
        str(tmp_path / "theirs"), "00000.ds", save_loss_metadata=True, token_size=4, save_final_metadata=True
    )
    for ids, mask in docs:
        peer_file.write(ids, np.array(mask, dtype=np.float64))
    peer_file.close()
    shards = TokenShards(tmp_path / "theirs")
    assert shards.has_masks
    assert shards.masks(0, 4).tolist() == [0, 1, 1, 0]
    convert_shards(tmp_path / "theirs", tmp_path / "native")
    assert TokenShards(tmp_path / "native").masks(0, 4).tolist() == [0, 1, 1, 0]
    convert_shards(tmp_path / "native", tmp_path / "back", "datatrove")
    write_shards(docs, tmp_path / "ours", format="datatrove", masks=True)
    for ending in ("", ".index", ".loss"):
        expected = (tmp_path / "theirs" / f"00000.ds{ending}").read_bytes()
        assert (tmp_path / "ours" / f"tokens-00000.ds{ending}").read_bytes() == expected
        assert (tmp_path / "back" / f"00000.ds{ending}").read_bytes() == expected
    with pytest.raises(ValueError, match="the shards have loss masks, which megatron cannot hold"):
        convert_shards(tmp_path / "theirs", tmp_path / "megatron", "megatron")


def test_masks_that_datatrove_cannot_hold(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the mask has the value 2; datatrove shards hold 0 and 1"):
        write_shards([([1], [2])], tmp_path, format="datatrove", masks=True)
    write_shards([([1, 2], [0, 1])], tmp_path, format="datatrove", masks=True)
    loss = tmp_path / "tokens-00000.ds.loss"
    loss.write_bytes(b"\x00\x02")
    with pytest.raises(FormatError, match=r"offset 1: it is 2; it must be 0 or 1"):
        TokenShards(tmp_path)
    (tmp_path / "manifest.json").unlink()
    loss.write_bytes(b"\x00")
    with pytest.raises(FormatError, match="it has 1 bytes; there are 2 ids"):
        TokenShards(tmp_path)
    write_shards([[1, 2]], tmp_path, format="datatrove")  # the mask goes with the shard that is replaced
    assert not loss.exists()


def megatron_file(folder: Path, code: int, ids: Any, modes: bytes = b"") -> Path:
    """A dataset of two documents as `IndexedDatasetBuilder` of Megatron-LM writes it."""
    folder.mkdir()
    ids.tofile(folder / "x.bin")
    lengths = [2, len(ids) - 2]
    pointers = [0, 2 * ids.itemsize]
    index = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ2i2q3q", 1, code, 2, 3, *lengths, *pointers, 0, 1, 2)
    (folder / "x.idx").write_bytes(index + modes)
    return folder


def test_other_dtypes_of_megatron(tmp_path: Path) -> None:
    for code, dtype in ((1, "u1"), (5, "<i8")):
        shards = TokenShards(megatron_file(tmp_path / dtype, code, np.array([1, 2, 255], dtype=dtype)))
        assert [document.tolist() for document in shards.documents] == [[1, 2], [255]]
        assert Blocks(shards, 2)[0]["input_ids"].tolist() == [1, 2]
        new = convert_shards(tmp_path / dtype, tmp_path / f"native {dtype}")
        documents = [each.tolist() for each in TokenShards(tmp_path / f"native {dtype}").documents]
        assert (new.dtype, documents) == ("uint16", [[1, 2], [255]])
    large = megatron_file(tmp_path / "large", 5, np.array([1, 2, 2**32]))
    with pytest.raises(ValueError, match="the largest id is 4294967296; native shards hold ids up to 4294967295"):
        convert_shards(large, tmp_path / "out")
    negative = megatron_file(tmp_path / "negative", 5, np.array([1, 2, -1]))
    with pytest.raises(ValueError, match="id -1 does not fit"):
        convert_shards(negative, tmp_path / "out")
    for code, name in ((2, "int8"), (3, "int16"), (6, "float64"), (7, "float32"), (9, "unknown")):
        other = megatron_file(tmp_path / name, code, np.array([1, 2, 3]))
        with pytest.raises(FormatError, match=rf"its dtype code is {code} \({name}\); token ids are 1 \(uint8\), "):
            TokenShards(other)


def test_multimodal_datasets_of_megatron_are_refused(tmp_path: Path) -> None:
    folder = megatron_file(tmp_path / "a", 4, np.array([1, 2, 3], dtype="<i4"), modes=b"\x00\x01")
    with pytest.raises(FormatError, match="it has the modes of its 2 sequences, as a multimodal dataset has"):
        TokenShards(folder)


# Golden bytes ---------------------------------------------------------------------------------------------------------


def write_and_read_files(tmp_path: Path, format_name: str, docs: list[list[int]], **options: Any) -> dict[str, bytes]:
    write_shards(docs, tmp_path, format=format_name, **options)
    return {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.name != "manifest.json"}


def test_golden_native(tmp_path: Path) -> None:
    header = b"\x93NUMPY\x01\x00v\x00{'descr': '%s', 'fortran_order': False, 'shape': (%d,)}"
    files = write_and_read_files(tmp_path, "native", [[1, 2], [], [65535]])
    assert files == {
        "tokens-00000.npy": (header % (b"<u2", 3)).ljust(127) + b"\n" + b"\x01\x00\x02\x00\xff\xff",
        "tokens-00000.offsets.npy": (header % (b"<i8", 4)).ljust(127) + b"\n" + struct.pack("<4q", 0, 2, 2, 3),
    }


def test_golden_megatron(tmp_path: Path) -> None:
    files = write_and_read_files(tmp_path, "megatron", [[1, 2], [], [65536]])
    assert files == {
        "tokens-00000.bin": struct.pack("<3i", 1, 2, 65536),
        "tokens-00000.idx": bytes.fromhex(
            "4d4d494449445800 00 0100000000000000 04 0300000000000000 0400000000000000"
            "02000000 00000000 01000000"
            "0000000000000000 0800000000000000 0800000000000000"
            "0000000000000000 0100000000000000 0200000000000000 0300000000000000"
        ),
    }


def test_golden_nanogpt_and_llmc(tmp_path: Path) -> None:
    files = write_and_read_files(tmp_path / "a", "nanogpt", [[1, 2], []], end_of_text=7)
    assert files == {"tokens-00000.bin": struct.pack("<4H", 1, 2, 7, 7)}
    files = write_and_read_files(tmp_path / "b", "llmc", [[1, 2], []], end_of_text=7)
    assert files == {
        "tokens-00000.bin": struct.pack("<3i", 20240520, 1, 4) + bytes(1012) + struct.pack("<4H", 7, 1, 2, 7)
    }
    files = write_and_read_files(tmp_path / "c", "llmc", [[1, 2], []], end_of_text=70000)
    assert files == {
        "tokens-00000.bin": struct.pack("<3i", 20240801, 7, 4) + bytes(1012) + struct.pack("<4I", 70000, 1, 2, 70000)
    }


def test_golden_datatrove(tmp_path: Path) -> None:
    files = write_and_read_files(tmp_path, "datatrove", [[1, 2], []], end_of_text=7)
    assert files == {
        "tokens-00000.ds": struct.pack("<4H", 1, 2, 7, 7),
        "tokens-00000.ds.index": struct.pack("<2Q", 3, 4),
        "tokens-00000.ds.metadata": b"unknown|2\n4\n4.00 T",
    }


def test_golden_dolma(tmp_path: Path) -> None:
    writer = SHARD_FORMATS["dolma"].open_writer(
        tmp_path, "x", np.dtype("<u2"), info=ShardInfo(source='a,"b"', first_document=5)
    )
    writer.write(np.array([1, 2, 3], dtype=np.uint32), np.array([2, 0, 1]))
    writer.finish()
    assert (tmp_path / "x.npy").read_bytes() == struct.pack("<3H", 1, 2, 3)
    packed = (tmp_path / "x.csv.gz").read_bytes()
    assert packed[4:8] == bytes(4)  # no time: the same documents give the same bytes
    assert gzip.decompress(packed) == b'0,2,5,"a,""b""",6\r\n2,2,6,"a,""b""",7\r\n2,3,7,"a,""b""",8\r\n'


def test_datatrove_numbers_for_people() -> None:
    """As `humanize.metric` writes them."""
    from bpe.data.formats.flat import format_si_prefix

    expected = {0: "0.00 ", 999: "999 ", 1000: "1.00 k", 999_999: "1000 k", 10**9: "1.00 G", 25 * 10**12: "25.0 T"}
    assert {number: format_si_prefix(number) for number in expected} == expected


# Loss masks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format_name", ["native", "parquet", "arrow"])
def test_masks_are_read_back(format_name: str, tmp_path: Path) -> None:
    skip_without_arrow(format_name)
    pairs = [([5, 6, 7], [0, 1, 1]), ([], []), ([8], [255]), ([9, 9], [True, False])]
    manifest = write_shards(pairs, tmp_path, format=format_name, masks=True, shard_size=4)
    assert manifest.masks
    masks: list[list[int]] = []
    for shard in manifest.shards:
        path = tmp_path / shard.files[0].name
        if format_name == "native":
            flatten = np.load(tmp_path / f"{shard.stem}.mask.npy")
            assert flatten.dtype == np.uint8
            bounds = np.load(tmp_path / f"{shard.stem}.offsets.npy").tolist()
            masks += [flatten[a:b].tolist() for a, b in pairwise(bounds)]
        else:
            import pyarrow as pa
            import pyarrow.parquet as pq

            table = pq.read_table(path) if format_name == "parquet" else pa.ipc.open_file(path).read_all()
            masks += table.column("loss_mask").to_pylist()
    assert masks == [list(map(int, mask)) for _, mask in pairs]
    assert read_folder(tmp_path, format_name) == [ids for ids, _ in pairs]


@pytest.mark.parametrize("format_name", ["megatron", "nanogpt", "llmc", "dolma"])
def test_other_formats_refuse_masks(format_name: str, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=f"{format_name} shards cannot hold loss masks; native, datatrove, parquet and arrow"
    ):
        write_shards([([1], [1])], tmp_path, format=format_name, masks=True)
    assert os.listdir(tmp_path) == []


def test_a_shard_without_masks_replaces_one_with_masks(tmp_path: Path) -> None:
    """The old mask must not be taken for the new shard's."""
    for masks in (True, False):
        writer = SHARD_FORMATS["native"].open_writer(tmp_path, "x", np.dtype("<u2"), masks=masks)
        writer.write(np.array([1, 2]), np.array([2]), mask=np.array([0, 1], dtype=np.uint8) if masks else None)
        writer.finish()
    assert not SHARD_FORMATS["native"].open(tmp_path / "x.npy").has_masks


# What a format cannot hold --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("format_name", "largest", "message"),
    [
        ("nanogpt", 65536, "nanogpt shards hold ids up to 65535; formats with 32-bit ids, such as native"),
        ("megatron", 2**31, "megatron shards hold ids up to 2147483647"),
        ("native", 2**32, "native shards hold ids up to 4294967295"),
        ("native", -1, "largest_id is -1"),
    ],
)
def test_largest_id_decides(format_name: str, largest: int, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        write_shards(iter([[1]]), tmp_path / "out", format=format_name, largest_id=largest)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("format_name", SHARD_FORMATS)
def test_dtypes(format_name: str) -> None:
    names = {"nanogpt": ["uint16"], "megatron": ["uint16", "int32"]}
    names |= {arrow: ["uint16", "int32", "uint32"] for arrow in NEEDS_ARROW}
    limits = {"uint16": 65535, "int32": 2**31 - 1, "uint32": 2**32 - 1}
    least = 0
    for name in names.get(format_name, ["uint16", "uint32"]):
        assert (
            SHARD_FORMATS[format_name].choose_dtype(least).name
            == SHARD_FORMATS[format_name].choose_dtype(limits[name]).name
            == name
        )
        least = limits[name] + 1


@pytest.mark.parametrize("format_name", SHARD_FORMATS)
def test_an_id_that_does_not_fit_is_refused(format_name: str, tmp_path: Path) -> None:
    skip_without_arrow(format_name)
    with pytest.raises(ValueError, match="id 65536 does not fit the shard's dtype, uint16"):
        write_shards([[1], [65536]], tmp_path, format=format_name, largest_id=9)
    with pytest.raises(ValueError, match="out of range"):
        write_shards([[1], [-1]], tmp_path, format=format_name, largest_id=9)
    writer = SHARD_FORMATS[format_name].open_writer(tmp_path, "x", np.dtype("<u2"))
    for bad in (np.array([-1]), np.array([2**40]), np.array([70000], dtype=np.uint32)):
        with pytest.raises(ValueError, match="does not fit"):
            writer.write(bad, np.array([1]))
    writer.discard()
    assert os.listdir(tmp_path) == []


def test_a_document_too_long_for_megatron(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(megatron.MegatronWriter, "max_document", 5)  # instead of 2**31 - 1
    writer = SHARD_FORMATS["megatron"].open_writer(tmp_path, "x", np.dtype("<u2"))
    writer.write(np.arange(7), np.array([3, 4]), ends_document=False)
    with pytest.raises(ValueError, match="a document has 6 tokens or more; megatron holds documents of at most 5: use"):
        writer.write(np.arange(3), np.array([2, 1]), begins_document=False)
    writer.write(np.arange(2), np.array([1, 1]), begins_document=False)  # the refused call has left no trace
    writer.finish()
    assert READERS["megatron"](tmp_path / "x.bin") == [[0, 1, 2], [3, 4, 5, 6, 0], [1]]
    assert SHARD_FORMATS["megatron"].open_writer(tmp_path, "y", np.dtype("<u2")).discard() is None


def test_a_document_too_long_for_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its encoder would need too much memory; Arrow, with the same columns, needs none."""
    monkeypatch.setattr(columns, "_MAX_PARQUET_DOCUMENT", 5)  # instead of 2**27
    for format_name in ("parquet", "arrow"):
        writer = SHARD_FORMATS[format_name].open_writer(tmp_path, format_name, np.dtype("<u2"))
        writer.write(np.arange(5), np.array([5]))
        if format_name == "parquet":
            with pytest.raises(ValueError, match="6 tokens or more; parquet holds documents of at most 5: use native"):
                writer.write(np.arange(6), np.array([6]))
        else:
            writer.write(np.arange(6), np.array([6]))
        writer.finish()
    assert READERS["parquet"](tmp_path / "parquet.parquet") == [[0, 1, 2, 3, 4]]
    assert READERS["arrow"](tmp_path / "arrow.arrow") == [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 5]]


def test_too_many_tokens_for_llmc(tmp_path: Path) -> None:
    writer = SHARD_FORMATS["llmc"].open_writer(tmp_path, "x", np.dtype("<u2"))
    writer.n_tokens = 2**31 - 2  # type: ignore[misc]
    with pytest.raises(ValueError, match="would have 2147483648 tokens; llmc files hold at most 2147483647: pass a sh"):
        writer.write(np.arange(2), np.array([2]))
    writer.discard()


def test_calls_that_do_not_fit_together(tmp_path: Path) -> None:
    writer = SHARD_FORMATS["native"].open_writer(tmp_path, "x", np.dtype("<u2"))
    with pytest.raises(ValueError, match="begins_document is False, but the last document is complete"):
        writer.write(np.arange(2), np.array([2]), begins_document=False)
    writer.write(np.arange(2), np.array([2]), ends_document=False)
    with pytest.raises(ValueError, match="begins_document is True, but the last document is not complete"):
        writer.write(np.arange(2), np.array([2]))
    with pytest.raises(ValueError, match="add up to 3, but there are 2 ids"):
        writer.write(np.arange(2), np.array([3]), begins_document=False)
    with pytest.raises(ValueError, match="add up to 2, but"):
        writer.write(np.arange(2), np.array([3, -1]), begins_document=False)
    with pytest.raises(ValueError, match="has no loss masks, but this call has one"):
        writer.write(np.arange(2), np.array([2]), begins_document=False, mask=np.ones(2, dtype=np.uint8))
    with pytest.raises(ValueError, match="not complete; write the rest"):
        writer.finish()
    writer.discard()
    assert os.listdir(tmp_path) == []


# Whole or not at all --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format_name", SHARD_FORMATS)
def test_discard_leaves_nothing(format_name: str, tmp_path: Path) -> None:
    skip_without_arrow(format_name)
    writer = SHARD_FORMATS[format_name].open_writer(tmp_path, "x", np.dtype("<u2"))
    writer.write(np.arange(200_000) % 60_000, np.full(2000, 100))
    assert all(name.startswith(".") for name in os.listdir(tmp_path))
    writer.discard()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("format_name", SHARD_FORMATS)
def test_a_full_disk_is_named_and_leaves_nothing(format_name: str, tmp_path: Path) -> None:
    skip_without_arrow(format_name)
    resource = pytest.importorskip("resource")
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 60_000, 400_000).astype(np.uint32)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, before[1]))
    try:
        with pytest.raises(OSError, match=r"File too large") as caught:
            write_shards([ids[i : i + 100] for i in range(0, len(ids), 100)], tmp_path, format=format_name)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.filename == str(tmp_path / SHARD_FORMATS[format_name].name_files("tokens-00000")[0])
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("format_name", SHARD_FORMATS)
def test_the_file_that_makes_it_valid_comes_last(
    format_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every file is on the disk before the first gets its name, and a failure between two names leaves no shard."""
    skip_without_arrow(format_name)
    log: list[str] = []
    replace, fsync = os.replace, os.fsync

    failing: list[str] = []

    def logged(old: Any, new: Any) -> None:
        if Path(new).name in failing:
            raise OSError(5, "Input/output error")
        log.append(Path(new).name)
        replace(old, new)

    monkeypatch.setattr(os, "replace", logged)
    monkeypatch.setattr(os, "fsync", lambda file: (log.append("sync"), fsync(file)))
    writer = SHARD_FORMATS[format_name].open_writer(tmp_path, "x", np.dtype("<u2"))
    writer.write(np.arange(3), np.array([3]))
    writer.finish()
    names = [name for name in log if name != "sync"]
    assert log == ["sync"] * len(names) + names + ["sync"]
    last = {"native": "x.offsets.npy", "megatron": "x.idx", "datatrove": "x.ds.index", "dolma": "x.csv.gz"}
    assert names[-1] == last.get(format_name, SHARD_FORMATS[format_name].name_files("x")[0])

    writer = SHARD_FORMATS[format_name].open_writer(tmp_path, "y", np.dtype("<u2"))
    writer.write(np.arange(3), np.array([3]))
    failing.append(names[-1].replace("x.", "y."))
    with pytest.raises(OSError, match="Input/output error"):
        writer.finish()
    assert sorted(os.listdir(tmp_path)) == sorted(SHARD_FORMATS[format_name].name_files("x"))


@pytest.mark.parametrize("format_name", ["native", "megatron", "datatrove", "nanogpt"])
def test_the_index_is_not_held_in_memory(format_name: str, tmp_path: Path) -> None:
    """The peak of memory is the same for four times as many documents of one token."""
    step, peaks = 20_000, []
    ids, lengths = np.zeros(step, dtype=np.uint32), np.ones(step, dtype=np.int64)
    for calls in (2, 40, 100):  # the first warms up
        writer = SHARD_FORMATS[format_name].open_writer(tmp_path, f"x{calls}", np.dtype("<u2"))
        tracemalloc.start()
        for _ in range(calls):
            writer.write(ids, lengths)
        writer.finish()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < peaks[1] + 300_000  # 1.2 million documents more


def test_a_long_document_is_not_held_in_memory(tmp_path: Path) -> None:
    """Arrow's record batch has the whole document, from a temporary file."""
    pa = pytest.importorskip("pyarrow")
    writer = SHARD_FORMATS["arrow"].open_writer(tmp_path, "x", np.dtype("<u2"))
    ids = np.arange(1 << 20, dtype=np.uint32) & 0xFFFF
    pool = pa.default_memory_pool()
    most = max(pool.max_memory(), pa.total_allocated_bytes() + (20 << 20))  # other tests of this process count, too
    for i in range(24):  # 50 MB
        writer.write(ids, np.array([len(ids)]), begins_document=i == 0, ends_document=i == 23)
    writer.finish()
    assert pool.max_memory() <= most
    table = pa.ipc.open_file(tmp_path / "x.arrow").read_all()
    assert np.array_equal(table.column(0).chunk(0).values.to_numpy(), np.tile(ids, 24))


# write_shards ---------------------------------------------------------------------------------------------------------


def test_documents_of_every_kind(tmp_path: Path) -> None:
    batch = TokenBatch.from_lists([[4, 5], []])
    kinds = [[1, 2], np.array([3], dtype=np.int64), batch, (6, 7)]
    write_shards(kinds, tmp_path)
    assert read_folder(tmp_path, "native") == [[1, 2], [3], [4, 5], [], [6, 7]]
    write_shards(iter(kinds), tmp_path / "again", largest_id=70000)
    assert read_folder(tmp_path / "again", "native") == [[1, 2], [3], [4, 5], [], [6, 7]]
    assert np.load(tmp_path / "again" / "tokens-00000.npy").dtype == np.uint32


def test_arguments_of_write_shards(tmp_path: Path) -> None:
    write_shards([], tmp_path)
    assert read_folder(tmp_path, "native") == []
    with pytest.raises(FileExistsError, match=r"has a manifest\.json already"):
        write_shards([[1]], tmp_path)
    with pytest.raises(ValueError, match="documents is an iterator, which is read once; pass largest_id"):
        write_shards(iter([[1]]), tmp_path / "a")
    with pytest.raises(ValueError, match="format is 'bin'; it must be one of 'native', 'megatron'"):
        write_shards([[1]], tmp_path / "a", format="bin")
    with pytest.raises(TypeError, match=r"document 1 is \[2\]; with masks=True it must be \(ids, mask\)"):
        write_shards([([1], [1]), [2]], tmp_path / "a", masks=True)
    with pytest.raises(ValueError, match="document 0 has 2 ids and the mask"):
        write_shards([([1, 2], [1])], tmp_path / "a", masks=True)
    with pytest.raises(ValueError, match="values from 0 to 255"):
        write_shards([([1, 2], [1, 256])], tmp_path / "a", masks=True)
    with pytest.raises(TypeError, match="ids are of dtype float64"):
        write_shards([[1.5]], tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_an_error_in_the_documents_removes_the_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "_BATCH_IDS", 100)

    def yield_then_fail() -> Any:
        yield from [[1, 2, 3]] * 2000
        raise RuntimeError("lost")

    with pytest.raises(RuntimeError, match="lost"):
        write_shards(yield_then_fail(), tmp_path, largest_id=3, shard_size=1000)
    assert os.listdir(tmp_path) == []


# The manifest and the checksums ---------------------------------------------------------------------------------------


@given(first=st.binary(max_size=300), second=st.binary(max_size=500), level=st.sampled_from([0, 3]))
def test_checksums_are_those_of_zlib(first: bytes, second: bytes, level: int) -> None:
    before = get_vector_level()
    set_vector_level(level)
    try:
        assert crc32(first) == zlib.crc32(first)
        assert crc32(second, crc32(first)) == zlib.crc32(first + second)
    finally:
        set_vector_level(before)
    assert combine_crc32(zlib.crc32(first), zlib.crc32(second), len(second)) == zlib.crc32(first + second)


def change_manifest(path: Path, **values: Any) -> None:
    manifest = json.loads(path.read_text())
    for name, value in values.items():
        *inner, last = name.split("__")
        item = manifest
        for key in inner:
            item = item[int(key) if key.isdigit() else key]
        item[last] = value
    path.write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"version": 2}, "version: its version is 2; this release reads version 1"),
        ({"dtype": "float32"}, "dtype: it is 'float32'; it must be one of uint16, int32, uint32"),
        ({"tokens": 5}, "tokens: it declares 5 tokens; its shards have 3"),
        ({"documents": True}, "documents: it is True; it must be a whole number"),
        ({"shards": None}, "shards: it is None; it must be a list"),
        ({"shards__0__files": []}, "shards.0..files"),
        ({"shards__0__split": "x"}, 'must be null, "train", "val" or "test"'),
        ({"shards__0__files__0__name": "../x"}, "must be the name of a file in this folder"),
        ({"shards__0__files__0__crc32": "0"}, "must be 8 hexadecimal digits"),
        ({"shards__0__files__0__size": 2**63}, "must be a whole number from 0 to"),
        ({"shards__0__tokens": -1}, "must be a whole number from 0 to"),
        ({"masks": 1}, "masks: it is 1; it must be true or false"),
        ({"tokenizer": []}, "tokenizer: it is .*; it must be an object"),
    ],
)
def test_a_damaged_manifest_is_refused(values: Any, message: str, tmp_path: Path) -> None:
    write_shards([[1, 2], [3]], tmp_path)
    change_manifest(tmp_path / "manifest.json", **values)
    with pytest.raises(ValueError, match=rf"manifest\.json, .*{message}"):
        Manifest.read(tmp_path)
    (tmp_path / "manifest.json").write_bytes(b"{")
    with pytest.raises(ValueError, match=r"manifest\.json.*it is not JSON"):
        Manifest.read(tmp_path)


@pytest.mark.parametrize("n", [0, 10, (1 << 17) - 1, 1 << 17, 200_000])
def test_numbers_come_back_from_memory_and_from_a_file(n: int, tmp_path: Path) -> None:
    numbers = np.arange(n) * 3
    with Spool(tmp_path, "<i8") as spool, Spool(None, "<i8") as other_spool:
        for part in np.array_split(numbers, 3):
            spool.append(part)
            other_spool.append(part)
        for _ in range(2):
            assert np.array_equal(np.concatenate([[0], *spool.read_pieces()])[1:], numbers)
        mapped = other_spool.map_numbers()
    assert np.array_equal(mapped, numbers)


# Pages of Parquet -----------------------------------------------------------------------------------------------------

ROW_LENGTHS = [0, 0, 1, 2, 7, 8, 9, 150, 5000]


def rank_naively(values: list[int]) -> tuple[list[int], list[int]] | None:
    counts = Counter(values)
    if not 0 < len(counts) <= min(1 << 16, len(values) // 2) or max(values) > 8 * len(values):
        return None
    ranked = sorted(counts, key=lambda value: (-min(counts[value], 4095), value))
    return ranked, [ranked.index(value) for value in values]


@pytest.mark.parametrize("seed", range(20))
def test_numbers_are_ranked_by_how_often_they_occur(seed: int) -> None:
    choose = random.Random(seed)
    distinct = [choose.randint(0, choose.choice([3, 100, 2000])) for _ in range(choose.randint(1, 60))]
    values = choose.choices(distinct, k=choose.choice([0, 1, 2, 30, 300]))
    found = rank_values(np.array(values, dtype=np.uint32))
    assert (None if found is None else tuple(array.tolist() for array in found)) == rank_naively(values)


def test_numbers_are_ranked_up_to_a_limit() -> None:
    """Very frequent numbers are in their own order; there are at most 65,536 distinct numbers."""
    often = np.repeat(np.array([9, 5, 7], dtype=np.uint32), [4095, 9000, 4094])
    dictionary, indices = rank_values(often) or ([], [])
    assert list(dictionary) == [5, 9, 7]
    assert list(indices) == [1] * 4095 + [0] * 9000 + [2] * 4094
    most = np.tile(np.arange(1 << 16, dtype=np.uint32), 2)
    dictionary, indices = rank_values(most) or ([], [])
    assert np.array_equal(dictionary, most[: 1 << 16])
    assert np.array_equal(indices, most)
    assert rank_values(np.tile(np.arange((1 << 16) + 1, dtype=np.uint32), 2)) is None


def write_random_parquet(
    choose: random.Random, folder: Path, dtype: np.dtype[Any], *, masks: bool
) -> tuple[Path, list[Any]]:
    """Write a shard; returns its path, and the rows that it has, with their masks."""
    rows: list[Any] = []
    largest = choose.choice([1, 3, 300, 60_000, int(np.iinfo(dtype).max)])
    writer = SHARD_FORMATS["parquet"].open_writer(folder, "x", dtype, masks=masks)
    for _ in range(choose.randint(0, 5)):
        lengths = choose.choices(ROW_LENGTHS[: choose.randint(1, len(ROW_LENGTHS))], k=choose.randint(1, 40))
        ids = [[choose.randint(0, largest) for _ in range(length)] for length in lengths]
        flat = np.array([token_id for row in ids for token_id in row], dtype=np.uint32)
        mask = (flat % 2).astype(np.uint8) if masks else None
        writer.write(flat, np.array(lengths), mask=mask)
        rows += [(row, [token_id % 2 for token_id in row]) if masks else (row,) for row in ids]
    writer.finish()
    return folder / "x.parquet", rows


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("dtype", ["<u2", "<i4", "<u4"])
def test_pyarrow_reads_what_was_written(seed: int, dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    choose = random.Random(f"{seed} {dtype}")
    monkeypatch.setattr(columns, "_GROUP_TOKENS", choose.choice([1, 100, 2000, 1 << 19]))
    path, rows = write_random_parquet(choose, tmp_path, np.dtype(dtype), masks=choose.random() < 0.5)
    table = pq.read_table(path)
    table.validate(full=True)
    assert list(zip(*(column.to_pylist() for column in table.columns), strict=True)) == rows
    with pq.ParquetFile(path) as file:
        batches = [batch.column(0).to_pylist() for batch in file.iter_batches(batch_size=7)]
        assert [row for batch in batches for row in batch] == [ids for ids, *_ in rows]
        check_footer(file.metadata, path.stat().st_size)


def check_footer(metadata: Any, size: int) -> None:
    """The pages of all columns of all row groups follow each other, from the magic number to the footer."""
    position = 4
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        column_sizes = []
        for column in map(group.column, range(group.num_columns)):
            start = column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset
            assert start == position
            assert ("RLE_DICTIONARY" in column.encodings) == column.has_dictionary_page
            position += column.total_compressed_size
            column_sizes.append(column.total_uncompressed_size)
        assert group.total_byte_size == sum(column_sizes)
    assert position + metadata.serialized_size + 8 == size


def test_ids_of_texts_have_a_dictionary_and_few_random_ones_none(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    ids = np.arange(3000, dtype=np.uint32) % 100
    for name, values in {"text": ids, "random": np.arange(3000, dtype=np.uint32) * 7}.items():
        writer = SHARD_FORMATS["parquet"].open_writer(tmp_path, name, np.dtype("<u2"))
        writer.write(values, np.array([1000, 2000]))
        writer.finish()
        column = pq.read_metadata(tmp_path / f"{name}.parquet").row_group(0).column(0)
        assert column.has_dictionary_page == (name == "text")
        assert (column.compression, column.num_values) == ("ZSTD", 3000)


def write_row_groups(folder: Path, format_name: str, threads: WriterThreads, n_groups: int) -> ShardWriter:
    """Begin a shard with documents that are a row group each."""
    return add_row_groups(
        SHARD_FORMATS[format_name].open_writer(folder, "x", np.dtype("<i4"), threads=threads), n_groups
    )


def add_row_groups(writer: ShardWriter, n_groups: int) -> ShardWriter:
    for i in range(n_groups):
        writer.write(np.arange(i, i + 50, dtype=np.uint32), np.array([50]))
    return writer


@pytest.mark.parametrize("format_name", NEEDS_ARROW)
def test_row_groups_are_in_order_whichever_is_encoded_first(
    format_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_without_arrow(format_name)
    monkeypatch.setattr(columns, "_GROUP_TOKENS", 50)
    writer_class = {"parquet": columns.ParquetWriter, "arrow": columns.ArrowWriter}[format_name]
    encode, contents = writer_class._encode, []

    def encode_every_third_later(writer: Any, row_group: Any) -> Any:
        time.sleep(0.01 * (row_group.number % 3 == 0))
        return encode(writer, row_group)

    for n_workers in (0, 4):
        with Workers(n_workers) as workers:
            threads = WriterThreads(workers=workers) if n_workers else ONE_THREAD
            (file,) = write_row_groups(tmp_path, format_name, threads, 30).finish()
        contents.append((tmp_path / file.name).read_bytes())
        monkeypatch.setattr(writer_class, "_encode", encode_every_third_later)
    assert contents[0] == contents[1]


def test_a_discarded_shard_is_not_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its descriptor may be another file's by then."""
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(columns, "_GROUP_TOKENS", 50)
    begun, may_end = threading.Event(), threading.Event()
    encode, written = columns.ParquetWriter._encode, []

    def encode_slowly(writer: Any, row_group: Any) -> Any:
        begun.set()
        may_end.wait()
        return encode(writer, row_group)

    monkeypatch.setattr(columns.ParquetWriter, "_encode", encode_slowly)
    monkeypatch.setattr(columns.ParquetWriter, "_write_encoded", lambda _, encoded: written.append(encoded))
    with Workers(2) as workers:
        writer = write_row_groups(tmp_path, "parquet", WriterThreads(workers=workers), 2)
        begun.wait()
        writer.discard()
        may_end.set()
    assert written == []
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("n_workers", [0, 3])
def test_an_error_of_a_row_group_is_raised_and_nothing_more_is_written(
    n_workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(columns, "_GROUP_TOKENS", 50)
    written = []

    def write_encoded(_: Any, encoded: Any) -> None:
        written.append(encoded)
        if len(written) == 3:
            raise OSError(28, "No space left on device", "x.parquet")

    monkeypatch.setattr(columns.ParquetWriter, "_write_encoded", write_encoded)
    with Workers(n_workers) as workers:
        threads = WriterThreads(workers=workers) if n_workers else ONE_THREAD
        writer = write_row_groups(tmp_path, "parquet", threads, 0)
        try:
            with pytest.raises(OSError, match="No space left"):
                add_row_groups(writer, 20).finish()
        finally:
            writer.discard()
    assert len(written) == 3
