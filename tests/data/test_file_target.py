"""Ids that the threads which encode them write to a file, against an array of the same ids."""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

import bpe
from bpe.corpus.blocks import Block
from bpe.data.formats._file_writer import FileTarget
from bpe.data.formats.files import ShardFile
from bpe.encode.blocks import BlockIds, encode_next_blocks

#: 10 MB of text, an id for each byte: more than two windows of 8 MB, even with ids of 16 bits.
WORDS = np.random.default_rng(1).integers(97, 123, (30_000, 6)).astype(np.uint8)
TEXT = np.insert(WORDS, 6, 32, axis=1).tobytes() * 48
TOKENIZER = bpe.train(texts=["aa"], vocab_size=256)
IDS = np.array([TOKENIZER.encode(chr(byte))[0] for byte in range(128)])[np.frombuffer(TEXT, np.uint8)]


@pytest.fixture(params=["disk", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A folder on disk, and one in memory, where four threads and more write through mappings."""
    if request.param == "disk":
        yield tmp_path
    elif not os.access("/dev/shm", os.W_OK):
        pytest.skip("no /dev/shm")
    else:
        with TemporaryDirectory(dir="/dev/shm") as name:
            yield Path(name)


def encode(path: Path, target: FileTarget, threads: int) -> BlockIds:
    """Encode a file in one document: the target takes the first ids."""
    engine, sources = TOKENIZER._engine, bpe.Sources(path)
    with closing(sources.blocks(None, threads, unsplittable=[])) as blocks:
        part = encode_next_blocks(engine, blocks, threads, len(TEXT), out=target)
    assert part is not None
    return part


@pytest.mark.parametrize(("dtype", "threads"), [("<u2", 1), ("<u2", 5), ("<i4", 2), ("<u4", 5)])
def test_a_target_writes_the_first_ids(folder: Path, dtype: Any, threads: int) -> None:
    """Until the ids would be `max_ids`: those of later blocks are returned, and no more are begun."""
    (folder / "text").write_bytes(TEXT)
    max_ids, dtype = len(TEXT) * 9 // 10, np.dtype(dtype)
    file = ShardFile(folder / "ids", header_size=8)
    file.write_array(IDS[:3].astype(np.uint32), dtype)
    target = file.open_target(dtype, max_ids, threads)
    part = encode(folder / "text", target, threads)
    assert target.is_full
    assert max_ids - (1 << 18) <= target.n_ids < max_ids
    n_ids = target.n_ids + len(part.ids)
    assert part.lengths.tolist() == [n_ids]
    assert threads > 1 or n_ids < max_ids + (1 << 18)
    assert np.array_equal(part.ids, IDS[target.n_ids : n_ids])
    file.add_target(target)
    file.write_array(part.ids, dtype)
    file.sync(b"a header")
    written = file.commit()
    expected = b"a header" + np.concatenate((IDS[:3], IDS[:n_ids])).astype(dtype).tobytes()
    assert (folder / "ids").read_bytes() == expected
    assert (written.size, written.crc32) == (len(expected), f"{zlib.crc32(expected):08x}")


@pytest.mark.parametrize("threads", [1, 5])
def test_an_id_that_is_too_large_is_refused(folder: Path, threads: int) -> None:
    (folder / "text").write_bytes(TEXT)
    with open(folder / "ids", "w+b") as file:
        target = FileTarget(file.fileno(), 0, 1 << 40, threads, "ids.bin", narrows=True, max_id=0x3F)
        with pytest.raises(ValueError, match="id 220 does not fit the shard's dtype, uint16; ids are from 0 to 63"):
            encode(folder / "text", target, threads)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("threads", [1, 5])
def test_a_full_disk_is_an_error_that_names_the_file(tmp_path: Path, threads: int) -> None:
    (tmp_path / "text").write_bytes(TEXT)
    with open("/dev/full", "r+b", buffering=0) as file:
        target = FileTarget(file.fileno(), 0, 1 << 40, threads, "ids.bin")
        with pytest.raises(OSError, match=r"No space left on device: 'ids\.bin'"):
            encode(tmp_path / "text", target, threads)
        with pytest.raises(ValueError, match="position is 3; ids begin at a multiple of their size"):
            FileTarget(file.fileno(), 3, 1 << 40, threads, "ids.bin", narrows=True, max_id=0xFFFF)


def test_only_ids_that_need_nothing_else_go_to_a_target() -> None:
    options: dict[str, Any] = {"texts": ["low lower lowest é"] * 3, "vocab_size": 270}
    for tok, can_write in (
        (bpe.train(**options), True),
        (bpe.train(**options, normalizer="nfc"), False),
        (bpe.train(**options, pretokenizer=bpe.Pretokenizer.from_regex(r"\w+|\W")), False),
        (bpe.research.train_boundless(**options), False),
    ):
        assert tok._engine.can_write_to_target(frozenset()) is can_write


@pytest.mark.parametrize("threads", [5])
def test_few_ids_wait_for_a_block_that_is_held_up(tmp_path: Path, threads: int) -> None:
    """The other threads take no more blocks when 2**24 ids wait in memory for those of an earlier block."""
    (tmp_path / "text").write_bytes(TEXT * 2)
    seen = []

    class HeldBlock(Block):
        def check(self) -> None:
            before = -1
            while before < reader.n_blocks:
                before = reader.n_blocks
                time.sleep(0.2)
            seen.append(before)

    bounds = np.array([0, 3])
    first = HeldBlock(memoryview(bytearray(TEXT[:3])), bounds[:1], bounds[1:], "held", 0)
    file = ShardFile(tmp_path / "ids")
    target = file.open_target(np.dtype("<u4"), 1 << 40, threads)
    with closing(bpe.Sources(tmp_path / "text").blocks(None, threads, unsplittable=[])) as blocks:
        reader = next(blocks)
        items = chain((first, reader), blocks)
        part = encode_next_blocks(TOKENIZER._engine, items, threads, 2 * len(TEXT), out=target)
    assert part is not None
    assert seen[0] << 18 <= (1 << 24) + (threads << 18)
    file.add_target(target)
    file.sync()
    file.commit()
    expected = np.concatenate((IDS[:3], IDS, IDS)).astype("<u4")
    assert (tmp_path / "ids").read_bytes() == expected.tobytes()
