"""Random texts with limits of tokens: chunks, truncation and counts, for tests and `check_prompts.py`."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from itertools import pairwise

import bpe
from bpe.encode import Chunk
from bpe.encode.chunks import BOUNDARIES
from bpe.encode.limits import SIDES

MAX_PIECES = 60
#: Sentences, lines and words to mix with a tokenizer's own pieces.
ENDS = (
    ". ",
    "! ",
    '." ',
    "?",
    "\n",
    "\r\n",
    "\n\n",
    " ",
    "。",
    "」",
    "。」",
    "… ",
    "\u2028",
    "\ud83d",
    "\ude0a",
    "😊",
    "e\u0301",
)
OWN_PATTERNS = (re.compile(r"\n\s*\n"), re.compile("(?=[aeo])"), re.compile(r"\w+\s"), re.compile(r"(?<=\w\w)\b"))


def find_difference(rng: random.Random, tok: bpe.Tokenizer, pieces: Sequence[str], n_texts: int) -> str | None:
    """Describe the first of some random texts with a chunk, an end or a count that breaks a promise."""
    for _ in range(n_texts):
        text = "".join(rng.choices([*pieces, *2 * ENDS], k=rng.randint(0, rng.choice([3, MAX_PIECES]))))
        max_tokens = rng.choice([1, 2, 3, rng.randint(1, 40)])
        difference = find_wrong_chunk(rng, tok, text, max_tokens) or find_wrong_end(rng, tok, text, max_tokens)
        if difference is not None:
            return f"{difference}\n  for {text!r} and {max_tokens} tokens"
    return None


def find_wrong_chunks(rng: random.Random, tok: bpe.Tokenizer, pieces: Sequence[str], n_texts: int) -> str | None:
    """Describe the first of some random texts that chunks exceed a limit of, or are not when they are joined."""
    kinds = [*BOUNDARIES, *OWN_PATTERNS]
    for _ in range(n_texts):
        text = "".join(rng.choices([*pieces, *2 * ENDS], k=rng.randint(0, 20)))
        max_tokens = rng.randint(5, 20)  # the most of a character of byte fallback is 4, and a ▁ before it
        for kind in kinds:
            chunks = tok.chunk(text, max_tokens, boundaries=kind)
            counts = tok.count_tokens([chunk.text for chunk in chunks]).tolist()
            if "".join(chunk.text for chunk in chunks) != text or max(counts, default=0) > max_tokens:
                return f"{counts} tokens of {chunks}\n  for {text!r}, {max_tokens} tokens and boundaries {kind!r}"
    return None


def find_wrong_chunk(rng: random.Random, tok: bpe.Tokenizer, text: str, max_tokens: int) -> str | None:
    """Describe what is wrong with the chunks of a text, with a random overlap and random boundaries."""
    boundaries = rng.choice([*BOUNDARIES, *OWN_PATTERNS])
    overlap = rng.choice([0, 0, 1, max_tokens - 1, max_tokens // 2])
    overlap = min(overlap, max_tokens - 1)
    options = {"overlap": overlap, "boundaries": boundaries, "allowed_special": rng.choice(["all", ()])}
    points = sorted(rng.randint(0, len(text)) for _ in range(rng.randint(0, 6)))
    parts = [text[start:end] for start, end in pairwise([0, *points, len(text)])]
    error = chunks = None
    try:
        chunks = tok.chunk(text, max_tokens, **options)
    except ValueError as caught:
        error = caught
    streamed: list[Chunk] = []
    try:
        streamed.extend(tok.chunk(iter(parts), max_tokens, **options))
    except ValueError as caught:
        if str(caught) != str(error):
            return f"{caught!r} in {parts}, and {error!r}, with {options}"
    if chunks is None or error is not None:
        return find_wrong_error(tok, text, max_tokens, error, options["allowed_special"])
    if streamed != chunks:
        return f"{streamed} in {parts}, and {chunks}, with {options}"
    wrong = find_broken_promise(tok, text, chunks, max_tokens, overlap, options["allowed_special"])
    return wrong and f"{wrong} in {chunks}, with {options}"


def find_wrong_error(
    tok: bpe.Tokenizer, text: str, max_tokens: int, error: ValueError | None, allowed: str | tuple[()]
) -> str | None:
    """Describe why an error is wrong: the character that it names fits; or all of the text can be encoded."""
    match = re.search(r"^the character .* at position (\d+) has (\d+) token", str(error), re.DOTALL)
    if match is None:
        return None if "unknown" in str(error) or "no token" in str(error) else repr(error)
    position = int(match[1])
    is_pair = re.match("[\ud800-\udbff][\udc00-\udfff]", text[position : position + 2]) is not None
    n_tokens = tok.count_tokens(text[position : position + 1 + is_pair], allowed_special=allowed)
    return None if n_tokens == int(match[2]) > max_tokens else f"{n_tokens} tokens: {error}"


def find_broken_promise(
    tok: bpe.Tokenizer, text: str, chunks: Sequence[Chunk], max_tokens: int, overlap: int, allowed: str | tuple[()]
) -> str | None:
    """Describe the first promise that chunks break."""
    end = start = 0
    for chunk in chunks:
        n_tokens = tok.count_tokens(chunk.text, allowed_special=allowed)
        if not (n_tokens == chunk.n_tokens <= max_tokens and chunk.text == text[chunk.start : chunk.end]):
            return f"{n_tokens} tokens of {chunk}"
        if not (start <= chunk.start <= end < chunk.end and (start < chunk.start or not start)):
            return f"{chunk} after the one from {start} to {end}"
        if (chunk.start < end and not overlap) or (
            tok.count_tokens(text[chunk.start : end], allowed_special=allowed) > overlap and chunk.start < end
        ):
            return f"an overlap of {text[chunk.start : end]!r}"
        start, end = chunk.start, chunk.end
    return None if end == len(text) else f"the chunks end at {end}"


def find_wrong_end(rng: random.Random, tok: bpe.Tokenizer, text: str, max_tokens: int) -> str | None:
    """Describe what is wrong with a truncated text, or a count with a limit."""
    data = (
        text.encode("utf-8", "replace")
        if tok.model == "char" or rng.random() < 0.5
        else text.encode("utf-8", "surrogatepass")
    )
    side = rng.choice(SIDES)
    allowed = rng.choice(["all", ()])
    for value in (text, data):
        try:
            n_tokens = tok.count_tokens(value, allowed_special=allowed)
            limited = tok.count_tokens(value, limit=max_tokens, allowed_special=allowed)
            part = tok.truncate(value, max_tokens, side=side, allowed_special=allowed)
            n_left = tok.count_tokens(part, allowed_special=allowed)
        except ValueError as error:
            if "unknown" in str(error) or "no token" in str(error):
                return None
            raise
        if limited != min(n_tokens, max_tokens + 1):
            return f"{limited} tokens of {n_tokens}, of {value!r}"
        if n_left > max_tokens or (n_tokens <= max_tokens and part != value):
            return f"{n_left} tokens of {n_tokens} left on the {side}, {part!r} of {value!r}"
        if not isinstance(value, str) or not re.search("[\ud800-\udfff]", value):
            is_part = {"right": value.startswith(part), "left": value.endswith(part)}.get(side, is_joined(value, part))
            if not is_part:
                return f"truncated on the {side}: {part!r} of {value!r}"
    return None


def is_joined(text: str | bytes, part: str | bytes) -> bool:
    """Whether a text is the beginning of another one joined with its end."""
    return any(text.startswith(part[:n]) and text.endswith(part[n:]) for n in range(len(part) + 1))  # type: ignore[arg-type]
