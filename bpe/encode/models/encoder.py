"""The encoder of a vocabulary: its symbols, its merges, and how it may divide texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from bpe.base.fast_dataclasses import dataclass
from bpe.encode._encoder import Encoder
from bpe.merge._merger import Merger
from bpe.merge.tables import MergeList, SymbolTables, TokenBytes
from bpe.pretokenize.patterns import SPACE_RUNS, WHOLE_TEXT
from bpe.pretokenize.pretokenizer import get_scanner
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.symbols import WordSymbols, find_unk_id, find_word_symbols
from bpe.vocab.vocabulary import NO_TOKEN, has_text_at

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bpe.merge.two_stages import TwoStageMerges

MakeMerger = Callable[[MergeList, SymbolTables], Merger]


@dataclass(frozen=True)
class BuiltEncoder:
    """An encoder, and what it was made of.

    Attributes:
        encoder: encodes text, or pretokens, when the words that are one token are set and it is finished.
        merger: its tables of merges.
        symbols: the tokens of single symbols.
        finds_long_pretokens: whether it divides texts into the long pretokens of a superword vocabulary.

    """

    encoder: Encoder
    merger: Merger
    symbols: WordSymbols
    finds_long_pretokens: bool


def build_encoder(
    spec: TokenizerSpec, cache_memory: int, make_merger: MakeMerger = Merger, *, may_have_two_stages: bool = True
) -> BuiltEncoder:
    """Build an encoder that still needs the words that are encoded as one token, and `finish`."""
    symbols = find_word_symbols(spec)
    unmerged = spec.unmerged if spec.ignore_merges else None
    merges = MergeList(
        _protect(spec.merges),
        _protect(spec.merge_results),
        None if spec.merge_ranks is None else _protect(spec.merge_ranks),
        spec.vocabulary.limit,
        None if unmerged is None else _protect(unmerged),
    )
    symbol_tables = SymbolTables(
        inner_ids=symbols.inner_ids,
        last_ids=symbols.last_ids,
        mark_id=symbols.mark_id,
        unk_id=get_unk_id(spec),
        fuse_unk=spec.fuse_unk,
        is_char_model=spec.model == "char",
        first_ids=symbols.first_ids,
        only_ids=symbols.only_ids,
        byte_ids=symbols.byte_ids,
        prefix=(spec.subword_prefix or "").encode(),
        suffix=(spec.end_of_word or "").encode() if spec.end_of_word_glued else b"",
        drop_unknown=spec.drop_unknown,
    )
    merger = make_merger(merges, symbol_tables)
    ends_word = None if spec.end_of_word is None else np.zeros(spec.vocabulary.limit, dtype=np.uint8)
    if ends_word is not None and spec.ends_word is not None:
        ends_word[:] = spec.ends_word
    mark_size = 0 if spec.end_of_word is None else len(spec.end_of_word.encode())
    tokens = TokenBytes(spec.vocabulary.blob, _protect(spec.vocabulary.offsets), ends_word, mark_size)
    scanner = get_scanner(spec.pretokenizer)
    if scanner == WHOLE_TEXT and _can_split_at_spaces(spec, symbols, merger):
        scanner = SPACE_RUNS
    two_stages, finds_long_pretokens = None, False
    if may_have_two_stages and make_merger is Merger and _has_long_pretokens(spec, merger):
        two_stages, finds_long_pretokens = _find_two_stages(spec, merges, symbol_tables)
    if two_stages is not None:
        scanner = WHOLE_TEXT
    encoder = Encoder(merger, tokens, -1 if scanner is None else scanner, cache_memory, two_stages)
    return BuiltEncoder(encoder, merger, symbols, finds_long_pretokens)


def _protect(array: NDArray[Any]) -> NDArray[Any]:
    """Copy an array unless its memory is that of a bytes object, to which nobody can write.

    The kernels validate arrays once and keep reading them, and a caller could write to the arrays of the spec.
    """
    owner: object = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    return array if isinstance(owner, bytes) and array.flags.c_contiguous else array.copy(order="C")


def get_unk_id(spec: TokenizerSpec) -> int:
    """Return the id of the unknown token; NO_TOKEN without one."""
    return NO_TOKEN if spec.unk_token is None else find_unk_id(spec)


def _has_long_pretokens(spec: TokenizerSpec, merger: Merger) -> bool:
    """Whether pretokens may be long and may be split anywhere, as those of a superword vocabulary."""
    if get_scanner(spec.pretokenizer) not in (None, WHOLE_TEXT) or spec.model == "char" or spec.end_of_word is not None:
        return False
    return not (spec.ignore_merges or spec.unk_token is not None or spec.drop_unknown) and merger.can_split


def _find_two_stages(
    spec: TokenizerSpec, merges: MergeList, symbol_tables: SymbolTables
) -> tuple[TwoStageMerges | None, bool]:
    """Find the two stages of a superword vocabulary, or None; and whether the encoder finds its pretokens."""
    from bpe.merge.two_stages import find_pretoken_rules, find_two_stages

    pretoken_rules = find_pretoken_rules(spec.pretokenizer)
    two_stages = find_two_stages(merges, symbol_tables, spec.vocabulary, pretoken_rules)
    return two_stages, two_stages is not None and pretoken_rules is not None


def _can_split_at_spaces(spec: TokenizerSpec, symbols: WordSymbols, merger: Merger) -> bool:
    """Whether texts that are words can be split before U+2581, which stands for a space, after another character.

    True if no merge crosses these positions, as in most vocabularies of SentencePiece's kind. A text is then
    encoded in parts that occur again and again.
    """
    space_mark, inner_ids = "\u2581".encode(), symbols.inner_ids
    if spec.model != "char" or len(inner_ids) <= 0x2581 or inner_ids[0x2581] == NO_TOKEN:
        return False
    if not np.array_equal(inner_ids, symbols.last_ids) or spec.ignore_merges or spec.end_of_word is not None:
        return False
    if not (merger.can_split or _fuses_only(spec)):
        return False
    vocabulary = spec.vocabulary
    blob, lengths = np.frombuffer(vocabulary.blob, dtype=np.uint8), vocabulary.lengths
    starts_with_space = has_text_at(blob, vocabulary.offsets[:-1], lengths, space_mark)
    ends_with_space = has_text_at(blob, vocabulary.offsets[1:] - len(space_mark), lengths, space_mark)
    return not bool(np.any(starts_with_space[spec.merges[:, 1]] & ~ends_with_space[spec.merges[:, 0]]))


def _fuses_only(spec: TokenizerSpec) -> bool:
    """Whether pieces cannot be split anywhere because unknown symbols are fused, and for no other reason."""
    if not spec.fuse_unk or spec.drop_unknown or spec.byte_fallback or spec.subword_prefix:
        return False
    unk_id = get_unk_id(spec)
    return not np.any(spec.merges == unk_id) and not np.any(spec.merge_results == unk_id)
