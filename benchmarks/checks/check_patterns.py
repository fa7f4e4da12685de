"""Generated and published patterns of Oniguruma: the pieces and replacements of `tokenizers`, or a refusal.

    python benchmarks/checks/check_patterns.py [--patterns N] [--seed S]

Makes `--patterns` (default 10,000) patterns over the whole syntax of Oniguruma, and texts for each. A Split of each
behavior, plain and inverted, and a Replace must give what `tokenizers` gives, or refuse the pattern. A pattern that
`tokenizers` refuses must be refused. Prints counts, and how often each reason led to a refusal of a pattern that
`tokenizers` takes. Exit status 1 if anything differs.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from comparing import make_parser

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))

patterns = import_module("oniguruma_patterns")

#: Texts for each pattern, and for each published one.
TEXTS, PUBLISHED_TEXTS = 4, 100


def main() -> int:
    """Compare all patterns; the exit status."""
    parser = make_parser(__doc__)
    parser.add_argument("--patterns", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    compared, maker = patterns.Comparison(), patterns.Maker(options.seed)
    for pattern in patterns.PUBLISHED:
        compared.compare(pattern, [maker.text() for _ in range(PUBLISHED_TEXTS)])
    for _ in range(options.patterns):
        compared.compare(maker.pattern(), [maker.text() for _ in range(TEXTS)])
    print(", ".join(f"{count:,} {name}" for name, count in compared.counts.items()))
    for reason, count in sorted(compared.reasons.items(), key=lambda item: -item[1]):
        print(f"    {count:>6,} {reason}")
    for difference in compared.found:
        print(f"differs: {difference}")
    return int(bool(compared.found))


if __name__ == "__main__":
    sys.exit(main())
