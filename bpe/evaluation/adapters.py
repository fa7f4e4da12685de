"""Tokenizers as an evaluation uses them: the ids of documents, and where in the text each token begins.

`adapt` accepts this package's `Tokenizer`, `tokenizers.Tokenizer` and objects with one as `backend_tokenizer`
(transformers), `tiktoken.Encoding`, and any object with `encode_batch` and `vocab` (`SimpleTokenizer`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from bpe.base.fast_dataclasses import replace
from bpe.base.forks import cached_property
from bpe.base.offsets import compute_offsets
from bpe.base.utf8 import find_utf8_error
from bpe.batch import TokenBatch
from bpe.errors import describe, raise_if_of_signal_handler, short_repr
from bpe.evaluation._tally import MAX_TOKEN_BYTES, TokenTally
from bpe.text.letters import measure_utf8, read_letters_or_utf8
from bpe.tokenizer import Tokenizer
from bpe.vocab.vocabulary import ORDINARY

#: Passed as sizes where each token has the size of its vocabulary entry.
NO_SIZES = np.empty(0, dtype=np.uint32)


class SimpleTokenizer(Protocol):
    """What `bpe.evaluate` needs of a tokenizer of another package.

    `vocab` may be a method or an attribute. Its tokens are the bytes that they stand for, or str with that UTF-8. If
    the tokens of a text have as many bytes as the text, what they cut is counted too; otherwise only tokens are.

    """

    def encode_batch(self, texts: Sequence[str], /) -> Iterable[Any]:
        """Return the ids of each text: sequences of int, or objects with such a sequence as `ids`."""
        ...

    @property
    def vocab(self) -> Any:
        """Token → id, or a method that returns it."""
        ...


class EncodedDocuments(NamedTuple):
    """Encoded documents: their ids, where each document's begin in them, and the bytes of text of each token.

    `sizes` is empty if each token has the size of its vocabulary entry, of at most MAX_TOKEN_BYTES bytes.
    """

    ids: NDArray[np.uint32]
    offsets: NDArray[np.int64]
    sizes: NDArray[np.uint32]

    def measure_tokens(self, adapter: Adapter) -> NDArray[np.uint32]:
        """Return the bytes of text of each token."""
        return self.sizes if len(self.sizes) else adapter.lengths[self.ids]


@dataclass(frozen=True)
class TokensById:
    """The tokens of a vocabulary by id: token i is `blob[offsets[i]:offsets[i + 1]]`.

    Attributes:
        blob: the bytes of all.
        offsets: int64, shape (n + 1,).
        is_ordinary: bool: whether the id has an ordinary token, and not a special one or none.

    """

    blob: bytes
    offsets: NDArray[np.int64]
    is_ordinary: NDArray[np.bool_]

    def __getitem__(self, token_id: int) -> bytes:
        """The bytes of a token."""
        return self.blob[self.offsets[token_id] : self.offsets[token_id + 1]]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The length of each token in bytes."""
        return np.diff(self.offsets)


