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
from bpe.tokenizer import Tokenizer, engine_of, text_encoder_of
from bpe.vocab.vocabulary import ORDINARY

#: The tokens after which a shard ends, if no other number is given: 512 MB of uint16.
SHARD_SIZE = 1 << 28

#: The most shuffled shards.
MOST_SHUFFLED = 4096
#: How many bytes of text a token is assumed to have, to derive a number of shards.
_BYTES_PER_TOKEN = 4

#: The names of an end-of-text token, in the order in which they are looked for.
END_OF_TEXT = (
    *("<|endoftext|>", "<|end_of_text|>", "</s>", "<|endofdocument|>", "<eos>", "<|eos|>", "<|eot|>", "<EOS>"),
    *("[EOS]", "<｜end▁of▁sentence｜>", "<|end|>"),
)


@dataclass(frozen=True, slots=True)
class Options:
    """What determines the shards besides the sources and the tokenizer.

    Attributes:
        format: the format.
        around: the ids before and after each document.
        shard_size: the tokens after which a shard ends; None for one shard.
        shards: with `shuffle`, the number of shards, or None to derive it from the sources.
        shuffle: the seed of the shuffle; None for source order.
        validation: the fraction of documents for validation.
        part: (number, count) of the part of the sources; None for all.
        allow_special: whether special tokens in the text become themselves.

    """

    format: ShardFormat
    around: Around
    shard_size: int | None
    shards: int | None
    shuffle: int | None
    validation: float
    part: tuple[int, int] | None
    allow_special: bool

    @classmethod
    def of(
        cls,
        kind: ShardFormat,
        around: Around,
        *,
        shard_size: object,
        shards: object,
        shuffle: object,
        validation: object,
        part: object,
        allow_special: bool,
    ) -> Options:
        """Check the other arguments of a call.

        Raises:
            TypeError, ValueError: for an argument that is invalid, or contradicts another.

        """
        if shards is not None and shuffle is None:
            raise ValueError(f"shards is {shards}, but the shards are not shuffled; pass shuffle=, or shard_size=")
        if shards is not None and shard_size is not None:
            raise ValueError(f"shards is {shards} and shard_size is {shard_size}; give at most one of them")
        single = shard_size is None and shards is None and kind.name == "nanogpt"
        size = None if single else SHARD_SIZE if shard_size is None else check_int("shard_size", shard_size, 1)
        return cls(
            kind,
            around,
            size,
            None if shards is None else check_int("shards", shards, 1, MOST_SHUFFLED),
            None if shuffle is None else check_int("shuffle", shuffle, 0),
            check_fraction(validation),
            _part(part),
            bool(allow_special),
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
            "shuffle": self.shuffle,
            "validation": self.validation,
            "part": None if self.part is None else list(self.part),
            "allow_special": self.allow_special,
        }


def chosen_format(name: object) -> ShardFormat:
    """The format of this name.

    Raises:
        ValueError: if there is none.

    """
    return FORMATS[check_choice("format", name, tuple(FORMATS))]


def _part(part: object) -> tuple[int, int] | None:
    """The argument `part` as (number, count)."""
    if part is None:
        return None
    if not isinstance(part, (tuple, list)) or len(part) != 2:
        raise TypeError(f"part is {shown(part)}; it must be (number, count), such as (0, 64) for the first of 64")
    count = check_int("the count of part", part[1], 1)
    return check_int("the number of part", part[0], 0, count - 1), count


def around_of(tokenizer: Tokenizer, kind: ShardFormat, *, append: object, prepend: object) -> Around:
    """The ids before and after each document: those given, or else the end-of-text id where the format has it.

    Raises:
        ValueError: for a token that the tokenizer does not have; if the format has end-of-text ids by convention, none
            is given, and the tokenizer has no end-of-text token.

    """
    encoder = text_encoder_of(tokenizer)
    if append is not None or prepend is not None:
        given = (("prepend", prepend), ("append", append))
        before, after = (None if value == "" else encoder.named_id(name, value) for name, value in given)
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
            f"({has}); name one with append= or prepend=, or pass append='' to write none"
        )
    first, last = kind.around
    return number if first else None, number if last else None


def end_of_text(tokenizer: Tokenizer) -> int | None:
    """The id of the tokenizer's end-of-text token: the first special token of `END_OF_TEXT` that it has; else None.

    >>> import bpe
    >>> end_of_text(bpe.train(texts=["low"], vocab_size=257, special_tokens=["<|endoftext|>"]))
    0
    """
    special = tokenizer.special_tokens
    return next((special[name] for name in END_OF_TEXT if name in special), None)


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


def allowed_tokens(tokenizer: Tokenizer, allow_special: bool) -> frozenset[str]:
    """The special tokens to find in texts."""
    return frozenset(tokenizer.special_tokens) if allow_special else engine_of(tokenizer).specials.always
