"""One adapter per library: how it trains, encodes, counts words and finds pretokens. Nothing here measures.

An adapter is a class with `name`, `version()`, and the jobs it can do. Training gives the merged tokens in order as
bytes, encoding an array of ids and one of lengths, so that outputs are compared as they are. All use the same pattern.

Counting is three steps: `read` a file into what the library takes, `count` it, and make a dict of the result with
`words`. Finding pretokens is two: `text`, which makes of bytes what the library takes, and `scanner`, a function from
that to the number of pretokens. Each library is given its own fastest way that gives the right words.
"""

from __future__ import annotations

import importlib.metadata
import os
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Each peer's own way to be told how many threads to use; read when its module is loaded.
THREAD_VARIABLES = ("RAYON_NUM_THREADS", "OMP_NUM_THREADS")

PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
SEPARATOR = "<|endoftext|>"

Ranks = dict[bytes, int]

# Hugging Face's spellings: Oniguruma reads `{1,3}+` and `$` otherwise than tiktoken's engine does.
HUGGINGFACE = {
    "gpt2": PATTERN,
    "cl100k": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+",
}


class Ours:
    """This package."""

    name = "bpe"

    def version(self) -> str:
        """The version measured."""
        import bpe

        return bpe.__version__

    def train(self, path: str, vocab_size: int, threads: int) -> list[bytes]:
        """Tokens of merges in order; ids of single bytes as the peers number them, so that ties break alike."""
        import bpe

        tok = bpe.train(
            files=path, separator=SEPARATOR, vocab_size=vocab_size, initial_alphabet=range(256), threads=threads
        )
        return [tok.token_bytes(number) for number in range(256, tok.vocab_size)]

    def encoder(self, ranks: Ranks, threads: int) -> Any:
        """A function from texts to (ids, lengths)."""
        import bpe
        from bpe.formats.tiktoken import recover_merges
        from bpe.spec import TokenizerSpec
        from bpe.vocabulary import Vocabulary

        pairs, made, shared = recover_merges(ranks)
        tok = bpe.Tokenizer.from_spec(
            TokenizerSpec(
                model="byte",
                vocabulary=Vocabulary((number, token) for token, number in ranks.items()),
                merges=pairs,
                merge_ids=made,
                merge_ranks=shared,
                pretokenizer=bpe.Pretokenizer("gpt2"),
                ignore_merges=True,
            )
        )

        def encode(texts: Sequence[str]) -> tuple[NDArray[Any], NDArray[Any]]:
            batch = tok.encode_batch(texts, threads=threads)
            return batch.ids, batch.lengths

        return encode

    def read(self, path: str) -> str:
        """The path: the file is mapped while it is counted."""
        return path

    def count(self, path: str, threads: int) -> Any:
        """Counts in a table of ours."""
        import bpe

        return bpe.count_words(files=path, separator=SEPARATOR, threads=threads)

    def words(self, counted: Any) -> Ranks:
        """The counts as a dict."""
        return dict(counted.items())

    def text(self, data: bytes) -> bytes:
        """The bytes as they are."""
        return data

    def scanner(self, pattern: str) -> Callable[[Any], int]:
        """The scanner's count of pretokens, none of which becomes an object."""
        from bpe._core import scan
        from bpe.pretokenize.patterns import PATTERNS

        number = PATTERNS[pattern].scanner
        count = getattr(scan, "count", None)
        if count is None:  # arrays of where pretokens begin and end are made as well
            return lambda data: len(scan.spans(number, data)[0])
        return lambda data: int(count(number, data))


class RustBPE:
    """karpathy/rustbpe: a trainer."""

    name = "rustbpe"

    def version(self) -> str:
        """The version measured."""
        return importlib.metadata.version("rustbpe")

    def train(self, path: str, vocab_size: int, threads: int) -> list[bytes]:
        """Tokens of merges in order."""
        import rustbpe

        os.environ["RAYON_NUM_THREADS"] = str(threads)
        with open(path, encoding="utf-8", newline="") as file:
            texts = file.read().split(SEPARATOR)
        tok = rustbpe.Tokenizer()
        tok.train_from_iterator(iter(texts), vocab_size, pattern=PATTERN)
        return [bytes(token) for token, rank in tok.get_mergeable_ranks() if rank >= 256]


