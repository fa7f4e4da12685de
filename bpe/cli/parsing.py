"""The argument parser: conversion of flags' values, and error messages that name flags.

Not here: the commands and their flags (`arguments.py`).
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NoReturn

from bpe.base.memory_limits import check_memory
from bpe.errors import printable

if TYPE_CHECKING:
    from fractions import Fraction

#: The flags of Python arguments whose name is not argparse's `dest`.
_OTHER_NAMES = {"any_documents": "--any-documents", "normalizer": "--normalizer", "pretokenizer": "--pretokenizer"} | {
    "counted_special_tokens": "--special-token",
    "coverage": "--character-coverage",
}


#: Text that needs no quotes in a shell, and quotation marks.
_PLAIN, _QUOTES = r"[0-9A-Za-z_.-]+", ("'", '"')


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` whose error messages are one line and name flags."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Print one line, without the usage, and exit with status 2."""
        message = in_flags(message, self)
        message = re.sub(r"^argument (?:-\w/)?(--[\w-]+): (?=\1 is )", "", message)
        self.exit(2, printable(f"{self.prog}: error: {message}; see {self.prog} --help", keep="\n") + "\n")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print help to stdout, whose errors argparse ignores, or an error to stderr."""
        if file is not sys.stdout:
            super()._print_message(message, file)
            return
        try:
            file.write(message)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OSError(error.errno, error.strerror, "stdout") from None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Like argparse's method, but report an unknown flag before a missing one."""
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
    """A question that suggests the known word closest to a wrong one; empty if none is close."""
    import difflib

    found = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {found[0]}?" if found else ""


def in_flags(message: str, parser: argparse.ArgumentParser) -> str:
    """Replace the Python arguments in an error message of the library by the command's flags.

    >>> train = argparse.ArgumentParser()
    >>> for flag in ("--vocab-size", "--end-of-word", "--separator"): _ = train.add_argument(flag)
    >>> in_flags("vocab_size is 12; it must be at least 256", train)
    '--vocab-size is 12; it must be at least 256'
    >>> in_flags("end_of_word='</w>' is given, but separator=None", train)
    "--end-of-word '</w>' is given, but no --separator"
    >>> in_flags("name one with end_of_word=, or pass separator=''", train)
    "name one with --end-of-word, or pass --separator ''"
    """
    flags = dict(_OTHER_NAMES)
    for action in parser._actions:
        if action.option_strings:
            flags.setdefault(action.dest, max(action.option_strings, key=len))
    if "input_format" in flags:  # the library's argument is of the sources
        flags["format"] = flags["input_format"]
    switches = {flag for action in parser._actions if action.nargs == 0 for flag in action.option_strings}
    message = re.sub(r"\bPretokenizer\('(\w+)'\)", r"\1", message)
    names = "|".join(sorted(map(re.escape, flags), key=len, reverse=True))

    def assigned(match: re.Match[str]) -> str:
        flag, value = flags[match[1]], match[2] or ""
        if not value and match.string[match.end() : match.end() + 1] in ("", " ", ",", ";"):
            return flag
        if value == "True" or (flag in switches and value == "1"):
            return flag
        if value in ("None", "False") or (flag in switches and value == "0"):
            return f"no {flag}"
        return f"{flag} {value[1:-1] if value[:1] in _QUOTES and re.fullmatch(_PLAIN, value[1:-1]) else value}"

    message = re.sub(rf"(?<![\w.])({names})=('[^']*'|\"[^\"]*\"|\w+\b)?", assigned, message)
    # A name with an underscore is always an argument; any other only at the beginning of the message, as its subject.
    return re.sub(
        rf"(?<![\w'\"./-])({names})(?![\w'\"=(])",
        lambda match: flags[match[1]] if "_" in match[1] or _is_subject(match) else match[1],
        message,
    )


def _is_subject(match: re.Match[str]) -> bool:
    before, after = match.string[: match.start()], match.string[match.end() :]
    return after.startswith(" is ") and (not before or re.fullmatch(r"argument \S+: ", before) is not None)


def checked(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    """A `type` for argparse that keeps the text of the library's own error."""

    def convert(text: str) -> Any:
        try:
            return kind(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


def memory_size(text: str) -> int | None:
    """A `type` for argparse: an amount of memory, in bytes or with a unit."""
    try:
        return check_memory(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def at_least(least: int) -> Callable[[str], int]:
    """A `type` for argparse: a whole number of at least `least`."""

    def convert(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
        return int(text)

    return convert


def port(text: str) -> int:
    """A `type` for argparse: a TCP port, or 0 for any that is free."""
    if not re.fullmatch(r"[0-9]{1,5}", text) or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; it must be a whole number from 0 to 65535")
    return int(text)


def part(text: str) -> tuple[int, int]:
    """A `type` for argparse: part I of N, as I/N."""
    found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
    if found is None or not int(found[1]) < int(found[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is no part: give I/N with I from 0 to N - 1, such as 0/64")
    return int(found[1]), int(found[2])


def fraction(text: str) -> float:
    """A `type` for argparse: a number from 0 to 1."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1")
    return number


def fractions_of(text: str) -> list[Fraction]:
    """A `type` for argparse: positive numbers with commas between, such as 3,0.5,1/3."""
    from fractions import Fraction

    try:
        numbers = [Fraction(each) for each in text.split(",")]
    except (ValueError, ZeroDivisionError):
        numbers = []
    if not numbers or min(numbers) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers above 0, such as 3,0.5,1/3")
    return numbers


def sizes(text: str) -> int | list[int]:
    """A `type` for argparse: a whole number of at least 1, or several with commas between."""
    one = at_least(1)
    return [one(each) for each in text.split(",")] if "," in text else one(text)


def unescaped(text: str) -> str:
    r"""A separator with its escapes resolved: \n \r \t \0 and \\, nothing else."""
    if not text:
        raise argparse.ArgumentTypeError("a separator is at least one character")
    known = {"n": "\n", "r": "\r", "t": "\t", "0": "\0", "\\": "\\"}

    def resolve(match: re.Match[str]) -> str:
        if match[1] not in known:
            raise argparse.ArgumentTypeError(f"{text!r} has {match[0]!r}; known are \\n \\r \\t \\0 and \\\\")
        return known[match[1]]

    return re.sub(r"\\(.?)", resolve, text, flags=re.DOTALL)


def output_path(path: str) -> str | None:
    """A `type` for argparse: the output file, or None for - (stdout)."""
    return None if path == "-" else path


def file_path(path: str) -> str:
    """A `type` for argparse: an output file, which cannot be stdout."""
    if path == "-":
        raise argparse.ArgumentTypeError("the result is saved to a file, not to stdout")
    return path
