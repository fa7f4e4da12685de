"""The commands and flags of `bpe`, for argparse. `training.py`, `encoding.py` and `inspecting.py` run the commands."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

import bpe
from bpe.cli.completion import SHELLS
from bpe.cli.parsing import (
    Parser,
    at_least,
    checked,
    file_path,
    fraction,
    fractions_of,
    memory_size,
    named,
    named_number,
    output_path,
    part,
    port,
    positive,
    sizes,
    superwords_start,
    unescaped,
)
from bpe.corpus.sources import FORMAT_NAMES
from bpe.data.formats import FORMATS
from bpe.formats.loading import format_names
from bpe.pretokenize.pretokenizer import NAMES, as_pretokenizer
from bpe.text import normalizers

Command = Callable[[argparse.Namespace], int | None]


def _pretokenizer(name: str) -> bpe.Pretokenizer | None:
    return None if name == "none" else as_pretokenizer(name)


def values_of_flags() -> dict[str, list[str]]:
    """The values to complete for flags that have no `choices` in argparse."""
    return {"--pretokenizer": [*NAMES, "metaspace", "none"], "--normalizer": list(normalizers.NAMES)}


def parser(commands: Mapping[str, Command]) -> argparse.ArgumentParser:
    """The parser of the whole command line. In its result, `run` is the command's function and `parser` its parser."""
    top = Parser(prog="bpe", description="Byte-pair encoding: train a tokenizer, encode and decode text.")
    top.add_argument("--version", action="version", version=f"bpe {bpe.__version__}")
    words = top.add_subparsers(metavar="COMMAND", required=True)
    for name, (summary, more, add_arguments) in _COMMANDS.items():
        command: Parser = words.add_parser(name, help=summary, description=f"{summary.capitalize()}. {more}".strip())
        command.set_defaults(run=commands[name], parser=command, top=top)
        command.add_argument("--quiet", action="store_true", help="no progress bar, and only warnings in the log")
        add_arguments(command)
    return top


def _add_encode(command: Parser) -> None:
    _add_files(command, "+")
    _add_tokenizer(command)
    command.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        type=output_path,
        help="the file to write, default stdout; of shards, the folder",
    )
    command.add_argument(
        "--format",
        choices=("ids", "npy", *FORMATS),
        help="default ids, or npy where OUT ends in .npy; any other writes training shards to a folder",
    )
    _add_documents(command)
    _add_around(command)
    _add_shards(command)
    _add_part(command)
    _add_threads(command)
    _add_special(command)


def _add_shards(command: Parser) -> None:
    """The options that only formats of shards have; `shards.FLAGS` has their names."""
    shards = command.add_argument_group("shards")
    shards.add_argument(
        "--shard-size",
        metavar="TOKENS",
        type=at_least(1),
        help="a shard ends after the first document with which it has so many tokens; default 268435456 (2**28), and "
        "a single shard for nanogpt",
    )
    shards.add_argument(
        "--shuffle",
        metavar="SEED",
        type=at_least(0),
        help="shuffle the documents over all shards and within each; needs as much disk space again while it runs",
    )
    shards.add_argument(
        "--shards", metavar="N", type=at_least(1), help="with --shuffle: the number of shards, instead of --shard-size"
    )
    shards.add_argument(
        "--validation",
        metavar="FRACTION",
        type=fraction,
        help="write this fraction of the documents to validation shards, such as 0.001, chosen by a hash of their text",
    )


def _add_verify(command: Parser) -> None:
    command.add_argument("folder", metavar="OUT", help="a folder of shards with a manifest")
    command.add_argument(
        "--samples",
        metavar="N",
        type=at_least(0),
        default=100,
        help="how many documents to compare with the sources, about; default 100",
    )


