"""Many texts and trusted spans to ids, with the engine of a tokenizer: what methods of `Tokenizer` call.

Arrow arrays come from `bpe/corpus/documents.py`. One text goes from `Tokenizer.encode` to the engine directly; files
go through `blocks.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from bpe.base.fast_dataclasses import replace
from bpe.base.threads import map_ordered
from bpe.base.utf8 import Bytes, TextLike, make_type_error, to_bytes
from bpe.batch import TokenBatch
from bpe.encode.engine import BosEos, Engine, join_ids, surround_ids
from bpe.errors import (
    as_format_error,
    check_bool,
    check_int,
    check_iterable,
    check_probability_and_seed,
    make_room_error,
    short_repr,
)
from bpe.pretokenize.preparing import TextPreparer
from bpe.vocab.spec import TokenizerSpec, check_supported
from bpe.vocab.special_tokens import Allowed, take_context

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bpe.corpus.documents import Documents
    from bpe.pretokenize.pipeline import Segment
    from bpe.text.alignment import Convention
    from bpe.vocab.special_tokens import SpecialTokens

#: The arguments `allowed_special` and `disallowed_special`.
SpecialPolicy = tuple[Allowed, Allowed]


#: A special token in a text: its start and end in bytes, and its id.
Match = tuple[int, int, int]


class GivenSpecials:
    """The special tokens of one text, for a `TextPreparer`: some that are given, and those found in every text.

    Args:
        specials: the special tokens of the tokenizer.
        matches: those that are given, in order.

    """

    def __init__(self, specials: SpecialTokens, matches: list[Match]) -> None:
        self._specials, self._matches = specials, matches
        self.select_normalized, self.split_normalized = specials.select_normalized, specials.split_normalized

    def split_with_starts(self, data: Bytes, allowed: frozenset[str]) -> Iterator[tuple[int, Bytes, int | None]]:
        """Split the text at the given tokens, and the rest at those in `allowed`."""
        position = 0
        for start, end, token_id in (*self._matches, (len(data), len(data), None)):
            parts = self._specials.split_with_starts(
                data[position:start], allowed, context=take_context(data, position, start)
            )
            for offset, part, part_id in parts:
                yield position + offset, part, part_id
            if token_id is not None:
                yield start, data[start:end], token_id
            position = end


def prepare_at_matches(
    engine: Engine, data: bytes, matches: list[Match], convention: Convention | None = None
) -> Iterator[Segment]:
    """Split a text at special tokens whose positions are given, and prepare what is between them."""
    given_specials = GivenSpecials(engine.specials, matches)
    preparer = TextPreparer(engine.spec.normalizer, engine.spec.pretokenizer, given_specials)
    return preparer.prepare(data, engine.specials.always_names, convention)


def encode_at_matches(engine: Engine, text: TextLike, matches: list[Match]) -> NDArray[np.uint32]:
    """Encode a text with the special tokens that are given, and those found in every text."""
    data = to_bytes(engine.check_text(text))
    return join_ids([engine.encode_segment(segment) for segment in prepare_at_matches(engine, data, matches)])


def encode_spans(
    engine: Engine, spans: Iterable[tuple[TextLike, bool]], allowed_special: Allowed
) -> NDArray[np.uint32]:
    """Encode one text, given as (text, trusted) pairs; special tokens are found in trusted text only."""
    specials = engine.specials
    allowed = specials.resolve_allowed(allowed_special)
    parts: list[tuple[bytes, bool]] = []
    for span in spans:
        if not isinstance(span, (tuple, list)) or len(span) != 2 or not isinstance(span[1], (bool, np.bool_)):
            raise TypeError(f"span is {short_repr(span)}; it must be (text, trusted), such as ('Hello', False)")
        parts.append((to_bytes(span[0]), bool(span[1])))
    text = b"".join([data for data, _ in parts])
    matches: list[Match] = []
    span_start = 0
    always_ids = {specials.ids[name] for name in specials.always_names}  # `encode_at_matches` finds them
    for data, is_trusted in parts:
        if is_trusted and allowed:
            context = take_context(text, span_start, span_start + len(data))
            stretches = specials.split_with_starts(data, allowed, before_normalization=True, context=context)
            for start, stretch, special_id in stretches:
                if special_id is not None and special_id not in always_ids:
                    matches.append((span_start + start, span_start + start + len(stretch), special_id))
        span_start += len(data)
    return encode_at_matches(engine, text, matches)


# Many texts -----------------------------------------------------------------------------------------------------------


def encode_texts(
    engine: Engine,
    texts: Iterable[TextLike],
    threads: int,
    policy: SpecialPolicy,
    bos_eos: BosEos,
    out: NDArray[Any] | None = None,
) -> TokenBatch:
    """Encode an iterable of texts or an Arrow array; the ids are written to `out` where that spares a copy."""
    documents = find_arrow_groups(texts)
    if documents is not None:
        return _encode_documents(engine, documents, threads, policy, bos_eos)
    text_list = list_texts(texts)
    try:
        return engine.encode_batch(
            text_list, threads, engine.specials.resolve_and_check(text_list, *policy), bos_eos, out
        )
    except TypeError:
        for index, text in enumerate(text_list):
            if not isinstance(text, (str, bytes, bytearray, memoryview)):
                raise make_type_error(text, f"text {index}") from None
        raise


def encode_texts_with_dropout(
    engine: Engine,
    texts: Iterable[TextLike],
    threads: int,
    policy: SpecialPolicy,
    dropout_and_seed: tuple[float, int],
    bos_eos: BosEos,
) -> TokenBatch:
    """Encode many texts with random merges left out; text i is encoded with the seed + i."""
    documents = find_arrow_groups(texts)
    text_list = list_texts(texts) if documents is None else [text for group in documents for text in group.texts()]
    allowed = engine.specials.resolve_and_check(text_list, *policy)
    dropout, seed = dropout_and_seed

    def encode_text(index: int) -> NDArray[np.uint32]:
        return surround_ids(engine.encode_with_dropout(text_list[index], allowed, dropout, seed + index), bos_eos)

    return TokenBatch.from_lists(map_ordered(encode_text, range(len(text_list)), min(threads, len(text_list) or 1)))


def check_dropout(spec: TokenizerSpec, dropout: float, seed: int | None) -> tuple[float, int]:
    """Check the arguments `dropout` and `seed`, and whether the tokenizer can drop merges; a random seed for None.

    Raises:
        TypeError, ValueError: for invalid arguments, and for merges across words or deletions.

    """
    check_supported(spec, f"dropout={short_repr(dropout)}", allow_across_words=False)
    return check_probability_and_seed("dropout", dropout, seed)


def find_arrow_groups(texts: object) -> Iterable[Documents] | None:
    """Find the texts of an Arrow array in its buffers; None for anything else."""
    if isinstance(texts, (list, tuple)):
        return None
    from bpe.corpus.documents import read_arrow_documents

    return read_arrow_documents(texts)


def list_texts(texts: Iterable[TextLike]) -> list[TextLike]:
    """Copy the argument `texts` to a list, which nobody else changes, after refusing what is one text."""
    if isinstance(texts, (str, bytes, bytearray, memoryview)):
        raise TypeError(
            f"texts is one {type(texts).__name__}; it must be an iterable of texts: [{short_repr(texts, 20)}]"
        )
    check_iterable("texts", texts, "an iterable of texts")
    return list(texts)


def _encode_documents(
    engine: Engine, groups: Iterable[Documents], threads: int, policy: SpecialPolicy, bos_eos: BosEos
) -> TokenBatch:
    """Encode texts in buffers; an error names the array that a text comes from."""
    allowed, disallowed = engine.specials.resolve_policy(*policy)
    batches: list[TokenBatch] = []
    for documents in groups:
        with as_format_error(documents.source):
            if disallowed:
                engine.specials.resolve_and_check(documents.texts(), *policy)
            if allowed and engine.specials.may_occur(documents.data, allowed):
                batches.append(engine.encode_batch(documents.texts(), threads, allowed, bos_eos))
                continue
            batches.append(engine.encode_documents(documents.data, documents.starts, documents.ends, threads, bos_eos))
    if len(batches) == 1:
        return batches[0]
    lengths = [np.zeros(1, dtype=np.int64), *(batch.lengths for batch in batches)]
    ids = [np.empty(0, dtype=np.uint32), *(batch.ids for batch in batches)]
    return TokenBatch(np.concatenate(ids), np.cumsum(np.concatenate(lengths)))


# Results --------------------------------------------------------------------------------------------------------------


def check_out(out: object, limit: int) -> None:
    """Refuse an `out` that ids below `limit` cannot be written to."""
    if out is None:
        return
    if not isinstance(out, np.ndarray) or out.ndim != 1 or out.dtype not in (np.uint32, np.uint16):
        description = f"{out.dtype} of shape {out.shape}" if isinstance(out, np.ndarray) else short_repr(out)
        raise TypeError(f"out is {description}; it must be a NumPy array of uint32 or uint16, 1-D")
    if not out.flags.writeable:
        raise ValueError("out is read-only; it must be an array that can be written to")
    if out.dtype == np.uint16 and limit > 1 << 16:
        raise ValueError(f"out is uint16, and this vocabulary has ids up to {limit - 1}; it must be uint32")


def write_into(out: NDArray[Any] | None, batch: TokenBatch) -> TokenBatch:
    """Write the ids of a batch to the beginning of `out`; a batch with these ids."""
    if out is None or np.may_share_memory(batch.ids, out):  # written there already
        return batch
    if len(batch.ids) > len(out):
        raise make_room_error(len(out), len(batch.ids))
    out[: len(batch.ids)] = batch.ids
    return TokenBatch(out[: len(batch.ids)], batch.offsets)


def make_template_arrays(
    template: tuple[tuple[int, ...], tuple[int, ...]] | None,
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Make arrays of the ids that a template puts before and after a text; None puts none there."""
    prepended, appended = (np.array(part, dtype=np.uint32) for part in template or ((), ()))
    return prepended, appended


