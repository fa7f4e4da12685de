"""The commands that describe, edit and convert tokenizers: `bpe info`, `show`, `edit`, `convert` and `diff`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import bpe
from bpe.cli.files import check_files, check_inputs, check_output, is_counts_file, log_skipped, open_sources, print_line
from bpe.converting import find_text_difference, load_spec_with_pattern
from bpe.errors import FormatError, escape_unprintable, get_log, pluralize
from bpe.formats.loading import FORMATS, is_rank_file
from bpe.formats.saving import check_name_has_format, choose_format, compare_all

log = get_log("bpe.cli")

#: The number of special tokens, and of the longest tokens, that `bpe info` shows.
_MAX_LISTED_NAMES = 10


def info(args: argparse.Namespace) -> None:
    """Describe a tokenizer or a file of word counts."""
    if args.plot and is_counts_file(args.file):
        args.parser.error(f"{args.file} has word counts; --plot draws the training of a tokenizer")
    if args.plot:
        _plot(args.file)
        return
    properties = _describe_counts(args.file) if is_counts_file(args.file) else _describe_tokenizer(args.file)
    for name, value in properties.items():
        print_line(f"{name + ':':<18}{escape_unprintable(str(value))}")


def _plot(path: str) -> None:
    """Draw the curve of a tokenizer's training."""
    from bpe.show.terminal import draw_curve, use_colour

    training = bpe.Tokenizer.load(path).spec.training
    if training is None or not training.curve:
        raise FormatError("has no record of its training; a tokenizer.json that bpe train writes has one", path=path)
    for line in draw_curve(training.curve, colour=use_colour(sys.stdout)):
        print_line(line, styled=True)
    if training.stopped is not None:
        print_line(f"training stopped early: {training.stopped}")


def _describe_counts(path: str) -> dict[str, Any]:
    from bpe.count.word_counts import WordCounts
    from bpe.show.terminal import join_plain

    counts = WordCounts.load(path)
    words = counts.most_common(_MAX_LISTED_NAMES)
    return {
        "file": "word counts",
        "distinct words": len(counts),
        "words in all": counts.total,
        "special tokens": _list_few(list(counts.special_tokens)),
        "pretokenizer": _describe_pretokenizer(counts.pretokenizer),
        "normalizer": _describe_component(counts.normalizer),
        "words of": ", ".join(filter(None, (counts.units, counts.documents))),
        "most frequent": join_plain(word for word, _ in words) if words else "none",
    }


def _describe_tokenizer(path: str) -> dict[str, Any]:
    from bpe.show.terminal import join_plain
    from bpe.vocab.spec import describe_merges, describe_model

    tokenizer = bpe.Tokenizer.load(path)
    lengths = tokenizer.token_byte_lengths
    ids = np.flatnonzero(lengths)
    end_of_word = tokenizer.spec.end_of_word
    attachment = "glued to the last symbol" if tokenizer.spec.end_of_word_glued else "a symbol of its own"
    specials, added_names = tokenizer.special_tokens, tokenizer._engine.specials.always_names
    longest = sorted(ids.tolist(), key=lambda token_id: (-int(lengths[token_id]), token_id))[:_MAX_LISTED_NAMES]
    return {
        "model": describe_model(tokenizer.spec),
        "vocabulary": f"{pluralize(len(tokenizer), 'token')}, ids {int(ids[0])} to {int(ids[-1])}"
        if len(ids)
        else "empty",
        "merges": describe_merges(tokenizer.spec),
        "special tokens": _list_few(
            [f"{name} {token_id}" for name, token_id in specials.items() if name not in added_names]
        ),
        "added tokens": _list_few([f"{name} {token_id}" for name, token_id in specials.items() if name in added_names]),
        "roles": _list_roles(tokenizer),
        "unknown token": tokenizer.spec.unk_token or "none",
        "end-of-word mark": "none" if end_of_word is None else f"{end_of_word}, {attachment}",
        "pretokenizer": _describe_pretokenizer(tokenizer.pretokenizer),
        "normalizer": _describe_component(tokenizer.normalizer),
        "fingerprint": tokenizer.fingerprint,
        "longest tokens": join_plain(tokenizer.token_bytes(token_id) for token_id in longest),
    }


def _list_roles(tokenizer: bpe.Tokenizer) -> str:
    roles = [f"{role} {name}" for role, name in tokenizer.roles.items()]
    for role, name in (("bos_token", tokenizer.bos_token), ("eos_token", tokenizer.eos_token)):
        if name is not None and role not in tokenizer.roles:
            roles.append(f"{role} {name} (by the template or a usual name)")
    return ", ".join(roles) or "none"


