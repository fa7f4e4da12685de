"""The commands between text and ids: `bpe encode`, `bpe decode`, `bpe count`."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import bpe
from bpe.base.offsets import offsets_of
from bpe.base.threads import thread_count
from bpe.batch import TokenBatch
from bpe.cli import shards
from bpe.cli.files import (
    bar,
    check_inputs,
    check_output,
    error_context,
    local_names,
    log_skipped,
    opened,
    output,
    say,
    sources_of,
)
from bpe.corpus.blocks import Block
from bpe.corpus.reading import character_cut, checked_encoding_errors
from bpe.corpus.sources import Sources
from bpe.data.formats import FORMATS
from bpe.data.literal_names import NameWarning, literal_names
from bpe.decode.decoder import ByteDecoder, TokenDecoder
from bpe.encode.blocks import BlockIds, block_ids
from bpe.encode.engine import Around
from bpe.errors import FormatError, printable
from bpe.formats import id_files as idfiles
from bpe.vocab.special_names import resolve_token

if TYPE_CHECKING:
    from numpy.typing import NDArray

log = logging.getLogger("bpe.cli")

#: Documents are encoded in groups of about this many bytes: enough for all threads, and little memory.
_GROUP = 16 << 20
#: Extensions of other formats. Ids are written to a file with such a name only if --format is given.
_OTHER_FORMATS = (
    *(".npz", ".bin", ".idx", ".parquet", ".arrow", ".feather", ".pt", ".pkl", ".h5", ".safetensors"),
    *(".jsonl", ".gz", ".bz2", ".xz", ".zst", ".zip"),
)


def encode(args: argparse.Namespace) -> None:
    """Write the ids of files, as lines or as .npy, or as training shards."""
    if args.format in FORMATS:
        shards.encode(args)
        return
    for flag, name in shards.FLAGS.items():
        if getattr(args, name) is not None:
            args.parser.error(f"{flag} is for training shards; give --format {', '.join(FORMATS)}")
    as_npy = _as_npy(args)
    check_inputs(args, [args.tokenizer])
    sources = sources_of(args)
    inputs = [*local_names(sources), args.tokenizer]
    check_output(args.output, inputs)
    if as_npy:
        check_output(idfiles.offsets_path(args.output), inputs)
    tokenizer = bpe.Tokenizer.load(args.tokenizer).with_timeout(args.timeout)
    _note_separator(tokenizer, args, as_npy=as_npy)
    batches = ((batch, continues) for _, _, batch, continues in _batches(tokenizer, sources, args, warn=True))
    if as_npy:
        idfiles.write_npy(args.output, batches)
    else:
        with output(args.output) as out:
            idfiles.write_lines(out, batches)
    if args.output is not None and args.format is None and not as_npy:
        log.info("%s: ids as text, a line for each document; --format writes training shards", args.output)
    log_skipped(sources.skipped)


def _note_separator(tokenizer: bpe.Tokenizer, args: argparse.Namespace, *, as_npy: bool) -> None:
    """Log that the separator, if it is a special token, gives no id: users may expect one."""
    if args.separator in tokenizer.special_tokens and args.append is None and args.prepend is None:
        where = f"{idfiles.offsets_path(args.output)} says" if as_npy else "line ends say"
        log.info(
            "the separator %s gives no id: only %s where documents end; add --append '%s' to write its id after each",
            args.separator,
            where,
            args.separator,
        )


def _as_npy(args: argparse.Namespace) -> bool:
    """Whether ids are written as .npy, by --format or else by the output's name."""
    if args.output is not None and args.output.endswith(("/", os.sep)):
        args.parser.error(
            f"the output {args.output} is a folder, and without --format ids are written to a file; give --format "
            f"{', '.join(FORMATS)} for training shards, or name a file"
        )
    ending = Path(args.output or "").suffix.lower()
    if args.format is None and ending in _OTHER_FORMATS:
        args.parser.error(
            f"the output {args.output} would hold lines of ids, not {ending}; name it .txt or .npy, or say --format"
        )
    as_npy = args.format == "npy" or (args.format is None and ending == ".npy")
    if as_npy and args.output is None:
        args.parser.error("--format npy needs -o ids.npy: the document boundaries go beside it, to ids.offsets.npy")
    return as_npy


