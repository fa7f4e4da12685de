"""BoundlessBPE and its SuperBPE variant: merges of whole words, learned after merges within words.

1. Word phase: plain training, with pairs counted without overlap and ties by the smallest pair of byte strings.
2. A pretoken is eligible if it is one token and the token's text has a match of the pattern `eligible`. A run is a
   longest sequence of two or more eligible pretokens of a document. Runs are counted, each distinct one once.
3. Super phase: the same training on the runs, whose symbols are tokens. A merge never makes the bytes of a token that
   exists: a special token, a byte, a token of the word phase, a supertoken.
4. The SuperBPE variant has all word merges, then supermerges up to the size. BoundlessBPE replays the word merges in
   order; a supermerge goes first if its count is greater than that of the next word merge, until the size is reached.

Runs do not change while word merges are replayed, and a supermerge's count depends only on the supermerges before it.
So both phases are learned one after the other, and step 4 is a merge of two lists. A token is always there before a
supermerge needs it: no supermerge counts more than the word merge that made a part of it, and that one goes first.

Sources: Schmidt et al., "Boundless Byte Pair Encoding" (2025, arXiv 2504.00178) and "Faster Superword Tokenization"
(2026, arXiv 2604.05192). Encoding is in `bpe/encode/models/boundless.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, overload

import numpy as np
from numpy.typing import NDArray

from bpe.base.offsets import compute_offsets
from bpe.base.progress import ProgressLike, progress_bar, progress_note
from bpe.base.threads import team_threads
from bpe.count.word_counts import WordCounts
from bpe.errors import ID_LIMIT, check_int, describe
from bpe.research.runs import LETTER_PATTERN, find_runs, read_counted_runs
from bpe.research.seeds import SEED_COUNT, Seeds, make_seeded_job
from bpe.text.matching import compile_pattern
from bpe.tokenizer import Tokenizer
from bpe.training._trainer import Trainer
from bpe.training.checkpoint import identify_files
from bpe.training.config import CorpusOptions, OnMerge, TrainConfig
from bpe.training.job import LearnedMerges, SpecAndRecord, TrainingJob, check_unchanged
from bpe.training.kernel_input import TOKEN_SYMBOLS, InitialTokens, WordArrays
from bpe.training.superwords import check_rereadable, check_two_counts
from bpe.training.trainer import MERGES_PER_CALL, NO_PAIRS, STOP_REASONS, make_trainer, warn_if_stopped
from bpe.vocab.editing import truncate
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.training_record import Training
from bpe.vocab.vocabulary import NO_TOKEN, ORDINARY, SPECIAL, Vocabulary

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: The paper's own pattern for `eligible`: letters, spaces, underscores and apostrophes.
PAPER_ELIGIBLE = r"^(?=.+\p{L})(?:\p{L}\p{M}*|[ _'\u2019])+$"


@overload
def train_boundless(
    transition: int | None = None,
    *,
    eligible: str = LETTER_PATTERN,
    seeds: Seeds | None = None,
    vocab_size: int | None = None,
    **options: Unpack[CorpusOptions],
) -> Tokenizer: ...
@overload
def train_boundless(
    transition: int | None = None,
    *,
    eligible: str = LETTER_PATTERN,
    seeds: Seeds | None = None,
    vocab_size: Sequence[int],
    **options: Unpack[CorpusOptions],
) -> list[Tokenizer]: ...
def train_boundless(
    transition: int | None = None,
    *,
    eligible: str = LETTER_PATTERN,
    seeds: Seeds | None = None,
    vocab_size: int | Sequence[int] | None = None,
    **options: Unpack[CorpusOptions],
) -> Tokenizer | list[Tokenizer]:
    r"""Train a vocabulary with tokens of several words: merges of whole words compete with those within words.

    Encoding does merges within each pretoken, and then those of neighbouring pretokens that are one token each. No
    other program can read such a tokenizer: it is saved as model type `bpe.BoundlessBPE`.

    Args:
        transition: the vocabulary size, special tokens and alphabet included, at which merges within words end, and
            merges of words begin (the SuperBPE variant); None lets them compete.
        eligible: a regular expression that a word must have a match of to be merged with others. The default is a
            letter; `bpe.research.PAPER_ELIGIBLE` is the paper's, without digits and punctuation.
        seeds: tokens that the vocabulary begins with; they keep their places.
        vocab_size: the number of tokens of the result, or a list of such numbers.
        options: as for `bpe.train`; for byte models. The corpus is read twice: files that are not pipes, or texts that
            can be iterated again; or give counts=(those of `bpe.count_words`, those of `count_runs`).

    Returns:
        A tokenizer, or one of each size.

    Raises:
        TypeError, ValueError, FormatError, OSError: as `bpe.train`.

    >>> import bpe
    >>> tok = bpe.research.train_boundless(texts=["by the way, by the sea\n"] * 9, vocab_size=268)
    >>> tok.tokens("by the way, by the sea")
    [b'by', b' the', b' way', b',', b' by the', b' sea']

    """
    config = TrainConfig(vocab_size=vocab_size, **options)
    return make_seeded_job(config, seeds).run(partial(_run_boundless, transition, eligible))


def _check_options(transition: int | None, eligible: object, config: TrainConfig, corpus: object) -> None:
    """Check what a training is given.

    Raises:
        TypeError: for counts that are not those of both phases, or texts that can be read only once.
        ValueError: for options that contradict it.

    """
    if transition is not None:
        check_int("transition", transition, 1, ID_LIMIT)
    if not isinstance(eligible, str):
        raise TypeError(f"eligible is {describe(eligible)}; it must be a regular expression as a str")
    compile_pattern(eligible)
    if config.is_char_model or config.end_of_word is not None or config.unk_token is not None:
        raise ValueError(
            "superwords are for byte models without an end-of-word mark and an unknown token; leave model, "
            "end_of_word and unk_token out"
        )
    min_vocab_size, vocab_sizes = transition or 1, config.vocab_sizes or (config.vocab_size,)
    if any(vocab_size is None or vocab_size < min_vocab_size for vocab_size in vocab_sizes):
        problem = f"num_merges is {config.num_merges}" if config.vocab_size is None else f"it is {min(vocab_sizes)}"
        raise ValueError(f"training needs a vocab_size of at least {min_vocab_size}; {problem}")
    if config.rules.tie_break not in ("id", "smallest"):
        raise ValueError(
            f"tie_break is {config.rules.tie_break!r}; BoundlessBPE always takes the smallest pair of byte strings: "
            "leave it out"
        )
    words_only = transition is not None and transition == config.vocab_size
    if config.counts is not None and not (words_only and isinstance(config.counts, WordCounts)):
        check_two_counts(config.counts)
        if transition is None and len(set(vocab_sizes)) > 1:
            raise ValueError(
                f"vocab_size is {list(vocab_sizes)}, but counts has runs of words of one size, and without a "
                "transition each size has its own; train to one size, or pass files= or texts="
            )
    check_rereadable(config.texts, corpus)


def _run_boundless(transition: int | None, eligible: str, job: TrainingJob) -> list[SpecAndRecord]:
    """Train within words, and then across words; a checkpoint has the first phase.

    Without a transition, each of several sizes has words, and so runs, of its own: there is a result for each.
    """
    config, corpus = job.config, job.config.make_corpus()
    _check_options(transition, eligible, config, corpus)
    word_counts, run_counts = config.counts if isinstance(config.counts, tuple) else (config.counts, None)
    files_before = identify_files(corpus)
    extra_options = {"superwords": {"kind": "boundless", "transition": transition, "eligible": eligible}}
    counts, checkpoint = job.count(corpus, word_counts, extra_options=extra_options)
    words_config = replace(config, rules=replace(config.rules, tie_break="smallest"), count_non_overlapping=True)
    if transition is not None:
        words_config = replace(words_config, vocab_size=transition, vocab_sizes=())
    word_phase = job.learn(counts, words_config, checkpoint)
    if word_counts is not None and run_counts is None:  # the tokenizer that `count_runs` needs for the second phase
        return [(replace(word_phase.spec, n_merges_within_words=len(word_phase.spec.merges)), word_phase.record)]

    def count_runs(spec: TokenizerSpec) -> WordArrays:
        if run_counts is not None:
            return read_counted_runs(job.prepare_counts(run_counts, spec.pretokenizer, "runs"), spec, eligible)
        runs = find_runs(spec, eligible, corpus, config.special_tokens, job.threads, config.progress, job.max_memory)
        check_unchanged(corpus, files_before)
        return runs

    vocab_sizes = config.vocab_sizes if transition is None else ()
    return [
        _learn_across(
            job,
            _truncate_to(word_phase, vocab_size),
            transition is not None,
            replace(words_config, vocab_size=vocab_size),
            count_runs,
        )
        for vocab_size in vocab_sizes or [config.vocab_size]
    ]


def _truncate_to(word_phase: LearnedMerges, vocab_size: int) -> LearnedMerges:
    """Truncate the result of the word phase to that of one that ends at `vocab_size` tokens."""
    n_removed = len(word_phase.spec.vocabulary) - vocab_size
    if n_removed <= 0:
        return word_phase
    n_kept = len(word_phase.merge_counts) - n_removed
    record = replace(word_phase.record, merges=n_kept, stopped=None)
    return LearnedMerges(truncate(word_phase.spec, vocab_size), record, word_phase.merge_counts[:n_kept])


def _learn_across(
    job: TrainingJob,
    word_phase: LearnedMerges,
    two_stages: bool,
    config: TrainConfig,
    count_runs: Callable[[TokenizerSpec], WordArrays],
) -> SpecAndRecord:
    """Learn supermerges after the word phase; they have no checkpoint.

    Args:
        job: the training.
        word_phase: the result of the word phase.
        two_stages: whether all merges of words go before those across words.
        config: that of the word phase, with the vocabulary size of the result.
        count_runs: counts the runs of a tokenizer without supermerges.

    Raises:
        ValueError: for a corpus whose runs have too many tokens, or a `max_memory` that they do not fit in.

    """
    start_time = time.perf_counter()
    n_word_merges = len(word_phase.merge_counts)
    max_merges = config.vocab_size - (len(word_phase.spec.vocabulary) - n_word_merges)
    if two_stages and n_word_merges >= max_merges:  # no room for supermerges
        return replace(word_phase.spec, n_merges_within_words=n_word_merges), word_phase.record
    counted_runs = count_runs(word_phase.spec)
    with progress_note(config.progress, "index"):
        trainer, n_runs = _start_run_trainer(job, counted_runs, word_phase.spec, config, max_merges)
        del counted_runs
    word_merge_counts = np.full(n_word_merges, SEED_COUNT) if two_stages else word_phase.merge_counts
    n_supermerges = 0
    if n_runs:
        n_word_merges, n_supermerges = _interleave_merges(
            trainer, word_merge_counts, max_merges, config.on_merge, config.progress
        )
    spec = _add_supermerges(word_phase.spec, trainer, n_word_merges, n_supermerges)
    stopped = None
    if n_word_merges + n_supermerges < max_merges:
        stopped = STOP_REASONS.get(trainer.stop_reason, STOP_REASONS[NO_PAIRS])
        warn_if_stopped(stopped, n_word_merges + n_supermerges, len(spec.vocabulary))
    seconds = word_phase.record.seconds + time.perf_counter() - start_time
    return spec, Training(stopped, n_word_merges + n_supermerges, word_phase.record.words, seconds)


# Merges ---------------------------------------------------------------------------------------------------------------


def _start_run_trainer(
    job: TrainingJob, runs: WordArrays, spec: TokenizerSpec, config: TrainConfig, max_merges: int
) -> tuple[Trainer, int]:
    """Start a trainer of the runs, with all tokens numbered from 0: (the trainer, the number of distinct runs)."""
    kinds = spec.vocabulary.kinds
    tokens = [
        (token, False, bool(kinds[token_id] == SPECIAL), 0 if kinds[token_id] == SPECIAL else len(token))
        for token_id, token in spec.vocabulary.items()
    ]
    initial_tokens = InitialTokens(TOKEN_SYMBOLS, tokens, None, None, NO_TOKEN)
    trainer = make_trainer(runs, config, initial_tokens, max_merges, max_memory=job.max_memory, threads=job.threads)
    return trainer, len(runs.counts)


def _interleave_merges(
    trainer: Trainer,
    word_merge_counts: NDArray[np.int64],
    max_merges: int,
    on_merge: OnMerge | None,
    progress: ProgressLike,
) -> tuple[int, int]:
    """Count the word merges and the supermerges of the result, `max_merges` together; learn these supermerges."""
    remaining_counts, n_word_merges, n_supermerges = word_merge_counts.tolist(), 0, 0
    supermerges: list[tuple[int, int, int, int]] = []
    vocab_limit = trainer.n_tokens + max_merges
    with team_threads(trainer.team), progress_bar(progress, "merge", max_merges, "merges") as bar:
        while n_word_merges + n_supermerges < max_merges:
            if n_supermerges == len(supermerges) and not trainer.stop_reason:
                supermerges += trainer.run(MERGES_PER_CALL, vocab_limit)
            count = supermerges[n_supermerges][3] if n_supermerges < len(supermerges) else 0
            if n_word_merges < len(remaining_counts) and remaining_counts[n_word_merges] >= count:
                n_word_merges += 1
            elif count:
                n_supermerges += 1
                left, right, token, _ = supermerges[n_supermerges - 1]
                if on_merge is not None:
                    parts = trainer.get_token_bytes(left), trainer.get_token_bytes(right)
                    on_merge(n_supermerges, *parts, trainer.get_token_bytes(token), count)
            else:
                break
            bar(1)
    return n_word_merges, n_supermerges


def _add_supermerges(spec: TokenizerSpec, trainer: Trainer, n_word_merges: int, n_supermerges: int) -> TokenizerSpec:
    """Keep the first word merges, and add the first supermerges, whose tokens have the last ids."""
    blob, offsets, _ = trainer.list_tokens()
    n_old = len(spec.vocabulary)
    base, first_id = n_old - len(spec.merges), spec.vocabulary.limit - n_old
    n_kept = base + n_word_merges
    super_bytes = slice(int(offsets[n_old]), int(offsets[n_old + n_supermerges]))
    lengths = np.concatenate(
        (
            np.zeros(first_id, dtype=np.int64),
            np.diff(offsets[: n_kept + 1]),
            np.diff(offsets[n_old : n_old + n_supermerges + 1]),
        )
    )
    kinds = np.full(len(lengths), ORDINARY, dtype=np.uint8)
    kinds[: first_id + n_kept] = spec.vocabulary.kinds[: first_id + n_kept]
    learned = trainer.list_merges()[:n_supermerges, :3]
    learned = np.where(learned >= n_old, learned - (n_old - n_kept), learned) + first_id
    return replace(
        spec,
        vocabulary=Vocabulary.from_arrays(
            blob[: int(offsets[n_kept])] + blob[super_bytes], compute_offsets(lengths), kinds
        ),
        merges=np.concatenate((spec.merges[:n_word_merges], learned[:, :2])).astype(np.int32),
        merge_results=np.concatenate((spec.merge_results[:n_word_merges], learned[:, 2])).astype(np.int32),
        n_merges_within_words=n_word_merges,
        unmerged=None,
    )
