"""The corpora of an evaluation, as blocks of documents that all tokenizers encode.

A document that is longer than a block is cut where every tokenizer allows it, next to white space, so that neither
tokens nor words change. If some tokenizer allows no cut (a normalizer, a tokenizer of another package), documents are
held as wholes. Not here: reading (`bpe/corpus`), encoding (`adapters.py`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bpe.base._aho_corasick import Finder
from bpe.corpus.blocks import Block, document_cut, text_blocks
from bpe.corpus.documents import arrow_documents, row_blocks
from bpe.corpus.reading import EncodingErrors, EndCut
from bpe.corpus.sources import Sources
from bpe.errors import check_iterable, shown, typed
from bpe.evaluation.adapters import Adapter, OwnAdapter

#: White space that a long document may be cut next to.
_WHITE = frozenset(b" \t\n\v\f\r")
#: How many times the usual size blocks have: with 1, evaluating takes up to a tenth longer, in Python for each block.
_TIMES = 8
#: A longer rest of a document, in bytes, goes into the block that it begins in: it would be copied twice.
_REST = 1 << 16
#: How far before the end of a block a cut is searched, how far after it a tokenizer looks, and how many are tried.
_TRIES, _AHEAD = 64, 64


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

    def blocks(self, adapters: Sequence[Adapter], threads: int) -> Iterator[Block]:
        """Its documents in blocks."""
        if self.sources is not None:
            sources = self.sources.ending()
            return sources.blocks(end_cut(sources, adapters), threads, times=_TIMES)
        rows = arrow_documents(self.texts)
        if rows is not None:
            return row_blocks(rows, None, utf8=False, threads=threads)
        return text_blocks(self.texts, None, threads=threads)


def corpora_of(
    given: Any, files: Any, texts: Any, separator: str | None, per_line: bool, encoding_errors: EncodingErrors
) -> list[Corpus]:
    """The corpora that the arguments of `bpe.evaluate` name.

    Raises:
        TypeError, ValueError: unless exactly one of the three is given, and for values that are no corpora.

    """
    if sum(each is not None for each in (given, files, texts)) != 1:
        raise ValueError(
            "give exactly one corpus argument: files=, texts=, or a mapping of names to corpora, such as "
            '{"ko": "ko.txt", "en": "en.txt"}'
        )
    what = "files" if files is not None else "texts" if texts is not None else None
    value = next(each for each in (given, files, texts) if each is not None)
    named = value if isinstance(value, Mapping) else {"": value}
    if not named:
        raise ValueError("corpora is an empty mapping; give at least one corpus")
    found = []
    for name, each in named.items():
        if not isinstance(name, str):
            raise TypeError(f"the name of a corpus is {typed(name)}; it must be a str")
        if not name and len(named) > 1:
            raise ValueError("the name of a corpus is ''; of several corpora, each must have a name that is not empty")
        if what == "files" or (what is None and _names_files(each)):
            sources = Sources.of(each, separator, per_line, encoding_errors)
            found.append(Corpus(name, sources=sources))
        else:
            _check_texts(name, each)
            found.append(Corpus(name, texts=each))
    if all(corpus.sources is None for corpus in found) and (separator is not None or per_line):
        given_flag = "per_line" if per_line else "separator"
        raise ValueError(f"{given_flag} is given, but only files are split into documents; split the texts yourself")
    return found


def _names_files(value: Any) -> bool:
    """Whether a corpus is given by files: `Sources`, a str, a path, or several paths (but a list of str is texts)."""
    if isinstance(value, (Sources, str, os.PathLike)):
        return True
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(each, Path) for each in value)


def _check_texts(name: str, value: Any) -> None:
    label = f"corpus {name!r}" if name else "texts"
    if isinstance(value, (str, bytes, bytearray, memoryview)):
        raise TypeError(f"{label} is one {type(value).__name__}; it must be an iterable of texts: [{shown(value, 20)}]")
    check_iterable(label, value, "an iterable of str or bytes")


def end_cut(sources: Sources, adapters: Sequence[Adapter]) -> EndCut | None:
    """Where a block may end: after a document, or within a long one where no tokenizer and no word is cut."""
    at_documents = document_cut(sources.separators, sources.keep_separator)
    lasts: list[Callable[[memoryview, int], int]] = []
    for adapter in adapters:
        if not (isinstance(adapter, OwnAdapter) and adapter.direct and adapter.engine.cuts_documents(frozenset())):
            return at_documents
        if adapter.engine.specials.always:
            return at_documents
        lasts.append(adapter.engine.last_cut)
    finder = Finder(sources.separators)

    def cut(buffer: bytearray, low: int, end: int) -> tuple[int, int] | None:
        found = at_documents(buffer, low, end) if at_documents is not None else None
        if found is not None and end - found[1] <= _REST:
            return found
        with memoryview(buffer) as whole, whole[:end] as text:
            at = common_cut(text, low if found is None else found[1], lasts, finder.longest)
            if at is None or finder.crosses(text, at):
                return found
        return at, at

    return cut


def common_cut(
    text: memoryview, low: int, lasts: Sequence[Callable[[memoryview, int], int]], margin: int
) -> int | None:
    """A position after `low` where every tokenizer may cut, next to white space; None if none is found soon.

    `margin` bytes before the end are left alone: the text may end within a separator.
    """
    limit = len(text) - margin - _AHEAD
    for _ in range(_TRIES):
        if limit <= low:
            return None
        with text[:limit] as part:
            at = lasts[0](part, low)
        if at <= low:
            return None
        near_space = text[at - 1] in _WHITE or text[at] in _WHITE
        if near_space and all(_is_cut(text, at, last) for last in lasts[1:]):
            return at
        limit = at
    return None


def _is_cut(text: memoryview, at: int, last: Callable[[memoryview, int], int]) -> bool:
    """Whether a tokenizer allows a cut at a position."""
    for ahead in range(1, _AHEAD):
        with text[: at + ahead] as part:
            found = last(part, at - 1)
        if found >= at:
            return found == at
    return False
