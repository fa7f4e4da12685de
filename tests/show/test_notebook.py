"""The notebooks of `examples/`: they run, and give the outputs that they store."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

EXAMPLES = next(folder for folder in Path(__file__).resolve().parents if (folder / "README.md").exists()) / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def load_runner():
    specification = importlib.util.spec_from_file_location("run_notebook", EXAMPLES / "run_notebook.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def make_comparable(outputs):
    """Outputs without the random names of the sliders and the numbers of cells."""
    text = json.dumps(outputs, ensure_ascii=False, sort_keys=True)
    return re.sub(
        r"bpe-steps-[0-9a-f]{8}", "bpe-steps", re.sub(r'"execution_count": \d+', '"execution_count": null', text)
    )


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_outputs_are_those_of_a_run(path, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)
    stored = [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for outputs, expected in zip(load_runner().run_notebook(notebook), stored, strict=True):
        assert make_comparable(outputs) == make_comparable(expected), (
            f"run: python examples/run_notebook.py {path.name}"
        )


def test_there_is_a_notebook():
    assert [path.name for path in NOTEBOOKS] == ["merge_by_merge.ipynb"]
