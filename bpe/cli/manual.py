"""`bpe help`: a manual page for the program and one for each command, made from the parser and examples.

Not here: the flags themselves (`bpe/cli/arguments.py`).
"""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

WIDTH = 79

#: By command: (a command line, what it does).
EXAMPLES: dict[str, list[tuple[str, str]]] = {
    "train": [
        ("bpe train corpus/*.txt -o tokenizer.json --vocab-size 32000", "a byte-level tokenizer, as GPT-2's is"),
        (
            "bpe train corpus.txt -o tokenizer.json --vocab-size 32000 --separator '<|end|>' --special-token '<|end|>'",
            "documents divided by a separator, also a special token",
        ),
        (
            "bpe train words.txt -o tokenizer.json --num-merges 20 --model char --end-of-word '</w>' --trace",
            "the classic character-level model; each merge is printed",
        ),
        (
            "bpe train corpus/*.txt -o tokenizer.json --vocab-size 200000 --max-memory 2G --checkpoint run.ckpt",
            "a long training, which the same command resumes after Ctrl-C or a crash",
        ),
        (
            "bpe train --counts words.counts -o tokenizer.json --vocab-size 32000",
            "from counts made by `bpe count-words`",
        ),
    ],
    "count-words": [
        ("bpe count-words part1/*.txt -o part1.counts", "count one part of a corpus"),
    ],
    "merge-counts": [
        ("bpe merge-counts part1.counts part2.counts -o words.counts", "the counts of both parts, to train on"),
    ],
    "encode": [
        ("bpe encode book.txt -t tokenizer.json", "ids as text, a line per document"),
        ("bpe encode corpus/*.txt -t tokenizer.json -o ids.npy", "ids in ids.npy, their offsets in ids.offsets.npy"),
        (
            "bpe encode corpus.txt -t tokenizer.json -o ids.npy --separator '<|end|>' --append '<|end|>'",
            "documents divided by a separator, with an end-of-text id after each",
        ),
        ("bpe encode lines.txt -t tokenizer.json --per-line", "each line is a document"),
        ("cat book.txt | bpe encode - -t tokenizer.json > ids.txt", "a pipe, in bounded memory"),
        (
            "bpe encode corpus/*.jsonl.zst -t tokenizer.json -o shards/ --format native",
            "training shards, which the same command resumes after Ctrl-C or a crash",
        ),
        (
            "bpe encode corpus/ -t tokenizer.json -o data/ --format nanogpt --validation 0.001",
            "train.bin and val.bin for nanoGPT",
        ),
        (
            "bpe encode corpus/ -t tokenizer.json -o shards/07 --format megatron --part 7/64",
            "one of 64 parts, each on its own machine",
        ),
    ],
    "verify": [("bpe verify shards/", "compare shards with their manifest, tokenizer and sources")],
    "convert-shards": [
        ("bpe convert-shards shards/ -o megatron/ --format megatron", "the same documents for Megatron")
    ],
    "merge-manifests": [("bpe merge-manifests shards/* -o shards/", "one manifest over all parts")],
    "decode": [
        ("bpe decode ids.txt -t tokenizer.json -o book.txt", "the text of lines of ids"),
        ("bpe encode - -t tokenizer.json < book.txt | bpe decode - -t tokenizer.json", "there and back"),
    ],
    "count": [("bpe count corpus/*.txt -t tokenizer.json", "tokens, bytes and bytes per token of each file")],
    "info": [
        ("bpe info tokenizer.json", "its model, vocabulary, pretokenizer and fingerprint"),
        ("bpe info words.counts", "how many words there are, and the most frequent"),
    ],
    "convert": [
        ("bpe convert vocabulary/ tokenizer.json", "from vocab.json and merges.txt in a folder"),
        ("bpe convert tekken.json tokenizer.json", "from Mistral's format"),
        ("bpe convert tokenizer.json vocabulary --to vocab-merges", "to vocab.json and merges.txt in a folder"),
        ("bpe convert tokenizer.json ranks.tiktoken --lossy", "to a rank file, which holds no pattern"),
        (
            "bpe convert ranks.tiktoken tokenizer.json --pretokenizer cl100k_base",
            "and back, with pattern and special tokens",
        ),
    ],
    "prune": [
        ("bpe prune corpus/*.txt -t tokenizer.json -o small.json --vocab-size 32000", "the tokens that a corpus needs"),
        (
            "bpe prune --counts words.counts -t tokenizer.json -o small.json --vocab-size 32000 --remap new_ids.npy",
            "by saved counts; the new id of each old one goes to a file, for a model's embeddings",
        ),
    ],
    "diff": [
        ("bpe diff old.json new.json", "vocabularies, merges and settings"),
        ("bpe diff old.json new.json corpus/*.txt", "and the ids of files"),
    ],
    "edit": [("bpe edit tokenizer.json -o chat.json --add-special '<|user|>' '<|assistant|>'", "two more tokens")],
    "show": [
        ("bpe show 'How is this cut?' -t tokenizer.json", "the tokens, coloured on a terminal"),
        ("bpe show tokenization -t tokenizer.json --explain", "every merge in order"),
    ],
    "evaluate": [
        ("bpe evaluate old.json new.json ko=reviews.txt en=books.txt", "two tokenizers on two languages"),
        ("bpe evaluate tokenizer.json corpus.txt --separator '<|end|>'", "intervals over the documents of a file"),
        ("bpe evaluate old.json new.json corpus/*.txt --json metrics.json", "all metrics, not rounded"),
    ],
    "sanity-check": [
        ("bpe sanity-check tokenizer.json corpus.txt", "exit status 1 for a defect, for use in CI"),
        ("bpe sanity-check gpt2/ --allow numbers", "numbers may be cut at different positions"),
    ],
    "report": [
        ("bpe report a/tokenizer.json b/tokenizer.json ko.txt en.txt -o report.html", "two tokenizers on two texts"),
        ("bpe report gpt2.tiktoken reviews.jsonl.gz -o report.html", "one tokenizer on documents"),
    ],
    "play": [
        ("bpe play tokenizer.json", "the page's address is printed"),
        ("bpe play a/tokenizer.json b/tokenizer.json --port 8080", "two tokenizers side by side"),
    ],
    "demo": [("bpe demo", "see that the installation works")],
    "help": [("bpe help train | less", "the page of one command")],
    "completion": [
        ('eval "$(bpe completion bash)"', "in ~/.bashrc"),
        ('eval "$(bpe completion zsh)"', "in ~/.zshrc, after compinit"),
        ("bpe completion fish > ~/.config/fish/completions/bpe.fish", "once"),
    ],
}