def _add_convert_shards(command: Parser) -> None:
    command.add_argument("folder", metavar="IN", help="a folder of shards, or one file")
    _add_folder(command)
    command.add_argument("--format", choices=tuple(FORMATS), required=True, help="the format to write")
    command.add_argument(
        "--end-of-text",
        metavar="ID_OR_TOKEN",
        help="the id, or the special token, that separates documents in nanogpt (after each) and llmc (before each); "
        "a token is looked up in the copy of the tokenizer in IN",
    )
    command.add_argument(
        "--shard-size",
        metavar="TOKENS",
        type=at_least(1),
        help="a shard ends after the first document with which it has so many tokens; by default each shard becomes "
        "one, and all become train.bin and val.bin for nanogpt",
    )
    command.add_argument(
        "--drop-boundaries",
        action="store_true",
        help="the new format need not keep where documents begin; of shards without boundaries, each is one document",
    )
    command.add_argument("--drop-masks", action="store_true", help="the new format need not keep loss masks")


def _add_merge_manifests(command: Parser) -> None:
    command.add_argument("parts", metavar="PART", nargs="+", help="the folders of all parts, which lie in OUT")
    _add_folder(command)


def _add_folder(command: Parser) -> None:
    command.add_argument("-o", "--output", metavar="OUT", type=file_path, required=True, help="the folder to write")


def _add_decode(command: Parser) -> None:
    command.add_argument("file", metavar="FILE", help="lines of ids or .npy, as `bpe encode` writes them; - for stdin")
    _add_tokenizer(command)
    command.add_argument("-o", "--output", metavar="OUT", type=output_path, help="the file to write; default stdout")
    command.add_argument("--separator", metavar="S", type=unescaped, help="written between documents")


def _add_count(command: Parser) -> None:
    _add_files(command, "+")
    _add_tokenizer(command)
    _add_encoding_errors(command)
    _add_around(command)
    _add_threads(command)
    _add_special(command)
    command.set_defaults(per_line=False, separator=None)


def _add_merge_counts(command: Parser) -> None:
    command.add_argument("counts", metavar="A", nargs="+", help="files that bpe count-words made")
    command.add_argument("-o", "--output", metavar="C", type=file_path, required=True, help="the file to write")
    command.add_argument(
        "--weights",
        metavar="W,W,…",
        type=fractions_of,
        help="what the counts of each file are multiplied by, such as 3,1,1/2; products are rounded, halves up",
    )


def _add_info(command: Parser) -> None:
    command.add_argument("file", metavar="FILE", help="tokenizer.json or words.counts")
    command.add_argument(
        "--plot",
        action="store_true",
        help="draw how the corpus got shorter in training: bytes per token after 1, 2, 4, 8, … merges",
    )


def _add_edit(command: Parser) -> None:
    command.add_argument("input", metavar="IN", help="tokenizer.json")
    command.add_argument(
        "-o", "--output", metavar="OUT", type=file_path, required=True, help="the tokenizer.json to write"
    )
    for flag, what in (
        ("--add-special", "special tokens, which are ordinary text unless they are allowed"),
        ("--add", "tokens that are found in every text"),
    ):
        command.add_argument(flag, metavar="T", nargs="+", action="extend", default=[], help=what)


def _add_choosing(command: Parser) -> None:
    """The options of `bpe prune` and `bpe adapt`."""
    _add_files(command, "*")
    _add_tokenizer(command)
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
    _add_documents(command)
    _add_threads(command)


def _add_convert(command: Parser) -> None:
    command.add_argument("input", metavar="IN", help="the tokenizer: a file, or a folder")
    command.add_argument(
        "output", metavar="OUT", type=file_path, help="the file to write; for formats of several files, the folder"
    )
    read, written = format_names(), format_names(written=True)
    command.add_argument(
        "--from",
        metavar="FORMAT",
        dest="from_format",
        choices=read,
        help=f"the format of IN, by default detected: {', '.join(read)}",
    )
    command.add_argument(
        "--to",
        metavar="FORMAT",
        dest="to_format",
        choices=written,
        help=f"the format of OUT, one of those but {' and '.join(each for each in read if each not in written)}; "
        "default tiktoken for *.tiktoken, tekken for tekken.json, else huggingface",
    )
    command.add_argument(
        "--lossy", action="store_true", help="write OUT even if its format does not keep everything, which is listed"
    )


