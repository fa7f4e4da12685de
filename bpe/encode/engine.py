"""The engine: turns texts into ids with a model.

It finds special tokens in texts, prepares the text between them, and calls the kernel (`bpe/encode/_encoder.pyx`).
`bpe/tokenizer.py` checks users' arguments; `blocks.py` encodes files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, cast

import numpy as np

from bpe.base._visitor import Visitor
from bpe.base.forks import cached_property
from bpe.base.offsets import offsets_of
from bpe.base.records import replace
from bpe.base.threads import run_threads
from bpe.base.utf8 import Bytes, TextLike, check_utf8, to_bytes, unescape
from bpe.batch import TokenBatch
from bpe.encode._batch import EncodeJob, visit
from bpe.encode._encoder import CACHE_MEMORY, Encoder
from bpe.encode.models.kernel import unknown_id
from bpe.encode.models.model import EngineModel, build_model
from bpe.errors import short_repr
from bpe.merge._dropout import Dropout
from bpe.pretokenize.patterns import WHOLE
from bpe.pretokenize.pipeline import Segment
from bpe.pretokenize.preparing import TextPreparer
from bpe.pretokenize.pretokenizer import scanner_of
from bpe.vocab.spec import TokenizerSpec, drop_merges_across_words
from bpe.vocab.special_tokens import SpecialTokens
from bpe.vocab.vocabulary import NO_TOKEN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bpe.corpus.reading import EndCut
    from bpe.encode.words import WordModel
    from bpe.text.alignment import Convention

#: A str with more characters is converted to UTF-8 in steps, not as a whole.
LONG_TEXT = 1 << 16
#: How many texts are searched for special tokens together, and the most characters that they may have.
_SEARCHED, _JOINED = 16, 1 << 18

#: The ids to add before and after each text; None for none.
BosEos = tuple[int | None, int | None]
NO_BOS_EOS: BosEos = (None, None)


class Engine:
    """Encodes texts with the tables of one tokenizer. Immutable; any number of threads may use it at once.

    Args:
        spec: the tokenizer.
        whole_words: (bytes, id) of pretokens that are encoded as that id without merging.
        cache_memory: the limit of the word cache, which all threads share, in bytes. The memory of one freed result of
            up to 4 times this size is kept for the next result.
        model: the model, if it is not that of the tokenizer: `build_model` builds that.

    """

    def __init__(
        self,
        spec: TokenizerSpec,
        whole_words: Sequence[tuple[bytes, int]] = (),
        cache_memory: int = CACHE_MEMORY,
        model: EngineModel | None = None,
    ) -> None:
        if spec.normalizer is not None and spec.normalizer.does_nothing:
            spec = replace(spec, normalizer=None)
        self.spec = spec
        self.cache_memory = cache_memory
        self.specials = SpecialTokens(spec.special_tokens, spec.token_flags, spec.normalizer)
        self._chars = spec.model == "char"
        self.model = build_model(spec, whole_words, cache_memory) if model is None else model
        self.kernel, self.merger, self.symbols, self.kernel_finds_units = self.model.tables
        marked_words = self.model.marked_words
        self._find_last_split = self.kernel.find_last_split if marked_words is None else marked_words.find_last_split
        pretokenizer = spec.pretokenizer
        changes = pretokenizer is not None and pretokenizer.changes_text
        scanned = not changes and scanner_of(pretokenizer) is not None
        #: Whether the kernel takes text as it is given: there is a scanner, no normalizer, prefix space or dropout.
        self.kernel_takes_raw_text = (
            (scanned or self.kernel_finds_units) and spec.normalizer is None and not spec.dropout
        )
        #: Whether the kernel finds the pretokens of prepared text.
        self._kernel_splits = scanner_of(pretokenizer) is not None or self.kernel_finds_units
        #: Whether a normalizer is all that changes texts.
        self._only_normalizes = spec.normalizer is not None and not changes
        self._preparer = TextPreparer(spec.normalizer, pretokenizer, self.specials)

    def with_specials(self, spec: TokenizerSpec) -> Engine:
        """Make an engine with more special tokens, after its own ids, that shares the tables of this one."""
        from copy import copy

        if self.model.marked_words is not None or self.model.events is not None:
            # Such a model numbers its own ids after the vocabulary's, where the new tokens go.
            return Engine(spec, cache_memory=self.cache_memory)
        made = copy(self)
        made.spec = replace(spec, normalizer=self.spec.normalizer)
        made.specials = SpecialTokens(spec.special_tokens, spec.token_flags, made.spec.normalizer)
        made._preparer = TextPreparer(made.spec.normalizer, spec.pretokenizer, made.specials)
        made.__dict__.pop("words", None)
        return made

    @property
    def fast_kernel(self) -> Encoder | None:
        """The kernel, if it takes every text unchanged, finds no special tokens in it, and nothing follows; or None."""
        is_enough = self.kernel_takes_raw_text and not self.specials.always and self.model.across_words is None
        return self.kernel if is_enough else None

    @cached_property
    def words(self) -> WordModel:
        """Words encoded one at a time in plain Python."""
        from bpe.encode.words import WordModel

        return WordModel(self.spec, self.symbols, unknown_id(self.spec))

    # One text ---------------------------------------------------------------------------------------------------------

    def encode(self, text: TextLike, allowed: frozenset[str] = frozenset()) -> NDArray[np.uint32]:
        """The ids of one text. The special tokens in `allowed` are found; others are encoded as text."""
        if self.kernel_takes_raw_text and not (allowed and self._may_hold(text, allowed)):
            if isinstance(text, str) and text.isascii():
                ids, known = self.kernel.encode(text)
            elif isinstance(text, str) and len(text) > LONG_TEXT:
                return self.encode_batch([text], 1).ids  # converts the str to UTF-8 in steps
            else:
                ids, known = self.kernel.encode(to_bytes(text) if isinstance(text, str) else self.check_text(text))
            if not known:
                self.refuse_unknown(text)
            return ids if self.model.across_words is None else self._merge_words(ids)
        if self.kernel_takes_raw_text and self.specials.need_one_search(allowed):
            data = self.check_text(text)
            data = data.encode() if isinstance(data, str) else data
            spans = self.specials.find_spans(data, allowed)
            ids, known = self.kernel.encode(data) if spans is None else self.kernel.encode_with_specials(data, *spans)
            if known:
                return ids if self.model.across_words is None else self._merge_words(ids)
        if self._only_normalizes and text and not allowed and isinstance(text, str) and text.isascii():
            assert self.spec.normalizer is not None
            return self.encode_segment(Segment(unescape(self.spec.normalizer(text)), splitter=self.spec.pretokenizer))
        parts = []
        for segment in self.prepare(text, allowed):
            token_id = segment.token_id
            ids = self.encode_segment(segment) if token_id is None else np.array([token_id], dtype=np.uint32)
            parts.append(ids)
        return join_ids(parts)

    def check_text(self, text: TextLike) -> str | bytes:
        """The text in the form that the kernel takes: an ASCII str unchanged, anything else as UTF-8."""
        if isinstance(text, str) and text.isascii():
            return text
        data = to_bytes(text)
        if self._chars and not isinstance(text, str):
            check_utf8(data)
        return data

    def prepare(
        self, text: TextLike, allowed: frozenset[str], convention: Convention | None = None
    ) -> Iterator[Segment]:
        """Split a text into special tokens and prepared text between them, with their origins by a convention."""
        data = self.check_text(text)
        if isinstance(data, str):
            data = data.encode()
        if convention is None and self.kernel_takes_raw_text and self.specials.need_one_search(allowed):
            return self._prepare_raw(data, allowed)
        return self._preparer.prepare(data, allowed, convention)

    def _prepare_raw(self, data: bytes, allowed: frozenset[str]) -> Iterator[Segment]:
        """Split a text that is encoded unchanged at special tokens that one search finds."""
        spans, done, splitter = self.specials.find_spans(data, allowed), 0, self.spec.pretokenizer
        for start, end, token_id in zip(*(each.tolist() for each in spans), strict=True) if spans else ():
            if start > done:
                yield Segment(data[done:start], splitter)
            yield Segment(data[start:end], None, token_id)
            done = end
        if done < len(data):
            yield Segment(data[done:], splitter)

    def _may_hold(self, text: TextLike, allowed: frozenset[str]) -> bool:
        """Whether a text may contain one of the special tokens. Other types than text are refused elsewhere."""
        return not isinstance(text, (str, bytes)) or self.specials.occur(text, allowed)

    def _any_may_hold(self, texts: Sequence[TextLike], allowed: frozenset[str]) -> bool:
        """Whether one of several texts may contain one of the special tokens.

        Short texts are searched together, which takes a third of the time.
        """
        for first in range(0, len(texts), _SEARCHED):
            some = texts[first : first + _SEARCHED]
            if all(type(text) is str for text in some) and sum(map(len, some)) <= _JOINED:
                some = ["\n".join(cast("Sequence[str]", some))]
            if any(self._may_hold(text, allowed) for text in some):
                return True
        return False

    def encode_segment(self, segment: Segment) -> NDArray[np.uint32]:
        """The ids of text between special tokens."""
        if self.spec.dropout:
            return self._drop_merges(segment, self.spec.dropout, int.from_bytes(os.urandom(8), "little"))[0]
        if segment.starts is None and self._kernel_splits:
            ids, known = self.kernel.encode(segment.data)
        else:
            ids, known = self.kernel.encode_pretokens(segment.data, *segment.bounds())
        if not known:
            self.refuse_unknown(segment.data)
        return ids if self.model.across_words is None else self._merge_words(ids)

    def _merge_words(self, ids: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Merge across the words of a text."""
        assert self.model.across_words is not None
        return self.model.across_words.merge(ids, np.array([0, len(ids)], dtype=np.int64))[0]

    def encode_with_dropout(
        self, text: TextLike, allowed: frozenset[str], dropout: float, seed: int
    ) -> NDArray[np.uint32]:
        """The ids of one text with random merges left out. They depend only on the text, the probability and the seed.

        `ignore_merges` has no effect here, as in Hugging Face's `tokenizers`: a word that is a token is merged like any
        other, since otherwise dropout would hardly change anything.

        Source: Provilkov, Emelianenko and Voita, "BPE-Dropout" (ACL 2020).
        """
        parts: list[NDArray[np.uint32]] = []
        state = seed & 2**64 - 1
        for segment in self.prepare(text, allowed):
            if segment.token_id is not None:
                parts.append(np.array([segment.token_id], dtype=np.uint32))
            else:
                ids, state = self._drop_merges(segment, dropout, state)
                parts.append(ids)
        return join_ids(parts)

    def _drop_merges(self, segment: Segment, dropout: float, state: int) -> tuple[NDArray[np.uint32], int]:
        """The ids of a segment with random merges left out, and the next state of the random numbers."""
        chance = int(dropout * 2**53)
        ids, state, known = Dropout(self.merger).encode(segment.data, *segment.bounds(), chance, state)
        if not known and self.spec.drop_unknown:
            ids = ids[ids != NO_TOKEN]
        elif not known:
            self.refuse_unknown(segment.data)
        return ids, state

    def find_last_split(self, data: Bytes, low: int) -> int:
        """The last safe split point of a prepared segment after `low`, whatever text follows; `low` if there is none.

        Raises:
            ValueError: if the pretokenizer has no scanner.

        """
        if scanner_of(self.spec.pretokenizer) is None:
            raise ValueError("this pretokenizer has no scanner, so safe split points are unknown")
        return self._find_last_split(data, low)

    def refuse_unknown(self, text: TextLike) -> None:
        """Raise ValueError for the first symbol of a text that has no id."""
        for piece in self.pretokens_and_specials(text, self.specials.always):
            if isinstance(piece, int):
                continue
            for symbol, number in self.name_symbols(piece):
                if number == NO_TOKEN:
                    kind = "character" if self._chars else "byte"
                    name = repr(symbol.decode()) if self._chars else f"0x{symbol[0]:02x}"
                    raise ValueError(
                        f"{kind} {name} of the text {short_repr(text)} is not in the vocabulary, which has no unknown "
                        "token; train with unk_token='<unk>', or with alphabet=bpe.Alphabet(…) that has it"
                    )

    # Many texts -------------------------------------------------------------------------------------------------------

    def encode_batch(
        self,
        texts: Sequence[TextLike],
        threads: int,
        allowed: frozenset[str] = frozenset(),
        bos_eos: BosEos = NO_BOS_EOS,
    ) -> TokenBatch:
        """The ids of many texts. A large batch is encoded by several threads."""
        unchanged = self.kernel_takes_raw_text and not (allowed and self._any_may_hold(texts, allowed))
        if (scanner_of(self.spec.pretokenizer) is None and not unchanged) or self.spec.dropout:
            return self._encode_one_by_one(texts, threads, allowed, bos_eos)
        job = EncodeJob(self.kernel, threads)
        job.surround(*bos_eos)
        if unchanged:
            job.add_texts(texts, self.check_text)
        else:
            rows = [
                [each.data if each.token_id is None else each.token_id for each in self.prepare(text, allowed)]
                for text in texts
            ]
            job.add_items(chain.from_iterable(rows), offsets_of([len(row) for row in rows]))
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
        bos_eos: BosEos = NO_BOS_EOS,
    ) -> TokenBatch:
        """The ids of documents in one buffer of UTF-8: document i is `buffer[starts[i]:ends[i]]`.

        If the pretokenizer has a scanner and the text needs no change before it, no object is made for a text. Special
        tokens are encoded as text. A character model takes UTF-8 only. The buffer may be written to while this runs:
        each text is copied before it is encoded.

        Raises:
            ValueError: for a document that is not within the buffer; as for `encode`.

        """
        if not self.kernel_takes_raw_text or self._chars:
            bounds = zip(starts.tolist(), ends.tolist(), strict=True)
            return self.encode_batch([buffer[start:end] for start, end in bounds], threads, bos_eos=bos_eos)
        job = EncodeJob(self.kernel, threads)
        job.surround(*bos_eos)
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
        if not self.kernel_takes_raw_text or self._chars or self.model.across_words is not None:
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

    def make_block_cut(self, separators: list[bytes], keep: bool, names: frozenset[str]) -> EndCut | None:
        """A function that finds where a block of a file may end, given the special tokens to find in it."""
        from bpe.corpus.blocks import document_cut, safe_cut

        if not self.can_split_documents(names):
            return document_cut(separators, keep)
        return safe_cut(self._find_last_split, [*separators, *(name.encode() for name in names)])

    def list_unsplittable(self, separators: list[bytes], names: frozenset[str]) -> list[bytes] | None:
        """The strings that a `FileReader` must not cut; None if blocks may not end within documents."""
        if not self.can_split_documents(names):
            return None
        return list(dict.fromkeys([*separators, *(name.encode() for name in names)]))

    def can_split_documents(self, names: frozenset[str]) -> bool:
        """Whether blocks of a file may end within documents."""
        if not self.kernel_takes_raw_text or scanner_of(self.spec.pretokenizer) in (None, WHOLE):
            return False
        return self.specials.need_one_search(names)

    def _run(self, job: EncodeJob, threads: int) -> tuple[TokenBatch, int]:
        """The result of a job, and the first text with a symbol without an id, or -1."""
        parts = job.prepare()
        run_threads(job.work, min(threads, parts), job.stop)
        ids, lengths, bad = job.result()
        if self.model.across_words is not None:
            ids, lengths = self.model.across_words.merge(ids, offsets_of(lengths))
        return TokenBatch(ids, offsets_of(lengths)), bad

    def _encode_one_by_one(
        self, texts: Sequence[TextLike], threads: int, allowed: frozenset[str], bos_eos: BosEos
    ) -> TokenBatch:
        """Encode several texts whose pretokenizer runs in the `regex` package."""
        del threads  # the `regex` package holds the GIL
        rows = [surround_ids(self.encode(text, allowed), bos_eos) for text in texts]
        return TokenBatch(join_ids(rows), offsets_of([len(row) for row in rows]))

    # Pretokens and symbols, for `explain` and errors ------------------------------------------------------------------

    def pretokens_and_specials(self, text: TextLike, allowed: frozenset[str]) -> Iterator[bytes | int]:
        """The pretokens of a text, and the ids of special tokens between them."""
        for segment in self.prepare(text, allowed):
            if segment.token_id is not None:
                yield segment.token_id
            else:
                yield from segment.pretokens()

    def encode_pretoken(self, piece: bytes) -> list[int]:
        """The ids of one pretoken; NO_TOKEN for a symbol without an id."""
        ids, marked_words = self.kernel.encode_pretoken(piece), self.model.marked_words
        if self.model.across_words is None or marked_words is None:
            return ids
        return [
            int(marked_words.tokens[token_id - marked_words.first]) if token_id >= marked_words.first else token_id
            for token_id in ids
        ]

    def measure_tokens(self, piece: bytes) -> list[int]:
        """For each token of one pretoken, the number of bytes of text that it stands for."""
        ids = self.encode_pretoken(piece) if self.spec.ignore_merges else []
        if len(ids) == 1 and self.spec.vocabulary[ids[0]] == piece:
            return [self.words.measure(piece)]
        return self.words.merge(piece)[1]

    def find_unreachable(self) -> NDArray[np.int64]:
        """The ids that encoding never produces, as `Tokenizer.unreachable` documents them."""
        from bpe.vocab.merging import find_unreachable

        found = find_unreachable(drop_merges_across_words(self.spec), Engine)
        step = self.model.across_words
        return found if step is None else step.find_unreachable(found, self.spec.vocabulary.limit)

    def name_symbols(self, piece: bytes) -> list[tuple[bytes, int]]:
        """The symbols of one pretoken before any merge, the end-of-word mark included, with their ids."""
        return [(symbol.name, symbol.token) for symbol in self.words.list_symbols(piece)]


def join_ids(rows: list[NDArray[np.uint32]]) -> NDArray[np.uint32]:
    """Join the ids of texts."""
    return np.concatenate(rows) if len(rows) > 1 else rows[0] if rows else np.empty(0, dtype=np.uint32)


def surround_ids(ids: NDArray[np.uint32], bos_eos: BosEos) -> NDArray[np.uint32]:
    """Add ids before and after those of a text."""
    before, after = (np.array([] if number is None else [number], dtype=np.uint32) for number in bos_eos)
    return ids if bos_eos == NO_BOS_EOS else np.concatenate((before, ids, after))
