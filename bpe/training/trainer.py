"""Learning merges from word counts.

This module sets up the kernel `bpe/training/_trainer.pyx`, drives it, and builds the tokenizer's spec from its result.
Not here: the alphabet (`bpe/training/alphabet.py`), counting (`bpe/count/counting.py`), the public function
(`bpe/training/train.py`) and checkpoints (`bpe/training/checkpoint.py`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import zip_longest
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bpe.base._team import Team
from bpe.base.memory_limits import in_megabytes, resident
from bpe.base.progress import ProgressLike, progress_bar, progress_note
from bpe.base.threads import helped
from bpe.count.counting import Excess
from bpe.count.word_counts import WordCounts
from bpe.errors import FormatError, counted
from bpe.pretokenize.pretokenizer import Pretokenizer, Steps
from bpe.pretokenize.steps import Metaspace
from bpe.text.character_sets import codes, script_bytes
from bpe.training._trainer import Trainer
from bpe.training.alphabet import Alphabet, splits_bytes_of_digits
from bpe.training.checkpoint import FIX, Checkpoint
from bpe.training.kernel_input import APART, NARROW, NextMerge, Start, Tuning
from bpe.training.merge_rules import Veto
from bpe.training.options import TIE_BREAKS, OnMerge, TrainOptions
from bpe.training.words import Extent, Words, words_of
from bpe.vocab.decoding import ByteFallback, DecoderStep, Fuse, Replace, Strip
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.symbols import BYTE_NAMES
from bpe.vocab.training_record import Training
from bpe.vocab.vocabulary import ID_LIMIT, NONE, ORDINARY, SPECIAL, Vocabulary

STOPS = {1: "no pairs left", 2: "min_frequency"}
#: The kernel learns up to this many merges per call. With more than MANY_WORDS words it starts with one, and doubles
#: the number after each call that took less than SHORT_CALL seconds, so that progress is reported in time.
MERGES_PER_CALL = 256
MANY_WORDS, SHORT_CALL = 1_000_000, 0.1
#: The least memory, in bytes, for lists and tables of pairs. With less, pairs would be recounted too often.
LEAST_FOR_PAIRS = 1 << 24
#: The most memory for them, in bytes for each symbol, on top of four times that. All training puts at most three
#: positions in lists for each symbol, of 4 bytes each; more memory would only be refused by a small machine.
MOST_PER_SYMBOL = 64


log = logging.getLogger("bpe")


class MergeLearner(Protocol):
    """What learns merges: a `Trainer`, or several in step."""

    stop: int
    teams: tuple[Team, ...]

    @property
    def n_tokens(self) -> int:
        """How many tokens there are."""
        ...

    def run(self, most: int, most_tokens: int) -> list[tuple[int, int, int, int]]:
        """Learn up to `most` merges (left, right, token, count) while there are fewer than `most_tokens` tokens."""
        ...

    def merges(self) -> NDArray[np.int64]:
        """All merges learned: int64 (n, 4)."""
        ...

    def removed(self) -> NDArray[np.int64]:
        """By how many tokens each merge made the corpus shorter: int64 (n,)."""
        ...

    def spell_token(self, token: int) -> bytes:
        """The bytes of a token."""
        ...

    def vocabulary(self) -> tuple[bytes, NDArray[np.int64], NDArray[np.bool_]]:
        """All tokens: (their bytes end to end, int64 offsets (n + 1,), whether each ends with the mark)."""
        ...


@dataclass(frozen=True)
class Execution:
    """How a training is carried out; nothing here changes its result.

    Attributes:
        on_merge: as for `bpe.train`.
        progress: likewise.
        checkpoint: the merges to learn again first, and where new ones are saved; or None.
        consume: clear the counts, to save their memory.
        max_memory: the most bytes that the process may have; None for no limit.
        threads: the number of threads.

    """

    on_merge: OnMerge | None = None
    progress: ProgressLike = False
    checkpoint: Checkpoint | None = None
    consume: bool = False
    max_memory: int | None = None
    threads: int = 1


def learn(counts: WordCounts, options: TrainOptions, execution: Execution) -> tuple[TokenizerSpec, Training]:
    """Learn merges from word counts.

    Algorithm: Sennrich, Haddow and Birch, "Neural machine translation of rare words with subword units" (ACL 2016),
    with incremental pair counts; see `bpe/training/_trainer.pyx`.

    Raises:
        ValueError: for an empty corpus, words that are not UTF-8 in a character model, counts whose pairs overflow 64
            bits, an alphabet that does not fit vocab_size, options that contradict each other, or a `max_memory` that
            the symbols do not fit in.

    """
    return learn_with_counts(counts, options, execution)[:2]


def learn_with_counts(
    counts: WordCounts, options: TrainOptions, execution: Execution
) -> tuple[TokenizerSpec, Training, NDArray[np.int64]]:
    """As `learn`, with the count of each merge's pair when it was merged."""
    began = time.perf_counter()
    with progress_note(execution.progress, "index"):
        trainer, target, n_words, extent = _start_trainer(counts, options, execution)
    merges = run_merges(trainer, options, target, execution, n_words)
    spec = _spec(counts, options, trainer)
    return spec, training_of(trainer, merges, n_words, began, extent, options), trainer.merges()[:, 3]


