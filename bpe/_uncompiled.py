"""Checks that the kernels are compiled for this Python, this NumPy and this source, and says how to mend it if not."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES, PathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

KERNEL = "_encoder"


def check_kernels() -> None:
    """Import the kernels that most other modules need; ImportError with the reason and the fix if that fails."""
    import_module("numpy")  # its own errors need no explanation
    try:
        import_module("bpe.base._cpu")  # first, since it may refuse this processor
        import_module(f"bpe.encode.{KERNEL}")
    except (ImportError, TypeError, ValueError) as error:  # the last two: compiled against another NumPy or release
        from pathlib import Path  # importing it takes 5 ms

        raise ImportError(explanation(error, Path(__file__).resolve().parent)) from None


def explanation(error: Exception, package: Path) -> str:
    """Say why the kernels of the package in this folder cannot be imported, and how to fix it."""
    folder = package.parent
    install = f"run `pip install -e .` in {folder}" if (folder / "setup.py").exists() else "install bytepair again"
    python = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    compiled = sorted(path.name for path in (package / "encode").glob(f"{KERNEL}.*") if path.suffix in (".so", ".pyd"))
    if any(KERNEL + suffix in compiled for suffix in EXTENSION_SUFFIXES):
        unfit = f"the compiled kernels of bpe in {package} do not match its source, NumPy or processor"
        return f"{error}: {unfit}; {install}"
    if compiled:
        other = f"another Python ({compiled[0]}), not for this {python}"
        return f"the kernels of bpe in {package} are compiled for {other}; {install} with this Python"
    problem = f"{package} is source code that is not compiled"
    if (installed := _find_other_copy(package)) is not None:
        return f"{problem}, and it hides the installed copy in {installed}; leave the folder {folder}, or {install}"
    return f"{problem}; {install}"


def _find_other_copy(package: Path) -> Path | None:
    """The folder of a compiled `bpe` further along `sys.path`, which this one hides; None if there is none."""
    from pathlib import Path

    for entry in sys.path:
        spec = PathFinder.find_spec("bpe", [entry or os.getcwd()])
        if spec is not None and spec.origin is not None:
            folder = Path(spec.origin).resolve().parent
            if folder != package and any((*folder.glob("encode/*.so"), *folder.glob("encode/*.pyd"))):
                return folder
    return None
