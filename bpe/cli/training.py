"""The commands that learn from a corpus: train, count-words, merge-counts, extend, prune; and truncate."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bpe
from bpe.base.atomic_files import atomic_write
from bpe.base.progress import progress_note
from bpe.cli.arguments import build_parser
from bpe.cli.files import (
    check_files,
    error_context,
    is_counts_file,
    list_outputs,
    log_skipped,
    open_corpus,
    refuse_file_options,
)
from bpe.cli.names import check_tokenizers, load_tokenizer
from bpe.cli.tracing import MAX_WORDS, MergeTrace, TracedCorpus
from bpe.corpus.sources import Sources
from bpe.count.word_counts import WordCounts, empty_like
from bpe.errors import get_log, pluralize
from bpe.formats.saving import check_target
from bpe.training.checkpoint import read_progress
from bpe.training.config import choose_default_pretokenizer

log = get_log("bpe.cli")

#: Arguments of `bpe.train` and `bpe.count_words` that the command passes on under the same names where they are given.
_SHARED_ARGUMENTS = (
    "vocab_size num_merges model pretokenizer end_of_word unk_token min_frequency threads max_memory checkpoint"
)


def train(args: argparse.Namespace) -> None:
    """Learn a tokenizer from files or word counts, and save it."""
    if args.end_of_word_glued and args.end_of_word is None:
        args.parser.error("--end-of-word-glued needs --end-of-word")
    if args.superwords is not None and (given := next((n for n in ("counts", "words") if getattr(args, n)), None)):
        args.parser.error(f"--superwords learns from whole lines, which --{given} does not have; give FILES instead")
    sources = _open_training_corpus(args)
    outputs = list_outputs(args)
    for output in outputs:
        _check_format(output)
    options = _read_options(args)
    default_pretokenizer = choose_default_pretokenizer(args.model == "char" or args.byte_fallback)
    word_settings = {"pretokenizer": default_pretokenizer, **_select_word_settings(options)}
    corpus = _make_corpus_arguments(args, sources, word_settings)
    if args.corpus:
        corpus = {"files": None, "counts": _count_corpus(args, corpus, word_settings)}
    trace = MergeTrace(_make_traced_corpus(args, corpus["counts"]) if args.corpus else None) if args.trace else None
    if trace is not None:
        options["on_merge"] = trace
    progress = not args.quiet and not (args.trace and sys.stdout.isatty())
    try:
        result: bpe.Tokenizer | list[bpe.Tokenizer] = bpe.train(
            **corpus,
            superwords=None if args.superwords is None else bpe.SuperWords(args.superwords),
            alphabet=bpe.Alphabet(coverage=args.character_coverage, byte_fallback=args.byte_fallback),
            rules=bpe.MergeRules(tie_break=args.tie_break, max_token_length=args.max_token_length),
            split_digits=args.split_digits,
            **options,
            end_of_word_glued=args.end_of_word_glued,
            progress=progress,
        )
        if trace is not None:
            trace.finish()
        with progress_note(progress, "write"):
            tokenizers = result if isinstance(result, list) else [result]
            for tokenizer, output in zip(tokenizers, outputs, strict=True):
                tokenizer.save(output)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_describe_checkpoint(args.checkpoint)) from None
    log_skipped(sources)
    for tokenizer, output in zip(tokenizers, outputs, strict=True):
        training = tokenizer.spec.training
        assert training is not None
        tokens, merges = pluralize(tokenizer.vocab_size, "token"), pluralize(training.merges, "merge")
        log.info("%s, %s, learned in %.1f s: %s", tokens, merges, training.seconds, output)


def _open_training_corpus(args: argparse.Namespace) -> Sources | None:
    """Check the corpus of a training, which is given in one way: FILES, which are opened, --counts or --words."""
    if args.corpus:
        _check_corpus_can_be_traced(args)
    if args.words is None:
        return _open_corpus(args)
    if args.files or args.counts is not None:
        args.parser.error("--words has the words already; leave out FILES and --counts")
    refuse_file_options(args, "with --words there are no FILES")
    check_files(args)
    return None


#: Why some options cannot be combined with --corpus.
_UNTRACEABLE = {
    **dict.fromkeys(
        ("--split-digits", "--max-token-length", "--character-coverage"),
        "--corpus prints all pairs, of which {} excludes some",
    ),
    "--superwords": "--corpus prints pairs within words, and {} learns others",
    "--checkpoint": "--corpus begins at the first merge, and {} may go on after it",
    "--max-memory": "--corpus is for small corpora, which need no {}",
}


def _check_corpus_can_be_traced(args: argparse.Namespace) -> None:
    """Refuse --corpus without --trace, or with options by which the merges are not those of all pairs it prints."""
    if not args.trace:
        args.parser.error("--corpus shows the corpus between the merges; it needs --trace")
    for flag, reason in _UNTRACEABLE.items():
        name = flag[2:].replace("-", "_")
        if getattr(args, name) != args.parser.get_default(name):
            args.parser.error(f"{reason.format(flag)}; leave out one of them")


def _make_traced_corpus(args: argparse.Namespace, counts: Mapping[Any, int] | WordCounts) -> TracedCorpus:
    """Make the corpus that --corpus prints.

    Raises:
        ValueError: for too many words.

    """
    if len(counts) > MAX_WORDS:
        raise ValueError(
            f"the corpus has {pluralize(len(counts), 'distinct word')}; --corpus prints those of at most {MAX_WORDS}: "
            "leave it out, or take a part of the corpus"
        )
    return TracedCorpus.from_arguments(args, counts.items())


def _open_corpus(args: argparse.Namespace, *inputs: str) -> Sources | None:
    """Check the corpus, which is given in one way: FILES, which are opened, or --counts."""
    if bool(args.files) == (args.counts is not None):
        args.parser.error("give either FILES or --counts words.counts")
    if args.files:
        return open_corpus(args, inputs)
    refuse_file_options(args, "with --counts there are no FILES")
    check_files(args, *inputs, args.counts)
    return None


def _make_corpus_arguments(
    args: argparse.Namespace, sources: Sources | None, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the corpus by the names of arguments; `settings` decide the words of a list, which records none."""
    if sources is not None:
        return {"files": sources, "counts": None}
    if getattr(args, "words", None) is not None:
        return {"files": None, "counts": args.words}
    if is_counts_file(args.counts):
        return {"files": None, "counts": WordCounts.load(args.counts)}
    return {"files": None, "counts": WordCounts.from_text(args.counts, **settings)}


