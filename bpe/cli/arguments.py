"""The words and flags of the command `bpe`, for argparse. What the commands do is in `bpe/cli/commands.py`."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import takewhile
from typing import Any, NoReturn

import bpe
from bpe.base.memory_limits import check_memory
from bpe.cli.completion import SHELLS
from bpe.pretokenize.pretokenizer import NAMES
from bpe.text import normalizers

Command = Callable[[argparse.Namespace], int | None]


#: Flags whose Python argument has another name than argparse's `dest`, or stands for one value of it.
_OTHER_NAMES = {"normalizer": "--normalizer", "pretokenizer": "--pretokenizer"} | {
    "counted_special_tokens": "--special-token"
}


#: What a shell takes without quotes.
_PLAIN, _QUOTES = r"[0-9A-Za-z_.-]+", ("'", '"')


class _Parser(argparse.ArgumentParser):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """One line and exit status 2, instead of the whole usage."""
        message = in_flags(message, self)
        message = re.sub(r"^argument (?:-\w/)?(--[\w-]+): (?=\1 is )", "", message)
        self.exit(2, f"{self.prog}: error: {message}; see {self.prog} --help\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does, but an unknown flag is an error before one that is missing."""
        if self._subparsers is None:
            known = self._option_string_actions
            for arg in takewhile("--".__ne__, args or []):
                flag = arg.partition("=")[0]
                if flag.startswith("--") and flag not in known and " " not in arg:
                    self.error(f"unrecognized arguments: {flag}{_closest(flag, known)}")
        return super().parse_known_args(args, namespace)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            names = [str(choice) for choice in action.choices]
            said = f"invalid choice: {value!r}{_closest(value, names)} (choose from {', '.join(names)})"
            raise argparse.ArgumentError(action if action.option_strings else None, said)


def _closest(word: str, known: Iterable[str]) -> str:
    """A question that names the known word most like a wrong one; nothing if none is."""
    found = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {found[0]}?" if found else ""


def in_flags(message: str, parser: argparse.ArgumentParser) -> str:
    """An error message of the library, which names Python arguments, in the flags of the command line.

    >>> train = argparse.ArgumentParser()
    >>> for flag in ("--vocab-size", "--end-of-word", "--separator"): _ = train.add_argument(flag)
    >>> in_flags("vocab_size is 12; it must be at least 256, or pass initial_alphabet='corpus'", train)
    '--vocab-size is 12; it must be at least 256, or pass --corpus-alphabet'
    >>> in_flags("end_of_word='</w>' is given, but separator=None", train)
    "--end-of-word '</w>' is given, but no --separator"
    """
    flags = dict(_OTHER_NAMES)
    for action in parser._actions:
        if action.option_strings:
            flags.setdefault(action.dest, max(action.option_strings, key=len))
    switches = {flag for action in parser._actions if action.nargs == 0 for flag in action.option_strings}
    message = message.replace("initial_alphabet='corpus'", "--corpus-alphabet")
    message = message.replace("initial_alphabet=None", "no --corpus-alphabet")
    message = re.sub(r"\bPretokenizer\('(\w+)'\)", r"\1", message)
    names = "|".join(sorted(map(re.escape, flags), key=len, reverse=True))

    def assigned(match: re.Match[str]) -> str:
        flag, value = flags[match[1]], match[2] or ""
        if value == "True" or (flag in switches and value == "1"):
            return flag
        if value in ("None", "False") or (flag in switches and value == "0"):
            return f"no {flag}"
        return f"{flag} {value[1:-1] if value[:1] in _QUOTES and re.fullmatch(_PLAIN, value[1:-1]) else value}"

    message = re.sub(rf"(?<![\w.])({names})=('[^']*'|\"[^\"]*\"|\w+\b)?", assigned, message)
    # A name with an underscore is no English word; any other is an argument only where a message begins with it.
    return re.sub(
        rf"(?<![\w'\"./-])({names})(?![\w'\"=(])",
        lambda match: flags[match[1]] if "_" in match[1] or _is_subject(match) else match[1],
        message,
    )


def _is_subject(match: re.Match[str]) -> bool:
    before, after = match.string[: match.start()], match.string[match.end() :]
    return after.startswith(" is ") and (not before or re.fullmatch(r"argument \S+: ", before) is not None)


