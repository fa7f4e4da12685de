"""Learning merges from word counts: sets up the kernel `_trainer.pyx`, drives it, and makes a tokenizer's spec."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from functools import partial
from itertools import zip_longest
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bpe.base._team import Team
from bpe.base.memory_limits import in_megabytes
from bpe.base.progress import ProgressLike, progress_bar, progress_note
from bpe.base.threads import team_threads
from bpe.count.word_counts import WordCounts
from bpe.errors import FormatError, pluralize
from bpe.pretokenize.pretokenizer import PipelinePretokenizer, Pretokenizer
from bpe.pretokenize.steps import Metaspace
from bpe.training._trainer import Trainer
from bpe.training.checkpoint import FIX, Checkpoint
from bpe.training.config import TrainConfig
from bpe.training.job import TrainingJob
from bpe.training.kernel_input import MAX_16BIT_TOKENS, InitialTokens, Words, make_initial_tokens, words_of
from bpe.training.memory import LEAST_FOR_PAIRS, memory_for_pairs
from bpe.vocab.after_encoding import ByteFallback, DecoderStep, Fuse, Replace, Strip
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.training_record import Training
from bpe.vocab.vocabulary import ID_LIMIT, NONE, ORDINARY, SPECIAL, Vocabulary

STOPS = {1: "no pairs left", 2: "min_frequency"}
#: The kernel learns up to this many merges per call. With more than MANY_WORDS words it starts with one, and doubles
#: the number after each call that took less than SHORT_CALL seconds, so that progress is reported in time.
MERGES_PER_CALL = 256
MANY_WORDS, SHORT_CALL = 1_000_000, 0.1
#: The most memory for lists and tables of pairs: bytes for each symbol, beside 4 * LEAST_FOR_PAIRS. All training puts
#: at most three positions in lists for each symbol, of 4 bytes each; more memory would only be refused by a small
#: machine.
MAX_PER_SYMBOL = 64


log = logging.getLogger("bpe")


class MergeLearner(Protocol):
    """What learns merges: a `Trainer`, or several in step."""

    stop: int
    teams: tuple[Team, ...]

    @property
    def n_tokens(self) -> int:
        """How many tokens there are."""

    def run(self, most: int, most_tokens: int) -> list[tuple[int, int, int, int]]:
        """Learn up to `most` merges (left, right, token, count) while there are fewer than `most_tokens` tokens."""

    def merges(self) -> NDArray[np.int64]:
        """All merges learned: int64 (n, 4)."""

    def removed(self) -> NDArray[np.int64]:
        """By how many tokens each merge made the corpus shorter: int64 (n,)."""

    def spell_token(self, token: int) -> bytes:
        """The bytes of a token."""

    def vocabulary(self) -> tuple[bytes, NDArray[np.int64], NDArray[np.bool_]]:
        """All tokens: (their bytes end to end, int64 offsets (n + 1,), whether each ends with the mark)."""


def learn_merges(
    job: TrainingJob, counts: WordCounts, config: TrainConfig, saved: Checkpoint | None
) -> tuple[TokenizerSpec, Training, NDArray[np.int64]]:
    """Learn merges from word counts.

    Algorithm: Sennrich, Haddow and Birch, "Neural machine translation of rare words with subword units" (ACL 2016),
    with incremental pair counts; see `bpe/training/_trainer.pyx`.

    Args:
        job: the training.
        counts: the words; cleared if the caller of `bpe.train` did not give them.
        config: the config of the job, or of one stage of it.
        saved: the checkpoint whose merges are learned again first, and where new ones are saved.

    Returns:
        (The tokenizer, the record of the training, the count of each merge's pair when it was merged.)

    Raises:
        ValueError: for an empty corpus, words that are not UTF-8 in a character model, counts whose pairs overflow 64
            bits, an alphabet that does not fit vocab_size, options that contradict each other, or a `max_memory` that
            the symbols do not fit in.

    """
    began = time.perf_counter()
    with progress_note(config.progress, "index"):
        words = words_of(counts, config)
        job.clear(counts)
        initial = make_initial_tokens(words, config)
        target, n_words, extent = choose_target(initial, config), len(words.counts), words.extent(config)
        merges = max(target - len(initial.tokens), 0)
        if config.num_merges is not None:
            merges = min(merges, config.num_merges)
        trainer = make_trainer(words, config, initial, merges, max_memory=job.max_memory, threads=job.threads)
        del words, initial  # the merges need the memory of their arrays
    run_merges(trainer, config, target, saved, n_words)
    spec = make_spec(counts, config, *trainer.vocabulary(), trainer.merges())
    return spec, record(trainer, n_words, began, extent, config), trainer.merges()[:, 3]


def make_initial_spec(counts: WordCounts, parts: Sequence[Words], config: TrainConfig) -> TokenizerSpec:
    """The tokenizer that a training on these words, counted in parts, starts from: one without merges.

    Args:
        counts: counts with the settings of all parts.
        parts: the words.
        config: the config.

    Raises:
        ValueError: as `learn_merges`.

    """
    codes = max(len(each.inner) for each in parts)
    inner, last = np.zeros(codes, np.int64), np.zeros(codes, np.int64)
    for each in parts:
        inner[: len(each.inner)] += each.inner
        last[: len(each.last)] += each.last
    none = np.zeros(0, np.int64)
    words = Words(np.zeros(0, np.uint8), np.zeros(1, np.int64), none, inner, last, 0)
    initial = make_initial_tokens(words, config)
    choose_target(initial, config)
    trainer = make_trainer(words, config, initial, 0)
    return make_spec(counts, config, *trainer.vocabulary(), trainer.merges())


def choose_target(initial: InitialTokens, config: TrainConfig) -> int:
    """The most tokens that the result may have.

    Raises:
        ValueError: for a size that the initial tokens do not fit in.

    """
    base = len(initial.tokens)
    target: int = ID_LIMIT - config.alphabet.first_id
    if target < base:
        raise ValueError(
            f"first_id is {config.alphabet.first_id}; with {pluralize(base, 'initial token')} it must be at most "
            f"{ID_LIMIT - base}, since ids are below {ID_LIMIT}"
        )
    if config.vocab_size is not None:
        least = min((config.vocab_size, *config.sizes))
        if least < base:
            raise ValueError(
                f"vocab_size is {least}, but the alphabet has {pluralize(base - config.n_lead, 'symbol')}, "
                f"with {pluralize(len(config.reserved), 'special token')} beside it"
                + (" and the tokens of 256 bytes" if config.alphabet.byte_fallback else "")
                + f"; it must be at least {base}"
                + ("" if config.chars or config.alphabet.initial is not None else ", or give bpe.Alphabet('corpus')")
            )
        target = min(target, config.vocab_size)
    return target


# The kernel -----------------------------------------------------------------------------------------------------------


#: Arguments of every `Trainer` that change its speed and memory, never its result. Tests set them.
tuning: dict[str, Any] = {}


def make_trainer(
    words: Words,
    config: TrainConfig,
    initial: InitialTokens,
    merges: int,
    *,
    max_memory: int | None = None,
    threads: int = 1,
    track_all_pairs: bool = False,
) -> Trainer:
    """A kernel that holds the words as an array of symbols.

    Args:
        words: the words.
        config: the rules for the next merge.
        initial: the initial tokens.
        merges: the most merges that it will learn.
        max_memory: the most bytes that the process may have; None for no limit.
        threads: with more than one, run merges within `team_threads(*trainer.teams)`.
        track_all_pairs: track every pair, however rare, so that pairs can be given.

    Raises:
        ValueError: for too little memory for the symbols, or to track every pair.

    """
    memory = 0
    if max_memory is not None:
        memory = memory_for_pairs(words, max_memory, len(initial.tokens), len(initial.tokens) + merges)
        if track_all_pairs and memory < 12 * words.symbols + LEAST_FOR_PAIRS:
            more = 2 * (12 * words.symbols + LEAST_FOR_PAIRS - memory)
            raise ValueError(
                f"max_memory leaves {in_megabytes(memory)} for the pairs of {pluralize(words.symbols, 'symbol')}, too "
                f"little to track all of them; raise it by {in_megabytes(more)} for each language"
            )
        memory = min(memory, MAX_PER_SYMBOL * words.symbols + 4 * LEAST_FOR_PAIRS)
    chosen = {
        "memory": memory,
        "strict": max_memory is not None,
        "threads": threads,
        "max_16bit_tokens": MAX_16BIT_TOKENS,
    }
    return Trainer(words, initial, config, merges, track_all_pairs=track_all_pairs, **(chosen | tuning))


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
                    f"merge {done + i} is {_describe_merge(was)}, but this training "
                    + ("ends before it" if now is None else f"learns {_describe_merge(now)}")
                )
        done += len(again)
    return done


def _describe_merge(merge: Sequence[int]) -> str:
    left, right, token, count = merge
    return f"of tokens {left} and {right} into {token}, {pluralize(count, 'time')}"


def run_merges(trainer: MergeLearner, config: TrainConfig, target: int, saved: Checkpoint | None, words: int) -> None:
    """Learn the merges of the checkpoint again, and then more: up to `target` tokens, or `config.num_merges`.

    The kernel runs without the GIL; signals are handled between its calls. However the loop ends, the merges so far
    are saved in the checkpoint. With many `words` the first merges take seconds each, so the first calls learn few.
    """
    on_merge = config.on_merge
    per_call = MERGES_PER_CALL if words < MANY_WORDS else 1
    most = config.num_merges if config.num_merges is not None else ID_LIMIT
    spell = partial(_spell_token, trainer, config.chars)
    with team_threads(*trainer.teams):
        done = _resume(trainer, saved, most, target, config.progress)
        total = _count_possible(trainer, done, most, target)
        try:
            with progress_bar(config.progress, "merge", total, "merges", done) as bar:
                while done < most:
                    called = time.monotonic()
                    merges = trainer.run(min(per_call, most - done) if on_merge is None else 1, target)
                    done += len(merges)
                    if time.monotonic() - called < SHORT_CALL:
                        per_call = min(2 * per_call, MERGES_PER_CALL)
                    if merges:
                        bar(len(merges), partial(spell, merges[-1][2]), merges[-1][3])
                        if on_merge is not None:
                            left, right, token, count = merges[0]
                            on_merge(done, spell(left), spell(right), spell(token), count)
                        if saved is not None:
                            saved.keep(trainer.merges)
                    if trainer.stop or not merges:
                        break
        finally:
            if saved is not None:
                saved.try_save(trainer.merges())


def _resume(
    trainer: MergeLearner, checkpoint: Checkpoint | None, most: int, target: int, progress: ProgressLike
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
    total = _count_possible(trainer, done, most, target) or "?"
    log.info("resuming at merge %s of %s, from the checkpoint %s", done, total, checkpoint.path)
    return done


def _count_possible(trainer: MergeLearner, done: int, most: int, target: int) -> int | None:
    """The most merges in all, the `done` ones included; None if only the pairs limit them."""
    total = min(most, done + target - trainer.n_tokens)
    return total if total < ID_LIMIT // 2 else None


def _spell_token(trainer: MergeLearner, chars: bool, token: int) -> Any:
    """A token as `on_merge` receives it: bytes, or str in a character model."""
    data = trainer.spell_token(token)
    return data.decode() if chars else data


def record(trainer: MergeLearner, words: int, began: float, extent: tuple[int, int], config: TrainConfig) -> Training:
    """The record of a training that began at `began`. Logs a warning if it stopped early."""
    merges, tokens = len(trainer.merges()), trainer.n_tokens
    stopped = STOPS.get(trainer.stop)
    if stopped:
        learned, size = pluralize(merges, "merge"), pluralize(tokens, "token")
        log.warning("training stopped after %s: %s; %s, fewer than requested", learned, stopped, size)
    return Training(stopped, merges, words, time.perf_counter() - began, _make_curve(trainer, extent, config.sizes))


def _make_curve(
    trainer: MergeLearner, extent: tuple[int, int], sizes: Sequence[int]
) -> tuple[tuple[int, int, float], ...]:
    """`Training.curve`: rows after 1, 2, 4, … merges, at each of the sizes of the vocabulary, and at the end."""
    n_bytes, n_tokens = extent
    merges, lengths = trainer.merges(), n_tokens - np.cumsum(trainer.removed())
    n = len(merges)
    after = {1 << power for power in range(n.bit_length())} | {n}
    after.update(n - (trainer.n_tokens - size) for size in sizes if size < trainer.n_tokens)
    return tuple((k, int(merges[k - 1, 3]), n_bytes / max(int(lengths[k - 1]), 1)) for k in sorted(after) if 0 < k <= n)


# The result -----------------------------------------------------------------------------------------------------------


def make_decoder(pretokenizer: Pretokenizer | None, byte_fallback: bool) -> tuple[DecoderStep, ...] | None:
    """The decoder steps of a trained tokenizer, which undo byte fallback and Metaspace; None if there is neither."""
    steps: list[DecoderStep] = []
    strips: list[DecoderStep] = []
    for step in pretokenizer.steps if isinstance(pretokenizer, PipelinePretokenizer) else ():
        if isinstance(step, Metaspace):
            steps.append(Replace(step.replacement, " "))
            if step.prepend_scheme != "never":
                strips.append(Strip(" ", 1, 0))
    if byte_fallback:
        steps.append(ByteFallback())
    return (*steps, Fuse(), *strips) if steps else None


def make_spec(
    counts: WordCounts,
    config: TrainConfig,
    blob: bytes,
    offsets: NDArray[np.int64],
    ends: NDArray[np.bool_],
    rows: NDArray[np.int64],
) -> TokenizerSpec:
    """The tokenizer with these tokens and merges, as a `MergeLearner` gives them; ids begin at `first_id`.

    Arrays only: tokens may be millions.
    """
    first, lead = config.alphabet.first_id, len(config.reserved)
    most = 64 * len(ends) + 1_000_000 - len(ends)
    if first > most:
        raise ValueError(
            f"first_id is {first}, too large for {pluralize(len(ends), 'token')}: ids must be denser; it must be at "
            f"most {most}"
        )
    kinds = np.full(first + len(ends), ORDINARY, dtype=np.uint8)
    kinds[:first] = NONE
    kinds[first : first + lead] = SPECIAL
    vocabulary = Vocabulary.from_arrays(blob, np.concatenate((np.zeros(first, dtype=np.int64), offsets)), kinds)
    ends_word = None
    if config.end_of_word is not None:
        ends_word = np.zeros(vocabulary.limit, dtype=np.bool_)
        ends_word[first:] = ends
    merges = (rows[:, :3] + first).astype(np.int32)
    pairs, results = np.ascontiguousarray(merges[:, :2]), np.ascontiguousarray(merges[:, 2])
    special_ids = {name: first + i for i, name in enumerate(config.reserved)}
    return TokenizerSpec(
        model=config.model,
        vocabulary=vocabulary,
        merges=pairs,
        merge_results=results,
        pretokenizer=counts.pretokenizer,
        normalizer=counts.normalizer,
        special_tokens={name: special_ids[name] for name in config.special_tokens},
        unk_token=config.unk_token,
        byte_fallback=config.alphabet.byte_fallback,
        decoder=make_decoder(counts.pretokenizer, config.alphabet.byte_fallback),
        end_of_word=config.end_of_word,
        end_of_word_glued=config.end_of_word_glued,
        ends_word=ends_word,
    )
