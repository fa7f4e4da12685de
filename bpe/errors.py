"""The package's error types, and argument checks that several modules share.

Errors for bad input are a ValueError, a TypeError or an OSError; look-ups by name raise KeyError, ids beyond 32 bits
OverflowError, a missing extra ModuleNotFoundError. Their texts name the value, the rule and the fix. Names and paths
may come from files of others, so errors and the log show them without control characters.
"""

from __future__ import annotations

import numbers
import operator
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import logging

#: The largest count or size.
COUNT_LIMIT = 2**63 - 1
#: All ids are below this limit, so that they fit int32 arrays and leave the kernels a free bit.
ID_LIMIT = 2**31
#: The most threads of a call.
MAX_THREADS = 4096

_Choice = TypeVar("_Choice", bound=str)

#: What a terminal obeys or hides: control characters, line separators, marks of direction and other invisible
#: characters, but for the joiners, which several scripts and emoji need; and lone surrogates.
_UNPRINTABLE = (
    "[\\x00-\\x1f\\x7f-\\x9f\\xad\\u061c\\u180e\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f"
    "\\ufeff\\ufff9-\\ufffb\\U000e0001\\U000e0020-\\U000e007f\\ud800-\\udfff]"
)


def escape_unprintable(text: str, keep: str = "") -> str:
    r"""Spell the characters of a text that terminals and logs obey or hide as in Python, but those in `keep`.

    >>> print(escape_unprintable("a\x1b[2Jb\u202e\n"), escape_unprintable("a\tb\x00", keep="\t"))
    a\x1b[2Jb\u202e\x0a a	b\x00
    """
    return replace_unprintable(text, lambda character: _escape(ord(character)), keep)


def replace_unprintable(text: str, spell: Callable[[str], str], keep: str = "") -> str:
    """Replace the characters of a text that terminals and logs obey or hide, but those in `keep`."""
    if text.isprintable():
        return text
    return re.sub(_UNPRINTABLE, lambda match: match[0] if match[0] in keep else spell(match[0]), text)


def _escape(code: int) -> str:
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a path that is not UTF-8
        code -= 0xDC00
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _make_printable(record: logging.LogRecord) -> bool:
    """Spell the unprintable characters of a record of the log; those that are printable stay as they are."""
    text = record.getMessage()
    if not text.isprintable() and (spelled := escape_unprintable(text, keep="\n")) != text:
        record.msg, record.args = spelled, None
    return True


@cache
def get_log(name: str = "bpe") -> logging.Logger:
    """Return the library's log, or a part of it, set up at its first use: most processes write nothing to it."""
    import logging

    log = logging.getLogger(name)
    log.addFilter(_make_printable)
    return log


class FormatError(ValueError):
    """Raised for an invalid file, before any of its content is used. A subclass of ValueError.

    Attributes:
        message: what is wrong, without the path and the position.
        path: the file, or None if the data came from memory.
        where: the position in the file ("line 7", "offset 12", "model.merges[3]"), or None.

    """

    def __init__(self, message: str, *, path: str | os.PathLike[str] | None = None, where: str | None = None) -> None:
        self.message = message
        self.path = None if path is None else os.fspath(path)
        self.where = where
        location = ", ".join(part for part in (self.path, where) if part)
        super().__init__(escape_unprintable(f"{location}: {message}" if location else message, keep="\n"))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_format_error, (self.message, self.path, self.where)


def _rebuild_format_error(message: str, path: str | None, where: str | None) -> FormatError:
    return FormatError(message, path=path, where=where)


@contextmanager
def as_format_error(source: str) -> Iterator[None]:
    """Turn a ValueError raised inside the block into a FormatError that names `source`."""
    try:
        yield
    except FormatError:
        raise
    except ValueError as error:
        raise FormatError(str(error), path=source) from None


