"""The commands between text and ids: `bpe encode`, `decode`, `count`, and those of shards of ids: `bpe verify`,
`convert-shards` and `merge-manifests`.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, nullcontext
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import bpe
from bpe.base.offsets import compute_offsets
from bpe.base.threads import resolve_threads
from bpe.batch import TokenBatch
from bpe.cli.arguments import SHARD_OPTIONS
from bpe.cli.files import (
    check_files,
    error_context,
    log_skipped,
    open_corpus,
    open_input,
    open_output,
    print_json,
    print_line,
    refuse_file_options,
    show_progress,
)
from bpe.cli.names import check_tokenizers, list_siblings, load_tokenizer
from bpe.cli.parsing import parse_id
from bpe.corpus.blocks import Block
from bpe.corpus.reading import check_encoding_errors, find_last_character_end
from bpe.corpus.sources import Sources
from bpe.data import converting, verifying
from bpe.data import manifest as manifests
from bpe.data.encoding import encode_shards
from bpe.data.formats import SHARD_FORMATS
from bpe.data.grouping import NameWarning, find_unexpected_names
from bpe.data.manifest import Manifest
from bpe.data.plan import DEFAULT, FormatChoice
from bpe.decode.decoder import TokenDecoder
from bpe.decode.incremental import ByteDecoder
from bpe.encode.blocks import BlockIds, encode_blocks
from bpe.encode.engine import BosEos
from bpe.errors import FormatError, escape_unprintable, get_log, pluralize, suggest
from bpe.formats.id_files import offsets_path, read_ids, write_lines, write_npy
from bpe.vocab.special_names import resolve_token
from bpe.vocab.special_tokens import Allowed

log = get_log("bpe.cli")

#: Documents are encoded in groups of about this many bytes: enough for all threads, and little memory.
_GROUP_BYTES = 16 << 20
#: Extensions of other formats. Ids are written to a file with such a name only if --format is given.
_OTHER_FORMATS = (
    *(".npz", ".bin", ".idx", ".parquet", ".arrow", ".feather", ".pt", ".pkl", ".h5", ".safetensors"),
    *(".jsonl", ".gz", ".bz2", ".xz", ".zst", ".zip"),
)


def encode(args: argparse.Namespace) -> None:
    """Write the ids of files, as lines or as .npy, or as training shards."""
    if args.format in SHARD_FORMATS:
        _encode_shards(args)
        return
    for option in SHARD_OPTIONS:
        flag = option.names[0]
        value = getattr(args, flag[2:].replace("-", "_"))
        if value is not None and value is not False:
            args.parser.error(f"{flag} is for training shards; give --format {', '.join(SHARD_FORMATS)}")
    is_npy = _is_npy(args)
    sources = _open_files_or_text(args)
    tokenizer = load_tokenizer(args, args.tokenizer, timeout=args.timeout)
    batches: Iterable[tuple[TokenBatch, bool]]
    if sources is None:
        batches = [(_encode_text(tokenizer, args), False)]
    else:
        _log_separator_advice(tokenizer, args, is_npy=is_npy)
        groups = _encode_groups(tokenizer, sources, args, warn=True)
        batches = ((group.batch, group.continues) for group in groups)
    if is_npy:
        write_npy(args.output, batches)
    else:
        with open_output(args.output) as out:
            write_lines(out, batches)
    if args.output is not None and args.format is None and not is_npy:
        log.info("%s: ids as text, a line for each document; --format writes training shards", args.output)
    log_skipped(sources)


def _encode_shards(args: argparse.Namespace) -> None:
    if args.output is None:
        args.parser.error(f"--format {args.format} needs -o OUT/: the folder for the shards")
    if args.text is not None:
        args.parser.error(f"--text gives ids, and --format {args.format} writes training shards, which are of FILES")
    rank, world = args.part or (None, None)
    args.part = None  # `encode_shards` takes the part itself
    sources = _open_files_or_text(args)
    assert sources is not None
    tokenizer = load_tokenizer(args, args.tokenizer, timeout=args.timeout)
    manifest = encode_shards(
        sources,
        tokenizer,
        args.output,
        format=args.format,
        append=_parse_token(tokenizer, args.append),
        prepend=_parse_token(tokenizer, args.prepend),
        shard_size=args.shard_size,
        shards=args.shards,
        seed=args.shuffle,
        validation=args.validation or 0.0,
        rank=rank,
        world=world,
        threads=args.threads,
        allowed_special="all" if args.allow_special else (),
        messages=args.messages,
        extend=args.extend,
        progress=not args.quiet,
    )
    log_skipped(manifest)
    _log_manifest(args.output, manifest)


def _open_files_or_text(args: argparse.Namespace) -> Sources | None:
    """Check the inputs, and open FILES; None for --text."""
    if bool(args.files) == (args.text is not None):
        args.parser.error("give either FILES or --text TEXT; - is stdin")
    inputs = check_tokenizers(args.tokenizer)
    if args.text is not None:
        refuse_file_options(args, "with --text there are no FILES")
        check_files(args, *inputs)
        return None
    try:
        return open_corpus(args, inputs)
    except FileNotFoundError as error:
        if error.filename not in args.files or os.path.lexists(error.filename):
            raise
        suggestion = suggest(error.filename, list_siblings(error.filename))
        suggestion = suggestion or "; --text takes a text instead of a file"
        raise FileNotFoundError(error.errno, f"{error.strerror}{suggestion}", error.filename) from None


def _encode_text(tokenizer: bpe.Tokenizer, args: argparse.Namespace) -> TokenBatch:
    """Encode the text of --text."""
    prepend, append = _resolve_bos_eos(tokenizer, args)
    allowed_special: Allowed = "all" if args.allow_special else ()
    return tokenizer.encode_batch(
        [os.fsencode(args.text)], prepend=prepend, append=append, allowed_special=allowed_special
    )


def _resolve_bos_eos(tokenizer: bpe.Tokenizer, args: argparse.Namespace) -> BosEos:
    """Resolve --prepend and --append to ids."""
    prepend, append = (
        None if text is None else resolve_token(tokenizer.spec, flag, _parse_token(tokenizer, text))
        for flag, text in (("--prepend", args.prepend), ("--append", args.append))
    )
    return prepend, append


def _parse_token(tokenizer: bpe.Tokenizer, text: str | None) -> int | str | FormatChoice | None:
    """Read the value of --append or --prepend: a special token, or else the number of an id; '' for none."""
    if text is None:
        return DEFAULT
    if not text:
        return None
    return parse_id(text) if text not in tokenizer.special_tokens else text


def _log_separator_advice(tokenizer: bpe.Tokenizer, args: argparse.Namespace, *, is_npy: bool) -> None:
    """Log that the separator, if it is a special token, gives no id: users may expect one."""
    if args.separator in tokenizer.special_tokens and args.append is None and args.prepend is None:
        boundary_note = f"{offsets_path(args.output)} says" if is_npy else "line ends say"
        log.info(
            "the separator %s gives no id: only %s where documents end; add --append '%s' to write its id after each",
            args.separator,
            boundary_note,
            args.separator,
        )


def _is_npy(args: argparse.Namespace) -> bool:
    """Whether ids are written as .npy, by --format or else by the output's name."""
    if args.output is not None and (args.output.endswith(("/", os.sep)) or os.path.isdir(args.output)):
        args.parser.error(
            f"the output {args.output} is a folder, and without --format ids are written to a file; give --format "
            f"{', '.join(SHARD_FORMATS)} for training shards, or name a file"
        )
    extension = Path(args.output or "").suffix.lower()
    if args.format is None and extension in _OTHER_FORMATS:
        args.parser.error(
            f"the output {args.output} would hold lines of ids, not {extension}; name it .txt or .npy, or say --format"
        )
    is_npy = args.format == "npy" or (args.format is None and extension == ".npy")
    if is_npy and args.output is None:
        args.parser.error("--format npy needs -o ids.npy: the document boundaries go beside it, to ids.offsets.npy")
    return is_npy


