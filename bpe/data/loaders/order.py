"""The order of training rows, as a pure function of a seed, an epoch and an index: no list of indices is ever held.

A Feistel network permutes the numbers below a power of two, and cycle walking restricts it to the numbers below n. All
arithmetic is on unsigned 64-bit integers and wraps around. `/` divides integers, `^` is exclusive or.

    GOLDEN  = 0x9E3779B97F4A7C15

    mix(z):                          # the finalizer of SplitMix64
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB
        return z ^ (z >> 31)

    make_round_keys(seed, epoch):    # any list of numbers; the order of rows uses these two
        h = 0
        for number in (seed, epoch): h = mix(h + number + GOLDEN)
        return [mix(h + r * GOLDEN) for r in 1 ... 8]

    permute(i, n, keys):             # 0 <= i < n; the result, too
        if n == 1: return 0
        bits = the bits of n - 1, but at least 6    # fewer make some orders of few rows more likely than others
        low  = bits - bits / 2       # bits of the low half
        repeat:
            left, right = i >> low, i & (2**low - 1)
            for r in 0 ... 7:
                if r is even: left  = left  ^ (mix(right ^ keys[r]) & (2**(bits / 2) - 1))
                else:         right = right ^ (mix(left  ^ keys[r]) & (2**low - 1))
            i = left << low | right
        until i < n
        return i

Sources: Black and Rogaway, "Ciphers with arbitrary finite domains" (2002), for cycle walking; Steele, Lea and Flood,
"Fast splittable pseudorandom number generators" (2014), for the mixing function.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

ROUNDS = 8
MIN_BITS = 6
_WORD_MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
_FIRST_MULTIPLIER, _SECOND_MULTIPLIER = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
#: Consecutive indices are permuted this many at a time: 0.2 microseconds each, instead of 2 in batches of 64.
WINDOW = 4096


def make_round_keys(*numbers: int) -> list[int]:
    """Make the keys of the rounds, from any non-negative numbers, such as a seed and an epoch."""
    state = 0
    for number in numbers:
        state = _mix((state + number + GOLDEN) & _WORD_MASK)
    return [_mix((state + index * GOLDEN) & _WORD_MASK) for index in range(1, ROUNDS + 1)]


def permute(indices: NDArray[np.int64], n: int, round_keys: list[int], *, inverse: bool = False) -> NDArray[np.int64]:
    """Permute indices below n; with `inverse`, find the indices that the permutation takes to the given ones.

    Args:
        indices: int64, each at least 0 and below `n`.
        n: the size of the domain, at least 1 and below 2**63.
        round_keys: from `make_round_keys`.
        inverse: whether to apply the inverse.

    Returns:
        int64, as many as `indices`. With more than 32 rows, each takes two passes on average, at most.

    >>> import numpy as np
    >>> permute(np.arange(10), 10, make_round_keys(0, 0)).tolist()
    [1, 4, 9, 2, 0, 3, 8, 7, 6, 5]

    """
    bits = max((n - 1).bit_length(), MIN_BITS)
    if n == 1:
        return np.zeros(len(indices), dtype=np.int64)
    result = np.asarray(indices, dtype=np.uint64)
    result = _run_network(result, bits, round_keys, inverse)
    outside = np.flatnonzero(result >= np.uint64(n))
    while len(outside):
        result[outside] = _run_network(result[outside], bits, round_keys, inverse)
        outside = outside[result[outside] >= np.uint64(n)]
    return result.view(np.int64)


def _run_network(numbers: NDArray[np.uint64], bits: int, round_keys: list[int], inverse: bool) -> NDArray[np.uint64]:
    """Run one pass of all rounds over numbers below 2**bits."""
    low_bits = np.uint64(bits - bits // 2)
    masks = np.uint64((1 << bits // 2) - 1), np.uint64((1 << int(low_bits)) - 1)
    halves = [numbers >> low_bits, numbers & masks[1]]
    order = range(ROUNDS)
    for round_index in reversed(order) if inverse else order:
        half_index = round_index % 2
        halves[half_index] ^= mix_words(halves[1 - half_index] ^ np.uint64(round_keys[round_index])) & masks[half_index]
    return halves[0] << low_bits | halves[1]


def _mix(z: int) -> int:
    z = ((z ^ (z >> 30)) * _FIRST_MULTIPLIER) & _WORD_MASK
    z = ((z ^ (z >> 27)) * _SECOND_MULTIPLIER) & _WORD_MASK
    return z ^ (z >> 31)


def mix_words(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix each number as `mix` in this module's docstring does; the array given is overwritten."""
    z ^= z >> np.uint64(30)
    z *= np.uint64(_FIRST_MULTIPLIER)
    z ^= z >> np.uint64(27)
    z *= np.uint64(_SECOND_MULTIPLIER)
    z ^= z >> np.uint64(31)
    return z


@dataclass(frozen=True)
class RowOrder:
    """The order of `n_rows` rows in each epoch, by a seed; of chunks of neighbouring rows if `chunk` is more than 1.

    The chunks are permuted; within a chunk the rows keep their order. The last chunk may be shorter. In memory are only
    the results for the last window of consecutive indices.

    >>> import numpy as np
    >>> RowOrder(7, seed=1).rows(np.arange(7), epoch=0).tolist()
    [2, 0, 1, 4, 6, 5, 3]
    >>> RowOrder(7, seed=1, chunk=2).rows(np.arange(7), epoch=0).tolist()
    [4, 5, 0, 1, 2, 3, 6]

    """

    n_rows: int
    seed: int
    chunk: int = 1
    salt: tuple[int, ...] = ()  # numbers that distinguish several orders of a seed
    _cache: dict[str, tuple[int, int, NDArray[np.int64]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def rows(self, indices: NDArray[np.int64], epoch: int) -> NDArray[np.int64]:
        """Find the rows at these indices of an epoch: int64. Indices below 0 or from `n_rows` on raise IndexError."""
        if len(indices) == 0:
            return np.empty(0, dtype=np.int64)
        first, last = int(indices.min()), int(indices.max())
        if first < 0 or last >= self.n_rows:
            raise IndexError(f"index {first if first < 0 else last} is outside 0 to {self.n_rows - 1}")
        window_epoch, start, window = self._cache.get("window", (-1, 0, np.empty(0, dtype=np.int64)))
        if window_epoch != epoch or first < start or last >= start + len(window):
            is_next = window_epoch == epoch and 0 <= first - start <= len(window) + WINDOW  # the reader goes forward
            if last - first >= WINDOW or not (is_next or first == 0):
                self._cache["window"] = epoch, first, window[:0]
                return self._compute(indices, epoch)
            start, window = first, self._compute(np.arange(first, min(first + WINDOW, self.n_rows)), epoch)
            self._cache["window"] = epoch, start, window
        return window[indices - start]

    def _compute(self, indices: NDArray[np.int64], epoch: int) -> NDArray[np.int64]:
        round_keys = make_round_keys(self.seed, epoch, *self.salt)
        if self.chunk == 1:
            return permute(indices, self.n_rows, round_keys)
        n_chunks = -(-self.n_rows // self.chunk)
        n_missing = n_chunks * self.chunk - self.n_rows  # rows that the last chunk lacks
        if n_missing:  # where the last chunk lies, the indices after it move up
            last_chunk = int(permute(np.array([n_chunks - 1]), n_chunks, round_keys, inverse=True)[0])
            indices = indices + n_missing * (indices >= (last_chunk + 1) * self.chunk - n_missing)
        return permute(indices // self.chunk, n_chunks, round_keys) * self.chunk + indices % self.chunk

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_cache": {}}
