"""Loading a tokenizer from one file whose format its content tells."""

from __future__ import annotations

import os

from bpe.base.utf8 import read_file
from bpe.errors import FormatError
from bpe.formats import huggingface, tiktoken
from bpe.pretokenize.pretokenizer import Pretokenizer
from bpe.vocab.spec import TokenizerSpec


def load_spec(path: str | os.PathLike[str]) -> TokenizerSpec:
    """The tokenizer of a tokenizer.json, or of one of OpenAI's own rank files, whose pattern is known.

    Raises:
        FormatError: for a file that is neither, or uses a feature that is not supported.
        OSError: for a file that cannot be read.

    """
    data = read_file(path)
    known = tiktoken.published(data)
    if known is not None:
        return tiktoken.read(data, Pretokenizer(known[0]), dict(known[1]), os.fspath(path))
    if tiktoken.looks_like_ranks(data):
        raise FormatError(
            "it is a rank file, not a tokenizer.json, and none of OpenAI's own, whose pattern is known: "
            "Tokenizer.from_tiktoken(path, pretokenizer, special_tokens) loads it with a pattern that you name",
            path=path,
        )
    return huggingface.read(data, os.fspath(path))
