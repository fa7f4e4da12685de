"""The objects that `benchmarks/checks/check_threads.py` shares, and how threads use them."""

from __future__ import annotations

import copy
import gzip
import itertools
import os
import pickle
import random
import string
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sharing import (
    Calls,
    SharedObject,
    SkippedError,
    get_outcome,
    make_copies,
    make_method_calls,
    make_uses,
    share_calls,
    to_plain,
    use_copies,
)

import bpe
from bpe.compat import huggingface, subword_nmt
from bpe.compat import tiktoken as compat_tiktoken
from bpe.data import Blocks, Mixture, Packed, StreamingEncoder, TokenShards, encode_shards, map_function, write_shards
from bpe.research import stochastok

#: Errors that a call may raise about a value that another thread changed meanwhile.
CHANGED = (BufferError, LookupError, OverflowError, RuntimeError, TypeError, ValueError)


# Tokenizers -----------------------------------------------------------------------------------------------------------

WORDS = ["low", "lower", "newest", " widest", "\n\n", "naïve", "두 번째", "日本語", "123", " 4567", "😀", "x" * 300]


def texts(seed: int, count: int) -> list[str]:
    """Texts whose words partly repeat, so that caches hit, miss and overflow."""
    generator = random.Random(seed)
    text_list = [f"{generator.choice(WORDS)}{generator.randrange(400)}" for _ in range(200)]
    return [" ".join(generator.choices(text_list + WORDS, k=generator.randrange(60))) for _ in range(count)]


GIVEN = texts(1, 40)


def tokenizer_calls(tok: bpe.Tokenizer, folder: Path) -> Calls:
    """The calls of a tokenizer, which never changes."""
    all_text = "<|end|>low ".join(GIVEN)
    path = folder / "text"
    path.write_text("\n".join(GIVEN) * 20)
    batch = tok.encode_batch(GIVEN)
    rows = batch.to_list()
    file_numbers = itertools.count()

    def loaded() -> str:
        name = folder / f"saved{next(file_numbers)}"
        tok.save(name)
        return bpe.Tokenizer.load(name).fingerprint

    def streamed() -> str:
        decoder = tok.decoder()
        return "".join(map(decoder.push, rows[3])) + decoder.flush()

    return make_method_calls(
        tok,
        *(("encode", text) for text in (*GIVEN[:12], "", "low")), ("encode_batch", GIVEN),
        ("encode", all_text.encode(), {"allowed_special": "all"}), ("encode_batch", GIVEN * 20, {"threads": 3}),
        ("encode_batch", GIVEN[:5], {"dropout": 0.2, "seed": 3}), ("encode_with_offsets", GIVEN[4]),
        ("encode_files", path, {"threads": 2, "per_line": True}),
        ("encode_spans", [(GIVEN[4], True), (GIVEN[5], False)]), ("truncate", all_text, 100), ("count_tokens", GIVEN),
        ("tokens", GIVEN[2]), ("explain", "lower newest"), ("decode", rows[2]),
        ("decode", batch[2]), ("decode_bytes", rows[1]), ("decode_batch", batch), ("vocab",), ("__len__",), ("merges",),
        ("token_byte_lengths",), ("unreachable",), ("fingerprint",), ("n_vocab",), ("special_tokens",), ("roles",),
        ("__repr__",), ("__hash__",),
    ) | {
        "encode_stream": lambda: [list(ids) for ids in tok.encode_stream(GIVEN[:6])],
        "show": lambda: str(tok.show(GIVEN[2])),
        "decoder": streamed,
        "token_id": lambda: [tok.token_id(tok.token_bytes(index)) for index in range(20)],
        "stochastok": lambda: stochastok(tok, batch, 0.3, seed=2),
        "truncate_vocab": lambda: tok.truncate_vocab(tok.vocab_size - 20)[0].fingerprint,
        "with_tokens": lambda: tok.with_tokens(added=["<new>"]).encode("low<new>"),
        "save and load": loaded,
        "map_function": lambda: map_function(tok, "t")({"t": GIVEN[:4]}),
        "copies": lambda: [(copied == tok, copied.encode(GIVEN[5])) for copied in make_copies(tok)],
    }  # fmt: skip


def tokenizer(folder: Path, cache_memory: str | None = "64K", **options: Any) -> SharedObject:
    """A trained tokenizer; its word cache is so small that words leave it."""
    options = {"vocab_size": 700, "special_tokens": ["<|end|>"], **options}
    learned: Any = bpe.train(texts=texts(0, 200), **options)
    shared = bpe.Tokenizer(learned.spec, cache_memory=cache_memory)
    return share_calls(tokenizer_calls(shared, folder))


