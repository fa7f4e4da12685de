"""Formats of training shards: one object for each, by name.

Writes documents of token ids to files that training code maps into memory, and reads them. The files, in the order in
which data meets them:

- `shard_format.py` what describes a format, and the writer that all share;
- `files.py` temporary files, checksums and the final rename; numbers that are too many for memory; `_file_writer.pyx`
  writes numbers by several threads;
- `flat.py` (native, nanoGPT, llm.c, datatrove), `megatron.py`, `columns.py` (Parquet and Arrow) and `dolma.py`, the
  layouts; for Parquet also `parquet_pages.py`, with `_value_ranks.pyx`, `parquet_footers.py` and `thrift.py`;
- `reading.py` open shards: checks of sizes and offsets, documents in batches, and with `_mapping.pyx` memory maps.

Invariants: ids, lengths and counts that a format cannot hold are refused; a shard's files appear complete, and last the
one that makes the shard valid; nothing of a file is used before its header and sizes are checked. Cost: linear;
memory is bounded by a batch, and for Parquet by its longest document.

>>> SHARD_FORMATS["megatron"].choose_dtype(largest_id=100_000)
dtype('int32')
"""

from __future__ import annotations

from functools import partial

from bpe.data.formats.columns import ArrowWriter, ColumnShard, ParquetWriter
from bpe.data.formats.dolma import DolmaWriter, open_dolma
from bpe.data.formats.flat import (
    LLMC_HEADER_BYTES,
    DatatroveWriter,
    LLMCWriter,
    NativeWriter,
    open_datatrove,
    open_llmc,
    open_nanogpt,
    open_native,
)
from bpe.data.formats.megatron import MegatronWriter, open_megatron
from bpe.data.formats.shard_format import ShardFormat, ShardWriter
from bpe.formats.id_files import HEADER_SIZE

_UINT16_OR_UINT32 = ("<u2", "<u4")
_DOCUMENTS_AND_MASKS = frozenset({"documents", "masks"})

#: All formats, by their names.
SHARD_FORMATS: dict[str, ShardFormat] = {
    shard_format.name: shard_format
    for shard_format in (
        ShardFormat(
            "native",
            _UINT16_OR_UINT32,
            (".npy", ".offsets.npy"),
            NativeWriter,
            open_native,
            features=_DOCUMENTS_AND_MASKS,
            mask_suffix=".mask.npy",
            header_size=HEADER_SIZE,
        ),
        ShardFormat("megatron", ("<u2", "<i4"), (".bin", ".idx"), MegatronWriter, open_megatron),
        *(
            ShardFormat(
                name,
                ("<u2", "<i4", "<u4"),
                (f".{name}",),
                new_writer,
                partial(ColumnShard, name),
                features=_DOCUMENTS_AND_MASKS,
                has_row_groups=True,
                compresses=name == "parquet",
            )
            for name, new_writer in (("parquet", ParquetWriter), ("arrow", ArrowWriter))
        ),
        ShardFormat(
            "nanogpt",
            ("<u2",),
            (".bin",),
            ShardWriter,
            open_nanogpt,
            features=frozenset(),
            end_of_text_sides=(False, True),
        ),
        ShardFormat(
            "llmc",
            _UINT16_OR_UINT32,
            (".bin",),
            LLMCWriter,
            open_llmc,
            features=frozenset(),
            header_size=LLMC_HEADER_BYTES,
            end_of_text_sides=(True, False),
        ),
        ShardFormat(
            "datatrove",
            _UINT16_OR_UINT32,
            (".ds", ".ds.index", ".ds.metadata"),
            DatatroveWriter,
            open_datatrove,
            features=_DOCUMENTS_AND_MASKS,
            mask_suffix=".ds.loss",
            end_of_text_sides=(False, True),
        ),
        ShardFormat("dolma", _UINT16_OR_UINT32, (".npy", ".csv.gz"), DolmaWriter, open_dolma),
    )
}
