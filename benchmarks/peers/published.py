"""Encoding and decoding with a published vocabulary.

`load` makes a tokenizer from a `Vocab`. `ways` are the ways in which a library takes a corpus: "file" (it reads the
documents itself) or any other name (a list of str), and none where it refuses long documents; `encode_corpus` encodes
it in one of them. `make_encoder` returns a function from a str to its ids, and `make_decoder` a function from ids to
bytes; `convert_ids` converts an array to the ids that it accepts. `vocabs` lists the vocabularies that it can load.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peers.common import SEPARATOR, BpeBase, Peer, Vocab


class Published(Peer):
    """A library that encodes and decodes."""

    vocabs: tuple[str, ...] = ("r50k", "cl100k", "o200k")
    ways: tuple[str, ...] = ("batch",)

    def convert_ids(self, ids: NDArray[np.uint32]) -> Any:
        """A list."""
        return ids.tolist()


class BpePeer(BpeBase, Published):
    """This package."""

    ways = ("file", "batch")

    def load(self, vocab: Vocab, threads: int) -> Any:
        """From the rank file."""
        import bpe

        self._threads = threads
        return bpe.Tokenizer.from_tiktoken(vocab.ranks, vocab.pattern)

    def load_json(self, vocab: Vocab, threads: int) -> Any:
        """From the tokenizer.json."""
        import bpe

        self._threads = threads
        return bpe.Tokenizer.load(vocab.json)

    def load_compiled(self, vocab: Vocab, threads: int) -> Any:
        """From the compiled tokenizer beside it."""
        import bpe

        self._threads = threads
        return bpe.Tokenizer.load(Path(vocab.json).with_suffix(".compiled"))

    def encode_corpus(self, tok: Any, way: str, path: str, texts: list[str]) -> Any:
        """A batch of flat arrays."""
        if way == "file":
            return tok.encode_files(path, separator=SEPARATOR, threads=self._threads)
        return tok.encode_batch(texts, threads=self._threads)

    def make_encoder(self, tok: Any) -> Any:
        """An array."""
        return tok.encode

    def convert_ids(self, ids: NDArray[np.uint32]) -> Any:
        """The array."""
        return ids

    def make_decoder(self, tok: Any) -> Any:
        """Bytes."""
        return tok.decode_bytes


class Gigatoken(Published):
    """gigatoken."""

    name = "gigatoken"
    ways = ("file", "batch", "tiktoken")

    def load(self, vocab: Vocab, threads: int) -> Any:
        """From the rank file."""
        import gigatoken

        self._parallel = threads > 1  # the number is in the environment
        return gigatoken.Tokenizer.from_tiktoken(vocab.ranks, vocab.pattern, {})

    def load_json(self, vocab: Vocab, threads: int) -> Any:
        """From the tokenizer.json."""
        import gigatoken

        self._parallel = threads > 1
        return gigatoken.Tokenizer(vocab.json)

    def encode_corpus(self, tok: Any, way: str, path: str, texts: list[str]) -> Any:
        """A ragged array of the library awkward; a list of lists by gigatoken's tiktoken interface."""
        if way == "file":
            from gigatoken import TextFileSource

            return tok.encode_files(TextFileSource([path], SEPARATOR), parallel=self._parallel)
        if way == "tiktoken":
            return tok.as_tiktoken().encode_ordinary_batch(texts, num_threads=8 if self._parallel else 1)
        return tok.encode_batch(texts, parallel=self._parallel)

    def make_encoder(self, tok: Any) -> Any:
        """An array."""
        return tok.encode

    def convert_ids(self, ids: NDArray[np.uint32]) -> Any:
        """The array."""
        return ids

    def make_decoder(self, tok: Any) -> Any:
        """Bytes."""
        return tok.decode


class Tiktoken(Published):
    """openai/tiktoken."""

    name = "tiktoken"

    def load(self, vocab: Vocab, threads: int) -> Any:
        """From the ranks and the pattern."""
        import tiktoken

        from bpe.pretokenize.patterns import PATTERNS

        self._threads = threads
        return tiktoken.Encoding(
            vocab.name,
            pat_str=PATTERNS[vocab.pattern].expression,
            mergeable_ranks=vocab.table(),
            special_tokens={},
        )

    def encode_corpus(self, tok: Any, way: str, path: str, texts: list[str]) -> Any:
        """A list of lists."""
        del way, path
        return tok.encode_ordinary_batch(texts, num_threads=self._threads)

    def make_encoder(self, tok: Any) -> Any:
        """A list."""
        return tok.encode_ordinary

    def make_decoder(self, tok: Any) -> Any:
        """Bytes."""
        return tok.decode_bytes


