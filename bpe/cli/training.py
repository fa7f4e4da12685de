"""The commands that read a corpus to learn from: train, count-words, merge-counts, prune."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from typing import Any

import numpy as np

import bpe
from bpe.base.atomic_files import atomic_write
from bpe.base.progress import progress_note
from bpe.base.spelling import spell
from bpe.cli.files import (
    check_corpus,
    check_inputs,
    check_output,
    error_context,
    local_names,
    log_skipped,
    outputs_of,
    say,
    silence_stdout,
    sources_of,
)
from bpe.cli.manual import commands_of
from bpe.corpus.sources import Sources
from bpe.count.word_counts import WordCounts, empty_like
from bpe.errors import counted
from bpe.formats.saving import check_target
from bpe.training.checkpoint import read_progress

log = logging.getLogger("bpe.cli")


def train(args: argparse.Namespace) -> None:
    """Learn a tokenizer from files or word counts, and save it."""
    check_corpus(args)
    if args.end_of_word_glued and not hasattr(args, "end_of_word"):
        args.parser.error("--end-of-word-glued needs --end-of-word")
    check_inputs(args, [] if args.counts is None else [args.counts])
    sources = sources_of(args) if args.files else None
    outputs = _outputs(args, sources)
    wanted = (
        "vocab_size num_merges model pretokenizer end_of_word unk_token min_frequency threads max_memory checkpoint"
    )
    options = {name: getattr(args, name) for name in wanted.split() if hasattr(args, name)}
    options.update(_normalizing(args))
    _with_pattern_options(args, options)
    if args.trace:
        options["on_merge"] = _trace
    progress = not args.quiet and not (args.trace and sys.stdout.isatty())
    try:
        trained: bpe.Tokenizer | list[bpe.Tokenizer] = bpe.train(
            files=sources,
            counts=None if args.counts is None else WordCounts.load(args.counts),
            superwords=None if args.superwords is None else bpe.SuperWords(args.superwords),
            alphabet=bpe.Alphabet(coverage=args.character_coverage, byte_fallback=args.byte_fallback),
            rules=bpe.MergeRules(tie_break=args.tie_break, max_token_length=args.max_token_length),
            split_digits=args.split_digits,
            **options,
            special_tokens=args.special_tokens,
            end_of_word_glued=args.end_of_word_glued,
            progress=progress,
        )
        with progress_note(progress, "write"):
            tokenizers = trained if isinstance(trained, list) else [trained]
            for tokenizer, output in zip(tokenizers, outputs, strict=True):
                tokenizer.save(output)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_saved(args)) from None
    log_skipped(0 if sources is None else sources.skipped)
    for tokenizer, output in zip(tokenizers, outputs, strict=True):
        _log_training(tokenizer, output)


def _log_training(tokenizer: bpe.Tokenizer, output: str) -> None:
    training = tokenizer.spec.training
    assert training is not None
    log.info(
        "%s, %s, learned in %.1f s: %s",
        counted(tokenizer.vocab_size, "token"),
        counted(training.merges, "merge"),
        training.seconds,
        output,
    )


def _outputs(args: argparse.Namespace, sources: Sources | None) -> list[str]:
    """The files to write, checked: none of them, nor a file of the checkpoint, is a file that is read."""
    outputs = outputs_of(args)
    inputs = [*([] if sources is None else local_names(sources)), args.counts]
    for output in outputs:
        check_output(output, inputs)
        check_target(output)
    for path in _checkpoint_files(args):
        check_output(path, [*inputs, *outputs], "--checkpoint")
    return outputs


def _checkpoint_files(args: argparse.Namespace) -> list[str]:
    if not hasattr(args, "checkpoint"):
        return []
    names = [args.checkpoint, f"{args.checkpoint}.counts"]
    if args.superwords is not None:
        names += [f"{args.checkpoint}.stage2", f"{args.checkpoint}.stage2.counts"]
    return names


def _saved(args: argparse.Namespace) -> str:
    """Describe what an interrupted training has saved."""
    merges, counts = read_progress(args.checkpoint) if hasattr(args, "checkpoint") else (0, "")
    if not merges and not counts:
        return "nothing was saved"
    what = " and ".join([*([counts] if counts else []), counted(merges, "merge")])
    return f"the checkpoint {args.checkpoint} has {what}; the same command goes on from there"


def _with_pattern_options(args: argparse.Namespace, options: dict[str, Any]) -> None:
    """Apply --gaps and --timeout to the pattern given by --pattern."""
    given = options.get("pretokenizer")
    if args.timeout is not None and isinstance(given, bpe.Pretokenizer):
        given = options["pretokenizer"] = given.with_timeout(args.timeout)
    if args.gaps is None:
        return
    if not isinstance(given, bpe.Pretokenizer) or given.name is not None:
        args.parser.error("--gaps applies only to a --pattern that is not a named pretokenizer's")
        return
    options["pretokenizer"] = bpe.Pretokenizer.from_regex(given.pattern, gaps=args.gaps, timeout=args.timeout)


def _normalizing(args: argparse.Namespace) -> dict[str, Any]:
    if not args.normalizers:
        return {}
    return {"normalizer": args.normalizers[0] if len(args.normalizers) == 1 else args.normalizers}


def _trace(step: int, left: bytes | str, right: bytes | str, token: bytes | str, count: int) -> None:
    try:
        say(f"{step}\t{spell(left)}\t{spell(right)}\t{spell(token)}\t{count}")
    except BrokenPipeError:  # the reader of the trace has quit (`| head`); training continues
        silence_stdout()


def count_words(args: argparse.Namespace) -> None:
    """Count the words of files, and save the counts."""
    sources = sources_of(args)
    check_output(args.output, local_names(sources))
    options = {name: getattr(args, name) for name in ("pretokenizer", "threads") if hasattr(args, name)}
    _with_pattern_options(args, options)
    began = time.perf_counter()
    counts = bpe.count_words(
        files=sources,
        **options,
        **_normalizing(args),
        special_tokens=args.special_tokens,
        progress=not args.quiet,
    )
    with progress_note(not args.quiet, "write"):
        counts.save(args.output)
    log_skipped(sources.skipped)
    _log_counts(counts, f"counted in {time.perf_counter() - began:.1f} s", args.output)


def merge_counts(args: argparse.Namespace) -> None:
    """Save the sum of several files of word counts."""
    commands = commands_of(args.top)
    check_inputs(args, args.counts)
    check_output(args.output, args.counts)
    weights = args.weights or [1] * len(args.counts)
    if len(weights) != len(args.counts):
        args.parser.error(f"--weights has {counted(len(weights), 'number')}; give one for each of the files")
    first = WordCounts.load(args.counts[0])
    merged = empty_like(first)
    for number, (path, weight) in enumerate(zip(args.counts, weights, strict=True)):
        with error_context(path, flags_of=commands["count-words"]):
            counts = WordCounts.load(path) if number else first
            merged.merge(counts, weight, any_documents=args.any_documents)
    merged.save(args.output)
    _log_counts(merged, f"from {counted(len(args.counts), 'file')}", args.output)


def _log_counts(counts: WordCounts, how: str, path: str) -> None:
    log.info("%s, %d in all, %s: %s", counted(len(counts), "distinct word"), counts.total, how, path)


def prune(args: argparse.Namespace) -> None:
    """Save a tokenizer without the tokens that a corpus needs least."""
    check_corpus(args)
    check_inputs(args, [args.tokenizer, *([] if args.counts is None else [args.counts])])
    sources = sources_of(args) if args.files else None
    inputs = [args.tokenizer, args.counts, *([] if sources is None else local_names(sources))]
    check_output(args.output, inputs)
    if args.remap is not None:
        check_output(args.remap, [*inputs, args.output], "--remap")
    corpus = {"files": sources} if sources is not None else {"counts": WordCounts.load(args.counts)}
    before = bpe.Tokenizer.load(args.tokenizer)
    options = {} if not hasattr(args, "threads") else {"threads": args.threads}
    after, remap = bpe.prune(before, args.vocab_size, **corpus, **options)
    after.save(args.output)
    if args.remap is not None:
        with atomic_write(args.remap) as file:
            np.save(file, remap)
    if sources is not None:
        log_skipped(sources.skipped)
    log.info("%s of %d: %s", counted(after.vocab_size, "token"), before.vocab_size, args.output)
