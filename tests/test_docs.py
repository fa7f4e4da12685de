"""The documentation: examples run, links resolve, and the paths that pages name exist.

Pages are README.md, CONTRIBUTING.md, benchmarks/README.md and those of docs/.

The fenced blocks of a page run in order, in one namespace and one empty folder, as a reader would type them:

    ```python    a session with >>> prompts (its output is compared), or a script, which is executed
    ```console   commands after $ prompts, with their output
    ```bash      a script, which must succeed

A block that cannot always run has a comment in the page's source on the line before it:

    <!-- needs: torch -->     run only where these modules are installed; otherwise skipped
    <!-- skip: reason -->     never run

`sh` blocks do not run: they show commands for files of the reader. Output is compared as in doctest, where `...`
matches any text.
"""

from __future__ import annotations

import doctest
import functools
import importlib
import importlib.util
import inspect
import json
import linecache
import operator
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from command_server import CommandServer

import bpe
from bpe.pretokenize.patterns import NAMES
from bpe.training.merge_rules import TIE_BREAKS

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "README.md").exists())
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "benchmarks" / "README.md"]
PAGES += sorted(page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts)
FIRST_HOUR = ROOT / "docs" / "first_hour"
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
RUN = ("python", "pycon", "console", "bash")
#: Characters by which a shell does more with a command than to divide it into words.
NEEDS_SHELL = re.compile(r"[|&;<>()$`\\*?\[\]{}~#!\n]")
FENCE = re.compile(
    r"^(?:<!-- (?P<mark>needs|skip): (?P<why>.*?) -->\n\n?)?"
    r"(?P<ticks>```+)(?P<kind>[\w{}-]*)\n(?P<code>.*?)^(?P=ticks)$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """One fenced block: its text, the line where its code begins, and its requirements."""

    kind: str
    code: str
    line: int
    needs: tuple[str, ...] = ()
    skip: str = ""

    @property
    def obstacle(self) -> str:
        """The reason why the block cannot run here; empty if it can."""
        missing = [name for name in self.needs if importlib.util.find_spec(name) is None]
        return self.skip or (f"needs {', '.join(missing)}" if missing else "")


def blocks(page: Path) -> list[Block]:
    """The blocks of a page that run as examples."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(text):
        needs = tuple(match["why"].replace(",", " ").split()) if match["mark"] == "needs" else ()
        skip = match["why"] if match["mark"] == "skip" else ""
        line = text.count("\n", 0, match.start("code")) + 1
        if match["kind"] in RUN:
            found.append(Block(match["kind"], match["code"], line, needs, skip))
    return found


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


MARKED = [
    pytest.param(page, block, id=f"{named(page)}:{block.line}")
    for page in PAGES
    for block in blocks(page)
    if block.needs or block.skip
]


class Reader:
    """Runs the blocks of one page in one namespace and one folder."""

    def __init__(self, page: Path, folder: Path, programs: Path, server: CommandServer) -> None:
        self.page, self.folder, self.server = page, folder, server
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.environment = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1"}

    def run(self, block: Block) -> None:
        """Run a block; an AssertionError shows the difference."""
        {"console": self._console, "bash": self._bash}.get(block.kind, self._python)(block)

    def _python(self, block: Block) -> None:
        if not re.search(r"^>>> ", block.code, re.MULTILINE):
            where = f"{named(self.page)}, from line {block.line}"
            linecache.cache[where] = (len(block.code), None, block.code.splitlines(keepends=True), where)
            exec(compile(block.code, where, "exec"), self.names)
            return
        test = doctest.DocTestParser().get_doctest(block.code, {}, named(self.page), str(self.page), block.line - 1)
        test.globs = self.names
        said: list[str] = []
        doctest.DocTestRunner(optionflags=FLAGS).run(test, out=said.append, clear_globs=False)
        assert not said, "".join(said)

    def _shell(self, command: str) -> tuple[int, str]:
        """Run a command: its status, and what it prints. One of `bpe` that no shell would change needs none."""
        if command.startswith("bpe ") and not NEEDS_SHELL.search(command):
            return self.server.run(shlex.split(command)[1:], self.folder, self.environment)
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=120,
        )
        return done.returncode, done.stdout

    def _console(self, block: Block) -> None:
        commands = re.findall(r"^\$ (.*(?:\n> .*)*)\n((?:(?!\$ ).*\n?)*)", block.code, re.MULTILINE)
        assert commands, f"{named(self.page)}:{block.line} has no line with a $ prompt"
        for command, expected in commands:
            _, printed = self._shell(command.replace("\n> ", "\n"))
            same = doctest.OutputChecker().check_output(expected or "\n", printed or "\n", FLAGS)
            assert same, f"{named(self.page)}:{block.line}: $ {command}\nexpected:\n{expected}\ngot:\n{printed}"

    def _bash(self, block: Block) -> None:
        status, printed = self._shell("set -euo pipefail\n" + block.code)
        assert status == 0, f"{named(self.page)}:{block.line}\n{printed}"


