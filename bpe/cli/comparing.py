"""The commands that compare tokenizers on texts: `bpe evaluate`, `sanity-check`, `report` and `play`."""

from __future__ import annotations

import argparse
import csv
import errno
import io
import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import bpe
from bpe.base import utf8
from bpe.cli.files import check_output, log_skipped, open_documents, open_output, print_json, print_line
from bpe.cli.names import check_tokenizers, is_available, is_path, load_tokenizer
from bpe.corpus.sources import Sources
from bpe.errors import FormatError, escape_unprintable, get_log, pluralize
from bpe.evaluation import table
from bpe.evaluation.sanity import has_failure
from bpe.formats.loading import detect_folder_format
from bpe.formats.signatures import GGUF_MAGIC, may_be_tokenizer

log = get_log("bpe.cli")

#: How many bytes of each corpus the page shows and charts; the whole corpus is evaluated.
_MAX_PAGE_BYTES = 1 << 18
#: A larger compressed file is not decompressed to see whether it is a tokenizer.
_MAX_COMPRESSED_BYTES = 64 << 20
#: Names that say nothing about a tokenizer, whose folder's name is taken instead.
_COMMON_NAMES = {"tokenizer", "vocab", "merges", "tokenizer.model"}


def evaluate(args: argparse.Namespace) -> None:
    """Print the metrics of tokenizers on corpora, or write them to a file."""
    output_format, path = _choose_output(args)
    tokenizer_paths, text_paths = divide_paths(args)
    if not text_paths:
        args.parser.error("all of PATHS are tokenizers; name files with text too")
    if output_format == "html" and "-" in text_paths:
        args.parser.error("for a page, a text is read twice, so it cannot be stdin; name a file")
    corpus_paths = name_paths(text_paths)
    if path is not None:
        check_output(path, [*name_paths(tokenizer_paths).values(), *corpus_paths.values()])
    if len(text_paths) == 1 and text_paths[0] in corpus_paths.values():
        corpus_paths = {"": text_paths[0]}  # a corpus alone needs no name
    tokenizers = load_tokenizers(args, tokenizer_paths)
    corpora = {name: open_documents(args, corpus_path) for name, corpus_path in corpus_paths.items()}
    evaluation = bpe.evaluate(
        tokenizers,
        corpora,
        words=args.words,
        reference=args.reference,
        parallel=args.parallel,
        morphemes=None if args.morphemes is None else _read_morphemes(args.morphemes),
        threads=args.threads,
        seed=args.seed,
        progress=not args.quiet and path is not None,
    )
    if output_format == "html":
        _write_page(str(path), tokenizers, evaluation, corpora)
    elif output_format == "table":
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        print_line(table.format_table(evaluation, width, show_all=args.all))
    else:
        with open_output(path) as output:
            output.write(_FORMATTERS[output_format](evaluation).encode())
    log_skipped(*corpora.values())


def _choose_output(args: argparse.Namespace) -> tuple[str, str | None]:
    """Return the format of the result, and the file for it; None for stdout.

    The value of --json and --csv may be left out, so a tokenizer or a text after the flag is one of PATHS.
    """
    for output_format in ("json", "csv"):
        value = getattr(args, output_format)
        if value is None:
            continue
        if value == "-":
            return output_format, None
        if os.path.exists(value) and (not value.endswith(f".{output_format}") or is_tokenizer(value)):
            args.paths.append(value)
            return output_format, None
        return output_format, value
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
    utf8.check_device(path)
    with open(path, encoding="utf-8") as file:
        return [line.split() for line in file if line.strip()]


def sanity_check(args: argparse.Namespace) -> int:
    """Check tokenizers; return 1 if one has a defect, else 0."""
    tokenizer_paths, text_paths = divide_paths(args)
    tokenizers, n_failed = load_tokenizers(args, tokenizer_paths), 0
    results: dict[str, Any] = {}
    for name, tokenizer in tokenizers.items():
        documents = (text for path in name_paths(text_paths).values() for text in _read_documents(args, path))
        findings = bpe.evaluation.sanity_check(tokenizer, documents)
        findings = [
            replace(finding, level="allowed") if finding.check in args.allow and finding.level == "failure" else finding
            for finding in findings
        ]
        has_failed = has_failure(findings)
        n_failed += has_failed
        results[name] = {"failed": has_failed, "findings": list(map(asdict, findings))}
        if args.json:
            continue
        if len(tokenizers) > 1:
            print_line(f"{name}:")
        for finding in findings:
            print_line(str(finding))
    if args.json:
        print_json(results)
    if n_failed:
        log.warning("%s of %d failed", pluralize(n_failed, "tokenizer"), len(tokenizers))
    return 1 if n_failed else 0


def _read_documents(args: argparse.Namespace, path: str) -> Iterator[bytes]:
    with closing(open_documents(args, path).documents()) as documents:
        yield from documents


