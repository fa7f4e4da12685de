"""The two stages of the merges of a superword vocabulary, whose tokens reach across words.

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
from bpe.pretokenize.patterns import NUMBERS, SECOND_STAGE_PATTERNS, UNDIVIDED
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


class PretokenRules(NamedTuple):
    """How the kernel finds long pretokens: UNDIVIDED, NUMBERS or SIGNS; the classes of characters (uint8) or None."""

    divider: int
    classes: NDArray[np.uint8] | None


class TwoStageMerges(NamedTuple):
    """The two stages of a superword vocabulary, and where text is cut into pretokens and pieces."""

    low_merger: Merger
    high_merges: HighMerges
    piece_rules: PieceRules


def find_two_stages(
    merges: MergeList, symbols: SymbolTables, vocabulary: Vocabulary, pretoken_rules: PretokenRules | None
) -> TwoStageMerges | None:
    """Find the two stages of a byte vocabulary without an end-of-word mark; None if the general way must encode it.

    Args:
        merges: all merges.
        symbols: the symbols of bytes.
        vocabulary: the tokens.
        pretoken_rules: how the kernel finds the pretokens of a text; None if Python passes the bounds of each.

    """
    left_bytes, right_bytes = _find_joined_bytes(merges, vocabulary)
    n_low = _find_first_across_words(merges, vocabulary, left_bytes, right_bytes)
    if n_low * _MERGES_PER_LOW_MERGE < len(merges.results) or not len(merges.results):
        return None
    if pretoken_rules is None and n_low == len(merges.results):
        return None  # an ordinary vocabulary, whose pretokens are short
    ranks = merges.ranks
    if ranks is not None and n_low < len(ranks) and ranks[n_low - 1] == ranks[n_low]:
        return None
    low_merges, high_merges = _select_part(merges, slice(n_low)), _select_part(merges, slice(n_low, None))
    try:
        high_merger = HighMerges(low_merges, high_merges)
    except ValueError:
        return None
    divider, classes = pretoken_rules or (UNDIVIDED, None)
    never_joins_digits = _never_joins_digits(merges, vocabulary, left_bytes, right_bytes, pretoken_rules)
    piece_rules = PieceRules(
        *_make_byte_rules(left_bytes[:n_low], right_bytes[:n_low]), divider, classes, never_joins_digits
    )
    return TwoStageMerges(Merger(low_merges, symbols), high_merger, piece_rules)


def _select_part(merges: MergeList, indices: slice) -> MergeList:
    return replace(
        merges,
        pairs=np.ascontiguousarray(merges.pairs[indices]),
        results=merges.results[indices].copy(),
        ranks=merges.rank_array[indices].copy(),
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
    return len(merges.results)


def _never_joins_digits(
    merges: MergeList,
    vocabulary: Vocabulary,
    left_bytes: NDArray[np.uint8],
    right_bytes: NDArray[np.uint8],
    pretoken_rules: PretokenRules | None,
) -> bool:
    """Whether no merge joins an ASCII digit and a character that is no number, such as `1` and `½`."""
    if pretoken_rules is None or pretoken_rules.classes is None:
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
        if not neighbour or not is_number(pretoken_rules, neighbour):
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
    is_joined_by_group = np.stack([is_joined[group_of_byte == group].any(axis=0) for group in range(8)])
    unjoined_groups = np.packbits(~is_joined_by_group, axis=0, bitorder="little")[0]
    return np.left_shift(1, group_of_byte).astype(np.uint8), unjoined_groups


# Long pretokens -------------------------------------------------------------------------------------------------------


def find_pretoken_rules(pretokenizer: Pretokenizer | None) -> PretokenRules | None:
    """Find the rules by which the kernel finds the pretokens; None if it does not find them.

    >>> find_pretoken_rules(None)
    PretokenRules(divider=0, classes=None)
    >>> find_pretoken_rules(Pretokenizer("gpt2")) is None
    True

    """
    if pretokenizer is None:
        return PretokenRules(UNDIVIDED, None)
    if isinstance(pretokenizer, PipelinePretokenizer):
        if pretokenizer.steps != _STEPS or pretokenizer.letters:
            return None
        is_number = np.zeros(N_CLASSIFIED_CODES, dtype=np.uint8)
        is_number[[code for code in list_codes("NUMERIC") if code < N_CLASSIFIED_CODES]] = NUMBER
        classes = is_number | (find_character_classes() & np.uint8(DIGIT))
        return PretokenRules(NUMBERS, classes) if np.all(classes[classes & DIGIT > 0] & NUMBER) else None
    if pretokenizer.add_prefix_space:
        return None
    pattern = pretokenizer.pattern
    if pattern == _STEPS_AS_PATTERN:
        return PretokenRules(NUMBERS, find_character_classes())
    if pattern in SECOND_STAGE_PATTERNS and pretokenizer.gaps == "keep":
        return PretokenRules(SECOND_STAGE_PATTERNS[pattern], find_character_classes())
    return None


def is_number(pretoken_rules: PretokenRules, char: str) -> bool:
    """Whether a character is a number to a pretokenizer that divides text at numbers."""
    code = ord(char)
    classes = pretoken_rules.classes
    return classes is not None and code < N_CLASSIFIED_CODES and bool(classes[code] & NUMBER)
