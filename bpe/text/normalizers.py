"""The normalizers, which users import from `bpe.normalizers`; its docstring says how they are used.

Normal forms: `unicode.py`.
"""

from __future__ import annotations

import dataclasses
import re
from collections import abc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import regex

from bpe.base.forks import cached_property
from bpe.base.utf8 import decode_losslessly, encode_losslessly
from bpe.errors import check_bool, check_int, describe, short_repr, suggest, with_article
from bpe.text import alignment
from bpe.text.alignment import AlignedText, Convention
from bpe.text.character_sets import WHITE_SPACE, mask_new_characters
from bpe.text.matching import check_timeout, compile_pattern, find_matches, run_within_time
from bpe.text.oniguruma import translate
from bpe.text.unicode import lower, normalize


class Normalizer:
    """A function from str to str; the classes of this module are all its subclasses."""

    def __call__(self, text: str) -> str:
        """Normalize a text.

        Raises:
            TypeError: if the text is not a str.

        """
        _check_str(text)
        return self._normalize(str.__str__(text))  # a subclass may have other methods

    def on_bytes(self, data: bytes) -> bytes:
        """Normalize UTF-8 bytes, as text; bytes that are not UTF-8 stay unchanged."""
        if not isinstance(data, bytes):
            raise TypeError(f"data is {describe(data)}; it must be bytes")
        return encode_losslessly(self._normalize(decode_losslessly(data)))

    def align(self, text: str, convention: Convention = "whole") -> AlignedText:
        """Normalize a text, and find the span of the original text that each character comes from.

        >>> NFC().align("cafe\u0301!").ends.tolist(), NFC().align("cafe\u0301!", "tokenizers").ends.tolist()
        ([1, 2, 3, 5, 6], [1, 2, 3, 4, 6])
        """
        _check_str(text)
        text = str.__str__(text)
        if convention == "whole":
            return self._align(text)
        result = alignment.align_unchanged(text)
        for step in self.flat_steps():
            result = result.compose(step._align(result.text), convention)
        return result

    def flat_steps(self) -> list[Normalizer]:
        """List the normalizers that apply in order, none of which has steps of its own."""
        return [self]

    def spelling(self, name: str) -> str:
        """Spell the name of an added token as normalized text has it."""
        return self(name)

    @property
    def does_nothing(self) -> bool:
        """Whether it is an empty sequence, which leaves every text as it is."""
        return False

    @property
    def keeps_ascii(self) -> bool:
        """Whether it leaves every ASCII text as it is, as Unicode's normalization forms do. False is not certain."""
        return False

    def _normalize(self, text: str) -> str:
        raise NotImplementedError

    def _align(self, text: str) -> AlignedText:
        raise NotImplementedError

    def find_last_split(self, text: str, start: int) -> int:
        """Find the last position after `start` where a text may be split, whatever follows; 0 if there is none."""
        del text, start
        return 0

    def with_timeout(self, timeout: float | None) -> Normalizer:
        """Make a copy with another time limit in seconds for matching patterns on one text, if it has any.

        >>> Replace("[0-9]", "0").with_timeout(60).timeout
        60.0
        """
        check_timeout(timeout)
        return self

    def to_json(self) -> dict[str, Any]:
        """Convert the normalizer to a JSON object, for `from_json`."""
        fields: tuple[dataclasses.Field[Any], ...] = dataclasses.fields(self)  # type: ignore[arg-type]
        return {"type": type(self).__name__, **{field.name: getattr(self, field.name) for field in fields}}


class _NormalForm(Normalizer):
    form: ClassVar[Any]

    @property
    def keeps_ascii(self) -> bool:
        return True

    def _normalize(self, text: str) -> str:
        return normalize(self.form, text)

    def _align(self, text: str) -> AlignedText:
        return alignment.align_normal_form(self.form, text)

    def find_last_split(self, text: str, start: int) -> int:
        """Find the last position before a character that no form joins with the one before it."""
        return next((i for i in range(len(text) - 1, start, -1) if alignment.is_boundary_before(text[i])), 0)


@dataclass(frozen=True)
class NFC(_NormalForm):
    """Unicode's canonical composition.

    >>> NFC()("e\u0301 ﬁ") == "é ﬁ"
    True
    """

    form = "NFC"


