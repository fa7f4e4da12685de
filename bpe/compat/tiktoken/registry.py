"""`tiktoken.registry`: encodings by name."""

from __future__ import annotations

from bpe.compat.tiktoken.core import ENCODINGS, Encoding, get_encoding, list_encoding_names

__all__ = ["ENCODINGS", "Encoding", "get_encoding", "list_encoding_names"]
