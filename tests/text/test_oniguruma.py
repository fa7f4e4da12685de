"""Patterns of Oniguruma, beside the engine itself as `tokenizers` runs it."""

from __future__ import annotations

import json

import oniguruma_patterns as patterns
import pytest

import bpe
from bpe.errors import FormatError
from bpe.formats import huggingface
from bpe.formats.huggingface.steps import read_normalizer
from bpe.pretokenize.steps import Split
from bpe.text.oniguruma import UntranslatableError, is_shared_pattern, translate
from bpe.text.oniguruma_sets import POSIX_BRACKETS, find_case_variants, find_long_folds

tokenizers = pytest.importorskip("tokenizers")

#: Texts, with patterns that another reading of the syntax would match otherwise. Two spaces are between patterns.
CASES = {
    "baac\n\nab cd\n": (r"a*  a*|b  (?:|a)+  ^  $  \Z  \z  \A  (?<!\n)^  \b  \B"),
    "aaaab aaab a": (r"a{,2}  a{2}?  a{2}+  a{3,1}a  a{2,3}?  a{3,3}?b  a{2}{3}  a**  a++  a+?b"),
    "a{ a{x} a{,} a{1 ,2} ] }": (r"a{  a{x}  a{,}  a{1 ,2}  ]  }  {"),
    "abc&é": (r"[a-z&&[^b]]  [^a&&b]  [a&&]  [&&a]  [a&&&b]  [[a]&&[a-b]c]  [^[^a]b]"),
    "a1 \né": (r"[a[^b]]  [^\S\s]  [\S\s]  [^\D\d]|a  [^\d\P{Nd}]  [^[é&&b]x]"),
    "]ab-9.^_|~": (r"[]a]  [a-z-9]  [--a]  [a-]  [^-a]  []-a]  [\w-]  [a\-z]  [a||b]  [a~~b]"),
    "aFg\r\n9\u2028é": (r"\h+  \H  [\h]  [\H]+  [[:^xdigit:]]  \R  \N+  \O+  .+  (?m:.+)"),
    "a😀\x01\x1b\x07\x0b\x0cq\n": (r"\x{1F600}  \x61  \u0061  \o{141}  \cA  \C-a  \e\a\v\f  \q  \012"),
    "ad bcd d\nad bad": (r"(?<=a|bc)d  (?<=a+)d  (?<!a+)d  (?<=^a)d  (?<!(?<=b)a)d  (?<=a*)d"),
    "aa bb aba aab": (r"(a|b)\1  (?<n>a)(b)\k<n>  (a)\k<-1>  (?:(a)|b)*\1  \1(a)  (a?)\1b"),
    "ab a b aa": (r"(?x) a b # c  (?x: a\ b)  (?x)[a b]+  a(?#c)*  (?x)a{1,2} ?  (?x)a+ +"),
    "aB C ac Ab AB c": (r"a(?i)b|c  (?i)a(?-i)b|C  (?:(?i)a)b  (?i-i:A.)  (?i:a)B|C"),
    "ß ss SS ẞ ßt sﬆ ssTx sß": (
        r"(?i:ss)  (?i:ß)  (?i:[ß])  (?i:[^ß])  (?i:sst)  (?i:sss)  (?i:s+t)  (?i:[[:upper:]]x)"
    ),
    "st ﬆ ST ﬅ ﬃ ﬀi fﬁ ffi fiﬁ": (
        r"(?i:st)  (?i:s(?:t))  (?i:s(?i:t))  (?i:s[t])  (?i:st+)  (?i:ffi)  (?i:ﬃ)  (?i:ﬁ+)"
    ),
    "iIİı i̇ KkſsaA ͅß": (r"(?i:i)  (?i:ı)  (?i:İ)  (?i:[a-z])  (?i:k)  (?i:\p{Lu})  (?i:[\p{Lu}])  (?i:[^\p{L}]+)"),
    "aʕĸ漢ʕʕĸ\u0558\u1acf": (r"\p{Ll}  \p{Lo}  \P{Ll}  [\p{Lo}\p{M}]  [^\p{Ll}ĸ]  \p{^Lo}  (.)\1"),
}
#: Refused here, though `tokenizers` takes them, with the reason.
REFUSED = {
    "(?:a*|b){2}c": "a part that may be empty is repeated a number of times",
    r"[^[^\P{Nd}\H]]": "a negated class has several negated sets",
    r"\X": "text segments have no equal",
    r"a\Kb": "starts of matches have no equal",
    "(?~ab)": "absent groups have no equal",
    "(a)?(?(1)b|c)": "conditions have no equal",
    "(?{foo})": "callouts have no equal",
    r"(?W:\w)": "groups of this kind have no equal",
    r"(a\1)": "the reference is to a group that is not there, not complete or there twice",
    r"(?i:(a)\1)": "a reference ignores case",
    r"(?<=(?>a|ab))c": "a look-behind has an atomic group",
    r"\p{In_Armenian}": "the property is unknown, or has other characters",
    r"\p{Word}": "the property is unknown, or has other characters",
    r"[[:lower:]ʕ]": r"it names U\+0295, and asks for the case of letters",
    r"[a-[b]]": "a range ends with a class",
    r"a{2,1}?": "a possessive interval is lazy",
    "(" * 60 + "a" + ")" * 60: "nested more than 50 deep",
    "a" * 20_000: "it has 20000 characters",
}
#: What `tokenizers` refuses, too.
WRONG = (  # noqa: SIM905
    r"*a  a|*  (  )  [a  []  [z-a]  [[a]  [\w-a]  [a-\d]  ^*a  (?=a)*  (?:a|^)*  \p{Foo}  {1}  \1  "
    r"(a)\2  \u12  \xe4  a{100001}  [[:foo:]]  (?<!(a))d  (?<=a(?=d))d  (?<n>a)(b)\1  (?P<n>a)  "
    r"(?<=(?<!b)a)c  \k<n>(?<n>a)  (?s:.)  (?)  (?i  \x{0000000061}  a(?i)*  \  (?<1>a)"
).split("  ")


