"""Why the compiled kernels cannot be imported: imported by `bpe/__init__.py` only when they cannot."""

from __future__ import annotations

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES, PathFinder
from pathlib import Path

KERNEL = "_encoder"


def explanation(error: Exception, package: Path) -> str:
    """What is wrong with the package in this folder, and what to do about it."""
    folder = package.parent
    install = f"run `pip install -e .` in {folder}" if (folder / "setup.py").exists() else "install bytepair again"
    python = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    compiled = sorted(path.name for path in (package / "encode").glob(f"{KERNEL}.*") if path.suffix in (".so", ".pyd"))
    if any(KERNEL + suffix in compiled for suffix in EXTENSION_SUFFIXES):
        return f"{error}: the compiled kernels of bpe in {package} do not match its source or this NumPy; {install}"
    if others := sorted(
        path.name for path in (package / "encode").glob(f"{KERNEL}.*") if path.suffix in (".so", ".pyd")
    ):
        what = f"the kernels of bpe in {package} are compiled for another Python ({others[0]}), not for this {python}"
        return f"{what}; {install} with this Python"
    what = f"{package} is source code that is not compiled"
    if (installed := _elsewhere(package)) is not None:
        return f"{what}, and it hides the installed copy in {installed}; leave the folder {folder}, or {install}"
    return f"{what}; {install}"


def _elsewhere(package: Path) -> Path | None:
    """The folder of another `bpe` that would be imported if it were not for this one."""
    for entry in sys.path:
        spec = PathFinder.find_spec("bpe", [entry or os.getcwd()])
        if spec is not None and spec.origin is not None:
            found = Path(spec.origin).resolve().parent
            if found != package and any((*found.glob("encode/*.so"), *found.glob("encode/*.pyd"))):
                return found
    return None
