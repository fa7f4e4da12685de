"""Measure the memory and the time of every reader on the worst files of its format.

    python benchmarks/reliability/check_budgets.py [CASE …] [--megabytes 16]

Each case writes a file that is made to take much: compressed text, deep nesting, as many tiny values as fit, numbers
that declare more than there is. A process of its own then reads it. It may take at most 4 times the size of the file
and 64 MB, or as much as the named limit of its row allows, and a second of processor time for each MB.
"""

from __future__ import annotations

import argparse
import base64
import bz2
import gzip
import importlib
import json
import logging
import lzma
import pickle
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import bpe
from bpe.data.journal import JOURNAL_NAME

MB = 1 << 20
#: What each case may take beside 4 times the file, in MB.
ALLOWANCE = 64
#: The most seconds of one case.
PATIENCE = 600


class Case(NamedTuple):
    """A file, and what reads it.

    Attributes:
        name: the name of the file.
        make: makes its content, of about so many bytes.
        read: reads it; a ValueError or an OSError is a refusal.
        limit_name: the named limit that bounds what takes more than 4 times the file and 64 MB.
        times: how many times the file that is then at most.
        most: how many MB beside that.

    """

    name: str
    make: Callable[[int], bytes]
    read: Callable[[Path], object]
    limit_name: str = ""
    times: int = 4
    most: int = ALLOWANCE


