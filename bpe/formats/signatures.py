"""What the files of each format are called, and how they begin: all that is needed to choose a reader.

The readers import this module, and `loading.py` imports a reader when a file of its format is met.
"""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING

from bpe.errors import FormatError, name_file_in_errors
from bpe.formats.packed import read_first_bytes, unpack

if TYPE_CHECKING:
    from mmap import mmap

#: The file that the commands of `tokenizers` and `transformers` write.
TOKENIZER_JSON = "tokenizer.json"
#: The name of sentencepiece's model in a folder, and of Mistral's file.
SENTENCEPIECE_MODEL, TEKKEN_JSON = "tokenizer.model", "tekken.json"
#: The two files of GPT-2.
VOCAB_JSON, MERGES_TXT = "vocab.json", "merges.txt"
#: The names of rank files in a folder; others end in `.tiktoken`.
TIKTOKEN_MODEL, QWEN_TIKTOKEN = "tiktoken.model", "qwen.tiktoken"
CONFIG_JSON, SPECIAL_MAP_JSON, ADDED_TOKENS_JSON = (
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
)
#: The files that say which tokens are added, and which roles they have.
CONFIGURATION_FILES = (CONFIG_JSON, SPECIAL_MAP_JSON, ADDED_TOKENS_JSON)
#: The file that holds the chat template since transformers 4.54, instead of a field of the configuration.
CHAT_TEMPLATE_FILE = "chat_template.jinja"
#: The folder with the templates of other names, each in a file NAME.jinja.
CHAT_TEMPLATE_FOLDER = "additional_chat_templates"
#: How CLIP's list of merges begins.
CLIP_HEADER = '"bpe_simple_vocab_16e6.txt#version: 0.2'
GGUF_MAGIC = b"GGUF"
#: How a compiled tokenizer begins, and what its name ends in. Like PNG's, a change of its line ends is seen.
COMPILED_MAGIC, COMPILED_ENDING = b"\x89bpe\r\n\x1a\n", ".compiled"
#: The mark of the end of a word in CLIP's merges and in codes of subword-nmt.
END_OF_WORD = "</w>"


def looks_like_ranks(data: bytes) -> bool:
    """Whether a file begins like a rank file, with a line of base64, a space and a number."""
    head = read_first_bytes(data, 1000)
    return not head.startswith(b"{") and re.match(rb"[A-Za-z0-9+/]+={0,2} \d+\r?\n", head) is not None


def looks_like_merge_lines(data: bytes) -> bool:
    """Whether a text begins with lines of two symbols, of which the last may be cut, and not like JSON."""
    return data[:1] not in (b"{", b"[") and re.fullmatch(rb"([^ \r\n]+ [^ \r\n]+ ?\r?\n)+[^\n]*", data) is not None


def looks_like_old_codes(data: bytes) -> bool:
    """Whether a file has only lines of two symbols, and the mark is the second one of a line, as in version 0.1.

    In other lists of merges without a header, the mark is always a part of a symbol.
    """
    try:
        lines = unpack(data).rstrip(b"\n").split(b"\n")
    except FormatError:
        return False
    pairs = [line.strip(b"\r ").split(b" ") for line in lines]
    return all(len(pair) == 2 and all(pair) for pair in pairs) and any(
        pair[1] == END_OF_WORD.encode() for pair in pairs
    )


def looks_like_sentencepiece(data: bytes) -> bool:
    """Whether a file begins like a sentencepiece model: field 1, a piece, whose own field 1 is its text."""
    return data[:1] == b"\n" and data[2:3] == b"\n" and b"\x00" in data[:64]


def looks_like_tekken(data: bytes) -> bool:
    """Whether a JSON file is a tekken.json."""
    return data[:1] == b"{" and b'"token_bytes"' in data and b'"merges"' not in data


def may_be_tokenizer(head: bytes) -> bool:
    """Whether the first bytes of a file are those of some format, so that any other large file need not be read."""
    if looks_like_ranks(head) or looks_like_sentencepiece(head):
        return True
    if looks_like_merge_lines(head) and END_OF_WORD.encode() in head:  # codes of subword-nmt 0.1 have no header
        return True
    return head.lstrip(b" \t\r\n").startswith((b"{", b"#version")) or head.startswith(
        (GGUF_MAGIC, COMPILED_MAGIC, CLIP_HEADER.encode())
    )


def find_rank_file(names: list[str]) -> str | None:
    """Find the name of the rank file among the names of a folder's files; None if there is none, or several."""
    rank_files = [name for name in names if name == TIKTOKEN_MODEL or name.endswith(".tiktoken")]
    if TIKTOKEN_MODEL in rank_files:
        return TIKTOKEN_MODEL
    return rank_files[0] if len(rank_files) == 1 else None


def map_gguf(path: str | os.PathLike[str]) -> mmap | None:
    """Map a GGUF file into memory, so that its weights are not read; None for any other file.

    Raises:
        OSError: for a file that cannot be read.

    """
    if not stat.S_ISREG(os.stat(path).st_mode):
        return None
    with open(path, "rb") as file, name_file_in_errors(os.fspath(path)):
        if file.read(4) != GGUF_MAGIC:
            return None
        import mmap as memory

        return memory.mmap(file.fileno(), 0, access=memory.ACCESS_READ)
