"""A summary of skipped tests in at most ten lines: how many, by what they lack; `conftest.py` prints it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

#: Lines for single groups; the others share the last line.
MAX_GROUPS = 8
#: What a reason says that is absent.
ABSENT = re.compile(
    r"could not import '(\w+)|\bneeds (?!an? )(?:the )?([\w/-]+)|([\w.-]+) is not installed"
    r"|compares with (?:the )?(\w+)|(shared) (?:corp|vocab)"
)


def name_absent(reason: str) -> str | None:
    """The package, program or system call that a reason for skipping names; None for another kind of reason."""
    match = ABSENT.search(reason)
    if match is None:
        return None
    name = next(filter(None, match.groups()))
    return "the shared corpora and vocabularies" if name == "shared" else name


def summarize(reasons: Iterable[str]) -> list[str]:
    """Lines with the numbers of skipped tests, by what they need, the largest first; the rest in the last line.

    >>> summarize(["needs torch", "could not import 'torch.utils'", "no padding token"])
    ['    2 need torch', '    1 for other reasons']
    """
    counts = Counter(map(name_absent, reasons))
    others = counts.pop(None, 0)
    groups = sorted(counts.items(), key=lambda group: (-group[1], str(group[0])))
    lines = [f"{count:5} need {name}" for name, count in groups[:MAX_GROUPS]]
    rest = others + sum(count for _, count in groups[MAX_GROUPS:])
    names = ", ".join(str(name) for name, _ in groups[MAX_GROUPS:])
    if rest:
        lines.append(f"{rest:5} for other reasons" if not names else f"{rest:5} need {names}, or for other reasons")
    return lines
