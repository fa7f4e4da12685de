"""What encodes and decodes for Hugging Face's interface: a native `Tokenizer`, or `tokenizers` where it must.

A `Core` belongs to one vocabulary with its added tokens, normalizer and pretokenizer. It makes the native tokenizer and
the tables when they are first needed, and is shared by all configurations of padding, truncation and templates.

Ids, tokens, offsets and word ids come from the native tokenizer. If it cannot read the model, or a text has a symbol
without a token and the file says that this is an error, which `tokenizers` ignores, the `tokenizers` package encodes,
if it is installed; without it, that is an error.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress, starmap
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpe.base._id_lists import as_array, as_list, keep_ints
from bpe.base.forks import cached_property, lock_of
from bpe.base.threads import thread_count
from bpe.batch import TokenBatch
from bpe.compat._rows import has_name
from bpe.compat.document import FLAGS, Added, Model, compact
from bpe.compat.encoding import Columns, InputSequence
from bpe.decode._decoder import TokenTable
from bpe.decode.decoder import TokenDecoder
from bpe.errors import FormatError
from bpe.formats import huggingface
from bpe.formats.huggingface.added_tokens import add_tokens
from bpe.tokenizer import Tokenizer, with_specials
from bpe.vocab.after_encoding import ByteLevel
from bpe.vocab.byte_letters import bytes_or_utf8
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.special_tokens import common_prefix, may_overlap

#: Values of TOKENIZERS_PARALLELISM that make `tokenizers` use one thread.
_SWITCHED_OFF = ("0", "off", "false", "f", "no", "n")


def load_tokenizers() -> Any:
    """The compiled module of the package `tokenizers`: its own classes, also where a program put ours in their place.

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


def split_additions(added: Iterable[Added], vocab_size: int, find: Callable[[str], int | None]) -> Iterator[list[Any]]:
    """Added tokens, by ascending id, in the calls by which `tokenizers` gives them their ids.

    Args:
        added: the added tokens.
        vocab_size: the number of tokens of the model.
        find: returns the id of one of these; None for a name that is none.

    """
    made, following = load_tokenizers().AddedToken, vocab_size
    tokens: list[Any] = []
    for each in added:
        if find(each.content) is None:
            if each.id != following:
                yield tokens
                tokens, following = [], each.id
            following += 1
        tokens.append(made(each.content, **dict(zip(FLAGS, each.flags, strict=True))))
    yield tokens


