"""Recognition of superword vocabularies, whose tokens reach across words, from their merges.

Such a vocabulary was trained in two stages. The *low* merges of the first stage never join a word with a space after
it; the *high* merges of the second do. The first merge that does so divides them. Text is encoded with the low merges
in short pieces, which repeat, and the high merges go on from there (`_high_merges.pyx`). Any division gives the
same ids if no high merge makes a low token; this one gives short pieces. A vocabulary without high merges that has no
pretokenizer is encoded in pieces too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpe.base.fast_dataclasses import replace
from bpe.merge._high_merges import HighMerges
from bpe.merge._merger import Merger
from bpe.merge.tables import MergeList, SymbolTables
from bpe.pretokenize._piece_scanner import PieceRules
from bpe.pretokenize.patterns import NUMBERS, UNDIVIDED, UNIT_PATTERNS
from bpe.pretokenize.pretokenizer import PipelinePretokenizer, Pretokenizer
from bpe.pretokenize.steps import DIGIT_GROUPS, ByteLevel, Digits, Split
from bpe.text.character_sets import DIGIT, N_CLASSIFIED_CODES, NUMBER, find_character_classes, list_codes
from bpe.vocab.vocabulary import Vocabulary

#: At least one merge in this number must be low; with fewer, runs are long, and the general way is as fast.
_MERGES_PER_LOW_MERGE = 8
_SPACE = 0x20
#: The steps of published files, and another spelling of the same pattern.
_STEPS = (Digits(), Split(DIGIT_GROUPS), ByteLevel(use_regex=False))
_STEPS_AS_PATTERN = r"[^\p{N}]+|\p{N}(?:(?!(?:\d{3})+(?!\d))\p{N})*"


class Units(NamedTuple):
    """How the kernel divides a text: UNDIVIDED, NUMBERS or SIGNS, and the classes of characters (uint8) or None."""

    kind: int
    classes: NDArray[np.uint8] | None


class Superwords(NamedTuple):
    """The two stages of a superword vocabulary, and where text is cut into pieces and units."""

    low_merger: Merger
    high_merges: HighMerges
    piece_rules: PieceRules


def find_superwords(
    merges: MergeList, symbols: SymbolTables, vocabulary: Vocabulary, units: Units | None
) -> Superwords | None:
    """Find the two stages of a byte vocabulary without an end-of-word mark; None if the general way must encode it.

    Args:
        merges: all merges.
        symbols: the symbols of bytes.
        vocabulary: the tokens.
        units: how a text is divided; None if the units are given with it.

    """
    left_bytes, right_bytes = _find_joined_bytes(merges, vocabulary)
    n_low = _find_first_across_words(merges, vocabulary, left_bytes, right_bytes)
    if n_low * _MERGES_PER_LOW_MERGE < len(merges.ranks) or not len(merges.ranks):
        return None
    if units is None and n_low == len(merges.ranks):
        return None  # an ordinary vocabulary, whose pretokens are short
    if n_low < len(merges.ranks) and merges.ranks[n_low - 1] == merges.ranks[n_low]:
        return None
    low_merges, high_merges = _select_part(merges, slice(n_low)), _select_part(merges, slice(n_low, None))
    try:
        high_merger = HighMerges(low_merges, high_merges)
    except ValueError:
        return None
    kind, classes = units or (UNDIVIDED, None)
    never_joins_digits = _never_joins_digits(merges, vocabulary, left_bytes, right_bytes, units)
    piece_rules = PieceRules(
        *_make_byte_rules(left_bytes[:n_low], right_bytes[:n_low]), kind, classes, never_joins_digits
    )
    return Superwords(Merger(low_merges, symbols), high_merger, piece_rules)


def _select_part(merges: MergeList, indices: slice) -> MergeList:
    return replace(
        merges,
        pairs=np.ascontiguousarray(merges.pairs[indices]),
        results=merges.results[indices].copy(),
        ranks=merges.ranks[indices].copy(),
    )


def _find_joined_bytes(merges: MergeList, vocabulary: Vocabulary) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Find the bytes that each merge joins: the last of its left token and the first of its right one."""
    blob = np.frombuffer(vocabulary.blob, dtype=np.uint8)
    return blob[vocabulary.offsets[merges.pairs[:, 0] + 1] - 1], blob[vocabulary.offsets[merges.pairs[:, 1]]]


