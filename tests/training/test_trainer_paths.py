"""The trainer's internal code paths, forced by private settings, all give the naive oracle's merges."""

from __future__ import annotations

import gc
import random
import threading
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from options import from_reference_options
from strategies import SOAK, each_tie_break, examples

import bpe
from bpe.base._team import Team
from bpe.base.threads import team_threads
from bpe.training import kernel_input
from bpe.training import trainer as learning
from bpe.training._trainer import Trainer
from bpe.training.config import TrainConfig
from bpe.training.merge_rules import TIE_BREAKS

pytestmark = pytest.mark.usefixtures("quiet")
BYTE_ORDER = reference.gpt2_byte_order()

#: Settings of the kernel; the first of each is the furthest from the kernel's own choice.
SWITCHES: dict[str, tuple[int, ...]] = {
    "memory": (1, 3000, 10_000, 0),  # no list fits; pools that fill; many epochs; few
    "ratio": (1, 2, 1000),  # an epoch for each count
    "max_dense_tokens": (0, 260, 768),  # pairs counted with a filter, or in a dense table
    "wide_from_tokens": (0, 258, 270, 65000),  # 32-bit symbols from the start, later, never
    "threads": (8, 2, 1),
    "min_cells": (1, 20, 1 << 19),  # parts of a few symbols per thread; no parts
    "parallel_threshold": (1, 3, 1 << 13),  # every list divided; none
}

Merge = tuple[Any, Any, Any, int]


def trained(switches: dict[str, int], **options: Any) -> tuple[bpe.Tokenizer, list[Merge]]:
    learned: list[Merge] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learning, "tuning_for_tests", switches)
        tok = bpe.train(**from_reference_options(**options), on_merge=lambda _, *merge: learned.append(merge))
    return tok, learned


def expected(words: dict[str, int], **options: Any) -> list[Merge]:
    split = {reference.byte_word(word.encode()): count for word, count in words.items()}
    steps = reference.train(split, alphabet=BYTE_ORDER, **options).steps
    return [(step.left, step.right, step.left + step.right, step.count) for step in steps]


def random_word(random_: random.Random, letters: str) -> str:
    """Random letters, a run of one letter, or a repeated short string."""
    kind = random_.random()
    if kind < 0.4:
        return "".join(random_.choices(letters, k=random_.choice((1, 2, 3, 5, 8, 13, 20))))
    piece = "".join(random_.choices(letters, k=1 if kind < 0.6 else random_.randint(2, 4)))
    return piece * random_.randint(1, 9) + "".join(random_.choices(letters, k=random_.randint(0, 2)))


def random_words(random_: random.Random) -> dict[str, int]:
    letters = random_.choice(("a", "ab", "abc", "abcd", "aé語😊"))
    most = random_.choice((1, 2, 9, 2**40))
    n_words = random_.choice((1, 3, 12, 30))
    return {random_word(random_, letters): random_.randint(1, most) for _ in range(n_words)}


# Paths --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tie_break", TIE_BREAKS)
def test_every_path_equals_the_oracle(tie_break: str) -> None:
    random_ = random.Random(f"paths {tie_break}")
    for _ in range(50 * SOAK):
        switches = {name: random_.choice(values) for name, values in SWITCHES.items()}
        words = random_words(random_)
        options = {
            "num_merges": random_.choice((3, 20, 500)),
            "min_frequency": random_.choice((1, 1, 2, 7)),
            "max_token_length": random_.choice((None, None, 2, 5)),
        }
        _, learned = trained(switches, counts=words, tie_break=tie_break, **options)
        assert learned == expected(words, tie_break=tie_break, **options), (switches, words, options)


@examples(5)
@given(
    words=st.dictionaries(st.text("abc", min_size=1, max_size=30), st.integers(1, 5), min_size=1, max_size=20),
    switches=st.fixed_dictionaries({name: st.sampled_from(values) for name, values in SWITCHES.items()}),
)
def test_random_paths_equal_the_oracle(words: dict[str, int], switches: dict[str, int]) -> None:
    for tie_break in each_tie_break():
        _, learned = trained(switches, counts=words, num_merges=50, tie_break=tie_break)
        assert learned == expected(words, num_merges=50, tie_break=tie_break)


