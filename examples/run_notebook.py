"""Run a notebook's cells in this process and store their outputs: python examples/run_notebook.py NOTEBOOK …

It needs no Jupyter. A cell's output is what it prints, and the value of its last line as text and, if the value has
`_repr_html_`, as HTML. The test suite runs the notebooks of this folder in the same way and compares the outputs.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import sys
from pathlib import Path
from typing import Any


def run_notebook(notebook: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The outputs of each code cell, in order. All cells share one namespace."""
    names: dict[str, Any] = {"__name__": "__main__"}
    return [run_cell("".join(cell["source"]), names) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run_cell(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Run one cell; return its outputs in the notebook format."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "<cell>", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": split_lines(printed.getvalue())})
    if value is not None:
        data = {"text/plain": split_lines(repr(value))}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = split_lines(value._repr_html_())
        outputs.append({"data": data, "execution_count": None, "metadata": {}, "output_type": "execute_result"})
    return outputs


def split_lines(text: str) -> list[str]:
    """Text as the notebook format stores it."""
    return text.splitlines(keepends=True)


def main(paths: list[str]) -> None:
    """Run notebooks and write them with their outputs."""
    os.environ["NO_COLOR"] = "1"  # the stored text is plain; notebooks show the HTML
    for path in map(Path, paths):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        for index, (cell, outputs) in enumerate(zip(cells, run_notebook(notebook), strict=True), 1):
            for output in outputs:
                if "execution_count" in output:
                    output["execution_count"] = index
            cell["outputs"], cell["execution_count"] = outputs, index
        path.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
