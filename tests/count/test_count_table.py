"""The table that counts words, against a dict."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bpe.base.offsets import compute_offsets
from bpe.count import _word_table as wordtable


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=60))
def test_word_table_counts_like_a_dict(words: list[bytes]) -> None:
    table = wordtable.WordTable()
    plain: dict[bytes, int] = {}
    for position, word in enumerate(words):
        table.add_arrays(
            word, compute_offsets([len(word)]), np.array([position + 1]), np.array([position], dtype=np.uint64)
        )
        plain[word] = plain.get(word, 0) + position + 1
    blob, offsets, counts, _ = table.arrays()
    distinct_words = [bytes(blob[a:b]) for a, b in pairwise(offsets)]
    assert dict(zip(distinct_words, counts.tolist(), strict=True)) == plain
    assert distinct_words == list(plain)
    assert [table.get(word) for word in distinct_words] == counts.tolist()
    assert table.get(b"never seen, and longer than fifteen bytes") == table.get(b"no") == 0