def prompt_cache(_: Path) -> SharedObject:
    """A cache of prompts of several conversations, so small that blocks leave it."""
    tok = bpe.train(texts=texts(0, 200), vocab_size=700, special_tokens=["<|end|>"], pretokenizer="cl100k")
    cache = bpe.PromptCache(tok, max_bytes=150_000, allowed_special="all")
    prompts = ["<|end|>".join(texts(k % 3, 300)[: 5 * k]) for k in range(16)]
    return share_calls(make_uses(prompts, {"encode": lambda prompt: cache.encode(prompt)[0].tolist()}) | {
        "memory": lambda: cache.n_bytes <= cache.max_bytes,
        "copies": lambda: [copied.encode(prompts[3])[0].tolist() for copied in make_copies(cache)],
    })  # fmt: skip


def pretokenizers(_: Path) -> SharedObject:
    """Pretokenizers by scanner and by regular expression, and normalizers."""
    pretokenizer = [bpe.Pretokenizer(name) for name in ("gpt2", "o200k", "cl100k", "whitespace")]
    pretokenizer.append(bpe.Pretokenizer.from_regex(r"\w+|\W"))
    kinds = "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Strip", "CollapseWhitespace", "UnescapeHTML", "FixText"
    changing = [getattr(bpe.normalizers, kind)() for kind in kinds]
    changing += [bpe.normalizers.Replace(r"(\w)\d+", r"\1"), bpe.normalizers.Sequence(*changing[:1], *changing[4:7])]
    text = " ".join(GIVEN[:9]) + " &amp; Ünïcode  e\u0301 "
    uses: dict[str, Callable[[Any], object]] = {
        "split": lambda pretokenizer: pretokenizer.split(text),
        "split_bytes": lambda pretokenizer: pretokenizer.split_bytes(text),
        "split by copies": use_copies(lambda pretokenizer: pretokenizer.split(text)),
    }
    normalize: Callable[[Any], object] = lambda pretokenizer: pretokenizer(text)  # noqa: E731
    return share_calls(
        make_uses(pretokenizer, uses)
        | make_uses(changing, {"normalize": normalize, "normalize by copies": use_copies(normalize)})
    )


def decoders(_: Path) -> SharedObject:
    """Copies of a decoder in the middle of a character; and one decoder in all threads, which must not crash."""
    tok = bpe.train(texts=texts(0, 50), vocab_size=300)
    begun = tok.decoder()
    ids = tok.encode("low " + "naïve 日本語 😀 " * 3).tolist()
    begun.push(ids[:12])
    used = tok.decoder()

    def rest(decoder: bpe.decode.IncrementalDecoder) -> str:
        return "".join(decoder.push(token_id) for token_id in ids[12:]) + decoder.flush()

    def use() -> bool:
        parts = [used.push(ids[:9]), used.push(ids[9]), copy.copy(used).flush(), used.flush()]
        return all(type(part) is str for part in parts)

    return share_calls({"copies": lambda: [rest(copied) for copied in make_copies(begun)], "one for all": use})


# What threads change --------------------------------------------------------------------------------------------------


