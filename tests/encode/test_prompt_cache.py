"""PromptCache: the ids of a fresh call after any edits, how many are kept, memory, threads, forks and errors."""

from __future__ import annotations

import copy
import os
import pickle
import random
import threading
from typing import Any

import numpy as np
import pytest
from checks import load_check
from hypothesis import given
from hypothesis import strategies as st
from prompts import find_difference
from strategies import SOAK, examples

import bpe
from bpe import prompts
from bpe.base.fast_dataclasses import replace
from bpe.encode._prompts import Block, count_common, follow_latest, join_ids
from bpe.errors import FormatError

check_prompts = load_check("check_prompts")
NO_IDS = np.empty(0, dtype=np.uint32)
WORDS = [f"{a}{b}" for a in ("low", "new", "wide", "the") for b in ("", "er", "est", ",")]


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompts, "MIN_WINDOW_BYTES", 16)


@pytest.fixture(scope="module")
def tok() -> bpe.Tokenizer:
    return bpe.train(texts=WORDS * 3, vocab_size=270, pretokenizer="cl100k", special_tokens=["<|end|>"])


def write_text(seed: int, n_words: int = 300) -> str:
    rng = random.Random(seed)
    return " ".join(rng.choices([*WORDS, "<|end|>"], k=n_words))


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("kind", ["generated", "trained"])
def test_edited_texts_have_the_ids_of_a_fresh_call(kind: str) -> None:
    for seed in range(12 * SOAK):
        rng = random.Random(f"{kind} {seed}")
        try:
            tok, pieces = getattr(check_prompts, f"draw_{kind}")(rng)
        except FormatError:
            continue
        assert find_difference(rng, tok, pieces, 20) is None, seed


@pytest.mark.usefixtures("small_windows")
@examples(14)
@given(
    data=st.data(),
    start=st.text(st.sampled_from("ab \n<>|end1猫。\u0301\r"), max_size=150),
    ends=st.lists(st.text(st.sampled_from("ab \n<>|end1猫。\u0301\r"), max_size=60), min_size=1, max_size=6),
)
def test_texts_with_the_same_beginning(tok: bpe.Tokenizer, data: st.DataObject, start: str, ends: list[str]) -> None:
    cache = bpe.PromptCache(tok, allowed_special="all")
    for end in ends:
        text = start[: data.draw(st.integers(0, len(start)))] + end
        assert cache.encode(text)[0].tolist() == tok.encode(text, allowed_special="all").tolist()


