"""`TokenShards`: the documents and tokens of a folder of shards, memory-mapped."""

from __future__ import annotations

import hashlib
import json
import operator
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from bpe.base.offsets import compute_offsets
from bpe.data.finding import ListedShard, find_shards
from bpe.data.formats import SHARD_FORMATS
from bpe.data.formats.reading import DocumentBounds, Shard, have_masks
from bpe.errors import FormatError, describe, escape_unprintable, pluralize, short_repr

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Shard", "TokenDocuments", "TokenShards"]


class TokenShards:
    """Token ids in shards of any format that can be memory-mapped, as one sequence of documents and of tokens.

    Args:
        path: a folder of shards, with or without `manifest.json`, or one file: native `.npy`, Megatron `.bin` or `.idx`
            (or their common prefix), nanoGPT and llm.c `.bin`, datatrove `.ds`, dolma `.npy`.
        split: "train", "val" or "test" for a corpus that is divided, "all" for all parts. Without a manifest, the names
            of files, or else of the folder, say the parts: the words val, valid, validation, dev, eval and holdout mean
            "val".
        end_of_text: the id that separates documents in formats that do not record them, nanogpt (it ends each
            document) and llmc (it begins each document), or the name of the special token, if the folder has a copy of
            its tokenizer. Without it, each shard of these formats is one document.
        additions: how many of the additions that `encode_shards(extend=True)` made to count: 0 opens the documents that
            the folder had at first, for which the loaders' states of that time are valid; None for all.
        validate: whether to check that all offsets rise, which reads them once. Headers and sizes are always checked.

    Attributes:
        path: the folder or file.
        format: the name of the shards' format.
        n_tokens, n_documents: the numbers in all shards.
        dtype: the dtype of the ids: uint16, int32 or uint32; of Megatron's other writers uint8 or int64.
        documents: the documents, a sequence of arrays.
        shards: the open shards, in document order.
        fingerprint: a hash of the content: of sizes, counts and checksums in the manifest; without one, of the sizes,
            counts and first bytes of the files.
        tokenizer_fingerprint: `Tokenizer.fingerprint` of the tokenizer that encoded them, from the manifest; None if
            it is unknown.
        has_masks: whether all shards have loss masks.

    Raises:
        FormatError: for a damaged file, before anything of it is used.
        FileNotFoundError: if there is no such folder or file.
        ValueError: for a split that does not exist, or a divided corpus without `split`.

    Pickles as its path; the copy opens the files again and checks that they are the same.

    >>> import numpy as np, os, tempfile
    >>> from bpe.data import TokenShards, write_shards
    >>> folder = tempfile.TemporaryDirectory()
    >>> _ = write_shards([[1, 2, 3], [], [4, 5]], folder.name)
    >>> shards = TokenShards(folder.name)
    >>> shards.n_documents, shards.n_tokens, shards.documents[2].tolist()
    (3, 5, [4, 5])
    >>> shards.tokens(2, 5).tolist(), shards.document_at(3)
    ([3, 4, 5], 2)
    >>> del shards; folder.cleanup()

    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        split: str | None = None,
        *,
        end_of_text: int | str | None = None,
        additions: int | None = None,
        validate: bool = True,
    ) -> None:
        self.path, self._split, self._additions = Path(path), split, additions
        listing = find_shards(self.path, split, additions)
        self._end_of_text = end_of_text = listing.resolve_end_of_text(self.path, end_of_text)
        self.format = listing.format
        shard_format = SHARD_FORMATS[listing.format]
        self.shards: tuple[Shard, ...] = tuple(
            _check_shard(
                shard_format.open(listed_shard.path, end_of_text=end_of_text, validate=validate),
                listed_shard,
                listing.format,
            )
            for listed_shard in listing.shards
        )
        dtypes = {shard.dtype for shard in self.shards if shard.n_tokens}
        if len(dtypes) > 1:
            names = " and ".join(sorted(map(str, dtypes)))
            raise FormatError(f"its shards have ids of {names}; all must have one dtype", path=self.path)
        self.dtype: np.dtype[Any] = next(iter(dtypes), np.dtype(listing.dtype or np.uint16))
        self.has_masks = have_masks(self.shards, self.path)
        # lists: `bisect` in a list takes a tenth of the time of `np.searchsorted` for one number
        self._token_starts: list[int] = compute_offsets([shard.n_tokens for shard in self.shards]).tolist()
        self._document_starts: list[int] = compute_offsets([shard.n_documents for shard in self.shards]).tolist()
        self.n_tokens, self.n_documents = self._token_starts[-1], self._document_starts[-1]
        self.documents = TokenDocuments(self, 0, self.n_documents)
        self.fingerprint = listing.fingerprint or _hash_files(self)
        tokenizer_fingerprint = None if listing.manifest is None else listing.manifest.tokenizer.get("fingerprint")
        self.tokenizer_fingerprint = tokenizer_fingerprint if isinstance(tokenizer_fingerprint, str) else None

    def __repr__(self) -> str:
        numbers = f"{pluralize(self.n_documents, 'document')}, {pluralize(self.n_tokens, 'token')}"
        return f"TokenShards({str(self.path)!r}, {self.format}, {pluralize(len(self.shards), 'shard')}, {numbers})"

    def __getstate__(self) -> dict[str, Any]:
        state = {"path": os.path.abspath(self.path), "split": self._split, "end_of_text": self._end_of_text}
        return {**state, "additions": self._additions, "fingerprint": self.fingerprint}

    def __setstate__(self, state: dict[str, Any]) -> None:
        options = {"end_of_text": state["end_of_text"], "additions": state.get("additions")}
        TokenShards.__init__(self, state["path"], state["split"], **options, validate=False)
        if self.fingerprint != state["fingerprint"]:
            raise ValueError(f"the shards in {self.path} have changed since this object was pickled; open them again")

    # Tokens -----------------------------------------------------------------------------------------------------------

    def tokens(self, start: int, stop: int) -> NDArray[Any]:
        """Return the ids from position `start` to `stop` of all tokens: a read-only view where they lie in one shard.

        Raises:
            IndexError: unless 0 <= start <= stop <= n_tokens.

        """
        if 0 <= start < stop <= self.n_tokens:  # the most frequent case: within one shard
            index = bisect_right(self._token_starts, start) - 1
            if stop <= self._token_starts[index + 1]:
                base = self._token_starts[index]
                return self.shards[index].ids[start - base : stop - base]  # type: ignore[index]
        return self._join("ids", start, stop, self.dtype)

    def masks(self, start: int, stop: int) -> NDArray[np.uint8] | None:
        """Return the loss mask from position `start` to `stop`, as `tokens` returns ids; None if there is none."""
        if not self.has_masks:
            return None
        return self._join("mask", start, stop, np.dtype(np.uint8))

    def _join(self, name: str, start: int, stop: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Join a range of positions of an array that each shard has; a view where the range lies in one."""
        if not 0 <= start <= stop <= self.n_tokens:
            raise _refuse_range("token", start, stop, self.n_tokens)
        parts: list[NDArray[Any]] = []
        index = bisect_right(self._token_starts, start) - 1
        while start < stop:
            base, end = self._token_starts[index], self._token_starts[index + 1]
            if start < end:
                parts.append(getattr(self.shards[index], name)[start - base : min(stop, end) - base])
                start = min(stop, end)
            index += 1
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else np.empty(0, dtype=dtype)

    # Documents --------------------------------------------------------------------------------------------------------

    def document_bounds(self, first: int, last: int) -> NDArray[np.int64]:
        """Return the positions where documents `first` to `last` start: int64, last - first + 1 long.

        Document i has the ids from `bounds[i - first]` to `bounds[i - first + 1]`; `last` may be `n_documents`.
        """
        if not 0 <= first <= last <= self.n_documents:
            raise _refuse_range("document", first, last, self.n_documents)
        bounds = np.empty(last - first + 1, dtype=np.int64)
        index = bisect_right(self._document_starts, first) - 1
        document = first
        while index < len(self.shards):
            base, end = self._document_starts[index], self._document_starts[index + 1]
            stop = min(last, end)
            part = self.shards[index].bounds.read_bounds(document - base, stop - base)
            bounds[document - first : stop - first + 1] = part + self._token_starts[index]
            if stop == last:  # where it is the end of this shard, the next one starts at the same position
                return bounds
            document, index = stop, index + 1
        bounds[-1] = self.n_tokens
        return bounds

    def document(self, index: int) -> NDArray[Any]:
        """Return the ids of a document, 0 <= index < n_documents; a view."""
        if not 0 <= index < self.n_documents:
            total = pluralize(self.n_documents, "document")
            raise IndexError(f"document {index} is out of range; there are {total}")
        shard = bisect_right(self._document_starts, index) - 1
        start, stop = self.shards[shard].bounds.read_span(index - self._document_starts[shard])
        return self.shards[shard].ids[start:stop]  # type: ignore[index]

    def document_at(self, position: int) -> int:
        """Find the document that holds the id at a position, in O(log n).

        Raises:
            IndexError: unless 0 <= position < n_tokens.

        """
        if not 0 <= position < self.n_tokens:
            raise IndexError(f"position {position} is out of range; there are {pluralize(self.n_tokens, 'token')}")
        return int(self.documents_at(np.array([position]))[0])

    def documents_at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Find the documents that hold the ids at positions, 0 <= position < n_tokens: int64."""
        return self._map_by_shard(
            positions,
            self._token_starts,
            self._document_starts,
            lambda bounds, positions: bounds.find_documents(positions),
        )

    def document_starts(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Find the positions where documents start, 0 <= number < n_documents: int64."""
        return self._map_by_shard(
            numbers, self._document_starts, self._token_starts, lambda bounds, documents: bounds.find_starts(documents)
        )

    def _map_by_shard(
        self,
        values: NDArray[np.int64],
        bases: list[int],
        result_bases: list[int],
        find: Callable[[DocumentBounds, NDArray[np.int64]], NDArray[np.int64]],
    ) -> NDArray[np.int64]:
        """Call `find` with the values of each shard; `bases` are its first values, `result_bases` its first results."""
        shards = np.searchsorted(bases, values, side="right") - 1
        shard_indices = set(shards.tolist())
        if len(shard_indices) == 1:
            (index,) = shard_indices
            only: NDArray[np.int64] = find(self.shards[index].bounds, values - bases[index]) + result_bases[index]
            return only
        result = np.empty(len(values), dtype=np.int64)
        for index in shard_indices:
            in_shard = shards == index
            result[in_shard] = find(self.shards[index].bounds, values[in_shard] - bases[index]) + result_bases[index]
        return result


