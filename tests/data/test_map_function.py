"""`bpe.data.map_function` with Hugging Face `datasets`: ids, types, fingerprints, processes, formats."""

from __future__ import annotations

import dataclasses
import math
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bpe
from bpe.base.threads import resolve_threads
from bpe.data import map_function
from bpe.data.mapping import MapFunction
from bpe.normalizers import NFC, Lowercase, Replace

TEXTS = ["the low lower lowest<|end|>", "", "영화를 영화관에서", "newer newest 😀 naïve", "a" * 300] * 40

KINDS: dict[str, dict[str, Any]] = {
    "byte": {"special_tokens": ["<|end|>", "<|a|>", "<|b|>"]},
    "char": {"model": "char", "unk_token": "<unk>", "end_of_word": "</w>", "special_tokens": ["<|end|>"]},
    "glued": {
        "model": "char",
        "unk_token": "<unk>",
        "end_of_word": "</w>",
        "end_of_word_glued": True,
        "normalizer": [NFC(), Lowercase()],
    },
    "regex": {"pretokenizer": bpe.Pretokenizer.from_regex(r"\w+|\W")},
}


def make_tokenizer(kind: str = "byte") -> bpe.Tokenizer:
    return bpe.train(texts=TEXTS, num_merges=40, **KINDS[kind])


TOK = make_tokenizer()
EXPECTED = [row.tolist() for row in TOK.encode_batch(TEXTS)]


def to_lists(rows: Any) -> list[list[int]]:
    return [[int(token_id) for token_id in row] for row in rows]


# The function itself, without datasets --------------------------------------------------------------------------------


def test_batches_rows_and_nulls() -> None:
    encode = map_function(TOK, length="n", append="<|end|>", prepend=1)
    batch = encode({"text": ["low", None, "lower"], "id": [1, 2, 3]})
    expected = TOK.encode_batch(["low", "", "lower"], append="<|end|>", prepend=1)
    assert [*batch] == ["input_ids", "n"]
    assert to_lists(batch["input_ids"]) == expected.to_list()
    assert {row.dtype for row in batch["input_ids"]} == {np.dtype(np.int32)}
    assert batch["n"].tolist() == expected.lengths.tolist()
    assert encode({"text": "lower"})["input_ids"].tolist() == expected[2].tolist()
    assert encode({"text": None})["n"] == 2


def test_special_tokens_are_text_unless_allowed() -> None:
    encode, encode_allowed = map_function(TOK), map_function(TOK, allowed_special={"<|end|>"})
    assert to_lists(encode({"text": TEXTS[:1]})["input_ids"]) == [TOK.encode(TEXTS[0]).tolist()]
    assert encode_allowed({"text": TEXTS[:1]})["input_ids"][0][-1] == TOK.token_id("<|end|>")