def callers_values(folder: Path) -> SharedObject:
    """Lists, bytearrays and arrays of the caller, which thread 0 changes while the others pass them."""
    tok = bpe.train(texts=texts(0, 100), vocab_size=400, special_tokens=["<|end|>"], pretokenizer="gpt2")
    ranks = {tok.token_bytes(number): number for number in range(1, tok.n_vocab)}
    enc = compat_tiktoken.Encoding(
        "x", pat_str=r"\w+|\W", mergeable_ranks=ranks, special_tokens={"<|end|>": 0}, explicit_n_vocab=tok.n_vocab
    )
    hf = huggingface.Tokenizer(tok)
    pool = [text for text in GIVEN if text]
    rows = [tok.encode(text).tolist() for text in pool]
    possible, some_tiktoken = set(map(tuple, rows)), {tuple(enc.encode(text)) for text in pool}
    shared_texts, ids = pool[:20], rows[0] * 3
    array, signed = np.array(ids, dtype=np.uint32), np.array(ids, dtype=np.int64)
    offsets = np.arange(len(array) + 1, dtype=np.int64)
    batch = bpe.TokenBatch(array, offsets)
    buffer, words = bytearray(b"low lower " * 50), {"low": 1, "lower": 2}
    nested = [list(row) for row in rows[:8]]
    counter = itertools.count()

    def put(target: Any, value: Any) -> None:
        target[:] = value

    def count() -> None:
        counts = bpe.WordCounts()
        counts.update(words)
        assert len(counts) <= 60, "more words than there were"

    changes: list[Callable[[random.Random], object]] = [
        lambda rng: put(shared_texts, rng.choices(pool, k=rng.randrange(1, 40))),
        lambda _: shared_texts and shared_texts.pop(),
        lambda rng: shared_texts.append("".join(rng.choice(pool))),  # sometimes a string that nobody else holds
        lambda rng: put(ids, [rng.choice([5, 70, 1 << 31, 1 << 40, 399]) for _ in range(rng.randrange(200))]),
        lambda rng: put(array, rng.choice([1, 300, 399, 1 << 31, 0xFFFFFFFF])),
        lambda rng: put(signed, rng.choice([1, 300, -1, 1 << 40])),
        lambda rng: put(offsets[1:-1], rng.choice([0, 1, -(1 << 40), 1 << 62])),
        lambda rng: put(buffer, rng.choice([b"low lower ", b"newer low "]) * 50),
        lambda rng: words.update({rng.choice(string.ascii_letters): 1 << rng.randrange(20)}),
        lambda rng: words.pop(rng.choice(string.ascii_letters), None),
        lambda rng: put(nested[rng.randrange(8)], rng.choice([rows[1], [], [1 << 40], [3] * 500])),
    ]
    #: Calls that give ids, and those of the texts that there may be.
    encoding: list[tuple[Callable[[], Iterable[Any]], set[tuple[int, ...]]]] = [
        (lambda: tok.encode_batch(shared_texts).to_list(), possible),
        (lambda: tok.encode_batch(shared_texts, threads=3).to_list(), possible),
        (lambda: enc.encode_ordinary_batch(shared_texts), some_tiktoken),
        (lambda: enc.encode_batch(shared_texts), some_tiktoken),
        (lambda: [encoding.ids for encoding in hf.encode_batch(shared_texts)], possible),
        (lambda: [encoding.ids for encoding in hf.encode_batch(shared_texts, add_special_tokens=False)], possible),
    ]
    other_calls = [
        *make_method_calls(
            tok, ("count_tokens", shared_texts), ("decode_bytes", ids), ("decode", ids), ("decode", array),
            ("decode", signed, {"skip_invalid": True}), ("decode", array, {"skip_special": True}),
            ("decode_batch", batch), ("decode_batch", batch, {"skip_special": True}), ("decode_batch", nested),
            ("encode", buffer), ("encode_batch", [buffer, "low", buffer]),
            ("encode_with_offsets", buffer),
        ).values(),
        lambda: stochastok(tok, array, 0.5, seed=1),
        *make_method_calls(
            enc, ("decode", ids), ("decode_bytes", ids), ("decode_tokens_bytes", ids), ("decode_batch", nested)
        ).values(),
        *make_method_calls(hf, ("decode", ids), ("decode_batch", nested)).values(),
        *make_method_calls(
            bpe, ("train", {"texts": shared_texts, "vocab_size": 280}), ("train", {"counts": words, "vocab_size": 258}),
            ("count_words", {"texts": shared_texts, "threads": 2}),
            ("evaluate", tok, {"texts": shared_texts, "resamples": 0, "threads": 2}),
        ).values(),
        lambda: tok.decoder().push(ids),
        lambda: tok.decoder().push(array),
        lambda: bpe.TokenBatch.from_lists(nested),
        batch.padded,
        batch.to_list,
        lambda: write_shards(nested, folder / f"s{next(counter)}"),
        count,
    ]  # fmt: skip
    for call, among in encoding:
        assert set(map(tuple, call())) <= among, "a call finds a fault before anything is changed"
    for other_call in other_calls:
        other_call()

    def step(number: int, rng: random.Random) -> object:
        if number == 0:
            for change in rng.choices(changes, k=20):
                change(rng)
            return None
        index = rng.randrange(len(encoding) + len(other_calls))
        with suppress(*CHANGED):
            if index < len(encoding):
                call, among = encoding[index]
                return [f"ids of no text: {row[:20]}" for row in call() if tuple(row) not in among]
            other_calls[index - len(encoding)]()
        return None

    return SharedObject(step)


def word_counts(folder: Path) -> SharedObject:
    """One `WordCounts`: each call is atomic, so "low" and "lower" always have the same count."""
    counts, once, expected = bpe.WordCounts(), bpe.WordCounts(), bpe.WordCounts()
    text = "low lower low lower" + "".join(f" word{index}" for index in range(2000))
    once.add(text)
    added: list[int] = []
    last = threading.local()
    names = itertools.count()
    adding = [partial(counts.add, text)] * 3
    adding += [partial(counts.merge, once), partial(counts.update, dict(once.items()))]

    def check(counted: bpe.WordCounts) -> str:
        count_by_word, total = dict(counted.items()), counted.total
        if count_by_word.get(b" lower") != count_by_word.get(b" low", 0) * 2:
            return f"half of a text was counted: {count_by_word.get(b' lower')} and {count_by_word.get(b' low')}"
        if type(counted) is not bpe.WordCounts or (counted is not counts and sum(count_by_word.values()) != total):
            return f"the copy's total is {total}, and its counts are {sum(count_by_word.values())}"
        before, last.total = getattr(last, "total", 0), max(total, getattr(last, "total", 0))
        return f"the total fell from {before} to {total}" if total < before else ""

    def saved() -> bpe.WordCounts:
        path = folder / f"counts{next(names)}"
        counts.save(path)
        loaded = bpe.WordCounts.load(path)
        path.unlink()
        return loaded

    def step(_: int, rng: random.Random) -> object:
        kind = rng.randrange(12)
        if kind < len(adding):
            adding[kind]()
            added.append(1)
            return ""
        if kind == 5:
            counts.most_common(3)
            repr(counts)
            bpe.train(counts=counts, vocab_size=262, threads=2)
            return "" if counts["low"] <= len(added) + 8 and len(counts) <= len(once) else "too many"
        copies = [counts] if kind == 6 else [*make_copies(counts), *([saved()] if kind == 7 else [])]
        return next(filter(None, map(check, copies)), "")

    def finish() -> Iterable[str]:
        expected.merge(once, weight=len(added))
        if dict(expected.items()) != dict(counts.items()):
            yield f"after {len(added)} texts: {counts.most_common(4)} instead of {expected.most_common(4)}"

    counts.add(text)
    added.append(1)
    return SharedObject(step, finish)


