r"""Generate `_unicode_classes.h` and `unicode_data.py` from the Unicode data of tiktoken, `tokenizers` and `regex`.

    python -m bpe.text.generate_unicode

The ids must equal those of other libraries, so this script queries their engines for every code point:

- `tiktoken` 0.14 and `tokenizers` 0.23 agree on the classes of the scanners: Unicode 16. A difference ends the run.
- `tokenizers` isolates numbers for `starcoder` by Rust's `char::is_numeric` and lowers letters by
  `char::to_lowercase`, both with Unicode 17.
- OpenAI's code for CLIP uses the `regex` package, which had Unicode 18 (release 2026.11.15) at the time of writing.

The scanners need seven properties of a character, each a bit of one byte. The eighth bit, NEW, marks the characters
on which the sources may disagree: those that are not in Unicode 13, the version of the oldest supported Python, and
older ones whose role in normalization is unknown to `tokenizers` (which uses Unicode 9 there). All other characters
are the same everywhere, by Unicode's stability policies. Equal blocks of 128 code points are stored once.

To follow a new release of `tiktoken` or `tokenizers`: install both (and a `regex` with the Unicode version for CLIP),
set the versions below, run this, build, run `benchmarks/checks/check_hostile.py --code-points`, and put the new
digests into `tests/text/test_unicode_tables.py`. Files keep the version of their pretokenizer, so decide how to treat
older files (`docs/unicode.md` says what reading them does). When the oldest supported Python changes, OLDEST may
follow.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

#: The Unicode versions of the scanners' classes, of `clip`, of the oldest supported Python, and of the normalization
#: forms in `tokenizers`.
VERSION, CLIP_VERSION, OLDEST, FORMS = "16.0", "18.0", "13.0", "9.0"
#: A character that each version added, which identifies the version.
ADDED = {"18.0": 0x0558, "17.0": 0x088F, "16.0": 0x1C89, "15.1": 0x2EBF0, "15.0": 0x1E4D0, "14.0": 0x0870}

BITS = {
    "LETTER": r"\p{L}",
    "NUMBER": r"\p{N}",
    "SPACE": r"\s",
    "NEWLINE": r"[\r\n]",
    "UPPER": r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]",
    "LOWER": r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]",
    "SIGN": r"[\p{P}\p{S}]",
}
NEW = 128
#: In rows of `bpe_later`, beside CLIP's LETTER and NUMBER: Rust's `char::is_numeric` holds.
NUMERIC = 128
#: Code points of a block of the table of classes. It ends before LATE, from where on there are few runs of one class.
BLOCK, LATE = 32, 0x40000
LIMIT = 0x110000
CODES = [*range(0xD800), *range(0xE000, LIMIT)]
PART = 50_000


# Querying the engines -------------------------------------------------------------------------------------------------


def parts() -> Iterator[str]:
    """All characters except surrogates, in order, in strings of `PART` characters."""
    for start in range(0, len(CODES), PART):
        yield "".join(map(chr, CODES[start : start + PART]))


def by_tiktoken(pattern: str) -> set[int]:
    """The characters that a class matches in `tiktoken`, whose encoding drops text that its pattern does not match."""
    import tiktoken

    ranks = {bytes([byte]): byte for byte in range(256)}
    engine = tiktoken.Encoding("characters", pat_str=f"{pattern}+", mergeable_ranks=ranks, special_tokens={})
    return {ord(char) for part in parts() for char in bytes(engine.encode_ordinary(part)).decode()}


def by_tokenizers(pattern: str) -> set[int]:
    """The characters that a class matches in the engine of `tokenizers` (Oniguruma)."""
    from tokenizers import Regex, pre_tokenizers

    split = pre_tokenizers.Split(Regex(f"{pattern}+"), "removed", invert=True)
    return {ord(char) for part in parts() for piece, _ in split.pre_tokenize_str(part) for char in piece}


def by_regex(pattern: str) -> set[int]:
    """The characters that a class matches in the `regex` package."""
    import regex

    return {ord(char) for part in parts() for char in regex.findall(pattern, part)}


def numeric() -> set[int]:
    """The characters that `tokenizers` isolates as digits."""
    from tokenizers import pre_tokenizers

    digits = pre_tokenizers.Digits(individual_digits=True)
    found = (digits.pre_tokenize_str("".join(f"a{char}" for char in part) + "a") for part in parts())
    return {ord(piece) for pieces in found for piece, _ in pieces if len(piece) == 1} - {ord("a")}


def lowered() -> dict[int, int]:
    """The lower case of NEW characters in `tokenizers`, one character each."""
    from tokenizers import normalizers

    engine = normalizers.Lowercase()
    return {code: ord(low) for code in sorted(new()) if (low := engine.normalize_str(chr(code))) != chr(code)}


def unicode_version(found: set[int]) -> str:
    """The Unicode version of an engine that knows these characters."""
    return next((name for name, code in ADDED.items() if code in found), "before 14.0")


def versions() -> dict[str, str]:
    """The Unicode version of each engine."""
    engines: dict[str, Any] = {"tiktoken": by_tiktoken, "tokenizers": by_tokenizers, "regex": by_regex}
    return {name: unicode_version(matches(r"\P{Cn}")) for name, matches in engines.items()}


# Tables ---------------------------------------------------------------------------------------------------------------


def new() -> set[int]:
    """The characters that are NEW; the docstring of this file defines them."""
    older = by_tiktoken(rf"\p{{Age:V{OLDEST.replace('.', '_')}}}")
    known = by_tiktoken(rf"\p{{Age:V{FORMS.replace('.', '_')}}}")
    return set(CODES) - older | (roles() - known)


def roles() -> set[int]:
    """The characters that take part in some normalization form, by this Python's data."""
    found = set()
    for code in CODES:
        fields = unicodedata.decomposition(chr(code)).split()
        if fields or unicodedata.combining(chr(code)):
            found |= {code, *(int(field, 16) for field in fields if field[0] != "<")}
    return found