def report(args: argparse.Namespace) -> None:
    """Write the page about tokenizers and texts."""
    tokenizer_paths, text_paths = divide_paths(args)
    if "-" in text_paths:
        args.parser.error("a text is read twice, so it cannot be stdin; name a file")
    corpus_paths = name_paths(text_paths)
    check_output(args.output, [*name_paths(tokenizer_paths).values(), *corpus_paths.values()])
    tokenizers = load_tokenizers(args, tokenizer_paths)
    corpora = {name: open_documents(args, path) for name, path in corpus_paths.items()}
    evaluation = bpe.evaluate(tokenizers, corpora, parallel=args.parallel) if corpora else None
    _write_page(args.output, tokenizers, evaluation, corpora)
    log_skipped(*corpora.values())
    log.info("%s: %s", args.output, ", ".join(tokenizers))


def play(args: argparse.Namespace) -> None:
    """Serve the playground until Ctrl-C."""
    from bpe.report import Playground

    tokenizers = load_tokenizers(args, args.paths)
    try:
        server = Playground(tokenizers, args.host, args.port, network=args.network)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        reason = f"--port {args.port} is in use by another program; give another port, or 0 for any that is free"
        raise OSError(error.errno, reason) from None
    with server:
        print_line(server.url, flush=True)
        log.info("%s; Ctrl-C ends it", ", ".join(tokenizers))
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            log.info("ended")


def split_name(argument: str) -> tuple[str | None, str]:
    """Split an argument such as ko=reviews.txt into name and path; the name is None where the argument has none.

    >>> split_name("ko=reviews.txt"), split_name("reviews.txt"), split_name("s3://bucket/a=b/x.txt")
    (('ko', 'reviews.txt'), (None, 'reviews.txt'), (None, 's3://bucket/a=b/x.txt'))
    """
    name, separator, path = argument.partition("=")
    if not separator or not path or not name or re.search(r"[/\\]", name) or os.path.exists(argument):
        return None, argument
    return name, path


def divide_paths(args: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Divide PATHS into tokenizers, by their content or by -t, at least one; and the others, which are texts.

    A path may have a name: ko=reviews.txt.
    """
    tokenizer_paths: list[str] = [*args.tokenizers]
    text_paths: list[str] = []
    for argument in args.paths:
        if argument not in args.tokenizers:
            path = split_name(argument)[1]
            is_tokenizer_path = is_tokenizer(path) if os.path.lexists(path) else is_available(args, path)
            (tokenizer_paths if is_tokenizer_path else text_paths).append(argument)
    check_tokenizers(*(path for path in (split_name(text)[1] for text in text_paths) if _is_plain(path)))
    if not tokenizer_paths:
        args.parser.error("none of PATHS is a tokenizer; name one, or force it with -t")
    return tokenizer_paths, text_paths


def _is_plain(path: str) -> bool:
    """Whether a path is neither a glob nor a remote one."""
    return re.search(r"[*?\[:]", path) is None


def is_tokenizer(path: str) -> bool:
    """Whether a file's or a folder's content is a tokenizer that this package loads."""
    if os.path.isdir(path):
        return detect_folder_format(sorted(os.listdir(path))) is not None
    if path == "-" or not os.path.isfile(path):
        return False  # a pipe, a glob or a path with a scheme
    if not _may_be_tokenizer(path):
        return False
    try:
        bpe.Tokenizer.load(path)
    except (FormatError, FileNotFoundError):
        return False
    return True


def _may_be_tokenizer(path: str) -> bool:
    """Whether the first bytes of a file are those of some tokenizer's format, so that a large text is not read."""
    if path.endswith((".jsonl", ".ndjson")):
        return False
    with open(path, "rb") as file:
        head = file.read(1 << 16)
    if head[:2] == b"\x1f\x8b":
        return os.path.getsize(path) < _MAX_COMPRESSED_BYTES
    if os.path.getsize(path) > utf8.max_file_bytes and not head.startswith(GGUF_MAGIC):  # GGUF files are not read whole
        return False
    return may_be_tokenizer(head)


def name_paths(paths: Iterable[str]) -> dict[str, str]:
    """Give paths short, distinct names: the file's name without its extension, or the folder's if that says more.

    >>> name_paths(["a/tokenizer.json", "b/tokenizer.json", "gpt2.tiktoken", "ko.txt"])
    {'a': 'a/tokenizer.json', 'b': 'b/tokenizer.json', 'gpt2': 'gpt2.tiktoken', 'ko': 'ko.txt'}
    """
    paths_by_name: dict[str, str] = {}
    for argument in paths:
        label, path = split_name(argument)
        label = None if label is None else escape_unprintable(label)
        file = Path(path)
        name = file.name.split(".")[0] or file.name
        if not is_path(path):
            name = file.name
        if name in _COMMON_NAMES and file.parent.name:
            name = file.parent.name
        name = escape_unprintable(label or name or path)
        if label and label in paths_by_name:
            raise ValueError(
                f"two of PATHS are named {label}: {paths_by_name[label]} and {path}; give each a name of its own"
            )
        paths_by_name[name if name not in paths_by_name else path] = path
    return paths_by_name


def load_tokenizers(args: argparse.Namespace, paths: Sequence[str]) -> dict[str, bpe.Tokenizer]:
    """Load tokenizers, by short names."""
    return {name: load_tokenizer(args, path) for name, path in name_paths(paths).items()}


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
            texts.append(cut_beginning(document, _MAX_PAGE_BYTES))
            size += len(texts[-1])
            if size >= _MAX_PAGE_BYTES:
                break
    return texts
