"""The settings of the model as a tokenizer.json has them."""

from __future__ import annotations

from typing import Any

from bpe.formats.huggingface.spelling import odd_ends
from bpe.vocab.spec import TokenizerSpec


def write_model(spec: TokenizerSpec, mark: str | None) -> dict[str, Any]:
    """The settings of a model that `tokenizers` can express."""
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": spec.unk_token,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": mark,
        "fuse_unk": spec.fuse_unk,
        "byte_fallback": False,
        "ignore_merges": spec.ignore_merges,
    }


def write_own_model(spec: TokenizerSpec, special: dict[int, str]) -> dict[str, Any]:
    """The fields of model `bpe.BPE`. Its vocab has no special tokens and no unknown token."""
    return {
        "type": "bpe.BPE",
        "unk_token": spec.unk_token,
        "unk_id": next((number for number, name in special.items() if name == spec.unk_token), None),
        "fuse_unk": spec.fuse_unk,
        "ignore_merges": spec.ignore_merges,
        "end_of_word": spec.end_of_word,
        "end_of_word_glued": spec.end_of_word_glued,
        "ends_word": odd_ends(spec),
        "clip": None if spec.clip is None else list(spec.clip),
        "merge_ranks": None if spec.merge_ranks is None else spec.merge_ranks.tolist(),
    }
