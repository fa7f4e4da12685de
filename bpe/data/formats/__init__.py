"""Formats of training shards: one object for each, by name.

`protocol.py` has the interface, `writing.py` and `reading.py` the work that all formats share, and each further module
one format.

>>> FORMATS["native"].dtype(largest_id=50256)
dtype('uint16')
"""

from __future__ import annotations

from bpe.data.formats.native import Native
from bpe.data.formats.protocol import ShardFormat

#: All formats, by their names.
FORMATS: dict[str, ShardFormat] = {each.name: each for each in (Native(),)}