def _find_first_across_words(
    merges: MergeList, vocabulary: Vocabulary, left_bytes: NDArray[np.uint8], right_bytes: NDArray[np.uint8]
) -> int:
    """Find the first merge that joins a space to a character before it that is no white space.

    If the left token ends with a character of several bytes, that whole character is tested. The number of merges if
    there is no such one.
    """
    candidates = np.flatnonzero((right_bytes == _SPACE) & (left_bytes > _SPACE))
    for index in candidates.tolist():
        if left_bytes[index] < 0x80:
            return int(index)
        left = int(merges.pairs[index, 0])
        start, end = vocabulary.offsets[left : left + 2].tolist()
        last_char = bytes(vocabulary.blob[max(start, end - 4) : end]).decode(errors="ignore")[-1:]
        if last_char and not last_char.isspace():
            return int(index)
    return len(merges.ranks)


def _never_joins_digits(
    merges: MergeList,
    vocabulary: Vocabulary,
    left_bytes: NDArray[np.uint8],
    right_bytes: NDArray[np.uint8],
    units: Units | None,
) -> bool:
    """Whether no merge joins an ASCII digit and a character that is no number, such as `1` and `½`."""
    if units is None or units.classes is None:
        return False
    is_digit = np.isin(np.arange(256), range(48, 58))
    for index in np.flatnonzero(is_digit[left_bytes] != is_digit[right_bytes]).tolist():
        left, right = merges.pairs[index].tolist()
        if is_digit[left_bytes[index]]:
            start, end = vocabulary.offsets[right : right + 2].tolist()
            neighbour = bytes(vocabulary.blob[start : min(end, start + 4)]).decode(errors="ignore")[:1]
        else:
            start, end = vocabulary.offsets[left : left + 2].tolist()
            neighbour = bytes(vocabulary.blob[max(start, end - 4) : end]).decode(errors="ignore")[-1:]
        if not neighbour or not is_number(units, neighbour):
            return False
    return True


def _make_byte_rules(
    left_bytes: NDArray[np.uint8], right_bytes: NDArray[np.uint8]
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Put bytes into eight groups.

    Returns, by byte: the bit of its group, and the bits of the groups that no merge joins it to from the left.
    """
    is_joined = np.zeros((256, 256), dtype=np.bool_)
    is_joined[left_bytes, right_bytes] = True
    letters, digits, controls, spaces, newlines, signs, joined_high, unjoined_high = range(8)
    group_of_byte = np.full(256, signs, dtype=np.intp)
    for first_byte, last_byte, group in (("A", "Z", letters), ("a", "z", letters), ("0", "9", digits)):
        group_of_byte[ord(first_byte) : ord(last_byte) + 1] = group
    group_of_byte[:_SPACE] = controls
    group_of_byte[_SPACE] = spaces
    group_of_byte[[ord("\n"), ord("\r")]] = newlines
    # Bytes from 0x80 on: some white space ends with the same bytes as letters of other scripts do.
    group_of_byte[0x80:] = np.where(is_joined[0x80:, _SPACE], joined_high, unjoined_high)
    is_joined_by_group = np.zeros((8, 256), dtype=np.bool_)
    np.logical_or.at(is_joined_by_group, group_of_byte, is_joined)
    unjoined_groups = np.packbits(~is_joined_by_group, axis=0, bitorder="little")[0]
    return np.left_shift(1, group_of_byte).astype(np.uint8), unjoined_groups


# Units ----------------------------------------------------------------------------------------------------------------


def find_units(pretokenizer: Pretokenizer | None) -> Units | None:
    """Find the units that a pretokenizer divides a text into; None if the kernel does not find them.

    >>> find_units(None)
    Units(kind=0, classes=None)
    >>> find_units(Pretokenizer("gpt2")) is None
    True

    """
    if pretokenizer is None:
        return Units(UNDIVIDED, None)
    if isinstance(pretokenizer, PipelinePretokenizer):
        if pretokenizer.steps != _STEPS or pretokenizer.letters:
            return None
        is_number = np.zeros(N_CLASSIFIED_CODES, dtype=np.uint8)
        is_number[[code for code in list_codes("NUMERIC") if code < N_CLASSIFIED_CODES]] = NUMBER
        classes = is_number | (find_character_classes() & np.uint8(DIGIT))
        return Units(NUMBERS, classes) if np.all(classes[classes & DIGIT > 0] & NUMBER) else None
    if pretokenizer.add_prefix_space:
        return None
    pattern = pretokenizer.pattern
    if pattern == _STEPS_AS_PATTERN:
        return Units(NUMBERS, find_character_classes())
    if pattern in UNIT_PATTERNS and pretokenizer.gaps == "keep":
        return Units(UNIT_PATTERNS[pattern], find_character_classes())
    return None


def is_number(units: Units, char: str) -> bool:
    """Whether a character is a number to a pretokenizer that divides text at numbers."""
    code = ord(char)
    return units.classes is not None and code < N_CLASSIFIED_CODES and bool(units.classes[code] & NUMBER)
