"""The functions on Arrow data that the adapters for engines share, against one process."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import bpe
from bpe.data import map_function
from bpe.data.mapping import MapFunction

pa = pytest.importorskip("pyarrow")

from bpe.distributed import arrow_functions, ray, spark  # noqa: E402 (they need pyarrow for their work, not to be imported)

TEXTS = [
    "the low lower lowest<|end|> newer",
    "",
    "영화를 영화관에서",
    "the newest 😀 naïve " + "x" * 50,
    "aaaa <|end|>",
] * 20


def to_dict(batches: Any) -> dict[bytes, int]:
    merged: dict[bytes, int] = {}
    for batch in batches:
        for word, count in zip(batch.column("word").to_pylist(), batch.column("count").to_pylist(), strict=True):
            merged[word] = merged.get(word, 0) + count
    return merged


SETTINGS: list[dict[str, Any]] = [
    {},
    {"pretokenizer": "whitespace", "special_tokens": ["<|end|>"]},
    {"pretokenizer": "cl100k", "normalizer": "nfd"},
    {"pretokenizer": bpe.Pretokenizer.from_regex(r"\w+|\W")},
    {"pretokenizer": None},
]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("kind", ["string", "large_string", "binary", "chunked", "sliced"])
def test_one_batch_equals_count_words(settings: dict[str, Any], kind: str) -> None:
    texts = pa.array(TEXTS)
    if kind == "chunked":
        texts = pa.chunked_array([TEXTS[:7], TEXTS[7:7], TEXTS[7:]])
    elif kind == "sliced":
        texts = pa.array(["none of this", *TEXTS, "nor this"]).slice(1, len(TEXTS))
    else:
        texts = texts.cast(kind)
    counted = arrow_functions.count_batch(texts, bpe.WordCounts(**settings))
    expected = bpe.count_words(texts=TEXTS, **settings)
    assert counted.schema.names == ["word", "count", "first"]
    assert list(zip(counted.column("word").to_pylist(), counted.column("count").to_pylist(), strict=True)) == [
        *expected.items()
    ]
    assert counted.column("first").to_pylist() == list(range(len(expected)))


def test_nothing_to_count() -> None:
    settings = bpe.WordCounts()
    for texts in ([], [None, ""]):
        assert arrow_functions.count_batch(pa.array(texts, pa.string()), settings).num_rows == 0
    assert list(arrow_functions.count_batches([], settings)) == []
    assert len(arrow_functions.gather_counts([], settings)) == 0


@pytest.mark.parametrize("table_memory", [0, 5000, 1 << 30])
def test_batches_in_bounded_memory(table_memory: int) -> None:
    """A table that is sent on and emptied loses nothing, and the smallest position of a word orders it."""
    settings = bpe.WordCounts()
    batches = [pa.array(TEXTS[start : start + 3]) for start in range(0, len(TEXTS), 3)]
    counted = list(arrow_functions.count_batches(batches, settings, position=1 << 40, table_memory=table_memory))
    assert (len(counted) == 1) == (table_memory == 1 << 30)
    rows = pa.Table.from_batches(counted).group_by("word").aggregate([("count", "sum"), ("first", "min")])
    rows = rows.rename_columns(["word", "count", "first"])
    order = list(range(rows.num_rows))
    random.Random(1).shuffle(order)
    rows = rows.take(order)
    parts = [rows.slice(0, 3), rows.slice(3, 0), *rows.slice(3).to_batches()]
    assert arrow_functions.gather_counts(parts, settings) == bpe.count_words(texts=TEXTS)
    assert rows.column("first").to_numpy().min() == 1 << 40


def test_gathered_without_order_is_sorted_and_trains_the_same() -> None:
    expected = bpe.count_words(texts=TEXTS)
    rows = expected.to_arrow()
    rows = rows.set_column(0, "word", rows.column("word").cast(pa.binary()))
    counts = arrow_functions.gather_counts([rows.slice(9), rows.slice(0, 9)], expected)
    assert [word for word, _ in counts.items()] == sorted(word for word, _ in expected.items())
    for rule in ("id", "smallest", "greatest"):
        assert bpe.train(counts=counts, vocab_size=300, rules=bpe.MergeRules(tie_break=rule)) == bpe.train(
            texts=TEXTS, vocab_size=300, rules=bpe.MergeRules(tie_break=rule)
        )
    counts.add("the low")  # counts that were gather_counts can be filled further, merged and saved
    expected.add("the low")
    assert dict(counts.items()) == dict(expected.items())


def test_other_columns_are_refused() -> None:
    with pytest.raises(TypeError, match="texts is an Arrow array of int64; it must be of string"):
        arrow_functions.count_batch(pa.array([1, 2]), bpe.WordCounts())
    with pytest.raises(TypeError, match=r"texts is \['a'\], a list; it must be an Arrow array of strings"):
        arrow_functions.count_batch(["a"], bpe.WordCounts())


def test_encode_batch() -> None:
    tok = bpe.train(texts=TEXTS, vocab_size=300, special_tokens=["<|end|>"])
    table = pa.table({"text": TEXTS, "id": range(len(TEXTS))})
    for batch in (table, table.to_batches()[0]):
        encoded = arrow_functions.encode_batch(batch, map_function(tok, append="<|end|>", length="n"))
        assert encoded.column_names == ["text", "id", "input_ids", "n"]
        assert encoded.column("input_ids").to_pylist() == tok.encode_batch(TEXTS, append="<|end|>").to_list()
        assert encoded.schema.field("input_ids").type == pa.large_list(pa.int32())
    assert isinstance(map_function(tok), MapFunction)


def test_parts_are_even_and_the_same_everywhere() -> None:
    words = [f"{' ' * (i % 2)}word{i * 7919}".encode() for i in range(20_000)] + [b"a", b"", b"12345678", b"123456789"]
    offsets = np.cumsum([0, *map(len, words)])
    blob = np.frombuffer(b"".join(words), dtype=np.uint8)
    parts = ray.hash_parts(blob, offsets, 16)
    sizes = np.bincount(parts, minlength=16)
    assert sizes.min() > 0.8 * len(words) / 16
    assert sizes.max() < 1.2 * len(words) / 16
    for index in (
        0,
        1,
        2,
        19_999,
        20_000,
        20_001,
        20_002,
        20_003,
    ):  # a word alone has the number that it has in a batch
        alone = ray.hash_parts(np.frombuffer(words[index], dtype=np.uint8), np.array([0, len(words[index])]), 16)
        assert alone.tolist() == [parts[index]]
    assert ray.hash_parts(np.empty(0, np.uint8), np.zeros(1, np.int64), 4).tolist() == []


def test_absent_engines_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'bytepair\[ray\]'"):
        ray.count(None)  # type: ignore[arg-type]
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'bytepair\[spark\]'"):
        spark.count(None)  # type: ignore[arg-type]


def test_importing_the_adapters_imports_no_engine() -> None:
    program = (
        "import sys, bpe\n"
        "assert not any(name.startswith(('bpe.distributed', 'bpe.data.map')) for name in sys.modules)\n"
        "import bpe.distributed.ray, bpe.distributed.spark\n"
        "print(*sorted({'ray', 'pyspark', 'pyarrow', 'pandas', 'datasets'} & set(sys.modules)))"
    )
    process = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True)
    assert process.stdout == "\n"


def test_a_column_that_has_no_text_at_all() -> None:
    """Its type is null, whatever the type of other blocks."""
    nulls = pa.array([None, None])
    tok = bpe.train(texts=TEXTS, vocab_size=270)
    assert arrow_functions.count_batch(nulls, bpe.WordCounts()).num_rows == 0
    assert tok.encode_batch(nulls).to_list() == [[], []]
    encoded = arrow_functions.encode_batch(pa.table({"text": nulls}), map_function(tok))
    assert encoded.column("input_ids").to_pylist() == [[], []]