def _describe_pretokenizer(pretokenizer: bpe.Pretokenizer | None) -> str:
    if pretokenizer is None:
        return "none: a text is one word"
    finder = "the regex package" if pretokenizer.scanner is None else "a scanner"
    return f"{pretokenizer.name or repr(pretokenizer)}, pretokens found by {finder}"


def _list_few(names: list[str]) -> str:
    remainder = [f"and {len(names) - _MAX_LISTED_NAMES} more"] if len(names) > _MAX_LISTED_NAMES else []
    return ", ".join(names[:_MAX_LISTED_NAMES] + remainder) or "none"


def _describe_component(value: object) -> str:
    return "none" if value is None else repr(value)


def edit(args: argparse.Namespace) -> None:
    """Save a tokenizer with more tokens."""
    if not args.add_special and not args.add:
        args.parser.error("give the tokens to add, with --add-special or --add")
    check_files(args, args.input)
    tokenizer = bpe.Tokenizer.load(args.input)
    extended_tokenizer = tokenizer.with_tokens(special=args.add_special, added=args.add)
    extended_tokenizer.save(args.output)
    n_more = pluralize(extended_tokenizer.vocab_size - tokenizer.vocab_size, "more token")
    log.info("%s, ids %d to %d: %s", n_more, tokenizer.n_vocab, extended_tokenizer.n_vocab - 1, args.output)


def show(args: argparse.Namespace) -> None:
    """Print a text with its tokens marked."""
    from bpe.base.utf8 import read_all
    from bpe.show.terminal import render, use_colour

    if args.text == "-":
        check_inputs(args, ["-"])
    text = read_all(sys.stdin.buffer, "stdin") if args.text == "-" else os.fsencode(args.text)
    tokenizer = bpe.Tokenizer.load(args.tokenizer)
    if args.explain:
        print_line(tokenizer.explain(text))
    else:
        print_line(render(tokenizer.tokens(text), colour=use_colour(sys.stdout)), styled=True)


def convert(args: argparse.Namespace) -> None:
    """Write a tokenizer in another format."""
    if args.output is not None and args.named_output is not None:
        args.parser.error(f"OUT is {args.output}, and --output is {args.named_output}; give one of them")
    args.output = args.output if args.named_output is None else args.named_output
    check_inputs(args, [path for path in (args.input,) if not os.path.isdir(path)])
    if args.to_format is None:
        check_name_has_format(args.output)
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
        check_inputs(args, [] if os.path.isdir(path) else [path])
    are_rank_files = [args.pretokenizer is not None and is_rank_file(path) for path in paths]
    if args.pretokenizer is not None and not any(are_rank_files):
        args.parser.error("--pretokenizer and --pattern are for rank files, but neither A nor B is one")
    first, second = (
        bpe.Tokenizer(load_spec_with_pattern(path, args.pretokenizer if needs_pattern else None))
        for path, needs_pattern in zip(paths, are_rank_files, strict=True)
    )
    differences = compare_all(first.spec, second.spec, paths)
    lines = [
        str(difference) if difference.kind == difference.field else f"{difference.kind}: {difference}"
        for difference in differences
    ]
    text_differences = list(_compare_texts(args, first, second)) if args.files else []
    for line in (*lines, *text_differences):
        print_line(line)
    return 0 if not text_differences and all(difference.harmless for difference in differences) else 1


def _compare_texts(args: argparse.Namespace, first: bpe.Tokenizer, second: bpe.Tokenizer) -> Iterator[str]:
    """Describe the first document of each file whose ids differ, and count the documents that differ."""
    sources = open_sources(args)
    file_sources = [sources.select_file(index) for index in range(len(sources.files))]
    for file, source in zip(sources.files, file_sources, strict=True):
        batches = [tokenizer.encode_files(source) for tokenizer in (first, second)]
        n_documents = len(batches[0])
        differing_indices = [
            index for index in range(n_documents) if not np.array_equal(batches[0][index], batches[1][index])
        ]
        if differing_indices:
            index = differing_indices[0]
            name = file.name if n_documents == 1 else f"{file.name}, document {index}"
            remainder = (
                ""
                if len(differing_indices) == 1
                else f"; {pluralize(len(differing_indices), 'document')} of {n_documents} differ"
            )
            yield f"ids: {find_text_difference(first, second, name, batches[0][index], batches[1][index])}{remainder}"
    log_skipped(*file_sources)
