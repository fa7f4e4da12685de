"""The command `bpe`: train, count-words, merge-counts, encode, decode, count, info, edit, show, demo.

It parses, calls the library and prints; results go to stdout or the file named, progress and the log to stderr. Exit
status: 0; 1 for bad input, with one line that says what; 2 for bad use; 130 after Ctrl-C. A file to be written appears
whole or not at all, and a place that cannot be written to is refused before the work. A reader that has seen enough
(`| head`) ends the program quietly.
"""

from __future__ import annotations

import argparse
import logging
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import numpy as np

import bpe
from bpe.base.atomic_files import atomic_write
from bpe.base.progress import Advance, Stage, progress_bar, progress_note
from bpe.base.spelling import spell
from bpe.base.threads import thread_count
from bpe.base.utf8 import check_device
from bpe.batch import TokenBatch
from bpe.cli.arguments import in_flags, parser, values_of_flags
from bpe.cli.completion import script
from bpe.cli.manual import commands_of, page
from bpe.corpus.blocks import Block, PathLike, all_regular, document_cut, file_blocks, open_file, separators_of
from bpe.corpus.reading import EndCut, Readable, character_cut, checked_encoding_errors
from bpe.count.word_counts import MAGIC, WordCounts
from bpe.decode.decoder import ByteDecoder
from bpe.encode.engine import Around, BlockIds
from bpe.errors import FormatError, counted
from bpe.formats import id_files as idfiles
from bpe.show.colours import plain, render, use_colour
from bpe.tokenizer import decoder_of, engine_of, text_encoder_of
from bpe.training.checkpoint import saved_state

if TYPE_CHECKING:
    from numpy.typing import NDArray

log = logging.getLogger("bpe.cli")

