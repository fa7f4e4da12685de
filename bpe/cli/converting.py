"""The commands `bpe convert` and `bpe diff`."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import bpe
from bpe.cli.files import check_inputs, check_output, log_skipped, say, sources_of
from bpe.converting import spec_with, text_difference
from bpe.errors import counted
from bpe.formats.loading import FORMATS, is_rank_file
from bpe.formats.saving import check_named, choose_format, compare_all

log = logging.getLogger("bpe.cli")


def convert(args: argparse.Namespace) -> None:
    """Write a tokenizer in another format."""
    if args.output is not None and args.named_output is not None:
        args.parser.error(f"OUT is {args.output}, and --output is {args.named_output}; give one of them")
    args.output = args.output if args.named_output is None else args.named_output
    if not os.path.isdir(args.input):
        check_inputs(args, [args.input])
    if args.to_format is None:
        check_named(args.output)
    to_format = args.to_format or choose_format(args.output)
    if not FORMATS[to_format].is_folder and not (args.to_format and Path(args.output).is_dir()):
        check_output(args.output, [args.input])
    bpe.convert(
        args.input,
        args.output,
        from_format=args.from_format,
        to_format=args.to_format,
        pretokenizer=args.pretokenizer,
        lossy=args.lossy,
    )
    log.info("%s, format %s", args.output, to_format)


def diff(args: argparse.Namespace) -> int:
    """Print the differences of two tokenizers; the exit status."""
    try:
        return _diff(args)
    except (OSError, ValueError) as error:
        reason = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
        args.parser.error(reason)
        return 2


def _diff(args: argparse.Namespace) -> int:
    for path in (args.first, args.second):
        if not os.path.isdir(path):
            check_inputs(args, [path])
    paths = (args.first, args.second)
    ranks = [args.pretokenizer is not None and is_rank_file(path) for path in paths]
    if args.pretokenizer is not None and not any(ranks):
        args.parser.error("--pretokenizer and --pattern are for rank files, but neither A nor B is one")
    first, second = (
        bpe.Tokenizer(spec_with(path, args.pretokenizer if of_ranks else None))
        for path, of_ranks in zip(paths, ranks, strict=True)
    )
    found = compare_all(first.spec, second.spec, (args.first, args.second))
    of_texts = list(_text_differences(args, first, second)) if args.files else []
    of_both = (str(each) if each.kind == each.field else f"{each.kind}: {each}" for each in found)
    for line in (*of_both, *of_texts):
        say(line)
    return 0 if not of_texts and all(each.harmless for each in found) else 1


def _text_differences(args: argparse.Namespace, first: bpe.Tokenizer, second: bpe.Tokenizer) -> Iterator[str]:
    """The first document of each file whose ids differ, and how many do."""
    sources = sources_of(args)
    skipped = 0
    for number, file in enumerate(sources.files):
        one = sources.one_file(number)
        batches = [each.encode_files(one) for each in (first, second)]
        skipped += one.skipped
        pairs = zip(*batches, strict=True)
        found = [i for i, (ids, others) in enumerate(pairs) if not np.array_equal(ids, others)]
        if found:
            i = found[0]
            name = file.name if len(batches[0]) == 1 else f"{file.name}, document {i}"
            more = "" if len(found) == 1 else f"; {counted(len(found), 'document')} of {len(batches[0])} differ"
            yield f"ids: {text_difference(first, second, name, batches[0][i], batches[1][i])}{more}"
    log_skipped(skipped)
