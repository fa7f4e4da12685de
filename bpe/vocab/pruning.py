"""Making a vocabulary smaller, and finding the tokens that encoding never gives. Works on `TokenizerSpec`s.

Not here: adding tokens (`bpe/training/extend.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bpe.encode.engine import NO_TOKEN, Engine, symbol_tables, unk_id
from bpe.errors import check_int, counted, typed
from bpe.vocab.spec import TokenizerSpec, has_text_marks
from bpe.vocab.vocabulary import NONE, ORDINARY, SPECIAL, Vocabulary

GONE = -1


def truncated(spec: TokenizerSpec, size: int) -> TokenizerSpec:
    """The tokenizer with the tokens of its last merges gone, so that `size` are left; the ids of the others stay.

    Raises:
        ValueError: for a size greater than the vocabulary's, or smaller than what no merge makes.

    """
    have = len(spec.vocabulary)
    size = check_int("vocab_size", size, 1)
    if size > have:
        raise ValueError(
            f"vocab_size is {size}, but the tokenizer has {counted(have, 'token')}; bpe.extend makes a "
            "vocabulary larger"
        )
    symbols = _unmade(spec)
    made = [number for number in dict.fromkeys(spec.merge_ids.tolist()) if number not in symbols]
    if size < have - len(made):
        raise ValueError(
            f"vocab_size is {size}, but no merge makes {counted(have - len(made), 'token')} (special tokens, the "
            "alphabet); it must be at least that"
        )
    kept = np.zeros(spec.vocabulary.limit, dtype=np.bool_)
    kept[np.flatnonzero(spec.vocabulary.kinds != NONE)] = True
    count = size - (have - len(made))
    kept[made[count:]] = False
    # Training to this size ends with the merge that makes the last token: none behind it, though its token be kept.
    last = int(np.flatnonzero(spec.merge_ids == made[count - 1])[0]) if count else -1
    if spec.merge_ranks is not None and count:
        last = int(np.flatnonzero(spec.merge_ranks == spec.merge_ranks[last])[-1])
    return _only(spec, kept, np.arange(len(spec.merges)) <= last)


def pruned(spec: TokenizerSpec, ids: Iterable[int]) -> tuple[TokenizerSpec, NDArray[np.int32]]:
    """The tokenizer without the tokens named and those that cannot be made without them, and old ids to new ones.

    Raises:
        TypeError, ValueError: for what is no id of this vocabulary, or for a token that it cannot do without.

    """
    kept = np.asarray(spec.vocabulary.kinds != NONE)
    for number in _checked(spec, ids):
        kept[number] = False
    symbols, alive = _unmade(spec), np.ones(len(spec.merges), dtype=np.bool_)
    ways = np.bincount(spec.merge_ids, minlength=spec.vocabulary.limit)
    made = {number for number in set(spec.merge_ids.tolist()) if number not in symbols}
    while True:
        # A merge goes with any of its three tokens; a token goes with the last merge that made it.
        alive = kept[spec.merges].all(axis=1) & kept[spec.merge_ids]
        left = np.bincount(spec.merge_ids[alive], minlength=spec.vocabulary.limit)
        lost = [number for number in np.flatnonzero((ways > 0) & (left == 0) & kept).tolist() if number in made]
        if not lost:
            break
        kept[lost] = False
    smaller = _only(spec, kept, alive)
    remap = np.full(spec.vocabulary.limit, GONE, dtype=np.int32)
    first = int(np.flatnonzero(spec.vocabulary.kinds != NONE)[0])
    remap[kept] = np.arange(np.count_nonzero(kept), dtype=np.int32) + np.int32(first)
    return _renumbered(smaller, remap), remap


def unreachable(spec: TokenizerSpec) -> NDArray[np.int64]:
    """The ids that no pretoken gives, ascending.

    A token stands in the ids of some pretoken just if merging its own symbols gives it alone, and, where words have an
    end-of-word mark, some token may stand behind it, and so on to the end of a word: whether merges cross the border
    of two tokens depends on these two alone.
    """
    return np.array(_Reach(spec).unreachable(), dtype=np.int64)


# Parts ----------------------------------------------------------------------------------------------------------------


def _unmade(spec: TokenizerSpec) -> set[int]:
    """The tokens that are there without a merge: special tokens and single symbols."""
    inner, last, mark = symbol_tables(spec)
    found = {int(number) for table in (inner, last) for number in np.unique(table)} | {mark}
    return (found | {number for number, _ in spec.vocabulary.items(SPECIAL)}) - {NO_TOKEN}


def _checked(spec: TokenizerSpec, ids: Iterable[int]) -> list[int]:
    """The ids to prune, each a token that the tokenizer can do without."""
    if isinstance(ids, (str, bytes)) or not isinstance(ids, Iterable):
        raise TypeError(f"ids is {typed(ids)}; it must be a list or an array of token ids")
    needed = {}
    if spec.end_of_word is not None and not spec.end_of_word_glued:
        needed[symbol_tables(spec)[2]] = "the end-of-word mark, which ends every word"
    for number in spec.clip or ():
        needed[number] = "one of CLIP's start and end tokens, which begin and end every row"
    checked = []
    for each in ids:
        number = check_int("id", each, 0)
        if number not in spec.vocabulary:
            raise ValueError(
                f"id {number} is no token of this vocabulary, which has {counted(len(spec.vocabulary), 'token')}"
            )
        if number in needed:
            raise ValueError(f"id {number} is {needed[number]}; leave it out")
        checked.append(number)
    return checked


def _only(spec: TokenizerSpec, kept: NDArray[np.bool_], alive: NDArray[np.bool_]) -> TokenizerSpec:
    """The tokenizer with some of its tokens and merges; no id changes."""
    alive = alive & kept[spec.merges].all(axis=1) & kept[spec.merge_ids]
    vocabulary = spec.vocabulary
    names = {name: number for name, number in spec.special_tokens.items() if kept[number]}
    unk = spec.unk_token if spec.unk_token is None or kept[unk_id(spec)] else None
    smaller = Vocabulary(
        (item for item in vocabulary.items(ORDINARY) if kept[item[0]]),
        (item for item in vocabulary.items(SPECIAL) if kept[item[0]]),
    )
    return replace(
        spec,
        vocabulary=smaller,
        merges=spec.merges[alive],
        merge_ids=spec.merge_ids[alive],
        merge_ranks=None if spec.merge_ranks is None else spec.merge_ranks[alive],
        special_tokens=names,
        token_flags={name: flags for name, flags in spec.token_flags.items() if name in names},
        template=_of_template(spec, lambda number: number if kept[number] else -1),
        unk_token=unk,
        fuse_unk=spec.fuse_unk and unk is not None,
        ends_word=None if spec.ends_word is None else (spec.ends_word & kept)[: smaller.limit],
        unreached=None,  # not known of fewer merges
    )


def _of_template(spec: TokenizerSpec, remap: Callable[[int], int]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The template with other ids; one that becomes -1 is left out."""
    if spec.template is None:
        return None
    before, behind = (tuple(new for number in ids if (new := remap(number)) >= 0) for ids in spec.template)
    return (before, behind) if before or behind else None


