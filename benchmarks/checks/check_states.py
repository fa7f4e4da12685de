"""Change what was saved so that it keeps its form: it is refused in words, or what it then gives is right.

    python benchmarks/checks/check_states.py [KIND …] [--count N] [--seed S]

A field of a loader's state, a manifest, a journal, a checkpoint or a compiled tokenizer is replaced, removed, doubled,
moved or set out of range, and checksums are made to fit; in a pickle, an argument of an instruction. What is then
accepted must give the documents, the tokenizer or the rows that the unchanged state gives, or those that the changed
one says. An error must be a ValueError, a TypeError or an OSError; from a pickle, whose contents nobody checks, any but
a SystemError will do. Each kind runs in a process of its own, within 2 GB, and no change may take more than 10 seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import faulthandler
import hashlib
import io
import itertools
import json
import logging
import pickle
import pickletools
import random
import shutil
import signal
import struct
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from check_damaged import SECONDS, TEXTS, limit_resources
from check_mutations import spoil, spoil_leaf
from comparing import make_parser, run_each

import bpe
from bpe.base._crc32 import crc32
from bpe.compat import huggingface, subword_nmt
from bpe.compat import tiktoken as compat_tiktoken
from bpe.data import (
    Blocks,
    Mixture,
    Packed,
    RowSampler,
    StreamingEncoder,
    TokenShards,
    convert_shards,
    encode_shards,
    journal,
    verify,
    write_shards,
)  # fmt: skip
from bpe.data.loaders.streaming import add_checksum

#: Errors that say what is wrong with a state.
REFUSALS = (ValueError, TypeError, OSError)
#: Errors that are faults from everything; TimeoutError is that of the alarm.
FAULTS = (AssertionError, SystemError, TimeoutError)
#: The most seconds of one process, beside a second for each change.
PATIENCE = 120.0
END = "<|end|>"
WORDS = ["low", "lower", "lowest", "newest", "naïve", "다람쥐", "wide", "wider", "widest", "0", "1", "22", "333\n"]


class Kind(NamedTuple):
    """A kind of saved state.

    Attributes:
        change: makes a changed state, with the random numbers given.
        use: uses one; raises AssertionError if what it gives is wrong.
        refusals: the errors that may refuse it.

    """

    change: Callable[[random.Random], Any]
    use: Callable[[Any], object]
    refusals: tuple[type[BaseException], ...] = REFUSALS


def make_texts(count: int) -> list[str]:
    """Make documents of different lengths."""
    rng = random.Random(31)
    return [" ".join(rng.choices(WORDS, k=rng.choice([0, 1, 3, 10, 50]))) for _ in range(count)]


def make_tokenizer() -> bpe.Tokenizer:
    """Train a small tokenizer."""
    return bpe.train(texts=make_texts(60), vocab_size=290, special_tokens=[END], pretokenizer="cl100k")


def read_files(folder: Path) -> dict[str, bytes]:
    """Read all files of a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# Loaders --------------------------------------------------------------------------------------------------------------


def make_rows(folder: Path) -> list[Any]:
    """Make loaders of rows."""
    write_shards([[*range(n % 7, n % 7 + 20 + n)] for n in range(12)], folder / "shards", shard_size=100)
    shards = TokenShards(folder / "shards")
    blocks, packed = Blocks(shards, length=8), Packed(shards, length=16)
    return [blocks, packed, Mixture([blocks, Blocks(shards, length=8, seed=3)], {0: [1, 2], 20: [2, 1]}, 4)]


def make_loader_kind(folder: Path) -> Kind:
    """States of loaders of rows: batches begin at the row that the state says."""
    loaders = make_rows(folder)

    def change(rng: random.Random) -> tuple[int, Any]:
        index = rng.randrange(len(loaders))
        return index, spoil(rng, loaders[index].state_at(rng.choice([0, 1, 30, 70])))

    def use(choice: tuple[int, Any]) -> None:
        loader, state = loaders[choice[0]], choice[1]
        sampler = RowSampler(loader, 2, epochs=None)
        batch = next(iter(loader.batches(2, state=state, epochs=None)))
        sampler.load_state_dict(state)
        row = state["epoch"] * len(loader) + state["position"]
        assert loader.state_at(row).items() <= state.items()
        expected = loader.read(np.arange(row, row + 2))
        assert batch.keys() == expected.keys()
        for name, array in expected.items():
            assert np.array_equal(batch[name], array), name
        assert next(iter(sampler)) == [divmod(row, len(loader)), divmod(row + 1, len(loader))]

    return Kind(change, use)


