"""Special tokens: finding them in a text, and who may use them.

A tokenizer.json gives its added tokens flags, which `spec.py` lists: an "ordinary" one is found in every text, without
being allowed; others take white space beside them along, or are found only where no word goes on, or in the normalized
text. They are found as Hugging Face's `tokenizers` finds them. Not here: which ids tokens have (`spec.py`) and what
happens between them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Literal, TypeVar

from bpe.base._aho_corasick import Finder
from bpe.base.utf8 import Bytes, to_bytes
from bpe.errors import check_iterable, check_unicode, shown, type_name, typed
from bpe.text.normalizers import Normalizer, Sequence
from bpe.text.unicode import is_word

if TYPE_CHECKING:
    from bpe.base._buffers import Buffer

Allowed = Literal["all"] | Collection[str]

#: White space in UTF-8, as Unicode has it.
SPACES = frozenset(char.encode() for char in "\t\n\x0b\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000") | frozenset(
    chr(code).encode() for code in range(0x2000, 0x200B)
)
_NONE: frozenset[str] = frozenset()
#: A str is searched for so many names one by one; for more it is made UTF-8, so many characters at a time.
_FEW, _STR_BLOCK = 4, 1 << 16
#: For so many sets of names it is remembered how they are found.
_MOST_PLANS = 256


class _Search:
    """Finds some names in texts; which token each stands for, and its flags."""

    __slots__ = ("finder", "flags", "ids", "names")

    def __init__(self, tokens: Mapping[str, str], ids: Mapping[str, int], flags: Mapping[str, frozenset[str]]) -> None:
        self.names = list(tokens)
        self.finder = Finder([name.encode() for name in tokens])
        self.ids = [ids.get(token, -1) for token in tokens.values()]  # of disallowed names, which may be no tokens
        own = [flags.get(token, _NONE) for token in tokens.values()]
        self.flags = own if any(own) else None


class _Plan:
    """How the tokens of a set of names are found, worked out once for the set."""

    __slots__ = ("first", "late", "plain", "searches", "short")

    def __init__(self, first: frozenset[str], late: frozenset[str], plain: bool) -> None:
        self.first, self.late = first, late
        #: Whether one search of the text as it is finds all these tokens, and nothing beside them matters.
        self.plain = plain
        #: All names, where they are so few that a str is searched for each of them.
        self.short = (*first, *late) if len(first) + len(late) <= _FEW else None
        #: By what is searched: "all", "first", "late" (in a text as it is), "spelled" (in a normalized text).
        self.searches: dict[str, _Search] = {}


class SpecialTokens:
    """The special tokens of a tokenizer: name → id, and the search for them. Immutable.

    Where two begin at the same place, the longer one is found. The time that a search takes does not depend on how many
    there are.
    """

    __slots__ = ("_all", "_exact", "_flags", "_late", "_normalizer", "_plans", "_spelled", "_unions", "always", "ids")

    def __init__(
        self,
        ids: Mapping[str, int],
        flags: Mapping[str, frozenset[str]] | None = None,
        normalizer: Normalizer | None = None,
    ) -> None:
        self.ids = dict(ids)
        self._all = frozenset(self.ids)
        flags = flags or {}
        #: The tokens that are found in every text.
        self.always = frozenset(name for name, each in flags.items() if "ordinary" in each)
        kept = {each: each & {"lstrip", "rstrip", "single_word"} for each in set(flags.values())}
        self._flags = {name: kept[each] for name, each in flags.items() if kept[each]}
        self._normalizer = normalizer
        #: The tokens that are found where the others left text, and that is normalized before.
        self._late = frozenset(name for name, each in flags.items() if "normalized" in each)
        #: Names as they are spelled in a normalized text.
        late = self._late
        self._spelled = dict(zip(late, late if normalizer is None else map(normalizer, late), strict=True))
        #: Whether a str holds a name exactly if its UTF-8 does; surrogates become such characters there.
        names = "".join(self.ids)
        self._exact = names.isascii() or not any(char == "\ufffd" or char > "\uffff" for char in set(names))
        self._plans: dict[frozenset[str], _Plan] = {}
        self._unions: dict[frozenset[str], frozenset[str]] = {}  # names allowed → the same and those always found

    def chosen(self, names: Allowed, argument: str) -> frozenset[str]:
        """What `allowed_special` or `disallowed_special` names; "all" is all of them.

        Raises:
            ValueError: for a name that is no special token of this tokenizer.
            TypeError: for a str that is not "all", for names that are no str.

        """
        if isinstance(names, str):
            if names == "all":
                return self._all
            raise TypeError(
                f'{argument} is {names!r}; it must be "all" or a collection of names, such as {{{names!r}}}'
            )
        check_iterable(argument, names, '"all" or a collection of names')
        listed = list(names)
        for name in listed:
            if not isinstance(name, str):
                raise TypeError(f"{argument} has {typed(name)}; a special token's name is a str")
        chosen = frozenset(listed)
        unknown = chosen - self._all
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
        allowed = self.allowed(allowed_special)
        if disallowed_special == "all":
            return allowed, self._all - allowed if len(allowed) < len(self._all) else _NONE
        return allowed, self.chosen(disallowed_special, "disallowed_special")

    def allowed(self, allowed_special: Allowed) -> frozenset[str]:
        """The names to find as tokens: those allowed, and those that are found in every text."""
        chosen = self.chosen(allowed_special, "allowed_special")
        if not chosen or not self.always or chosen is self._all:
            return chosen or self.always
        union = self._unions.get(chosen)
        if union is None:
            union = _remember(self._unions, chosen, chosen | self.always)
        return union

    def _plan(self, names: frozenset[str]) -> _Plan:
        plan = self._plans.get(names)
        if plan is None:
            late = names & self._late
            plain = not late and not any(self._flags.get(name) for name in names)
            plan = _remember(self._plans, names, _Plan(names - late, late, plain))
        return plan

    def _search(self, names: frozenset[str], which: Literal["all", "first", "late", "spelled"]) -> _Search:
        """What finds some of the tokens named; it is made when it is first needed."""
        plan = self._plan(names)
        if (which == "first" and not plan.late) or (which == "late" and not plan.first):
            which = "all"
        found = plan.searches.get(which)
        if found is None:
            tokens = {name: name for name in {"all": names, "first": plan.first, "late": plan.late}.get(which, ())}
            if which == "spelled":
                for name in sorted(plan.late, key=lambda each: self.ids[each]):
                    if self._spelled[name]:
                        tokens.setdefault(self._spelled[name], name)
            found = plan.searches[which] = _Search(tokens, self.ids, self._flags)
        return found

    def plain(self, names: frozenset[str]) -> bool:
        """Whether one search of the text as it is finds all these tokens, and nothing beside them matters."""
        return self._plan(names).plain

    def occur(self, text: str | Bytes, names: frozenset[str]) -> bool:
        """Whether there may be any of the tokens named in a text; False is certain."""
        if not names:
            return False
        plan = self._plan(names)
        if plan.late and self._normalizer is not None:
            return True
        if not isinstance(text, str):
            return self._search(names, "all").finder.occurs(text)
        if not self._exact:
            return True
        if plan.short is not None:
            return any(name in text for name in plan.short)
        finder = self._search(names, "all").finder
        step = max(_STR_BLOCK, 4 * finder.longest)
        return any(
            finder.occurs(to_bytes(text[start : start + step + finder.longest])) for start in range(0, len(text), step)
        )

    def longest(self, names: frozenset[str]) -> int:
        """How many bytes the longest of some names has; 1 if there are none."""
        return self._search(names, "all").finder.longest if names else 1

    def find(self, data: Buffer, names: frozenset[str], start: int = 0) -> Iterator[tuple[int, int, str]]:
        """Where the names are in a text, from `start` on: (start, end, name), without regard to flags."""
        search = self._search(names, "all")
        found = search.finder.find(data, start) if names else None
        if found is not None:
            for begin, end, number in zip(*(each.tolist() for each in found), strict=True):
                yield begin, end, search.names[number]

    def pieces(self, data: Bytes, names: frozenset[str], raw: bool = False) -> Iterator[tuple[Bytes, int | None]]:
        """The text cut at the special tokens named: (text, None) and (the token's text, id), empty texts left out.

        Tokens that are found in normalized text only are left to `late_pieces`; with `raw` they are sought in the text
        as it is.
        """
        plan = self._plan(names)
        first = self._search(names, "first") if plan.first else None
        if not plan.late or (self._normalizer is not None and not raw):
            yield from self._cut(data, first)
            return
        late = self._search(names, "late")
        for piece, special in self._cut(data, first):
            if special is None:
                yield from self._cut(piece, late)
            else:
                yield piece, special

    def late(self, names: frozenset[str]) -> frozenset[str]:
        """Those of the tokens named that are found in normalized text."""
        return self._plan(names).late if self._normalizer is not None else _NONE

    def late_pieces(self, data: Bytes, late: frozenset[str]) -> Iterator[tuple[Bytes, int | None]]:
        """The same of a text between the tokens of `pieces`, after it was normalized."""
        yield from self._cut(data, self._search(late, "spelled"))

    def _cut(self, data: Bytes, search: _Search | None) -> Iterator[tuple[Bytes, int | None]]:
        done, spaces = 0, (-1, -1)  # the last white space that was gone over: no text is gone over twice
        found = None if search is None else search.finder.find(data)
        if search is not None and search.flags is not None:
            data = memoryview(data)  # tokens may overlap, and parts of `bytes` would be copies
        for start, end, number in zip(*(each.tolist() for each in found), strict=True) if found is not None else ():
            assert search is not None
            if search.flags is not None and (flags := search.flags[number]):
                if "single_word" in flags and _within_word(data, start, end):
                    continue
                if "lstrip" in flags:
                    start = max(_before_spaces(data, start, done), done)
                if "rstrip" in flags:
                    if not spaces[0] <= end <= spaces[1]:
                        spaces = end, _behind_spaces(data, end)
                    end = spaces[1]
            if start > done:
                yield data[done:start], None
            if start < end:  # white space that this token takes along may be all of the next one
                yield data[start:end], search.ids[number]
            done = end
        if done == 0:
            if len(data):
                yield data, None
        elif done < len(data):
            yield data[done:], None

    def refuse(self, data: bytes, disallowed: frozenset[str], offset: int = 0) -> None:
        """Raise ValueError if the text holds a disallowed special token, as tiktoken does, at `offset` and on."""
        for start, _, name in self.find(data, disallowed) if disallowed else ():
            place = offset + start
            raise ValueError(
                f"the text holds the disallowed special token {name!r} at byte {place}; to encode it as that token, "
                f"pass allowed_special={{{name!r}}}; to encode it as ordinary text, leave it out of "
                "disallowed_special; to allow all special tokens, pass allowed_special='all'"
            )


_Value = TypeVar("_Value")


def _remember(known: dict[frozenset[str], _Value], names: frozenset[str], value: _Value) -> _Value:
    """Keep what was worked out for a set of names; callers with ever new sets make no table grow for ever."""
    if len(known) >= _MOST_PLANS:
        known.clear()
    known[names] = value
    return value


def _before_spaces(data: Bytes, end: int, least: int) -> int:
    """Where the white space before a place begins, at `least` or after it."""
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
    """Whether a character of a word stands right before or after a part of a text."""
    before = bytes(data[max(start - 4, 0) : start]).decode("utf-8", "ignore")[-1:]
    behind = bytes(data[end : end + 4]).decode("utf-8", "ignore")[:1]
    return (before != "" and is_word(before)) or (behind != "" and is_word(behind))


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


def effective_flags(flags: Mapping[str, frozenset[str]], normalizer: Normalizer | None) -> dict[str, frozenset[str]]:
    """The flags of all added tokens without those that change nothing: equal tokenizers have equal flags."""
    if normalizer in (None, Sequence()) and _in_any_order(flags):
        without = {own: own - {"normalized"} for own in set(flags.values())}
        flags = {name: without[own] for name, own in flags.items()}
    return {name: own for name, own in flags.items() if own}


def _in_any_order(flags: Mapping[str, frozenset[str]]) -> bool:
    """Whether the tokens that are sought last, where nothing is normalized, might as well be sought with the others."""
    if len({"normalized" in own for own in flags.values()}) < 2:
        return True
    if any(own & {"lstrip", "rstrip", "single_word"} for own in flags.values()):
        return False
    begins = {name[0] for name in flags}
    if not begins.isdisjoint(set().union(*(name[1:] for name in flags))):
        return False  # two may overlap
    prefixes: list[str] = []  # the names that the last one begins with, and itself: all sought at the same time
    for name in sorted(flags):
        while prefixes and not name.startswith(prefixes[-1]):
            prefixes.pop()
        if prefixes and ("normalized" in flags[name]) != ("normalized" in flags[prefixes[-1]]):
            return False
        prefixes.append(name)
    return True
