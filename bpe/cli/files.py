"""The inputs and outputs of commands: files, pipes and the terminal.

An output file is written whole or not at all, and a command that cannot write its output fails before it starts to
work.
"""

from __future__ import annotations

import argparse
import io
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO, cast

from bpe._names import SHARD_FORMATS
from bpe.cli.parsing import name_flag, replace_with_flags
from bpe.errors import FormatError, escape_unprintable, get_log, ignore_system_errors, pluralize, replace_unprintable

if TYPE_CHECKING:
    from bpe.base.progress import Advance, Stage
    from bpe.corpus.sources import Sources
    from bpe.data.manifest import Manifest

log = get_log("bpe.cli")

#: Options of `bpe.Sources` that commands have under the same names.
_FILE_OPTIONS = ("field", "separator", "per_line", "encoding_errors", "on_error", "quoting")


def open_corpus(args: argparse.Namespace, inputs: Sequence[str] = ()) -> Sources:
    """Open FILES, after checks of them, of the other inputs and of the outputs."""
    check_inputs(args, inputs)
    sources = open_sources(args)
    _check_outputs(args, [*(file.name for file in sources.files if file.kind in ("file", "pipe")), *inputs])
    return sources


def check_files(args: argparse.Namespace, *inputs: str) -> None:
    """Refuse, before any work, inputs that cannot be read, and outputs that cannot be written or would replace one."""
    check_inputs(args, inputs)
    _check_outputs(args, inputs)


def check_inputs(args: argparse.Namespace, paths: Sequence[str]) -> None:
    """Refuse files that cannot be read. Pipes are not opened, since that could consume their data."""
    from bpe.base.utf8 import check_device

    _check_stdin(args, paths)
    for path in paths:
        if path != "-" and not stat.S_ISFIFO(os.stat(path).st_mode):
            check_device(path)
            with open(path, "rb"):
                pass


def _check_stdin(args: argparse.Namespace, paths: Sequence[str]) -> None:
    """Refuse a standard input that cannot be read, or is named twice."""
    from bpe.base.utf8 import check_device

    if "-" not in paths:
        return
    if paths.count("-") > 1:
        args.parser.error("- (stdin) can be read only once")
    if sys.stdin is None:
        raise ValueError("stdin is closed, and - reads it; name files, or leave stdin open")
    with suppress(io.UnsupportedOperation, ValueError):  # stdin may be a Python object without a file descriptor
        check_device("stdin", sys.stdin.fileno())


def _check_outputs(args: argparse.Namespace, inputs: Sequence[str]) -> None:
    """Check the files of -o, --checkpoint and --remap, none of which may replace an input or another output."""
    other_paths = list(inputs)
    for flag, paths in (
        ("-o", list_outputs(args)),
        ("--checkpoint", list_checkpoint_files(args)),
        ("--remap", [getattr(args, "remap", None)]),
    ):
        for path in filter(None, paths):
            check_output(path, other_paths, flag)
        other_paths += filter(None, paths)


def check_output(path: str, inputs: Sequence[str], flag: str = "-o") -> None:
    """Refuse a file that cannot be written, or that would replace one of the inputs, before any work."""
    description = "the output" if flag == "-o" else f"the {flag.lstrip('-')}"
    target, folder = Path(path), Path(path).parent
    if not folder.is_dir():
        raise ValueError(f"{description}'s folder {folder} does not exist; make it first, or name another with {flag}")
    if target.is_dir() or path.endswith(("/", os.sep)):
        raise ValueError(f"{description} {path} is a folder; name a file in it with {flag}")
    if target.exists() and not target.is_file():
        raise ValueError(f"{description} {path} is no regular file; name another with {flag}")
    if not os.access(folder, os.W_OK):
        raise ValueError(
            f"{description} {path} cannot be written: its folder {folder} is read-only; name another with {flag}"
        )
    if any(name != "-" and _is_same_file(target, name) for name in inputs):
        input_names = "one of the inputs" if flag == "-o" else "one of the inputs or the output"
        raise ValueError(f"{description} {path} is {input_names} and would replace it; name another with {flag}")


