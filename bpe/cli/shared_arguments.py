"""The flags that several commands have.

Not here: the flags of one command (`arguments.py`), and those of commands that learn (`training_arguments.py`).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bpe._names import NORMALIZERS, SOURCE_FORMATS
from bpe.cli.parsing import (
    Parser,
    at_least,
    checked,
    part,
    unescaped,
)
from bpe.pretokenize.patterns import NAMES
from bpe.text.matching import check_timeout

if TYPE_CHECKING:
    import bpe
    from bpe.text.normalizers import Normalizer


def pretokenizer_named(name: str) -> bpe.Pretokenizer | None:
    """A pretokenizer by its name; None for "none"."""
    from bpe.pretokenize.pretokenizer import as_pretokenizer

    return None if name == "none" else as_pretokenizer(name)


def pretokenizer_of_pattern(pattern: str) -> bpe.Pretokenizer:
    """A pretokenizer by a pattern of the `regex` package."""
    from bpe.pretokenize.pretokenizer import Pretokenizer

    return Pretokenizer.from_regex(pattern)


def pretokenizer_of_ranks(pattern: str) -> bpe.Pretokenizer:
    """A pretokenizer by a pattern as tiktoken reads it."""
    from bpe.formats.tiktoken import pattern_of

    return pattern_of(pattern)


def normalizer_named(name: str) -> Normalizer:
    """A normalizer by its name."""
    from bpe.text.normalizers import by_name

    return by_name(name)


def remover_of(pattern: str) -> Normalizer:
    """A normalizer that removes the matches of a pattern."""
    from bpe.text.normalizers import Remove

    return Remove(pattern)


def add_words(parser: argparse._ActionsContainer, remarks: Mapping[str, str]) -> None:
    """The options that split texts into words, for `bpe train` and `bpe count-words`."""
    names = ", ".join(f"{name} ({remarks[name]})" if name in remarks else name for name in NAMES)
    cut = parser.add_mutually_exclusive_group()
    cut.add_argument(
        "--pretokenizer",
        metavar="NAME",
        type=checked(pretokenizer_named),
        default=argparse.SUPPRESS,
        help=f"{names}; metaspace: words begin with ▁, as in Llama 2; or none: a text is one word",
    )
    cut.add_argument(
        "--pattern",
        metavar="RE",
        dest="pretokenizer",
        type=checked(pretokenizer_of_pattern),
        default=argparse.SUPPRESS,
        help="a regular expression (of Python's regex package) that finds the pretokens",
    )
    parser.add_argument(
        "--gaps",
        choices=["keep", "drop", "error"],
        default=None,
        help="text that --pattern does not match: a pretoken of its own, dropped (default), or an error",
    )
    add_timeout(parser)
    parser.add_argument(
        "--special-token",
        metavar="S",
        dest="special_tokens",
        action="append",
        default=[],
        help="a special token: it separates text and is part of no word; may be repeated",
    )
    parser.add_argument(
        "--normalizer",
        metavar="NAME",
        dest="normalizers",
        action="append",
        type=checked(normalizer_named),
        default=[],
        help=f"{', '.join(NORMALIZERS)}; may be repeated, and mixed with --remove: applied in the order given",
    )
    parser.add_argument(
        "--remove",
        metavar="RE",
        dest="normalizers",
        action="append",
        type=checked(remover_of),
        help="remove what the regular expression matches",
    )


def add_rank_pattern(parser: Parser) -> None:
    """The pattern of rank files, which hold none."""
    cut = parser.add_mutually_exclusive_group()
    cut.add_argument(
        "--pretokenizer",
        metavar="NAME",
        help=f"the pattern of a rank file that is not one of OpenAI's own: {', '.join(NAMES)}; or the name of an "
        "encoding, such as cl100k_base, for its special tokens too",
    )
    cut.add_argument(
        "--pattern",
        metavar="RE",
        dest="pretokenizer",
        type=checked(pretokenizer_of_ranks),
        help="the same as a regular expression, which is read as tiktoken does",
    )


def add_files(parser: argparse._ActionsContainer, number: str) -> None:
    """FILES, of which there are `number` as argparse writes it, and their format."""
    parser.add_argument(
        "files", metavar="FILE", nargs=number, help="files, globs, directories, - for stdin, or scheme://…"
    )
    add_input_format(parser)


def add_input_format(parser: argparse._ActionsContainer) -> None:
    """What the files are, and what becomes of bad records."""
    parser.add_argument(
        "--input-format",
        choices=SOURCE_FORMATS,
        default="auto",
        help="the format of FILES; by default by their names: .jsonl .ndjson .csv .tsv .parquet .arrow .feather .ipc, "
        "else text; text formats also as .gz .bz2 .xz .zst",
    )
    parser.add_argument(
        "--field",
        "--column",
        metavar="NAME",
        dest="field",
        default="text",
        help="the field or column that holds the text, with dots between nested ones; default text",
    )
    parser.add_argument(
        "--on-error",
        choices=("raise", "skip"),
        default="raise",
        help="a bad record (no JSON, no such field, null, not UTF-8) is an error (raise, default) or left out (skip)",
    )
    parser.add_argument(
        "--quoting",
        choices=("auto", "excel", "none"),
        default="auto",
        help="quotation marks in CSV and TSV: around fields (excel), or text (none); auto, the default: excel, but an "
        "error where they seem to swallow rows",
    )


def add_part(parser: Parser) -> None:
    """The part of the corpus that this process works on."""
    parser.add_argument(
        "--part",
        metavar="I/N",
        type=part,
        help="only part I of N, 0/N to N-1/N: about as many bytes in each; the parts in order are the whole",
    )


def add_tokenizer(parser: Parser) -> None:
    """The tokenizer to use."""
    parser.add_argument("-t", "--tokenizer", metavar="tokenizer.json", required=True, help="the tokenizer to use")


def add_documents(parser: argparse._ActionsContainer) -> None:
    """What a document is, and what becomes of bytes that are not UTF-8."""
    cut = parser.add_mutually_exclusive_group()
    cut.add_argument(
        "--separator",
        metavar="S",
        type=unescaped,
        help="the string between the documents of a file, part of neither and without an id (\\n \\r \\t \\0 and \\\\ "
        "are escapes); without it a file is one document",
    )
    cut.add_argument("--per-line", action="store_true", help="each line is a document, its newline included")
    add_encoding_errors(parser)


def add_timeout(parser: argparse._ActionsContainer) -> None:
    """The time limit for regular expressions."""
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=checked(seconds),
        help="the time that regular expressions may take for one text; default 10 and more for long texts, inf: any",
    )


def seconds(text: str) -> float | None:
    """The value of --timeout."""
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number of seconds") from None
    return check_timeout(value)


def add_encoding_errors(parser: argparse._ActionsContainer) -> None:
    """What becomes of bytes that are not UTF-8."""
    parser.add_argument(
        "--encoding-errors",
        choices=("strict", "replace", "bytes"),
        default="strict",
        help="bytes that are not UTF-8 are an error (strict, default), become U+FFFD (replace), or are kept (bytes)",
    )


def add_around(parser: Parser) -> None:
    """Ids before and after each document."""
    for flag, where in (("--prepend", "before"), ("--append", "after")):
        parser.add_argument(
            flag,
            metavar="ID_OR_TOKEN",
            help=f"write this id, or that of this special token, {where} each document, such as '<|endoftext|>'; "
            "in shards it replaces the format's default (the end of text after documents for nanogpt and datatrove, "
            "before them for llmc), and '' writes none",
        )


def add_threads(parser: Parser) -> None:
    """The number of threads."""
    parser.add_argument("--threads", metavar="N", type=at_least(1), help="default: one per core")


def add_special(parser: Parser) -> None:
    """Whether special tokens in the text become their ids."""
    parser.add_argument(
        "--allow-special", action="store_true", help="special tokens in the text become themselves, not plain text"
    )
