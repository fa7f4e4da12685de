"""Special tokens: which are allowed, and where they occur in a text.

The added tokens of a tokenizer.json have flags, which `spec.py` documents: an "ordinary" one is matched in every text
without being allowed; other flags extend the match over adjacent white space, match only whole words, or match in the
normalized text. Matching follows Hugging Face's `tokenizers`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np

from bpe.base._aho_corasick import Finder
from bpe.base.utf8 import Bytes, TextLike, to_bytes
from bpe.errors import check_iterable, check_unicode, describe, short_repr, with_article

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bpe.base._buffers import Buffer
    from bpe.text.normalizers import Normalizer

Allowed = Literal["all"] | Collection[str]

#: The characters with Unicode's White_Space property, in UTF-8.
SPACES = frozenset(char.encode() for char in "\t\n\x0b\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000") | frozenset(
    chr(code).encode() for code in range(0x2000, 0x200B)
)
_NONE: frozenset[str] = frozenset()
#: The default of `allowed_special` and `disallowed_special`; there is one empty tuple.
NO_NAMES: tuple[str, ...] = ()
#: Up to this many names are sought in a str with `in`. For more, the str is encoded block by block and searched once.
_FEW = 4
#: The size of these blocks in characters.
_STR_BLOCK = 1 << 16
#: The most sets of names whose plans are cached.
_MAX_PLANS = 256


def common_prefix(names: Iterable[str]) -> str:
    """What all of several names begin with.

    >>> common_prefix({"<|user|>": 1, "<|end|>": 2}), common_prefix([])
    ('<|', '')
    """
    first, last = min(names, default=""), max(names, default="")
    return first[: next((i for i, char in enumerate(first) if last[i] != char), len(first))]


class _Search:
    """A search for names, with the id and the flags of the token of each."""

    __slots__ = ("finder", "flags", "id_array", "ids", "names")

    def __init__(
        self, names: list[str], tokens: list[str], ids: Mapping[str, int], flags: Mapping[str, frozenset[str]]
    ) -> None:
        self.names = names
        self.finder = Finder(list(map(str.encode, names)))
        self.ids = [ids.get(token, -1) for token in tokens]  # -1: a disallowed name without a token
        self.id_array = np.array(self.ids, dtype=np.int64).astype(np.uint32)
        own = [flags.get(token, _NONE) for token in tokens] if flags else []
        self.flags = own if any(own) else None


class _Plan:
    """The plan of a search for a set of names. It is computed once per set."""

    __slots__ = ("normalized", "one_search", "original", "searches", "short")

    def __init__(self, original: frozenset[str], normalized: frozenset[str], one_search: bool) -> None:
        self.original, self.normalized = original, normalized
        #: Whether one search of the original text finds all these tokens, and none has flags.
        self.one_search = one_search
        #: All names if there are at most `_FEW`, else None.
        self.short = (*original, *normalized) if len(original) + len(normalized) <= _FEW else None
        #: The searches: "all", "original" and "normalized_names" of the original text, "normalized_spellings" of the
        #: normalized text.
        self.searches: dict[str, _Search] = {}


class SpecialTokens:
    """The special tokens of a tokenizer: name → id, and the search for them. Immutable.

    Where two begin at the same position, the longer one is found. The time of a search does not depend on the number of
    names.
    """

    __slots__ = (
        "_all", "_exact", "_flags", "_normalized", "_normalizer", "_plans", "_spelled", "_unions", "always", "ids",
    )  # fmt: skip

    def __init__(
        self,
        ids: Mapping[str, int],
        flags: Mapping[str, frozenset[str]] | None = None,
        normalizer: Normalizer | None = None,
    ) -> None:
        self.ids = dict(ids)
        self._all = frozenset(self.ids)
        flags = flags or {}
        #: The tokens that are matched in every text, allowed or not.
        self.always = frozenset(name for name, each in flags.items() if "ordinary" in each)
        kept = {each: each & {"lstrip", "rstrip", "single_word"} for each in set(flags.values())}
        self._flags = {name: kept[each] for name, each in flags.items() if kept[each]}
        self._normalizer = normalizer
        #: The tokens that are sought after the others, in the normalized text between them.
        self._normalized = frozenset(name for name, each in flags.items() if "normalized" in each)
        #: Name → its spelling in normalized text.
        self._spelled = {name: name if normalizer is None else normalizer.spelling(name) for name in self._normalized}
        #: Whether a str contains a name if and only if its UTF-8 does. This can be false if a name has a character that
        #: encoding produces from surrogates: U+FFFD, or one above U+FFFF.
        names = "".join(self.ids)
        self._exact = names.isascii() or not any(char == "\ufffd" or char > "\uffff" for char in set(names))
        self._plans: dict[frozenset[str], _Plan] = {}
        self._unions: dict[frozenset[str], frozenset[str]] = {}  # allowed names → these and `always`

    def resolve_names(self, names: Allowed, argument: str) -> frozenset[str]:
        """The names in the argument `allowed_special` or `disallowed_special`; "all" means all of them.

        Raises:
            ValueError: for an allowed name that is not a special token of this tokenizer.
            TypeError: for a str other than "all", and for names that are not str.

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
                raise TypeError(f"{argument} has {describe(name)}; a special token's name is a str")
        chosen = frozenset(listed)
        unknown = chosen - self._all
        if unknown and argument == "allowed_special":
            raise ValueError(
                f"{argument} has {short_repr(sorted(unknown))}, which this tokenizer does not have; its special tokens "
                f"are {short_repr(list(self.ids), 200)}"
            )
        for name in unknown:
            check_unicode(f"{argument}:", name)
        return chosen

    def resolve_policy(
        self, allowed_special: Allowed, disallowed_special: Allowed
    ) -> tuple[frozenset[str], frozenset[str]]:
        """(names to encode as tokens, names to raise for); disallowing "all" means all that are not allowed."""
        allowed = self.resolve_allowed(allowed_special)
        if disallowed_special == "all":
            return allowed, self._all - allowed if len(allowed) < len(self._all) else _NONE
        return allowed, self.resolve_names(disallowed_special, "disallowed_special")

    def check_texts(
        self, texts: Iterable[TextLike], allowed_special: Allowed, disallowed_special: Allowed
    ) -> frozenset[str]:
        """The names to encode as tokens, after refusing texts with a disallowed one."""
        if allowed_special is disallowed_special is NO_NAMES:
            return self.always
        allowed, disallowed = self.resolve_policy(allowed_special, disallowed_special)
        if disallowed:
            for text in texts:
                self.refuse(to_bytes(text), disallowed)
        return allowed

    def resolve_allowed(self, allowed_special: Allowed) -> frozenset[str]:
        """The names to encode as tokens: the allowed ones, and those that are matched in every text."""
        chosen = self.resolve_names(allowed_special, "allowed_special")
        if not chosen or not self.always or chosen is self._all:
            return chosen or self.always
        union = self._unions.get(chosen)
        if union is None:
            union = _remember(self._unions, chosen, chosen | self.always)
        return union

    def _plan(self, names: frozenset[str]) -> _Plan:
        plan = self._plans.get(names)
        if plan is None:
            normalized = names & self._normalized
            one_search = not normalized and self._flags.keys().isdisjoint(names)
            plan = _remember(self._plans, names, _Plan(names - normalized, normalized, one_search))
        return plan

    def _search(
        self, names: frozenset[str], which: Literal["all", "original", "normalized_names", "normalized_spellings"]
    ) -> _Search:
        """The search for a part of these names. It is built when it is first needed."""
        plan = self._plan(names)
        if (which == "original" and not plan.normalized) or (which == "normalized_names" and not plan.original):
            which = "all"
        found = plan.searches.get(which)
        if found is None:
            sought = list({"all": names, "original": plan.original, "normalized_names": plan.normalized}.get(which, ()))
            tokens = sought
            if which == "normalized_spellings":
                spelled: dict[str, str] = {}
                for name in sorted(plan.normalized, key=lambda each: self.ids[each]):
                    if self._spelled[name]:
                        spelled.setdefault(self._spelled[name], name)
                sought, tokens = list(spelled), list(spelled.values())
            found = plan.searches[which] = _Search(sought, tokens, self.ids, self._flags)
        return found

    def spellings(self, names: Collection[str]) -> frozenset[str]:
        """The texts sought for these tokens: the names, or what the normalizer makes of those that are "normalized"."""
        return frozenset(filter(None, (self._spelled.get(name, name) for name in names)))

    def need_one_search(self, names: frozenset[str]) -> bool:
        """Whether one search of the original text finds all these tokens, and none has flags."""
        return self._plan(names).one_search

    def occur(self, text: str | Bytes, names: frozenset[str]) -> bool:
        """Whether any of these tokens may occur in a text. False is certain; True is not."""
        if not names:
            return False
        plan = self._plan(names)
        if plan.normalized and self._normalizer is not None:
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
        """The length of the longest of these names in bytes; 1 if there are none."""
        return self._search(names, "all").finder.longest if names else 1

    def find(self, data: Buffer, names: frozenset[str], start: int = 0) -> Iterator[tuple[int, int, str]]:
        """Yield (start, end, name) of each match of the names in a text from `start` on. Flags are ignored."""
        search = self._search(names, "all")
        found = search.finder.find(data, start) if names else None
        if found is not None:
            for begin, end, number in zip(*(each.tolist() for each in found), strict=True):
                yield begin, end, search.names[number]

    def spans(
        self, data: Bytes, names: frozenset[str]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint32]] | None:
        """The (starts, ends, ids) of these tokens in a text; None if there are none. They must `need_one_search`."""
        search = self._search(names, "all")
        found = search.finder.find(data)
        return None if found is None else (found[0], found[1], search.id_array[found[2]])

    def split(
        self, data: Bytes, names: frozenset[str], before_normalization: bool = False
    ) -> Iterator[tuple[Bytes, int | None]]:
        """Split a text at these special tokens: yields (text, None) for non-empty text and (match, id) for tokens.

        Those that are sought in normalized text are left to `split_normalized`; with `before_normalization`, they
        are sought in this text.
        """
        for _, piece, special in self.split_with_starts(data, names, before_normalization):
            yield piece, special

    def split_with_starts(
        self, data: Bytes, names: frozenset[str], before_normalization: bool = False
    ) -> Iterator[tuple[int, Bytes, int | None]]:
        """Yield each piece with its start.

        A match may begin before the last one ends, if that one's white space has a token too, as in `tokenizers`.
        """
        plan = self._plan(names)
        first = self._search(names, "original") if plan.original else None
        if not plan.normalized or (self._normalizer is not None and not before_normalization):
            yield from self._cut(data, first)
            return
        normalized = self._search(names, "normalized_names")
        for start, piece, special in self._cut(data, first):
            if special is None:
                for at, inner, token_id in self._cut(piece, normalized):
                    yield start + at, inner, token_id
            else:
                yield start, piece, special

    def sought_normalized(self, names: frozenset[str]) -> frozenset[str]:
        """The subset of these tokens that is sought in normalized text."""
        return self._plan(names).normalized if self._normalizer is not None else _NONE

    def split_normalized(self, data: Bytes, names: frozenset[str]) -> Iterator[tuple[int, Bytes, int | None]]:
        """Cut the normalized text between the tokens that were found in the original text."""
        yield from self._cut(data, self._search(names, "normalized_spellings"))

    def _cut(self, data: Bytes, search: _Search | None) -> Iterator[tuple[int, Bytes, int | None]]:
        done, spaces = 0, (-1, -1)  # `spaces`: the last run of white space; no run is scanned twice
        found = None if search is None else search.finder.find(data)
        if search is not None and search.flags is not None:
            data = memoryview(data)  # slices of `bytes` would be copies
        for start, end, number in zip(*(each.tolist() for each in found), strict=True) if found is not None else ():
            assert search is not None
            if search.flags is not None and (flags := search.flags[number]):
                if "single_word" in flags and _is_within_word(data, start, end):
                    continue
                if "lstrip" in flags:
                    start = max(_find_spaces_start(data, start, done), done)
                if "rstrip" in flags:
                    if not spaces[0] <= end <= spaces[1]:
                        spaces = end, _find_spaces_end(data, end)
                    end = spaces[1]
            if start > done:
                yield done, data[done:start], None
            if start < end:  # empty if the white space of the previous match covers all of this one
                yield start, data[start:end], search.ids[number]
            done = end
        if done == 0:
            if len(data):
                yield 0, data, None
        elif done < len(data):
            yield done, data[done:], None

    def refuse(self, data: bytes, disallowed: frozenset[str], offset: int = 0) -> None:
        """Raise ValueError if the text holds a disallowed special token, as tiktoken does.

        `offset` is the position of `data` in the whole text, for the error.
        """
        for start, _, name in self.find(data, disallowed) if disallowed else ():
            position = offset + start
            raise ValueError(
                f"the text holds the disallowed special token {name!r} at byte {position}; to encode it as that token, "
                f"pass allowed_special={{{name!r}}}; to encode it as ordinary text, leave it out of "
                "disallowed_special; to allow all special tokens, pass allowed_special='all'"
            )