class EncodedGroup(NamedTuple):
    """The ids of some documents of a file.

    Attributes:
        file_index: the index of the file.
        n_bytes: the bytes of text.
        batch: the ids of each document.
        continues: whether the last document goes on in the next group.

    """

    file_index: int
    n_bytes: int
    batch: TokenBatch
    continues: bool


def _encode_groups(
    tokenizer: bpe.Tokenizer, sources: Sources, args: argparse.Namespace, *, warn: bool = False
) -> Iterator[EncodedGroup]:
    """Encode the files in groups of documents.

    With `warn`, a warning says where the text has the name of an end-of-text token.
    """
    check_encoding_errors(sources.encoding_errors, is_char_model=tokenizer.model == "char")
    engine, threads = tokenizer._engine, resolve_threads(args.threads)
    allowed = frozenset(tokenizer.special_tokens) if args.allow_special else engine.specials.always_names
    bos_eos = _resolve_bos_eos(tokenizer, args)
    warning = NameWarning(find_unexpected_names(tokenizer, bos_eos, allowed, sources.separators) if warn else ())
    separators, keep_separator = sources.separators, sources.keep_separator
    must_stream = not separators and not engine.can_split_documents(allowed)  # a document may exceed the memory
    with show_progress(args, "encode", sources.size) as advance:
        for index, file in enumerate(sources.files):
            source = sources.select_file(index)
            is_streamed = must_stream and file.format == "text" and sources.on_error == "raise"
            find_cut = (
                find_last_character_end
                if is_streamed
                else engine.make_block_end_finder(separators, keep_separator, allowed)
            )
            with closing(warning.wrap_blocks(source.blocks(find_cut, threads))) as blocks:
                if is_streamed:
                    groups = _encode_stream(tokenizer, blocks, allowed, bos_eos)
                else:
                    ahead = not source.regular
                    groups = encode_blocks(
                        engine,
                        blocks,
                        threads,
                        _GROUP_BYTES,
                        policy=(allowed, frozenset()),
                        bos_eos=bos_eos,
                        max_bytes=_GROUP_BYTES,
                        ahead=ahead,
                    )
                for group in groups:
                    batch = TokenBatch(group.ids, compute_offsets(group.lengths))
                    yield EncodedGroup(index, group.n_bytes, batch, not group.ends_document)
                    advance(group.disk_bytes)


