"""Special tokens: finding them in a text, and who may use them.

Not here: which ids they have (`spec.py`) and what happens between them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Literal

from bpe.errors import check_iterable, check_unicode, shown, type_name, typed
from bpe.text import Bytes

Allowed = Literal["all"] | Collection[str]


class SpecialTokens:
    """The special tokens of a tokenizer: name → id, and the search for them. Immutable.

    Where two begin at the same place, the longer one is found.
    """

    __slots__ = ("_names", "_patterns", "ids")

    def __init__(self, ids: Mapping[str, int]) -> None:
        self.ids = dict(ids)
        self._names = frozenset(self.ids)
        self._patterns: dict[frozenset[str], re.Pattern[bytes]] = {}

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
        allowed = self.chosen(allowed_special, "allowed_special")
        if disallowed_special == "all":
            return allowed, self._names - allowed
        return allowed, self.chosen(disallowed_special, "disallowed_special")

    def pieces(self, data: Bytes, names: frozenset[str]) -> Iterator[tuple[Bytes, int | None]]:
        """The text cut at the special tokens named: (text, None) and (name as bytes, id), empty texts left out."""
        done = 0
        if names:
            for match in self.pattern(names).finditer(data):
                if match.start() > done:
                    yield data[done : match.start()], None
                yield match[0], self.ids[str(match[0], "utf-8")]
                done = match.end()
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
            ordered = sorted((name.encode() for name in names), key=lambda name: (-len(name), name))
            found = self._patterns[names] = re.compile(b"|".join(map(re.escape, ordered)))
        return found


def check_special_tokens(names: object) -> tuple[str, ...]:
    """The argument `special_tokens` as a tuple of names: str, not empty, none twice."""
    if isinstance(names, (str, bytes)) or not hasattr(names, "__iter__"):
        raise TypeError(f"special_tokens is {shown(names)}; it must be a list of str, such as ['<|endoftext|>']")
    if isinstance(names, (set, frozenset)) and len(names) > 1:  # the keys of a dict have an order
        raise TypeError(
            f"special_tokens is {typed(names)}, whose order differs from run to run; it must be a list: ids are "
            "given, and names saved, in its order"
        )
    listed = tuple(names)
    for name in listed:
        if not isinstance(name, str):
            raise TypeError(f"special token {shown(name)} is {type_name(name)}; it must be a str")
        if not name:
            raise ValueError("special token '' is empty; it must be at least one character")
        check_unicode("special token", name)
    if len(set(listed)) != len(listed):
        twice = next(name for i, name in enumerate(listed) if name in listed[:i])
        raise ValueError(f"special token {twice!r} is given twice; each has one id")
    return listed
