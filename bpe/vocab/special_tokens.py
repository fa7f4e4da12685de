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
_EMPTY: frozenset[str] = frozenset()
#: The default of `allowed_special` and `disallowed_special`; there is one empty tuple.
NO_NAMES: tuple[str, ...] = ()
#: Up to this many names are sought in a str with `in`. For more, the str is encoded block by block and searched once.
_MAX_SUBSTRING_NAMES = 4
#: The size of these blocks in characters.
_STR_BLOCK_CHARS = 1 << 16
#: The most sets of names whose plans are cached.
_MAX_PLANS = 256


def find_common_prefix(names: Iterable[str]) -> str:
    """Find what all of several names begin with.

    >>> find_common_prefix({"<|user|>": 1, "<|end|>": 2}), find_common_prefix([])
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
        token_flags = [flags.get(token, _EMPTY) for token in tokens] if flags else []
        self.flags = token_flags if any(token_flags) else None


class _Plan:
    """The plan of a search for a set of names. It is computed once per set."""

    __slots__ = ("normalized", "one_search", "original", "searches", "short")

    def __init__(self, original: frozenset[str], normalized: frozenset[str], one_search: bool) -> None:
        self.original, self.normalized = original, normalized
        #: Whether one search of the original text finds all these tokens, and none has flags.
        self.one_search = one_search
        #: All names if there are at most `_MAX_SUBSTRING_NAMES`, else None.
        self.short = (*original, *normalized) if len(original) + len(normalized) <= _MAX_SUBSTRING_NAMES else None
        #: The searches: "all", "original" and "normalized_names" of the original text, "normalized_spellings" of the
        #: normalized text.
        self.searches: dict[str, _Search] = {}


class SpecialTokens:
    """The special tokens of a tokenizer: name → id, and the search for them. Immutable.

    Where two begin at the same position, the longer one is found. The time of a search does not depend on the number of
    names.
    """

    __slots__ = (
        "_all_names", "_flags", "_is_exact_in_str", "_normalized", "_normalizer", "_plans", "_spellings", "_unions",
        "always", "ids",
    )  # fmt: skip

    def __init__(
        self,
        ids: Mapping[str, int],
        flags: Mapping[str, frozenset[str]] | None = None,
        normalizer: Normalizer | None = None,
    ) -> None:
        self.ids = dict(ids)
        self._all_names = frozenset(self.ids)
        flags = flags or {}
        #: The tokens that are matched in every text, allowed or not.
        self.always = frozenset(name for name, token_flags in flags.items() if "ordinary" in token_flags)
        matching_flags = {
            token_flags: token_flags & {"lstrip", "rstrip", "single_word"} for token_flags in set(flags.values())
        }
        self._flags = {
            name: matching_flags[token_flags] for name, token_flags in flags.items() if matching_flags[token_flags]
        }
        self._normalizer = normalizer
        #: The tokens that are sought after the others, in the normalized text between them.
        self._normalized = frozenset(name for name, token_flags in flags.items() if "normalized" in token_flags)
        #: Name → its spelling in normalized text.
        self._spellings = {name: name if normalizer is None else normalizer.spelling(name) for name in self._normalized}
        #: Whether a str contains a name if and only if its UTF-8 does. This can be false if a name has a character that
        #: encoding produces from surrogates: U+FFFD, or one above U+FFFF.
        names = "".join(self.ids)
        self._is_exact_in_str = names.isascii() or not any(char == "\ufffd" or char > "\uffff" for char in set(names))
        self._plans: dict[frozenset[str], _Plan] = {}
        self._unions: dict[frozenset[str], frozenset[str]] = {}  # allowed names → these and `always`

    def resolve_names(self, names: Allowed, argument: str) -> frozenset[str]:
        """Resolve the argument `allowed_special` or `disallowed_special` to names; "all" means all of them.

        Raises:
            ValueError: for an allowed name that is not a special token of this tokenizer.
            TypeError: for a str other than "all", and for names that are not str.

        """
        if isinstance(names, str):
            if names == "all":
                return self._all_names
            raise TypeError(
                f'{argument} is {names!r}; it must be "all" or a collection of names, such as {{{names!r}}}'
            )
        check_iterable(argument, names, '"all" or a collection of names')
        name_list = list(names)
        for name in name_list:
            if not isinstance(name, str):
                raise TypeError(f"{argument} has {describe(name)}; a special token's name is a str")
        selected = frozenset(name_list)
        unknown = selected - self._all_names
        if unknown and argument == "allowed_special":
            raise ValueError(
                f"{argument} has {short_repr(sorted(unknown))}, which this tokenizer does not have; its special tokens "
                f"are {short_repr(list(self.ids), 200)}"
            )
        for name in unknown:
            check_unicode(f"{argument}:", name)
        return selected

    def resolve_policy(
        self, allowed_special: Allowed, disallowed_special: Allowed
    ) -> tuple[frozenset[str], frozenset[str]]:
        """Find (names to encode as tokens, names to raise for); disallowing "all" means all that are not allowed."""
        allowed = self.resolve_allowed(allowed_special)
        if disallowed_special == "all":
            return allowed, self._all_names - allowed if len(allowed) < len(self._all_names) else _EMPTY
        return allowed, self.resolve_names(disallowed_special, "disallowed_special")

    def check_texts(
        self, texts: Iterable[TextLike], allowed_special: Allowed, disallowed_special: Allowed
    ) -> frozenset[str]:
        """Find the names to encode as tokens, after refusing texts with a disallowed one."""
        if allowed_special is disallowed_special is NO_NAMES:
            return self.always
        allowed, disallowed = self.resolve_policy(allowed_special, disallowed_special)
        if disallowed:
            for text in texts:
                self.refuse(to_bytes(text), disallowed)
        return allowed

    def resolve_allowed(self, allowed_special: Allowed) -> frozenset[str]:
        """Find the names to encode as tokens: the allowed ones, and those that are matched in every text."""
        allowed = self.resolve_names(allowed_special, "allowed_special")
        if not allowed or not self.always or allowed is self._all_names:
            return allowed or self.always
        union = self._unions.get(allowed)
        if union is None:
            union = _remember(self._unions, allowed, allowed | self.always)
        return union

    def _get_plan(self, names: frozenset[str]) -> _Plan:
        plan = self._plans.get(names)
        if plan is None:
            normalized = names & self._normalized
            one_search = not normalized and self._flags.keys().isdisjoint(names)
            plan = _remember(self._plans, names, _Plan(names - normalized, normalized, one_search))
        return plan

    def _get_search(
        self, names: frozenset[str], part: Literal["all", "original", "normalized_names", "normalized_spellings"]
    ) -> _Search:
        """Build the search for a part of these names when it is first needed."""
        plan = self._get_plan(names)
        if (part == "original" and not plan.normalized) or (part == "normalized_names" and not plan.original):
            part = "all"
        search = plan.searches.get(part)
        if search is None:
            patterns = list(
                {"all": names, "original": plan.original, "normalized_names": plan.normalized}.get(part, ())
            )
            tokens = patterns
            if part == "normalized_spellings":
                name_of_spelling: dict[str, str] = {}
                for name in sorted(plan.normalized, key=lambda token_name: self.ids[token_name]):
                    if self._spellings[name]:
                        name_of_spelling.setdefault(self._spellings[name], name)
                patterns, tokens = list(name_of_spelling), list(name_of_spelling.values())
            search = plan.searches[part] = _Search(patterns, tokens, self.ids, self._flags)
        return search

    def list_spellings(self, names: Collection[str]) -> frozenset[str]:
        """List the texts sought for these tokens: names, or what the normalizer makes of "normalized" ones."""
        return frozenset(filter(None, (self._spellings.get(name, name) for name in names)))

    def need_one_search(self, names: frozenset[str]) -> bool:
        """Whether one search of the original text finds all these tokens, and none has flags."""
        return self._get_plan(names).one_search

    def may_occur(self, text: str | Bytes, names: frozenset[str]) -> bool:
        """Whether any of these tokens may occur in a text. False is certain; True is not."""
        if not names:
            return False
        plan = self._get_plan(names)
        if plan.normalized and self._normalizer is not None:
            return True
        if not isinstance(text, str):
            return self._get_search(names, "all").finder.occurs(text)
        if not self._is_exact_in_str:
            return True
        if plan.short is not None:
            return any(name in text for name in plan.short)
        finder = self._get_search(names, "all").finder
        step = max(_STR_BLOCK_CHARS, 4 * finder.longest)
        return any(
            finder.occurs(to_bytes(text[start : start + step + finder.longest])) for start in range(0, len(text), step)
        )

    def measure_longest(self, names: frozenset[str]) -> int:
        """Measure the longest of these names in bytes; 1 if there are none."""
        return self._get_search(names, "all").finder.longest if names else 1

    def find(self, data: Buffer, names: frozenset[str], start: int = 0) -> Iterator[tuple[int, int, str]]:
        """Yield (start, end, name) of each match of the names in a text from `start` on. Flags are ignored."""
        search = self._get_search(names, "all")
        matches = search.finder.find(data, start) if names else None
        if matches is not None:
            for start, end, index in zip(*(array.tolist() for array in matches), strict=True):
                yield start, end, search.names[index]

    def find_spans(
        self, data: Bytes, names: frozenset[str]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint32]] | None:
        """Find the (starts, ends, ids) of these tokens, which must `need_one_search`, in a text; None without any."""
        search = self._get_search(names, "all")
        matches = search.finder.find(data)
        return None if matches is None else (matches[0], matches[1], search.id_array[matches[2]])

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

        If the white space that a match absorbed ("lstrip", "rstrip") contains the next token, the next match begins
        before the last one ends, as in `tokenizers`.
        """
        plan = self._get_plan(names)
        original_search = self._get_search(names, "original") if plan.original else None
        if not plan.normalized or (self._normalizer is not None and not before_normalization):
            yield from self._split_at_matches(data, original_search)
            return
        normalized_search = self._get_search(names, "normalized_names")
        for start, piece, special in self._split_at_matches(data, original_search):
            if special is None:
                for offset, subpiece, token_id in self._split_at_matches(piece, normalized_search):
                    yield start + offset, subpiece, token_id
            else:
                yield start, piece, special

    def select_normalized(self, names: frozenset[str]) -> frozenset[str]:
        """Select those of these tokens that are sought in normalized text."""
        return self._get_plan(names).normalized if self._normalizer is not None else _EMPTY

    def split_normalized(self, data: Bytes, names: frozenset[str]) -> Iterator[tuple[int, Bytes, int | None]]:
        """Cut the normalized text between the tokens that were found in the original text."""
        yield from self._split_at_matches(data, self._get_search(names, "normalized_spellings"))

    def _split_at_matches(self, data: Bytes, search: _Search | None) -> Iterator[tuple[int, Bytes, int | None]]:
        split_end, last_spaces = 0, (-1, -1)  # `last_spaces`: the last run of white space; no run is scanned twice
        matches = None if search is None else search.finder.find(data)
        if search is not None and search.flags is not None:
            data = memoryview(data)  # slices of `bytes` would be copies
        for start, end, index in (
            zip(*(array.tolist() for array in matches), strict=True) if matches is not None else ()
        ):
            assert search is not None
            if search.flags is not None and (flags := search.flags[index]):
                if "single_word" in flags and _is_within_word(data, start, end):
                    continue
                if "lstrip" in flags:
                    start = max(_find_spaces_start(data, start, split_end), split_end)
                if "rstrip" in flags:
                    if not last_spaces[0] <= end <= last_spaces[1]:
                        last_spaces = end, _find_spaces_end(data, end)
                    end = last_spaces[1]
            if start > split_end:
                yield split_end, data[split_end:start], None
            if start < end:  # empty if the white space of the previous match covers all of this one
                yield start, data[start:end], search.ids[index]
            split_end = end
        if split_end == 0:
            if len(data):
                yield 0, data, None
        elif split_end < len(data):
            yield split_end, data[split_end:], None

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


