"""The options of `encode_shards`: checked before anything is written, and recorded in the journal and the manifest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpe.corpus.sources import Sources
from bpe.data.formats import FORMATS
from bpe.data.formats.protocol import ShardFormat
from bpe.data.splitting import check_fraction
from bpe.encode.engine import Around
from bpe.errors import check_choice, check_int, shown
from bpe.tokenizer import Tokenizer
from bpe.vocab.special_names import resolve_token
from bpe.vocab.special_tokens import Allowed, sort_names
from bpe.vocab.vocabulary import ORDINARY

#: The tokens after which a shard ends, if no other number is given: 512 MB of uint16.
SHARD_SIZE = 1 << 28

#: The value of `append` and `prepend` that leaves the choice to the format.
DEFAULT = "default"
#: The most shuffled shards.
MOST_SHUFFLED = 4096
#: How many bytes of text a token is assumed to have, to derive a number of shards.
_BYTES_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Options:
    """What determines the shards besides the sources and the tokenizer.

    Attributes:
        format: the format.
        around: the ids before and after each document.
        shard_size: the tokens after which a shard ends; None for one shard.
        shards: with `seed`, the number of shards, or None to derive it from the sources.
        seed: the seed of the shuffle; None for source order.
        validation: the fraction of documents for validation.
        part: (rank, world) of the part of the sources; None for all.
        allowed_special: the special tokens that become their ids in the text: "all", or their names in order.

    """

    format: ShardFormat
    around: Around
    shard_size: int | None
    shards: int | None
    seed: int | None
    validation: float
    part: tuple[int, int] | None
    allowed_special: str | tuple[str, ...]

    @classmethod
    def of(
        cls,
        kind: ShardFormat,
        around: Around,
        *,
        shard_size: object,
        shards: object,
        seed: object,
        validation: object,
        part: tuple[int, int] | None,
        allowed_special: Allowed,
    ) -> Options:
        """Check the other arguments of a call.

        Raises:
            TypeError, ValueError: for an argument that is invalid, or contradicts another.

        """
        if shards is not None and seed is None:
            raise ValueError(f"shards is {shards}, but the shards are not shuffled; pass seed=, or shard_size=")
        if shards is not None and shard_size is not None:
            raise ValueError(f"shards is {shards} and shard_size is {shard_size}; give at most one of them")
        single = shard_size is None and shards is None and kind.name == "nanogpt"
        size = None if single else SHARD_SIZE if shard_size is None else check_int("shard_size", shard_size, 1)
        return cls(
            kind,
            around,
            size,
            None if shards is None else check_int("shards", shards, 1, MOST_SHUFFLED),
            None if seed is None else check_int("seed", seed, 0),
            check_fraction(validation),
            part,
            sort_names(allowed_special),
        )

    @property
    def single(self) -> bool:
        """Whether each side is one shard, without a number in its name."""
        return self.shard_size is None

    def to_json(self) -> dict[str, Any]:
        """The options as the journal and the manifest have them."""
        before, after = self.around
        return {
            "format": self.format.name,
            "prepend": before,
            "append": after,
            "shard_size": self.shard_size,
            "shards": self.shards,
            "shuffle": self.seed,
            "validation": self.validation,
            "part": None if self.part is None else list(self.part),
            "allow_special": self.allowed_special == "all" or (list(self.allowed_special) or False),
        }


def chosen_format(name: object) -> ShardFormat:
    """The format of this name.

    Raises:
        ValueError: if there is none.

    """
    return FORMATS[check_choice("format", name, tuple(FORMATS))]


def part_of(rank: object, world: object) -> tuple[int, int] | None:
    """The arguments `rank` and `world`: the number of a part and the number of parts; None if both are."""
    if rank is world is None:
        return None
    if rank is None or world is None:
        given, other = ("world", "rank") if rank is None else ("rank", "world")
        raise ValueError(f"{given} is given without {other}; give both, such as rank=0, world=64 for the first of 64")
    n_parts = check_int("world", world, 1)
    return check_int("rank", rank, 0, n_parts - 1), n_parts


def around_of(tokenizer: Tokenizer, kind: ShardFormat, *, append: object, prepend: object) -> Around:
    """The ids before and after each document: those given, or else the end-of-text id where the format has it.

    The format decides if both arguments are "default"; if only one is, nothing stands there.

    Raises:
        ValueError: for a token that the tokenizer does not have; if the format has end-of-text ids by convention, none
            is given, and the tokenizer has no end-of-text token.

    """
    if not append == prepend == DEFAULT:
        given = (("prepend", prepend), ("append", append))
        before, after = (
            None if value == DEFAULT else resolve_token(tokenizer.spec, name, value) for name, value in given
        )
        return before, after
    if not any(kind.around):
        return None, None
    number = end_of_text(tokenizer)
    if number is None:
        known = list(tokenizer.special_tokens)
        has = f"its special tokens are {shown(known, 200)}" if known else "it has no special tokens"
        where = "before" if kind.around[0] else "after"
        raise ValueError(
            f"{kind.name} shards have an end-of-text id {where} each document, and this tokenizer has no such token "
            f"({has}); name one with append= or prepend=, or pass append=None to write none"
        )
    first, last = kind.around
    return number if first else None, number if last else None


def end_of_text(tokenizer: Tokenizer) -> int | None:
    """The id of the token that ends a text, by the rule of `Tokenizer.eos_token`; None if it is unknown.

    >>> import bpe
    >>> end_of_text(bpe.train(texts=["low"], vocab_size=257, special_tokens=["<|endoftext|>"]))
    0
    """
    name = tokenizer.eos_token
    return None if name is None else tokenizer.special_tokens[name]


def largest_id(tokenizer: Tokenizer, options_around: Around, allowed: frozenset[str]) -> int:
    """The largest id that encoding can give, with these ids around documents and these special tokens allowed."""
    spec = tokenizer.spec
    ordinary: NDArray[np.int64] = np.flatnonzero(spec.vocabulary.kinds == ORDINARY)
    special = [number for name, number in tokenizer.special_tokens.items() if name in allowed]
    if spec.unk_token is not None:
        special.append(tokenizer.token_id(spec.unk_token))
    special += [number for number in options_around if number is not None]
    return max([*special, int(ordinary[-1]) if len(ordinary) else 0])


def shard_count(shards: int | None, shard_size: int | None, sources: Sources) -> int:
    """The number of shuffled shards: as given, or one for each `shard_size` tokens, about.

    It must be known before the sources are read, so it comes from their sizes: a token is taken to be 4 bytes of text,
    and a byte of a compressed file or of Parquet to hold 4 bytes of text.
    """
    if shards is not None or shard_size is None:
        return shards or 1
    tokens = (sources.text_size or 0) // _BYTES_PER_TOKEN
    return min(max(-(-tokens // shard_size), 1), MOST_SHUFFLED)


def allowed_tokens(tokenizer: Tokenizer, allowed_special: Allowed) -> frozenset[str]:
    """The special tokens to find in texts: those that are allowed, and those that are found in every text."""
    return tokenizer._engine.specials.allowed(allowed_special)
