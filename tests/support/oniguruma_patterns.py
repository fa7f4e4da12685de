"""Random patterns of Oniguruma, and their matches by `tokenizers` and here, side by side."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from typing import Any

from peers import Peer

from bpe.errors import FormatError
from bpe.formats.huggingface.steps import read_normalizer
from bpe.pretokenize.steps import Split
from bpe.text import character_data, oniguruma_sets
from bpe.text.matching import Deadline

tokenizers = Peer("tokenizers")

#: The behaviors of a Split, as `tokenizers` names them in Python.
NAMES = {
    "Removed": "removed",
    "Isolated": "isolated",
    "MergedWithPrevious": "merged_with_previous",
    "MergedWithNext": "merged_with_next",
    "Contiguous": "contiguous",
}
#: The pattern of Kimi.
KIMI = (
    r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
#: Patterns of published files.
PUBLISHED = (
    r" ?[^(\s|[.,!?…。，、।۔،])]+",  # Bloom, Poro, Viking
    r"\A\p{Nd}{1,2}(?=\p{Nd}{3}+\z)",
    r"\p{Nd}{3}+(?=\p{Nd}{3}+\z)|\p{Nd}{1,3}",
    r"(?=(\d{3})+(?!\d))",
    KIMI,
    r"(\[[^\]]+]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\(|\)|\.|=|#|-|\+|\\|\/|:|~|@|\?|>>?|\*|\$|\%[0-9]{2}|[0-9])",
    r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",
    r"(?i)<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",
    r"[一-龥ࠀ-一가-\ud7ff]+",
    r"\p{N}{1,3}",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*",
    r"(?<!\n)^",
    r"\d+|[^\d\s]+|\s+",
    r" {2,}",
    r"\s*\Z",
    r"[^\S\n]+|\n",
    r"(?:(?<=[^\W\d])|(?<=\d)(?=\D))",
    r"\p{Script_Extensions=Latin}|(?<name>a)\k<name>",
    r"([a-z])\1+|(\d+)-\2",
)
PIECES = [
    *(  # noqa: SIM905
        "a b c A B ab aab abc aaaa bbb x Z _ 0 1 12 345 6789 - -- [ ] & && | ~ ^ $ . , ( ) { } {2} \\ 's 'll "
        "# + * ? é É é ß ẞ ss SS st ﬆ ffi ﬃ ſ K k i I ı İ σ ς Σ 漢字 ひらがな カ ー 가 ʕ ĸ ² ½ Ⅷ ١ ९ ש ا я Я ა ख ǅ ᾳ "
        "ͅ 😀 𐐀 𐐨 ♥ € … 。 "
    ).split(),
    " ", "  ", "\n", "\n\n", "\r\n", "\t", "\x0b", "\x0c", "\x85", "\u2028", "\xa0", "\u3000", "\x00", "\x1c", "\x7f",
    "👨\u200d👩", "\u200b", "\ufeff", "\u0558", "\U000e0001", "\ue000",
]  # fmt: skip
#: Characters with a meaning in patterns, or that are often in them.
_LITERALS = [*"abcABstSTxkKiI019 _-,:=#~&!'\"<>@%/;`}", *"éßſKςσʕ漢あ가я²½…", *"aaabbb", "ss", "st", "ffi", "\u0558"]
_ESCAPED = [*r"\.[](){}*+?^$|-/&~# _", "é"]
_CODES = (  # noqa: SIM905
    r"\n \r \t \v \f \a \e \x41 \x61 \x{62} \x{3b1} \x{1F600} \u0061 \u00e9 \0 \012 \o{141} \cA \C-i \q "
    r"\_ \j "
).split()
_SETS = [r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", r"\h", r"\H"]
_OUTSIDE = [".", ".", r"\R", r"\N", r"\O"]
_ANCHORS = ["^", "$", r"\A", r"\z", r"\Z", r"\b", r"\B"]
_RARE = (  # noqa: SIM905
    r"\G \K \X \y \Y (?~ab) (?(1)a|b) \g<1> \M-a \xe9 \p{Foo} \p{Word} * ) ( [ [] [b-a] (?W:\w) (?P<n>a) "
    r"a{3,1} \p{In_Armenian} (?<!(a)) (?<=a(?=b)) \8 "
).split()
_GROUPS = "( ( (?: (?: (?: (?= (?! (?<= (?<! (?> (?i: (?i: (?m: (?x: (?-i: (?#".split()  # noqa: SIM905
_REPEATS = ["*", "+", "?", "{2}", "{1,2}", "{2,}", "{,2}", "{0,1}", "{1,3}", "{3}"]


@cache
def _list_properties() -> list[str]:
    common = ["L", "Lu", "Ll", "Lo", "Lt", "M", "N", "Nd", "P", "S", "Z", "Han", "Latin", "Cyrillic", "White_Space"]
    return [*character_data.PROPERTIES.split(), *common * 20]


class PatternMaker:
    """Makes patterns."""

    def __init__(self, seed: object) -> None:
        self.chance = random.Random(str(seed))
        self.n_groups = 0

    def pattern(self) -> str:
        """A pattern."""
        self.n_groups = 0
        prefix = self.chance.choice(["", "", "", "", "", "", "(?i)", "(?m)", "(?x)", "(?i-m)"])
        return prefix + self.branches(self.chance.choice([1, 2, 2, 3])) or "a"

    def branches(self, depth: int) -> str:
        """Some alternatives."""
        return "|".join(self.sequence(depth) for _ in range(self.chance.choice([1, 1, 1, 2, 3])))

    def sequence(self, depth: int) -> str:
        """One alternative."""
        return "".join(self.repeated(depth) for _ in range(self.chance.choice([0, 1, 1, 1, 2, 2, 3, 4])))

    def repeated(self, depth: int) -> str:
        """An atom, perhaps repeated."""
        atom = self.atom(depth)
        for _ in range(self.chance.choice([0, 0, 0, 0, 1, 1, 1, 2])):
            atom += self.chance.choice(_REPEATS) + self.chance.choice(["", "", "", "?", "+"])
            if self.chance.random() < 0.7:
                break
        return atom

    def atom(self, depth: int) -> str:
        """A character, set, anchor, group or class."""
        chance = self.chance
        kind = chance.random()
        if kind < 0.3:
            return chance.choice(_LITERALS)
        if kind < 0.36:
            return "\\" + chance.choice(_ESCAPED)
        if kind < 0.40:
            return chance.choice(_CODES)
        if kind < 0.50:
            return chance.choice(_SETS + _OUTSIDE)
        if kind < 0.56:
            return self.property()
        if kind < 0.62:
            return chance.choice(_ANCHORS)
        if kind < 0.64:
            return chance.choice(_RARE)
        if kind < 0.66 and self.n_groups:
            return f"\\{chance.randint(1, self.n_groups)}"
        if kind < 0.82 or not depth:
            return self.char_class(2)
        return self.group(depth - 1)

    def group(self, depth: int) -> str:
        """A group."""
        start = self.chance.choice(_GROUPS)
        if start == "(?#":
            return "(?#a)"
        inner = self.branches(depth)
        self.n_groups += start == "("
        return f"{start}{inner})"

    def property(self) -> str:
        """A property."""
        name = self.chance.choice(_list_properties())
        return rf"\{self.chance.choice('pppP')}{{{'^' * (self.chance.random() < 0.1)}{name}}}"

    def char_class(self, depth: int) -> str:
        """A class in brackets."""
        members = [self.member(depth) for _ in range(self.chance.choice([1, 1, 2, 2, 3, 4]))]
        return f"[{'^' * (self.chance.random() < 0.3)}{''.join(members)}]"

    def member(self, depth: int) -> str:
        """A member of a class."""
        chance = self.chance
        kind = chance.random()
        if kind < 0.35:
            return chance.choice([*_LITERALS, ".", "$", "(", ")", "|", "*", "+", "?", "{", "^", "--", "||"])
        if kind < 0.42:
            return "\\" + chance.choice(_ESCAPED)
        if kind < 0.47:
            return chance.choice([*_CODES, r"\b"])
        if kind < 0.60:
            first_char, last_char = sorted(chance.sample("09AFZaefmstz~é\u0400ßäʕʯ一龥가힣", 2))
            return f"{first_char}-{last_char}"
        if kind < 0.70:
            return chance.choice(_SETS)
        if kind < 0.80:
            return self.property()
        if kind < 0.85:
            return f"[:{'^' * (chance.random() < 0.2)}{chance.choice([*oniguruma_sets.POSIX_BRACKETS, 'foo'])}:]"
        if kind < 0.90:
            return "&&"
        return self.char_class(depth - 1) if depth else "-"

    def text(self) -> str:
        """A text."""
        return "".join(self.chance.choice(PIECES) for _ in range(self.chance.randint(1, 12)))


def get_outcome(make: Callable[[], Any]) -> Any:
    """The result of a call to `tokenizers`; None for its error or panic."""
    try:
        return make()
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        return None


class Comparison:
    """Compares patterns, and counts what comes of them."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(
            ("equal", "refused by both", "refused here", "refused there", "slow", "different"), 0
        )
        self.reasons: dict[str, int] = {}
        self.found: list[str] = []  # the differences

    def compare(self, pattern: str, texts: list[str]) -> None:
        """Compare one pattern on some texts."""
        self.counts[self._compare(pattern, texts)] += 1

    def _compare(self, pattern: str, texts: list[str]) -> str:
        peer_outcome = get_outcome(lambda: tokenizers.Regex(pattern))
        try:
            splits = [Split(pattern, behavior, invert) for behavior in NAMES for invert in (False, True)]
        except ValueError as error:
            reason = str(error).rpartition("Oniguruma does: ")[2].partition(", at character")[0]
            if peer_outcome is not None:
                self.reasons[reason] = self.reasons.get(reason, 0) + 1
            return "refused here" if peer_outcome is not None else "refused by both"
        if peer_outcome is None:
            self.found.append(f"{pattern!r} is refused there")
            return "refused there"
        try:
            return "equal" if all(self._same(pattern, peer_outcome, splits, text) for text in texts) else "different"
        except TimeoutError:
            return "slow"

    def _same(self, pattern: str, peer_regex: Any, splits: list[Split], text: str) -> bool:
        differences = []
        for step in splits:
            split = tokenizers.pre_tokenizers.Split(peer_regex, NAMES[step.behavior], step.invert)
            expected = get_outcome(lambda split=split: [text[s:e] for _, (s, e) in split.pre_tokenize_str(text)])
            if expected is None:
                return True  # its search has failed: it tried too often
            pieces = step.split_within(text, Deadline(2.0, len(text)))
            spans = [text[s:e] for s, e in step.find_spans_within(text, Deadline(2.0, len(text)))]
            if pieces != expected or spans != expected:
                differences.append(f"{step.behavior}, {step.invert}: {pieces} for {expected}")
        item = {"type": "Replace", "pattern": {"Regex": pattern}, "content": "#"}
        try:
            replaced = read_normalizer(item, "normalizer")(text)
        except FormatError:
            replaced = None
        peer = tokenizers.normalizers.Replace(peer_regex, "#").normalize_str(text)
        if replaced not in (None, peer):
            differences.append(f"Replace: {replaced!r} for {peer!r}")
        if differences:
            self.found.append(f"{pattern!r} on {text!r}: {differences[0]}")
        return not differences