@pytest.mark.parametrize("tie_break", TIE_BREAKS)
def test_every_path_gives_the_same_merges_for_a_larger_corpus(tie_break: str) -> None:
    """With thousands of words, filters, classes and lists have more than a few entries."""
    random_ = random.Random(3)
    stems = ["".join(random_.choices("aeioustrnlk", k=random_.randint(1, 9))) for _ in range(2000)]
    words = {stem: max(1, int(10**5 / rank)) for rank, stem in enumerate(stems, 1)}
    words["ab" * 3000] = 3
    words["a" * 5001] = 70_000
    full_trainer, learned = trained({}, counts=words, num_merges=300, tie_break=tie_break)
    for name, values in SWITCHES.items():
        for value in values[:2]:
            tuned = 200_000 if name == "memory" and value < 3000 else value
            parts = {"threads": 2, "min_cells": 1000, "parallel_threshold": 50}
            tok, again = trained(parts | {name: tuned}, counts=words, num_merges=300, tie_break=tie_break)
            assert again == learned, (name, value)
            assert tok == full_trainer


def test_counts_over_32_bits_are_ordered_correctly() -> None:
    """The filter's 32-bit sums saturate at their maximum."""
    words = {"ab": 2_500_000_000, "cd": 2**40, "ef": 2**33, "gh": 3, "abc": 2**32}
    for dense in (0, 768):
        for ratio in (1, 1000):
            _, learned = trained({"max_dense_tokens": dense, "ratio": ratio}, counts=words, num_merges=9)
            assert [(token, count) for _, _, token, count in learned] == [
                (b"cd", 2**40),
                (b"ef", 2**33),
                (b"ab", 2_500_000_000 + 2**32),
                (b"abc", 2**32),
                (b"gh", 3),
            ]


def test_the_error_for_a_small_budget_names_the_memory_needed() -> None:
    words = {f"{chr(a)}{chr(b)}": 1 for a in range(33, 120) for b in range(33, 120)}
    with pytest.raises(ValueError, match=r"take \d+ bytes, more than the \d+ bytes .* raise max_memory"):
        trained({"memory": 5000, "may_grow": False}, counts=words, num_merges=10)
    _, learned = trained({"memory": 2_000_000, "may_grow": False}, counts=words, num_merges=10)
    assert learned == trained({}, counts=words, num_merges=10)[1]


def test_a_strict_budget_with_similar_counts() -> None:
    """One bucket of counts has more occurrences than the budget, so the threshold must divide its counts."""
    random_ = random.Random(1)
    words = {"".join(random_.choices("abcdefghij", k=random_.randint(10, 28))): 1 for _ in range(4000)}
    _, learned = trained({}, counts=words, num_merges=120)
    for memory in (600_000, 150_000, 40_000, 10_000):
        assert trained({"memory": memory, "may_grow": False}, counts=words, num_merges=120)[1] == learned


def test_a_corpus_without_a_name_is_refused() -> None:
    with pytest.raises(TypeError, match="takes 0 positional arguments"):
        bpe.train("a/*", vocab_size=300)  # type: ignore[misc]


def test_a_mark_that_is_a_symbol_is_refused() -> None:
    for model in ("byte", "char"):
        with pytest.raises(ValueError, match=r"end_of_word 'b' is also a character of the corpus"):
            bpe.train(counts={"ab": 2}, num_merges=2, model=model, end_of_word="b")


# Threads ------------------------------------------------------------------------------------------------------------


def test_a_team_runs_every_part_once(hooks: Any) -> None:
    team = Team(5)
    with team_threads(team):
        for parts in (1, 2, 5, 3) * 50:
            assert hooks.share_trial(team, parts) == [1] * parts


def test_an_error_in_one_part_is_raised_and_the_team_can_continue(hooks: Any) -> None:
    team, before = Team(3), threading.active_count()
    with team_threads(team):
        for part in (0, 1, 2, 1):
            with pytest.raises(MemoryError, match=f"part {part}"):
                hooks.share_trial(team, 3, [part])
            assert hooks.share_trial(team, 3) == [1, 1, 1]
    assert threading.active_count() == before