def token_batch(_: Path) -> SharedObject:
    """A `TokenBatch`, which does not change."""
    batch = bpe.TokenBatch.from_lists([list(range(n)) for n in range(40)])
    return share_calls(make_method_calls(
        batch, *(("__getitem__", key) for key in (5, slice(3, 9), -1)), ("__len__",), ("to_list",), ("lengths",),
        ("padded", 16, {"side": "left", "truncate": True}), ("__repr__",), ("_repr_html_",),
    ) | {
        "iterate": lambda: list(batch),
        "copies": lambda: [copied == batch and copied for copied in make_copies(batch)],
    })  # fmt: skip


# Corpora and loaders --------------------------------------------------------------------------------------------------


def sources(folder: Path) -> SharedObject:
    """One `Sources`, read by all; the skipped records are counted together."""
    path = folder / "records.jsonl"
    lines = [f'{{"text": "low lower {index}"}}\n' for index in range(2000)]
    path.write_text("".join([*lines[:1000], '{"text": null}\n', "{\n", *lines[1000:]]))
    shared_sources = bpe.Sources(path, on_error="skip")
    tok = bpe.train(texts=texts(0, 50), vocab_size=300)
    counter, read = itertools.count(), list[int]()

    def shards() -> object:
        out = folder / f"shards{next(counter)}"
        return repr(encode_shards(shared_sources, tok, out, shard_size=4000, threads=2))

    counting: Calls = {
        "encode_shards": shards,
        "documents": lambda: len(list(shared_sources.documents())),
        "count_words": lambda: dict(bpe.count_words(files=shared_sources, threads=2).items()),
        "encode_files": lambda: tok.encode_files(shared_sources, threads=2),
        "parts": lambda: [len(list(shared_sources.part(index, 2).documents())) for index in range(2)],
        "copy": lambda: len(list(copy.copy(shared_sources).documents())),
    }

    def counted(name: str) -> object:
        read.append(1)
        return counting[name]()

    calls: Calls = {name: partial(counted, name) for name in counting}
    checked = share_calls(
        calls | {"size": lambda: [shared_sources.size, shared_sources.plan(), len(shared_sources.units())]}
    )
    assert shared_sources.skipped == 2 * len(read), (
        f"one thread skips {shared_sources.skipped} records in {len(read)} passes"
    )

    def finish() -> Iterable[str]:
        if shared_sources.skipped != 2 * len(read):
            yield f"{shared_sources.skipped} records were skipped in {len(read)} passes, of 2 each"

    return SharedObject(checked.step, finish)


def made_shards(folder: Path) -> TokenShards:
    """Shards of 600 documents in several files."""
    rng = random.Random(5)
    rows = [[rng.randrange(500) for _ in range(rng.randrange(60))] for _ in range(600)]
    masked = [(row, [rng.randrange(2) for _ in row]) for row in rows]
    write_shards(masked, folder / "tokens", shard_size=3000, masks=True)
    return TokenShards(folder / "tokens")


def token_shards(folder: Path) -> SharedObject:
    """One `TokenShards`."""
    shards = made_shards(folder)
    positions = np.arange(0, shards.n_tokens, 17)
    return share_calls(make_method_calls(
        shards, ("tokens", 10, 90), ("tokens", 2900, 6100), ("masks", 2900, 6100), ("document", 7), ("document", 600),
        ("document_at", 3456), ("documents_at", positions), ("document_starts", np.arange(600)),
        ("document_bounds", 0, 600),
    ) | {
        "slice": lambda: shards.documents[3:9][2],
        "iterate": lambda: [document.sum() for document in shards.documents],
        "copies": lambda: [copied.tokens(0, 99) for copied in make_copies(shards)],
    })  # fmt: skip


