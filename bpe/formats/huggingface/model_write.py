"""The settings of the model as a tokenizer.json has them."""

from __future__ import annotations

from typing import Any

from bpe.formats.huggingface.events import write_events
from bpe.formats.huggingface.expressible import has_all_bytes
from bpe.formats.huggingface.model import BOUNDLESS, PICKY
from bpe.formats.huggingface.spelling import odd_ends
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.symbols import unk_id
from bpe.vocab.vocabulary import AFTER_MERGING


def write_model(spec: TokenizerSpec, mark: str | None) -> dict[str, Any]:
    """The settings of a model that `tokenizers` can express."""
    return {
        "type": "BPE",
        "dropout": spec.dropout or None,
        "unk_token": spec.unk_token,
        "continuing_subword_prefix": spec.subword_prefix,
        "end_of_word_suffix": mark,
        "fuse_unk": spec.fuse_unk,
        "byte_fallback": spec.byte_fallback,
        "ignore_merges": spec.ignore_merges,
        **({"unknown_symbols": "error"} if raises_unknown(spec) else {}),
    }


def raises_unknown(spec: TokenizerSpec) -> bool:
    """Whether a symbol without a token raises an error, where `tokenizers` leaves it out and ignores this field."""
    return spec.unk_token is None and not spec.drop_unknown and not has_all_bytes(spec)


def write_own_model(spec: TokenizerSpec) -> dict[str, Any]:
    """The fields of an own model, such as `bpe.BPE`. Its vocab has no special tokens and no unknown token.

    Raises:
        ValueError: for a tokenizer with a subword prefix.

    """
    if spec.subword_prefix:
        raise ValueError(
            f"the tokenizer has the subword prefix {spec.subword_prefix!r}; a tokenizer.json cannot hold that together "
            "with settings that `tokenizers` lacks"
        )
    return {
        "type": PICKY if spec.events is not None else "bpe.BPE" if spec.word_merges is None else BOUNDLESS,
        "unk_token": spec.unk_token,
        "unk_id": None if spec.unk_token is None else unk_id(spec),
        "fuse_unk": spec.fuse_unk,
        **({"byte_fallback": True} if spec.byte_fallback else {}),
        **({"dropout": spec.dropout} if spec.dropout else {}),
        **({"unknown_symbols": "drop"} if spec.drop_unknown is True else {}),
        **({"unknown_symbols": f"drop {AFTER_MERGING}"} if spec.drop_unknown == AFTER_MERGING else {}),
        "ignore_merges": spec.ignore_merges,
        "end_of_word": spec.end_of_word,
        "end_of_word_glued": spec.end_of_word_glued,
        "ends_word": odd_ends(spec),
        "clip": None if spec.clip is None else list(spec.clip),
        **({} if spec.word_merges is None else {"word_merges": int(spec.word_merges)}),
        **({} if spec.events is None else {"events": write_events(spec.events, spec.vocabulary)}),
        "merge_ranks": None if spec.merge_ranks is None else spec.merge_ranks.tolist(),
    }
