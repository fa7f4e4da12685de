"""The examples in docstrings run. `test_docs.py` runs those of README.md and docs/."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import bpe

PACKAGE = Path(bpe.__file__).parent
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def modules_with_sessions() -> list[str]:
    """The Python modules whose docstrings have doctest sessions. Those of the kernels have none."""
    paths = [path for path in PACKAGE.rglob("*.py") if ">>> " in path.read_text(encoding="utf-8")]
    names = (".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in paths)
    return sorted(name.removesuffix(".__init__") for name in names)


@pytest.mark.parametrize("name", modules_with_sessions())
def test_docstrings(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = doctest.testmod(importlib.import_module(name), optionflags=FLAGS)
    assert done.failed == 0
