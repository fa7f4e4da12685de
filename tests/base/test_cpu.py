"""The vector levels: a level is used only where the processor has every instruction that some kernel uses at it."""

from __future__ import annotations

import re
from pathlib import Path

import bpe

PACKAGE = Path(bpe.__file__).parent


def test_every_instruction_set_that_kernels_use_is_checked() -> None:
    """Without LZCNT, as virtual machines can hide it, the same code is BSR, which gives other positions."""
    sources = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*") if path.suffix in (".h", ".pyx")}
    levels = PACKAGE / "base" / "_levels.h"
    assert [path for path, text in sources.items() if "__((target(" in text] == [levels]
    used = {name for names in re.findall(r'"([a-z0-9,]+)"', sources[levels]) for name in names.split(",") if name}
    code = (PACKAGE / "base" / "_cpu.pyx").read_text(encoding="utf-8")
    checked = set(re.findall(r"BPE_HAS\((\w+)\)", code)) - {"feature"}
    checked |= {name for text in sources.values() for name in re.findall(r'__builtin_cpu_supports\("(\w+)"\)', text)}
    assert "c >> 5 & 1" in code  # LZCNT in the CPUID leaf 0x80000001
    assert {"avx2", "lzcnt", "bmi2", "avx512vbmi2"} <= used
    assert used <= checked | {"lzcnt"}
