r"""BoundlessBPE and its SuperBPE variant: merges of whole words, learned after merges within words.

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
(2026, arXiv 2604.05192). Not here: encoding (`bpe/encode/models/boundless.py`), the loop (`_trainer.pyx`).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bpe.base.memory_limits import in_megabytes, resident
from bpe.base.offsets import offsets_of
from bpe.base.progress import ProgressLike, progress_bar, progress_note
from bpe.base.threads import helped
from bpe.base.utf8 import TextLike
from bpe.corpus.documents import arrow_documents
from bpe.corpus.sources import Sources
from bpe.count._word_table import WordTable
from bpe.encode.models.boundless import MarkedEngine
from bpe.errors import counted
from bpe.text.matching import compiled
from bpe.training._trainer import Trainer
from bpe.training.kernel_input import ENCODED, Start
from bpe.training.options import OnMerge, TrainOptions
from bpe.training.superwords import SuperWords, check_rereadable
from bpe.training.trainer import MERGES_PER_CALL, STOPS, Execution, log, make_trainer, memory_for_pairs
from bpe.training.words import SYMBOL_LIMIT, Words
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.training_record import Training
from bpe.vocab.vocabulary import ID_LIMIT, NO_TOKEN, NONE, ORDINARY, SPECIAL, Vocabulary

#: The bytes of text that are encoded at once.
TEXT_PER_STEP = 32 << 20

_EMPTY = np.empty(0, dtype=np.int64)


def check_boundless(
    superwords: SuperWords, options: TrainOptions, counts: object, texts: object, source: object
) -> None:
    """Check what `bpe.train` is given beside `superwords` of the kind "boundless".

    Raises:
        TypeError: for counts, or texts that can be read only once.
        ValueError: for options that contradict it.

    """
    if options.model != "byte" or options.end_of_word is not None or options.unk_token is not None:
        raise ValueError(
            "superwords are for byte models without an end-of-word mark and an unknown token; leave model, "
            "end_of_word and unk_token out"
        )
    least = superwords.transition or 1
    if options.vocab_size is None or options.vocab_size < least or options.sizes:
        given = f"num_merges is {options.num_merges}" if options.vocab_size is None else f"it is {options.vocab_size}"
        given = f"it is {list(options.sizes)}" if options.sizes else given
        raise ValueError(f'superwords of the kind "boundless" need one vocab_size, of at least {least}; {given}')
    if options.tie_break not in ("id", "smallest"):
        raise ValueError(
            f'tie_break is {options.tie_break!r}; superwords of the kind "boundless" always take the smallest pair of '
            "byte strings: leave it out"
        )
    if counts is not None:
        raise TypeError(
            'superwords of the kind "boundless" count words, and then runs of words; pass files= or texts=, not counts='
        )
    check_rereadable(texts, source)


def word_options(superwords: SuperWords, options: TrainOptions) -> TrainOptions:
    """The options of the word phase."""
    size = options.vocab_size if superwords.transition is None else superwords.transition
    return replace(options, vocab_size=size, tie_break="smallest", disjoint=True)


@dataclass(frozen=True)
class WordPhase:
    """The result of the word phase: the tokenizer, the record, and the count of each of its merges."""

    spec: TokenizerSpec
    training: Training
    counts: NDArray[np.int64]


def learn_boundless(
    words: WordPhase,
    superwords: SuperWords,
    options: TrainOptions,
    source: Sources | Iterable[TextLike] | None,
    execution: Execution,
) -> tuple[TokenizerSpec, Training]:
    """Learn supermerges after the word phase; they have no checkpoint.

    Raises:
        ValueError: for a corpus whose runs have too many tokens, or a `max_memory` that they do not fit in.

    """
    assert options.vocab_size is not None
    began = time.perf_counter()
    progress, most, threads = execution.progress, execution.max_memory, execution.threads
    runs = count_runs(words.spec, superwords.eligible, source, options.special_tokens, threads, progress, most)
    base = len(words.spec.vocabulary) - len(words.counts)
    more = options.vocab_size - base
    options = replace(word_options(superwords, options), vocab_size=options.vocab_size)
    with progress_note(progress, "index"):
        trainer, n_runs = _start_trainer(runs, words.spec, options, more, most, threads)
        del runs
    race = words.counts if superwords.transition is None else np.full(len(words.counts), ID_LIMIT << 31)
    n_words, n_supers = (
        _compete(trainer, race, more, execution.on_merge, progress) if n_runs else (len(words.counts), 0)
    )
    spec = _spec(words.spec, trainer, n_words, n_supers)
    stopped = None
    if n_words + n_supers < more:
        stopped = STOPS.get(trainer.stop, STOPS[1])
        learned, size = counted(n_words + n_supers, "merge"), counted(len(spec.vocabulary), "token")
        log.warning("training stopped after %s: %s; %s, fewer than requested", learned, stopped, size)
    seconds = words.training.seconds + time.perf_counter() - began
    return spec, Training(stopped, n_words + n_supers, words.training.words, seconds)


# Runs -----------------------------------------------------------------------------------------------------------------


def eligible_tokens(spec: TokenizerSpec, pattern: str) -> NDArray[np.int64]:
    """The ids of the ordinary tokens that are UTF-8 and have a match of the pattern."""
    search, found = compiled(pattern).search, []
    for number, token in spec.vocabulary.items(ORDINARY):
        try:
            text = token.decode()
        except UnicodeDecodeError:
            continue
        if search(text):
            found.append(number)
    return np.array(found, dtype=np.int64)


def count_runs(
    spec: TokenizerSpec,
    pattern: str,
    source: Sources | Iterable[TextLike] | None,
    special_tokens: Iterable[str],
    threads: int,
    progress: ProgressLike,
    max_memory: int | None = None,
) -> Words:
    """The distinct runs of eligible pretokens in a corpus: as words of uint32 token numbers, which begin at 0.

    Raises:
        ValueError: for runs with too many tokens, or once the process exceeds `max_memory`.

    """
    engine, table = MarkedEngine(spec, eligible_tokens(spec, pattern)), WordTable()
    first_id = int(np.flatnonzero(spec.vocabulary.kinds != NONE)[0])
    number_of = engine.marked - np.uint32(first_id)
    total = source.size if isinstance(source, Sources) else None
    position = 0
    with progress_bar(progress, "count", total, "B") as bar:
        for ids, lengths, size in _encoded(engine, source, frozenset(special_tokens), threads):
            marked = ids >= engine.first
            begins = np.ones(len(ids) + 1, dtype=np.bool_)
            np.not_equal(marked[1:], marked[:-1], out=begins[1:-1])
            begins[np.cumsum(lengths)] = True  # of documents
            bounds = np.flatnonzero(begins)
            starts, ends = bounds[:-1], bounds[1:]
            kept = marked[starts] & (ends - starts > 1) if len(ids) else starts > 0
            numbers = number_of[np.where(marked, ids - np.uint32(engine.first), 0)] if len(number_of) else ids
            table.count_spans(numbers.view(np.uint8), 4 * starts[kept], 4 * ends[kept], position)
            position += numbers.nbytes
            if max_memory is not None and (held := resident()) > max_memory:
                raise ValueError(
                    f"max_memory is {in_megabytes(max_memory)}, but with {counted(len(table), 'distinct run')} of "
                    f"words, and more to come, the process has {in_megabytes(held)}; raise it, or train on less text"
                )
            bar(size)
    blob, offsets, counts, _ = table.arrays()
    symbols = len(blob) // 4
    if symbols + 2 * len(counts) + 1 > SYMBOL_LIMIT:
        raise ValueError(
            f"the distinct runs of words have {symbols} tokens; at most {SYMBOL_LIMIT} fit: train on less text"
        )
    return Words(blob, offsets, counts, _EMPTY, _EMPTY, symbols)


def _encoded(
    engine: MarkedEngine, source: Sources | Iterable[TextLike] | None, names: frozenset[str], threads: int
) -> Iterator[tuple[NDArray[np.uint32], NDArray[np.int64], int]]:
    """The ids of the corpus in steps: (ids, their number by document, the bytes read)."""
    if isinstance(source, Sources):
        cut = engine.end_cut(source.separators, source.keep_separator, names)
        with closing(source.blocks(cut, threads)) as blocks:
            size = source.text_size or sys.maxsize
            while (part := engine.encode_blocks(blocks, threads, size, allowed=names, most=TEXT_PER_STEP)) is not None:
                yield part.ids, part.lengths, part.size or part.n_bytes
        return
    assert source is not None
    rows = arrow_documents(source)
    texts = source if rows is None else (text for documents in rows for text in documents.texts())
    for group in _groups(texts):
        batch = engine.encode_batch(group, threads, names)
        yield np.asarray(batch.ids, dtype=np.uint32), batch.lengths, sum(map(len, group))


def _groups(texts: Iterable[TextLike]) -> Iterator[list[TextLike]]:
    """The texts in groups of about TEXT_PER_STEP."""
    group: list[TextLike] = []
    size = 0
    for text in texts:
        group.append(text)
        size += len(text)
        if size >= TEXT_PER_STEP:
            yield group
            group, size = [], 0
    if group:
        yield group


# Merges ---------------------------------------------------------------------------------------------------------------


def _start_trainer(
    runs: Words, spec: TokenizerSpec, options: TrainOptions, merges: int, max_memory: int | None, threads: int
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
    memory = None if max_memory is None else memory_for_pairs(runs, max_memory, len(vocabulary) + merges)
    return make_trainer(runs, options, start, merges, memory, threads), len(runs.counts)


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
