"""Rows computed token by token, for tests of the loaders; and shards made of documents in memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bpe.data import TokenShards, write_shards

IGNORED = -100
#: A token of a row: its id, its document, whether it counts in the loss.
Token = tuple[int, int, bool]


@dataclass
class InnerShard:
    """Some documents in one array."""

    ids: Any
    mask: Any
    n_tokens: int


class MemoryShards:
    """What loaders need of `TokenShards`, in memory: documents, some to a shard, and some shards without tokens."""

    def __init__(self, documents: list[list[int]], masks: list[list[int]] | None = None, shard_size: int = 3) -> None:
        self.shards = []
        for start in range(0, len(documents), shard_size):
            ids = [token for document in documents[start : start + shard_size] for token in document]
            counts = [count for mask in (masks or [])[start : start + shard_size] for count in mask]
            self.shards.append(InnerShard(np.array(ids, dtype=np.uint16), np.array(counts, dtype=np.uint8), len(ids)))
        self.bounds = np.cumsum([0, *map(len, documents)])
        self.n_documents, self.n_tokens = len(documents), int(self.bounds[-1])
        self.has_masks = masks is not None
        self.fingerprint = str(documents)

    def document_bounds(self, first: int, last: int) -> Any:
        return self.bounds[first : last + 1]

    def documents_at(self, positions: Any) -> Any:
        return np.searchsorted(self.bounds, positions, side="right") - 1

    def document_starts(self, numbers: Any) -> Any:
        return self.bounds[numbers]


def shards_of(folder: Path, documents: list[list[int]], masks: list[list[int]] | None = None) -> TokenShards:
    """Shards on disk, of some seven ids each."""
    documents_with_masks: Any = documents if masks is None else list(zip(documents, masks, strict=True))
    write_shards(documents_with_masks, folder, shard_size=7, masks=masks is not None)
    return TokenShards(folder)


def tokens_of(documents: list[list[int]], masks: list[list[int]] | None = None) -> list[list[Token]]:
    """The tokens of each document."""
    return [
        [(token, index, masks is None or bool(masks[index][i])) for i, token in enumerate(ids)]
        for index, ids in enumerate(documents)
    ]


def naive_row(tokens: list[Token], length: int, *, pad_id: int = 0, mask_other: bool = False) -> dict[str, list[int]]:
    """A row's fields, from at most length + 1 tokens. A span of a document that begins anew has the next number."""
    row: dict[str, list[int]] = {
        name: [] for name in ("input_ids", "labels", "position_ids", "document_ids", "loss_mask")
    }
    position = 0
    for i in range(length):
        inside = i < len(tokens)
        document = tokens[i][1] if inside else -1
        if i == 0 or document != row["document_ids"][-1]:
            position = 0
        label = IGNORED
        if i + 1 < len(tokens):
            token, of, counts = tokens[i + 1]
            if counts and not (mask_other and of != document):
                label = token
        row["input_ids"].append(tokens[i][0] if inside else pad_id)
        row["labels"].append(label)
        row["position_ids"].append(position)
        row["document_ids"].append(document)
        row["loss_mask"].append(int(label != IGNORED))
        position += 1
    return row


def naive_bounds(rows: list[dict[str, list[int]]]) -> list[int]:
    """cu_seqlens of rows, from their positions."""
    flat = [position for row in rows for position in row["position_ids"]]
    return [i for i, position in enumerate(flat) if position == 0] + [len(flat)]


def listed(row: dict[str, Any]) -> dict[str, list[int]]:
    """A row of arrays as lists, after checking dtype and shape."""
    for array in row.values():
        assert array.dtype == np.int64
        assert array.ndim == 1
    return {name: array.tolist() for name, array in row.items()}