@dataclass(frozen=True)
class NFD(_NormalForm):
    """Unicode's canonical decomposition.

    >>> NFD()("é ﬁ") == "e\u0301 ﬁ"
    True
    """

    form = "NFD"


@dataclass(frozen=True)
class NFKC(_NormalForm):
    """Unicode's compatibility composition.

    >>> NFKC()("e\u0301 ﬁ Ａ")
    'é fi A'
    """

    form = "NFKC"


@dataclass(frozen=True)
class NFKD(_NormalForm):
    """Unicode's compatibility decomposition.

    >>> NFKD()("é ﬁ Ａ") == "e\u0301 fi A"
    True
    """

    form = "NFKD"


@dataclass(frozen=True)
class Lowercase(Normalizer):
    """Lower case, each character by itself, as in Hugging Face's Lowercase.

    With `final_sigma=True` a Greek capital sigma at a word's end becomes ς, as in `str.lower` (and so in CLIP).

    >>> Lowercase()("ΟΔΟΣ"), Lowercase(final_sigma=True)("ΟΔΟΣ")
    ('οδοσ', 'οδος')
    """

    final_sigma: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "final_sigma", check_bool("final_sigma", self.final_sigma))

    def _normalize(self, text: str) -> str:
        return lower(text, self.final_sigma)

    def _align(self, text: str) -> AlignedText:
        result = self._normalize(text)
        original = alignment.align_unchanged(text)
        if len(result) == len(text):
            starts, ends = original.starts, original.ends
        else:
            lengths = [len(lower(char)) for char in text]
            starts, ends = original.starts.repeat(lengths), original.ends.repeat(lengths)
        sources = None if self.final_sigma else starts  # `tokenizers` does not have a final sigma
        return AlignedText(result, starts, ends, len(result) == len(text), sources)

    def find_last_split(self, text: str, start: int) -> int:
        """Find the end of the text; with `final_sigma`, the last position before a character that ends a word."""
        if not self.final_sigma:
            return len(text)
        return next((i for i in range(len(text) - 1, start, -1) if _ends_word(text[i])), 0)


@dataclass(frozen=True)
class Strip(Normalizer):
    """Remove white space from the beginning (`left`) and the end (`right`) of the text.

    >>> Strip()(" a "), Strip(right=False)(" a ")
    ('a', 'a ')
    """

    left: bool = True
    right: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "left", check_bool("left", self.left))
        object.__setattr__(self, "right", check_bool("right", self.right))

    def _normalize(self, text: str) -> str:
        return text[slice(*self._find_kept_span(text))]

    def _align(self, text: str) -> AlignedText:
        return alignment.align_unchanged(text, *self._find_kept_span(text))

    def _find_kept_span(self, text: str) -> tuple[int, int]:
        start = len(text) - len(text.lstrip(WHITE_SPACE)) if self.left else 0
        end = len(text.rstrip(WHITE_SPACE)) if self.right else len(text)
        return start, max(start, end)


@dataclass(frozen=True)
class CollapseWhitespace(Normalizer):
    r"""Replace each run of white space by one space.

    >>> CollapseWhitespace()("a \n\tb")
    'a b'
    """

    def _normalize(self, text: str) -> str:
        if any(map(text.__contains__, _CONTROL_SEPARATORS)):
            return _SPACES.sub(" ", text)
        words = text.split()  # its white space is `WHITE_SPACE` and `_CONTROL_SEPARATORS`, of which there are none here
        if text[:1].isspace():
            words.insert(0, "")
        if text[-1:].isspace():
            words.append("")
        return " ".join(words)

    def _align(self, text: str) -> AlignedText:
        spans = (match.span() for match in _COLLAPSIBLE_SPACES.finditer(text))
        return alignment.apply_edits(text, ((*span, alignment.map_to_span(" ", *span)) for span in spans))

    def find_last_split(self, text: str, start: int) -> int:
        """Find the end of the last character that is not white space."""
        del start
        return len(text.rstrip(WHITE_SPACE))


