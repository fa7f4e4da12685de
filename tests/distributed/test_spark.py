"""Spark with two workers against one process, also when a task is killed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from texts import SPECIAL, make_texts

import bpe

pytest.importorskip("pyspark")
pa = pytest.importorskip("pyarrow")
if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
    pytest.skip("Spark needs Java 17", allow_module_level=True)

from pyspark.sql import SparkSession  # noqa: E402

from bpe.distributed import spark as bpe_spark  # noqa: E402

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "spark_job.py"
TEXTS = make_texts()
GIVEN = [text or "" for text in TEXTS]


@cache
def one_process() -> bpe.WordCounts:
    return bpe.count_words(texts=GIVEN, special_tokens=[SPECIAL])


@cache
def tokenizer() -> bpe.Tokenizer:
    return bpe.train(counts=one_process(), vocab_size=600, special_tokens=[SPECIAL])


@pytest.fixture(scope="module", autouse=True)
def this_python() -> Iterator[None]:
    """Spark's workers run the first python3 on the path, which is another one if this environment is not activated."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        yield


@pytest.fixture(scope="module")
def session(this_python: None) -> Iterator[Any]:
    """Two workers in this machine, and four attempts for each task."""
    settings = {"spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    builder = SparkSession.builder.master("local[2,4]").appName("bpe").config(map=settings)
    session = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "50").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def frame(session: Any) -> Any:
    """The texts in six partitions, in order."""
    table = pa.table({"id": range(len(TEXTS)), "text": TEXTS})
    return session.createDataFrame(table).repartitionByRange(6, "id").sortWithinPartitions("id")


def killed_once(frame: Any, folder: Path) -> Any:
    """The frame; the first attempts of two of its tasks die after they have passed on half of their rows."""

    def rows(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        record_batches = list(batches)
        for index, batch in enumerate(record_batches):
            if context.partitionId() in (1, 4) and context.attemptNumber() == 0 and index == len(record_batches) // 2:
                (folder / f"killed-{context.partitionId()}").touch()
                os._exit(1)
            yield batch

    return frame.mapInArrow(rows, frame.schema)


def test_counts_equal_one_process(frame: Any) -> None:
    """Words, counts and the order of first appearance."""
    assert frame.rdd.getNumPartitions() == 6
    counts = bpe_spark.count(frame, special_tokens=[SPECIAL])
    assert counts == one_process()
    for rule in ("id", "first"):
        trained = bpe.train(
            counts=counts, vocab_size=400, special_tokens=[SPECIAL], rules=bpe.MergeRules(tie_break=rule)
        )
        assert trained == bpe.train(
            counts=one_process(), vocab_size=400, special_tokens=[SPECIAL], rules=bpe.MergeRules(tie_break=rule)
        )


def test_counts_with_other_settings(frame: Any) -> None:
    settings: dict[str, Any] = {"pretokenizer": "whitespace", "normalizer": "nfd"}
    small_frame = frame.limit(100)
    expected = bpe.count_words(texts=[row["text"] or "" for row in small_frame.collect()], **settings)
    assert dict(bpe_spark.count(small_frame, **settings).items()) == dict(expected.items())
    often = {word: count for word, count in expected.items() if count >= 3}
    assert dict(bpe_spark.count(small_frame, min_count=3, **settings).items()) == often
    assert len(bpe_spark.count(frame.limit(0))) == 0


def test_a_killed_task_counts_nothing_twice(frame: Any, tmp_path: Path) -> None:
    assert bpe_spark.count(killed_once(frame, tmp_path), special_tokens=[SPECIAL]) == one_process()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["killed-1", "killed-4"]


def test_ids_equal_one_process(frame: Any) -> None:
    encoded = bpe_spark.encode(frame, tokenizer(), length="n", append=SPECIAL, allowed_special="all")
    assert encoded.schema.simpleString() == "struct<id:bigint,text:string,input_ids:array<int>,n:bigint>"
    rows = sorted(encoded.collect(), key=lambda row: row["id"])
    expected = tokenizer().encode_batch(GIVEN, append=SPECIAL, allowed_special="all")
    assert [row["input_ids"] for row in rows] == expected.to_list()
    assert [row["n"] for row in rows] == expected.lengths.tolist()
    assert [row["text"] for row in rows] == TEXTS


def test_a_killed_task_encodes_nothing_twice(frame: Any, tmp_path: Path) -> None:
    encoded = bpe_spark.encode(killed_once(frame, tmp_path), tokenizer(), output="ids", keep_columns=False)
    assert encoded.schema.simpleString() == "struct<ids:array<int>>"
    encoded.write.parquet(str(tmp_path / "ids"))
    import pyarrow.parquet

    written = pyarrow.parquet.read_table(tmp_path / "ids").column("ids").to_pylist()
    assert sorted(written) == sorted(tokenizer().encode_batch(GIVEN).to_list())
    assert (tmp_path / "killed-1").exists()


def test_wrong_arguments(frame: Any) -> None:
    with pytest.raises(TypeError, match="frame is 3, an int; it must be a Spark data frame"):
        bpe_spark.count(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="min_count is 0; it must be at least 1"):
        bpe_spark.count(frame, min_count=0)
    with pytest.raises(ValueError, match="no"):
        bpe_spark.encode(frame, tokenizer(), append="<|no|>")


def test_the_example(tmp_path: Path) -> None:
    """`examples/spark_job.py` writes the tokenizer and the ids that one process gives, in the Python that runs it."""
    import pyarrow.parquet

    (tmp_path / "python3").write_text("#!/bin/sh\nexit 1\n")  # the first on the path
    (tmp_path / "python3").chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    environment["PATH"] = f"{tmp_path}{os.pathsep}{environment['PATH']}"
    (tmp_path / "corpus").mkdir()
    for part in range(3):
        table = pa.table({"text": GIVEN[part::3]})
        pyarrow.parquet.write_table(table, tmp_path / "corpus" / f"part-{part}.parquet")
    process = subprocess.run(
        [sys.executable, str(EXAMPLE), str(tmp_path / "corpus"), str(tmp_path / "out"), "--vocab-size", "500"],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env=environment,
    )
    assert process.returncode == 0, process.stderr
    tok = bpe.Tokenizer.load(tmp_path / "out" / "tokenizer.json")
    assert tok == bpe.train(texts=GIVEN, vocab_size=500, special_tokens=["<|endoftext|>"])
    written = pyarrow.parquet.read_table(tmp_path / "out" / "ids").column("input_ids").to_pylist()
    assert sorted(written) == sorted(tok.encode_batch(GIVEN, append="<|endoftext|>").to_list())