def _checked(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    """A `type` for argparse that keeps the text of the library's own error."""

    def convert(text: str) -> Any:
        try:
            return kind(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


def _memory(text: str) -> int | None:
    """An amount of memory; argparse says what is wrong with it."""
    try:
        return check_memory(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _at_least(least: int) -> Callable[[str], int]:
    def convert(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
        return int(text)

    return convert


def _unescaped(text: str) -> str:
    r"""A separator with its escapes resolved: \n \r \t \0 and \\, nothing else."""
    if not text:
        raise argparse.ArgumentTypeError("a separator is at least one character")
    known = {"n": "\n", "r": "\r", "t": "\t", "0": "\0", "\\": "\\"}

    def resolve(match: re.Match[str]) -> str:
        if match[1] not in known:
            raise argparse.ArgumentTypeError(f"{text!r} has {match[0]!r}; known are \\n \\r \\t \\0 and \\\\")
        return known[match[1]]

    return re.sub(r"\\(.?)", resolve, text, flags=re.DOTALL)


def _pretokenizer(name: str) -> bpe.Pretokenizer | None:
    return None if name == "none" else bpe.Pretokenizer(name)


def _output(path: str) -> str | None:
    return None if path == "-" else path


def _file(path: str) -> str:
    if path == "-":
        raise argparse.ArgumentTypeError("the result is saved to a file, not to stdout")
    return path


def values_of_flags() -> dict[str, list[str]]:
    """The values of flags whose values are listed, but not as argparse's choices."""
    return {"--pretokenizer": [*NAMES, "none"], "--normalizer": list(normalizers.NAMES)}


def parser(commands: Mapping[str, Command]) -> argparse.ArgumentParser:
    """The parser of the whole command line; in its result, `run` is the command given and `parser` that command's."""
    top = _Parser(prog="bpe", description="Byte-pair encoding: train a tokenizer, encode and decode text.")
    top.add_argument("--version", action="version", version=f"bpe {bpe.__version__}")
    words = top.add_subparsers(metavar="COMMAND", required=True)
    for name, (summary, more, add_arguments) in _COMMANDS.items():
        made: _Parser = words.add_parser(name, help=summary, description=f"{summary.capitalize()}. {more}".strip())
        made.set_defaults(run=commands[name], parser=made, top=top)
        made.add_argument("--quiet", action="store_true", help="no progress bar, and only warnings in the log")
        add_arguments(made)
    return top


def _add_encode(command: _Parser) -> None:
    _add_files(command, "+")
    _add_tokenizer(command)
    command.add_argument("-o", "--output", metavar="OUT", type=_output, help="the file to write; default stdout")
    command.add_argument("--format", choices=("ids", "npy"), help="default ids, or npy where OUT ends in .npy")
    _add_documents(command)
    _add_around(command)
    _add_threads(command)
    _add_special(command)


def _add_decode(command: _Parser) -> None:
    command.add_argument("file", metavar="FILE", help="lines of ids or .npy, as `bpe encode` writes them; - for stdin")
    _add_tokenizer(command)
    command.add_argument("-o", "--output", metavar="OUT", type=_output, help="the file to write; default stdout")
    command.add_argument("--separator", metavar="S", type=_unescaped, help="written between documents")


def _add_count(command: _Parser) -> None:
    _add_files(command, "+")
    _add_tokenizer(command)
    _add_encoding_errors(command)
    _add_around(command)
    _add_threads(command)
    _add_special(command)
    command.set_defaults(per_line=False, separator=None)


def _add_merge_counts(command: _Parser) -> None:
    command.add_argument("counts", metavar="A", nargs="+", help="files that bpe count-words made")
    command.add_argument("-o", "--output", metavar="C", type=_file, required=True, help="the file to write")


def _add_info(command: _Parser) -> None:
    command.add_argument("file", metavar="FILE", help="tokenizer.json or words.counts")


def _add_edit(command: _Parser) -> None:
    command.add_argument("input", metavar="IN", help="tokenizer.json")
    command.add_argument("-o", "--output", metavar="OUT", type=_file, required=True, help="the tokenizer.json to write")
    for flag, what in (
        ("--add-special", "special tokens, which are ordinary text unless they are allowed"),
        ("--add", "tokens that are found in every text"),
    ):
        command.add_argument(flag, metavar="T", nargs="+", action="extend", default=[], help=what)


def _add_show(command: _Parser) -> None:
    command.add_argument("text", metavar="TEXT", help="the text; - for stdin")
    _add_tokenizer(command)
    command.add_argument("--explain", action="store_true", help="print every merge in order instead")


def _add_demo(command: _Parser) -> None:
    command.add_argument("--vocab-size", metavar="N", type=_at_least(256), default=4000, help="default 4000")
    command.add_argument("-o", "--output", metavar="tokenizer.json", type=_file, help="keep the tokenizer here")
    _add_threads(command)


def _add_help(command: _Parser) -> None:
    names = list(_COMMANDS)
    command.add_argument(
        "command", metavar="COMMAND", nargs="?", choices=names, help="the command; default the program"
    )


def _add_completion(command: _Parser) -> None:
    command.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))


def _add_train(train: _Parser) -> None:
    """The options of `bpe.train`; one that is not given is left to the library's default."""

    def option(flag: str, **kwargs: Any) -> None:
        train.add_argument(flag, default=argparse.SUPPRESS, **kwargs)

    _add_files(train, "*")
    train.add_argument("-o", "--output", metavar="tokenizer.json", type=_file, required=True, help="the file to write")
    size = train.add_mutually_exclusive_group(required=True)
    size.add_argument("--vocab-size", metavar="N", type=_at_least(1), default=argparse.SUPPRESS, help="tokens in all")
    size.add_argument("--num-merges", metavar="N", type=_at_least(0), default=argparse.SUPPRESS, help="merges in all")
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
    option("--min-frequency", metavar="N", type=_at_least(1), help="stop below this count of a pair; default 1")
    option("--max-token-length", metavar="N", type=_at_least(1), help="make no token of more symbols than this")
    option("--limit-alphabet", metavar="N", type=_at_least(1), help="keep only the N most frequent symbols")
    option("--first-id", metavar="N", type=_at_least(0), help="the first id; default 0")
    train.add_argument(
        "--corpus-alphabet", action="store_true", help="byte models: begin with the corpus's bytes, not with all 256"
    )
    _add_documents(train)
    option("--threads", metavar="N", type=_at_least(1), help="default: one per core")
    option(
        "--max-memory",
        metavar="SIZE",
        type=_memory,
        help="the most memory that the process may take: bytes, or with a unit such as 2G; the result is the same",
    )
    option(
        "--checkpoint",
        metavar="PATH",
        type=_file,
        help="save counts (to PATH.counts) and merges here as training goes on; the same command goes on from there "
        "after Ctrl-C or a crash. Delete both when it is done",
    )
    train.add_argument(
        "--trace",
        action="store_true",
        help="a line for each merge on stdout: step, left, right, token, count, with tabs between; bpe show --help "
        "says how tokens are spelled",
    )


def _add_count_words(count: _Parser) -> None:
    """The options of `bpe.count_words`; one that is not given is left to the library's default."""
    _add_files(count, "+")
    count.add_argument("-o", "--output", metavar="words.counts", type=_file, required=True, help="the file to write")
    _add_words(count, {"gpt2": "default"})
    _add_documents(count)
    count.add_argument(
        "--threads", metavar="N", type=_at_least(1), default=argparse.SUPPRESS, help="default: one per core"
    )


def _add_words(parser: _Parser, remarks: Mapping[str, str]) -> None:
    """What makes words of texts: the same for training and for counting that is trained on later."""
    names = ", ".join(f"{name} ({remarks[name]})" if name in remarks else name for name in NAMES)
    cut = parser.add_mutually_exclusive_group()
    cut.add_argument(
        "--pretokenizer",
        metavar="NAME",
        type=_checked(_pretokenizer),
        default=argparse.SUPPRESS,
        help=f"{names}, or none: a text is one word",
    )
    cut.add_argument(
        "--pattern",
        metavar="RE",
        dest="pretokenizer",
        type=_checked(bpe.Pretokenizer.from_regex),
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
        type=_checked(normalizers.by_name),
        default=[],
        help=f"{', '.join(normalizers.NAMES)}; may be repeated, and mixed with --remove: applied in the order given",
    )
    parser.add_argument(
        "--remove",
        metavar="RE",
        dest="normalizers",
        action="append",
        type=_checked(normalizers.Remove),
        help="remove what the regular expression matches",
    )


def _add_files(parser: _Parser, number: str) -> None:
    parser.add_argument("files", metavar="FILE", nargs=number, help="text files; - for stdin")


def _add_tokenizer(parser: _Parser) -> None:
    parser.add_argument("-t", "--tokenizer", metavar="tokenizer.json", required=True, help="the tokenizer to use")


def _add_documents(parser: _Parser) -> None:
    cut = parser.add_mutually_exclusive_group()
    cut.add_argument(
        "--separator",
        metavar="S",
        type=_unescaped,
        help="S separates the documents in a file and belongs to none of them, nor gives an id (in S, \\n \\r \\t \\0 "
        "and \\\\ are understood); otherwise a file is one document",
    )
    cut.add_argument("--per-line", action="store_true", help="each line is a document, its newline included")
    _add_encoding_errors(parser)


def _add_encoding_errors(parser: _Parser) -> None:
    parser.add_argument(
        "--encoding-errors",
        choices=("strict", "replace", "bytes"),
        default="strict",
        help="bytes that are not UTF-8 are an error (default), or become U+FFFD, or are taken as they are",
    )


def _add_around(parser: _Parser) -> None:
    for flag, where in (("--prepend", "before"), ("--append", "after")):
        parser.add_argument(
            flag,
            metavar="ID_OR_TOKEN",
            help=f"write this id, or that of this special token, {where} each document, such as '<|endoftext|>'",
        )


def _add_threads(parser: _Parser) -> None:
    parser.add_argument("--threads", metavar="N", type=_at_least(1), help="default: one per core")


def _add_special(parser: _Parser) -> None:
    parser.add_argument(
        "--allow-special", action="store_true", help="special tokens in the text become themselves, not plain text"
    )


#: Each command: what it does in a line, more about it, and the function that adds its arguments.
_COMMANDS: dict[str, tuple[str, str, Callable[[_Parser], None]]] = {
    "train": (
        "learn a tokenizer from text files or word counts",
        "",
        _add_train,
    ),
    "encode": (
        "turn text into token ids",
        (
            "As text: one line of ids per document. As .npy: the ids of all documents in one flat uint32 array, "
            "and beside it x.offsets.npy, int64, one longer than the documents: document i is "
            "ids[offsets[i]:offsets[i + 1]]. An OUT named like a file of another format, such as .parquet, is "
            "refused without --format. Text is read while it is encoded, in bounded memory, if the tokenizer's "
            "pretokenizer is a named one; with a normalizer and --separator or --per-line each document is held "
            "whole. The separator itself gives no id: see --append."
        ),
        _add_encode,
    ),
    "decode": (
        "turn token ids back into text",
        (
            "Nothing is put between documents, so that the ids of a file, or of its lines, give the file back "
            "byte for byte; for ids made with --separator, give the same --separator here."
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
            "The counts are all that training needs to know of a corpus. A corpus may be counted in parts, where "
            "they lie; bpe merge-counts makes them the counts of the whole, and bpe train --counts learns from "
            "them."
        ),
        _add_count_words,
    ),
    "merge-counts": (
        "merge word counts made with the same settings",
        (
            "The result is that of counting the corpora one after the other, in the order given; all must be made with "
            "the same pretokenizer, normalizer and special tokens."
        ),
        _add_merge_counts,
    ),
    "info": (
        "describe a tokenizer or a file of word counts",
        "",
        _add_info,
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
        "show a text cut into tokens",
        (
            "On a terminal tokens have coloured backgrounds. Elsewhere, or with NO_COLOR set, a | is between "
            "tokens and a space is a middle dot. A character that several tokens share stands in each of them, "
            "with the numbers of its bytes there as subscripts. What cannot be shown is spelled \\xNN, byte by "
            "byte; a backslash, and a |, a middle dot or such a subscript of the text itself, has a backslash "
            "before it."
        ),
        _add_show,
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
        "The script knows the commands, their flags and the values of those that have a list of them.",
        _add_completion,
    ),
}