def make_stream_kind(folder: Path) -> Kind:
    """States of streams of rows of texts, with the checksum of the changed values in half of them."""
    path = folder / "texts.txt"
    path.write_text(END.join(make_texts(200)))
    tok = make_tokenizer()
    encoder = StreamingEncoder(bpe.Sources(path, separator=END), tok, length=16, append=END, threads=1)
    batches = encoder.batches(2, epochs=2)
    states: list[dict[str, Any]] = [batches.state_dict()]
    for index, _ in enumerate(batches):
        if index in (0, 5, 40):
            states.append(batches.state_dict())
    following = [take_ids(encoder, state) for state in states]

    def change(rng: random.Random) -> tuple[int, bool, Any]:
        index, has_checksum = rng.randrange(len(states)), rng.random() < 0.5
        state = spoil(rng, states[index])
        if has_checksum and isinstance(state, dict):
            with contextlib.suppress(TypeError, ValueError):  # keys of different types
                state = add_checksum({key: value for key, value in state.items() if key != "checksum"})
        return index, has_checksum, state

    def use(choice: tuple[int, bool, Any]) -> None:
        index, has_checksum, state = choice
        ids = take_ids(encoder, state)
        assert has_checksum or ids == following[index]
        assert all(0 <= token_id < tok.n_vocab for token_id in ids)

    return Kind(change, use)


def take_ids(encoder: Any, state: Any) -> list[int]:
    """Take the ids of a few batches after a state."""
    batches = islice(encoder.batches(2, state=state, epochs=2), 5)
    return [token_id for batch in batches for token_id in batch["input_ids"].ravel().tolist()]


# Shards ---------------------------------------------------------------------------------------------------------------


def make_manifest_kind(folder: Path) -> Kind:
    """Manifests of finished folders: documents stay whole, and files outside of the folder stay as they are."""
    tok = make_tokenizer()
    old, new = folder / "old.txt", folder / "new.txt"
    old.write_text(END.join(make_texts(40)))
    new.write_text(END.join(make_texts(4)))
    encode_shards(bpe.Sources(old, separator=END), tok, folder / "whole", shard_size=300, append=END, threads=1)
    documents = {tuple(row.tolist()) for row in TokenShards(folder / "whole").documents}
    manifest = json.loads((folder / "whole" / "manifest.json").read_bytes())
    out = folder / "inside" / "out"

    def use(value: Any) -> None:
        shutil.rmtree(folder / "inside", ignore_errors=True)
        shutil.copytree(folder / "whole", out)
        (out / "manifest.json").write_text(json.dumps(value))
        before = read_files(folder / "whole")
        errors = []
        for step in (
            lambda: read_documents(TokenShards(out), documents),
            lambda: verify(out, samples=3),
            lambda: convert_shards(out, folder / "inside" / "megatron", format="megatron"),
            lambda: encode_shards(
                bpe.Sources(new, separator=END), tok, out, shard_size=300, append=END, threads=1, extend=True
            ),
        ):
            try:
                step()
            except REFUSALS as error:  # noqa: PERF203
                errors.append(error)
        assert read_files(folder / "whole") == before
        assert {path.name for path in folder.iterdir()} == {"old.txt", "new.txt", "whole", "inside"}
        assert {path.name for path in out.parent.iterdir()} <= {"out", "megatron"}
        if errors:
            raise errors[0]
        names = value["shards"], value["tokenizer"]  # the options may say anything that is not read
        assert "../" not in json.dumps(names), "files outside of the folder were read"

    def change(rng: random.Random) -> Any:
        if rng.random() < 0.9:
            return spoil(rng, manifest)
        value = copy.deepcopy(manifest)
        file = rng.choice(rng.choice(value["shards"])["files"])
        file["name"] = f"../../whole/{file['name']}"  # which is there, and has the right content
        return value

    return Kind(change, use)