def _batches(
    tokenizer: bpe.Tokenizer, sources: Sources, args: argparse.Namespace, *, warn: bool = False
) -> Iterator[tuple[int, int, TokenBatch, bool]]:
    """Encode the files in groups of documents: (index of the file, bytes, ids, whether the last document continues).

    With `warn`, a warning says where the text has the name of an end-of-text token.
    """
    checked_encoding_errors(sources.encoding_errors, chars=tokenizer.model == "char")
    engine, threads = tokenizer._engine, thread_count(args.threads)
    allowed = frozenset(tokenizer.special_tokens) if args.allow_special else engine.specials.always
    around = _token_id(tokenizer, "--prepend", args.prepend), _token_id(tokenizer, "--append", args.append)
    warning = NameWarning(literal_names(tokenizer, around, allowed, sources.separators) if warn else ())
    separators, keep = sources.separators, sources.keep_separator
    streams = not separators and not engine.can_split_documents(allowed)  # a document may exceed the memory
    with bar(args, "encode", sources.size) as advance:
        for number, file in enumerate(sources.files):
            one = sources.one_file(number)
            streamed = streams and file.format == "text" and sources.on_error == "raise"
            cut = character_cut if streamed else engine.find_block_end(separators, keep, allowed)
            with closing(warning.watch(one.blocks(cut, threads))) as blocks:
                if streamed:
                    parts = _streamed(tokenizer, blocks, allowed, around)
                else:
                    ahead = not one.regular
                    parts = block_ids(engine, blocks, threads, _GROUP, allowed, around=around, most=_GROUP, ahead=ahead)
                for part in parts:
                    yield number, part.n_bytes, TokenBatch(part.ids, offsets_of(part.lengths)), not part.ends
                    advance(part.size)


def _token_id(tokenizer: bpe.Tokenizer, flag: str, text: str | None) -> int | None:
    """The id that a flag names: a special token, or a number."""
    is_number = text is not None and text.isdecimal() and text not in tokenizer.special_tokens
    return resolve_token(tokenizer.spec, flag, int(text) if text is not None and is_number else text)


def _streamed(
    tokenizer: bpe.Tokenizer, blocks: Iterator[Block], allowed: frozenset[str], around: Around
) -> Iterator[BlockIds]:
    """The ids of one document, block by block, without holding all of it in memory."""
    came, size, begins, source = 0, 0, True, ""

    def chunks() -> Iterator[bytes]:
        nonlocal came, size, source
        for block in blocks:
            source = block.source
            block.check()
            data = bytes(block.text)
            size += block.size
            block.release()
            came += len(data)
            yield data

    before, after = (np.array([] if number is None else [number], dtype=np.uint32) for number in around)
    stream = tokenizer.encode_stream(chunks(), allowed_special=allowed)
    for ids in chain([before], _naming(stream, lambda: source)):
        yield BlockIds(ids, np.array([len(ids)]), begins, False, came, size)
        came, size, begins = 0, 0, False
    yield BlockIds(after, np.array([len(after)]), False, True, came, size)


def _naming(ids: Iterator[NDArray[np.uint32]], source: Callable[[], str]) -> Iterator[NDArray[np.uint32]]:
    """Pass the ids on, and name the source in errors about the text."""
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


def decode(args: argparse.Namespace) -> None:
    """Write the text of ids."""
    check_inputs(args, [args.file, args.tokenizer])
    check_output(args.output, [args.file, args.tokenizer])
    tokens = TokenDecoder(bpe.Tokenizer.load(args.tokenizer).spec)
    between = (args.separator or "").encode()
    total = os.path.getsize(args.file) if os.path.isfile(args.file) else None
    with opened(args.file) as file, bar(args, "decode", total) as advance, output(args.output) as out:
        decoder = ByteDecoder(tokens)
        pieces = idfiles.read_ids(file, None if args.file == "-" else args.file)
        for number, (where, ids, begins, size) in enumerate(pieces):
            if begins and number:
                out.write(decoder.end() + between)
            with error_context(args.file, where):
                text = decoder.push(tokens.select_valid(ids) if args.skip_invalid else ids)
            out.write(text)
            advance(size)
        out.write(decoder.end())


def count(args: argparse.Namespace) -> None:
    """Print the tokens and bytes of each file."""
    check_inputs(args, [args.tokenizer])
    sources = sources_of(args)
    tokenizer = bpe.Tokenizer.load(args.tokenizer).with_timeout(args.timeout)

    def row(tokens: int, size: int, name: str) -> None:
        say(f"{tokens:>12}  {size:>12}  {f'{size / tokens:.3f}' if tokens else '-':>11}  {printable(name)}")

    names = ["-" if file.kind == "stdin" else file.name for file in sources.files]
    tokens, sizes = [0] * len(names), [0] * len(names)
    for number, size, batch, _ in _batches(tokenizer, sources, args):
        tokens[number] += len(batch.ids)
        sizes[number] += size
    say(f"{'tokens':>12}  {'bytes':>12}  {'bytes/token':>11}  file")
    for each in zip(tokens, sizes, names, strict=True):
        row(*each)
    if len(names) > 1:
        row(sum(tokens), sum(sizes), "total")
    log_skipped(sources.skipped)
