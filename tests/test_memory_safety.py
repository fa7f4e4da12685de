"""No input makes a kernel read outside its memory: forged specs, offsets and buffers that change during a call, and
objects that several threads use. Each call raises a documented error or returns a correct result; under the sanitizers
it also reads no memory out of bounds.
"""

from __future__ import annotations

import copy
import pickle
import random
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bpe
from bpe.base._aho_corasick import Finder
from bpe.base._slices import copy_slices, divides_buffer, find_short_slices
from bpe.base._team import Team
from bpe.batch import as_id_array
from bpe.corpus import blocks as documents
from bpe.count._word_list import list_words
from bpe.count._word_table import WordTable
from bpe.data.formats.reading import map_numbers
from bpe.decode import _decoder as decoder
from bpe.encode import _offsets
from bpe.encode._batch import EncodeJob
from bpe.encode._encoder import Encoder
from bpe.formats import _json_tokens
from bpe.merge._dropout import Dropout
from bpe.pretokenize import _safe_points as safe_points
from bpe.research import stochastok
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.vocabulary import Vocabulary

pytestmark = pytest.mark.usefixtures("quiet")
WORDS = {"low": 5, "lower": 2, "newest": 6, "widest": 3, "é語": 4, "aaaaaaaa": 2}
TEXT = "low lower newest é語 aaaaaaaaaaaaaaaa widest " * 3


def at_once(*jobs: Callable[[], object]) -> list[BaseException]:
    """Run the jobs at the same time, each on its own thread; return the errors that they raised."""
    start = threading.Barrier(len(jobs))
    raised: list[BaseException] = []

    def run(job: Callable[[], object]) -> None:
        start.wait()
        try:
            job()
        except Exception as error:  # noqa: BLE001 (returned)
            raised.append(error)

    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


def expect(call: Callable[[], object], *messages: str) -> None:
    """Call a function that may raise ValueError, but only with one of the messages."""
    try:
        call()
    except ValueError as error:
        if not any(message in str(error) for message in messages):
            raise


# WordCounts on several threads ----------------------------------------------------------------------------------------

DOCUMENTS = ["".join(f"w{i * 79 + j} longer-word-{j * i} " for j in range(40)) for i in range(60)]


def counted() -> bpe.WordCounts:
    counts = bpe.WordCounts("whitespace")
    for document in DOCUMENTS:
        counts.add(document)
    return counts


def test_counts_filled_by_several_threads() -> None:
    one, counts = counted(), bpe.WordCounts("whitespace")

    def add() -> None:
        for document in DOCUMENTS:
            counts.add(document)

    def update() -> None:
        for document in DOCUMENTS:
            counts.update(dict.fromkeys(document.split(), 1))

    assert at_once(add, add, add, update) == []
    distinct = sum(len(set(document.split())) for document in DOCUMENTS)
    assert (len(counts), counts.total) == (len(one), 3 * one.total + distinct)


def test_counts_read_while_they_are_filled(tmp_path: Any) -> None:
    """Calls that read all words see the words of one moment."""
    counts = bpe.WordCounts("whitespace")
    counts.update({"low": 2})
    done = threading.Event()

    def add() -> None:
        for _ in range(3):
            for document in DOCUMENTS:
                counts.add(document)
        done.set()

    def read_repeatedly(read: Callable[[], object]) -> Callable[[], None]:
        def reading() -> None:
            while not done.is_set():
                read()

        return reading

    def whole() -> None:
        copy = pickle.loads(pickle.dumps(counts))
        assert copy.total == sum(count for _, count in copy.items())

    def saved() -> None:
        counts.save(tmp_path / "a.counts")
        assert bpe.WordCounts.load(tmp_path / "a.counts").total >= 2

    readers = [
        lambda: (counts.most_common(3), len(counts), counts.total, counts["low"], b"low" in counts),
        lambda: bpe.train(counts=counts, num_merges=2, pretokenizer="whitespace"),
        lambda: [count for _, count in counts.items()],
        whole,
        saved,
        lambda: (counts == counts, repr(counts), counts.arrays()),
    ]
    assert at_once(add, *map(read_repeatedly, readers)) == []
    assert counts.total == 3 * counted().total + 2


def test_counts_merged_into_each_other_at_once() -> None:
    """No call holds both locks, so no deadlock occurs, and no word is lost."""
    one, other = bpe.WordCounts("whitespace"), bpe.WordCounts("whitespace")
    one.add("a b")
    other.add("b c")

    def merge(into: bpe.WordCounts, source: bpe.WordCounts) -> None:
        for _ in range(15):
            into.merge(source)

    assert at_once(lambda: merge(one, other), lambda: merge(other, one), lambda: one.merge(one)) == []
    assert len(one) == len(other) == 3
    assert one.total == sum(count for _, count in one.items())


