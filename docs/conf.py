"""How Sphinx builds the documentation: `sphinx-build -W docs docs/_build/html`, with the extra `docs` installed.

Pages are MyST Markdown that reads well on a code host too; the API reference is made from the docstrings.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import bpe

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "bpe"
author = "the bpe authors"
project_copyright = author
version = release = bpe.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
nitpicky = False  # types of NumPy and of the standard library are not linked: building needs no network

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4  # a link to a heading that does not exist is a warning, hence an error with -W

napoleon_numpy_docstring = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80

html_theme = "furo"
html_title = f"bpe {release}"
html_static_path: list[str] = []
html_theme_options = {"navigation_with_keys": True}


def setup(app: Sphinx) -> None:
    """Connect what makes docstrings and signatures of `bpe` readable."""
    app.connect("autodoc-process-docstring", with_literals, priority=400)  # before napoleon, which has 500
    app.connect("autodoc-process-docstring", with_escaped_types, priority=600)  # after napoleon
    app.connect("autodoc-process-signature", with_short_types)


def with_literals(app: Sphinx, what: str, name: str, thing: object, options: Any, lines: list[str]) -> None:
    """Turn `code` in single backticks, as docstrings here have it, into reStructuredText's literals."""
    del app, what, name, thing, options
    text = "\n".join(lines)
    lines[:] = re.sub(r"(?<!`)`([^`]+)`(?!`)", lambda match: f"``{' '.join(match[1].split())}``", text).split("\n")


def with_escaped_types(app: Sphinx, what: str, name: str, thing: object, options: Any, lines: list[str]) -> None:
    """Escape the underscore at the end of types such as `np.bool_`, which reStructuredText takes for a link."""
    del app, what, name, thing, options
    lines[:] = [re.sub(r"(?<=\w)_(?!\w)", r"\\_", line) if ":type:" in line else line for line in lines]


def with_short_types(
    app: Sphinx, what: str, name: str, thing: object, options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Write the types of arrays as the source does: NDArray[uint32]."""
    del app, what, name, thing, options
    array = re.compile(r"~?(?:numpy\.)?ndarray\[tuple\[[^\]]*\], ~?(?:numpy\.)?dtype\[([^\[\]]+)\]\]")

    def short(text: str | None) -> str | None:
        return text if text is None else re.sub(r"~[\w.]+\.", "", array.sub(r"NDArray[\1]", text))

    return short(signature), short(returns)