def _count_corpus(args: argparse.Namespace, corpus: Mapping[str, Any], settings: Mapping[str, Any]) -> Any:
    """Return the counts of a corpus that is given by the names of arguments; FILES are counted."""
    if corpus["counts"] is not None:
        return corpus["counts"]
    return bpe.count_words(files=corpus["files"], **settings, threads=args.threads, progress=not args.quiet)


def _select_word_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Select what decides the words of a text from the options of a training."""
    names = ("pretokenizer", "normalizer", "special_tokens")
    return {name: options[name] for name in names if name in options}


def _list_word_settings(tokenizer: bpe.Tokenizer) -> dict[str, Any]:
    """List what decides the words of a text, by the names of arguments of `bpe.count_words`."""
    return {
        "pretokenizer": tokenizer.pretokenizer,
        "normalizer": tokenizer.normalizer,
        "special_tokens": list(tokenizer.special_tokens),
    }


def _read_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options that training and counting words share, with --gaps and --timeout in the pretokenizer."""
    options = {name: value for name in _SHARED_ARGUMENTS.split() if (value := getattr(args, name, None)) is not None}
    options["special_tokens"] = args.special_tokens
    if args.normalizers:
        options["normalizer"] = args.normalizers[0] if len(args.normalizers) == 1 else args.normalizers
    pretokenizer: bpe.Pretokenizer | None = getattr(args, "pretokenizer", None)
    if args.gaps is not None:
        if pretokenizer is None or pretokenizer.name is not None:
            args.parser.error("--gaps applies only to a --pattern that is not a named pretokenizer's")
        assert pretokenizer is not None
        pretokenizer = bpe.Pretokenizer.from_regex(pretokenizer.pattern, gaps=args.gaps, timeout=args.timeout)
    elif args.timeout is not None and pretokenizer is not None:
        pretokenizer = pretokenizer.with_timeout(args.timeout)
    if hasattr(args, "pretokenizer"):
        options["pretokenizer"] = pretokenizer
    return options


def _check_format(output: str) -> None:
    """Raise ValueError for an output whose format may not hold the tokenizer, which would then be lost."""
    format_ = check_target(output)
    if format_.name not in ("huggingface", "compiled"):
        raise ValueError(
            f"OUT is {output}, {format_.description}, which does not keep every tokenizer; train to a .json, and then "
            f"write the other file: bpe convert tokenizer.json {output}"
        )


