"""Counting words: `read` converts a file to the library's input, `count` counts it, `words` makes a dict of it."""

from __future__ import annotations

from typing import Any

from peers.common import SEPARATOR, BpeBase, Peer, Ranks, read_documents


class BpePeer(BpeBase):
    """This package."""

    def read(self, path: str) -> str:
        """The path: `count` reads the file."""
        return path

    def count(self, path: str, threads: int) -> Any:
        """Counts in this package's table."""
        import bpe

        return bpe.count_words(files=bpe.Sources(path, separator=SEPARATOR), threads=threads)

    def list_words(self, counted: Any) -> Ranks:
        """The counts as a dict."""
        return dict(counted.items())


class Gigatoken(Peer):
    """gigatoken's counting; GPT-2's pattern only."""

    name = "gigatoken"

    def read(self, path: str) -> bytes:
        """The file's bytes."""
        with open(path, "rb") as file:
            return file.read()

    def count(self, data: bytes, threads: int) -> Any:
        """A list of (word, count), gigatoken's own result."""
        del threads  # from the environment
        from gigatoken import gigatoken_rs

        return gigatoken_rs.pretokenized_counts(data, SEPARATOR.encode())

    def list_words(self, counted: Any) -> Ranks:
        """The counts as a dict; counts of a word that is listed twice are added."""
        counts: Ranks = {}
        for word, count in counted:
            counts[word] = counts.get(word, 0) + count
        return counts


class FFBPE(Peer):
    """ffbpe's WordCounter, which uses its own scanner for GPT-2's pattern by default."""

    name = "ffbpe"

    def read(self, path: str) -> list[str]:
        """The documents as str."""
        return read_documents(path)

    def count(self, texts: list[str], threads: int) -> Any:
        """Counts in ffbpe's table."""
        del threads  # from the environment
        import ffbpe

        counter = ffbpe.PreTokenizer(special_tokens=[]).word_counter()
        counter.add_batch(texts)
        return counter

    def list_words(self, counted: Any) -> Ranks:
        """The counts as a dict."""
        return {word.encode(): count for word, count in counted.words().items()}


COUNTERS: dict[str, Any] = {peer.name: peer for peer in (BpePeer, Gigatoken, FFBPE)}
