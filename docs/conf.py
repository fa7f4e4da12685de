"""How Sphinx builds the documentation: `sphinx-build -W docs docs/_build/html`, with the extra `docs` installed.

Pages are MyST Markdown that reads well on a code host too; the API reference is made from the docstrings.
"""

from __future__ import annotations

import bpe

project = "bpe"
author = "the bpe authors"
project_copyright = author
version = release = bpe.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
nitpicky = False  # types of NumPy and of the standard library are not linked: building needs no network

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4  # a link to a heading that does not exist is a warning, hence an error with -W

# Docstrings have names in single backticks, as Python's own documentation of exceptions and arguments does.
default_role = "code"
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