def _describe_checkpoint(path: str | None) -> str:
    """Describe what an interrupted training has saved."""
    merges, counts = (0, "") if path is None else read_progress(path)
    if not merges and not counts:
        return "nothing was saved"
    contents = " and ".join([*([counts] if counts else []), pluralize(merges, "merge")])
    return f"the checkpoint {path} has {contents}; the same command goes on from there"


def count_words(args: argparse.Namespace) -> None:
    """Count the words of files, and save the counts."""
    sources = open_corpus(args)
    options = _read_options(args)
    start = time.perf_counter()
    counts = bpe.count_words(files=sources, **options, progress=not args.quiet)
    with progress_note(not args.quiet, "write"):
        counts.save(args.output)
    log_skipped(sources)
    _log_counts(counts, f"counted in {time.perf_counter() - start:.1f} s", args.output)


def merge_counts(args: argparse.Namespace) -> None:
    """Save the sum of several files of word counts."""
    check_files(args, *args.counts)
    weights = args.weights or [1] * len(args.counts)
    if len(weights) != len(args.counts):
        args.parser.error(f"--weights has {pluralize(len(weights), 'number')}; give one for each of the files")
    first_counts = WordCounts.load(args.counts[0])
    total_counts = empty_like(first_counts)
    parser = build_parser("count-words")  # errors name the options of counting
    for index, (path, weight) in enumerate(zip(args.counts, weights, strict=True)):
        with error_context(path, parser=parser):
            counts = WordCounts.load(path) if index else first_counts
            total_counts.merge(counts, weight, any_documents=args.any_documents)
    total_counts.save(args.output)
    _log_counts(total_counts, f"from {pluralize(len(args.counts), 'file')}", args.output)


def _log_counts(counts: WordCounts, origin: str, path: str) -> None:
    log.info("%s, %d in all, %s: %s", pluralize(len(counts), "distinct word"), counts.total, origin, path)


def extend(args: argparse.Namespace) -> None:
    """Save a tokenizer with more tokens, learned from a corpus."""
    sources = _open_corpus(args, *check_tokenizers(args.tokenizer))
    check_target(args.output)
    tokenizer = load_tokenizer(args, args.tokenizer)
    settings = _list_word_settings(tokenizer)
    counts = _count_corpus(args, _make_corpus_arguments(args, sources, settings), settings)
    extended_tokenizer = bpe.extend(
        tokenizer,
        counts,
        args.vocab_size,
        min_frequency=args.min_frequency or 1,
        split_digits=args.split_digits,
        progress=not args.quiet,
    )
    extended_tokenizer.save(args.output)
    log_skipped(sources)
    _log_size(extended_tokenizer, tokenizer, args.output)


def _log_size(result: bpe.Tokenizer, original: bpe.Tokenizer, path: str) -> None:
    log.info("%s instead of %d: %s", pluralize(result.vocab_size, "token"), original.vocab_size, path)


def truncate(args: argparse.Namespace) -> None:
    """Save a tokenizer without the tokens of its last merges."""
    check_files(args, *check_tokenizers(args.input))
    check_target(args.output)
    tokenizer = load_tokenizer(args, args.input)
    smaller_tokenizer, remap = tokenizer.truncate_vocab(args.vocab_size, renumber=not args.keep_ids)
    smaller_tokenizer.save(args.output)
    _write_remap(args, remap)
    _log_size(smaller_tokenizer, tokenizer, args.output)


def _write_remap(args: argparse.Namespace, remap: NDArray[np.int32]) -> None:
    """Write the new id of each old one to the file of --remap."""
    if args.remap is not None:
        with atomic_write(args.remap) as file:
            np.save(file, remap)


def prune(args: argparse.Namespace) -> None:
    """Save a tokenizer without the tokens that a corpus needs least."""
    sources = _open_corpus(args, *check_tokenizers(args.tokenizer))
    tokenizer = load_tokenizer(args, args.tokenizer)
    corpus = _make_corpus_arguments(args, sources, _list_word_settings(tokenizer))
    pruned_tokenizer, remap = bpe.prune(tokenizer, args.vocab_size, **corpus, threads=args.threads)
    pruned_tokenizer.save(args.output)
    _write_remap(args, remap)
    log_skipped(sources)
    _log_size(pruned_tokenizer, tokenizer, args.output)
