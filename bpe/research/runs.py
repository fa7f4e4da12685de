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

from bpe.base.memory_limits import MIN_MEMORY
from bpe.base.offsets import compute_offsets
from bpe.base.progress import ProgressLike, check_progress, progress_bar
from bpe.base.threads import resolve_threads
from bpe.base.utf8 import TextLike
from bpe.corpus.blocks import group_texts
from bpe.corpus.documents import read_arrow_documents
from bpe.corpus.sources import Files, Sources
from bpe.count.counting import ThreadTables
from bpe.count.word_counts import WordCounts, borrow_arrays, fill_counts, list_in_order
from bpe.encode.blocks import encode_next_blocks
from bpe.encode.engine import Engine
from bpe.encode.models.boundless import SecondIds, build_with_second_ids
from bpe.encode.models.model import ModelParts
from bpe.errors import describe
from bpe.text.matching import compile_pattern
from bpe.tokenizer import Tokenizer
from bpe.training.kernel_input import NO_SYMBOL_COUNTS, SYMBOL_LIMIT, WordArrays
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.vocabulary import ORDINARY, UNUSED, join_slices

#: The bytes of text that are encoded at once, without a limit of memory and with one.
BYTES_PER_STEP, BYTES_PER_STEP_LIMITED = 32 << 20, 4 << 20
#: What an eligible word has a match of, unless another pattern is given.
LETTER_PATTERN = r"\p{L}"
#: What follows each token of a spelled run.
RUN_TOKEN_END = 0xFF


def count_runs(
    tok: Tokenizer,
    *,
    eligible: str = LETTER_PATTERN,
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
    if spec.n_merges_within_words != len(spec.merges):
        raise ValueError(
            "tok has merges across words, or was not trained with bpe.research.train_boundless; train it with a "
            "transition that is its vocab_size"
        )
    if (files is None) == (texts is None):
        raise ValueError("give exactly one of files= and texts=")
    corpus = texts if files is None else Sources.of(files)
    runs = find_runs(spec, eligible, corpus, spec.special_tokens, resolve_threads(threads), progress)
    counts = WordCounts(spec.pretokenizer, spec.normalizer, tuple(spec.special_tokens))
    counts.units = "runs"
    fill_with_runs(runs, spec, counts)
    return counts


def find_eligible_tokens(spec: TokenizerSpec, pattern: str) -> NDArray[np.int64]:
    """Find the ids of the ordinary tokens that are UTF-8 and have a match of the pattern."""
    search, eligible_ids = compile_pattern(pattern).search, []
    for token_id, token in spec.vocabulary.items(ORDINARY):
        try:
            text = token.decode()
        except UnicodeDecodeError:
            continue
        if search(text):
            eligible_ids.append(token_id)
    return np.array(eligible_ids, dtype=np.int64)


def _make_engine(spec: TokenizerSpec, tokens: NDArray[np.int64]) -> tuple[Engine, SecondIds]:
    """Make an engine that gives pretokens that are one of some tokens a second id, and list these ids."""
    encoder, second_ids = build_with_second_ids(spec, tokens)
    return Engine(spec, parts=ModelParts(encoder, second_ids)), second_ids


def find_runs(
    spec: TokenizerSpec,
    pattern: str,
    corpus: Sources | Iterable[TextLike] | None,
    special_tokens: Iterable[str],
    threads: int,
    progress: ProgressLike,
    max_memory: int | None = None,
) -> WordArrays:
    """Find the distinct runs of a corpus, as words of uint32 token numbers, which begin at 0.

    Args:
        spec: the tokenizer of the word phase.
        pattern: what an eligible token has a match of.
        corpus: the corpus.
        special_tokens: strings that separate text.
        threads: the number of threads that encode.
        progress: as for `bpe.train`.
        max_memory: the most bytes that the process may have; runs that do not fit are spilled to disk.

    Raises:
        ValueError: for runs with too many tokens.

    """
    engine, second_ids = _make_engine(spec, find_eligible_tokens(spec, pattern))
    numbers_by_second_id = second_ids.tokens - np.uint32(_find_first_id(spec))
    total = corpus.size if isinstance(corpus, Sources) else None
    bytes_per_step = BYTES_PER_STEP if max_memory is None else BYTES_PER_STEP_LIMITED
    tables = ThreadTables(1, 0, None if max_memory is None else max_memory - MIN_MEMORY)
    position = 0
    try:
        with progress_bar(progress, "count", total, "B") as bar:
            for ids, lengths, size in _encode_corpus(
                engine, corpus, frozenset(special_tokens), threads, bytes_per_step
            ):
                token_numbers, starts, ends = _find_spans(ids, lengths, second_ids, numbers_by_second_id)
                with tables.lend() as table:
                    table.count_spans(token_numbers.view(np.uint8), 4 * starts, 4 * ends, position)
                position += token_numbers.nbytes
                bar(size)
        del engine
        merged = tables.merge()
    finally:
        tables.close()
    return _make_words(*(merged if isinstance(merged, tuple) else list_in_order(merged)))


def _find_first_id(spec: TokenizerSpec) -> int:
    """Find the id of token 0: ids have no gaps after it."""
    return int(np.flatnonzero(spec.vocabulary.kinds != UNUSED)[0])


def _find_spans(
    ids: NDArray[np.uint32],
    lengths: NDArray[np.int64],
    second_ids: SecondIds,
    numbers_by_second_id: NDArray[np.uint32],
) -> tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.int64]]:
    """Find the runs of texts: (token numbers, starts, ends); tokens outside runs have any number."""
    has_second_id = ids >= second_ids.first_id
    is_boundary = np.ones(len(ids) + 1, dtype=np.bool_)
    np.not_equal(has_second_id[1:], has_second_id[:-1], out=is_boundary[1:-1])
    is_boundary[np.cumsum(lengths)] = True  # of documents
    bounds = np.flatnonzero(is_boundary)
    starts, ends = bounds[:-1], bounds[1:]
    is_run = has_second_id[starts] & (ends - starts > 1) if len(ids) else starts > 0
    token_numbers = (
        numbers_by_second_id[np.where(has_second_id, ids - np.uint32(second_ids.first_id), 0)]
        if len(numbers_by_second_id)
        else ids
    )
    return token_numbers, starts[is_run], ends[is_run]


