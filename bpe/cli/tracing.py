"""What `bpe train --trace` prints: the merges, and with `--corpus` the corpus and its best pairs after each.

The corpus is merged here once more, plainly, as a learner would by hand; so it is for small corpora.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

from bpe.base.spelling import spell
from bpe.base.utf8 import TextLike, to_bytes
from bpe.cli.files import print_line, silence_stdout
from bpe.errors import pluralize

#: The most distinct words of a corpus, and how many of them, the first, and of the most frequent pairs are printed.
MAX_WORDS, _MAX_LISTED_WORDS, _MAX_PAIRS = 10_000, 100, 5

Symbol = str | bytes
Pair = tuple[Symbol, Symbol]


class MergeTrace:
    """Prints each merge of a training: `on_merge` of `bpe.train`.

    Args:
        corpus: the words and their counts, to print them after each merge; None to print merges alone.

    """

    def __init__(self, corpus: TracedCorpus | None) -> None:
        self._corpus = corpus
        self._has_begun = False

    def __call__(self, step: int, left: Symbol, right: Symbol, token: Symbol, count: int) -> None:
        """Print a merge, and before it the corpus."""
        merge = f"{step}\t{spell(left)}\t{spell(right)}\t{spell(token)}\t{count}"
        self._print([*self._describe_corpus((left, right)), merge])
        if self._corpus is not None:
            self._corpus.merge(left, right)

    def finish(self) -> None:
        """Print the corpus after the last merge."""
        self._print(self._describe_corpus(None))

    def _describe_corpus(self, next_pair: Pair | None) -> list[str]:
        return [] if self._corpus is None else self._corpus.describe(next_pair)

    def _print(self, lines: list[str]) -> None:
        if not self._has_begun:
            lines = ["step\tleft\tright\ttoken\tcount", *lines]
            self._has_begun = True
        try:
            for line in lines:
                print_line(line)
        except BrokenPipeError:  # the reader of the trace has quit (`| head`); training continues
            silence_stdout()


class TracedCorpus:
    """Words as symbols, with their counts.

    >>> corpus = TracedCorpus([("hug", 10), ("pug", 5)])
    >>> corpus.merge("u", "g")
    >>> corpus.describe()
    ['corpus\\th ug:10  p ug:5', 'pairs\\th ug 10 > p ug 5']

    """

    def __init__(
        self,
        words: Iterable[tuple[TextLike, int]],
        *,
        is_byte_model: bool = False,
        end_of_word: str | None = None,
        glued: bool = False,
    ) -> None:
        mark: list[Symbol] = [] if end_of_word is None else [end_of_word.encode() if is_byte_model else end_of_word]
        self._words: list[tuple[list[Symbol], int]] = []
        for word, count in words:
            data = to_bytes(word)
            text = data.decode("utf-8", "surrogateescape")  # training says what is not UTF-8
            symbols: list[Symbol] = [bytes([byte]) for byte in data] if is_byte_model else list(text)
            symbols += mark
            if mark and glued:
                symbols[-2:] = [symbols[-2] + mark[0]]  # type: ignore[operator]
            self._words.append((symbols, count))

    @classmethod
    def from_arguments(cls, args: argparse.Namespace, words: Iterable[tuple[TextLike, int]]) -> TracedCorpus:
        """Make the corpus of `bpe train`."""
        is_byte_model = args.model != "char" and not args.byte_fallback
        return cls(words, is_byte_model=is_byte_model, end_of_word=args.end_of_word, glued=args.end_of_word_glued)

    def merge(self, left: Symbol, right: Symbol) -> None:
        """Merge a pair everywhere, from left to right."""
        for symbols, _ in self._words:
            index = 0
            while index + 1 < len(symbols):
                if symbols[index] == left and symbols[index + 1] == right:
                    symbols[index : index + 2] = [left + right]  # type: ignore[operator]
                index += 1

    def describe(self, next_pair: Pair | None = None) -> list[str]:
        """Describe the words, and the most frequent pairs: those of equal counts have "=" between them.

        Of pairs with the same count, the one that is merged next is the first.
        """
        words = [f"{' '.join(map(spell, symbols))}:{count}" for symbols, count in self._words[:_MAX_LISTED_WORDS]]
        if len(self._words) > _MAX_LISTED_WORDS:
            words.append(f"… and {pluralize(len(self._words) - _MAX_LISTED_WORDS, 'more word')}")
        return [f"corpus\t{'  '.join(words)}", f"pairs\t{self._describe_pairs(next_pair)}"]

    def _describe_pairs(self, next_pair: Pair | None) -> str:
        counts: Counter[Pair] = Counter()
        for symbols, count in self._words:
            for pair in pairwise(symbols):
                counts[pair] += count
        best_pairs = sorted(counts.items(), key=lambda item: (-item[1], item[0] != next_pair))[: _MAX_PAIRS + 1]
        if not best_pairs:
            return "none"
        texts = [f"{spell(left)} {spell(right)} {count}" for (left, right), count in best_pairs[:_MAX_PAIRS]]
        if len(best_pairs) > _MAX_PAIRS:
            texts.append("…")
        signs = [" = " if count == next_count else " > " for (_, count), (_, next_count) in pairwise(best_pairs)]
        return texts[0] + "".join(map("".join, zip(signs, texts[1:], strict=True)))