@pytest.fixture(scope="module")
def programs(programs: Path) -> Path:
    """A folder with the programs `bpe` and `python`, as they are in an environment that is activated."""
    (programs / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (programs / "python").chmod(0o755)
    return programs


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, in which the examples run."""
    inner = tmp_path / "work"
    inner.mkdir()
    monkeypatch.chdir(inner)
    return inner


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # PyTorch's, on a machine with one core
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=named)
def test_examples_run(page: Path, folder: Path, programs: Path, command_server: CommandServer) -> None:
    """All examples of a page run, except those that cannot run here."""
    reader = Reader(page, folder, programs, command_server)
    for block in blocks(page):
        if not block.obstacle:
            reader.run(block)


@pytest.mark.parametrize(("page", "block"), MARKED)
def test_marked_examples_run_with_their_page(page: Path, block: Block) -> None:
    """The report of skipped tests has each example that cannot run here."""
    if block.obstacle:
        pytest.skip(f"{named(page)}:{block.line}: {block.obstacle}")


def test_every_session_is_an_example() -> None:
    """Every line with a >>> prompt is in a block that runs."""
    prompt = re.compile(r"^\s*>>> ", re.MULTILINE)
    for page in PAGES:
        inside = "".join(block.code for block in blocks(page))
        assert len(prompt.findall(page.read_text(encoding="utf-8"))) == len(prompt.findall(inside)), named(page)


# Links and paths ------------------------------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and MyST name them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", h)).strip().lower().replace(" ", "-") for h in headings}


def test_links_resolve() -> None:
    """Links to files and headings of the project resolve."""
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for link in re.findall(r"(?<!`)\[[^\]]+\]\(([^)\s]+)\)", text):
            if re.match(r"\w+:", link):
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / path) if path else page
            assert target.exists(), f"{named(page)} links to {link}"
            assert not anchor or anchor in anchors(target), f"{named(page)} links to {link}; there is {anchors(target)}"


def paths_of(page: Path) -> set[str]:
    """The paths of the project that a page names in backticks."""
    names = re.findall(r"`([\w./*-]+)`", page.read_text(encoding="utf-8"))
    roots = ("bpe/", "tests/", "benchmarks/", "docs/", ".ci/")
    made = ("docs/_build", "benchmarks/results")  # written by commands
    return {name for name in names if name.startswith(roots) and not name.startswith(made)}


def test_paths_exist() -> None:
    """Every file and folder of the project that a page names in backticks exists."""
    for page in PAGES:
        absent = [name for name in paths_of(page) if not list(ROOT.glob(name.rstrip("/")))]
        assert not absent, f"{named(page)} names {absent}"


# README and the API reference -----------------------------------------------------------------------------------------


def test_readme_is_short() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 150
    assert [line for line in lines if len(line) > 100] == []


def test_pages_of_the_first_hour_are_short() -> None:
    sizes = {page.name: len(page.read_text(encoding="utf-8").splitlines()) for page in FIRST_HOUR.glob("*.md")}
    assert len(sizes) == 5
    assert max(sizes.values()) < 60


def test_readme_has_the_two_commands() -> None:
    """`.ci/run` takes them from this section."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = re.search(r"^## Two commands$(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    assert section is not None
    commands = re.findall(r"^pip install .*$", section[1], re.MULTILINE)
    assert commands == ["pip install -e . && bpe demo", "pip install -e '.[test]' && pytest"]


def test_every_page_is_in_the_contents() -> None:
    """Each page of docs/ is in a toctree, so that Sphinx and its readers find it."""
    listed: set[Path] = {ROOT / "docs" / "index.md"}
    for page in PAGES:
        for tree in re.findall(r"^```\{toctree\}\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL):
            listed |= {(page.parent / f"{line.strip()}.md").resolve() for line in tree.splitlines() if line[:1] != ":"}
    assert [named(page) for page in PAGES if "docs" in page.parts[len(ROOT.parts) :] and page not in listed] == []


def test_every_public_name_is_in_the_reference() -> None:
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for name in bpe.__all__:
        named = rf"^\.\. (?:auto\w+|data):: (?:bpe\.)?{name}(?:\.\w+)?$"
        assert re.search(named, text, re.MULTILINE), f"docs/api.md lacks {name}"
    for module in (bpe.normalizers, bpe.pretokenizers):
        section = text.partition(f".. currentmodule:: {module.__name__}\n")[2].partition("```")[0]
        assert sorted(re.findall(r"^\.\. auto\w+:: (\w+)$", section, re.MULTILINE)) == sorted(module.__all__)


def test_every_public_name_has_a_docstring() -> None:
    for name in bpe.__all__:
        thing = getattr(bpe, name)
        if name.startswith("__"):
            continue
        assert thing.__doc__, name
        if isinstance(thing, type):
            members = [member for kind in thing.__mro__[:-1] for member in vars(kind) if not member.startswith("_")]
            undocumented = [m for m in members if callable(getattr(thing, m)) and not getattr(thing, m).__doc__]
            assert not undocumented, f"{name} has {undocumented} without docstring"


def test_every_pretokenizer_and_tie_rule_is_described() -> None:
    """The last step of the how-to pages: the tables and docstrings have each name, and the command line each rule."""
    guide, versions = ((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("train.md", "unicode.md"))
    for name in NAMES:
        for text in (guide, versions, inspect.getdoc(bpe.Pretokenizer) or ""):
            assert f"`{name}`" in text
    for rule in TIE_BREAKS:
        assert f'| `"{rule}"`' in guide
        assert f'"{rule}"' in (inspect.getdoc(bpe.MergeRules) or "")
    usage = subprocess.run([sys.executable, "-m", "bpe", "train", "--help"], capture_output=True, text=True, check=True)
    assert f"--tie-break {{{','.join(TIE_BREAKS)}}}" in usage.stdout


def test_docstrings_suit_sphinx() -> None:
    """Napoleon reads text before a colon as a type, in the first line of a property or of Returns, so there is none."""
    for name in bpe.__all__:
        kind = getattr(bpe, name)
        for member, thing in vars(kind).items() if isinstance(kind, type) else ():
            text = re.sub(r"`[^`]*`", "", inspect.getdoc(thing) or "")
            if isinstance(thing, (property, functools.cached_property)) and not member.startswith("_"):
                assert ": " not in text.partition("\n")[0], f"{name}.{member}"
            for returns in re.findall(r"^Returns:\n +(.*)", text, re.MULTILINE):
                assert ": " not in returns, f"{name}.{member}"


# Figures --------------------------------------------------------------------------------------------------------------

BEGIN, END = "<!-- made by benchmarks/suite.py -->\n", "<!-- end -->\n"


@pytest.fixture
def suite(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """benchmarks/suite.py as a module, with its folder on the path, since its modules import each other by name.

    Both folders have modules named `peers`; that of the tests is put back afterwards.
    """
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.delitem(sys.modules, "peers", raising=False)
    yield importlib.import_module("suite")
    sys.modules.pop("peers", None)


def test_every_row_of_the_table_names_its_script(suite: Any) -> None:
    table = (ROOT / "README.md").read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    rows = table.partition("\n\n")[0].splitlines()
    assert table.startswith(suite.HEAD)
    assert len(rows) == 2 + len(suite.README_ROWS)
    for row, figure in zip(rows[2:], suite.README_ROWS, strict=True):
        script = suite.RUNS[figure.benchmark].script
        assert row.endswith(f"| `{script}` |")
        assert (ROOT / "benchmarks" / script).exists()


def test_figures_are_those_of_the_named_run(suite: Any) -> None:
    """RESULTS.md and README's table equal the output of `suite.py report` for the run that RESULTS.md names."""
    page = ROOT / "benchmarks" / "results" / "RESULTS.md"
    if not page.exists():
        pytest.skip("there is no run in benchmarks/results yet")
    text = page.read_text(encoding="utf-8")
    name = text.partition("\n")[0].removeprefix("# Results: ")
    assert text == suite.report(name)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.partition(BEGIN)[2].partition(END)[0] == suite.format_readme_table(name) + "\n"


def test_tables_of_many_cores_are_those_of_the_stored_run(suite: Any) -> None:
    stored = ROOT / "benchmarks" / "results" / "cores.json"
    if not stored.exists():
        pytest.skip("there is no run of bench_cores.py in benchmarks/results yet")
    values = json.loads(stored.read_text())
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    tables = importlib.import_module("bench_cores").page_tables(values["rows"], values["machine"])
    assert page.partition("<!-- made by benchmarks/bench_cores.py -->\n")[2].partition(END)[0] == tables + "\n"


def test_a_row_is_the_median_of_the_fastest_way(suite: Any) -> None:
    """A row shows each library's fastest way and the fastest other library whose output is the same."""
    about = {"corpus": "english.txt", "vocab": "cl100k", "threads": 1, "bytes": 100_000_000, "version": "1.0"}
    rows = [
        about | {"peer": peer, "way": way, "cold": seconds, "exact": exact}
        for peer, way, seconds, exact in (
            ("bpe", "file", 0.25, True), ("bpe", "list", 0.2, True), ("bpe", "list", 0.2, True),
            ("gigatoken", "file", 0.8, True), ("tiktoken", "list", 5.0, True), ("kitoken", "list", 0.1, False),
        )
    ]  # fmt: skip
    rows += [rows[0] | {"threads": 2, "cold": 0.01}, rows[0] | {"vocab": "o200k", "cold": 0.01}]
    rows.append(rows[3] | {"peer": "rs_bpe", "cold": 0.1, "gave_up": True})
    row = suite.format_readme_row(suite.make_encoding_figure("English, first pass", "english", "cold"), rows)
    expected = "| encode, cl100k, English, first pass | 500 MB/s | gigatoken 125 MB/s | 4.0 | `bench_encode.py` |"
    assert row == expected
    with pytest.raises(SystemExit, match=r"no row of bpe for '.*first pass'; .* --only encode --again makes it"):
        suite.format_readme_row(suite.make_encoding_figure("English, first pass", "english", "cold"), rows[3:5])


def test_only_libraries_near_the_fastest_other_one_are_measured_again(suite: Any) -> None:
    near = importlib.import_module("report").is_near
    rows = [
        {"peer": "bpe", "seconds": 1.0}, {"peer": "fast", "seconds": 4.0}, {"peer": "near", "seconds": 6.0},
        {"peer": "slow", "seconds": 6.1}, {"peer": "late", "seconds": 3.0, "gave_up": True},
    ]  # fmt: skip
    costs = [operator.itemgetter("seconds")]
    assert [row["peer"] for row in rows if near((row["peer"], ""), rows[:4], costs, 1.5)] == [
        "bpe", "fast", "near", "late",
    ]  # fmt: skip
    assert all(near((row["peer"], ""), [], costs, 1.5) and near((row["peer"], ""), rows, costs, None) for row in rows)


def test_a_library_with_another_output_is_marked(suite: Any) -> None:
    report = importlib.import_module("report")
    rows = [{"peer": peer, "output": output} for peer, output in (("bpe", "x"), ("one", "x"), ("two", "y"))]
    assert report.compare_outputs(rows, "english.txt") == ["two: english.txt"]
    assert [report.describe_output([row]) for row in rows] == ["yes", "yes", "no"]
    assert report.describe_output([{"peer": "three"}]) == ""
    without_ours = [row | {} for row in rows[1:]]
    assert report.compare_outputs(without_ours, "english.txt") == ["two: english.txt"]
    assert report.compare_outputs([], "english.txt") == []
    rows_by_peer = {row["peer"]: [row | {"seconds": seconds}] for row, seconds in zip(rows, (3, 2, 1), strict=True)}
    assert report.find_fastest_other(rows_by_peer, operator.itemgetter("seconds")) == "one"
