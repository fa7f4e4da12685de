"""A tokenizer that is pickled, copied, forked, spawned, and used by eight threads at once."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import random
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import sharing
from strategies import SOAK

import bpe
from bpe.base.threads import resolve_threads
from bpe.normalizers import NFC, Lowercase

TEXTS = [
    "the low lower lowest newer newest widest, isn't it? 12345\n",
    "영화를 영화관에서 보는 내내 <|end|> aaaa",
    "吾輩は猫である。 😊 é e\u0301",
    "",
]

KINDS: dict[str, dict[str, Any]] = {
    "byte": {"special_tokens": ["<|end|>"]},
    "char": {"model": "char", "unk_token": "<unk>", "end_of_word": "</w>"},
    "glued": {
        "model": "char",
        "unk_token": "<unk>",
        "end_of_word": "</w>",
        "end_of_word_glued": True,
        "normalizer": [NFC(), Lowercase()],
    },
    "regex": {"pretokenizer": bpe.Pretokenizer.from_regex(r"\w+|\W")},
}
each_kind = pytest.mark.parametrize("kind", KINDS)


@cache
def model(kind: str) -> bpe.Tokenizer:
    return bpe.train(texts=TEXTS, num_merges=40, **KINDS[kind])


def ids_of(tok: bpe.Tokenizer, texts: list[str] = TEXTS) -> list[list[int]]:
    """The work of one process: encode the texts as a batch on all threads, and one by one."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        batch = tok.encode_batch(texts).to_list()
        assert batch == [tok.encode(text).tolist() for text in texts]
        assert [tok.decode(row) for row in batch] == tok.decode_batch(batch)
    return batch


def work(job: tuple[bpe.Tokenizer, list[str]]) -> tuple[list[list[int]], str]:
    return ids_of(*job), job[0].fingerprint


@each_kind
def test_pickle_and_copy(kind: str) -> None:
    tok = model(kind)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(tok, protocol))
        assert again == tok
        assert hash(again) == hash(tok)
        assert ids_of(again) == ids_of(tok)
        assert again.vocab() == tok.vocab()
        assert again.special_tokens == tok.special_tokens
        assert again.spec.training == tok.spec.training
    for other in (copy.copy(tok), copy.deepcopy(tok), copy.deepcopy([tok])[0]):
        assert other == tok
        assert ids_of(other) == ids_of(tok)


def test_pickles_are_small() -> None:
    """A pickle holds tokens and merges, without the tables derived from them, and does not grow with use."""
    tok = bpe.train(texts=TEXTS, num_merges=100)
    before = len(pickle.dumps(tok))
    ids_of(tok, TEXTS * 50)
    assert tok.fingerprint
    assert len(pickle.dumps(tok)) == before
    assert before < 16 * tok.vocab_size + 4000


@pytest.mark.parametrize("encoding", ["cl100k"])
def test_pickle_of_a_real_vocabulary(shared_vocab: Callable[[str], Path], encoding: str) -> None:
    tok = bpe.Tokenizer.from_tiktoken(shared_vocab(f"{encoding}_base.tiktoken"), encoding, {"<|endoftext|>": 100257})
    data = pickle.dumps(tok)
    assert len(data) < 4_000_000
    again = pickle.loads(data)
    assert again == tok
    assert ids_of(again) == ids_of(tok)


METHODS = [method for method in ("fork", "spawn", "forkserver") if method in multiprocessing.get_all_start_methods()]


