"""Long texts without spaces are split between ideographs or syllables if no token contains the two side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

import bpe
from bpe.corpus import reading
from bpe.encode import _batch, streams
from bpe.encode.engine import Engine
from bpe.pretokenize.patterns import NAMES
from bpe.pretokenize.pretokenizer import Pretokenizer

TEXT = "大学的日本語は大学の日本。猫が한국어를배우는大学生 low Low's 12猫\n"
#: The first and last ideographs and syllables, the characters beside them, marks, small kana, and other characters.
CHARACTERS = "一丁大学的日本語猫龤龥龦㿿가각한국어를힣\ud7b0" + "はのー々〆゙。、「\u3000 \n\ta'sLΩé12٣\u0301😀𠀀"


@cache
def make_engine(pretokenizer: str | None) -> Engine:
    """Make the engine of a small byte model."""
    return bpe.train(texts=[TEXT] * 3, num_merges=90, pretokenizer=pretokenizer)._engine


def alike(a: str, b: str) -> bool:
    """Whether two characters are both ideographs or both syllables."""
    return any(first <= a <= last and first <= b <= last for first, last in ("一龥", "가힣"))


def split_points(tokens: list[bytes], text: str) -> list[int]:
    """The naive twin: positions between two ideographs or two syllables that no token crosses."""
    return [
        len(text[:at].encode())
        for at in range(1, len(text))
        if alike(text[at - 1], text[at])
        and not any(crosses(token, text[at - 1].encode(), text[at].encode()) for token in tokens)
    ]


def crosses(token: bytes, left: bytes, right: bytes) -> bool:
    """Whether a token may contain the end of one character and the beginning of the next."""
    return any(
        (left.endswith(token[:cut]) or token[:cut].endswith(left))
        and (right.startswith(token[cut:]) or token[cut:].startswith(right))
        for cut in range(1, len(token))
    )


@examples(32)
@given(text=st.text("一大学的日本語猫龥가한국어를", max_size=30))
def test_split_points_are_a_subset_of_the_naive_ones(text: str) -> None:
    """The filter hashes character pairs, so it misses some split points, but never adds one."""
    engine = make_engine("gpt2")
    data, actual = text.encode(), []
    end = len(data)
    while cut := engine.find_last_split(data[:end], 0):
        actual.append(cut)
        end = cut + 2  # ends within a character, before which no split is allowed
    points = split_points([*engine.spec.vocabulary.id_of_token], text)
    assert set(actual) <= set(points)
    assert len(actual) >= len(points) // 2 - 3


@pytest.mark.parametrize("pretokenizer", [*NAMES, None])
def test_ids_do_not_change_at_a_split_point(pretokenizer: str | None) -> None:
    engine = make_engine(pretokenizer)

    @examples(14)
    @given(text=st.text(CHARACTERS, max_size=25), more=st.text(CHARACTERS, max_size=5), low=st.integers(0, 20))
    def check(text: str, more: str, low: int) -> None:
        data, after = text.encode("utf-8", "replace"), more.encode("utf-8", "replace")
        cut = engine.find_last_split(data, min(low, len(data)))
        assert min(low, len(data)) <= cut <= len(data)
        ids = [*engine.encode(data[:cut]), *engine.encode(data[cut:] + after)]
        assert cut <= low or ids == engine.encode(data + after).tolist()

    check()


def test_tokenizers_without_split_points() -> None:
    """There are none if word ends are marked, or if whole words are looked up and some are not made by merges."""
    data = "大猫学猫的猫".encode()
    assert make_engine("gpt2").find_last_split(data, 0) == len(data) - 3
    marked = bpe.train(texts=[TEXT], num_merges=9, end_of_word="</w>", pretokenizer="whitespace")
    assert marked._engine.find_last_split(data, 0) == 0
    spec = bpe.train(texts=[TEXT], num_merges=9, pretokenizer="gpt2").spec
    assert Engine(spec, [("猫的猫".encode(), 256)]).find_last_split(data, 0) == 0
    assert Engine(replace(spec, ignore_merges=True)).find_last_split(data, 0) > 0  # merges make every token
    by_regex = bpe.train(texts=[TEXT], num_merges=9, pretokenizer=Pretokenizer.from_regex(r"\w+|\W"))
    with pytest.raises(ValueError, match="this pretokenizer has no scanner"):
        by_regex._engine.find_last_split(data, 0)


@pytest.fixture
def word(monkeypatch: pytest.MonkeyPatch) -> str:
    """A word of many parts."""
    for module, name, size in (
        (_batch, "MAX_PART_BYTES", 4000),
        (_batch, "MIN_PART_BYTES", 500),
        (reading, "MAX_READ", 2000),
    ):
        monkeypatch.setattr(module, name, size)
    return "".join(map(chr, np.random.default_rng(1).integers(0x4E00, 0x9FA6, 30_000)))


@pytest.mark.parametrize("kind", [str, str.encode])
def test_one_word_is_divided_among_threads(word: str, kind: Callable[[str], str | bytes]) -> None:
    engine = make_engine("cl100k")
    job = _batch.EncodeJob(engine.encoder, 2)
    job.add_texts([kind(word)], lambda text: text)
    assert job.prepare() > 10
    assert engine.encode_batch([kind(word)], 2).to_list() == [engine.encode(word.encode()).tolist()]


def test_one_word_in_a_file_has_the_same_ids(word: str, tmp_path: Path) -> None:
    tok = bpe.train(texts=[TEXT], num_merges=50, pretokenizer="cl100k")
    path = tmp_path / "text.txt"
    path.write_text(word, encoding="utf-8")
    assert tok.encode_files(path, threads=2).to_list() == [tok.encode(word.encode()).tolist()]


def test_a_stream_holds_only_a_part_of_a_word(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MIN_BUFFERED_BYTES", 1000)
    tok = bpe.train(texts=[TEXT], num_merges=50, pretokenizer="o200k")
    came = 0

    def chunks() -> Iterator[str]:
        nonlocal came
        for start in range(0, len(word), 300):
            came = start + 300
            yield word[start:came]

    given_out = np.empty(0, dtype=np.uint32)
    for ids in tok.encode_stream(chunks()):
        given_out = np.concatenate([given_out, ids])
        assert came - len(tok.decode_bytes(given_out)) // 3 < 500
    assert given_out.tolist() == tok.encode(word.encode()).tolist()