@contextmanager
def with_path(path: str | os.PathLike[str] | None, part: str | None = None) -> Iterator[None]:
    """Add the path of the file or folder that the block reads, and the file within the folder, to its FormatErrors."""
    try:
        yield
    except FormatError as error:
        where = f"{part}, {error.where}" if part and error.where else part or error.where
        raise FormatError(error.message, path=error.path if path is None else path, where=where) from None


def short_repr(value: object, limit: int = 60) -> str:
    """Return the repr of a value for an error message, truncated to `limit` characters.

    >>> short_repr("a" * 100, limit=10)
    "'aaaaaaaa…"
    """
    try:
        shown = repr(value)
    except RecursionError:  # lists in lists, a thousand deep
        shown = f"<{type(value).__name__} that is nested too deeply to show>"
    text = escape_unprintable(shown)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def suggest(word: str, known_words: Iterable[str]) -> str:
    """Ask whether the known word closest to a wrong one is meant, whatever the case; an empty string if none is close.

    >>> suggest("CL100k", ["cl100k_base", "o200k_base"]), suggest("xyz", ["cl100k_base"])
    ('; did you mean cl100k_base?', '')
    """
    import difflib

    words = {known_word.casefold(): known_word for known_word in known_words}
    matches = difflib.get_close_matches(word.casefold(), words, 1)
    return f"; did you mean {words[matches[0]]}?" if matches else ""


def with_article(value: object) -> str:
    """Return the name of a value's type with its article, for an error message.

    >>> with_article("a"), with_article(3)
    ('a str', 'an int')
    """
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeioAEIO' else 'a'} {name}"


def pluralize(number: int, noun: str) -> str:
    """Spell a number and a noun, the noun in the plural where needed.

    >>> pluralize(0, "merge"), pluralize(1, "merge"), pluralize(2, "merge")
    ('0 merges', '1 merge', '2 merges')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def describe(value: object) -> str:
    """Describe a value and its type, for an error message.

    >>> describe(3), describe(None)
    ('3, an int', 'None')
    """
    return "None" if value is None else f"{short_repr(value)}, {with_article(value)}"


class ignore_system_errors:  # noqa: N801 (used like contextlib.suppress)
    """Ignore an OSError raised in the block, but not the TimeoutError of a signal handler, which may run there.

    >>> import os
    >>> with ignore_system_errors():
    ...     os.unlink("no such file")

    """

    def __enter__(self) -> None:
        """Begin the block."""

    def __exit__(self, error_type: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        return isinstance(error, OSError) and not _is_of_signal_handler(error)


def raise_if_of_signal_handler(error: BaseException) -> None:
    """Raise an error again that is none of the system or of a file: a TimeoutError without a number."""
    if _is_of_signal_handler(error):
        raise error


def _is_of_signal_handler(error: BaseException) -> bool:
    return isinstance(error, TimeoutError) and error.errno is None


@contextmanager
def name_file_in_errors(path: str) -> Iterator[None]:
    """Name a file in the errors of the system that arise in the block, which would name none, or another one."""
    try:
        yield
    except OSError as error:
        raise add_file_name(error, path) from None


def add_file_name(error: OSError, path: str, reason: str | None = None) -> OSError:
    """Make an error of the system that names a file, and a reason instead of the system's, if one is given."""
    raise_if_of_signal_handler(error)
    return OSError(error.errno, reason or error.strerror or str(error), path)


def check_int(name: str, value: object, min_value: int, max_value: int = COUNT_LIMIT) -> int:
    """Return `value` as an int from `min_value` to `max_value`; else raise TypeError or ValueError with the name."""
    number: int | None = None
    with suppress(TypeError):
        number = operator.index(value)  # type: ignore[arg-type]
    if number is None or isinstance(value, bool):
        limit = f"of at least {min_value}" if max_value == COUNT_LIMIT else f"from {min_value} to {max_value}"
        raise TypeError(f"{name} is {describe(value)}; it must be an int {limit}")
    if not min_value <= number <= max_value:
        is_too_small = max_value == COUNT_LIMIT and number < min_value
        limit = f"at least {min_value}" if is_too_small else f"from {min_value} to {max_value}"
        raise ValueError(f"{name} is {number}; it must be {limit}")
    return number


