"""The commands of `bpe`: the function of each and its arguments. `manual.txt` has the prose and examples.

To add a command, write its function, a line in `COMMANDS` and a paragraph in `manual.txt`. An option that several
commands have is a constant here, or part of one; any other stands in `COMMANDS`.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from functools import cache
from itertools import groupby, takewhile
from pkgutil import get_data, resolve_name
from typing import TYPE_CHECKING, Any, NamedTuple

from bpe._names import MAX_SHUFFLED_SHARDS, NORMALIZERS, SHARD_FORMATS, SOURCE_FORMATS
from bpe._version import __version__
from bpe.base.memory_limits import check_memory
from bpe.cli.parsing import (
    Group,
    Option,
    Parser,
    ReplacePositional,
    add_arguments,
    at_least,
    either,
    group,
    option,
    parse_fraction,
    parse_part,
    parse_path,
    parse_path_or_stdout,
    parse_port,
    parse_seconds,
    parse_sizes,
    parse_weights,
    parse_words,
    unescape,
)
from bpe.errors import COUNT_LIMIT, ID_LIMIT, MAX_THREADS, check_choice
from bpe.formats.loading import FORMATS
from bpe.pretokenize.patterns import NAMES

if TYPE_CHECKING:
    import bpe

SHELLS = ("bash", "zsh", "fish")


def make_lazy_type(name: str) -> Callable[[str], Any]:
    """Make a type of a function that is imported when it is used: "module:function"."""
    return lambda text: resolve_name(f"bpe.{name}")(text)


def find_pretokenizer(name: str) -> bpe.Pretokenizer | None:
    """Return the pretokenizer of a name; None for "none"."""
    from bpe.cli.names import find_encoding
    from bpe.formats.openai_encodings import ENCODINGS
    from bpe.pretokenize.pretokenizer import as_pretokenizer

    names = (*NAMES, "metaspace", "none")
    if name not in names and (encoding := find_encoding(name)) is not None:
        raise ValueError(
            f"pretokenizer is {name!r}, a name of tokenizers; write {ENCODINGS[encoding].pattern}, its own"
        )
    return None if check_choice("pretokenizer", name, names) == "none" else as_pretokenizer(name)


# Options of several commands ------------------------------------------------------------------------------------------

QUIET = option("--quiet", "no progress bar, and only warnings in the log")
INPUT_FORMAT = (
    option(
        "--input-format",
        "the format of FILES; by default by their names: .jsonl .ndjson .csv .tsv .parquet .arrow .feather .ipc, "
        "else text; text formats also as .gz .bz2 .xz .zst",
        choices=SOURCE_FORMATS,
        default="auto",
    ),
    option(
        "--field --column NAME",
        "the field or column that holds the text, with dots between nested ones; default text",
        default="text",
    ),
    option(
        "--on-error",
        "a bad record (no JSON, no such field, null, not UTF-8) is an error (raise, default) or left out (skip); "
        "skip_files also leaves out files that cannot be decompressed, or are damaged Parquet or Arrow",
        choices=("raise", "skip", "skip_files"),
        default="raise",
    ),
    option(
        "--quoting",
        "quotation marks in CSV and TSV: around fields (excel), or text (none); auto, the default: excel, but an "
        "error where they seem to swallow rows",
        choices=("auto", "excel", "none"),
        default="auto",
    ),
)
_FILES = "files, globs, directories, - for stdin, or scheme://…"
FILES = (option("files FILE", _FILES, nargs="+"), *INPUT_FORMAT)
ANY_FILES = (option("files FILE", _FILES, nargs="*"), *INPUT_FORMAT)
COUNTS = option("--counts words.counts", "word counts instead of FILES: of bpe count-words, or lines of word TAB count")
MIN_FREQUENCY = option("--min-frequency N", "stop below this count of a pair; default 1", type=at_least(1, COUNT_LIMIT))
SPLIT_DIGITS = option("--split-digits", "each digit is a token of its own")
REMAP = option(
    "--remap remap.npy",
    "also write the new id by old id, -1 for tokens that are gone, as an int32 array",
    type=parse_path,
)
DOWNLOAD = option("--download", "get a tokenizer that is named, and not in the cache, from where it is published")
_TOKENIZER = "a file, a folder, or a name: cl100k_base, gpt-4o, or org/name of the Hub"
TOKENIZER = (option("-t --tokenizer tokenizer.json", f"the tokenizer: {_TOKENIZER}", required=True), DOWNLOAD)
ENCODING_ERRORS = option(
    "--encoding-errors",
    "bytes that are not UTF-8 are an error (strict, default), become U+FFFD (replace), or are kept (bytes)",
    choices=("strict", "replace", "bytes"),
    default="strict",
)
DOCUMENTS = (
    either(
        option(
            "--separator S",
            "the string between the documents of a file, part of neither and without an id (\\n \\r \\t \\0 and \\\\ "
            "are escapes); without it a file is one document",
            type=unescape,
        ),
        option("--per-line", "each line is a document, its newline included"),
    ),
    ENCODING_ERRORS,
)
PART = option(
    "--part I/N",
    "only part I of N, 0/N to N-1/N: about as many bytes in each; the parts in order are the whole",
    type=parse_part,
)
TIMEOUT = option(
    "--timeout SECONDS",
    "the time that regular expressions may take for one text; default 10 and more for long texts, inf: any",
    type=parse_seconds,
)
BOS_EOS = tuple(
    option(
        f"--{name} ID_OR_TOKEN",
        f"write this id, or that of this special token, {where} each document, such as '<|endoftext|>'; "
        "in shards it replaces the format's default (the end of text after documents for nanogpt and datatrove, "
        "before them for llmc), and '' writes none",
    )
    for name, where in (("prepend", "before"), ("append", "after"))
)
THREADS = option("--threads N", "default: one per core", type=at_least(1, MAX_THREADS))
JSON = option("--json", "print the result as JSON; docs/command_line.md lists its keys")
TEXT = option("--text TEXT", "a text instead of FILES")
ALLOW_SPECIAL = option("--allow-special", "special tokens in the text become themselves, not plain text")
PARALLEL = option("--parallel", "the corpora say the same, document by document: print premiums")
PATHS = (
    option(
        "paths PATH",
        "tokenizers and text files: what a path holds decides which it is; NAME=PATH gives it a name, such as a "
        "language",
        nargs="+",
    ),
    option(
        "-t --tokenizer PATH",
        f"one more tokenizer, or one of PATHS that is not taken for one: {_TOKENIZER}; may be repeated",
        dest="tokenizers",
        action="append",
        default=[],
    ),
    DOWNLOAD,
)
#: The pattern of rank files, which hold none.
RANK_PATTERN = either(
    option(
        "--pretokenizer NAME",
        f"the pattern of a rank file that is not one of OpenAI's own: {', '.join(NAMES)}; or the name of an "
        "encoding, such as cl100k_base, for its special tokens too",
    ),
    option(
        "--pattern RE",
        "the same as a regular expression, which is read as tiktoken does",
        dest="pretokenizer",
        type=make_lazy_type("formats.tiktoken:parse_pattern"),
    ),
)
#: The options of `bpe encode` for shards.
SHARD_OPTIONS = (
    option(
        "--shard-size TOKENS",
        "a shard ends after the first document with which it has so many tokens; default 268435456 (2**28), and "
        "a single shard for nanogpt",
        type=at_least(1),
    ),
    option(
        "--shuffle SEED",
        "shuffle the documents over all shards and within each; needs as much disk space again while it runs",
        type=at_least(0),
    ),
    option(
        "--shards N",
        "with --shuffle: the number of shards, instead of --shard-size",
        type=at_least(1, MAX_SHUFFLED_SHARDS),
    ),
    option(
        "--validation FRACTION",
        "write this fraction of the documents to validation shards, such as 0.001, chosen by a hash of their text",
        type=parse_fraction,
    ),
    option(
        "--messages FIELD",
        "each record of JSON Lines is a conversation, with its messages in this field: encode it by the tokenizer's "
        "chat template, with a loss mask of what the assistant says",
    ),
    option("--extend", "add the documents of FILES, which are new ones, to the finished shards in OUT"),
)


def make_output_option(name: str, help_text: str = "the file to write", **keywords: Any) -> Option:
    """Describe the option that names a file to write."""
    return option(f"-o --output {name}", help_text, **{"type": parse_path, "required": True, **keywords})


def make_word_options(defaults: Mapping[str, str]) -> tuple[Option | Group, ...]:
    """Describe the options that split texts into words; `defaults` says for which models a pretokenizer is the default.

    A pretokenizer that is not given is absent from the result, since None means that a text is one word.
    """
    names = ", ".join(f"{name} ({defaults[name]})" if name in defaults else name for name in NAMES)
    return (
        either(
            option(
                "--pretokenizer NAME",
                f"{names}; metaspace: words begin with ▁, as in Llama 2; or none: a text is one word",
                type=find_pretokenizer,
                default=argparse.SUPPRESS,
            ),
            option(
                "--pattern RE",
                "a regular expression (of Python's regex package) that finds the pretokens",
                dest="pretokenizer",
                type=make_lazy_type("pretokenize.pretokenizer:Pretokenizer.from_regex"),
                default=argparse.SUPPRESS,
            ),
        ),
        option(
            "--gaps",
            "text that --pattern does not match: a pretoken of its own, dropped (default), or an error",
            choices=["keep", "drop", "error"],
        ),
        TIMEOUT,
        option(
            "--special-token S",
            "a special token: it separates text and is part of no word; may be repeated",
            dest="special_tokens",
            action="append",
            default=[],
        ),
        option(
            "--normalizer NAME",
            f"{', '.join(NORMALIZERS)}; may be repeated, and mixed with --remove: applied in the order given",
            dest="normalizers",
            action="append",
            type=make_lazy_type("text.normalizers:create_by_name"),
            default=[],
        ),
        option(
            "--remove RE",
            "remove what the regular expression matches",
            dest="normalizers",
            action="append",
            type=make_lazy_type("text.normalizers:Remove"),
        ),
    )


# Commands -------------------------------------------------------------------------------------------------------------

#: The options of `bpe train`, which are at most 38.
_TRAIN_OPTIONS = (
    group(
        "corpus",
        *ANY_FILES,
        COUNTS,
        option(
            "--words WORDS",
            "the words and their counts themselves, such as 'hug:10 pug:5 hugs:5', instead of FILES",
            type=parse_words,
        ),
        *DOCUMENTS,
    ),
    group("words", *make_word_options({"gpt2": "default of byte models", "whitespace": "default of character models"})),
    group(
        "vocabulary",
        make_output_option("tokenizer.json"),
        either(
            option(
                "--vocab-size N",
                "tokens in all; N,N,… writes a tokenizer for each size, such as tokenizer-8000.json",
                type=parse_sizes,
            ),
            option("--num-merges N", "merges in all", type=at_least(0, ID_LIMIT)),
            required=True,
        ),
        option("--model", "symbols are bytes (default) or characters", choices=("byte", "char")),
        option("--unk-token S", "the token for symbols that are not in the vocabulary"),
        option("--end-of-word S", "a mark at each word's end, such as </w>"),
        option("--end-of-word-glued", "the mark is part of the word's last symbol"),
        option(
            "--byte-fallback",
            "characters outside the alphabet become tokens of their bytes, as in Llama 2; the model is char",
        ),
        option(
            "--character-coverage X",
            "keep the most frequent characters until they are this part of the corpus, such as 0.9995; default 1",
            type=parse_fraction,
            default=1.0,
        ),
    ),
    group(
        "merges",
        either(
            option(
                "--tie-break",
                "which of the pairs with the highest count is merged; default id; first (or --classic), the one that "
                "occurs first, is the order of the examples in papers and courses",
                choices=("id", "first", "smallest", "greatest"),
                default="id",
            ),
            option("--classic", "--tie-break first", dest="tie_break", action="store_const", const="first"),
        ),
        MIN_FREQUENCY,
        option("--max-token-length N", "make no token longer than N symbols", type=at_least(1, ID_LIMIT)),
        SPLIT_DIGITS,
        option(
            "--superwords N",
            "from N tokens on, learn tokens that reach across words, from whole lines; FILES are read twice",
            type=at_least(1, ID_LIMIT),
        ),
    ),
    group(
        "run",
        THREADS,
        option(
            "--max-memory SIZE",
            "the most memory that the process may take: bytes, or with a unit such as 2G; the result is the same",
            type=check_memory,
        ),
        option(
            "--checkpoint PATH",
            "save counts (to PATH.counts) and merges here during training; the same command resumes from them "
            "after Ctrl-C or a crash. Delete both files afterwards",
            type=parse_path,
        ),
        option(
            "--trace",
            "a header, and a line for each merge, on stdout: step, left, right, token, count, with tabs between; bpe "
            "show --help says how tokens are spelled",
        ),
        option(
            "--corpus",
            "with --trace: also the corpus after each merge, and its five most frequent pairs; = stands between pairs "
            "of equal counts, and the one that is merged next comes first; for small corpora",
        ),
    ),
)


class Command:
    """A command: the function that runs it, as "module:function" in `bpe.cli`, its arguments and its usage.

    `usage` is for a command with so many options that a list of all would hide what it needs.
    """

    def __init__(self, function: str, *arguments: Option | Group, usage: str | None = None) -> None:
        self.function, self.arguments, self.usage = function, arguments, usage

    def run(self, args: argparse.Namespace) -> int:
        """Run the command; return the exit status."""
        return resolve_name(f"bpe.cli.{self.function}")(args) or 0


#: The commands by name.
COMMANDS: dict[str, Command] = {
    "train": Command(
        "training:train",
        *_TRAIN_OPTIONS,
        usage="bpe train [OPTION ...] -o tokenizer.json (--vocab-size N | --num-merges N) [FILE ...]",
    ),
    "count-words": Command(
        "training:count_words",
        *FILES,
        make_output_option("words.counts"),
        *make_word_options({"gpt2": "default"}),
        *DOCUMENTS,
        PART,
        THREADS,
    ),
    "merge-counts": Command(
        "training:merge_counts",
        option("counts A", "files that bpe count-words made", nargs="+"),
        make_output_option("C"),
        option(
            "--weights W,W,…",
            "what the counts of each file are multiplied by, such as 3,1,1/2; products are rounded, halves up",
            type=parse_weights,
        ),
        option(
            "--any-documents",
            "also merge counts of files that other options (--separator, --per-line) divided into documents",
        ),
    ),
    "encode": Command(
        "encoding:encode",
        *ANY_FILES,
        TEXT,
        *TOKENIZER,
        TIMEOUT,
        make_output_option(
            "OUT",
            "the file to write, default stdout; of shards, the folder",
            type=parse_path_or_stdout,
            required=False,
        ),
        option(
            "--format",
            "default ids, or npy where OUT ends in .npy; any other writes training shards to a folder",
            choices=("ids", "npy", *SHARD_FORMATS),
        ),
        *DOCUMENTS,
        *BOS_EOS,
        group("shards", *SHARD_OPTIONS),
        PART,
        THREADS,
        ALLOW_SPECIAL,
    ),
    "decode": Command(
        "encoding:decode",
        option("files FILE", "lines of ids or .npy, as `bpe encode` writes them; - for stdin; or ids", nargs="+"),
        *TOKENIZER,
        make_output_option("OUT", "the file to write; default stdout", type=parse_path_or_stdout, required=False),
        option("--separator S", "written between documents", type=unescape),
        option("--skip-invalid", "leave out ids that are no token"),
    ),
    "count": Command(
        "encoding:count", *ANY_FILES, TEXT, *TOKENIZER, TIMEOUT, ENCODING_ERRORS, *BOS_EOS, THREADS, ALLOW_SPECIAL, JSON
    ),
    "verify": Command(
        "encoding:verify",
        option("folder OUT", "a folder of shards with a manifest"),
        option(
            "--samples N",
            "how many documents to compare with the sources, about; default 100",
            type=at_least(0),
            default=100,
        ),
        JSON,
    ),
    "convert-shards": Command(
        "encoding:convert_shards",
        option("folder IN", "a folder of shards, or one file"),
        make_output_option("OUT", "the folder to write"),
        option("--format", "the format to write", choices=SHARD_FORMATS, required=True),
        option(
            "--end-of-text ID_OR_TOKEN",
            "the id, or the special token, that separates documents in nanogpt (after each) and llmc (before "
            "each); a token is looked up in the copy of the tokenizer in IN",
        ),
        option(
            "--shard-size TOKENS",
            "a shard ends after the first document with which it has so many tokens; by default each shard becomes "
            "one, and all become train.bin and val.bin for nanogpt",
            type=at_least(1),
        ),
        option(
            "--drop-boundaries",
            "the new format need not keep where documents begin; of shards without boundaries, each is one document",
        ),
        option("--drop-masks", "the new format need not keep loss masks"),
    ),
    "merge-manifests": Command(
        "encoding:merge_manifests",
        option("parts PART", "the folders of all parts, which lie in OUT", nargs="+"),
        make_output_option("OUT", "the folder to write"),
    ),
    "info": Command(
        "describing:info",
        option("file FILE", f"{_TOKENIZER}; or words.counts"),
        DOWNLOAD,
        either(
            JSON,
            option("--plot", "draw how the corpus got shorter in training: bytes per token after 1, 2, 4, 8, … merges"),
        ),
    ),
    "show": Command(
        "describing:show",
        option("text TEXT", "the text, its words joined with a space if they are several; - for stdin", nargs="+"),
        *TOKENIZER,
        either(
            option("--ids", "print a line for each token: its id, and the token"),
            JSON,
            option("--explain", "print every merge in order instead"),
        ),
    ),
    "edit": Command(
        "tokenizers:edit",
        option("input IN", f"the tokenizer: {_TOKENIZER}"),
        DOWNLOAD,
        make_output_option("OUT", "the tokenizer.json to write"),
        *(
            option(f"{flag} T", help_text, nargs="+", action="extend", default=[])
            for flag, help_text in (
                ("--add-special", "special tokens, which are ordinary text unless they are allowed"),
                ("--add", "tokens that are found in every text"),
            )
        ),
    ),
    "extend": Command(
        "training:extend",
        *ANY_FILES,
        *TOKENIZER,
        make_output_option("OUT", "the tokenizer.json to write"),
        option("--vocab-size N", "tokens of the result", type=at_least(1), required=True),
        COUNTS,
        MIN_FREQUENCY,
        SPLIT_DIGITS,
        *DOCUMENTS,
        THREADS,
    ),
    "truncate": Command(
        "training:truncate",
        option("input IN", f"the tokenizer: {_TOKENIZER}"),
        DOWNLOAD,
        make_output_option("OUT", "the tokenizer.json to write"),
        option("--vocab-size N", "tokens of the result", type=at_least(1), required=True),
        option("--keep-ids", "change no id, so that ids have gaps where special tokens follow the others"),
        REMAP,
    ),
    "prune": Command(
        "training:prune",
        *ANY_FILES,
        *TOKENIZER,
        make_output_option("OUT", "the tokenizer.json to write"),
        option("--vocab-size N", "tokens of the result", type=at_least(1), required=True),
        COUNTS,
        REMAP,
        *DOCUMENTS,
        THREADS,
    ),
    "convert": Command(
        "tokenizers:convert",
        option("input IN", f"the tokenizer: {_TOKENIZER}"),
        DOWNLOAD,
        option("output OUT", "the file to write; for formats of several files, the folder", type=parse_path),
        make_output_option("OUT", "OUT, named", dest="named_output", action=ReplacePositional, required=False),
        option(
            "--from FORMAT",
            f"the format of IN, by default detected: {', '.join(FORMATS)}",
            dest="from_format",
            choices=tuple(FORMATS),
        ),
        option(
            "--to FORMAT",
            "the format of OUT, one of those; default tiktoken for *.tiktoken, tekken for tekken.json, gguf for "
            "*.gguf, sentencepiece for *.model, compiled for *.compiled, huggingface for *.json",
            dest="to_format",
            choices=tuple(FORMATS),
        ),
        RANK_PATTERN,
        option("--lossy", "write OUT even if its format does not keep everything, which is listed"),
    ),
    "diff": Command(
        "tokenizers:diff",
        option("first A", f"a tokenizer: {_TOKENIZER}"),
        option("second B", "the other tokenizer"),
        DOWNLOAD,
        JSON,
        RANK_PATTERN,
        *ANY_FILES,
        *DOCUMENTS,
    ),
    "evaluate": Command(
        "comparing:evaluate",
        *PATHS,
        either(
            *(
                option(f"--{name} OUT", f"{contents}, to OUT or to stdout", nargs="?", const="-")
                for name, contents in (
                    ("json", "all metrics by name, not rounded"),
                    ("csv", "a row for each tokenizer and corpus"),
                )
            ),
            option("--html OUT", "write the page of bpe report", type=parse_path),
            option("--all", "print the metrics that are seldom needed too"),
        ),
        option(
            "--words",
            "what a word is: between white space, but one character in scripts without spaces (script, default); "
            "between white space; one character",
            choices=("script", "spaces", "characters"),
            default="script",
        ),
        option("--morphemes FILE", "words, one a line, with spaces between their morphemes, to compare with"),
        option("--reference NAME", "the corpus that the others are compared with; default the first"),
        PARALLEL,
        option("--seed N", "decides the intervals; default 0", type=at_least(0), default=0),
        *INPUT_FORMAT,
        *DOCUMENTS,
        THREADS,
    ),
    "sanity-check": Command(
        "comparing:sanity_check",
        *PATHS,
        JSON,
        option(
            "--allow CHECK",
            "do not fail for this check: %(choices)s; may be repeated",
            action="append",
            default=[],
            choices=("reachable tokens", "lost text", "numbers", "special tokens", "repeatable"),
        ),
        *INPUT_FORMAT,
        *DOCUMENTS,
    ),
    "report": Command(
        "comparing:report",
        *PATHS,
        make_output_option("report.html", "the page to write"),
        PARALLEL,
        *INPUT_FORMAT,
        *DOCUMENTS,
    ),
    "play": Command(
        "comparing:play",
        option("paths TOKENIZER", f"tokenizers, each {_TOKENIZER}", nargs="+"),
        DOWNLOAD,
        option("--port N", "default 8000; 0 for any that is free", type=parse_port, default=8000),
        option("--host ADDRESS", "the address to listen on; default 127.0.0.1", default="127.0.0.1"),
        option(
            "--allow-network",
            "let --host be an address that other machines reach; whoever reaches it can use the tokenizers",
            dest="network",
        ),
    ),
    "demo": Command(
        "demo:main",
        option("--vocab-size N", "default 4000", type=at_least(256, ID_LIMIT), default=4000),
        make_output_option("tokenizer.json", "keep the tokenizer here", required=False),
        THREADS,
        JSON,
    ),
    "completion": Command("manual:print_script", option("shell SHELL", ", ".join(SHELLS), choices=SHELLS)),
}
COMMANDS["help"] = Command(
    "manual:print_page",
    option("command COMMAND", "the command; default the program", nargs="?", choices=[*COMMANDS, "help"]),
)
#: The values to complete for flags that have no `choices` in argparse.
COMPLETED_VALUES: dict[str, list[str]] = {
    "--pretokenizer": [*NAMES, "metaspace", "none"],
    "--normalizer": list(NORMALIZERS),
}


class Prose(NamedTuple):
    """What `manual.txt` says of a command."""

    group: str
    summary: str
    description: str
    #: Exit statuses that mean something else than in general.
    statuses: dict[str, str]
    #: Command lines, and what each does.
    examples: list[tuple[str, str]]


class Manual(NamedTuple):
    """What `manual.txt` says: of each command, and in each section of the program's page, by term."""

    commands: dict[str, Prose]
    sections: dict[str, dict[str, str]]