_EXIT_STATUS = (
    ("0", "success; also if the reader of stdout closes the pipe early"),
    ("1", "bad input, with one line on stderr"),
    ("2", "bad use, such as an unknown flag"),
    ("130", "ended by Ctrl-C; stderr says what was saved"),
    ("143, 129", "ended by SIGTERM or SIGHUP, as at the end of a job; stderr says what was saved"),
)
#: Of commands that answer a question by it.
_OWN_STATUS = {
    "sanity-check": (
        ("0", "no check failed; there may be warnings"),
        ("1", "a check failed, or bad input, with one line on stderr"),
        *_EXIT_STATUS[2:],
    ),
    "diff": (
        ("0", "no difference but what changes no id"),
        ("1", "there are differences"),
        ("2", "bad input, with one line on stderr, or bad use, such as an unknown flag"),
        _EXIT_STATUS[3],
    ),
}
_FILES = (
    ("tokenizer.json", "a tokenizer, in the format of Hugging Face's tokenizers"),
    ("words.counts", "word counts, made by bpe count-words"),
    ("x.npy, x.offsets.npy", "token ids (uint32) and where documents begin in them (int64)"),
    ("PATH, PATH.counts", "a checkpoint: options and merges, word counts"),
    ("OUT/manifest.json", "of a folder of shards: counts, checksums, sources and options"),
    ("OUT/journal.jsonl", "of a folder of shards that is not finished: where the same command goes on"),
    (".NAME.bpe-*.tmp", "a file being written; one left by a killed process is removed when NAME is next written"),
)
_ENVIRONMENT = (
    ("NO_COLOR", "set to anything: no colours"),
    ("FORCE_COLOR, CLICOLOR_FORCE", "set to anything but 0: colours, also where stdout is no terminal"),
    ("CLICOLOR", "0: no colours"),
    ("TMPDIR", "the folder for word counts that do not fit in --max-memory"),
)


