"""The commands `bpe evaluate` and `bpe sanity-check`. Not here: the metrics and the checks (`bpe/evaluation`)."""

from __future__ import annotations

import argparse
import csv
import io
import json
import logging
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import bpe
from bpe.base.utf8 import check_device
from bpe.cli.files import check_output, corpus_in, log_skipped, output, say
from bpe.cli.reporting import beginning_of, divided, holds_tokenizer, loaded_by_name, named
from bpe.corpus.sources import Sources
from bpe.errors import counted
from bpe.evaluation import table
from bpe.evaluation.sanity import failed

log = logging.getLogger("bpe.cli")


def evaluate(args: argparse.Namespace) -> None:
    """Print the metrics of tokenizers on corpora, or write them to a file."""
    form, out = _form(args)
    tokenizers, files = divided(args)
    if not files:
        args.parser.error("all of PATHS are tokenizers; name files with text too")
    if form == "html" and "-" in files:
        args.parser.error("for a page, a text is read twice, so it cannot be stdin; name a file")
    inputs = [*named(tokenizers).values(), *named(files).values()]
    check_output(out, inputs)
    loaded, corpora = loaded_by_name(tokenizers), _corpora(args, files)
    found = bpe.evaluate(
        loaded,
        corpora,
        words=args.words,
        reference=args.reference,
        parallel=args.parallel,
        morphemes=None if args.morphemes is None else _morphemes(args.morphemes),
        threads=args.threads,
        seed=args.seed,
        progress=not args.quiet and out is not None,
    )
    if form == "html":
        from bpe.report import write_page

        assert out is not None
        write_page(out, loaded, found, {name: beginning_of(each) for name, each in corpora.items()})
    elif form == "json":
        _write(out, json.dumps(found.to_dict(), ensure_ascii=False, indent=2) + "\n")
    elif form == "csv":
        _write(out, _csv(found))
    else:
        say(table.table(found, shutil.get_terminal_size().columns if sys.stdout.isatty() else None))
    log_skipped(sum(each.skipped for each in corpora.values()))


def _form(args: argparse.Namespace) -> tuple[str, str | None]:
    """The format of the result, and the file for it; None for stdout.

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


def _corpora(args: argparse.Namespace, files: list[str]) -> dict[str, Sources]:
    """The corpora by name; one that is not named and alone has none."""
    by_name = named(files)
    if len(files) == 1 and files[0] == next(iter(by_name.values())):
        by_name = {"": files[0]}
    return {name: corpus_in(args, path) for name, path in by_name.items()}


def _morphemes(path: str) -> list[list[str]]:
    """The words of a file, one a line, with white space between the morphemes."""
    check_device(path)
    with open(path, encoding="utf-8") as file:
        return [line.split() for line in file if line.strip()]


def _write(path: str | None, text: str) -> None:
    with output(path) as file:
        file.write(text.encode())


def _csv(found: bpe.evaluation.Evaluation) -> str:
    rows = table.records(found)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def sanity_check(args: argparse.Namespace) -> int:
    """Check tokenizers; the exit status is 1 if one has a defect."""
    tokenizers, files = divided(args)
    defects = 0
    loaded = loaded_by_name(tokenizers)
    for name, tokenizer in loaded.items():
        findings = bpe.evaluation.sanity_check(tokenizer, _documents(args, files))
        if len(loaded) > 1:
            say(f"{name}:")
        for each in findings:
            if each.check in args.allow and each.level == "failure":
                say(f"allowed  {each.check}: {each.message}")
            else:
                say(str(each))
        defects += failed([each for each in findings if each.check not in args.allow])
    if defects:
        log.warning("%s of %d failed", counted(defects, "tokenizer"), len(loaded))
    return 1 if defects else 0


def _documents(args: argparse.Namespace, files: list[str]) -> Iterator[bytes]:
    """The documents of files."""
    for path in named(files).values():
        found: Any = corpus_in(args, path).documents()
        with closing(found) as documents:
            yield from documents