class Core:
    """The immutable part of a compat `Tokenizer`, with what is computed from it at the first use.

    Args:
        model: the model of the tokenizer.json.
        rows: the fields of its added tokens, as those of `Added`, by ascending id.
        normalizer: the JSON value, or None.
        pre_tokenizer: the JSON value, or None.
        native: the native tokenizer, if it is known.
        special: names that decoding skips although they are no longer special; as in `tokenizers`, adding a special
            token again without the flag does not change that.
        keep_ids: whether the ids of added tokens are right although `tokenizers` would give others when it reads them.
        base: a core that differs only in its added tokens; if this one only adds to them, it reuses the base's tables.

    """

    def __init__(
        self,
        model: Model,
        rows: Sequence[tuple[Any, ...]],
        normalizer: Any,
        pre_tokenizer: Any,
        *,
        native: Tokenizer | None = None,
        special: frozenset[str] = frozenset(),
        keep_ids: bool = False,
        base: Core | None = None,
    ) -> None:
        self.model, self.rows, self.normalizer, self.pre_tokenizer = model, rows, normalizer, pre_tokenizer
        self._once_special, self.keep_ids = special, keep_ids
        self._lock = lock_of(self)
        self._native: Tokenizer | None = native
        self._base: Core | None = base if base is None or base._prepared else base._base
        self._refused: FormatError | None = None
        self._prepared: bool = False

    @cached_property
    def added(self) -> tuple[Added, ...]:
        """The added tokens, by ascending id."""
        return tuple(starmap(Added, self.rows))

    @cached_property
    def added_ids(self) -> dict[str, int]:
        """The name of each added token → its id."""
        return dict(zip(map(itemgetter(1), self.rows), map(itemgetter(0), self.rows), strict=True))

    @cached_property
    def special(self) -> frozenset[str]:
        """The names that decoding skips."""
        return self._once_special.union(compress(self.added_ids, map(itemgetter(-1), self.rows)))

    def json(self, *, with_added: bool = True, with_lists: bool = True) -> bytes:
        """The tokenizer.json of this part alone; without its lists, with an empty vocab and no merges."""
        added = compact([each.to_json() for each in self.added] if with_added else [])
        model = self.model if with_lists else replace(self.model, vocab_json=b"{}", merges_json=b"[]")
        head = (
            f'{{"version":"1.0","truncation":null,"padding":null,"added_tokens":{added},'
            f'"normalizer":{compact(self.normalizer)},"pre_tokenizer":{compact(self.pre_tokenizer)},'
            '"post_processor":null,"decoder":null,"model":'
        )
        return b"%b%b}" % (head.encode(), model.json())

    def is_new(self, name: str) -> bool:
        """Whether an added token is not in the vocab of the model."""
        return name not in self.model.vocab

    # What encodes -----------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Make the native tokenizer, unless it was made, or the reader refused it."""
        with self._lock:
            if self._prepared:
                return
            try:
                if self._native is None:
                    self._native = self._native_of_base() or Tokenizer(self._spec())
                self._set_tables(self._native)
            except FormatError as error:
                self._native, self._refused = None, error
            self._prepared, self._base = True, None

    def _native_of_base(self) -> Tokenizer | None:
        """The native tokenizer of the base with new tokens, which takes 1 ms; None if more than that has changed."""
        base, native = self._base, None if self._base is None else self._base._native
        if base is None or native is None or self.added[: len(base.rows)] != base.added:
            return None
        spec, new, strings = native.spec, self.added[len(base.rows) :], vars(base).get("strings")
        if [each.id for each in new] != list(range(spec.vocabulary.limit, spec.vocabulary.limit + len(new))):
            return None
        if any(not self.is_new(each.content) for each in new) or len(spec.vocabulary) < spec.vocabulary.limit:
            return None
        if spec.normalizer is not None and not all(map(spec.normalizer.spelling, (each.content for each in new))):
            return None
        if strings is not None and len(strings) == spec.vocabulary.limit:
            self.strings = [*strings, *(each.content for each in new)]
        flags = {each.content: each.flag_names for each in self.added}
        return with_specials(native, add_tokens(spec, {each.content: flags[each.content] for each in new}, flags))

    def _spec(self) -> TokenizerSpec:
        """What the tokenizer.json describes; raises FormatError for one that the native tokenizer cannot read."""
        rest, model = self.json(with_added=False, with_lists=False), self.model
        spec = huggingface.read_divided(rest, model.vocab_json, model.merges_json, self.rows, self.keep_ids)
        spec = spec or huggingface.read(self.json(with_added=False), self.rows, self.keep_ids)
        return replace(spec, decoder=(ByteLevel(),)) if spec.model == "byte" else spec

    def _set_tables(self, native: Tokenizer) -> None:
        spec, specials = native.spec, native._engine.specials
        self._engine = native._engine
        names = specials.resolve_names("all", "")
        if len(self.added_ids) < len(names):  # the unknown token is not sought
            names &= self.added_ids.keys()
        self._all_names = names | specials.always if specials.always - names else names
        self._always_names = specials.always
        # A normalizer may make a name of other text.
        by_name = not specials.always and not specials.sought_normalized(names)
        self._prefix = common_prefix(names) if by_name else ""
        keep_ints(native.n_vocab)
        self._known = np.append(spec.vocabulary.kinds != 0, False)
        special = self._all_names - self._always_names
        #: Whether special tokens that are left as text hide parts of others, which this package would find.
        self._specials_overlap = bool(self._always_names and special) and may_overlap(
            specials.spellings(special), specials.spellings(self._all_names)
        )

    @property
    def native(self) -> Tokenizer | None:
        """The native tokenizer; None if it cannot read the model."""
        if not self._prepared:
            self.prepare()
        return self._native

    def _native_for(self, as_text: bool) -> Tokenizer | None:
        """The native tokenizer; None where `tokenizers` must take its place."""
        native = self.native
        return None if native is None or (as_text and self._specials_overlap) else native

    @cached_property
    def tokenizers_twin(self) -> Any:
        """This tokenizer as one of the `tokenizers` package.

        Raises:
            ModuleNotFoundError: if that is not installed.

        """
        made = load_tokenizers().Tokenizer.from_str(self.json(with_added=False).decode())
        for tokens in split_additions(self.added, len(self.model.vocab), self.model.vocab.get):
            made.add_tokens(tokens)
        return made

    def raise_if_unreadable(self) -> None:
        """Raise the error of the native reader, unless `tokenizers` can take its place, and for invalid JSON."""
        self.prepare()
        if self._refused is not None:
            self.model.check()
            if not _can_import_tokenizers():
                raise self._refused

    def encode_by_tokenizers(self, text: str, as_text: bool) -> Any:
        """The encoding of a text by `tokenizers`; `as_text` leaves special tokens in it as text."""
        twin = self.tokenizers_twin
        with self._lock:  # one call at a time, because the option is an attribute
            twin.encode_special_tokens = as_text
            return twin.encode(text, add_special_tokens=False)

    def _allowed(self, as_text: bool) -> frozenset[str]:
        return self._always_names if as_text else self._all_names

    def encode(self, text: str, as_text: bool) -> NDArray[np.uint32]:
        """The ids of a text; with `as_text`, special tokens in it are encoded as text."""
        native = self._native_for(as_text)
        if native is not None:
            try:
                if self._has_no_name(text, as_text):
                    return native.encode(text)
                return self._engine.encode(text, self._allowed(as_text))
            except ValueError:
                if not _can_import_tokenizers():
                    raise
        return np.array(self.encode_by_tokenizers(text, as_text).ids, dtype=np.uint32)

    def _has_no_name(self, text: str, as_text: bool) -> bool:
        """Whether it is certain that a text has no special token."""
        prefix = self._prefix
        if prefix and (as_text or prefix[0] not in text or prefix not in text):  # a character is found faster
            return True
        return not self._allowed(as_text)

    def plain_encoder(self, as_text: bool) -> tuple[Callable[[str], NDArray[np.uint32]], bool, str]:
        """(a function that encodes a text without special tokens, whether no text has one, what all names begin with).

        Without a common beginning, the third is "".
        """
        native = self._native_for(as_text)
        if native is None:
            return partial(self.encode, as_text=as_text), False, ""
        return native.encode, not self._allowed(as_text), self._prefix

    def encode_batch(self, texts: list[str], as_text: bool) -> TokenBatch:
        """The ids of several texts."""
        native = self._native_for(as_text)
        if native is not None:
            threads = 1 if os.environ.get("TOKENIZERS_PARALLELISM", "").lower() in _SWITCHED_OFF else None
            try:
                if not self._allowed(as_text) or not has_name(texts, self._prefix):
                    return native.encode_batch(texts, threads=threads)
                return self._engine.encode_batch(texts, thread_count(threads), self._allowed(as_text))
            except ValueError:
                if not _can_import_tokenizers():
                    raise
        return TokenBatch.from_lists([self.encode(text, as_text) for text in texts])

    def as_list(self, ids: NDArray[np.uint32]) -> list[int]:
        """Ids as a list; equal ints are one object."""
        return as_list(np.ascontiguousarray(ids)) if self.native is not None else ids.tolist()

    # Columns ----------------------------------------------------------------------------------------------------------

    def sequence(self, text: str, ids: list[int], as_text: bool) -> InputSequence:
        """An encoded text."""
        return InputSequence(ids, partial(self.columns, text, ids, as_text))

    def columns(self, text: str, ids: list[int], as_text: bool) -> Columns:
        """Tokens, offsets and word ids of an encoded text."""
        native = self._native_for(as_text)
        if native is not None:
            try:
                return self._native_columns(native, text, as_text)
            except ValueError:
                if not _can_import_tokenizers():
                    raise
        found = self.encode_by_tokenizers(text, as_text)
        assert found.ids == ids, "the ids of tokenizers differ"
        return found.tokens, found.offsets, found.word_ids

    def _native_columns(self, native: Tokenizer, text: str, as_text: bool) -> Columns:
        encoder = native._offset_encoder
        ids, spans, words, matched = encoder.encode_untrimmed(text, self._allowed(as_text), "char", "tokenizers")
        strings = self.strings
        tokens = [strings[token_id] or "" for token_id in ids.tolist()]
        for index, name in matched.items():
            tokens[index] = name
        return tokens, list(zip(spans[:, 0].tolist(), spans[:, 1].tolist(), strict=True)), words.tolist()

    @cached_property
    def strings(self) -> list[str | None]:
        """The spelling of each token, by id."""
        spellings = self.model.vocab, self.added_ids
        strings: list[str | None] = [None] * (max((i for ids in spellings for i in ids.values()), default=-1) + 1)
        for ids in spellings:
            for token, token_id in ids.items():
                strings[token_id] = token
        return strings

    @cached_property
    def names(self) -> list[str | None]:
        """What each token is decoded as, by id: the spelling, but for added tokens (`_decode_added`)."""
        names = list(self.strings)
        for added in self.added:
            names[added.id] = self._decode_added(added)
        return names

    def _decode_added(self, added: Added) -> str:
        """What an added token is decoded as: its content, normalized if it is sought in normalized text."""
        if self.normalizer is None or not added.normalized:
            return added.content
        native = self._native or self.native
        if native is None:
            found: str = self.tokenizers_twin.normalizer.normalize_str(added.content)
            return found
        normalizer = native.spec.normalizer
        return added.content if normalizer is None else normalizer.spelling(added.content)

    # Decoding ---------------------------------------------------------------------------------------------------------

    @cached_property
    def _decoder(self) -> TokenDecoder:
        """The native tokenizer's decoder."""
        assert self.native is not None
        return self.native._decoder

    @cached_property
    def _skipped(self) -> NDArray[np.bool_]:
        """For each id, and one more, whether decoding leaves it out with `skip_special`."""
        skipped = np.zeros(len(self._known), dtype=np.bool_)
        skipped[[each.id for each in self.added if self._decode_added(each) in self.special]] = True
        return skipped

    def short_decoder(self, decoder: Any) -> tuple[TokenTable | None, bytes, bytes]:
        """(the table that decodes a few ids, a byte for each id that is 1 if it is kept, the same with skip_special).

        For a decoder given as JSON. None and no bytes, unless a text is the bytes of its tokens.
        """
        by_bytes = isinstance(decoder, dict) and decoder.get("type") == "ByteLevel" and self._own_decoding
        if not by_bytes or self._decoder.short_table is None:
            return None, b"", b""
        return self._decoder.short_table, self._known.tobytes(), (self._known & ~self._skipped).tobytes()

    def decode(self, ids: Sequence[int], skip_special: bool, decoder: Any, component: Any) -> str:
        """The text of ids; ids without a token are left out.

        Args:
            ids: the ids.
            skip_special: whether to leave out special tokens.
            decoder: the decoder as JSON, or None.
            component: returns the decoder as a component of `tokenizers`.

        Raises:
            TypeError, OverflowError: for ids that are not integers from 0 to 2**32 - 1.

        """
        kind = decoder.get("type") if isinstance(decoder, dict) else None
        if kind == "ByteLevel" and self._own_decoding:
            return self._decode_bytes(ids, skip_special).decode("utf-8", "replace")
        strings, special = self.names, self.special if skip_special else frozenset()
        tokens = [
            token
            for i in _check_ids(ids)
            if i < len(strings) and (token := strings[i]) is not None and token not in special
        ]
        if kind is None:
            return " ".join(tokens)
        if kind == "ByteLevel":
            return b"".join(map(bytes_or_utf8, tokens)).decode("utf-8", "replace")
        text: str = component().decode(tokens)
        return text

    @cached_property
    def _own_decoding(self) -> bool:
        """Whether the native decoder gives the bytes of each added token that ByteLevel gives."""
        native = self.native
        if native is None or native.spec.model != "byte":
            return False
        if native.spec.ends_word is not None and native.spec.decoder is None:
            return False
        pieces = self._decoder.decode_with_final_space
        return all(
            bytes_or_utf8(self._decode_added(each)) == pieces(np.array([each.id], dtype=np.uint32))
            for each in self.added
        )

    def _decode_bytes(self, ids: Sequence[int], skip_special: bool) -> bytes:
        ids = ids if type(ids) is list else list(ids)
        try:
            array = as_array(ids)
        except TypeError:  # integers of NumPy's types
            array = as_array(_check_ids(ids))
        if skip_special:
            array = array[~self._skipped[np.minimum(array, len(self._skipped) - 1)]]
        try:
            return self._decoder.decode_with_final_space(array)
        except ValueError:
            return self._decoder.decode_with_final_space(array[self._known[np.minimum(array, len(self._known) - 1)]])


def _check_ids(ids: Sequence[int]) -> list[int]:
    """Ids, of NumPy's types too, as a list of int."""
    numbers = list(map(operator.index, ids))
    wrong = [token_id for token_id in numbers if not 0 <= token_id < 1 << 32]
    if wrong:
        raise OverflowError(f"id {wrong[0]} is out of range; it must be from 0 to 2**32 - 1")
    return numbers


def _can_import_tokenizers() -> bool:
    try:
        load_tokenizers()
    except ModuleNotFoundError:
        return False
    return True
