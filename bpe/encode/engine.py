"""The engine: builds the kernel's tables from a tokenizer's spec, and turns texts into ids with them.

This module splits texts at special tokens, normalizes them, and calls the kernel (`bpe/encode/_encoder.pyx`).
`bpe/tokenizer.py` checks users' arguments.
"""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from bpe.base._aho_corasick import Finder
from bpe.base._visitor import Visitor
from bpe.base.forks import cached_property
from bpe.base.offsets import offsets_of
from bpe.base.threads import together
from bpe.base.utf8 import Bytes, TextLike, byte_offsets, check_utf8, escape, to_bytes, unescape
from bpe.batch import TokenBatch
from bpe.encode import _encoder as core
from bpe.encode._batch import EncodeJob, visit
from bpe.errors import error_context, shown
from bpe.merge._dropout import Dropout
from bpe.merge._merger import Merger
from bpe.merge.tables import MergeList, SymbolTables, TokenBytes
from bpe.pretokenize.patterns import SPACE_RUNS, WHOLE
from bpe.pretokenize.pipeline import Pretokens
from bpe.pretokenize.pretokenizer import Steps, prepared, scanner_of
from bpe.vocab.spec import TokenizerSpec, refuse_events
from bpe.vocab.special_tokens import SpecialTokens
from bpe.vocab.symbols import unk_id, word_symbols
from bpe.vocab.vocabulary import NO_TOKEN, ORDINARY, end_to_end, find_spelled

if TYPE_CHECKING:
    from bpe.corpus.blocks import Block
    from bpe.corpus.reading import EndCut
    from bpe.encode.words import WordModel
    from bpe.merge.superwords import Superwords

#: A str with more characters is converted to UTF-8 in steps, not as a whole.
LONG_TEXT = 1 << 16
#: The fewest bytes of files for which several threads are started.
MIN_PARALLEL_BYTES = 1 << 19
#: The number of bytes of a pipe that are read before several threads encode them.
AHEAD = 32 << 20

#: How many texts are searched for special tokens together, and the most characters that they may have.
_SEARCHED, _JOINED = 16, 1 << 18

#: A part of a text: text that the pretokenizer splits, pretokens that it has found, or the id of a special token.
Item = str | bytes | Pretokens | int

#: The ids to add before and after each text; None for none.
Around = tuple[int | None, int | None]
NOTHING: Around = (None, None)

_NO_IDS = np.empty(0, dtype=np.uint32)
_NO_COUNTS = np.empty(0, dtype=np.int64)