def test_items_do_not_change_after_the_call() -> None:
    counts = bpe.WordCounts("whitespace")
    counts.add("a b")
    items = counts.items()
    counts.add("c")
    assert list(items) == [(b"a", 1), (b"b", 1)]


def test_arrays_of_counts_are_copies() -> None:
    """Also those of counts that were loaded from disk, which are not in a table."""
    counts = counted()
    total, words = counts.total, dict(counts.items())
    counts._words = counts.arrays()
    for array in counts.arrays():
        array[:] = 77
    assert (counts.total, dict(counts.items())) == (total, words)


# Batches --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tok() -> bpe.Tokenizer:
    """A small byte model."""
    return bpe.train(counts=WORDS, num_merges=12)


def test_offsets_of_a_batch_are_a_read_only_copy(tok: bpe.Tokenizer) -> None:
    for batch in (
        tok.encode_batch(["low lower"] * 3),
        tok.encode_batch(("low lower",) * 3),
        tok.encode_batch(["low lower"] * 3, out=np.empty(99, np.uint32)),
        bpe.TokenBatch.from_lists([[1], [2]])[:1],
    ):
        with pytest.raises(ValueError, match="read-only"):
            batch.offsets[1] = 10**9
    offsets = np.array([0, 3, 6], dtype=np.int64)
    batch = bpe.TokenBatch(np.full(6, 65, dtype=np.uint32), offsets)
    offsets[:] = [0, 10**9, 2 * 10**9]
    assert batch.offsets.tolist() == [0, 3, 6]
    assert tok.decode_batch(batch) == [tok.decode([65] * 3)] * 2


def wrong_offsets() -> list[list[int]]:
    return [[0, 10**9, 2 * 10**9], [0, -5, 6], [5, 2, 6], [-(2**62), 0, 6], [0, 7, 6], [3, 7, 2**63 - 1]]


@pytest.mark.parametrize("wrong", wrong_offsets(), ids=str)
def test_a_batch_with_offsets_changed_by_force_reads_only_its_ids(tok: bpe.Tokenizer, wrong: list[int]) -> None:
    """The owner of an array can make it writable. Reading with wrong offsets then stays within the ids."""
    batch = bpe.TokenBatch(np.full(6, 65, dtype=np.uint32), np.array([0, 3, 6], dtype=np.int64))
    batch.offsets.flags.writeable = True
    batch.offsets[:] = wrong
    with pytest.raises(ValueError, match=r"row \d is ids .* to .*; it must be within the 6 ids of the batch"):
        tok.decode_batch(batch)
    with pytest.raises(ValueError, match="must rise from 0 to the number of ids, 6"):
        batch.padded()
    with pytest.raises(ValueError, match=r"text \d is from .* to .* of 6 ids"):
        batch.to_list()
    for read in (lambda: batch[1], lambda: list(batch)):
        read()  # type: ignore[operator]
    pytest.importorskip("pyarrow")
    with pytest.raises(ValueError, match="must rise from 0 to the number of ids, 6"):
        batch.to_arrow()


def test_ids_that_change_while_they_are_decoded(tok: bpe.Tokenizer) -> None:
    """If a thread changes ids while another decodes them, decoding raises an error or returns the text of some ids."""
    ids = np.full(4096, 65, dtype=np.uint32)
    batch = bpe.TokenBatch(ids, np.arange(0, 4097, 64))
    random_ = np.random.default_rng(1)
    done = threading.Event()

    def write() -> None:
        while not done.is_set():
            ids[:] = random_.integers(0, 2**32 - 1, len(ids), dtype=np.uint32)
            ids[:] = random_.integers(0, tok.vocab_size, len(ids), dtype=np.uint32)

    def read() -> None:
        for _ in range(200):
            for call in (lambda: tok.decode_batch(batch), lambda: tok.decode(ids), lambda: batch.padded(70)):
                expect(call, "is no token of this vocabulary")
        done.set()

    assert at_once(write, read) == []


def odd_address(ids: Any) -> Any:
    """The same ids at an odd address."""
    room = np.zeros(ids.nbytes + 1, dtype=np.uint8)
    odd = room[1:] if room.ctypes.data % 2 == 0 else room[:-1]
    odd[:] = ids.view(np.uint8)
    return odd.view(ids.dtype)


def test_ids_at_odd_addresses(tok: bpe.Tokenizer, tmp_path: Any) -> None:
    """A kernel compiled for aligned numbers may crash on others, so they are copied or read first."""
    ids = tok.encode(TEXT)
    odd = odd_address(ids)
    assert not odd.flags.aligned
    assert as_id_array(odd).flags.aligned
    batch = bpe.TokenBatch(odd, int64s(0, 3, len(ids)))
    assert batch.ids.flags.aligned
    assert tok.decode(odd) == "".join(tok.decode_batch(batch)) == tok.decode(stochastok(tok, odd, 0.5, seed=1)) == TEXT
    (tmp_path / "ids.bin").write_bytes(b"header!" + ids.tobytes())
    found = map_numbers(tmp_path / "ids.bin", np.uint32, 7, len(ids))
    assert found.flags.aligned
    assert not found.flags.writeable
    assert found.tolist() == ids.tolist()


