"""`bpe.evaluation.sanity_check`: defects of a tokenizer that make it unfit for use, found without a corpus, for CI.

How good a vocabulary is for texts: `evaluating.py`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from typing import Any, Literal

import numpy as np

from bpe.base.offsets import compute_offsets
from bpe.base.utf8 import TextLike, to_bytes
from bpe.errors import pluralize, short_repr
from bpe.evaluation.adapters import Adapter, NativeAdapter, adapt
from bpe.evaluation.corpora import check_texts
from bpe.evaluation.vocabulary_metrics import find_shapes, measure_reachability

#: Texts of many scripts and kinds that decoding must give back.
PROBES = (
    "The quick brown fox. It's 3.14, isn't it? HELLO naïve café\n",
    "  two  spaces, a\ttab, \r\n a line, trailing   ",
    "다람쥐 헌 쳇바퀴에 타고파 ㅋㅋㅋ",
    "吾輩は猫である。名前はまだ無い。カタカナ",
    "我能吞下玻璃而不伤身体。",
    "مرحبا بالعالم ١٢٣",
    "שלום עולם",
    "नमस्ते दुनिया",
    "สวัสดีชาวโลก",
    "Привет, мир! Γειά σου Κόσμε",
    "\U0001f469\u200d\U0001f4bb \U0001f1f0\U0001f1f7 \U0001f600 e\u0301 \ufeff\u00a0\u2028\u200b",
    "def f(x):\n    return x**2  # 1_000_000\n",
    "\x00\x01\x7f\x80\ufffd\U0010ffff",
)
#: How many numbers of each length are tried, and the longest.
_NUMBERS_PER_LENGTH, _MAX_DIGITS = 200, 9
#: The share of tokens whose text may be encoded otherwise without that being a failure.
_MAX_UNREACHABLE_SHARE = 0.01
#: How many examples a finding shows.
_MAX_EXAMPLES = 5

Level = Literal["ok", "warning", "failure", "allowed"]


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        check: its name.
        level: "ok", "warning" or "failure"; "allowed" for a failure that `bpe sanity-check --allow` names.
        message: what was found.

    """

    check: str
    level: Level
    message: str

    def __str__(self) -> str:
        return f"{self.level:<8} {self.check}: {self.message}"


def sanity_check(tokenizer: Any, texts: Iterable[TextLike] = ()) -> list[Finding]:
    """Check a tokenizer for defects: each check with what it found.

    A "failure" is a defect: tokens that encoding never produces, text that is lost, special tokens that text can
    imitate, ids that differ from call to call. A "warning" is what may be meant: numbers of one length that are cut at
    different positions, as GPT-2's are, tokens that occur only within longer words (up to 1% of all), text that a
    normalizer changes, added tokens that text spells, unused ids, tokens across borders of characters.

    Args:
        tokenizer: as for `bpe.evaluate`.
        texts: more texts that decoding must give back.

    Raises:
        TypeError: for an object that is no tokenizer; for one text instead of several.

    >>> import bpe
    >>> tok = bpe.train(texts=["low lower lowest"] * 3, vocab_size=260)
    >>> [finding.check for finding in bpe.evaluation.sanity_check(tok) if finding.level != "ok"]
    []

    """
    adapter = adapt(tokenizer)
    check_texts("texts", texts)
    checks: dict[str, Callable[[Adapter], tuple[Level, str]]] = {
        "reachable tokens": _check_reachable,
        "lost text": lambda adapter: _check_round_trip(adapter, texts),
        "numbers": _check_numbers,
        "special tokens": _check_special_tokens,
        "repeatable": _check_repeatable,
        "ids": _check_ids,
        "characters": _check_characters,
    }
    return [Finding(name, *check(adapter)) for name, check in checks.items()]


def has_failure(findings: Iterable[Finding]) -> bool:
    """Return whether some finding is a failure."""
    return any(finding.level == "failure" for finding in findings)


