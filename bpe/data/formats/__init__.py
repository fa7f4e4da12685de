"""Formats of training shards: one object for each, by name.

Writes documents of token ids to files that training code maps into memory, and reads them. The files, in the order in
which data meets them:

- `protocol.py` what a format, its writer and its shards offer;
- `writing.py` temporary files, checksums and the final rename, shared by all writers;
- `spooling.py` keeps the index of a shard on disk while it is written;
- `native.py`, `megatron.py`, `columns.py` (Parquet and Arrow), `streams.py` (nanoGPT and llm.c), `datatrove.py` and
  `dolma.py`, the layouts;
- `reading.py` open shards: checks of sizes and offsets, documents in batches, and with `_mapping.pyx` memory maps.

Invariants: ids, lengths and counts that a format cannot hold are refused; a shard's files appear complete, and last the
one that makes the shard valid; nothing of a file is used before its header and sizes are checked. Cost: linear;
memory is bounded by a batch, and for Parquet by its longest document.

>>> FORMATS["megatron"].dtype(largest_id=100_000)
dtype('int32')
"""

from __future__ import annotations

from bpe.data.formats.columns import Columns
from bpe.data.formats.datatrove import Datatrove
from bpe.data.formats.dolma import Dolma
from bpe.data.formats.megatron import Megatron
from bpe.data.formats.native import Native
from bpe.data.formats.protocol import ShardFormat
from bpe.data.formats.streams import LLMC, NanoGPT

#: All formats, by their names.
FORMATS: dict[str, ShardFormat] = {
    each.name: each
    for each in (
        Native(),
        Megatron(),
        Columns("parquet", ".parquet"),
        Columns("arrow", ".arrow"),
        NanoGPT(),
        LLMC(),
        Datatrove(),
        Dolma(),
    )
}
