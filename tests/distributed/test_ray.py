"""Ray with several actors against one process, also when an actor is killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from texts import SPECIAL, make_texts

import bpe

pytest.importorskip("ray.data", reason="needs ray")
pa = pytest.importorskip("pyarrow")

import ray  # noqa: E402

from bpe.distributed import ray as bpe_ray  # noqa: E402

# Ray sets settings of its own that it has deprecated.
pytestmark = pytest.mark.filterwarnings(r"ignore:::ray\b")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "ray_job.py"
TEXTS = make_texts()
GIVEN = [text or "" for text in TEXTS]


@cache
def one_process() -> bpe.WordCounts:
    return bpe.count_words(texts=GIVEN, special_tokens=[SPECIAL])


@cache
def tokenizer() -> bpe.Tokenizer:
    return bpe.train(counts=one_process(), vocab_size=600, special_tokens=[SPECIAL])


def killer(folder: Path) -> Callable[[], None]:
    """A function for each worker process: the first batches that are counted and encoded end their processes.

    An actor dies after its work on the batch is done, and before the result is handed over. `folder` has a file for
    each batch that may do so, and the process that removes it dies.
    """

    def setup() -> None:
        from bpe.distributed import ray as module

        def dying(function: Callable[..., Any], kind: str) -> Callable[..., Any]:
            def call(*args: Any) -> Any:
                result = function(*args)
                for path in folder.glob(f"{kind}-*"):
                    try:
                        path.unlink()
                    except FileNotFoundError:
                        continue
                    os._exit(1)
                return result

            return call

        module.count_batch = dying(module.count_batch, "count")
        module.encode_batch = dying(module.encode_batch, "encode")

    return setup


@pytest.fixture(scope="module")
def deaths(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A Ray session of three cores; files in the folder that this returns make actors die (see `killer`)."""
    folder = tmp_path_factory.mktemp("deaths")
    ray.init(
        num_cpus=3,
        object_store_memory=150 << 20,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        runtime_env={"worker_process_setup_hook": killer(folder)},
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield folder
    ray.shutdown()


@pytest.fixture
def dataset(deaths: Path) -> Any:
    """The texts in six blocks."""
    size = len(TEXTS) // 6 + 1
    table = pa.table({"id": range(len(TEXTS)), "text": TEXTS})
    return ray.data.from_arrow([table.slice(first, size) for first in range(0, len(TEXTS), size)])


def test_counts_equal_one_process(dataset: Any) -> None:
    counts = bpe_ray.count(dataset, special_tokens=[SPECIAL], concurrency=2)
    assert dict(counts.items()) == dict(one_process().items())
    assert [word for word, _ in counts.items()] == sorted(word for word, _ in one_process().items())
    for rule in ("id", "smallest"):
        trained = bpe.train(
            counts=counts, vocab_size=400, special_tokens=[SPECIAL], rules=bpe.MergeRules(tie_break=rule)
        )
        assert trained == bpe.train(
            counts=one_process(), vocab_size=400, special_tokens=[SPECIAL], rules=bpe.MergeRules(tie_break=rule)
        )


def test_a_killed_actor_counts_nothing_twice(dataset: Any, deaths: Path) -> None:
    for file_number in range(3):
        (deaths / f"count-{file_number}").touch()
    counts = bpe_ray.count(dataset, special_tokens=[SPECIAL], concurrency=2, min_count=2)
    assert not list(deaths.iterdir())
    often = {word: count for word, count in one_process().items() if count >= 2}
    assert dict(counts.items()) == often


def test_ids_equal_one_process(dataset: Any, deaths: Path) -> None:
    """Two of the actors are killed."""
    for file_number in range(2):
        (deaths / f"encode-{file_number}").touch()
    encoded = bpe_ray.encode(
        dataset, tokenizer(), length="n", append=SPECIAL, allowed_special="all", concurrency=(1, 2)
    )
    blocks = pa.concat_tables(encoded.iter_batches(batch_size=None, batch_format="pyarrow")).sort_by("id")
    assert not list(deaths.iterdir())
    assert blocks.schema.field("input_ids").type == pa.large_list(pa.int32())
    expected = tokenizer().encode_batch(GIVEN, append=SPECIAL, allowed_special="all")
    assert blocks.column("input_ids").to_pylist() == expected.to_list()
    assert blocks.column("n").to_pylist() == expected.lengths.tolist()
    assert blocks.column("text").to_pylist() == TEXTS


@pytest.mark.parametrize("blocks", [[[None, None]], [[None], ["low lower"]], [[]]], ids=["nulls", "a block", "empty"])
def test_blocks_without_texts(deaths: Path, blocks: list[list[str | None]]) -> None:
    dataset = ray.data.from_arrow([pa.table({"text": pa.array(block)}) for block in blocks])
    texts = [text or "" for block in blocks for text in block]
    assert dict(bpe_ray.count(dataset).items()) == dict(bpe.count_words(texts=texts).items())
    assert [row["input_ids"] for row in bpe_ray.encode(dataset, tokenizer()).take_all()] == [
        tokenizer().encode(text).tolist() for text in texts
    ]


def test_wrong_arguments(dataset: Any) -> None:
    with pytest.raises(TypeError, match=r"dataset is 3, an int; it must be a ray\.data\.Dataset"):
        bpe_ray.count(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="min_count is 0; it must be at least 1"):
        bpe_ray.count(dataset, min_count=0)
    with pytest.raises(ValueError, match="concurrency is 0; it must be at least 1"):
        bpe_ray.encode(dataset, tokenizer(), concurrency=0)


def test_the_example(tmp_path: Path) -> None:
    """`examples/ray_job.py` writes the tokenizer and the ids that one process gives."""
    import pyarrow.parquet

    ray.shutdown()
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
    )
    assert process.returncode == 0, process.stderr
    tok = bpe.Tokenizer.load(tmp_path / "out" / "tokenizer.json")
    assert tok == bpe.train(texts=GIVEN, vocab_size=500, special_tokens=["<|endoftext|>"])
    written = pyarrow.parquet.read_table(tmp_path / "out" / "ids").column("input_ids").to_pylist()
    assert sorted(written) == sorted(tok.encode_batch(GIVEN, append="<|endoftext|>").to_list())