def rows_calls(rows: Any, epochs: int = 9) -> Calls:
    """The calls of `Blocks`, `Packed` and `Mixture`."""

    def resumed(index: int) -> list[object]:
        begun = rows.batches(4, epochs=3)
        for _ in range(index):
            next(begun)
        state = begun.state_dict()
        copies = [next(copied) for copied in make_copies(begun)]
        return [state, copies, next(begun), next(rows.batches(4, epochs=3, state=state))]

    def epoch(number: int) -> object:
        return rows.__getitems__([(number, index) for index in range(0, len(rows), 5)])

    return make_uses(range(epochs), {"epoch": epoch}) | make_method_calls(
        rows, *(("__getitem__", key) for key in (0, len(rows) - 1, (3, 2), len(rows))), ("__len__",), ("fingerprint",),
        ("seed",), ("fields",), ("__repr__",),
    ) | {
        "batches": lambda: list(rows.batches(8, rank=1, world=2))[:5],
        "resumed": lambda: resumed(3),
        "copies": lambda: [copied[1, 2] for copied in make_copies(rows)],
    }  # fmt: skip


FIELDS = ("input_ids", "labels", "position_ids", "document_ids")


def blocks(folder: Path) -> SharedObject:
    """`Blocks`."""
    return share_calls(rows_calls(Blocks(made_shards(folder), length=16, seed=3, fields=FIELDS)))


def packed(folder: Path) -> SharedObject:
    """`Packed`, with more windows and epochs than it keeps."""
    rows = Packed(made_shards(folder), length=64, seed=3, window=30, fields=FIELDS, strategy="best-fit-crop")
    return share_calls(rows_calls(rows) | {"statistics": lambda: rows.statistics})


def mixture(folder: Path) -> SharedObject:
    """`Mixture`, with more rounds than it keeps."""
    shards = made_shards(folder)
    mixed = Mixture([Blocks(shards, length=16, seed=1), Packed(shards, length=16, seed=2, window=50)], [3, 1], seed=4)
    far = [np.arange(round_number << 14, (round_number << 14) + 8) for round_number in range(9)]
    return share_calls(rows_calls(mixed, 3) | make_uses(far, {"round": mixed.read}))


def iterators(folder: Path) -> SharedObject:
    """One iterator of batches in all threads: each batch is given out once."""
    rows = Blocks(made_shards(folder), length=16, seed=3)
    tok = bpe.train(texts=texts(0, 50), vocab_size=300)
    encoder = StreamingEncoder(GIVEN, tok, length=16, threads=1)
    makers: list[Callable[[], Any]] = [lambda: rows.batches(4, epochs=None), lambda: encoder.batches(2, epochs=None)]
    shared = [make() for make in makers]
    taken_texts: list[list[str]] = [[], []]

    def step(_: int, rng: random.Random) -> object:
        iterator_index = rng.randrange(2)
        if rng.random() < 0.2:
            state = shared[iterator_index].state_dict()
            return "" if isinstance(state, dict) else "no state"
        taken_texts[iterator_index].append(repr(to_plain(next(shared[iterator_index]))))
        return ""

    def finish() -> Iterable[str]:
        for make, got in zip(makers, taken_texts, strict=True):
            expected = [repr(to_plain(next(batches))) for batches in [make()] for _ in got]
            if sorted(expected) != sorted(got):
                yield f"batches were lost or given out twice: {len(set(expected) - set(got))} of {len(got)} are missing"

    return SharedObject(step, finish)


def streaming_encoder(folder: Path) -> SharedObject:
    """One `StreamingEncoder` of texts and one of files, each thread with iterators of its own."""
    tok = bpe.train(texts=texts(0, 50), vocab_size=300, special_tokens=["<|end|>"])
    path = folder / "lines"
    path.write_text("\n".join(GIVEN))
    encoders = [
        StreamingEncoder(GIVEN, tok, length=16, append="<|end|>", threads=2),
        StreamingEncoder(bpe.Sources(path, per_line=True), tok, length=16, threads=1, fields=FIELDS),
    ]

    def resumed(encoder: StreamingEncoder) -> object:
        batches = encoder.batches(2, rank=0, world=1, epochs=2)
        next(batches)
        state = batches.state_dict()
        again = encoder.batches(2, rank=0, world=1, epochs=2, state=state)
        return [state, next(batches), next(again)]

    uses: dict[str, Callable[[Any], object]] = {
        "rows": list,
        "part": lambda encoder: list(encoder.batches(4, rank=0, world=2)),
        "resumed": resumed,
        "copies": use_copies(lambda encoder: next(encoder.batches(2))),
    }
    return share_calls(make_uses(encoders, uses))


# compat ---------------------------------------------------------------------------------------------------------------


