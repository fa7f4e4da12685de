"""The manual and the scripts that complete command lines: `bpe help` and `bpe completion`.

Both are made from the parsers and from `manual.txt`.
"""

from __future__ import annotations

import argparse
import re
import shlex
import textwrap
from collections.abc import Iterable, Iterator

from bpe.cli.arguments import COMMANDS, COMPLETED_VALUES, build_parser, group_commands, read_manual
from bpe.cli.files import print_line

WIDTH = 79


def print_page(args: argparse.Namespace) -> None:
    """Print the manual of a command or of the program."""
    print_line(format_page(args.command), styled=True)


def print_script(args: argparse.Namespace) -> None:
    """Print the completion script of a shell."""
    print_line(format_script(args.shell), styled=True)


# The manual -----------------------------------------------------------------------------------------------------------


def format_page(name: str | None = None) -> str:
    """Return the page of a command, or of the program if `name` is None."""
    sections = _describe_program() if name is None else _describe_command(name)
    return "\n\n".join(f"{title}\n{text}" for title, text in sections)


def _describe_program() -> Iterator[tuple[str, str]]:
    yield "NAME", _indent("bpe - byte-pair encoding: train a tokenizer, encode and decode text")
    yield "SYNOPSIS", _indent("bpe COMMAND [ARGUMENT …]") + "\n" + _indent("bpe help COMMAND")
    yield (
        "DESCRIPTION",
        _indent(
            "Results go to stdout or to a named file; progress and the log go to stderr. An output file is written "
            "whole or not at all. Where an argument is a text file, - is stdin. Without --download nothing but files "
            "named by a URL is downloaded."
        ),
    )
    width = max(map(len, COMMANDS))
    yield (
        "COMMANDS",
        "\n".join(
            f"  {group}\n" + _format_table(((name, prose.summary) for name, prose in commands), width)
            for group, commands in group_commands()
        ),
    )
    for title, explanations in read_manual().sections.items():
        yield title, _format_table(explanations.items())
    examples = [read_manual().commands[name].examples[0] for name in ("train", "encode", "decode", "count", "show")]
    yield "EXAMPLES", _format_examples(examples)
    yield "SEE ALSO", _indent(", ".join(f"bpe help {name}" for name in COMMANDS))


def _describe_command(name: str) -> Iterator[tuple[str, str]]:
    parser, prose = build_parser(name), read_manual().commands[name]
    yield "NAME", _indent(f"bpe {name} - {prose.summary}")
    usage = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", parser.format_usage()).removeprefix("usage: ").split())
    yield "SYNOPSIS", _wrap(usage, "    ", "        ")
    if prose.description:
        yield "DESCRIPTION", _indent(prose.description)
    rows: dict[str, list[str]] = {"ARGUMENTS": [], "OPTIONS": []}
    for action in parser._actions:
        row = _indent(_format_usage(action, parser))
        if action.help:
            row += "\n" + _indent(parser._get_formatter()._expand_help(action), " " * 8)
        rows["OPTIONS" if action.option_strings else "ARGUMENTS"].append(row)
    for title, texts in rows.items():
        if texts:
            yield title, "\n".join(texts)
    yield "EXAMPLES", _format_examples(prose.examples)
    yield "EXIT STATUS", _format_table({**read_manual().sections["EXIT STATUS"], **prose.statuses}.items())
    yield "SEE ALSO", _indent("bpe help")


