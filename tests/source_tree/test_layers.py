"""The rooms of the package in layers: a module imports, cimports and includes only modules of lower layers.

The check reads the sources: all imports of .py and .pyi files (also in functions and under TYPE_CHECKING), imports,
cimports and headers of .pyx and .pxd files, and includes of .h files. A kernel and its .pxd count as one module. Within
a room, modules must not depend on each other in a cycle. Any module may be imported, but names and attributes that
begin with an underscore are private to their module, but for the parts of a `Tokenizer`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from source_trees import parse

import bpe

PACKAGE = Path(bpe.__file__).parent
ROOT = PACKAGE.parent

#: The layers, from the lowest to the highest: rooms, and modules outside any room. Those in one row must not import
#: each other.
LAYERS = [
    {"errors", "_lazy", "_names", "_starting", "_version", "_uncompiled"},
    {"base"},
    {"text"},
    {"normalizers"},
    {"show"},
    {"pretokenize"},
    {"pretokenizers"},
    {"vocab"},
    {"batch"},
    {"corpus"},
    {"count"},
    {"merge"},
    {"encode"},
    {"decode"},
    {"formats"},
    {"chats"},
    {"tokenizer"},
    {"drawing", "prompts"},
    {"plots"},
    {"named", "converting"},
    {"training"},
    {"data", "evaluation", "research"},
    {"compat", "distributed"},
    {"report", "serving"},
    {"__init__"},
    {"cli"},
    {"__main__"},
]
LEVELS = {name: level for level, names in enumerate(LAYERS) for name in names}

#: Allowed imports of a higher module: (importing module, imported module). Each import is inside the method of
#: `Tokenizer` that needs it.
EXCEPTIONS: set[tuple[str, str]] = {("bpe.tokenizer", "bpe.drawing"), ("bpe.tokenizer", "bpe.named.hub")}

#: The parts of a `Tokenizer` that other modules of the package use.
PARTS = {"_engine", "_decoder", "_offset_encoder", "_merge_tree"}

#: The largest number of Python and Cython files in a folder: a room, or a folder of the tests or the benchmarks.
MOST_FILES = 24
KINDS = (".py", ".pyi", ".pyx", ".pxd", ".h")
#: Packages outside this one that a kernel may import.
FOR_KERNELS = {"numpy", "libc", "cython", "cpython", "os", "sys", "threading"}  # not posix: bpe/base/_system.h


@dataclass(frozen=True)
class Need:
    """A dependency of a file: a module of the package, and the names that it imports from it."""

    module: str  # bpe.room.name, or a header: bpe/room/_name.h
    names: tuple[str, ...] = ()
    line: int = 0


def module_of(path: Path, root: Path) -> str:
    """The module of a file, such as bpe.merge._merger; a header is its own module, such as bpe.merge._rounds.h."""
    name = ".".join(path.relative_to(root).with_suffix("").parts)
    return f"{name}.h" if path.suffix == ".h" else name


def room_of(module: str) -> str:
    """The second part of a module's name; `__init__` for `bpe` itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def sources(package: Path) -> list[Path]:
    return sorted(path for path in package.rglob("*.*") if path.suffix in KINDS and path.parent.name != "_core")


@cache  # the tests of planted faults check the same sources again and again
def scan_python(text: str) -> tuple[list[ast.Import | ast.ImportFrom], list[tuple[int, str]]]:
    """The imports, and line and name of each private attribute that is not defined in this source."""
    nodes = list(ast.walk(parse(text)))
    return [node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))], private_uses(nodes)


@cache
def docstring_of(text: str) -> str:
    return ast.get_docstring(parse(text)) or ""


@cache
def without_docstrings(text: str) -> str:
    return re.sub(r'"""(.*?)"""', docstring_without_imports, text, flags=re.DOTALL)


@cache
def imports_in_kernel(text: str) -> list[tuple[str, tuple[str, ...] | None, int]]:
    """The module of each import and cimport, the names taken from it (None for `import module`), and the line."""
    found: list[tuple[str, tuple[str, ...] | None, int]] = []
    for match in CYTHON_FROM.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match[3]:
            found.append((match[3], None, line))
            continue
        names = [re.sub(r"#.*", "", part) for part in match[2].strip("()").split("\n")]
        listed = (name.split(" as ")[0].strip() for name in ",".join(names).split(",") if name.strip())
        found.append((match[1], tuple(listed), line))
    return found