def _is_same_file(target: Path, name: str) -> bool:
    both_exist = target.exists() and os.path.exists(name)
    return target.samefile(name) if both_exist else os.path.realpath(target) == os.path.realpath(name)


def list_outputs(args: argparse.Namespace) -> list[str]:
    """List the files that -o names."""
    path, vocab_sizes = getattr(args, "output", None), getattr(args, "vocab_size", None)
    output_format = getattr(args, "format", "")
    if output_format in SHARD_FORMATS or not isinstance(path, str):
        return []  # a folder; the command logs what is finished
    if isinstance(vocab_sizes, list):
        stem, extension = os.path.splitext(path)
        return [f"{stem}-{vocab_size}{extension}" for vocab_size in vocab_sizes]
    if output_format == "npy" or (output_format is None and path.endswith(".npy")):
        from bpe.formats.id_files import offsets_path

        return [path, offsets_path(path)]
    return [path]


def list_checkpoint_files(args: argparse.Namespace) -> list[str]:
    """List the files of --checkpoint."""
    path = getattr(args, "checkpoint", None)
    if path is None:
        return []
    from bpe.training.checkpoint import list_checkpoint_paths

    return list_checkpoint_paths(path, two_stages=args.superwords is not None)


def read_identity(path: str) -> tuple[int, ...] | None:
    """Return a value that changes when the file is replaced; None if there is no file."""
    with ignore_system_errors():
        status = os.stat(path)
        return status.st_ino, status.st_mtime_ns, status.st_size
    return None


def open_input(path: str) -> Any:
    """Open a file for reading bytes; - is stdin."""
    return nullcontext(sys.stdin.buffer) if path == "-" else open(path, "rb")


@contextmanager
def open_output(path: str | None) -> Iterator[BinaryIO]:
    """Open the output: stdout, or a file that appears only when it is complete."""
    from bpe.base.atomic_files import atomic_write

    if path is None:
        yield cast("BinaryIO", Stdout())
    else:
        with atomic_write(path) as file:
            yield file


def open_sources(args: argparse.Namespace, files: Sequence[str] | None = None, **overrides: Any) -> Sources:
    """Open FILES of a command, or `files`, as the command's options say, some of which `overrides` replaces."""
    from bpe.corpus.sources import Sources

    files = args.files if files is None else files
    _check_stdin(args, files)
    options = {name: getattr(args, name) for name in _FILE_OPTIONS if hasattr(args, name)}
    sources = Sources(files, format=args.input_format, **{**options, **overrides})
    part = getattr(args, "part", None)
    return sources if part is None else sources.part(*part)


def refuse_file_options(args: argparse.Namespace, reason: str = "no FILES are given") -> None:
    """Refuse options that say how FILES are read, where there are none, for this reason."""
    names = {*_FILE_OPTIONS, "input_format", "part"}
    for action in args.parser._actions:
        if action.dest in names and getattr(args, action.dest) != action.default:
            args.parser.error(
                f"{reason}, and options such as --separator and --per-line cut FILES into documents; leave out "
                f"{name_flag(action, args.parser)}"
            )


def open_documents(args: argparse.Namespace, path: str) -> Sources:
    """Open one file; if it has records, such as JSON Lines, each record is a document."""
    from bpe.corpus.sources import Sources

    if path != "-":
        file = Sources([path], format=args.input_format, encoding_errors="bytes").files[0]
        if file.format != "text":
            return open_sources(args, [path], separator=None, per_line=False)
    return open_sources(args, [path])


def is_counts_file(path: str) -> bool:
    """Whether a path is a file of word counts."""
    from bpe.count.sealed_files import COUNTS_FORMAT

    if not os.path.isfile(path):  # a pipe can be read only once
        return False
    with open(path, "rb") as file:
        return file.read(len(COUNTS_FORMAT.magic)) == COUNTS_FORMAT.magic