class Tiktoken:
    """openai/tiktoken: an encoder."""

    name = "tiktoken"

    def version(self) -> str:
        """The version measured."""
        return importlib.metadata.version("tiktoken")

    def encoder(self, ranks: Ranks, threads: int) -> Any:
        """A function from texts to (ids, lengths); its lists are taken as they are, not made arrays of."""
        import tiktoken

        encoding = tiktoken.Encoding("measured", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})

        def encode(texts: Sequence[str]) -> list[list[int]]:
            rows: list[list[int]] = encoding.encode_ordinary_batch(list(texts), num_threads=threads)
            return rows

        return encode


def flat(result: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """What an encoder gave, as int64 ids and lengths."""
    if isinstance(result, tuple):
        return result[0].astype(np.int64), result[1].astype(np.int64)
    lengths = np.array([len(row) for row in result], dtype=np.int64)
    return np.concatenate([np.array(row, dtype=np.int64) for row in result]), lengths


class Gigatoken:
    """gigatoken's counting for training, and its pretokenizer; GPT-2's pattern only."""

    name = "gigatoken"

    def version(self) -> str:
        """The version measured."""
        return importlib.metadata.version("gigatoken")

    def read(self, path: str) -> bytes:
        """The file's bytes."""
        with open(path, "rb") as file:
            return file.read()

    def count(self, data: bytes, threads: int) -> Any:
        """A list of (word, count), which is how it hands them over."""
        del threads  # from the environment
        from gigatoken import gigatoken_rs

        return gigatoken_rs.pretokenized_counts(data, SEPARATOR.encode())

    def words(self, counted: Any) -> Ranks:
        """The counts as a dict; a word that is there twice has both counts."""
        found: Ranks = {}
        for word, count in counted:
            found[word] = found.get(word, 0) + count
        return found

    def text(self, data: bytes) -> bytes:
        """The bytes as they are."""
        return data

    def scanner(self, pattern: str) -> Callable[[Any], int] | None:
        """An iterator of bytes objects run to its end."""
        if pattern != "gpt2":
            return None
        from gigatoken import gigatoken_rs

        def count(data: bytes) -> int:
            last = deque(enumerate(gigatoken_rs.pretokenizer(data), 1), maxlen=1)
            return last[0][0] if last else 0

        return count


class FFBPE:
    """ffbpe's WordCounter; with no pattern named, it has its own scanner for GPT-2's."""

    name = "ffbpe"

    def version(self) -> str:
        """The version measured."""
        return importlib.metadata.version("ffbpe")

    def read(self, path: str) -> list[str]:
        """The documents as str."""
        with open(path, encoding="utf-8", newline="") as file:
            return file.read().split(SEPARATOR)

    def count(self, texts: list[str], threads: int) -> Any:
        """Counts in a table of its own."""
        del threads  # from the environment
        import ffbpe

        counter = ffbpe.PreTokenizer(special_tokens=[]).word_counter()
        counter.add_batch(texts)
        return counter

    def words(self, counted: Any) -> Ranks:
        """The counts as a dict."""
        return {word.encode(): count for word, count in counted.words().items()}


class Regex:
    """The `regex` package."""

    name = "regex"

    def version(self) -> str:
        """The version measured."""
        return importlib.metadata.version("regex")

    def text(self, data: bytes) -> str:
        """A str."""
        return data.decode()

    def scanner(self, pattern: str) -> Callable[[Any], int]:
        """All matches as a list."""
        import regex

        from bpe.pretokenize.patterns import PATTERNS

        findall = regex.compile(PATTERNS[pattern].expression).findall
        return lambda text: len(findall(text))


class HuggingFace:
    """Hugging Face's `tokenizers`."""

    name = "tokenizers"

    def version(self) -> str:
        """The version measured."""
        return importlib.metadata.version("tokenizers")

    def text(self, data: bytes) -> str:
        """A str."""
        return data.decode()

    def scanner(self, pattern: str) -> Callable[[Any], int]:
        """`Split` by the pattern, as in tokenizer.json files; a list of str with offsets."""
        from tokenizers import Regex as Expression
        from tokenizers.pre_tokenizers import Split

        from bpe.pretokenize.patterns import PATTERNS

        split = Split(Expression(HUGGINGFACE.get(pattern, PATTERNS[pattern].expression)), "isolated")
        return lambda text: len(split.pre_tokenize_str(text))


TRAINERS: dict[str, Any] = {peer.name: peer for peer in (Ours, RustBPE)}
ENCODERS: dict[str, Any] = {peer.name: peer for peer in (Ours, Tiktoken)}
COUNTERS: dict[str, Any] = {peer.name: peer for peer in (Ours, Gigatoken, FFBPE)}
SCANNERS: dict[str, Any] = {peer.name: peer for peer in (Ours, Regex, HuggingFace, Gigatoken)}
