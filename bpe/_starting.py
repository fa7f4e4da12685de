"""Ctrl-C while the command `bpe` imports its modules: the process ends as by default, without a traceback.

`bpe/__init__.py` imports this module before any room, and the command calls `restore_interrupts`. In other programs,
both do nothing.
"""

from __future__ import annotations

import os
import sys

_interrupts_end_process = False


def _let_interrupts_end_process() -> None:
    """Let Ctrl-C end a process that was started as the command `bpe`, or as `python -m bpe`."""
    global _interrupts_end_process
    if not is_command():
        return
    import signal

    try:
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            _interrupts_end_process = True
    except ValueError:  # not the main thread
        pass


def is_command() -> bool:
    """Whether this process was started as the command `bpe`, or as `python -m bpe` (or another module)."""
    name = sys.argv[0] if getattr(sys, "argv", None) else ""
    return name == "-m" or os.path.splitext(os.path.basename(name))[0] == "bpe"


def restore_interrupts() -> None:
    """Let Ctrl-C raise KeyboardInterrupt again, which the command answers."""
    global _interrupts_end_process
    if _interrupts_end_process:
        import signal

        _interrupts_end_process = False
        signal.signal(signal.SIGINT, signal.default_int_handler)


_let_interrupts_end_process()