def classes() -> bytearray:
    """One byte per code point: bit k is set where the k-th pattern of `BITS` matches (surrogates match none)."""
    table = bytearray(LIMIT)
    for bit, (name, pattern) in enumerate(BITS.items()):
        found = by_tiktoken(pattern)
        if other := found ^ by_tokenizers(pattern):
            raise SystemExit(f"{name}: tiktoken and tokenizers disagree about U+{min(other):04X}, {len(other)} in all")
        for code in found:
            table[code] |= 1 << bit
    for code in new():
        table[code] |= NEW
    return table


def later(table: bytearray) -> list[tuple[int, int, int]]:
    """(first, last, bits) of the NEW characters that are letters or numbers for CLIP or starcoder."""
    letters, numbers, digits = by_regex(r"\p{L}"), by_regex(r"\p{N}"), numeric()
    rows: list[tuple[int, int, int]] = []
    for code in CODES:
        bits = (code in letters) | (code in numbers) << 1
        if bits != table[code] & 3 or (code in digits) != bool(table[code] & 2):
            if table[code] != NEW:
                raise SystemExit(f"U+{code:04X} has another class in regex or Rust, but is not NEW")
            bits |= NUMERIC if code in digits else 0
            if rows and rows[-1][1:] == (code - 1, bits):
                rows[-1] = (rows[-1][0], code, bits)
            else:
                rows.append((code, code, bits))
    return rows


# Files ----------------------------------------------------------------------------------------------------------------


