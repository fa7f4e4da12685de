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
from bpe.base.forks import cached_property
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
_MAX_CHAR_BYTES = 4
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
    """How a set of names is sought.

    Each search is named by the tokens sought and the text searched; it is built when it is first needed.
    """

    def __init__(
        self,
        names: frozenset[str],
        normalized_spellings: Mapping[str, str],
        ids: Mapping[str, int],
        flags: Mapping[str, frozenset[str]],
    ) -> None:
        self._names, self._spellings, self._ids, self._flags = names, normalized_spellings, ids, flags
        #: The names with the flag `normalized`: sought after the others, the first names, in the normalized text; or
        #: in the text given if there is no normalizer.
        self.normalized_names = names.intersection(normalized_spellings)
        self._first_names = names - self.normalized_names
        #: Whether one search of the original text finds all these tokens, and none has flags.
        self.one_search_suffices = not self.normalized_names and flags.keys().isdisjoint(names)
        #: All names if there are at most `_MAX_SUBSTRING_NAMES`, else None.
        self.few_names = tuple(names) if len(names) <= _MAX_SUBSTRING_NAMES else None

    @cached_property
    def search_any(self) -> _Search:
        """The search for all names in the text given."""
        names = list(self._names)
        return _Search(names, names, self._ids, self._flags)

    @cached_property
    def search_first(self) -> _Search | None:
        """The search for the first names in the text given; None if there are none."""
        return self._make_search(self._first_names)

    @cached_property
    def search_normalized_early(self) -> _Search | None:
        """The search for the normalized names in the text given; None if there are none."""
        return self._make_search(self.normalized_names)

    def _make_search(self, names: frozenset[str]) -> _Search | None:
        if len(names) == len(self._names):
            return self.search_any if names else None
        return _Search(list(names), list(names), self._ids, self._flags) if names else None

    @cached_property
    def search_normalized(self) -> _Search:
        """The search for the spellings of the normalized names in the normalized text."""
        name_of_spelling: dict[str, str] = {}
        for name in sorted(self.normalized_names, key=self._ids.__getitem__):
            if self._spellings[name]:
                name_of_spelling.setdefault(self._spellings[name], name)
        return _Search(list(name_of_spelling), list(name_of_spelling.values()), self._ids, self._flags)