def add_template(batch: TokenBatch, template: tuple[tuple[int, ...], tuple[int, ...]]) -> TokenBatch:
    """Add a template's ids before and after those of each text."""
    prepended, appended = make_template_arrays(template)
    offsets = batch.offsets + np.arange(len(batch) + 1) * (len(prepended) + len(appended))
    prepended_positions = offsets[:-1, None] + np.arange(len(prepended))
    appended_positions = offsets[1:, None] - np.arange(len(appended), 0, -1)
    ids, is_text_id = np.empty(offsets[-1], dtype=np.uint32), np.ones(offsets[-1], dtype=np.bool_)
    is_text_id[prepended_positions] = is_text_id[appended_positions] = False
    ids[prepended_positions], ids[appended_positions], ids[is_text_id] = prepended, appended, batch.ids
    return TokenBatch(ids, offsets)


# CLIP -----------------------------------------------------------------------------------------------------------------


class ClipEncoder:
    """Encodes texts to CLIP's rows, for a spec with CLIP's start and end tokens. Immutable.

    As in OpenAI's code, the names of the two tokens are found in text as words. Of the other special tokens those that
    are flagged "ordinary" are found.
    """

    def __init__(self, spec: TokenizerSpec, cache_memory: int) -> None:
        ordinary_tokens = {
            name: token_id
            for name, token_id in spec.special_tokens.items()
            if "ordinary" in spec.token_flags.get(name, ())
        }
        flags = {name: spec.token_flags[name] for name in ordinary_tokens}
        self._start_and_end_ids = spec.clip or (0, 0)
        unmerged_words = [(spec.vocabulary[token_id], token_id) for token_id in self._start_and_end_ids]
        self._engine = Engine(
            replace(spec, special_tokens=ordinary_tokens, token_flags=flags), unmerged_words, cache_memory
        )

    def encode(
        self, texts: Iterable[str], context_length: int, truncate: bool
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Encode texts to rows, as `Tokenizer.clip_rows` describes them."""
        width = check_int("context_length", context_length, 2)
        batch = self._engine.encode_batch(list_texts(texts), 1, self._engine.specials.always_names)
        lengths = batch.lengths + 2
        if not check_bool("truncate", truncate) and len(lengths) and lengths.max() > width:
            index = int(np.argmax(lengths > width))
            raise ValueError(
                f"text {index} has {lengths[index]} ids with start and end, more than context_length={width}; pass "
                "truncate=True to cut it, or a greater context_length"
            )
        lengths = np.minimum(lengths, width)
        rows = np.zeros((len(batch), width), dtype=np.int32)
        start, end = self._start_and_end_ids
        for row, ids, length in zip(rows, batch, lengths.tolist(), strict=True):
            row[0] = start
            row[1 : length - 1] = ids[: length - 2]
            row[length - 1] = end
        return rows, lengths
