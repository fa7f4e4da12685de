"""The plan of `encode_shards`: its options, checked before anything is written. The journal records them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpe._names import MAX_SHUFFLED_SHARDS
from bpe.corpus.sources import Sources
from bpe.data.formats.shard_format import ShardFormat
from bpe.encode.engine import BosEos
from bpe.errors import check_int, short_repr
from bpe.tokenizer import Tokenizer
from bpe.vocab.special_names import resolve_token
from bpe.vocab.vocabulary import ORDINARY

#: The tokens after which a shard ends, if no other number is given: 512 MB of uint16.
DEFAULT_SHARD_SIZE = 1 << 28

#: The names of the splits.
TRAIN, VALIDATION = "train", "val"
#: The most shards: their names have five digits, so that sorting names gives their order.
MAX_ORDERED_SHARDS = 100_000
#: How many bytes of text a token is assumed to have, to derive a number of shards.
_BYTES_PER_TOKEN = 4


class FormatChoice(Enum):
    """The default of `append` and `prepend`, which is no str: a special token may have any name."""

    DEFAULT = "the format's default"


#: The value of `append` and `prepend` that leaves the choice to the format.
DEFAULT = FormatChoice.DEFAULT


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """What determines the shards besides the sources, and where they go.

    Attributes:
        folder: the output folder.
        format: the format.
        dtype: the type of the ids.
        fingerprint: the fingerprint of the tokenizer.
        bos_eos: the ids before and after each document.
        allowed: the special tokens that become their ids in text, and those that always do.
        allowed_special: the argument: "all", or names in order.
        shard_size: the tokens after which a shard ends; None for one shard.
        shards: with `seed`, the number of shards, or None to derive it from the sources.
        seed: the seed of the shuffle; None for source order.
        validation: the fraction of documents for validation.
        part: (rank, world) of the part of the sources; None for all.

    """

    folder: Path
    format: ShardFormat
    dtype: np.dtype[Any]
    fingerprint: str
    bos_eos: BosEos
    allowed: frozenset[str]
    allowed_special: str | tuple[str, ...]
    shard_size: int | None
    shards: int | None
    seed: int | None
    validation: float
    part: tuple[int, int] | None

    @property
    def splits(self) -> tuple[str | None, ...]:
        """The splits, or None for an undivided corpus, in the order in which their shards are finished."""
        return (TRAIN, VALIDATION) if self.validation > 0 else (None,)

    def make_stem(self, split: str | None, index: int) -> str:
        """Make the beginning of the names of a shard's files."""
        if self.shard_size is None:
            return split or TRAIN
        if index >= MAX_ORDERED_SHARDS:
            raise ValueError(f"the output has more than {MAX_ORDERED_SHARDS} shards; choose a larger shard_size")
        return f"{split or 'tokens'}-{index:05}"

    def count_shards(self, sources: Sources) -> int:
        """Count the shuffled shards."""
        return count_shards(self.shards, self.shard_size, sources)

    def to_json(self) -> dict[str, Any]:
        """Return the options as the journal and the manifest have them."""
        bos_id, eos_id = self.bos_eos
        return {
            "format": self.format.name,
            "prepend": bos_id,
            "append": eos_id,
            "shard_size": self.shard_size,
            "shards": self.shards,
            "shuffle": self.seed,
            "validation": self.validation,
            "part": None if self.part is None else list(self.part),
            "allow_special": self.allowed_special == "all" or (list(self.allowed_special) or False),
        }


def check_sizes(
    shard_format: ShardFormat, shard_size: object, shards: object, seed: int | None
) -> tuple[int | None, int | None]:
    """Check the arguments `shard_size` and `shards`.

    Raises:
        TypeError, ValueError: for an argument that is invalid, or contradicts another.

    """
    if shards is not None and seed is None:
        raise ValueError(f"shards is {short_repr(shards)}, but the shards are not shuffled; pass seed=, or shard_size=")
    if shards is not None and shard_size is not None:
        both = f"shards is {short_repr(shards)} and shard_size is {short_repr(shard_size)}"
        raise ValueError(f"{both}; give at most one of them")
    if shards is not None:
        return DEFAULT_SHARD_SIZE, check_int("shards", shards, 1, MAX_SHUFFLED_SHARDS)
    if shard_size is not None:
        return check_int("shard_size", shard_size, 1), None
    return None if shard_format.name == "nanogpt" else DEFAULT_SHARD_SIZE, None


