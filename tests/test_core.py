"""The kernels' shared types and small data structures, each compared with a naive twin."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import reference
from hypothesis import given
from hypothesis import strategies as st

import bpe
from bpe.base.offsets import offsets_of
from bpe.count import _word_table as wordtable
from bpe.merge._merge_table import MergeTable
from bpe.vocab.vocabulary import NO_TOKEN

TYPES = Path(bpe.__file__).parent / "base" / "_types.pxd"
DTYPES = {"token_t": np.uint32, "count_t": np.int64, "cell_t": np.uint32, "byte_t": np.uint8}


def test_c_types_are_the_dtypes_of_the_arrays() -> None:
    found = {
        name: c_type
        for c_type, name in re.findall(r"^ctypedef (\w+)_t +(\w+)", TYPES.read_text(encoding="ascii"), re.MULTILINE)
    }
    assert {name: np.dtype(dtype).name for name, dtype in DTYPES.items()} == found
    tok = bpe.train(texts=["a b"], num_merges=1)
    assert tok.encode("a").dtype == DTYPES["token_t"]
    assert bpe.count_words(texts=["a b"]).arrays()[2].dtype == DTYPES["count_t"]
    assert np.iinfo(DTYPES["token_t"]).max == NO_TOKEN


@given(st.dictionaries(st.tuples(st.integers(0, 30), st.integers(0, 30)), st.integers(0, 500), max_size=100))
def test_merge_table_returns_the_inserted_merges(hooks: Any, merges: dict[tuple[int, int], int]) -> None:
    pairs = np.array(list(merges), dtype=np.int32).reshape(-1, 2)
    ids = np.array(list(merges.values()), dtype=np.int32)
    table = MergeTable(pairs, ids, np.arange(len(ids), dtype=np.int32))
    for left in range(32):
        for right in range(32):
            found = hooks.merge_of(table, left, right)
            assert (None if found is None else found[1]) == merges.get((left, right))


@given(
    st.dictionaries(st.sampled_from(["aa", "ab", "ba", "aab", "aba", "abab", "aaaa"]), st.integers(0, 3)),
    st.text("ab", max_size=40),
)
def test_the_oracle_merges_long_words_like_short_ones(ranks: dict[str, int], text: str) -> None:
    """Even with equal ranks: the leftmost pair first."""

    def rank(left: str, right: str) -> float:
        return ranks.get(left + right, reference.NOT_A_PAIR)

    assert len(text) < reference.MANY
    expected = reference.merge_lowest(list(text), rank)
    assert reference.merge_lowest_of_many(list(text), rank) == expected


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=60))
def test_word_table_counts_like_a_dict(words: list[bytes]) -> None:
    table = wordtable.WordTable()
    plain: dict[bytes, int] = {}
    for place, word in enumerate(words):
        table.add_arrays(word, offsets_of([len(word)]), np.array([place + 1]), np.array([place], dtype=np.uint64))
        plain[word] = plain.get(word, 0) + place + 1
    blob, offsets, counts, _ = table.arrays()
    listed = [bytes(blob[a:b]) for a, b in pairwise(offsets)]
    assert dict(zip(listed, counts.tolist(), strict=True)) == plain
    assert listed == list(plain)
    assert [table.get(word) for word in listed] == counts.tolist()
    assert table.get(b"never seen, and longer than fifteen bytes") == table.get(b"no") == 0
