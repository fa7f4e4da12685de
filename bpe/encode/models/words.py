"""One word at a time in plain Python: its symbols, and the length of the text that each of its tokens stands for.

This follows the model of Hugging Face's `tokenizers`, whose symbols may have a prefix, become bytes, or be left out.
`explain`, error messages, and the offsets of such models use it. The kernels (`bpe/merge`) give the same tokens.
"""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass

from bpe.base.forks import cached_property
from bpe.text.letters import spell_token_in_letters
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.symbols import WordSymbols
from bpe.vocab.vocabulary import NO_TOKEN


@dataclass(frozen=True)
class Symbol:
    """A symbol of a word: its name, its id (or NO_TOKEN), and the number of bytes of text that it stands for.

    If bytes without a token are left out, `length` counts the UTF-8 of the bytes' GPT-2 letters instead
    (`WordModel.measure`).
    """

    name: bytes
    token_id: int
    length: int


class WordModel:
    """The symbols of words, and their merges."""

    def __init__(self, spec: TokenizerSpec, symbols: WordSymbols, unk_id: int) -> None:
        self._spec, self._symbols, self._unk_id = spec, symbols, unk_id
        self._is_char_model = spec.model == "char"
        #: Whether lengths of tokens are those of the letters that stand for their bytes.
        self.counts_letters = spec.drop_unknown is True and not self._is_char_model
        self._prefix = (spec.subword_prefix or "").encode()
        self._suffix = (spec.end_of_word or "").encode() if spec.end_of_word_glued else b""

    def list_symbols(self, word: bytes) -> list[Symbol]:
        """List the symbols of a word before any merge, in the order in which the kernel writes them."""
        symbol_texts = (
            [char.encode() for char in word.decode()] if self._is_char_model else [bytes([byte]) for byte in word]
        )
        symbols: list[Symbol] = []
        pending_unknown: Symbol | None = None  # not written yet
        for index, symbol_text in enumerate(symbol_texts):
            is_first, is_last = index == 0, index == len(symbol_texts) - 1
            token_id = self._find_id(symbol_text, is_first, is_last)
            byte_symbols = self._find_bytes(symbol_text, is_first, is_last) if token_id == NO_TOKEN else None
            if byte_symbols is not None:
                symbols += byte_symbols
            elif token_id == NO_TOKEN and self._unk_id != NO_TOKEN:
                if pending_unknown is not None and self._spec.fuse_unk:
                    pending_unknown = Symbol(
                        pending_unknown.name + symbol_text, self._unk_id, pending_unknown.length + len(symbol_text)
                    )
                else:
                    symbols += [pending_unknown] if pending_unknown is not None else []
                    pending_unknown = Symbol(symbol_text, self._unk_id, len(symbol_text))
            elif token_id != NO_TOKEN or self._spec.drop_unknown is not True:
                symbols += [pending_unknown] if pending_unknown is not None else []
                symbols.append(Symbol(symbol_text, token_id, self.measure(symbol_text)))
                pending_unknown = None
        symbols += [pending_unknown] if pending_unknown is not None else []
        if self._symbols.mark_id != NO_TOKEN:
            symbols.append(Symbol(self._spec.vocabulary[self._symbols.mark_id], self._symbols.mark_id, 0))
        return symbols

    def measure(self, text: bytes) -> int:
        """Measure a text in bytes, by which tokens have their spans.

        With `drop_unknown`, the GPT-2 letters of these bytes are measured instead: after a dropped byte, spans begin
        too early by the letter's own bytes, as in `tokenizers`.
        """
        return len(spell_token_in_letters(text).encode()) if self.counts_letters else len(text)

    def _find_id(self, symbol_text: bytes, is_first: bool, is_last: bool) -> int:
        symbols = self._symbols
        if is_last:
            table = symbols.only_ids if is_first else symbols.last_ids
        else:
            table = symbols.first_ids if is_first else symbols.inner_ids
        code = ord(symbol_text.decode()) if self._is_char_model else symbol_text[0]
        return int(table[code]) if code < len(table) else NO_TOKEN

    def _find_bytes(self, symbol_text: bytes, is_first: bool, is_last: bool) -> list[Symbol] | None:
        """Find the byte symbols of a symbol without a token; None if one of its bytes has no token either."""
        if self._symbols.byte_ids is None:
            return None
        data = (b"" if is_first else self._prefix) + symbol_text + (self._suffix if is_last else b"")
        ids = self._symbols.byte_ids[list(data)].tolist()
        if NO_TOKEN in ids:
            return None
        return [Symbol(bytes([byte]), token_id, 1) for byte, token_id in zip(data, ids, strict=True)]

    def merge(self, word: bytes, dropout: float = 0.0) -> tuple[list[int], list[int]]:
        """Merge a word: its tokens, and for each the number of bytes of text that it stands for.

        A symbol that is left out after merging counts for the token that follows.

        With `dropout`, each merge that could be next is left out with that probability until another was applied.
        """
        symbols = self.list_symbols(word)
        tokens, lengths = [symbol.token_id for symbol in symbols], [symbol.length for symbol in symbols]
        next_index = [*range(1, len(tokens)), -1]
        previous_index = list(range(-1, len(tokens) - 1))
        is_merged = [False] * len(tokens)
        ranks = self.ranks
        queue: list[tuple[int, int, int]] = []

        def push_pair(left: int) -> None:
            if left >= 0 and next_index[left] >= 0:
                merge = ranks.get((tokens[left], tokens[next_index[left]]))
                if merge is not None:
                    heapq.heappush(queue, (merge[0], left, merge[1]))

        for index in range(len(tokens)):
            push_pair(index)
        skipped_merges: list[tuple[int, int, int]] = []
        while queue:
            rank, left, result = merge = heapq.heappop(queue)
            right = -1 if is_merged[left] else next_index[left]
            if right < 0 or ranks.get((tokens[left], tokens[right])) != (rank, result):
                continue
            if dropout and random.random() < dropout:
                skipped_merges.append(merge)
                continue
            for skipped_merge in skipped_merges:
                heapq.heappush(queue, skipped_merge)
            skipped_merges.clear()
            tokens[left], lengths[left], is_merged[right] = result, lengths[left] + lengths[right], True
            next_index[left] = next_index[right]
            if next_index[left] >= 0:
                previous_index[next_index[left]] = left
            push_pair(previous_index[left])
            push_pair(left)
        kept_indices = [index for index, was_merged in enumerate(is_merged) if not was_merged]
        if self._spec.drop_unknown:
            for index in kept_indices[:-1]:
                if tokens[index] == NO_TOKEN:
                    lengths[next_index[index]] += lengths[index]
            kept_indices = [index for index in kept_indices if tokens[index] != NO_TOKEN]
        return [tokens[index] for index in kept_indices], [lengths[index] for index in kept_indices]

    @cached_property
    def ranks(self) -> dict[tuple[int, int], tuple[int, int]]:
        """Pair of tokens → (rank, merge result)."""
        spec = self._spec
        rank_list = range(len(spec.merges)) if spec.merge_ranks is None else spec.merge_ranks.tolist()
        ranks: dict[tuple[int, int], tuple[int, int]] = {}
        for (left, right), token, rank in zip(
            spec.merges.tolist(), spec.merge_results.tolist(), rank_list, strict=True
        ):
            ranks.setdefault((left, right), (rank, token))
        return ranks