def _add_diff(command: Parser) -> None:
    command.add_argument("first", metavar="A", help="a tokenizer: a file, or a folder")
    command.add_argument("second", metavar="B", help="the other tokenizer")
    _add_files(command, "*")
    _add_documents(command)


def _add_show(command: Parser) -> None:
    command.add_argument("text", metavar="TEXT", help="the text; - for stdin")
    _add_tokenizer(command)
    command.add_argument("--explain", action="store_true", help="print every merge in order instead")


def _add_paths(command: Parser) -> None:
    """Tokenizers and text files, which their content distinguishes."""
    command.add_argument(
        "paths",
        metavar="PATH",
        nargs="+",
        help="tokenizers and text files: what a path holds decides which it is; NAME=PATH gives it a name, such as a "
        "language",
    )
    command.add_argument(
        "-t",
        "--tokenizer",
        metavar="PATH",
        dest="tokenizers",
        action="append",
        default=[],
        help="one more tokenizer, or one of PATHS that is not taken for one; may be repeated",
    )


def _add_evaluate(command: Parser) -> None:
    _add_paths(command)
    form = command.add_mutually_exclusive_group()
    for name, what in (("json", "all metrics by name, not rounded"), ("csv", "a row for each tokenizer and corpus")):
        form.add_argument(f"--{name}", metavar="OUT", nargs="?", const="-", help=f"{what}, to OUT or to stdout")
    form.add_argument("--html", metavar="OUT", type=file_path, help="write the page of bpe report")
    command.add_argument(
        "--words",
        choices=("script", "spaces", "characters"),
        default="script",
        help="what a word is: between white space, but one character in Chinese, Japanese and Thai (script, default); "
        "between white space; one character",
    )
    command.add_argument(
        "--morphemes", metavar="FILE", help="words, one a line, with spaces between their morphemes, to compare with"
    )
    command.add_argument(
        "--reference", metavar="NAME", help="the corpus that the others are compared with; default the first"
    )
    _add_parallel(command)
    command.add_argument("--seed", metavar="N", type=at_least(0), default=0, help="decides the intervals; default 0")
    _add_input_format(command)
    _add_documents(command)
    _add_threads(command)


def _add_parallel(command: Parser) -> None:
    command.add_argument(
        "--parallel", action="store_true", help="the corpora say the same, document by document: print premiums"
    )


def _add_sanity_check(command: Parser) -> None:
    _add_paths(command)
    command.add_argument(
        "--allow",
        metavar="CHECK",
        action="append",
        default=[],
        choices=("reachable tokens", "lost text", "numbers", "special tokens", "repeatable"),
        help="do not fail for this check: %(choices)s; may be repeated",
    )
    _add_input_format(command)
    _add_documents(command)


def _add_report(command: Parser) -> None:
    _add_paths(command)
    command.add_argument(
        "-o", "--output", metavar="report.html", type=file_path, required=True, help="the page to write"
    )
    _add_parallel(command)
    _add_input_format(command)
    _add_documents(command)


def _add_play(command: Parser) -> None:
    command.add_argument("paths", metavar="TOKENIZER", nargs="+", help="tokenizers: files or folders")
    command.add_argument("--port", metavar="N", type=port, default=8000, help="default 8000; 0 for any that is free")
    command.add_argument(
        "--host", metavar="ADDRESS", default="127.0.0.1", help="the address to listen on; default 127.0.0.1"
    )
    command.add_argument(
        "--allow-network",
        dest="network",
        action="store_true",
        help="let --host be an address that other machines reach; whoever reaches it can use the tokenizers",
    )