def _resume(
    trainer: MergeLearner, checkpoint: Checkpoint | None, options: TrainOptions, target: int, progress: ProgressLike
) -> int:
    """Learn the merges of a checkpoint again; returns their number, 0 without a checkpoint."""
    if checkpoint is None or not len(checkpoint.merges):
        return 0
    with progress_note(progress, "index"):
        try:
            done = replay(trainer, checkpoint.merges)
        except ValueError as error:
            raise FormatError(
                f"the checkpoint is not of this training, or altered: {error}; {FIX}", path=checkpoint.path
            ) from None
    most = _most_merges(trainer, done, options, target)
    log.info("resuming at merge %s of %s, from the checkpoint %s", done, most or "?", checkpoint.path)
    return done


def _start_trainer(counts: WordCounts, options: TrainOptions, execution: Execution) -> tuple[Trainer, int, int, Extent]:
    """(The kernel with its symbols written, the most tokens of the result, the number of words, the corpus's length).

    The arrays of the words are freed when this returns: the merges need the memory.
    """
    words = words_of(counts, options)
    if execution.consume:
        counts.clear()
    start, target = start_of(words, options)
    merges = max(target - len(start.tokens), 0)
    if options.num_merges is not None:
        merges = min(merges, options.num_merges)
    most = execution.max_memory
    memory = None if most is None else memory_for_pairs(words, most, len(start.tokens), len(start.tokens) + merges)
    trainer = make_trainer(words, options, start, merges, memory, execution.threads)
    return trainer, target, len(words.counts), words.extent(options)


def initial_spec(counts: WordCounts, parts: Sequence[Words], options: TrainOptions) -> TokenizerSpec:
    """The tokenizer that a training on these words, counted in parts, starts from: one without merges.

    Args:
        counts: counts with the settings of all parts.
        parts: the words.
        options: the options.

    Raises:
        ValueError: as `learn`.

    """
    codes = max(len(each.inner) for each in parts)
    inner, last = np.zeros(codes, np.int64), np.zeros(codes, np.int64)
    for each in parts:
        inner[: len(each.inner)] += each.inner
        last[: len(each.last)] += each.last
    none = np.zeros(0, np.int64)
    words = Words(np.zeros(0, np.uint8), np.zeros(1, np.int64), none, inner, last, 0)
    start, _ = start_of(words, options)
    return _spec(counts, options, make_trainer(words, options, start, 0))


# Words and alphabet ---------------------------------------------------------------------------------------------------


def start_of(words: Words, options: TrainOptions) -> tuple[Start, int]:
    """(The tokens that training starts from, the most tokens that the result may have)."""
    alphabet = Alphabet(words, options)
    target = _target(options, alphabet)
    names = [*options.reserved, *(BYTE_NAMES if options.byte_fallback else ())]
    tokens = [(name.encode(), False, True, 0) for name in names]
    tokens += [(*symbol, False, 1) for symbol in alphabet.symbols]
    return Start(int(options.chars), tokens, alphabet.inner, alphabet.last, alphabet.mark), target


def _target(options: TrainOptions, alphabet: Alphabet) -> int:
    """The most tokens that the result may have."""
    base = options.n_lead + len(alphabet.symbols)
    target = ID_LIMIT - options.first_id
    if target < base:
        raise ValueError(
            f"first_id is {options.first_id}; with {counted(base, 'initial token')} it must be at most "
            f"{ID_LIMIT - base}, since ids are below {ID_LIMIT}"
        )
    if options.vocab_size is not None:
        least = min((options.vocab_size, *options.sizes))
        if least < base:
            raise ValueError(
                f"vocab_size is {least}, but the alphabet has {counted(len(alphabet.symbols), 'symbol')}, "
                f"with {counted(len(options.reserved), 'special token')} beside it"
                + (" and the tokens of 256 bytes" if options.byte_fallback else "")
                + f"; it must be at least {base}"
                + (
                    ""
                    if options.chars or options.initial_alphabet is not None
                    else ", or pass initial_alphabet='corpus'"
                )
            )
        target = min(target, options.vocab_size)
    return target


