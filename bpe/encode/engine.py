"""The engine: turns texts into ids with a model.

It finds special tokens in texts, prepares the text between them, and calls the kernel (`bpe/encode/_encoder.pyx`).
`bpe/tokenizer.py` checks users' arguments; `blocks.py` encodes files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from bpe.base._ordered_output import IdTarget
from bpe.base._visitor import Visitor
from bpe.base.fast_dataclasses import replace
from bpe.base.forks import cached_property
from bpe.base.offsets import compute_offsets
from bpe.base.threads import run_threads
from bpe.base.utf8 import Bytes, TextLike, check_utf8, encode_losslessly, to_bytes, to_plain_str
from bpe.batch import TokenBatch
from bpe.encode._batch import EncodeJob, visit
from bpe.encode._encoder import CACHE_MEMORY, Encoder
from bpe.encode._special_encoder import SpecialEncoder
from bpe.encode.models.encoder import get_unk_id
from bpe.encode.models.model import ModelParts, build_model
from bpe.errors import short_repr
from bpe.merge._dropout import Dropout
from bpe.pretokenize.patterns import WHOLE_TEXT
from bpe.pretokenize.pipeline import Segment
from bpe.pretokenize.preparing import TextPreparer
from bpe.pretokenize.pretokenizer import get_scanner
from bpe.vocab.spec import TokenizerSpec, drop_merges_across_words
from bpe.vocab.special_tokens import SpecialTokens
from bpe.vocab.vocabulary import NO_TOKEN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bpe.corpus.reading import BlockEndFinder
    from bpe.encode.models.words import WordModel
    from bpe.text.alignment import Convention

#: A str with more characters is converted to UTF-8 in steps, not as a whole.
LONG_TEXT_CHARS = 1 << 16
#: How many texts are searched for special tokens together, and the most characters that they may have.
_TEXTS_PER_SEARCH, _MAX_JOINED_CHARS = 16, 1 << 18

#: The ids to add before and after each text; None for none.
BosEos = tuple[int | None, int | None]
NO_BOS_EOS: BosEos = (None, None)


class Engine:
    """Encodes texts with the tables of one tokenizer. Immutable; any number of threads may use it at once.

    Args:
        spec: the tokenizer.
        unmerged_words: (bytes, id) of pretokens that are encoded as that id without merging.
        cache_memory: the limit of the word cache, which all threads share, in bytes. The memory of one freed result of
            up to 4 times this size is kept for the next result.
        parts: the parts of the model, if it is not that of the tokenizer: `build_model` builds these.

    """

    def __init__(
        self,
        spec: TokenizerSpec,
        unmerged_words: Sequence[tuple[bytes, int]] = (),
        cache_memory: int = CACHE_MEMORY,
        parts: ModelParts | None = None,
    ) -> None:
        if spec.normalizer is not None and spec.normalizer.does_nothing:
            spec = replace(spec, normalizer=None)
        self.spec = spec
        self.cache_memory = cache_memory
        self.specials = SpecialTokens(spec.special_tokens, spec.token_flags, spec.normalizer)
        self._is_char_model = spec.model == "char"
        self.parts = build_model(spec, unmerged_words, cache_memory) if parts is None else parts
        built_encoder = self.parts.built_encoder
        self.encoder, self.merger, self.symbols = built_encoder.encoder, built_encoder.merger, built_encoder.symbols
        second_ids = self.parts.second_ids
        self._find_last_split = self.encoder.find_last_split if second_ids is None else second_ids.find_last_split
        pretokenizer = spec.pretokenizer
        changes_text = pretokenizer is not None and pretokenizer.changes_text
        has_scanner = not changes_text and get_scanner(pretokenizer) is not None
        #: Whether the encoder takes text as it is given: it finds the pretokens, and no normalizer, prefix space or
        #: dropout intervenes.
        takes_prepared_text = (has_scanner or built_encoder.finds_long_pretokens) and not spec.dropout
        self.kernel_takes_raw_text = takes_prepared_text and spec.normalizer is None
        #: Whether it takes ASCII text as it is given, because the normalizer, if there is one, does not change that.
        self.kernel_takes_ascii = takes_prepared_text and (spec.normalizer is None or spec.normalizer.keeps_ascii)
        #: Whether the encoder finds the pretokens of prepared text.
        self._encoder_finds_pretokens = get_scanner(pretokenizer) is not None or built_encoder.finds_long_pretokens
        #: Whether a normalizer is all that changes texts.
        self.only_normalizes = spec.normalizer is not None and not changes_text
        self._preparer = TextPreparer(spec.normalizer, pretokenizer, self.specials)

    def with_specials(self, spec: TokenizerSpec) -> Engine:
        """Make an engine with more special tokens, after its own ids, that shares the tables of this one."""
        from copy import copy

        if self.parts.second_ids is not None or self.parts.events is not None:
            # Such a model numbers its own ids after the vocabulary's, where the new tokens go.
            return Engine(spec, cache_memory=self.cache_memory)
        engine = copy(self)
        engine.spec = replace(spec, normalizer=self.spec.normalizer)
        engine.specials = SpecialTokens(spec.special_tokens, spec.token_flags, engine.spec.normalizer)
        engine._preparer = TextPreparer(engine.spec.normalizer, spec.pretokenizer, engine.specials)
        engine.__dict__.pop("word_model", None)
        return engine

    @property
    def ids_are_final(self) -> bool:
        """Whether the encoder's ids are the result: no second step merges across words."""
        return self.parts.across_word_merger is None

    @property
    def fast_encoder(self) -> Encoder | None:
        """The encoder, if it alone gives the ids of any text; else None.

        Then texts need no change, no token is sought in every text, and no second step follows.
        """
        encoder_suffices = self.kernel_takes_raw_text and not self.specials.always_names and self.ids_are_final
        return self.encoder if encoder_suffices else None

    @property
    def fast_specials(self) -> SpecialEncoder | None:
        """The encoder of texts with all special tokens; None if texts or ids need more than the `Encoder`."""
        return self.find_special_encoder(frozenset(self.specials.ids))

    def find_special_encoder(self, names: frozenset[str], only_ascii: bool = False) -> SpecialEncoder | None:
        """Find the encoder of texts with these special tokens; None if texts or ids need more than the kernel."""
        takes_text = self.kernel_takes_ascii if only_ascii else self.kernel_takes_raw_text
        is_direct = takes_text and not self._is_char_model and self.ids_are_final
        can_encode = names and is_direct and self.specials.one_search_suffices(names)
        return self.make_special_encoder(names) if can_encode else None

    @cached_property
    def word_model(self) -> WordModel:
        """Words encoded one at a time in plain Python."""
        from bpe.encode.models.words import WordModel

        return WordModel(self.spec, self.symbols, get_unk_id(self.spec))

    # One text ---------------------------------------------------------------------------------------------------------

    def encode(
        self, text: TextLike, allowed: frozenset[str] = frozenset(), begins_text: bool = True
    ) -> NDArray[np.uint32]:
        """Encode one text. The special tokens in `allowed` are found; others are encoded as text.

        Unless `begins_text`, it is the part of a text that follows a cut (`bpe/prompts.py`).
        """
        text = to_plain_str(text)
        # A long text is not searched first: that takes a third of the time of encoding it.
        is_long = isinstance(text, str) and len(text) > LONG_TEXT_CHARS and self.specials.one_search_suffices(allowed)
        if self.kernel_takes_raw_text and not (allowed and (is_long or self._may_contain_special(text, allowed))):
            return self._encode_raw(text)
        if self.kernel_handles(allowed):
            ids = self.make_special_encoder(allowed).encode(text if isinstance(text, str) else self.check_text(text))
            if ids is not None:
                return self._merge_across_words(ids)
            # The general way, below, raises the error for the unknown symbol.
        if self.only_normalizes and text and not allowed and isinstance(text, str) and text.isascii():
            assert self.spec.normalizer is not None
            return self.encode_segment(
                Segment(encode_losslessly(self.spec.normalizer(text)), finder=self.spec.pretokenizer)
            )
        segments = self.prepare(text, allowed, begins_text=begins_text)
        return join_ids([self.encode_segment(segment) for segment in segments])

    def kernel_handles(self, names: frozenset[str]) -> bool:
        """Whether the kernel encodes texts, and blocks of files, with these special tokens, without Python code."""
        return self.kernel_takes_raw_text and self.specials.one_search_suffices(names)

    def can_write_to_target(self, allowed: frozenset[str]) -> bool:
        """Whether the ids of such blocks may go to an `IdTarget`, since nothing is to be done with them."""
        return self.kernel_handles(allowed) and self.ids_are_final

    def _encode_raw(self, text: TextLike) -> NDArray[np.uint32]:
        """Encode a text that the kernel takes unchanged, as text."""
        if isinstance(text, str) and text.isascii():
            ids, all_known = self.encoder.encode(text)
        elif isinstance(text, str) and len(text) > LONG_TEXT_CHARS:
            return self.encode_batch([text], 1).ids  # converts the str to UTF-8 in steps
        else:
            ids, all_known = self.encoder.encode(to_bytes(text) if isinstance(text, str) else self.check_text(text))
        if not all_known:
            self.raise_for_unknown(text)
        return self._merge_across_words(ids)

    def make_special_encoder(self, allowed: frozenset[str]) -> SpecialEncoder:
        """Make the encoder of texts that the kernel takes unchanged but for these special tokens; there is one."""
        return SpecialEncoder(self.encoder, *self.specials.get_search(allowed))

    def check_text(self, text: TextLike) -> str | bytes:
        """Convert a text to the form that the kernel takes: an ASCII str unchanged, anything else as UTF-8."""
        text = to_plain_str(text)
        if isinstance(text, str) and text.isascii():
            return text
        data = to_bytes(text)
        if self._is_char_model and not isinstance(text, str):
            check_utf8(data)
        return data

    def prepare(
        self,
        text: TextLike,
        allowed: frozenset[str],
        convention: Convention | None = None,
        begins_text: bool = True,
    ) -> Iterator[Segment]:
        """Split a text into special tokens and prepared text between them, with their origins by a convention."""
        data = self.check_text(text)
        if isinstance(data, str):
            data = data.encode()
        if convention is None and self.kernel_handles(allowed):
            return self._prepare_raw(data, allowed)
        return self._preparer.prepare(data, allowed, convention, begins_text)

    def _prepare_raw(self, data: bytes, allowed: frozenset[str]) -> Iterator[Segment]:
        """Split a text that is encoded unchanged at special tokens that one search finds."""
        spans, text_start, finder = self.specials.find_spans(data, allowed), 0, self.spec.pretokenizer
        if spans is not None:
            for start, end, token_id in zip(*(column.tolist() for column in spans), strict=True):
                if start > text_start:
                    yield Segment(data[text_start:start], finder)
                yield Segment(data[start:end], None, token_id)
                text_start = end
        if text_start < len(data):
            yield Segment(data[text_start:], finder)

    def _may_contain_special(self, text: TextLike, allowed: frozenset[str]) -> bool:
        """Whether a text may contain one of the special tokens. Other types than text are refused elsewhere."""
        return not isinstance(text, (str, bytes)) or self.specials.may_occur(text, allowed)

    def _any_may_contain_special(self, texts: Sequence[TextLike], allowed: frozenset[str]) -> bool:
        """Whether one of several texts may contain one of the special tokens.

        Short texts are searched together, which takes a third of the time.
        """
        for group_start in range(0, len(texts), _TEXTS_PER_SEARCH):
            group = texts[group_start : group_start + _TEXTS_PER_SEARCH]
            if all(type(text) is str for text in group) and sum(map(len, group)) <= _MAX_JOINED_CHARS:
                group = ["\n".join(cast("Sequence[str]", group))]
            if any(self._may_contain_special(text, allowed) for text in group):
                return True
        return False

    def encode_segment(self, segment: Segment) -> NDArray[np.uint32]:
        """Encode text between special tokens, or a special token."""
        if segment.token_id is not None:
            return np.array([segment.token_id], dtype=np.uint32)
        if self.spec.dropout:
            return self._drop_merges(segment, self.spec.dropout, int.from_bytes(os.urandom(8), "little"))[0]
        if segment.starts is None and self._encoder_finds_pretokens:
            ids, all_known = self.encoder.encode(segment.data)
        else:
            ids, all_known = self.encoder.encode_pretokens(segment.data, *segment.bounds())
        if not all_known:
            self.raise_for_unknown(segment.data)
        return self._merge_across_words(ids)

    def _merge_across_words(self, ids: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Merge across the words of a text, if the model does so."""
        across_word_merger = self.parts.across_word_merger
        return (
            ids
            if across_word_merger is None
            else across_word_merger.merge(ids, np.array([0, len(ids)], dtype=np.int64))[0]
        )

    def encode_with_dropout(
        self, text: TextLike, allowed: frozenset[str], dropout: float, seed: int
    ) -> NDArray[np.uint32]:
        """Encode one text with random merges left out. The ids depend only on the text, the probability and the seed.

        `ignore_merges` has no effect here, as in Hugging Face's `tokenizers`: a word that is a token is merged like any
        other, since otherwise dropout would hardly change anything.

        Source: Provilkov, Emelianenko and Voita, "BPE-Dropout" (ACL 2020).
        """
        ids_of_segments: list[NDArray[np.uint32]] = []
        random_state = seed & 2**64 - 1
        for segment in self.prepare(text, allowed):
            if segment.token_id is not None:
                ids_of_segments.append(self.encode_segment(segment))
            else:
                ids, random_state = self._drop_merges(segment, dropout, random_state)
                ids_of_segments.append(ids)
        return join_ids(ids_of_segments)

    def _drop_merges(self, segment: Segment, dropout: float, random_state: int) -> tuple[NDArray[np.uint32], int]:
        """Encode a segment with random merges left out: (ids, the next state of the random numbers)."""
        drop_threshold = int(dropout * 2**53)
        ids, random_state, all_known = Dropout(self.merger).encode(
            segment.data, *segment.bounds(), drop_threshold, random_state
        )
        if not all_known and self.spec.drop_unknown:
            ids = ids[ids != NO_TOKEN]
        elif not all_known:
            self.raise_for_unknown(segment.data)
        return ids, random_state

    def find_last_split(self, data: Bytes, start: int) -> int:
        """Find the last safe split point after `start`, whatever text follows; `start` if there is none.

        Raises:
            ValueError: if the pretokenizer has no scanner.

        """
        if get_scanner(self.spec.pretokenizer) is None:
            raise ValueError("this pretokenizer has no scanner, so safe split points are unknown")
        return self._find_last_split(data, start)

    def raise_for_unknown(self, text: TextLike) -> None:
        """Raise ValueError for the first symbol of a text that has no id."""
        for item in self.iterate_pretokens(text, self.specials.always_names):
            if isinstance(item, int):
                continue
            for symbol, token_id in self.name_symbols(item):
                if token_id == NO_TOKEN:
                    kind = "character" if self._is_char_model else "byte"
                    name = repr(symbol.decode()) if self._is_char_model else f"0x{symbol[0]:02x}"
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
        out: NDArray[Any] | None = None,
        max_ids: int | None = None,
    ) -> TokenBatch:
        """Encode many texts. Several threads encode a large batch, and write its ids to `out` where they can.

        With `max_ids`, at least 1, only the first so many ids of a text are certain to be right: what follows them may
        be left out.
        """
        takes_raw_texts = self.kernel_takes_raw_text and not (allowed and self._any_may_contain_special(texts, allowed))
        if (get_scanner(self.spec.pretokenizer) is None and not takes_raw_texts) or self.spec.dropout:
            return self._encode_one_by_one(texts, threads, allowed, bos_eos)
        job = EncodeJob(self.encoder, threads)
        job.write_to(self.select_output(out))
        job.surround(*bos_eos)
        if max_ids is not None and self.ids_are_final:
            job.max_ids = max_ids
        if takes_raw_texts:
            job.add_texts(texts, self.check_text)
        else:
            items_of_texts = [
                [
                    segment.data if segment.token_id is None else segment.token_id
                    for segment in self.prepare(text, allowed)
                ]
                for text in texts
            ]
            job.add_items(
                chain.from_iterable(items_of_texts), compute_offsets([len(items) for items in items_of_texts])
            )
        batch, unknown_index = self._run_job(job, threads)
        if unknown_index >= 0:
            self.raise_for_unknown(texts[unknown_index])
        return batch

    def encode_documents(
        self,
        buffer: Bytes,
        starts: NDArray[np.int64],
        ends: NDArray[np.int64],
        threads: int,
        bos_eos: BosEos = NO_BOS_EOS,
    ) -> TokenBatch:
        """Encode documents in one buffer of UTF-8: document i is `buffer[starts[i]:ends[i]]`.

        If the pretokenizer has a scanner and the text needs no change before it, no object is made for a text. Special
        tokens are encoded as text. A character model takes UTF-8 only. The buffer may be written to while this runs:
        each text is copied before it is encoded.

        Raises:
            ValueError: for a document that is not within the buffer; as for `encode`.

        """
        if not self.kernel_takes_raw_text or self._is_char_model:
            bounds = zip(starts.tolist(), ends.tolist(), strict=True)
            return self.encode_batch([buffer[start:end] for start, end in bounds], threads, bos_eos=bos_eos)
        job = EncodeJob(self.encoder, threads)
        job.surround(*bos_eos)
        job.add_documents(buffer, np.ascontiguousarray(starts), np.ascontiguousarray(ends), copies=True)
        batch, unknown_index = self._run_job(job, threads)
        if unknown_index >= 0:
            self.raise_for_unknown(buffer[int(starts[unknown_index]) : int(ends[unknown_index])])
        return batch

    def visit_documents(
        self, buffer: Bytes, starts: NDArray[np.int64], ends: NDArray[np.int64], visitor: Visitor
    ) -> None:
        """Give a visitor the ids of `encode_documents`, from one thread, while they are in the processor's cache.

        Nobody may write to the buffer meanwhile: the texts are not copied.

        Raises:
            ValueError: as for `encode_documents`; the visitor may have taken some ids by then.

        """
        if not self.kernel_takes_raw_text or self._is_char_model or not self.ids_are_final:
            batch = self.encode_documents(buffer, starts, ends, 1)
            visitor.visit(batch.ids, batch.offsets)
            return
        unknown_index = visit(self.encoder, visitor, buffer, np.ascontiguousarray(starts), np.ascontiguousarray(ends))
        if unknown_index >= 0:
            self.raise_for_unknown(buffer[int(starts[unknown_index]) : int(ends[unknown_index])])

    def encode_words(self, blob: NDArray[np.uint8], offsets: NDArray[np.int64]) -> TokenBatch:
        """Encode words, each as one pretoken: word i is `blob[offsets[i]:offsets[i + 1]]`.

        Symbols without an id are NO_TOKEN. The tokenizer must have no pretokenizer and no normalizer.
        """
        job = EncodeJob(self.encoder, 1)
        job.add_documents(blob, np.ascontiguousarray(offsets[:-1]), np.ascontiguousarray(offsets[1:]))
        return self._run_job(job, 1)[0]

    def make_block_end_finder(
        self, separators: list[bytes], keep_separator: bool, names: frozenset[str]
    ) -> BlockEndFinder | None:
        """Make a function that finds where a block of a file may end, given the special tokens to find in it."""
        from bpe.corpus.blocks import make_document_end_finder, make_safe_end_finder

        if not self.can_split_documents(names):
            return make_document_end_finder(separators, keep_separator)
        return make_safe_end_finder(self._find_last_split, [*separators, *(name.encode() for name in names)])

    def list_unsplittable(self, separators: list[bytes], names: frozenset[str]) -> list[bytes] | None:
        """List the strings that a `FileReader` must not cut; None if the kernel does not encode its blocks."""
        if not self.kernel_handles(names):
            return None
        return list(dict.fromkeys([*separators, *(name.encode() for name in names)]))

    def can_split_documents(self, names: frozenset[str]) -> bool:
        """Whether blocks of a file may end within documents."""
        return get_scanner(self.spec.pretokenizer) not in (None, WHOLE_TEXT) and self.kernel_handles(names)

    def select_output(self, out: NDArray[Any] | IdTarget | None) -> Any:
        """Return an array, or a target, if a job can write the ids to it, in place of a new array; else None."""
        if out is None or not self.ids_are_final:
            return None
        return out if isinstance(out, IdTarget) or out.flags.carray else None

    def _run_job(self, job: EncodeJob, threads: int) -> tuple[TokenBatch, int]:
        """Run a job: (its result, the first text with a symbol without an id, or -1)."""
        n_parts = job.prepare()
        run_threads(job.work, min(threads, n_parts), job.stop)
        ids, lengths, unknown_index = job.result()
        if self.parts.across_word_merger is not None:
            ids, lengths = self.parts.across_word_merger.merge(ids, compute_offsets(lengths))
        return TokenBatch(ids, compute_offsets(lengths)), unknown_index

    def _encode_one_by_one(
        self, texts: Sequence[TextLike], threads: int, allowed: frozenset[str], bos_eos: BosEos
    ) -> TokenBatch:
        """Encode several texts whose pretokenizer runs in the `regex` package."""
        del threads  # the `regex` package holds the GIL
        ids_of_texts = [surround_ids(self.encode(text, allowed), bos_eos) for text in texts]
        return TokenBatch(join_ids(ids_of_texts), compute_offsets([len(ids) for ids in ids_of_texts]))

    # Pretokens and symbols, for `explain` and errors ------------------------------------------------------------------

    def iterate_pretokens(self, text: TextLike, allowed: frozenset[str]) -> Iterator[bytes | int]:
        """Yield the pretokens of a text, and the ids of special tokens between them."""
        for segment in self.prepare(text, allowed):
            if segment.token_id is not None:
                yield segment.token_id
            else:
                yield from segment.pretokens()

    def encode_pretoken(self, pretoken: bytes) -> list[int]:
        """Encode one pretoken; NO_TOKEN for a symbol without an id."""
        ids, second_ids = self.encoder.encode_pretoken(pretoken), self.parts.second_ids
        if self.ids_are_final or second_ids is None:
            return ids
        return [
            int(second_ids.tokens[token_id - second_ids.first_id]) if token_id >= second_ids.first_id else token_id
            for token_id in ids
        ]

    def measure_tokens(self, pretoken: bytes) -> list[int]:
        """Measure the tokens of one pretoken: the number of bytes of text that each stands for."""
        ids = self.encode_pretoken(pretoken) if self.spec.ignore_merges else []
        if len(ids) == 1 and self.spec.vocabulary[ids[0]] == pretoken:
            return [self.word_model.measure(pretoken)]
        return self.word_model.merge(pretoken)[1]

    def find_unreachable(self) -> NDArray[np.int64]:
        """Find the ids that encoding never produces, as `Tokenizer.unreachable` documents them."""
        from bpe.vocab.merging import find_unreachable

        unreachable = find_unreachable(drop_merges_across_words(self.spec), Engine)
        across_word_merger = self.parts.across_word_merger
        return (
            unreachable
            if across_word_merger is None
            else across_word_merger.find_unreachable(unreachable, self.spec.vocabulary.limit)
        )

    def name_symbols(self, pretoken: bytes) -> list[tuple[bytes, int]]:
        """List the symbols of one pretoken before any merge, the end-of-word mark included, with their ids."""
        return [(symbol.name, symbol.token_id) for symbol in self.word_model.list_symbols(pretoken)]


def join_ids(arrays: list[NDArray[np.uint32]]) -> NDArray[np.uint32]:
    """Join the ids of texts."""
    if len(arrays) == 1:
        return arrays[0]
    return np.concatenate(arrays) if arrays else np.empty(0, dtype=np.uint32)


def surround_ids(ids: NDArray[np.uint32], bos_eos: BosEos) -> NDArray[np.uint32]:
    """Add ids before and after those of a text."""
    prepended, appended = (np.array([] if token_id is None else [token_id], dtype=np.uint32) for token_id in bos_eos)
    return ids if bos_eos == NO_BOS_EOS else np.concatenate((prepended, ids, appended))
