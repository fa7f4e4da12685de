"""The corpora of an evaluation, as blocks of documents that all tokenizers encode.

A document that is longer than a block is cut where every tokenizer allows it, next to white space, so that neither
tokens nor words change. If some tokenizer allows no cut (a normalizer, a tokenizer of another package), documents are
held as wholes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bpe.corpus._file_reader import FileReader
from bpe.corpus.blocks import Block, group_texts, make_document_end_finder, make_safe_end_finder, make_text_blocks
from bpe.corpus.documents import make_row_blocks, read_arrow_documents
from bpe.corpus.sources import Sources
from bpe.errors import check_iterable, describe, short_repr
from bpe.evaluation._common_cuts import CommonCuts
from bpe.evaluation.adapters import Adapter, NativeAdapter

#: The bytes of a file in one read: with 256 KB, the work for each block takes as long as the cache saves.
_READ_BYTES = 1 << 20
#: The bytes of the texts that Python hands over in one list; and of those that are joined without a kernel.
_GROUP_BYTES, _JOINED_BYTES = 1 << 22, 1 << 19


@dataclass
class Corpus:
    """A named corpus, of files or of texts.

    Attributes:
        name: its name, such as a language; "" for the only one.
        sources: its files, or None.
        texts: its texts, or None.

    """

    name: str
    sources: Sources | None = None
    texts: Any = None

    @property
    def size(self) -> int | None:
        """The bytes of its text, about; None if unknown."""
        return None if self.sources is None else self.sources.text_size

    def blocks(self, cuts: CommonCuts | None, threads: int) -> Iterator[Block | FileReader | list[str | bytes]]:
        """Yield blocks of documents, readers of plain text files, and lists of texts; without `cuts`, only blocks."""
        if self.sources is not None:
            sources = self.sources.with_ending_separators()
            if cuts is None:
                return sources.blocks(make_document_end_finder(sources.separators, sources.keep_separator), threads)
            unsplittable = sources.separators if sources.regular else None
            return sources.blocks(
                make_safe_end_finder(cuts.find_last, sources.separators),
                threads,
                unsplittable=unsplittable,
                block_bytes=_READ_BYTES,
            )
        rows = read_arrow_documents(self.texts)
        if rows is not None:
            return make_row_blocks(rows, None, requires_utf8=False, threads=threads)
        if cuts is not None:
            return group_texts(self.texts, _GROUP_BYTES)
        return make_text_blocks(self.texts, None, threads=threads, max_size=_JOINED_BYTES)


def name_corpora(corpora: Any, files: Any, texts: Any) -> list[Corpus]:
    """Make the corpora that the arguments of `bpe.evaluate` name.

    Raises:
        TypeError, ValueError: unless exactly one of the three is given, and for values that are no corpora.

    """
    arguments = {"corpora": corpora, "files": files, "texts": texts}
    if sum(value is not None for value in arguments.values()) != 1:
        raise ValueError(
            "give exactly one corpus argument: files=, texts=, or a mapping of names to corpora, such as "
            '{"ko": "ko.txt", "en": "en.txt"}'
        )
    argument, value = next((name, value) for name, value in arguments.items() if value is not None)
    by_name = value if isinstance(value, Mapping) else {"": value}
    if not by_name:
        raise ValueError("corpora is an empty mapping; give at least one corpus")
    result = []
    for name, corpus in by_name.items():
        if not isinstance(name, str):
            raise TypeError(f"the name of a corpus is {describe(name)}; it must be a str")
        if not name and len(by_name) > 1:
            raise ValueError("the name of a corpus is ''; of several corpora, each must have a name that is not empty")
        if argument == "files" or (argument == "corpora" and _names_files(corpus)):
            result.append(Corpus(name, sources=Sources.of(corpus)))
        else:
            check_texts(f"corpus {name!r}" if name else "texts", corpus)
            result.append(Corpus(name, texts=corpus))
    return result


def _names_files(value: Any) -> bool:
    """Return whether a corpus is files: `Sources`, a str, a path, or several paths (but a list of str is texts)."""
    if isinstance(value, (Sources, str, os.PathLike)):
        return True
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(path, Path) for path in value)


def check_texts(label: str, value: Any) -> None:
    """Raise TypeError unless a value is an iterable of texts; `label` says what it is."""
    if isinstance(value, (str, bytes, bytearray, memoryview)):
        raise TypeError(
            f"{label} is one {type(value).__name__}; it must be an iterable of texts: [{short_repr(value, 20)}]"
        )
    check_iterable(label, value, "an iterable of str or bytes")


def find_common_cuts(adapters: Sequence[Adapter]) -> CommonCuts | None:
    """Find where documents may be cut for all tokenizers, between words. None if some tokenizer allows no cut."""
    for adapter in adapters:
        if not (
            isinstance(adapter, NativeAdapter)
            and adapter.kernel_takes_buffers
            and adapter.engine.can_split_documents(frozenset())
        ):
            return None
        if adapter.engine.fast_encoder is None:
            return None
    return CommonCuts([adapter.engine.encoder for adapter in adapters if isinstance(adapter, NativeAdapter)])
