"""`bpe.evaluation.sanity_check`: defects of a tokenizer that make it unfit for use, found without a corpus, for CI.

How good a vocabulary is for texts: `evaluating.py`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from typing import Any, Literal

import numpy as np

from bpe.base.offsets import offsets_of
from bpe.base.utf8 import TextLike, to_bytes
from bpe.errors import counted, shown
from bpe.evaluation.adapters import Adapter, OwnAdapter, adapt
from bpe.evaluation.reachability import reachability
from bpe.evaluation.shapes import shapes_of

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
_NUMBERS, _MOST_DIGITS = 200, 9
#: The share of tokens whose text may be encoded otherwise without that being a failure.
_MOST_MISSED = 0.01
#: How many examples a finding shows.
_SHOWN = 5

Level = Literal["ok", "warning", "failure"]


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        check: its name.
        level: "ok", "warning" or "failure".
        message: what was found.

    """

    check: str
    level: Level
    message: str

    def __str__(self) -> str:
        return f"{self.level:<8} {self.check}: {self.message}"


def sanity_check(tokenizer: Any, texts: Iterable[TextLike] = ()) -> list[Finding]:
    """Check a tokenizer for defects: each check with what it found.

    A "failure" is a defect: tokens that encoding never produces, text that is lost, numbers of one length that are cut
    at different positions, special tokens that text can imitate, ids that differ from call to call. A "warning" is
    what may be meant: tokens that occur only within longer words (up to 1% of all), text that a normalizer changes,
    added tokens that text spells, unused ids, tokens across borders of characters.

    Args:
        tokenizer: as for `bpe.evaluate`.
        texts: more texts that decoding must give back.

    Raises:
        TypeError: for an object that is no tokenizer.

    >>> import bpe
    >>> tok = bpe.train(texts=["low lower lowest"] * 3, vocab_size=260)
    >>> [found.check for found in bpe.evaluation.sanity_check(tok) if found.level != "ok"]
    []

    """
    adapter = adapt(tokenizer)
    found = [_reachable(adapter), _round_trip(adapter, texts)]
    found += [_numbers(adapter), _special_tokens(adapter), _repeatable(adapter), _ids(adapter), _characters(adapter)]
    return found


def failed(findings: Iterable[Finding]) -> bool:
    """Whether some finding is a failure."""
    return any(each.level == "failure" for each in findings)


def _reachable(adapter: Adapter) -> Finding:
    found = reachability(adapter, shapes_of(adapter.tokens).whole)
    check, missed = "reachable tokens", found.unreachable
    if not missed:
        return Finding(check, "ok", f"encoding gives each of {counted(found.tested, 'token')} back")
    never = _never_merged(adapter, missed)
    examples = ", ".join(f"{number} {shown(adapter.tokens[number])}" for number in (never or missed)[:_SHOWN])
    message = (
        f"{counted(len(missed), 'token')} of {found.tested} are not what their text is encoded as: it is another token "
        f"({len(found.single)}) or several ({len(found.several)}); "
    )
    if never:
        return Finding(check, "failure", f"{message}no word has {counted(len(never), 'token')} of them: {examples}")
    if len(missed) > _MOST_MISSED * found.tested:
        return Finding(check, "failure", f"{message}does the pretokenizer belong to the vocabulary? {examples}")
    return Finding(check, "warning", f"{message}merging makes them only within longer words, if at all: {examples}")


def _never_merged(adapter: Adapter, numbers: list[int]) -> list[int]:
    """Those of the tokens that no word is encoded to, whatever the pretokenizer; all for other packages' tokenizers."""
    if not isinstance(adapter, OwnAdapter):
        return numbers
    with suppress(ValueError):  # tokens that are not spelled as text
        numbers = sorted(set(numbers).intersection(adapter.tokenizer.unreachable().tolist()))
    return numbers


def _round_trip(adapter: Adapter, texts: Iterable[TextLike]) -> Finding:
    check, total, changed = "lost text", 0, 0
    lost: list[str] = []
    normalized = isinstance(adapter, OwnAdapter) and adapter.tokenizer.normalizer is not None
    for text in chain(PROBES, (to_bytes(text).decode("utf-8", "replace") for text in texts)):
        total += 1
        try:
            back = adapter.decode_all(adapter.encode_texts([text]))[0]
            if back == text:
                continue
            if normalized and adapter.decode_all(adapter.encode_texts([back]))[0] == back:
                changed += 1
                continue
            at = next(
                (i for i, (a, b) in enumerate(zip(text, back, strict=False)) if a != b), min(len(text), len(back))
            )
            lost.append(f"{shown(text[max(at - 5, 0) : at + 10])} came back as {shown(back[max(at - 5, 0) : at + 10])}")
        except ValueError as error:
            lost.append(str(error))
    if lost:
        return Finding(
            check, "failure", f"{counted(len(lost), 'text')} of {total} did not come back: {'; '.join(lost[:_SHOWN])}"
        )
    if changed:
        return Finding(check, "warning", f"the normalizer changes {changed} of {total} texts")
    own = "" if total == len(PROBES) else f", {total - len(PROBES):,} of them given"
    return Finding(check, "ok", f"{total:,} texts came back unchanged{own}")


