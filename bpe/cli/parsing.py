"""The building blocks of arguments: parser, descriptions of options, types of values, messages that name flags.

A type is a function that makes a value from the text of an argument, or raises ValueError with a message for users.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from bpe.errors import COUNT_LIMIT, ID_LIMIT, check_unicode, escape_unprintable, suggest

if TYPE_CHECKING:
    from fractions import Fraction

#: The flags of those Python arguments whose name is not the `dest` of argparse.
_FLAGS_BY_ARGUMENT = {
    "any_documents": "--any-documents",
    "normalizer": "--normalizer",
    "pretokenizer": "--pretokenizer",
    "counted_special_tokens": "--special-token",
    "coverage": "--character-coverage",
    "transition": "--superwords",
}

#: Python arguments that some commands have under another `dest`: (`dest`, argument, flag).
_FLAGS_BY_DEST = (
    ("input_format", "format", "--input-format"),  # the library's argument is of the sources
    ("shuffle", "seed", "--shuffle"),
    ("output", "path", "--output"),
    ("named_output", "path", "--output"),
    ("named_output", "target", "--output"),
)

#: Advice that only Python has, as patterns, and what to write on a command line.
_ADVICE = {
    r"allowed_special='all'": "--allow-special",
    r"\brank=(\d+), world=(\d+)": r"--part \1/\2",
    r"\bpart \(rank=, world=, (--part)\)": r"\1",
    r"\bspecial_tokens=\[('[^']*'|\"[^\"]*\")\]": r"--special-token \1",
    r'pass Sources\(…, format="jsonl"\)': "give --input-format jsonl",
    r"append=None to write none": "--append '' to write none",
    r", or give bpe\.Alphabet\('corpus'\)": "",
    r"unk_token='<unk>', or with alphabet=bpe\.Alphabet\(…\) that has it": "--unk-token '<unk>' or --byte-fallback",
    r"load it with a pattern: Tokenizer\.from_tiktoken\([^)]*\), or make": "make",
    r", Tokenizer\.from_vocab_merges\([^)]*\)": " in Python",
    r" with Tokenizer\.load, or pass force=True": "",
    r", or force=True": "",
    r'with format="([\w-]+)"': r"with bpe convert --from \1",
    r", and load it with Tokenizer\.load\(folder\)": ", and give the folder instead of the name",
    r"; save it as ([\w-]+)\b": r"; give --to \1",
    r"(?<=, )None in the file": "none in the file",
    r"; save writes a tokenizer\.json: name it tokenizer\.json": "; name it tokenizer.json, or give --to vocab-merges "
    "and a folder",
    r"load (the folder .*), with Tokenizer\.load\(folder\), or pass chat_template= to tok\.chat": r"give \1",
    r"tok\.truncate_vocab": "bpe truncate",
    r"\bbpe\.(train|extend|prune)\b": r"bpe \1",
    r"bpe\.count_words": "bpe count-words",
    r"\bfrom_pretrained needs": "a tokenizer of the Hub needs",
    r"; it is removed and downloaded again": "; it is removed, and --download gets it again",
    r" \(a mapping of your own counts is taken as it is\)": "",
}


#: The most digits of a number, so that Python converts it, and prints it, whatever its limit.
_MAX_DIGITS = 99
#: Text that needs no quotes in a shell, and quotation marks.
_UNQUOTED, _QUOTATION_MARKS = r"[0-9A-Za-z_.-]+", ("'", '"')


class Option(NamedTuple):
    """An argument of a command: what `add_argument` takes."""

    names: tuple[str, ...]
    keywords: dict[str, Any]


@dataclass(frozen=True)
class Group:
    """Arguments under a title in the help, or, without one, of which at most one may be given."""

    items: tuple[Option | Group, ...]
    title: str | None = None
    required: bool = False


def option(usage: str, help_text: str, **keywords: Any) -> Option:
    """Describe an argument.

    Args:
        usage: flags and the name of their value, such as "-o --output OUT"; only flags for a switch, or where
            `choices` name the values; the attribute and the name of a value without a flag, such as "folder OUT".
        help_text: the help text.
        keywords: more arguments of argparse's `add_argument`.

    """
    *names, last_word = usage.split()
    if not last_word.startswith("-"):
        keywords["metavar"] = last_word
    else:
        names.append(last_word)
        if "choices" not in keywords:
            keywords.setdefault("action", "store_true")
    return Option(tuple(names), {"help": help_text, **keywords})


def group(title: str, *items: Option | Group) -> Group:
    """Describe arguments that have a title in the help."""
    return Group(items, title)


def either(*options: Option, required: bool = False) -> Group:
    """Describe arguments of which at most one may be given, and one must be if `required`."""
    return Group(options, required=required)


def add_arguments(container: argparse._ActionsContainer, items: Iterable[Option | Group]) -> None:
    """Add arguments to a parser or to a group of one."""
    for item in items:
        if isinstance(item, Option):
            container.add_argument(*item.names, **item.keywords)
        elif item.title is None:
            add_arguments(container.add_mutually_exclusive_group(required=item.required), item.items)
        else:
            add_arguments(container.add_argument_group(item.title), item.items)


class ReplacePositional(argparse.Action):
    """An option `named_x`, which can be given instead of the argument x.

    argparse itself does not find an argument with nargs="?" after another option.
    """

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, flag: str | None = None) -> None:
        """Set the option, and make the argument optional."""
        del flag
        setattr(namespace, self.dest, values)
        argument_name = self.dest.removeprefix("named_")
        next(action for action in parser._actions if action.dest == argument_name).required = False


def move_command_first(arguments: list[str], commands: Mapping[str, Any], parse: Callable[[str], Parser]) -> list[str]:
    """Move the command to the front, where options of it come before it, as in `bpe -t tok.json show hi`.

    `parse` builds the parser of a command, which says whether a word is the value of the option before it.
    """
    for index, word in enumerate(arguments):
        if word not in commands or not arguments[0].startswith("-") or arguments[0] in ("-h", "--help", "--version"):
            continue
        action = parse(word)._option_string_actions.get(arguments[index - 1])
        if action is None or action.nargs == 0:
            return [word, *arguments[:index], *arguments[index + 1 :]]
    return arguments


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` whose error messages are one line and name flags.

    Args:
        example: a command line that works, which errors about missing arguments and about -t show.
        kwargs: arguments of `ArgumentParser`.

    """

    def __init__(self, *, example: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs, allow_abbrev=False)
        self._example = example
        #: The arguments that were parsed.
        self.arguments: list[str] = []

    def error(self, message: str) -> NoReturn:
        """Print one line, without the usage, and exit with status 2."""
        message = replace_with_flags(message, self)
        message = re.sub(r"^argument (?:-\w/)?(--[\w-]+): (?=\1 is )", "", message)
        if self._example is not None and re.search(
            r"(?:are|is) required(?:: |$)|arguments: (-t|--tokenizer)\b", message
        ):
            message += f"; for example: {self._example}"
        self.exit(2, escape_unprintable(f"{self.prog}: error: {message}; see {self.prog} --help", keep="\n") + "\n")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print help to stdout, whose errors argparse ignores, or an error to stderr."""
        if file is not sys.stdout:
            with suppress(AttributeError, OSError):  # Python 3.10 raises them, for a stderr that is closed or full
                super()._print_message(message, file)
            return
        try:
            file.write(message)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OSError(error.errno, error.strerror, "stdout") from None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse arguments as argparse does, but report an unknown flag before a missing one, and take FILES anywhere.

        argparse itself takes the values of an argument from one place, so those after another option are left over.
        """
        self.arguments = list(args or [])
        for argument in takewhile("--".__ne__, self.arguments):
            flag = argument.partition("=")[0]
            if flag.startswith("--") and flag not in self._option_string_actions and " " not in argument:
                self.error(f"unrecognized arguments: {flag}{self.suggest_flag(flag)}")
        values, others = super().parse_known_args(args, namespace)
        positionals = [action for action in self._actions if not action.option_strings]
        is_list = bool(positionals) and positionals[-1].nargs in ("*", "+")
        if is_list and others and not any(other.startswith("-") and other != "-" for other in others):
            self._refuse_second_value(args, others[0])
            getattr(values, positionals[-1].dest).extend(others)
            others = []
        return values, others

    def suggest_flag(self, flag: str) -> str:
        """Ask whether the known flag closest to a wrong one is meant."""
        names = [known_flag[2:] for known_flag in self._option_string_actions if known_flag.startswith("--")]
        return suggest(flag.removeprefix("--"), names).replace("did you mean ", "did you mean --")

    def _refuse_second_value(self, args: list[str], word: str) -> None:
        """Refuse a word after the value of an option that takes one value each time, such as --special-token."""
        flag, value, _ = next(
            (triple for triple in zip(args, args[1:], args[2:], strict=False) if triple[2] == word), ("", "", "")
        )
        action = self._option_string_actions.get(flag)
        if isinstance(action, argparse._AppendAction):
            self.error(f"{flag} takes one value, and may be repeated: {flag} {value!r} {flag} {word!r}")

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        convert: Any = self._registry_get("type", action.type, action.type)
        try:
            return convert(arg_string)
        except ValueError as error:
            raise argparse.ArgumentError(action, str(error)) from None

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            names = [str(choice) for choice in action.choices]
            message = f"invalid choice: {value!r}{suggest(value, names)} (choose from {', '.join(names)})"
            raise argparse.ArgumentError(action if action.option_strings else None, message)


