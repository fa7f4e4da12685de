"""The command line."""

from bpe.cli.commands import main

__all__ = ["main"]