def _add_demo(command: Parser) -> None:
    command.add_argument("--vocab-size", metavar="N", type=at_least(256), default=4000, help="default 4000")
    command.add_argument("-o", "--output", metavar="tokenizer.json", type=file_path, help="keep the tokenizer here")
    _add_threads(command)


def _add_help(command: Parser) -> None:
    names = list(_COMMANDS)
    command.add_argument(
        "command", metavar="COMMAND", nargs="?", choices=names, help="the command; default the program"
    )


def _add_completion(command: Parser) -> None:
    command.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))


def _add_train(train: Parser) -> None:
    """The options of `bpe.train`. An option that is not given takes the library's default."""

    def option(flag: str, **kwargs: Any) -> None:
        train.add_argument(flag, default=argparse.SUPPRESS, **kwargs)

    _add_files(train, "*")
    _add_size(train)
    train.add_argument("--counts", metavar="words.counts", help="word counts instead of FILES")
    option("--model", choices=("byte", "char"), help="symbols are bytes (default) or characters")
    _add_words(train, {"gpt2": "default of byte models", "whitespace": "default of character models"})
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
    _add_documents(train)
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


def _add_count_words(count: Parser) -> None:
    """The options of `bpe.count_words`. An option that is not given takes the library's default."""
    _add_files(count, "+")
    count.add_argument(
        "-o", "--output", metavar="words.counts", type=file_path, required=True, help="the file to write"
    )
    _add_words(count, {"gpt2": "default"})
    _add_units(count)
    count.add_argument(
        "--stage", metavar="N", type=int, choices=(1, 2), help="with --units, the stage whose words are counted: 1 or 2"
    )
    _add_documents(count)
    _add_part(count)
    count.add_argument(
        "--threads", metavar="N", type=at_least(1), default=argparse.SUPPRESS, help="default: one per core"
    )


def _add_words(parser: Parser, remarks: Mapping[str, str]) -> None:
    """The options that split texts into words, for `bpe train` and `bpe count-words`."""
    names = ", ".join(f"{name} ({remarks[name]})" if name in remarks else name for name in NAMES)
    cut = parser.add_mutually_exclusive_group()
    cut.add_argument(
        "--pretokenizer",
        metavar="NAME",
        type=checked(_pretokenizer),
        default=argparse.SUPPRESS,
        help=f"{names}; metaspace: words begin with ▁, as in Llama 2; or none: a text is one word",
    )
    cut.add_argument(
        "--pattern",
        metavar="RE",
        dest="pretokenizer",
        type=checked(bpe.Pretokenizer.from_regex),
        default=argparse.SUPPRESS,
        help="a regular expression (of Python's regex package) that finds the pretokens",
    )
    parser.add_argument(
        "--gaps",
        choices=["keep", "drop", "error"],
        default=None,
        help="text that --pattern does not match: a pretoken of its own, dropped (default), or an error",
    )
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
        type=checked(normalizers.by_name),
        default=[],
        help=f"{', '.join(normalizers.NAMES)}; may be repeated, and mixed with --remove: applied in the order given",
    )
    parser.add_argument(
        "--remove",
        metavar="RE",
        dest="normalizers",
        action="append",
        type=checked(normalizers.Remove),
        help="remove what the regular expression matches",
    )


def _add_files(parser: Parser, number: str) -> None:
    parser.add_argument(
        "files", metavar="FILE", nargs=number, help="files, globs, directories, - for stdin, or scheme://…"
    )
    _add_input_format(parser)