def test_two_threads_share_an_output_array(tok: bpe.Tokenizer) -> None:
    out = np.empty(10_000, dtype=np.uint32)
    jobs = [lambda text=text: [tok.encode_batch([text] * 20, out=out) for _ in range(50)] for text in (TEXT, "low")]
    assert at_once(*jobs) == []


def test_two_threads_share_a_decoder(tok: bpe.Tokenizer) -> None:
    shared = tok.decoder()
    ids = tok.encode(TEXT)

    def push() -> None:
        for _ in range(50):
            shared.push(ids)
            shared.flush()

    at_once(push, push, push)
    shared.flush()
    assert shared.push(ids) == TEXT


# Lists of the caller --------------------------------------------------------------------------------------------------


def test_a_list_that_shrinks_while_its_texts_are_checked(tok: bpe.Tokenizer) -> None:
    texts: list[Any] = [b"low"] * 50

    def checked(text: bytes) -> bytes:
        texts.clear()
        return text

    job = EncodeJob(tok._engine.encoder, 1)
    job.add_texts(texts, checked)
    job.prepare()
    job.work()
    assert job.result()[1].tolist() == [len(tok.encode("low"))] * 50


def test_a_list_that_shrinks_while_it_is_encoded() -> None:
    """Replacing a full word table lets other threads run."""
    tok = bpe.Tokenizer(specs()["byte"], cache_memory="64K")
    random_, shared, done = random.Random(3), ["low"], threading.Event()

    def change() -> None:
        while not done.is_set():
            shared.clear()
            shared.extend(["0"])

    def read() -> None:
        try:
            for _ in range(60):
                shared[:] = ["".join(random_.choices("abcdefghijklmnop", k=7)) for _ in range(900)]
                for batch in (tok.encode_batch(shared), tok.encode_batch(shared, allowed_special="all")):
                    assert len(batch.ids) == batch.offsets[-1]
        finally:
            done.set()

    assert at_once(change, read) == []


# Specs ----------------------------------------------------------------------------------------------------------------


