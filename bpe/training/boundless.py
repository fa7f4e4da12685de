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
(2026, arXiv 2604.05192). Not here: encoding (`bpe/encode/models/boundless.py`), the runs (`runs.py`), the loop
(`_trainer.pyx`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bpe.base.offsets import offsets_of
from bpe.base.progress import ProgressLike, progress_bar, progress_note
from bpe.base.threads import helped
from bpe.count.word_counts import WordCounts
from bpe.errors import counted
from bpe.training._trainer import Trainer
from bpe.training.kernel_input import ENCODED, Start
from bpe.training.options import OnMerge, TrainOptions
from bpe.training.superwords import SuperWords, check_rereadable, check_two_counts
from bpe.training.trainer import MERGES_PER_CALL, STOPS, Execution, log, make_trainer, memory_for_pairs
from bpe.training.words import Words
from bpe.vocab.editing import truncate
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.training_record import Training
from bpe.vocab.vocabulary import ID_LIMIT, NO_TOKEN, ORDINARY, SPECIAL, Vocabulary

#: The count of a word merge that goes before every merge of words.
FIRST = ID_LIMIT << 31


def check_boundless(
    superwords: SuperWords, options: TrainOptions, counts: object, texts: object, source: object
) -> None:
    """Check what `bpe.train` is given beside `superwords` of the kind "boundless".

    Raises:
        TypeError: for counts that are not those of both phases, or texts that can be read only once.
        ValueError: for options that contradict it.

    """
    if options.model != "byte" or options.end_of_word is not None or options.unk_token is not None:
        raise ValueError(
            "superwords are for byte models without an end-of-word mark and an unknown token; leave model, "
            "end_of_word and unk_token out"
        )
    least, sizes = superwords.transition or 1, options.sizes or (options.vocab_size,)
    if any(size is None or size < least for size in sizes):
        given = f"num_merges is {options.num_merges}" if options.vocab_size is None else f"it is {min(sizes)}"  # type: ignore[type-var]
        raise ValueError(f'superwords of the kind "boundless" need a vocab_size of at least {least}; {given}')
    if options.tie_break not in ("id", "smallest"):
        raise ValueError(
            f'tie_break is {options.tie_break!r}; superwords of the kind "boundless" always take the smallest pair of '
            "byte strings: leave it out"
        )
    words_only = superwords.transition is not None and superwords.transition == options.vocab_size
    if counts is not None and not (words_only and isinstance(counts, WordCounts)):
        check_two_counts(counts)
        if superwords.transition is None and len(set(sizes)) > 1:
            raise ValueError(
                f"vocab_size is {list(sizes)}, but counts has runs of words of one size, and without a transition each "
                "size has its own; train to one size, or pass files= or texts="
            )
    check_rereadable(texts, source)


def word_options(superwords: SuperWords, options: TrainOptions) -> TrainOptions:
    """The options of the word phase."""
    size = options.vocab_size if superwords.transition is None else superwords.transition
    sizes = options.sizes if superwords.transition is None else ()
    return replace(options, vocab_size=size, sizes=sizes, tie_break="smallest", disjoint=True)


@dataclass(frozen=True)
class WordPhase:
    """The result of the word phase.

    Attributes:
        spec: the tokenizer.
        training: the record.
        counts: the count of each merge; FIRST for seeds.

    """

    spec: TokenizerSpec
    training: Training
    counts: NDArray[np.int64]

    def at_size(self, size: int) -> WordPhase:
        """The result of a word phase that ends at so many tokens."""
        removed = len(self.spec.vocabulary) - size
        if removed <= 0:
            return self
        kept = len(self.counts) - removed
        training = replace(self.training, merges=kept, stopped=None)
        return WordPhase(truncate(self.spec, size), training, self.counts[:kept])


def learn_boundless(
    words: WordPhase,
    superwords: SuperWords,
    options: TrainOptions,
    runs: Callable[[TokenizerSpec], Words],
    execution: Execution,
) -> tuple[TokenizerSpec, Training]:
    """Learn supermerges after the word phase; they have no checkpoint.

    Args:
        words: the result of the word phase.
        superwords: the kind of training.
        options: those of the training.
        runs: counts the runs of a tokenizer without supermerges.
        execution: as for `learn`.

    Raises:
        ValueError: for a corpus whose runs have too many tokens, or a `max_memory` that they do not fit in.

    """
    assert options.vocab_size is not None
    began = time.perf_counter()
    n_words = len(words.counts)
    more = options.vocab_size - (len(words.spec.vocabulary) - n_words)
    if superwords.transition is not None and n_words >= more:  # no room for supermerges
        return replace(words.spec, word_merges=n_words), words.training
    options = replace(options, tie_break="smallest", disjoint=True)
    found = runs(words.spec)
    with progress_note(execution.progress, "index"):
        trainer, n_runs = _start_trainer(found, words.spec, options, more, execution)
        del found
    race = words.counts if superwords.transition is None else np.full(n_words, FIRST)
    n_supers = 0
    if n_runs:
        n_words, n_supers = _compete(trainer, race, more, execution.on_merge, execution.progress)
    spec = _spec(words.spec, trainer, n_words, n_supers)
    stopped = None
    if n_words + n_supers < more:
        stopped = STOPS.get(trainer.stop, STOPS[1])
        learned, size = counted(n_words + n_supers, "merge"), counted(len(spec.vocabulary), "token")
        log.warning("training stopped after %s: %s; %s, fewer than requested", learned, stopped, size)
    seconds = words.training.seconds + time.perf_counter() - began
    return spec, Training(stopped, n_words + n_supers, words.training.words, seconds)


# Merges ---------------------------------------------------------------------------------------------------------------


def _start_trainer(
    runs: Words, spec: TokenizerSpec, options: TrainOptions, merges: int, execution: Execution
) -> tuple[Trainer, int]:
    """(A trainer of the runs, the number of distinct runs). It knows all tokens; numbers begin at 0."""
    vocabulary = spec.vocabulary
    kinds = vocabulary.kinds
    start = Start(
        ENCODED,
        [
            (token, False, bool(kinds[number] == SPECIAL), 0 if kinds[number] == SPECIAL else len(token))
            for number, token in vocabulary.items()
        ],
        None,
        None,
        NO_TOKEN,
    )
    most = execution.max_memory
    memory = None if most is None else memory_for_pairs(runs, most, len(vocabulary), len(vocabulary) + merges)
    return make_trainer(runs, options, start, merges, memory, execution.threads), len(runs.counts)


def _compete(
    trainer: Trainer, word_counts: NDArray[np.int64], most: int, on_merge: OnMerge | None, progress: ProgressLike
) -> tuple[int, int]:
    """How many word merges and supermerges the result has, `most` together; the trainer learns at least the latter."""
    words, n_words, n_supers = word_counts.tolist(), 0, 0
    supers: list[tuple[int, int, int, int]] = []
    target = trainer.n_tokens + most
    with helped(trainer.team), progress_bar(progress, "merge", most, "merges") as bar:
        while n_words + n_supers < most:
            if n_supers == len(supers) and not trainer.stop:
                supers += trainer.run(MERGES_PER_CALL, target)
            count = supers[n_supers][3] if n_supers < len(supers) else 0
            if n_words < len(words) and words[n_words] >= count:
                n_words += 1
            elif count:
                n_supers += 1
                left, right, token, _ = supers[n_supers - 1]
                if on_merge is not None:
                    on_merge(n_supers, trainer.spelled(left), trainer.spelled(right), trainer.spelled(token), count)
            else:
                break
            bar(1)
    return n_words, n_supers


def _spec(spec: TokenizerSpec, trainer: Trainer, n_words: int, n_supers: int) -> TokenizerSpec:
    """The tokenizer with the first so many merges of each phase; its supertokens have the last ids."""
    blob, offsets, _ = trainer.vocabulary()
    n_old = len(spec.vocabulary)
    base, first_id = n_old - len(spec.merges), spec.vocabulary.limit - n_old
    kept = base + n_words
    supers = slice(int(offsets[n_old]), int(offsets[n_old + n_supers]))
    lengths = np.concatenate(
        (
            np.zeros(first_id, dtype=np.int64),
            np.diff(offsets[: kept + 1]),
            np.diff(offsets[n_old : n_old + n_supers + 1]),
        )
    )
    kinds = np.full(len(lengths), ORDINARY, dtype=np.uint8)
    kinds[: first_id + kept] = spec.vocabulary.kinds[: first_id + kept]
    learned = trainer.merges()[:n_supers, :3]
    learned = np.where(learned >= n_old, learned - (n_old - kept), learned) + first_id
    return replace(
        spec,
        vocabulary=Vocabulary.from_arrays(blob[: int(offsets[kept])] + blob[supers], offsets_of(lengths), kinds),
        merges=np.concatenate((spec.merges[:n_words], learned[:, :2])).astype(np.int32),
        merge_results=np.concatenate((spec.merge_results[:n_words], learned[:, 2])).astype(np.int32),
        word_merges=n_words,
        unreachable=None,
    )