#: Documents are encoded in groups of about this many bytes: enough to keep threads busy, little beside the memory.
_GROUP = 32 << 20
#: Endings of files that lines of ids are not: they are written under such a name only if --format says so.
_OTHER_FORMATS = (
    *(".npz", ".bin", ".idx", ".parquet", ".arrow", ".feather", ".pt", ".pkl", ".h5", ".safetensors"),
    *(".jsonl", ".gz", ".bz2", ".xz", ".zst", ".zip"),
)
#: `bpe info` shows so many special tokens and so many of the longest.
_SHOWN = 10


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; `argv` is without the program's name, None for the process's own. Returns the exit status."""
    outputs: dict[str, object] = {}
    try:
        args = parser(_COMMANDS).parse_args(argv)
        outputs.update((path, _identity(path)) for path in _outputs(args))
        with _logging(getattr(args, "quiet", False)):
            status: int = args.run(args) or 0
            _Stdout().flush()
            return status
    except SystemExit as exit_:  # argparse: --help, --version, bad use
        return exit_.code if isinstance(exit_.code, int) else 1
    except KeyboardInterrupt as interrupt:
        saved = [path for path, before in outputs.items() if _identity(path) != before]
        left = [f"{' and '.join(saved)} saved"] if saved else list(map(str, interrupt.args))
        return _fail(": ".join(["interrupted", *(left or ["nothing was saved"] * bool(outputs))]), 130)
    except BrokenPipeError:
        _silence_stdout()
        return 0
    except OSError as error:
        named = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, (str, bytes)) else ""
        return _fail(f"error: {named}{error.strerror or error}")
    except MemoryError:
        return _fail("error: out of memory")
    except ImportError as error:
        return _fail(f"error: {error}")
    except FormatError as error:  # what files hold may look like arguments
        advises = "encoding_errors=" in error.message
        return _fail(f"error: {in_flags(str(error), args.parser) if advises else error}")
    except (ValueError, OverflowError) as error:
        return _fail(f"error: {in_flags(str(error), args.parser)}")


# Commands -------------------------------------------------------------------------------------------------------------


def _train(args: argparse.Namespace) -> None:
    if bool(args.files) == (args.counts is not None):
        args.parser.error("give either FILES or --counts words.counts")
    if args.end_of_word_glued and not hasattr(args, "end_of_word"):
        args.parser.error("--end-of-word-glued needs --end-of-word")
    if args.counts is not None and (args.per_line or args.separator is not None):
        args.parser.error("--separator and --per-line cut FILES; the counts in --counts are of documents cut already")
    _check_inputs(args, [*args.files, *([args.counts] if args.counts else [])])
    _check_output(args.output, [*args.files, args.counts])
    for path in _checkpoint_files(args):
        _check_output(path, [*args.files, args.counts, args.output], "--checkpoint")
    wanted = (
        "vocab_size num_merges model pretokenizer end_of_word unk_token tie_break min_frequency max_token_length "
        "limit_alphabet first_id threads max_memory checkpoint"
    )
    options = {name: getattr(args, name) for name in wanted.split() if hasattr(args, name)}
    options.update(_normalizing(args))
    _with_gaps(args, options)
    if args.corpus_alphabet:
        options["initial_alphabet"] = "corpus"
    if args.trace:
        options["on_merge"] = _trace
    progress = not args.quiet and not (args.trace and sys.stdout.isatty())
    try:
        tokenizer = bpe.train(
            **(_corpus(args) if args.counts is None else {"counts": _split_counts(args)}),
            **options,
            special_tokens=args.special_tokens,
            end_of_word_glued=args.end_of_word_glued,
            progress=progress,
        )
        with progress_note(progress, "write"):
            tokenizer.save(args.output)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_saved(args)) from None
    training = tokenizer.training
    assert training is not None
    log.info(
        "%s, %s, learned in %.1f s: %s",
        counted(tokenizer.vocab_size, "token"),
        counted(training.merges, "merge"),
        training.seconds,
        args.output,
    )


def _checkpoint_files(args: argparse.Namespace) -> list[str]:
    return [args.checkpoint, f"{args.checkpoint}.counts"] if hasattr(args, "checkpoint") else []


def _saved(args: argparse.Namespace) -> str:
    """What is left of a training that was interrupted."""
    state = saved_state(args.checkpoint) if hasattr(args, "checkpoint") else None
    if state is None or state == (0, False):
        return "nothing was saved"
    merges, has_counts = state
    what = f"{'the word counts and ' if has_counts else ''}{counted(merges, 'merge')}"
    return f"the checkpoint {args.checkpoint} has {what}; the same command goes on from there"


def _corpus(args: argparse.Namespace) -> dict[str, Any]:
    """The documents, as arguments of `bpe.train` and `bpe.count_words`, which open files themselves, but not stdin."""
    if "-" in args.files:
        return {"texts": (document for path in args.files for document in _documents(path, args))}
    files = {"files": args.files, "separator": args.separator, "per_line": args.per_line}
    return files if args.encoding_errors == "strict" else {**files, "encoding_errors": args.encoding_errors}


def _with_gaps(args: argparse.Namespace, options: dict[str, Any]) -> None:
    """Let the pattern of --pattern do what --gaps says with text between its matches."""
    if args.gaps is None:
        return
    given = options.get("pretokenizer")
    if not isinstance(given, bpe.Pretokenizer) or given.name is not None:
        args.parser.error("--gaps is for text that a --pattern of your own does not match")
        return
    options["pretokenizer"] = bpe.Pretokenizer.from_regex(given.pattern, gaps=args.gaps)


def _normalizing(args: argparse.Namespace) -> dict[str, Any]:
    if not args.normalizers:
        return {}
    return {"normalizer": args.normalizers[0] if len(args.normalizers) == 1 else args.normalizers}


def _split_counts(args: argparse.Namespace) -> WordCounts:
    """The counts to train on; what separated their text is most often a special token of the tokenizer too."""
    counts = WordCounts.load(args.counts)
    left_out = [name for name in counts.special_tokens if name not in args.special_tokens]
    if left_out:
        named = ", ".join(left_out)
        log.warning("%s separated the text of the counts and is no token; --special-token makes it one", named)
    return counts


def _trace(step: int, left: bytes | str, right: bytes | str, token: bytes | str, count: int) -> None:
    try:
        _say(f"{step}\t{spell(left)}\t{spell(right)}\t{spell(token)}\t{count}")
    except BrokenPipeError:  # whoever read the trace has seen enough, but the tokenizer is still wanted
        _silence_stdout()


def _count_words(args: argparse.Namespace) -> None:
    _check_inputs(args, args.files)
    _check_output(args.output, args.files)
    options = {name: getattr(args, name) for name in ("pretokenizer", "threads") if hasattr(args, name)}
    _with_gaps(args, options)
    began = time.perf_counter()
    counts = bpe.count_words(
        **_corpus(args),
        **options,
        **_normalizing(args),
        special_tokens=args.special_tokens,
        progress=not args.quiet,
    )
    with progress_note(not args.quiet, "write"):
        counts.save(args.output)
    _log_counts(counts, f"counted in {time.perf_counter() - began:.1f} s", args.output)


def _merge_counts(args: argparse.Namespace) -> None:
    made_by = commands_of(args.top)["count-words"]
    _check_inputs(args, args.counts)
    _check_output(args.output, args.counts)
    first, *others = args.counts
    merged = WordCounts.load(first)
    for path in others:
        with _error_context(path, flags_of=made_by):
            merged |= WordCounts.load(path)
    merged.save(args.output)
    _log_counts(merged, f"from {counted(len(args.counts), 'file')}", args.output)


def _log_counts(counts: WordCounts, how: str, path: str) -> None:
    log.info("%s, %d in all, %s: %s", counted(len(counts), "distinct word"), counts.total, how, path)


def _encode(args: argparse.Namespace) -> None:
    as_npy = _as_npy(args)
    _check_inputs(args, [*args.files, args.tokenizer])
    _check_output(args.output, [*args.files, args.tokenizer])
    if as_npy:
        _check_output(idfiles.offsets_path(args.output), [*args.files, args.tokenizer])
    tokenizer = bpe.Tokenizer.load(args.tokenizer)
    _note_separator(tokenizer, args, as_npy=as_npy)
    batches = ((batch, goes_on) for _, _, batch, goes_on in _batches(tokenizer, args))
    if as_npy:
        idfiles.write_npy(args.output, batches)
        return
    with _output(args.output) as out:
        idfiles.write_lines(out, batches)


def _note_separator(tokenizer: bpe.Tokenizer, args: argparse.Namespace, *, as_npy: bool) -> None:
    """Say so where somebody may expect an id between documents, and none is written."""
    if args.separator in tokenizer.special_tokens and args.append is None and args.prepend is None:
        where = f"{idfiles.offsets_path(args.output)} says" if as_npy else "line ends say"
        log.info(
            "the separator %s gives no id: only %s where documents end; add --append '%s' to write its id after each",
            args.separator,
            where,
            args.separator,
        )


def _as_npy(args: argparse.Namespace) -> bool:
    """Whether ids are written as .npy: as --format says, or as the output's name ends."""
    ending = Path(args.output or "").suffix.lower()
    if args.format is None and ending in _OTHER_FORMATS:
        args.parser.error(
            f"the output {args.output} would hold lines of ids, not {ending}; name it .txt or .npy, or say --format"
        )
    as_npy = args.format == "npy" or (args.format is None and ending == ".npy")
    if as_npy and args.output is None:
        args.parser.error("--format npy needs -o ids.npy: the document boundaries go beside it, to ids.offsets.npy")
    return as_npy


