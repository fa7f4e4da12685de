"""The scripts of `benchmarks/checks`, of which some tests run a little."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "benchmarks" / "checks"


def load_check(name: str) -> Any:
    """A module of the checks, whose modules import each other by name."""
    sys.path.append(str(FOLDER))
    try:
        return import_module(name)
    finally:
        sys.path.remove(str(FOLDER))
