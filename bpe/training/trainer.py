"""Learning merges from word counts: sets up the kernel `_trainer.pyx`, drives it, and makes a tokenizer's spec."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bpe.base._team import Team
from bpe.base.memory_limits import format_bytes
from bpe.base.progress import ProgressLike, progress_bar, progress_note
from bpe.base.threads import team_threads
from bpe.count.word_counts import WordCounts
from bpe.errors import ID_LIMIT, FormatError, get_log, pluralize
from bpe.pretokenize.pretokenizer import PipelinePretokenizer, Pretokenizer
from bpe.pretokenize.steps import Metaspace
from bpe.training._trainer import Trainer
from bpe.training.checkpoint import START_OVER, Checkpoint
from bpe.training.config import TrainConfig
from bpe.training.job import MIN_PAIR_MEMORY, LearnedMerges, TrainingJob, compute_pair_memory
from bpe.training.kernel_input import (
    CorpusSize,
    InitialTokens,
    KernelTuning,
    WordArrays,
    build_words,
    make_initial_tokens,
)
from bpe.vocab.output_steps import ByteFallback, DecodeReplace, DecoderStep, DecodeStrip, Fuse
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.training_record import Training
from bpe.vocab.vocabulary import ORDINARY, SPECIAL, UNUSED, Vocabulary

#: `MergeLearner.stop_reason` where no pair is left, or only pairs below min_frequency; 0 while training goes on.
NO_PAIRS, ONLY_RARE_PAIRS = 1, 2
STOP_REASONS = {NO_PAIRS: "no pairs left", ONLY_RARE_PAIRS: "min_frequency"}
#: The kernel learns up to this many merges per call. With more than MANY_WORDS words it starts with one, and doubles
#: the number after each call that took less than SHORT_CALL_SECONDS, so that progress is reported in time.
MERGES_PER_CALL = 256
MANY_WORDS, SHORT_CALL_SECONDS = 1_000_000, 0.1
#: The most memory for lists and tables of pairs: bytes for each symbol, beside 4 * MIN_PAIR_MEMORY. A training lists at
#: most three positions of 4 bytes for each symbol, so more is never used, and a small machine may refuse to reserve it.
MAX_BYTES_PER_SYMBOL = 64


log = get_log()


class MergeLearner(Protocol):
    """What learns merges: a `Trainer`, or several in step. `stop_reason` is 0, or a key of STOP_REASONS."""

    stop_reason: int
    teams: tuple[Team, ...]

    @property
    def n_tokens(self) -> int:
        """The number of tokens."""

    def run(self, max_merges: int, max_tokens: int) -> list[tuple[int, int, int, int]]:
        """Learn up to `max_merges` merges (left, right, token, count) while there are under `max_tokens` tokens."""

    def list_merges(self) -> NDArray[np.int64]:
        """List all merges learned: int64 (n, 4)."""

    def list_removed_counts(self) -> NDArray[np.int64]:
        """List by how many tokens each merge made the corpus shorter: int64 (n,)."""

    def get_token_bytes(self, token: int) -> bytes:
        """Return the bytes of a token."""


def learn_merges(
    job: TrainingJob, counts: WordCounts, config: TrainConfig, checkpoint: Checkpoint | None
) -> LearnedMerges:
    """Learn merges from word counts.

    Algorithm: Sennrich, Haddow and Birch, "Neural machine translation of rare words with subword units" (ACL 2016),
    with incremental pair counts; see `bpe/training/_trainer.pyx`.

    Args:
        job: the training.
        counts: the words; cleared if the caller of `bpe.train` did not give them.
        config: the config of the job, or of one stage of it.
        checkpoint: the checkpoint whose merges are learned again first, and where new ones are saved.

    Raises:
        ValueError: for an empty corpus, words that are not UTF-8 in a character model, counts whose pairs overflow 64
            bits, an alphabet that does not fit vocab_size, options that contradict each other, or a `max_memory` that
            the symbols do not fit in.

    """
    start_time = time.perf_counter()
    with progress_note(config.progress, "index"):
        words = build_words(counts, config, job.threads)
        job.clear_own_counts(counts)
        initial_tokens = make_initial_tokens(words, config)
        n_words, corpus_size = len(words.counts), words.measure_corpus(config)
        vocab_limit = choose_vocab_limit(initial_tokens, config)
        max_merges = max(vocab_limit - len(initial_tokens.tokens), 0)
        if config.num_merges is not None:
            max_merges = min(max_merges, config.num_merges)
        trainer = make_trainer(
            words, config, initial_tokens, max_merges, max_memory=job.max_memory, threads=job.threads
        )
        del words, initial_tokens  # the merges need the memory of their arrays
    run_merges(trainer, config, vocab_limit, checkpoint, n_words)
    spec = make_spec(counts, config, *trainer.list_tokens(), trainer.list_merges())
    record = make_record(trainer, n_words, start_time, corpus_size, config)
    return LearnedMerges(spec, record, trainer.list_merges()[:, 3])


def make_initial_spec(counts: WordCounts, parts: Sequence[WordArrays], config: TrainConfig) -> TokenizerSpec:
    """Make the tokenizer that a training on these words, counted in parts, starts from: one without merges.

    Args:
        counts: counts with the settings of all parts.
        parts: the words.
        config: the config.

    Raises:
        ValueError: as `learn_merges`.

    """
    n_codes = max(len(words_part.inner_counts) for words_part in parts)
    inner_counts, last_counts = np.zeros(n_codes, np.int64), np.zeros(n_codes, np.int64)
    for words_part in parts:
        inner_counts[: len(words_part.inner_counts)] += words_part.inner_counts
        last_counts[: len(words_part.last_counts)] += words_part.last_counts
    no_words = np.zeros(0, np.int64)
    words = WordArrays(np.zeros(0, np.uint8), np.zeros(1, np.int64), no_words, inner_counts, last_counts, 0)
    initial_tokens = make_initial_tokens(words, config)
    choose_vocab_limit(initial_tokens, config)
    trainer = make_trainer(words, config, initial_tokens, 0)
    return make_spec(counts, config, *trainer.list_tokens(), trainer.list_merges())


def choose_vocab_limit(initial_tokens: InitialTokens, config: TrainConfig) -> int:
    """Choose the most tokens that the result may have.

    Raises:
        ValueError: for a size that the initial tokens do not fit in.

    """
    n_initial = len(initial_tokens.tokens)
    vocab_limit: int = ID_LIMIT - config.alphabet.first_id
    if vocab_limit < n_initial:
        raise ValueError(
            f"first_id is {config.alphabet.first_id}; with {pluralize(n_initial, 'initial token')} it must be at most "
            f"{ID_LIMIT - n_initial}, since ids are below {ID_LIMIT}"
        )
    if config.vocab_size is not None:
        min_vocab_size = min((config.vocab_size, *config.vocab_sizes))
        if min_vocab_size < n_initial:
            raise ValueError(
                f"vocab_size is {min_vocab_size}, but the alphabet has "
                f"{pluralize(n_initial - config.n_before_alphabet, 'symbol')}, "
                f"with {pluralize(len(config.reserved_names), 'special token')} beside it"
                + (" and the tokens of 256 bytes" if config.alphabet.byte_fallback else "")
                + f"; it must be at least {n_initial}"
                + (
                    ""
                    if config.is_char_model or config.alphabet.initial is not None
                    else ", or give bpe.Alphabet('corpus')"
                )
            )
        vocab_limit = min(vocab_limit, config.vocab_size)
    return vocab_limit


# The kernel -----------------------------------------------------------------------------------------------------------


#: Values of every trainer's `KernelTuning`; tests set them.
tuning_for_tests: dict[str, Any] = {}


def make_trainer(
    words: WordArrays,
    config: TrainConfig,
    initial_tokens: InitialTokens,
    max_merges: int,
    *,
    max_memory: int | None = None,
    threads: int = 1,
    track_all_pairs: bool = False,
) -> Trainer:
    """Make a kernel that holds the words as an array of symbols.

    Args:
        words: the words.
        config: the rules for the next merge.
        initial_tokens: the initial tokens.
        max_merges: the most merges that it will learn.
        max_memory: the most bytes that the process may have; None for no limit.
        threads: with more than one, run merges within `team_threads(*trainer.teams)`.
        track_all_pairs: track every pair, however rare, so that pairs can be given.

    Raises:
        ValueError: for too little memory for the symbols, or to track every pair.

    """
    memory = 0
    if max_memory is not None:
        memory = compute_pair_memory(
            words, max_memory, len(initial_tokens.tokens), len(initial_tokens.tokens) + max_merges
        )
        if track_all_pairs and memory < 12 * words.n_symbols + MIN_PAIR_MEMORY:
            missing = 2 * (12 * words.n_symbols + MIN_PAIR_MEMORY - memory)
            raise ValueError(
                f"max_memory leaves {format_bytes(memory)} for the pairs of {pluralize(words.n_symbols, 'symbol')}, "
                f"too little to track all of them; raise it by {format_bytes(missing)} for each language"
            )
        memory = min(memory, MAX_BYTES_PER_SYMBOL * words.n_symbols + 4 * MIN_PAIR_MEMORY)
    tuning = replace(KernelTuning(memory, may_grow=max_memory is None, threads=threads), **tuning_for_tests)
    return Trainer(words, initial_tokens, config, max_merges, tuning, track_all_pairs=track_all_pairs)


def replay(trainer: MergeLearner, merges: NDArray[np.int64]) -> int:
    """Bring a new trainer to where it was when it had learned these merges; returns how many.

    Training is deterministic, so the merges are learned again and compared, row by row, with those given (as
    `MergeLearner.list_merges` returns them).

    Raises:
        ValueError: for merges that this training does not learn.

    """
    n_done = 0
    while n_done < len(merges):
        relearned = trainer.run(min(MERGES_PER_CALL, len(merges) - n_done), ID_LIMIT)
        for i, (saved_merge, learned_merge) in enumerate(
            zip_longest(merges[n_done : n_done + MERGES_PER_CALL].tolist(), relearned)
        ):
            if learned_merge is None or tuple(saved_merge) != learned_merge:
                raise ValueError(
                    f"merge {n_done + i} is {_describe_merge(saved_merge)}, but this training "
                    + ("ends before it" if learned_merge is None else f"learns {_describe_merge(learned_merge)}")
                )
        n_done += len(relearned)
    return n_done


def _describe_merge(merge: Sequence[int]) -> str:
    left, right, token, count = merge
    return f"of tokens {left} and {right} into {token}, {pluralize(count, 'time')}"


def run_merges(
    trainer: MergeLearner, config: TrainConfig, vocab_limit: int, checkpoint: Checkpoint | None, n_words: int
) -> None:
    """Learn the merges of the checkpoint again, and then more: up to `vocab_limit` tokens, or `config.num_merges`.

    The kernel runs without the GIL; signals are handled between its calls. However the loop ends, the merges so far
    are saved in the checkpoint. With many words the first merges take seconds each, so the first calls learn few.
    """
    on_merge = config.on_merge
    merges_per_call = MERGES_PER_CALL if n_words < MANY_WORDS else 1
    max_merges = config.num_merges if config.num_merges is not None else ID_LIMIT
    format_token = partial(_format_token, trainer, config.is_char_model)
    with team_threads(*trainer.teams):
        n_done = _resume(trainer, checkpoint, max_merges, vocab_limit, config.progress)
        total = _count_possible_merges(trainer, n_done, max_merges, vocab_limit)
        try:
            with progress_bar(config.progress, "merge", total, "merges", n_done) as bar:
                while n_done < max_merges:
                    call_start = time.monotonic()
                    merges = trainer.run(
                        min(merges_per_call, max_merges - n_done) if on_merge is None else 1, vocab_limit
                    )
                    n_done += len(merges)
                    if time.monotonic() - call_start < SHORT_CALL_SECONDS:
                        merges_per_call = min(2 * merges_per_call, MERGES_PER_CALL)
                    if merges:
                        bar(len(merges), partial(format_token, merges[-1][2]), merges[-1][3])
                        if on_merge is not None:
                            left, right, token, count = merges[0]
                            on_merge(n_done, format_token(left), format_token(right), format_token(token), count)
                        if checkpoint is not None:
                            checkpoint.save_merges_if_due(trainer.list_merges)
                    if trainer.stop_reason or not merges:
                        break
        finally:
            if checkpoint is not None:
                checkpoint.try_save_merges(trainer.list_merges())


def _resume(
    trainer: MergeLearner, checkpoint: Checkpoint | None, max_merges: int, vocab_limit: int, progress: ProgressLike
) -> int:
    """Learn the merges of a checkpoint again; returns their number, 0 without a checkpoint."""
    if checkpoint is None or not len(checkpoint.merges):
        return 0
    with progress_note(progress, "index"):
        try:
            n_done = replay(trainer, checkpoint.merges)
        except ValueError as error:
            raise FormatError(
                f"the checkpoint is not of this training, or altered: {error}; {START_OVER}", path=checkpoint.path
            ) from None
    total = _count_possible_merges(trainer, n_done, max_merges, vocab_limit) or "?"
    log.info("resuming at merge %s of %s, from the checkpoint %s", n_done, total, checkpoint.path)
    return n_done


def _count_possible_merges(trainer: MergeLearner, n_done: int, max_merges: int, vocab_limit: int) -> int | None:
    """Count the most merges in all, the `n_done` ones included; None if only the pairs limit them."""
    total = min(max_merges, n_done + vocab_limit - trainer.n_tokens)
    return total if total < ID_LIMIT // 2 else None


def _format_token(trainer: MergeLearner, is_char_model: bool, token: int) -> Any:
    """Spell a token as `on_merge` receives it: bytes, or str in a character model."""
    data = trainer.get_token_bytes(token)
    return data.decode() if is_char_model else data


def make_record(
    trainer: MergeLearner, n_words: int, start_time: float, corpus_size: CorpusSize, config: TrainConfig
) -> Training:
    """Make the record of a training that began at `start_time`. Logs a warning if the training stopped early."""
    n_merges, n_tokens = len(trainer.list_merges()), trainer.n_tokens
    stopped = STOP_REASONS.get(trainer.stop_reason)
    warn_if_stopped(stopped, n_merges, n_tokens)
    return Training(
        stopped,
        n_merges,
        n_words,
        time.perf_counter() - start_time,
        _make_curve(trainer, corpus_size, config.vocab_sizes),
    )


def warn_if_stopped(stopped: str | None, n_merges: int, n_tokens: int) -> None:
    """Log a warning if a training stopped early; None as the reason says that it did not."""
    if stopped is not None:
        merges, tokens = pluralize(n_merges, "merge"), pluralize(n_tokens, "token")
        log.warning("training stopped after %s: %s; %s, fewer than requested", merges, stopped, tokens)


def _make_curve(
    trainer: MergeLearner, corpus_size: CorpusSize, vocab_sizes: Sequence[int]
) -> tuple[tuple[int, int, float], ...]:
    """Make `Training.curve`: rows after 1, 2, 4, … merges, at each of the sizes of the vocabulary, and at the end."""
    merge_rows, corpus_lengths = trainer.list_merges(), corpus_size.n_tokens - np.cumsum(trainer.list_removed_counts())
    n_merges = len(merge_rows)
    row_merges = {1 << power for power in range(n_merges.bit_length())} | {n_merges}
    row_merges.update(
        n_merges - (trainer.n_tokens - vocab_size) for vocab_size in vocab_sizes if vocab_size < trainer.n_tokens
    )
    return tuple(
        (k, int(merge_rows[k - 1, 3]), corpus_size.n_bytes / max(int(corpus_lengths[k - 1]), 1))
        for k in sorted(row_merges)
        if 0 < k <= n_merges
    )


# The result -----------------------------------------------------------------------------------------------------------


def make_decoder(pretokenizer: Pretokenizer | None, byte_fallback: bool) -> tuple[DecoderStep, ...] | None:
    """Make the decoder steps of a trained tokenizer, which undo byte fallback and Metaspace; None if it has neither."""
    steps: list[DecoderStep] = []
    strips: list[DecoderStep] = []
    for step in pretokenizer.steps if isinstance(pretokenizer, PipelinePretokenizer) else ():
        if isinstance(step, Metaspace):
            steps.append(DecodeReplace(step.replacement, " "))
            if step.prepend_scheme != "never":
                strips.append(DecodeStrip(" ", 1, 0))
    if byte_fallback:
        steps.append(ByteFallback())
    return (*steps, Fuse(), *strips) if steps else None


def make_spec(
    counts: WordCounts,
    config: TrainConfig,
    blob: bytes,
    offsets: NDArray[np.int64],
    is_word_end: NDArray[np.bool_],
    merge_rows: NDArray[np.int64],
) -> TokenizerSpec:
    """Make the tokenizer with these tokens and merges, as a `Trainer` lists them; ids begin at `first_id`.

    Arrays only: tokens may be millions.
    """
    first_id, n_reserved = config.alphabet.first_id, len(config.reserved_names)
    max_first_id = 64 * len(is_word_end) + 1_000_000 - len(is_word_end)
    if first_id > max_first_id:
        raise ValueError(
            f"first_id is {first_id}, too large for {pluralize(len(is_word_end), 'token')}: ids must be denser; it "
            f"must be at most {max_first_id}"
        )
    kinds = np.full(first_id + len(is_word_end), ORDINARY, dtype=np.uint8)
    kinds[:first_id] = UNUSED
    kinds[first_id : first_id + n_reserved] = SPECIAL
    vocabulary = Vocabulary.from_arrays(blob, np.concatenate((np.zeros(first_id, dtype=np.int64), offsets)), kinds)
    ends_word = None
    if config.end_of_word is not None:
        ends_word = np.zeros(vocabulary.limit, dtype=np.bool_)
        ends_word[first_id:] = is_word_end
    merges = (merge_rows[:, :3] + first_id).astype(np.int32)
    pairs, results = np.ascontiguousarray(merges[:, :2]), np.ascontiguousarray(merges[:, 2])
    special_ids = {name: first_id + i for i, name in enumerate(config.reserved_names)}
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
