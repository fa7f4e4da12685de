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
VERSION, CLIP_VERSION, OLDEST_VERSION, FORMS_VERSION = "16.0", "18.0", "13.0", "9.0"
#: A character that each version added, which identifies the version.
FIRST_ADDED = {"18.0": 0x0558, "17.0": 0x088F, "16.0": 0x1C89, "15.1": 0x2EBF0, "15.0": 0x1E4D0, "14.0": 0x0870}

CLASS_PATTERNS = {
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
BLOCK_SIZE, TABLE_END = 32, 0x40000
CODE_LIMIT = 0x110000
CODES = [*range(0xD800), *range(0xE000, CODE_LIMIT)]
PART_SIZE = 50_000


# Querying the engines -------------------------------------------------------------------------------------------------


def split_characters() -> Iterator[str]:
    """Yield all characters except surrogates, in order, in strings of `PART_SIZE` characters."""
    for start in range(0, len(CODES), PART_SIZE):
        yield "".join(map(chr, CODES[start : start + PART_SIZE]))


def match_by_tiktoken(pattern: str) -> set[int]:
    """Find the characters that a class matches in `tiktoken`, whose encoding drops text without a match."""
    import tiktoken

    ranks = {bytes([byte]): byte for byte in range(256)}
    engine = tiktoken.Encoding("characters", pat_str=f"{pattern}+", mergeable_ranks=ranks, special_tokens={})
    return {ord(char) for part in split_characters() for char in bytes(engine.encode_ordinary(part)).decode()}


def match_by_tokenizers(pattern: str) -> set[int]:
    """Find the characters that a class matches in the engine of `tokenizers` (Oniguruma)."""
    from tokenizers import Regex, pre_tokenizers

    split = pre_tokenizers.Split(Regex(f"{pattern}+"), "removed", invert=True)
    return {ord(char) for part in split_characters() for piece, _ in split.pre_tokenize_str(part) for char in piece}


def match_by_regex(pattern: str) -> set[int]:
    """Find the characters that a class matches in the `regex` package."""
    import regex

    return {ord(char) for part in split_characters() for char in regex.findall(pattern, part)}


def find_numeric() -> set[int]:
    """Find the characters that `tokenizers` isolates as digits."""
    from tokenizers import pre_tokenizers

    digits = pre_tokenizers.Digits(individual_digits=True)
    pieces_of_parts = (
        digits.pre_tokenize_str("".join(f"a{char}" for char in part) + "a") for part in split_characters()
    )
    return {ord(piece) for pieces in pieces_of_parts for piece, _ in pieces if len(piece) == 1} - {ord("a")}


def find_lower_case() -> dict[int, int]:
    """Find the lower case of NEW characters in `tokenizers`, one character each."""
    from tokenizers import normalizers

    engine = normalizers.Lowercase()
    return {code: ord(lower) for code in sorted(find_new()) if (lower := engine.normalize_str(chr(code))) != chr(code)}


def identify_version(codes: set[int]) -> str:
    """Identify the Unicode version of an engine by the characters that it has assigned."""
    return next((name for name, code in FIRST_ADDED.items() if code in codes), "before 14.0")


def identify_versions() -> dict[str, str]:
    """Identify the Unicode version of each engine."""
    engines: dict[str, Any] = {
        "tiktoken": match_by_tiktoken,
        "tokenizers": match_by_tokenizers,
        "regex": match_by_regex,
    }
    return {name: identify_version(matches(r"\P{Cn}")) for name, matches in engines.items()}


# Tables ---------------------------------------------------------------------------------------------------------------


def find_new() -> set[int]:
    """Find the characters that are NEW; the docstring of this file defines them."""
    oldest_codes = match_by_tiktoken(rf"\p{{Age:V{OLDEST_VERSION.replace('.', '_')}}}")
    form_codes = match_by_tiktoken(rf"\p{{Age:V{FORMS_VERSION.replace('.', '_')}}}")
    return set(CODES) - oldest_codes | (find_form_characters() - form_codes)


def find_form_characters() -> set[int]:
    """Find the characters that take part in some normalization form, by this Python's data."""
    codes = set()
    for code in CODES:
        fields = unicodedata.decomposition(chr(code)).split()
        if fields or unicodedata.combining(chr(code)):
            codes |= {code, *(int(field, 16) for field in fields if field[0] != "<")}
    return codes


def make_class_table() -> bytearray:
    """Make a table of one byte per code point; bit k: the k-th of `CLASS_PATTERNS` matches (no surrogate)."""
    table = bytearray(CODE_LIMIT)
    for bit, (name, pattern) in enumerate(CLASS_PATTERNS.items()):
        codes = match_by_tiktoken(pattern)
        if disputed := codes ^ match_by_tokenizers(pattern):
            raise SystemExit(
                f"{name}: tiktoken and tokenizers disagree about U+{min(disputed):04X}, {len(disputed)} in all"
            )
        for code in codes:
            table[code] |= 1 << bit
    for code in find_new():
        table[code] |= NEW
    return table


def find_later_classes(table: bytearray) -> list[tuple[int, int, int]]:
    """Find the NEW characters that are letters or numbers for CLIP or starcoder, as runs (first, last, bits)."""
    letters, numbers, digits = match_by_regex(r"\p{L}"), match_by_regex(r"\p{N}"), find_numeric()
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


def format_header() -> str:
    """Format the C header."""
    table = make_class_table()
    oldest, forms = OLDEST_VERSION, FORMS_VERSION
    blocks: dict[bytes, int] = {}
    index = [blocks.setdefault(bytes(table[i : i + BLOCK_SIZE]), len(blocks)) for i in range(0, TABLE_END, BLOCK_SIZE)]
    block_bytes = b"".join(blocks)
    run_starts = [i for i in range(TABLE_END, CODE_LIMIT) if i == TABLE_END or table[i] != table[i - 1]]
    later_rows = [f"{{0x{first:x}, 0x{last:x}, {bits}}}," for first, last, bits in find_later_classes(table)]
    lines = [
        "/* Generated by generate_unicode.py from tiktoken, tokenizers and regex: do not edit. */",
        "#ifndef BPE_UNICODE_CLASSES_H",
        "#define BPE_UNICODE_CLASSES_H",
        "#include <stdint.h>",
        f'#define BPE_UNICODE_VERSION "{VERSION}"',
        f'#define BPE_CLIP_UNICODE_VERSION "{CLIP_VERSION}"',
        *(
            f"#define BPE_{name} {1 << bit}  /* {pattern} */"
            for bit, (name, pattern) in enumerate(CLASS_PATTERNS.items())
        ),
        f"#define BPE_NEW {NEW}  /* added after Unicode {oldest}, or normalized differently than in {forms} */",
        f"static const uint16_t bpe_class_index[{len(index)}] = {{",
        *format_rows(index),
        "};",
        f"static const uint8_t bpe_class_blocks[{len(block_bytes)}] = {{",
        *format_rows(list(block_bytes)),
        "};",
        f"#define BPE_LATE 0x{TABLE_END:x}  /* the table has the code points below it */",
        "static inline int bpe_class_of(uint32_t code) {",
        f"    return bpe_class_blocks[bpe_class_index[code / {BLOCK_SIZE}] * {BLOCK_SIZE} + code % {BLOCK_SIZE}];",
        "}",
        f"#define BPE_LATE_RUNS {len(run_starts)}",
        f"static const uint32_t bpe_late_starts[{len(run_starts)}] = {{",
        *format_rows(run_starts),
        "};",
        f"static const uint8_t bpe_late_classes[{len(run_starts)}] = {{",
        *format_rows([table[i] for i in run_starts]),
        "};",
        "/* (first, last, classes) of NEW characters: letters and numbers of clip, NUMERIC of starcoder. */",
        f"#define BPE_NUMERIC {NUMERIC}",
        f"#define BPE_LATER_ROWS {len(later_rows)}",
        "static const uint32_t bpe_later[BPE_LATER_ROWS][3] = {",
        *(" ".join(later_rows[i : i + 5]) for i in range(0, len(later_rows), 5)),
        "};",
        "#endif",
    ]
    return "\n".join(lines) + "\n"


def format_rows(numbers: list[int]) -> list[str]:
    """Format numbers, 32 a line."""
    return [",".join(map(str, numbers[i : i + 32])) + "," for i in range(0, len(numbers), 32)]


def format_unicode_data() -> str:
    """Format the Python module `unicode_data.py`."""
    user = "`bpe/text/unicode.py`"
    lines = [
        f'"""Generated by generate_unicode.py from tiktoken and tokenizers: do not edit. {user} uses it."""',
        "",
        "#: The lower case of NEW letters in `tokenizers`: (first, last, step, what to add).",
        "LOWER = (",
        *(
            f"    (0x{first:X}, 0x{last:X}, {step}, {add}),"
            for first, last, step, add in find_lower_runs(find_lower_case())
        ),
        ")",
        r"#: The characters that are `\w` in `tokenizers` (first-last, in hexadecimal).",
        'WORD = """',
    ]
    line = ""
    for first, last in find_runs(sorted(match_by_tiktoken(r"\w"))):
        item = f"{first:x}" if first == last else f"{first:x}-{last:x}"
        if len(line) + len(item) > 118:
            lines.append(line)
            line = ""
        line += f" {item}" if line else item
    return "\n".join([*lines, line, '"""']) + "\n"


def find_runs(codes: Iterable[int]) -> list[tuple[int, int]]:
    """Find the runs of consecutive code points, as (first, last).

    >>> find_runs([1, 2, 3, 5])
    [(1, 3), (5, 5)]
    """
    result: list[tuple[int, int]] = []
    for code in codes:
        if result and result[-1][1] == code - 1:
            result[-1] = (result[-1][0], code)
        else:
            result.append((code, code))
    return result


def find_lower_runs(lower: dict[int, int]) -> list[tuple[int, int, int, int]]:
    """Find runs of capitals with one step and one distance to their small letters: (first, last, step, add).

    >>> find_lower_runs({65: 97, 66: 98, 0xA7D6: 0xA7D7, 0xA7D8: 0xA7D9})
    [(65, 66, 1, 32), (42966, 42968, 2, 1)]
    """
    result: list[tuple[int, int, int, int]] = []
    for code, lower_code in lower.items():
        if result:
            first, last, step, add = result[-1]
            if lower_code - code == add and code - last <= 2 and (first == last or code - last == step):
                result[-1] = (first, code, code - last, add)
                continue
        result.append((code, code, 1, lower_code - code))
    return result


if __name__ == "__main__":
    expected = {"tiktoken": VERSION, "tokenizers": VERSION, "regex": CLIP_VERSION}
    if identify_versions() != expected:
        raise SystemExit(f"the installed packages have Unicode {identify_versions()}; this file says {expected}")
    here = Path(__file__).parent
    (here / "_unicode_classes.h").write_text(format_header(), encoding="ascii")
    (here / "unicode_data.py").write_text(format_unicode_data(), encoding="ascii")