@pytest.mark.parametrize("method", METHODS)
def test_worker_processes_give_the_same_ids(method: str) -> None:
    """Workers that inherit the tokenizer or receive it by pickle give the same ids."""
    jobs = [(model(kind), TEXTS * 5) for kind in KINDS]
    expected = [work(job) for job in jobs]
    if method == "fork" and threading.active_count() > 1:
        pytest.skip("another test's thread is still alive; forking now would warn")
    # A fork takes no time; other methods import everything again.
    with ProcessPoolExecutor(2 if method == "fork" else 1, mp_context=multiprocessing.get_context(method)) as pool:
        assert list(pool.map(work, jobs)) == expected
        assert pool.submit(resolve_threads, None).result() == 1  # of all cores, a worker takes one
    assert resolve_threads(3) == 3
    assert resolve_threads(None) >= 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork_after_use_on_threads() -> None:
    """The library's threads end with the call, so a process can fork after it."""
    program = """
import os, sys, threading, warnings
warnings.simplefilter("error")
import bpe
texts = ["low lower lowest %d " % i * 50 for i in range(3000)]
tok = bpe.train(texts=texts, num_merges=50, threads=8)
expected = tok.encode_batch(texts, threads=8)
assert threading.active_count() == 1, threading.enumerate()
if hasattr(os, "listdir") and os.path.isdir("/proc/self/task"):
    kernel_threads = len(os.listdir("/proc/self/task"))
children = []
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        try:
            assert tok.encode_batch(texts, threads=4) == expected
            assert bpe.train(texts=texts, num_merges=50, threads=4) == tok
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
    children.append(pid)
assert tok.encode_batch(texts, threads=4) == expected
assert all(os.waitpid(pid, 0)[1] == 0 for pid in children)
print("same")
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout.strip(), done.stderr) == ("same", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork_while_other_threads_use_every_object() -> None:
    """No lock stays held in the child, and no object is half changed there."""
    program = f"""
import logging, os, pathlib, random, signal, sys, tempfile, threading, time, warnings
warnings.simplefilter("ignore")
logging.disable()
sys.path.append({os.path.dirname(sharing.__file__)!r})
from shared_objects import CASES
folder = tempfile.TemporaryDirectory()
names = "byte", "char", "pretokenizers", "word_counts", "huggingface", "added_tokens", "tiktoken", "first_uses"
shared = {{name: CASES[name](pathlib.Path(folder.name)) for name in names}}

def run(number):
    chosen = random.Random(number)
    while not stop:
        assert not shared[chosen.choice(names)].step(number, chosen)

failed = 0
for attempt in range(2):
    stop = []
    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    time.sleep(0.02 + 0.02 * attempt)
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        for name in names * 2:
            try:
                assert not (fault := shared[name].step(9, random.Random(attempt))), fault
            except BaseException as error:
                print(name, repr(error), file=sys.stderr, flush=True)
                os._exit(1)
        os._exit(0)
    stop.append(1)
    for thread in threads:
        thread.join()
    failed += os.waitpid(pid, 0)[1] != 0
print(failed)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=150, check=False)
    assert (done.stdout.strip(), done.stderr) == ("0", "")


def test_eight_threads_on_one_tokenizer() -> None:
    """Encode, decode, explain and train at the same time, with words that are cached and words that are not."""
    random_ = random.Random(1)
    texts = ["".join(random_.choices("abcdeé 한lowernst\n", k=random_.randint(0, 300))) for _ in range(200)]
    toks = [model(kind) for kind in KINDS]
    expected = [(tok.encode_batch(texts, threads=1).to_list(), tok.explain(texts[0])) for tok in toks]
    copies = [pickle.loads(pickle.dumps(tok)) for tok in toks]
    barrier = threading.Barrier(8)

    def run(number: int) -> None:
        order = random.Random(number)
        barrier.wait()
        for _ in range(SOAK):
            for tok, (rows, explained) in order.sample(list(zip(copies, expected, strict=True)), len(copies)):
                for at in order.sample(range(len(texts)), 30):
                    assert tok.encode(texts[at]).tolist() == rows[at]
                    assert tok.decode_bytes(rows[at]) == tok.decode_bytes(tok.encode(texts[at]))
                assert tok.encode_batch(texts, threads=2).to_list() == rows
                assert tok.count_tokens(texts).tolist() == [len(row) for row in rows]
                assert tok.explain(texts[0]) == explained
                decoder = tok.decoder()
                assert "".join([*map(decoder.push, rows[1]), decoder.flush()]) == tok.decode(rows[1])
        assert bpe.train(texts=TEXTS, num_merges=40, **KINDS["byte"]) == model("byte")

    with ThreadPoolExecutor(8) as pool:
        for future in [pool.submit(run, number) for number in range(8)]:
            future.result()


def test_counting_leaves_no_threads() -> None:
    before = threading.active_count()
    bpe.count_words(texts=["low lower " * 1000] * 500, threads=8)
    assert threading.active_count() == before


def test_a_failed_batch_leaves_no_threads() -> None:
    before = threading.active_count()
    tok = model("byte")
    with pytest.raises(TypeError):
        tok.encode_batch(["low " * 200_000] * 8 + [3], threads=4)  # type: ignore[list-item]
    assert threading.active_count() == before
    assert ids_of(tok)[0]
