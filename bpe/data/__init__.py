"""From a corpus to a training step: shards of token ids, readers of shards, loaders, and Hugging Face datasets.

Turns sources of text (`bpe.corpus`), or ids, into shards on disk, and into rows of ids in the order in which training
reads them. A public name is imported when it is first used, and optional packages (pyarrow, torch, datasets) inside the
functions that need them. The files, in the order in which data meets them:

- `formats/` the layouts of shards, a table of them, with writers and readers;
- `manifest.py` `manifest.json`: counts, dtype, checksums, tokenizer, sources; `merge_manifests` makes one of parts;
- `encoding.py` from sources to shards (`encode_shards`) by a plan (`plan.py`): `bpe.corpus` reads, the engine encodes,
  `grouping.py` groups documents, `outputs.py` writes them, shuffled ones by way of the buckets of `shuffling.py`;
  beside them the journal (`journal.py`), whose records `journal_checks.py` checks; `verifying.py`;
- `extending.py` documents added to finished shards; `chats.py` conversations to shards with loss masks;
- `writing.py` shards of documents that are ids already (`write_shards`), with loss masks if wanted;
- `finding.py` and `shards.py` a folder or file of any format, memory-mapped (`TokenShards`);
- `converting.py` from one format to another (`convert_shards`);
- `loaders/` fixed-length rows in a seed's order (`Blocks`, `Packed`, `Mixture`), also of raw text
  (`StreamingEncoder`); PyTorch's samplers and iterables;
- `mapping.py` `map_function`, for `datasets.Dataset.map`.

Invariants: the ids are those of `Tokenizer.encode`, whatever the number of workers. The dtype comes from the largest
id; what a format cannot hold is refused before it is written. A shard appears complete or not at all. Headers, counts
and offsets are checked before they are used. Cost: linear in the text; memory is bounded by a few batches.

Sources: the readers and writers that Megatron-LM, nanoGPT, llm.c, datatrove and dolma published for their formats; the
documentation of Hugging Face's `datasets`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpe._lazy import import_on_use

if TYPE_CHECKING:
    from bpe.data.converting import convert_shards
    from bpe.data.encoding import encode_shards
    from bpe.data.loaders.blocks import Blocks
    from bpe.data.loaders.mixture import Mixture
    from bpe.data.loaders.packing import Packed
    from bpe.data.loaders.spans import collate
    from bpe.data.loaders.streaming import StreamingEncoder
    from bpe.data.loaders.torch import RowSampler, torch_batches, torch_collate
    from bpe.data.manifest import Manifest, merge_manifests
    from bpe.data.mapping import map_function
    from bpe.data.shards import TokenShards
    from bpe.data.verifying import verify
    from bpe.data.writing import write_shards

#: The public names, and the modules that define them.
_MODULES = {
    "Blocks": "loaders.blocks",
    "Mixture": "loaders.mixture",
    "Packed": "loaders.packing",
    "RowSampler": "loaders.torch",
    "StreamingEncoder": "loaders.streaming",
    "collate": "loaders.spans",
    "torch_batches": "loaders.torch",
    "torch_collate": "loaders.torch",
    "Manifest": "manifest",
    "TokenShards": "shards",
    "convert_shards": "converting",
    "encode_shards": "encoding",
    "map_function": "mapping",
    "merge_manifests": "manifest",
    "verify": "verifying",
    "write_shards": "writing",
}

__all__ = [
    "Blocks",
    "Manifest",
    "Mixture",
    "Packed",
    "RowSampler",
    "StreamingEncoder",
    "TokenShards",
    "collate",
    "convert_shards",
    "encode_shards",
    "map_function",
    "merge_manifests",
    "torch_batches",
    "torch_collate",
    "verify",
    "write_shards",
]

__getattr__, __dir__ = import_on_use(__name__, _MODULES, __all__)
