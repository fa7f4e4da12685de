"""The encoding methods of a `Tokenizer`: they check arguments and call the modules that encode.

Texts, batches and blocks of files go to the engine (`bpe/encode/engine.py`), Arrow arrays to `bpe/corpus/documents.py`;
streams, offsets, dropout and truncation have modules of their own. `bpe/tokenizer.py` documents the methods for users.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bpe.base.forks import cached_property
from bpe.base.threads import in_order, thread_count
from bpe.base.utf8 import TextLike, no_text, to_bytes
from bpe.batch import TokenBatch
from bpe.encode.engine import NOTHING, Around, BlockIds, Engine, surrounded
from bpe.errors import check_choice, check_int, check_iterable, check_sampling, error_context, shown
from bpe.vocab.spec import refuse_events
from bpe.vocab.vocabulary import NO_TOKEN

if TYPE_CHECKING:
    from bpe.corpus._file_reader import FileReader
    from bpe.corpus.blocks import Block, PathLike
    from bpe.corpus.documents import Documents
    from bpe.corpus.reading import EncodingErrors
    from bpe.corpus.sources import Sources
    from bpe.encode.dropout import DropoutEncoder
    from bpe.encode.offsets import Convention, OffsetEncoder, Unit
    from bpe.vocab.special_tokens import Allowed

#: The size assumed for files, in bytes, if it is unknown.
_UNKNOWN_SIZE = 1 << 24

#: What `tokens(as_text=True)` puts before a symbol that has no id.
UNKNOWN = "⁇"


@dataclass(slots=True)
class TextOptions:
    """Arguments of `Tokenizer.encode` and `encode_with_offsets`, as the caller gave them."""

    allowed_special: Allowed = ()
    disallowed_special: Allowed = ()
    dropout: float | None = None
    seed: int | None = None
    template: bool = False
    convention: Convention = "whole"


@dataclass(slots=True)
class BatchOptions:
    """Arguments that `Tokenizer.encode_batch` and `encode_files` share, as the caller gave them."""

    threads: int | None = None
    out: NDArray[Any] | None = None
    prepend: int | str | None = None
    append: int | str | None = None
    allowed_special: Allowed = ()
    disallowed_special: Allowed = ()
    dropout: float | None = None
    seed: int | None = None
    template: bool = False


class TextEncoder:
    """The part of a `Tokenizer` that checks the arguments of encoding methods. Immutable.

    Args:
        engine: the engine that encodes.

    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._spec = engine.spec

    # One text ---------------------------------------------------------------------------------------------------------

    def encode(self, text: TextLike, options: TextOptions) -> NDArray[np.uint32]:
        """As `Tokenizer.encode`."""
        allowed = self._policy([text], options.allowed_special, options.disallowed_special)
        if chance := self._dropout(options.dropout):
            dropout, seed = check_sampling("dropout", chance, options.seed)
            ids = self._dropout_encoder.encode(text, allowed, dropout, seed)
        else:
            ids = self._without_dropout.engine.encode(text, allowed)
        if not options.template or self._spec.template is None:
            return ids
        before, after = (np.array(part, dtype=np.uint32) for part in self._spec.template)
        return np.concatenate((before, ids, after))

    def encode_spans(self, spans: Iterable[tuple[TextLike, bool]], allowed_special: Allowed) -> NDArray[np.uint32]:
        """As `Tokenizer.encode_spans`."""
        specials = self.engine.specials
        allowed = specials.allowed(allowed_special)
        parts: list[NDArray[np.uint32]] = [np.empty(0, dtype=np.uint32)]
        held: list[bytes] = []  # text since the last special token
        for span in spans:
            if not isinstance(span, (tuple, list)) or len(span) != 2 or not isinstance(span[1], (bool, np.bool_)):
                raise TypeError(f"span is {shown(span)}; it must be (text, trusted), such as ('Hello', False)")
            for piece, special in specials.pieces(to_bytes(span[0]), allowed if span[1] else frozenset(), raw=True):
                if special is None:
                    held.append(bytes(piece))
                    continue
                parts += [self.engine.encode(b"".join(held), specials.always), np.array([special], dtype=np.uint32)]
                held.clear()
        return np.concatenate([*parts, self.engine.encode(b"".join(held), specials.always)])

    def encode_with_offsets(
        self, text: TextLike, unit: Unit, options: TextOptions
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """As `Tokenizer.encode_with_offsets`."""
        allowed = self._policy([text], options.allowed_special, options.disallowed_special)
        check_choice("convention", options.convention, ("whole", "tokenizers"))
        if options.convention == "tokenizers":
            ids, spans, _ = self.offset_encoder.encode_words(text, allowed, unit, "tokenizers")
        else:
            ids, spans = self.offset_encoder.encode(text, allowed, unit)
        if not options.template or self._spec.template is None:
            return ids, spans
        before, after = (np.array(part, dtype=np.uint32) for part in self._spec.template)
        nowhere = (np.zeros((len(part), 2), dtype=np.int64) for part in (before, after))
        return np.concatenate((before, ids, after)), np.concatenate((next(nowhere), spans, next(nowhere)))

    def truncate(self, text: TextLike, max_tokens: int, allowed_special: Allowed) -> TextLike:
        """As `Tokenizer.truncate`."""
        most = check_int("max_tokens", max_tokens, 0)
        allowed = self._policy([text], allowed_special, ())
        return self._truncate(self.engine, self.offset_encoder, text, most, allowed)

    @cached_property
    def _truncate(self) -> Callable[..., TextLike]:
        from bpe.encode.truncation import truncate

        return truncate

    # Many texts -------------------------------------------------------------------------------------------------------

    def encode_batch(self, texts: Iterable[TextLike], options: BatchOptions) -> TokenBatch:
        """As `Tokenizer.encode_batch`."""
        _check_out(options.out, self._spec.vocabulary.limit)
        around = self._around(options)
        batch = self._encode_texts(texts, around, options)
        if options.template and self._spec.template is not None:
            batch = _with_template(batch, self._spec.template)
        return _into(options.out, batch)

    def _encode_texts(self, texts: Iterable[TextLike], around: Around, options: BatchOptions) -> TokenBatch:
        """As `encode_batch`, without the template and `out`."""
        if self._spec.dropout and options.dropout == 0:
            return self._without_dropout._encode_texts(texts, around, options)
        documents = None
        if not isinstance(texts, (list, tuple)):
            from bpe.corpus.documents import arrow_documents

            documents = arrow_documents(texts)
        threads = thread_count(options.threads)
        if chance := self._dropout(options.dropout):
            listed = listed_texts(texts) if documents is None else [text for each in documents for text in each.texts()]
            return self._encode_with_dropout(listed, threads, around, replace(options, dropout=chance))
        if documents is not None:
            return self._encode_documents(documents, threads, around, options)
        listed = listed_texts(texts)
        try:
            allowed = self._policy(listed, options.allowed_special, options.disallowed_special)
            return self.engine.encode_batch(listed, threads, allowed, around)
        except TypeError:
            for number, text in enumerate(listed):
                if not isinstance(text, (str, bytes, bytearray, memoryview)):
                    raise no_text(text, f"text {number}") from None
            raise

    def _encode_with_dropout(
        self, texts: Sequence[TextLike], threads: int, around: Around, options: BatchOptions
    ) -> TokenBatch:
        chance, first = check_sampling("dropout", options.dropout, options.seed)
        allowed = self._policy(texts, options.allowed_special, options.disallowed_special)

        def row(index: int) -> NDArray[np.uint32]:
            return surrounded(self._dropout_encoder.encode(texts[index], allowed, chance, first + index), around)

        return TokenBatch.from_lists(in_order(row, range(len(texts)), min(threads, len(texts) or 1)))

    def _encode_documents(
        self, groups: Iterable[Documents], threads: int, around: Around, options: BatchOptions
    ) -> TokenBatch:
        """The ids of texts in buffers; an error names the array that a text comes from."""
        allowed, _ = self.engine.specials.policy(options.allowed_special, options.disallowed_special)
        batches: list[TokenBatch] = []
        for documents in groups:
            with error_context(documents.source):
                if options.disallowed_special:
                    self._policy(documents.texts(), options.allowed_special, options.disallowed_special)
                if allowed and self.engine.specials.occur(documents.data, allowed):
                    batches.append(self.engine.encode_batch(documents.texts(), threads, allowed, around))
                    continue
                batches.append(
                    self.engine.encode_documents(documents.data, documents.starts, documents.ends, threads, around)
                )
        if len(batches) == 1:
            return batches[0]
        lengths = [np.zeros(1, dtype=np.int64), *(batch.lengths for batch in batches)]
        ids = [np.empty(0, dtype=np.uint32), *(batch.ids for batch in batches)]
        return TokenBatch(np.concatenate(ids), np.cumsum(np.concatenate(lengths)))

    def encode_files(
        self,
        files: PathLike | Iterable[PathLike] | Sources,
        separator: str | None,
        per_line: bool,
        encoding_errors: EncodingErrors,
        options: BatchOptions,
    ) -> TokenBatch:
        """As `Tokenizer.encode_files`."""
        from bpe.corpus.sources import Sources

        _check_out(options.out, self._spec.vocabulary.limit)
        around = self._around(options)
        corpus = Sources.of(files, separator, per_line, encoding_errors, chars=self._spec.model == "char")
        threads = thread_count(options.threads)
        allowed, disallowed = self.engine.specials.policy(options.allowed_special, options.disallowed_special)
        names = allowed | disallowed
        cut = self.engine.end_cut(corpus.separators, corpus.keep_separator, names)
        uncut = self.engine.uncut(corpus.separators, names) if corpus.regular else None
        with closing(corpus.blocks(cut, threads, uncut=uncut)) as blocks:  # an error leaves no file open
            size, ahead = corpus.text_size or _UNKNOWN_SIZE, not corpus.regular
            parts = self.block_ids(blocks, threads, size, allowed, disallowed=disallowed, around=around, ahead=ahead)
            batch = BlockIds.joined(list(parts))
        return _into(options.out, batch)

    def encode_stream(
        self, chunks: Iterable[TextLike], cut_after: str | None, allowed_special: Allowed, disallowed_special: Allowed
    ) -> Iterator[NDArray[np.uint32]]:
        """As `Tokenizer.encode_stream`."""
        allowed, disallowed = self.engine.specials.policy(allowed_special, disallowed_special)
        return self._encode_stream(self.engine, chunks, allowed, disallowed, cut_after)

    @cached_property
    def _encode_stream(self) -> Callable[..., Iterator[NDArray[np.uint32]]]:
        from bpe.encode.streams import encode_stream

        return encode_stream

    # For people -------------------------------------------------------------------------------------------------------

    def tokens(self, text: TextLike, as_text: bool, allowed_special: Allowed, disallowed_special: Allowed) -> list[Any]:
        """As `Tokenizer.tokens`."""
        allowed = self._policy([text], allowed_special, disallowed_special)
        found: list[tuple[bytes, bool]] = []  # a token or a symbol without an id, and which of the two
        across = self._spec.word_merges is not None
        for piece in self.engine.encode(text, allowed).tolist() if across else self.engine.pieces(text, allowed):
            if isinstance(piece, int):
                found.append((self._spec.vocabulary[piece], True))
                continue
            ids = self.engine.piece_ids(piece)
            unnamed = iter([symbol for symbol, number in self.engine.named_symbols(piece) if number == NO_TOKEN])
            found += [
                (next(unnamed), False) if number == NO_TOKEN else (self._spec.vocabulary[number], True)
                for number in ids
            ]
        if not as_text:
            return [self.typed_token(token) for token, _ in found]
        return [
            token.decode("utf-8", "replace") if known else UNKNOWN + token.decode("utf-8", "backslashreplace")
            for token, known in found
        ]

    def explain(self, text: TextLike) -> str:
        """As `Tokenizer.explain`."""
        from bpe.encode.explain import explain_pieces
        from bpe.encode.models.picky import PickyEngine

        self._check_words_only("explain")
        if isinstance(self.engine, PickyEngine):
            return self.engine.explained(self.engine.pieces(text, self.engine.specials.always))
        return explain_pieces(self.engine, self._spec, self.engine.pieces(text, self.engine.specials.always))

    def merge_steps(self, text: TextLike) -> list[tuple[str, list[tuple[bytes, int]]]]:
        """For `Tokenizer.show_merges`: the tokens before any merge, and after each that changes the text."""
        from bpe.encode.explain import merge_steps

        self._check_words_only("show_merges")
        refuse_events(self._spec, "show_merges")
        return merge_steps(self.engine, self._spec, self.engine.pieces(text, self.engine.specials.always))

    # Private ----------------------------------------------------------------------------------------------------------

    def _check_words_only(self, method: str) -> None:
        if self._spec.word_merges is not None:
            raise ValueError(
                f"{method} follows merges within words only, and this tokenizer has merges across words; call `tokens` "
                "to see the result"
            )

    def typed_token(self, token: bytes) -> Any:
        """A token as its model has it: bytes, or str in a character model."""
        return token.decode() if self._spec.model == "char" else token

    def _policy(
        self, texts: Sequence[TextLike], allowed_special: Allowed, disallowed_special: Allowed
    ) -> frozenset[str]:
        """The special tokens to find, after refusing texts with those that are disallowed."""
        specials = self.engine.specials
        allowed, disallowed = specials.policy(allowed_special, disallowed_special)
        if disallowed:
            for text in texts:
                specials.refuse(to_bytes(text), disallowed)
        return allowed

    @cached_property
    def offset_encoder(self) -> OffsetEncoder:
        """What encodes with offsets; made at the first use."""
        from bpe.encode.offsets import OffsetEncoder

        return OffsetEncoder(self.engine)

    def _dropout(self, given: float | None) -> float | None:
        """The dropout of a call: the one given, or the tokenizer's own."""
        if given and self._spec.word_merges is not None:
            raise ValueError(
                f"dropout is {shown(given)}, and this tokenizer has merges across words, for which it is not defined; "
                "leave it out"
            )
        if given:
            refuse_events(self._spec, f"dropout={shown(given)}")
        return self._spec.dropout if given is None else given

    @cached_property
    def _without_dropout(self) -> TextEncoder:
        """The same without the tokenizer's own dropout."""
        if not self._spec.dropout:
            return self
        engine = Engine(replace(self._spec, dropout=0.0), cache_memory=self.engine.cache_memory)
        return TextEncoder(engine)

    @cached_property
    def _dropout_encoder(self) -> DropoutEncoder:
        from bpe.encode.dropout import DropoutEncoder

        return DropoutEncoder(self.engine)

    def _around(self, options: BatchOptions) -> Around:
        """The ids that `prepend` and `append` name."""
        if options.template and (options.prepend is not None or options.append is not None):
            given = "prepend" if options.append is None else "append"
            raise ValueError(
                f"{given} is {shown(getattr(options, given))}, and template is True; pass one of them: the "
                "template has ids before and after a text already"
            )
        return self.named_id("prepend", options.prepend), self.named_id("append", options.append)

    def named_id(self, argument: str, value: object) -> int | None:
        """The id that an argument names, by number or as a special token; None for None."""
        specials = self.engine.specials.ids
        if value is None:
            return None
        if isinstance(value, str):
            if value not in specials:
                known = f"its special tokens are {shown(list(specials), 200)}" if specials else "it has none"
                raise ValueError(
                    f"{argument} is {shown(value)}, which is no special token of this tokenizer ({known}); give one of "
                    "those, or the id of any token"
                )
            return specials[value]
        number = check_int(argument, value, 0)
        if number not in self._spec.vocabulary:
            raise ValueError(
                f"{argument} is {number}, which is no id of this tokenizer; give the id of a token, or the name of a "
                "special token"
            )
        return number

    def block_ids(
        self,
        blocks: Iterator[Block | FileReader],
        threads: int,
        n_bytes: int,
        allowed: frozenset[str],
        *,
        disallowed: frozenset[str] = frozenset(),
        around: Around = NOTHING,
        most: int = sys.maxsize,
        ahead: bool = False,
    ) -> Iterator[BlockIds]:
        """The ids of all blocks of files, in parts of about `most` bytes."""
        for first in blocks:  # a job without blocks would start threads for nothing
            part = self.engine.encode_blocks(
                chain((first,), blocks),
                threads,
                n_bytes,
                allowed=allowed,
                disallowed=disallowed,
                around=around,
                most=most,
                ahead=ahead,
            )
            if part is not None:
                yield part


def listed_texts(texts: Iterable[TextLike]) -> list[TextLike]:
    """The argument `texts` as a list of its own, which nobody else changes, after refusing what is one text."""
    if isinstance(texts, (str, bytes, bytearray, memoryview)):
        raise TypeError(f"texts is one {type(texts).__name__}; it must be an iterable of texts: [{shown(texts, 20)}]")
    check_iterable("texts", texts, "an iterable of texts")
    return list(texts)


def _check_out(out: object, limit: int) -> None:
    """Refuse an `out` that ids cannot be written to."""
    if out is None:
        return
    if not isinstance(out, np.ndarray) or out.ndim != 1 or out.dtype not in (np.uint32, np.uint16):
        found = f"{out.dtype} of shape {out.shape}" if isinstance(out, np.ndarray) else shown(out)
        raise TypeError(f"out is {found}; it must be a NumPy array of uint32 or uint16, 1-D")
    if not out.flags.writeable:
        raise ValueError("out is read-only; it must be an array that can be written to")
    if out.dtype == np.uint16 and limit > 1 << 16:
        raise ValueError(f"out is uint16, and this vocabulary has ids up to {limit - 1}; it must be uint32")


def _with_template(batch: TokenBatch, template: tuple[tuple[int, ...], tuple[int, ...]]) -> TokenBatch:
    """The batch with the template's ids before and after those of each text."""
    before, after = (np.array(part, dtype=np.uint32) for part in template)
    offsets = batch.offsets + np.arange(len(batch) + 1) * (len(before) + len(after))
    first, last = offsets[:-1, None] + np.arange(len(before)), offsets[1:, None] - np.arange(len(after), 0, -1)
    ids, own = np.empty(offsets[-1], dtype=np.uint32), np.ones(offsets[-1], dtype=np.bool_)
    own[first] = own[last] = False
    ids[first], ids[last], ids[own] = before, after, batch.ids
    return TokenBatch(ids, offsets)


def _into(out: NDArray[Any] | None, batch: TokenBatch) -> TokenBatch:
    """The batch with its ids at the beginning of `out`."""
    if out is None:
        return batch
    if len(batch.ids) > len(out):
        raise ValueError(f"out has room for {len(out)} ids, and there are {len(batch.ids)}; make it at least as long")
    out[: len(batch.ids)] = batch.ids
    return TokenBatch(out[: len(batch.ids)], batch.offsets)