_Value = TypeVar("_Value")


def _remember(known: dict[frozenset[str], _Value], names: frozenset[str], value: _Value) -> _Value:
    """Cache a value for a set of names. The cache is cleared when it is full, so its size is bounded."""
    if len(known) >= _MAX_PLANS:
        known.clear()
    known[names] = value
    return value


def _find_spaces_start(data: Bytes, end: int, least: int) -> int:
    """The start of the white space that ends at `end`, at least `least`."""
    while end > least:
        size = next((n for n in (1, 2, 3) if end - n >= least and bytes(data[end - n : end]) in SPACES), 0)
        if not size:
            break
        end -= size
    return end


def _find_spaces_end(data: Bytes, start: int) -> int:
    """The end of the white space that begins at `start`."""
    while start < len(data):
        size = next((n for n in (1, 2, 3) if bytes(data[start : start + n]) in SPACES), 0)
        if not size:
            break
        start += size
    return start


def _is_within_word(data: Bytes, start: int, end: int) -> bool:
    """Whether the character before `data[start:end]` or the one after it is a word character."""
    from bpe.text.unicode import is_word

    before = bytes(data[max(start - 4, 0) : start]).decode("utf-8", "ignore")[-1:]
    after = bytes(data[end : end + 4]).decode("utf-8", "ignore")[:1]
    return (before != "" and is_word(before)) or (after != "" and is_word(after))