def _check_reachable(adapter: Adapter) -> tuple[Level, str]:
    reachability = measure_reachability(adapter, find_shapes(adapter.tokens).is_whole)
    unreachable_ids = reachability.unreachable
    if not unreachable_ids:
        return "ok", f"encoding gives each of {pluralize(reachability.tested, 'token')} back"
    never_encoded_ids = _select_never_encoded(adapter, unreachable_ids)
    examples = _list_tokens(adapter, never_encoded_ids or unreachable_ids)
    message = (
        f"{pluralize(len(unreachable_ids), 'token')} of {reachability.tested} are not what their text is encoded as: "
        f"it is another token ({len(reachability.as_one)}) or several ({len(reachability.as_several)}); "
    )
    if never_encoded_ids:
        return "failure", f"{message}no word has {pluralize(len(never_encoded_ids), 'token')} of them: {examples}"
    if len(unreachable_ids) > _MAX_UNREACHABLE_SHARE * reachability.tested:
        return "failure", f"{message}does the pretokenizer belong to the vocabulary? {examples}"
    return "warning", f"{message}merging makes them only within longer words, if at all: {examples}"


def _list_tokens(adapter: Adapter, ids: Sequence[int]) -> str:
    return ", ".join(f"{token_id} {short_repr(adapter.tokens[token_id])}" for token_id in ids[:_MAX_EXAMPLES])


def _select_never_encoded(adapter: Adapter, token_ids: list[int]) -> list[int]:
    """Select the tokens that no word is encoded to, whatever the pretokenizer; all for other packages' tokenizers."""
    if not isinstance(adapter, NativeAdapter):
        return token_ids
    with suppress(ValueError):  # tokens that are not spelled as text
        token_ids = sorted(set(token_ids).intersection(adapter.tokenizer.unreachable().tolist()))
    return token_ids


def _check_round_trip(adapter: Adapter, texts: Iterable[TextLike]) -> tuple[Level, str]:
    n_texts = n_changed = 0
    lost_texts: list[str] = []
    has_normalizer = isinstance(adapter, NativeAdapter) and adapter.tokenizer.normalizer is not None
    for text in chain(PROBES, (to_bytes(text).decode("utf-8", "replace") for text in texts)):
        n_texts += 1
        try:
            decoded = adapter.decode_all(adapter.encode_texts([text]))[0]
            if decoded == text:
                continue
            if has_normalizer and adapter.decode_all(adapter.encode_texts([decoded]))[0] == decoded:
                n_changed += 1
                continue
            shorter = min(len(text), len(decoded))
            difference = next((i for i in range(shorter) if text[i] != decoded[i]), shorter)  # the first difference
            part = slice(max(difference - 5, 0), difference + 10)
            lost_texts.append(f"{short_repr(text[part])} came back as {short_repr(decoded[part])}")
        except ValueError as error:
            lost_texts.append(str(error))
    if lost_texts:
        examples = "; ".join(lost_texts[:_MAX_EXAMPLES])
        return "failure", f"{pluralize(len(lost_texts), 'text')} of {n_texts} did not come back: {examples}"
    if n_changed:
        return "warning", f"the normalizer changes {n_changed} of {n_texts} texts"
    n_given = "" if n_texts == len(PROBES) else f", {n_texts - len(PROBES):,} of them given"
    return "ok", f"{n_texts:,} texts came back unchanged{n_given}"


def _check_numbers(adapter: Adapter) -> tuple[Level, str]:
    """Check that the boundaries in a number depend on its length alone."""
    generator = random.Random(0)
    irregular_lengths = []
    for n in range(2, _MAX_DIGITS + 1):
        texts = [str(generator.randrange(10 ** (n - 1), 10**n)) for _ in range(_NUMBERS_PER_LENGTH)]
        try:
            sizes = _measure_tokens(adapter, texts)
        except ValueError as error:
            return "failure", str(error)
        patterns = Counter(sizes)
        if len(patterns) > 1:
            example, counterexample = (
                _mark_cuts(texts[sizes.index(pattern)], pattern) for pattern, _ in patterns.most_common(2)
            )
            irregular_lengths.append(f"{n} digits in {len(patterns)} ways, such as {example} and {counterexample}")
    if not irregular_lengths:
        return "ok", "numbers of the same length are cut at the same positions"
    advice = (
        "training with split_digits=True (bpe train --split-digits), or with a pretokenizer that cuts numbers itself, "
        "such as cl100k, avoids it"
    )
    examples = "; ".join(irregular_lengths[:_MAX_EXAMPLES])
    return "warning", f"where numbers are cut depends on their digits: {examples}; {advice}"


