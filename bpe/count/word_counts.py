"""`WordCounts`: how often each distinct pretoken of a corpus occurs.

The counts are all that a trainer needs from a corpus, and they are much smaller. Parts of a corpus can be counted on
different machines and their counts merged. Counting files and many texts: `counting.py`; their file format:
`sealed_files.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from bpe.base._team import Team
from bpe.base.forks import make_lock
from bpe.base.offsets import compute_offsets
from bpe.base.threads import team_threads
from bpe.base.utf8 import TextLike, to_bytes
from bpe.count._word_list import list_words
from bpe.count._word_table import WordTable
from bpe.count.splitter import Splitter
from bpe.errors import (
    COUNT_LIMIT,
    FormatError,
    check_bool,
    check_choice,
    check_int,
    describe,
    get_log,
    pluralize,
    short_repr,
    with_article,
)
from bpe.pretokenize.pretokenizer import Pretokenizer, as_pretokenizer
from bpe.vocab.special_tokens import check_special_tokens

if TYPE_CHECKING:
    from fractions import Fraction

    import pyarrow as pa
    from numpy.typing import NDArray
    from typing_extensions import Self

    from bpe.corpus.blocks import PathLike
    from bpe.corpus.documents import Documents
    from bpe.count.sealed_files import CountedWords
    from bpe.text.normalizers import NormalizerLike


#: What is split into words: texts, each line of one, or texts into runs of words.
DOCUMENTS, LINES, RUNS = UNITS = ("documents", "lines", "runs")
#: The Unicode version of the named pretokenizers in files that do not record it.
_DEFAULT_UNICODE_VERSION = "18.0"
#: What counts are made with: the attributes that copies share.
_SETTINGS = ("pretokenizer", "normalizer", "special_tokens", "unicode_version", "units", "documents")
#: The fewest words of a thread that lists them, as starting it takes as long as that.
WORDS_PER_LISTING_THREAD = 1 << 13
#: The most frequent words that a notebook's card shows.
_SHOWN_WORDS = 10

_FORK_ERROR = (
    "another thread was changing these counts while the process was forked, so they are not whole here; use them in "
    "the parent, or fork when no call runs"
)


class WordCounts:
    """How often each distinct word occurs, in order of first appearance.

    Args:
        pretokenizer: how texts are split into words: a name, a `Pretokenizer`, or None (a text is one word).
        normalizer: how a text is changed before that: one or several of `bpe.normalizers`, or their names ("nfc").
        special_tokens: strings that separate text and are part of no word.

    Counts are 64-bit; a sum beyond 2**63 - 1 is refused. Only counts with the same three settings and the same
    `unicode_version`, `units` and `documents` can be merged.

    Any number of threads may use one object. Each call is atomic, and calls that read all words (`items`,
    `most_common`, `save`, `train`, …) read a snapshot. Several threads do not fill one object faster; `count_words`
    counts on several threads.

    Attributes:
        pretokenizer: the pretokenizer, or None.
        normalizer: the normalizer, or None.
        special_tokens: the special tokens, as a tuple of str.
        unicode_version: the Unicode version that words were split by: the pretokenizer's, or the one in the file that
            the counts were loaded from.
        units: what was split into words: "documents"; "lines" for the counts of `SuperWords.count_words`, which cut
            documents into lines; "runs" for those of `bpe.research.count_runs`, whose words are runs of words.
        documents: how text files were made documents, as `count_words` was called: "separator=None",
            `"separator='<|end|>'"`, "per_line=True"; None if there were none, or where it is not recorded.

    >>> counts = WordCounts("whitespace")
    >>> counts.add("low lower low")
    >>> dict(counts.items())
    {b'low': 2, b'lower': 1}

    """

    def __init__(
        self,
        pretokenizer: Pretokenizer | str | None = "gpt2",
        normalizer: NormalizerLike | None = None,
        special_tokens: Iterable[str] = (),
    ) -> None:
        self.pretokenizer = as_pretokenizer(pretokenizer)
        self.normalizer = None
        if normalizer is not None:
            from bpe.text.normalizers import as_normalizer

            self.normalizer = as_normalizer(normalizer)
        self.special_tokens = check_special_tokens(special_tokens)
        # the pretokenizer's own, unless the counts come from a file of another release
        self.unicode_version = None if self.pretokenizer is None else self.pretokenizer.unicode_version
        self.units = DOCUMENTS
        self.documents: str | None = None
        self._words: WordTable | CountedWords = WordTable()
        self._corpus_position = 0  # in the corpus, of the next text
        self._warned = False  # whether `update` has warned of spaces in words
        #: Held while the table is filled or read, which happens without the GIL. Reentrant, because a normalizer or a
        #: mapping is the caller's code and may use the counts. No call holds the locks of two objects.
        self._lock = make_lock(self, _FORK_ERROR)

    # Filling ----------------------------------------------------------------------------------------------------------

    def add(self, text: TextLike) -> None:
        """Count the words of one more text. For many texts `count_words` is faster.

        Args:
            text: str, or bytes of UTF-8.

        Raises:
            TypeError: if the text is neither str nor bytes.
            ValueError: for a count beyond 2**63 - 1.

        """
        data = to_bytes(text)
        bounds = np.array([0, len(data)], dtype=np.int64)
        with self._lock:
            self._corpus_position = Splitter(self).count(
                self._table, data, bounds[:1], bounds[1:], self._corpus_position
            )

    def update(self, counts: Mapping[str, int] | Mapping[bytes, int]) -> None:
        """Add words with their counts, in the mapping's order. A word is a pretoken; it is not split again.

        Words in subword-nmt's spelling, such as "l o w </w>", are added unchanged, spaces included. A warning in the
        log then says what to write instead: "low", with `end_of_word="</w>"` in `bpe.train`.

        Raises:
            TypeError: for a word that is not str or bytes, or a count that is not an int.
            ValueError: for an empty word, a negative count, or a total beyond 2**63 - 1; nothing is added then.

        >>> counts = WordCounts()
        >>> counts.update({"low": 2})
        >>> counts.update({b"low": 1, b" lower": 3})
        >>> dict(counts.items())
        {b'low': 3, b' lower': 3}

        """
        if not isinstance(counts, Mapping):
            raise TypeError(f"counts is {describe(counts)}; it must be a mapping of word to count")
        items: list[tuple[bytes, int]] = []
        total = 0
        for word, count in counts.items():
            if not isinstance(word, (str, bytes)):
                raise TypeError(f"word {short_repr(word)} is {with_article(word)}; it must be str or bytes")
            if not word:
                raise ValueError(f"word {word!r} is empty; leave it out: a word is at least one character")
            if isinstance(count, bool) or not hasattr(count, "__index__"):
                raise TypeError(f"the count of {short_repr(word)} is {short_repr(count)}; it must be an int")
            if count < 0:
                raise ValueError(f"the count of {short_repr(word)} is {count}; it must be at least 0")
            total += int(count)
            items.append((to_bytes(word), int(count)))
        if not self._warned and (spaced_spelling := _find_spaced_spelling(word for word, _ in items)) is not None:
            self._warned = True
            _warn_of_spaces(spaced_spelling)
        with self._lock:
            _check_total(self.total + total)
            words = [word for word, _ in items]
            n = len(words)
            self._table.add_arrays(
                b"".join(words),
                compute_offsets(np.fromiter(map(len, words), dtype=np.int64, count=n)),
                np.fromiter((count for _, count in items), dtype=np.int64, count=n),
                np.arange(self._corpus_position, self._corpus_position + n, dtype=np.uint64),
            )
            self._corpus_position += n

    def merge(self, other: WordCounts, weight: float | Fraction = 1, *, any_documents: bool = False) -> None:
        """Add another's counts, as if its corpus came after this one; the same as `|=`.

        Args:
            other: the other counts; they stay as they are.
            weight: what each count of the other is multiplied by: an int, a `fractions.Fraction`, or a float, which
                stands for the decimal number that it is printed as. Each product is rounded to the nearest integer,
                halves up, before it is added; words with a product of 0 are left out.
            any_documents: also merge counts of corpora whose files were made documents in different ways.

        Raises:
            TypeError: if the other is not a WordCounts, or the weight no number.
            ValueError: if the two were made with different pretokenizers, normalizers, special tokens or Unicode
                versions, of other units or other documents; for a weight that is not above 0; for a total beyond
                2**63 - 1.

        >>> one, other = WordCounts("whitespace"), WordCounts("whitespace")
        >>> one.add("low lower")
        >>> other.add("new low")
        >>> one |= other
        >>> dict(one.items())
        {b'low': 2, b'lower': 1, b'new': 1}
        >>> one.merge(other, weight=2.5)
        >>> dict(one.items())
        {b'low': 5, b'lower': 1, b'new': 4}

        """
        factor = _as_fraction(weight)
        check_bool("any_documents", any_documents)
        if not isinstance(other, WordCounts):
            raise TypeError(
                f"{short_repr(other)} is {with_article(other)}; only WordCounts merge (update takes a mapping)"
            )
        for name in ("pretokenizer", "normalizer", "special_tokens", "units"):
            expected, actual = getattr(self, name), getattr(other, name)
            if expected != actual:
                raise ValueError(
                    f"the counts were made with {name}={actual!r}, these with {expected!r}; only counts made with the "
                    "same settings can be merged: count one of the corpora again"
                )
        if not any_documents and None not in (self.documents, other.documents) and self.documents != other.documents:
            raise ValueError(
                f"the counts were made with {other.documents}, these with {self.documents}, so the same text gives "
                "them other words; count one of the corpora again, or pass any_documents=True if their files differ so"
            )
        if self.unicode_version != other.unicode_version:
            raise ValueError(
                f"the counts were made with Unicode {other.unicode_version}, these with {self.unicode_version}, and "
                "the two split newly assigned characters differently; only counts made with the same settings can be "
                "merged: count one of the corpora again"
            )
        blob, offsets, counts = other._snapshot()  # releases the other's lock before this one's is taken
        total = int(counts.sum())
        if factor != 1:
            (blob, offsets, counts), total = _weigh_counts(blob, offsets, counts, factor)
        with self._lock:
            _check_total(self.total + total)
            self._add_arrays(blob, offsets, counts)
            self.documents = self.documents or other.documents

    def __ior__(self, other: WordCounts) -> Self:
        self.merge(other)
        return self

    def clear(self) -> None:
        """Remove all words and free their memory."""
        with self._lock:
            self._words = WordTable()
            self._corpus_position = 0

    def _make_empty(self) -> WordCounts:
        """Make counts with these settings, without words."""
        empty = WordCounts(None)
        vars(empty).update(self._get_settings())
        return empty

    @property
    def _table(self) -> WordTable:
        """The table, for filling and look-ups. The caller holds the lock.

        Counting with spilled tables leaves arrays; the first use of the table builds it from them.
        """
        if not isinstance(self._words, WordTable):
            arrays, self._words, self._corpus_position = self._words, WordTable(), 0
            self._add_arrays(*arrays)
        return self._words

    def _add_arrays(self, blob: NDArray[np.uint8], offsets: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        table = self._table
        positions = np.arange(self._corpus_position, self._corpus_position + len(counts), dtype=np.uint64)
        table.add_arrays(blob, offsets, counts, positions)
        self._corpus_position += len(counts)

    # Reading ----------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Count the distinct words."""
        with self._lock:
            return len(self._words) if isinstance(self._words, WordTable) else len(self._words[2])

    def __getitem__(self, word: str | bytes) -> int:
        """Return the count of a word, 0 if the word does not occur."""
        if not isinstance(word, TextLike):
            raise TypeError(f"word is {describe(word)}; it must be str or bytes (most_common lists words in order)")
        with self._lock:
            return self._table.get(to_bytes(word))

    def __iter__(self) -> Iterator[bytes]:
        """Iterate over the words, in order of first appearance."""
        return (word for word, _ in self.items())

    __reversed__ = None  # as for a mapping, not by index

    def __contains__(self, word: str | bytes) -> bool:
        return self[word] > 0

    @property
    def total(self) -> int:
        """The sum of all counts."""
        with self._lock:
            return self._table.total

    def arrays(self) -> CountedWords:
        """Return the words in order of first appearance, as arrays.

        Returns:
            blob (uint8), offsets (int64, shape (n + 1,)) and counts (int64, shape (n,)); word i is
            `blob[offsets[i]:offsets[i + 1]]`.

        """
        with self._lock:
            blob, offsets, counts = self._snapshot()
            shared = not isinstance(self._words, WordTable)
        return (blob.copy(), offsets.copy(), counts.copy()) if shared else (blob, offsets, counts)

    def _snapshot(self, threads: int = 1) -> CountedWords:
        """Return the words and counts as arrays that may be those of this object: the caller must not write to them."""
        with self._lock:
            return list_in_order(self._words, threads) if isinstance(self._words, WordTable) else self._words

    def keys(self) -> Iterator[bytes]:
        """Iterate over the words, in order of first appearance.

        >>> counts = WordCounts("whitespace")
        >>> counts.add("low lower low")
        >>> dict(counts), sorted(counts)
        ({b'low': 2, b'lower': 1}, [b'low', b'lower'])
        """
        return iter(self)

    def values(self) -> Iterator[int]:
        """Iterate over the counts, in order of first appearance."""
        return iter(self._snapshot()[2].tolist())

    def items(self) -> Iterator[tuple[bytes, int]]:
        """Iterate over (word, count), in order of first appearance."""
        blob, offsets, counts = self._snapshot()
        data = blob.tobytes()
        return ((data[a:b], count) for (a, b), count in zip(pairwise(offsets.tolist()), counts.tolist(), strict=True))

    def most_common(self, n: int | None = None) -> list[tuple[bytes, int]]:
        """List the n words with the highest counts (all by default); equal counts are in order of first appearance.

        >>> counts = WordCounts()
        >>> counts.update({"a": 2, "b": 5, "c": 2})
        >>> counts.most_common(2)
        [(b'b', 5), (b'a', 2)]
        """
        blob, offsets, counts = self._snapshot()
        order = np.argsort(-counts, kind="stable")[: None if n is None else check_int("n", n, 0)]
        return [(blob[offsets[i] : offsets[i + 1]].tobytes(), int(counts[i])) for i in order.tolist()]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WordCounts):
            return NotImplemented
        if self._get_settings() | {"documents": None} != other._get_settings() | {"documents": None}:
            return False
        own_arrays, other_arrays = self._snapshot(), other._snapshot()
        return all(np.array_equal(own_arrays[i], other_arrays[i]) for i in range(3))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"WordCounts({pluralize(len(self), 'word')}, {self.total} in all, pretokenizer={self.pretokenizer!r})"

    def _repr_html_(self) -> str:
        """Make a card with the most frequent words, for notebooks."""
        from bpe.show.html import Html, format_separately, make_card, make_table

        rows = [[Html(format_separately(word)), count] for word, count in self.most_common(_SHOWN_WORDS)]
        facts = {
            "distinct words": len(self),
            "words in all": self.total,
            "pretokenizer": "none" if self.pretokenizer is None else self.pretokenizer.name or repr(self.pretokenizer),
            "normalizer": "none" if self.normalizer is None else repr(self.normalizer),
            "special tokens": ", ".join(self.special_tokens) or "none",
        }
        return make_card("bpe.WordCounts", facts, make_table(["most frequent", "count"], rows) if rows else "")

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._get_settings(), self._snapshot())

    def _get_settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _SETTINGS}

    # Files ------------------------------------------------------------------------------------------------------------

    def save(self, path: PathLike) -> None:
        """Write the counts to one binary file, whole or not at all.

        Layout, little-endian: the 8 bytes BPECOUNT, a uint32 version (1), a uint64 length and as many bytes of JSON
        (`words`, the dtypes and sizes of the three arrays, the settings), the lengths of the words, their counts, the
        words' bytes one after the other, and the SHA-256 of everything before.

        Args:
            path: the file to write; its folder must exist.

        Raises:
            OSError: for a file that cannot be written.

        >>> import os, tempfile
        >>> counts = WordCounts()
        >>> counts.add("low lower")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     counts.save(os.path.join(folder, "words.counts"))
        ...     WordCounts.load(os.path.join(folder, "words.counts")) == counts
        True

        """
        write_counts(self, path)

    @classmethod
    def load(cls, path: PathLike) -> WordCounts:
        """Read counts that `save` wrote, with the pretokenizer, normalizer and special tokens that made them.

        Args:
            path: the file.

        Raises:
            FormatError: for a file that is truncated, altered or something else.
            OSError: for a file that cannot be read.

        """
        loaded, resume_state = read_counts(path)
        if resume_state is not None:
            raise FormatError(
                "these are the counts of a part of a corpus, which a training that was interrupted goes on from; make "
                "the same call to finish it",
                path=path,
            )
        return loaded

    def to_arrow(self) -> pa.Table:
        """Copy the counts to an Arrow table: columns `word` (large_binary) and `count` (int64) (extra `arrow`).

        Raises:
            ModuleNotFoundError: without pyarrow.

        """
        from bpe.batch import load_pyarrow

        arrow = load_pyarrow()
        blob, offsets, counts = self.arrays()  # copies, which the Arrow table keeps
        words = arrow.LargeBinaryArray.from_buffers(
            arrow.large_binary(), len(counts), [None, arrow.py_buffer(offsets), arrow.py_buffer(blob)]
        )
        table: pa.Table = arrow.table({"word": words, "count": arrow.array(counts)})
        return table

    @classmethod
    def from_text(
        cls,
        path: PathLike,
        pretokenizer: Pretokenizer | str | None = "gpt2",
        normalizer: NormalizerLike | None = None,
        special_tokens: Iterable[str] = (),
    ) -> WordCounts:
        """Read a list of words with their counts: lines of "word TAB count" or "word SPACE count".

        sentencepiece (`--input_format=tsv`) and subword-nmt (`get-vocab`) have such files. Each word counts as a text
        of its own that occurs so often: the pretokenizer splits it, and adds what it adds, such as metaspace's `▁`.

        Args:
            path: the file, in UTF-8.
            pretokenizer: as for the class. With "gpt2" and its like, write a space before a word that is within text;
                a warning in the log says if no word has one.
            normalizer: as for the class.
            special_tokens: as for the class.

        Raises:
            FormatError: with the line, for one that is no word with a count, and for text that is not UTF-8.
            ValueError: for a total beyond 2**63 - 1.
            OSError: for a file that cannot be read.

        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
        ...     _ = file.write("low\\t5\\nlow lower\\t2\\n".encode())
        ...     file.flush()
        ...     dict(WordCounts.from_text(file.name, "whitespace").items())
        {b'low': 7, b'lower': 2}

        """
        from bpe.count.word_lists import read_word_list, warn_of_missing_spaces

        loaded = cls(pretokenizer, normalizer, special_tokens)
        words_by_count: dict[int, list[str]] = {}
        words = read_word_list(path)
        for word, count in words:
            loaded.add(word)  # once, which decides the order
            words_by_count.setdefault(count, []).append(word)
        for count, repeated_words in words_by_count.items():
            if count > 1:
                repeated = loaded._make_empty()
                for word in repeated_words:
                    repeated.add(word)
                loaded.merge(repeated, count - 1)
        if loaded.pretokenizer is not None:
            warn_of_missing_spaces(loaded.pretokenizer.name, [word for word, _ in words], path)
        return loaded

    @classmethod
    def from_arrow(
        cls,
        table: pa.Table,
        pretokenizer: Pretokenizer | str | None = "gpt2",
        normalizer: NormalizerLike | None = None,
        special_tokens: Iterable[str] = (),
    ) -> WordCounts:
        """Read the counts in an Arrow table, such as the result of a group-by in Spark.

        Args:
            table: with columns `word` (binary or string) and `count` (an integer type). The counts of a word that
                occurs in several rows are added.
            pretokenizer: the pretokenizer that split the texts, as for the class; an Arrow table does not record it.
            normalizer: likewise.
            special_tokens: likewise.

        Raises:
            TypeError: for what is no table.
            ValueError: for missing columns, nulls, empty words, negative counts or an invalid table.

        """
        if not hasattr(table, "column_names"):
            raise TypeError(f"table is {describe(table)}; it must be a table of pyarrow with columns word and count")
        loaded = cls(pretokenizer, normalizer, special_tokens)
        for name in ("word", "count"):
            if name not in table.column_names:
                raise ValueError(f"the table has columns {table.column_names}; it must have word and count")
            if table.column(name).null_count:
                raise ValueError(
                    f"column {name} has {pluralize(table.column(name).null_count, 'null')}; it must have none"
                )
        table = table.select(["word", "count"])
        table.validate(full=True)  # pyarrow itself does not check the offsets that it reads by
        for batch in table.to_batches():
            words, counts = batch.column(0).to_pylist(), batch.column(1).to_pylist()
            batch_counts: dict[bytes, int] = {}
            for word, count in zip(words, counts, strict=True):
                data = to_bytes(word)
                batch_counts[data] = batch_counts.get(data, 0) + count
            loaded.update(batch_counts)
        return loaded