def sort_names(allowed_special: Allowed) -> str | tuple[str, ...]:
    """The argument `allowed_special` in a form that is the same in every process; a set of str is not."""
    if isinstance(allowed_special, str):
        return allowed_special
    check_iterable("allowed_special", allowed_special, '"all" or a collection of names')
    return tuple(sorted(set(allowed_special)))


def check_special_tokens(
    names: object, argument: str = "special_tokens", noun: str = "special token"
) -> tuple[str, ...]:
    """Check the argument `special_tokens`, or one like it, and return it as a tuple of distinct, non-empty str."""
    if isinstance(names, (str, bytes)) or not hasattr(names, "__iter__"):
        raise TypeError(f"{argument} is {short_repr(names)}; it must be a list of str, such as ['<|endoftext|>']")
    if isinstance(names, (set, frozenset)) and len(names) > 1:  # the keys of a dict have an order
        raise TypeError(
            f"{argument} is {describe(names)}, whose order differs from run to run; it must be a list, because its "
            "order determines ids"
        )
    checked = tuple(names)
    seen: set[str] = set()
    for name in checked:
        if not isinstance(name, str):
            raise TypeError(f"{noun} {short_repr(name)} is {with_article(name)}; it must be a str")
        if not name:
            raise ValueError(f"{noun} '' is empty; it must be at least one character")
        check_unicode(noun, name)
        if name in seen:
            raise ValueError(f"{noun} {name!r} is given twice; each has one id")
        seen.add(name)
    return checked


