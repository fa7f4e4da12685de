"""The flags of the commands that read a corpus to learn from: train, count-words, merge-counts, prune."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

from bpe.cli.parsing import (
    Parser,
    at_least,
    file_path,
    fraction,
    fractions_of,
    memory_size,
    sizes,
)
from bpe.cli.shared_arguments import (
    add_documents,
    add_files,
    add_part,
    add_threads,
    add_tokenizer,
    add_words,
)


def add_train(train: Parser) -> None:
    """The options of `bpe.train`. An option that is not given takes the library's default."""
    corpus = train.add_argument_group("corpus")
    add_files(corpus, "*")
    corpus.add_argument("--counts", metavar="words.counts", help="word counts instead of FILES")
    add_documents(corpus)
    add_words(train.add_argument_group("words"), _DEFAULTS)
    _add_result(train.add_argument_group("vocabulary"))
    _add_merges(train.add_argument_group("merges"))
    _add_run(train.add_argument_group("run"))


#: What `bpe train` says of pretokenizers.
_DEFAULTS = {"gpt2": "default of byte models", "whitespace": "default of character models"}


def _add_result(group: argparse._ArgumentGroup) -> None:
    """The file to write, the size of the vocabulary, and the tokens that it begins with."""
    option = _option_of(group)
    group.add_argument(
        "-o", "--output", metavar="tokenizer.json", type=file_path, required=True, help="the file to write"
    )
    size = group.add_mutually_exclusive_group(required=True)
    size.add_argument(
        "--vocab-size",
        metavar="N",
        type=sizes,
        default=argparse.SUPPRESS,
        help="tokens in all; N,N,… writes a tokenizer for each size, such as tokenizer-8000.json",
    )
    size.add_argument("--num-merges", metavar="N", type=at_least(0), default=argparse.SUPPRESS, help="merges in all")
    option("--model", choices=("byte", "char"), help="symbols are bytes (default) or characters")
    option("--unk-token", metavar="S", help="the token for symbols that are not in the vocabulary")
    option("--end-of-word", metavar="S", help="a mark at each word's end, such as </w>")
    group.add_argument("--end-of-word-glued", action="store_true", help="the mark is part of the word's last symbol")
    group.add_argument(
        "--byte-fallback",
        action="store_true",
        help="characters outside the alphabet become tokens of their bytes, as in Llama 2; the model is char",
    )
    group.add_argument(
        "--character-coverage",
        metavar="X",
        type=fraction,
        default=1.0,
        help="keep the most frequent characters until they are this part of the corpus, such as 0.9995; default 1",
    )


def _add_merges(group: argparse._ArgumentGroup) -> None:
    """Which merges are made."""
    group.add_argument(
        "--tie-break",
        choices=("id", "first", "smallest", "greatest"),
        default="id",
        help="which of the pairs with the highest count is merged; default id",
    )
    option = _option_of(group)
    option("--min-frequency", metavar="N", type=at_least(1), help="stop below this count of a pair; default 1")
    group.add_argument("--max-token-length", metavar="N", type=at_least(1), help="make no token longer than N symbols")
    group.add_argument("--split-digits", action="store_true", help="each digit is a token of its own")
    group.add_argument(
        "--superwords",
        metavar="N",
        type=at_least(1),
        help="from N tokens on, learn tokens that reach across words, from whole lines; FILES are read twice",
    )


def _add_run(group: argparse._ArgumentGroup) -> None:
    """How the training is carried out."""
    option = _option_of(group)
    option("--threads", metavar="N", type=at_least(1), help="default: one per core")
    option(
        "--max-memory",
        metavar="SIZE",
        type=memory_size,
        help="the most memory that the process may take: bytes, or with a unit such as 2G; the result is the same",
    )
    option(
        "--checkpoint",
        metavar="PATH",
        type=file_path,
        help="save counts (to PATH.counts) and merges here during training; the same command resumes from them after "
        "Ctrl-C or a crash. Delete both files afterwards",
    )
    group.add_argument(
        "--trace",
        action="store_true",
        help="a line for each merge on stdout: step, left, right, token, count, with tabs between; bpe show --help "
        "says how tokens are spelled",
    )


def _option_of(group: argparse._ArgumentGroup) -> Callable[..., Any]:
    """`add_argument` for options that are absent from the result where they are not given."""
    return partial(group.add_argument, default=argparse.SUPPRESS)


def add_count_words(count: Parser) -> None:
    """The options of `bpe.count_words`. An option that is not given takes the library's default."""
    add_files(count, "+")
    count.add_argument(
        "-o", "--output", metavar="words.counts", type=file_path, required=True, help="the file to write"
    )
    add_words(count, {"gpt2": "default"})
    add_documents(count)
    add_part(count)
    count.add_argument(
        "--threads", metavar="N", type=at_least(1), default=argparse.SUPPRESS, help="default: one per core"
    )


def add_merge_counts(command: Parser) -> None:
    """The options of `bpe merge-counts`."""
    command.add_argument("counts", metavar="A", nargs="+", help="files that bpe count-words made")
    command.add_argument("-o", "--output", metavar="C", type=file_path, required=True, help="the file to write")
    command.add_argument(
        "--weights",
        metavar="W,W,…",
        type=fractions_of,
        help="what the counts of each file are multiplied by, such as 3,1,1/2; products are rounded, halves up",
    )
    command.add_argument(
        "--any-documents",
        action="store_true",
        help="also merge counts of files that other options (--separator, --per-line) divided into documents",
    )


def add_prune(command: Parser) -> None:
    """The options of `bpe prune`."""
    add_files(command, "*")
    add_tokenizer(command)
    command.add_argument(
        "-o", "--output", metavar="OUT", type=file_path, required=True, help="the tokenizer.json to write"
    )
    command.add_argument("--vocab-size", metavar="N", type=at_least(1), required=True, help="tokens of the result")
    command.add_argument("--counts", metavar="words.counts", help="word counts instead of FILES")
    command.add_argument(
        "--remap",
        metavar="remap.npy",
        type=file_path,
        help="also write the new id by old id, -1 for tokens that are gone, as an int32 array",
    )
    add_documents(command)
    add_threads(command)