def compat_encoding(_: Path) -> SharedObject:
    """`compat.tiktoken.Encoding`."""
    learned = bpe.train(texts=texts(0, 100), vocab_size=500, pretokenizer="gpt2")
    ranks = {learned.token_bytes(index): index for index in range(500)}
    special = {"<|end|>": 500, "<|pad|>": 501}
    enc = compat_tiktoken.Encoding(
        "shared", pat_str=r"'s| ?\p{L}+| ?\p{N}+|\s+|[^\s\p{L}\p{N}]+", mergeable_ranks=ranks, special_tokens=special
    )
    text = "<|end|>".join(GIVEN[:6])
    ids = enc.encode(text, allowed_special="all")
    return share_calls(make_method_calls(
        enc, ("encode", text, {"allowed_special": "all"}), ("encode", text), *(("encode", word) for word in WORDS),
        ("encode", text, {"allowed_special": {"<|end|>"}, "disallowed_special": ()}), ("encode_ordinary", text),
        ("encode_batch", GIVEN), ("encode_ordinary_batch", GIVEN * 9, {"num_threads": 3}),
        ("encode_to_numpy", GIVEN[3]), ("encode_with_unstable", "low lowe"), ("decode", ids), ("decode_bytes", ids),
        ("decode_batch", [ids, ids[:5]]), ("decode_with_offsets", ids), ("decode_single_token_bytes", 9),
        ("encode_single_token", b"lo"), ("eot_token",), ("decode", [600]), ("special_tokens_set",),
        ("token_byte_values",), ("n_vocab",), ("is_special_token", 500),
    ) | {"copies": lambda: [copied.encode(text, allowed_special="all") for copied in make_copies(enc)]})  # fmt: skip


def compat_tokenizer(_: Path) -> SharedObject:
    """`compat.huggingface.Tokenizer` while its settings change."""
    tok = bpe.train(texts=texts(0, 100), vocab_size=400, special_tokens=["<s>", "<pad>"], pretokenizer="gpt2")
    compat_tok = huggingface.Tokenizer(tok)
    text, other_text = " ".join(GIVEN[2:4]) + "<s>low", "Lower NEWEST"
    ids = tok.encode("low<s>lower", allowed_special="all").tolist()
    settings: list[list[Callable[[], object]]] = [
        [
            compat_tok.no_truncation,
            lambda: compat_tok.enable_truncation(6, stride=2),
            lambda: compat_tok.enable_truncation(9),
        ],
        [compat_tok.no_padding, lambda: compat_tok.enable_padding(length=12, pad_id=1, pad_token="<pad>")],
        [
            lambda: setattr(compat_tok, "encode_special_tokens", True),
            lambda: setattr(compat_tok, "encode_special_tokens", False),
        ],
    ]
    try:
        from tokenizers import normalizers
    except ModuleNotFoundError:
        pass
    else:
        lower = normalizers.Lowercase()
        settings.append(
            [lambda: setattr(compat_tok, "normalizer", lower), lambda: setattr(compat_tok, "normalizer", None)]
        )
    calls = make_method_calls(
        compat_tok, ("encode", text), ("encode", other_text), ("encode", text, other_text),
        ("encode", ["low", "lower"], {"is_pretokenized": True}), ("encode_batch", [text, other_text, ""]),
        ("encode_batch", [(text, other_text), (other_text, text)]), ("decode", ids),
        ("decode", ids, {"skip_special_tokens": False}), ("decode_batch", [ids, ids[:2]]), ("truncation",),
        ("padding",), ("get_vocab",), ("get_vocab_size",), ("token_to_id", "<s>"), ("id_to_token", 3), ("to_str",),
        ("num_special_tokens_to_add", False),
    )  # fmt: skip
    calls |= {
        "copy": lambda: copy.copy(compat_tok).encode(other_text),
        "deepcopy": lambda: copy.deepcopy(compat_tok).encode_batch([text]),
        "pickle": lambda: pickle.loads(pickle.dumps(compat_tok)).encode(other_text),
    }
    return share_calls(calls, settings)


def added_tokens(_: Path) -> SharedObject:
    """`compat.huggingface.Tokenizer` to which all threads add tokens: none is lost, and ids have no gap."""
    tok = bpe.train(texts=texts(0, 100), vocab_size=300, special_tokens=["<s>"], pretokenizer="gpt2")
    compat_tok = huggingface.Tokenizer(tok)
    base, added = compat_tok.get_vocab_size(), list[str]()
    names = [itertools.count() for _ in range(64)]

    def step(index: int, rng: random.Random) -> str:
        if len(added) < 400 and rng.random() < 0.2:
            name = f"<{index}:{next(names[index])}>"
            add = rng.choice([compat_tok.add_tokens, compat_tok.add_special_tokens])
            if add([name]) != 1:
                return f"{name} was not new"
            added.append(name)
            token_id = compat_tok.token_to_id(name)
            if (
                token_id is None
                or compat_tok.encode(f"low{name}low").ids.count(token_id) != 1
                or compat_tok.id_to_token(token_id) != name
            ):
                return f"{name} was added, and has the id {token_id}"
            return ""
        mine = [name for name in added if name.startswith(f"<{index}:")][-3:]
        copied = rng.choice([copy.copy(compat_tok), copy.deepcopy(compat_tok), compat_tok])
        if any(copied.token_to_id(name) is None for name in mine):
            return f"{mine} are lost in a copy"
        row = copied.encode("low" + "".join(mine)).ids
        return "" if all(row.count(copied.token_to_id(name)) == 1 for name in mine) else f"{mine} gave {row}"

    def finish() -> Iterable[str]:
        ids = sorted(compat_tok.token_to_id(name) or 0 for name in added)
        if ids != list(range(base, base + len(added))) or compat_tok.get_vocab_size() != base + len(added):
            yield f"{len(added)} tokens were added to {base}, and the ids are {ids[:5]} to {ids[-5:]}"
        if pickle.loads(pickle.dumps(compat_tok)).get_vocab() != compat_tok.get_vocab():
            yield "the pickled copy has other tokens"

    return SharedObject(step, finish)