class Engine:
    """Encodes texts with the tables of one tokenizer. Immutable; any number of threads may use it at once.

    Args:
        spec: the tokenizer.
        whole_words: (bytes, id) of pretokens that are encoded as that id without merging.
        cache_memory: the limit of the word cache, which all threads share, in bytes. The memory of one freed result of
            up to 4 times this size is kept for the next result.

    """

    def __init__(
        self,
        spec: TokenizerSpec,
        whole_words: Sequence[tuple[bytes, int]] = (),
        cache_memory: int = core.CACHE_MEMORY,
    ) -> None:
        if spec.normalizer is not None and spec.normalizer.does_nothing:
            spec = replace(spec, normalizer=None)
        refuse_events(spec, "encoding with merges alone")
        self.spec = spec
        self.cache_memory = cache_memory
        self.specials = SpecialTokens(spec.special_tokens, spec.token_flags, spec.normalizer)
        self._chars = spec.model == "char"
        self.symbols = word_symbols(spec)
        self._unk = NO_TOKEN if spec.unk_token is None else unk_id(spec)
        self._whole_words = bool(whole_words)
        self.kernel = self._kernel()
        if spec.ignore_merges:
            numbers, vocabulary = np.flatnonzero(self._tokens_that_are_words()), spec.vocabulary
            blob = np.frombuffer(vocabulary.blob, dtype=np.uint8)
            tokens, offsets = end_to_end(blob, vocabulary.offsets[numbers], vocabulary.lengths[numbers])
            # With a glued mark, a word is looked up without it: merging the word's symbols never gives that token.
            as_spelled = spec.end_of_word_glued
            self.kernel.set_whole_words(tokens.tobytes(), offsets, numbers.astype(np.uint32), as_spelled)
        elif whole_words:
            offsets = offsets_of([len(word) for word, _ in whole_words])
            ids = np.array([number for _, number in whole_words], dtype=np.uint32)
            self.kernel.set_whole_words(b"".join(word for word, _ in whole_words), offsets, ids, True)
        self.kernel.finish()
        pretokenizer = spec.pretokenizer
        plain = pretokenizer is None or not pretokenizer.changes_text
        #: Whether the kernel encodes texts unchanged: there is a scanner, no normalizer, prefix space or dropout.
        scanned = plain and scanner_of(pretokenizer) is not None
        self.direct = (scanned or self._finds_units) and spec.normalizer is None and not spec.dropout
        #: Whether a normalizer is all that changes texts.
        self._normalized = spec.normalizer is not None and plain

    def with_specials(self, spec: TokenizerSpec) -> Engine:
        """Make an engine with more special tokens, after its own ids, that shares the tables of this one."""
        made = copy.copy(self)
        made.spec = replace(spec, normalizer=self.spec.normalizer)
        made.specials = SpecialTokens(spec.special_tokens, spec.token_flags, made.spec.normalizer)
        made.__dict__.pop("words", None)
        return made

    @property
    def fast_kernel(self) -> core.Encoder | None:
        """The kernel, if it takes every text unchanged and finds no special tokens in it; else None."""
        return self.kernel if self.direct and not self.specials.always else None

    def _kernel(self) -> core.Encoder:
        """Build the kernel's tables, without the words that are encoded as one token."""
        spec, symbols = self.spec, self.symbols
        # The kernels validate these arrays once and keep reading them, so they are copies: a caller could write to the
        # arrays of the spec.
        known = spec.ignore_merges and spec.unreachable is not None
        ranks = np.arange(len(spec.merges)) if spec.merge_ranks is None else spec.merge_ranks
        merges = MergeList(
            np.array(spec.merges, dtype=np.int32, order="C"),
            np.array(spec.merge_results, dtype=np.int32),
            np.array(ranks, dtype=np.int32),
            spec.vocabulary.limit,
            np.array(spec.unreachable, dtype=np.int32) if known else None,
        )
        tables = SymbolTables(
            symbols.inner,
            symbols.last,
            symbols.mark,
            self._unk,
            spec.fuse_unk,
            self._chars,
            symbols.first,
            symbols.only,
            symbols.of_bytes,
            prefix=(spec.subword_prefix or "").encode(),
            suffix=(spec.end_of_word or "").encode() if spec.end_of_word_glued else b"",
            drop_unknown=spec.drop_unknown,
        )
        self.merger = self._new_merger(merges, tables)
        ends = None if spec.end_of_word is None else np.zeros(spec.vocabulary.limit, dtype=np.uint8)
        if ends is not None and spec.ends_word is not None:
            ends[:] = spec.ends_word
        mark_size = 0 if spec.end_of_word is None else len(spec.end_of_word.encode())
        tokens = TokenBytes(spec.vocabulary.blob, spec.vocabulary.offsets.copy(), ends, mark_size)
        scanner = scanner_of(spec.pretokenizer)
        if scanner == WHOLE and self._can_cut_at_spaces():
            scanner = SPACE_RUNS
        superwords = self._superwords(merges, tables)
        #: Whether the kernel divides texts into the units of a superword vocabulary.
        self._finds_units = superwords is not None and self._units is not None
        if superwords is not None:
            scanner = WHOLE
        return core.Encoder(self.merger, tokens, -1 if scanner is None else scanner, self.cache_memory, superwords)

    @cached_property
    def words(self) -> WordModel:
        """Words encoded one at a time in plain Python."""
        from bpe.encode.words import WordModel

        return WordModel(self.spec, self.symbols, self._unk)

    def _new_merger(self, merges: MergeList, tables: SymbolTables) -> Merger:
        """The kernel's tables of the merges."""
        return Merger(merges, tables)

    def _superwords(self, merges: MergeList, tables: SymbolTables) -> Superwords | None:
        """The two stages of the vocabulary if texts are encoded by them: units are long, and may be cut."""
        spec = self.spec
        if scanner_of(spec.pretokenizer) not in (None, WHOLE) or self._chars or spec.end_of_word is not None:
            return None
        if spec.ignore_merges or self._whole_words or spec.unk_token is not None or spec.drop_unknown:
            return None
        if not self.merger.can_split:
            return None
        from bpe.merge.superwords import superwords_of
        from bpe.pretokenize.unit_rules import units_of

        self._units = units_of(spec.pretokenizer)
        return superwords_of(merges, tables, spec.vocabulary, self._units)

    def _can_cut_at_spaces(self) -> bool:
        """Whether texts that are words can be cut before U+2581, which stands for a space, after another character.

        True if no merge crosses these positions, as in most vocabularies of SentencePiece's kind. A text is then
        encoded in parts that occur again and again.
        """
        spec, space = self.spec, "\u2581".encode()
        inner, last = self.symbols.inner, self.symbols.last
        if not self._chars or len(inner) <= 0x2581 or inner[0x2581] == NO_TOKEN or not np.array_equal(inner, last):
            return False
        if spec.ignore_merges or spec.end_of_word is not None or not (self.merger.can_split or self._fuses_only()):
            return False
        vocabulary = spec.vocabulary
        blob, lengths = np.frombuffer(vocabulary.blob, dtype=np.uint8), vocabulary.lengths
        starts = find_spelled(blob, vocabulary.offsets[:-1], lengths, space)
        ends = find_spelled(blob, vocabulary.offsets[1:] - len(space), lengths, space)
        return not bool(np.any(starts[spec.merges[:, 1]] & ~ends[spec.merges[:, 0]]))

    def _fuses_only(self) -> bool:
        """Whether pieces cannot be split anywhere because unknown symbols are fused, and for no other reason."""
        spec = self.spec
        if not spec.fuse_unk or spec.drop_unknown or spec.byte_fallback or spec.subword_prefix:
            return False
        return not np.any(spec.merges == self._unk) and not np.any(spec.merge_results == self._unk)

    def _tokens_that_are_words(self) -> NDArray[np.bool_]:
        """With `ignore_merges`, by id: whether merging the bytes of an ordinary token may give another id."""
        vocabulary, known = self.spec.vocabulary, self.spec.unreachable
        ordinary: NDArray[np.bool_] = vocabulary.kinds == ORDINARY
        if self.spec.end_of_word_glued:
            return ordinary
        if known is None:
            known = self.kernel.unreachable_of(ordinary.astype(np.uint8))
        if known is None:
            return ordinary
        wanted = np.zeros(vocabulary.limit, dtype=np.bool_)
        wanted[known] = True
        return wanted

    # One text ---------------------------------------------------------------------------------------------------------

    def encode(self, text: TextLike, allowed: frozenset[str] = frozenset()) -> NDArray[np.uint32]:
        """The ids of one text. The special tokens in `allowed` are found; others are encoded as text."""
        if self.direct and not (allowed and self._may_hold(text, allowed)):
            if isinstance(text, str) and len(text) > LONG_TEXT and not text.isascii():
                return self.encode_batch([text], 1).ids  # converts the str to UTF-8 in steps
            data = self.checked(text)
            ids, known = self.kernel.encode(data)
            if not known:
                self.refuse_unknown(text)
            return ids
        if self.direct and self.specials.plain(allowed):
            data = self.checked(text)
            data = data.encode() if isinstance(data, str) else data
            spans = self.specials.spans(data, allowed)
            ids, known = self.kernel.encode(data) if spans is None else self.kernel.encode_around(data, *spans)
            if known:
                return ids
        if self._normalized and text and not allowed and isinstance(text, str) and text.isascii():
            assert self.spec.normalizer is not None
            return self.encode_segment(unescape(self.spec.normalizer(text)))
        parts: list[NDArray[np.uint32]] = []
        for item in self.items(text, allowed):
            if isinstance(item, int):
                parts.append(np.array([item], dtype=np.uint32))
            else:
                parts.append(self.encode_segment(item))
        if not parts:
            return np.empty(0, dtype=np.uint32)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def checked(self, text: TextLike) -> str | bytes:
        """The text in the form that the kernel takes: an ASCII str unchanged, anything else as UTF-8."""
        if isinstance(text, str) and text.isascii():
            return text
        data = to_bytes(text)
        if self._chars and not isinstance(text, str):
            check_utf8(data)
        return data

    def items(self, text: TextLike, allowed: frozenset[str]) -> Iterator[Item]:
        """Split a text at the allowed special tokens: their ids, and between them segments to pretokenize."""
        data = self.checked(text)
        if isinstance(data, str):
            data = data.encode()
        if self.direct and self.specials.plain(allowed):
            yield from self._plain_items(data, allowed)
            return
        late = self.specials.late(allowed)
        steps = self.spec.pretokenizer if isinstance(self.spec.pretokenizer, Steps) else None
        first = True
        for piece, special in self.specials.pieces(data, allowed):
            if special is not None:
                yield special
            elif steps is not None:
                yield from self._pipeline_items(bytes(piece), steps, late, first)
            elif late and self.spec.normalizer is not None:
                normalized = self.spec.normalizer.on_bytes(bytes(piece))
                for _, part, number in self.specials.late_pieces(normalized, late):
                    yield bytes(prepared(part, None, self.spec.pretokenizer)) if number is None else number
            else:
                yield bytes(prepared(piece, self.spec.normalizer, self.spec.pretokenizer))
            first = False

    def _pipeline_items(self, piece: bytes, steps: Steps, late: frozenset[str], first: bool) -> Iterator[Item]:
        """Segments of text between special tokens, for a pretokenizer made of steps."""
        text, origins = escape(piece), None
        if self.spec.normalizer is not None and first and steps.pipeline.needs_origins:
            from bpe.text.tracing import traced

            aligned = traced(self.spec.normalizer, text)
            text, origins = aligned.text, aligned.starts
        elif self.spec.normalizer is not None:
            text = self.spec.normalizer(text)
        if not late:
            yield self._pretokens(text, steps, first, origins)
            return
        bounds = byte_offsets(text)
        for start, part, number in self.specials.late_pieces(unescape(text), late):
            inner, at = escape(bytes(part)), int(np.searchsorted(bounds, start))
            if number is None:
                own = None if origins is None else origins[at : at + len(inner)]
                yield self._pretokens(inner, steps, first and (at == 0 or own is not None), own)
            else:
                yield number

    def _pretokens(self, text: str, steps: Steps, first: bool, origins: NDArray[np.int64] | None) -> Item:
        """The pretokens of normalized text; the text in front of the scanner if the steps have one."""
        if steps.scanner is None:
            return steps.pipeline.pretokens(text, first, origins)
        first = first and (origins is None or (len(origins) > 0 and int(origins[0]) == 0))
        return bytes(steps.prepared(unescape(text), first))

    def _may_hold(self, text: TextLike, allowed: frozenset[str]) -> bool:
        """Whether a text may contain one of the special tokens. Other types than text are refused elsewhere."""
        return not isinstance(text, (str, bytes)) or self.specials.occur(text, allowed)

    def _any_may_hold(self, texts: Sequence[TextLike], allowed: frozenset[str]) -> bool:
        """Whether one of several texts may; short ones are searched together, which takes a third of the time."""
        for first in range(0, len(texts), _SEARCHED):
            some = texts[first : first + _SEARCHED]
            if all(type(text) is str for text in some) and sum(map(len, some)) <= _JOINED:
                some = ["\n".join(cast("Sequence[str]", some))]
            if any(self._may_hold(text, allowed) for text in some):
                return True
        return False

    def _plain_items(self, data: bytes, allowed: frozenset[str]) -> list[bytes | int]:
        """Split at special tokens without flags, where texts are encoded unchanged."""
        spans, found, done = self.specials.spans(data, allowed), list[bytes | int](), 0
        for start, end, number in zip(*(each.tolist() for each in spans), strict=True) if spans else ():
            if start > done:
                found.append(data[done:start])
            found.append(number)
            done = end
        if done < len(data):
            found.append(data[done:])
        return found

    def encode_segment(self, data: str | bytes | Pretokens) -> NDArray[np.uint32]:
        """The ids of a prepared segment."""
        if self.spec.dropout:
            return self._encode_with_dropout(data)
        pretokenizer = self.spec.pretokenizer
        if isinstance(data, Pretokens):
            ids, known = self.kernel.encode_spans(data.data, data.starts, data.ends)
            data = data.data
        elif pretokenizer is None or pretokenizer.scanner is not None or self._finds_units:
            ids, known = self.kernel.encode(data)
        else:
            data = data.encode() if isinstance(data, str) else data
            ids, known = self.kernel.encode_spans(data, *pretokenizer.spans(data))
        if not known:
            self.refuse_unknown(data)
        return ids

    def _encode_with_dropout(self, segment: str | bytes | Pretokens) -> NDArray[np.uint32]:
        """The ids of a prepared segment, with the tokenizer's own dropout and other random choices each time."""
        data = segment.data if isinstance(segment, Pretokens) else to_bytes(segment)
        starts, ends = np.zeros(1, dtype=np.int64), np.array([len(data)], dtype=np.int64)
        if isinstance(segment, Pretokens):
            starts, ends = segment.starts, segment.ends
        elif self.spec.pretokenizer is not None:
            starts, ends = self.spec.pretokenizer.spans(data)
        chance, seed = int(self.spec.dropout * 2**53), int.from_bytes(os.urandom(8), "little")
        ids, _, known = Dropout(self.merger).encode(data, starts, ends, chance, seed)
        if not known:
            self.refuse_unknown(data)
        return ids

    def last_cut(self, data: Bytes, low: int) -> int:
        """The last safe split point of a prepared segment after `low`, whatever text follows; `low` if there is none.

        Raises:
            ValueError: if the pretokenizer has no scanner.

        """
        if scanner_of(self.spec.pretokenizer) is None:
            raise ValueError("this pretokenizer has no scanner, so safe split points are unknown")
        return self.kernel.last_cut(data, low)

    def refuse_unknown(self, text: TextLike) -> None:
        """Raise ValueError for the first symbol of a text that has no id."""
        for piece in self.pieces(text, self.specials.always):
            if isinstance(piece, int):
                continue
            for symbol, number in self.named_symbols(piece):
                if number == NO_TOKEN:
                    kind = "character" if self._chars else "byte"
                    name = repr(symbol.decode()) if self._chars else f"0x{symbol[0]:02x}"
                    raise ValueError(
                        f"{kind} {name} of the text {shown(text)} is not in the vocabulary, which has no unknown "
                        "token; train with unk_token='<unk>', or with an initial_alphabet that holds it"
                    )

    # Many texts -------------------------------------------------------------------------------------------------------

    def encode_batch(
        self,
        texts: Sequence[TextLike],
        threads: int,
        allowed: frozenset[str] = frozenset(),
        around: Around = NOTHING,
    ) -> TokenBatch:
        """The ids of many texts. A large batch is encoded by several threads."""
        unchanged = self.direct and not (allowed and self._any_may_hold(texts, allowed))
        if (scanner_of(self.spec.pretokenizer) is None and not unchanged) or self.spec.dropout:
            return self._encode_one_by_one(texts, threads, allowed, around)
        job = EncodeJob(self.kernel, threads)
        job.surround(*around)
        if unchanged:
            job.add_texts(texts, self.checked)
        else:
            rows_of_items = [cast("list[str | bytes | int]", list(self.items(text, allowed))) for text in texts]
            job.add_items(chain.from_iterable(rows_of_items), offsets_of([len(row) for row in rows_of_items]))
        batch, bad = self._run(job, threads)
        if bad >= 0:
            self.refuse_unknown(texts[bad])
        return batch

    def encode_documents(
        self,
        buffer: Bytes,
        starts: NDArray[np.int64],
        ends: NDArray[np.int64],
        threads: int,
        around: Around = NOTHING,
    ) -> TokenBatch:
        """The ids of documents in one buffer of UTF-8: document i is `buffer[starts[i]:ends[i]]`.

        If the pretokenizer has a scanner and the text needs no change before it, no object is made for a text. Special
        tokens are encoded as text. A character model takes UTF-8 only. The buffer may be written to while this runs:
        each text is copied before it is encoded.

        Raises:
            ValueError: for a document that is not within the buffer; as for `encode`.

        """
        if not self.direct or self._chars:
            bounds = zip(starts.tolist(), ends.tolist(), strict=True)
            return self.encode_batch([buffer[start:end] for start, end in bounds], threads, around=around)
        job = EncodeJob(self.kernel, threads)
        job.surround(*around)
        job.add_documents(buffer, np.ascontiguousarray(starts), np.ascontiguousarray(ends), copies=True)
        batch, bad = self._run(job, threads)
        if bad >= 0:
            self.refuse_unknown(buffer[int(starts[bad]) : int(ends[bad])])
        return batch

    def visit_documents(
        self, buffer: Bytes, starts: NDArray[np.int64], ends: NDArray[np.int64], visitor: Visitor
    ) -> None:
        """Give a visitor the ids of `encode_documents`, from one thread, while they are in the processor's cache.

        Nobody may write to the buffer meanwhile: the texts are not copied.

        Raises:
            ValueError: as for `encode_documents`; the visitor may have taken some ids by then.

        """
        if not self.direct or self._chars:
            batch = self.encode_documents(buffer, starts, ends, 1)
            visitor.visit(batch.ids, batch.offsets)
            return
        bad = visit(self.kernel, visitor, buffer, np.ascontiguousarray(starts), np.ascontiguousarray(ends))
        if bad >= 0:
            self.refuse_unknown(buffer[int(starts[bad]) : int(ends[bad])])

    def encode_words(self, blob: NDArray[np.uint8], offsets: NDArray[np.int64]) -> TokenBatch:
        """The ids of words, each encoded as one pretoken: word i is `blob[offsets[i]:offsets[i + 1]]`.

        Symbols without an id are NO_TOKEN. The tokenizer must have no pretokenizer and no normalizer.
        """
        job = EncodeJob(self.kernel, 1)
        job.add_documents(blob, np.ascontiguousarray(offsets[:-1]), np.ascontiguousarray(offsets[1:]))
        return self._run(job, 1)[0]

    def end_cut(self, separators: list[bytes], keep: bool, names: frozenset[str]) -> EndCut | None:
        """A function that finds where a block of a file may end, given the special tokens to find in it."""
        from bpe.corpus.blocks import document_cut, safe_cut

        if not self.cuts_documents(names):
            return document_cut(separators, keep)
        return safe_cut(self.kernel.last_cut, [*separators, *(name.encode() for name in names)])

    def uncut(self, separators: list[bytes], names: frozenset[str]) -> list[bytes] | None:
        """The strings that a `FileReader` must not cut; None if blocks may not end within documents."""
        if not self.cuts_documents(names):
            return None
        return list(dict.fromkeys([*separators, *(name.encode() for name in names)]))

    def cuts_documents(self, names: frozenset[str]) -> bool:
        """Whether blocks of a file may end within documents."""
        return self.direct and scanner_of(self.spec.pretokenizer) not in (None, WHOLE) and self.specials.plain(names)

    def encode_blocks(
        self,
        blocks: Iterator[Any],
        threads: int,
        n_bytes: int,
        *,
        allowed: frozenset[str] = frozenset(),
        disallowed: frozenset[str] = frozenset(),
        around: Around = NOTHING,
        most: int = sys.maxsize,
        ahead: bool = False,
    ) -> BlockIds | None:
        """The ids of blocks of files, divided by `end_cut`. Each block is read and encoded by one of the threads.

        One call takes a limited number of blocks, and none after `most` bytes; it returns None when there are no more.

        Args:
            blocks: an iterator of blocks and of `FileReader`s, on which only one thread at a time calls `next`.
            threads: the number of threads.
            n_bytes: the approximate size of the text.
            allowed: special tokens to find.
            disallowed: special tokens to refuse.
            around: ids to add before and after each document.
            most: stop after this many bytes.
            ahead: read up to `AHEAD` bytes of blocks in the caller's thread before any is encoded.

        Raises:
            FormatError: for text that is not UTF-8, and where `encode` raises ValueError; it names the file.

        """
        from bpe.encode._file_blocks import BlockJob

        work = _Blocks(self, allowed, disallowed, around)
        if ahead and threads > 1:
            blocks = iter(list(_taken(blocks, min(most, AHEAD))))
        if self.direct and self.specials.plain(allowed):
            job = BlockJob(
                self.kernel,
                threads if n_bytes >= MIN_PARALLEL_BYTES else 1,
                blocks,
                work.prepare,
                work.done,
                work.special(),
                n_bytes,
                most,
            )
            together(job.work, job.prepare(), job.stop)
            return _joined_blocks(*job.result())
        batches, parts = [], []
        for block in _taken(blocks, most):
            batch, part = work.encode(block, threads)
            batches.append(batch.ids)
            parts.append(part)
        return _joined_parts(_end_to_end(batches), parts)

    def _run(self, job: EncodeJob, threads: int) -> tuple[TokenBatch, int]:
        """The result of a job, and the first text with a symbol without an id, or -1."""
        parts = job.prepare()
        together(job.work, min(threads, parts), job.stop)
        ids, lengths, bad = job.result()
        return TokenBatch(ids, offsets_of(lengths)), bad

    def _encode_one_by_one(
        self, texts: Sequence[TextLike], threads: int, allowed: frozenset[str], around: Around
    ) -> TokenBatch:
        """Encode several texts whose pretokenizer runs in the `regex` package."""
        del threads  # the `regex` package holds the GIL
        rows = [surrounded(self.encode(text, allowed), around) for text in texts]
        return TokenBatch(_end_to_end(rows), offsets_of([len(row) for row in rows]))

    # Pretokens and symbols, for `explain` and errors ------------------------------------------------------------------

    def pieces(self, text: TextLike, allowed: frozenset[str]) -> Iterator[bytes | int]:
        """The pretokens of a text, and the ids of special tokens between them."""
        for item in self.items(text, allowed):
            if isinstance(item, int):
                yield item
            elif isinstance(item, Pretokens):
                for start, end in zip(item.starts.tolist(), item.ends.tolist(), strict=True):
                    yield item.data[start:end]
            elif self.spec.pretokenizer is None:
                if item:
                    yield to_bytes(item)
            else:
                data = to_bytes(item)
                for start, end in zip(*(bound.tolist() for bound in self.spec.pretokenizer.spans(data)), strict=True):
                    yield data[start:end]

    def piece_ids(self, piece: bytes) -> list[int]:
        """The ids of one pretoken; NO_TOKEN for a symbol without an id."""
        return self.kernel.encode_piece(piece)

    def word_lengths(self, piece: bytes) -> list[int]:
        """For each token of one pretoken, the number of bytes of text that it stands for."""
        ids = self.piece_ids(piece) if self.spec.ignore_merges else []
        if len(ids) == 1 and self.spec.vocabulary[ids[0]] == piece:
            return [self.words.size(piece)]
        return self.words.merged(piece)[1]

    def named_symbols(self, piece: bytes) -> list[tuple[bytes, int]]:
        """The symbols of one pretoken before any merge, the end-of-word mark included, with their ids."""
        return [(symbol.name, symbol.token) for symbol in self.words.symbols(piece)]