def check(some: list[str], texts: list[str]) -> None:
    compared = patterns.Comparison()
    for pattern in some:
        compared.compare(pattern, texts)
    assert compared.found == []
    assert compared.counts["equal"] == len(some)


def check_characters(some: list[str], every: str) -> None:
    """Compare the characters that patterns of one character match."""
    for pattern in some:
        split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), "removed", invert=True)
        expected = [span for _, span in split.pre_tokenize_str(every)]
        assert Split(pattern, "Removed", invert=True).spans(every) == expected, pattern


@pytest.mark.parametrize("text", CASES)
def test_constructs(text: str) -> None:
    check(CASES[text].split("  "), [text])


def test_published_patterns() -> None:
    maker = patterns.PatternMaker("published")
    check([pattern for pattern in patterns.PUBLISHED if "Extensions" not in pattern], [maker.text() for _ in range(8)])


def test_generated_patterns() -> None:
    """`benchmarks/checks/check_patterns.py` does the same with 10,000."""
    maker, compared = patterns.PatternMaker("generated"), patterns.Comparison()
    for _ in range(60):
        compared.compare(maker.pattern(), [maker.text() for _ in range(2)])
    assert compared.found == []
    assert compared.counts["refused here"] < 10


@pytest.mark.parametrize("name", POSIX_BRACKETS)
def test_posix_brackets(name: str) -> None:
    every = "".join(map(chr, [*range(0x3400), *range(0xA640, 0xAC00), *range(0xE000, 0xE010), *range(0xFB00, 0x10000)]))
    check_characters([f"[[:{name}:]]+"], every)


def test_characters_that_equal_others_ignoring_case() -> None:
    every = "".join(
        char for start in (0, 0x1C80, 0xA640, 0xFB00, 0x10400) for char in map(chr, range(start, start + 0x500))
    )
    chars = [*"aikszßſKéıİσςΐǅᾳﬆﬃʼnŉ", "\u0345", "\u1c89", "\ua64a", "\U00010428"]
    check_characters([f"(?i:{char})" for char in chars] + [f"(?i:[^{char}x]+)" for char in chars], every)
    assert find_case_variants("s") == "Ssſ"
    assert find_long_folds()["ffi"] == "ﬃ"


def test_what_cannot_be_translated_is_refused_with_the_reason() -> None:
    for pattern, reason in REFUSED.items():
        tokenizers.Regex(pattern)
        with pytest.raises(UntranslatableError, match=reason):
            translate(pattern)
        with pytest.raises(ValueError, match=rf"cannot be matched as Oniguruma does: .*{reason}"):
            Split(pattern)
        with pytest.raises(FormatError, match=rf"normalizer\.pattern.*cannot be matched as Oniguruma does: .*{reason}"):
            read_normalizer({"type": "Replace", "pattern": {"Regex": pattern}, "content": ""}, "normalizer")
    for pattern in [*WRONG, "a{" + "9" * 5000 + "}", "[" * 100, "(?i" * 100, "\\p{" + "L" * 5000 + "}"]:
        assert patterns.get_outcome(lambda pattern=pattern: tokenizers.Regex(pattern)) is None, pattern
        with pytest.raises(UntranslatableError):
            translate(pattern)


def test_patterns_that_mean_the_same() -> None:
    """Those of `regex` itself are written into a tokenizer.json as they are."""
    same_meaning = r"(?i:'s|'t|'re)|\p{Lu}+  (?<=a|bc)\d{1,3}  [a|b&]+  \p{Greek}|[\p{Arab}!]"
    other_meaning = r"\p{Script}x|é  (?i:'i)  (?i:é)  (?i:st)  \w  [a[b]]  a{3,1}  [^\s\S]  \A  a*  \p{Alpha_}+|^  \h"
    for pattern in same_meaning.split("  "):
        assert is_shared_pattern(pattern), pattern
    for pattern in other_meaning.split("  "):
        assert not is_shared_pattern(pattern), pattern


def test_later_characters_that_a_pattern_names() -> None:
    """A property lacks characters later than Unicode 16, also beside a range that has them."""
    later = r"\p{L}+|[ä-힣]  [\u0500-\u05ff]|\W  [^\u0500-\u05ff]+|\p{L}  (.)\1|[\u0500-\u05ff]  \u0558|\W"
    check(later.split("  "), ["a\u0558b\u0558\u0558\u1acf\u0558", "\u1acf\u1ad0a"])
    assert is_shared_pattern(r"[\u0500-\u05ff]+")
    assert not is_shared_pattern(r"[\u0500-\u05ff]+|\p{L}")


def test_replacing_decoders() -> None:
    shell = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={"aBc": 0, "ﬆ1": 1, "b": 2}, merges=[]))
    for pattern in (r"[a-c&&[^b]]", r"\A", r"(?i:st)\d?", r"\z", r"[[:upper:]]"):
        shell.decoder = tokenizers.decoders.Replace(tokenizers.Regex(pattern), "#")
        tokenizer = bpe.Tokenizer(huggingface.read(shell.to_str().encode()))
        again = bpe.Tokenizer(huggingface.read(huggingface.write(tokenizer.spec)))
        assert json.loads(huggingface.write(tokenizer.spec))["decoder"]["pattern"] == {"Regex": pattern}
        for ids in ([0], [0, 1], [1, 2, 0]):
            expected = "".join(shell.decode([token_id]) for token_id in ids)
            assert tokenizer.decode(ids) == again.decode(ids) == expected, pattern