def _remember(cache: dict[frozenset[str], _Value], names: frozenset[str], value: _Value) -> _Value:
    """Cache a value for a set of names. The cache is cleared when it is full, so its size is bounded."""
    if len(cache) >= _MAX_PLANS:
        cache.clear()
    cache[names] = value
    return value


def _find_spaces_start(data: Bytes, end: int, min_start: int) -> int:
    """Find the start of the white space that ends at `end`, at least `min_start`."""
    while end > min_start:
        size = next((n for n in (1, 2, 3) if end - n >= min_start and bytes(data[end - n : end]) in SPACES), 0)
        if not size:
            break
        end -= size
    return end


def _find_spaces_end(data: Bytes, start: int) -> int:
    """Find the end of the white space that begins at `start`."""
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
    """Bring the argument `allowed_special` to a form that is the same in every process; a set of str is not."""
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
    name_tuple = tuple(names)
    seen: set[str] = set()
    for name in name_tuple:
        if not isinstance(name, str):
            raise TypeError(f"{noun} {short_repr(name)} is {with_article(name)}; it must be a str")
        if not name:
            raise ValueError(f"{noun} '' is empty; it must be at least one character")
        check_unicode(noun, name)
        if name in seen:
            raise ValueError(f"{noun} {name!r} is given twice; each has one id")
        seen.add(name)
    return name_tuple


