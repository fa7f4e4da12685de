"""subword-nmt's `BPE`: segments words into subword units with `@@` between them, from a file of codes.

The units are those of subword-nmt 0.3.8, with its separator, glossaries, vocabulary threshold and dropout. Distinct
words are encoded together by a `Tokenizer`. Words and codes for which subword-nmt's order of merging can matter take a
path in Python that merges as it does. The file of codes: `bpe/formats/subword_nmt.py`.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from itertools import chain, pairwise
from typing import IO, Any

from bpe.base.utf8 import read_file
from bpe.corpus.blocks import PathLike
from bpe.errors import FormatError, check_int, check_probability_and_seed, check_str, describe, short_repr, with_path
from bpe.formats import subword_nmt
from bpe.formats.signatures import END_OF_WORD
from bpe.tokenizer import Tokenizer

__all__ = ["BPE", "read_vocabulary"]

#: Up to this many new words are merged one by one, which takes less time than a batch.
_MAX_SINGLE_WORDS = 2
#: Longer words are merged in a batch, because merging a word in Python takes time quadratic in its length.
_MAX_SINGLE_LENGTH = 100
#: A call clears a cache of more words.
_MAX_CACHED_WORDS = 1 << 20


def _read_content(source: PathLike | IO[Any]) -> tuple[bytes, str | None]:
    """Read a path, or an open file; returns the bytes, and the path if it is known."""
    if isinstance(source, (str, os.PathLike)):
        return read_file(source), os.fspath(source)
    if not hasattr(source, "read"):
        raise TypeError(f"codes is {describe(source)}; it must be a path or a file open for reading text")
    text = source.read()
    return text if isinstance(text, bytes) else text.encode(), getattr(source, "name", None)


def read_vocabulary(vocab_file: Iterable[str], threshold: int | None) -> set[str]:
    """Read the units of a vocabulary that `subword-nmt get-vocab` wrote, with at least `threshold` occurrences.

    Args:
        vocab_file: the lines: a unit, a space and its count.
        threshold: the least count; None for all.

    Raises:
        FormatError: for a line that is not a unit and a count; the message names the line.

    >>> sorted(read_vocabulary(["lo@@ 12", "w 3"], 5))
    ['lo@@']

    """
    units = set()
    for line_number, line in enumerate(vocab_file, 1):
        fields = check_str(f"line {line_number}", line).strip("\r\n ").split(" ")
        if len(fields) != 2 or not re.fullmatch(r"-?\d{1,18}", fields[1]):
            raise FormatError(f"{short_repr(line)} is not a unit, a space and a count", where=f"line {line_number}")
        if threshold is None or int(fields[1]) >= threshold:
            units.add(fields[0])
    return units


class BPE:
    """Segments text as subword-nmt's `apply_bpe.BPE` does.

    Args:
        codes: the file of codes: a path, or a file open for reading text.
        merges: how many merges to use; -1 for all.
        separator: written after each unit that does not end its word.
        vocab: the units to produce, as `read_vocabulary` gives them; merges that produce other units are undone. None
            for any units.
        glossaries: regular expressions; what they match is one unit.

    Attributes:
        tokenizer: the tokenizer of the codes, without glossaries and vocabulary.

    Raises:
        FormatError: for a file that is not a file of codes.
        OSError: for a file that cannot be read.

    >>> import io
    >>> segmenter = BPE(io.StringIO("#version: 0.2\\nl o\\nlo w</w>\\n"))
    >>> segmenter.process_line("low slow lower\\n")
    'low s@@ low lo@@ w@@ e@@ r\\n'

    """

    def __init__(
        self,
        codes: PathLike | IO[Any],
        merges: int = -1,
        separator: str = "@@",
        vocab: Collection[str] | None = None,
        glossaries: list[str] | None = None,
    ) -> None:
        data, path = _read_content(codes)
        merges = check_int("merges", merges, -1)
        with with_path(path):
            self.version, pairs = subword_nmt.parse(data, merges)
            self.tokenizer = Tokenizer(subword_nmt.read(data, merges))
        self._word_tokenizer = Tokenizer(replace(self.tokenizer.spec, pretokenizer=None))
        self.separator, self.glossaries = separator, list(glossaries or [])
        self.vocab = None if vocab is None else frozenset(vocab)
        self._ranks = {pair: rank for rank, pair in enumerate(pairs)}
        self._merge_parts = {left + right: (left, right) for left, right in reversed(pairs)}
        self._has_ordered_merges = _is_ordered(pairs)
        self._glossary_pattern = re.compile(f"^({'|'.join(self.glossaries)})$") if self.glossaries else None
        self._lengths = self._measure_units()
        self._cache: dict[str, tuple[str, ...]] = {}

    def _measure_units(self) -> list[int]:
        """Count the characters that each token has in a word, by id; an unknown character is one."""
        spec, lengths = self.tokenizer.spec, []
        ends_word_by_id = spec.ends_word if spec.ends_word is not None else ()
        for token_id, ends_word in enumerate(ends_word_by_id):
            text = spec.vocabulary[token_id].decode()
            lengths.append(len(text) - len(END_OF_WORD) * bool(ends_word))
        lengths[-1] = 1  # <unk>, the last id
        return lengths

    def process_line(self, line: str, dropout: float = 0) -> str:
        """Segment a line, and keep the white space around it."""
        content = check_str("line", line).strip("\r\n ")
        n_leading = len(line) - len(line.lstrip("\r\n "))
        trailing = line[len(line.rstrip("\r\n ")) :] if content else ""
        return line[:n_leading] + self.segment(content, dropout) + trailing

    def segment(self, sentence: str, dropout: float = 0) -> str:
        """Segment a sentence, whose words are separated by spaces."""
        return " ".join(self.segment_tokens(check_str("sentence", sentence).strip("\r\n ").split(" "), dropout))

    def segment_tokens(self, tokens: Iterable[str], dropout: float = 0) -> list[str]:
        """Segment words; returns the units, with the separator after each that does not end its word."""
        segments_by_word = [
            self._isolate_glossaries(word) if self.glossaries else [word]
            for word in tokens
            if check_str("a token", word)
        ]
        dropout = check_probability_and_seed("dropout", dropout, 0)[0]
        if len(self._cache) > _MAX_CACHED_WORDS:
            self._cache.clear()
        if not dropout:
            all_segments = chain.from_iterable(segments_by_word)
            new_segments = {segment for segment in all_segments if segment not in self._cache}
            if len(new_segments) > _MAX_SINGLE_WORDS or any(len(word) > _MAX_SINGLE_LENGTH for word in new_segments):
                self._fill_cache(new_segments)
        output = []
        for segments in segments_by_word:
            units = [unit for segment in segments for unit in self._segment_word(segment, dropout)]
            output += [unit + self.separator for unit in units[:-1]] + units[-1:]
        return output

    # Glossaries and the vocabulary ------------------------------------------------------------------------------------

    def _isolate_glossaries(self, word: str) -> list[str]:
        """Split a word into segments, each glossary match by itself."""
        segments = [word]
        for glossary in self.glossaries:
            segments = [part for segment in segments for part in _isolate(segment, glossary)]
        return segments

    def _restrict_to_vocabulary(self, units: list[str], vocab: Collection[str]) -> tuple[str, ...]:
        """Divide units that are not in the vocabulary, by undoing merges."""
        result: list[str] = []
        for index, unit in enumerate(units):
            ends_word = index == len(units) - 1
            is_known = unit in vocab if ends_word else unit + self.separator in vocab
            result += [unit] if is_known else self._divide(unit, ends_word, vocab)
        return tuple(result)

    def _divide(self, unit: str, ends_word: bool, vocab: Collection[str]) -> Iterator[str]:
        """Undo merges of a unit until all parts are in the vocabulary, or are no result of a merge."""
        stack = [(unit, ends_word, False)]
        while stack:
            unit, ends_word, may_be_known = stack.pop()
            is_known = may_be_known and (unit in vocab if ends_word else unit + self.separator in vocab)
            pair = None if is_known else self._merge_parts.get(unit + END_OF_WORD if ends_word else unit)
            if pair is None:
                yield unit
            else:
                right = pair[1].removesuffix(END_OF_WORD) if ends_word else pair[1]
                stack += [(right, ends_word, True), (pair[0], False, True)]

    # Merging ----------------------------------------------------------------------------------------------------------

    def _fill_cache(self, words: set[str]) -> None:
        """Encode new words together, where the tokenizer gives what subword-nmt gives."""
        if not self._has_ordered_merges:
            return
        single_words = [word for word in words if self._is_single_word(word)]
        for word, ids in zip(single_words, self._word_tokenizer.encode_batch(single_words).to_list(), strict=True):
            units, start = [], 0
            for token_id in ids:
                length = self._lengths[token_id]
                if length:
                    units.append(word[start : start + length])
                start += length
            self._cache[word] = self._restrict_to_vocabulary(units, self.vocab) if self.vocab else tuple(units)

    def _is_single_word(self, word: str) -> bool:
        """Whether the tokenizer sees a segment as subword-nmt does: one word, and no match of a glossary."""
        is_special = len(word) < 2 or END_OF_WORD in word or re.search(r"[ \r\n\ud800-\udfff]", word)
        return not is_special and not (self._glossary_pattern and self._glossary_pattern.match(word))

    def _segment_word(self, word: str, dropout: float) -> tuple[str, ...]:
        cached_units = None if dropout else self._cache.get(word)  # another thread may clear the cache meanwhile
        if cached_units is not None:
            return cached_units
        if self._glossary_pattern and self._glossary_pattern.match(word):
            units: tuple[str, ...] = (word,)
        elif len(word) == 1:
            return (word,)
        else:
            merged_units = self._merge(word, dropout)
            units = self._restrict_to_vocabulary(merged_units, self.vocab) if self.vocab else tuple(merged_units)
        self._cache[word] = (
            units  # with dropout too, as in subword-nmt: a later call without dropout returns these units
        )
        return units

    def _merge(self, word: str, dropout: float) -> list[str]:
        """Merge a word to units in subword-nmt's order: all occurrences of the best pair at once."""
        symbols = [*word, END_OF_WORD] if self.version == (0, 1) else [*word[:-1], word[-1] + END_OF_WORD]
        while len(symbols) > 1:
            candidates = [
                (self._ranks[pair], index)
                for index, pair in enumerate(pairwise(symbols))
                if (not dropout or random.random() > dropout) and pair in self._ranks
            ]
            if not candidates:
                break
            best_rank, merged_symbols, start = min(candidates)[0], list[str](), 0
            for rank, index in candidates:
                if rank is best_rank and index >= start:  # by identity, so that this ends for a rank of NaN, too
                    merged_symbols += [*symbols[start:index], symbols[index] + symbols[index + 1]]
                    start = index + 2
            symbols = merged_symbols + symbols[start:]
        if symbols[-1] == END_OF_WORD:
            return symbols[:-1]
        return [*symbols[:-1], symbols[-1].removesuffix(END_OF_WORD)]


def _is_ordered(pairs: list[tuple[str, str]]) -> bool:
    """Whether no merge has a part that a later merge produces.

    In that case, merging all occurrences of the best pair at once gives the same as merging the leftmost best pair
    again and again.
    """
    last_rank: dict[str, int] = {left + right: rank for rank, (left, right) in enumerate(pairs)}
    return all(last_rank.get(part, -1) < rank for rank, pair in enumerate(pairs) for part in pair)


def _isolate(word: str, glossary: str) -> list[str]:
    """Split a word into the matches of a glossary and the segments around them."""
    if re.match(f"^{glossary}$", word) or not re.search(glossary, word):
        return [word]
    *segments, last_segment = re.split(f"({glossary})", word)
    segments = [segment for segment in segments if segment]
    return [*segments, last_segment.strip("\r\n ")] if last_segment else segments
