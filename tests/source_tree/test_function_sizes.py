"""No function is longer than 60 lines, and none has more than 10 parameters; what is public may have more parameters.

Lines are those of the signature and the body, without blank lines, comments and docstrings. C functions count too, in
headers and in the strings of `cdef extern from *`. No conditional expression has another one inside.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from source_trees import parse

import bpe

PACKAGE = Path(bpe.__file__).parent
MOST_LINES, MOST_PARAMETERS = 60, 10

#: Public functions, whose signatures stay as users know them.
PUBLIC = {
    "data/encoding.py encode_shards",
    "evaluation/evaluating.py evaluate",
    "research/parity.py train_parity",
    "training/train.py train",
}

STRING = re.compile(r'"""(?:.|\n)*?"""|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|#[^\n]*')
HEAD = re.compile(r"^([ \t]*)(?:async def|def|cpdef|cdef(?!\s+class))\b[^\n(=:]*?(\w+)\(", re.MULTILINE)
C_CODE = re.compile(r'cdef extern from \*[^\n]*\n\s*"""(.*?)"""', re.DOTALL)
C_HEAD = re.compile(r"^[a-zA-Z_][^\n;{}()]*?(\w+)(\([^;{}]*?\))\s*\{", re.MULTILINE)


class Size(NamedTuple):
    """A function: its name, and how many parameters (but `self` and `cls`) and lines it has."""

    name: str
    parameters: int
    lines: int


def without_strings(match: re.Match[str]) -> str:
    """A string or a comment, as empty lines; a string in a line as an empty one."""
    newlines = "\n" * match[0].count("\n")
    return newlines if match[0].startswith(("#", '"""')) else '""'


def closing(text: str, start: int) -> int:
    """The index after the bracket that closes the one at `start`."""
    depth = 0
    for match in re.compile(r"[\[({]|[\])}]").finditer(text, start):
        depth += 1 if match[0] in "[({" else -1
        if depth == 0:
            return match.end()
    raise AssertionError(f"a bracket is not closed: {text[start : start + 80]!r}")


def parameters(inside: str) -> list[str]:
    """The parameters in a signature's parentheses.

    >>> parameters("self, const int[:, ::1] ids, *, x: dict[str, int] = {},")
    ['const int ids', 'x: dict = {}']
    """
    while (flat := re.sub(r"\[[^\[\]]*\]|\([^()]*\)", "", inside)) != inside:
        inside = flat
    found = [part.strip() for part in re.sub(r"\{[^{}]*\}", "{}", inside).split(",")]
    return [part for part in found if part not in ("", "*", "/", "self", "cls", "void")]


def functions(text: str) -> Iterator[Size]:
    """The functions of Python or Cython code."""
    text = STRING.sub(without_strings, text)
    for match in HEAD.finditer(text):
        end = closing(text, match.end() - 1)
        if ":" not in text[end:].partition("\n")[0]:
            continue  # a declaration
        head, rest = text[match.start() : end], text[end:].split("\n")[1:]
        lines = [line for line in head.split("\n") if line.strip()]
        for line in rest:
            if line.strip():
                if len(line) - len(line.lstrip()) <= len(match[1].expandtabs()):
                    break
                lines.append(line)
        yield Size(match[2], len(parameters(text[match.end() : end - 1])), len(lines))


def c_functions(text: str) -> Iterator[Size]:
    """The functions of C code."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", lambda match: "\n" * match[0].count("\n"), text, flags=re.DOTALL)
    for match in C_HEAD.finditer(text):
        body = text[match.start() : closing(text, match.end() - 1)]
        yield Size(match[1], len(parameters(match[2][1:-1])), sum(bool(line.strip()) for line in body.split("\n")))


def sizes(path: Path) -> list[Size]:
    """All functions of a source file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".h":
        return list(c_functions(text))
    found = list(functions(text))
    if path.suffix != ".py":
        found += [size for code in C_CODE.findall(text) for size in c_functions(code)]
    return found


SOURCES = sorted(path for kind in ("*.py", "*.pyx", "*.pxd", "*.h") for path in PACKAGE.rglob(kind))


def test_no_function_is_too_large() -> None:
    found = [(f"{path.relative_to(PACKAGE).as_posix()} {size.name}", size) for path in SOURCES for size in sizes(path)]
    assert len(found) > 3000  # the patterns find functions
    assert {name for name, size in found if size.parameters > MOST_PARAMETERS} == PUBLIC
    assert {name for name, size in found if size.lines > MOST_LINES} == set()


LETTERS = "abcdefghijk"
LINES = "    x = 1\n" * 60
TOO_LARGE = {
    "python, parameters": f"def f({', '.join(LETTERS)}):\n    pass\n",
    "python, lines": f'def f(self):\n    """Do."""\n{LINES}\n',
    "cython, parameters": f"cdef int f(int[:, ::1] {', const int* '.join(LETTERS)}) except -1:\n    pass\n",
    "cython, lines": f"cdef inline void f(int* a) noexcept nogil:\n    cdef int x\n{LINES}\n",
}
TOO_LARGE_C = {
    "c, parameters": f"static int f({', '.join(f'int {letter}' for letter in LETTERS)}) {{\n}}\n",
    "c, lines": f"static void f(void) {{\n{LINES.replace('1', '1;')}\n}}\n",
}


@pytest.mark.parametrize("kind", [*TOO_LARGE, *TOO_LARGE_C])
def test_finds_a_function_that_is_too_large(kind: str) -> None:
    (size,) = functions(TOO_LARGE[kind]) if kind in TOO_LARGE else c_functions(TOO_LARGE_C[kind])
    assert size.name == "f"
    assert (size.parameters > MOST_PARAMETERS) == ("parameters" in kind)
    assert (size.lines > MOST_LINES) == ("lines" in kind)


def test_conditional_expressions_are_not_nested() -> None:
    nested = {
        f"{path.relative_to(PACKAGE).as_posix()}:{node.lineno}"
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.IfExp)
        and any(isinstance(part, ast.IfExp) for part in (node.test, node.body, node.orelse))
    }
    assert {place for place in nested if not place.startswith("corpus/reading.py:")} == set()