# The kernel -----------------------------------------------------------------------------------------------------------


#: Words that were sampled may be fewer than they seem by this factor.
SURELY = 1.1
#: The tuning of every training. Tests replace it.
tuning = Tuning()


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
    symbols = length * (2 if tokens < NARROW else 4 if first >= NARROW else 6)
    needed = _least_memory(held - arrays, arrays, len(words.counts), symbols)
    if needed > max_memory:
        # `arrays` is added because counting with more memory spills less, and so holds more of the words.
        least = (needed + arrays >> 20) + 1 << 20
        raise ValueError(
            f"max_memory is {in_megabytes(max_memory)}, but {counted(len(words.counts), 'distinct word')} of "
            f"{counted(words.symbols, 'symbol')} need {in_megabytes(least)}; raise it to that (saved counts, also in "
            "a checkpoint, are not counted again), or train on less text"
        )
    return (max_memory - held + arrays - symbols) // 2


def _least_memory(rest: int, arrays: int, n_words: int, symbols: int) -> int:
    """The memory in bytes that training needs beside the `rest`, for words in arrays, and the symbols of the kernel."""
    layout = max(symbols + 8 * n_words, 18 * n_words)  # with the order of the words, and while they are sorted
    return rest + max(arrays + layout, 2 * LEAST_FOR_PAIRS + symbols)


def excess_of(options: TrainOptions, max_memory: int) -> Excess:
    """What says, while words are counted, that a training on them alone will need more than `max_memory` bytes."""
    rest = resident()
    width = 2 if (options.vocab_size or options.num_merges or 0) < NARROW else 6

    def excess(blob: NDArray[np.uint8], offsets: NDArray[np.int64], times: int) -> str | None:
        n_words = times * (len(offsets) - 1)
        n_symbols = times * int(np.count_nonzero(blob & 0xC0 != 0x80) if options.chars else len(blob))
        arrays = times * len(blob) + 16 * n_words
        needed = _least_memory(rest, arrays, n_words, width * (n_symbols + 2 * n_words))
        if needed - rest < SURELY * (max_memory - rest):
            return None
        return (
            f"max_memory is {in_megabytes(max_memory)}, but the words counted so far, about {n_words} of "
            f"{n_symbols} symbols, need {in_megabytes(needed + arrays)}; raise it beyond that (a checkpoint keeps the "
            "counts so far), or train on less text"
        )

    return excess


def make_trainer(
    words: Words,
    options: TrainOptions,
    start: Start,
    merges: int,
    memory: int | None = None,
    threads: int = 1,
    *,
    every: bool = False,
) -> Trainer:
    """A kernel that holds the words as an array of symbols.

    Args:
        words: the words.
        start: the initial tokens.
        options: the rule for the next merge.
        merges: the most merges that it will learn.
        memory: the most bytes for lists and tables of pairs; None for no limit.
        threads: with more than one, run merges within `helped(*trainer.teams)`.
        every: track every pair, however rare, so that pairs can be given.

    Raises:
        ValueError: for too little memory to track every pair.

    """
    if every and memory is not None and memory < 12 * words.symbols + LEAST_FOR_PAIRS:
        more = 2 * (12 * words.symbols + LEAST_FOR_PAIRS - memory)
        raise ValueError(
            f"max_memory leaves {in_megabytes(memory)} for the pairs of {counted(words.symbols, 'symbol')}, too little "
            f"to track all of them; raise it by {in_megabytes(more)} for each language"
        )
    if memory is not None:
        memory = min(memory, MOST_PER_SYMBOL * words.symbols + 4 * LEAST_FOR_PAIRS)
    rule = next_merge(options, every)
    return Trainer(
        words,
        start,
        rule,
        merges,
        memory=memory or 0 if tuning.memory is None else tuning.memory,
        strict=memory is not None or tuning.strict,
        tuning=tuning if tuning.threads is not None else replace(tuning, threads=threads),
    )


def next_merge(options: TrainOptions, every: bool) -> NextMerge:
    """The options for the next merge, as the kernel takes them."""
    rules, veto = options.rules, options.rules.veto
    asked: Callable[[bytes, bytes, int], object] | None = veto
    if veto is not None and options.chars:
        asked = partial(_with_str, veto)
    return NextMerge(
        TIE_BREAKS.index(options.tie_break),
        options.min_frequency,
        options.max_token_length if options.max_token_length is not None else 0xFFFFFFFF,
        rules.max_words or 0,
        tuple(string.encode() for string in rules.forbidden),
        rules.whole_characters or splits_bytes_of_digits(options),
        _script_numbers(rules.one_script, splits_bytes_of_digits(options)),
        len((options.end_of_word or "").encode()),
        asked,
        every,
        options.disjoint,
    )


