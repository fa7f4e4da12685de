"""The commands that describe tokenizers and show what they make of a text: `bpe info` and `show`."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

import numpy as np

import bpe
from bpe.base.spelling import spell_together
from bpe.cli.files import check_inputs, is_counts_file, print_json, print_line
from bpe.cli.names import load_tokenizer
from bpe.count.word_counts import WordCounts
from bpe.errors import FormatError, escape_unprintable, get_log, pluralize

log = get_log("bpe.cli")

#: The number of special tokens, and of the longest tokens, that `bpe info` shows.
_MAX_LISTED_NAMES = 10
#: How many characters of a token `bpe info` shows.
_MAX_TOKEN_WIDTH = 24


def info(args: argparse.Namespace) -> None:
    """Describe a tokenizer or a file of word counts."""
    if args.plot and is_counts_file(args.file):
        args.parser.error(f"{args.file} has word counts; --plot draws the training of a tokenizer")
    if args.plot:
        _plot(args)
        return
    if is_counts_file(args.file):
        counts = WordCounts.load(args.file)
        properties = _list_counts(counts) if args.json else _describe_counts(counts)
    else:
        tokenizer = load_tokenizer(args, args.file)
        properties = _list_properties(tokenizer) if args.json else _describe_tokenizer(tokenizer)
    if args.json:
        print_json(properties)
        return
    for name, value in properties.items():
        print_line(f"{name + ':':<18}{escape_unprintable(str(value))}")


def _plot(args: argparse.Namespace) -> None:
    """Draw the curve of a tokenizer's training."""
    from bpe.show.terminal import draw_curve, use_colour

    training = load_tokenizer(args, args.file).spec.training
    if training is None or not training.curve:
        raise FormatError(
            "has no record of its training; a tokenizer.json that bpe train writes has one", path=args.file
        )
    for line in draw_curve(training.curve, colour=use_colour(sys.stdout)):
        print_line(line, styled=True)
    if training.stopped is not None:
        print_line(f"training stopped early: {training.stopped}")


def _list_counts(counts: WordCounts) -> dict[str, Any]:
    """List the properties of word counts by the keys of `bpe info --json`."""
    return {
        "kind": "word counts",
        "distinct_words": len(counts),
        "words": counts.total,
        "special_tokens": list(counts.special_tokens),
        **_list_components(counts.pretokenizer, counts.normalizer),
        "units": counts.units,
        "documents": counts.documents,
        "most_frequent": [
            {"word": word.decode("utf-8", "backslashreplace"), "count": count}
            for word, count in counts.most_common(_MAX_LISTED_NAMES)
        ],
    }


def _list_components(pretokenizer: bpe.Pretokenizer | None, normalizer: object) -> dict[str, Any]:
    return {
        "pretokenizer": None if pretokenizer is None else pretokenizer.name or repr(pretokenizer),
        "normalizer": None if normalizer is None else repr(normalizer),
    }


def _list_properties(tokenizer: bpe.Tokenizer) -> dict[str, Any]:
    """List the properties of a tokenizer by the keys of `bpe info --json`."""
    spec, added_names, training = tokenizer.spec, tokenizer._engine.specials.always_names, tokenizer.spec.training
    specials = tokenizer.special_tokens
    return {
        "kind": "tokenizer",
        "model": tokenizer.model,
        "vocab_size": tokenizer.vocab_size,
        "n_vocab": tokenizer.n_vocab,
        "merges": len(spec.merges),
        "special_tokens": {name: token_id for name, token_id in specials.items() if name not in added_names},
        "added_tokens": {name: token_id for name, token_id in specials.items() if name in added_names},
        "roles": tokenizer.roles,
        "bos_token": tokenizer.bos_token,
        "eos_token": tokenizer.eos_token,
        "unk_token": spec.unk_token,
        "end_of_word": spec.end_of_word,
        "end_of_word_glued": spec.end_of_word_glued,
        **_list_components(tokenizer.pretokenizer, tokenizer.normalizer),
        "fingerprint": tokenizer.fingerprint,
        "training": None
        if training is None
        else {
            "merges": training.merges,
            "stopped": training.stopped,
            "curve": [dict(zip(("merges", "count", "bytes_per_token"), row, strict=True)) for row in training.curve],
        },
    }


def _describe_counts(counts: WordCounts) -> dict[str, Any]:
    from bpe.show.terminal import join_plain

    words = counts.most_common(_MAX_LISTED_NAMES)
    return {
        "file": "word counts",
        "distinct words": len(counts),
        "words in all": counts.total,
        "special tokens": _list_few(list(counts.special_tokens)),
        "pretokenizer": _describe_pretokenizer(counts.pretokenizer),
        "normalizer": _describe_component(counts.normalizer),
        "words of": ", ".join(filter(None, (counts.units, counts.documents))),
        "most frequent": join_plain(word for word, _ in words) if words else "none",
    }