def _encode_stream(
    tokenizer: bpe.Tokenizer, blocks: Iterator[Block], allowed: frozenset[str], bos_eos: BosEos
) -> Iterator[BlockIds]:
    """Encode one document, block by block, without holding all of it in memory."""
    bytes_read, size, begins_document, source = 0, 0, True, ""

    def read_chunks() -> Iterator[bytes]:
        nonlocal bytes_read, size, source
        for block in blocks:
            source = block.source
            block.check()
            data = bytes(block.text)
            size += block.disk_bytes
            block.release()
            bytes_read += len(data)
            yield data

    prefix_ids, suffix_ids = (np.array([] if token_id is None else [token_id], dtype=np.uint32) for token_id in bos_eos)
    try:
        for ids in chain([prefix_ids], tokenizer.encode_stream(read_chunks(), allowed_special=allowed)):
            yield BlockIds(ids, np.array([len(ids)]), begins_document, False, bytes_read, size)
            bytes_read, size, begins_document = 0, 0, False
    except FormatError:
        raise
    except ValueError as error:
        raise FormatError(str(error), path=source) from None
    yield BlockIds(suffix_ids, np.array([len(suffix_ids)]), False, True, bytes_read, size)


def decode(args: argparse.Namespace) -> None:
    """Write the text of ids."""
    path, given_ids = _find_ids(args)
    check_files(args, *([] if given_ids else [path]), *check_tokenizers(args.tokenizer))
    tokens = TokenDecoder(load_tokenizer(args, args.tokenizer).spec)
    separator = (args.separator or "").encode()
    total = os.path.getsize(path) if os.path.isfile(path) else None
    with (
        nullcontext(io.BytesIO(given_ids)) if given_ids else open_input(path) as file,
        show_progress(args, "decode", total) as advance,
        open_output(args.output) as output,
    ):
        decoder = ByteDecoder(tokens)
        for index, piece in enumerate(read_ids(file, None if given_ids or path == "-" else path)):
            if piece.begins_document and index:
                output.write(decoder.end() + separator)
            with error_context(path, piece.where, args.parser):
                data = decoder.push(tokens.select_valid_ids(piece.ids) if args.skip_invalid else piece.ids)
            output.write(data)
            advance(piece.size)
        output.write(decoder.end())
    if given_ids and args.output is None and sys.stdout.isatty():
        print_line("")