@cache
def _script_numbers(one_script: bool, digits_apart: bool) -> bytes:
    """`NextMerge.scripts`: with `split_digits` in a byte model, the digits of all scripts are apart."""
    numbers = script_bytes() if one_script else b""
    if not digits_apart:
        return numbers
    digits = list(codes("NUMERIC"))
    table = bytearray(numbers).ljust(max(digits) + 1, b"\0")
    for code in digits:
        table[code] = APART
    return bytes(table)


def _with_str(veto: Veto, left: bytes, right: bytes, count: int) -> object:
    return veto(left.decode(), right.decode(), count)


def replay(trainer: MergeLearner, merges: NDArray[np.int64]) -> int:
    """Bring a new trainer to where it was when it had learned these merges; returns how many.

    Training is deterministic, so the merges are learned again and compared, row by row, with those given (as
    `Trainer.merges` returns them).

    Raises:
        ValueError: for merges that this training does not learn.

    """
    done = 0
    while done < len(merges):
        again = trainer.run(min(MERGES_PER_CALL, len(merges) - done), ID_LIMIT)
        for i, (was, now) in enumerate(zip_longest(merges[done : done + MERGES_PER_CALL].tolist(), again)):
            if now is None or tuple(was) != now:
                raise ValueError(
                    f"merge {done + i} is {_described(was)}, but this training "
                    + ("ends before it" if now is None else f"learns {_described(now)}")
                )
        done += len(again)
    return done


def _described(merge: Sequence[int]) -> str:
    left, right, token, count = merge
    return f"of tokens {left} and {right} into {token}, {counted(count, 'time')}"


def run_merges(trainer: MergeLearner, options: TrainOptions, target: int, execution: Execution, words: int) -> int:
    """Learn the merges of the checkpoint again, and then more until there are `target` tokens.

    Args:
        trainer: a new kernel.
        options: the rule for the next merge, and `num_merges`, which ends the training too.
        target: the most tokens.
        execution: `on_merge`, `progress` and `checkpoint`.
        words: the number of distinct words.

    Returns:
        The number of merges.

    """
    with helped(*trainer.teams):
        done = _resume(trainer, execution.checkpoint, options, target, execution.progress)
        return _more_merges(trainer, done, options, target, execution, words)


def _more_merges(
    trainer: MergeLearner, done: int, options: TrainOptions, target: int, execution: Execution, words: int
) -> int:
    """Learn merges, beyond the first `done`, until there are `target` tokens or the number of merges in the options.

    The kernel runs without the GIL; signals are handled between its calls. However the loop ends, the merges so far
    are saved in the checkpoint. With many `words` the first merges take seconds each, so the first calls learn few.
    Returns the number of merges.
    """
    on_merge, checkpoint = execution.on_merge, execution.checkpoint
    per_call = MERGES_PER_CALL if words < MANY_WORDS else 1
    most = options.num_merges if options.num_merges is not None else ID_LIMIT
    spelled = partial(_spelled, trainer, options.chars)
    total = _most_merges(trainer, done, options, target)
    try:
        with progress_bar(execution.progress, "merge", total, "merges", done) as bar:
            while done < most:
                called = time.monotonic()
                merges = trainer.run(min(per_call, most - done) if on_merge is None else 1, target)
                done += len(merges)
                if time.monotonic() - called < SHORT_CALL:
                    per_call = min(2 * per_call, MERGES_PER_CALL)
                if merges:
                    bar(len(merges), partial(spelled, merges[-1][2]), merges[-1][3])
                    if on_merge is not None:
                        left, right, token, count = merges[0]
                        on_merge(done, spelled(left), spelled(right), spelled(token), count)
                    if checkpoint is not None:
                        checkpoint.keep(trainer.merges)
                if trainer.stop or not merges:
                    break
    finally:
        if checkpoint is not None:
            checkpoint.try_save(trainer.merges())
    return done


def _most_merges(trainer: MergeLearner, done: int, options: TrainOptions, target: int) -> int | None:
    """The most merges in all, the `done` ones included; None if only the pairs limit them."""
    most = options.num_merges if options.num_merges is not None else ID_LIMIT
    total = min(most, done + target - trainer.n_tokens)
    return total if total < ID_LIMIT // 2 else None