@dataclass(frozen=True)
class Replace(Normalizer):
    """Replace every match of `pattern`, a regular expression of the `regex` package, by the literal `replacement`.

    >>> Replace("[0-9]", "0")("B52")
    'B00'

    `timeout` is the time limit in seconds for matching one text, as for `bpe.Pretokenizer.from_regex`; exceeding it
    raises TimeoutError. `spelled` is the pattern in Oniguruma's syntax, where it was translated from that: the
    tokenizer.json holds it, so that `tokenizers` reads the file.

    Raises:
        ValueError: for a pattern that does not compile, and for a `spelled` that is another pattern.

    """

    pattern: str
    replacement: str = ""
    timeout: float | None = dataclasses.field(default=None, compare=False, repr=False)
    spelled: str | None = dataclasses.field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.spelled is not None and translate(self.spelled).expression != self.pattern:
            raise ValueError(f"spelled is {short_repr(self.spelled)}; it must be what the pattern was translated from")
        object.__setattr__(self, "timeout", check_timeout(self.timeout))
        for name in ("pattern", "replacement"):
            value = getattr(self, name)
            if not isinstance(value, str):
                raise TypeError(f"{name} is {describe(value)}; it must be a str")
        self._expression  # noqa: B018 (compile it now, so that a bad pattern is refused here)

    @cached_property
    def _expression(self) -> Any:
        return compile_pattern(self.pattern)

    @cached_property
    def literal(self) -> str | None:
        """The text that the pattern matches, if there is only one."""
        if not regex.fullmatch(r"(?:[^\\.^$*+?{}\[\]()|]|\\[!-/:-@\[-`{-~])+", self.pattern):
            return None
        return str(regex.sub(r"\\(.)", r"\1", self.pattern))

    def _normalize(self, text: str) -> str:
        if self.literal is not None:
            return text.replace(self.literal, self.replacement)

        if (masked_text := mask_new_characters(text, self.pattern)) is not text or r"\K" in self.pattern:
            return self._align(text).text

        def substitute(timeout: float | None) -> str:
            return str(self._expression.sub(lambda _: self.replacement, masked_text, timeout=timeout))

        return run_within_time(self.pattern, text, self.timeout, substitute)

    def _align(self, text: str) -> AlignedText:
        masked_text = mask_new_characters(text, self.pattern)

        def find_match_spans(timeout: float | None) -> list[tuple[int, int]]:
            return [match.span() for match in find_matches(self._expression, masked_text, timeout)]

        spans = run_within_time(self.pattern, text, self.timeout, find_match_spans)
        return alignment.apply_edits(text, ((*span, alignment.map_to_span(self.replacement, *span)) for span in spans))

    def find_last_split(self, text: str, start: int) -> int:
        """Find the end of the text if the pattern is one character or character class; return 0 for any other."""
        del start
        return len(text) if regex.fullmatch(_ONE_CHARACTER_PATTERN, self.pattern) else 0

    def with_timeout(self, timeout: float | None) -> Replace:
        """Make a copy with another time limit."""
        return dataclasses.replace(self, timeout=timeout)

    def to_json(self) -> dict[str, Any]:
        """Convert the normalizer to a JSON object, for `from_json`. It has no time limit, which changes no result."""
        return {"type": "Replace", "pattern": self.pattern, "replacement": self.replacement}

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


def Remove(pattern: str) -> Replace:  # noqa: N802 (used like the normalizer classes)
    r"""Remove every match of a regular expression.

    >>> Remove(r"[^가-힣\s]")("9점은!")
    '점은'
    """
    return Replace(pattern, "")


@dataclass(frozen=True)
class UnescapeHTML(Normalizer):
    """Replace HTML entities by their characters, `times` times (web text is often escaped twice).

    >>> UnescapeHTML(times=2)("R&amp;amp;B")
    'R&B'
    """

    times: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "times", check_int("times", self.times, 0))

    def _normalize(self, text: str) -> str:
        import html  # here, because most processes never need it

        for _ in range(self.times):
            text = html.unescape(text)
        return text

    def _align(self, text: str) -> AlignedText:
        result = alignment.align_unchanged(text)
        for _ in range(self.times):
            edits = map(_map_entity, _ENTITY.finditer(result.text))
            result = result.compose_whole(alignment.apply_edits(result.text, edits))
        return dataclasses.replace(result, sources=None)

    def find_last_split(self, text: str, start: int) -> int:
        """Find the last position before a character that no entity contains, at any level of escaping."""
        return max(0, *(text.rfind(char, start + 1) for char in "\t\n\f <"))