def header() -> str:
    """The text of the C header."""
    table = classes()
    blocks: dict[bytes, int] = {}
    index = [blocks.setdefault(bytes(table[i : i + BLOCK]), len(blocks)) for i in range(0, LATE, BLOCK)]
    joined = b"".join(blocks)
    late = [i for i in range(LATE, LIMIT) if i == LATE or table[i] != table[i - 1]]
    extra = [f"{{0x{first:x}, 0x{last:x}, {bits}}}," for first, last, bits in later(table)]
    lines = [
        "/* Generated by generate_unicode.py from tiktoken, tokenizers and regex: do not edit. */",
        "#ifndef BPE_UNICODE_CLASSES_H",
        "#define BPE_UNICODE_CLASSES_H",
        "#include <stdint.h>",
        f'#define BPE_UNICODE_VERSION "{VERSION}"',
        f'#define BPE_CLIP_UNICODE_VERSION "{CLIP_VERSION}"',
        *(f"#define BPE_{name} {1 << bit}  /* {pattern} */" for bit, (name, pattern) in enumerate(BITS.items())),
        f"#define BPE_NEW {NEW}  /* added after Unicode {OLDEST}, or normalized differently than in {FORMS} */",
        f"static const uint16_t bpe_class_index[{len(index)}] = {{",
        *rows(index),
        "};",
        f"static const uint8_t bpe_class_blocks[{len(joined)}] = {{",
        *rows(list(joined)),
        "};",
        f"#define BPE_LATE 0x{LATE:x}  /* the table has the code points below it */",
        "static inline int bpe_class_of(uint32_t code) {",
        f"    return bpe_class_blocks[bpe_class_index[code / {BLOCK}] * {BLOCK} + code % {BLOCK}];",
        "}",
        f"#define BPE_LATE_RUNS {len(late)}",
        f"static const uint32_t bpe_late_starts[{len(late)}] = {{",
        *rows(late),
        "};",
        f"static const uint8_t bpe_late_classes[{len(late)}] = {{",
        *rows([table[i] for i in late]),
        "};",
        "/* (first, last, classes) of NEW characters: letters and numbers of clip, NUMERIC of starcoder. */",
        f"#define BPE_NUMERIC {NUMERIC}",
        f"#define BPE_LATER_ROWS {len(extra)}",
        "static const uint32_t bpe_later[BPE_LATER_ROWS][3] = {",
        *(" ".join(extra[i : i + 5]) for i in range(0, len(extra), 5)),
        "};",
        "#endif",
    ]
    return "\n".join(lines) + "\n"


def rows(numbers: list[int]) -> list[str]:
    """Format numbers, 32 a line."""
    return [",".join(map(str, numbers[i : i + 32])) + "," for i in range(0, len(numbers), 32)]


def data() -> str:
    """The text of the Python module."""
    user = "`bpe/text/unicode.py`"
    lines = [
        f'"""Generated by generate_unicode.py from tiktoken and tokenizers: do not edit. {user} uses it."""',
        "",
        "#: The lower case of NEW letters in `tokenizers`: (first, last, step, what to add).",
        "LOWER = (",
        *(f"    (0x{first:X}, 0x{last:X}, {step}, {add})," for first, last, step, add in runs_of_lower(lowered())),
        ")",
        r"#: The characters that are `\w` in `tokenizers` (first-last, in hexadecimal).",
        'WORD = """',
    ]
    line = ""
    for first, last in runs(sorted(by_tiktoken(r"\w"))):
        item = f"{first:x}" if first == last else f"{first:x}-{last:x}"
        if len(line) + len(item) > 118:
            lines.append(line)
            line = ""
        line += f" {item}" if line else item
    return "\n".join([*lines, line, '"""']) + "\n"


def runs(codes: Iterable[int]) -> list[tuple[int, int]]:
    """Runs of consecutive code points as (first, last).

    >>> runs([1, 2, 3, 5])
    [(1, 3), (5, 5)]
    """
    found: list[tuple[int, int]] = []
    for code in codes:
        if found and found[-1][1] == code - 1:
            found[-1] = (found[-1][0], code)
        else:
            found.append((code, code))
    return found


def runs_of_lower(lower: dict[int, int]) -> list[tuple[int, int, int, int]]:
    """Runs of capitals with one step between them and one distance to their small letters: (first, last, step, add).

    >>> runs_of_lower({65: 97, 66: 98, 0xA7D6: 0xA7D7, 0xA7D8: 0xA7D9})
    [(65, 66, 1, 32), (42966, 42968, 2, 1)]
    """
    found: list[tuple[int, int, int, int]] = []
    for code, low in lower.items():
        if found:
            first, last, step, add = found[-1]
            if low - code == add and code - last <= 2 and (first == last or code - last == step):
                found[-1] = (first, code, code - last, add)
                continue
        found.append((code, code, 1, low - code))
    return found


if __name__ == "__main__":
    expected = {"tiktoken": VERSION, "tokenizers": VERSION, "regex": CLIP_VERSION}
    if versions() != expected:
        raise SystemExit(f"the installed packages have Unicode {versions()}; this file says {expected}")
    here = Path(__file__).parent
    (here / "_unicode_classes.h").write_text(header(), encoding="ascii")
    (here / "unicode_data.py").write_text(data(), encoding="ascii")