def python_needs(text: str, modules: set[str]) -> Iterator[Need]:
    for node in scan_python(text)[0]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Need(alias.name, (), node.lineno)
        else:
            assert node.level == 0, f"line {node.lineno} imports relatively; write the whole name"
            assert node.module is not None
            yield from imported_from(node.module, [alias.name for alias in node.names], modules, node.lineno)


CYTHON_FROM = re.compile(
    r"^[ \t]*from[ \t]+([\w.]+)[ \t]+c?import[ \t]+(\([^)]*\)|[^\n]*)|^[ \t]*(?:c?import)[ \t]+([\w.]+)", re.MULTILINE
)
HEADER = re.compile(r'^[ \t]*(?:cdef extern from|#[ \t]*include)[ \t]+"([^"]+)"', re.MULTILINE)


def kernel_needs(text: str, modules: set[str]) -> Iterator[Need]:
    text = without_docstrings(text)
    for module, names, line in imports_in_kernel(text):
        if names is None:
            yield Need(module, (), line)
        else:
            yield from imported_from(module, list(names), modules, line)
    yield from header_needs(text)


def docstring_without_imports(match: re.Match[str]) -> str:
    """A docstring as empty lines; of C code in a string, only the includes are kept."""
    return "\n".join(line if line.lstrip().startswith("#") else "" for line in match[0].split("\n"))


def header_needs(text: str) -> Iterator[Need]:
    for match in HEADER.finditer(text):
        yield Need(match[1], (), text.count("\n", 0, match.start()) + 1)


def imported_from(module: str, names: list[str], modules: set[str], line: int) -> Iterator[Need]:
    """The modules and names of `from module import names`, some of which may be modules themselves."""
    own = tuple(name for name in names if f"{module}.{name}" not in modules)
    if own or not names:
        yield Need(module, own, line)
    for name in names:
        if name not in own:
            yield Need(f"{module}.{name}", (), line)


def needs_of(path: Path, text: str, modules: set[str]) -> list[Need]:
    if path.suffix in (".py", ".pyi"):
        found = list(python_needs(text, modules))
    elif path.suffix == ".h":
        found = list(header_needs(text))
    else:
        found = list(kernel_needs(text, modules))
    return found


def check(package: Path) -> list[str]:
    """The faults in the sources of a package, one line each; none if all is well."""
    root, files = package.parent, sources(package)
    modules = {module_of(path, root).removesuffix(".__init__") for path in files}
    faults: list[str] = []
    graph: dict[str, set[str]] = {}
    for path in files:
        own = module_of(path, root).removesuffix(".__init__")
        where, text = path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
        if room_of(own) not in LEVELS:
            faults.append(f"{where}: no such room; add {room_of(own)} to LAYERS")
            continue
        if path.suffix == ".py" and room_of(own) != "cli":  # cli builds on argparse and uses its private names
            for line, name in scan_python(text)[1]:
                faults.append(f"{where}:{line}: uses {name}, which is private to another module")
        for need in needs_of(path, text, modules):
            needed = need.module
            if needed.endswith(".h"):
                if not needed.startswith("bpe/"):
                    if (path.parent / needed).exists():
                        faults.append(f"{where}:{need.line}: include {needed} by its path from the root")
                    continue
                needed = needed.replace("/", ".")
            if needed.split(".")[0] != "bpe":
                if path.suffix in (".pyx", ".pxd") and needed.split(".")[0] not in FOR_KERNELS:
                    faults.append(f"{where}:{need.line}: a kernel imports {needed}")
                continue
            private = [name for name in need.names if name.startswith("_") and not name.endswith("__")]
            if private and needed != own:
                faults.append(f"{where}:{need.line}: takes {', '.join(private)} from {needed}, where it is private")
            if room_of(own) == room_of(needed):
                if needed != own and own.count(".") > 1:
                    graph.setdefault(own, set()).add(needed)
            elif LEVELS.get(room_of(needed), len(LAYERS)) >= LEVELS[room_of(own)]:
                if needed == "bpe" and room_of(own) == "cli":
                    continue
                if (own, needed) not in EXCEPTIONS:
                    faults.append(f"{where}:{need.line}: needs {needed}, which is not below it")
    faults += [f"modules need each other: {' -> '.join(cycle)}" for cycle in cycles(graph)]
    return [*faults, *room_faults(package)]


