"""Compare every way to encode with tiktoken, on whole corpora; a different id fails the run.

    python benchmarks/checks/check_corpora.py [FILE…] [--vocab NAME]… [--threads N]

For each file and vocabulary, this checks `encode_files` and `encode_batch` document by document; `encode` of each
document; `encode_stream` of the whole file with its separators as special tokens, in random chunks from a few bytes to
megabytes; `encode_with_offsets`, whose spans must be the tokens' own bytes; and `decode_bytes`, which must return the
file. It takes minutes, most of them in tiktoken. Without FILE, the shared corpora are used.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from inputs import SEPARATOR, TOKENIZERS, VOCAB_NAMES, Vocab, at_least, find_corpora, write_vocabularies
from numpy.typing import NDArray

import bpe

END = {"r50k": 50256, "cl100k": 100257, "o200k": 199999}


def main() -> None:
    """Check every file with every vocabulary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="UTF-8 text, documents separated by <|endoftext|>")
    parser.add_argument("--vocab", choices=VOCAB_NAMES, action="append", help="may be repeated; default all three")
    parser.add_argument("--threads", type=at_least(1), default=2)
    options = parser.parse_args()
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        vocabs = write_vocabularies(options.vocab or VOCAB_NAMES, folder)
        for path in find_corpora(options.files, folder):
            for name, vocab_text in vocabs.items():
                vocab = Vocab(*vocab_text.split(","))
                start_time = time.perf_counter()
                for way, is_equal in check(path, vocab, options.threads):
                    print(f"{path.name} {name} {way}: {'the same' if is_equal else 'DIFFERENT'}", flush=True)
                    if not is_equal:
                        failures.append(f"{path.name} {name} {way}")
                print(f"{path.name} {name}: {time.perf_counter() - start_time:.0f} s", file=sys.stderr)
    if failures:
        raise SystemExit("different ids: " + ", ".join(failures))


def check(path: Path, vocab: Vocab, threads: int) -> Iterator[tuple[str, bool]]:
    """Each way to encode, and whether it returned tiktoken's ids."""
    data = path.read_bytes()
    documents = data.decode().split(SEPARATOR)
    tok = bpe.Tokenizer.from_tiktoken(vocab.ranks, vocab.pattern, {SEPARATOR: END[vocab.name]})
    expected, lengths = encode_by_peer(vocab, documents, threads)
    for way, batch in (
        ("encode_files", tok.encode_files(path, separator=SEPARATOR, threads=threads)),
        ("encode_batch", tok.encode_batch(documents, threads=threads)),
    ):
        yield way, np.array_equal(batch.ids, expected) and np.array_equal(batch.lengths, lengths)
    yield "encode", np.array_equal(np.concatenate([tok.encode(document) for document in documents]), expected)
    with_ends = np.insert(expected, np.cumsum(lengths)[:-1], END[vocab.name]).astype(np.uint32)
    for min_size, max_size in ((1 << 20, 1 << 20), (1, 200), (1, 1 << 22)):
        arrays = tok.encode_stream(split_chunks(data, min_size, max_size), allowed_special="all")
        yield (
            f"encode_stream by {min_size} to {max_size} bytes",
            np.array_equal(np.concatenate(list(arrays)), with_ends),
        )
    ids, spans = tok.encode_with_offsets(data, "byte", allowed_special="all")
    tiled = np.array_equal(spans[1:, 0], spans[:-1, 1]) and spans[0, 0] == 0 and spans[-1, 1] == len(data)
    fits = np.array_equal(spans[:, 1] - spans[:, 0], tok.token_byte_lengths[ids])
    yield "encode_with_offsets", bool(np.array_equal(ids, with_ends) and tiled and fits)
    yield "decode_bytes", tok.decode_bytes(with_ends) == data


def encode_by_peer(vocab: Vocab, documents: list[str], threads: int) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Encode all documents with tiktoken, in parts because its lists are large: the ids and how many each has."""
    peer = TOKENIZERS["tiktoken"]()
    encoding: Any = peer.load(vocab, threads)
    parts, lengths, start = [np.empty(0, dtype=np.uint32)], [], 0
    while start < len(documents):
        size, end = 0, start
        while end < len(documents) and size < 1 << 24:
            size += len(documents[end])
            end += 1
        for row in encoding.encode_ordinary_batch(documents[start:end], num_threads=threads):
            parts.append(np.array(row, dtype=np.uint32))
            lengths.append(len(row))
        start = end
    return np.concatenate(parts), np.array(lengths, dtype=np.int64)


def split_chunks(data: bytes, min_size: int, max_size: int) -> Iterator[bytes]:
    """Split a file's bytes into chunks of random sizes."""
    choose = random.Random(1)
    start = 0
    while start < len(data):
        size = choose.randint(min_size, max_size)
        yield data[start : start + size]
        start += size


if __name__ == "__main__":
    main()