class SpecialTokens:
    """The special tokens of a tokenizer: name → id, and the search for them. Immutable.

    Where two begin at the same position, the longer one is found. The time of a search does not depend on the number of
    names.
    """

    __slots__ = (
        "_all_names", "_flags", "_is_exact_in_str", "_normalizer", "_plans", "_spellings", "_unions",
        "always_names", "ids",
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
        self.always_names = frozenset(name for name, token_flags in flags.items() if "ordinary" in token_flags)
        matching_flags = {
            token_flags: token_flags & {"lstrip", "rstrip", "single_word"} for token_flags in set(flags.values())
        }
        self._flags = {
            name: matching_flags[token_flags] for name, token_flags in flags.items() if matching_flags[token_flags]
        }
        self._normalizer = normalizer
        #: For the tokens that are sought after the others, in the normalized text between them: name → spelling there.
        self._spellings = {
            name: name if normalizer is None else normalizer.spelling(name)
            for name, token_flags in flags.items()
            if "normalized" in token_flags
        }
        #: Whether a str contains a name if and only if its UTF-8 does. This can be false if a name has a character that
        #: encoding produces from surrogates: U+FFFD, or one above U+FFFF.
        names = "".join(self.ids)
        self._is_exact_in_str = names.isascii() or not any(char == "\ufffd" or char > "\uffff" for char in set(names))
        self._plans: dict[frozenset[str], _Plan] = {}
        self._unions: dict[frozenset[str], frozenset[str]] = {}  # allowed names → these and `always_names`

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
        requested_names = frozenset(name_list)
        unknown_names = requested_names - self._all_names
        if unknown_names and argument == "allowed_special":
            raise ValueError(
                f"{argument} has {short_repr(sorted(unknown_names))}, which this tokenizer does not have; its special "
                f"tokens are {short_repr(list(self.ids), 200)}"
            )
        for name in unknown_names:
            check_unicode(f"{argument}:", name)
        return requested_names

    def resolve_policy(
        self, allowed_special: Allowed, disallowed_special: Allowed
    ) -> tuple[frozenset[str], frozenset[str]]:
        """Find (names to encode as tokens, names to raise for); disallowing "all" means all that are not allowed."""
        allowed = self.resolve_allowed(allowed_special)
        if disallowed_special == "all":
            return allowed, self._all_names - allowed if len(allowed) < len(self._all_names) else _EMPTY
        return allowed, self.resolve_names(disallowed_special, "disallowed_special")

    def resolve_and_check(
        self, texts: Iterable[TextLike], allowed_special: Allowed, disallowed_special: Allowed
    ) -> frozenset[str]:
        """Find the names to encode as tokens, after refusing texts with a disallowed one."""
        if allowed_special is disallowed_special is NO_NAMES:
            return self.always_names
        allowed, disallowed = self.resolve_policy(allowed_special, disallowed_special)
        if disallowed:
            for text in texts:
                self.refuse(to_bytes(text), disallowed)
        return allowed

    def resolve_allowed(self, allowed_special: Allowed) -> frozenset[str]:
        """Find the names to encode as tokens: the allowed ones, and those that are matched in every text."""
        allowed = self.resolve_names(allowed_special, "allowed_special")
        if not allowed or not self.always_names or allowed is self._all_names:
            return allowed or self.always_names
        union = self._unions.get(allowed)
        if union is None:
            union = _remember(self._unions, allowed, allowed | self.always_names)
        return union

    def _get_plan(self, names: frozenset[str]) -> _Plan:
        plan = self._plans.get(names)
        if plan is None:
            plan = _remember(self._plans, names, _Plan(names, self._spellings, self.ids, self._flags))
        return plan

    def list_spellings(self, names: Collection[str]) -> frozenset[str]:
        """List the texts sought for these tokens: names, or what the normalizer makes of "normalized" ones."""
        return frozenset(filter(None, (self._spellings.get(name, name) for name in names)))

    def one_search_suffices(self, names: frozenset[str]) -> bool:
        """Whether one search of the original text finds all these tokens, and none has flags."""
        return self._get_plan(names).one_search_suffices

    def may_occur(self, text: str | Bytes, names: frozenset[str]) -> bool:
        """Whether any of these tokens may occur in a text. False is certain; True is not."""
        if not names:
            return False
        plan = self._get_plan(names)
        if plan.normalized_names and self._normalizer is not None:
            return True
        if not isinstance(text, str):
            return plan.search_any.finder.occurs(text)
        if not self._is_exact_in_str:
            return True
        text = str.__str__(text)  # a subclass may have other methods
        if plan.few_names is not None and len(text) <= _STR_BLOCK_CHARS:  # this holds the GIL
            return any(name in text for name in plan.few_names)
        finder = plan.search_any.finder
        step = max(_STR_BLOCK_CHARS, 4 * finder.longest)
        return any(
            finder.occurs(to_bytes(text[start : start + step + finder.longest])) for start in range(0, len(text), step)
        )

    def measure_longest(self, names: frozenset[str]) -> int:
        """Measure the longest of these names in bytes; 1 if there are none."""
        return self._get_plan(names).search_any.finder.longest if names else 1

    def find(self, data: Buffer, names: frozenset[str], start: int = 0) -> Iterator[tuple[int, int, str]]:
        """Yield (start, end, name) of each match of the names in a text from `start` on. Flags are ignored."""
        if not names:
            return
        search = self._get_plan(names).search_any
        matches = search.finder.find(data, start)
        if matches is not None:
            for start, end, index in zip(*(array.tolist() for array in matches), strict=True):
                yield start, end, search.names[index]

    def get_search(self, names: frozenset[str]) -> tuple[Finder, NDArray[np.uint32]]:
        """Return the search for tokens for which `one_search_suffices`, and the id of each string that it finds."""
        search = self._get_plan(names).search_any
        return search.finder, search.id_array

    def find_spans(
        self, data: Bytes, names: frozenset[str]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint32]] | None:
        """Find the (starts, ends, ids) of tokens for which `one_search_suffices` in a text; None without any."""
        search = self._get_plan(names).search_any
        matches = search.finder.find(data)
        return None if matches is None else (matches[0], matches[1], search.id_array[matches[2]])

    def find_last_end(self, data: bytes, names: frozenset[str]) -> int:
        """Find the last end of one of these tokens where a text may be cut, whatever follows `data`; 0 if none.

        The parts are split as the whole text is: no text that follows could make the match longer, it absorbs no white
        space there, and no other match begins there, which might depend on the character before it.
        """
        search = self._get_plan(names).search_first if names else None
        matches = None if search is None else search.finder.find(data)
        if search is None or matches is None:
            return 0
        next_start, limit = len(data), len(data) - max(search.finder.longest, _MAX_CHAR_BYTES)
        for start, end, index in reversed(list(zip(*(array.tolist() for array in matches), strict=True))):
            flags = _EMPTY if search.flags is None else search.flags[index]
            absorbs_spaces = "rstrip" in flags and _find_spaces_end(data[end : end + _MAX_CHAR_BYTES], 0) > 0
            if end <= limit and end < next_start and not absorbs_spaces and "single_word" not in flags:
                return int(end)
            next_start = start
        return 0

    def split(
        self, data: Bytes, names: frozenset[str], before_normalization: bool = False
    ) -> Iterator[tuple[Bytes, int | None]]:
        """Split a text at these special tokens: yields (text, None) for non-empty text and (match, id) for tokens.

        Those that are sought in normalized text are left to `split_normalized`; with `before_normalization`, they
        are sought in this text.
        """
        for _, stretch, special_id in self.split_with_starts(data, names, before_normalization):
            yield stretch, special_id

    def split_with_starts(
        self,
        data: Bytes,
        names: frozenset[str],
        before_normalization: bool = False,
        context: tuple[bytes, bytes] = (b"", b""),
    ) -> Iterator[tuple[int, Bytes, int | None]]:
        """Yield each stretch with its start.

        If the white space that a match absorbed ("lstrip", "rstrip") contains the next token, the next match begins
        before the last one ends, as in `tokenizers`. Where `data` is a part of a text, `context` is the characters
        before and after it, on which "single_word" depends.
        """
        plan = self._get_plan(names)
        stretches = self._split_at_matches(data, plan.search_first, context)
        if not plan.normalized_names or (self._normalizer is not None and not before_normalization):
            yield from stretches
            return
        for start, stretch, special_id in stretches:
            if special_id is None:
                for offset, part, token_id in self._split_at_matches(stretch, plan.search_normalized_early):
                    yield start + offset, part, token_id
            else:
                yield start, stretch, special_id

    def select_normalized(self, names: frozenset[str]) -> frozenset[str]:
        """Select those of these tokens that are sought in normalized text."""
        return self._get_plan(names).normalized_names if self._normalizer is not None else _EMPTY

    def split_normalized(self, data: Bytes, names: frozenset[str]) -> Iterator[tuple[int, Bytes, int | None]]:
        """Split normalized text at those of these tokens that are sought in it."""
        yield from self._split_at_matches(data, self._get_plan(names).search_normalized)

    def _split_at_matches(
        self, data: Bytes, search: _Search | None, context: tuple[bytes, bytes] = (b"", b"")
    ) -> Iterator[tuple[int, Bytes, int | None]]:
        split_end, last_spaces = 0, (-1, -1)  # `last_spaces`: the last run of white space; no run is scanned twice
        matches = None if search is None else search.finder.find(data)
        if search is None or matches is None:
            if len(data):
                yield 0, data, None
            return
        if search.flags is not None:
            data = memoryview(data)  # slices of `bytes` would be copies
        for start, end, index in zip(*(array.tolist() for array in matches), strict=True):
            if search.flags is not None and (flags := search.flags[index]):
                if "single_word" in flags and _is_within_word(data, start, end, context):
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
        match = next(self.find(data, disallowed), None)
        if match is not None:
            start, _, name = match
            raise ValueError(
                f"the text holds the disallowed special token {name!r} at byte {offset + start}; to encode it as that "
                f"token, pass allowed_special={{{name!r}}}; to encode it as ordinary text, leave it out of "
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


def take_context(data: Bytes, start: int, end: int) -> tuple[bytes, bytes]:
    """Take the characters before and after `data[start:end]`."""
    return bytes(data[max(start - _MAX_CHAR_BYTES, 0) : start]), bytes(data[end : end + _MAX_CHAR_BYTES])


def _is_within_word(data: Bytes, start: int, end: int, context: tuple[bytes, bytes]) -> bool:
    """Whether the character before `data[start:end]` or the one after it is a word character."""
    from bpe.text.unicode import is_word

    before, after = take_context(data, start, end)
    before, after = before if start else context[0], after if end < len(data) else context[1]
    char_before, char_after = before.decode("utf-8", "ignore")[-1:], after.decode("utf-8", "ignore")[:1]
    return (char_before != "" and is_word(char_before)) or (char_after != "" and is_word(char_after))


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
    names_so_far: set[str] = set()
    for name in name_tuple:
        if not isinstance(name, str):
            raise TypeError(f"{noun} {short_repr(name)} is {with_article(name)}; it must be a str")
        if not name:
            raise ValueError(f"{noun} '' is empty; it must be at least one character")
        check_unicode(noun, name)
        if name in names_so_far:
            raise ValueError(f"{noun} {name!r} is given twice; each has one id")
        names_so_far.add(name)
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


def may_overlap(subset: Collection[str], names: Collection[str]) -> bool:
    """Whether a name in `subset` and another one of all `names` may have common text. False is certain; True is not."""
    first_chars = {name[0] for name in names}
    if not first_chars.isdisjoint(set().union(*(name[1:] for name in names))):
        return True
    # The names that the last name begins with, and itself; all are in `subset`, or none is.
    prefixes: list[str] = []
    for name in sorted(names):
        while prefixes and not name.startswith(prefixes[-1]):
            prefixes.pop()
        if prefixes and (name in subset) != (prefixes[-1] in subset):
            return True
        prefixes.append(name)
    return False