@dataclass(frozen=True)
class BlockIds:
    """The ids of some blocks of files.

    Attributes:
        ids: uint32, of all documents.
        lengths: int64, the number of ids of each document, or part of one.
        begins: whether the first document begins in these blocks rather than in earlier ones.
        ends: whether the last document ends in these blocks.
        n_bytes: the size of the text in bytes.
        size: the bytes on disk that were read for it.
        begun: int64, the number of documents that begin in each block.

    """

    ids: NDArray[np.uint32]
    lengths: NDArray[np.int64]
    begins: bool
    ends: bool
    n_bytes: int
    size: int = 0
    begun: NDArray[np.int64] = field(default_factory=lambda: _NO_COUNTS)

    @staticmethod
    def joined(parts: list[BlockIds]) -> TokenBatch:
        """The ids of all the blocks of some files."""
        whole = _joined_parts(_end_to_end([part.ids for part in parts]), parts)
        if whole is None:
            return TokenBatch(_NO_IDS, offsets_of([]))
        return TokenBatch(whole.ids, offsets_of(whole.lengths))


def _joined_parts(ids: NDArray[np.uint32], parts: Sequence[BlockIds]) -> BlockIds | None:
    """Join the records of blocks, with the ids of all of them; None if there are no blocks."""
    if not parts:
        return None
    fields = [(len(part.lengths), part.begins, part.ends, part.n_bytes, part.size) for part in parts]
    return _joined_blocks(ids, np.concatenate([part.lengths for part in parts]), np.array(fields, dtype=np.int64))


