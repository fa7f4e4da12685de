"""Text to token ids.

Takes texts, batches, files or streams; returns uint32 ids, and on request offsets. The files, in the order in which
text meets them:

- `_fast_path.pyx` handles short texts with default arguments; `texts.py` many texts, `blocks.py` files;
- `engine.py` splits at special tokens and normalizes; `streams.py`, `offsets.py` (`_offsets.pyx`) and `explain.py`
  build on it, on these `limits.py` and `chunks.py`, for texts that must fit into a number of tokens; `models` has what
  turns pretokens into ids, for each kind of model;
- `_batch.pyx`, `_file_blocks.pyx` divide texts and blocks of files among threads;
- `_special_encoder.pyx` texts with special tokens, `_prompts.pyx` blocks of prompts, `_encoder.pyx` one text:
  `_chunk.pxd` and `_chunk_filler.pyx` gather pieces, `_piece_splitter.pyx` splits them where `_split_filter.pyx` allows
  it, `_piece_ids.pyx` finds their ids: in `_word_cache.pyx` (`_cache_lookup.h`, `_word_table.h`) or by merging;
- `_unmerged_words.pyx` finds words that are one token whatever the merges say, `_cache_seeds.pyx` fills the cache;
  `_workspace.pyx` is a call's memory.

A *fragment* is one of the texts of a call, a *fragment end* marks where one ends in a chunk; a *piece* is a pretoken,
or a part of one that was split.

Invariants: ids do not depend on threads, chunks or what the cache holds; all threads share its tables, without a lock,
and these stay below `cache_memory`. Cost: linear in the text; a word seen before costs one probe, a new one is merged
once.

Sources: tiktoken for special tokens; the split filter and the two-level word cache are this project's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpe._lazy import import_on_use

if TYPE_CHECKING:
    from bpe.encode.chunks import Chunk

#: The public names, and the modules that define them.
_MODULES = {"Chunk": "chunks"}

__all__ = ["Chunk"]

__getattr__, __dir__ = import_on_use(__name__, _MODULES, __all__)