@cache
def read_manual() -> Manual:
    """Read `manual.txt`."""
    manual, current_group = Manual({}, {}), ""
    for paragraph in (get_data("bpe.cli", "manual.txt") or b"").decode().strip().split("\n\n"):
        heading, _, body = paragraph.partition("\n")
        marker, _, title = heading.partition(" ")
        if marker == "===":
            manual.sections[title] = dict(re.findall(r"^(.+?): (.*)", body, re.MULTILINE))
        elif marker == "==":
            current_group = title
        elif marker == "=":
            name, _, summary = title.partition(": ")
            description = " ".join(takewhile(lambda line: line[0] not in "!$", body.splitlines()))
            statuses = dict(re.findall(r"^! (.+?): (.*)", body, re.MULTILINE))
            examples = re.findall(r"^\$ (.*)\n  (.*)", body, re.MULTILINE)
            manual.commands[name] = Prose(current_group, summary, description, statuses, examples)
    return manual


def group_commands() -> list[tuple[str, list[tuple[str, Prose]]]]:
    """Divide the commands into their groups."""
    groups = groupby(read_manual().commands.items(), lambda item: item[1].group)
    return [(title, list(commands)) for title, commands in groups]


def build_parser(name: str) -> Parser:
    """Build the parser of a command, which is `parser` in the namespace of parsed arguments."""
    prose = read_manual().commands[name]
    description = f"{prose.summary.capitalize()}. {prose.description}".strip()
    example = prose.examples[0][0]
    parser = Parser(
        prog=f"bpe {name}",
        usage=COMMANDS[name].usage,
        description=description,
        example=example,
        epilog=f"Example: {example} (more: bpe help {name})".replace("%", "%%"),
    )
    parser.set_defaults(parser=parser)
    add_arguments(parser, (QUIET, *COMMANDS[name].arguments))
    return parser


def build_program_parser() -> Parser:
    """Build the parser of `bpe` without a command, which prints help and the version, and refuses all else."""
    description = "Byte-pair encoding: train a tokenizer, encode and decode text."
    parser = Parser(prog="bpe", usage="bpe [-h] [--version] COMMAND ...", description=description)
    parser.add_argument("--version", action="version", version=f"bpe {__version__}")
    parser.add_argument("command", metavar="COMMAND", choices=list(COMMANDS), help=argparse.SUPPRESS)
    for title, commands in group_commands():
        section = parser.add_argument_group(title)
        for name, prose in commands:  # for the help only
            section._group_actions.append(argparse.Action([], name, metavar=name, help=prose.summary))
    return parser