def _batches(tokenizer: bpe.Tokenizer, args: argparse.Namespace) -> Iterator[tuple[int, int, TokenBatch, bool]]:
    """(The number of a file, bytes, ids, whether the last document goes on) of some of its documents, in order."""
    engine, threads = engine_of(tokenizer), thread_count(args.threads)
    allowed = frozenset(tokenizer.special_tokens) if args.allow_special else engine.specials.always
    around = _token_id(tokenizer, "--prepend", args.prepend), _token_id(tokenizer, "--append", args.append)
    separators = separators_of(args.separator, args.per_line)
    streamed = not separators and not engine.cuts_documents(allowed)  # so that no document is held whole
    cut = character_cut if streamed else engine.end_cut(separators, args.per_line, allowed)
    with _bar(args, "encode", args.files) as advance:
        for number, path in enumerate(args.files):
            blocks = _blocks(path, args, cut, threads, chars=tokenizer.model == "char")
            if streamed:
                parts = _streamed(tokenizer, blocks, allowed, around)
            else:
                ahead = path == "-" or not all_regular([path])
                encoder = text_encoder_of(tokenizer)
                parts = encoder.block_ids(blocks, threads, _GROUP, allowed, around=around, most=_GROUP, ahead=ahead)
            for part in parts:
                offsets = np.zeros(len(part.lengths) + 1, dtype=np.int64)
                np.cumsum(part.lengths, out=offsets[1:])
                yield number, part.n_bytes, TokenBatch(part.ids, offsets), not part.ends
                advance(part.n_bytes)


def _token_id(tokenizer: bpe.Tokenizer, flag: str, text: str | None) -> int | None:
    """The id that a flag names: a special token, or a number."""
    is_number = text is not None and text.isdecimal() and text not in tokenizer.special_tokens
    return text_encoder_of(tokenizer).named_id(flag, int(text) if text is not None and is_number else text)


