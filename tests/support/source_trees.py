"""Python sources as trees, each parsed once in a process, for the tests that hold rules of the code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache


@cache
def parse(text: str) -> ast.Module:
    """Parse a source, or return its tree from an earlier call."""
    return ast.parse(text)


def walk_statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all statements and handlers in it, without expressions, which are nine of ten nodes."""
    nodes = [node]
    while nodes:
        node = nodes.pop()
        yield node
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, name, None)
            if isinstance(inner, list):
                nodes += inner
