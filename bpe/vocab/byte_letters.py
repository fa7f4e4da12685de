"""GPT-2's letters for bytes in the tokens of files; `bpe/text/letters.py` spells whole texts with them."""

from __future__ import annotations

from functools import cache

from bpe.text.letters import byte_letters


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


__all__ = ["byte_alphabet", "byte_letters", "letter_bytes", "to_letters"]
