"""One adapter per library: how it trains, how it encodes. Nothing here measures.

An adapter is a class with `name`, `version()`, and the jobs it can do. Training gives the merged tokens in order as
bytes, encoding an array of ids and one of lengths, so that outputs are compared as they are. All use the same pattern.
"""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Each peer's own way to be told how many threads to use; read when its module is loaded.
THREAD_VARIABLES = ("RAYON_NUM_THREADS", "OMP_NUM_THREADS")

PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
SEPARATOR = "<|endoftext|>"

Ranks = dict[bytes, int]


class Ours:
    """This package."""

    name = "bpe"

    def version(self) -> str:
        """The version measured."""
        return importlib.metadata.version("bpe")

    def train(self, path: str, vocab_size: int, threads: int) -> list[bytes]:
        """Tokens of merges in order; ids of single bytes as the peers number them, so that ties break alike."""
        import bpe

        tok = bpe.train(
            files=path, separator=SEPARATOR, vocab_size=vocab_size, initial_alphabet=range(256), threads=threads
        )
        return [tok.token_bytes(number) for number in range(256, tok.vocab_size)]

    def encoder(self, ranks: Ranks, threads: int) -> Any:
        """A function from texts to (ids, lengths)."""
        import bpe
        from bpe.formats.tiktoken import recover_merges
        from bpe.spec import TokenizerSpec
        from bpe.vocabulary import Vocabulary

        pairs, made, shared = recover_merges(ranks)
        tok = bpe.Tokenizer.from_spec(
            TokenizerSpec(
                model="byte",
                vocabulary=Vocabulary((number, token) for token, number in ranks.items()),
                merges=pairs,
                merge_ids=made,
                merge_ranks=shared,
                pretokenizer=bpe.Pretokenizer("gpt2"),
                ignore_merges=True,
            )
        )

        def encode(texts: Sequence[str]) -> tuple[NDArray[Any], NDArray[Any]]:
            batch = tok.encode_batch(texts, threads=threads)
            return batch.ids, batch.lengths

        return encode


class RustBPE:
    """karpathy/rustbpe: a trainer."""

    name = "rustbpe"

    def version(self) -> str:
        """The version measured."""
        return importlib.metadata.version("rustbpe")

    def train(self, path: str, vocab_size: int, threads: int) -> list[bytes]:
        """Tokens of merges in order."""
        import rustbpe

        os.environ["RAYON_NUM_THREADS"] = str(threads)
        with open(path, encoding="utf-8", newline="") as file:
            texts = file.read().split(SEPARATOR)
        tok = rustbpe.Tokenizer()
        tok.train_from_iterator(iter(texts), vocab_size, pattern=PATTERN)
        return [bytes(token) for token, rank in tok.get_mergeable_ranks() if rank >= 256]


class Tiktoken:
    """openai/tiktoken: an encoder."""

    name = "tiktoken"

    def version(self) -> str:
        """The version measured."""
        return importlib.metadata.version("tiktoken")

    def encoder(self, ranks: Ranks, threads: int) -> Any:
        """A function from texts to (ids, lengths); its lists are taken as they are, not made arrays of."""
        import tiktoken

        encoding = tiktoken.Encoding("measured", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})

        def encode(texts: Sequence[str]) -> list[list[int]]:
            rows: list[list[int]] = encoding.encode_ordinary_batch(list(texts), num_threads=threads)
            return rows

        return encode


def flat(result: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """What an encoder gave, as int64 ids and lengths."""
    if isinstance(result, tuple):
        return result[0].astype(np.int64), result[1].astype(np.int64)
    lengths = np.array([len(row) for row in result], dtype=np.int64)
    return np.concatenate([np.array(row, dtype=np.int64) for row in result]), lengths


TRAINERS: dict[str, Any] = {peer.name: peer for peer in (Ours, RustBPE)}
ENCODERS: dict[str, Any] = {peer.name: peer for peer in (Ours, Tiktoken)}
