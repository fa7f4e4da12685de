"""The commands that compare tokenizers on texts: `bpe evaluate`, `sanity-check`, `report` and `play`."""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import bpe
from bpe.base.utf8 import MAX_FILE_BYTES, check_device
from bpe.cli.files import check_output, log_skipped, open_documents, open_output, print_line
from bpe.corpus.sources import Sources
from bpe.errors import FormatError, get_log, pluralize, printable
from bpe.evaluation import table
from bpe.evaluation.sanity import has_failure
from bpe.formats.loading import folder_format

log = get_log("bpe.cli")

#: How many bytes of each corpus the page takes, to be drawn and for the chart of compression; all of it is evaluated.
_MAX_READ = 1 << 18
#: A compressed file of more bytes is not decompressed to see whether it is a tokenizer.
_MAX_PACKED = 64 << 20
#: Names that say nothing about a tokenizer, whose folder's name is taken instead.
_COMMON_NAMES = {"tokenizer", "vocab", "merges", "tokenizer.model"}


def evaluate(args: argparse.Namespace) -> None:
    """Print the metrics of tokenizers on corpora, or write them to a file."""
    form, path = _choose_output(args)
    tokenizers, files = divide_paths(args)
    if not files:
        args.parser.error("all of PATHS are tokenizers; name files with text too")
    if form == "html" and "-" in files:
        args.parser.error("for a page, a text is read twice, so it cannot be stdin; name a file")
    by_name = name_paths(files)
    if path is not None:
        check_output(path, [*name_paths(tokenizers).values(), *by_name.values()])
    if len(files) == 1 and files[0] in by_name.values():
        by_name = {"": files[0]}  # a corpus alone needs no name
    loaded, corpora = load_tokenizers(tokenizers), {name: open_documents(args, file) for name, file in by_name.items()}
    evaluation = bpe.evaluate(
        loaded,
        corpora,
        words=args.words,
        reference=args.reference,
        parallel=args.parallel,
        morphemes=None if args.morphemes is None else _read_morphemes(args.morphemes),
        threads=args.threads,
        seed=args.seed,
        progress=not args.quiet and path is not None,
    )
    if form == "html":
        _write_page(str(path), loaded, evaluation, corpora)
    elif form == "table":
        print_line(table.format_table(evaluation, shutil.get_terminal_size().columns if sys.stdout.isatty() else None))
    else:
        with open_output(path) as file:
            file.write(_FORMATTERS[form](evaluation).encode())
    log_skipped(*corpora.values())


def _choose_output(args: argparse.Namespace) -> tuple[str, str | None]:
    """Return the format of the result, and the file for it; None for stdout.

    The value of --json and --csv may be left out, so a tokenizer or a text after the flag is one of PATHS.
    """
    for form in ("json", "csv"):
        value = getattr(args, form)
        if value is None:
            continue
        if value == "-":
            return form, None
        if os.path.exists(value) and (not value.endswith(f".{form}") or holds_tokenizer(value)):
            args.paths.append(value)
            return form, None
        return form, value
    return ("html", args.html) if args.html else ("table", None)


def _format_json(evaluation: bpe.evaluation.Evaluation) -> str:
    return json.dumps(evaluation.to_dict(), ensure_ascii=False, indent=2) + "\n"


def _format_csv(evaluation: bpe.evaluation.Evaluation) -> str:
    rows = table.make_records(evaluation)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


_FORMATTERS = {"json": _format_json, "csv": _format_csv}


def _read_morphemes(path: str) -> list[list[str]]:
    """Read the words of a file, one a line, with white space between the morphemes."""
    check_device(path)
    with open(path, encoding="utf-8") as file:
        return [line.split() for line in file if line.strip()]


def sanity_check(args: argparse.Namespace) -> int:
    """Check tokenizers; the exit status is 1 if one has a defect."""
    tokenizers, files = divide_paths(args)
    loaded, defects = load_tokenizers(tokenizers), 0
    for name, tokenizer in loaded.items():
        documents = (text for path in name_paths(files).values() for text in _read_documents(args, path))
        findings = bpe.evaluation.sanity_check(tokenizer, documents)
        if len(loaded) > 1:
            print_line(f"{name}:")
        for finding in findings:
            allowed = finding.check in args.allow and finding.level == "failure"
            print_line(f"allowed  {finding.check}: {finding.message}" if allowed else str(finding))
        defects += has_failure([finding for finding in findings if finding.check not in args.allow])
    if defects:
        log.warning("%s of %d failed", pluralize(defects, "tokenizer"), len(loaded))
    return 1 if defects else 0