def cycles(graph: dict[str, set[str]]) -> Iterator[list[str]]:
    """Cycles, such that every cycle of the graph shares an edge with one of them."""
    graph = {module: set(needed) for module, needed in graph.items()}
    while cycle := cycle_of(graph):
        yield cycle
        graph[cycle[1]].discard(cycle[0])


def cycle_of(graph: dict[str, set[str]]) -> list[str]:
    """A cycle, each module followed by one that depends on it; empty if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def private_uses(nodes: list[ast.AST]) -> list[tuple[int, str]]:
    """Line and name of each attribute that begins with an underscore and is not defined in this source."""
    own = set(PARTS)
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            own.add(node.name)
        elif isinstance(node, ast.Name):
            own.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            own.add(node.value)  # __slots__, object.__setattr__
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
            own.add(node.attr)
    return [
        (node.lineno, node.attr)
        for node in nodes
        if isinstance(node, ast.Attribute) and node.attr not in own and re.fullmatch(r"_.*(?<!__)", node.attr)
    ]


def crowded(root: Path) -> Iterator[str]:
    """Folders with too many files."""
    for folder in (root, *sorted(path for path in root.rglob("*") if path.is_dir())):
        files = [path for path in folder.iterdir() if path.suffix in (".py", ".pyx")]
        if len(files) > MOST_FILES:
            yield f"{folder.relative_to(root.parent)}: {len(files)} Python and Cython files; divide the folder"


def room_faults(package: Path) -> Iterator[str]:
    """Folders with too many files, and rooms whose docstring is too short or too long."""
    yield from crowded(package)
    for folder in sorted(path.parent for path in package.rglob("__init__.py")):
        if folder != package:
            docstring = docstring_of((folder / "__init__.py").read_text(encoding="utf-8"))
            if not 10 <= len(docstring.splitlines()) <= 25:
                lines = len(docstring.splitlines())
                yield f"{folder.relative_to(package.parent)}: its docstring has {lines} lines, not 10 to 25"


def test_the_page_on_the_layout_lists_every_room_in_the_order_of_the_layers() -> None:
    page = (ROOT / "docs" / "internals" / "layout.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `bpe/(\w+)/` \|", page, re.MULTILINE)
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert sorted(listed) == sorted(rooms)
    assert [LEVELS[room] for room in listed] == sorted(LEVELS[room] for room in listed)


def test_every_room_lists_its_files() -> None:
    missing = []
    for path in sources(PACKAGE):
        is_header = path.suffix == ".pxd" and not path.with_suffix(".pyx").exists()
        if path.parent != PACKAGE and path.name != "__init__.py" and (path.suffix in (".py", ".pyx") or is_header):
            text = (path.parent / "__init__.py").read_text(encoding="utf-8")
            missing += [] if f"{path.stem}." in text else [path.relative_to(PACKAGE).as_posix()]
    assert missing == []


def test_every_module_imports_only_lower_layers() -> None:
    assert check(PACKAGE) == []


@pytest.mark.parametrize("name", ["benchmarks", "docs", "examples", "tests"])
def test_no_other_folder_has_too_many_files(name: str) -> None:
    assert list(crowded(ROOT / name)) == []


def test_every_exception_is_needed() -> None:
    modules = {module_of(path, ROOT).removesuffix(".__init__") for path in sources(PACKAGE)}
    needed = {
        (module_of(path, ROOT), need.module)
        for path in sources(PACKAGE)
        if path.suffix == ".py"
        for need in needs_of(path, path.read_text(encoding="utf-8"), modules)
    }
    assert needed >= EXCEPTIONS


# Planted faults: the check finds each of them -------------------------------------------------------------------------


PLANTED = {
    "higher": ("text/planted.py", "from bpe.vocab.spec import TokenizerSpec\n", "needs bpe.vocab.spec"),
    "higher module": ("text/planted.py", "from bpe.vocab import spec\n", "needs bpe.vocab.spec"),
    "plain import": ("text/planted.py", "import bpe.vocab.spec\n", "needs bpe.vocab.spec"),
    "in a function": ("text/planted.py", "def f():\n    from bpe.encode import engine\n", "needs bpe.encode.engine"),
    "for types": (
        "text/planted.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from bpe.batch import TokenBatch\n",
        "needs bpe.batch",
    ),
    "stub": ("base/_planted.pyi", "from bpe.encode._encoder import Encoder\n", "needs bpe.encode._encoder"),
    "all of it": ("formats/planted.py", "import bpe\n", "needs bpe"),
    "format": ("formats/planted.py", "from bpe.tokenizer import Tokenizer\n", "needs bpe.tokenizer"),
    "cimport": ("text/_planted.pyx", "from bpe.merge._merger cimport Merger\n", "needs bpe.merge._merger"),
    "cimport of several": (
        "base/_planted.pxd",
        "from bpe.merge._merger cimport (\n    Merger,\n)\n",
        "needs bpe.merge._merger",
    ),
    "import in a kernel": ("text/_planted.pyx", "def f():\n    import bpe.tokenizer\n", "needs bpe.tokenizer"),
    "other package": ("text/_planted.pyx", "import pandas\n", "a kernel imports pandas"),
    "header": (
        "base/_planted.pxd",
        'cdef extern from "bpe/pretokenize/_char_masks.h" nogil:\n    pass\n',
        "needs bpe.pretokenize._char_masks.h",
    ),
    "included": ("text/_planted.h", '#include "bpe/merge/_short_merge.h"\n', "needs bpe.merge._short_merge"),
    "include in C code": (
        "text/_planted.pyx",
        'cdef extern from *:\n    """\n    #include "bpe/merge/_short_merge.h"\n    """\n',
        "needs bpe.merge._short_merge",
    ),
    "header beside it": ("base/_planted.h", '#include "_pages.h"\n', "by its path from the root"),
    "private name": ("show/planted.py", "from bpe.text.normalizers import _spoof\n", "takes _spoof"),
    "private name in a kernel": ("merge/_planted.pyx", "from bpe.base._memory cimport _spoof\n", "takes _spoof"),
    "private attribute": ("show/planted.py", "def f(x):\n    return x._spoof\n", "uses _spoof"),
    "unknown room": ("attic/planted.py", "", "no such room"),
}


