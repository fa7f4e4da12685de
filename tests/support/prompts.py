"""Random edits of prompts: a PromptCache beside fresh calls of `encode`, for tests and `check_prompts.py`."""

from __future__ import annotations

import random
from collections.abc import Sequence
from unittest import mock

import bpe
from bpe import prompts
from bpe.errors import short_repr

MAX_CHARS = 400
#: One window, and about one block; few; many.
MAX_BYTES = (0, 2000, 20_000, "64M")


def edit(rng: random.Random, text: str, pieces: Sequence[str]) -> str:
    """A text that begins as another one does: more at the end, or a part replaced, repeated or removed."""
    kind = rng.randrange(8)
    new = "".join(rng.choices(pieces, k=rng.randint(1, 30)))
    if kind < 4 and len(text) < MAX_CHARS:
        return text + new
    start = rng.randint(0, len(text))
    end = min(start + rng.choice([0, 1, 2, 10, MAX_CHARS]), len(text))
    return text[:start] + (new if kind < 6 else text[start:end] * (kind == 6)) + text[end:]


def find_difference(rng: random.Random, tok: bpe.Tokenizer, pieces: Sequence[str], n_edits: int) -> str | None:
    """Edit texts at random, and describe the first result of a cache that is not that of a fresh call."""
    window, searched = rng.choice([1, 4, 16, 64]), rng.choice([8, 512])
    with mock.patch.object(prompts, "MIN_WINDOW_BYTES", window), mock.patch.object(prompts, "SEARCH_BYTES", searched):
        return _find_difference(rng, tok, pieces, n_edits)


def _find_difference(rng: random.Random, tok: bpe.Tokenizer, pieces: Sequence[str], n_edits: int) -> str | None:
    allowed = rng.choice(["all", "all", "all", ()])
    template = rng.random() < 0.3
    cache = bpe.PromptCache(tok, max_bytes=rng.choice(MAX_BYTES), allowed_special=allowed, template=template)
    texts, earlier_ids = [""], set[tuple[int, ...]]()
    for _ in range(n_edits):
        text = edit(rng, rng.choice(texts[-3:] if rng.random() < 0.8 else texts), pieces)
        texts.append(text)
        data = text.encode("utf-8", "surrogatepass") if rng.random() < 0.1 else text
        try:
            expected = tok.encode(data, allowed_special=allowed, template=template).tolist()
        except ValueError as error:
            expected = str(error)
        try:
            array, n_kept = cache.encode(data)
        except ValueError as error:
            if expected != str(error):
                return f"{error} and not {expected}, for {data!r}"
            continue
        ids = array.tolist()
        if ids != expected:
            return f"{ids} and not {expected}, for {data!r} after {texts!r}, {allowed=}"
        start = tuple(ids[:n_kept])
        if n_kept and not any(earlier[:n_kept] == start for earlier in earlier_ids):
            return f"{n_kept} ids kept of {ids}, for {data!r} after {texts!r}"
        earlier_ids.add(tuple(ids))
        if cache.n_bytes > cache.max_bytes:
            return f"{cache.n_bytes} bytes of at most {short_repr(cache.max_bytes)}"
    return None