@dataclass(frozen=True)
class FixText(Normalizer):
    """Repair text that was decoded wrongly, with `ftfy.fix_text` (the extra `clip` installs it).

    Raises:
        ModuleNotFoundError: when called without ftfy installed.

    """

    def _normalize(self, text: str) -> str:
        try:
            import ftfy
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                "this tokenizer repairs text with ftfy, which is not installed; install the extra: pip install "
                "'bytepair[clip]', or make the tokenizer with ftfy=False"
            ) from None
        tag_start = text.find("<")
        parts = []
        position = 0
        for start, end in _find_suspect_lines(text):
            unescape = False if 0 <= tag_start < start else "auto"  # ftfy takes text with tags for HTML: do so by line
            parts += [text[position:start], ftfy.fix_text(text[start:end], unescape_html=unescape)]
            position = end
        return "".join([*parts, text[position:]])

    def _align(self, text: str) -> AlignedText:
        """Align by line: in a repaired line, everything from the first to the last change maps to one span."""
        old_lines, new_lines = text.split("\n"), self._normalize(text).split("\n")
        if len(old_lines) != len(new_lines):
            old_lines, new_lines = [text], [self._normalize(text)]
        edits = []
        line_start = 0
        for old_line, new_line in zip(old_lines, new_lines, strict=True):
            if old_line != new_line:
                min_length = min(len(old_line), len(new_line))
                head = next((i for i in range(min_length) if old_line[i] != new_line[i]), min_length)
                tail = next(
                    (i for i in range(min_length - head) if old_line[-1 - i] != new_line[-1 - i]), min_length - head
                )
                start, end = line_start + head, line_start + len(old_line) - tail
                edits.append((start, end, alignment.map_to_span(new_line[head : len(new_line) - tail], start, end)))
            line_start += len(old_line) + 1
        return dataclasses.replace(alignment.apply_edits(text, edits), sources=None)


@dataclass(frozen=True, init=False)
class Sequence(Normalizer):
    """Apply several normalizers in order; each is a normalizer or the name of one.

    >>> Sequence(Lowercase(), "strip")(" A ")
    'a'

    Raises:
        TypeError, ValueError: for what is neither a normalizer nor the name of one.

    """

    normalizers: tuple[Normalizer, ...]

    def __init__(self, *normalizers: Normalizer | str) -> None:
        steps = [create_by_name(step) if isinstance(step, str) else step for step in normalizers]
        for step in steps:
            if not isinstance(step, Normalizer):
                raise TypeError(
                    f"{short_repr(step)} is {with_article(step)}; it must be a normalizer or the name of one: "
                    'Sequence(NFC(), "strip")'
                )
        object.__setattr__(self, "normalizers", tuple(steps))

    @property
    def does_nothing(self) -> bool:
        """Whether it has no step."""
        return not self.normalizers

    @property
    def keeps_ascii(self) -> bool:
        """Whether all steps leave every ASCII text as it is. False is not certain."""
        return all(step.keeps_ascii for step in self.normalizers)

    def spelling(self, name: str) -> str:
        """Spell the name as each step spells it in turn."""
        for step in self.normalizers:
            name = step.spelling(name)
        return name

    def _normalize(self, text: str) -> str:
        for step in self.normalizers:
            text = step._normalize(text)
        return text

    def _align(self, text: str) -> AlignedText:
        result = alignment.align_unchanged(text)
        for step in self.normalizers:
            result = result.compose_whole(step._align(result.text))
        return result

    def flat_steps(self) -> list[Normalizer]:
        """List the steps of all normalizers of the sequence."""
        return [step for normalizer in self.normalizers for step in normalizer.flat_steps()]

    def with_timeout(self, timeout: float | None) -> Sequence:
        """Make a copy whose normalizers have another time limit each."""
        return Sequence(*(step.with_timeout(timeout) for step in self.normalizers))

    def to_json(self) -> dict[str, Any]:
        """Convert the normalizer to a JSON object, for `from_json`."""
        return {"type": "Sequence", "normalizers": [step.to_json() for step in self.normalizers]}


def _check_str(text: object) -> None:
    if not isinstance(text, str):
        raise TypeError(f"text is {describe(text)}; it must be a str (decode bytes first, or use on_bytes)")


