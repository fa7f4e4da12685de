"""Runs of words, which BoundlessBPE learns merges of words from.

A pretoken is eligible if it is one token and the token's text has a match of a pattern. A run is a longest sequence of
two or more eligible pretokens of a document. Runs are counted as byte strings of four bytes a token, and spilled to
disk where memory is limited. As `WordCounts`, for files and for merging, a run is spelled: its tokens, each followed by
the byte FF, which no eligible token has.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bpe.base.memory_limits import LEAST
from bpe.base.offsets import offsets_of
from bpe.base.progress import ProgressLike, check_progress, progress_bar
from bpe.base.threads import thread_count
from bpe.base.utf8 import TextLike
from bpe.corpus.blocks import group_texts
from bpe.corpus.documents import arrow_documents
from bpe.corpus.sources import Sources
from bpe.count.counting import Tables
from bpe.count.word_counts import WordCounts, arrays_of, fill
from bpe.encode.blocks import encode_some_blocks
from bpe.encode.engine import Engine
from bpe.encode.models.boundless import MarkedWords, build_marked
from bpe.encode.models.model import EngineModel
from bpe.errors import describe
from bpe.text.matching import compiled
from bpe.tokenizer import Tokenizer
from bpe.training.config import Files
from bpe.training.kernel_input import SYMBOL_LIMIT, Words
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.vocabulary import NONE, ORDINARY, join_slices

#: The bytes of text that are encoded at once, without a limit of memory and with one.
TEXT_PER_STEP, TEXT_PER_STEP_LIMITED = 32 << 20, 4 << 20
#: What an eligible word has a match of, unless another pattern is given.
LETTER = r"\p{L}"
#: What follows each token of a spelled run.
RUN_TOKEN_END = 0xFF

_EMPTY = np.empty(0, dtype=np.int64)


def count_runs(
    tok: Tokenizer,
    *,
    eligible: str = LETTER,
    files: Files | None = None,
    texts: Iterable[TextLike] | None = None,
    threads: int | None = None,
    progress: ProgressLike = False,
) -> WordCounts:
    """Count the runs of words of a corpus or a part of one. Counts of parts can be merged.

    `train_boundless(counts=(words, runs))` trains on them.

    Args:
        tok: the tokenizer of the word phase, which decides what the runs are: `train_boundless` gives it for the counts
            of words and a `vocab_size` that is the `transition` (without one, with a transition at the `vocab_size`).
            Its normalizer and its special tokens apply.
        eligible: as for `train_boundless`.
        files: as for `bpe.count_words`, like all that follow.
        texts: documents.
        threads: the number of threads; None means one per core.
        progress: True shows a progress bar.

    Raises:
        TypeError, ValueError, FormatError, OSError: as `bpe.count_words`; for a tokenizer with merges across words.

    """
    check_progress(progress)
    if not isinstance(tok, Tokenizer):
        raise TypeError(
            f"tok is {describe(tok)}; runs of words depend on the word phase: pass the tokenizer that train_boundless "
            "gives for the counts of words and a vocab_size that is the transition"
        )
    spec = tok.spec
    if spec.word_merges != len(spec.merges):
        raise ValueError(
            "tok has merges across words, or was not trained with bpe.research.train_boundless; train it with a "
            "transition that is its vocab_size"
        )
    if (files is None) == (texts is None):
        raise ValueError("give exactly one of files= and texts=")
    source = texts if files is None else Sources.of(files)
    runs = find_runs(spec, eligible, source, spec.special_tokens, thread_count(threads), progress)
    counts = WordCounts(spec.pretokenizer, spec.normalizer, tuple(spec.special_tokens))
    counts.units = "runs"
    fill_with_runs(runs, spec, counts)
    return counts


def find_eligible_tokens(spec: TokenizerSpec, pattern: str) -> NDArray[np.int64]:
    """The ids of the ordinary tokens that are UTF-8 and have a match of the pattern."""
    search, found = compiled(pattern).search, []
    for token_id, token in spec.vocabulary.items(ORDINARY):
        try:
            text = token.decode()
        except UnicodeDecodeError:
            continue
        if search(text):
            found.append(token_id)
    return np.array(found, dtype=np.int64)


def _make_engine(spec: TokenizerSpec, tokens: NDArray[np.int64]) -> tuple[Engine, MarkedWords]:
    """An engine that gives pretokens that are one of some tokens a second id, and these ids."""
    tables, marked_words = build_marked(spec, tokens)
    return Engine(spec, parts=EngineModel(tables, marked_words)), marked_words


def find_runs(
    spec: TokenizerSpec,
    pattern: str,
    source: Sources | Iterable[TextLike] | None,
    special_tokens: Iterable[str],
    threads: int,
    progress: ProgressLike,
    max_memory: int | None = None,
) -> Words:
    """The distinct runs of a corpus: as words of uint32 token numbers, which begin at 0.

    Args:
        spec: the tokenizer of the word phase.
        pattern: what an eligible token has a match of.
        source: the corpus.
        special_tokens: strings that separate text.
        threads: the number of threads that encode.
        progress: as for `bpe.train`.
        max_memory: the most bytes that the process may have; runs that do not fit are spilled to disk.

    Raises:
        ValueError: for runs with too many tokens.

    """
    engine, marked_words = _make_engine(spec, find_eligible_tokens(spec, pattern))
    number_of = marked_words.tokens - np.uint32(_first_id(spec))
    total = source.size if isinstance(source, Sources) else None
    step = TEXT_PER_STEP if max_memory is None else TEXT_PER_STEP_LIMITED
    tables = Tables(1, 0, None if max_memory is None else max_memory - LEAST)
    position = 0
    try:
        with progress_bar(progress, "count", total, "B") as bar:
            for ids, lengths, size in _encode_corpus(engine, source, frozenset(special_tokens), threads, step):
                numbers, starts, ends = _find_spans(ids, lengths, marked_words, number_of)
                with tables.lend() as table:
                    table.count_spans(numbers.view(np.uint8), 4 * starts, 4 * ends, position)
                position += numbers.nbytes
                bar(size)
        del engine
        joined = tables.join()
    finally:
        tables.close()
    return _make_words(*(joined if isinstance(joined, tuple) else joined.arrays()[:3]))


def _first_id(spec: TokenizerSpec) -> int:
    """The id of token 0: ids have no gaps after it."""
    return int(np.flatnonzero(spec.vocabulary.kinds != NONE)[0])


def _find_spans(
    ids: NDArray[np.uint32], lengths: NDArray[np.int64], marked_words: MarkedWords, number_of: NDArray[np.uint32]
) -> tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.int64]]:
    """(The token numbers of texts, the starts of their runs, the ends); other tokens have any number."""
    marked = ids >= marked_words.first
    begins = np.ones(len(ids) + 1, dtype=np.bool_)
    np.not_equal(marked[1:], marked[:-1], out=begins[1:-1])
    begins[np.cumsum(lengths)] = True  # of documents
    bounds = np.flatnonzero(begins)
    starts, ends = bounds[:-1], bounds[1:]
    kept = marked[starts] & (ends - starts > 1) if len(ids) else starts > 0
    numbers = number_of[np.where(marked, ids - np.uint32(marked_words.first), 0)] if len(number_of) else ids
    return numbers, starts[kept], ends[kept]


def _make_words(blob: NDArray[np.uint8], offsets: NDArray[np.int64], counts: NDArray[np.int64]) -> Words:
    """Runs of uint32 token numbers as words.

    Raises:
        ValueError: for too many tokens.

    """
    symbols = len(blob) // 4
    if symbols + 2 * len(counts) + 1 > SYMBOL_LIMIT:
        raise ValueError(
            f"the distinct runs of words have {symbols} tokens; at most {SYMBOL_LIMIT} fit: train on less text"
        )
    return Words(blob, offsets, counts, _EMPTY, _EMPTY, symbols)


# Texts ----------------------------------------------------------------------------------------------------------------


def _encode_corpus(
    engine: Engine, source: Sources | Iterable[TextLike] | None, names: frozenset[str], threads: int, step: int
) -> Iterator[tuple[NDArray[np.uint32], NDArray[np.int64], int]]:
    """The ids of the corpus, of `step` bytes of text at once: (ids, their number by document, the bytes read)."""
    if isinstance(source, Sources):
        cut = engine.make_block_cut(source.separators, source.keep_separator, names)
        with closing(source.blocks(cut, threads)) as blocks:
            size = source.text_size or sys.maxsize
            while (
                part := encode_some_blocks(engine, blocks, threads, size, allowed=names, max_bytes=step)
            ) is not None:
                yield part.ids, part.lengths, part.size or part.n_bytes
        return
    assert source is not None
    rows = arrow_documents(source)
    texts = source if rows is None else (text for documents in rows for text in documents.texts())
    for group in group_texts(texts, step):
        batch = engine.encode_batch(group, threads, names)
        yield np.asarray(batch.ids, dtype=np.uint32), batch.lengths, sum(map(len, group))


# Counts ---------------------------------------------------------------------------------------------------------------


def fill_with_runs(runs: Words, spec: TokenizerSpec, counts: WordCounts) -> None:
    """Fill empty counts with runs, spelled."""
    vocabulary = spec.vocabulary
    blob, first = np.frombuffer(vocabulary.blob, dtype=np.uint8), _first_id(spec)
    starts, lengths = vocabulary.offsets[first:-1], vocabulary.lengths[first:]
    ends = np.full(len(blob) + len(lengths), RUN_TOKEN_END, dtype=np.uint8)
    moved = offsets_of(lengths + 1)
    inside = np.ones(len(ends), dtype=np.bool_)
    inside[moved[1:] - 1] = False
    ends[inside] = blob[starts[0] :]
    numbers = runs.blob.view(np.uint32)
    spelled, bounds = join_slices(ends, moved[:-1][numbers], lengths[numbers] + 1)
    fill(counts, (spelled, bounds[runs.offsets // 4], runs.counts))


def from_counts(counts: WordCounts, spec: TokenizerSpec, pattern: str) -> Words:
    """The runs that were counted apart.

    Raises:
        ValueError: for counts that are not those of runs, or not of these words.

    """
    blob, offsets, numbers = arrays_of(counts)
    words = replace(spec, pretokenizer=None, normalizer=None, special_tokens={}, token_flags={})
    engine, marked_words = _make_engine(words, find_eligible_tokens(spec, pattern))
    ends = np.flatnonzero(blob == RUN_TOKEN_END)
    whole = len(numbers) == 0 or bool((blob[offsets[1:] - 1] == RUN_TOKEN_END).all())
    starts = np.concatenate(([0], ends + 1))[:-1]
    at = np.searchsorted(starts, offsets)
    if not whole or (np.diff(at) < 2).any():
        raise ValueError("the second counts are not those of runs of words; make them with bpe.research.count_runs")
    text, bounds = join_slices(blob, starts, ends - starts)
    batch = engine.encode_words(text, bounds)
    marked = np.asarray(batch.ids, dtype=np.uint32)
    if len(marked) != len(starts) or (marked < marked_words.first).any():
        raise ValueError(
            "the second counts have words that are not one eligible token each after the word phase of this training; "
            "count them again, with a tokenizer that was trained on the first counts to the same size"
        )
    tokens = marked_words.tokens[marked - np.uint32(marked_words.first)] - np.uint32(_first_id(spec))
    kept = numbers > 0
    data, at = join_slices(tokens.view(np.uint8), 4 * at[:-1][kept], 4 * np.diff(at)[kept])
    return _make_words(data, at, numbers[kept])
