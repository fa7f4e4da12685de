"""The plain description of a tokenizer: everything that decides its ids, and nothing else.

Formats read and write one of these; the `Tokenizer` is built from one. The alphabet helpers of byte-level models live
here too, since every format needs them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bpe.errors import check_choice, shown, typed
from bpe.pretokenize.pretokenizer import Pretokenizer, as_pretokenizer
from bpe.text.normalizers import Normalizer, as_normalizer
from bpe.vocab._spec import wrong_merge
from bpe.vocab.vocabulary import ID_LIMIT, NONE, ORDINARY, Vocabulary

#: What symbols are.
Model = Literal["byte", "char"]

NO_SPECIALS: Mapping[str, int] = MappingProxyType({})
NO_FLAGS: Mapping[str, frozenset[str]] = MappingProxyType({})
#: What a special token may be flagged with.
FLAGS = ("ordinary", "lstrip", "rstrip", "single_word", "normalized")


@dataclass(frozen=True, eq=False)
class TokenizerSpec:
    """A tokenizer as data.

    Attributes:
        model: "byte" (symbols are bytes) or "char" (symbols are characters).
        vocabulary: ids and bytes of all tokens, an end-of-word mark included in the bytes of a token that has one. In a
            byte model some SPECIAL tokens may have no name below: those of a tokenizer.json that are not spelled in
            GPT-2's letters, which encoding never produces.
        merges: int32, shape (n, 2): the pairs of ids to merge, best rank first.
        merge_results: int32, shape (n,): the id that each merge makes.
        merge_ranks: int32, shape (n,), or None for 0, 1, 2, …: the rank of each merge, where several share one (rank
            files whose tokens can be split in several ways). Merges of equal rank are applied from left to right.
        pretokenizer: how text is split into words, or None; a name is accepted too.
        normalizer: how text is changed before that, or None; a name is accepted too.
        special_tokens: name → id; all of them are in the vocabulary as SPECIAL.
        token_flags: name → flags of the special tokens that have any, as added tokens of a tokenizer.json: "ordinary"
            (found in every text, whether allowed or not), "lstrip" and "rstrip" (white space before it, or after it,
            belongs to it), "single_word" (found only where no letter or digit is beside it), "normalized" (searched
            for after the others, in the normalized text).
        template: the ids that the model expects before and after a text, or None. Encoding does not add them.
        unk_token: the token for a symbol outside the alphabet, or None; it is in the vocabulary as SPECIAL.
        fuse_unk: neighbouring unknown symbols become one unknown token.
        end_of_word: the mark at a word's end, or None.
        end_of_word_glued: the mark is part of the word's last symbol, not a symbol of its own.
        ends_word: bool, shape (vocabulary.limit,): which tokens end with the mark; None without a mark.
        ignore_merges: a word that is a token becomes that token, whatever the merges say (as in tiktoken).
        unreachable: int32: with `ignore_merges`, the ids of ordinary tokens that merging their own bytes does not give;
            None if unknown. It follows from the other fields and saves computing it; it is not checked.
        clip: the ids of the start and the end token, for a tokenizer that has `tokenize`, or None.

    """

    model: Model
    vocabulary: Vocabulary
    merges: NDArray[np.int32]
    merge_results: NDArray[np.int32]
    merge_ranks: NDArray[np.int32] | None = None
    pretokenizer: Pretokenizer | None = None
    normalizer: Normalizer | None = None
    special_tokens: Mapping[str, int] = field(default_factory=lambda: NO_SPECIALS)
    token_flags: Mapping[str, frozenset[str]] = field(default_factory=lambda: NO_FLAGS)
    template: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    unk_token: str | None = None
    fuse_unk: bool = False
    end_of_word: str | None = None
    end_of_word_glued: bool = False
    ends_word: NDArray[np.bool_] | None = None
    ignore_merges: bool = False
    unreachable: NDArray[np.int32] | None = None
    clip: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        """Let `pretokenizer` and `normalizer` be given by name, as everywhere."""
        object.__setattr__(self, "pretokenizer", as_pretokenizer(self.pretokenizer))
        object.__setattr__(self, "normalizer", as_normalizer(self.normalizer))


def has_text_marks(spec: TokenizerSpec) -> bool:
    """Whether some token that ends words may be part of one too: a merge makes it of text that spells the mark.

    Hugging Face trains such vocabularies where the mark's characters occur in the corpus.
    """
    if spec.ends_word is None or not spec.end_of_word_glued:
        return False
    ends = spec.ends_word
    return bool(np.any(ends[spec.merge_results] & ~ends[spec.merges[:, 1]]))


def check_spec(spec: TokenizerSpec) -> None:
    """Refuse a description that does not fit together, before a kernel reads by it.

    A merge of ordinary tokens must make the token that is spelled as its two parts. Several merges may make one token,
    and a merge may make the token of a symbol, as in files of Hugging Face's. Tokens that are no ordinary ones are not
    compared: in a byte model they can be spelled otherwise than they are written.

    Raises:
        TypeError: for arrays of a wrong type or shape.
        ValueError: for ids that the vocabulary does not have, ranks that fall, a merge that makes another token.

    """
    vocabulary, n = spec.vocabulary, len(spec.merges)
    check_choice("model", spec.model, ("byte", "char"))
    if not isinstance(vocabulary, Vocabulary):
        raise TypeError(f"vocabulary is {typed(vocabulary)}; it must be a bpe.vocab.vocabulary.Vocabulary")
    limit = vocabulary.limit
    for name, value, dtype, shape in (
        ("vocabulary.offsets", vocabulary.offsets, np.int64, (limit + 1,)),
        ("vocabulary.kinds", vocabulary.kinds, np.uint8, (limit,)),
        ("merges", spec.merges, np.int32, (n, 2)),
        ("merge_results", spec.merge_results, np.int32, (n,)),
        ("merge_ranks", spec.merge_ranks, np.int32, (n,)),
        ("ends_word", spec.ends_word, np.bool_, (limit,)),
        ("unreachable", spec.unreachable, np.int32, getattr(spec.unreachable, "shape", ())[:1]),
    ):
        if value is None and name in ("merge_ranks", "ends_word", "unreachable"):
            continue
        if not isinstance(value, np.ndarray) or value.dtype != dtype or value.shape != shape:
            found = f"{value.dtype} of shape {value.shape}" if isinstance(value, np.ndarray) else typed(value)
            raise TypeError(f"{name} is {found}; it must be an array of {np.dtype(dtype)} of shape {shape}")
    if type(vocabulary.blob) is not bytes:
        raise TypeError(f"vocabulary.blob is {typed(vocabulary.blob)}; it must be bytes")
    known = vocabulary.kinds != NONE
    for name, ids in (
        ("a merge", spec.merges.ravel()),
        ("a merge", spec.merge_results),
        ("unreachable", spec.unreachable),
    ):
        if ids is None:
            continue
        within = (ids >= 0) & (ids < limit)
        wrong = ids[~within] if not within.all() else ids[~known[ids]]
        if len(wrong):
            raise ValueError(f"{name} has id {wrong[0]}, which the vocabulary does not have; give it a token there")
    ordinary = (vocabulary.kinds == ORDINARY).view(np.uint8)
    at = wrong_merge(
        np.ascontiguousarray(spec.merges),
        spec.merge_results,
        vocabulary.blob,
        np.ascontiguousarray(vocabulary.offsets),
        ordinary,
    )
    if at >= 0:
        (left, right), made = spec.merges[at].tolist(), int(spec.merge_results[at])
        raise ValueError(
            f"merge {at} makes token {made}, {shown(vocabulary[made])}, of {shown(vocabulary[left])} and "
            f"{shown(vocabulary[right])}; it must make the token {shown(vocabulary[left] + vocabulary[right])}"
        )
    ranks = spec.merge_ranks
    if ranks is not None and n and (ranks[0] < 0 or (ranks[1:] < ranks[:-1]).any()):
        raise ValueError(f"merge_ranks are {shown(ranks)}; they must be at least 0, and none less than the one before")
    _check_names(spec)
    _check_ends(spec)


def _check_ends(spec: TokenizerSpec) -> None:
    """Refuse tokens that are said to end with a mark and do not."""
    if spec.end_of_word is not None and spec.ends_word is None:
        raise ValueError(
            f"end_of_word is {spec.end_of_word!r} and ends_word None; it must say which tokens end with it"
        )
    if spec.end_of_word is None or spec.ends_word is None or not spec.ends_word.any():
        return
    numbers, mark = np.flatnonzero(spec.ends_word), np.frombuffer(spec.end_of_word.encode(), dtype=np.uint8)
    blob, ends = np.frombuffer(spec.vocabulary.blob, dtype=np.uint8), spec.vocabulary.offsets[1:][numbers]
    wrong = ends - spec.vocabulary.offsets[numbers] < len(mark)
    if not wrong.any():
        wrong = (blob[ends[:, None] + np.arange(-len(mark), 0)] != mark).any(axis=1)
    if wrong.any():
        number = int(numbers[wrong][0])
        raise ValueError(
            f"ends_word has token {number}, {shown(spec.vocabulary[number])}, which does not end with the end-of-word "
            f"mark {spec.end_of_word!r}; it must be False there"
        )


def _check_names(spec: TokenizerSpec) -> None:
    """Refuse tokens by name or number that the vocabulary does not have."""
    for name, value in (("unk_token", spec.unk_token), ("end_of_word", spec.end_of_word)):
        if value is not None and (not isinstance(value, str) or not value):
            raise TypeError(f"{name} is {typed(value)}; it must be a str of at least one character, or None")
    numbers = [*spec.special_tokens.values(), *(number for part in spec.template or () for number in part)]
    numbers += spec.clip or ()
    wrong = []
    if not set(map(type, numbers)) <= {int} or (numbers and not 0 <= min(numbers) <= max(numbers) < ID_LIMIT):
        wrong = [one for one in numbers if not isinstance(one, (int, np.integer)) or not 0 <= one < ID_LIMIT]
    if not wrong:
        ids = np.array(numbers, dtype=np.int64)
        wrong = ids[ids >= spec.vocabulary.limit].tolist() or ids[spec.vocabulary.kinds[ids] == NONE].tolist()
    if wrong:
        raise ValueError(
            f"special_tokens, template or clip has the id {shown(wrong[0])}, which the vocabulary does not have; give "
            "it a token there"
        )
