"""Special tokens: finding them in a text, and who may use them.

A tokenizer.json gives its added tokens flags, which `spec.py` lists: an "ordinary" one is found in every text, without
being allowed; others take white space beside them along, or are found only where no word goes on, or in the normalized
text. They are found as Hugging Face's `tokenizers` finds them. Not here: which ids tokens have (`spec.py`) and what
happens between them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Literal

import numpy as np
import regex

from bpe._core.documents import split
from bpe.errors import check_iterable, check_unicode, shown, type_name, typed
from bpe.normalizers import Normalizer
from bpe.text import Bytes

Allowed = Literal["all"] | Collection[str]

#: White space in UTF-8, as Unicode has it.
SPACES = frozenset(char.encode() for char in "\t\n\x0b\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000") | frozenset(
    chr(code).encode() for code in range(0x2000, 0x200B)
)
#: What `\w` is in the engine that `tokenizers` uses for tokens that are single words.
_WORD = regex.compile(r"[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]")
#: How deep the groups of a pattern of names may be nested.
_DEPTH = 40


class SpecialTokens:
    """The special tokens of a tokenizer: name → id, and the search for them. Immutable.

    Where two begin at the same place, the longer one is found.
    """

    __slots__ = ("_exact", "_flags", "_late", "_normalizer", "_patterns", "_spelled", "_text_patterns", "always", "ids")

    def __init__(
        self,
        ids: Mapping[str, int],
        flags: Mapping[str, frozenset[str]] | None = None,
        normalizer: Normalizer | None = None,
    ) -> None:
        self.ids = dict(ids)
        flags = flags or {}
        #: The tokens that are found in every text.
        self.always = frozenset(name for name, each in flags.items() if "ordinary" in each)
        self._flags = {name: each & {"lstrip", "rstrip", "single_word"} for name, each in flags.items()}
        self._normalizer = normalizer
        #: The tokens that are found where the others left text, and that is normalized before.
        self._late = frozenset(name for name, each in flags.items() if "normalized" in each)
        #: Names as they are spelled in a normalized text.
        self._spelled = {name: name if normalizer is None else normalizer(name) for name in self._late}
        #: Whether a str holds a name exactly if its UTF-8 does; surrogates become such characters there.
        self._exact = not any(char == "\ufffd" or char > "\uffff" for name in self.ids for char in name)
        self._patterns: dict[frozenset[str], re.Pattern[bytes]] = {}
        self._text_patterns: dict[frozenset[str], re.Pattern[str]] = {}

    @property
    def _names(self) -> frozenset[str]:
        return frozenset(self.ids)

    def chosen(self, names: Allowed, argument: str) -> frozenset[str]:
        """What `allowed_special` or `disallowed_special` names; "all" is all of them.

        Raises:
            ValueError: for a name that is no special token of this tokenizer.
            TypeError: for a str that is not "all", for names that are no str.

        """
        if isinstance(names, str):
            if names == "all":
                return self._names
            raise TypeError(
                f'{argument} is {names!r}; it must be "all" or a collection of names, such as {{{names!r}}}'
            )
        check_iterable(argument, names, '"all" or a collection of names')
        listed = list(names)
        for name in listed:
            if not isinstance(name, str):
                raise TypeError(f"{argument} has {typed(name)}; a special token's name is a str")
        chosen = frozenset(listed)
        unknown = chosen - self._names
        if unknown and argument == "allowed_special":
            raise ValueError(
                f"{argument} has {shown(sorted(unknown))}, which this tokenizer does not have; its special tokens are "
                f"{shown(list(self.ids), 200)}"
            )
        for name in unknown:
            check_unicode(f"{argument}:", name)
        return chosen

    def policy(self, allowed_special: Allowed, disallowed_special: Allowed) -> tuple[frozenset[str], frozenset[str]]:
        """The names to find as tokens and the names to refuse; "all" disallowed means all that are not allowed."""
        allowed = self.chosen(allowed_special, "allowed_special") | self.always
        if disallowed_special == "all":
            return allowed, self._names - allowed
        return allowed, self.chosen(disallowed_special, "disallowed_special")

    def plain(self, names: frozenset[str]) -> bool:
        """Whether one search of the text as it is finds all these tokens, and nothing beside them matters."""
        return not any(self._flags.get(name) or name in self._late for name in names)

    def occur(self, text: str | Bytes, names: frozenset[str]) -> bool:
        """Whether there may be any of the tokens named in a text; False is certain."""
        if not names or (names & self._late and self._normalizer is not None):
            return bool(names)
        if isinstance(text, str):
            if not self._exact:
                return True
            return (
                any(name in text for name in names) if len(names) <= 4 else self._texts(names).search(text) is not None
            )
        if len(text) < 1 << 16 or len(names) > 20:
            return self.pattern(names).search(text) is not None
        whole = np.array([0], dtype=np.int64), np.array([len(text)], dtype=np.int64)
        starts, ends = split(text, *whole, [name.encode() for name in names])
        return not (len(starts) == 1 and starts[0] == 0 and ends[0] == len(text))

    def pieces(self, data: Bytes, names: frozenset[str], raw: bool = False) -> Iterator[tuple[Bytes, int | None]]:
        """The text cut at the special tokens named: (text, None) and (the token's text, id), empty texts left out.

        Tokens that are found in normalized text only are left to `late_pieces`; with `raw` they are sought in the text
        as it is.
        """
        late = names & self._late
        if not late or (self._normalizer is not None and not raw):
            yield from self._cut(data, names - late)
            return
        for piece, special in self._cut(data, names - late):
            if special is None:
                yield from self._cut(piece, late)
            else:
                yield piece, special

    def late(self, names: frozenset[str]) -> frozenset[str]:
        """Those of the tokens named that are found in normalized text."""
        return names & self._late if self._normalizer is not None else frozenset()

    def late_pieces(self, data: Bytes, late: frozenset[str]) -> Iterator[tuple[Bytes, int | None]]:
        """The same of a text between the tokens of `pieces`, after it was normalized."""
        spelled: dict[str, str] = {}
        for name in sorted(late, key=lambda each: self.ids[each]):
            if self._spelled[name]:
                spelled.setdefault(self._spelled[name], name)
        yield from self._cut(data, frozenset(spelled), spelled)

    def _cut(
        self, data: Bytes, names: frozenset[str], spelled: Mapping[str, str] | None = None
    ) -> Iterator[tuple[Bytes, int | None]]:
        done = 0
        for match in self.pattern(names).finditer(data) if names else ():
            start, end = match.span()
            name = str(match[0], "utf-8")
            if spelled is not None:
                name = spelled[name]
            if flags := self._flags.get(name):
                if "single_word" in flags and _within_word(data, start, end):
                    continue
                if "lstrip" in flags:
                    start = _before_spaces(data, start, done)
                if "rstrip" in flags:
                    end = _behind_spaces(data, end)
            if start > done:
                yield data[done:start], None
            if start < end:  # white space that this token takes along may be all of the next one
                yield data[start:end], self.ids[name]
            done = end
        if done == 0:
            if len(data):
                yield data, None
        elif done < len(data):
            yield data[done:], None

    def refuse(self, data: bytes, disallowed: frozenset[str], offset: int = 0) -> None:
        """Raise ValueError if the text holds a disallowed special token, as tiktoken does, at `offset` and on."""
        if disallowed and (match := self.pattern(disallowed).search(data)):
            name = match[0].decode()
            place = offset + match.start()
            raise ValueError(
                f"the text holds the disallowed special token {name!r} at byte {place}; to encode it as that token, "
                f"pass allowed_special={{{name!r}}}; to encode it as ordinary text, leave it out of "
                "disallowed_special; to allow all special tokens, pass allowed_special='all'"
            )

    def pattern(self, names: frozenset[str]) -> re.Pattern[bytes]:
        """What finds the special tokens named, the longest where several begin at a place."""
        found = self._patterns.get(names)
        if found is None:
            found = self._patterns[names] = _pattern(names)
        return found

    def _texts(self, names: frozenset[str]) -> re.Pattern[str]:
        """The same for a str."""
        found = self._text_patterns.get(names)
        if found is None:
            found = self._text_patterns[names] = re.compile(_alternatives(sorted(names), 0))
        return found


def _pattern(names: Collection[str]) -> re.Pattern[bytes]:
    """What finds the names, the longest where several begin at a place."""
    return re.compile(_alternatives(sorted(names), 0).encode())


def _alternatives(names: list[str], depth: int) -> str:
    r"""A pattern of the longest of some names in order; beginnings that they share are tried once for all of them.

    >>> _alternatives(["<a>", "<a>b", "<c>"], 0)
    '<(?:a>(?:b)?|c>)'
    """
    if depth == _DEPTH:
        return "|".join(map(re.escape, reversed(names)))  # a name stands behind those that begin with it
    parts: list[str] = []
    for _, same in groupby(names, key=itemgetter(0)):
        group = list(same)
        first, last = group[0], group[-1]
        shared = next((i for i, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first))
        rest = [name[shared:] for name in group if len(name) > shared]
        inner = f"(?:{_alternatives(rest, depth + 1)})" if rest else ""
        parts.append(re.escape(first[:shared]) + inner + ("?" if rest and len(rest) < len(group) else ""))
    return "|".join(parts)


def _before_spaces(data: Bytes, end: int, least: int) -> int:
    """Where the white space before a place begins, at `least` or behind."""
    while end > least:
        width = next((n for n in (1, 2, 3) if end - n >= least and bytes(data[end - n : end]) in SPACES), 0)
        if not width:
            break
        end -= width
    return end


def _behind_spaces(data: Bytes, start: int) -> int:
    """Where the white space at a place ends."""
    while start < len(data):
        width = next((n for n in (1, 2, 3) if bytes(data[start : start + n]) in SPACES), 0)
        if not width:
            break
        start += width
    return start


def _within_word(data: Bytes, start: int, end: int) -> bool:
    """Whether a character of a word stands right before or behind a part of a text."""
    before = bytes(data[max(start - 4, 0) : start]).decode("utf-8", "ignore")[-1:]
    behind = bytes(data[end : end + 4]).decode("utf-8", "ignore")[:1]
    return _WORD.match(before) is not None or _WORD.match(behind) is not None


def check_special_tokens(
    names: object, argument: str = "special_tokens", noun: str = "special token"
) -> tuple[str, ...]:
    """The argument `special_tokens`, or one like it, as a tuple of names: str, not empty, none twice."""
    if isinstance(names, (str, bytes)) or not hasattr(names, "__iter__"):
        raise TypeError(f"{argument} is {shown(names)}; it must be a list of str, such as ['<|endoftext|>']")
    if isinstance(names, (set, frozenset)) and len(names) > 1:  # the keys of a dict have an order
        raise TypeError(
            f"{argument} is {typed(names)}, whose order differs from run to run; it must be a list: ids are "
            "given, and names saved, in its order"
        )
    listed = tuple(names)
    seen: set[str] = set()
    for name in listed:
        if not isinstance(name, str):
            raise TypeError(f"{noun} {shown(name)} is {type_name(name)}; it must be a str")
        if not name:
            raise ValueError(f"{noun} '' is empty; it must be at least one character")
        check_unicode(noun, name)
        if name in seen:
            raise ValueError(f"{noun} {name!r} is given twice; each has one id")
        seen.add(name)
    return listed