def _numbers(adapter: Adapter) -> Finding:
    """Whether the boundaries in a number depend on its length alone."""
    generator = random.Random(0)
    check, bad = "numbers", []
    for n in range(2, _MOST_DIGITS + 1):
        texts = [str(generator.randrange(10 ** (n - 1), 10**n)) for _ in range(_NUMBERS)]
        try:
            found = _boundaries(adapter, texts)
        except ValueError as error:
            return Finding(check, "failure", str(error))
        patterns = Counter(found)
        if len(patterns) > 1:
            one, other = (_cut(texts[found.index(pattern)], pattern) for pattern, _ in patterns.most_common(2))
            bad.append(f"{n} digits in {len(patterns)} ways, such as {one} and {other}")
    if not bad:
        return Finding(check, "ok", "numbers of the same length are cut at the same positions")
    return Finding(check, "failure", f"where numbers are cut depends on their digits: {'; '.join(bad[:_SHOWN])}")


def _boundaries(adapter: Adapter, texts: list[str]) -> list[tuple[int, ...]]:
    """The sizes of the tokens of each text."""
    data = [text.encode() for text in texts]
    bounds = offsets_of([len(each) for each in data])
    ids, offsets, sizes = adapter.encode(b"".join(data), bounds[:-1], bounds[1:])
    lengths = sizes if len(sizes) else adapter.lengths[ids]
    return [tuple(lengths[a:b].tolist()) for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]


def _cut(text: str, sizes: tuple[int, ...]) -> str:
    """A text of ASCII with | between its tokens, which have these sizes."""
    bounds = pairwise(accumulate(sizes, initial=0))
    return "|".join(text[start:end] for start, end in bounds)


def _special_tokens(adapter: Adapter) -> Finding:
    """Whether the name of a special token in text is ordinary text."""
    check, named = "special tokens", _special_names(adapter)
    imitated = []
    for name, number in named.items():
        with suppress(ValueError):  # text that the tokenizer cannot encode
            if number in adapter.encode_texts([f"a{name}b"]).ids:
                imitated.append(name)
    if imitated:
        return Finding(
            check,
            "warning" if isinstance(adapter, OwnAdapter) else "failure",
            f"text that spells them becomes {counted(len(imitated), 'special token')}: {', '.join(imitated[:_SHOWN])}",
        )
    return Finding(check, "ok", f"{counted(len(named), 'special token')}; none comes out of text")


def _special_names(adapter: Adapter) -> dict[str, int]:
    if isinstance(adapter, OwnAdapter):
        return dict(adapter.tokenizer.special_tokens)
    tokens = adapter.tokens
    numbers = np.flatnonzero(~tokens.known & (tokens.lengths > 0)).tolist()
    return {tokens[number].decode("utf-8", "replace"): number for number in numbers}


def _repeatable(adapter: Adapter) -> Finding:
    tokens = np.flatnonzero(adapter.tokens.known & (adapter.tokens.lengths > 1))[-_NUMBERS:].tolist()
    texts = [*PROBES, "".join(adapter.decode_each(tokens))]
    try:
        same = adapter.encode_texts(texts) == adapter.encode_texts(texts)
    except ValueError as error:
        return Finding("repeatable", "failure", str(error))
    if same:
        return Finding("repeatable", "ok", "the same text has the same ids")
    return Finding("repeatable", "failure", "the same text has other ids each time; the tokenizer's file has a dropout")


def _ids(adapter: Adapter) -> Finding:
    unused = adapter.limit - adapter.vocab_size
    if unused:
        return Finding("ids", "warning", f"{counted(unused, 'id')} below {adapter.limit} have no token")
    return Finding("ids", "ok", f"ids 0 to {adapter.limit - 1} are all used")


def _characters(adapter: Adapter) -> Finding:
    found = shapes_of(adapter.tokens)
    crossing = np.flatnonzero(found.crossing)
    if not len(crossing):
        return Finding("characters", "ok", "no token has parts of two characters")
    examples = ", ".join(f"{number} {shown(adapter.tokens[number])}" for number in crossing[:_SHOWN].tolist())
    return Finding(
        "characters",
        "warning",
        f"{counted(len(crossing), 'token')} cross the border of characters that they do not complete: {examples}",
    )