def repeat(unit: bytes, size: int, before: bytes = b"", after: bytes = b"") -> bytes:
    """Repeat a unit up to a size."""
    return before + unit * max(1, (size - len(before) - len(after)) // len(unit)) + after


def join_numbered(unit: str, size: int, before: str = "", after: str = "") -> bytes:
    """Join units with numbers from 0 on, up to a size; `{}` in the unit is the number."""
    parts, total, index = [before], len(before), 0
    while total < size:
        parts.append(unit.format(index))
        total += len(parts[-1])
        index += 1
    return ("".join(parts).rstrip(",") + after).encode()


def number_field(field: int, content: bytes) -> bytes:
    """Make a field of protocol buffers."""
    size, head = len(content), bytes([field << 3 | 2])
    while size >= 128:
        head, size = head + bytes([size & 127 | 128]), size >> 7
    return head + bytes([size]) + content


def make_gguf(item_type: int, item: bytes, size: int) -> bytes:
    """Make a GGUF file with one array."""
    count = min(size // len(item), 1 << 24)
    strings = [
        struct.pack("<Q", len(text)) + text for text in (b"tokenizer.ggml.model", b"gpt2", b"tokenizer.ggml.tokens")
    ]
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + strings[0] + struct.pack("<I", 8) + strings[1] + strings[2]
    return head + struct.pack("<IIQ", 9, item_type, count) + item * count


def make_counts(size: int) -> bytes:
    """Make a file of counts of distinct words of three bytes or so, each with a length and a count of one byte."""
    states = load_harness("check_states")
    n = size // 5
    words = b"".join(index.to_bytes(3, "little") for index in range(n))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "words.counts"
        bpe.count_words(texts=["a"]).save(path)
        magic, header, _ = states.unseal(path.read_bytes())
    header |= {"words": n, "bytes": len(words), "lengths": "|u1", "counts": "|u1"}
    sealed: bytes = states.seal(magic, header, b"\3" * n + b"\1" * n + words)
    return sealed


def make_checkpoint(size: int, *, of_merges: bool) -> bytes:
    """Make a checkpoint of training with many merges, or with a header of empty lists."""
    states = load_harness("check_states")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint"
        bpe.train(texts=["low lower"], vocab_size=258, checkpoint=path)
        magic, header, _ = states.unseal(path.read_bytes())
    n_merges = size // 32 if of_merges else 0
    header |= {"merges": n_merges} | ({} if of_merges else {"x": [[]] * (size // 4)})
    sealed: bytes = states.seal(magic, header, np.ones(4 * n_merges, dtype="<i8").tobytes())
    return sealed


def make_journal(size: int, *, in_one_line: bool) -> bytes:
    """Make a journal of shards with a line of empty lists, or with many short lines."""
    journal: Any = importlib.import_module("bpe.data.journal")
    record = {"version": journal.VERSION, "x": [[]] * (size // 3 if in_one_line else 1)}
    line: bytes = journal._format_line(record)
    return line * max(1, size // len(line))


def resume_training(path: Path) -> object:
    """Train with the checkpoint."""
    return bpe.train(texts=["low lower"], vocab_size=258, checkpoint=path).vocab_size


def resume_shards(path: Path) -> object:
    """Write shards where a run was interrupted."""
    tok = bpe.train(texts=["low lower"], vocab_size=258)
    text = write_beside(path, "text.txt", TEXT)
    (path.parent / "out").mkdir()
    path.rename(path.parent / "out" / path.name)
    return bpe.data.encode_shards(text, tok, path.parent / "out", threads=1)


def make_pickle(size: int) -> bytes:
    """Pickle a tokenizer of many tokens."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.tiktoken"
        path.write_bytes(make_ranks(size))
        return pickle.dumps(load_encoding(path))


def make_columns(size: int, kind: str, ending: str = ".parquet", **options: Any) -> bytes:
    """Make a Parquet or Arrow file with some short texts, and then one long text that 200 rows repeat."""
    import pyarrow as pa

    text, rows = "low " * (size // 16), [0] * 500 + [1] * 200
    if kind == "string_view":
        buffer = pa.py_buffer(text.encode())
        views = np.tile(
            np.array([len(buffer), int.from_bytes(b"low ", "little"), 0, 0], dtype=np.int32), (len(rows), 1)
        )
        texts = pa.Array.from_buffers(pa.string_view(), len(rows), [None, pa.py_buffer(views), buffer])
    else:
        texts = pa.DictionaryArray.from_arrays(pa.array(rows, pa.int32()), pa.array(["low", text]))
        texts = texts if kind == "dictionary" else texts.cast(kind)
    table = pa.table({"text": texts})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"
        if ending == ".parquet":
            pq = importlib.import_module("pyarrow.parquet")
            pq.write_table(table, path, row_group_size=len(rows), **options)
        else:
            with pa.ipc.new_file(str(path), table.schema) as writer:
                writer.write_table(table)
        return path.read_bytes()


def make_compressed_arrow(size: int) -> bytes:
    """Make an Arrow file of one text, compressed, with 144 times the size: more than is unpacked at once."""
    import pyarrow as pa

    table = pa.table({"text": pa.array(["low " * (36 * size)], pa.large_string())})
    out = pa.BufferOutputStream()
    with pa.ipc.new_file(out, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    data: bytes = out.getvalue().to_pybytes()
    return data


def make_zstd(text: bytes) -> bytes:
    """Compress with the largest window."""
    zstd: Any = importlib.import_module("backports.zstd")
    options = {zstd.CompressionParameter.window_log: 27, zstd.CompressionParameter.compression_level: 1}
    compressed: bytes = zstd.compress(text, options=options)
    return compressed


def make_tokenizer_json(**changes: bytes) -> bytes:
    """Make a tokenizer.json of a trained tokenizer, with some values replaced by JSON."""
    tok = bpe.train(texts=["low lower"] * 3, vocab_size=260)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokenizer.json"
        tok.save(path)
        value = json.loads(path.read_bytes())
    text = json.dumps({**value, **{name: f"@{name}@" for name in changes}}).encode()
    for name, content in changes.items():
        text = text.replace(f'"@{name}@"'.encode(), content)
    return text


def load_harness(name: str) -> Any:
    """Import a module of `benchmarks/checks`."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "checks"))
    return importlib.import_module(name)


def load(path: Path) -> object:
    """Load a tokenizer."""
    return bpe.Tokenizer.load(path)


def count(path: Path) -> object:
    """Count the words of a file."""
    return len(bpe.count_words(files=[path], threads=2))


def count_records(path: Path) -> object:
    """Count the words of the field `text`."""
    return len(bpe.count_words(files=bpe.Sources(path, field="text"), threads=2))


def load_encoding(path: Path) -> object:
    """Load a rank file."""
    return bpe.Tokenizer.from_tiktoken(path, "cl100k")


def encode_at_once(path: Path) -> object:
    """Load a tokenizer and encode with it, so that its regular expressions are compiled."""
    return len(bpe.Tokenizer.load(path).encode("low lower " * 9))


def write_beside(path: Path, name: str, content: bytes) -> Path:
    """Write another file of the same folder."""
    (path.parent / name).write_bytes(content)
    return path.parent / name


def make_ranks(size: int) -> bytes:
    """Make a rank file of distinct tokens of three bytes, after all bytes."""
    tokens = [bytes([byte]) for byte in range(256)] + [index.to_bytes(3, "big") for index in range(size // 12)]
    return b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(tokens))


def make_pieces(size: int) -> bytes:
    """Make a model of sentencepiece with distinct pieces of two or three letters."""
    letters = [chr(0x3400 + index) for index in range(1000)]
    pieces = (letters[index % 1000] + letters[index // 1000 % 1000] for index in range(size // 10))
    return MODEL_PIECE + b"".join(number_field(1, number_field(1, piece.encode())) for piece in pieces) + MODEL_SETTINGS


#: The first piece of a model of sentencepiece, and its settings: of type BPE.
MODEL_PIECE = number_field(1, number_field(1, b"<unk>") + b"\x15\0\0\0\0\x18\2")
MODEL_SETTINGS = number_field(2, b"\x18\2") + number_field(3, b"")
TEXT = b"low lower lowest newest widest\n"
#: The limit of files that are read whole, and how many times their size the objects of the tiniest values take.
WHOLE: tuple[str, int] = ("base.utf8.max_file_bytes", 45)
#: The limits of what is unpacked; a text of a corpus, and a word, is held whole, so its unpacked size counts.
UNPACKED: tuple[str, int, int] = ("formats.packed.max_unpacked", 4, 64 + 320)
WINDOW: tuple[str, int, int] = ("corpus.streams.max_window_bytes", 4, 64 + 256)
ONE_TEXT: tuple[str, int, int] = ("corpus.streams.max_unpacked_bytes", 4, 64 + 4 * 256)
ITEMS: tuple[str, int] = ("formats.gguf.header.max_items", 12)
JOURNAL: tuple[str, int] = ("data.journal.max_journal_bytes", 45)
ROW: tuple[str, int] = ("corpus.delimited.max_row_bytes", 15)
#: The limits of Parquet and Arrow: what is read ahead; texts that are decoded at once; a page beside its texts.
AHEAD: tuple[str, int, int] = ("16 MB of arrays are read ahead", 4, 64 + 32)
DECODED: tuple[str, int, int] = ("corpus.page_headers.max_decoded_bytes", 4, 64 + 2048)
PAGE: tuple[str, int, int] = ("corpus.page_headers.max_page_bytes", 4, 64 + 2 * 1024)
WORDS: tuple[str, int] = ("count.sealed_files.max_words", 35)
CASES: dict[str, Case] = {
    # Tokenizers: JSON
    "JSON, nested": Case("tokenizer.json", lambda size: b"[" * size, load),
    "JSON, empty lists": Case("tokenizer.json", lambda size: repeat(b"[],", size, b'{"x":[', b"0]}"), load, *WHOLE),
    "JSON, small objects": Case(
        "tokenizer.json", lambda size: repeat(b'{"a":0},', size, b'{"x":[', b"0]}"), load, *WHOLE
    ),
    "JSON, different keys": Case(
        "tokenizer.json", lambda size: join_numbered('"{0}":0,', size, '{"x":{', "}}"), load, *WHOLE
    ),
    "JSON, escapes": Case("tokenizer.json", lambda size: repeat(b"\\u0041", size, b'{"x":"', b'"}'), load),
    "JSON, one wide character": Case(
        "tokenizer.json", lambda size: repeat(b"a", size, b'{"x":"\xf0\x9f\x98\x80', b'"}'), load, *WHOLE
    ),
    "tokenizer.json, many tokens": Case(
        "tokenizer.json",
        lambda size: make_tokenizer_json(
            model=join_numbered('"{0}":{0},', size, '{"type":"BPE","vocab":{', '},"merges":[]}')
        ),
        load, *WHOLE,
    ),
    "tokenizer.json, many merges": Case(
        "tokenizer.json",
        lambda size: make_tokenizer_json(
            model=repeat(b'"a b",', size, b'{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":[', b'"a b"]}')
        ),
        load, *WHOLE,
    ),
    "tokenizer.json, merges as lists": Case(
        "tokenizer.json",
        lambda size: make_tokenizer_json(
            model=repeat(b'["a","b"],', size, b'{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":[', b'["a","b"]]}'),
        ),
        load, *WHOLE,
    ),
    "tokenizer.json, added tokens": Case(
        "tokenizer.json",
        lambda size: make_tokenizer_json(
            added_tokens=join_numbered(
                '{{"id":{0},"content":"<{0}>","special":true,"single_word":false,"lstrip":false,"rstrip":false,'
                '"normalized":false}},',
                size, "[", "]",
            ),
        ),
        load, *WHOLE,
    ),
    "tokenizer.json, nested repeats": Case(
        "tokenizer.json",
        lambda _: make_tokenizer_json(
            pre_tokenizer=json.dumps({
                "type": "Split", "pattern": {"Regex": "(?:" * 20 + "a{1,1000}" + "){1,1000}" * 20},
                "behavior": "Isolated", "invert": False,
            }).encode(),
        ),
        encode_at_once,
    ),
    "tokenizer.json, long pattern": Case(
        "tokenizer.json",
        lambda size: make_tokenizer_json(
            pre_tokenizer=json.dumps({
                "type": "Split", "pattern": {"Regex": "|".join(f"a{i}" for i in range(size // 7))},
                "behavior": "Isolated", "invert": False,
            }).encode(),
        ),
        encode_at_once,
    ),
    "vocab.json, many tokens": Case(
        "vocab.json", lambda size: join_numbered('"{0}":{0},', size, "{", "}"),
        lambda path: bpe.Tokenizer.from_vocab_merges(path, write_beside(path, "merges.txt", b"#version\n"), "gpt2"),
        *WHOLE,
    ),
    "merges.txt, many merges": Case(
        "merges.txt", lambda size: repeat(b"a b\n", size, b"#version: 0.2\n"),
        lambda path: bpe.Tokenizer.from_vocab_merges(
            write_beside(path, "vocab.json", b'{"a":0,"b":1,"ab":2}'), path, "gpt2"
        ),
        *WHOLE,
    ),
    "tekken.json, many tokens": Case(
        "tekken.json",
        lambda size: join_numbered(
            '{{"rank":{0},"token_bytes":"AAAA"}},', size,
            '{"config":{"pattern":"a","default_num_special_tokens":0,"default_vocab_size":300},"vocab":[', "]}",
        ),
        load, *WHOLE,
    ),
    # Tokenizers: other formats
    "rank file, gzip": Case(
        "x.tiktoken", lambda size: gzip.compress(repeat(b"YQ== 0\n", 64 * size), 9), load_encoding, *UNPACKED
    ),
    "rank file, gzip, empty members": Case(
        "x.tiktoken", lambda size: repeat(gzip.compress(b""), size), load_encoding, *UNPACKED
    ),
    "rank file, many tokens": Case("x.tiktoken", make_ranks, load_encoding, *WHOLE),
    "rank file, one line": Case("x.tiktoken", lambda size: repeat(b"A", size, b"", b" 0\n"), load_encoding),
    "CLIP's list, gzip": Case(
        "clip.txt.gz", lambda size: gzip.compress(repeat(b"a b\n", 64 * size), 9),
        lambda path: bpe.Tokenizer.from_clip(path, ftfy=False), *UNPACKED,
    ),
    "codes, many merges": Case(
        "codes", lambda size: join_numbered("{0} a\n", size, "#version: 0.2\nl o</w>\n"), load, *WHOLE
    ),
    "sentencepiece, empty pieces": Case(
        "x.model", lambda size: repeat(b"\n\0", size, MODEL_PIECE, MODEL_SETTINGS), load, *WHOLE
    ),
    "sentencepiece, many pieces": Case("x.model", make_pieces, load, *WHOLE),
    "sentencepiece, declared size": Case("x.model", lambda _: MODEL_PIECE + b"\n\xff\xff\xff\xff\x0f", load),
    "GGUF, bytes as tokens": Case("x.gguf", lambda size: make_gguf(0, b"\1", size), load, *ITEMS),
    "GGUF, short strings": Case("x.gguf", lambda size: make_gguf(8, struct.pack("<Q", 2) + b"ab", size), load, *ITEMS),
    "GGUF, declared count": Case("x.gguf", lambda _: make_gguf(8, b"\xff" * 8, 64), load),
    "compiled, declared sizes": Case("x.compiled", lambda _: b"BPECOMP\0" + b"\xff" * 64, load),
    # Counts, ids, shards
    "counts, short words": Case("x.counts", make_counts, bpe.WordCounts.load, *WORDS),
    "counts as text": Case(
        "x.txt", lambda size: join_numbered("{0}\t1\n", size),
        lambda path: bpe.WordCounts.from_text(path, "whitespace"), *WORDS,
    ),
    "checkpoint, many merges": Case(
        "checkpoint", lambda size: make_checkpoint(size, of_merges=True), resume_training
    ),
    "checkpoint, header": Case(
        "checkpoint", lambda size: make_checkpoint(size, of_merges=False), resume_training, *WHOLE
    ),
    "journal, one line": Case(JOURNAL_NAME, lambda size: make_journal(size, in_one_line=True), resume_shards, *JOURNAL),
    "journal, short lines": Case(
        JOURNAL_NAME, lambda size: make_journal(size, in_one_line=False), resume_shards, *JOURNAL
    ),
    "pickle of a tokenizer": Case(
        "tok.pickle", make_pickle, lambda path: pickle.loads(path.read_bytes()), "pickles are trusted", 20
    ),
    "manifest": Case(
        "manifest.json", lambda size: repeat(b"[],", size, b'{"x":[', b"0]}"),
        lambda path: bpe.data.TokenShards(path.parent), *WHOLE,
    ),
    # Corpora
    "text, gzip": Case("x.txt.gz", lambda size: gzip.compress(repeat(TEXT, 64 * size), 9), count),
    "text, bz2": Case("x.txt.bz2", lambda size: bz2.compress(repeat(TEXT, 8 * size)), count),
    "text, xz, large window": Case(
        "x.txt.xz",
        lambda size: lzma.compress(
            repeat(TEXT, 16 * size), filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 28, "preset": 0}]
        ),
        count, *WINDOW,
    ),
    "text, zstd, large window": Case("x.txt.zst", lambda size: make_zstd(repeat(TEXT, 64 * size)), count, *WINDOW),
    "text, gzip, one word": Case("x.txt.gz", lambda size: gzip.compress(b"a" * (16 * size), 9), count, *ONE_TEXT),
    "JSON Lines, gzip, one line": Case(
        "x.jsonl.gz", lambda size: gzip.compress(repeat(b"low ", 16 * size, b'{"text":"', b'"}\n'), 9), count_records,
        *ONE_TEXT,
    ),
    "JSON Lines, nested": Case("x.jsonl", lambda size: repeat(b"[", size, b'{"text":"a","x":', b"\n"), count_records),
    "JSON Lines, small values": Case(
        "x.jsonl", lambda size: repeat(b"[],", size, b'{"x":[', b'0],"text":"a"}\n'), count_records
    ),
    "CSV, one row": Case("x.csv", lambda size: repeat(b'""', size, b'text\n"', b'"\n'), count_records),
    "CSV, many columns": Case("x.csv", lambda size: repeat(b",", size, b"text\n", b"\n"), count_records, *ROW),
    "Parquet, dictionary": Case(
        "x.parquet", lambda size: make_columns(size, "dictionary", compression="none"),
        count_records, *AHEAD,
    ),
    "Parquet, encoded by a dictionary": Case(
        "x.parquet", lambda size: make_columns(size, "string", compression="none"), count_records, *DECODED
    ),
    "Parquet, shared prefixes": Case(
        "x.parquet",
        lambda size: make_columns(
            size, "string", compression="none", use_dictionary=False, column_encoding="DELTA_BYTE_ARRAY"
        ),
        count_records, *DECODED,
    ),
    "Parquet, compressed": Case(
        "x.parquet",
        lambda size: make_columns(
            size, "string", compression="zstd", use_dictionary=False, data_page_size=1 << 31
        ),
        count_records, *PAGE,
    ),
    "Arrow, dictionary": Case(
        "x.arrow", lambda size: make_columns(size, "dictionary", ".arrow"), count_records, *AHEAD
    ),
    "Arrow, views": Case(
        "x.arrow", lambda size: make_columns(size, "string_view", ".arrow"), count_records, *AHEAD
    ),
    "Arrow, compressed": Case("x.arrow", make_compressed_arrow, count_records, *DECODED),
}  # fmt: skip


def read_peak() -> int:
    """Read the largest resident memory of this process since `reset_peak`, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def measure(name: str, path: Path) -> None:
    """Read a file, in this process: print the memory in bytes, the processor time in seconds, and what came of it."""
    case = CASES[name]
    logging.disable()
    warm = path.parent / "warm.txt"
    warm.write_bytes(TEXT)
    bpe.Tokenizer(bpe.train(files=[warm], vocab_size=260, threads=2).spec).encode("low")
    importlib.import_module("pyarrow.parquet")
    Path("/proc/self/clear_refs").write_text("5")  # the peak is now what there is
    before, start = read_peak(), time.process_time()
    try:
        outcome = f"read: {str(case.read(path))[:60]}"
    except (ValueError, OSError, MemoryError) as error:
        outcome = f"{type(error).__name__}: {error}"
    print(json.dumps([read_peak() - before, time.process_time() - start, outcome[:300]]))


def check(name: str, size: int) -> tuple[str, bool]:
    """Measure a case in a process of its own: (a row of the table, whether it is within its budget)."""
    case = CASES[name]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / case.name
        path.write_bytes(case.make(size))
        file_size = path.stat().st_size
        command = [sys.executable, __file__, name, "--measure", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode:
        return f"| {name} | {file_size / MB:.1f} | it ends with {done.returncode}: {done.stderr[-300:]} |", False
    peak, seconds, outcome = json.loads(done.stdout)
    budget = case.times * file_size + case.most * MB
    fits = peak <= budget and seconds <= max(10.0, 4 * file_size / MB)
    row = f"| {name} | {file_size / MB:.1f} | {peak / MB:.0f} | {budget / MB:.0f} | {seconds:.1f} | {case.limit_name} |"
    return f"{row} {'' if fits else 'TOO MUCH: '}{outcome[:90]}", fits


def main() -> int:
    """Measure all cases; the exit status is 1 if one takes too much."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="parts of names of cases; default all")
    parser.add_argument("--megabytes", type=int, default=16, help="size of each file (default 16)")
    parser.add_argument("--measure", type=Path, metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        measure(options.cases[0], options.measure)
        return 0
    failed = 0
    print("| case | file, MB | memory, MB | at most | seconds | limit |\n|---|---|---|---|---|---|")
    for name in CASES:
        if not options.cases or any(part in name for part in options.cases):
            row, fits = check(name, options.megabytes << 20)
            print(row, flush=True)
            failed += not fits
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