def name_flag(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    """Return the long flag of an option: the one that was given, if it has several, or else the first."""
    flags = [flag for flag in action.option_strings if flag.startswith("--")] or list(action.option_strings)
    given_flags = {argument.partition("=")[0] for argument in getattr(parser, "arguments", ())}
    return next((flag for flag in flags if flag in given_flags), flags[0])


def replace_with_flags(message: str, parser: argparse.ArgumentParser) -> str:
    """Replace the Python arguments in an error message of the library by the command's flags.

    >>> train = argparse.ArgumentParser()
    >>> for flag in ("--vocab-size", "--end-of-word", "--separator"): _ = train.add_argument(flag)
    >>> replace_with_flags("vocab_size is 12; it must be at least 256", train)
    '--vocab-size is 12; it must be at least 256'
    >>> replace_with_flags("end_of_word='</w>' is given, but separator=None", train)
    "--end-of-word '</w>' is given, but no --separator"
    >>> replace_with_flags("name one with end_of_word=, or pass separator=''", train)
    "name one with --end-of-word, or pass --separator ''"
    """
    flags = dict(_FLAGS_BY_ARGUMENT)
    for action in parser._actions:
        if action.option_strings:
            flags.setdefault(action.dest, name_flag(action, parser))
    flags |= {argument: flag for dest, argument, flag in _FLAGS_BY_DEST if dest in flags}
    message = replace_advice(message)
    switches = {flag for action in parser._actions if action.nargs == 0 for flag in action.option_strings}
    message = re.sub(r"\bPretokenizer\('(\w+)'\)", r"\1", message)
    names = "|".join(sorted(map(re.escape, flags), key=len, reverse=True))

    def replace_assignment(match: re.Match[str]) -> str:
        flag, value = flags[match[1]], match[2] or ""
        if not value and match.string[match.end() : match.end() + 1] in ("", " ", ",", ";", ":"):
            return flag
        if value == "True" or (flag in switches and value == "1"):
            return flag
        if value in ("None", "False") or (flag in switches and value == "0"):
            return f"no {flag}"
        needs_no_quotes = value[:1] in _QUOTATION_MARKS and re.fullmatch(_UNQUOTED, value[1:-1])
        return f"{flag} {value[1:-1] if needs_no_quotes else value}"

    message = re.sub(rf"(?<![\w.])({names})=('[^']*'|\"[^\"]*\"|\w+\b)?", replace_assignment, message)
    message = re.sub(r"(--[\w-]+(?: \w+)?) \((?:bpe [\w-]+ )?\1\)", r"\1", message)  # the library names flags too
    # A name with an underscore is always an argument; any other name only as the subject that the message begins with.
    message = re.sub(
        rf"(?<![\w'\"./-])({names})(?![\w'\"=(])",
        lambda match: flags[match[1]] if "_" in match[1] or _is_subject(match) else match[1],
        message,
    )
    return re.sub(r"^(--[\w-]+) is True\b", r"\1 is given", message)


def replace_advice(message: str) -> str:
    """Replace the advice in a message of the library that only Python has."""
    for pattern, advice in _ADVICE.items():
        message = re.sub(pattern, advice, message)
    return message


def _is_subject(match: re.Match[str]) -> bool:
    before, after = match.string[: match.start()], match.string[match.end() :]
    return after.startswith(" is ") and (not before or re.fullmatch(r"argument \S+: ", before) is not None)


# Types of values ------------------------------------------------------------------------------------------------------


def at_least(smallest: int, largest: int | None = None) -> Callable[[str], int]:
    """Make the type of whole numbers of at least `smallest`, in which k is a thousand and M a million.

    Without `largest`, the library checks whether the number is too large.

    >>> at_least(1)("32k"), at_least(1)("1.5M")
    (32000, 1500000)
    """

    def convert(text: str) -> int:
        number = _parse_whole_number(text)
        if number is None or number < smallest or (largest is not None and number > largest):
            rule = f"of at least {smallest}" if largest is None else f"from {smallest} to {largest}"
            if number is None and re.fullmatch("[0-9]+", text):
                rule += f" with at most {_MAX_DIGITS} digits"
            advice = "; write 32000 or 32k" if re.search("[ekm_]", text, re.IGNORECASE) else ""
            raise ValueError(f"{text!r} is not a whole number {rule}{advice}")
        return number

    return convert


def _parse_whole_number(text: str) -> int | None:
    """Read digits, or a number with a unit that gives a whole one; None for any other text."""
    match = re.fullmatch(rf"([0-9]{{1,{_MAX_DIGITS}}})(?:(?:\.([0-9]{{1,6}}))?([kKmM]))?", text)
    if match is None:
        return None
    exponent = {"": 0, "k": 3, "m": 6}[(match[3] or "").lower()]
    decimals = match[2] or ""
    return None if len(decimals) > exponent else int(match[1] + decimals.ljust(exponent, "0"))


def parse_id(text: str) -> int | str:
    """Read the number of an id; any other text, or a number of more digits than Python converts, is a token's name."""
    return int(text) if text.isdecimal() and len(text) <= _MAX_DIGITS else text


def parse_port(text: str) -> int:
    """Read a TCP port, or 0 for any that is free."""
    if not re.fullmatch(r"[0-9]{1,5}", text) or int(text) > 65535:
        raise ValueError(f"{text!r} is no port; it must be a whole number from 0 to 65535")
    return int(text)


def parse_part(text: str) -> tuple[int, int]:
    """Read part I of N, as I/N."""
    match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
    if match is None or not int(match[1]) < int(match[2]):
        raise ValueError(
            f"{text!r} is no part: give I/N with I from 0 to N - 1, and N from 1 to 999999999, such as 0/64"
        )
    return int(match[1]), int(match[2])


def parse_fraction(text: str) -> float:
    """Read a number from 0 to 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ValueError(f"{text!r} is not a number from 0 to 1")
    return value


def parse_seconds(text: str) -> float | None:
    """Read the time limit of regular expressions."""
    from bpe.text.matching import check_timeout

    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number of seconds") from None
    return check_timeout(value)


def parse_weights(text: str) -> list[Fraction]:
    """Read positive numbers with commas between, such as 3,0.5,1/3."""
    from fractions import Fraction

    try:
        weights = [Fraction(part) for part in text.split(",")]
    except (ValueError, ZeroDivisionError):
        weights = []
    if not weights or min(weights) <= 0:
        raise ValueError(f"{text!r} is no list of numbers above 0, such as 3,0.5,1/3")
    return weights


def parse_words(text: str) -> dict[str, int]:
    """Read words with their counts, such as "hug:10 pug:5"; the counts of a word that is there twice are added."""
    counts: dict[str, int] = {}
    for item in text.split():
        word, _, count = item.rpartition(":")
        number = _parse_whole_number(count)
        if not word or not number or number > COUNT_LIMIT:
            raise ValueError(f"{item!r} is no word with its count, such as hug:10; counts are from 1 to {COUNT_LIMIT}")
        check_unicode("the word", word)
        counts[word] = counts.get(word, 0) + number
    if not counts:
        raise ValueError("there are no words; give some with their counts, such as 'hug:10 pug:5'")
    return counts


def parse_sizes(text: str) -> int | list[int]:
    """Read the size of a vocabulary, or several with commas between.

    >>> parse_sizes("32k"), parse_sizes("8k,16k")
    (32000, [8000, 16000])
    """
    parse_size = at_least(1, ID_LIMIT)
    if re.fullmatch(r"[0-9]{1,3}(,000)+", text):
        plain = text.replace(",", "")
        raise ValueError(f"{text!r} has commas, which stand between several sizes; write {plain}")
    return [parse_size(part) for part in text.split(",")] if "," in text else parse_size(text)


def unescape(text: str) -> str:
    r"""Resolve the escapes of a separator: \n \r \t \0 and \\, nothing else."""
    if not text:
        raise ValueError("a separator is at least one character")
    escapes = {"n": "\n", "r": "\r", "t": "\t", "0": "\0", "\\": "\\"}

    def resolve(match: re.Match[str]) -> str:
        if match[1] not in escapes:
            raise ValueError(f"{text!r} has {match[0]!r}; known are \\n \\r \\t \\0 and \\\\")
        return escapes[match[1]]

    return re.sub(r"\\(.?)", resolve, text, flags=re.DOTALL)


def parse_path_or_stdout(path: str) -> str | None:
    """Read the path of an output, None for - (stdout)."""
    return None if path == "-" else path


def parse_path(path: str) -> str:
    """Refuse stdout as an output."""
    if path == "-":
        raise ValueError("the result is saved to a file, not to stdout")
    return path
