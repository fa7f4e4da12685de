"""The command line: the program `bpe`.

Arguments come in; results go to stdout or to a named file, progress and the log to stderr. The files, in the order in
which a command line meets them:

- this file, whose `main` runs a command and reports errors;
- `arguments.py` a table of all commands and their arguments;
- `parsing.py` what that is made of: descriptions of options, types of values, the parser, messages that name flags;
- `training.py`, `encoding.py` (with shards), `describing.py`, `tokenizers.py`, `comparing.py`, `demo.py` the commands,
  which call the library's functions; `tracing.py` the merges that `bpe train --trace` prints;
- `files.py` their inputs and outputs; `names.py` tokenizers that are given by a name;
- `manual.py` a manual page and scripts for shells, made from the parsers and `manual.txt`.

Invariants: the exit status is 0, 1 for bad input, 2 for bad use, 130 after Ctrl-C, 143 after SIGTERM and 129 after
SIGHUP; a file appears whole or not at all; invalid flags are refused before any work; if the reader of stdout closes
the pipe early (`| head`), the program ends without an error. Cost: that of the functions called. Only the parser of the
command that runs is built, and `--help` imports no kernel beyond those of `import bpe`.

Sources: the GNU and POSIX conventions for flags and exit statuses; https://no-color.org.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bpe import _starting
from bpe.cli.arguments import COMMANDS, build_parser, build_program_parser
from bpe.cli.files import (
    Stdout,
    flush_stderr,
    list_outputs,
    print_error,
    read_identity,
    replace_closed_streams,
    silence_stdout,
)
from bpe.cli.parsing import move_command_first, replace_advice, replace_with_flags
from bpe.errors import FormatError

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command of `argv`, None for the process's own without the program's name; return the exit status."""
    replace_closed_streams()
    try:
        with _interrupt_on_signals() as signal_numbers:
            status = _run(argv, signal_numbers)
            return 128 + signal_numbers[0] if signal_numbers else status
    finally:
        flush_stderr()


#: Matches the arguments of the library whose names in a FormatError are advice, not text of the file.
_ADVICE_PATTERN = re.compile(r"(?:encoding_errors|on_error|quoting|(?<= )field|(?<= )format)=")


def _run(argv: Sequence[str] | None, signal_numbers: Sequence[int]) -> int:
    """Run the command; `signal_numbers` has the number of a signal that has ended the command."""
    output_identities: dict[str, object] = {}
    try:
        _starting.restore_interrupts()
        arguments = list(sys.argv[1:] if argv is None else argv) or ["--help"]
        if arguments[0] not in COMMANDS:
            arguments = move_command_first(arguments, COMMANDS, build_parser)
            if arguments[0].startswith("-") and not {"-h", "--help", "--version"} & set(arguments):
                program_parser = build_program_parser()
                suggestion = program_parser.suggest_flag(arguments[0])
                program_parser.error(f"no command is given{suggestion}; `bpe` alone lists the commands")
        if arguments[0] not in COMMANDS:
            build_program_parser().parse_args(arguments)  # prints help or the version, or refuses
        command, parser = COMMANDS[arguments[0]], build_parser(arguments[0])
        args = parser.parse_args(arguments[1:])
        output_identities.update((path, read_identity(path)) for path in list_outputs(args))
        with _log_to_stderr(args.quiet, parser):
            status = command.run(args)
            Stdout().flush()
            return status
    except SystemExit as exit_:  # argparse: --help, --version, bad use
        return _flush_stdout(exit_.code if isinstance(exit_.code, int) else 1)
    except KeyboardInterrupt as interrupt:
        saved_paths = [path for path, identity in output_identities.items() if read_identity(path) != identity]
        details = [f"{' and '.join(saved_paths)} saved"] if saved_paths else list(map(str, interrupt.args))
        cause = f"ended by {signal.Signals(signal_numbers[0]).name}" if signal_numbers else "interrupted"
        return _fail(": ".join([cause, *(details or ["nothing was saved"] * bool(output_identities))]), 130)
    except BrokenPipeError:
        silence_stdout()
        return 0
    except OSError as error:
        if isinstance(error, TimeoutError):
            return _fail(f"error: {replace_with_flags(str(error), parser)}")
        prefix = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, (str, bytes)) else ""
        return _fail(f"error: {prefix}{error.strerror or error}")
    except MemoryError:
        return _fail("error: out of memory")
    except ImportError as error:
        return _fail(f"error: {replace_advice(str(error))}")
    except (ValueError, OverflowError) as error:
        # Text from a file may look like an argument, so names are replaced only in advice.
        quotes_file = isinstance(error, FormatError) and not _ADVICE_PATTERN.search(error.message)
        message = replace_advice(str(error)) if quotes_file else replace_with_flags(str(error), parser)
        return _fail(f"error: {message}")


def _flush_stdout(status: int) -> int:
    """Flush a text of argparse's, which ignores errors of stdout itself; return the exit status."""
    try:
        Stdout().flush()
    except BrokenPipeError:
        silence_stdout()
    except OSError as error:
        return _fail(f"error: stdout: {error.strerror}")
    return status


def _fail(message: str, status: int = 1) -> int:
    """Print an error in one line; return the exit status."""
    print_error(f"bpe: {' '.join(message.splitlines())}")
    return status


class _FlagFormatter(logging.Formatter):
    """Formats the log for a command: warnings name its flags."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        super().__init__("bpe: %(message)s")
        self._parser = parser

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        line = super().format(record)
        return replace_with_flags(line, self._parser) if record.levelno >= logging.WARNING else line


class _StderrHandler(logging.StreamHandler):  # type: ignore[type-arg]  # generic from Python 3.11 on
    """Writes the log to stderr, and ignores errors of stderr."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Ignore a stderr that is closed or full."""


@contextmanager
def _interrupt_on_signals() -> Iterator[list[int]]:
    """Let SIGTERM and SIGHUP, which end a job or a session, end the command as Ctrl-C does, which saves results.

    Yields a list for the number of the first signal, after which others are ignored. A signal that this process
    ignores, as under nohup, or handles already, is left alone.
    """
    signal_numbers: list[int] = []

    def interrupt(signal_number: int, _: object) -> None:
        if not signal_numbers:
            signal_numbers.append(signal_number)
            raise KeyboardInterrupt

    old_handlers = {}
    if threading.current_thread() is threading.main_thread():
        for signal_number in (getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP")):
            if signal_number is not None and signal.getsignal(signal_number) == signal.SIG_DFL:
                old_handlers[signal_number] = signal.signal(signal_number, interrupt)
    try:
        yield signal_numbers
    finally:
        for signal_number, handler in old_handlers.items():
            signal.signal(signal_number, handler)


@contextmanager
def _log_to_stderr(quiet: bool, parser: argparse.ArgumentParser) -> Iterator[None]:
    """Send the library's log to stderr while the command runs, with flags instead of Python arguments."""
    logger = logging.getLogger("bpe")
    handler = _StderrHandler()
    handler.setFormatter(_FlagFormatter(parser))
    old_level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING if quiet else logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(old_level)
