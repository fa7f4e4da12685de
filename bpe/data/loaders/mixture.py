"""`Mixture`: rows of several datasets by weights.

The sequence is made of rounds of `ROUND` rows. In each, every dataset has the same number of rows, its weight's share,
and a permutation of the round (`order.py`, by seed and number of the round) says which places are whose. A dataset
gives its rows in its own order, without leaving one out; where it ends, its next epoch follows. So row i of the
mixture is a pure function of the seed and i.

Where the weights change, at a row of the mixture, a *phase* begins: its rounds are counted from there, and each dataset
goes on where it was.
"""

from __future__ import annotations

import math
import numbers
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bpe.data.loaders.order import make_round_keys, permute
from bpe.data.loaders.rows import Rows, hash_values, keep_last
from bpe.data.loaders.spans import Batch, join_batches
from bpe.errors import check_choice, check_int, check_iterable, describe, short_repr

#: The rows of a round: weights are exact to one part in this.
ROUND = 1 << 14
#: Rounds that are kept in memory, 0.2 MB each.
KEPT_ROUNDS = 4
#: The largest weight, so that sums of weights are floats.
_MAX_WEIGHT = 1e300


class Mixture(Rows):
    """Rows of several datasets, each with the share that its weight gives it, in the order of a seed.

    Args:
        datasets: `Blocks`, `Packed` or mixtures with equal `length` and `fields`.
        weights: a positive number for each, of any sum; None for the datasets' own sizes. Weights that change: a dict
            of such lists by the number of the row from which they hold, counted from the beginning of the run over all
            ranks: {0: [3, 1], 500 * 64: [1, 1]} changes them after 500 batches of 64 rows. A weight may be 0 there, but
            in the last list.
        seed: the seed of the order in which the datasets alternate. Each has a seed of its own for its rows.
        stopping: where an epoch of the mixture ends: "first_exhausted", before a dataset would begin its next epoch, so
            that no row is repeated; "all_exhausted", when each dataset has been read to its end.

    The next epoch of a mixture goes on where each dataset was.

    A state of the first epoch fits every mixture that gives the rows before it. So weights can be changed when a run is
    resumed, and a dataset added: with the weights of the run so far up to the row of the state, 0 for the new dataset.

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
        weights: Sequence[float] | Mapping[int, Sequence[float]] | None = None,
        seed: int = 0,
        *,
        stopping: Literal["first_exhausted", "all_exhausted"] = "first_exhausted",
    ) -> None:
        self.datasets = check_datasets(datasets)
        super().__init__(self.datasets[0].row_format, seed)
        self.weights: tuple[float, ...] | dict[int, tuple[float, ...]]
        if isinstance(weights, Mapping):
            lists = {check_int("a row of weights", row, 0): _list_weights(value) for row, value in weights.items()}
            if 0 not in lists:
                raise ValueError(
                    f"weights has lists from the rows {short_repr(sorted(lists))}; it must have one from row 0"
                )
            self.weights = dict(sorted(lists.items()))
        else:
            self.weights = tuple(map(len, self.datasets)) if weights is None else _list_weights(weights)
        self._stopping = check_choice("stopping", stopping, ("first_exhausted", "all_exhausted"))
        self._rounds: dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
        self._phases = self._make_phases()
        # the mixture's row at which each dataset begins its second epoch, or the one after its last row
        exhausted = [self._find_end(k, len(dataset)) for k, dataset in enumerate(self.datasets)]
        self._length = min(exhausted) if stopping == "first_exhausted" else max(exhausted)

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        inner = ", ".join(map(repr, self.datasets))
        weights = list(self.weights) if isinstance(self.weights, tuple) else self.weights
        return f"Mixture([{inner}], weights={weights}, seed={self.seed}, {len(self)} rows)"

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_rounds": {}}

    @property
    def fingerprint(self) -> str:
        """A hash of the datasets, their seeds, their shares and `stopping`."""
        return self._hash_phases(self._phases)

    def _hash_phases(self, phases: Sequence[_Phase]) -> str:
        """Hash what decides the rows of phases, the datasets that occur in them among it."""
        used = np.flatnonzero(sum(phase.counts for phase in phases))
        inner = [[self.datasets[owner].fingerprint, self.datasets[owner].seed] for owner in used]
        shares: list[Any] = [[phase.start, phase.counts[used].tolist()] for phase in phases]
        if len(phases) == 1:
            shares = shares[0][1]
        return hash_values(self.length, "Mixture", inner, shares, self._stopping)

    def _fingerprint_before(self, epoch: object, position: object) -> str:
        """Hash the phases that begin before a row of the first epoch; all phases for later epochs."""
        if epoch != 0 or not isinstance(position, int):
            return self.fingerprint
        return self._hash_phases([phase for phase in self._phases if phase.start < max(position, 1)])

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
        owners, row_numbers = (np.empty(len(numbers), dtype=np.int64) for _ in range(2))
        starts = [phase.start for phase in self._phases]
        phase_indices = np.searchsorted(starts, numbers, side="right") - 1
        for phase_index in dict.fromkeys(phase_indices.tolist()):
            phase = self._phases[phase_index]
            in_phase = phase_indices == phase_index
            rounds, positions = np.divmod(numbers - phase.start, ROUND)
            for round_index in dict.fromkeys(rounds[in_phase].tolist()):
                in_round = in_phase & (rounds == round_index)
                round_owners, rows_before = self._order_round(phase, round_index)
                owners[in_round] = round_owners[positions[in_round]]
                row_numbers[in_round] = (phase.n_before + round_index * phase.counts)[owners[in_round]]
                row_numbers[in_round] += rows_before[positions[in_round]]
        return owners, row_numbers

    def _make_phases(self) -> list[_Phase]:
        """Make the phases, each with the rows that the datasets have given before it."""
        n_datasets = len(self.datasets)
        if isinstance(self.weights, tuple):
            return [_Phase(0, 0, divide_round(self.weights, n_datasets), np.zeros(n_datasets, dtype=np.int64))]
        phases: list[_Phase] = []
        for start, weights in self.weights.items():
            is_last = start == max(self.weights)
            counts = divide_round(weights, n_datasets, allow_zero=not is_last)
            first_round, n_before = 0, np.zeros(n_datasets, dtype=np.int64)
            if phases:
                previous = phases[-1]
                rounds, n_rest = divmod(start - previous.start, ROUND)
                n_before = previous.n_before + rounds * previous.counts
                owners, _ = self._order_round(previous, rounds)
                n_before += np.bincount(owners[:n_rest], minlength=n_datasets)
                first_round = previous.first_round + rounds + 1
            phases.append(_Phase(start, first_round, counts, n_before))
        return phases

    def _order_round(self, phase: _Phase, round_index: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """List the datasets of a round's rows, and how many rows before each one in it are of the same dataset."""
        number = phase.first_round + round_index
        order = self._rounds.get(number)
        if order is None:
            counts = phase.counts
            owners = np.repeat(np.arange(len(counts)), counts)
            owners = owners[permute(np.arange(ROUND), ROUND, make_round_keys(self.seed, number))]
            by_owner = np.argsort(owners, kind="stable")
            rows_before = np.empty(ROUND, dtype=np.int64)
            rows_before[by_owner] = np.arange(ROUND) - np.repeat(np.cumsum(counts) - counts, counts)
            order = owners, rows_before
            keep_last(self._rounds, number, order, KEPT_ROUNDS)
        return order

    def _find_end(self, owner: int, n_rows: int) -> int:
        """Find the mixture's row at which the epoch of a dataset ends, by `stopping`."""
        stops_at_first = self._stopping == "first_exhausted"
        row_number = n_rows if stops_at_first else n_rows - 1
        phase = self._phases[bisect_right([int(phase.n_before[owner]) for phase in self._phases], row_number) - 1]
        rounds, nth = divmod(row_number - int(phase.n_before[owner]), int(phase.counts[owner]))
        owners, _ = self._order_round(phase, rounds)
        return phase.start + rounds * ROUND + int(np.flatnonzero(owners == owner)[nth]) + (not stops_at_first)