def read_documents(shards: TokenShards, documents: set[tuple[int, ...]]) -> None:
    """Read shards, which must have no other documents than these."""
    for row in shards.documents:
        assert tuple(row.tolist()) in documents, row


class StopError(Exception):
    """Ends a run."""


def make_journal_kind(folder: Path) -> Kind:
    """Journals of unfinished folders: the run is finished as an undisturbed one, or refused."""
    tok = make_tokenizer()
    path = folder / "texts.txt"
    path.write_text(END.join(make_texts(150)))
    ways: tuple[dict[str, Any], ...] = ({"shard_size": 400}, {"seed": 1, "shards": 3, "validation": 0.3})
    begun: list[tuple[dict[str, Any], Path, dict[str, bytes], list[Any]]] = []

    def encode(out: Path, way: dict[str, Any]) -> dict[str, bytes]:
        encode_shards(bpe.Sources(path, separator=END), tok, out, append=END, threads=1, **way)
        return read_files(out)

    for index, way in enumerate(ways):
        half, n_recorded = folder / f"half{index}", 0

        def stop(event: str) -> None:
            nonlocal n_recorded
            n_recorded += event == "recorded"
            if n_recorded == 2:
                raise StopError

        expected = encode(folder / f"whole{index}", way)
        journal.failpoint = stop
        with contextlib.suppress(StopError):
            encode(half, way)
        journal.failpoint = None
        lines = (half / journal.JOURNAL_NAME).read_bytes().splitlines()
        begun.append((way, half, expected, [journal._parse_record(line) for line in lines]))

    def change(rng: random.Random) -> tuple[int, list[Any]]:
        index = rng.randrange(len(begun))
        return index, spoil(rng, begun[index][3])

    def use(choice: tuple[int, list[Any]]) -> None:
        way, half, expected, _ = begun[choice[0]]
        out = folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(half, out)
        records = choice[1] if isinstance(choice[1], list) else []
        lines = [journal._format_line(record) for record in records if isinstance(record, dict)]
        (out / journal.JOURNAL_NAME).write_bytes(b"".join(lines))
        assert encode(out, way) == expected

    return Kind(change, use)


# Counts, checkpoints, tokenizers --------------------------------------------------------------------------------------


def seal(magic: bytes, header: object, data: bytes) -> bytes:
    """Make a sealed file (`bpe/count/sealed_files.py`), whose checksum fits."""
    text = json.dumps(header).encode()
    content = magic + b"\1\0\0\0" + len(text).to_bytes(8, "little") + text + data
    return content + hashlib.sha256(content).digest()


def unseal(content: bytes) -> tuple[bytes, Any, bytes]:
    """Divide a sealed file into its magic, header and data."""
    end = 20 + int.from_bytes(content[12:20], "little")
    return content[:8], json.loads(content[20:end]), content[end:-32]


def spoil_sealed(rng: random.Random, content: bytes) -> bytes:
    """Change the header or the data of a sealed file."""
    magic, header, data = unseal(content)
    if rng.random() < 0.6:
        return seal(magic, spoil(rng, header), data)
    return seal(magic, header, spoil_bytes(rng, data))


def spoil_bytes(rng: random.Random, data: bytes) -> bytes:
    """Change a byte or a number, or remove or repeat some."""
    offset, size = rng.randrange(len(data) + 1), rng.choice([1, 4, 8])
    number = rng.choice([0, 1, 255, 2**31, 2**32 - 1, 2**63, 2**64 - 1]) % 256**size
    middle: bytes = rng.choice([b"", data[offset : offset + size] * 2, number.to_bytes(size, "little")])
    return data[:offset] + middle + data[offset + size :]