def subword_nmt_segmenter(folder: Path) -> SharedObject:
    """`compat.subword_nmt.BPE`, with glossaries."""
    path = folder / "codes"
    path.write_text("#version: 0.2\nl o\nlo w</w>\nlo w\ne r</w>\nn e\nne w\n")
    segmenter = subword_nmt.BPE(path, glossaries=["USA", r"\d+"])
    lines = [" ".join(f"{word}{n % 97}" for n in range(k, k + 40) for word in ("low", "newer")) for k in range(20)]
    return share_calls(make_uses(lines, {"line": lambda line: segmenter.process_line(line + "\n")}) | {
        "tokens": lambda: segmenter.segment_tokens(["low", "lower", "USA1", "newer"]),
        "copies": lambda: [copied.segment(lines[3]) for copied in make_copies(segmenter)],
    })  # fmt: skip


def transformers_tokenizer(_: Path) -> SharedObject:
    """An accelerated tokenizer of transformers, called with different options."""
    try:
        import tokenizers
        import transformers
    except ModuleNotFoundError as error:
        raise SkippedError(f"needs {error.name}") from None
    learned = bpe.train(texts=texts(0, 100), vocab_size=400, special_tokens=["<s>", "<pad>"], pretokenizer="gpt2")
    backend = tokenizers.Tokenizer.from_str(huggingface.Tokenizer(learned).to_str())
    kind: Any = transformers.PreTrainedTokenizerFast
    original = kind(tokenizer_object=backend, pad_token="<pad>", bos_token="<s>")
    fast = bpe.accelerate(original)
    text, long = "low <s>newest", " ".join(GIVEN[:5])
    ids = fast(long)["input_ids"]
    options: list[dict[str, Any]] = [
        {}, {"truncation": True, "max_length": 7},
        {"truncation": True, "max_length": 9, "return_offsets_mapping": True},
        {"padding": "max_length", "max_length": 20}, {"padding": True, "return_offsets_mapping": True},
        {"add_special_tokens": False, "padding": "max_length", "truncation": True, "max_length": 11},
    ]  # fmt: skip
    uses: dict[str, Callable[[Any], object]] = {
        "call": lambda rng: dict(fast(text, **rng)),
        "batch": lambda rng: dict(fast([text, long, ""], **rng)),
        "copies": lambda rng: [dict(copied(text, **rng)) for copied in make_copies(fast)],
    }
    return share_calls(make_uses(options, uses) | {
        "encode": lambda: fast.encode(long),
        "decode": lambda: [fast.decode(ids), fast.decode(ids, skip_special_tokens=True), fast.batch_decode([ids])],
        "names": lambda: [fast.vocab_size, len(fast), fast.convert_ids_to_tokens(ids[:4]), fast.all_special_tokens],
    })  # fmt: skip


# Functions ------------------------------------------------------------------------------------------------------------


def named_encodings(folder: Path) -> SharedObject:
    """`get_encoding` of both interfaces, and a folder for the cache that is filled and emptied meanwhile."""
    from inputs import VOCABULARIES  # here, since tests have another module `peers`, which it imports

    packed_file = VOCABULARIES / "r50k_base.tiktoken.gz"
    if not packed_file.exists():
        raise SkippedError("needs r50k_base.tiktoken.gz")
    os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
    (folder / "r50k_base.tiktoken").write_bytes(gzip.decompress(packed_file.read_bytes()))
    return share_calls({
        "get_encoding": lambda: bpe.get_encoding("r50k_base").encode("low lower"),
        "one object": lambda: bpe.get_encoding("r50k_base") is bpe.get_encoding("r50k_base"),
        "tiktoken": lambda: compat_tiktoken.get_encoding("r50k_base").encode("low lower"),
        "model": lambda: compat_tiktoken.encoding_for_model("davinci").name,
        "names": bpe.named.list_encoding_names,
        "unknown": lambda: bpe.get_encoding("none"),
    })  # fmt: skip


