"""README.md, docs/ and the docstrings tell the truth: their examples run, and the README names every public name."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import bpe

README = Path(__file__).resolve().parents[1] / "README.md"
PAGES = [README, *sorted((README.parent / "docs").rglob("*.md"))]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def modules() -> list[str]:
    """Every Python module of the package; the kernels' docstrings show values, not sessions."""
    names = [module.name for module in pkgutil.walk_packages(bpe.__path__, "bpe.")]
    return ["bpe", *(name for name in names if not name.startswith("bpe._core") and not name.endswith("__main__"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples of a page run one after the other, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    examples = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    lines = re.findall(r"^\s*>>> ", text, re.MULTILINE)
    assert len(lines) == len(re.findall(r"^>>> ", examples, re.MULTILINE)), "an example is not in a python block"
    test = doctest.DocTestParser().get_doctest(examples, {}, page.name, str(page), 0)
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    runner.run(test)
    assert runner.tries == len(lines)
    assert runner.failures == 0
    assert lines or page != README


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links(page: Path) -> None:
    """Links to files of the project lead somewhere."""
    for link in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
        assert link.startswith("http") or (page.parent / link).exists(), link


@pytest.mark.parametrize("name", modules())
def test_docstrings(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert doctest.testmod(importlib.import_module(name), optionflags=FLAGS).failed == 0


def test_public_names_are_documented() -> None:
    text = README.read_text(encoding="utf-8")
    for name in bpe.__all__:
        if name.startswith("__"):
            continue
        assert f"`{name}" in text, f"README's table lacks {name}"
        thing = getattr(bpe, name)
        assert thing.__doc__, name
        if isinstance(thing, type):
            members = [member for member in vars(thing) if not member.startswith("_")]
            undocumented = [m for m in members if callable(getattr(thing, m)) and not getattr(thing, m).__doc__]
            assert not undocumented, f"{name} has {undocumented} without docstring"


def test_public_methods_of_a_tokenizer_are_in_the_table() -> None:
    table = README.read_text(encoding="utf-8")
    for kind in (bpe.Tokenizer, bpe.TokenBatch, bpe.WordCounts):
        for member in vars(kind):
            if not member.startswith("_"):
                assert re.search(rf"\b{member}\b", table), f"README lacks {kind.__name__}.{member}"