class TokenDocuments(Sequence[Any]):
    """Documents of `TokenShards` as a sequence: an index gives the ids of one, a slice a shorter sequence, no copy."""

    def __init__(self, shards: TokenShards, first: int, last: int, step: int = 1) -> None:
        self._shards, self._range = shards, range(first, last, step)

    def __len__(self) -> int:
        return len(self._range)

    @overload
    def __getitem__(self, index: int) -> NDArray[Any]: ...

    @overload
    def __getitem__(self, index: slice) -> TokenDocuments: ...

    def __getitem__(self, index: int | slice) -> NDArray[Any] | TokenDocuments:
        if isinstance(index, slice):
            part = self._range[index]
            return TokenDocuments(self._shards, part.start, part.stop, part.step)
        try:
            document = self._range[operator.index(index)]
        except TypeError:
            raise TypeError(f"index is {describe(index)}; it must be an int or a slice") from None
        except IndexError:
            raise IndexError(f"index {index} is out of range; there are {pluralize(len(self), 'document')}") from None
        return self._shards.document(document)

    def __iter__(self) -> Iterator[NDArray[Any]]:
        for first in range(0, len(self._range), 1 << 14):
            part = self._range[first : first + (1 << 14)]
            min_document, max_document = min(part[0], part[-1]), max(part[0], part[-1])
            bounds = (
                self._shards.document_bounds(min_document, max_document + 1).tolist() if part.step in (1, -1) else None
            )
            for document in part:
                if bounds is None:
                    yield self._shards.document(document)
                else:
                    yield self._shards.tokens(bounds[document - min_document], bounds[document - min_document + 1])

    def __repr__(self) -> str:
        return f"<{pluralize(len(self), 'document')} of {escape_unprintable(str(self._shards.path))}>"