def _streamed(
    tokenizer: bpe.Tokenizer, blocks: Iterator[Block], allowed: frozenset[str], around: Around
) -> Iterator[BlockIds]:
    """The ids of one document that comes in blocks and is not held whole."""
    came, begins, source = 0, True, ""

    def chunks() -> Iterator[bytes]:
        nonlocal came, source
        for block in blocks:
            source = block.source
            block.check()
            data = bytes(block.text)
            block.release()
            came += len(data)
            yield data

    before, after = (np.array([] if number is None else [number], dtype=np.uint32) for number in around)
    stream = tokenizer.encode_stream(chunks(), allowed_special=allowed)
    for ids in chain([before], _naming(stream, lambda: source)):
        yield BlockIds(ids, np.array([len(ids)]), begins, False, came)
        came, begins = 0, False
    yield BlockIds(after, np.array([len(after)]), False, True, came)


def _naming(ids: Iterator[NDArray[np.uint32]], source: Callable[[], str]) -> Iterator[NDArray[np.uint32]]:
    """The same ids; errors about the text name where it comes from."""
    while True:
        try:
            more = next(ids, None)
        except ValueError as error:
            if isinstance(error, FormatError):
                raise
            raise FormatError(str(error), path=source()) from None
        if more is None:
            return
        yield more


def _decode(args: argparse.Namespace) -> None:
    _check_inputs(args, [args.file, args.tokenizer])
    _check_output(args.output, [args.file, args.tokenizer])
    tokenizer = bpe.Tokenizer.load(args.tokenizer)
    between = (args.separator or "").encode()
    with _opened(args.file) as file, _bar(args, "decode", [args.file]) as advance, _output(args.output) as out:
        decoder = ByteDecoder(decoder_of(tokenizer))
        pieces = idfiles.read_ids(file, None if args.file == "-" else args.file)
        for number, (where, ids, begins, size) in enumerate(pieces):
            if begins and number:
                out.write(between)
                decoder.begin()
            with _error_context(args.file, where):
                text = decoder.push(ids)
            out.write(text)
            advance(size)


def _count(args: argparse.Namespace) -> None:
    _check_inputs(args, [*args.files, args.tokenizer])
    tokenizer = bpe.Tokenizer.load(args.tokenizer)

    def row(tokens: int, size: int, name: str) -> None:
        _say(f"{tokens:>12}  {size:>12}  {f'{size / tokens:.3f}' if tokens else '-':>11}  {name}")

    tokens, sizes = [0] * len(args.files), [0] * len(args.files)
    for number, size, batch, _ in _batches(tokenizer, args):
        tokens[number] += len(batch.ids)
        sizes[number] += size
    _say(f"{'tokens':>12}  {'bytes':>12}  {'bytes/token':>11}  file")
    for each in zip(tokens, sizes, args.files, strict=True):
        row(*each)
    if len(args.files) > 1:
        row(sum(tokens), sum(sizes), "total")


def _info(args: argparse.Namespace) -> None:
    facts = _counts_facts(args.file) if _holds_counts(args.file) else _tokenizer_facts(args.file)
    for name, value in facts.items():
        _say(f"{name + ':':<18}{value}")


def _holds_counts(path: str) -> bool:
    if not os.path.isfile(path):  # what is no file is for a tokenizer's loader to refuse, or a pipe that is read once
        return False
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def _counts_facts(path: str) -> dict[str, Any]:
    counts = WordCounts.load(path)
    words = counts.most_common(_SHOWN)
    return {
        "file": "word counts",
        "distinct words": len(counts),
        "words in all": counts.total,
        "special tokens": _few(list(counts.special_tokens)),
        "pretokenizer": _cutting(counts.pretokenizer),
        "normalizer": _or_none(counts.normalizer),
        "most frequent": plain(word for word, _ in words) if words else "none",
    }