def _measure_tokens(adapter: Adapter, texts: list[str]) -> list[tuple[int, ...]]:
    """Measure the tokens of each text."""
    data = [text.encode() for text in texts]
    bounds = compute_offsets([len(text_bytes) for text_bytes in data])
    documents = adapter.encode(b"".join(data), bounds[:-1], bounds[1:])
    sizes = documents.measure_tokens(adapter)
    return [tuple(sizes[a:b].tolist()) for a, b in pairwise(documents.offsets.tolist())]


def _mark_cuts(text: str, sizes: tuple[int, ...]) -> str:
    """Put | between the tokens of a text of ASCII, which have these sizes."""
    bounds = pairwise(accumulate(sizes, initial=0))
    return "|".join(text[start:end] for start, end in bounds)


def _check_special_tokens(adapter: Adapter) -> tuple[Level, str]:
    """Check that the name of a special token in text is ordinary text."""
    special_tokens = _list_special_names(adapter)
    imitated_names = []
    for name, token_id in special_tokens.items():
        with suppress(ValueError):  # text that the tokenizer cannot encode
            if token_id in adapter.encode_by_default([f"a{name}b"]).ids:
                imitated_names.append(name)
    if not imitated_names:
        return "ok", f"{pluralize(len(special_tokens), 'special token')}; none comes out of text"
    names = ", ".join(imitated_names[:_MAX_EXAMPLES])
    message = f"text that spells them becomes {pluralize(len(imitated_names), 'special token')}: {names}"
    return "warning" if isinstance(adapter, NativeAdapter) else "failure", message


def _list_special_names(adapter: Adapter) -> dict[str, int]:
    if isinstance(adapter, NativeAdapter):
        return dict(adapter.tokenizer.special_tokens)
    tokens = adapter.tokens
    token_ids = np.flatnonzero(~tokens.is_ordinary & (tokens.lengths > 0)).tolist()
    return {tokens[token_id].decode("utf-8", "replace"): token_id for token_id in token_ids}


def _check_repeatable(adapter: Adapter) -> tuple[Level, str]:
    tokens = np.flatnonzero(adapter.tokens.is_ordinary & (adapter.tokens.lengths > 1))[-_NUMBERS_PER_LENGTH:].tolist()
    texts = [*PROBES, "".join(adapter.decode_each(tokens))]
    try:
        ids = adapter.encode_by_default(texts)
        is_repeatable = all(adapter.encode_by_default(texts) == ids for _ in range(3))  # random choices may agree once
    except ValueError as error:
        return "failure", str(error)
    if is_repeatable:
        return "ok", "the same text has the same ids"
    return "failure", "the same text has other ids each time; the tokenizer's file has a dropout"


def _check_ids(adapter: Adapter) -> tuple[Level, str]:
    n_unused = adapter.limit - adapter.vocab_size
    if n_unused:
        return "warning", f"{pluralize(n_unused, 'id')} below {adapter.limit} have no token"
    return "ok", f"ids 0 to {adapter.limit - 1} are all used"


def _check_characters(adapter: Adapter) -> tuple[Level, str]:
    crossing_ids = np.flatnonzero(find_shapes(adapter.tokens).is_crossing).tolist()
    if not crossing_ids:
        return "ok", "no token has parts of two characters"
    count = pluralize(len(crossing_ids), "token")
    message = f"{count} with parts of two characters, not all of which are complete"
    return "warning", f"{message}: {_list_tokens(adapter, crossing_ids)}"
