"""Pages and footers of Parquet shards: read by pyarrow, whatever the lists and numbers are."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bpe.data.formats import SHARD_FORMATS, columns
from bpe.data.formats._value_ranks import rank_values

pq = pytest.importorskip("pyarrow.parquet")

LENGTHS = [0, 0, 1, 2, 7, 8, 9, 150, 5000]


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


def write_random(choose: random.Random, folder: Path, dtype: np.dtype[Any], *, masks: bool) -> tuple[Path, list[Any]]:
    """Write a shard; returns its path, and the rows that it has, with their masks."""
    rows: list[Any] = []
    largest = choose.choice([1, 3, 300, 60_000, int(np.iinfo(dtype).max)])
    writer = SHARD_FORMATS["parquet"].open_writer(folder, "x", dtype, masks=masks)
    for _ in range(choose.randint(0, 5)):
        lengths = choose.choices(LENGTHS[: choose.randint(1, len(LENGTHS))], k=choose.randint(1, 40))
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
    choose = random.Random(f"{seed} {dtype}")
    monkeypatch.setattr(columns, "_GROUP_TOKENS", choose.choice([1, 100, 2000, 1 << 19]))
    path, rows = write_random(choose, tmp_path, np.dtype(dtype), masks=choose.random() < 0.5)
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
    ids = np.arange(3000, dtype=np.uint32) % 100
    for name, values in {"text": ids, "random": np.arange(3000, dtype=np.uint32) * 7}.items():
        writer = SHARD_FORMATS["parquet"].open_writer(tmp_path, name, np.dtype("<u2"))
        writer.write(values, np.array([1000, 2000]))
        writer.finish()
        column = pq.read_metadata(tmp_path / f"{name}.parquet").row_group(0).column(0)
        assert column.has_dictionary_page == (name == "text")
        assert (column.compression, column.num_values) == ("ZSTD", 3000)
