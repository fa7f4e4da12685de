"""Formats of training shards: one object for each, by name.

`protocol.py` has the interface; `writing.py`, `reading.py` and `spooling.py` have the work that formats share. The
formats: `native.py`, `megatron.py`, `columns.py` (Parquet and Arrow), `streams.py` (nanoGPT and llm.c), `datatrove.py`,
`dolma.py`.

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
