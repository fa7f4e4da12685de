"""What the bench_*.py scripts share: corpora, measurements in processes of their own, medians, tables."""

from __future__ import annotations

import json
import lzma
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SHARED = HERE.parents[1] / "shared" / "data" / "corpora"
NAMES = ("english", "korean", "japanese", "python")


def corpora(files: Sequence[Path], folder: str | Path, names: Iterable[str] = NAMES) -> list[Path]:
    """The files named, or the shared corpora unpacked into a folder."""
    for path in files:
        if not path.is_file():
            raise SystemExit(f"{path} is no file")
    paths = list(files)
    for name in () if files else names:
        packed = SHARED / f"{name}.txt.xz"
        if not packed.exists():
            raise SystemExit(f"{packed} is absent: name a text file")
        paths.append(Path(folder) / f"{name}.txt")
        paths[-1].write_bytes(lzma.decompress(packed.read_bytes()))
    return paths


def measure(job: str, peer: str, path: Path, threads: int, *more: object) -> dict[str, Any]:
    """One measurement in a process of its own."""
    command = [sys.executable, str(HERE / "run.py"), job, peer, str(path), str(threads), *map(str, more)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{job} with {peer} failed:\n{done.stderr}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])  # some libraries print
    return result


def middle(rows: list[dict[str, Any]], field: str) -> float:
    """The median of a field."""
    return float(statistics.median(row[field] for row in rows))


def machine() -> str:
    """What this ran on."""
    cpu = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.processor(),
    )
    return f"{cpu}, Python {platform.python_version()}, {platform.system()}"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table in Markdown."""
    print(f"| {' | '.join(head)} |")
    print("|" + "---|" * len(head))
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |")


def keep(path: Path | None, rows: list[dict[str, Any]]) -> None:
    """Write every measurement as JSON."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1) + "\n")
