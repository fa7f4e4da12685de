"""The flags of `bpe train` for a corpus by language, and for seeds.

Not here: the other flags of `bpe train` (`training.py`).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import bpe
from bpe.base.utf8 import read_file
from bpe.cli.files import check_inputs, error_context, given_flags, holds_counts, sources_of
from bpe.corpus.sources import Sources
from bpe.count.word_counts import WordCounts
from bpe.errors import FormatError
from bpe.training.options import default_pretokenizer
from bpe.vocab.byte_letters import letter_bytes

#: The flags that need --language, as attributes.
_NEED_LANGUAGES = ("dev", "ratio", "global_merges", "window", "alpha")


def corpus_by_language(args: argparse.Namespace) -> tuple[dict[str, Any], list[Sources]]:
    """(`files=` or `counts=` for `bpe.train`, the sources among them), from --language; empty without that."""
    if not args.languages:
        for flag in given_flags(args, _NEED_LANGUAGES):
            args.parser.error(f"{flag} needs --language")
        return {}, []
    if args.files or args.counts is not None or args.superwords is not None:
        args.parser.error("--language names the corpus; leave FILES, --counts and --superwords out")
    found = _by_name(args, args.languages)
    if any(isinstance(each, WordCounts) for each in found.values()):
        if not all(isinstance(each, WordCounts) for each in found.values()):
            args.parser.error("--language has files of text and files of word counts; give all as one kind")
        return {"counts": found}, []
    return {"files": found}, [each for each in found.values() if isinstance(each, Sources)]


def fair_options(
    args: argparse.Namespace, corpus: Mapping[str, Any], options: Mapping[str, Any]
) -> bpe.ParityAware | None:
    """The options of `bpe.ParityAware`; None without --language. Texts of --dev are counted as the corpus is."""
    if not args.languages:
        return None
    ratios = dict(args.ratio) or None
    dev = None
    if args.dev:
        settings = {name: options[name] for name in ("pretokenizer", "normalizer", "threads") if name in options}
        first = next(iter(corpus.get("counts", {}).values()), None)
        if first is not None:
            settings |= {"pretokenizer": first.pretokenizer, "normalizer": first.normalizer}
        elif "pretokenizer" not in settings:
            chars = options.get("model", "char" if options.get("byte_fallback") else "byte") == "char"
            settings["pretokenizer"] = default_pretokenizer(chars)
        specials = args.special_tokens if first is None else first.special_tokens
        dev = {
            name: each
            if isinstance(each, WordCounts)
            else bpe.count_words(files=each, **settings, special_tokens=specials)
            for name, each in _by_name(args, args.dev).items()
        }
    return bpe.ParityAware(
        dev=dev,
        ratios=ratios,
        global_merges=args.global_merges or 0,
        window_size=args.window,
        alpha=2.0 if args.alpha is None else args.alpha,
    )


def seed_options(args: argparse.Namespace) -> bpe.Seeds | None:
    """The options of `bpe.Seeds`; None without seeds."""
    if not args.seed_tokens and args.seed_merges is None:
        return None
    merges = [] if args.seed_merges is None else _merges_in(args.seed_merges, getattr(args, "model", "byte") == "char")
    return bpe.Seeds(merges=merges, tokens=args.seed_tokens)  # type: ignore[arg-type]


def _by_name(args: argparse.Namespace, given: list[tuple[str, str]]) -> dict[str, Sources | WordCounts]:
    """The corpus of each language: its files, or the sum of its files of word counts."""
    paths: dict[str, list[str]] = {}
    for name, path in given:
        paths.setdefault(name, []).append(path)
    check_inputs(args, [path for each in paths.values() for path in each if holds_counts(path)])
    return {name: _corpus(args, each) for name, each in paths.items()}


def _corpus(args: argparse.Namespace, paths: list[str]) -> Sources | WordCounts:
    if not holds_counts(paths[0]):
        return sources_of(args, paths)
    counts = WordCounts.load(paths[0])
    for path in paths[1:]:
        with error_context(path):
            counts |= WordCounts.load(path)
    return counts


def _merges_in(path: str, chars: bool) -> list[tuple[str, str] | tuple[bytes, bytes]]:
    """The merges in a merges.txt: a pair a line, in GPT-2's letters for a byte model."""
    merges: list[Any] = []
    letters = letter_bytes()
    for number, line in enumerate(read_file(path).decode().splitlines(), 1):
        if (number == 1 and line.startswith("#version")) or not line:
            continue
        pair = line.split(" ")
        known = chars or all(letter in letters for token in pair for letter in token)
        if len(pair) != 2 or not all(pair) or not known:
            raise FormatError(f"line {number} is {line!r}; it must be two tokens with a space between", path=path)
        merges.append(tuple(pair if chars else (bytes(letters[letter] for letter in token) for token in pair)))
    return merges