@pytest.mark.parametrize("fails", [(1, 2), (0, 1), (0, 1, 2), (2, 3)])
def test_errors_in_several_parts_raise_that_of_the_first_and_keep_none(hooks: Any, fails: tuple[int, ...]) -> None:
    team = Team(4)
    with team_threads(team):
        for _ in range(5):
            with pytest.raises(MemoryError, match=f"part {fails[0]}"):
                hooks.share_trial(team, 4, fails)
            gc.collect()
            assert not [each for each in gc.get_objects() if type(each) is MemoryError]
            assert hooks.share_trial(team, 4) == [1] * 4


# Replaying ----------------------------------------------------------------------------------------------------------


def kernel(words: dict[str, int], tie_break: str, **switches: int) -> Trainer:
    """A trainer for a few words of letters."""
    data = [word.encode() for word in words]
    letters = sorted({byte for word in data for byte in word})
    table = np.full(256, 0xFFFFFFFF, dtype=np.uint32)
    table[letters] = np.arange(len(letters), dtype=np.uint32)
    offsets = np.cumsum([0, *map(len, data)], dtype=np.int64)
    tokens = [(bytes([letter]), False, False, 1) for letter in letters]
    return trainer_of(b"".join(data), offsets, words, tie_break, table, tokens, **switches)


def encoded_kernel(
    words: dict[str, int], tie_break: str, full_trainer: Trainer, merges: list[Merge], **switches: int
) -> Trainer:
    """A trainer that starts with the tokens of another one, and with the words as some of its merges encode them."""
    letters = full_trainer.n_tokens - len(full_trainer.list_merges())
    tokens = [
        (token, False, False, len(token)) for token in map(full_trainer.get_token_bytes, range(letters + len(merges)))
    ]
    id_of_token = {token: i for i, (token, *_) in enumerate(tokens[:letters])}
    data: list[np.ndarray[Any, Any]] = []
    for word in words:
        symbols: tuple[int, ...] = tuple(id_of_token[bytes([byte])] for byte in word.encode())
        for left, right, token, _ in merges:
            joined: list[int] = []
            for symbol in symbols:
                if joined and (joined[-1], symbol) == (left, right):
                    joined[-1] = token
                else:
                    joined.append(symbol)
            symbols = tuple(joined)
        data.append(np.array(symbols, dtype=np.uint32))
    offsets = 4 * np.cumsum([0, *map(len, data)], dtype=np.int64)
    return trainer_of(np.concatenate(data).view(np.uint8), offsets, words, tie_break, None, tokens, **switches)


def trainer_of(
    blob: Any, offsets: Any, words: dict[str, int], tie_break: str, table: Any, tokens: Any, **switches: int
) -> Trainer:
    counts = np.array(list(words.values()), dtype=np.int64)
    initial = kernel_input.InitialTokens(
        kernel_input.TOKEN_SYMBOLS if table is None else 0, tokens, table, table, 0xFFFFFFFF
    )
    rules = bpe.MergeRules(tie_break=tie_break)  # type: ignore[arg-type]
    config = TrainConfig(counts=words, num_merges=1000, rules=rules)
    given = learning.WordArrays(blob, offsets, counts, np.zeros(0, np.int64), np.zeros(0, np.int64), 0)
    return Trainer(given, initial, config, 1000, kernel_input.KernelTuning(**switches))


@pytest.mark.parametrize("tie_break", TIE_BREAKS)
def test_replaying_merges_restores_the_state_of_training(tie_break: str) -> None:
    """Training continues alike after its first merges are replayed, and from words encoded by those merges."""
    random_ = random.Random(f"replay {tie_break}")
    for _ in range(25 * SOAK):
        words = random_words(random_)
        switches = {name: random_.choice(values) for name, values in SWITCHES.items()}
        full_trainer = kernel(words, tie_break)
        merges = full_trainer.run(1000, 2000)
        spelled = [*map(full_trainer.get_token_bytes, range(full_trainer.n_tokens))]
        stop = random_.randint(0, len(merges))
        replayed = kernel(words, tie_break, **switches)
        with team_threads(replayed.team):
            assert learning.replay(replayed, np.array(merges[:stop], dtype=np.int64).reshape(-1, 4)) == stop
            assert replayed.run(1000, 2000) == merges[stop:]
        assert [tuple(row) for row in replayed.list_merges().tolist()] == merges
        blob, offsets, ends = replayed.list_tokens()
        assert [blob[a:b] for a, b in pairwise(offsets.tolist())] == spelled
        assert ends.dtype == np.bool_
        assert not ends.any()
        given = encoded_kernel(words, tie_break, full_trainer, merges[:stop], **switches)
        with team_threads(given.team):
            assert given.run(1000, 2000) == merges[stop:]


