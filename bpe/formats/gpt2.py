"""The two files of GPT-2's release: the merges (`vocab.bpe`) and the ids of the tokens (`encoder.json`).

`tiktoken` builds its encoding `gpt2` from them: the ids must be the ranks of the merges, which follow the 256 bytes.
"""

from __future__ import annotations

import json
from typing import Any

from bpe.errors import FormatError, shown, type_name
from bpe.vocab.byte_letters import byte_alphabet, letter_bytes


def read_ranks(merges: bytes, encoder: bytes, *, own_bytes: bool = False) -> dict[bytes, int]:
    r"""The ranks of GPT-2's tokens, without `<|endoftext|>`.

    Args:
        merges: the content of `vocab.bpe`: a line with the version, then the two parts of a token on each line.
        encoder: the content of `encoder.json`: token → id.
        own_bytes: whether the ranks of single bytes are their ids, in any order, instead of GPT-2's.

    Raises:
        FormatError: for files of another format, and for two files that do not belong together.

    >>> from bpe.vocab.byte_letters import byte_letters
    >>> ids = {letter: byte_alphabet().index(byte) for byte, letter in enumerate(byte_letters())}
    >>> ranks = read_ranks(b"#version: 0.2\nh i\n", json.dumps({**ids, "hi": 256}).encode())
    >>> len(ranks), ranks[b"!"], ranks[b"hi"]
    (257, 0, 256)

    """
    ranks = {bytes([byte]): rank for rank, byte in enumerate(byte_alphabet())}
    letters = letter_bytes()
    try:
        lines = merges.decode().split("\n")
        ids = json.loads(encoder)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise FormatError(f"GPT-2's files are UTF-8 text and JSON: {error}") from None
    for number, line in enumerate(lines[1:], 2):
        parts = line.split()
        if not parts and number == len(lines):
            continue  # the last line ends with a newline
        if len(parts) != 2 or not letters.keys() >= set("".join(parts)):
            raise FormatError(
                f"{shown(line)} is not the two parts of a token in GPT-2's letters",
                path="vocab.bpe",
                where=f"line {number}",
            )
        ranks.setdefault(bytes(letters[letter] for letter in "".join(parts)), 256 + number - 2)
    if not isinstance(ids, dict):
        raise FormatError(f"it is {type_name(ids)}; it must map tokens to ids", path="encoder.json")
    spelled: dict[bytes, Any] = {}
    for token, number in ids.items():
        if token in ("<|endoftext|>", "<|startoftext|>"):
            continue
        if not letters.keys() >= set(token):
            raise FormatError(f"token {shown(token)} is not in GPT-2's letters", path="encoder.json")
        spelled[bytes(letters[letter] for letter in token)] = number
    if own_bytes:
        ranks.update((token, number) for token, number in spelled.items() if len(token) == 1)
    if spelled != ranks:
        raise FormatError("the ids of encoder.json are not the ranks of vocab.bpe; the files must belong together")
    return ranks