@dataclass(frozen=True, slots=True)
class _Phase:
    """Rows of a mixture with the same weights.

    Attributes:
        start: its first row.
        first_round: the number of its first round, counted over all phases.
        counts: int64, the rows of each dataset in a round.
        n_before: int64, the rows of each dataset before the phase.

    """

    start: int
    first_round: int
    counts: NDArray[np.int64]
    n_before: NDArray[np.int64]


def _list_weights(weights: Sequence[float]) -> tuple[float, ...]:
    """Return the weights of a list as Python's numbers."""
    rule = "a list of numbers, one for each dataset"
    check_iterable("weights", weights, rule)
    if isinstance(weights, (str, bytes, Mapping, AbstractSet)):
        raise TypeError(f"weights is {describe(weights)}; it must be {rule}")
    return tuple(weight.item() if isinstance(weight, np.generic) else weight for weight in weights)


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


def divide_round(weights: Sequence[Any], n: int, *, allow_zero: bool = False) -> NDArray[np.int64]:
    """Count the rows of each dataset in a round: the shares of the weights, by largest remainder.

    With `allow_zero`, some weights may be 0, but not all.

    >>> divide_round([2, 1], 2).tolist()
    [10923, 5461]
    """
    least = 0.0 if allow_zero else math.nextafter(0, 1)
    is_valid = all(isinstance(weight, numbers.Real) and least <= weight < math.inf for weight in weights)  # type: ignore[operator]
    if len(weights) != n or not is_valid or not any(weights):
        raise ValueError(
            f"weights is {short_repr(list(weights))}; it must have a positive number for each of {n} datasets"
        )
    if max(weights) > _MAX_WEIGHT:
        raise ValueError(f"a weight is greater than {_MAX_WEIGHT}; divide all weights by the same number")
    exact_counts = np.array(weights, dtype=np.float64) / math.fsum(weights) * ROUND
    counts = np.floor(exact_counts).astype(np.int64)
    counts[np.argsort(counts - exact_counts, kind="stable")[: ROUND - int(counts.sum())]] += 1
    small_weights = [weight for weight, count in zip(weights, counts, strict=True) if weight and not count]
    if small_weights:
        weight = small_weights[0]
        raise ValueError(f"the weight {weight} is less than one part in {ROUND} of all weights; raise it")
    return counts
