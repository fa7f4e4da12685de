"""The commands that read a corpus to train on: `bpe train`, `bpe count-words`, `bpe merge-counts`."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import bpe
from bpe.base.progress import progress_note
from bpe.base.spelling import spell
from bpe.cli.files import (
    check_inputs,
    check_output,
    error_context,
    local_names,
    log_skipped,
    say,
    silence_stdout,
    sources_of,
)
from bpe.cli.manual import commands_of
from bpe.count.word_counts import WordCounts
from bpe.errors import counted
from bpe.training.checkpoint import saved_state

log = logging.getLogger("bpe.cli")


def train(args: argparse.Namespace) -> None:
    """Learn a tokenizer from files or word counts, and save it."""
    if bool(args.files) == (args.counts is not None):
        args.parser.error("give either FILES or --counts words.counts")
    if args.end_of_word_glued and not hasattr(args, "end_of_word"):
        args.parser.error("--end-of-word-glued needs --end-of-word")
    if args.counts is not None and (args.per_line or args.separator is not None):
        args.parser.error("--separator and --per-line cut FILES into documents; --counts has the words already")
    check_inputs(args, [path for path in (args.counts, args.unit_counts) if path])
    sources = sources_of(args) if args.files else None
    inputs = [*(local_names(sources) if sources is not None else []), args.counts, args.unit_counts]
    check_output(args.output, inputs)
    for path in _checkpoint_files(args):
        check_output(path, [*inputs, args.output], "--checkpoint")
    wanted = (
        "vocab_size num_merges model pretokenizer end_of_word unk_token tie_break min_frequency max_token_length "
        "limit_alphabet byte_fallback character_coverage split_digits first_id threads max_memory checkpoint"
    )
    options = {name: getattr(args, name) for name in wanted.split() if hasattr(args, name)}
    options.update(_normalizing(args))
    _with_gaps(args, options)
    if args.corpus_alphabet:
        options["initial_alphabet"] = "corpus"
    superwords = _superwords(args)
    if args.trace:
        options["on_merge"] = _trace
    progress = not args.quiet and not (args.trace and sys.stdout.isatty())
    try:
        tokenizer = bpe.train(
            files=sources,
            counts=None if args.counts is None else _counts(args),
            superwords=superwords,
            **options,
            special_tokens=args.special_tokens,
            end_of_word_glued=args.end_of_word_glued,
            progress=progress,
        )
        with progress_note(progress, "write"):
            tokenizer.save(args.output)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_saved(args)) from None
    if sources is not None:
        log_skipped(sources.skipped)
    training = tokenizer.training
    assert training is not None
    log.info(
        "%s, %s, learned in %.1f s: %s",
        counted(tokenizer.vocab_size, "token"),
        counted(training.merges, "merge"),
        training.seconds,
        args.output,
    )


def _superwords(args: argparse.Namespace) -> bpe.SuperWords | None:
    """The options of stage 2, or None without --superwords."""
    if args.superwords is None:
        given = [("--units", args.units), ("--forbid", args.forbid), ("--drop-unused", args.drop_unused)]
        for flag, value in [*given, ("--unit-counts", args.unit_counts)]:
            if value:
                args.parser.error(f"{flag} needs --superwords N")
        return None
    if bool(args.counts) != bool(args.unit_counts):
        args.parser.error("--superwords needs both --counts and --unit-counts, or FILES")
    return _SUPERWORDS[args.units or "lines"](
        args.superwords,
        max_words=args.max_words or None,
        forbidden=(": ",) if args.forbid is None else tuple(args.forbid),
        unused="drop" if args.drop_unused else "keep",
    )


_SUPERWORDS: dict[str, Callable[..., bpe.SuperWords]] = {
    "lines": bpe.SuperWords,
    "paper": bpe.SuperWords.paper,
    "v2": bpe.SuperWords.v2,
}


def _counts(args: argparse.Namespace) -> WordCounts | tuple[WordCounts, WordCounts]:
    counts = _split_counts(args)
    return counts if args.unit_counts is None else (counts, WordCounts.load(args.unit_counts))


def _checkpoint_files(args: argparse.Namespace) -> list[str]:
    if not hasattr(args, "checkpoint"):
        return []
    names = [args.checkpoint, f"{args.checkpoint}.counts"]
    return (
        names if args.superwords is None else [*names, *(f"{args.checkpoint}.stage2{end}" for end in ("", ".counts"))]
    )


def _saved(args: argparse.Namespace) -> str:
    """Describe what an interrupted training has saved."""
    state = saved_state(args.checkpoint) if hasattr(args, "checkpoint") else None
    if state is None or state == (0, False):
        return "nothing was saved"
    merges, has_counts = state
    what = f"{'the word counts and ' if has_counts else ''}{counted(merges, 'merge')}"
    return f"the checkpoint {args.checkpoint} has {what}; the same command goes on from there"


def _with_gaps(args: argparse.Namespace, options: dict[str, Any]) -> None:
    """Apply --gaps to the pattern given by --pattern."""
    if args.gaps is None:
        return
    given = options.get("pretokenizer")
    if not isinstance(given, bpe.Pretokenizer) or given.name is not None:
        args.parser.error("--gaps applies only to a --pattern that is not a named pretokenizer's")
        return
    options["pretokenizer"] = bpe.Pretokenizer.from_regex(given.pattern, gaps=args.gaps)


def _normalizing(args: argparse.Namespace) -> dict[str, Any]:
    if not args.normalizers:
        return {}
    return {"normalizer": args.normalizers[0] if len(args.normalizers) == 1 else args.normalizers}


def _split_counts(args: argparse.Namespace) -> WordCounts:
    """The counts to train on. Warns if a special token that separated their text is not a token of the result."""
    counts = WordCounts.load(args.counts)
    left_out = [name for name in counts.special_tokens if name not in args.special_tokens]
    if left_out:
        named = ", ".join(left_out)
        log.warning("%s separated the text of the counts and is no token; --special-token makes it one", named)
    return counts


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
    _with_gaps(args, options)
    began = time.perf_counter()
    if (args.units is None) != (args.stage is None):
        args.parser.error("give both --units and --stage, or neither")
    count: Callable[..., WordCounts] = bpe.count_words
    if args.units is not None:
        count = partial(_SUPERWORDS[args.units](1).count_words, args.stage)
        if "pretokenizer" in options:
            args.parser.error("--units has pretokenizers of its own; leave --pretokenizer and --pattern out")
    counts = count(
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
    made_by = commands_of(args.top)["count-words"]
    check_inputs(args, args.counts)
    check_output(args.output, args.counts)
    first, *others = args.counts
    merged = WordCounts.load(first)
    for path in others:
        with error_context(path, flags_of=made_by):
            merged |= WordCounts.load(path)
    merged.save(args.output)
    _log_counts(merged, f"from {counted(len(args.counts), 'file')}", args.output)


def _log_counts(counts: WordCounts, how: str, path: str) -> None:
    log.info("%s, %d in all, %s: %s", counted(len(counts), "distinct word"), counts.total, how, path)
