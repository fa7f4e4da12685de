"""Shared by the adapters: the pattern, the separator, the documents of a file, outputs in a comparable form."""

from __future__ import annotations

import base64
import importlib.metadata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Environment variables from which peers take the number of threads when they are imported.
THREAD_VARIABLES = ("RAYON_NUM_THREADS", "OMP_NUM_THREADS")

PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
SEPARATOR = "<|endoftext|>"

Ranks = dict[bytes, int]

#: The result of training: a function that lists the tokens of the merges in order, so that listing is not timed.
Tokens = Callable[[], list[bytes]]


@dataclass(frozen=True)
class Vocab:
    """A published vocabulary: its short name, its rank file and its tokenizer.json."""

    name: str
    ranks: str
    json: str

    @property
    def pattern(self) -> str:
        """This package's name for its pattern."""
        return {"r50k": "gpt2", "llama": "llama3"}.get(self.name, self.name)

    def table(self) -> Ranks:
        """Read the ranks to a dict."""
        lines = Path(self.ranks).read_bytes().splitlines()
        return {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, lines)}


class Peer:
    """One library; the adapters of a job are its subclasses.

    Attributes:
        name: the module that is imported.
        distribution: the name under which pip installs it, if that is another one.

    """

    name: str
    distribution = ""

    def get_version(self) -> str:
        """Return the version measured."""
        return importlib.metadata.version(self.distribution or self.name)


class BpeBase(Peer):
    """This package."""

    name = "bpe"

    def get_version(self) -> str:
        """Return the version measured."""
        import bpe

        return bpe.__version__


def read_documents(path: str) -> list[str]:
    """Read the documents of a file."""
    with open(path, encoding="utf-8", newline="") as file:
        return file.read().split(SEPARATOR)


def flatten(result: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Convert an encoder's result to int64 ids and lengths."""
    if isinstance(result, tuple):
        return result[0].astype(np.int64), result[1].astype(np.int64)
    if hasattr(result, "offsets") and hasattr(result, "ids"):
        return result.ids.astype(np.int64), result.lengths
    if type(result).__module__.partition(".")[0] == "awkward":
        import awkward

        return np.asarray(awkward.flatten(result), dtype=np.int64), np.asarray(awkward.num(result), dtype=np.int64)
    rows = [row.ids if hasattr(row, "ids") else row for row in result]
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    return np.concatenate([np.array(row, dtype=np.int64) for row in rows]), lengths
