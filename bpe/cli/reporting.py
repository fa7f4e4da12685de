"""The commands `bpe report` and `bpe play`. Not here: the page and its server (`bpe/report`)."""

from __future__ import annotations

import argparse
import logging
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

import bpe
from bpe.base.utf8 import MOST_BYTES
from bpe.cli.files import check_output, corpus_in, log_skipped, say
from bpe.corpus.sources import Sources
from bpe.errors import FormatError, printable
from bpe.formats.loading import folder_format

log = logging.getLogger("bpe.cli")

#: How many bytes of each corpus the page takes, to be drawn and for the chart of compression; all of it is evaluated.
_MOST_READ = 1 << 18
#: A compressed file of more bytes is not decompressed to see whether it is a tokenizer.
_LARGEST_PACKED = 64 << 20
#: Names that say nothing about a tokenizer, whose folder's name is taken instead.
_COMMON_NAMES = {"tokenizer", "vocab", "merges", "tokenizer.model"}


def report(args: argparse.Namespace) -> None:
    """Write the page about tokenizers and texts."""
    from bpe.report import write_page

    tokenizers, files = divided(args)
    if "-" in files:
        args.parser.error("a text is read twice, so it cannot be stdin; name a file")
    if args.output != "-":
        check_output(args.output, [*named(tokenizers).values(), *named(files).values()])
    loaded = loaded_by_name(tokenizers)
    corpora = {name: corpus_in(args, path) for name, path in named(files).items()}
    evaluation = bpe.evaluate(loaded, corpora, parallel=args.parallel) if corpora else None
    write_page(args.output, loaded, evaluation, {name: beginning_of(each) for name, each in corpora.items()})
    log_skipped(sum(each.skipped for each in corpora.values()))
    log.info("%s: %s", args.output, ", ".join(loaded))


def play(args: argparse.Namespace) -> None:
    """Serve the playground until Ctrl-C."""
    from bpe.report import Playground

    loaded = loaded_by_name(args.paths)
    with Playground(loaded, args.host, args.port, network=args.network) as server:
        say(server.url, at_once=True)
        log.info("%s; Ctrl-C ends it", ", ".join(loaded))
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            log.info("ended")


def split_name(path: str) -> tuple[str | None, str]:
    """The name and the path of an argument such as ko=reviews.txt; None for one without a name.

    >>> split_name("ko=reviews.txt"), split_name("reviews.txt"), split_name("s3://bucket/a=b/x.txt")
    (('ko', 'reviews.txt'), (None, 'reviews.txt'), (None, 's3://bucket/a=b/x.txt'))
    """
    name, sign, rest = path.partition("=")
    if not sign or not rest or not name or re.search(r"[/\\]", name) or os.path.exists(path):
        return None, path
    return name, rest


def divided(args: argparse.Namespace) -> tuple[list[str], list[str]]:
    """The paths that are tokenizers, by their content or by -t, at least one; and the others, which are texts.

    A path may have a name: ko=reviews.txt.
    """
    tokenizers: list[str] = [*args.tokenizers]
    files: list[str] = []
    for path in args.paths:
        if path not in args.tokenizers:
            (tokenizers if holds_tokenizer(split_name(path)[1]) else files).append(path)
    if not tokenizers:
        args.parser.error("none of PATHS is a tokenizer; name one, or force it with -t")
    return tokenizers, files


def holds_tokenizer(path: str) -> bool:
    """Whether a file's or a folder's content is a tokenizer that this package loads."""
    if os.path.isdir(path):
        return folder_format(sorted(os.listdir(path))) is not None
    if path == "-" or not os.path.isfile(path):
        return False  # a pipe, a glob or a path with a scheme
    if not _may_hold_tokenizer(path):
        return False
    try:
        bpe.Tokenizer.load(path)
    except (FormatError, FileNotFoundError):
        return False
    return True


def _may_hold_tokenizer(path: str) -> bool:
    """Whether the first bytes of a file are those of some tokenizer's format, so that a large text is not read."""
    if path.endswith((".jsonl", ".ndjson")):
        return False
    with open(path, "rb") as file:
        head = file.read(1 << 16)
    if head[:2] == b"\x1f\x8b":
        return os.path.getsize(path) < _LARGEST_PACKED
    if os.path.getsize(path) > MOST_BYTES and not head.startswith(b"GGUF"):  # these are not read whole
        return False
    if re.match(rb"[A-Za-z0-9+/=]+ \d+\r?\n", head):  # ranks
        return True
    starts = (b"{", b"GGUF", b"#version", b"\x0a", b'"bpe_simple_vocab')  # JSON, merges, sentencepiece, CLIP
    return head.lstrip(b" \t\r\n").startswith(starts[:3]) or head.startswith(starts)


def named(paths: Iterable[str]) -> dict[str, str]:
    """Paths by short, distinct names: the file's name without its extension, or the folder's if that says more.

    >>> named(["a/tokenizer.json", "b/tokenizer.json", "gpt2.tiktoken", "ko.txt"])
    {'a': 'a/tokenizer.json', 'b': 'b/tokenizer.json', 'gpt2': 'gpt2.tiktoken', 'ko': 'ko.txt'}
    """
    found: dict[str, str] = {}
    for given in paths:
        own, path = split_name(given)
        own = None if own is None else printable(own)
        where = Path(path)
        name = where.name.split(".")[0] or where.name
        if name in _COMMON_NAMES and where.parent.name:
            name = where.parent.name
        name = printable(own or name or path)
        if own and own in found:
            raise ValueError(f"two of PATHS are named {own}: {found[own]} and {path}; give each a name of its own")
        found[name if name not in found else path] = path
    return found


def loaded_by_name(paths: Sequence[str]) -> dict[str, bpe.Tokenizer]:
    """The tokenizers in files, by short names."""
    return {name: bpe.Tokenizer.load(path) for name, path in named(paths).items()}


def beginning_of(sources: Sources) -> list[bytes]:
    """The beginning of a corpus: its first documents, each cut to what the page needs."""
    from bpe.report.panels import beginning

    found: list[bytes] = []
    size = 0
    with closing(sources.documents()) as documents:
        for document in documents:
            found.append(beginning(document, _MOST_READ))
            size += len(found[-1])
            if size >= _MOST_READ:
                break
    return found
