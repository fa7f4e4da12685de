"""`Seeds`: tokens that a training starts with, before it learns any from the corpus, and `train_seeded`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from bpe.count.word_counts import WordCounts
from bpe.errors import ID_LIMIT, describe, pluralize, short_repr
from bpe.text.character_sets import compile_char_class
from bpe.tokenizer import Tokenizer
from bpe.training.checkpoint import Checkpoint
from bpe.training.config import CorpusOptions, TrainConfig
from bpe.training.extend import continue_merges
from bpe.training.job import LearnedMerges, TrainingJob
from bpe.training.kernel_input import build_words, list_digit_codes
from bpe.training.superwords import SuperWords
from bpe.training.train import train_plain_or_superwords
from bpe.training.trainer import learn_merges, make_initial_spec
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.vocabulary import ORDINARY, SPECIAL, Vocabulary

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: The count of a merge that goes before every merge that is learned.
SEED_COUNT = ID_LIMIT << 31
#: A token as the caller gives it.
TokenLike = str | bytes


@dataclass(frozen=True)
class Seeds:
    """Tokens that a vocabulary is to have, whether or not the corpus has them, for `bpe.research.train_seeded`.

    They take the first ids after the alphabet: one for each of `merges`, in their order, then those of `tokens`.
    Training goes on from there, and counts pairs in the corpus as these merges leave it.

    Attributes:
        merges: pairs (left, right) of tokens to merge first, in this order. Each of the two is a symbol of the alphabet
            or the result of an earlier pair.
        tokens: tokens to make, in this order. A token is divided by the merges so far; the first two parts become a
            token, again and again until one is left. So a token of n parts takes n - 1 ids, fewer where parts repeat,
            and none if it exists already.

    Tokens are bytes or str; in a byte model a str stands for its UTF-8. In a model with an end-of-word mark, a token
    that ends with the mark is one at the end of words.

    Raises:
        TypeError, ValueError: for other values than these. Training raises ValueError for symbols outside the
            alphabet, a token that is spelled as a special token, a pair whose token exists already or that the merges
            before it never leave side by side, and more tokens than `vocab_size` has room for.

    >>> import bpe
    >>> seeds = bpe.research.Seeds(merges=[("l", "o"), ("lo", "w")], tokens=["new"])
    >>> tok = bpe.research.train_seeded(seeds, texts=["wider widest"], vocab_size=261)
    >>> tok.tokens("lower newest"), [*tok.vocab()][256:]
    ([b'low', b'e', b'r', b' ', b'new', b'e', b's', b't'], [b'lo', b'low', b'ne', b'new', b'de'])

    """

    merges: tuple[tuple[TokenLike, TokenLike], ...] = ()
    tokens: tuple[TokenLike, ...] = ()

    def __post_init__(self) -> None:
        for name, item_type in (("merges", "pairs (left, right) of str or bytes"), ("tokens", "str or bytes")):
            value: Any = getattr(self, name)
            if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
                raise TypeError(f"{name} is {describe(value)}; it must be a list of {item_type}")
            object.__setattr__(self, name, tuple(value))
        pairs: tuple[Any, ...] = self.merges
        for pair in pairs:
            if isinstance(pair, (str, bytes)) or not isinstance(pair, Iterable) or len(tuple(pair)) != 2:
                raise ValueError(f"merges has {short_repr(pair)}; each must be a pair (left, right) of str or bytes")
        object.__setattr__(self, "merges", tuple(tuple(pair) for pair in pairs))
        for token in (*self.tokens, *(token for pair in self.merges for token in pair)):
            if not isinstance(token, (str, bytes)) or not token:
                raise ValueError(f"the seeds have {short_repr(token)}; a token must be a str or bytes and not empty")

    def to_json(self) -> dict[str, Any]:
        """Return what determines the result, as name → JSON value."""
        return {
            "merges": [[_to_latin1(left), _to_latin1(right)] for left, right in self.merges],
            "tokens": [_to_latin1(token) for token in self.tokens],
        }


@overload
def train_seeded(
    seeds: Seeds | None,
    *,
    vocab_size: int | None = None,
    superwords: SuperWords | None = None,
    **options: Unpack[CorpusOptions],
) -> Tokenizer: ...
@overload
def train_seeded(
    seeds: Seeds | None,
    *,
    vocab_size: Sequence[int],
    superwords: SuperWords | None = None,
    **options: Unpack[CorpusOptions],
) -> list[Tokenizer]: ...
def train_seeded(
    seeds: Seeds | None,
    *,
    vocab_size: int | Sequence[int] | None = None,
    superwords: SuperWords | None = None,
    **options: Unpack[CorpusOptions],
) -> Tokenizer | list[Tokenizer]:
    """Train a vocabulary that begins with given tokens.

    Args:
        seeds: the tokens; None for plain training.
        vocab_size: the number of tokens of the result, or a list of such numbers.
        superwords: as for `bpe.train`; seeds are tokens of the first stage.
        options: as for `bpe.train`; `num_merges` includes the seeds.

    Returns:
        A tokenizer, or one of each size.

    Raises:
        TypeError, ValueError, FormatError, OSError: as `bpe.train` and `Seeds`.

    """
    config = TrainConfig(vocab_size=vocab_size, **options)
    return make_seeded_job(config, seeds).run(partial(train_plain_or_superwords, superwords))


def make_seeded_job(config: TrainConfig, seeds: Seeds | None) -> TrainingJob:
    """Make a training that begins with seeds, if there are any."""
    if seeds is None:
        return TrainingJob(config, learn_merges)
    if not isinstance(seeds, Seeds):
        raise TypeError(f"seeds is {describe(seeds)}; it must be a bpe.research.Seeds or None")
    return TrainingJob(config, partial(_learn_after_seeds, seeds), {"seeds": seeds.to_json()})


def _learn_after_seeds(
    seeds: Seeds, job: TrainingJob, counts: WordCounts, config: TrainConfig, checkpoint: Checkpoint | None
) -> LearnedMerges:
    """Learn merges after the seeds, whose merges have the count SEED_COUNT; otherwise as `learn_merges`."""
    spec, config = begin_with_seeds(seeds, make_initial_spec(counts, [build_words(counts, config)], config), config)
    n_seeds = len(spec.merges)
    learned = continue_merges(job, counts, spec, config, checkpoint)
    merge_counts = np.concatenate((np.full(n_seeds, SEED_COUNT), learned.merge_counts))
    return LearnedMerges(learned.spec, learned.record.after(n_seeds), merge_counts)


def begin_with_seeds(
    seeds: Seeds | None, spec: TokenizerSpec, config: TrainConfig
) -> tuple[TokenizerSpec, TrainConfig]:
    """Add the seeds to a spec without merges: (the spec, the config with its final vocab_size)."""
    seeded_spec = spec if seeds is None else add_seeds(spec, seeds, config)
    vocab_size = config.vocab_size
    if config.num_merges is not None:
        vocab_size = min(len(spec.vocabulary) + config.num_merges, ID_LIMIT - config.alphabet.first_id)
    return seeded_spec, replace(config, vocab_size=vocab_size, num_merges=None)


def add_seeds(spec: TokenizerSpec, seeds: Seeds, config: TrainConfig) -> TokenizerSpec:
    """Add the merges of the seeds to a tokenizer without merges.

    Raises:
        ValueError: for seeds that cannot be made, as `Seeds` says.

    """
    merger = _SeedMerger(spec, config)
    for left, right in seeds.merges:
        merger.merge_pair(as_bytes(left), as_bytes(right))
    for token in seeds.tokens:
        merger.make_token(as_bytes(token))
    vocabulary, ids = spec.vocabulary, merger.ids
    new_tokens = [(ids[left + right], left + right) for left, right in merger.ranks]
    if config.vocab_size is not None and len(vocabulary) + len(new_tokens) > min(
        (config.vocab_size, *config.vocab_sizes)
    ):
        raise ValueError(
            f"the seeds make {pluralize(len(new_tokens), 'token')}, beside "
            f"{pluralize(len(vocabulary), 'initial token')}; vocab_size must be at least "
            f"{len(vocabulary) + len(new_tokens)}"
        )
    if config.num_merges is not None and len(new_tokens) > config.num_merges:
        raise ValueError(f"the seeds make {pluralize(len(new_tokens), 'merge')}; num_merges must be at least that")
    merges = np.array([(ids[left], ids[right]) for left, right in merger.ranks], dtype=np.int32).reshape(-1, 2)
    seeded = replace(
        spec,
        vocabulary=Vocabulary([*vocabulary.items(ORDINARY), *new_tokens], vocabulary.items(SPECIAL)),
        merges=merges,
        merge_results=np.array([token_id for token_id, _ in new_tokens], dtype=np.int32),
    )
    if spec.ends_word is None:
        return seeded
    ends = [*spec.ends_word.tolist(), *(merger.ends_word(token) for _, token in new_tokens)]
    return replace(seeded, ends_word=np.array(ends, dtype=np.bool_))


class _SeedMerger:
    """Makes the tokens of seeds, one merge at a time.

    Attributes:
        ids: the id of each token by its bytes, which include an end-of-word mark.
        ranks: pair of tokens → rank, of the merges so far.

    """

    def __init__(self, spec: TokenizerSpec, config: TrainConfig) -> None:
        self.ids = {token: token_id for token_id, token in spec.vocabulary.items(ORDINARY)}
        self.ranks: dict[tuple[bytes, bytes], int] = {}
        self._is_char_model = config.is_char_model
        self._mark = None if config.end_of_word is None else config.end_of_word.encode()
        self._mark_is_glued = config.end_of_word_glued
        self._names = {name.encode() for name in config.reserved_names}
        self._digits = {chr(code) for code in list_digit_codes(config)}
        self._isolated_chars = compile_char_class("NUMERIC") if config.isolates_digits else None
        self._next_id = spec.vocabulary.limit

    def ends_word(self, token: bytes) -> bool:
        """Whether a token ends with the end-of-word mark."""
        return self._mark is not None and token.endswith(self._mark)

    def split_into_symbols(self, token: bytes) -> list[bytes]:
        """Split a token into its symbols."""
        has_mark = self.ends_word(token)
        text = token[: -len(self._mark)] if has_mark and self._mark is not None else token
        try:
            symbols = (
                [char.encode() for char in text.decode()] if self._is_char_model else [bytes([byte]) for byte in text]
            )
        except UnicodeDecodeError as error:
            raise ValueError(
                f"the seed {token!r} is not UTF-8, as the tokens of a character model are: {error}"
            ) from None
        if has_mark and self._mark is not None:
            if self._mark_is_glued and symbols:
                symbols[-1] += self._mark
            else:
                symbols.append(self._mark)
        return symbols

    def find_parts(self, token: bytes) -> list[bytes]:
        """Find the tokens that the merges so far make of a token's symbols."""
        parts = self.split_into_symbols(token)
        while len(parts) > 1:
            pair = min(pairwise(parts), key=lambda pair: self.ranks.get(pair, len(self.ranks)))
            if pair not in self.ranks:
                break
            parts = _merge_in_list(parts, pair)
        return parts

    def make_token(self, token: bytes) -> None:
        """Make a token from the parts that the merges so far leave of it, from left to right."""
        self._check_token(token)
        parts = self.find_parts(token)
        while len(parts) > 1:
            self._add_merge(parts[0], parts[1])
            parts = self.find_parts(token)

    def merge_pair(self, left: bytes, right: bytes) -> None:
        """Make the token of a pair."""
        token = left + right
        merge = f"the seed merge of {self._quote(left)} and {self._quote(right)}"
        for part in (left, right):
            if part not in self.ids:
                raise ValueError(
                    f"{merge} cannot be made: {self._quote(part)} is neither a symbol of the alphabet nor the result "
                    "of an earlier merge; put its merge before this one"
                )
        if token in self.ids:
            raise ValueError(f"{merge} makes {self._quote(token)}, which is a token already; leave it out")
        self._check_token(token)
        parts = self.find_parts(token)
        if parts != [left, right]:
            raise ValueError(
                f"{merge} is never made: the merges before it divide {self._quote(token)} into "
                f"{', '.join(map(self._quote, parts))}; leave it out or change the order"
            )
        self._add_merge(left, right)

    def _add_merge(self, left: bytes, right: bytes) -> None:
        if left + right in self._names or left + right in self.ids:
            raise ValueError(
                f"a seed needs the token {self._quote(left + right)} as a part, which exists already; leave it out"
            )
        self.ranks[left, right] = len(self.ranks)
        self.ids[left + right] = self._next_id
        self._next_id += 1

    def _check_token(self, token: bytes) -> None:
        """Raise ValueError for a token that no merge may make."""
        if token in self._names:
            raise ValueError(f"the seed {self._quote(token)} is a special token; leave it out")
        unknown = next((symbol for symbol in self.split_into_symbols(token) if symbol not in self.ids), None)
        if unknown is not None:
            raise ValueError(
                f"the seed {self._quote(token)} has {self._quote(unknown)}, which is not in the alphabet; add it to "
                "alphabet=bpe.Alphabet(initial=...), or leave the seed out"
            )
        text = token.decode(errors="ignore")
        if any(char in self._digits for char in text) or (
            self._isolated_chars and len(text) > 1 and self._isolated_chars.search(text)
        ):
            raise ValueError(f"the seed {self._quote(token)} has a digit, which split_digits keeps apart; leave it out")

    def _quote(self, token: bytes) -> str:
        return repr(token.decode(errors="replace") if self._is_char_model else token)


def _merge_in_list(parts: list[bytes], pair: tuple[bytes, bytes]) -> list[bytes]:
    """Merge every occurrence of a pair in a list of tokens, from left to right."""
    merged: list[bytes] = []
    i = 0
    while i < len(parts):
        if tuple(parts[i : i + 2]) == pair:
            merged.append(parts[i] + parts[i + 1])
            i += 2
        else:
            merged.append(parts[i])
            i += 1
    return merged


def as_bytes(token: TokenLike) -> bytes:
    """Convert a token that the caller gave to bytes."""
    return token.encode() if isinstance(token, str) else token


def _to_latin1(token: TokenLike) -> str:
    return as_bytes(token).decode("latin-1")