def _renumbered(spec: TokenizerSpec, remap: NDArray[np.int32]) -> TokenizerSpec:
    """The tokenizer with other ids, in the same order."""
    vocabulary = Vocabulary(
        ((int(remap[number]), token) for number, token in spec.vocabulary.items(ORDINARY)),
        ((int(remap[number]), token) for number, token in spec.vocabulary.items(SPECIAL)),
    )
    ends_word = None
    if spec.ends_word is not None:
        ends_word = np.zeros(vocabulary.limit, dtype=np.bool_)
        ends_word[remap[np.flatnonzero(spec.ends_word)]] = True
    return replace(
        spec,
        vocabulary=vocabulary,
        merges=remap[spec.merges],
        merge_ids=remap[spec.merge_ids],
        special_tokens={name: int(remap[number]) for name, number in spec.special_tokens.items()},
        template=_of_template(spec, lambda number: int(remap[number])),
        ends_word=ends_word,
        clip=None if spec.clip is None else (int(remap[spec.clip[0]]), int(remap[spec.clip[1]])),
    )


class _Reach:
    """Which tokens of a tokenizer stand in the ids of some pretoken."""

    def __init__(self, spec: TokenizerSpec) -> None:
        self.spec = spec
        self.encoder = Engine(spec)
        # The same merges on the symbols within a word, where no mark is.
        self.within = Engine(replace(spec, end_of_word=None, end_of_word_glued=False, ends_word=None))
        self.both = has_text_marks(spec)  # a token that ends words may be made of text within one
        self.mark = b"" if spec.end_of_word is None else spec.end_of_word.encode()
        self.inner, self.last, self.mark_id = symbol_tables(spec)
        self.unknown = spec.unk_token is not None and self._some_symbol_is_unknown()

    def unreachable(self) -> list[int]:
        """The tokens that stand in none, ascending."""
        vocabulary, ends = self.spec.vocabulary, self.spec.ends_word
        named = set(self.spec.special_tokens.values())
        if self.unknown:
            named.add(unk_id(self.spec))
        lost = [number for number, _ in vocabulary.items(SPECIAL) if number not in named]
        ending: list[tuple[int, bytes]] = []
        inside: list[tuple[int, bytes]] = []
        for number, token in vocabulary.items(ORDINARY):
            ends_words = not self.mark or (ends is not None and bool(ends[number]))
            (ending if ends_words else inside).append((number, token))
            if ends_words and self.both:
                inside.append((number, token))
        closing = [each for each in ending if self._stands_last(*each)]
        standing = [each for each in inside if self.within.piece_ids(each[1]) == [each[0]]]
        followed = self._followed(standing, sorted(closing, key=lambda each: len(each[1])))
        found = {number for number, _ in closing} | followed
        return sorted([*lost, *({number for number, _ in (*ending, *inside)} - found)])

    def _some_symbol_is_unknown(self) -> bool:
        if self.spec.model == "char":
            return True  # no alphabet has all of Unicode
        return bool((self.inner == NO_TOKEN).any() or (self.last == NO_TOKEN).any())

    def _stands_last(self, number: int, token: bytes) -> bool:
        """Whether a token ends some word: one that it is the whole of, or that has one token before a mark."""
        if number != self.mark_id:
            return self.encoder.piece_ids(token[: len(token) - len(self.mark)]) == [number]
        return self.unknown or any(
            self.encoder.piece_ids(before) == [other, number] for other, before in self.spec.vocabulary.items(ORDINARY)
        )

    def _followed(self, tokens: list[tuple[int, bytes]], closing: list[tuple[int, bytes]]) -> set[int]:
        """Of tokens within a word, those that others can stand behind up to the end of the word."""
        if self.unknown:
            return {number for number, _ in tokens}  # a symbol that takes part in no merge can
        found: set[int] = set()
        new, waiting = closing, tokens
        between = False
        while new and waiting:
            new = [each for each in waiting if any(self._side_by_side(*each, *other, between) for other in new)]
            found |= {number for number, _ in new}
            waiting = [each for each in waiting if each[0] not in found]
            between = True
        return found

    def _side_by_side(self, left: int, before: bytes, right: int, behind: bytes, between: bool) -> bool:
        """Whether no merge crosses the border of two tokens, the second at the end of a word or not."""
        if between:
            return self.within.piece_ids(before + behind) == [left, right]
        return self.encoder.piece_ids(before + behind[: len(behind) - len(self.mark)]) == [left, right]
