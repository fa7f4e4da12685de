"""The commands for training shards: `bpe encode --format native …`, `bpe verify`, `bpe convert-shards`,
`bpe merge-manifests`.

Not here: the work itself (`bpe/data/`).
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

import bpe
from bpe.cli.files import check_inputs, log_skipped, say, sources_of
from bpe.data.converting import convert_shards as convert
from bpe.data.encoding import encode_shards
from bpe.data.manifest import Manifest
from bpe.data.manifest import merge_manifests as merge
from bpe.data.plan import DEFAULT
from bpe.data.verifying import verify as find_defects
from bpe.errors import counted

log = logging.getLogger("bpe.cli")

#: The flags of `bpe encode` that shards alone have, with their destinations.
FLAGS = {
    "--shard-size": "shard_size",
    "--shards": "shards",
    "--shuffle": "shuffle",
    "--validation": "validation",
}


def encode(args: argparse.Namespace) -> None:
    """Encode files to shards in a folder."""
    if args.output is None:
        args.parser.error(f"--format {args.format} needs -o OUT/: the folder for the shards")
    check_inputs(args, [args.tokenizer])
    sources = sources_of(argparse.Namespace(**{**vars(args), "part": None}))
    tokenizer = bpe.Tokenizer.load(args.tokenizer).with_timeout(args.timeout)
    rank, world = args.part or (None, None)
    manifest = encode_shards(
        sources,
        tokenizer,
        args.output,
        format=args.format,
        append=_around(tokenizer, args.append),
        prepend=_around(tokenizer, args.prepend),
        shard_size=args.shard_size,
        shards=args.shards,
        seed=args.shuffle,
        validation=args.validation or 0.0,
        rank=rank,
        world=world,
        threads=args.threads,
        allowed_special="all" if args.allow_special else (),
        progress=not args.quiet,
    )
    log_skipped(manifest.skipped)
    _log_counts(args.output, manifest)


def _around(tokenizer: bpe.Tokenizer, text: str | None) -> int | str | None:
    """The value of --append or --prepend: a special token, or the number of an id; None for an empty string."""
    if text is None:
        return DEFAULT
    is_number = text.isdecimal() and text not in tokenizer.special_tokens
    return int(text) if is_number else text or None


def _log_counts(folder: str, manifest: Manifest) -> None:
    log.info(
        "%s: %s in %s of %s, %s",
        folder,
        counted(manifest.tokens, "token"),
        counted(manifest.documents, "document"),
        manifest.format,
        counted(len(manifest.shards), "shard"),
    )


def verify(args: argparse.Namespace) -> int:
    """Print a line for each defect of a folder of shards; the exit status is 1 if there is one."""
    defects = find_defects(args.folder, samples=args.samples, progress=not args.quiet)
    for line in defects:
        say(line)
    if not defects:
        manifest = Manifest.read(Path(args.folder))
        log.info(
            "%s: no defects in %s of %s, %s",
            args.folder,
            counted(len(manifest.shards), "shard"),
            counted(manifest.documents, "document"),
            counted(manifest.tokens, "token"),
        )
    return 1 if defects else 0


def convert_shards(args: argparse.Namespace) -> None:
    """Write shards in another format."""
    end = args.end_of_text
    manifest = convert(
        args.folder,
        args.output,
        args.format,
        shard_size=args.shard_size,
        end_of_text=int(end) if end is not None and end.isdecimal() else end,
        drop_boundaries=args.drop_boundaries,
        drop_masks=args.drop_masks,
    )
    _log_counts(args.output, manifest)


def merge_manifests(args: argparse.Namespace) -> None:
    """Write one manifest over the folders of all parts."""
    manifest = merge(args.parts, args.output)
    _log_counts(args.output, manifest)