#: A word as subword-nmt spells it: symbols separated by spaces, the last with an end-of-word mark.
_SPACED_SYMBOLS = r"(\S(?: \S)*)(?: (\S?)(<\S+>))?"


def _find_spaced_spelling(words: Iterable[bytes]) -> re.Match[str] | None:
    """Find the first word whose symbols are separated by spaces, if every word that contains a space is spelled so.

    >>> _find_spaced_spelling([b"l o w </w>", b"n e w </w>"])[0], _find_spaced_spelling([b"a b", b"more than symbols"])
    ('l o w </w>', None)
    """
    first = None
    for word in words:
        if b" " in word.strip(b" "):
            match = re.fullmatch(_SPACED_SYMBOLS, word.decode("utf-8", "replace"))
            if match is None:
                return None
            first = first or match
    return first


def _warn_of_spaces(word: re.Match[str]) -> None:
    glued, mark = word[2], word[3]
    get_log("bpe.wordcounts").warning(
        "the counts have words with a space between all symbols, such as %r; words are not split at spaces, so each "
        "space becomes a symbol too; write %r%s",
        word[0],
        word[1].replace(" ", "") + (glued or ""),
        f", and train with end_of_word={mark!r}{', end_of_word_glued=True' * bool(glued)}" if mark else "",
    )


