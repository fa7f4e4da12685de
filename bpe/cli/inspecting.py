"""The commands that describe or edit tokenizers: `bpe info`, `edit`, `show`, `demo`, `help` and `completion`."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from bpe.cli.arguments import values_of_flags
from bpe.cli.completion import script
from bpe.cli.files import check_inputs, check_output, holds_counts, say
from bpe.cli.manual import page
from bpe.errors import FormatError, counted, printable

if TYPE_CHECKING:
    import bpe

log = logging.getLogger("bpe.cli")

#: The number of special tokens, and of the longest tokens, that `bpe info` shows.
_SHOWN = 10


def info(args: argparse.Namespace) -> None:
    """Describe a tokenizer or a file of word counts."""
    if args.plot and holds_counts(args.file):
        args.parser.error(f"{args.file} has word counts; --plot draws the training of a tokenizer")
    if args.plot:
        _plot(args.file)
        return
    facts = _counts_facts(args.file) if holds_counts(args.file) else _tokenizer_facts(args.file)
    for name, value in facts.items():
        say(f"{name + ':':<18}{printable(str(value))}")


def _plot(path: str) -> None:
    """Draw the curve of a tokenizer's training."""
    import bpe
    from bpe.show.colours import use_colour
    from bpe.show.curve import curve_lines

    training = bpe.Tokenizer.load(path).spec.training
    if training is None or not training.curve:
        raise FormatError("has no record of its training; a tokenizer.json that bpe train writes has one", path=path)
    for line in curve_lines(training.curve, colour=use_colour(sys.stdout)):
        say(line, styled=True)
    if training.stopped is not None:
        say(f"training stopped early: {training.stopped}")


def _counts_facts(path: str) -> dict[str, Any]:
    from bpe.count.word_counts import WordCounts
    from bpe.show.colours import plain

    counts = WordCounts.load(path)
    words = counts.most_common(_SHOWN)
    return {
        "file": "word counts",
        "distinct words": len(counts),
        "words in all": counts.total,
        "special tokens": _few(list(counts.special_tokens)),
        "pretokenizer": _cutting(counts.pretokenizer),
        "normalizer": _or_none(counts.normalizer),
        "words of": ", ".join(filter(None, (counts.units, counts.documents))),
        "most frequent": plain(word for word, _ in words) if words else "none",
    }


def _tokenizer_facts(path: str) -> dict[str, Any]:
    import numpy as np

    import bpe
    from bpe.show.colours import plain
    from bpe.vocab.spec import describe_merges, describe_model

    tokenizer = bpe.Tokenizer.load(path)
    lengths = tokenizer.token_byte_lengths
    ids = np.flatnonzero(lengths)
    mark = tokenizer.spec.end_of_word
    glued = "glued to the last symbol" if tokenizer.spec.end_of_word_glued else "a symbol of its own"
    named, always = tokenizer.special_tokens, tokenizer._engine.specials.always
    longest = sorted(ids.tolist(), key=lambda number: (-int(lengths[number]), number))[:_SHOWN]
    return {
        "model": describe_model(tokenizer.spec),
        "vocabulary": f"{counted(len(tokenizer), 'token')}, ids {int(ids[0])} to {int(ids[-1])}"
        if len(ids)
        else "empty",
        "merges": describe_merges(tokenizer.spec),
        "special tokens": _few([f"{name} {number}" for name, number in named.items() if name not in always]),
        "added tokens": _few([f"{name} {number}" for name, number in named.items() if name in always]),
        "roles": _roles(tokenizer),
        "unknown token": tokenizer.spec.unk_token or "none",
        "end-of-word mark": "none" if mark is None else f"{mark}, {glued}",
        "pretokenizer": _cutting(tokenizer.pretokenizer),
        "normalizer": _or_none(tokenizer.normalizer),
        "fingerprint": tokenizer.fingerprint,
        "longest tokens": plain(tokenizer.token_bytes(number) for number in longest),
    }


def _roles(tokenizer: bpe.Tokenizer) -> str:
    known = [f"{role} {name}" for role, name in tokenizer.roles.items()]
    for role, name in (("bos_token", tokenizer.bos_token), ("eos_token", tokenizer.eos_token)):
        if name is not None and role not in tokenizer.roles:
            known.append(f"{role} {name} (by the template or a usual name)")
    return ", ".join(known) or "none"


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


def edit(args: argparse.Namespace) -> None:
    """Save a tokenizer with more tokens."""
    import bpe

    if not args.add_special and not args.add:
        args.parser.error("give the tokens to add, with --add-special or --add")
    check_inputs(args, [args.input])
    check_output(args.output, [args.input])
    before = bpe.Tokenizer.load(args.input)
    after = before.with_tokens(special=args.add_special, added=args.add)
    after.save(args.output)
    more = counted(after.vocab_size - before.vocab_size, "more token")
    log.info("%s, ids %d to %d: %s", more, before.n_vocab, after.n_vocab - 1, args.output)


def show(args: argparse.Namespace) -> None:
    """Print a text with its tokens marked."""
    import bpe
    from bpe.base.utf8 import read_all
    from bpe.show.colours import render, use_colour

    if args.text == "-":
        check_inputs(args, ["-"])
    text = read_all(sys.stdin.buffer, "stdin") if args.text == "-" else os.fsencode(args.text)
    tokenizer = bpe.Tokenizer.load(args.tokenizer)
    if args.explain:
        say(tokenizer.explain(text))
    else:
        say(render(tokenizer.tokens(text), colour=use_colour(sys.stdout)), styled=True)


def demo(args: argparse.Namespace) -> int:
    """Train, save, load, encode and decode the embedded sample; the exit status."""
    from bpe.cli import demo
    from bpe.show.colours import use_colour

    check_output(args.output, [])
    same = demo.run(
        partial(say, styled=True),
        vocab_size=args.vocab_size,
        output=args.output,
        colour=use_colour(sys.stdout),
        threads=args.threads,
    )
    return 0 if same else 1


def help_(args: argparse.Namespace) -> None:
    """Print the manual."""
    say(page(args.top, args.command), styled=True)


def completion(args: argparse.Namespace) -> None:
    """Print the completion script of a shell."""
    say(script(args.shell, args.top, values_of_flags()), styled=True)