def effective_flags(flags: Mapping[str, frozenset[str]], normalizer: Normalizer | None) -> dict[str, frozenset[str]]:
    """The flags of all added tokens without those that have no effect, so that equal tokenizers have equal flags."""
    if (normalizer is None or normalizer.does_nothing) and _order_is_irrelevant(flags):
        without = {own: own - {"normalized"} for own in set(flags.values())}
        flags = {name: without[own] for name, own in flags.items()}
    return {name: own for name, own in flags.items() if own}


def _order_is_irrelevant(flags: Mapping[str, frozenset[str]]) -> bool:
    """Whether, without a normalizer, one search for all tokens finds the same as seeking the "normalized" ones last."""
    if len({"normalized" in own for own in flags.values()}) < 2:
        return True
    if any(own & {"lstrip", "rstrip", "single_word"} for own in flags.values()):
        return False
    return not may_overlap({name for name, own in flags.items() if "normalized" in own}, flags)


def may_overlap(some: Collection[str], names: Collection[str]) -> bool:
    """Whether a name in `some` and another one of all `names` may have common text. False is certain; True is not."""
    begins = {name[0] for name in names}
    if not begins.isdisjoint(set().union(*(name[1:] for name in names))):
        return True
    prefixes: list[str] = []  # the names that the last name begins with, and itself; all are in `some`, or none is
    for name in sorted(names):
        while prefixes and not name.startswith(prefixes[-1]):
            prefixes.pop()
        if prefixes and (name in some) != (prefixes[-1] in some):
            return True
        prefixes.append(name)
    return False