def _spelled(trainer: MergeLearner, chars: bool, token: int) -> Any:
    """A token as `on_merge` receives it: bytes, or str in a character model."""
    data = trainer.spell_token(token)
    return data.decode() if chars else data


def training_of(
    trainer: MergeLearner, merges: int, words: int, began: float, extent: Extent, options: TrainOptions
) -> Training:
    """The record of a training that began at `began`. Logs a warning if it stopped early."""
    tokens = trainer.n_tokens
    stopped = STOPS.get(trainer.stop)
    if stopped:
        learned, size = counted(merges, "merge"), counted(tokens, "token")
        log.warning("training stopped after %s: %s; %s, fewer than requested", learned, stopped, size)
    return Training(stopped, merges, words, time.perf_counter() - began, _curve(trainer, extent, options.sizes))


def _curve(trainer: MergeLearner, extent: Extent, sizes: Sequence[int]) -> tuple[tuple[int, int, float], ...]:
    """`Training.curve`: rows after 1, 2, 4, … merges, at each of the sizes of the vocabulary, and at the end."""
    merges, lengths = trainer.merges(), extent.tokens - np.cumsum(trainer.removed())
    n = len(merges)
    after = {1 << power for power in range(n.bit_length())} | {n}
    after.update(n - (trainer.n_tokens - size) for size in sizes if size < trainer.n_tokens)
    return tuple(
        (k, int(merges[k - 1, 3]), extent.bytes / max(int(lengths[k - 1]), 1)) for k in sorted(after) if 0 < k <= n
    )


# The result -----------------------------------------------------------------------------------------------------------


def decoder_of_training(pretokenizer: Pretokenizer | None, byte_fallback: bool) -> tuple[DecoderStep, ...] | None:
    """The decoder steps of a trained tokenizer, which undo byte fallback and Metaspace; None if there is neither."""
    steps: list[DecoderStep] = []
    strips: list[DecoderStep] = []
    for step in pretokenizer.steps if isinstance(pretokenizer, Steps) else ():
        if isinstance(step, Metaspace):
            steps.append(Replace(step.replacement, " "))
            if step.prepend_scheme != "never":
                strips.append(Strip(" ", 1, 0))
    if byte_fallback:
        steps.append(ByteFallback())
    return (*steps, Fuse(), *strips) if steps else None


def _spec(counts: WordCounts, options: TrainOptions, trainer: MergeLearner) -> TokenizerSpec:
    """The tokenizer that a trainer has learned."""
    return tokenizer_spec(counts, options, *trainer.vocabulary(), trainer.merges())


def tokenizer_spec(
    counts: WordCounts,
    options: TrainOptions,
    blob: bytes,
    offsets: NDArray[np.int64],
    ends: NDArray[np.bool_],
    rows: NDArray[np.int64],
) -> TokenizerSpec:
    """The tokenizer with these tokens and merges, as a `MergeLearner` gives them; ids begin at `first_id`.

    Arrays only: tokens may be millions.
    """
    first, lead = options.first_id, len(options.reserved)
    most = 64 * len(ends) + 1_000_000 - len(ends)
    if first > most:
        raise ValueError(
            f"first_id is {first}, too large for {counted(len(ends), 'token')}: ids must be denser; it must be at "
            f"most {most}"
        )
    kinds = np.full(first + len(ends), ORDINARY, dtype=np.uint8)
    kinds[:first] = NONE
    kinds[first : first + lead] = SPECIAL
    vocabulary = Vocabulary.from_arrays(blob, np.concatenate((np.zeros(first, dtype=np.int64), offsets)), kinds)
    ends_word = None
    if options.end_of_word is not None:
        ends_word = np.zeros(vocabulary.limit, dtype=np.bool_)
        ends_word[first:] = ends
    merges = (rows[:, :3] + first).astype(np.int32)
    pairs, results = np.ascontiguousarray(merges[:, :2]), np.ascontiguousarray(merges[:, 2])
    special_ids = {name: first + i for i, name in enumerate(options.reserved)}
    return TokenizerSpec(
        model=options.model,
        vocabulary=vocabulary,
        merges=pairs,
        merge_results=results,
        pretokenizer=counts.pretokenizer,
        normalizer=counts.normalizer,
        special_tokens={name: special_ids[name] for name in options.special_tokens},
        unk_token=options.unk_token,
        byte_fallback=options.byte_fallback,
        decoder=decoder_of_training(counts.pretokenizer, options.byte_fallback),
        end_of_word=options.end_of_word,
        end_of_word_glued=options.end_of_word_glued,
        ends_word=ends_word,
    )