class Adapter:
    """A tokenizer with a name; subclasses encode.

    Attributes:
        name: a short name, unique in an evaluation.
        tokenizer: the object given.
        limit: one more than the greatest id.
        vocab_size: the number of tokens.
        tokens: the bytes of its tokens by id.
        thread_safe: whether several threads may encode at once.

    """

    name: str
    tokenizer: Any
    limit: int
    vocab_size: int
    thread_safe = True

    @cached_property
    def tokens(self) -> TokensById:
        """The tokens by id."""
        raise NotImplementedError

    @cached_property
    def lengths(self) -> NDArray[np.uint32]:
        """The bytes of text that each token stands for, by id."""
        return self.tokens.lengths.astype(np.uint32)

    def encode(self, text: memoryview | bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> EncodedDocuments:
        """Encode documents in one buffer, in the caller's thread."""
        raise NotImplementedError

    def look_up_sizes(self, ids: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Return the sizes of ids for `EncodedDocuments`, from the vocabulary's lengths."""
        return self.lengths[ids] if self.lengths.max(initial=0) > MAX_TOKEN_BYTES else NO_SIZES

    def tally(
        self, text: memoryview | bytes, starts: NDArray[np.int64], ends: NDArray[np.int64], tally: TokenTally
    ) -> None:
        """Add what `encode` returns to a tally."""
        tally.add(*self.encode(text, starts, ends))

    def encode_texts(self, texts: list[str]) -> TokenBatch:
        """Encode texts."""
        raise NotImplementedError

    def encode_by_default(self, texts: list[str]) -> TokenBatch:
        """Encode texts with special tokens in them, if the tokenizer finds them by default, and with its dropout."""
        return self.encode_texts(texts)

    def decode_each(self, token_ids: list[int]) -> list[str]:
        """Decode each id by itself; a token that is not whole characters has U+FFFD."""
        raise NotImplementedError

    def decode_all(self, rows: TokenBatch) -> list[str]:
        """Decode each row of ids."""
        raise NotImplementedError


class NativeAdapter(Adapter):
    """A `Tokenizer` of this package, without the dropout of its own, which would make figures random."""

    def __init__(self, tokenizer: Tokenizer, name: str) -> None:
        self.name, self.tokenizer = name, tokenizer
        self.limit, self.vocab_size = tokenizer.n_vocab, tokenizer.vocab_size
        spec = tokenizer.spec
        if spec.dropout:
            tokenizer = Tokenizer(replace(spec, dropout=0.0), cache_memory=tokenizer.cache_memory)
        self._encoder, self.engine = tokenizer, tokenizer._engine
        #: Whether each token is a part of the text, so that their lengths are positions in it if nothing is dropped.
        self._tokens_are_text = (
            spec.model == "byte" and spec.unk_token is None and spec.end_of_word is None and spec.normalizer is None
        )
        #: Whether the kernel takes documents in a buffer too.
        self.kernel_takes_buffers = self.engine.kernel_takes_raw_text and self._tokens_are_text
        #: Whether ids can be counted as the kernel writes them.
        self.counts_in_encoder = (
            self.kernel_takes_buffers
            and not self.engine.specials.always_names
            and spec.vocabulary.lengths.max(initial=0) <= MAX_TOKEN_BYTES
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.tokenizer, self.name)

    @cached_property
    def tokens(self) -> TokensById:
        """The tokens by id."""
        spec = self.tokenizer.spec
        is_ordinary = spec.vocabulary.kinds == ORDINARY
        for name, token_id in spec.special_tokens.items():
            is_ordinary[token_id] = "ordinary" in spec.token_flags.get(name, ())
        return TokensById(spec.vocabulary.blob, spec.vocabulary.offsets, is_ordinary)

    @cached_property
    def lengths(self) -> NDArray[np.uint32]:
        """The bytes of each token by id."""
        return np.array(self.tokenizer.token_byte_lengths)

    def encode(self, text: memoryview | bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> EncodedDocuments:
        """Encode documents in one buffer."""
        specials = self.engine.specials
        if self._tokens_are_text:
            if specials.always_names and specials.may_occur(text, specials.always_names):
                documents = [bytes(text[a:b]) for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
                batch = self.engine.encode_batch(documents, 1, specials.always_names)
            else:
                batch = self.engine.encode_documents(text, starts, ends, 1)
            if self.kernel_takes_buffers or self._is_aligned(batch, ends - starts):
                return EncodedDocuments(batch.ids, batch.offsets, self.look_up_sizes(batch.ids))
        rows, sizes = [], []
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            document = bytes(text[start:end])
            ids, spans = self._encoder.encode_with_offsets(document, "byte")
            rows.append(ids)
            sizes.append(measure_sizes(find_starts(spans), len(document)))
        return _join_rows(rows, sizes)

    def tally(
        self, text: memoryview | bytes, starts: NDArray[np.int64], ends: NDArray[np.int64], tally: TokenTally
    ) -> None:
        """Tally documents in one buffer; ids of the kernel are counted as it writes them."""
        if self.counts_in_encoder:
            self.engine.visit_documents(text, starts, ends, tally)
        else:
            super().tally(text, starts, ends, tally)

    def _is_aligned(self, batch: TokenBatch, sizes: NDArray[np.int64]) -> bool:
        """Return whether the tokens of each document have as many bytes as the document."""
        starts = compute_offsets(self.lengths[batch.ids])
        return np.array_equal(np.diff(starts[batch.offsets]), sizes)

    def encode_texts(self, texts: list[str]) -> TokenBatch:
        """Encode texts."""
        return self._encoder.encode_batch(texts)

    def encode_by_default(self, texts: list[str]) -> TokenBatch:
        """Encode texts as the tokenizer does by default."""
        return cast("TokenBatch", self.tokenizer.encode_batch(texts))

    def decode_each(self, token_ids: list[int]) -> list[str]:
        """Decode each id by itself."""
        return self.decode_all(TokenBatch(np.array(token_ids, dtype=np.uint32), np.arange(len(token_ids) + 1)))

    def decode_all(self, rows: TokenBatch) -> list[str]:
        """Decode each row of ids."""
        return cast("list[str]", self.tokenizer.decode_batch(rows))


class HuggingFaceAdapter(Adapter):
    """A `tokenizers.Tokenizer`; its offsets say where tokens begin. Padding, truncation and dropout are left out.

    A copy encodes the texts, since it may be used meanwhile.

    Raises:
        TypeError: for a tokenizer that cannot be copied.

    """

    def __init__(self, tokenizer: Any, name: str) -> None:
        self.name, self.tokenizer = name, tokenizer
        self._encoder = _copy_tokenizer(tokenizer)
        self._vocab: dict[str, int] = tokenizer.get_vocab()
        self.limit, self.vocab_size = max(self._vocab.values(), default=-1) + 1, len(self._vocab)

    @cached_property
    def tokens(self) -> TokensById:
        """The tokens by id; byte-level ones are spelled in GPT-2's letters."""
        steps = str(getattr(self.tokenizer, "pre_tokenizer", "")) + str(getattr(self.tokenizer, "decoder", ""))
        in_letters = "ByteLevel" in steps
        added_tokens = self.tokenizer.get_added_tokens_decoder()
        special_ids = {token_id for token_id, token in added_tokens.items() if token.special}
        model_vocab = self.tokenizer.get_vocab(with_added_tokens=False)
        text_ids = {
            token_id
            for token_id, token in added_tokens.items()
            if token.special or token.content not in model_vocab or not _spells_text(token.content)
        }
        return index_tokens(self._vocab, self.limit, text_ids=text_ids if in_letters else None, special_ids=special_ids)

    def encode(self, text: memoryview | bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> EncodedDocuments:
        """Encode documents in one buffer; bytes that are not UTF-8 are replaced, and then cuts are not counted."""
        texts = [str(text[a:b], "utf-8", "replace") for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
        rows, sizes = [], []
        encodings = self._encoder.encode_batch(texts, add_special_tokens=False)
        for document, n, encoding in zip(texts, (ends - starts).tolist(), encodings, strict=True):
            rows.append(np.array(encoding.ids, dtype=np.uint32))
            lengths = self.lengths[rows[-1]]
            bounds = compute_offsets(measure_utf8(document))  # of its characters
            # Where the tokens are the text, byte for byte, lengths say more than offsets, which are of whole
            # characters. Where bytes were replaced, offsets are those of another text, and lengths do not fit.
            if int(lengths.sum()) == n or bounds[-1] != n:
                sizes.append(lengths)
            else:
                spans = bounds[np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)]
                sizes.append(measure_sizes(find_starts(spans), n))
        return _join_rows(rows, sizes)

    def encode_texts(self, texts: list[str]) -> TokenBatch:
        """Encode texts."""
        encodings = self._encoder.encode_batch(texts, add_special_tokens=False)
        return TokenBatch.from_lists([encoding.ids for encoding in encodings])

    def encode_by_default(self, texts: list[str]) -> TokenBatch:
        """Encode texts as the tokenizer does by default: it finds special tokens in them, and applies its dropout."""
        dropout = getattr(self.tokenizer.model, "dropout", None)
        self._encoder.encode_special_tokens = False
        _set_dropout(self._encoder, dropout)
        try:
            return self.encode_texts(texts)
        finally:
            self._encoder.encode_special_tokens = True
            _set_dropout(self._encoder, None)

    def decode_each(self, token_ids: list[int]) -> list[str]:
        """Decode each id by itself."""
        return cast("list[str]", self.tokenizer.decode_batch([[n] for n in token_ids], skip_special_tokens=False))

    def decode_all(self, rows: TokenBatch) -> list[str]:
        """Decode each row of ids."""
        return cast("list[str]", self.tokenizer.decode_batch(rows.to_list(), skip_special_tokens=False))


class SimpleAdapter(Adapter):
    """Any object with `encode_batch` and `vocab`; `tiktoken.Encoding` too."""

    thread_safe = False

    def __init__(self, tokenizer: Any, name: str, vocab: Mapping[Any, int], encode: Callable[[list[str]], Any]) -> None:
        for token, token_id in vocab.items():
            if isinstance(token_id, bool) or not isinstance(token_id, (int, np.integer)) or token_id < 0:
                raise ValueError(
                    f"the vocab of {name} gives {short_repr(token)} the id {short_repr(token_id)}; ids must be "
                    "whole numbers from 0"
                )
        self.name, self.tokenizer, self._vocab, self._encode = name, tokenizer, vocab, encode
        self.limit, self.vocab_size = max(vocab.values(), default=-1) + 1, len(vocab)

    @cached_property
    def tokens(self) -> TokensById:
        """The tokens by id."""
        special = getattr(self.tokenizer, "_special_tokens", {})
        return index_tokens(self._vocab, self.limit, special_ids=set(special.values()) if special else set())

    def encode(self, text: memoryview | bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> EncodedDocuments:
        """Encode documents in one buffer; bytes that are not UTF-8 are replaced."""
        pairs = zip(starts.tolist(), ends.tolist(), strict=True)
        rows = self.encode_texts([str(text[start:end], "utf-8", "replace") for start, end in pairs])
        ids = rows.ids.astype(np.uint32, copy=False)
        return EncodedDocuments(ids, rows.offsets, self.look_up_sizes(ids))

    def encode_texts(self, texts: list[str]) -> TokenBatch:
        """Encode texts."""
        encodings = self._encode(texts)
        rows = encodings if isinstance(encodings, TokenBatch) else [getattr(row, "ids", row) for row in encodings]
        if len(rows) != len(texts):
            raise ValueError(
                f"{self.name}.encode_batch gave {len(rows)} rows for {len(texts)} texts; it must be one each"
            )
        batch = rows if isinstance(rows, TokenBatch) else TokenBatch.from_lists(rows)
        max_id = int(batch.ids.max(initial=0))
        if len(batch.ids) and max_id >= self.limit:
            raise ValueError(f"{self.name}.encode_batch gave the id {max_id}; each id must be in its vocab")
        return batch

    def decode_each(self, token_ids: list[int]) -> list[str]:
        """Decode each id by itself."""
        return [self.tokens[token_id].decode("utf-8", "replace") for token_id in token_ids]

    def decode_all(self, rows: TokenBatch) -> list[str]:
        """Decode each row of ids."""
        if callable(getattr(self.tokenizer, "decode", None)):
            return [str(self.tokenizer.decode(row)) for row in rows.to_list()]
        return [b"".join(map(self.tokens.__getitem__, row)).decode("utf-8", "replace") for row in rows.to_list()]


def adapt(tokenizer: Any, name: str | None = None) -> Adapter:
    """Return the adapter of a tokenizer.

    Raises:
        TypeError: for an object that is no tokenizer.

    """
    if isinstance(tokenizer, Adapter):
        return tokenizer
    if isinstance(tokenizer, Tokenizer):
        return NativeAdapter(tokenizer, name or f"{tokenizer.vocab_size} tokens, {tokenizer.fingerprint[:8]}")
    short_name = name or str(getattr(tokenizer, "name", None) or type(tokenizer).__name__)
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if (
        hasattr(backend, "get_vocab")
        and hasattr(backend, "encode_batch")
        and hasattr(backend, "get_added_tokens_decoder")
    ):
        return HuggingFaceAdapter(backend, short_name)
    if hasattr(tokenizer, "encode_ordinary_batch") and hasattr(tokenizer, "token_byte_values"):
        vocab_items = [(tokenizer.encode_single_token(token), token) for token in tokenizer.token_byte_values()]
        special = {name.encode(): tokenizer.encode_single_token(name) for name in tokenizer.special_tokens_set}
        vocab = {token: token_id for token_id, token in vocab_items} | special
        return SimpleAdapter(tokenizer, short_name, vocab, tokenizer.encode_ordinary_batch)
    if hasattr(tokenizer, "encode_batch") and hasattr(tokenizer, "vocab"):
        vocab = tokenizer.vocab() if callable(tokenizer.vocab) else tokenizer.vocab
        if isinstance(vocab, Mapping):
            return SimpleAdapter(tokenizer, short_name, vocab, tokenizer.encode_batch)
        raise TypeError(f"the vocab of {short_name} is {describe(vocab)}; it must be a mapping of tokens to ids")
    if isinstance(tokenizer, (str, os.PathLike)):
        raise TypeError(
            f"tokenizer is {short_repr(tokenizer)}, a path; load it first: bpe.Tokenizer.load({tokenizer!r})"
        )
    raise TypeError(
        f"tokenizer is {describe(tokenizer)}; it must be a bpe.Tokenizer, a tokenizer of tokenizers, transformers or "
        "tiktoken, or an object with encode_batch and vocab (bpe.evaluation.adapters.SimpleTokenizer)"
    )


def _copy_tokenizer(tokenizer: Any) -> Any:
    """Copy a `tokenizers.Tokenizer`, without padding, truncation and dropout; special tokens in a text are text."""
    try:
        encoder = deepcopy(tokenizer)
    except Exception as error:  # tokenizers raises no other type
        raise_if_of_signal_handler(error)
        raise TypeError(
            f"the tokenizer cannot be copied ({error}), as is needed to encode texts without padding and special "
            "tokens; give an object with encode_batch and vocab instead"
        ) from error
    encoder.no_padding()
    encoder.no_truncation()
    encoder.encode_special_tokens = True  # as text
    _set_dropout(encoder, None)
    return encoder


def _spells_text(token: str) -> bool:
    """Whether GPT-2's letters spell text: an added token that merges may make too, and no name such as "café"."""
    return find_utf8_error(read_letters_or_utf8(token)) is None


def _set_dropout(encoder: Any, dropout: float | None) -> None:
    """Set the dropout of the model of a `tokenizers.Tokenizer`, unless it has none."""
    model = encoder.model
    if getattr(model, "dropout", None) != dropout:
        model.dropout = dropout


def index_tokens(
    vocab: Mapping[Any, int], limit: int, *, text_ids: set[int] | None = None, special_ids: set[int]
) -> TokensById:
    """Arrange the tokens of a mapping by id; with `text_ids`, all but these are spelled in GPT-2's letters."""
    tokens: list[bytes] = [b""] * limit
    is_ordinary = np.zeros(limit, dtype=np.bool_)
    for token, token_id in vocab.items():
        if isinstance(token, bytes):
            tokens[token_id] = token
        elif text_ids is not None and token_id not in text_ids:
            tokens[token_id] = read_letters_or_utf8(token)
        else:
            tokens[token_id] = str(token).encode("utf-8", "surrogatepass")
        is_ordinary[token_id] = token_id not in special_ids
    return TokensById(b"".join(tokens), compute_offsets([len(token) for token in tokens]), is_ordinary)


def find_starts(spans: NDArray[np.int64]) -> NDArray[np.int64]:
    """Find where tokens begin, in bytes, by spans of whole characters.

    Where a token and the one before have parts of one character, or were made from the same characters, it is put
    within these: of tokens that share a character of three bytes, the first begins it, and the others one byte and two
    bytes later.

    >>> find_starts(np.array([[0, 1], [1, 4], [1, 4], [1, 5]])).tolist()
    [0, 1, 2, 3]
    """
    starts, previous_ends = spans[:, 0], np.append(0, spans[:-1, 1])
    is_inside = starts < previous_ends
    begins_run = np.append(True, np.diff(starts) != 0)[: len(starts)]  # of tokens with the same start
    first_of_run = np.maximum.accumulate(np.where(begins_run, np.arange(len(starts)), 0))
    n_before = np.arange(len(starts)) - first_of_run + is_inside[first_of_run]
    return np.where(is_inside, np.minimum(starts + n_before, previous_ends - 1), starts)


def measure_sizes(starts: NDArray[np.int64], n: int) -> NDArray[np.uint32]:
    """Measure from the start of each token to that of the next; the first token begins and the last ends the text."""
    if not len(starts):
        return NO_SIZES
    bounds = np.maximum.accumulate(np.append(starts, n))
    bounds[0] = 0
    return np.diff(np.minimum(bounds, n)).astype(np.uint32)


def _join_rows(rows: list[NDArray[np.uint32]], sizes: list[NDArray[np.uint32]]) -> EncodedDocuments:
    ids = np.concatenate(rows) if rows else np.empty(0, dtype=np.uint32)
    offsets = compute_offsets([len(row) for row in rows])
    return EncodedDocuments(ids, offsets, np.concatenate(sizes) if sizes else NO_SIZES)
