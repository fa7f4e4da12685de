"""OpenAI's rank files: a token in base64, a space and its rank on each line.

The merges are recovered from the ranks. tiktoken merges any two neighbours that together spell a token, the lowest rank
first. Within a stretch of text that no merge has crossed, that goes as it would go on the stretch alone; so two
neighbours that spell a token are always the two that its own bytes come to when they are merged alone, and this pair
is the token's only merge. Where a token's bytes need a merge of worse rank to come so far (no training gives such
ranks), the merges are not a list in order of rank, and every split of every token is listed with the token's rank:
tiktoken's rule to the letter. Not here: names of encodings and downloading.
"""

from __future__ import annotations

import base64
import binascii
import gzip
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bpe._core.encoder import merges_of_ranks
from bpe.errors import FormatError, shown
from bpe.pretokenize import Pretokenizer
from bpe.spec import TokenizerSpec
from bpe.vocabulary import ID_LIMIT, Vocabulary


def read(
    data: bytes,
    pretokenizer: Pretokenizer | None,
    special_tokens: Mapping[str, int],
    path: str | None = None,
) -> TokenizerSpec:
    """The tokenizer that a rank file describes (gzipped or not).

    Raises:
        FormatError: with the line, for a file that is not one.

    """
    ranks = _parse(data, path)
    for name, number in special_tokens.items():
        if name.encode() in ranks:
            raise FormatError(
                f"special token {name!r} is an ordinary token too; leave it out of special_tokens", path=path
            )
        if number in ranks.values():
            raise FormatError(f"special token {name!r} has id {number}, which is an ordinary token's rank", path=path)
    try:
        vocabulary = Vocabulary(
            ((rank, token) for token, rank in ranks.items()),
            ((number, name.encode()) for name, number in special_tokens.items()),
        )
    except ValueError as error:
        raise FormatError(str(error), path=path) from None
    pairs, ids, shared_ranks = recover_merges(ranks)
    return TokenizerSpec(
        model="byte",
        vocabulary=vocabulary,
        merges=pairs,
        merge_ids=ids,
        merge_ranks=shared_ranks,
        pretokenizer=pretokenizer,
        special_tokens=dict(special_tokens),
        ignore_merges=True,
    )


def _parse(data: bytes, path: str | None) -> dict[bytes, int]:
    """Token → rank, by rising rank."""
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, ValueError) as error:
            raise FormatError(f"the gzip data is damaged: {error}", path=path) from None
    ranks: dict[bytes, int] = {}
    seen: dict[int, int] = {}
    for number, line in enumerate(data.splitlines(), 1):
        if not line:
            continue
        fields = line.split()
        try:
            token, rank = base64.b64decode(fields[0], validate=True), int(fields[1])
        except (binascii.Error, ValueError, IndexError):
            fields = []
        if len(fields) != 2:
            raise FormatError(
                f"{shown(line)} is not a token in base64, a space and a rank", path=path, where=f"line {number}"
            )
        if not token or not 0 <= rank < ID_LIMIT:
            raise FormatError(
                f"token {shown(token)} with rank {rank}: tokens have bytes, ranks are from 0 to {ID_LIMIT - 1}",
                path=path,
                where=f"line {number}",
            )
        if token in ranks or rank in seen:
            what = f"token {shown(token)}" if token in ranks else f"rank {rank}"
            raise FormatError(f"{what} is given twice", path=path, where=f"line {number}")
        ranks[token] = rank
        seen[rank] = number
    if not ranks:
        raise FormatError("holds no ranks", path=path)
    return dict(sorted(ranks.items(), key=lambda item: item[1]))


def recover_merges(
    ranks: Mapping[bytes, int],
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32] | None]:
    """The merges of a rank vocabulary, given by rising rank: (pairs of ids, the ids they make, shared ranks or
    None).
    """
    tokens = list(ranks)
    numbers = np.array(list(ranks.values()), dtype=np.int32)
    offsets = np.zeros(len(tokens) + 1, dtype=np.int64)
    np.cumsum([len(token) for token in tokens], out=offsets[1:])
    byte_ids = np.full(256, 0xFFFFFFFF, dtype=np.uint32)
    for place, token in enumerate(tokens):
        if len(token) == 1:
            byte_ids[token[0]] = place
    pairs = merges_of_ranks(b"".join(tokens), offsets, byte_ids)
    without = [tokens[place] for place in np.flatnonzero(pairs[:, 0] < 0).tolist() if len(tokens[place]) > 1]
    if not any(_comes_together(token, ranks) for token in without):
        made = np.flatnonzero(pairs[:, 0] >= 0)
        return np.ascontiguousarray(numbers[pairs[made]]), numbers[made], None
    splits = [
        (ranks[token[:cut]], ranks[token[cut:]], rank)
        for token, rank in ranks.items()
        for cut in range(1, len(token))
        if token[:cut] in ranks and token[cut:] in ranks
    ]
    table = np.array(splits, dtype=np.int32).reshape(-1, 3)
    made_ids = np.ascontiguousarray(table[:, 2])
    return np.ascontiguousarray(table[:, :2]), made_ids, made_ids


def _comes_together(token: bytes, ranks: Mapping[bytes, int]) -> bool:
    """Whether merging a token's bytes by tiktoken's rule gives the token."""
    parts = [token[i : i + 1] for i in range(len(token))]
    while len(parts) > 1:
        found = [
            (ranks[left + right], place) for place, (left, right) in enumerate(pairwise(parts)) if left + right in ranks
        ]
        if not found:
            return False
        _, place = min(found)
        parts[place : place + 2] = [parts[place] + parts[place + 1]]
    return True
