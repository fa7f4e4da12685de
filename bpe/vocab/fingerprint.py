"""The fingerprint of a tokenizer: a hash of everything that determines its ids."""

from __future__ import annotations

import hashlib
import json

from bpe.vocab.decoding import to_json
from bpe.vocab.spec import TokenizerSpec


def fingerprint(spec: TokenizerSpec) -> str:
    """The SHA-256, in hex, of everything that determines the ids. It is the same on every machine."""
    digest = hashlib.sha256()
    settings: dict[str, object] = {
        "model": spec.model,
        "pretokenizer": None if spec.pretokenizer is None else spec.pretokenizer.to_json(),
        "normalizer": None if spec.normalizer is None else spec.normalizer.to_json(),
        "special_tokens": sorted(spec.special_tokens.items()),
        "unk_token": spec.unk_token,
        "fuse_unk": spec.fuse_unk,
        "end_of_word": spec.end_of_word,
        "end_of_word_glued": spec.end_of_word_glued,
        "ignore_merges": spec.ignore_merges,
        "clip": spec.clip,
    }
    if spec.token_flags:
        settings["token_flags"] = sorted((name, sorted(flags)) for name, flags in spec.token_flags.items())
    if spec.template is not None:
        settings["template"] = spec.template
    for name, default in (
        ("byte_fallback", False), ("drop_unknown", False), ("subword_prefix", None),
        ("dropout", 0.0), ("word_merges", None),
    ):  # fmt: skip
        if getattr(spec, name) != default:
            settings[name] = getattr(spec, name)
    if spec.decoder is not None:
        settings["decoder"] = [to_json(step) for step in spec.decoder]
    digest.update(json.dumps(settings, sort_keys=True).encode())
    ends_word = b"" if spec.ends_word is None else spec.ends_word.tobytes()
    ranks = b"" if spec.merge_ranks is None else spec.merge_ranks.astype("<i4").tobytes()
    for part in (
        spec.vocabulary.blob,
        spec.vocabulary.offsets.astype("<i8").tobytes(),
        spec.vocabulary.kinds.tobytes(),
        spec.merges.astype("<i4").tobytes(),
        spec.merge_results.astype("<i4").tobytes(),
        ranks,
        ends_word,
        *(() if spec.events is None else (spec.events.tobytes(),)),
    ):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()
