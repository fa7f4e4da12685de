"""The memory that a training needs, beside the words and before it has begun."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bpe.base.memory_limits import in_megabytes, resident
from bpe.count.counting import ExcessCheck
from bpe.errors import pluralize
from bpe.training.config import TrainConfig
from bpe.training.kernel_input import MAX_16BIT_TOKENS, Words

#: The least memory, in bytes, for lists and tables of pairs. With less, pairs would be recounted too often.
LEAST_FOR_PAIRS = 1 << 24
#: An estimate from a sample may be too high by this factor; only a larger excess ends counting.
SAMPLING_ERROR = 1.1


def memory_for_pairs(words: Words, max_memory: int, first: int, tokens: int) -> int:
    """The memory in bytes that is left for lists and tables of pairs.

    Args:
        words: the words.
        max_memory: the most bytes that the process may have.
        first: the number of tokens that training starts from.
        tokens: the most tokens of the result.

    Raises:
        ValueError: if the symbols do not fit in `max_memory`.

    """
    held = resident()
    arrays = words.memory
    length = words.symbols + 2 * len(words.counts) + 1
    # While symbols are widened, both arrays exist: 2 + 4 bytes each.
    symbols = length * (2 if tokens < MAX_16BIT_TOKENS else 4 if first >= MAX_16BIT_TOKENS else 6)
    needed = _needed_memory(held - arrays, arrays, len(words.counts), symbols)
    if needed > max_memory:
        # `needed + arrays`, up to a whole MB: with more memory, counting spills less and holds more of the words.
        enough = (needed + arrays >> 20) + 1 << 20
        raise ValueError(
            f"max_memory is {in_megabytes(max_memory)}, but {pluralize(len(words.counts), 'distinct word')} of "
            f"{pluralize(words.symbols, 'symbol')} need {in_megabytes(enough)}; raise it to that (saved counts, also "
            "in a checkpoint, are not counted again), or train on less text"
        )
    return (max_memory - held + arrays - symbols) // 2


def _needed_memory(rest: int, arrays: int, n_words: int, symbols: int) -> int:
    """The memory in bytes that training needs beside the `rest`, for words in arrays, and the symbols of the kernel."""
    layout = max(symbols + 8 * n_words, 18 * n_words)  # with the order of the words, and while they are sorted
    return rest + max(arrays + layout, 2 * LEAST_FOR_PAIRS + symbols)


def make_excess_check(config: TrainConfig, max_memory: int) -> ExcessCheck:
    """Make a function that tells, while words are counted, whether training on them needs more than `max_memory`."""
    rest = resident()
    width = 2 if (config.vocab_size or config.num_merges or 0) < MAX_16BIT_TOKENS else 6

    def excess(blob: NDArray[np.uint8], offsets: NDArray[np.int64], times: int) -> str | None:
        n_words = times * (len(offsets) - 1)
        n_symbols = times * int(np.count_nonzero(blob & 0xC0 != 0x80) if config.chars else len(blob))
        arrays = times * len(blob) + 16 * n_words
        needed = _needed_memory(rest, arrays, n_words, width * (n_symbols + 2 * n_words))
        if needed - rest < SAMPLING_ERROR * (max_memory - rest):
            return None
        return (
            f"max_memory is {in_megabytes(max_memory)}, but the words counted so far, about {n_words} of "
            f"{n_symbols} symbols, need {in_megabytes(needed + arrays)}; raise it beyond that (a checkpoint keeps the "
            "counts so far), or train on less text"
        )

    return excess
