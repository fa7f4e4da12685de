"""The command `bpe`: train, count-words, merge-counts, encode, decode, count, info, convert, diff, edit, show, …

`main` parses the arguments, runs the command and reports errors. Results go to stdout or a named file, progress and
the log to stderr. Exit status: 0; 1 for bad input, with one line on stderr; 2 for bad use; 130 after Ctrl-C, 143 after
SIGTERM, 129 after SIGHUP. If the reader of stdout closes the pipe early (`| head`), the program ends without an error.
Not here: the commands (`training.py`, `encoding.py`, `shards.py`, `inspecting.py`, `converting.py`, `evaluating.py`,
`reporting.py`), and their files (`files.py`).
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from bpe import _starting
from bpe.cli.arguments import parser
from bpe.cli.files import (
    Stdout,
    flush_stderr,
    identity,
    open_closed_streams,
    outputs_of,
    say_error,
    silence_stdout,
)
from bpe.cli.parsing import in_flags
from bpe.errors import FormatError


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; `argv` is without the program's name, None for the process's own. Returns the exit status."""
    open_closed_streams()
    try:
        with _ending_signals() as came:
            status = _run(argv, came)
            return 128 + came[0] if came else status
    finally:
        flush_stderr()


def _run(argv: Sequence[str] | None, came: Sequence[int]) -> int:
    """Run the command; `came` has the number of a signal that has ended it."""
    outputs: dict[str, object] = {}
    try:
        _starting.end()
        given = sys.argv[1:] if argv is None else argv
        args = parser(_COMMANDS).parse_args(given or ["--help"])
        outputs.update((path, identity(path)) for path in outputs_of(args))
        with _logging(getattr(args, "quiet", False)):
            status: int = args.run(args) or 0
            Stdout().flush()
            return status
    except SystemExit as exit_:  # argparse: --help, --version, bad use
        return _flush_stdout(exit_.code if isinstance(exit_.code, int) else 1)
    except KeyboardInterrupt as interrupt:
        saved = [path for path, before in outputs.items() if identity(path) != before]
        left = [f"{' and '.join(saved)} saved"] if saved else list(map(str, interrupt.args))
        how = f"ended by {signal.Signals(came[0]).name}" if came else "interrupted"
        return _fail(": ".join([how, *(left or ["nothing was saved"] * bool(outputs))]), 130)
    except BrokenPipeError:
        silence_stdout()
        return 0
    except TimeoutError as error:
        return _fail(f"error: {in_flags(str(error), args.parser)}")
    except OSError as error:
        named = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, (str, bytes)) else ""
        return _fail(f"error: {named}{error.strerror or error}")
    except MemoryError:
        return _fail("error: out of memory")
    except ImportError as error:
        return _fail(f"error: {error}")
    except FormatError as error:  # text from the file may look like an argument, so names are replaced only in advice
        advises = any(f"{name}=" in error.message for name in _ADVISED)
        return _fail(f"error: {in_flags(str(error), args.parser) if advises else error}")
    except (ValueError, OverflowError) as error:
        return _fail(f"error: {in_flags(str(error), args.parser)}")


def _flush_stdout(status: int) -> int:
    """The exit status after a text of argparse's, which ignores errors of stdout itself."""
    try:
        Stdout().flush()
    except BrokenPipeError:
        silence_stdout()
    except OSError as error:
        return _fail(f"error: stdout: {error.strerror}")
    return status


def _fail(message: str, status: int = 1) -> int:
    say_error(f"bpe: {' '.join(message.splitlines())}")
    return status


class _Handler(logging.StreamHandler[Any]):
    """Writes the log to stderr, whatever becomes of that."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Ignore a stderr that is closed or full."""


@contextmanager
def _ending_signals() -> Iterator[list[int]]:
    """Let SIGTERM and SIGHUP, which end a job or a session, end the command as Ctrl-C does, which saves what it has.

    Yields a list for the number of the first one, after which others are ignored. A signal that this process ignores,
    as under nohup, or handles already, is left alone.
    """
    came: list[int] = []

    def end(number: int, _: object) -> None:
        if not came:
            came.append(number)
            raise KeyboardInterrupt

    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP")):
            if number is not None and signal.getsignal(number) == signal.SIG_DFL:
                before[number] = signal.signal(number, end)
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _logging(quiet: bool) -> Iterator[None]:
    """Send the library's log to stderr while the command runs."""
    logger = logging.getLogger("bpe")
    handler = _Handler()
    handler.setFormatter(logging.Formatter("bpe: %(message)s"))
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING if quiet else logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


#: Arguments of the library that advice in a FormatError names.
_ADVISED = ("encoding_errors", "on_error", " field", " format", "quoting")


def _run_of(module: str, function: str) -> Callable[[argparse.Namespace], int | None]:
    """What runs a command, whose module is imported when it is called."""

    def run(args: argparse.Namespace) -> int | None:
        status: int | None = getattr(import_module(f"bpe.cli.{module}"), function)(args)
        return status

    return run


_COMMANDS = {
    "train": _run_of("training", "train"),
    "count-words": _run_of("training", "count_words"),
    "merge-counts": _run_of("training", "merge_counts"),
    "encode": _run_of("encoding", "encode"),
    "verify": _run_of("shards", "verify"),
    "convert-shards": _run_of("shards", "convert_shards"),
    "merge-manifests": _run_of("shards", "merge_manifests"),
    "decode": _run_of("encoding", "decode"),
    "count": _run_of("encoding", "count"),
    "info": _run_of("inspecting", "info"),
    "convert": _run_of("converting", "convert"),
    "diff": _run_of("converting", "diff"),
    "prune": _run_of("training", "prune"),
    "edit": _run_of("inspecting", "edit"),
    "show": _run_of("inspecting", "show"),
    "evaluate": _run_of("evaluating", "evaluate"),
    "sanity-check": _run_of("evaluating", "sanity_check"),
    "report": _run_of("reporting", "report"),
    "play": _run_of("reporting", "play"),
    "demo": _run_of("inspecting", "demo"),
    "help": _run_of("inspecting", "help_"),
    "completion": _run_of("inspecting", "completion"),
}