def _find_suspect_lines(text: str) -> Iterator[tuple[int, int]]:
    r"""Find the (start, end) of the lines with a character that ftfy may change; adjacent lines are joined.

    >>> list(_find_suspect_lines("plain\n\nR&amp;B\n\u201cso\u201d\nplain"))
    [(7, 20)]
    """
    start, end = 0, -1  # of the last group of lines
    while match := _SUSPECT_CHARS.search(text, max(end, 0)):
        line_start = text.rfind("\n", 0, match.start()) + 1
        if line_start != end:
            if end >= 0:
                yield start, end
            start = line_start
        end = text.find("\n", match.start()) + 1 or len(text)
    if end >= 0:
        yield start, end


def _ends_word(char: str) -> bool:
    """Whether Σ before this character becomes ς: it is neither a cased letter nor ignorable between such letters."""
    return lower(f"AΣ{char}A", final_sigma=True)[1] == "ς"


def _map_entity(match: Any) -> tuple[int, int, Iterator[alignment.MappedChar]]:
    """Find the (start, end, characters) of an entity: in `&notit;` it is `&not`, which is `¬`; `&it;` has none."""
    import html.entities

    html5 = html.entities.html5
    name, (start, end) = match[1], match.span()
    if name[0] != "#" and name not in html5:
        end = start + 1 + next((size for size in range(len(name) - 1, 1, -1) if name[:size] in html5), -1)
    return start, end, alignment.map_to_span(html.unescape(match.string[start:end]), start, end)


#: The candidates for entities that `html.unescape` considers.
_ENTITY = regex.compile(r"&(#[0-9]+;?|#[xX][0-9a-fA-F]+;?|[^\t\n\f <&#;]{1,32};?)")
#: Patterns that are one character or one character class.
_ONE_CHARACTER_PATTERN = (  # compiled at its first use
    r"[^\\.^$*+?{}\[\]()|]|\\[pP]\{\w+\}|\\[dDsSwW]|\\[^\w\s]|\[\^?[^\\\[\]]+\]"
)
#: Characters that ftfy may change, or that make it change others: all except ASCII (without `&` and control characters)
#: and the most frequent kana, ideographs and Hangul.
_SUSPECT_CHARS = re.compile("[^\t\n -%'-~\u3001\u3002\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3]")
_SPACES = re.compile(f"[{WHITE_SPACE}]+")
#: White space other than a single space.
_COLLAPSIBLE_SPACES = re.compile(f"[{WHITE_SPACE}]{{2,}}|[{WHITE_SPACE.replace(' ', '')}]")
#: White space for `str.split` that does not have Unicode's White_Space property.
_CONTROL_SEPARATORS = "\x1c\x1d\x1e\x1f"
#: The short names of normalizers, in Python and on the command line.
NAMES: dict[str, Callable[[], Normalizer]] = {
    "nfc": NFC,
    "nfd": NFD,
    "nfkc": NFKC,
    "nfkd": NFKD,
    "lower": Lowercase,
    "strip": Strip,
    "collapse": CollapseWhitespace,
    "html": UnescapeHTML,
}
#: The types of an argument named `normalizer`, apart from None.
NormalizerLike = Normalizer | str | abc.Sequence[Normalizer | str]


def create_by_name(name: str) -> Normalizer:
    """Create the normalizer with a short name.

    >>> create_by_name("lower")
    Lowercase(final_sigma=False)

    Raises:
        ValueError: for a name that is not in `NAMES`, which the error lists.

    """
    if name not in NAMES:
        raise ValueError(
            f"normalizer {short_repr(name)} is not known; the names are {', '.join(NAMES)}{suggest(name, NAMES)}"
        )
    return NAMES[name]()


def as_normalizer(value: NormalizerLike | None) -> Normalizer | None:
    """Convert the argument `normalizer`: a normalizer, the name of one, a list of these, or None.

    >>> as_normalizer("nfc"), as_normalizer(["nfc", Strip()])
    (NFC(), Sequence(normalizers=(NFC(), Strip(left=True, right=True))))
    """
    if value is None or isinstance(value, Normalizer):
        return value
    if isinstance(value, str):
        return create_by_name(value)
    if isinstance(value, (list, tuple)):
        return Sequence(*value)
    raise TypeError(
        f"normalizer is {describe(value)}; it must be one of bpe.normalizers, a name ({', '.join(NAMES)}), a list of "
        "these, or None"
    )