def _joined_blocks(ids: NDArray[np.uint32], lengths: NDArray[np.int64], records: NDArray[np.int64]) -> BlockIds | None:
    """Join the records of blocks as `BlockJob.result` returns them."""
    if not len(records):
        return None
    sizes, continued = records[:, 0], records[:, 1] == 0
    begun, begins = sizes - continued, not continued[0]
    continued[0] = False
    if continued.any():
        firsts = (np.cumsum(sizes) - sizes)[continued]
        lengths = np.add.reduceat(lengths, np.delete(np.arange(len(lengths)), firsts))
    n_bytes, size = records[:, 3:].sum(axis=0).tolist()
    return BlockIds(ids, lengths, begins, bool(records[-1, 2]), n_bytes, size, begun)


def _end_to_end(rows: list[NDArray[np.uint32]]) -> NDArray[np.uint32]:
    return np.concatenate(rows) if len(rows) > 1 else rows[0] if rows else np.empty(0, dtype=np.uint32)


def surrounded(ids: NDArray[np.uint32], around: Around) -> NDArray[np.uint32]:
    """Add ids before and after those of a text."""
    before, after = (np.array([] if number is None else [number], dtype=np.uint32) for number in around)
    return ids if around == NOTHING else np.concatenate((before, ids, after))