def _format_usage(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    """Return an argument's flags and the name of its value, as in a usage line."""
    formatter = parser._get_formatter()
    if not action.option_strings:
        return formatter._format_args(action, action.dest)
    value = "" if action.nargs == 0 else " " + formatter._format_args(action, action.dest.upper())
    return ", ".join(f"{flag}{value}" for flag in action.option_strings)


def _wrap(text: str, first_indent: str, other_indent: str) -> str:
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=first_indent,
        subsequent_indent=other_indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _indent(text: str, indent: str = "    ") -> str:
    return _wrap(text, indent, indent)


def _format_table(rows: Iterable[tuple[str, str]], width: int = 0) -> str:
    """Set explanations beside their terms, in a column of at least `width`."""
    rows = list(rows)
    width = max(width, *(len(term) for term, _ in rows)) + 2
    return "\n".join(_wrap(text, f"    {term:<{width}}", " " * (width + 4)) for term, text in rows)


def _format_examples(examples: list[tuple[str, str]]) -> str:
    return "\n".join(
        f"{_indent(explanation[:1].upper() + explanation[1:] + ':')}\n        {command}"
        for command, explanation in examples
    )


# Completion -----------------------------------------------------------------------------------------------------------


def format_script(shell: str) -> str:
    """Return the completion script of a shell."""
    if shell == "fish":
        return _format_fish()
    lines = ["autoload -U +X bashcompinit && bashcompinit"] if shell == "zsh" else []
    return "\n".join([*lines, _format_bash()])


def _list_values(action: argparse.Action) -> list[str]:
    """Return the values to complete for an argument; none if they are not a fixed list."""
    if action.choices is not None:
        return [str(choice) for choice in action.choices]
    return next((COMPLETED_VALUES[flag] for flag in action.option_strings if flag in COMPLETED_VALUES), [])


def _format_bash() -> str:
    """Return a completion function. Where it has no words, the shell completes file names."""
    value_cases, flag_cases, argument_cases = [], [], []
    for name in COMMANDS:
        actions = build_parser(name)._actions
        flags = [flag for action in actions for flag in action.option_strings]
        flag_cases.append(f"        {name}) words={shlex.quote(' '.join(flags))} ;;")
        for action in actions:
            choices = shlex.quote(" ".join(_list_values(action)))
            if action.option_strings and action.nargs != 0:
                pattern = "|".join(f"{name}:{flag}" for flag in action.option_strings)
                value_cases.append(f"        {pattern}) words={choices}; value=1 ;;")
            elif not action.option_strings and _list_values(action):
                argument_cases.append(f"        {name}) words={choices} ;;")
    return "\n".join(
        [
            "_bpe() {",
            "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} words= value=",
            "    if [ $COMP_CWORD -eq 1 ]; then",
            f"        COMPREPLY=($(compgen -W '{' '.join([*COMMANDS, '--help', '--version'])}' -- \"$current\"))",
            "        return",
            "    fi",
            '    case "${COMP_WORDS[1]}:$previous" in',
            *value_cases,
            "    esac",
            '    if [ -z "$value" ] && [ "${current#-}" != "$current" ]; then',
            '        case "${COMP_WORDS[1]}" in',
            *flag_cases,
            "        esac",
            '    elif [ -z "$value" ]; then',
            '        case "${COMP_WORDS[1]}" in',
            *argument_cases,
            "        esac",
            "    fi",
            "    COMPREPLY=()",
            '    if [ -n "$words" ]; then COMPREPLY=($(compgen -W "$words" -- "$current")); fi',
            "}",
            "complete -o default -F _bpe bpe",
        ]
    )


def _format_fish() -> str:
    lines = [
        f"complete -c bpe -n __fish_use_subcommand -f -a {name} -d {_quote(read_manual().commands[name].summary)}"
        for name in COMMANDS
    ]
    for name in COMMANDS:
        condition = f"complete -c bpe -n '__fish_seen_subcommand_from {name}'"
        for action in build_parser(name)._actions:
            choices = f" -x -a {_quote(' '.join(values))}" if (values := _list_values(action)) else ""
            if action.option_strings:
                flags = "".join(
                    f" -l {flag[2:]}" if flag.startswith("--") else f" -s {flag[1:]}" for flag in action.option_strings
                )
                value_words = choices or (" -r" if action.nargs != 0 else "")
                lines.append(f"{condition}{flags}{value_words} -d {_quote((action.help or '').split(';')[0])}")
            elif choices:
                lines.append(condition + choices)
    return "\n".join(lines)


def _quote(text: str) -> str:
    """Quote a word for fish, where only a backslash and a quote mean something within quotes."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