def page(top: argparse.ArgumentParser, name: str | None = None) -> str:
    """The page of a command, or of the program if `name` is None."""
    commands = commands_of(top)
    sections = _of_the_program(top, commands) if name is None else _of_a_command(name, commands[name])
    return "\n\n".join(f"{title}\n{text}" for title, text in sections)


def commands_of(top: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    """The parsers of the commands."""
    words: Any = next(action for action in top._actions if isinstance(action, argparse._SubParsersAction))
    found: Mapping[str, argparse.ArgumentParser] = words.choices
    return found


def summaries(top: argparse.ArgumentParser) -> dict[str, str]:
    """A short description of each command."""
    words: Any = next(action for action in top._actions if isinstance(action, argparse._SubParsersAction))
    return {choice.dest: choice.help for choice in words._choices_actions}


def _of_the_program(
    top: argparse.ArgumentParser, commands: Mapping[str, argparse.ArgumentParser]
) -> Iterator[tuple[str, str]]:
    yield "NAME", _indented("bpe - byte-pair encoding: train a tokenizer, encode and decode text")
    yield "SYNOPSIS", _indented("bpe COMMAND [ARGUMENT …]") + "\n" + _indented("bpe help COMMAND")
    yield (
        "DESCRIPTION",
        _indented(
            "Results go to stdout or to a named file; progress and the log go to stderr. An output file is written "
            "whole or not at all. Where an argument is a text file, - is stdin. Nothing is ever downloaded."
        ),
    )
    yield "COMMANDS", _table(summaries(top).items())
    yield "EXIT STATUS", _table(_EXIT_STATUS)
    yield "FILES", _table(_FILES)
    yield "ENVIRONMENT", _table(_ENVIRONMENT)
    yield "EXAMPLES", _examples([EXAMPLES[name][0] for name in ("train", "encode", "decode", "count", "show")])
    yield "SEE ALSO", _indented(", ".join(f"bpe help {name}" for name in commands))


def _of_a_command(name: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    description = parser.description or ""
    summary, _, more = description.partition(". ")
    yield "NAME", _indented(f"bpe {name} - {summary[:1].lower() + summary[1:].removesuffix('.')}")
    usage = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", parser.format_usage()).removeprefix("usage: ").split())
    yield "SYNOPSIS", _wrapped(usage, "    ", "        ")
    if more:
        yield "DESCRIPTION", _indented(more)
    rows = [(_heading(action, parser), _help(action, parser)) for action in parser._actions]
    arguments = [row for row, action in zip(rows, parser._actions, strict=True) if not action.option_strings]
    options = [row for row, action in zip(rows, parser._actions, strict=True) if action.option_strings]
    if arguments:
        yield "ARGUMENTS", _list(arguments)
    yield "OPTIONS", _list(options)
    if name in EXAMPLES:
        yield "EXAMPLES", _examples(EXAMPLES[name])
    yield "EXIT STATUS", _table(_OWN_STATUS.get(name, _EXIT_STATUS))
    yield "SEE ALSO", _indented("bpe help")


def _heading(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    """An argument's flags and the name of its value, as in a usage line."""
    formatter = parser._get_formatter()
    if not action.option_strings:
        return formatter._format_args(action, action.dest)
    value = "" if action.nargs == 0 else " " + formatter._format_args(action, action.dest.upper())
    return ", ".join(f"{flag}{value}" for flag in action.option_strings)


def _help(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    return parser._get_formatter()._expand_help(action) if action.help else ""


def _wrapped(text: str, first: str, other: str) -> str:
    return textwrap.fill(
        text, WIDTH, initial_indent=first, subsequent_indent=other, break_long_words=False, break_on_hyphens=False
    )


def _indented(text: str, indent: str = "    ") -> str:
    return _wrapped(text, indent, indent)


def _list(rows: list[tuple[str, str]]) -> str:
    """Terms, each on a separate line above its explanation."""
    return "\n".join(_indented(term) + ("\n" + _indented(text, " " * 8) if text else "") for term, text in rows)


def _table(rows: Any) -> str:
    """Terms with their explanations beside them."""
    rows = list(rows)
    room = max(len(term) for term, _ in rows) + 2
    return "\n".join(_wrapped(text, f"    {term:<{room}}", " " * (room + 4)) for term, text in rows)


def _examples(examples: list[tuple[str, str]]) -> str:
    return "\n".join(f"{_indented(what[:1].upper() + what[1:] + ':')}\n        {line}" for line, what in examples)
