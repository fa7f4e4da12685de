"""`Splitter`: texts into words, by the settings of some counts; and where a text may be divided before that."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from bpe.base._aho_corasick import Finder
from bpe.base.offsets import compute_offsets
from bpe.base.utf8 import Bytes
from bpe.count._word_table import WordTable
from bpe.pretokenize._safe_points import find_last_split, find_next_split
from bpe.pretokenize.patterns import WHOLE_TEXT
from bpe.pretokenize.preparing import TextPreparer
from bpe.pretokenize.pretokenizer import PipelinePretokenizer, Pretokenizer, get_scanner

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bpe.corpus.blocks import SplitFinder
    from bpe.corpus.reading import BlockEndFinder


class Splitter:
    """Splits texts into words by the settings of some counts: remove special tokens, normalize, pretokenize.

    If their units are lines, each line of a text, its newline included, is split by itself.

    Args:
        counts: a `WordCounts`.

    """

    def __init__(self, counts: Any) -> None:
        if counts.units == "runs":
            raise ValueError(
                "the counts are of runs of words, which depend on a tokenizer, so no text can be added to them: count "
                "it with bpe.research.count_runs, and merge"
            )
        self.splits_lines = counts.units == "lines"
        self.special_tokens = [name.encode() for name in counts.special_tokens]
        self.normalizer = counts.normalizer
        self.pretokenizer: Pretokenizer | None = counts.pretokenizer
        current_version = None if self.pretokenizer is None else self.pretokenizer.unicode_version
        if counts.unicode_version != current_version:
            raise ValueError(
                f"the counts were made with Unicode {counts.unicode_version}, but {self.pretokenizer!r} uses Unicode "
                f"{current_version} in this release, so no more texts can be added to them: count the corpus again"
            )
        self.scanner = get_scanner(counts.pretokenizer)
        self._preparer = TextPreparer(self.normalizer, self.pretokenizer)
        adds_prefix = counts.pretokenizer is not None and counts.pretokenizer.changes_text
        #: Whether a text changes before it is split, so that a part of it cannot be counted alone.
        self.changes_text = self.normalizer is not None or adds_prefix

    def make_split_finder(self) -> SplitFinder | None:
        """Make a function that finds safe split points of a document: pretoken starts outside special tokens.

        None if the pretokenizer has no scanner, or the text changes before it is split. With `splits_lines`, the starts
        of lines outside special tokens.
        """
        from bpe.corpus.blocks import find_next_line

        finder = Finder(self.special_tokens)
        if self.splits_lines:
            find_next = find_next_line
        elif self.scanner is None or self.changes_text:
            return None
        else:
            find_next = partial(find_next_split, self.scanner)

        def find_split(text: Bytes, offset: int) -> int:
            while (offset := find_next(text, offset)) < len(text):
                if not finder.crosses(text, offset):
                    break
                offset += 1
            return offset

        return find_split

    def make_block_end_finder(self, separators: list[bytes], keep_separator: bool) -> BlockEndFinder | None:
        """Make a function that finds where a block of a file may end: between documents, or at a safe split point."""
        from bpe.corpus.blocks import find_last_line, make_document_end_finder, make_safe_end_finder

        if self.splits_lines:
            return make_safe_end_finder(find_last_line, separators + self.special_tokens)
        if self.scanner is None or self.scanner == WHOLE_TEXT or self.changes_text:
            return make_document_end_finder(separators, keep_separator)
        return make_safe_end_finder(partial(find_last_split, self.scanner), separators + self.special_tokens)

    def list_unsplittable(self, separators: list[bytes], keep_separator: bool) -> list[bytes] | None:
        """List the strings that a `FileReader` must not cut; None if `WordTable.count_file` cannot count its blocks."""
        if self.splits_lines or self.changes_text or self.scanner in (None, WHOLE_TEXT):
            return None
        return None if set(self.special_tokens) - set([] if keep_separator else separators) else separators

    def count(
        self, table: WordTable, text: Bytes, starts: NDArray[np.int64], ends: NDArray[np.int64], corpus_position: int
    ) -> int:
        """Count the words of the documents `text[starts[i]:ends[i]]`, where `text` is at `corpus_position`.

        Returns:
            The first position after them. Positions only order the first appearances of words.

        """
        from bpe.corpus.blocks import split_spans

        text_starts = starts
        if self.special_tokens:
            starts, ends = split_spans(text, starts, ends, self.special_tokens)
        if self.splits_lines:
            starts, ends = split_spans(text, starts, ends, [b"\n"], keep=True)
            text_starts = starts  # each line is a text of its own
        if isinstance(self.pretokenizer, PipelinePretokenizer) and self.scanner is None:
            for start, end, begins_text in zip(
                starts.tolist(), ends.tolist(), np.isin(starts, text_starts).tolist(), strict=True
            ):
                segment = self._preparer.split(self._preparer.normalize(bytes(text[start:end])), begins_text)
                table.count_spans(segment.data, *segment.bounds(), corpus_position)
                corpus_position += len(segment.data)
            return corpus_position + 1
        if self.changes_text:
            bounds = zip(starts.tolist(), ends.tolist(), strict=True)
            parts = [self._preparer.normalize_and_prefix(bytes(text[start:end])) for start, end in bounds]
            text = b"".join(parts)
            offsets = compute_offsets(np.fromiter(map(len, parts), dtype=np.int64, count=len(parts)))
            starts, ends = offsets[:-1], offsets[1:]
        if self.scanner is not None:
            table.count_scanned(self.scanner, text, starts, ends, corpus_position)
        elif self.pretokenizer is not None:
            table.count_spans(text, *self.pretokenizer.find_spans_of_texts(text, starts, ends), corpus_position)
        return corpus_position + len(text) + 1