def specs() -> dict[str, TokenizerSpec]:
    train: Any = bpe.train
    plain = train(counts=WORDS, num_merges=12).spec
    mark = {"model": "char", "end_of_word": "</w>", "pretokenizer": "whitespace", "alphabet": bpe.Alphabet([*"xyz"])}
    return {
        "byte": plain,
        "ignore_merges": replace(plain, ignore_merges=True),
        "unmerged": replace(plain, ignore_merges=True, unmerged=np.array([260], dtype=np.int32)),
        "ranks": replace(plain, merge_ranks=np.arange(12, dtype=np.int32) // 2),
        "char": train(counts=WORDS, num_merges=12, model="char", unk_token="<unk>", special_tokens=["<s>"]).spec,
        "mark": train(counts=WORDS, num_merges=12, **mark).spec,
        "glued": train(counts=WORDS, num_merges=12, end_of_word_glued=True, **mark).spec,
    }


def forged_array(random_: random.Random, array: Any) -> Any:
    """An array with some of its numbers changed, or with another length or type."""
    array = np.array(array)
    kind = random_.random()
    if kind < 0.1:
        return array[: random_.randrange(len(array) + 1)]
    if kind < 0.15:
        return array.astype(random_.choice([np.int64, np.uint32, np.float64, np.bool_, object]))
    if kind < 0.2:
        return np.concatenate((array, array[:1]))
    if kind < 0.23:
        return random_.choice([None, 3, "x", array.tolist()])
    flat = array.reshape(-1)
    least, most = (0, 1) if array.dtype == np.bool_ else (np.iinfo(array.dtype).min, np.iinfo(array.dtype).max)
    for _ in range(random_.choice((1, 1, 2, 9, 60))):
        near = [0, 1, 2, len(array), random_.randrange(300), int(flat[random_.randrange(len(flat))])]
        flat[random_.randrange(len(flat))] = min(random_.choice([*near, least, most, 65536]), most)
    return array


def forged(random_: random.Random, spec: TokenizerSpec) -> TokenizerSpec:
    names = ["merges", "merge_results", "merge_ranks", "ends_word", "unmerged", "offsets", "kinds", "blob", "others"]
    name = random_.choice(names)
    old = spec.vocabulary
    if name == "others":
        value: Any = random_.choice([-1, 2**31, 2**40, 300, 0, None, "x"])
        return replace(
            spec,
            **random_.choice(
                [
                    {"special_tokens": {"<x>": value}},
                    {"unk_token": "<nothing>"},
                    {"end_of_word": "no such mark", "end_of_word_glued": bool(random_.randrange(2))},
                    {"model": random_.choice(["byte", "char", "word"])},
                    {"clip": (value, value)},
                    {"fuse_unk": True},
                    {"template": ((value,), ())},
                ]
            ),
        )
    if name in ("offsets", "kinds", "blob"):
        parts: dict[str, Any] = {"blob": old.blob, "offsets": old.offsets.copy(), "kinds": old.kinds.copy()}
        if name == "blob":
            parts["blob"] = random_.choice(
                [b"", old.blob[:9], old.blob + b"xx", bytearray(old.blob), bytes(len(old.blob))]
            )
        else:
            value = forged_array(random_, parts[name])
            parts[name] = value if isinstance(value, np.ndarray) else parts[name][:-1]
        return replace(spec, vocabulary=Vocabulary.from_arrays(**parts))
    value = getattr(spec, name)
    limit = old.limit
    if value is None:
        sizes = {"merge_ranks": len(spec.merges), "ends_word": limit, "unmerged": 3}
        value = np.zeros(sizes[name], dtype=np.bool_ if name == "ends_word" else np.int32)
    return replace(spec, **{name: forged_array(random_, value)})


def use(tok: bpe.Tokenizer) -> None:
    """Call everything that reads the arrays of a tokenizer."""
    for text in (TEXT, "low", "xyzlow" * 900, "aaaa" * 300, "語" * 100):
        ids = tok.encode(text)
        tok.decode(ids)
        tok.encode(text, dropout=0.3, seed=1)
        tok.encode_with_offsets(text)
        tok.tokens(text[:30])
    batch = tok.encode_batch([TEXT] * 5 + ["", "low"])
    tok.decode_batch(batch)
    tok.count_tokens([TEXT, "a"])
    bpe.extend(tok, WORDS, tok.vocab_size + 3)
    tok.truncate_vocab(tok.vocab_size)
    tok.without_tokens([int(ids[0])] if len(ids) else [])
    assert pickle.loads(pickle.dumps(tok)) == tok
    _ = tok.merges, tok.spec.ranks(), tok.vocab(), tok.token_byte_lengths, tok.fingerprint


@pytest.mark.parametrize("kind", specs())
def test_forged_specs(kind: str) -> None:
    """A forged spec raises TypeError or ValueError when a tokenizer is made of it or used, or it works."""
    random_ = random.Random(f"forged {kind}")
    refused = 0
    spec = specs()[kind]
    use(bpe.Tokenizer(spec))
    for _ in range(40):
        try:
            use(bpe.Tokenizer(forged(random_, spec)))
        except (TypeError, ValueError):  # noqa: PERF203
            refused += 1
    assert refused > 10


def test_inconsistent_specs_are_refused_by_name() -> None:
    spec = bpe.train(counts={"abcabcab": 3, "cab": 2}, model="char", num_merges=2).spec
    wrong = replace(spec, merge_results=np.full(2, 2, dtype=np.int32))
    with pytest.raises(
        ValueError, match=r"merge 0 of b'a' and b'b' produces token 2, b'c'; it must produce the token b'ab'"
    ):
        bpe.Tokenizer(wrong)
    with pytest.raises(ValueError, match=r"merge 0 of .* produces token 2"):
        bpe.Tokenizer(wrong)
    with pytest.raises(ValueError, match=r"merge_ranks are .*; they must be at least 0 and must not descend"):
        bpe.Tokenizer(replace(spec, merge_ranks=np.array([1, 0], dtype=np.int32)))
    ends = np.array([True, False, False, False, True])
    with pytest.raises(ValueError, match=r"ends_word has token 0, b'a', which does not end with the end-of-word mark"):
        bpe.Tokenizer(replace(spec, end_of_word="ab", end_of_word_glued=True, ends_word=ends))
    with pytest.raises(ValueError, match="ends_word is None, but end_of_word is 'ab'"):
        bpe.Tokenizer(replace(spec, end_of_word="ab"))
    for names in ({"special_tokens": {"<x>": 99}}, {"template": ((2**40,), ())}, {"clip": (0, "x")}):
        with pytest.raises(ValueError, match=r"special_tokens, template or clip has the id .*not in the vocabulary"):
            bpe.Tokenizer(replace(spec, **names))
    with pytest.raises(ValueError, match="unk_token '<u>' is not in the vocabulary"):
        bpe.Tokenizer(replace(spec, unk_token="<u>"))
    with pytest.raises(TypeError, match=r"merges is int64 of shape \(2, 2\); it must be an array of int32 of shape"):
        bpe.Tokenizer(replace(spec, merges=spec.merges.astype(np.int64)))


def test_forged_pickles_are_refused(tok: bpe.Tokenizer) -> None:
    rebuild, (blob, offsets, kinds, fields, memory) = tok.__reduce__()[:2]  # type: ignore[misc]
    far = offsets.copy()
    far[5:] += 10**9
    with pytest.raises(ValueError, match="offset 5 is"):
        rebuild(blob, far, kinds, fields, memory)  # type: ignore[operator]
    merges = np.full_like(fields["merges"], 2**31 - 1)
    with pytest.raises(ValueError, match="a merge has id 2147483647"):
        rebuild(blob, offsets, kinds, fields | {"merges": merges}, memory)  # type: ignore[operator]


def test_changing_the_arrays_of_a_spec_does_not_affect_a_tokenizer() -> None:
    """The kernels have copies, so ids and text stay the same."""
    for spec in specs().values():
        copied = replace(
            spec,
            merges=spec.merges.copy(),
            merge_results=spec.merge_results.copy(),
            vocabulary=Vocabulary.from_arrays(
                spec.vocabulary.blob, spec.vocabulary.offsets.copy(), spec.vocabulary.kinds.copy()
            ),
            unmerged=None if spec.unmerged is None else spec.unmerged.copy(),
            ends_word=None if spec.ends_word is None else spec.ends_word.copy(),
        )
        right = bpe.Tokenizer(spec, cache_memory=0)
        tok = bpe.Tokenizer(copied, cache_memory=0)
        tok.decode([0])  # so that the decoder builds its tables
        arrays = (copied.merges, copied.merge_results, copied.vocabulary.offsets, copied.unmerged, copied.ends_word)
        for array in arrays:
            if array is not None:
                array.flags.writeable = True
                array[...] = np.iinfo(array.dtype).max if array.dtype != np.bool_ else True
        for text in (TEXT, "low" * 2000, "語" * 999):
            assert tok.encode(text).tolist() == right.encode(text).tolist()
            assert tok.decode_bytes(right.encode(text)) == right.decode_bytes(right.encode(text))


# Kernels --------------------------------------------------------------------------------------------------------------


def int64s(*numbers: int) -> Any:
    return np.array(numbers, dtype=np.int64)


@pytest.mark.parametrize(("start", "end"), [(0, 99), (-1, 3), (3, 2), (2**62, 2**62), (-(2**63), 2**63 - 1)])
def test_spans_outside_a_text(tok: bpe.Tokenizer, start: int, end: int) -> None:
    text = b"low lower"
    starts, ends = int64s(0, start), int64s(3, end)
    core = tok._engine.encoder
    message = r"within|span 1"
    with pytest.raises(ValueError, match=message):
        documents.split_spans(text, starts, ends, [b"x"])
    with pytest.raises(ValueError, match=message):
        Finder([b"x"]).find_in(text, starts, ends)
    with pytest.raises(ValueError, match=message):
        WordTable().count_spans(text, starts, ends, 0)
    with pytest.raises(ValueError, match=message):
        WordTable().count_scanned(1, text, starts, ends, 0)
    with pytest.raises(ValueError, match=message):
        core.encode_pretokens(text, starts, ends)
    with pytest.raises(ValueError, match=message):
        Dropout(tok._engine.merger).encode(text, starts, ends, 1, 1)
    with pytest.raises(ValueError, match=message):
        EncodeJob(core, 1).add_documents(text, starts, ends)
    for few in (int64s(), int64s(0)):
        with pytest.raises(ValueError, match="they must be as many"):
            documents.split_spans(text, starts, few, [b"x"])


@pytest.mark.parametrize(("start", "end"), [(4, 7), (0, 3), (3, 3), (2, 9)])
def test_spans_out_of_order(tok: bpe.Tokenizer, start: int, end: int) -> None:
    """The second span begins before the first one ends."""
    text, starts, ends = b"low lower", int64s(4, start), int64s(7, end)
    core = tok._engine.encoder
    with pytest.raises(ValueError, match=r"span 1 .*(in the order of the text|not empty)"):
        core.encode_pretokens(text, starts, ends)


def test_texts_in_any_order_are_counted_within_their_buffer() -> None:
    random_ = random.Random(2)
    words = [b"low", b"lower", b" newest", b" a-word-of-many-letters", "é語".encode(), b"\n", b"12"]
    text = b"".join(random_.choices(words, k=900))
    for scanner in range(1, 5):
        starts = int64s(*random_.choices(range(len(text)), k=120))
        ends = np.minimum(starts + [random_.choice([0, 1, 9, 80, 900]) for _ in starts], len(text))
        table, twin = WordTable(), WordTable()
        table.count_scanned(scanner, text, starts, ends, 5)
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            twin.count_scanned(scanner, text, int64s(start), int64s(end), 5)
        for one, other in zip(list_words(table, Team(1)), list_words(twin, Team(1)), strict=True):
            assert one.tolist() == other.tolist()


def test_ranges_outside_their_buffers() -> None:
    for start, size, target in (
        (3, 2, 0),
        (-1, 2, 0),
        (0, -2, 0),
        (0, 1, 2),
        (0, 3, 0),
        (0, 2**62, 0),
        (0, 1, -1),
        (0, 1, 2**62),
    ):
        with pytest.raises(ValueError, match="it must lie within"):
            copy_slices(b"abcd", int64s(start), int64s(size), int64s(target), np.empty(2, dtype=np.uint8))
    with pytest.raises(ValueError, match="give as many"):
        copy_slices(b"abcd", int64s(0), int64s(1), int64s(0, 1), np.empty(2, dtype=np.uint8))
    for size in (-(2**62), -1, 0):
        assert find_short_slices(int64s(0, 1, -5, 2**62), size).tolist() == []
    assert find_short_slices(int64s(0, 1, -5, 2**62, 2**62, 2**62 + 2), 2).tolist() == [0, 4]
    assert find_short_slices(int64s(), 2).tolist() == find_short_slices(int64s(0), 2).tolist() == []
    kinds = np.array([1, 0, 2], dtype=np.uint8)
    assert divides_buffer(int64s(0, 1, 1, 4), 4, kinds)
    for offsets in ((), (0,), (0, 1, 1), (0, 1, 1, 4, 4), (1, 1, 1, 4), (0, 1, 2, 4), (0, 1, 1, 3), (0, 5, 5, 4)):
        assert not divides_buffer(int64s(*offsets), 4, kinds), offsets
    assert divides_buffer(int64s(0), 0, kinds[:0])
    for start in (-1, 3, -(2**63), 2**63 - 1):
        with pytest.raises(ValueError, match=f"start is {start}; it must be in the 2 bytes"):
            _json_tokens.read_vocab(b"{}", start, None)
        with pytest.raises(ValueError, match=f"start is {start}; it must be in the 2 bytes"):
            _json_tokens.find_value_end(b"{}", start)
    assert safe_points.find_last_split(1, b"a", -5) == safe_points.find_last_split(1, b"", -5) == 0
    assert documents.find_last_string(b"a<|b|>", -5, 99, b"<|") == 1
    assert documents.find_last_string(b"", 0, 0, b"<|") == documents.find_last_string(b"<|", 1, 2, b"<|") == -1


@pytest.mark.parametrize("wrong", [[0, 99, 4], [0, -1, 4], [0, 3, 2], [0, 3], [0, 3, 2**62], [1, 1, 1]], ids=str)
def test_offsets_outside_a_blob(tok: bpe.Tokenizer, wrong: list[int]) -> None:
    blob, offsets, counts = np.frombuffer(b"abcd", dtype=np.uint8), int64s(*wrong), int64s(1, 1)
    places = np.arange(2, dtype=np.uint64)
    with pytest.raises(ValueError, match=r"offset|bytes"):
        WordTable().add_arrays(blob, offsets, counts, places)
    if wrong != [1, 1, 1]:
        with pytest.raises(ValueError, match="offset"):
            tok._engine.encoder.set_unmerged_words(b"abcd", offsets, np.array([1, 2], dtype=np.uint32), True)
        if len(wrong) == 3:
            with pytest.raises(ValueError, match="offset"):
                decoder.TokenTable(blob, offsets)


def test_pretokens_in_any_order_are_counted_within_their_text() -> None:
    """Texts that are left to the `regex` package come after others, so pretokens may be in any order."""
    random_ = random.Random(1)
    text = bytes(random_.choices(b"ab", k=3_000))
    for _ in range(20):
        starts = int64s(0, *random_.choices(range(len(text)), k=200), 5)
        ends = np.minimum(starts + [random_.choice([1, 2, 3, 20]) for _ in starts], len(text))
        table = WordTable()
        table.count_spans(text, starts, ends, 7)
        blob, offsets, counts, firsts = list_words(table, Team(1))
        words = [blob[a:b].tobytes() for a, b in pairwise(offsets.tolist())]
        expected: dict[bytes, tuple[int, int]] = {}
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            count, first = expected.get(text[start:end], (0, 1 << 60))
            expected[text[start:end]] = count + 1, min(first, start + 7)
        assert dict(zip(words, zip(counts.tolist(), firsts.tolist(), strict=True), strict=True)) == expected


def test_impossible_counts_and_words_are_refused() -> None:
    blob = np.frombuffer(b"abcd", dtype=np.uint8)
    for offsets, counts in ((int64s(0, 0, 4), int64s(1, 1)), (int64s(0, 2, 4), int64s(1, -1))):
        with pytest.raises(ValueError, match="a word has at least one byte, and a count is at least 0"):
            WordTable().add_arrays(blob, offsets, counts, np.arange(2, dtype=np.uint64))
    rebuild, made = bpe.WordCounts().__reduce__()  # type: ignore[misc]
    with pytest.raises(ValueError, match="offset 1 is 99 after 0"):
        rebuild(made[0], (blob, int64s(0, 99), int64s(1)))  # type: ignore[operator]


UNMADE = """
import importlib, sys
from pathlib import Path
import numpy as np
import bpe
root, made = Path(bpe.__file__).parent, 0
spans, ids = np.array([0, 2], dtype=np.int64), np.array([1, 300], dtype=np.uint32)
for path in sorted(root.rglob("*.pyx")):
    module = importlib.import_module(".".join(("bpe", *path.relative_to(root).with_suffix("").parts)))
    for name, kind in vars(module).items():
        if not isinstance(kind, type) or kind.__module__ != module.__name__ or issubclass(kind, BaseException):
            continue
        try:
            thing = kind.__new__(kind)
        except TypeError:
            continue
        made += 1
        for method in [each for each in dir(thing) if not each.startswith("__")] + ["__reduce__", "__len__"]:
            for given in ((), (0,), (b"ab",), ("ab",), (ids,), (b"ab", 0), (ids, spans), (b"ab", spans, spans)):
                if (name, method) in (("Team", "help"), ("Outcome", "result")):
                    continue  # it waits for its jobs, or for the result
                print(name, method, given, file=sys.stderr, flush=True)
                try:
                    found = getattr(thing, method)
                    if callable(found):
                        found(*given)
                except Exception:
                    pass
print(made)
"""


def test_an_object_of_a_kernel_that_was_not_made_by_its_constructor() -> None:
    """Most cannot be made without it; the methods of the others return, or raise an error."""
    if not [*Path(bpe.__file__).parent.rglob("*.pyx")]:
        pytest.skip("needs the kernels' sources, to know them")
    done = subprocess.run([sys.executable, "-c", UNMADE], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-300:]
    assert 0 < int(done.stdout) <= 20


def test_a_kernels_object_is_not_made_anew(tok: bpe.Tokenizer) -> None:
    """A second `__init__` would free the tables that a call on another thread reads, and a pickle could hold any."""
    engine = tok._engine
    for made in (engine.encoder, engine.merger, decoder.TokenTable(b"ab", int64s(0, 1, 2))):
        with suppress(TypeError):
            made.__init__()  # type: ignore[misc]
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match=r"no default __reduce__|cannot pickle"):
                copied(made)
    assert tok.decode(tok.encode(TEXT)) == TEXT
    with pytest.raises(TypeError, match="got NoneType"):
        Encoder(None, None, -1)  # type: ignore[arg-type]