@pytest.mark.usefixtures("small_windows")
def test_only_what_is_new_is_encoded(tok: bpe.Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    text = write_text(0)
    cache = bpe.PromptCache(tok, allowed_special="all")
    n_first = len(cache.encode(text)[0])
    encoded: list[Any] = []
    encode = type(tok._engine).encode
    monkeypatch.setattr(
        type(tok._engine), "encode", lambda self, part, *a, **k: encoded.append(part) or encode(self, part, *a, **k)
    )
    ids, n_kept = cache.encode(text + " lower")
    assert sum(map(len, encoded)) < 40
    assert n_kept == n_first == len(ids) - len(tok.encode(" lower"))
    encoded.clear()
    middle = len(text) // 2
    ids, n_kept = cache.encode(text[:middle] + "<|end|>" + text[middle:])
    assert sum(map(len, encoded)) < middle + 60
    assert n_kept >= len(tok.encode(text[: middle - 20], allowed_special="all"))


CHARS = "a", "é", "猫", "😊"


@pytest.mark.parametrize("char", CHARS)
@pytest.mark.parametrize("size", [1, 255, 256, 257, 600])
def test_windows_are_found_in_texts_of_any_width(char: str, size: int) -> None:
    """A str stores its characters in units of 1, 2 or 4 bytes, by the highest of them all."""
    rng = random.Random(size)
    root, block = (Block(part.encode(), len(part.encode()), NO_IDS, 0) for part in ("", "x" * size + char))
    root.latest = block
    for end in ("", "b", *CHARS):
        text = "x" * size + char + end
        for found_text, length in ((text, size + 1), (text.encode(), size + len(char.encode()))):
            path: list[Block] = []
            assert follow_latest(root, found_text, 0, 1, path) == length
            assert path == [block]
        position = rng.randrange(size)
        edits = (text[:position] + "y" + text[position + 1 :], text[:size] + "z" + text[size + 1 :], text[:size])
        for changed in edits:
            path = []
            assert follow_latest(root, changed, 0, 1, path) == follow_latest(root, changed.encode(), 0, 1, path) == 0
            assert not path


@pytest.mark.parametrize("window", [b"\xff", b"caf\xc3", "\ud83d".encode("utf-8", "surrogatepass")])
def test_windows_that_are_not_utf8_are_found_in_bytes_only(window: bytes) -> None:
    root, block = Block(b"", 0, NO_IDS, 0), Block(window, len(window), NO_IDS, 0)
    root.latest = block
    for text in (window.decode("latin-1"), window.decode("utf-8", "surrogatepass" if window[0] == 0xED else "replace")):
        assert follow_latest(root, text, 0, 1, []) == 0
    assert follow_latest(root, window + b"x", 0, 1, []) == len(window)


def test_ids_are_joined_and_compared() -> None:
    arrays = [np.arange(start, start + 5, dtype=np.uint32) for start in range(4)]
    block = Block(b"x", 1, arrays[1], 5)
    ids = join_ids([block, block], [arrays[0], arrays[2], arrays[3]])
    assert ids.tolist() == [*arrays[0], *arrays[1], *arrays[1], *arrays[2], *arrays[3]]
    block.rest = np.array([5, 2, 3], dtype=np.uint32)
    assert [count_common(ids, start, block) for start in (0, 14, 15, len(ids))] == [0, 3, 0, 0]
    block.latest = Block(b"y", 1, arrays[2], 10)
    assert [count_common(ids, start, block) for start in (14, 15, 16)] == [3, 5, 0]
    bad_arrays: Any = (arrays[0].astype(np.int64), arrays[0][::2], arrays[0].astype(arrays[0].dtype.newbyteorder()))
    for bad_ids in bad_arrays:
        with pytest.raises(TypeError, match="uint32"):
            join_ids([], [arrays[0], bad_ids, arrays[0]])
    with pytest.raises(ValueError, match="start is 26"):
        count_common(ids, 26, block)


def test_arguments_that_lack_a_part_are_refused() -> None:
    ids: Any = np.arange(5, dtype=np.uint32)
    lacking: Any = [Block(b"x", 1, ids, 5), None]
    for n_arrays in (0, 2, 4):
        with pytest.raises(ValueError, match="unpack"):
            join_ids(lacking[:1], [ids] * n_arrays)
    with pytest.raises(TypeError, match="blocks has None"):
        join_ids(lacking, [ids, ids, ids])
    with pytest.raises(TypeError, match="argument"):
        Block.__new__(Block)  # type: ignore[call-arg]


@pytest.mark.parametrize("char", CHARS)
def test_a_conversation_of_any_width_is_followed(tok: bpe.Tokenizer, char: str) -> None:
    """Also if a later turn makes the str wider; each turn encodes no more than a window and what is new."""
    cache, text = bpe.PromptCache(tok, allowed_special="all"), ""
    for turn in range(12):
        text += f"{write_text(turn)}{char if turn > 5 else ''} <|end|>"
        for prompt in (text, text.encode(), text):
            ids, n_kept = cache.encode(prompt)
            assert ids.tolist() == tok.encode(prompt, allowed_special="all").tolist()
        assert n_kept == len(ids)


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("normalizer", ["nfc", bpe.normalizers.Prepend("▁")])
def test_any_tokenizer_is_cut_at_special_tokens(tok: bpe.Tokenizer, normalizer: Any) -> None:
    tok = bpe.train(texts=WORDS, vocab_size=270, normalizer=normalizer, special_tokens=["<|end|>"])
    text = "new lower<|end|>" * 50
    cache = bpe.PromptCache(tok, allowed_special="all")
    n_first = len(cache.encode(text)[0])
    assert cache.encode(text + "new")[1] == n_first
    assert cache._root.latest is not None


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("model", ["byte", "char"])
@pytest.mark.parametrize("normalizer", ["nfc", "lower", bpe.normalizers.Replace(" ", "▁")], ids=repr)
def test_normalized_texts_are_cut_at_the_ends_of_words(model: Any, normalizer: Any) -> None:
    pretokenizer: Any = None if isinstance(normalizer, bpe.normalizers.Replace) else "gpt2"
    options: dict[str, Any] = {"unk_token": "<unk>"} if model == "char" else {}
    tok = bpe.train(texts=WORDS, num_merges=9, model=model, normalizer=normalizer, pretokenizer=pretokenizer, **options)
    cache, text = bpe.PromptCache(tok), "New lower É " * 40
    cache.encode(text)
    ids, _ = cache.encode(text + "new")
    assert ids.tolist() == tok.encode(text + "new").tolist()
    assert cache._root.latest is not None or pretokenizer is None


@pytest.mark.usefixtures("small_windows")
def test_memory_is_bounded_and_the_oldest_texts_are_dropped(tok: bpe.Tokenizer) -> None:
    cache = bpe.PromptCache(tok, max_bytes=500_000)
    texts = [f"{seed} {write_text(seed)}" for seed in range(30)]
    for text in texts:
        cache.encode(texts[0])
        cache.encode(text)
        assert 0 < cache.n_bytes <= 500_000
    n_ids = len(tok.encode(texts[0]))
    assert cache.encode(texts[0])[1] == n_ids
    assert cache.encode(texts[1])[1] < 20
    assert cache.encode(texts[-1])[1] > 20
    nothing_kept = bpe.PromptCache(tok, max_bytes=0)
    assert [nothing_kept.encode(texts[0])[1] for _ in range(2)] == [0, 0]
    assert nothing_kept.n_bytes == 0


@pytest.mark.usefixtures("small_windows")
def test_results_are_new_arrays(tok: bpe.Tokenizer) -> None:
    cache, text = bpe.PromptCache(tok), write_text(3)
    expected = tok.encode(text)
    for _ in range(3):
        ids, _ = cache.encode(text)
        assert np.array_equal(ids, expected)
        ids[:] = 0


@pytest.mark.usefixtures("small_windows")
def test_the_template_is_added(tok: bpe.Tokenizer) -> None:
    with_template = bpe.Tokenizer(replace(tok.spec, template=((0,), (0, 0))))
    cache = bpe.PromptCache(with_template, template=True)
    text = write_text(4)
    ids, n_kept = cache.encode(text)
    assert ids.tolist() == with_template.encode(text, template=True).tolist()
    assert n_kept == 0
    assert cache.encode("x")[1] == 1
    assert cache.encode(text)[1] == len(ids) - 2


@pytest.mark.usefixtures("small_windows")
def test_threads_share_a_cache(tok: bpe.Tokenizer) -> None:
    cache = bpe.PromptCache(tok, max_bytes=60_000, allowed_special="all")
    texts = [write_text(seed % 3, 20) + write_text(seed, 100) for seed in range(20)]
    expected = [tok.encode(text, allowed_special="all").tolist() for text in texts]
    failures: list[int] = []

    def encode_some(seed: int) -> None:
        rng = random.Random(seed)
        indices = rng.choices(range(len(texts)), k=50)
        failures.extend(index for index in indices if cache.encode(texts[index])[0].tolist() != expected[index])

    threads = [threading.Thread(target=encode_some, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert cache.n_bytes <= 60_000


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.usefixtures("small_windows")
def test_a_forked_process_can_use_the_cache(tok: bpe.Tokenizer) -> None:
    cache, text = bpe.PromptCache(tok), write_text(5)
    cache.encode(text)
    child = os.fork()
    if child == 0:
        os._exit(0 if cache.encode(text)[0].tolist() == tok.encode(text).tolist() else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_long_chain_of_blocks_is_freed(tok: bpe.Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompts, "MIN_WINDOW_BYTES", 4)
    cache = bpe.PromptCache(tok, max_bytes="1G")
    cache.encode("low " * 30_000)
    assert cache.n_bytes > 15_000_000
    del cache


def test_copies_are_empty_and_have_the_same_settings(tok: bpe.Tokenizer) -> None:
    allowed = ["<|end|>"]
    cache = bpe.PromptCache(tok, max_bytes="1M", allowed_special=allowed)
    allowed.clear()  # a copy does not depend on the caller's list
    cache.encode("low<|end|>")
    for other in (pickle.loads(pickle.dumps(cache)), copy.copy(cache), copy.deepcopy(cache)):
        assert other.max_bytes == 1 << 20
        ids, n_kept = other.encode("low<|end|>")
        assert ids.tolist() == tok.encode("low<|end|>", allowed_special="all").tolist()
        assert n_kept == 0


@pytest.mark.usefixtures("small_windows")
def test_errors_are_those_of_encode() -> None:
    tok = bpe.train(texts=WORDS, vocab_size=60, model="char", pretokenizer="gpt2")
    cache = bpe.PromptCache(tok)
    for text in ("low " * 50 + "?", b"low " * 50 + b"\xff", 5, None, ["low"]):
        for _ in range(2):
            with pytest.raises((TypeError, ValueError)) as expected:
                tok.encode(text)  # type: ignore[arg-type]
            with pytest.raises(expected.type) as error:
                cache.encode(text)  # type: ignore[arg-type]
            assert str(error.value) == str(expected.value)


def test_invalid_arguments_are_refused(tok: bpe.Tokenizer) -> None:
    with pytest.raises(TypeError, match=r"tokenizer is 'a path', a str; it must be a bpe\.Tokenizer"):
        bpe.PromptCache("a path")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_bytes"):
        bpe.PromptCache(tok, max_bytes=-1)
    with pytest.raises(ValueError, match="allowed_special has"):
        bpe.PromptCache(tok, allowed_special={"<|none|>"})
    with pytest.raises(ValueError, match=r"the tokenizer has a dropout of 0\.1, so its ids are random"):
        bpe.PromptCache(bpe.Tokenizer(replace(tok.spec, dropout=0.1)))