def check_part(rank: object, world: object) -> tuple[int, int] | None:
    """Check the arguments `rank` and `world`: the number of a part and the number of parts; None if both are."""
    if rank is None and world is None:
        return None
    if rank is None or world is None:
        given_name, missing_name = ("world", "rank") if rank is None else ("rank", "world")
        raise ValueError(
            f"{given_name} is given without {missing_name}; give both, such as rank=0, world=64 for the first of 64"
        )
    n_parts = check_int("world", world, 1)
    return check_int("rank", rank, 0, n_parts - 1), n_parts


def find_bos_eos(tokenizer: Tokenizer, shard_format: ShardFormat, prepend: object, append: object) -> BosEos:
    """Find the ids before and after each document: those given, or else the end-of-text id where the format has it.

    The format decides if both arguments are DEFAULT; if only one is, nothing stands there.

    Raises:
        ValueError: for a token that the tokenizer does not have; if the format has end-of-text ids by convention, none
            is given, and the tokenizer has no end-of-text token.

    """
    if append is not DEFAULT or prepend is not DEFAULT:
        arguments = (("prepend", prepend), ("append", append))
        bos_id, eos_id = (
            None if value is DEFAULT else resolve_token(tokenizer.spec, name, value) for name, value in arguments
        )
        return bos_id, eos_id
    if not any(shard_format.end_of_text_sides):
        return None, None
    token_id = find_end_of_text(tokenizer)
    if token_id is None:
        special_names = list(tokenizer.special_tokens)
        token_list = (
            f"its special tokens are {short_repr(special_names, 200)}" if special_names else "it has no special tokens"
        )
        position = "before" if shard_format.end_of_text_sides[0] else "after"
        raise ValueError(
            f"{shard_format.name} shards have an end-of-text id {position} each document, and this tokenizer has no "
            f"such token ({token_list}); name one with append= or prepend=, or pass append=None to write none"
        )
    has_id_before, has_id_after = shard_format.end_of_text_sides
    return token_id if has_id_before else None, token_id if has_id_after else None


def find_end_of_text(tokenizer: Tokenizer) -> int | None:
    """Find the id of the token that ends a text, by the rule of `Tokenizer.eos_token`; None if it is unknown.

    >>> import bpe
    >>> find_end_of_text(bpe.train(texts=["low"], vocab_size=257, special_tokens=["<|endoftext|>"]))
    0
    """
    name = tokenizer.eos_token
    return None if name is None else tokenizer.special_tokens[name]


def find_largest_id(tokenizer: Tokenizer, bos_eos: BosEos, allowed: frozenset[str]) -> int:
    """Find the largest id that encoding can give, with these ids around documents and these special tokens allowed."""
    spec = tokenizer.spec
    ordinary_ids: NDArray[np.int64] = np.flatnonzero(spec.vocabulary.kinds == ORDINARY)
    special_ids = [token_id for name, token_id in tokenizer.special_tokens.items() if name in allowed]
    if spec.unk_token is not None:
        special_ids.append(tokenizer.token_id(spec.unk_token))
    special_ids += [token_id for token_id in bos_eos if token_id is not None]
    return max([*special_ids, int(ordinary_ids[-1]) if len(ordinary_ids) else 0])


def count_shards(shards: int | None, shard_size: int | None, sources: Sources) -> int:
    """Count the shuffled shards: `shards` if given, or about one for each `shard_size` tokens.

    It must be known before the sources are read, so it comes from their sizes: a token is taken to be 4 bytes of text,
    and a byte of a compressed file or of Parquet to hold 4 bytes of text.
    """
    if shards is not None or shard_size is None:
        return shards or 1
    tokens = (sources.text_size or 0) // _BYTES_PER_TOKEN
    return min(max(-(-tokens // shard_size), 1), MAX_SHUFFLED_SHARDS)


def check_fraction(fraction: object) -> float:
    """Check the argument `validation`, and return it as a float from 0 to 1."""
    if isinstance(fraction, bool) or not isinstance(fraction, (int, float)):
        raise TypeError(f"validation is {short_repr(fraction)}; it must be a number from 0 to 1, such as 0.001")
    if not 0 <= fraction <= 1:  # also refuses NaN
        raise ValueError(f"validation is {fraction}; it must be from 0 to 1: the fraction of documents, such as 0.001")
    return float(fraction)
