"""The command line: the program `bpe`.

In come arguments; results go to stdout or to a named file, progress and the log to stderr. The files, in the order in
which a command line meets them:

- `arguments.py` the arguments of every command, for argparse, with `training_arguments.py` and
  `shared_arguments.py`;
- `commands.py` runs a command and reports errors; `parsing.py` is the parser, with error messages that name flags;
- `training.py` (with `fairness.py`, its flags for languages and seeds), `encoding.py`, `shards.py`, `inspecting.py`,
  `converting.py`, `evaluating.py`, `reporting.py` the commands, which call the library's functions;
- `files.py` their inputs and outputs;
- `demo.py` `bpe demo`: a vocabulary in steps, on `samples/scripts.txt`;
- `manual.py` a manual page, `completion.py` scripts for shells, both made from the parser.

Invariants: the exit status is 0, 1 for bad input, 2 for bad use, 130 after Ctrl-C and 143 after SIGTERM; a file appears
whole or not at all; invalid flags are refused before any work. Cost: that of the functions called; `--help` imports no
kernel beyond those of `import bpe`.

Sources: the GNU and POSIX conventions for flags and exit statuses; https://no-color.org.
"""

from bpe.cli.commands import main

__all__ = ["main"]
