"""GPT-2's letters for bytes in the tokens of files; `bpe/text/letters.py` spells whole texts with them."""

from __future__ import annotations

from functools import cache

from bpe.text.letters import byte_letters


@cache
def letter_bytes() -> dict[str, int]:
    """The byte of each of GPT-2's letters."""
    return {letter: byte for byte, letter in enumerate(byte_letters())}


@cache
def _latin() -> dict[int, str]:
    """For `str.translate`: the character of Latin-1 with the byte of each letter, and one outside it for no letter."""
    return dict.fromkeys(range(256), "\uffff") | {ord(letter): chr(byte) for letter, byte in letter_bytes().items()}


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


def letters_to_bytes(text: str) -> bytes:
    """The bytes that GPT-2's letters stand for.

    Raises:
        ValueError: for a character that is not one of these letters.

    >>> letters_to_bytes("Ġhi")
    b' hi'

    """
    return text.translate(_latin()).encode("latin-1")


def bytes_or_utf8(token: str) -> bytes:
    """The bytes that a ByteLevel decoder gives for a token: its UTF-8 if not all characters are GPT-2's letters.

    >>> bytes_or_utf8("Ġhi"), bytes_or_utf8("Ġ hi")
    (b' hi', b'\\xc4\\xa0 hi')
    """
    try:
        return letters_to_bytes(token)
    except ValueError:
        return token.encode()


__all__ = ["byte_alphabet", "byte_letters", "bytes_or_utf8", "letter_bytes", "letters_to_bytes", "to_letters"]
