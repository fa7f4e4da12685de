"""Run the examples in the docstrings of the package; `test_docs.py` runs those of README.md and docs/."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import bpe

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def modules() -> list[str]:
    """Every Python module of the package. The kernels' docstrings have no doctest sessions."""
    names = [module.name for module in pkgutil.walk_packages(bpe.__path__, "bpe.")]
    return ["bpe", *(name for name in names if not name.split(".")[-1].startswith("_"))]


@pytest.mark.parametrize("name", modules())
def test_docstrings(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert doctest.testmod(importlib.import_module(name), optionflags=FLAGS).failed == 0