def _add_input_format(parser: Parser) -> None:
    parser.add_argument(
        "--input-format",
        choices=FORMAT_NAMES,
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


def _add_part(parser: Parser) -> None:
    parser.add_argument(
        "--part",
        metavar="I/N",
        type=part,
        help="only part I of N, 0/N to N-1/N: about as many bytes in each; the parts in order are the whole",
    )


def _add_tokenizer(parser: Parser) -> None:
    parser.add_argument("-t", "--tokenizer", metavar="tokenizer.json", required=True, help="the tokenizer to use")


def _add_documents(parser: Parser) -> None:
    cut = parser.add_mutually_exclusive_group()
    cut.add_argument(
        "--separator",
        metavar="S",
        type=unescaped,
        help="the string between the documents of a file, part of neither and without an id (\\n \\r \\t \\0 and \\\\ "
        "are escapes); without it a file is one document",
    )
    cut.add_argument("--per-line", action="store_true", help="each line is a document, its newline included")
    _add_encoding_errors(parser)


def _add_encoding_errors(parser: Parser) -> None:
    parser.add_argument(
        "--encoding-errors",
        choices=("strict", "replace", "bytes"),
        default="strict",
        help="bytes that are not UTF-8 are an error (strict, default), become U+FFFD (replace), or are kept (bytes)",
    )


def _add_around(parser: Parser) -> None:
    for flag, where in (("--prepend", "before"), ("--append", "after")):
        parser.add_argument(
            flag,
            metavar="ID_OR_TOKEN",
            help=f"write this id, or that of this special token, {where} each document, such as '<|endoftext|>'; "
            "in shards it replaces the format's default (the end of text after documents for nanogpt and datatrove, "
            "before them for llmc), and '' writes none",
        )


def _add_threads(parser: Parser) -> None:
    parser.add_argument("--threads", metavar="N", type=at_least(1), help="default: one per core")


def _add_special(parser: Parser) -> None:
    parser.add_argument(
        "--allow-special", action="store_true", help="special tokens in the text become themselves, not plain text"
    )


#: Each command: what it does in a line, more about it, and the function that adds its arguments.
_COMMANDS: dict[str, tuple[str, str, Callable[[Parser], None]]] = {
    "train": (
        "learn a tokenizer from text files or word counts",
        "",
        _add_train,
    ),
    "encode": (
        "turn text into token ids",
        (
            "As text: one line of ids per document. As .npy: the ids of all documents in one flat uint32 array in "
            "x.npy, and their offsets in x.offsets.npy (int64, one more than the documents): document i is "
            "ids[offsets[i]:offsets[i + 1]]. An OUT with the extension of another format, such as .parquet, is "
            "refused without --format. Memory is bounded if the pretokenizer is a named one; with a normalizer and "
            "--separator or --per-line each document is held as a whole. The separator gives no id: see --append. "
            "The other formats are of training shards in a folder, with a manifest; there a separator ends a document. "
            "After a crash, a full disk or Ctrl-C the same command goes on, also with another number of threads."
        ),
        _add_encode,
    ),
    "verify": (
        "check a folder of training shards",
        (
            "Compares the files with the sizes and sums in the manifest, the headers and offsets with its counts, the "
            "ids with the tokenizer, and sampled documents with the sources. Prints a line for each defect; the exit "
            "status is 1 if there is one."
        ),
        _add_verify,
    ),
    "convert-shards": (
        "write training shards in another format",
        "",
        _add_convert_shards,
    ),
    "merge-manifests": (
        "make one manifest over the parts of a corpus",
        (
            "The parts are folders that bpe encode --part made, in OUT. Nothing is moved: the manifest in OUT names "
            "their files. All parts must be there, made with the same sources, options and tokenizer."
        ),
        _add_merge_manifests,
    ),
    "decode": (
        "turn token ids back into text",
        (
            "Documents are joined without anything between them, so the ids of a file, or of its lines, give the "
            "file byte for byte. For ids that were made with --separator, give the same --separator."
        ),
        _add_decode,
    ),
    "count": (
        "count the tokens of files",
        "",
        _add_count,
    ),
    "count-words": (
        "count the words of text files, to train on",
        (
            "Counts are all that training needs. The parts of a corpus can be counted on different machines; bpe "
            "merge-counts adds the counts, and bpe train --counts learns from them."
        ),
        _add_count_words,
    ),
    "merge-counts": (
        "merge word counts made with the same settings",
        (
            "The result equals that of counting the corpora together, in the order given. All counts must be made with "
            "the same pretokenizer, normalizer and special tokens."
        ),
        _add_merge_counts,
    ),
    "info": (
        "describe a tokenizer or a file of word counts",
        "",
        _add_info,
    ),
    "convert": (
        "write a tokenizer in another file format",
        (
            "Ids stay the same. What the format of OUT cannot keep is an error that lists it, and OUT is not written; "
            "with --lossy it is written, and the list is a warning for each loss."
        ),
        _add_convert,
    ),
    "diff": (
        "compare two tokenizers",
        (
            "Prints a line for each difference in the vocabulary, the merges and the settings, and for each FILE with "
            "other ids the number of tokens and the first difference. The exit status is 0 if nothing differs, 1 if "
            "something does, and 2 for a tokenizer or a file that cannot be read."
        ),
        _add_diff,
    ),
    "prune": (
        "remove the tokens that a corpus needs least",
        (
            "Again and again, the rarest token that is a part of no other token goes. Ids are numbered anew, without "
            "gaps."
        ),
        _add_choosing,
    ),
    "adapt": (
        "choose the tokens of a larger vocabulary that make a corpus short",
        (
            "It begins with the first N tokens, and exchanges the rarest ones for those whose pairs are more frequent, "
            "while the corpus becomes shorter. Ids are numbered anew, without gaps."
        ),
        _add_choosing,
    ),
    "edit": (
        "add tokens to a tokenizer",
        (
            "The new tokens take the next ids: they follow the largest one, first the special ones, then the "
            "others, each in the order given. No old id changes. --add-special and --add may be repeated."
        ),
        _add_edit,
    ),
    "show": (
        "show a text with its tokens marked",
        (
            "On a terminal tokens have coloured backgrounds. Elsewhere, or with NO_COLOR set, a | separates "
            "tokens and a middle dot is a space. A character whose bytes are in several tokens is shown in each, "
            "with the numbers of its bytes there as subscripts. Bytes that cannot be shown are written as \\xNN. "
            "A backslash precedes a backslash, |, middle dot or subscript that is part of the text."
        ),
        _add_show,
    ),
    "evaluate": (
        "measure how good tokenizers are for texts",
        (
            "Prints compression, fertility, cut words, efficiencies, digits and characters for each tokenizer, in all "
            "and by file, with intervals over documents; then what differs from the first tokenizer. The metrics are "
            "defined in the documentation (docs/evaluate.md)."
        ),
        _add_evaluate,
    ),
    "sanity-check": (
        "check tokenizers for defects",
        (
            "Prints a line for each check: tokens that encoding never produces, text that decoding does not give back "
            "(of the texts of this command and of the files), numbers of one length that are cut at different "
            "positions, special tokens that text can imitate, ids that change. The exit status is 1 if one fails."
        ),
        _add_sanity_check,
    ),
    "report": (
        "write a page that compares tokenizers on texts",
        (
            "The page is one HTML file that needs no network: the beginning of each text in coloured tokens, tokens "
            "and bytes per token by file, frequencies, lengths, compression by vocabulary size, rare and long tokens, "
            "and what differs between the vocabularies."
        ),
        _add_report,
    ),
    "play": (
        "show the tokens of a text while you type it, in a browser",
        ("Prints the address of a page on this machine, and serves it until Ctrl-C. Nothing is stored or logged."),
        _add_play,
    ),
    "demo": (
        "train, save, load, encode and decode an embedded sample, in seconds",
        "",
        _add_demo,
    ),
    "help": (
        "print the manual, of a command or of the program",
        "",
        _add_help,
    ),
    "completion": (
        "print a script that completes the command line in a shell",
        "The script completes commands, flags, and the values of flags that have a fixed list.",
        _add_completion,
    ),
}