def test_every_lock_of_a_kernel_is_checked() -> None:
    """Cython does not check that a lock could be allocated, and acquiring none is a segmentation fault."""
    package, found = Path(bpe.__file__).parent, 0
    for path in (*package.rglob("*.pxd"), *package.rglob("*.pyx")):
        declared = r"^ +cdef cython\.pythread_type_lock (\w+)"
        for name in re.findall(declared, path.read_text(encoding="utf-8"), re.MULTILINE):
            code = path.with_suffix(".pyx").read_text(encoding="utf-8")
            assert f"check_lock(&self.{name})" in code, path.name
            found += 1
    assert found


def test_no_kernel_builds_a_list_that_is_released_twice() -> None:
    """Cython 3.3.1 releases an item twice if there is no memory to append it in a comprehension, or in `(*a, b)`."""
    sources = [path.with_suffix(".c") for path in Path(bpe.__file__).parent.rglob("*.pyx")]
    generated = [path for path in sources if path.exists()]
    if not generated:
        pytest.skip("needs the C code that Cython generates, which an installed package lacks")
    faulty = [path.name for path in generated if "ListComp_AppendAndDecref(__pyx" in path.read_text(encoding="utf-8")]
    assert faulty == []


def test_no_function_without_the_gil_takes_it_whenever_it_returns() -> None:
    """Cython takes it at the end of a function that has Python variables; beside a busy thread that waits 5 ms."""
    package, n_functions = Path(bpe.__file__).parent, 0
    for path in package.rglob("*.pyx"):
        if not path.with_suffix(".c").exists():
            continue
        code = path.with_suffix(".c").read_text(encoding="utf-8")
        for function in re.split(r"\n\s*(?=static )", code):
            body, label, end = function.partition("__pyx_L0:;")
            if re.match(r"static [^\n]*__pyx_f_\w+\([^\n]*\{\n", body) and label:
                n_functions += 1
                assert "PyGILState_Ensure" not in end, body.partition("\n")[0]
    if not n_functions:
        pytest.skip("needs the C code that Cython generates, which an installed package lacks")