def _describe_tokenizer(tokenizer: bpe.Tokenizer) -> dict[str, Any]:
    from bpe.show.terminal import join_plain
    from bpe.vocab.spec import describe_merges, describe_model

    lengths = tokenizer.token_byte_lengths
    ids = np.flatnonzero(lengths)
    end_of_word = tokenizer.spec.end_of_word
    attachment = "glued to the last symbol" if tokenizer.spec.end_of_word_glued else "a symbol of its own"
    specials, added_names = tokenizer.special_tokens, tokenizer._engine.specials.always_names
    longest = sorted(ids.tolist(), key=lambda token_id: (-int(lengths[token_id]), token_id))[:_MAX_LISTED_NAMES]
    return {
        "model": describe_model(tokenizer.spec),
        "vocabulary": f"{pluralize(len(tokenizer), 'token')}, ids {int(ids[0])} to {int(ids[-1])}"
        if len(ids)
        else "empty",
        "merges": describe_merges(tokenizer.spec),
        "special tokens": _list_few(
            [f"{name} {token_id}" for name, token_id in specials.items() if name not in added_names]
        ),
        "added tokens": _list_few([f"{name} {token_id}" for name, token_id in specials.items() if name in added_names]),
        "roles": _list_roles(tokenizer),
        "unknown token": tokenizer.spec.unk_token or "none",
        "end-of-word mark": "none" if end_of_word is None else f"{end_of_word}, {attachment}",
        "pretokenizer": _describe_pretokenizer(tokenizer.pretokenizer),
        "normalizer": _describe_component(tokenizer.normalizer),
        "fingerprint": tokenizer.fingerprint,
        "longest tokens": join_plain(map(tokenizer.token_bytes, longest), _MAX_TOKEN_WIDTH),
    }


def _list_roles(tokenizer: bpe.Tokenizer) -> str:
    roles = [f"{role} {name}" for role, name in tokenizer.roles.items()]
    for role, name in (("bos_token", tokenizer.bos_token), ("eos_token", tokenizer.eos_token)):
        if name is not None and role not in tokenizer.roles:
            roles.append(f"{role} {name} (by the template or a usual name)")
    return ", ".join(roles) or "none"


def _describe_pretokenizer(pretokenizer: bpe.Pretokenizer | None) -> str:
    if pretokenizer is None:
        return "none: a text is one word"
    finder = "the regex package" if pretokenizer.scanner is None else "a scanner"
    return f"{pretokenizer.name or repr(pretokenizer)}, pretokens found by {finder}"


def _list_few(names: list[str]) -> str:
    remainder = [f"and {len(names) - _MAX_LISTED_NAMES} more"] if len(names) > _MAX_LISTED_NAMES else []
    return ", ".join(names[:_MAX_LISTED_NAMES] + remainder) or "none"


def _describe_component(value: object) -> str:
    return "none" if value is None else repr(value)


def show(args: argparse.Namespace) -> None:
    """Print a text with its tokens marked."""
    from bpe.base.utf8 import read_all
    from bpe.show.terminal import render, use_colour

    words = " ".join(args.text)
    if words == "-":
        check_inputs(args, ["-"])
    elif os.path.isfile(words):
        log.info("%s is shown as a text; for that of the file: bpe show - < %s", words, words)
    text = read_all(sys.stdin.buffer, "stdin") if words == "-" else os.fsencode(words)
    tokenizer = load_tokenizer(args, args.tokenizer)
    if args.explain:
        print_line(tokenizer.explain(text))
    elif args.json:
        print_json(_list_tokens(tokenizer, text))
    elif args.ids:
        ids = tokenizer.encode(text).tolist()
        for token_id, spelling in zip(ids, spell_together(map(tokenizer.token_bytes, ids)), strict=True):
            print_line(f"{token_id:>8}  {spelling}", styled=True)
    else:
        print_line(render(tokenizer.tokens(text), colour=use_colour(sys.stdout)), styled=True)


def _list_tokens(tokenizer: bpe.Tokenizer, text: bytes) -> dict[str, Any]:
    """List the tokens of a text by the keys of `bpe show --json`."""
    ids, spans = tokenizer.encode_with_offsets(text, "byte")
    tokens = [
        {
            "id": token_id,
            "text": tokenizer.decode([token_id]),
            "bytes": tokenizer.token_bytes(token_id).hex(),
            "start": start,
            "end": end,
        }
        for token_id, (start, end) in zip(ids.tolist(), spans.tolist(), strict=True)
    ]
    return {"ids": ids.tolist(), "tokens": tokens}
