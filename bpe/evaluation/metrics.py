"""The definitions of the metrics, from counts and sums, and of their intervals (the bootstrap over documents).

N tokens, B bytes, C characters, W words; p is the distribution of tokens over the text. A metric whose denominator is
zero is None.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

#: The order of the Rényi entropy, and the one that `tokenization-scorer` takes by default.
ALPHA, SCORER_ALPHA = 2.5, 3.0
#: The ranks between which `percentile_mass` sums, as fractions of the number of types (Gowda and May 2020).
MASS_FROM, MASS_TO = 0.03, 0.83


def ratio(numerator: float, denominator: float) -> float | None:
    """Divide; None if the denominator is zero.

    >>> ratio(1, 2), ratio(1, 0)
    (0.5, None)
    """
    return float(numerator) / float(denominator) if denominator else None


def renyi_entropy(counts: NDArray[np.int64], alpha: float = ALPHA) -> float:
    """Return the Rényi entropy of tokens with these counts, in bits: log2(Σ p^alpha) / (1 − alpha).

    With alpha 1, it is Shannon's.

    >>> renyi_entropy(np.array([1, 1, 1, 1, 0])), renyi_entropy(np.array([2, 2]), 1)
    (2.0, 1.0)
    """
    used = counts[counts > 0]
    if len(used) < 2:
        return 0.0
    p = used / used.sum()
    if alpha == 1:
        return float(-np.sum(p * np.log2(p)))
    if math.isinf(alpha):
        return float(-np.log2(p.max()))
    return float(np.log2(np.sum(p**alpha)) / (1 - alpha))


def efficiency(counts: NDArray[np.int64], n_types: int | None = None, alpha: float = ALPHA) -> float | None:
    """Divide the Rényi entropy by the largest possible one, log2(n_types) (Zouhar et al. 2023).

    Args:
        counts: how often each token occurs.
        n_types: the number of types: that of the vocabulary; None for those that occur.
        alpha: the order; 1 gives Shannon's.

    >>> round(efficiency(np.array([4, 4, 1, 1]), 8), 6), round(efficiency(np.array([4, 4, 1, 1])), 6)
    (0.502317, 0.753475)

    """
    if n_types is None:
        n_types = int(np.count_nonzero(counts))
    return None if n_types < 2 or not counts.any() else renyi_entropy(counts, alpha) / math.log2(n_types)


def percentile_mass(counts: NDArray[np.int64], start: float = MASS_FROM, end: float = MASS_TO) -> float | None:
    """Return the share of the text whose tokens rank by frequency between two fractions of the types that occur.

    As in `tokenization-scorer`: of n types in order of falling frequency, those from int(n·start) up to, but without,
    int(n·end), both at most n − 1; at least one where there are two.

    >>> percentile_mass(np.array([50, 30, 10, 10]))
    0.9
    """
    used = np.sort(counts[counts > 0])[::-1]
    if not len(used):
        return None
    first_rank, end_rank = (min(int(len(used) * fraction), len(used) - 1) for fraction in (start, end))
    if first_rank == end_rank:
        first_rank = max(0, first_rank - 1)
    if first_rank == end_rank:
        end_rank = min(len(used) - 1, end_rank + 1)
    return float(used[first_rank:end_rank].sum() / used.sum())


def gini(costs: Sequence[float]) -> float | None:
    """Return the Gini coefficient of the costs of languages: Σ_ij |c_i − c_j| / (2 n² μ); 0 if all are equal.

    >>> gini([1, 1, 1]), gini([1, 3])
    (0.0, 0.25)
    """
    c = np.asarray(costs, dtype=np.float64)
    if not len(c) or not c.sum():
        return None
    return float(np.abs(c[:, None] - c).sum() / (2 * len(c) ** 2 * c.mean()))


def premiums(costs: Mapping[str, float], reference: str) -> dict[str, float | None]:
    """Divide the cost of each corpus by that of one of them: of parallel texts, the premium of Petrov et al. 2023.

    >>> premiums({"en": 100, "ko": 240}, "en")
    {'en': 1.0, 'ko': 2.4}
    """
    return {name: ratio(cost, costs.get(reference, 0)) for name, cost in costs.items()}


def frequency_by_rank(counts: NDArray[np.int64]) -> list[tuple[int, int]]:
    """List (rank, count) of the tokens at the ranks 1, 2, 4, 8, … by frequency, and at the last one that occurs.

    >>> frequency_by_rank(np.array([5, 0, 9, 1]))
    [(1, 9), (2, 5), (3, 1)]
    """
    used = np.sort(counts[counts > 0])[::-1]
    ranks = [1 << k for k in range(len(used).bit_length()) if 1 << k <= len(used)]
    if len(used) and ranks[-1] != len(used):
        ranks.append(len(used))
    return [(rank, int(used[rank - 1])) for rank in ranks]


def resample(rows: NDArray[np.float64], resamples: int, seed: int) -> NDArray[np.float64] | None:
    """Sum as many rows as there are, drawn with replacement; shape (resamples, columns). None for fewer than 2.

    The draws depend on the number of rows and the seed alone, so that tokenizers are compared on the same documents.
    """
    n = len(rows)
    if n < 2 or not resamples:
        return None
    generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, n])))
    sums = np.empty((resamples, rows.shape[1]))
    step = max(1, (1 << 20) // n)
    for start in range(0, resamples, step):
        count = min(step, resamples - start)
        rows_drawn = generator.integers(0, n, size=(count, n), dtype=np.int32)
        rows_drawn += np.arange(count, dtype=np.int32)[:, None] * n
        weights = np.bincount(rows_drawn.ravel(), minlength=count * n).reshape(count, n)
        sums[start : start + count] = weights @ rows
    return sums


def percentile_interval(values: NDArray[np.float64], confidence: float) -> list[float] | None:
    """Find the central interval of resampled values that holds this share of them; None if some are undefined."""
    if not len(values) or not np.isfinite(values).all():
        return None
    tail = 50 * (1 - confidence)
    low, high = np.percentile(values, [tail, 100 - tail])
    return [float(low), float(high)]