def log_skipped(*corpora: Sources | Manifest | None) -> None:
    """Log how many bad records of corpora were left out, and which damaged files, if any were."""
    skipped = sum(sources.skipped for sources in corpora if sources is not None)
    if skipped:
        log.warning("%s left out; --on-error raise names the first", pluralize(skipped, "bad record"))
    damaged_files = {
        name: reason for corpus in corpora if corpus is not None for name, reason in corpus.damaged_files.items()
    }
    if damaged_files:
        log.warning("%s left out: %s", pluralize(len(damaged_files), "damaged file"), ", ".join(damaged_files))


class Stdout:
    """Writes bytes to the process's stdout; errors such as a full disk name stdout."""

    def write(self, data: bytes) -> int:
        """Write bytes to the buffer of stdout."""
        with self._name_stdout_in_errors():
            return sys.stdout.buffer.write(data)

    def flush(self) -> None:
        """Flush the buffer of stdout."""
        with self._name_stdout_in_errors():
            sys.stdout.flush()

    @contextmanager
    def _name_stdout_in_errors(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            silence_stdout()
            raise OSError(error.errno, error.strerror, "stdout") from None


def print_line(line: str, *, flush: bool = False, styled: bool = False) -> None:
    """Print a line to stdout, or several.

    Args:
        line: the line; control characters and surrogates become escapes.
        flush: whether whoever reads a pipe gets the line immediately.
        styled: whether the line has colours of our own, and all else in it is escaped already.

    """
    output = Stdout()
    text = line if styled else escape_unprintable(line, keep="\n\t")
    output.write(text.encode("utf-8", "backslashreplace") + b"\n")
    if flush or sys.stdout.isatty():
        output.flush()


def print_json(value: Any) -> None:
    """Print a result as JSON, indented, with escapes for what a terminal obeys or hides."""
    import json

    text = json.dumps(value, ensure_ascii=False, indent=2)
    Stdout().write(replace_unprintable(text, lambda character: json.dumps(character)[1:-1], keep="\n").encode() + b"\n")


def silence_stdout() -> None:
    """Redirect stdout to the null device, so that the flush at exit does not repeat an error such as a closed pipe."""
    _silence(sys.stdout)


def _silence(stream: TextIO) -> None:
    null_device = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null_device, stream.fileno())
    os.close(null_device)


def replace_closed_streams() -> None:
    """Open replacements for a closed stdin, stdout or stderr, so that no output file is given descriptor 0, 1 or 2.

    Writing to this stdout is an error, and what is written to this stderr is lost.
    """
    if sys.stdin is None:
        os.open(os.devnull, os.O_RDONLY)  # gets descriptor 0; never closed
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8", errors="backslashreplace")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8", errors="backslashreplace")


def print_error(message: str) -> None:
    """Print a line to stderr, or nothing if stderr is closed or full."""
    with ignore_system_errors():
        sys.stderr.write(escape_unprintable(message) + "\n")


def flush_stderr() -> None:
    """Flush stderr; where that fails, redirect stderr, because the interpreter would try again when it ends."""
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        with suppress(ValueError), ignore_system_errors():
            _silence(sys.stderr)


def show_progress(args: argparse.Namespace, stage: Stage, total: int | None) -> AbstractContextManager[Advance]:
    """Show a progress bar on stderr for `total` bytes, None if unknown; see `progress_bar`."""
    from bpe.base.progress import progress_bar

    return progress_bar(not args.quiet, stage, total, "B", brief=True)


@contextmanager
def error_context(path: str, where: str | None = None, parser: argparse.ArgumentParser | None = None) -> Iterator[None]:
    """Name the input file in errors about its content, and the flags of `parser` instead of Python arguments."""
    try:
        yield
    except FormatError:
        raise
    except (TypeError, ValueError) as error:
        message = str(error) if parser is None else replace_with_flags(str(error), parser)
        raise FormatError(message, path="stdin" if path == "-" else path, where=where) from None
