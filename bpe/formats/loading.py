"""Loads a tokenizer from a single file, and detects the format from its content."""

from __future__ import annotations

import os

from bpe.base.utf8 import read_file
from bpe.errors import FormatError
from bpe.formats import huggingface, tiktoken
from bpe.pretokenize.pretokenizer import Pretokenizer
from bpe.vocab.spec import TokenizerSpec


def load_spec(path: str | os.PathLike[str]) -> TokenizerSpec:
    """Load a tokenizer.json, or one of OpenAI's own rank files, whose pattern is known.

    Raises:
        FormatError: for any other file, and for an unsupported feature.
        OSError: for a file that cannot be read.

    """
    data = read_file(path)
    known = tiktoken.published(data)
    if known is not None:
        return tiktoken.read(data, Pretokenizer(known[0]), dict(known[1]), os.fspath(path))
    if tiktoken.looks_like_ranks(data):
        raise FormatError(
            "it is a rank file, and its pattern is unknown, because it is not one of OpenAI's own; load it with a "
            "pattern: Tokenizer.from_tiktoken(path, pretokenizer, special_tokens)",
            path=path,
        )
    return huggingface.read(data, os.fspath(path))