def _read_documents(args: argparse.Namespace, path: str) -> Iterator[bytes]:
    with closing(open_documents(args, path).documents()) as documents:
        yield from documents


def report(args: argparse.Namespace) -> None:
    """Write the page about tokenizers and texts."""
    tokenizers, files = divide_paths(args)
    if "-" in files:
        args.parser.error("a text is read twice, so it cannot be stdin; name a file")
    by_name = name_paths(files)
    check_output(args.output, [*name_paths(tokenizers).values(), *by_name.values()])
    loaded, corpora = load_tokenizers(tokenizers), {name: open_documents(args, path) for name, path in by_name.items()}
    evaluation = bpe.evaluate(loaded, corpora, parallel=args.parallel) if corpora else None
    _write_page(args.output, loaded, evaluation, corpora)
    log_skipped(*corpora.values())
    log.info("%s: %s", args.output, ", ".join(loaded))


def play(args: argparse.Namespace) -> None:
    """Serve the playground until Ctrl-C."""
    from bpe.report import Playground

    loaded = load_tokenizers(args.paths)
    with Playground(loaded, args.host, args.port, network=args.network) as server:
        print_line(server.url, at_once=True)
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


def divide_paths(args: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Return the paths that are tokenizers, by their content or by -t, at least one; and the others, which are texts.

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
        return os.path.getsize(path) < _MAX_PACKED
    if os.path.getsize(path) > MAX_FILE_BYTES and not head.startswith(b"GGUF"):  # these are not read whole
        return False
    if re.match(rb"[A-Za-z0-9+/=]+ \d+\r?\n", head):  # ranks
        return True
    starts = (b"{", b"GGUF", b"#version", b"\x0a", b'"bpe_simple_vocab')  # JSON, merges, sentencepiece, CLIP
    return head.lstrip(b" \t\r\n").startswith(starts[:3]) or head.startswith(starts)


def name_paths(paths: Iterable[str]) -> dict[str, str]:
    """Return paths by short, distinct names: the file's name without its extension, or the folder's if that says more.

    >>> name_paths(["a/tokenizer.json", "b/tokenizer.json", "gpt2.tiktoken", "ko.txt"])
    {'a': 'a/tokenizer.json', 'b': 'b/tokenizer.json', 'gpt2': 'gpt2.tiktoken', 'ko': 'ko.txt'}
    """
    by_name: dict[str, str] = {}
    for argument in paths:
        own, path = split_name(argument)
        own = None if own is None else printable(own)
        file = Path(path)
        name = file.name.split(".")[0] or file.name
        if name in _COMMON_NAMES and file.parent.name:
            name = file.parent.name
        name = printable(own or name or path)
        if own and own in by_name:
            raise ValueError(f"two of PATHS are named {own}: {by_name[own]} and {path}; give each a name of its own")
        by_name[name if name not in by_name else path] = path
    return by_name


def load_tokenizers(paths: Sequence[str]) -> dict[str, bpe.Tokenizer]:
    """Load the tokenizers in files, by short names."""
    return {name: bpe.Tokenizer.load(path) for name, path in name_paths(paths).items()}


def _write_page(
    path: str,
    tokenizers: Mapping[str, bpe.Tokenizer],
    evaluation: bpe.evaluation.Evaluation | None,
    corpora: Mapping[str, Sources],
) -> None:
    from bpe.report import write_page

    write_page(path, tokenizers, evaluation, {name: read_beginning(sources) for name, sources in corpora.items()})


def read_beginning(sources: Sources) -> list[bytes]:
    """Read the first documents of a corpus, each cut to what the page needs."""
    from bpe.report.panels import cut_beginning

    texts: list[bytes] = []
    size = 0
    with closing(sources.documents()) as documents:
        for document in documents:
            texts.append(cut_beginning(document, _MAX_READ))
            size += len(texts[-1])
            if size >= _MAX_READ:
                break
    return texts
