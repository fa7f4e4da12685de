"""The kernels' C types of ids, counts and cells are the dtypes of the arrays that Python sees."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import bpe
from bpe.vocab.vocabulary import NO_TOKEN

TYPES = Path(bpe.__file__).parent / "base" / "_types.pxd"
DTYPES = {"token_t": np.uint32, "count_t": np.int64, "cell_t": np.uint32, "byte_t": np.uint8}


def test_c_types_are_the_dtypes_of_the_arrays() -> None:
    actual = {
        name: c_type
        for c_type, name in re.findall(r"^ctypedef (\w+)_t +(\w+)", TYPES.read_text(encoding="ascii"), re.MULTILINE)
    }
    assert {name: np.dtype(dtype).name for name, dtype in DTYPES.items()} == actual
    tok = bpe.train(texts=["a b"], num_merges=1)
    assert tok.encode("a").dtype == DTYPES["token_t"]
    assert bpe.count_words(texts=["a b"]).arrays()[2].dtype == DTYPES["count_t"]
    assert np.iinfo(DTYPES["token_t"]).max == NO_TOKEN