def test_token_offsets_beyond_a_text_are_refused() -> None:
    ids, lengths = np.array([0, 7, 2**32 - 1], dtype=np.uint32), np.array([2], dtype=np.uint32)
    assert _offsets.locate_in_bytes(ids, lengths, 0).tolist() == [[0, 2], [2, 2], [2, 2]]
    spans = int64s(0, 2, 2, 10**9).reshape(2, 2)
    _offsets.convert_to_characters("é".encode(), spans)
    assert spans.tolist() == [[0, 1], [1, 1]]


# Arrow ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [*wrong_offsets(), [1, 0, 0]], ids=str)
@pytest.mark.parametrize("nulls", [False, True])
def test_arrow_arrays_with_wrong_offsets(tok: bpe.Tokenizer, wrong: list[int], nulls: bool) -> None:
    pa = pytest.importorskip("pyarrow")
    valid = pa.py_buffer(b"\x03") if nulls else None
    offsets = int64s(0, 2, 4)
    array = pa.Array.from_buffers(pa.large_binary(), 2, [valid, pa.py_buffer(offsets), pa.py_buffer(b"abcd")])
    table = pa.table({"word": array, "count": pa.array([1, 2])})
    offsets[:] = wrong  # changed after pyarrow validated them
    with pytest.raises(ValueError, match=r"offset|Length spanned"):
        bpe.WordCounts.from_arrow(table)
    for call in (tok.encode_batch, lambda texts: bpe.count_words(texts=texts)):
        with pytest.raises(ValueError, match="an Arrow array of 2 rows with invalid offsets"):
            call(array)


