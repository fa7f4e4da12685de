"""Joining texts as UTF-8 against encoding each by itself."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpe.base._utf8 import joined_utf8
from bpe.base.utf8 import to_bytes

WIDTHS = ["", "low", "x" * 200, "é", "naïve " * 30, "낮은 low", "한" * 100, "😀", "a😀한é" * 40, "\ud83d\ude0a"]


@given(st.lists(st.one_of(st.sampled_from([*WIDTHS, "\ud800"]), st.text(), st.binary()), max_size=12))
def test_joined_texts_are_the_bytes_of_each(texts: list[str | bytes]) -> None:
    data, offsets = joined_utf8(texts)
    expected = [to_bytes(text) for text in texts]
    assert data.tobytes() == b"".join(expected)
    assert [data[a:b].tobytes() for a, b in pairwise(offsets)] == expected


def test_only_str_and_bytes_are_joined() -> None:
    with pytest.raises(TypeError, match="Expected bytes, got int"):
        joined_utf8(["low", 5])  # type: ignore[list-item]