def copy_sources(folder: Path) -> Path:
    """Copy the sources of the package to a folder."""
    for path in sources(PACKAGE):
        target = folder / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    return folder / "bpe"


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_sources(tmp_path_factory.mktemp("sources"))


def test_finds_planted_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them in one copy of the package, one fault for each, and no other."""
    monkeypatch.setitem(globals(), "MOST_FILES", MOST_FILES + len(PLANTED))
    copied = copy_sources(tmp_path)
    said_of = {}
    for index, (name, text, said) in enumerate(PLANTED.values()):
        path = (copied / name).with_stem(f"{Path(name).stem}{index}")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        said_of[path.relative_to(tmp_path).as_posix()] = said
    faults = check(copied)
    assert sorted(fault.partition(":")[0] for fault in faults) == sorted(said_of), faults
    for fault in faults:
        assert said_of[fault.partition(":")[0]] in fault


@pytest.mark.parametrize(
    "sources_of",
    [
        {"a.py": "from bpe.text import b\n", "b.py": "from bpe.text.a import x\n"},
        {
            "a.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from bpe.text.b import x\n",
            "b.py": "import bpe.text.a\n",
        },
        {"_a.pyx": "from bpe.text._b cimport x\n", "_b.pxd": "from bpe.text._a cimport y\n"},
        {"_a.pyx": "from bpe.text._b cimport x\n", "_b.pyx": "from bpe.text import _a\n"},
    ],
)
def test_finds_modules_that_depend_on_each_other(sources_of: dict[str, str], copied: Path) -> None:
    paths = []
    try:
        for name, text in sources_of.items():
            path = copied / "text" / name
            path.write_text(text, encoding="utf-8")
            paths.append(path)
        faults = check(copied)
    finally:
        for path in paths:
            path.unlink()
    assert len(faults) == 1
    assert "need each other" in faults[0]


def test_finds_rooms_that_are_too_large_or_undocumented(copied: Path) -> None:
    planted = [copied / "show" / f"planted_{i}.py" for i in range(MOST_FILES)]
    described = (copied / "show" / "__init__.py").read_text(encoding="utf-8")
    try:
        for path in planted:
            path.write_text("", encoding="utf-8")
        (copied / "show" / "__init__.py").write_text('"""Colours."""\n', encoding="utf-8")
        faults = check(copied)
    finally:
        (copied / "show" / "__init__.py").write_text(described, encoding="utf-8")
        for path in planted:
            path.unlink()
    assert [fault.split(":")[0] for fault in faults] == ["bpe/show", "bpe/show"]
