"""A megabyte of text for the tests of the engines: words of several scripts, with Zipf's frequencies, and odd rows."""

from __future__ import annotations

import random

SPECIAL = "<|end|>"


def make_texts(size: int = 1_000_000) -> list[str | None]:
    """Rows of text of `size` characters in all, among them nulls, empty rows and special tokens; always the same."""
    choose = random.Random(1)
    scripts = ("abcdefghijklmnopqrstuvwxyz", "가나다라마바사아자차카타파하", "абвгдежзийклмнопрст", "0123456789")
    words = ["".join(choose.choices(choose.choice(scripts), k=choose.randint(1, 9))) for _ in range(20_000)]
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    rows: list[str | None] = [None, "", SPECIAL, f"low{SPECIAL}lower"]
    total = 0
    while total < size:
        row = " ".join(choose.choices(words, weights, k=choose.randint(1, 200)))
        total += len(row)
        rows.append(row)
        if len(rows) % 50 == 0:
            rows += [None, "", "  \n" + SPECIAL]
    return rows
