"""Scripts that complete the command line in bash, zsh and fish, made of the parser.

Not here: the flags themselves (`bpe/cli/arguments.py`).
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping

from bpe.cli.manual import commands_of, summaries

SHELLS = ("bash", "zsh", "fish")


def script(shell: str, top: argparse.ArgumentParser, values: Mapping[str, list[str]]) -> str:
    """The script of a shell. `values` are the values to complete for flags without `choices` in argparse."""
    if shell == "fish":
        return _fish(top, values)
    lines = ["autoload -U +X bashcompinit && bashcompinit"] if shell == "zsh" else []
    return "\n".join([*lines, _bash(top, values)])


def _values(action: argparse.Action, values: Mapping[str, list[str]]) -> list[str]:
    """The values to complete for an argument; empty if they are not a fixed list."""
    if action.choices is not None:
        return [str(choice) for choice in action.choices]
    return next((values[flag] for flag in action.option_strings if flag in values), [])


def _bash(top: argparse.ArgumentParser, values: Mapping[str, list[str]]) -> str:
    """A completion function. Where it has no words, the shell completes file names."""
    commands = commands_of(top)
    after, flags, first = [], [], []
    for name, parser in commands.items():
        known = [flag for action in parser._actions for flag in action.option_strings]
        flags.append(f"        {name}) words={shlex.quote(' '.join(known))} ;;")
        for action in parser._actions:
            choices = shlex.quote(" ".join(_values(action, values)))
            if action.option_strings and action.nargs != 0:
                pattern = "|".join(f"{name}:{flag}" for flag in action.option_strings)
                after.append(f"        {pattern}) words={choices}; value=1 ;;")
            elif not action.option_strings and _values(action, values):
                first.append(f"        {name}) words={choices} ;;")
    return "\n".join(
        [
            "_bpe() {",
            "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} words= value=",
            "    if [ $COMP_CWORD -eq 1 ]; then",
            f"        COMPREPLY=($(compgen -W '{' '.join([*commands, '--help', '--version'])}' -- \"$current\"))",
            "        return",
            "    fi",
            '    case "${COMP_WORDS[1]}:$previous" in',
            *after,
            "    esac",
            '    if [ -z "$value" ] && [ "${current#-}" != "$current" ]; then',
            '        case "${COMP_WORDS[1]}" in',
            *flags,
            "        esac",
            '    elif [ -z "$value" ]; then',
            '        case "${COMP_WORDS[1]}" in',
            *first,
            "        esac",
            "    fi",
            "    COMPREPLY=()",
            '    if [ -n "$words" ]; then COMPREPLY=($(compgen -W "$words" -- "$current")); fi',
            "}",
            "complete -o default -F _bpe bpe",
        ]
    )


def _fish(top: argparse.ArgumentParser, values: Mapping[str, list[str]]) -> str:
    lines = [
        f"complete -c bpe -n __fish_use_subcommand -f -a {name} -d {_quoted(what)}"
        for name, what in summaries(top).items()
    ]
    for name, parser in commands_of(top).items():
        condition = f"complete -c bpe -n '__fish_seen_subcommand_from {name}'"
        for action in parser._actions:
            choices = f" -x -a {_quoted(' '.join(found))}" if (found := _values(action, values)) else ""
            if action.option_strings:
                flags = "".join(
                    f" -l {flag[2:]}" if flag.startswith("--") else f" -s {flag[1:]}" for flag in action.option_strings
                )
                takes = choices or (" -r" if action.nargs != 0 else "")
                lines.append(f"{condition}{flags}{takes} -d {_quoted((action.help or '').split(';')[0])}")
            elif choices:
                lines.append(condition + choices)
    return "\n".join(lines)


def _quoted(text: str) -> str:
    """A word of fish, where only a backslash and a quote mean something within quotes."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