def check_bool(name: str, value: object) -> bool:
    """Return a bool, also one of NumPy's, as a bool; else raise TypeError: "no" would be taken for True."""
    if not isinstance(value, bool):
        import numpy as np  # not before it is needed

        if not isinstance(value, np.bool_):
            raise TypeError(f"{name} is {describe(value)}; it must be a bool")
    return bool(value)


def check_probability_and_seed(name: str, share: object, seed: object) -> tuple[float, int]:
    """Return a share of what is chosen at random, from 0 to 1, and a seed; None becomes a random seed.

    Raises:
        TypeError, ValueError: for a share that is not a number from 0 to 1, or a seed that is not an int.

    """
    if isinstance(share, bool) or not isinstance(share, numbers.Real):
        raise TypeError(f"{name} is {describe(share)}; it must be a number from 0 to 1")
    if not 0 <= share <= 1:  # type: ignore[operator]  # before `float`, which a large int has none of
        raise ValueError(f"{name} is {short_repr(share)}; it must be from 0 to 1")
    number = float(share)
    if seed is None:
        return number, int.from_bytes(os.urandom(8), "little")
    if isinstance(seed, bool) or not hasattr(seed, "__index__"):
        raise TypeError(f"seed is {describe(seed)}; it must be an int, or None for a random one")
    return number, operator.index(seed)


def make_id_error(token_id: int, dtype: str, max_id: int) -> ValueError:
    """Make the error for an id that a shard's dtype cannot hold."""
    return ValueError(f"id {token_id} does not fit the shard's dtype, {dtype}; ids are from 0 to {max_id}")


def make_room_error(n_room: int, n_ids: int) -> ValueError:
    """Make the error for an array `out` that is too short for the ids."""
    return ValueError(f"out has room for {n_room} ids, and there are {n_ids}; make it at least as long")


def check_iterable(name: str, value: object, rule: str) -> None:
    """Raise TypeError, naming the argument and the rule, if a value cannot be iterated."""
    try:
        iter(value)  # type: ignore[call-overload]
    except TypeError:
        raise TypeError(f"{name} is {describe(value)}; it must be {rule}") from None


def check_str(name: str, value: object) -> str:
    """Return a value that is a str; otherwise raise TypeError, which names the argument."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is {describe(value)}; it must be a str")
    return value


def check_path(path: object) -> str:
    """Return the path of a file or folder as a str.

    A number is refused, since `open` takes it for a file that is open already, reads that, and closes it.

    Raises:
        TypeError: for anything but a str, bytes or an os.PathLike.
        ValueError: for a path with a null character, which no file has.

    """
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(f"path is {describe(path)}; it must be a str or an os.PathLike, such as pathlib.Path")
    name = os.fsdecode(path)
    if "\0" in name:
        raise ValueError(f"path is {short_repr(name)}, which has a null character; no file has one in its name")
    return name


def check_unicode(name: str, value: str) -> bytes:
    """Encode a str as UTF-8; raise ValueError naming the argument if it contains a lone surrogate."""
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} {short_repr(value)} holds a lone surrogate; it must be valid Unicode") from None


def check_choice(name: str, value: object, choices: tuple[_Choice, ...]) -> _Choice:
    """Return `value` if it is one of `choices`; otherwise raise ValueError, which lists them."""
    if not isinstance(value, str) or value not in choices:
        suggestion = suggest(value, choices) if isinstance(value, str) else ""
        raise ValueError(
            f"{name} is {short_repr(value)}; it must be one of {', '.join(map(repr, choices))}{suggestion}"
        )
    return choices[choices.index(value)]