@pytest.mark.parametrize("kind", ["byte", "char", "glued", "ignore_merges"])
def test_texts_that_change_while_they_are_encoded(kind: str) -> None:
    """The ids are those of some text, and the kernels stay within bounds: every text is copied first."""
    pa = pytest.importorskip("pyarrow")
    tok = bpe.Tokenizer(specs()[kind])
    size = 60_000
    data = np.zeros(size, dtype=np.uint8)
    buffers = [None, pa.py_buffer(np.arange(0, size + 1, 5_000, dtype=np.int64).tobytes()), pa.py_buffer(data)]
    array = pa.Array.from_buffers(pa.large_binary(), size // 5_000, buffers)
    whole = pa.Array.from_buffers(pa.large_binary(), 1, [None, pa.py_buffer(int64s(0, size).tobytes()), buffers[2]])
    held = bytearray(data)
    texts = [np.frombuffer((text * size)[:size], np.uint8) for text in (b"low ", b"\xff", b"  \n ", b"'re 12", b"a")]
    texts += [np.frombuffer((text * size).encode()[:size], np.uint8) for text in ("語", "é", "\U0001f600 ", "가나")]
    done = threading.Event()

    def write() -> None:
        random_ = random.Random(3)
        while not done.is_set():
            at = random_.randrange(size)
            text = random_.choice(texts)
            data[at:] = text[at:]
            held[at:] = text[at:].tobytes()

    def read() -> None:
        try:
            for _ in range(12):
                for call in (
                    lambda: tok.encode_batch(array, threads=2),
                    lambda: tok.encode_batch(whole, threads=1),
                    lambda: bpe.count_words(texts=whole, pretokenizer="cl100k", threads=1),
                    lambda: tok.encode_batch([held, memoryview(held)]),
                    lambda: tok.encode_batch(array, threads=1, dropout=0.5, seed=7),
                ):
                    expect(call, "UTF-8", "is not in the vocabulary")
        finally:
            done.set()

    assert at_once(write, read) == []


def test_a_changing_text_gives_ids_of_the_vocabulary_and_no_wrong_cached_word() -> None:
    """Reading a text twice gave ids outside the vocabulary, and words with the ids of others stayed in the cache."""
    pa = pytest.importorskip("pyarrow")
    spec = bpe.train(counts=WORDS, num_merges=12).spec
    tok = bpe.Tokenizer(spec)
    size, row = 60_000, 5_000
    texts = [np.frombuffer((text * size)[:size], np.uint8) for text in (b"low ", b"\xff", b"lowest widest ")]
    data = texts[0].copy()
    offsets = pa.py_buffer(np.arange(0, size + 1, row, dtype=np.int64).tobytes())
    array = pa.Array.from_buffers(pa.large_binary(), size // row, [None, offsets, pa.py_buffer(data)])
    done = threading.Event()

    def write() -> None:
        while not done.is_set():
            for text in texts:
                data[:] = text

    def read() -> None:
        try:
            for _ in range(200):
                assert tok.encode_batch(array, threads=1).ids.max() < tok.n_vocab
            for pretokenizer in ("o200k", "starcoder", "clip"):
                for _ in range(10):
                    assert bpe.count_words(texts=array, pretokenizer=pretokenizer, threads=1).total > 0
            for _ in range(10):
                assert bpe.evaluate(tok, texts=array, threads=1)
        finally:
            done.set()

    assert at_once(write, read) == []
    fresh = bpe.Tokenizer(spec)
    for text in texts:
        assert tok.encode(text.tobytes()).tolist() == fresh.encode(text.tobytes()).tolist()
