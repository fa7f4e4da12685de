"""The flags of the commands that read a corpus to learn from: train, count-words, merge-counts, prune, adapt.

Not here: flags that other commands have, too (`shared_arguments.py`).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from bpe.cli.parsing import (
    Parser,
    at_least,
    file_path,
    fraction,
    fractions_of,
    memory_size,
    named,
    named_number,
    positive,
    sizes,
    superwords_start,
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

    def option(flag: str, **kwargs: Any) -> None:
        train.add_argument(flag, default=argparse.SUPPRESS, **kwargs)

    add_files(train, "*")
    _add_size(train)
    train.add_argument("--counts", metavar="words.counts", help="word counts instead of FILES")
    option("--model", choices=("byte", "char"), help="symbols are bytes (default) or characters")
    add_words(train, {"gpt2": "default of byte models", "whitespace": "default of character models"})
    option("--end-of-word", metavar="S", help="a mark at each word's end, such as </w>")
    train.add_argument("--end-of-word-glued", action="store_true", help="the mark is part of the word's last symbol")
    option("--unk-token", metavar="S", help="the token for symbols that are not in the vocabulary")
    option(
        "--tie-break",
        choices=("id", "first", "smallest", "greatest"),
        help="which of the pairs with the highest count is merged; default id",
    )
    option("--min-frequency", metavar="N", type=at_least(1), help="stop below this count of a pair; default 1")
    option("--max-token-length", metavar="N", type=at_least(1), help="make no token longer than N symbols")
    option("--limit-alphabet", metavar="N", type=at_least(1), help="keep only the N most frequent symbols")
    _add_byte_fallback(option)
    option("--first-id", metavar="N", type=at_least(0), help="the first id; default 0")
    _add_superwords(train)
    _add_rules(train)
    _add_languages(train)
    _add_seeds(train)
    option(
        "--deletions",
        metavar="X",
        type=fraction,
        help="delete a token when a merge takes this share of its occurrences, such as 0.9 (PickyBPE)",
    )
    train.add_argument(
        "--corpus-alphabet", action="store_true", help="byte models: begin with the corpus's bytes, not with all 256"
    )
    add_documents(train)
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
    train.add_argument(
        "--trace",
        action="store_true",
        help="a line for each merge on stdout: step, left, right, token, count, with tabs between; bpe show --help "
        "says how tokens are spelled",
    )


def _add_size(train: Parser) -> None:
    """The file to write, and the size of the vocabulary."""
    train.add_argument(
        "-o", "--output", metavar="tokenizer.json", type=file_path, required=True, help="the file to write"
    )
    size = train.add_mutually_exclusive_group(required=True)
    size.add_argument(
        "--vocab-size",
        metavar="N",
        type=sizes,
        default=argparse.SUPPRESS,
        help="tokens in all; N,N,… writes a tokenizer for each size, such as tokenizer-8000.json",
    )
    size.add_argument("--num-merges", metavar="N", type=at_least(0), default=argparse.SUPPRESS, help="merges in all")


def _add_superwords(train: Parser) -> None:
    """The options of `bpe.SuperWords`."""
    train.add_argument(
        "--superwords",
        metavar="N",
        type=superwords_start,
        help="from N tokens on, learn tokens that reach across words; FILES are read twice. With 'boundless', they "
        "join words that are one token each, and compete with tokens within words (BoundlessBPE); with 'boundless:N', "
        "from N tokens on",
    )
    train.add_argument(
        "--eligible",
        metavar="RE",
        help="with --superwords boundless, what a word must match to be joined: a regular expression; default a letter",
    )
    _add_units(train)
    train.add_argument(
        "--drop-unused", action="store_true", help="with --superwords, drop the first tokens that no unit contains"
    )
    train.add_argument(
        "--unit-counts", metavar="units.counts", help="with --superwords and --counts, the counts of stage 2"
    )


def _add_rules(train: Parser) -> None:
    """The options of `bpe.MergeRules`; the last two are those of `bpe.SuperWords` too."""
    train.add_argument(
        "--whole-characters",
        action="store_true",
        help="never join a part of a character with a whole one; inside a character, join from left to right",
    )
    train.add_argument("--one-script", action="store_true", help="make no token with letters of two scripts")
    train.add_argument(
        "--max-words",
        metavar="N",
        type=at_least(0),
        help="the most words of a token, 0 for no limit; with --superwords, of those of the second stage, default 4",
    )
    train.add_argument(
        "--forbid",
        metavar="S",
        nargs="+",
        action="extend",
        help="strings that no token contains; with --superwords, none of the second stage, default a colon with a "
        "space",
    )


def _add_languages(train: Parser) -> None:
    """The options of `bpe.ParityAware`."""
    train.add_argument(
        "--language",
        metavar="NAME=FILE",
        dest="languages",
        type=named,
        action="append",
        default=[],
        help="a language and its text or word counts, instead of FILES: each merge is chosen by the language that is "
        "encoded worst; repeated for each language, and for each file of one",
    )
    train.add_argument(
        "--dev",
        metavar="NAME=FILE",
        type=named,
        action="append",
        default=[],
        help="a text of each language that says the same in all, to compare their lengths by; or its word counts",
    )
    train.add_argument(
        "--ratio",
        metavar="NAME=X",
        type=named_number,
        action="append",
        default=[],
        help="how well each language is to be compressed, relative to the others; instead of --dev",
    )
    train.add_argument(
        "--global-merges", metavar="N", type=at_least(0), help="first N merges of plain training on all languages"
    )
    train.add_argument(
        "--window",
        metavar="N",
        type=at_least(1),
        help="skip a language that chose more than --alpha / languages of the last N merges; the paper has 100",
    )
    train.add_argument("--alpha", metavar="X", type=positive, help="for --window; default 2")


def _add_seeds(train: Parser) -> None:
    """The options of `bpe.Seeds`."""
    train.add_argument(
        "--seed-token",
        metavar="S",
        dest="seed_tokens",
        action="append",
        default=[],
        help="a token that the vocabulary begins with; may be repeated",
    )
    train.add_argument(
        "--seed-merges", metavar="merges.txt", help="merges that the vocabulary begins with, a pair a line"
    )


def _add_units(parser: Parser) -> None:
    parser.add_argument(
        "--units",
        choices=("lines", "paper", "v2"),
        help="what superwords are learned from: whole lines (default), or the patterns of SuperBPE's paper or of its "
        "authors' later vocabularies",
    )


def _add_byte_fallback(option: Callable[..., None]) -> None:
    """The options that train a tokenizer like Llama 2's."""
    option(
        "--byte-fallback",
        action="store_true",
        help="characters outside the alphabet become tokens of their bytes, as in Llama 2; the model is char",
    )
    option(
        "--character-coverage",
        metavar="X",
        type=fraction,
        help="keep the most frequent characters until they are this part of the corpus, such as 0.9995; default 1",
    )
    option("--split-digits", action="store_true", help="each digit is a token of its own")


def add_count_words(count: Parser) -> None:
    """The options of `bpe.count_words`. An option that is not given takes the library's default."""
    add_files(count, "+")
    count.add_argument(
        "-o", "--output", metavar="words.counts", type=file_path, required=True, help="the file to write"
    )
    add_words(count, {"gpt2": "default"})
    _add_units(count)
    count.add_argument(
        "--stage", metavar="N", type=int, choices=(1, 2), help="with --units, the stage whose words are counted: 1 or 2"
    )
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


def add_choosing(command: Parser) -> None:
    """The options of `bpe prune` and `bpe adapt`."""
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
