"""The command line: the program `bpe`.

Arguments come in; results go to stdout or to a named file, progress and the log to stderr. The files, in the order in
which a command line meets them:

- this file, whose `main` runs a command and reports errors;
- `arguments.py` a table of all commands and their arguments;
- `parsing.py` what that is made of: descriptions of options, types of values, the parser, messages that name flags;
- `training.py`, `encoding.py` (with shards), `tokenizers.py`, `comparing.py`, `demo.py` the commands, which call the
  library's functions;
- `files.py` their inputs and outputs;
- `manual.py` a manual page and scripts for shells, made from the parsers and `manual.txt`.

Invariants: the exit status is 0, 1 for bad input, 2 for bad use, 130 after Ctrl-C, 143 after SIGTERM and 129 after
SIGHUP; a file appears whole or not at all; invalid flags are refused before any work; if the reader of stdout closes
the pipe early (`| head`), the program ends without an error. Cost: that of the functions called. Only the parser of the
command that runs is built, and `--help` imports no kernel beyond those of `import bpe`.

Sources: the GNU and POSIX conventions for flags and exit statuses; https://no-color.org.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from bpe import _starting
from bpe.cli.arguments import COMMANDS, build_parser, build_program_parser
from bpe.cli.files import (
    Stdout,
    flush_stderr,
    identify,
    list_outputs,
    open_closed_streams,
    say_error,
    silence_stdout,
)
from bpe.cli.parsing import in_flags
from bpe.errors import FormatError

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; `argv` is without the program's name, None for the process's own. Returns the exit status."""
    open_closed_streams()
    try:
        with _end_by_signals() as numbers:
            status = _run(argv, numbers)
            return 128 + numbers[0] if numbers else status
    finally:
        flush_stderr()


#: Arguments of the library whose names in a FormatError are advice, not text of the file.
_ADVISED = re.compile(r"(?:encoding_errors|on_error|quoting|(?<= )field|(?<= )format)=")


def _run(argv: Sequence[str] | None, numbers: Sequence[int]) -> int:
    """Run the command; `numbers` has the number of a signal that has ended it."""
    outputs: dict[str, object] = {}
    try:
        _starting.end()
        words = list(sys.argv[1:] if argv is None else argv) or ["--help"]
        if words[0] not in COMMANDS:
            build_program_parser().parse_args(words)  # prints help or the version, or refuses
        command, args = COMMANDS[words[0]], build_parser(words[0]).parse_args(words[1:])
        outputs.update((path, identify(path)) for path in list_outputs(args))
        with _log_to_stderr(args.quiet):
            status = command.run(args)
            Stdout().flush()
            return status
    except SystemExit as exit_:  # argparse: --help, --version, bad use
        return _flush_stdout(exit_.code if isinstance(exit_.code, int) else 1)
    except KeyboardInterrupt as interrupt:
        saved = [path for path, before in outputs.items() if identify(path) != before]
        left = [f"{' and '.join(saved)} saved"] if saved else list(map(str, interrupt.args))
        how = f"ended by {signal.Signals(numbers[0]).name}" if numbers else "interrupted"
        return _fail(": ".join([how, *(left or ["nothing was saved"] * bool(outputs))]), 130)
    except BrokenPipeError:
        silence_stdout()
        return 0
    except OSError as error:
        if isinstance(error, TimeoutError):
            return _fail(f"error: {in_flags(str(error), args.parser)}")
        named = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, (str, bytes)) else ""
        return _fail(f"error: {named}{error.strerror or error}")
    except MemoryError:
        return _fail("error: out of memory")
    except ImportError as error:
        return _fail(f"error: {error}")
    except (ValueError, OverflowError) as error:
        # Text from a file may look like an argument, so names are replaced only in advice.
        of_file = isinstance(error, FormatError) and not _ADVISED.search(error.message)
        return _fail(f"error: {error if of_file else in_flags(str(error), args.parser)}")


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
def _end_by_signals() -> Iterator[list[int]]:
    """Let SIGTERM and SIGHUP, which end a job or a session, end the command as Ctrl-C does, which saves what it has.

    Yields a list for the number of the first one, after which others are ignored. A signal that this process ignores,
    as under nohup, or handles already, is left alone.
    """
    numbers: list[int] = []

    def end(number: int, _: object) -> None:
        if not numbers:
            numbers.append(number)
            raise KeyboardInterrupt

    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP")):
            if number is not None and signal.getsignal(number) == signal.SIG_DFL:
                before[number] = signal.signal(number, end)
    try:
        yield numbers
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _log_to_stderr(quiet: bool) -> Iterator[None]:
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
