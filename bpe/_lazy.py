"""Names of a package whose modules are imported when a name is first used (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def import_on_use(
    package: str, modules: Mapping[str, str], names: list[str], check: Callable[[], None] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make the functions `__getattr__` and `__dir__` of a package.

    Args:
        package: its name.
        modules: public name → module in the package that defines it; a module has its own name.
        names: what `dir` lists.
        check: called before each import.

    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if check is not None:
            check()
        module = import_module(f"{package}.{modules[name]}")
        value = module if modules[name] == name else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: names
