"""`TokenizerSpec`: the description of a tokenizer as plain data, with everything that determines its ids.

Formats read and write a spec; a `Tokenizer` is built from one. `check_spec` checks that its fields are consistent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bpe.base.fast_dataclasses import dataclass, field, replace
from bpe.errors import ID_LIMIT, check_choice, check_unicode, describe, pluralize, short_repr
from bpe.pretokenize.pretokenizer import PipelinePretokenizer, Pretokenizer, as_pretokenizer
from bpe.vocab._spec import find_wrong_merge
from bpe.vocab.training_record import Training
from bpe.vocab.vocabulary import AFTER_MERGING, ORDINARY, UNUSED, Vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bpe.text.normalizers import Normalizer
    from bpe.vocab.events import Events
    from bpe.vocab.output_steps import DecoderStep, Padding, PostProcessor, Truncation

#: Whether symbols are bytes or characters.
SymbolType = Literal["byte", "char"]

NO_SPECIALS: Mapping[str, int] = MappingProxyType({})
NO_FLAGS: Mapping[str, frozenset[str]] = MappingProxyType({})
NO_ROLES: Mapping[str, str] = MappingProxyType({})
NO_TEMPLATES: Mapping[str, str] = MappingProxyType({})
#: The roles that a special token may have, by the names of the fields of `transformers`.
ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
#: The name of the chat template that is used by default.
DEFAULT_TEMPLATE = "default"
#: The flags that say where a special token is found, in the order in which files list them. "ordinary" is a flag, too.
MATCHING_FLAGS = ("single_word", "lstrip", "rstrip", "normalized")


def make_flags(matching_flags: Iterable[str], *, is_special: bool) -> frozenset[str]:
    """Make the flags of an added token: those of matching, and "ordinary" for a token that is not special."""
    return frozenset(matching_flags if is_special else {*matching_flags, "ordinary"})


@dataclass(frozen=True, eq=False)
class TokenizerSpec:
    """A tokenizer as data.

    Attributes:
        model: "byte" (symbols are bytes) or "char" (symbols are characters).
        vocabulary: the ids and bytes of all tokens. The bytes of a token include its end-of-word mark. In a byte model,
            `special_tokens` may lack some SPECIAL tokens: those of a tokenizer.json that are not spelled in GPT-2's
            letters, which encoding never produces.
        merges: int32, shape (n, 2): the pairs of ids to merge, best rank first.
        merge_results: int32, shape (n,): the id that each merge produces.
        merge_ranks: int32, shape (n,), or None for 0, 1, 2, …: the rank of each merge, if several merges share one
            (rank files with tokens that have several splits). Merges of equal rank are applied from left to right.
        n_merges_within_words: with merges across words (BoundlessBPE), the number of merges within words, which come
            first; the others join neighbouring pretokens of one token each, then the results of such joins. None: no
            others.
        events: the merges and the deletions of a PickyBPE tokenizer, which then has no `merges`; else None.
        pretokenizer: the rule that splits text into words, or None; a name is accepted too.
        normalizer: the function applied to text before that, or None; a name is accepted too.
        special_tokens: name → id. All of them are in the vocabulary as SPECIAL, or as ORDINARY if merging can make
            them too: a tokenizer.json may list an added token among its merges.
        token_flags: name → flags, for special tokens with flags. They are those of added tokens in a tokenizer.json:
            "ordinary" (matched in every text, whether allowed or not), "lstrip" and "rstrip" (the white space before or
            after the token is part of the match), "single_word" (matched only where no letter or digit is adjacent),
            "normalized" (matched after the others, in the normalized text).
        roles: role → special token: which token begins texts, ends them, pads them and so on, for the roles that are
            known; they are called as in `transformers` (`ROLES`). No id depends on them.
        chat_templates: name → template of conversations, of Jinja; the one that is used by default has the name
            "default". No id of a text depends on them.
        template: the ids that the model expects before and after a text, or None. Encoding adds them if a call passes
            `template=True`.
        unk_token: the token for a symbol outside the alphabet, or None; it is in the vocabulary like a special token.
        fuse_unk: whether adjacent unknown symbols become one unknown token.
        byte_fallback: whether a symbol outside the alphabet becomes the tokens `<0x00>` to `<0xFF>` of its UTF-8 bytes
            instead of the unknown token, if the vocabulary has all of them, as in SentencePiece.
        drop_unknown: whether symbols outside the alphabet are left out where no token stands for them, as in
            `tokenizers`, instead of raising ValueError; "after merging" if no merge crosses them, as in llama.cpp.
        subword_prefix: a prefix that the tokens of all symbols of a word but the first have, such as "##", or None.
        dropout: the probability that a possible merge is left out wherever text is encoded, unless a call names
            another; 0 is usual.
        end_of_word: the end-of-word mark, or None.
        end_of_word_glued: whether the mark is part of the word's last symbol, instead of a symbol of its own.
        ends_word: bool, shape (vocabulary.limit,): which tokens end with the mark; None without a mark.
        ignore_merges: whether a word that is a token is encoded as that token without merging (as in tiktoken).
        unmerged: int32: with `ignore_merges`, the ids of the ordinary tokens that merging does not produce from
            their own bytes; None if unknown. It follows from the other fields and is kept to save time; it is not
            checked.
        clip: the ids of the start and the end token, for a tokenizer with `clip_rows`, or None.
        decoder: the steps that turn tokens into text (`bpe/vocab/output_steps.py`); None for the bytes of tokens one
            after the other, with a space for an end-of-word mark.
        post_processor: what a tokenizer.json does to encoded texts, or None; `template` is what it adds to one text.
            It trims the spans that `encode_with_offsets` gives by the convention of `tokenizers`.
        truncation: how long a tokenizer.json lets encoded texts be, or None. Only the compatible modules apply it.
        padding: how a tokenizer.json pads encoded texts, or None. Only the compatible modules apply it.
        training: facts about the training that made the tokenizer, or None.

    """

    model: SymbolType
    vocabulary: Vocabulary
    merges: NDArray[np.int32]
    merge_results: NDArray[np.int32]
    merge_ranks: NDArray[np.int32] | None = None
    n_merges_within_words: int | None = None
    events: Events | None = None
    pretokenizer: Pretokenizer | None = None
    normalizer: Normalizer | None = None
    special_tokens: Mapping[str, int] = field(default_factory=lambda: NO_SPECIALS)
    token_flags: Mapping[str, frozenset[str]] = field(default_factory=lambda: NO_FLAGS)
    roles: Mapping[str, str] = field(default_factory=lambda: NO_ROLES)
    chat_templates: Mapping[str, str] = field(default_factory=lambda: NO_TEMPLATES)
    template: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    unk_token: str | None = None
    fuse_unk: bool = False
    byte_fallback: bool = False
    drop_unknown: bool | Literal["after merging"] = False
    subword_prefix: str | None = None
    dropout: float = 0.0
    end_of_word: str | None = None
    end_of_word_glued: bool = False
    ends_word: NDArray[np.bool_] | None = None
    ignore_merges: bool = False
    unmerged: NDArray[np.int32] | None = None
    clip: tuple[int, int] | None = None
    decoder: tuple[DecoderStep, ...] | None = None
    post_processor: PostProcessor | None = None
    truncation: Truncation | None = None
    padding: Padding | None = None
    training: Training | None = None

    def __post_init__(self) -> None:
        """Convert the names of a pretokenizer and a normalizer."""
        pretokenizer = as_pretokenizer(self.pretokenizer)
        if isinstance(pretokenizer, PipelinePretokenizer):
            from bpe.pretokenize.simplifying import simplify

            timeout, pretokenizer = pretokenizer.timeout, simplify(pretokenizer, self.model == "byte")
            if timeout is not None and pretokenizer is not None:
                pretokenizer = pretokenizer.with_timeout(timeout)
        object.__setattr__(self, "pretokenizer", pretokenizer)
        if self.normalizer is not None:
            from bpe.text.normalizers import as_normalizer

            object.__setattr__(self, "normalizer", as_normalizer(self.normalizer))

    def __getstate__(self) -> dict[str, Any]:
        """Collect the fields, with dicts for read-only mappings, which cannot be pickled or copied."""
        names = ("special_tokens", "token_flags", "roles", "chat_templates")
        dicts = {name: dict(getattr(self, name)) for name in names}
        return {**vars(self), **dicts}

    def ranks(self) -> dict[bytes, int]:
        """Map the bytes of each token to the rank of the merge that makes it (the best one of several).

        >>> import bpe
        >>> bpe.train(texts=["low low"], model="char", num_merges=2).spec.ranks()
        {b'lo': 0, b'low': 1}
        """
        results = self.merge_results.tolist()
        all_ranks = range(len(results)) if self.merge_ranks is None else self.merge_ranks.tolist()
        rank_of_token: dict[bytes, int] = {}
        for token_id, rank in zip(results, all_ranks, strict=True):
            rank_of_token.setdefault(self.vocabulary[token_id], rank)
        return rank_of_token


def text_can_spell_mark(spec: TokenizerSpec) -> bool:
    """Whether text that spells the end-of-word mark can be merged to a token that ends words.

    Such a token may then occur inside a word.

    Hugging Face trains such vocabularies if the mark's characters occur in the corpus.
    """
    if spec.ends_word is None or not spec.end_of_word_glued:
        return False
    ends_word = spec.ends_word
    return bool(np.any(ends_word[spec.merge_results] & ~ends_word[spec.merges[:, 1]]))


def describe_model(spec: TokenizerSpec) -> str:
    """Describe the kind of model of a tokenizer in a few words."""
    kind = {"byte": "byte-level", "char": "character-level"}[spec.model]
    if spec.events is not None:
        return f"{kind}, PickyBPE"
    return kind if spec.n_merges_within_words is None else f"{kind}, BoundlessBPE"


def describe_merges(spec: TokenizerSpec) -> int | str:
    """Count the merges of a tokenizer, and describe what else its model does."""
    if spec.events is not None:
        return f"{len(spec.events.pairs)}, and {pluralize(len(spec.events.deletions), 'deletion')} of a token"
    n_merges, n_within_words = len(spec.merges), spec.n_merges_within_words
    return (
        n_merges
        if n_within_words is None
        else f"{n_within_words} within words, {n_merges - n_within_words} across words"
    )


def drop_merges_across_words(spec: TokenizerSpec) -> TokenizerSpec:
    """Remove the merges across words; their tokens stay in the vocabulary."""
    n_within_words = spec.n_merges_within_words
    if n_within_words is None:
        return spec
    return replace(
        spec,
        merges=spec.merges[:n_within_words],
        merge_results=spec.merge_results[:n_within_words],
        n_merges_within_words=None,
    )


def check_spec(spec: TokenizerSpec) -> None:
    """Check that the fields of a spec are consistent. The kernels rely on it.

    The result of merging two ordinary tokens must be spelled as their concatenation. Several merges may produce one
    token, and a merge may produce the token of a symbol, as in some files of Hugging Face. Merges with other tokens are
    not compared: in a byte model their bytes in the vocabulary can differ from the text they stand for.

    Raises:
        TypeError: for arrays of a wrong type or shape.
        ValueError: for ids that are not in the vocabulary, descending ranks, or a merge with the wrong result.

    """
    vocabulary = spec.vocabulary
    check_choice("model", spec.model, ("byte", "char"))
    if not isinstance(vocabulary, Vocabulary):
        raise TypeError(f"vocabulary is {describe(vocabulary)}; it must be a bpe.vocab.vocabulary.Vocabulary")
    _check_arrays(spec)
    is_ordinary = (vocabulary.kinds == ORDINARY).view(np.uint8)
    if spec.subword_prefix:
        is_ordinary = np.zeros_like(is_ordinary)  # the right part of a merge loses the prefix: the formats check it
    index = find_wrong_merge(
        np.ascontiguousarray(spec.merges),
        spec.merge_results,
        vocabulary.blob,
        np.ascontiguousarray(vocabulary.offsets),
        is_ordinary,
    )
    if index >= 0:
        (left, right), result = spec.merges[index].tolist(), int(spec.merge_results[index])
        raise ValueError(
            f"merge {index} of {short_repr(vocabulary[left])} and {short_repr(vocabulary[right])} produces token "
            f"{result}, {short_repr(vocabulary[result])}; it must produce the token "
            f"{short_repr(vocabulary[left] + vocabulary[right])}"
        )
    ranks = spec.merge_ranks
    if ranks is not None and len(ranks) and (ranks[0] < 0 or (ranks[1:] < ranks[:-1]).any()):
        raise ValueError(f"merge_ranks are {short_repr(ranks)}; they must be at least 0 and must not descend")
    check_merges_across_words(spec)
    check_events(spec)
    _check_names(spec)
    _check_ends(spec)
    _check_symbol_options(spec)


def _check_arrays(spec: TokenizerSpec) -> None:
    """Refuse arrays of a wrong type or shape, and ids in them that the vocabulary does not have."""
    vocabulary, n = spec.vocabulary, len(spec.merges)
    limit = vocabulary.limit
    for name, value, dtype, shape in (
        ("vocabulary.offsets", vocabulary.offsets, np.int64, (limit + 1,)),
        ("vocabulary.kinds", vocabulary.kinds, np.uint8, (limit,)),
        ("merges", spec.merges, np.int32, (n, 2)),
        ("merge_results", spec.merge_results, np.int32, (n,)),
        ("merge_ranks", spec.merge_ranks, np.int32, (n,)),
        ("ends_word", spec.ends_word, np.bool_, (limit,)),
        ("unmerged", spec.unmerged, np.int32, getattr(spec.unmerged, "shape", ())[:1]),
    ):
        if value is None and name in ("merge_ranks", "ends_word", "unmerged"):
            continue
        if not isinstance(value, np.ndarray) or value.dtype != dtype or value.shape != shape:
            description = f"{value.dtype} of shape {value.shape}" if isinstance(value, np.ndarray) else describe(value)
            raise TypeError(f"{name} is {description}; it must be an array of {np.dtype(dtype)} of shape {shape}")
    if type(vocabulary.blob) is not bytes:
        raise TypeError(f"vocabulary.blob is {describe(vocabulary.blob)}; it must be bytes")
    has_token = vocabulary.kinds != UNUSED
    first_gap = limit if has_token.all() else int(np.argmin(has_token))
    for name, ids in (
        ("a merge", spec.merges.ravel()),
        ("a merge", spec.merge_results),
        ("unmerged", spec.unmerged),
    ):
        if ids is None or ids.view(np.uint32).max(initial=0) < first_gap:  # negative ids are large ones
            continue
        is_in_range = (ids >= 0) & (ids < limit)
        unknown_ids = ids[~is_in_range] if not is_in_range.all() else ids[~has_token[ids]]
        if len(unknown_ids):
            raise ValueError(
                f"{name} has id {unknown_ids[0]}, which is not in the vocabulary; add a token with that id"
            )


def check_merges_across_words(spec: TokenizerSpec) -> None:
    """Check the merges across words of a tokenizer.

    Raises:
        ValueError: for a number of merges that there are not, settings that they cannot be used with, or a supertoken
            that two merges make, or that is used before it is made.

    """
    n_within_words = spec.n_merges_within_words
    if n_within_words is None:
        return
    if (
        isinstance(n_within_words, bool)
        or not isinstance(n_within_words, (int, np.integer))
        or not 0 <= n_within_words <= len(spec.merges)
    ):
        raise ValueError(
            f"n_merges_within_words (word_merges in files) is {short_repr(n_within_words)}; it must be from 0 to the "
            f"number of merges, {len(spec.merges)}, or None"
        )
    if spec.model != "byte" or spec.end_of_word is not None or spec.ignore_merges or spec.dropout or spec.drop_unknown:
        raise ValueError(
            "merges across words need a byte model without end_of_word, ignore_merges, dropout and drop_unknown; set "
            "n_merges_within_words to None, or leave these out"
        )
    if spec.merge_ranks is not None or spec.unk_token is not None:
        raise ValueError("merges across words need merges of different ranks and no unk_token; leave these out")
    pairs, results = spec.merges[n_within_words:], spec.merge_results[n_within_words:]
    if (spec.vocabulary.kinds[pairs] != ORDINARY).any() or (spec.vocabulary.kinds[results] != ORDINARY).any():
        raise ValueError("a merge across words has a special token; special tokens take part in no merge")
    indices = np.arange(len(results))
    # By supertoken: the first of these merges that makes it.
    first_merge = np.full(spec.vocabulary.limit, -1, dtype=np.int64)
    first_merge[results[::-1]] = indices[::-1]
    is_repeated = (first_merge[spec.merge_results[:n_within_words]] >= 0).any() or (
        first_merge[results] != indices
    ).any()
    if is_repeated or (first_merge[pairs] >= indices[:, None]).any():
        raise ValueError(
            "a merge across words makes a token that another merge makes too, or is made of a token of a later one; "
            "each must make a new token of earlier ones"
        )


def check_events(spec: TokenizerSpec) -> None:
    """Check the events of a PickyBPE tokenizer.

    Raises:
        TypeError: for events of another type.
        ValueError: for events that `follow_events` refuses, and settings that they cannot be used with.

    """
    if spec.events is None:
        return
    from bpe.vocab.events import Events, follow_events

    if not isinstance(spec.events, Events):
        raise TypeError(f"events is {describe(spec.events)}; it must be a bpe.vocab.events.Events or None")
    if spec.model != "byte" or spec.end_of_word is not None or spec.unk_token is not None or spec.drop_unknown:
        raise ValueError("PickyBPE needs a byte model without end_of_word, unk_token and drop_unknown; leave these out")
    if spec.ignore_merges or spec.dropout or spec.merge_ranks is not None or spec.n_merges_within_words is not None:
        raise ValueError(
            "PickyBPE has no ignore_merges, dropout, merge_ranks and n_merges_within_words; leave these out"
        )
    if len(spec.merges) or spec.clip is not None:
        raise ValueError("PickyBPE has its merges in events, and no clip; leave merges and clip empty")
    follow_events(spec.events, spec.vocabulary)


def limit_time(spec: TokenizerSpec, timeout: float | None, normalizer_timeout: float | None) -> TokenizerSpec:
    """Set the time limits of the regular expressions of a pretokenizer and a normalizer, in seconds.

    Raises:
        TypeError, ValueError: for anything but a number above 0, or None for the default.

    """
    from bpe.text.matching import check_timeout

    check_timeout(timeout)
    pretokenizer, normalizer = spec.pretokenizer, spec.normalizer
    return replace(
        spec,
        pretokenizer=None if pretokenizer is None else pretokenizer.with_timeout(timeout),
        normalizer=None if normalizer is None else normalizer.with_timeout(normalizer_timeout),
    )


def find_time_limits(spec: TokenizerSpec) -> tuple[float | None, float | None]:
    """Find the time limits of the pretokenizer and of the normalizer; of several steps, the longest."""
    from bpe.text.matching import BASE_SECONDS

    steps = [] if spec.normalizer is None else spec.normalizer.flat_steps()
    limits: list[float | None] = [step.timeout for step in steps if hasattr(step, "timeout")]
    longest = max(limits, key=lambda limit: BASE_SECONDS if limit is None else limit, default=None)
    return None if spec.pretokenizer is None else spec.pretokenizer.timeout, longest


def check_supported(spec: TokenizerSpec, operation: str, *, allow_across_words: bool = True) -> None:
    """Raise ValueError if `operation` is not defined for the tokenizer's kind of model.

    Always an error for PickyBPE; for BoundlessBPE unless `allow_across_words`.
    """
    if spec.n_merges_within_words is not None and not allow_across_words:
        raise ValueError(
            f"{operation} is defined for merges within words only, and this tokenizer has merges across words; "
            "`encode` and `tokens` give its result"
        )
    if spec.events is not None:
        raise ValueError(
            f"{operation} is not defined for a PickyBPE model, whose merges and deletions depend on each other; use a "
            "tokenizer that was trained without deletions"
        )


def _check_symbol_options(spec: TokenizerSpec) -> None:
    """Check the fields that say what symbols become."""
    if not isinstance(spec.byte_fallback, bool):
        raise TypeError(f"byte_fallback is {describe(spec.byte_fallback)}; it must be a bool")
    if not isinstance(spec.drop_unknown, bool) and spec.drop_unknown != AFTER_MERGING:
        raise TypeError(f"drop_unknown is {describe(spec.drop_unknown)}; it must be a bool, or {AFTER_MERGING!r}")
    if spec.subword_prefix is not None and (not isinstance(spec.subword_prefix, str) or not spec.subword_prefix):
        raise TypeError(
            f"subword_prefix is {describe(spec.subword_prefix)}; it must be a str of at least one character"
        )
    if (spec.byte_fallback or spec.subword_prefix) and spec.model != "char":
        raise ValueError(
            f"model is {spec.model!r}; byte_fallback and subword_prefix need a model of characters: pass 'char'"
        )
    if isinstance(spec.dropout, bool) or not isinstance(spec.dropout, (int, float)) or not 0 <= spec.dropout <= 1:
        raise ValueError(f"dropout is {short_repr(spec.dropout)}; it must be a number from 0 to 1")


def _check_ends(spec: TokenizerSpec) -> None:
    """Raise ValueError if `ends_word` names a token that does not end with the mark."""
    if spec.end_of_word is not None and spec.ends_word is None:
        raise ValueError(
            f"ends_word is None, but end_of_word is {spec.end_of_word!r}; it must say which tokens end with the mark"
        )
    if spec.end_of_word is None or spec.ends_word is None or not spec.ends_word.any():
        return
    marked_ids, mark = np.flatnonzero(spec.ends_word), np.frombuffer(spec.end_of_word.encode(), dtype=np.uint8)
    blob, ends = np.frombuffer(spec.vocabulary.blob, dtype=np.uint8), spec.vocabulary.offsets[1:][marked_ids]
    lacks_mark = ends - spec.vocabulary.offsets[marked_ids] < len(mark)
    if not lacks_mark.any():
        lacks_mark = (blob[ends[:, None] + np.arange(-len(mark), 0)] != mark).any(axis=1)
    if lacks_mark.any():
        token_id = int(marked_ids[lacks_mark][0])
        raise ValueError(
            f"ends_word has token {token_id}, {short_repr(spec.vocabulary[token_id])}, which does not end with the "
            f"end-of-word mark {spec.end_of_word!r}; it must be False there"
        )


def _check_names(spec: TokenizerSpec) -> None:
    """Check the types of the names, and that all ids are in the vocabulary."""
    for name, value in (("unk_token", spec.unk_token), ("end_of_word", spec.end_of_word)):
        if value is not None and (not isinstance(value, str) or not value):
            raise TypeError(f"{name} is {describe(value)}; it must be a str of at least one character, or None")
        check_unicode(name, value or "")
    used_ids = [*spec.special_tokens.values(), *(token_id for part in spec.template or () for token_id in part)]
    used_ids += spec.clip or ()
    unknown_ids = []
    if not set(map(type, used_ids)) <= {int} or (used_ids and not 0 <= min(used_ids) <= max(used_ids) < ID_LIMIT):
        unknown_ids = [
            token_id
            for token_id in used_ids
            if not isinstance(token_id, (int, np.integer)) or not 0 <= token_id < ID_LIMIT
        ]
    if not unknown_ids:
        ids = np.array(used_ids, dtype=np.int64)
        unknown_ids = ids[ids >= spec.vocabulary.limit].tolist() or ids[spec.vocabulary.kinds[ids] == UNUSED].tolist()
    if unknown_ids:
        raise ValueError(
            f"special_tokens, template or clip has the id {short_repr(unknown_ids[0])}, which is not in the "
            "vocabulary; add a token with that id"
        )
    for name in spec.token_flags:
        if name not in spec.special_tokens:
            raise ValueError(f"token_flags has {short_repr(name)}, which is no special token; add it, or leave it out")
    for role, token in spec.roles.items():
        check_choice("role", role, ROLES)
        if token not in spec.special_tokens:
            raise ValueError(f"{role} is {short_repr(token)}, which is no special token; add it, or leave the role out")
    for name, source in spec.chat_templates.items():
        if not isinstance(name, str) or not isinstance(source, str):
            raise TypeError(
                f"chat_templates has {short_repr(name)}: {short_repr(source)}; each must be a str, by a name"
            )
        check_unicode("the name of a chat template,", name)
        check_unicode(f"the chat template {short_repr(name)},", source)