def _find_ids(args: argparse.Namespace) -> tuple[str, bytes]:
    """Find what to decode: the path of a file and nothing; or ids of the command line, for messages and as a line."""
    words = " ".join(args.files)
    if re.fullmatch(r"\[?[-+., ]*[0-9][-+0-9., ]*\]?", words) and not os.path.lexists(args.files[0]):
        ids = re.split("[ ,]+", words.strip("[] ,"))
        for word in ids:
            if not re.fullmatch("0*[0-9]{1,10}", word) or int(word) >= 1 << 32:
                raise ValueError(f"{word} is no token id; ids are whole numbers from 0 to 2**32 - 1")
        return words, " ".join(ids).encode()
    if len(args.files) > 1:
        word = next((word for word in args.files if not word.isdecimal()), args.files[1])
        args.parser.error(
            f"give one file, or ids such as 12 13; there are {len(args.files)} words, and {word} is no id"
        )
    return args.files[0], b""


def count(args: argparse.Namespace) -> None:
    """Print the tokens and bytes of each file."""
    sources = _open_files_or_text(args)
    tokenizer = load_tokenizer(args, args.tokenizer, timeout=args.timeout)

    if sources is None:
        counts = [FileCount("--text", len(_encode_text(tokenizer, args).ids), len(os.fsencode(args.text)))]
    else:
        counts = _count_files(tokenizer, sources, args)
    total = FileCount("total", sum(count.tokens for count in counts), sum(count.bytes for count in counts))
    if args.json:
        print_json({"files": [{"file": count.name, **count.to_json()} for count in counts], "total": total.to_json()})
    else:
        print_line(f"{'tokens':>12}  {'bytes':>12}  {'bytes/token':>11}  file")
        for count in counts if len(counts) == 1 else [*counts, total]:
            ratio = "-" if count.bytes_per_token is None else f"{count.bytes_per_token:.3f}"
            print_line(f"{count.tokens:>12}  {count.bytes:>12}  {ratio:>11}  {escape_unprintable(count.name)}")
    log_skipped(sources)


class FileCount(NamedTuple):
    """The tokens and bytes of a file, or of all."""

    name: str
    tokens: int
    bytes: int

    @property
    def bytes_per_token(self) -> float | None:
        """The bytes of text per token; None without tokens."""
        return self.bytes / self.tokens if self.tokens else None

    def to_json(self) -> dict[str, Any]:
        """Return the numbers by the keys of `bpe count --json`."""
        return {"tokens": self.tokens, "bytes": self.bytes, "bytes_per_token": self.bytes_per_token}


def _count_files(tokenizer: bpe.Tokenizer, sources: Sources, args: argparse.Namespace) -> list[FileCount]:
    names = ["-" if file.kind == "stdin" else file.name for file in sources.files]
    token_counts, byte_counts = [0] * len(names), [0] * len(names)
    for group in _encode_groups(tokenizer, sources, args):
        token_counts[group.file_index] += len(group.batch.ids)
        byte_counts[group.file_index] += group.n_bytes
    return list(map(FileCount, names, token_counts, byte_counts))


def verify(args: argparse.Namespace) -> int:
    """Print a line for each defect of a folder of shards; return 1 if there is a defect, else 0."""
    defects = verifying.verify(args.folder, samples=args.samples, progress=not args.quiet)
    manifest = None if defects else Manifest.read(Path(args.folder))
    if args.json:
        print_json({"sound": not defects, "defects": defects})
    else:
        for line in defects:
            print_line(line)
    if manifest is not None:
        counts = (len(manifest.shards), "shard"), (manifest.documents, "document"), (manifest.tokens, "token")
        log.info("%s: no defects in %s of %s, %s", args.folder, *(pluralize(*count) for count in counts))
    return 1 if defects else 0


def convert_shards(args: argparse.Namespace) -> None:
    """Write shards in another format."""
    manifest = converting.convert_shards(
        args.folder,
        args.output,
        args.format,
        shard_size=args.shard_size,
        end_of_text=None if args.end_of_text is None else parse_id(args.end_of_text),
        drop_boundaries=args.drop_boundaries,
        drop_masks=args.drop_masks,
    )
    _log_manifest(args.output, manifest)


def merge_manifests(args: argparse.Namespace) -> None:
    """Write one manifest over the folders of all parts."""
    _log_manifest(args.output, manifests.merge_manifests(args.parts, args.output))


def _log_manifest(folder: str, manifest: Manifest) -> None:
    tokens, documents = pluralize(manifest.tokens, "token"), pluralize(manifest.documents, "document")
    shards = pluralize(len(manifest.shards), "shard")
    log.info("%s: %s in %s of %s, %s", folder, tokens, documents, manifest.format, shards)
