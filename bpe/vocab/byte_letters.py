"""GPT-2's letters for bytes: the printable character for each byte in the files of byte-level tokenizers."""

from __future__ import annotations

from functools import cache


@cache
def byte_letters() -> tuple[str, ...]:
    """GPT-2's letter for each byte 0 to 255: a printable byte is its own letter, the others get U+0100, U+0101, ….

    >>> byte_letters()[ord("a")], byte_letters()[ord(" ")], byte_letters()[ord(chr(10))]
    ('a', 'Ġ', 'Ċ')

    Source: `bytes_to_unicode` of openai/gpt-2, encoder.py.
    """
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return tuple(chr(byte if byte in printable else next(others)) for byte in range(256))


@cache
def letter_bytes() -> dict[str, int]:
    """The byte of each of GPT-2's letters."""
    return {letter: byte for byte, letter in enumerate(byte_letters())}


@cache
def byte_alphabet() -> tuple[int, ...]:
    """The 256 bytes sorted by the code points of their letters, which is the order of their ids.

    >>> byte_alphabet()[:3], byte_alphabet()[-2:]
    ((33, 34, 35), (160, 173))
    """
    return tuple(sorted(range(256), key=lambda byte: byte_letters()[byte]))


def to_letters(token: bytes) -> str:
    """A token's bytes in GPT-2's letters.

    >>> to_letters(b" hi")
    'Ġhi'
    """
    letters = byte_letters()
    return "".join(letters[byte] for byte in token)