def _tokenizer_facts(path: str) -> dict[str, Any]:
    tokenizer = bpe.Tokenizer.load(path)
    lengths = tokenizer.token_byte_lengths
    ids = np.flatnonzero(lengths)
    mark = tokenizer.end_of_word
    glued = "glued to the last symbol" if tokenizer.spec.end_of_word_glued else "a symbol of its own"
    named, always = tokenizer.special_tokens, engine_of(tokenizer).specials.always
    longest = sorted(ids.tolist(), key=lambda number: (-int(lengths[number]), number))[:_SHOWN]
    return {
        "model": {"byte": "byte-level", "char": "character-level"}[tokenizer.model],
        "vocabulary": f"{counted(len(tokenizer), 'token')}, ids {int(ids[0])} to {int(ids[-1])}"
        if len(ids)
        else "empty",
        "merges": len(tokenizer.merges),
        "special tokens": _few([f"{name} {number}" for name, number in named.items() if name not in always]),
        "added tokens": _few([f"{name} {number}" for name, number in named.items() if name in always]),
        "unknown token": tokenizer.unk_token or "none",
        "end-of-word mark": "none" if mark is None else f"{mark}, {glued}",
        "pretokenizer": _cutting(tokenizer.pretokenizer),
        "normalizer": _or_none(tokenizer.normalizer),
        "fingerprint": tokenizer.fingerprint,
        "longest tokens": plain(tokenizer.token_bytes(number) for number in longest),
    }


def _cutting(pretokenizer: bpe.Pretokenizer | None) -> str:
    if pretokenizer is None:
        return "none: a text is one word"
    finder = "the regex package" if pretokenizer.scanner is None else "a scanner"
    return f"{pretokenizer.name or repr(pretokenizer)}, pretokens found by {finder}"