def _make_words(blob: NDArray[np.uint8], offsets: NDArray[np.int64], counts: NDArray[np.int64]) -> WordArrays:
    """Make words of runs of uint32 token numbers.

    Raises:
        ValueError: for too many tokens.

    """
    n_tokens = len(blob) // 4
    if n_tokens + 2 * len(counts) + 1 > SYMBOL_LIMIT:
        raise ValueError(
            f"the distinct runs of words have {n_tokens} tokens; at most {SYMBOL_LIMIT} fit: train on less text"
        )
    return WordArrays(blob, offsets, counts, NO_SYMBOL_COUNTS, NO_SYMBOL_COUNTS, n_tokens)


# Texts ----------------------------------------------------------------------------------------------------------------


def _encode_corpus(
    engine: Engine,
    corpus: Sources | Iterable[TextLike] | None,
    special_tokens: frozenset[str],
    threads: int,
    bytes_per_step: int,
) -> Iterator[tuple[NDArray[np.uint32], NDArray[np.int64], int]]:
    """Encode the corpus, `bytes_per_step` bytes of text at once: (ids, their number by document, the bytes read)."""
    if isinstance(corpus, Sources):
        find_block_end = engine.make_block_end_finder(corpus.separators, corpus.keep_separator, special_tokens)
        with closing(corpus.blocks(find_block_end, threads)) as blocks:
            size = corpus.text_size or sys.maxsize
            while (
                part := encode_next_blocks(
                    engine, blocks, threads, size, policy=(special_tokens, frozenset()), max_bytes=bytes_per_step
                )
            ) is not None:
                yield part.ids, part.lengths, part.disk_bytes or part.n_bytes
        return
    assert corpus is not None
    arrow_rows = read_arrow_documents(corpus)
    texts = corpus if arrow_rows is None else (text for documents in arrow_rows for text in documents.texts())
    for group in group_texts(texts, bytes_per_step):
        batch = engine.encode_batch(group, threads, special_tokens)
        yield np.asarray(batch.ids, dtype=np.uint32), batch.lengths, sum(map(len, group))


# Counts ---------------------------------------------------------------------------------------------------------------


def fill_with_runs(runs: WordArrays, spec: TokenizerSpec, counts: WordCounts) -> None:
    """Fill empty counts with runs, spelled."""
    vocabulary = spec.vocabulary
    blob, first_id = np.frombuffer(vocabulary.blob, dtype=np.uint8), _find_first_id(spec)
    starts, lengths = vocabulary.offsets[first_id:-1], vocabulary.lengths[first_id:]
    spelled_tokens = np.full(len(blob) + len(lengths), RUN_TOKEN_END, dtype=np.uint8)
    token_offsets = compute_offsets(lengths + 1)
    is_token_byte = np.ones(len(spelled_tokens), dtype=np.bool_)
    is_token_byte[token_offsets[1:] - 1] = False
    spelled_tokens[is_token_byte] = blob[starts[0] :]
    token_numbers = runs.blob.view(np.uint32)
    spelled_runs, bounds = join_slices(spelled_tokens, token_offsets[:-1][token_numbers], lengths[token_numbers] + 1)
    fill_counts(counts, (spelled_runs, bounds[runs.offsets // 4], runs.counts))


def read_counted_runs(counts: WordCounts, spec: TokenizerSpec, pattern: str) -> WordArrays:
    """Read the runs of counts that `count_runs` made.

    Raises:
        ValueError: for counts that are not those of runs, or not of these words.

    """
    blob, offsets, run_counts = borrow_arrays(counts)
    word_spec = replace(spec, pretokenizer=None, normalizer=None, special_tokens={}, token_flags={})
    engine, second_ids = _make_engine(word_spec, find_eligible_tokens(spec, pattern))
    ends = np.flatnonzero(blob == RUN_TOKEN_END)
    all_have_ends = len(run_counts) == 0 or bool((blob[offsets[1:] - 1] == RUN_TOKEN_END).all())
    starts = np.concatenate(([0], ends + 1))[:-1]
    token_indices = np.searchsorted(starts, offsets)
    if not all_have_ends or (np.diff(token_indices) < 2).any():
        raise ValueError("the second counts are not those of runs of words; make them with bpe.research.count_runs")
    text, bounds = join_slices(blob, starts, ends - starts)
    batch = engine.encode_words(text, bounds)
    ids = np.asarray(batch.ids, dtype=np.uint32)
    if len(ids) != len(starts) or (ids < second_ids.first_id).any():
        raise ValueError(
            "the second counts have words that are not one eligible token each after the word phase of this training; "
            "count them again, with a tokenizer that was trained on the first counts to the same size"
        )
    tokens = second_ids.tokens[ids - np.uint32(second_ids.first_id)] - np.uint32(_find_first_id(spec))
    has_count = run_counts > 0
    data, token_indices = join_slices(
        tokens.view(np.uint8), 4 * token_indices[:-1][has_count], 4 * np.diff(token_indices)[has_count]
    )
    return _make_words(data, token_indices, run_counts[has_count])
