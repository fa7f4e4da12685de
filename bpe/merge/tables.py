"""The merges, symbols and tokens of a vocabulary, as the kernels take them.

The kernels check these arrays once and read them as long as they live: nobody may write to them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bpe.base.records import dataclass

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class MergeList:
    """Merges, best rank first.

    Attributes:
        pairs: int32, shape (n, 2): the two tokens of each merge.
        results: int32, shape (n,): the token that each makes.
        ranks: int32, shape (n,): rising; merges of equal rank have one result.
        limit: the largest id + 1.
        unreachable: int32: tokens that merging their own bytes does not give; None if unknown.

    """

    pairs: NDArray[np.int32]
    results: NDArray[np.int32]
    ranks: NDArray[np.int32]
    limit: int
    unreachable: NDArray[np.int32] | None = None


@dataclass(frozen=True)
class SymbolTables:
    """The tokens of single symbols.

    Attributes:
        inner: uint32: the token of each byte or code point; NO_TOKEN outside the alphabet.
        last: uint32: the same at the last position of a word.
        mark: the end-of-word mark if it is a symbol of its own, else NO_TOKEN.
        unk: the unknown token, or NO_TOKEN.
        fuse_unk: whether adjacent unknown symbols become one unknown token.
        chars: whether symbols are characters, not bytes.
        first: uint32: the same as `inner` for the first position of a word; None if it is no different.
        only: uint32: the same for the only symbol of a word; None if `last` has it.
        of_bytes: uint32, shape (256,): the tokens of the bytes of symbols outside the alphabet; None if these are not
            written as bytes.
        prefix: the bytes that all symbols of a word but the first have in the vocabulary, not in the text.
        suffix: the bytes that the last one has there.
        drop_unknown: whether unknown symbols are left out, without an unknown token; `AFTER_MERGING` if no merge
            crosses them.

    """

    inner: NDArray[np.uint32]
    last: NDArray[np.uint32]
    mark: int
    unk: int
    fuse_unk: bool
    chars: bool
    first: NDArray[np.uint32] | None = None
    only: NDArray[np.uint32] | None = None
    of_bytes: NDArray[np.uint32] | None = None
    prefix: bytes = b""
    suffix: bytes = b""
    drop_unknown: bool | str = False


@dataclass(frozen=True)
class TokenBytes:
    """The bytes of all tokens.

    Attributes:
        blob: token i is `blob[offsets[i]:offsets[i + 1]]`.
        offsets: int64.
        ends_word: uint8: of each token, whether it ends with the end-of-word mark; None without marks.
        mark_size: the bytes of the mark.

    """

    blob: bytes
    offsets: NDArray[np.int64]
    ends_word: NDArray[np.uint8] | None
    mark_size: int


@dataclass(frozen=True)
class EventList:
    """The splits between the merges of a PickyBPE model, and the lengths of its tokens.

    Attributes:
        split_at: int32, shape (m,): the index of each split among all events, ascending; those of merges are their
            ranks.
        tokens: int32, shape (m,): the token that is split.
        offsets: int64, shape (m + 1,): split i replaces the token by `parts[offsets[i]:offsets[i + 1]]`.
        parts: int32.
        width: uint32, shape (limit,): the symbols of each token.

    """

    split_at: NDArray[np.int32]
    tokens: NDArray[np.int32]
    offsets: NDArray[np.int64]
    parts: NDArray[np.int32]
    width: NDArray[np.uint32]