def _few(names: list[str]) -> str:
    more = [f"and {len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
    return ", ".join(names[:_SHOWN] + more) or "none"


def _or_none(value: object) -> str:
    return "none" if value is None else repr(value)


def _edit(args: argparse.Namespace) -> None:
    if not args.add_special and not args.add:
        args.parser.error("give the tokens to add, with --add-special or --add")
    _check_inputs(args, [args.input])
    _check_output(args.output, [args.input])
    before = bpe.Tokenizer.load(args.input)
    after = before.with_tokens(special=args.add_special, added=args.add)
    after.save(args.output)
    more = counted(after.vocab_size - before.vocab_size, "more token")
    log.info("%s, ids %d to %d: %s", more, before.n_vocab, after.n_vocab - 1, args.output)


def _show(args: argparse.Namespace) -> None:
    text = sys.stdin.buffer.read() if args.text == "-" else os.fsencode(args.text)
    tokenizer = bpe.Tokenizer.load(args.tokenizer)
    if args.explain:
        _say(tokenizer.explain(text))
    else:
        _say(render(tokenizer.tokens(text), colour=use_colour(sys.stdout)))


def _demo(args: argparse.Namespace) -> int:
    from bpe.cli import demo

    _check_output(args.output, [])
    same = demo.run(
        _say,
        vocab_size=args.vocab_size,
        output=args.output,
        colour=use_colour(sys.stdout),
        threads=args.threads,
    )
    return 0 if same else 1


def _help(args: argparse.Namespace) -> None:
    _say(page(args.top, args.command))


def _completion(args: argparse.Namespace) -> None:
    _say(script(args.shell, args.top, values_of_flags()))


# Files, terminal, errors ----------------------------------------------------------------------------------------------


def _blocks(
    path: str, args: argparse.Namespace, cut: EndCut | None, threads: int = 1, *, chars: bool = False
) -> Iterator[Block]:
    """The text of a file in blocks."""
    return file_blocks(
        [path],
        separators_of(args.separator, args.per_line),
        args.per_line,
        cut,
        threads=threads,
        encoding_errors=checked_encoding_errors(args.encoding_errors, chars=chars),
        opened=_open_text,
    )


def _documents(path: str, args: argparse.Namespace) -> Iterator[bytes]:
    """The documents of a file one by one."""
    for block in _blocks(path, args, document_cut(separators_of(args.separator, args.per_line), args.per_line)):
        block.check()
        for start, end in zip(*(bound.tolist() for bound in block.documents(empty=True)), strict=True):
            yield bytes(block.text[start:end])
        block.release()


@contextmanager
def _open_text(path: PathLike) -> Iterator[tuple[Readable, int | None, str]]:
    """Open a file for `file_blocks`."""
    if path == "-":
        with _opened("-") as file:
            yield file, None, "stdin"
    else:
        with open_file(path) as found:
            yield found


def _opened(path: str) -> Any:
    return nullcontext(sys.stdin.buffer) if path == "-" else open(path, "rb")


@contextmanager
def _output(path: str | None) -> Iterator[BinaryIO]:
    """Where results go: stdout, or a file that appears when it is whole."""
    if path is None:
        yield cast("BinaryIO", _Stdout())
    else:
        with atomic_write(path) as file:
            yield file


def _check_inputs(args: argparse.Namespace, paths: Sequence[str]) -> None:
    """Refuse files that cannot be read before any work; pipes are left alone, since opening one would empty it."""
    if paths.count("-") > 1:
        args.parser.error("- (stdin) can be read only once")
    if "-" in paths:
        if sys.stdin is None:
            raise ValueError("stdin is closed, and - reads it; name files, or leave stdin open")
        descriptor = None
        with suppress(OSError, ValueError):  # which a stdin that is no file of the system raises
            descriptor = sys.stdin.fileno()
        if descriptor is not None:
            check_device("stdin", descriptor)
    for path in paths:
        if path != "-" and not stat.S_ISFIFO(os.stat(path).st_mode):
            check_device(path)
            with open(path, "rb"):
                pass


def _check_output(path: str | None, inputs: Sequence[str | None], flag: str = "-o") -> None:
    """Refuse a file that cannot be written, or that would replace one of the inputs, before any work."""
    if path is None:
        return
    what = "the output" if flag == "-o" else "the checkpoint"
    target, folder = Path(path), Path(path).parent
    if not folder.is_dir():
        raise ValueError(f"{what}'s folder {folder} does not exist; make it first, or name another with {flag}")
    if target.exists() and not target.is_file():
        raise ValueError(f"{what} {path} is no regular file; name another with {flag}")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{what} {path} cannot be written: its folder {folder} is read-only; name another with {flag}")
    if any(name and name != "-" and _same_file(target, name) for name in inputs):
        others = "one of the inputs" if flag == "-o" else "one of the inputs or the output"
        raise ValueError(f"{what} {path} is {others} and would replace it; name another with {flag}")


def _outputs(args: argparse.Namespace) -> list[str]:
    """The files that the command writes at its end."""
    path = getattr(args, "output", None)
    return [] if path is None else [path, idfiles.offsets_path(path)] if path.endswith(".npy") else [path]


def _identity(path: str) -> tuple[int, ...] | None:
    """What differs once a file has been replaced; None if there is no file."""
    with suppress(OSError):
        status = os.stat(path)
        return status.st_ino, status.st_mtime_ns, status.st_size
    return None


def _same_file(target: Path, name: str) -> bool:
    there = target.exists() and os.path.exists(name)
    return target.samefile(name) if there else os.path.realpath(target) == os.path.realpath(name)


@contextmanager
def _error_context(
    path: str, where: str | None = None, flags_of: argparse.ArgumentParser | None = None
) -> Iterator[None]:
    """Name the input in errors about what it holds, and the flags of the command that made it."""
    try:
        yield
    except FormatError:
        raise
    except (TypeError, ValueError) as error:
        message = str(error) if flags_of is None else in_flags(str(error), flags_of)
        raise FormatError(message, path="stdin" if path == "-" else path, where=where) from None


class _Stdout:
    """The process's stdout for bytes; errors such as a full disk name it."""

    def write(self, data: bytes) -> int:
        with self._named():
            return sys.stdout.buffer.write(data)

    def flush(self) -> None:
        with self._named():
            sys.stdout.flush()

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            _silence_stdout()
            raise OSError(error.errno, error.strerror, "stdout") from None


def _say(line: str) -> None:
    out = _Stdout()
    out.write(line.encode("utf-8", "backslashreplace") + b"\n")
    if sys.stdout.isatty():
        out.flush()


def _fail(message: str, status: int = 1) -> int:
    sys.stderr.write(f"bpe: {' '.join(message.splitlines())}\n")
    return status


def _silence_stdout() -> None:
    """After a closed pipe or a full disk: what is still buffered goes nowhere instead of raising again at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def _bar(args: argparse.Namespace, stage: Stage, paths: Sequence[str]) -> AbstractContextManager[Advance]:
    """What counts the bytes of the files on stderr, as `progress_bar` does."""
    known = all(os.path.isfile(path) for path in paths)
    total = sum(os.path.getsize(path) for path in paths) if known else None
    return progress_bar(not args.quiet, stage, total, "B", brief=True)


@contextmanager
def _logging(quiet: bool) -> Iterator[None]:
    """The library's log on stderr for as long as the command runs."""
    logger = logging.getLogger("bpe")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("bpe: %(message)s"))
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING if quiet else logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


_COMMANDS = {
    "train": _train,
    "count-words": _count_words,
    "merge-counts": _merge_counts,
    "encode": _encode,
    "decode": _decode,
    "count": _count,
    "info": _info,
    "edit": _edit,
    "show": _show,
    "demo": _demo,
    "help": _help,
    "completion": _completion,
}
