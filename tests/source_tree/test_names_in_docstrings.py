"""The files, names, arguments and fields that docstrings and comments name exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from source_trees import parse, walk_statements

import bpe

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(bpe.__file__).parent
#: The name of a source file, with folders or without.
FILE = re.compile(r"(?:[\w.-]+/)*[\w-]+\.(?:py|pyx|pxd|h)")


def named_files(text: str) -> Iterator[tuple[int, str]]:
    """The line and the name of each file in backticks, outside paragraphs that begin with "Source" (of a peer)."""
    in_source = False
    for number, line in enumerate(text.split("\n"), 1):
        words = line.strip(' #:*/"')
        in_source = bool(words) and (in_source or words.startswith("Source"))
        if not in_source:
            yield from ((number, name) for name in re.findall(r"`([^`\n]+)`", line) if FILE.fullmatch(name))


def test_named_files_exist() -> None:
    folders = (PACKAGE, *(ROOT / name for name in ("tests", "docs", "benchmarks", "examples", "vocabularies")))
    files = [
        path.relative_to(folder.parent) for folder in folders for path in folder.rglob("*") if FILE.match(path.name)
    ]
    known = {"setup.py", *("/".join(path.parts[i:]) for path in files for i in range(len(path.parts)))}
    sources = [path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".pyx", ".pxd", ".pyi", ".h")]
    sources += (ROOT / "docs" / "internals").glob("*.md")
    assert len(sources) > 300
    assert [
        f"{path.name}:{number}: {name}"
        for path in sources
        for number, name in named_files(path.read_text())
        if name not in known
    ] == []


#: A name in backticks that only code can have: with `_`, with a dot, or called at a prompt.
NAME = re.compile(r"(?:>>> )?((?:\w+\.)+\w+|\w*_\w*|(?<=>>> )\w+)(?:\(.*)?")
#: The ends of names of files, which are no attributes.
SUFFIXES = {
    "bin",
    "bpe",
    "css",
    "gguf",
    "h",
    "html",
    "ids",
    "json",
    "md",
    "model",
    "npy",
    "pxd",
    "py",
    "pyi",
    "pyx",
    "txt",
}
#: Names of other libraries, and those that stand for many.
OTHER_NAMES = {
    "BPE_ANNOTATE", "BPE_DEBUG", "BPE_SANITIZE", "BPE_TRACE", "KW_ONLY", "_educational", "_encode_unstable_native",
    "bytes_to_unicode",
    "fancy_regex", "find_NAME_end", "from_NAME", "ignore_index", "name_interval", "named_x", "parse_special",
    "process_offsets", "transform_range", "unicode_normalization_alignments",
}  # fmt: skip


def list_words_of_code() -> set[str]:
    """List the words of all code, without comments and docstrings."""
    words = set(OTHER_NAMES)
    for folder in (PACKAGE, *(ROOT / name for name in ("tests", "benchmarks", "examples"))):
        for path in folder.rglob("*"):
            if path.suffix in (".py", ".pyx", ".pxd", ".pyi", ".h", ".js"):
                is_c = path.suffix in (".h", ".js")
                comment = r"/\*[\s\S]*?\*/|//.*" if is_c else r'"""[\s\S]*?"""|(?<!["\'\w])#.*'
                words.update(re.findall(r"\w+", re.sub(comment, " ", path.read_text(encoding="utf-8"))))
    return words


def test_named_identifiers_exist() -> None:
    words, unknown_names = list_words_of_code(), []
    sources = [path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".pyx", ".pxd", ".pyi", ".h")]
    for path in [*sources, *(ROOT / "docs" / "internals").glob("*.md")]:
        for line_number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            for match in map(NAME.fullmatch, re.findall(r"(?<!`)`([^`\n]+)`(?!`)", line)):
                parts = match[1].split(".") if match is not None else []
                if parts and parts[-1] not in SUFFIXES and not words.issuperset(parts):
                    unknown_names.append(f"{path.name}:{line_number}: " + ".".join(parts))
    assert unknown_names == []


def listed(node: ast.ClassDef | ast.FunctionDef, title: str) -> list[str] | None:
    """The names in a section of a docstring; None without that section."""
    text = (ast.get_docstring(node) or "") + "\n"
    found = re.search(rf"^{title}:\n((?:(?: .*)?\n)*)", text, re.MULTILINE)
    if found is None:
        return None
    lines = re.findall(r"^    ((?:\*{0,2}\w+(?:, )?)+):", found[1], re.MULTILINE)
    return [name.lstrip("*") for line in lines for name in line.split(", ")]


def parameters(node: ast.ClassDef | ast.FunctionDef) -> set[str] | None:
    """The parameters of a function or of a class's `__init__`, or a dataclass's fields; None for an inherited one."""
    if isinstance(node, ast.ClassDef):
        inits = [
            each for each in node.body if isinstance(each, ast.FunctionDef) and each.name in ("__init__", "__new__")
        ]
        if not inits:
            fields = [each.target for each in node.body if isinstance(each, ast.AnnAssign)]
            return {each.id for each in fields if isinstance(each, ast.Name)} or None
        node = inits[0]
    given = node.args
    names = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
    return {each.arg for each in names} - {"self", "cls"}


def attributes(node: ast.ClassDef) -> set[str]:
    """The names that a class or an instance has."""
    names = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
    names |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    return names | {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}


def test_listed_arguments_and_attributes_exist() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
    paths = [path for path, text in texts.items() if re.search(r"^ *(Args|Attributes):$", text, re.MULTILINE)]
    assert len(paths) > 100
    for path in paths:
        for node in walk_statements(parse(texts[path])):
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                args, wanted = listed(node, "Args"), parameters(node)
                assert args is None or wanted is None or set(args) == wanted, (path, node.name)
            if isinstance(node, ast.ClassDef):
                assert set(listed(node, "Attributes") or ()) <= attributes(node), (path, node.name)