def test_replaying_forged_merges_is_refused() -> None:
    """Tries another pair, another result, another count, and too many merges."""
    for merges, wrong in (
        ([(1, 0, 2, 2)], "merge 0 is of tokens 1 and 0 into 2, 2 times, but this training learns of tokens 0 and 1"),
        ([(0, 1, 1, 3)], "merge 0 is of tokens 0 and 1 into 1, 3 times, but this training learns"),
        ([(-(2**60), 1, 2, 3)], "merge 0 is of tokens -"),
        ([(0, 1, 2, 4)], "merge 0 is of tokens 0 and 1 into 2, 4 times, but this training learns .* 3 times"),
        ([(0, 1, 2, 3), (0, 1, 3, 3)], "merge 1 is of tokens 0 and 1 into 3"),
        ([(0, 1, 2, 3), (2, 2, 3, 2), (3, 2, 4, 1), (0, 0, 5, 1)], "merge 3 .* but this training ends before it"),
    ):
        trainer = kernel({"ababab": 1}, "id")
        with pytest.raises(ValueError, match=wrong):
            learning.replay(trainer, np.array(merges, dtype=np.int64))


@pytest.mark.parametrize("table", [True, False], ids=["symbols", "tokens"])
def test_the_kernel_checks_its_input(table: bool) -> None:
    """Offsets outside the words, symbols outside the tables, and unknown tokens raise errors."""
    with pytest.raises(ValueError, match="offset 1 is 99 after 0; offsets must rise, up to the 8 bytes"):
        trainer_of(b"abababab", np.array([0, 99], dtype=np.int64), {"x": 1}, "id", None, [])
    with pytest.raises(ValueError, match="there are 1 offsets for 1 strings"):
        trainer_of(b"abababab", np.array([0], dtype=np.int64), {"x": 1}, "id", None, [])
    tables = np.array([0, 7, 0xFFFFFFF0], dtype=np.uint32) if table else None
    data = bytes([0, 1, 2, 3, 255, 0, 0, 0] * 5)
    trainer = trainer_of(data, np.array([0, 40], np.int64), {"x": 1}, "id", tables, [(b"a", False, False, 0)])
    assert [pair[:2] for pair in trainer.run(1, 100)] == ([(0, 0)] if table else [])
    encoded = trainer_of(bytes(40), np.array([0, 40], np.int64), {"x": 1}, "id", None, [(b"a", False, False, 0)])
    assert [merge[2] for merge in encoded.run(3, 100)] == [1, 2, 3]  # no merge makes a token that already occurs


@pytest.mark.parametrize("letters", ["ab", "aé", "a영", "a😀"])
@pytest.mark.parametrize("model", ["byte", "char"])
def test_symbols_are_counted_alike_by_any_number_of_threads(
    letters: str, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_input, "BYTES_PER_THREAD", 1)
    random_ = random.Random(4)
    words = {random_word(random_, letters): random_.randint(1, 99) for _ in range(50)}
    counts = bpe.WordCounts()
    counts.update(words)
    config = TrainConfig(counts=counts, num_merges=1, model=model)
    whole = kernel_input.build_words(counts, config)
    for threads in (2, 3, 60):
        in_parts = kernel_input.build_words(counts, config, threads)
        assert in_parts.n_symbols == whole.n_symbols
        assert (in_parts.inner_counts == whole.inner_counts).all()
        assert (in_parts.last_counts == whole.last_counts).all()


def test_symbols_that_overflow_in_the_sum_of_all_threads_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_input, "BYTES_PER_THREAD", 1)
    counts = bpe.WordCounts()
    counts.update({"ab": 2**61, "cd": 2**61})
    for threads in (1, 2):
        with pytest.raises(ValueError, match="the counts of the symbols sum to more than"):
            bpe.train(counts=counts, num_merges=1, threads=threads)
