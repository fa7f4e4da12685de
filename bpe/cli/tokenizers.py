"""The commands that edit, convert and compare tokenizers: `bpe edit`, `convert` and `diff`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import bpe
from bpe.cli.files import (
    check_files,
    check_inputs,
    check_output,
    log_skipped,
    open_sources,
    print_json,
    print_line,
    refuse_file_options,
)
from bpe.cli.names import check_tokenizers, is_path, load_tokenizer
from bpe.converting import TextDifference, find_text_difference, load_spec_with_pattern
from bpe.errors import get_log, pluralize
from bpe.formats.loading import FORMATS, is_rank_file
from bpe.formats.saving import check_name_has_format, choose_format, compare_all

log = get_log("bpe.cli")


def edit(args: argparse.Namespace) -> None:
    """Save a tokenizer with more tokens."""
    if not args.add_special and not args.add:
        args.parser.error("give the tokens to add, with --add-special or --add")
    check_files(args, *check_tokenizers(args.input))
    tokenizer = load_tokenizer(args, args.input)
    extended_tokenizer = tokenizer.with_tokens(special=args.add_special, added=args.add)
    extended_tokenizer.save(args.output)
    n_more = extended_tokenizer.vocab_size - tokenizer.vocab_size
    first, last = tokenizer.n_vocab, extended_tokenizer.n_vocab - 1
    ids = f"id {first}" if n_more == 1 else f"ids {first} to {last}"
    log.info("%s, %s: %s", pluralize(n_more, "more token"), ids, args.output)


def convert(args: argparse.Namespace) -> None:
    """Write a tokenizer in another format."""
    if args.output is not None and args.named_output is not None:
        args.parser.error(f"OUT is {args.output}, and --output is {args.named_output}; give one of them")
    args.output = args.output if args.named_output is None else args.named_output
    inputs = check_tokenizers(args.input)
    check_inputs(args, inputs)
    if args.to_format is None:
        check_name_has_format(args.output)
    to_format = args.to_format or choose_format(args.output)
    if not FORMATS[to_format].is_folder and not (args.to_format and Path(args.output).is_dir()):
        check_output(args.output, inputs)
    if is_path(args.input):
        bpe.convert(
            args.input,
            args.output,
            from_format=args.from_format,
            to_format=args.to_format,
            pretokenizer=args.pretokenizer,
            lossy=args.lossy,
        )
    elif args.from_format is not None or args.pretokenizer is not None:
        args.parser.error(
            f"{args.input} is the name of a tokenizer; --from, --pretokenizer and --pattern are for files"
        )
    else:
        load_tokenizer(args, args.input).save(args.output, format=args.to_format, lossy=args.lossy)
    log.info("%s, format %s", args.output, to_format)


def diff(args: argparse.Namespace) -> int:
    """Print the differences of two tokenizers; return the exit status."""
    try:
        return _print_differences(args)
    except (OSError, ValueError) as error:
        reason = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
        args.parser.error(reason)
        return 2


def _print_differences(args: argparse.Namespace) -> int:
    paths = (args.first, args.second)
    for path in paths:
        check_inputs(args, check_tokenizers(path))
    are_rank_files = [args.pretokenizer is not None and is_rank_file(path) for path in paths]
    if args.pretokenizer is not None and not any(are_rank_files):
        args.parser.error("--pretokenizer and --pattern are for rank files, but neither A nor B is one")
    first, second = (
        bpe.Tokenizer(load_spec_with_pattern(path, args.pretokenizer)) if needs_pattern else load_tokenizer(args, path)
        for path, needs_pattern in zip(paths, are_rank_files, strict=True)
    )
    if not args.files:
        refuse_file_options(args)
    differences = compare_all(first.spec, second.spec, paths)
    text_differences = list(_compare_texts(args, first, second)) if args.files else []
    is_equal = not text_differences and all(difference.harmless for difference in differences)
    if args.json:
        print_json(
            {
                "equal": is_equal,
                "differences": [
                    {name: getattr(difference, name) for name in ("kind", "field", "message", "harmless")}
                    for difference in differences
                ],
                "files": [difference.to_json() for difference in text_differences],
            }
        )
        return 0 if is_equal else 1
    lines = [
        str(difference) if difference.kind == difference.field else f"{difference.kind}: {difference}"
        for difference in differences
    ]
    for line in (*lines, *text_differences):
        print_line(str(line))
    return 0 if is_equal else 1


class FileDifference(NamedTuple):
    """The first document of a file whose ids differ, and how many there are."""

    file: str
    document: int
    n_documents: int
    n_differing: int
    difference: TextDifference

    def __str__(self) -> str:
        remainder = (
            "" if self.n_differing == 1 else f"; {pluralize(self.n_differing, 'document')} of {self.n_documents} differ"
        )
        return f"ids: {self.difference}{remainder}"

    def to_json(self) -> dict[str, Any]:
        """Return the difference by the keys of `bpe diff --json`."""
        return {
            "file": self.file,
            "documents": self.n_documents,
            "differing_documents": self.n_differing,
            "document": self.document,
            "tokens": list(self.difference.counts),
            "position": self.difference.index,
        }


def _compare_texts(args: argparse.Namespace, first: bpe.Tokenizer, second: bpe.Tokenizer) -> Iterator[FileDifference]:
    """Find the first document of each file whose ids differ."""
    sources = open_sources(args)
    file_sources = [sources.select_file(index) for index in range(len(sources.files))]
    for file, source in zip(sources.files, file_sources, strict=True):
        batches = [_encode_file(first, args.first, source), _encode_file(second, args.second, source)]
        n_documents = len(batches[0])
        differing_indices = [
            index for index in range(n_documents) if not np.array_equal(batches[0][index], batches[1][index])
        ]
        if differing_indices:
            index = differing_indices[0]
            name = file.name if n_documents == 1 else f"{file.name}, document {index}"
            difference = find_text_difference(first, second, name, batches[0][index], batches[1][index])
            assert difference is not None
            yield FileDifference(file.name, index, n_documents, len(differing_indices), difference)
    log_skipped(*file_sources)


def _encode_file(tokenizer: bpe.Tokenizer, name: str, source: bpe.Sources) -> bpe.TokenBatch:
    """Encode a file; an error names the tokenizer, too."""
    try:
        return tokenizer.encode_files(source)
    except ValueError as error:
        raise ValueError(f"with {name}: {error}") from None
