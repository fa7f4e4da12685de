"""The word table that threads share: its C header under ThreadSanitizer, and ids that do not depend on its contents."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import bpe
from bpe.encode.engine import Engine

ROOT = Path(__file__).parent.parent.parent
PROGRAM = Path(__file__).with_name("word_table_threads.c")


@pytest.fixture(scope="module", params=[(), ("-fsanitize=thread",)], ids=str)
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program with the threads, compiled; the second time with ThreadSanitizer."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    options, program = request.param, tmp_path_factory.mktemp("program") / "threads"
    flags = ["-O1", "-g", "-Wall", "-Werror", f"-I{ROOT}", *options]
    command = [compiler, *flags, str(PROGRAM), "-o", str(program), "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and options:
        pytest.skip(f"the compiler does not support {' '.join(options)}")
    assert done.returncode == 0, done.stderr
    return program


@pytest.mark.parametrize("words", [300, 3000])
def test_concurrent_lookups_never_mix_two_words(program: Path, words: int) -> None:
    """Words of all kinds, many with equal first bytes or hashes; 3,000 words do not fit in the table."""
    command = [str(program), str(words), "20000"]
    if shutil.which("setarch"):
        command = ["setarch", "-R", *command]  # ThreadSanitizer does not support high-entropy address randomization
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if "unexpected memory mapping" in done.stderr or "setarch" in done.stderr:
        pytest.skip("ThreadSanitizer does not run here")
    assert done.returncode == 0, done.stderr
    found, copied, _ = map(int, done.stdout.split())
    assert found > 1000
    assert copied > 200
    assert "WARNING: ThreadSanitizer" not in done.stderr


def texts_of(seed: int, n: int) -> list[str]:
    """Texts with words of every kind of entry: short, middle and long, with few ids and many, and with zero bytes."""
    choose = random.Random(seed)
    letters = ["low", "er", "st", "é", "a", "q", "zz", "\0", "각", "猫"]
    words = ["".join(choose.choices(letters, k=choose.choice((1, 2, 3, 5, 8, 13)))) for _ in range(n)]
    words += ["\0" * size + tail for size in (7, 8, 9, 15, 16, 17) for tail in ("", "a")]
    return [" ".join(choose.choices(words, k=30)) for _ in range(200)]


@pytest.mark.parametrize("memory", [0, 1 << 16, 1 << 19, 32 << 20])
@pytest.mark.parametrize("end_of_word", [None, "</w>"])
def test_threads_that_share_a_tokenizer_get_the_ids_of_one_thread(memory: int, end_of_word: str | None) -> None:
    """Each thread encodes its own texts by every method, while tables fill up and are replaced."""
    tok = bpe.train(texts=["low lower lowest zz éa 각각 猫"] * 3, num_merges=20, end_of_word=end_of_word)
    texts = [texts_of(seed, 600) for seed in range(4)]
    uncached = Engine(tok.spec, cache_memory=0)
    expected = [[[i for p in pieces(uncached, text) for i in p] for text in some] for some in texts]
    engine = Engine(tok.spec, cache_memory=memory)
    wrong: list[tuple[int, str]] = []

    def work(number: int) -> None:
        for turn in range(2):
            some = texts[(number + turn) % 4]
            right = expected[(number + turn) % 4]
            if engine.encode_batch(some, 1 + number % 2).to_list() != right:
                wrong.append((number, "encode_batch"))
            if [engine.encode(text).tolist() for text in some] != right:
                wrong.append((number, "encode"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def pieces(engine: Engine, text: str) -> list[list[int]]:
    """The ids of each pretoken, merged without the word table."""
    return [engine.encode_pretoken(piece) for piece in engine.iterate_pretokens(text.encode(), frozenset())]


@pytest.mark.parametrize("seed", range(6))
def test_tables_that_overflow_give_the_same_ids(seed: int, hooks: Any) -> None:
    """Tables are so small that words collide, are rejected, and are inserted again after the table is replaced."""
    choose = random.Random(seed)
    tok = bpe.train(texts=["low lower lowest zz éa"] * 3, num_merges=choose.randint(0, 20))
    engine = Engine(tok.spec, cache_memory=choose.choice((0, 1 << 15, 1 << 17)))
    uncached = Engine(tok.spec, cache_memory=0)
    known: dict[str, list[int]] = {}
    for _ in range(4):
        for text in texts_of(choose.randint(0, 2), 5000)[:50]:
            if text not in known:
                known[text] = [i for piece in pieces(uncached, text) for i in piece]
            assert engine.encode(text).tolist() == known[text]
    state = hooks.cache_state(engine.encoder)
    assert state["words"] <= state["room"]
    assert state["words"] > 100


FORKED = """
import os, sys, threading, bpe
tok = bpe.train(texts=["low lower lowest"] * 3, vocab_size=270)
texts = [" ".join(f"w{i * 7919 % 1000003}" for i in range(part, part + 3000)) for part in range(0, 300_000, 3000)]
expected = [tok.encode(text).tolist() for text in texts[:5]]
tok = bpe.Tokenizer(tok.spec)
worker = threading.Thread(target=lambda: [tok.encode_batch(texts, threads=2) for _ in range(3)])
worker.start()
for _ in range(20):
    child = os.fork()
    if child == 0:
        os._exit(0 if [tok.encode(text).tolist() for text in texts[:5]] == expected else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
worker.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_forking_while_threads_insert_words() -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED], check=True, timeout=120)


@pytest.mark.parametrize("end_of_word", [None, "</w>"])
def test_tables_have_the_tokens_of_the_vocabulary_from_the_second_on(end_of_word: str | None, hooks: Any) -> None:
    texts = texts_of(0, 3000)
    tok = bpe.train(texts=texts[:20], vocab_size=600, end_of_word=end_of_word)
    engine = Engine(tok.spec)
    engine.encode("low")
    state = hooks.cache_state(engine.encoder)
    assert (state["seeds"], state["is_seeded"]) == (0, False)
    for text in texts:
        engine.encode(text)
    state = hooks.cache_state(engine.encoder)
    assert state["is_seeded"]
    assert 256 < state["seeds"] <= state["words"] + state["parts"]


FORKED_WHILE_REPLACING = """
import os, bpe
from bpe import _kernel_hooks as hooks
from bpe.encode.engine import Engine
engine = Engine(bpe.train(texts=["low lower lowest"] * 3, vocab_size=270).spec)
engine.encode("low")
room = hooks.cache_state(engine.encoder)["room"]
words = " ".join(f"w{i * 7919 % 1000003}" for i in range(20_000))
hooks.begin_replacing(engine.encoder)
engine.encode(words)
assert hooks.cache_state(engine.encoder)["room"] == room
child = os.fork()
engine.encode(words)
has_grown = hooks.cache_state(engine.encoder)["room"] > room
if child == 0:
    os._exit(not has_grown)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert not has_grown
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_table_that_a_thread_replaces_during_a_fork_is_replaced_in_the_child(hooks: Any) -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED_WHILE_REPLACING], check=True, timeout=120)