def _as_fraction(weight: object) -> Fraction:
    """Convert a weight of `WordCounts.merge` exactly."""
    from fractions import Fraction
    from numbers import Rational

    if isinstance(weight, bool) or not isinstance(weight, (Rational, float, np.integer, np.floating)):
        raise TypeError(f"weight is {describe(weight)}; it must be an int, a Fraction or a float")
    if isinstance(weight, (float, np.floating)):
        exact = Fraction(str(weight)) if math.isfinite(weight) else Fraction(0)
    else:
        exact = Fraction(int(weight.numerator), int(weight.denominator))
    if exact <= 0:
        raise ValueError(f"weight is {weight}; it must be a number above 0")
    return exact


def _weigh_counts(
    blob: NDArray[np.uint8], offsets: NDArray[np.int64], counts: NDArray[np.int64], factor: Fraction
) -> tuple[CountedWords, int]:
    """Multiply and round counts: (the words without those of count 0, the sum of the counts).

    Products that may exceed 64 bits are computed with Python's integers.
    """
    numerator, denominator = factor.numerator, factor.denominator
    fits = int(counts.max(initial=0)) * 2 * numerator + denominator <= COUNT_LIMIT and 2 * denominator <= COUNT_LIMIT
    products = (counts if fits else counts.astype(object)) * (2 * numerator)
    products = (products + denominator) // (2 * denominator)
    total = int(products.sum()) if fits and float(products.sum(dtype=np.float64)) < 2.0**62 else sum(products.tolist())
    _check_total(total)
    rounded = products.astype(np.int64)
    if rounded.all():
        return (blob, offsets, rounded), total
    occurs = rounded > 0
    lengths = np.diff(offsets)
    return (blob[np.repeat(occurs, lengths)], compute_offsets(lengths[occurs]), rounded[occurs]), total


