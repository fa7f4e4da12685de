"""The changes in the how-to pages of docs/internals apply to the current code, and the changed files compile.

Two kinds of blocks are changes:

    ```diff      one or more files (--- a/path, +++ b/path), their hunks headed by @@ without line numbers
    ```cython    code to insert before the first line that begins with a text; the block follows a line
                 <!-- patch: path, before: text -->

A `cython` block without such a line fails, so that all blocks are tested. Kernels are only translated to C, which finds
unknown names and wrong types. The lines to name are lines of code, not comments, which change more often.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from strategies import SOAK

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "README.md").exists())
PAGES = sorted((ROOT / "docs" / "internals").glob("*.md"))
BLOCK = re.compile(
    r"^(?:<!-- patch: (?P<path>\S+), before: (?P<anchor>.*?) -->\n)?```(?P<kind>cython|diff)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
#: The options of Cython in setup.py that affect its errors and warnings.
OPTIONS = ("-3", "-I", ".", *(f"-X{name}=False" for name in ("boundscheck", "wraparound", "initializedcheck")))


def replace_once(root: Path, path: str, old: str, new: str) -> None:
    """Replace lines of a file that must occur there exactly once."""
    text = (root / path).read_text(encoding="utf-8")
    assert f"\n{text}".count(f"\n{old}") == 1, (
        f"a page changes these lines of {path}, which must contain them exactly once; correct the page:\n{old}"
    )
    (root / path).write_text(f"\n{text}".replace(f"\n{old}", f"\n{new}")[1:], encoding="utf-8")


def apply_diff(root: Path, diff: str) -> set[str]:
    """Apply a diff whose hunks are located by their text; return the paths of the changed files."""
    changed = set()
    for part in re.split(r"^--- a/", diff, flags=re.MULTILINE)[1:]:
        head, *hunks = re.split(r"^@@\n", part, flags=re.MULTILINE)
        path = head.split("\n")[0]
        assert head == f"{path}\n+++ b/{path}\n", head
        for hunk in hunks:
            lines = hunk.splitlines(keepends=True)
            old = "".join(line[1:] for line in lines if line[0] in " -")
            replace_once(root, path, old, "".join(line[1:] for line in lines if line[0] in " +"))
        changed.add(path)
    return changed


def apply_page(root: Path, page: Path) -> set[str]:
    """Apply the blocks of a page; return the paths of the changed files."""
    changed = set()
    for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
        if block["kind"] == "diff":
            changed |= apply_diff(root, block["code"])
        else:
            assert block["path"], f"{page.name} has no patch comment before this block:\n{block['code']}"
            text = (root / block["path"]).read_text(encoding="utf-8")
            heading = re.search(rf"^{re.escape(block['anchor'])}\b.*\n", text, re.MULTILINE)
            assert heading, f"{block['path']} has no line {block['anchor']!r}; correct {page.name}"
            replace_once(root, block["path"], heading[0], f"{block['code']}\n\n{heading[0]}")
            changed.add(block["path"])
    return changed


CHANGING = [page for page in PAGES if BLOCK.search(page.read_text(encoding="utf-8"))]


def kernels_with(folder: Path, changed: set[str]) -> set[str]:
    """The kernels that include a changed .pxd file; but in a soak test, only of one that no changed kernel includes."""
    modules = [path.removesuffix(".pxd").replace("/", ".") for path in changed if path.endswith(".pxd")]
    kernels = {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in folder.rglob("*.pyx")}
    found = set()
    for module in modules:
        including = {path for path, text in kernels.items() if f"{module} cimport" in text}
        if SOAK > 1 or not changed & {*including, f"{module.replace('.', '/')}.pyx"}:
            found |= including
    return found


@pytest.mark.parametrize("page", CHANGING, ids=[page.stem for page in CHANGING])
def test_changes_apply_and_compile(page: Path, tmp_path: Path) -> None:
    pytest.importorskip("Cython")
    unwanted = shutil.ignore_patterns("*.c", "*.so", "__pycache__")
    for folder in ("bpe", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=unwanted)
    changed = apply_page(tmp_path, page)
    assert changed
    for path in sorted(changed):
        if path.endswith(".py"):
            compile((tmp_path / path).read_text(encoding="utf-8"), path, "exec")
    kernels = sorted(path for path in changed | kernels_with(tmp_path, changed) if path.endswith(".pyx"))
    if kernels:
        command = [sys.executable, "-m", "cython", *OPTIONS, *kernels]  # in one process, which reads each .pxd once
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "performance hint" not in done.stderr + done.stdout
