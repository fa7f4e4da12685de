"""Kernels read from any document on, parts of files, and whole documents: the documents are those of the naive twin."""

from __future__ import annotations

import random
from contextlib import closing
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from source_files import PACKERS, write

import bpe
from bpe.corpus import reading, sources
from bpe.corpus._content_hash import hash_spans
from bpe.corpus.blocks import Position
from bpe.encode import blocks as encoding
from bpe.encode.blocks import BlockIds

WORDS = ["low", " lower", "é", "猫", "\n", '"', ",", "\t", "a", "😊", "1", "\n\n", "<|end|>"]
TOKENIZER = bpe.train(texts=["low lower lowest é猫 " * 3], num_merges=20, pretokenizer="cl100k")
WITHOUT_SPLITS = bpe.train(texts=["low"], vocab_size=257, pretokenizer=None)
NAMES = ["a.txt", "a.txt.gz", "a.jsonl", "a.jsonl.zst", "a.csv", "a.tsv", "a.csv.xz", "a.tsv.bz2"]


def write_random(choose: random.Random, folder: Path, separator: str) -> tuple[list[Path], list[str]]:
    """Write a few files; returns their paths, and all documents."""
    paths, documents = [], []
    for number in range(choose.randint(1, 4)):
        texts = ["".join(choose.choices(WORDS, k=choose.choice([0, 1, 9, 40]))) for _ in range(choose.randint(1, 12))]
        path = folder / f"{number}{choose.choice(NAMES if number else NAMES[:2])}"  # a separator needs text
        if ".txt" in path.name:  # the naive twin divides the text, in which separators overlap
            texts = separator.join(texts).split(separator)
        paths.append(write(path, texts, separator))
        documents += texts
    return paths, documents


def encode(
    corpus: bpe.Sources,
    threads: int,
    *,
    tok: bpe.Tokenizer = TOKENIZER,
    start: Position | None = None,
    whole: bool = False,
) -> tuple[list[str], list[BlockIds]]:
    """The documents from a position on, decoded, and the records of their blocks; read by kernels."""
    engine, none = tok._engine, frozenset[str]()
    options: dict[str, Any] = {"unsplittable": engine.list_unsplittable(corpus.separators, none), "start": start}
    whole = whole or not engine.can_split_documents(none)
    parts = []
    with closing(corpus.blocks(None, threads, whole_documents=whole, **options)) as blocks:
        while part := encoding.encode_next_blocks(engine, blocks, threads, 1 << 20, with_hashes=whole):
            parts.append(part)
    return [tok.decode(ids) for ids in BlockIds.join(parts).to_list()], parts


@pytest.fixture(params=range(12))
def choose(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> random.Random:
    """Random choices, and blocks of a few bytes."""
    choose = random.Random(request.param)
    monkeypatch.setattr(reading, "MAX_READ", choose.choice([1, 5, 23, 100, 1000]))
    monkeypatch.setattr(encoding, "MIN_PARALLEL_BYTES", 1)
    monkeypatch.setattr(sources, "UNIT_BYTES", choose.choice([20, 150]))
    return choose


@pytest.mark.parametrize("separator", ["|", "aa", "\n\n"])
def test_reading_goes_on_where_a_block_has_a_document(separator: str, choose: random.Random, tmp_path: Path) -> None:
    paths, documents = write_random(choose, tmp_path, separator)
    for tok, threads, whole in ((TOKENIZER, 1, False), (TOKENIZER, 3, True), (WITHOUT_SPLITS, 2, True)):
        corpus = bpe.Sources(paths, separator=separator, quoting="excel")
        decoded, parts = encode(corpus, threads, tok=tok, whole=whole)
        assert decoded == documents
        if whole:
            hashes = np.concatenate([part.hashes for part in parts if part.hashes is not None])
            expected = [blake2b(text.encode(), digest_size=8).digest() for text in documents]
            assert hashes.astype("<u8").tobytes() == b"".join(expected)
        n_before = 0
        for part in parts:
            for n_begun, file, offset, documents_to_skip, n_bad_records in part.blocks.tolist():
                assert (documents_to_skip, n_bad_records) == (0, 0)
                if n_begun and choose.random() < 0.2:
                    assert offset >= 0
                    rest = encode(corpus, threads, tok=tok, start=Position(file, offset), whole=whole)[0]
                    assert rest == documents[n_before:]
                n_before += n_begun


@pytest.mark.parametrize("separator", ["|", "aa", "<|end|>"])
def test_parts_have_all_documents_in_order(separator: str, choose: random.Random, tmp_path: Path) -> None:
    paths, documents = write_random(choose, tmp_path, separator)
    corpus = bpe.Sources(paths, separator=separator, quoting="excel")
    if any(unit.end is not None for unit in corpus.units()):  # a separator that ends a part starts no document
        corpus = bpe.Sources(paths, separator=separator, separator_ends=True, quoting="excel")
        documents = list(map(bytes.decode, corpus.documents()))
    for world, threads, whole in ((1, 1, False), (2, 3, False), (5, 2, True)):
        ranks = [encode(corpus.part(rank, world), threads, whole=whole)[0] for rank in range(world)]
        assert list(chain.from_iterable(ranks)) == documents


def test_hashes_are_those_of_the_standard_library() -> None:
    choose = random.Random(0)
    data = choose.randbytes(2000)
    starts = np.array(choose.choices(range(1000), k=500), dtype=np.int64)
    ends = starts + np.array(choose.choices([0, 1, 127, 128, 129, 255, 256, 257, 700], k=500))
    expected = [blake2b(data[a:b], digest_size=8).digest() for a, b in zip(starts, ends, strict=True)]
    assert hash_spans(data, starts, ends).astype("<u8").tobytes() == b"".join(expected)
    assert hash_spans(b"", starts[:0], ends[:0]).tolist() == []
    with pytest.raises(ValueError, match="it must be within the 3 bytes"):
        hash_spans(b"low", np.array([0]), np.array([4]))


def test_a_file_that_got_shorter_than_a_part_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "UNIT_BYTES", 30)
    path = write(tmp_path / "a.jsonl", ["low lower"] * 20)
    part = bpe.Sources(path).part(1, 2)
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(
        OSError, match=r"a\.jsonl got shorter while it was read: it had \d+ bytes, and now ends after 40"
    ):
        TOKENIZER.encode_files(part)


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.csv", "a.txt.zst"])
@pytest.mark.parametrize("threads", [1, 3])
def test_damaged_and_cut_data_is_an_error(name: str, threads: int, choose: random.Random, tmp_path: Path) -> None:
    """Whichever thread reads on: the error of the first block, and the files are closed (warnings are errors)."""
    good = write(tmp_path / f"0{name}", ["low lower"] * 50)
    bad = write(tmp_path / f"1{name}", ["low lower"] * 50)
    data = bad.read_bytes()
    bad.write_bytes(data[: len(data) // 2] if bad.suffix in PACKERS else data + b"one,field,too,many\n")
    with pytest.raises(bpe.FormatError, match=rf"1{name}"):
        TOKENIZER.encode_files([good, bad, good], threads=threads)
    with pytest.raises(bpe.FormatError, match=rf"1{name}"):
        bpe.count_words(files=[good, bad, good], threads=threads)


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_document_of_many_blocks_without_a_separator(
    name: str, threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_READ", 100)
    text = "low lower " * 400
    corpus = bpe.Sources(write(tmp_path / name, [text], ""))
    assert encode(corpus, threads, whole=True)[0] == [text]
    assert encode(corpus, threads, tok=WITHOUT_SPLITS)[0] == [text]