def _taken(blocks: Iterator[Block], most: int) -> Iterator[Block]:
    """Take blocks until they have `most` bytes."""
    taken = 0
    while taken < most and (block := next(blocks, None)) is not None:
        taken += max(block.size, len(block.text))
        yield block


class _Blocks:
    """Checks each block of a file and divides it into rows for the kernel."""

    def __init__(self, engine: Engine, allowed: frozenset[str], disallowed: frozenset[str], around: Around) -> None:
        self._engine, self._specials = engine, engine.specials
        self._allowed, self._disallowed, self._around = allowed, disallowed, around

    def special(self) -> Finder | None:
        """Finds the strings for which a block needs `prepare`; None if every block does."""
        if self._around != NOTHING:
            return None
        return Finder([name.encode() for name in sorted(self._allowed | self._disallowed)])

    def prepare(self, block: Block) -> tuple[Bytes, NDArray[np.int64], NDArray[np.int64], Any]:
        """A block's rows, in the form that `BlockJob` takes."""
        starts, ends = self._documents(block)
        sizes, firsts = ends - starts, None
        n_bytes = int(sizes.sum())
        if self._allowed and self._specials.occur(block.text, self._allowed):
            starts, sizes, firsts = self._cut_at_specials(block.text, starts, ends)
        if self._around != NOTHING:
            starts, sizes, firsts = self._surround(block, starts, sizes, firsts)
        assert isinstance(block.text, memoryview)
        buffer: Any = block.text.obj  # starts with the block's text; the kernel may read past the text
        return buffer, starts, sizes, (block, starts, sizes, firsts, n_bytes)

    def done(self, note: Any, lengths: NDArray[np.int64], bad: int) -> BlockIds:
        """The record of a block whose rows are encoded, without the ids."""
        block, starts, sizes, firsts, n_bytes = note
        if bad >= 0:
            with error_context(block.source):
                self._engine.refuse_unknown(bytes(block.text[starts[bad] : starts[bad] + sizes[bad]]))
        if firsts is not None and len(firsts):
            lengths = np.add.reduceat(lengths, firsts)
        begins, ends = block.begins, block.closes
        block.release()
        return BlockIds(_NO_IDS, lengths, begins, ends, n_bytes, block.size)

    def encode(self, block: Block, threads: int) -> tuple[TokenBatch, BlockIds]:
        """The ids of a block of whole documents whose text changes before the kernel encodes it."""
        starts, ends = self._documents(block)
        texts = [bytes(block.text[a:b]) for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
        with error_context(block.source):
            batch = self._engine.encode_batch(texts, threads, self._allowed, self._around)
        block.release()
        return batch, BlockIds(_NO_IDS, batch.lengths, True, True, int((ends - starts).sum()), block.size)

    def _documents(self, block: Block) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Check a block; returns the starts and ends of its documents."""
        block.check()
        starts, ends = block.documents(empty=True)
        if self._disallowed and self._specials.occur(block.text, self._disallowed):
            with error_context(block.source):
                for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
                    self._specials.refuse(bytes(block.text[start:end]), self._disallowed, block.offset + start)
        return starts, ends

    def _cut_at_specials(
        self, text: Bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Rows for documents that contain special tokens: (starts, sizes, the first row of each document)."""
        rows: list[tuple[int, int]] = []
        firsts: list[int] = []
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            firsts.append(len(rows))
            at = start
            for piece, special in self._specials.pieces(text[start:end], self._allowed):
                rows.append((at, len(piece)) if special is None else (special, -1))
                at += len(piece)
            if start == end:
                rows.append((start, 0))
        table = np.array(rows, dtype=np.int64).reshape(-1, 2)
        return table[:, 0].copy(), table[:, 1].copy(), np.array(firsts, dtype=np.int64)

    def _surround(
        self, block: Block, starts: NDArray[np.int64], sizes: NDArray[np.int64], firsts: NDArray[np.int64] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Insert rows for the ids before and after each document: (starts, sizes, the first row of each document)."""
        firsts = np.arange(len(starts)) if firsts is None else firsts
        before, after = self._around
        begin, end = firsts[not block.begins :], np.append(firsts[1:], len(starts)) if len(firsts) else firsts
        if not block.closes:
            end = end[:-1]
        if before is None:
            begin = begin[:0]
        if after is None:
            end = end[:0]
        positions = np.concatenate((end, begin))  # at equal positions the id after a document precedes the next one's
        ids = np.repeat([after or 0, before or 0], [len(end), len(begin)])
        moved = firsts + np.searchsorted(begin, firsts) + np.searchsorted(end, firsts, side="right")
        return np.insert(starts, positions, ids), np.insert(sizes, positions, -1), moved