def make_counts_kind(folder: Path) -> Kind:
    """Files of word counts: what loads is usable, and comes back equal."""
    path = folder / "words.counts"
    bpe.count_words(texts=make_texts(50), special_tokens=[END]).save(path)
    content = path.read_bytes()

    def use(changed: bytes) -> None:
        path.write_bytes(changed)
        counts = bpe.WordCounts.load(path)
        assert len(counts) == unseal(changed)[1]["words"]
        assert sum(count for _, count in counts.items()) == counts.total
        assert len(dict(counts.items())) == len(counts)
        counts.add("low lower")
        counts.save(path)
        assert bpe.WordCounts.load(path) == counts
        bpe.train(counts=counts, num_merges=5)

    return Kind(lambda rng: spoil_sealed(rng, content), use)


def make_checkpoint_kind(folder: Path) -> Kind:
    """Checkpoints of training: the training ends with the tokenizer of an undisturbed one, or is refused."""
    text, path = folder / "text.txt", folder / "checkpoint"
    text.write_text(" ".join(make_texts(80)))

    def train() -> bpe.Tokenizer:
        return bpe.train(files=[text], vocab_size=280, checkpoint=path, threads=1)

    def stop(index: int, *_: object) -> None:
        if index == 12:
            raise StopError

    expected = train()
    files: list[dict[str, bytes]] = []
    for step in ("begun", "half"):
        for name in folder.glob("checkpoint*"):
            name.unlink()
        with contextlib.suppress(StopError):
            bpe.train(
                files=[text], vocab_size=280, checkpoint=path, threads=1, on_merge=stop if step == "half" else None
            )
        files.append({name.name: name.read_bytes() for name in folder.glob("checkpoint*")})

    def change(rng: random.Random) -> dict[str, bytes]:
        contents = dict(rng.choice([each for each in files if each]))
        name = rng.choice(sorted(contents))
        return {**contents, name: spoil_sealed(rng, contents[name])}

    def use(contents: dict[str, bytes]) -> None:
        for old in folder.glob("checkpoint*"):
            old.unlink()
        for name, content in contents.items():
            (folder / name).write_bytes(content)
        assert train() == expected

    return Kind(change, use)