def remove_ineffective_flags(
    flags: Mapping[str, frozenset[str]], normalizer: Normalizer | None
) -> dict[str, frozenset[str]]:
    """Remove the flags of added tokens that have no effect, so that equal tokenizers have equal flags."""
    if (normalizer is None or normalizer.does_nothing) and _order_is_irrelevant(flags):
        flags_left = {token_flags: token_flags - {"normalized"} for token_flags in set(flags.values())}
        flags = {name: flags_left[token_flags] for name, token_flags in flags.items()}
    return {name: token_flags for name, token_flags in flags.items() if token_flags}


def _order_is_irrelevant(flags: Mapping[str, frozenset[str]]) -> bool:
    """Whether, without a normalizer, one search for all tokens finds the same as seeking the "normalized" ones last."""
    if len({"normalized" in token_flags for token_flags in flags.values()}) < 2:
        return True
    if any(token_flags & {"lstrip", "rstrip", "single_word"} for token_flags in flags.values()):
        return False
    return not may_overlap({name for name, token_flags in flags.items() if "normalized" in token_flags}, flags)


def may_overlap(some: Collection[str], names: Collection[str]) -> bool:
    """Whether a name in `some` and another one of all `names` may have common text. False is certain; True is not."""
    first_chars = {name[0] for name in names}
    if not first_chars.isdisjoint(set().union(*(name[1:] for name in names))):
        return True
    prefixes: list[str] = []  # the names that the last name begins with, and itself; all are in `some`, or none is
    for name in sorted(names):
        while prefixes and not name.startswith(prefixes[-1]):
            prefixes.pop()
        if prefixes and (name in some) != (prefixes[-1] in some):
            return True
        prefixes.append(name)
    return False