def _check_total(total: int) -> None:
    if total > COUNT_LIMIT:
        raise ValueError(f"the counts sum to {total}; the sum must be at most 2**63 - 1: scale the counts down")


def empty_like(counts: WordCounts) -> WordCounts:
    """Make counts with the same settings, without words."""
    return counts._make_empty()


def borrow_arrays(counts: WordCounts, threads: int = 1) -> CountedWords:
    """Borrow the words as arrays, which the caller must not write to: (bytes in one buffer, offsets, counts)."""
    return counts._snapshot(threads)


def list_in_order(table: WordTable, threads: int = 1) -> CountedWords:
    """List the words of a table in order of first appearance: (bytes in one buffer, offsets, counts)."""
    team = Team(max(1, min(threads, len(table) // WORDS_PER_LISTING_THREAD)))
    with team_threads(team):
        return list_words(table, team)[:3]


def check_counts_match(
    counts: WordCounts, special_tokens: Iterable[str], units: str = DOCUMENTS, known_names: Container[str] | None = None
) -> None:
    """Check that counts were made of the text that a tokenizer with these special tokens is to learn from.

    Args:
        counts: the counts.
        special_tokens: the tokenizer's special tokens.
        units: what it learns from.
        known_names: the strings that may separate text without a warning, instead of the special tokens.

    Raises:
        ValueError: for a special token that did not separate their text, since words have parts of it, and for counts
            of other units.

    """
    special_tokens = tuple(special_tokens)
    for name in special_tokens:
        if name not in counts.special_tokens:
            raise ValueError(
                f"the counts were made without the special token {name!r}, so tokens would be learned from its text; "
                f"count again with special_tokens=[{name!r}] (a mapping of your own counts is taken as it is)"
            )
    if counts.units != units:
        function = "bpe.count_words" if units == DOCUMENTS else "superwords.count_words"
        raise ValueError(
            f"the counts have the words of {counts.units}, and this needs those of {units}: count again with "
            f"{function} (a mapping of your own counts is taken as it is)"
        )
    unused_names = [
        name for name in counts.special_tokens if name not in (special_tokens if known_names is None else known_names)
    ]
    if unused_names:
        get_log("bpe.wordcounts").warning(
            "%s separated the text of the counts and is no token; name it as a special token to make it one",
            ", ".join(unused_names),
        )
    current_version = None if counts.pretokenizer is None else counts.pretokenizer.unicode_version
    if counts.unicode_version != current_version:
        get_log("bpe.wordcounts").warning(
            "the counts were made with Unicode %s, and the tokenizer splits text by Unicode %s, so some newly assigned "
            "characters are in other words; count again to make them agree",
            counts.unicode_version,
            current_version,
        )


def read_counts(path: PathLike) -> tuple[WordCounts, Any]:
    """Read a file of counts: (the counts, what `write_counts` wrote of an unfinished count, or None)."""
    import json

    from bpe.count.sealed_files import COUNTS_FORMAT, read_arrays
    from bpe.text.pipeline_normalizers import from_json as normalizer_from_json

    head, data = COUNTS_FORMAT.read(path)
    try:
        header = json.loads(head)
        pretokenizer, normalizer = header["pretokenizer"], header["normalizer"]
        loaded = WordCounts(
            None if pretokenizer is None else Pretokenizer.from_json(pretokenizer),
            None if normalizer is None else normalizer_from_json(normalizer),
            header["special_tokens"],
        )
        loaded.unicode_version = _read_unicode_version(header, loaded.pretokenizer)
        loaded.units = check_choice("units", header.get("units", DOCUMENTS), UNITS)
        loaded.documents = header.get("documents")
        if not isinstance(loaded.documents, str | None):
            raise TypeError(f"documents is {short_repr(loaded.documents)}; it must be a str or null")
        arrays = read_arrays(data, header)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise FormatError(f"the header is not valid: {error}", path=path) from None
    try:
        loaded._add_arrays(*arrays)
        if len(loaded) != len(arrays[2]):
            raise ValueError("a word occurs twice; each word must have one count")
    except ValueError as error:
        raise FormatError(str(error), path=path) from None
    return loaded, header.get("unfinished")


def write_counts(counts: WordCounts, path: PathLike, resume_state: Any = None) -> None:
    """Write a file of counts; of a count that is unfinished, with a JSON value that says so."""
    from bpe.count.sealed_files import COUNTS_FORMAT, pack_arrays

    sizes, parts = pack_arrays(*counts._snapshot())
    header = {
        **sizes,
        "pretokenizer": None if counts.pretokenizer is None else counts.pretokenizer.to_json(),
        "normalizer": None if counts.normalizer is None else counts.normalizer.to_json(),
        "special_tokens": list(counts.special_tokens),
        "unicode_version": counts.unicode_version,
        "units": counts.units,
        "documents": counts.documents,
        **({} if resume_state is None else {"unfinished": resume_state}),
    }
    COUNTS_FORMAT.write(path, header, parts)


def _read_unicode_version(header: Mapping[str, Any], pretokenizer: Pretokenizer | None) -> str | None:
    """Read the Unicode version that split the words in a file; ValueError where the header's is not valid."""
    current_version = None if pretokenizer is None else pretokenizer.unicode_version
    version = header.get("unicode_version", current_version and _DEFAULT_UNICODE_VERSION)
    if current_version is None and version is None:
        return None
    if current_version is None or not isinstance(version, str):
        raise ValueError(
            f"unicode_version is {short_repr(version)}; it must be {'null' if current_version is None else 'a str'}"
        )
    return version


def fill_counts(counts: WordCounts, words: WordTable | CountedWords) -> None:
    """Store the words of a whole corpus in counts that are empty."""
    with counts._lock:
        counts._words, counts._corpus_position = words, 1 << 62  # greater than every position used so far


def add_documents(counts: WordCounts, groups: Iterable[Documents]) -> int:
    """Add the words of texts in buffers, such as `read_arrow_documents` gives; return the bytes of the table now."""
    with counts._lock:
        splitter, table = Splitter(counts), counts._table
        for documents in groups:
            counts._corpus_position = splitter.count(
                table, documents.data, documents.starts, documents.ends, counts._corpus_position
            )
        return table.memory


def _rebuild(settings: Mapping[str, Any], arrays: CountedWords) -> WordCounts:
    rebuilt = WordCounts(None)
    vars(rebuilt).update(settings)
    rebuilt._add_arrays(*arrays)
    return rebuilt