class Riptoken(Tiktoken):
    """riptoken, which has tiktoken's interface and takes the number of threads from the environment."""

    name = "riptoken"

    def load(self, vocab: Vocab, threads: int) -> Any:
        """From the ranks and the pattern."""
        del threads
        import riptoken

        from bpe.pretokenize.patterns import PATTERNS

        return riptoken.CoreBPE(vocab.table(), {}, PATTERNS[vocab.pattern].expression)

    def encode_corpus(self, tok: Any, way: str, path: str, texts: list[str]) -> Any:
        """A list of lists."""
        del way, path
        return tok.encode_ordinary_batch(texts)


class Wordchipper(Tiktoken):
    """wordchipper, which loads vocabularies by name only, from a cache or else from the network."""

    name = "wordchipper"

    def load(self, vocab: Vocab, threads: int) -> Any:
        """By name, from a cache that has the rank file."""
        cache = Path(vocab.ranks).parent / "cache"
        name = f"{vocab.name}_base"
        cached = cache / "io.crates.wordchipper" / "openai" / name / f"{name}.tiktoken"
        cached.parent.mkdir(parents=True, exist_ok=True)
        cached.write_bytes(Path(vocab.ranks).read_bytes())
        os.environ["XDG_CACHE_HOME"] = str(cache)  # read at the first load
        wordchipper: Any = importlib.import_module("wordchipper")  # its type stubs lack the compiled classes
        options = wordchipper.TokenizerOptions.default()
        options.set_parallel(threads > 1)
        options.set_accelerated_lexers(True)
        return wordchipper.Tokenizer.from_pretrained(name, options)

    def encode_corpus(self, tok: Any, way: str, path: str, texts: list[str]) -> Any:
        """A list of lists."""
        del way, path
        return tok.encode_batch(texts)

    def make_encoder(self, tok: Any) -> Any:
        """A list."""
        return tok.encode


class RsBpe(Tiktoken):
    """rs_bpe."""

    name = "rs_bpe"
    vocabs = ("cl100k", "o200k")

    def load(self, vocab: Vocab, threads: int) -> Any:
        """By name."""
        from rs_bpe import openai

        self._threads = threads
        return getattr(openai, f"{vocab.name}_base")()

    def encode_corpus(self, tok: Any, way: str, path: str, texts: list[str]) -> Any:
        """A list of lists."""
        del way, path
        return tok.encode_batch(texts)[0]

    def make_encoder(self, tok: Any) -> Any:
        """A list."""
        return tok.encode

    def make_decoder(self, tok: Any) -> Any:
        """A str, encoded."""
        return lambda ids: tok.decode(ids).encode()


class BpeOpenai(Tiktoken):
    """bpe-openai, which refuses texts of more than 200,000 tokens."""

    name = "bpe_openai"
    vocabs = ("cl100k", "o200k")
    ways = ()

    def load(self, vocab: Vocab, threads: int) -> Any:
        """By name."""
        del threads
        import bpe_openai

        return bpe_openai.get_encoding(f"{vocab.name}_base")


class Kitoken(Tiktoken):
    """kitoken."""

    name = "kitoken"

    def load(self, vocab: Vocab, threads: int) -> Any:
        """From the rank file."""
        del threads
        import kitoken

        return kitoken.Kitoken.from_tiktoken_file(vocab.ranks)

    def load_json(self, vocab: Vocab, threads: int) -> Any:
        """From the tokenizer.json."""
        del threads
        import kitoken

        return kitoken.Kitoken.from_tokenizers_file(vocab.json)

    def encode_corpus(self, tok: Any, way: str, path: str, texts: list[str]) -> Any:
        """A list of lists."""
        del way, path
        return tok.encode_all(texts)

    def make_encoder(self, tok: Any) -> Any:
        """A list."""
        return tok.encode

    def make_decoder(self, tok: Any) -> Any:
        """Bytes."""
        return tok.decode


class Quicktok(Tiktoken):
    """quicktok."""

    name = "quicktok"
    distribution = "quicktok-v1"
    vocabs = ("cl100k", "o200k")
    #: Its method from texts and a number of threads to arrays of ids and offsets.
    batch_method = "encode_batch"

    def load(self, vocab: Vocab, threads: int) -> Any:
        """By name."""
        import quicktok

        self._threads = threads
        return quicktok.get_encoding(f"{vocab.name}_base")

    def encode_corpus(self, tok: Any, way: str, path: str, texts: list[str]) -> Any:
        """Ids and lengths, from arrays."""
        del way, path
        ids, offsets = getattr(tok, self.batch_method)(texts, self._threads)
        return ids, np.diff(offsets)


class Toktok(Quicktok):
    """toktok."""

    name = "toktok"
    distribution = "toktok-rs"
    batch_method = "encode_batch_to_numpy"

    def load(self, vocab: Vocab, threads: int) -> Any:
        """By name; the calls of its inner class, which its own interface wraps in Python."""
        from toktok import _toktok

        self._threads = threads
        return _toktok.Tokenizer(f"{vocab.name}_base", "")