def _check_shard(shard: Shard, listed_shard: ListedShard, format_name: str) -> Shard:
    """Check an open shard against the manifest's numbers."""
    if shard.ids is None:
        raise ValueError(
            f"{shard.path}: {format_name} shards cannot be memory-mapped; convert them with "
            'bpe.data.convert_shards(path, out, "native")'
        )
    entry = listed_shard.entry
    if entry is not None and shard.n_tokens != entry.tokens:
        raise FormatError(f"it has {shard.n_tokens} tokens; the manifest has {entry.tokens}", path=shard.path)
    if (
        entry is not None
        and "documents" in SHARD_FORMATS[format_name].features
        and shard.n_documents != entry.documents
    ):
        raise FormatError(f"it has {shard.n_documents} documents; the manifest has {entry.documents}", path=shard.path)
    return shard


def _refuse_range(noun: str, start: object, stop: object, total: int) -> IndexError:
    """Make the error for a range that is not within the shards: `start` and `stop` may be anything."""
    between = f"{noun}s {short_repr(start)} to {short_repr(stop)}"
    return IndexError(f"{between} are out of range; there are {pluralize(total, noun)}")


def _hash_files(shards: TokenShards) -> str:
    """Hash sizes, counts and headers of shards without a manifest."""
    rows: list[Any] = [shards.format, str(shards.dtype)]
    for shard in shards.shards:
        for path in shard.files:
            with open(path, "rb") as file:
                rows.append([path.stat().st_size, hashlib.sha256(file.read(4096)).hexdigest()])
        rows.append([shard.n_tokens, shard.n_documents])
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()
