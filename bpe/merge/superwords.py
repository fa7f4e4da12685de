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

from bpe.base.records import replace
from bpe.merge._high_merges import HighMerges
from bpe.merge._merger import Merger
from bpe.merge.tables import MergeList, SymbolTables
from bpe.pretokenize._piece_scanner import PieceRules
from bpe.pretokenize.patterns import UNDIVIDED
from bpe.pretokenize.unit_rules import Units, is_number
from bpe.vocab.vocabulary import Vocabulary

#: At least one merge in this number must be low; with fewer, segments are long, and the general way is as fast.
_ONE_LOW_IN = 8
_SPACE = 0x20


class Superwords(NamedTuple):
    """The two stages of a superword vocabulary, and where text is cut into pieces and units."""

    low: Merger
    high: HighMerges
    rules: PieceRules


def find_superwords(
    merges: MergeList, symbols: SymbolTables, vocabulary: Vocabulary, units: Units | None
) -> Superwords | None:
    """The two stages of a byte vocabulary without an end-of-word mark; None if the general way must encode it.

    Args:
        merges: all merges.
        symbols: the symbols of bytes.
        vocabulary: the tokens.
        units: how a text is divided; None if the units are given with it.

    """
    before, after = _find_joined_bytes(merges, vocabulary)
    n_low = _find_first_across_words(merges, vocabulary, before, after)
    if n_low * _ONE_LOW_IN < len(merges.ranks) or not len(merges.ranks):
        return None
    if units is None and n_low == len(merges.ranks):
        return None  # an ordinary vocabulary, whose pretokens are short
    if n_low < len(merges.ranks) and merges.ranks[n_low - 1] == merges.ranks[n_low]:
        return None
    low, high = _select_part(merges, slice(n_low)), _select_part(merges, slice(n_low, None))
    try:
        highs = HighMerges(low, high)
    except ValueError:
        return None
    kind, classes = units or (UNDIVIDED, None)
    apart = _are_digits_apart(merges, vocabulary, before, after, units)
    rules = PieceRules(*_make_byte_rules(before[:n_low], after[:n_low]), kind, classes, apart)
    return Superwords(Merger(low, symbols), highs, rules)


def _select_part(merges: MergeList, chosen: slice) -> MergeList:
    return replace(
        merges,
        pairs=np.ascontiguousarray(merges.pairs[chosen]),
        results=merges.results[chosen].copy(),
        ranks=merges.ranks[chosen].copy(),
    )


def _find_joined_bytes(merges: MergeList, vocabulary: Vocabulary) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The bytes that each merge joins: the last of its left token and the first of its right one."""
    blob = np.frombuffer(vocabulary.blob, dtype=np.uint8)
    return blob[vocabulary.offsets[merges.pairs[:, 0] + 1] - 1], blob[vocabulary.offsets[merges.pairs[:, 1]]]


def _find_first_across_words(
    merges: MergeList, vocabulary: Vocabulary, before: NDArray[np.uint8], after: NDArray[np.uint8]
) -> int:
    """The number of the first merge that joins a character with a space after it, where that is no white space too.

    If the left token ends with a character of several bytes, that whole character is tested. The number of merges if
    there is no such one.
    """
    spaced = np.flatnonzero((after == _SPACE) & (before > _SPACE))
    for number in spaced.tolist():
        if before[number] < 0x80:
            return int(number)
        left = int(merges.pairs[number, 0])
        start, end = vocabulary.offsets[left : left + 2].tolist()
        last = bytes(vocabulary.blob[max(start, end - 4) : end]).decode(errors="ignore")[-1:]
        if last and not last.isspace():
            return int(number)
    return len(merges.ranks)


def _are_digits_apart(
    merges: MergeList,
    vocabulary: Vocabulary,
    before: NDArray[np.uint8],
    after: NDArray[np.uint8],
    units: Units | None,
) -> bool:
    """Whether no merge joins an ASCII digit and a character that is no number, such as `1` and `½`."""
    if units is None or units.classes is None:
        return False
    is_digit = np.isin(np.arange(256), range(48, 58))
    for number in np.flatnonzero(is_digit[before] != is_digit[after]).tolist():
        left, right = merges.pairs[number].tolist()
        if is_digit[before[number]]:
            start, end = vocabulary.offsets[right : right + 2].tolist()
            other = bytes(vocabulary.blob[start : min(end, start + 4)]).decode(errors="ignore")[:1]
        else:
            start, end = vocabulary.offsets[left : left + 2].tolist()
            other = bytes(vocabulary.blob[max(start, end - 4) : end]).decode(errors="ignore")[-1:]
        if not other or not is_number(units, other):
            return False
    return True


def _make_byte_rules(
    before: NDArray[np.uint8], after: NDArray[np.uint8]
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The group of each byte before a position, and of each byte after it the groups that no merge joins it to."""
    joined = np.zeros((256, 256), dtype=np.bool_)
    joined[before, after] = True
    numbers = np.full(256, 5, dtype=np.intp)
    codes = np.arange(256)
    numbers[np.isin(codes, [*range(65, 91), *range(97, 123)])] = 0
    numbers[np.isin(codes, range(48, 58))] = 1
    numbers[:_SPACE] = 2
    numbers[_SPACE] = 3
    numbers[[10, 13]] = 4
    # Some white space ends with the same bytes as letters of other scripts do.
    numbers[codes >= 0x80] = np.where(joined[0x80:, _SPACE], 6, 7)
    of_groups = np.zeros((8, 256), dtype=np.bool_)
    np.logical_or.at(of_groups, numbers, joined)
    after_groups = np.packbits(~of_groups, axis=0, bitorder="little")[0]
    return np.left_shift(1, numbers).astype(np.uint8), after_groups