class Splintr(Tiktoken):
    """splintr."""

    name = "splintr"
    distribution = "splintr-rs"
    vocabs = ("cl100k", "o200k")

    def load(self, vocab: Vocab, threads: int) -> Any:
        """By name."""
        del threads  # from the environment
        import splintr

        return splintr.Tokenizer.from_pretrained(f"{vocab.name}_base")

    def encode_corpus(self, tok: Any, way: str, path: str, texts: list[str]) -> Any:
        """Ids and lengths, from two buffers."""
        del way, path
        ids, offsets = tok.encode_batch_flat(texts)
        return np.frombuffer(ids, dtype=np.uint32), np.diff(np.frombuffer(offsets, dtype=np.uint64))


class HuggingFace(Published):
    """Hugging Face's `tokenizers`."""

    name = "tokenizers"

    def load(self, vocab: Vocab, threads: int) -> Any:
        """From a tokenizer.json that this package wrote."""
        del threads  # from the environment
        from tokenizers import Tokenizer

        return Tokenizer.from_file(vocab.json)

    load_json = load

    def encode_corpus(self, tok: Any, way: str, path: str, texts: list[str]) -> Any:
        """A list of encodings."""
        del way, path
        return tok.encode_batch_fast(texts, add_special_tokens=False)

    def make_encoder(self, tok: Any) -> Any:
        """A list, taken from an Encoding."""
        return lambda text: tok.encode(text, add_special_tokens=False).ids

    def make_decoder(self, tok: Any) -> Any:
        """A str, encoded."""
        return lambda ids: tok.decode(ids, skip_special_tokens=False).encode()


class Fastokens(HuggingFace):
    """fastokens, which reads rank files."""

    name = "fastokens"
    vocabs = ("cl100k", "o200k")

    def load(self, vocab: Vocab, threads: int) -> Any:
        """From the rank file."""
        del threads
        from fastokens import Tokenizer

        return Tokenizer.from_tiktoken(vocab.ranks, encoding=f"{vocab.name}_base")

    def load_json(self, vocab: Vocab, threads: int) -> Any:
        """From a tokenizer.json that this package wrote."""
        del threads
        from fastokens import Tokenizer

        return Tokenizer.from_file(vocab.json)

    def encode_corpus(self, tok: Any, way: str, path: str, texts: list[str]) -> Any:
        """Ids and offsets, from two buffers."""
        del way, path
        ids, offsets = tok.encode_batch_flat(texts)
        return np.frombuffer(ids, dtype=np.uint32), np.diff(np.frombuffer(offsets, dtype=np.uint64))

    def make_encoder(self, tok: Any) -> Any:
        """A list, taken from an Encoding."""
        return lambda text: tok.encode_ordinary(text).ids


class Tuetoken(Published):
    """tuetoken, which reads tokenizer.json."""

    name = "tuetoken"

    def load(self, vocab: Vocab, threads: int) -> Any:
        """From a tokenizer.json that this package wrote."""
        import tuetoken

        self._threads = threads
        return tuetoken.Tokenizer(vocab.json)

    load_json = load

    def encode_corpus(self, tok: Any, way: str, path: str, texts: list[str]) -> Any:
        """Ids and lengths, from arrays."""
        del way, path
        result = tok.encode_ordinary_to_buffer(texts, self._threads)
        return result["data"], np.diff(result["offsets"])

    def make_encoder(self, tok: Any) -> Any:
        """A list."""
        return tok.encode_ordinary

    def convert_ids(self, ids: NDArray[np.uint32]) -> Any:
        """The array."""
        return ids

    def make_decoder(self, tok: Any) -> Any:
        """A str, encoded."""
        return lambda ids: tok.decode_array(ids).encode()


class Tokie(HuggingFace):
    """tokie, which reads tokenizer.json."""

    name = "tokie"
    ways = ("file", "batch")

    def load(self, vocab: Vocab, threads: int) -> Any:
        """From a tokenizer.json that this package wrote."""
        del threads
        import tokie

        return tokie.Tokenizer.from_json(vocab.json)

    def encode_corpus(self, tok: Any, way: str, path: str, texts: list[str]) -> Any:
        """Flat arrays from a file, a list of encodings from texts."""
        if way == "file":
            ids, offsets = tok.encode_files([path], SEPARATOR.encode())
            return ids, np.diff(offsets)
        return tok.encode_batch(texts, add_special_tokens=False)

    def make_decoder(self, tok: Any) -> Any:
        """Bytes."""
        return tok.decode_bytes


TOKENIZERS: dict[str, Any] = {
    peer.name: peer
    for peer in (
        BpePeer, Gigatoken, Fastokens, Tuetoken, Toktok, Quicktok, Splintr, Tiktoken, HuggingFace, Riptoken,
        Wordchipper, Tokie, RsBpe, BpeOpenai, Kitoken,
    )
}  # fmt: skip
