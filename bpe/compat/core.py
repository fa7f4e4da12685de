"""Encodes and decodes for Hugging Face's interface, by a native `Tokenizer`, or by `tokenizers` where it must.

A `Core` belongs to one vocabulary with its added tokens, normalizer and pretokenizer. The native tokenizer and the
tables are made when they are first needed. All configurations of padding, truncation and templates share the core.

Ids, tokens, offsets and word ids come from the native tokenizer. The `tokenizers` package, if it is installed, encodes
where the native tokenizer cannot: models that it does not read, and symbols without a token where the file says that
this is an error, which `tokenizers` ignores.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress, starmap
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bpe.base._id_lists import as_array, as_list, keep_ints
from bpe.base.forks import cached_property, make_lock
from bpe.base.threads import resolve_threads
from bpe.batch import TokenBatch
from bpe.compat._rows import has_name
from bpe.compat.document import FLAGS, AddedTokenEntry, ModelJson, dump_compact
from bpe.compat.encoding import Columns, InputSequence
from bpe.decode._decoder import TokenTable
from bpe.decode.decoder import TokenDecoder
from bpe.errors import FormatError
from bpe.formats import huggingface
from bpe.formats.huggingface.added_tokens import add_tokens
from bpe.text.letters import read_letters_or_utf8
from bpe.tokenizer import Settings, Tokenizer, get_settings, make_with_settings, share_tables
from bpe.vocab.output_steps import DecodeByteLevel
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.special_tokens import find_common_prefix, may_overlap

if TYPE_CHECKING:
    from bpe.encode._encoder import Encoder
    from bpe.encode._special_encoder import SpecialEncoder
    from bpe.prompts import PromptCache

#: How many characters a text must have to be encoded by a cache of prompts.
_MIN_CACHED_CHARS = 1 << 13
#: Values of TOKENIZERS_PARALLELISM that make `tokenizers` use one thread.
_FALSE_VALUES = ("0", "off", "false", "f", "no", "n")


def load_tokenizers() -> Any:
    """Import the compiled module of `tokenizers`: its own classes, also where a program put ours in their place.

    Raises:
        ModuleNotFoundError: if it is not installed.

    """
    try:
        from tokenizers import tokenizers
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "this needs Hugging Face's tokenizers, which is not installed; pip install tokenizers", name=error.name
        ) from None
    return tokenizers


def split_additions(
    added_tokens: Iterable[AddedTokenEntry], vocab_size: int, find_id: Callable[[str], int | None]
) -> Iterator[list[Any]]:
    """Split added tokens, by ascending id, into the calls by which `tokenizers` gives them their ids.

    Args:
        added_tokens: the added tokens.
        vocab_size: the number of tokens of the model.
        find_id: returns the id of a token of the model; None for any other name.

    """
    token_class, next_id = load_tokenizers().AddedToken, vocab_size
    batch: list[Any] = []
    for token in added_tokens:
        if find_id(token.content) is None:
            if token.id != next_id:
                yield batch
                batch, next_id = [], token.id
            next_id += 1
        batch.append(token_class(token.content, **dict(zip(FLAGS, token.flags, strict=True))))
    yield batch


class Core:
    """The immutable part of a compat `Tokenizer`, with what is computed from it at the first use.

    Args:
        model: the model of the tokenizer.json.
        added_rows: the fields of its added tokens, as those of `AddedTokenEntry`, by ascending id.
        normalizer: the JSON value, or None.
        pre_tokenizer: the JSON value, or None.
        native: the native tokenizer, if it is known.
        settings: those of the native tokenizer that a tokenizer.json does not hold; None for the defaults.
        skipped_names: names that decoding skips, and that are left as text with special tokens, although they are no
            longer special; as in `tokenizers`, adding a special token again without the flag does not change that.
        keep_ids: whether the ids of added tokens stay although `tokenizers` would give others when it reads them.
        base: a core that differs only in its added tokens; a core with more tokens reuses the tables of its base.

    """

    def __init__(
        self,
        model: ModelJson,
        added_rows: Sequence[tuple[Any, ...]],
        normalizer: Any,
        pre_tokenizer: Any,
        *,
        native: Tokenizer | None = None,
        settings: Settings | None = None,
        skipped_names: frozenset[str] = frozenset(),
        keep_ids: bool = False,
        base: Core | None = None,
    ) -> None:
        self.model, self.added_rows, self.normalizer, self.pre_tokenizer = model, added_rows, normalizer, pre_tokenizer
        self._skipped_before, self.keep_ids = skipped_names, keep_ids
        self._lock = make_lock(self)
        self._native: Tokenizer | None = native
        self.settings = settings if native is None else get_settings(native)
        self._base: Core | None = base if base is None or base._is_prepared else base._base
        self._reader_error: FormatError | None = None
        self._is_prepared: bool = False
        #: The caches for long texts, with special tokens in them and without; None if there are none.
        self.prompt_caches: tuple[PromptCache, PromptCache] | None = None

    @cached_property
    def added_tokens(self) -> tuple[AddedTokenEntry, ...]:
        """The added tokens, by ascending id."""
        return tuple(starmap(AddedTokenEntry, self.added_rows))

    @cached_property
    def added_ids(self) -> dict[str, int]:
        """The name of each added token → its id."""
        return dict(zip(map(itemgetter(1), self.added_rows), map(itemgetter(0), self.added_rows), strict=True))

    @cached_property
    def skipped_names(self) -> frozenset[str]:
        """The names that decoding skips."""
        return self._skipped_before.union(compress(self.added_ids, map(itemgetter(-1), self.added_rows)))

    def to_json_bytes(self, *, with_added: bool = True, with_lists: bool = True) -> bytes:
        """Write the tokenizer.json of this part alone; without its lists, with an empty vocab and no merges."""
        added_tokens = dump_compact([token.to_json() for token in self.added_tokens] if with_added else [])
        model = self.model if with_lists else replace(self.model, vocab_json=b"{}", merges_json=b"[]")
        settings = (
            f'{{"version":"1.0","truncation":null,"padding":null,"added_tokens":{added_tokens},'
            f'"normalizer":{dump_compact(self.normalizer)},"pre_tokenizer":{dump_compact(self.pre_tokenizer)},'
            '"post_processor":null,"decoder":null,"model":'
        )
        return b"%b%b}" % (settings.encode(), model.to_json_bytes())

    def is_new(self, name: str) -> bool:
        """Whether an added token is not in the vocab of the model."""
        return name not in self.model.vocab

    # Encoding ---------------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Make the native tokenizer, unless it is made, or the reader refused the model."""
        with self._lock:
            if self._is_prepared:
                return
            try:
                if self._native is None:
                    self._native = self._extend_base() or self._make_native(self._read_spec())
                self._set_tables(self._native)
            except FormatError as error:
                self._native, self._reader_error = None, error
            self._is_prepared, self._base = True, None

    def _extend_base(self) -> Tokenizer | None:
        """Extend the native tokenizer of the base by new tokens, in 1 ms; None if more than that has changed."""
        base, native = self._base, None if self._base is None else self._base._native
        if base is None or native is None or self.added_tokens[: len(base.added_rows)] != base.added_tokens:
            return None
        spec, spellings = native.spec, vars(base).get("spellings")
        new_tokens = self.added_tokens[len(base.added_rows) :]
        limit, names = spec.vocabulary.limit, [token.content for token in new_tokens]
        if [token.id for token in new_tokens] != list(range(limit, limit + len(new_tokens))):
            return None
        if not all(map(self.is_new, names)) or len(spec.vocabulary) < limit:
            return None
        if spec.normalizer is not None and not all(map(spec.normalizer.spelling, names)):
            return None
        if spellings is not None and len(spellings) == limit:
            self.spellings = [*spellings, *names]
        flags = {token.content: token.flag_names for token in self.added_tokens}
        return share_tables(native, add_tokens(spec, {name: flags[name] for name in names}, flags))

    def _make_native(self, spec: TokenizerSpec) -> Tokenizer:
        return Tokenizer(spec) if self.settings is None else make_with_settings(spec, self.settings)

    def _read_spec(self) -> TokenizerSpec:
        """Read the tokenizer.json; raises FormatError where the native tokenizer cannot."""
        settings_json, model = self.to_json_bytes(with_added=False, with_lists=False), self.model
        spec = huggingface.read_with_lists(
            settings_json, model.vocab_json, model.merges_json, self.added_rows, self.keep_ids
        )
        spec = spec or huggingface.read(self.to_json_bytes(with_added=False), self.added_rows, self.keep_ids)
        return replace(spec, decoder=(DecodeByteLevel(),)) if spec.model == "byte" else spec

    def _set_tables(self, native: Tokenizer) -> None:
        spec, specials = native.spec, native._engine.specials
        self._engine = native._engine
        names = specials.resolve_names("all", "")
        if len(self.added_ids) < len(names):  # the unknown token is not sought
            names &= self.added_ids.keys()
        self._all_names = names | specials.always_names if specials.always_names - names else names
        self._always_names = specials.always_names
        # A normalizer may turn other text into a name.
        are_literal = not specials.always_names and not specials.select_normalized(names)
        self._common_prefix = find_common_prefix(names) if are_literal else ""
        keep_ints(native.n_vocab)
        self._is_token = np.append(spec.vocabulary.kinds != 0, False)
        special_names = self._all_names - self._always_names
        #: Whether special tokens that are left as text hide others or parts of others, which this package would find.
        self._specials_overlap = not self._skipped_before.isdisjoint(self._always_names) or (
            bool(self._always_names and special_names)
            and may_overlap(specials.list_spellings(special_names), specials.list_spellings(self._all_names))
        )

    @property
    def native(self) -> Tokenizer | None:
        """The native tokenizer; None if the native reader refuses the model."""
        if not self._is_prepared:
            self.prepare()
        return self._native

    def _choose_native(self, specials_as_text: bool) -> Tokenizer | None:
        """Return the native tokenizer; None where `tokenizers` must take its place."""
        native = self.native
        return None if native is None or (specials_as_text and self._specials_overlap) else native

    @cached_property
    def peer(self) -> Any:
        """This tokenizer as one of the `tokenizers` package.

        Raises:
            ModuleNotFoundError: if that is not installed.

        """
        peer = load_tokenizers().Tokenizer.from_str(self.to_json_bytes(with_added=False).decode())
        for batch in split_additions(self.added_tokens, len(self.model.vocab), self.model.vocab.get):
            peer.add_tokens(batch)
        special_before = [
            token for token in self.added_tokens if token.content in self._skipped_before and not token.special
        ]
        if special_before:
            peer.add_special_tokens([token.content for token in special_before])
            for batch in split_additions(special_before, 0, self.added_ids.get):
                peer.add_tokens(batch)
        return peer

    def raise_if_unreadable(self) -> None:
        """Raise the error of the native reader, unless `tokenizers` can take its place, and for invalid JSON."""
        self.prepare()
        if self._reader_error is not None:
            self.model.check()
            if not _can_import_tokenizers():
                raise self._reader_error

    def encode_by_tokenizers(self, text: str, specials_as_text: bool) -> Any:
        """Encode a text by `tokenizers`; `specials_as_text` leaves special tokens in it as text."""
        peer = self.peer
        with self._lock:  # one call at a time, because the option is an attribute
            peer.encode_special_tokens = specials_as_text
            return peer.encode(text, add_special_tokens=False)

    def _choose_names(self, specials_as_text: bool) -> frozenset[str]:
        return self._always_names if specials_as_text else self._all_names

    def cache_prompts(self, max_bytes: int) -> None:
        """Encode only what is new in texts that begin as earlier ones did.

        Half of the memory is for each value of `specials_as_text`.
        """
        from bpe.prompts import PromptCache

        native = self.native
        if native is not None and not native.spec.dropout:
            cache = partial(PromptCache, native, max_bytes=max_bytes // 2)
            self.prompt_caches = (
                cache(allowed_special=self._choose_names(specials_as_text=False)),
                cache(allowed_special=self._choose_names(specials_as_text=True)),
            )

    def encode(self, text: str, specials_as_text: bool) -> NDArray[np.uint32]:
        """Encode a text to ids; with `specials_as_text`, special tokens in it are encoded as text."""
        native = self._choose_native(specials_as_text)
        if native is not None:
            try:
                if self.prompt_caches is not None and len(text) >= _MIN_CACHED_CHARS:
                    return self.prompt_caches[specials_as_text].encode(text)[0]
                if self.has_no_special(text, specials_as_text):
                    return native.encode(text)
                return self._engine.encode(text, self._choose_names(specials_as_text))
            except ValueError:
                if not _can_import_tokenizers():
                    raise
        return np.array(self.encode_by_tokenizers(text, specials_as_text).ids, dtype=np.uint32)

    def has_no_special(self, text: str, specials_as_text: bool) -> bool:
        """Whether it is certain that a text has no special token."""
        prefix = self._common_prefix
        if prefix and (specials_as_text or prefix[0] not in text or prefix not in text):  # a character is found faster
            return True
        return not self._choose_names(specials_as_text)

    def make_plain_encoder(self, specials_as_text: bool) -> tuple[Callable[[str], NDArray[np.uint32]], bool, str]:
        """Make a function that encodes a text without special tokens.

        Returns:
            The function, whether no text has a special token, and what all names of these begin with, or "".

        """
        native = self._choose_native(specials_as_text)
        if native is None:
            return partial(self.encode, specials_as_text=specials_as_text), False, ""
        encode = (
            native.encode if self.prompt_caches is None else partial(self.encode, specials_as_text=specials_as_text)
        )
        return encode, not self._choose_names(specials_as_text), self._common_prefix

    def find_kernels(self, specials_as_text: bool) -> tuple[Encoder | None, SpecialEncoder | None, bool]:
        """Find what encodes texts without special tokens, and texts with them; None for what Python must encode.

        The last value is whether Python must encode texts that are not ASCII.
        """
        if self._choose_native(specials_as_text) is None:
            return None, None, False
        engine, names = self._engine, self._choose_names(specials_as_text)
        only_ascii = engine.kernel_takes_ascii and not engine.kernel_takes_raw_text
        special_encoder = engine.find_special_encoder(names, only_ascii)
        return engine.fast_encoder if special_encoder is None else engine.encoder, special_encoder, only_ascii

    def encode_batch(self, texts: list[str], specials_as_text: bool, max_ids: int | None = None) -> TokenBatch:
        """Encode several texts to ids; with `max_ids`, only the first so many ids of a text are certain to be right."""
        native = self._choose_native(specials_as_text)
        if native is not None:
            threads = 1 if os.environ.get("TOKENIZERS_PARALLELISM", "").lower() in _FALSE_VALUES else None
            try:
                names = self._choose_names(specials_as_text)
                if not names or not has_name(texts, self._common_prefix):
                    if max_ids is None:
                        return native.encode_batch(texts, threads=threads)
                    names = frozenset()
                return self._engine.encode_batch(texts, resolve_threads(threads), names, max_ids=max_ids)
            except ValueError:
                if not _can_import_tokenizers():
                    raise
        return TokenBatch.from_lists([self.encode(text, specials_as_text) for text in texts])

    def to_list(self, ids: NDArray[np.uint32]) -> list[int]:
        """Return ids as a list; equal ints are one object."""
        return as_list(np.ascontiguousarray(ids)) if self.native is not None else ids.tolist()

    # Columns ----------------------------------------------------------------------------------------------------------

    def make_sequence(self, text: str | list[str], ids: list[int], specials_as_text: bool) -> InputSequence:
        """Make the input sequence of an encoded text, or of a list of words that were encoded one by one."""
        compute = self._compute_columns if isinstance(text, str) else self._compute_word_columns
        return InputSequence(ids, partial(compute, text, specials_as_text))  # type: ignore[arg-type]

    def _compute_word_columns(self, words: list[str], specials_as_text: bool) -> Columns:
        """Compute the columns of a list of words: offsets are positions in a word, and its index is the word id."""
        columns = [self._compute_columns(word, specials_as_text) for word in words]
        tokens = [token for column in columns for token in column[0]]
        offsets = [span for column in columns for span in column[1]]
        return tokens, offsets, [index for index, column in enumerate(columns) for _ in column[0]]

    def _compute_columns(self, text: str, specials_as_text: bool) -> Columns:
        """Compute tokens, offsets and word ids of a text."""
        native = self._choose_native(specials_as_text)
        if native is not None:
            try:
                return self._compute_native_columns(native, text, specials_as_text)
            except ValueError:
                if not _can_import_tokenizers():
                    raise
        encoding = self.encode_by_tokenizers(text, specials_as_text)
        return encoding.tokens, encoding.offsets, encoding.word_ids

    def _compute_native_columns(self, native: Tokenizer, text: str, specials_as_text: bool) -> Columns:
        encoder = native._offset_encoder
        ids, spans, word_ids, names_by_index = encoder.encode_untrimmed(
            text, self._choose_names(specials_as_text), "char", "tokenizers"
        )
        spellings = self.spellings
        tokens = [spellings[token_id] or "" for token_id in ids.tolist()]
        for index, name in names_by_index.items():
            tokens[index] = name
        return tokens, list(zip(spans[:, 0].tolist(), spans[:, 1].tolist(), strict=True)), word_ids.tolist()

    def find_spans(
        self, text: str, specials_as_text: bool, trims: tuple[bool, ...], start: int, stop: int
    ) -> list[tuple[int, int]] | None:
        """Find the offsets of the tokens `start` to `stop` of a text.

        They are trimmed once for each of `trims`, which says whether a space is put before the text. None where only
        `tokenizers` can find them.
        """
        native = self._choose_native(specials_as_text)
        if native is None:
            return None
        encoder, names = native._offset_encoder, self._choose_names(specials_as_text)
        names_by_index: dict[int, str] = {}
        try:
            columns = encoder.locate_parts(text, names)
            if columns is None:
                ids, spans, _, names_by_index = encoder.encode_untrimmed(text, names, "char", "tokenizers")
            else:
                ids, spans = columns
        except ValueError:
            return None
        if not 0 <= start <= stop <= len(ids):
            return None
        spans = spans[start:stop]
        special_texts = {index - start: name for index, name in names_by_index.items() if start <= index < stop}
        for has_prefix in trims:
            spans = encoder.trim(ids[start:stop], spans, special_texts, has_prefix)
        return list(zip(spans[:, 0].tolist(), spans[:, 1].tolist(), strict=True))

    @cached_property
    def spellings(self) -> list[str | None]:
        """The spelling of each token, by id."""
        vocabularies = self.model.vocab, self.added_ids
        spellings: list[str | None] = [None] * (
            max((token_id for ids_by_token in vocabularies for token_id in ids_by_token.values()), default=-1) + 1
        )
        for ids_by_token in vocabularies:
            for token, token_id in ids_by_token.items():
                spellings[token_id] = token
        return spellings

    @cached_property
    def decoded_names(self) -> list[str | None]:
        """What each token is decoded as, by id: the spelling, but for added tokens (`_decode_added`)."""
        names = list(self.spellings)
        for token in self.added_tokens:
            names[token.id] = self._decode_added(token)
        return names

    def _decode_added(self, token: AddedTokenEntry) -> str:
        """Decode an added token: its content, normalized if the token is sought in normalized text."""
        if self.normalizer is None or not token.normalized:
            return token.content
        native = self._native or self.native
        if native is None:
            normalized: str = self.peer.normalizer.normalize_str(token.content)
            return normalized
        normalizer = native.spec.normalizer
        return token.content if normalizer is None else normalizer.spelling(token.content)

    # Decoding ---------------------------------------------------------------------------------------------------------

    @cached_property
    def _decoder(self) -> TokenDecoder:
        """The native tokenizer's decoder."""
        assert self.native is not None
        return self.native._decoder

    @cached_property
    def _is_skipped(self) -> NDArray[np.bool_]:
        """Whether decoding with `skip_special` leaves out an id, for each id and one more."""
        is_skipped = np.zeros(len(self._is_token), dtype=np.bool_)
        is_skipped[[token.id for token in self.added_tokens if self._decode_added(token) in self.skipped_names]] = True
        return is_skipped

    def make_short_decoder(self, decoder: Any) -> tuple[TokenTable | None, bytes, bytes]:
        """Make the tables that decode a few ids, for a decoder given as JSON.

        Returns:
            The table of tokens, a byte for each id that is 1 if the id is kept, and such bytes for skip_special; None
            and no bytes, unless a text is the bytes of its tokens.

        """
        is_byte_level = isinstance(decoder, dict) and decoder.get("type") == "ByteLevel" and self._decodes_exactly
        if not is_byte_level or self._decoder.fast_table is None:
            return None, b"", b""
        return self._decoder.fast_table, self._is_token.tobytes(), (self._is_token & ~self._is_skipped).tobytes()

    def decode(self, ids: Sequence[int], skip_special: bool, decoder: Any, component: Any) -> str:
        """Decode ids to a text; ids without a token are left out.

        Args:
            ids: the ids.
            skip_special: whether to leave out special tokens.
            decoder: the decoder as JSON, or None.
            component: returns the decoder as a component of `tokenizers`.

        Raises:
            TypeError, OverflowError: for ids that are not integers from 0 to 2**32 - 1.

        """
        decoder_type = decoder.get("type") if isinstance(decoder, dict) else None
        if decoder_type == "ByteLevel" and self._decodes_exactly:
            return self._decode_bytes(ids, skip_special).decode("utf-8", "replace")
        spellings, skipped_names = self.decoded_names, self.skipped_names if skip_special else frozenset()
        tokens = [
            token
            for token_id in _check_ids(ids)
            if token_id < len(spellings) and (token := spellings[token_id]) is not None and token not in skipped_names
        ]
        if decoder_type is None:
            return " ".join(tokens)
        if decoder_type == "ByteLevel":
            return b"".join(map(read_letters_or_utf8, tokens)).decode("utf-8", "replace")
        text: str = component().decode(tokens)
        return text

    @cached_property
    def _decodes_exactly(self) -> bool:
        """Whether the native decoder gives the bytes of each added token that ByteLevel gives."""
        native = self.native
        if native is None or native.spec.model != "byte":
            return False
        if native.spec.ends_word is not None and native.spec.decoder is None:
            return False
        decode = self._decoder.decode_with_final_space
        return all(
            read_letters_or_utf8(self._decode_added(token)) == decode(np.array([token.id], dtype=np.uint32))
            for token in self.added_tokens
        )

    def _decode_bytes(self, ids: Sequence[int], skip_special: bool) -> bytes:
        ids = ids if type(ids) is list else list(ids)
        try:
            array = as_array(ids)
        except TypeError:  # integers of NumPy's types
            array = as_array(_check_ids(ids))
        if skip_special:
            array = array[~self._is_skipped[np.minimum(array, len(self._is_skipped) - 1)]]
        try:
            return self._decoder.decode_with_final_space(array)
        except ValueError:
            return self._decoder.decode_with_final_space(
                array[self._is_token[np.minimum(array, len(self._is_token) - 1)]]
            )


def _check_ids(ids: Sequence[int]) -> list[int]:
    """Return ids, of NumPy's types too, as a list of int."""
    token_ids = list(map(operator.index, ids))
    invalid_ids = [token_id for token_id in token_ids if not 0 <= token_id < 1 << 32]
    if invalid_ids:
        raise OverflowError(f"id {invalid_ids[0]} is out of range; it must be from 0 to 2**32 - 1")
    return token_ids


def _can_import_tokenizers() -> bool:
    try:
        load_tokenizers()
    except ModuleNotFoundError:
        return False
    return True