def test_wrong_options_are_refused_when_the_function_is_made() -> None:
    for options, kind, message in (
        ({"append": "<|no|>"}, ValueError, "no"),
        ({"allowed_special": {"<|no|>"}}, ValueError, "no"),
        ({"length": "input_ids"}, ValueError, "output and length are both 'input_ids'; they must be two columns"),
        ({"column": 3}, TypeError, "column is 3, an int; it must be a str, the name of a column"),
        ({"output": None}, TypeError, "output is None; it must be a str, the name of a column"),
    ):
        with pytest.raises(kind, match=message):  # type: ignore[arg-type]
            map_function(TOK, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_pickles_are_equal_for_equal_tokenizers(kind: str, tmp_path: Path) -> None:
    """A tokenizer that is trained twice, loaded from a file or pickled gives one and the same pickle."""
    tok = make_tokenizer(kind)
    tok.save(tmp_path / "tokenizer.json")
    tok.encode_batch(TEXTS)
    equal_tokenizers = [
        make_tokenizer(kind),
        bpe.Tokenizer.load(tmp_path / "tokenizer.json"),
        pickle.loads(pickle.dumps(tok)),
    ]
    first = pickle.dumps(map_function(tok))
    for equal_tokenizer in equal_tokenizers:
        equal_function = map_function(equal_tokenizer)
        assert pickle.dumps(equal_function) == first
        assert equal_function == map_function(tok)
        assert hash(equal_function) == hash(map_function(tok))
    equal_function = pickle.loads(first)
    assert isinstance(equal_function, MapFunction)
    assert equal_function.tokenizer == tok
    assert pickle.dumps(equal_function) == first
    assert to_lists(equal_function({"text": TEXTS})["input_ids"]) == tok.encode_batch(TEXTS).to_list()
    assert pickle.dumps(map_function(tok, length="n")) != first
    assert map_function(tok, length="n") != map_function(tok)
    assert repr(map_function(TOK, column="\x1b[2J", output="\u202e")).isprintable()


def test_a_pickle_keeps_the_time_limits() -> None:
    spec = dataclasses.replace(make_tokenizer("regex").spec, normalizer=[NFC(), Replace("a+b", "c", timeout=3)])
    for tok in (bpe.Tokenizer(spec), bpe.Tokenizer(spec, timeout=math.inf, cache_memory="1M")):
        unpickled = pickle.loads(pickle.dumps(map_function(tok))).tokenizer
        assert unpickled == tok
        assert unpickled.cache_memory == tok.cache_memory
        assert unpickled.spec.pretokenizer.timeout == tok.spec.pretokenizer.timeout
        assert unpickled.spec.normalizer.normalizers[1].timeout == tok.spec.normalizer.normalizers[1].timeout


def test_pickle_of_a_real_vocabulary(shared_vocab: Callable[[str], Path]) -> None:
    tok = bpe.Tokenizer.from_tiktoken(shared_vocab("cl100k_base.tiktoken"), "cl100k", {"<|endoftext|>": 100257})
    unpickled = pickle.loads(pickle.dumps(map_function(tok, append="<|endoftext|>")))
    assert unpickled.tokenizer == tok
    assert to_lists(unpickled({"text": TEXTS})["input_ids"]) == tok.encode_batch(TEXTS, append=100257).to_list()


@pytest.mark.parametrize("batch", [{"content": ["low"]}, {"content": "low"}])
def test_a_missing_column_is_named_with_those_of_the_batch(batch: Any) -> None:
    with pytest.raises(KeyError, match=r"'text' is not in the batch, which has \['content'\]; pass column='content'"):
        map_function(TOK)(batch)


def test_arrow_tables() -> None:
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"text": [*TEXTS, None], "id": range(len(TEXTS) + 1), "n": ["old"] * (len(TEXTS) + 1)})
    encoded = map_function(TOK, length="n")(table)
    assert encoded.column_names == ["text", "id", "input_ids", "n"]
    assert encoded.schema.field("input_ids").type == pa.large_list(pa.int32())
    assert encoded.column("input_ids").to_pylist() == [*EXPECTED, []]
    assert encoded.column("n").to_pylist() == [*map(len, EXPECTED), 0]
    assert map_function(TOK, keep_columns=False)(table.slice(3, 2)).to_pydict() == {"input_ids": EXPECTED[3:5]}
    chunked = pa.concat_tables([table.slice(0, 7), table.slice(7)])
    assert map_function(TOK, length="n")(chunked).column("input_ids").to_pylist() == [*EXPECTED, []]
    with pytest.raises(KeyError, match="column 'words' is not in the batch, which has"):
        map_function(TOK, "words")(table)


# With datasets --------------------------------------------------------------------------------------------------------


@pytest.fixture
def datasets() -> Any:
    module = pytest.importorskip("datasets")
    module.disable_progress_bars()
    return module


@pytest.fixture
def dataset(datasets: Any, tmp_path: Path) -> Any:
    """A dataset on disk, whose `map` caches its results beside it."""
    columns = {"text": TEXTS, "id": list(range(len(TEXTS)))}
    datasets.Dataset.from_dict(columns).save_to_disk(tmp_path / "dataset")
    return datasets.load_from_disk(tmp_path / "dataset")


@pytest.mark.parametrize("format_name", [None, "arrow", "numpy", "pandas"])
@pytest.mark.parametrize("processes", [None, 1, 2])
def test_map(dataset: Any, format_name: str | None, processes: int | None) -> None:
    encoded = dataset.with_format(format_name).map(
        map_function(TOK, length="length"), batched=True, batch_size=33, num_proc=processes
    )
    encoded = encoded.with_format(None)
    assert [*encoded["input_ids"]] == EXPECTED
    assert [*encoded["length"]] == [*map(len, EXPECTED)]
    assert [*encoded["text"]] == TEXTS
    assert encoded.features["input_ids"].feature.dtype == "int32"
    assert encoded.with_format("numpy")[0]["input_ids"].tolist() == EXPECTED[0]


def test_map_without_other_columns(dataset: Any) -> None:
    encoded = dataset.map(map_function(TOK), batched=True, remove_columns=["text", "id"])
    assert encoded.column_names == ["input_ids"]
    assert [*encoded["input_ids"]] == EXPECTED
    arrow = dataset.with_format("arrow").map(map_function(TOK, keep_columns=False), batched=True)
    assert arrow.column_names == ["input_ids"]
    assert [*arrow.with_format(None)["input_ids"]] == EXPECTED


def test_map_row_by_row(dataset: Any) -> None:
    assert [*dataset.select(range(9)).map(map_function(TOK))["input_ids"]] == EXPECTED[:9]


