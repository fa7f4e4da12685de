"""The commands of `bpe` and their flags, for argparse.

Not here: the flags of commands that learn (`training_arguments.py`), flags that several commands have
(`shared_arguments.py`), and what a command does (`training.py`, `encoding.py`, `inspecting.py`, …).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from bpe._names import NORMALIZERS, SHARD_FORMATS
from bpe._version import __version__
from bpe.cli.completion import SHELLS
from bpe.cli.parsing import (
    Parser,
    at_least,
    file_path,
    fraction,
    output_path,
    port,
    unescaped,
)
from bpe.cli.shared_arguments import (
    add_around,
    add_documents,
    add_encoding_errors,
    add_files,
    add_input_format,
    add_part,
    add_rank_pattern,
    add_special,
    add_threads,
    add_timeout,
    add_tokenizer,
)
from bpe.cli.training_arguments import add_count_words, add_merge_counts, add_prune, add_train
from bpe.formats.loading import format_names
from bpe.pretokenize.patterns import NAMES

Command = Callable[[argparse.Namespace], int | None]


def values_of_flags() -> dict[str, list[str]]:
    """The values to complete for flags that have no `choices` in argparse."""
    return {"--pretokenizer": [*NAMES, "metaspace", "none"], "--normalizer": list(NORMALIZERS)}


def parser(commands: Mapping[str, Command]) -> argparse.ArgumentParser:
    """The parser of the whole command line. In its result, `run` is the command's function and `parser` its parser."""
    top = Parser(prog="bpe", description="Byte-pair encoding: train a tokenizer, encode and decode text.")
    top.add_argument("--version", action="version", version=f"bpe {__version__}")
    words = top.add_subparsers(metavar="COMMAND", required=True)
    for name, (summary, more, add_arguments) in _COMMANDS.items():
        command: Parser = words.add_parser(name, help=summary, description=f"{summary.capitalize()}. {more}".strip())
        command.set_defaults(run=commands[name], parser=command, top=top)
        command.add_argument("--quiet", action="store_true", help="no progress bar, and only warnings in the log")
        add_arguments(command)
    return top


def _add_encode(command: Parser) -> None:
    add_files(command, "+")
    add_tokenizer(command)
    add_timeout(command)
    command.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        type=output_path,
        help="the file to write, default stdout; of shards, the folder",
    )
    command.add_argument(
        "--format",
        choices=("ids", "npy", *SHARD_FORMATS),
        help="default ids, or npy where OUT ends in .npy; any other writes training shards to a folder",
    )
    add_documents(command)
    add_around(command)
    _add_shards(command)
    add_part(command)
    add_threads(command)
    add_special(command)


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
    command.add_argument("--format", choices=SHARD_FORMATS, required=True, help="the format to write")
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
    add_tokenizer(command)
    command.add_argument("-o", "--output", metavar="OUT", type=output_path, help="the file to write; default stdout")
    command.add_argument("--separator", metavar="S", type=unescaped, help="written between documents")
    command.add_argument("--skip-invalid", action="store_true", help="leave out ids that are no token")


def _add_count(command: Parser) -> None:
    add_files(command, "+")
    add_tokenizer(command)
    add_timeout(command)
    add_encoding_errors(command)
    add_around(command)
    add_threads(command)
    add_special(command)
    command.set_defaults(per_line=False, separator=None)


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


def _add_convert(command: Parser) -> None:
    command.add_argument("input", metavar="IN", help="the tokenizer: a file, or a folder")
    output = command.add_argument(
        "output", metavar="OUT", type=file_path, help="the file to write; for formats of several files, the folder"
    )

    class InPlaceOfOutput(argparse.Action):
        """OUT as an option. Where OUT has nargs="?", argparse does not find it after another option."""

        def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
            del parser, option_string
            namespace.named_output, output.required = values, False

    command.add_argument(
        "-o", "--output", metavar="OUT", dest="named_output", type=file_path, action=InPlaceOfOutput, help="OUT, named"
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
        "default tiktoken for *.tiktoken, tekken for tekken.json, huggingface for *.json",
    )
    add_rank_pattern(command)
    command.add_argument(
        "--lossy", action="store_true", help="write OUT even if its format does not keep everything, which is listed"
    )


def _add_diff(command: Parser) -> None:
    command.add_argument("first", metavar="A", help="a tokenizer: a file, or a folder")
    command.add_argument("second", metavar="B", help="the other tokenizer")
    add_rank_pattern(command)
    add_files(command, "*")
    add_documents(command)


def _add_show(command: Parser) -> None:
    command.add_argument("text", metavar="TEXT", help="the text; - for stdin")
    add_tokenizer(command)
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
        help="what a word is: between white space, but one character in scripts without spaces (script, default); "
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
    add_input_format(command)
    add_documents(command)
    add_threads(command)


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
    add_input_format(command)
    add_documents(command)


def _add_report(command: Parser) -> None:
    _add_paths(command)
    command.add_argument(
        "-o", "--output", metavar="report.html", type=file_path, required=True, help="the page to write"
    )
    _add_parallel(command)
    add_input_format(command)
    add_documents(command)


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
    add_threads(command)


def _add_help(command: Parser) -> None:
    names = list(_COMMANDS)
    command.add_argument(
        "command", metavar="COMMAND", nargs="?", choices=names, help="the command; default the program"
    )


def _add_completion(command: Parser) -> None:
    command.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))


#: Each command: what it does in a line, more about it, and the function that adds its arguments.
_COMMANDS: dict[str, tuple[str, str, Callable[[Parser], None]]] = {
    "train": (
        "learn a tokenizer from text files or word counts",
        "",
        add_train,
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
        add_count_words,
    ),
    "merge-counts": (
        "merge word counts made with the same settings",
        (
            "The result equals that of counting the corpora together, in the order given. All counts must be made with "
            "the same pretokenizer, normalizer and special tokens."
        ),
        add_merge_counts,
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
            "other ids the number of tokens and the first difference. The exit status is 0 if nothing differs but what "
            "is known to change no id, 1 if something does, and 2 for a tokenizer or a file that cannot be read."
        ),
        _add_diff,
    ),
    "prune": (
        "remove the tokens that a corpus needs least",
        (
            "Again and again, the rarest token that is a part of no other token goes. Ids are numbered anew, without "
            "gaps."
        ),
        add_prune,
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
            "A backslash precedes a backslash, | or middle dot that is part of the text, and a subscript after a "
            "character that is not ASCII."
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