def functions(_: Path) -> SharedObject:
    """Functions with shared arguments: train with `on_merge`, extend, prune, evaluate, diff."""
    text_list = texts(3, 60)
    counts = bpe.count_words(texts=text_list)
    tok = bpe.train(counts=counts, vocab_size=400)
    used = tok.encode_batch(text_list)

    def watched() -> list[object]:
        watched_values: list[object] = []

        def on_merge(step: int, left: int, right: int, token: bytes, count: int) -> None:
            watched_values.append((step, left, right, token, count, tok.count_tokens("low lower"), counts["low"]))

        tokenizer: Any = bpe.train(counts=counts, vocab_size=300, on_merge=on_merge, threads=2)
        return [tokenizer.fingerprint, watched_values]

    return share_calls({
        "on_merge": watched,
        "train": lambda: bpe.train(texts=text_list, vocab_size=320, threads=2).fingerprint,
        "extend": lambda: bpe.extend(tok, counts=counts, vocab_size=420).fingerprint,
        "prune": lambda: tok.without_tokens(np.unique(used.ids))[0].fingerprint,
        "evaluate": lambda: str(bpe.evaluate(tok, texts=text_list, threads=2, resamples=20)),
        "count_words": lambda: dict(bpe.count_words(texts=text_list, threads=3).items()) == dict(counts.items()),
        "diff": lambda: str(bpe.diff(tok, tok)),
    })  # fmt: skip


def first_uses(folder: Path) -> SharedObject:
    """Objects that are made anew again and again, so that threads compute together what a first use computes."""
    tok = bpe.train(texts=texts(0, 100), vocab_size=400, special_tokens=["<|end|>"], pretokenizer="gpt2")
    shards = made_shards(folder)
    (folder / "codes").write_text("#version: 0.2\nl o\nlo w</w>\nlo w\ne r</w>\n")
    text = " ".join(GIVEN[:4]) + "<|end|>"

    def encode(subject: Any) -> object:
        return [subject.encode("low lower"), subject.encode(text, allowed_special="all")]

    uses: list[tuple[Any, Callable[[Any], object]]] = [
        (tok, encode),
        (
            tok,
            lambda subject: [
                subject.encode_with_offsets(text),
                subject.vocab(),
                stochastok(subject, subject.encode(text), seed=1),
            ],
        ),
        (
            tok,
            lambda subject: [
                subject.decode([260, 270, 0]),
                subject.fingerprint,
                subject.merges,
                subject.token_id(b"lo"),
            ],
        ),
        (
            huggingface.Tokenizer(tok),
            lambda subject: [subject.encode(text), subject.decode([260, 0]), subject.id_to_token(300)],
        ),
        (bpe.Pretokenizer.from_regex(r"\w+|\W"), lambda subject: subject.split(text)),
        (bpe.normalizers.Replace(r"(\w)\d+", "x"), lambda subject: subject(text)),
        (subword_nmt.BPE(folder / "codes"), lambda subject: subject.segment("low lower " * 30)),
        (
            shards,
            lambda subject: [subject.tokens(2900, 6100), subject.document(7), subject.documents_at(np.arange(99))],
        ),
        (Packed(shards, length=64, window=30), lambda subject: [subject[3], subject[4, 2]]),
        (Mixture([Blocks(shards, length=16), Packed(shards, length=16)]), lambda subject: [subject[3], subject[2, 5]]),
    ]
    pickled = [pickle.dumps(subject) for subject, _ in uses]
    expected = [get_outcome(partial(use, pickle.loads(data))) for data, (_, use) in zip(pickled, uses, strict=True)]
    shared = [pickle.loads(data) for data in pickled]

    def step(_: int, rng: random.Random) -> object:
        use_index = rng.randrange(len(uses))
        if rng.random() < 0.1:
            shared[use_index] = pickle.loads(pickled[use_index])
        got = get_outcome(partial(uses[use_index][1], shared[use_index]))
        return (
            ""
            if got == expected[use_index]
            else f"use {use_index} gave {got[:300]}, expected {expected[use_index][:300]}"
        )

    assert not any(result.startswith("TypeError") for result in expected), expected
    return SharedObject(step)


#: The objects by name.
CASES: dict[str, Callable[[Path], SharedObject]] = {
    "byte": partial(tokenizer, pretokenizer="o200k"),
    "uncached": partial(tokenizer, cache_memory=None, pretokenizer="gpt2"),
    "char": partial(tokenizer, model="char", unk_token="<unk>"),
    "regex": lambda folder: tokenizer(folder, pretokenizer=bpe.Pretokenizer.from_regex(r"\w+|\s|[^\w\s]+")),
    "superwords": partial(tokenizer, superwords=bpe.SuperWords(500), pretokenizer="gpt2"),
    "clip": partial(
        tokenizer, vocab_size=550, end_of_word="</w>", end_of_word_glued=True, normalizer="lower", pretokenizer="clip"
    ),
    "prompt_cache": prompt_cache,
    "pretokenizers": pretokenizers, "decoders": decoders, "arguments": callers_values, "word_counts": word_counts,
    "token_batch": token_batch, "sources": sources, "token_shards": token_shards, "blocks": blocks, "packed": packed,
    "mixture": mixture, "iterators": iterators, "streaming_encoder": streaming_encoder, "tiktoken": compat_encoding,
    "huggingface": compat_tokenizer, "added_tokens": added_tokens, "subword_nmt": subword_nmt_segmenter,
    "transformers": transformers_tokenizer, "named_encodings": named_encodings, "functions": functions,
    "first_uses": first_uses,
}  # fmt: skip