def make_compiled_kind(folder: Path) -> Kind:
    """Compiled tokenizers whose sizes and checksum fit: what loads encodes, and its ids are those of its vocabulary."""
    tok = make_tokenizer()
    path = folder / "t.compiled"
    originals = []
    for tokenizer in (tok, bpe.Tokenizer(bpe.Tokenizer.load(write_json(tok, folder)).spec)):
        tokenizer.save(path, format="compiled")
        originals.append(path.read_bytes())
    limits = [0, 1, 2, 200, 289, 290, 291, 2**31 - 1, 2**32 - 1]

    def change(rng: random.Random) -> bytes:
        content = rng.choice(originals)
        n_ids, n_merges, n_unmerged, n_bytes, n_settings = struct.unpack_from("<5I", content, 16)
        sizes = [8 * (n_ids + 1), 8 * n_merges, 4 * n_merges, 4 * max(n_unmerged - 1, 0), n_ids, n_bytes, n_settings]
        ends = np.cumsum([40, *sizes]).tolist()
        sections = [content[start:end] for start, end in pairwise(ends)]
        index = rng.choice([index for index, section in enumerate(sections) if section])
        width = (8, 4, 4, 4, 1, 1, 1)[index]
        offset = width * rng.randrange(len(sections[index]) // width)
        number = rng.choice(limits) if width > 1 else rng.choice([0, 1, 2, 3, 10, 32, 128, 255])
        old = sections[index]
        if index == len(sections) - 1:
            lines = old.split(b"\n")
            sections[index] = rng.choice([
                old.replace(b"{}", b"[]", 1), b"\n".join([*lines[:-1], rng.choice(lines), b""]),
                b"\n".join(line for line in lines if rng.random() < 0.8), spoil_bytes(rng, old),
            ])  # fmt: skip
        elif rng.random() < 0.7:
            sections[index] = old[:offset] + number.to_bytes(width, "little") + old[offset + width :]
        else:
            other = width * rng.randrange(len(old) // width)
            sections[index] = old[:offset] + old[other : other + width] + old[offset + width :]
        header = struct.pack("<6I4x", 2, n_ids, n_merges, n_unmerged, len(sections[5]), len(sections[6]))
        body = header + b"".join(sections)
        return content[:8] + struct.pack("<I", crc32(body)) + body

    def use(content: bytes) -> None:
        path.write_bytes(content)
        loaded = bpe.Tokenizer.load(path)
        use_tokenizer(loaded)
        loaded.save(path, format="compiled")
        assert bpe.Tokenizer.load(path) == loaded

    return Kind(change, use)


def write_json(tok: bpe.Tokenizer, folder: Path) -> Path:
    """Write a tokenizer.json whose settings are not plain."""
    path = folder / "tokenizer.json"
    tok.with_tokens(added=["<new>", "wide r"]).save(path)
    value = json.loads(path.read_bytes())
    value["normalizer"] = {"type": "NFC"}
    path.write_text(json.dumps(value))
    return path


def use_tokenizer(tok: bpe.Tokenizer) -> None:
    """Encode and decode. Without tokens of some bytes, these are left out of what is encoded, as `tokenizers` does."""
    is_whole = tok.normalizer is None and len({*tok.vocab()} & {bytes([byte]) for byte in range(256)}) == 256
    for text in (*TEXTS, *make_texts(6)):
        with contextlib.suppress(ValueError):
            ids = tok.encode(text, allowed_special="all")
            data = b"".join(tok.token_bytes(token_id) for token_id in ids.tolist())
            assert not is_whole or data == text.encode(), text
            assert tok.decode_bytes(ids) == data
            assert np.array_equal(tok.encode_batch([text], allowed_special="all").ids, ids)


# Pickles --------------------------------------------------------------------------------------------------------------


class ArrayPickler(pickle.Pickler):
    """Writes arrays as their bytes and dtype: NumPy's own states, when changed, do damage within NumPy."""

    def reducer_override(self, value: object) -> Any:
        """Return how to make an array anew."""
        if type(value) is np.ndarray:
            return read_array, (value.tobytes(), value.dtype.str, value.shape)
        return NotImplemented


def read_array(data: bytes, dtype: str, shape: tuple[int, ...]) -> Any:
    """Make an array of its bytes."""
    return np.frombuffer(data, dtype).reshape(shape).copy()


def dump(value: object) -> bytes:
    """Pickle a value, without frames, whose lengths would not fit what is changed in them."""
    file = io.BytesIO()
    ArrayPickler(file, protocol=4).dump(value)
    content = file.getvalue()
    positions = [int(position or 0) for code, _, position in pickletools.genops(content) if code.name == "FRAME"]
    for position in reversed(positions):
        content = content[:position] + content[position + 9 :]
    return content


class SafeUnpickler(pickle.Unpickler):
    """Loads only what pickles of this package name, so that no changed name calls something else."""

    def find_class(self, module: str, name: str) -> Any:
        """Find a class or function of this package or NumPy."""
        if module.split(".")[0] in ("bpe", "numpy", "tokenizers") or name == "read_array" or (module, name) in (
            ("builtins", "set"), ("builtins", "frozenset"), ("builtins", "bytearray"), ("fractions", "Fraction"),
            ("collections", "OrderedDict"), ("copyreg", "_reconstructor"), ("builtins", "object"),
            ("functools", "partial"), ("_codecs", "encode"), ("pathlib", "PosixPath"), ("array", "array"),
            ("types", "MappingProxyType"), ("operator", "attrgetter"),
        ):  # fmt: skip
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name}")


#: Instructions whose arguments are changed, and how a changed argument is written.
NUMBERS = ("BININT", "BININT1", "BININT2", "LONG1")
STRINGS = ("SHORT_BINUNICODE", "BINUNICODE")
OTHER_VALUES = ("NEWTRUE", "NEWFALSE", "NONE", "BINFLOAT", "EMPTY_LIST", "EMPTY_DICT", "EMPTY_TUPLE")
BYTES = ("SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "BYTEARRAY8")


def write_instruction(rng: random.Random, name: str, argument: Any, code: bytes) -> bytes:
    """Write an instruction of a pickle with another argument, where its kind is known."""
    if name in (*NUMBERS, *OTHER_VALUES):
        value = argument if name in NUMBERS else {"NEWTRUE": True, "NEWFALSE": False}.get(name)
        return pickle.dumps(spoil_leaf(rng, value), protocol=3)[2:-1]
    if name in STRINGS:
        text: str = rng.choice([argument + "x", argument[1:], argument.upper(), "", "\0"])
        data = text.encode("utf-8", "surrogatepass")
        return b"X" + struct.pack("<I", len(data)) + data
    if name in BYTES:
        data = spoil_bytes(rng, bytes(argument))
        return b"B" + struct.pack("<I", len(data)) + data
    changed: bytes = rng.choice([b"", code, code * 2])
    return changed


def change_pickle(rng: random.Random, content: bytes) -> bytes:
    """Change one instruction of a pickle without frames."""
    instructions = list(pickletools.genops(content))
    ends = [*(position for *_, position in instructions[1:]), len(content)]
    usual = [index for index, (code, *_) in enumerate(instructions) if code.name in (*NUMBERS, *STRINGS, *BYTES)]
    index = rng.choice(usual) if usual and rng.random() < 0.8 else rng.randrange(1, len(instructions) - 1)
    code, argument, position = instructions[index]
    start = int(position or 0)
    written = write_instruction(rng, code.name, argument, content[start : ends[index]])
    return content[:start] + written + content[int(ends[index] or 0) :]


def make_pickle_kind(folder: Path) -> Kind:
    """Pickles of every class: no crash, neither by loading one nor by using what was loaded."""
    tok = make_tokenizer()
    decoder = tok.decoder()
    decoder.push(tok.encode("naïve")[:3])
    peer = huggingface.Tokenizer(tok)
    blocks, packed, mixture = make_rows(folder)
    (folder / "codes").write_text("#version: 0.2\nl o\nlo w</w>\ne r</w>\n")
    ranked = bpe.train(texts=make_texts(60), vocab_size=290)
    ranks = {ranked.token_bytes(index): index for index in range(ranked.n_vocab)}
    encoding = compat_tiktoken.Encoding("x", pat_str=r"\w+|\W", mergeable_ranks=ranks, special_tokens={})
    objects: list[tuple[Any, Callable[[Any], object]]] = [
        (tok, use_tokenizer),
        (tok.spec, lambda spec: use_tokenizer(bpe.Tokenizer(spec))),
        (tok.pretokenizer, lambda pretokenizer: [pretokenizer.split(text) for text in TEXTS]),
        (bpe.Pretokenizer.from_regex(r"\w+|\W"), lambda pretokenizer: [pretokenizer.split(text) for text in TEXTS]),
        (bpe.count_words(texts=make_texts(20)), lambda counts: (len(dict(counts.items())), counts.most_common(3))),
        (
            tok.encode_batch(make_texts(9)),
            lambda batch: (batch.to_list(), tok.decode_batch(batch), batch.padded(99, 0)),
        ),
        (decoder, lambda copied: (copied.push(tok.encode("low")), copied.flush())),
        (bpe.PromptCache(tok), lambda cache: cache.encode("low " * 300)),
        (peer, lambda copied: (copied.encode("low lower").ids, copied.decode([70, 71]))),
        (peer.encode("low", "lower"), lambda encoding: (encoding.ids, encoding.char_to_token(1), encoding.offsets)),
        (encoding, lambda copied: copied.decode(copied.encode("low lower"))),
        (bpe.normalizers.Replace("x", "y"), lambda normalizer: normalizer("axb")),
        (blocks, lambda rows: (rows[0], next(iter(rows.batches(2))))),
        (packed, lambda rows: (rows[0], next(iter(rows.batches(2))))),
        (blocks.batches(2), lambda batches: list(itertools.islice(batches, 200))),  # a changed one may have no end
        (mixture, lambda rows: (rows[0], next(iter(rows.batches(2))))),
        (TokenShards(folder / "shards"), lambda shards: (shards.document(3), shards.tokens(5, 30))),
        (subword_nmt.BPE(folder / "codes"), lambda segmenter: segmenter.segment("low lower")),
        (
            bpe.normalizers.Sequence(bpe.normalizers.NFC(), bpe.normalizers.Lowercase()),
            lambda normalizer: normalizer("Low\u0301"),
        ),
        (
            bpe.Tokenizer(bpe.train(texts=TEXTS, vocab_size=290, pretokenizer=[bpe.pretokenizers.Digits()]).spec),
            use_tokenizer,
        ),
        (bpe.data.map_function(tok, "text"), lambda function: function({"text": TEXTS})),
        (bpe.Sources(__file__), lambda sources: list(sources.documents())),
    ]
    contents = [dump(value) for value, _ in objects]

    def use(choice: tuple[int, bytes]) -> None:
        with contextlib.suppress(AssertionError):  # a tokenizer of other contents
            objects[choice[0]][1](SafeUnpickler(io.BytesIO(choice[1])).load())

    def change(rng: random.Random) -> tuple[int, bytes]:
        index = rng.randrange(len(objects))
        return index, change_pickle(rng, contents[index])

    for index, content in enumerate(contents):
        use((index, content))
    return Kind(change, use, (Exception,))


# The check ------------------------------------------------------------------------------------------------------------

KINDS: dict[str, Callable[[Path], Kind]] = {
    "loaders": make_loader_kind,
    "streams": make_stream_kind,
    "manifests": make_manifest_kind,
    "journals": make_journal_kind,
    "counts": make_counts_kind,
    "checkpoints": make_checkpoint_kind,
    "compiled": make_compiled_kind,
    "pickles": make_pickle_kind,
}


def check(name: str, count: int, seed: int) -> tuple[int, list[str]]:
    """Change the states of a kind: (how many were accepted, what was wrong)."""
    faults: list[str] = []
    n_accepted = 0
    with tempfile.TemporaryDirectory() as folder, quiet(), limit_resources():
        kind = KINDS[name](Path(folder))
        for index in range(count):
            rng = random.Random(f"{name} {seed} {index}")
            changed = kind.change(rng)
            signal.alarm(SECONDS)
            try:
                kind.use(changed)
                n_accepted += 1
            except Exception as error:  # noqa: BLE001 (what is no refusal is a fault, and shown)
                is_refusal = isinstance(error, kind.refusals) and not isinstance(error, (SystemError, TimeoutError))
                if (
                    isinstance(error, AssertionError)
                    or not is_refusal
                    or (kind.refusals == REFUSALS and not str(error))
                ):
                    faults.append(f"change {index}: {repr(changed)[:600]}\n{traceback.format_exc(limit=-5)}")
            finally:
                signal.alarm(0)
    return n_accepted, faults


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Show no warnings and no log."""
    logging.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def main() -> int:
    """Run the checks."""
    parser = make_parser(__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"default all: {', '.join(KINDS)}")
    parser.add_argument("--count", type=int, default=2000, help="changes of each kind (default 2,000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--in-process", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if unknown := set(options.kinds) - KINDS.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}; the kinds are {', '.join(KINDS)}")
    if not options.in_process:
        arguments = [f"--count={options.count}", f"--seed={options.seed}"]
        return run_each(__file__, options.kinds or list(KINDS), arguments, PATIENCE + options.count)
    faulthandler.enable()
    n_accepted, faults = check(options.kinds[0], options.count, options.seed)
    for fault in faults[:10]:
        print(f"{options.kinds[0]}: {fault}", flush=True)
    print(f"{options.kinds[0]}: {options.count} changes, {n_accepted} accepted, {len(faults)} faults", flush=True)
    return min(len(faults), 1)


if __name__ == "__main__":
    sys.exit(main())
