"""Encoding with a vocabulary that was just trained: a function from texts to (ids, lengths) or to rows of ids."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from peers.common import PATTERN, BpeBase, Peer, Ranks


class BpePeer(BpeBase):
    """This package."""

    def make_encoder(self, ranks: Ranks, threads: int) -> Any:
        """A function from texts to (ids, lengths)."""
        import bpe
        from bpe.formats import tiktoken

        lines = [base64.b64encode(token) + b" %d\n" % rank for token, rank in ranks.items()]
        tok = bpe.Tokenizer(tiktoken.read(b"".join(lines), bpe.Pretokenizer("gpt2"), {}))

        def encode(texts: Sequence[str]) -> tuple[NDArray[Any], NDArray[Any]]:
            batch = tok.encode_batch(texts, threads=threads)
            return batch.ids, batch.lengths

        return encode


class Tiktoken(Peer):
    """openai/tiktoken."""

    name = "tiktoken"

    def make_encoder(self, ranks: Ranks, threads: int) -> Any:
        """A function from texts to lists of ids, which are not converted to arrays."""
        import tiktoken

        encoding = tiktoken.Encoding("measured", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})

        def encode(texts: Sequence[str]) -> list[list[int]]:
            rows: list[list[int]] = encoding.encode_ordinary_batch(list(texts), num_threads=threads)
            return rows

        return encode


ENCODERS: dict[str, Any] = {peer.name: peer for peer in (BpePeer, Tiktoken)}
