"""Learning: from word counts and options to the merges.

This module checks the options, lays out the words and drives the kernel in `bpe/training/_trainer`. Not here: which
symbols there are (`bpe/training/alphabet.py`), counting (`bpe/count/counting.py`), `bpe.train`, which does it all
(`bpe/training/train.py`), and what is saved on the way (`bpe/training/checkpoint.py`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpe.base.memory_limits import in_megabytes, resident
from bpe.base.progress import ProgressLike, progress_bar, progress_note
from bpe.base.threads import helped
from bpe.count.word_counts import WordCounts
from bpe.errors import FormatError, counted
from bpe.training._trainer import Trainer
from bpe.training.alphabet import Alphabet
from bpe.training.checkpoint import FIX, Checkpoint
from bpe.training.kernel_input import NARROW, MergeRule, Start, Tuning
from bpe.training.options import TIE_BREAKS, OnMerge, TrainOptions
from bpe.training.words import Words, words_of
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.training_record import Training
from bpe.vocab.vocabulary import ID_LIMIT, NONE, ORDINARY, SPECIAL, Vocabulary

STOPS = {1: "no pairs left", 2: "min_frequency"}
#: The kernel makes so many merges per call; of more words than MANY_WORDS few at first, and twice as many after each
#: call that took less than SHORT_CALL seconds, so that progress is seen.
MERGES_PER_CALL = 256
MANY_WORDS, SHORT_CALL = 1_000_000, 0.1
#: Fewer bytes for lists and tables of pairs would mean to count them again and again.
LEAST_FOR_PAIRS = 1 << 24


log = logging.getLogger("bpe")


def learn(
    counts: WordCounts,
    options: TrainOptions,
    on_merge: OnMerge | None = None,
    progress: ProgressLike = False,
    checkpoint: Checkpoint | None = None,
    *,
    consume: bool = False,
    max_memory: int | None = None,
    threads: int = 1,
) -> tuple[TokenizerSpec, Training]:
    """Learn merges from word counts; the merges in a checkpoint are made first, and it is kept up to date.

    With `consume` the counts are emptied on the way, which saves their memory; the process keeps to `max_memory` bytes.

    Algorithm: Sennrich, Haddow and Birch, "Neural machine translation of rare words with subword units" (ACL 2016),
    with incremental pair counts; see `bpe/training/_trainer.pyx`.

    Raises:
        ValueError: for an empty corpus, words that are not UTF-8 in a character model, counts whose pairs overflow 64
            bits, an alphabet that does not fit vocab_size, options that contradict each other, or a `max_memory` that
            the symbols do not fit in.

    """
    began = time.perf_counter()
    with progress_note(progress, "index"):
        trainer, target, n_words = _begun(counts, options, consume, max_memory, threads)
    with helped(trainer.team):
        done = 0
        if checkpoint is not None and len(checkpoint.merges):
            with progress_note(progress, "index"):
                done = _resumed(trainer, checkpoint)
            most = _most_merges(trainer, done, options, target)
            log.info("resuming at merge %s of %s, from the checkpoint %s", done, most or "?", checkpoint.path)
        made = run_merges(trainer, done, options, target, on_merge, progress, checkpoint, n_words)
    spec = _spec(counts, options, trainer)
    return spec, training_of(trainer, made, len(spec.vocabulary), n_words, began)


def _resumed(trainer: Trainer, checkpoint: Checkpoint) -> int:
    """Make the merges that a checkpoint has; how many."""
    try:
        return replay(trainer, checkpoint.merges)
    except ValueError as error:
        raise FormatError(
            f"the checkpoint is not of this training, or altered: {error}; {FIX}", path=checkpoint.path
        ) from None


def _begun(
    counts: WordCounts, options: TrainOptions, consume: bool, max_memory: int | None, threads: int
) -> tuple[Trainer, int, int]:
    """(The kernel with its symbols written, how many tokens there may be at the end, how many words there are).

    The words' arrays are gone when this returns: the merges need the memory.
    """
    words = words_of(counts, options)
    if consume:
        counts.clear()
    alphabet = Alphabet(words, options)
    target = _target(options, alphabet)
    tokens = [(name.encode(), False, True, 0) for name in options.reserved]
    tokens += [(*symbol, False, 1) for symbol in alphabet.symbols]
    start = Start(int(options.chars), tokens, alphabet.inner, alphabet.last, alphabet.mark)
    merges = max(target - len(tokens), 0)
    if options.num_merges is not None:
        merges = min(merges, options.num_merges)
    memory = None if max_memory is None else _for_pairs(words, max_memory, len(tokens) + merges)
    return make_trainer(words, options, start, merges, memory, threads), target, len(words.counts)


# Words and alphabet ---------------------------------------------------------------------------------------------------


def _target(options: TrainOptions, alphabet: Alphabet) -> int:
    """How many tokens there may be at the end."""
    base = len(options.reserved) + len(alphabet.symbols)
    target = ID_LIMIT - options.first_id
    if target < base:
        raise ValueError(
            f"first_id is {options.first_id}, and {counted(base, 'token')} from there would have ids out of range; "
            f"it must be at most {ID_LIMIT - base}"
        )
    if options.vocab_size is not None:
        if options.vocab_size < base:
            raise ValueError(
                f"vocab_size is {options.vocab_size}, but the alphabet has {counted(len(alphabet.symbols), 'symbol')}, "
                f"with {counted(len(options.reserved), 'special token')} beside it; it must be at least {base}"
                + (
                    ""
                    if options.chars or options.initial_alphabet is not None
                    else ", or pass initial_alphabet='corpus'"
                )
            )
        target = min(target, options.vocab_size)
    return target


# The kernel -----------------------------------------------------------------------------------------------------------


#: Replaced by tests.
tuning = Tuning()


def _for_pairs(words: Words, max_memory: int, tokens: int) -> int:
    """How many bytes the kernel may take for pairs, beside the symbols, which must fit in any case.

    Raises:
        ValueError: where they do not.

    """
    held = resident()
    arrays = words.blob.nbytes + words.offsets.nbytes + words.counts.nbytes
    cells = words.cells + 2 * len(words.counts) + 1
    symbols = cells * (2 if tokens < NARROW else 6)  # those of 16 bits are there until those of 32 bits are written
    n_words = len(words.counts)
    layout = max(symbols + 8 * n_words, 18 * n_words)  # with the order of the words, and while they are sorted
    needed = max(held + layout, held - arrays + 2 * LEAST_FOR_PAIRS + symbols)
    if needed > max_memory:
        # Counting with more memory keeps more of it: a table of the words where there were parts of it on disk.
        least = (needed + arrays >> 20) + 1 << 20
        raise ValueError(
            f"max_memory is {in_megabytes(max_memory)}, but {counted(len(words.counts), 'distinct word')} of "
            f"{counted(words.cells, 'symbol')} need {in_megabytes(least)}; raise it to that (counts that are saved, "
            "also in a checkpoint, need not be made again), or train on less text"
        )
    return (max_memory - held + arrays - symbols) // 2


def make_trainer(
    words: Words, options: TrainOptions, start: Start, merges: int, memory: int | None = None, threads: int = 1
) -> Trainer:
    """The kernel with the words laid out as symbols.

    There will be at most so many `merges`; lists and tables of pairs take `memory` bytes, None what they need. With
    more than one thread, merges have to be made while the trainer's team is `helped`.
    """
    longest = options.max_token_length if options.max_token_length is not None else 0xFFFFFFFF
    rule = MergeRule(TIE_BREAKS.index(options.tie_break), options.min_frequency, longest)
    return Trainer(
        words,
        start,
        rule,
        merges,
        memory=memory or 0 if tuning.memory is None else tuning.memory,
        strict=memory is not None or tuning.strict,
        tuning=tuning if tuning.threads is not None else replace(tuning, threads=threads),
    )


def replay(trainer: Trainer, merges: NDArray[np.int64]) -> int:
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


def run_merges(
    trainer: Trainer,
    done: int,
    options: TrainOptions,
    target: int,
    on_merge: OnMerge | None = None,
    progress: ProgressLike = False,
    checkpoint: Checkpoint | None = None,
    words: int = 0,
) -> int:
    """Make merges after the `done` first until there are `target` tokens or as many merges as the options say.

    The GIL is let go within the kernel, and a signal is heard between calls. Whatever ends the loop, the merges made
    by then are in the checkpoint. Of very many `words` the first merges take seconds each, so the first calls make few.
    Returns how many merges there are.
    """
    per_call = MERGES_PER_CALL if words < MANY_WORDS else 1
    most = options.num_merges if options.num_merges is not None else ID_LIMIT
    spelled = partial(_spelled, trainer, options.chars)
    total = _most_merges(trainer, done, options, target)
    try:
        with progress_bar(progress, "merge", total, "merges", done) as bar:
            while done < most:
                called = time.monotonic()
                made = trainer.run(min(per_call, most - done) if on_merge is None else 1, target)
                done += len(made)
                if time.monotonic() - called < SHORT_CALL:
                    per_call = min(2 * per_call, MERGES_PER_CALL)
                if made:
                    bar(len(made), partial(spelled, made[-1][2]), made[-1][3])
                    if on_merge is not None:
                        left, right, token, count = made[0]
                        on_merge(done, spelled(left), spelled(right), spelled(token), count)
                    if checkpoint is not None:
                        checkpoint.keep(trainer.merges)
                if trainer.stop or not made:
                    break
    finally:
        if checkpoint is not None:
            checkpoint.try_save(trainer.merges())
    return done


def _most_merges(trainer: Trainer, done: int, options: TrainOptions, target: int) -> int | None:
    """How many merges there are to be in all, those done included; None for as many as there are pairs."""
    most = options.num_merges if options.num_merges is not None else ID_LIMIT
    total = min(most, done + target - trainer.n_tokens)
    return total if total < ID_LIMIT // 2 else None


def _spelled(trainer: Trainer, chars: bool, token: int) -> Any:
    """A token as a caller gets it: bytes, or str in a character model."""
    data = trainer.spelled(token)
    return data.decode() if chars else data


def training_of(trainer: Trainer, merges: int, tokens: int, words: int, began: float) -> Training:
    """How a training went that began at `began`; what stopped it early is in the log too."""
    stopped = STOPS.get(trainer.stop)
    if stopped:
        made, there = counted(merges, "merge"), counted(tokens, "token")
        log.warning("training stopped after %s: %s; %s, fewer than asked", made, stopped, there)
    return Training(stopped, merges, words, time.perf_counter() - began)


# The result -----------------------------------------------------------------------------------------------------------


def _spec(counts: WordCounts, options: TrainOptions, trainer: Trainer) -> TokenizerSpec:
    """The tokenizer that a trainer has learned; ids begin at `first_id`. Arrays throughout: there may be millions."""
    first, lead = options.first_id, len(options.reserved)
    blob, offsets, ends = trainer.vocabulary()
    most = 64 * len(ends) + 1_000_000 - len(ends)
    if first > most:
        raise ValueError(
            f"first_id is {first} with only {counted(len(ends), 'token')}; ids must be denser: it must be at "
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
    merges = (trainer.merges()[:, :3] + first).astype(np.int32)
    pairs, made = np.ascontiguousarray(merges[:, :2]), np.ascontiguousarray(merges[:, 2])
    special_ids = {name: first + i for i, name in enumerate(options.reserved)}
    return TokenizerSpec(
        model=options.model,
        vocabulary=vocabulary,
        merges=pairs,
        merge_results=made,
        pretokenizer=counts.pretokenizer,
        normalizer=counts.normalizer,
        special_tokens={name: special_ids[name] for name in options.special_tokens},
        unk_token=options.unk_token,
        end_of_word=options.end_of_word,
        end_of_word_glued=options.end_of_word_glued,
        ends_word=ends_word,
    )
