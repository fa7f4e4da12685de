"""`Mixture`: rows of several datasets by weights.

The sequence is made of rounds of `ROUND` rows. In each, every dataset has the same number of rows, its weight's share,
and a permutation of the round (`order.py`, by seed and number of the round) says which places are whose. A dataset
gives its rows in its own order, without leaving one out; where it ends, its next epoch follows. So row i of the
mixture is a pure function of the seed and i.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bpe.data.loaders.order import make_round_keys, permute
from bpe.data.loaders.rows import Rows, hash_values, keep_last
from bpe.data.loaders.spans import Batch, join_batches
from bpe.errors import check_choice, check_iterable, describe, short_repr

#: The rows of a round: weights are exact to one part in this.
ROUND = 1 << 14
#: Rounds that are kept in memory, 0.2 MB each.
KEPT_ROUNDS = 4


class Mixture(Rows):
    """Rows of several datasets, each with the share that its weight gives it, in the order of a seed.

    Args:
        datasets: `Blocks`, `Packed` or mixtures with equal `length` and `fields`.
        weights: a positive number for each, of any sum; None for the datasets' own sizes.
        seed: the seed of the order in which the datasets alternate. Each has a seed of its own for its rows.
        stopping: where an epoch of the mixture ends: "first_exhausted", before a dataset would begin its next epoch, so
            that no row is repeated; "all_exhausted", when each dataset has been read to its end.

    The next epoch of a mixture goes on where each dataset was.

    Raises:
        TypeError, ValueError: for datasets of different lengths or fields; for shards that two tokenizers encoded, by
            the fingerprints in their manifests (shards without a manifest are not checked); for weights that are not
            positive, or so small that a dataset would have no row among 16,384.

    >>> import tempfile
    >>> from bpe.data import Blocks, TokenShards, write_shards
    >>> folders = [tempfile.TemporaryDirectory() for _ in range(2)]
    >>> for folder, token in zip(folders, (1, 2)):
    ...     _ = write_shards([[token] * 101], folder.name)
    >>> mixture = Mixture([Blocks(TokenShards(folder.name), length=4) for folder in folders], [3, 1])
    >>> len(mixture)
    34
    >>> [int(mixture[i]["input_ids"][0]) for i in range(12)]
    [1, 2, 1, 1, 1, 1, 1, 1, 2, 1, 2, 1]
    >>> del mixture
    >>> for folder in folders:
    ...     folder.cleanup()

    """

    def __init__(
        self,
        datasets: Sequence[Rows],
        weights: Sequence[float] | None = None,
        seed: int = 0,
        *,
        stopping: Literal["first_exhausted", "all_exhausted"] = "first_exhausted",
    ) -> None:
        self.datasets = check_datasets(datasets)
        super().__init__(self.datasets[0].row_format, seed)
        self.weights = tuple(map(len, self.datasets)) if weights is None else tuple(weights)
        self._stopping = check_choice("stopping", stopping, ("first_exhausted", "all_exhausted"))
        self._counts = divide_round(self.weights, len(self.datasets))
        self._owners = np.repeat(np.arange(len(self._counts)), self._counts)
        self._rounds: dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
        # the mixture's row at which each dataset begins its second epoch, or the one after its last row
        exhausted = [self._find_end(k, len(dataset)) for k, dataset in enumerate(self.datasets)]
        self._length = min(exhausted) if stopping == "first_exhausted" else max(exhausted)

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        inner = ", ".join(map(repr, self.datasets))
        return f"Mixture([{inner}], weights={list(self.weights)}, seed={self.seed}, {len(self)} rows)"

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_rounds": {}}

    @property
    def fingerprint(self) -> str:
        """A hash of the datasets, their seeds, their shares and `stopping`."""
        inner = [[dataset.fingerprint, dataset.seed] for dataset in self.datasets]
        return hash_values(self.length, "Mixture", inner, self._counts.tolist(), self._stopping)

    @property
    def tokenizer_fingerprints(self) -> frozenset[str]:
        """The fingerprints of the datasets' tokenizers, as far as they are known."""
        return frozenset().union(*(dataset.tokenizer_fingerprints for dataset in self.datasets))

    def read(self, numbers: NDArray[np.int64]) -> Batch:
        """Read the rows with these numbers, each `epoch * len(mixture) + index`: int64 arrays (n, length)."""
        owners, row_numbers = self.sources(numbers)
        parts, rows = [], []
        for owner in dict.fromkeys(owners.tolist()):
            rows.append(np.flatnonzero(owners == owner))
            parts.append(self.datasets[owner].read(row_numbers[rows[-1]]))
        return join_batches(parts, np.argsort(np.concatenate(rows))) if parts else self.datasets[0].read(numbers)

    def sources(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Find the dataset of each of the rows with these numbers, and the row in its own sequence of epochs."""
        rounds, positions = np.divmod(numbers, ROUND)
        owners, rows_before = (np.empty(len(numbers), dtype=np.int64) for _ in range(2))
        for round_index in dict.fromkeys(rounds.tolist()):
            in_round = rounds == round_index
            round_owners, round_rows_before = self._order_round(round_index)
            owners[in_round] = round_owners[positions[in_round]]
            rows_before[in_round] = round_rows_before[positions[in_round]]
        return owners, rounds * self._counts[owners] + rows_before

    def _order_round(self, round_index: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """List the datasets of a round's rows, and how many rows before each one are of the same dataset."""
        order = self._rounds.get(round_index)
        if order is None:
            owners = self._owners[permute(np.arange(ROUND), ROUND, make_round_keys(self.seed, round_index))]
            by_owner = np.argsort(owners, kind="stable")
            rows_before = np.empty(ROUND, dtype=np.int64)
            rows_before[by_owner] = np.arange(ROUND) - np.repeat(np.cumsum(self._counts) - self._counts, self._counts)
            order = owners, rows_before
            keep_last(self._rounds, round_index, order, KEPT_ROUNDS)
        return order

    def _find_end(self, owner: int, n_rows: int) -> int:
        """Find the mixture's row at which the epoch of a dataset ends, by `stopping`."""
        stops_at_first = self._stopping == "first_exhausted"
        rounds, nth = divmod(n_rows if stops_at_first else n_rows - 1, int(self._counts[owner]))
        owners, _ = self._order_round(rounds)
        return rounds * ROUND + int(np.flatnonzero(owners == owner)[nth]) + (not stops_at_first)


def check_datasets(datasets: Sequence[Rows]) -> list[Rows]:
    """Return the datasets as a list, if they can be mixed."""
    check_iterable("datasets", datasets, "a sequence of Blocks, Packed or Mixture")
    dataset_list = list(datasets)
    for dataset in dataset_list:
        if not isinstance(dataset, Rows):
            raise TypeError(f"datasets has {describe(dataset)}; each must be a Blocks, Packed or Mixture")
        for name, value, expected in (
            ("length", dataset.length, dataset_list[0].length),
            ("fields", dataset.fields, dataset_list[0].fields),
        ):
            if value != expected:
                raise ValueError(
                    f"the {name} of {dataset!r} is {value}, and that of {dataset_list[0]!r} is {expected}; give "
                    "both the same"
                )
        if len(dataset) == 0:
            raise ValueError(f"{dataset!r} has no rows; leave it out")
    fingerprints = sorted(frozenset().union(*(dataset.tokenizer_fingerprints for dataset in dataset_list)))
    if len(fingerprints) > 1:
        by_tokenizer = [
            next(dataset for dataset in dataset_list if name in dataset.tokenizer_fingerprints)
            for name in fingerprints[:2]
        ]
        raise ValueError(
            f"{by_tokenizer[0]!r} and {by_tokenizer[1]!r} are ids of two tokenizers, with the fingerprints "
            f"{fingerprints[0][:12]}… and {fingerprints[1][:12]}…; encode all corpora with one tokenizer"
        )
    if not dataset_list:
        raise ValueError("datasets is empty; it must have at least one dataset")
    return dataset_list


def divide_round(weights: Sequence[float], n: int) -> NDArray[np.int64]:
    """Count the rows of each dataset in a round: the shares of the weights, by largest remainder.

    >>> divide_round([2, 1], 2).tolist()
    [10923, 5461]
    """
    if len(weights) != n or not all(isinstance(w, (int, float)) and 0 < w < math.inf for w in weights):
        raise ValueError(
            f"weights is {short_repr(list(weights))}; it must have a positive number for each of {n} datasets"
        )
    exact_counts = np.array(weights, dtype=np.float64) / math.fsum(weights) * ROUND
    counts = np.floor(exact_counts).astype(np.int64)
    counts[np.argsort(counts - exact_counts, kind="stable")[: ROUND - int(counts.sum())]] += 1
    if counts.min() == 0:
        weight = list(weights)[int(np.argmin(counts))]
        raise ValueError(f"the weight {weight} is less than one part in {ROUND} of all weights; raise it")
    return counts