def test_batches_of_empty_texts(datasets: Any) -> None:
    """The first batches have no id at all; the column's type is the same."""
    texts = ["", "", None, "", "low", "", None]
    dataset = datasets.Dataset.from_dict({"text": texts})
    expected = [TOK.encode(text or "").tolist() for text in texts]
    for format_name in (None, "arrow", "pandas"):
        encoded = dataset.with_format(format_name).map(map_function(TOK, output="ids"), batched=True, batch_size=2)
        assert [*encoded.with_format(None)["ids"]] == expected
        assert encoded.features["ids"].feature.dtype == "int32"


def test_a_second_map_is_read_from_the_cache(dataset: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for index, format_name in enumerate((None, "arrow")):
        for processes in (None, 2):
            formatted = dataset.with_format(format_name)
            call = {"batched": True, "num_proc": processes}
            first = formatted.map(map_function(TOK, allowed_special={"<|a|>", "<|b|>", "<|end|>"}), **call)
            with monkeypatch.context() as patch:
                patch.setattr(MapFunction, "__call__", lambda *_: pytest.fail("encoded again"))
                tok = pickle.loads(pickle.dumps(TOK))
                cached = formatted.map(map_function(tok, allowed_special=["<|end|>", "<|b|>", "<|a|>"]), **call)
            assert cached._fingerprint == first._fingerprint, index
            assert cached.cache_files == first.cache_files


FINGERPRINTS = """
import sys
import bpe
from bpe.data import map_function
from datasets import Dataset
from datasets.fingerprint import Hasher
tok = bpe.Tokenizer.load(sys.argv[1])
if sys.argv[2] == "used":
    tok.encode_batch(["low lower"] * 99)
    hash(tok)
encode = map_function(tok, allowed_special={"<|end|>", "<|a|>", "<|b|>"}, append="<|end|>")
if sys.argv[2] == "used":
    encode({"text": ["low"]})
dataset = Dataset.from_dict({"text": ["low", "lower"]})
print(Hasher.hash(encode), dataset.map(encode, batched=True)._fingerprint)
"""


def test_fingerprints_are_equal_in_every_process(datasets: Any, tmp_path: Path) -> None:
    """Another process has another seed for the hashes of str, and the tokenizer may have been used before."""
    TOK.save(tmp_path / "tokenizer.json")
    outputs = set()
    for seed, used in (("1", "new"), ("2", "used"), ("3", "new")):
        process = subprocess.run(
            [sys.executable, "-c", FINGERPRINTS, str(tmp_path / "tokenizer.json"), used],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        outputs.add(process.stdout)
    assert len(outputs) == 1, outputs
    loaded = bpe.Tokenizer.load(tmp_path / "tokenizer.json")
    encode = map_function(loaded, allowed_special={"<|end|>", "<|a|>", "<|b|>"}, append="<|end|>")
    assert outputs.pop().split()[0] == datasets.fingerprint.Hasher.hash(encode)


def test_streaming(datasets: Any) -> None:
    """`IterableDataset.map` takes the same function."""
    dataset = datasets.Dataset.from_dict({"text": TEXTS}).to_iterable_dataset()
    for format_name in (None, "arrow"):
        encoded = dataset.with_format(format_name).map(map_function(TOK), batched=True, batch_size=16).with_format(None)
        assert to_lists(row["input_ids"] for row in encoded) == EXPECTED


def test_one_thread_in_the_processes_of_multiprocess() -> None:
    """`datasets` starts its processes by `multiprocess`, a fork of `multiprocessing`."""
    multiprocess = pytest.importorskip("multiprocess")
    with multiprocess.get_context("spawn").Pool(1) as pool:
        assert pool.apply(resolve_threads, (None,)) == 1


def test_spawned_processes(datasets: Any, tmp_path: Path) -> None:
    """The start method that macOS uses; a script of its own, since spawn imports the main module again."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, multiprocess, bpe, datasets\n"
        "from bpe.data import map_function\n"
        "if __name__ == '__main__':\n"
        "    multiprocess.set_start_method('spawn')\n"
        "    tok = bpe.Tokenizer.load(sys.argv[1])\n"
        "    dataset = datasets.Dataset.from_dict({'text': ['low', 'lower', ''] * 9})\n"
        "    encoded = dataset.map(map_function(tok), batched=True, num_proc=2)\n"
        "    assert [*encoded['input_ids']] == tok.encode_batch([*dataset['text']]).to_list()\n"
        "    print('same')\n"
    )
    TOK.save(tmp_path / "tokenizer.json")
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", str(script), str(tmp_path / "tokenizer.json")],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout.strip() == "same", done.stderr
