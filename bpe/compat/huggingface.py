"""The interface of Hugging Face's `tokenizers` 0.23, on a native `Tokenizer`.

`Tokenizer` works as `PreTrainedTokenizerFast(tokenizer_object=…)` of transformers 5. Names, arguments, defaults and
results are those of `tokenizers`; so are errors, ids, tokens, offsets and masks. Components (normalizer, pre_tokenizer,
post_processor, decoder) are real components of `tokenizers`, which must be installed to read or set one; everything
else works without it, where the native tokenizer can read the model.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any

import numpy as np

from bpe.base.atomic_files import atomic_write
from bpe.base.forks import make_lock
from bpe.base.memory_limits import parse_byte_count
from bpe.base.utf8 import read_file
from bpe.compat import training
from bpe.compat._calls import find_names
from bpe.compat._rows import TokenizerFields, are_all_str, join_pairs, with_fast_hf_decode, with_fast_hf_encode
from bpe.compat.core import Core, load_tokenizers
from bpe.compat.document import FLAGS, AddedTokenEntry
from bpe.compat.encoding import Encoding, check_unsigned
from bpe.compat.processing import (
    DIRECTIONS,
    STRATEGIES,
    Plan,
    Rules,
    count_added,
    pad_rows,
    process,
)
from bpe.compat.state import (
    BPE,
    AddedToken,
    State,
    check_components,
    make_component,
    number_tokens,
    parse_state,
    read_added_fields,
    read_model,
)
from bpe.compat.stream_texts import StreamTexts
from bpe.errors import (
    as_format_error,
    check_bool,
    check_str,
    check_unicode,
    describe,
    raise_if_of_signal_handler,
    short_repr,
)
from bpe.formats import huggingface as format_huggingface
from bpe.tokenizer import Settings
from bpe.tokenizer import Tokenizer as NativeTokenizer
from bpe.vocab.output_steps import Padding, Truncation

#: Held while the configuration of a tokenizer changes: one lock for all, since that takes no time.
_lock = make_lock(sys.modules[__name__])

__all__ = ["BPE", "AddedToken", "DecodeStream", "Encoding", "Tokenizer"]


def _with_fast_encode(method: Any) -> Any:
    """Wrap `encode` in a fast path for plain texts, without a Python frame."""
    return wraps(method)(with_fast_hf_encode(method, Encoding))


def _with_fast_decode(method: Any) -> Any:
    """Wrap `decode` in a fast path for few ids, without a Python frame."""
    return wraps(method)(with_fast_hf_decode(method))


def _make_async(method: Any, doc: str) -> Any:
    """Make the asynchronous method of a method, with the same arguments."""

    @wraps(method)
    async def call(self: Tokenizer, *args: Any, **options: Any) -> Any:
        return await asyncio.to_thread(getattr(self, method.__name__), *args, **options)

    call.__name__, call.__qualname__, call.__doc__ = f"async_{method.__name__}", f"async_{method.__qualname__}", doc
    return call


def _make_component_property(name: str, doc: str) -> property:
    """Make the property of a component."""

    def get_component(self: Tokenizer) -> Any:
        return self._get_component(name)

    def set_component(self: Tokenizer, component: Any) -> None:
        self._set_component(name, component)

    return property(get_component, set_component, doc=doc)


class Tokenizer(TokenizerFields):
    """A tokenizer with the interface of `tokenizers.Tokenizer`.

    Each call works with the configuration at its beginning, so threads may encode while another thread changes padding,
    truncation or added tokens.

    Args:
        model: a `bpe.Tokenizer`, or a BPE model of `tokenizers`.

    Raises:
        TypeError: for anything else.

    >>> import bpe
    >>> tok = Tokenizer(bpe.train(texts=["low lower lowest"] * 3, vocab_size=260))
    >>> tok.add_special_tokens(["<s>"])
    1
    >>> tok.encode("<s>low").ids, tok.decode([260, 257, 258])
    ([260, 257], 'low low')

    """

    _state: State

    def __init__(self, model: Any) -> None:
        self._shared_components: dict[str, tuple[Any, bytes]] = {}  # components that users read, and their state then
        if isinstance(model, NativeTokenizer):
            self._state = parse_state(format_huggingface.write(model.spec), model)
        elif hasattr(model, "__getstate__") and type(model).__name__ == "BPE":
            self._state = State(Core(read_model(model.__getstate__()), (), None, None), Rules())
        else:
            raise TypeError(f"model is {describe(model)}; it must be a bpe.Tokenizer or a BPE model")

    @classmethod
    def _from_state(cls, state: State) -> Tokenizer:
        tokenizer = cls.__new__(cls)
        tokenizer._shared_components, tokenizer._state = {}, state
        return tokenizer

    @classmethod
    def from_native(cls, tokenizer: NativeTokenizer) -> Tokenizer:
        """Make a tokenizer from a native `bpe.Tokenizer`."""
        return cls(tokenizer)

    @classmethod
    def from_str(cls, json: str) -> Tokenizer:
        """Read a tokenizer.json from a str.

        Raises:
            FormatError: for anything else, and for a model that the native tokenizer cannot read, if `tokenizers` is
                not installed.

        """
        return cls.from_buffer(check_unicode("json", check_str("json", json)))

    @classmethod
    def from_buffer(cls, buffer: bytes) -> Tokenizer:
        """Read a tokenizer.json from bytes; errors are those of `from_str`."""
        state = parse_state(bytes(buffer))
        if state.core.model.has_tokens:
            state.core.raise_if_unreadable()
        check_components(state)
        return cls._from_state(state)

    @classmethod
    def from_file(cls, path: str) -> Tokenizer:
        """Read a tokenizer.json; errors are those of `from_str`, and OSError."""
        with as_format_error(os.fspath(path)):
            return cls.from_buffer(read_file(path))

    @classmethod
    def from_pretrained(cls, identifier: str, revision: str = "main", token: str | None = None) -> Tokenizer:
        """Read the tokenizer.json of a repository of the Hugging Face Hub, or of its cache (needs huggingface_hub)."""
        try:
            from huggingface_hub import hf_hub_download
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "from_pretrained needs huggingface_hub; pip install huggingface_hub", name=error.name
            ) from None
        return cls.from_file(hf_hub_download(identifier, "tokenizer.json", revision=revision, token=token))

    # Configuration ----------------------------------------------------------------------------------------------------

    def _snapshot(self) -> State:
        """Return the current state, with the changes that were made in components after they were read."""
        if self._shared_components:
            with _lock:
                for name, (component, old_state) in list(self._shared_components.items()):
                    if component.__getstate__() != old_state:
                        setattr(self, name, component)
        return self._state

    def _change_rules(self, **changes: Any) -> None:
        if "processor" in changes:
            changes["templates"] = {}
        with _lock:
            self._state = replace(self._state, rules=replace(self._state.rules, **changes))

    @property
    def native(self) -> NativeTokenizer | None:
        """The `bpe.Tokenizer` that encodes; None if only `tokenizers` can read the model."""
        return self._snapshot().core.native

    @property
    def truncation(self) -> dict[str, Any] | None:
        """The arguments of `enable_truncation`, or None."""
        rule = self._state.rules.truncation
        if rule is None:
            return None
        strategy = next(name for name, file_name in STRATEGIES.items() if file_name == rule.strategy)
        lengths = {"max_length": rule.max_length, "stride": rule.stride}
        return {**lengths, "strategy": strategy, "direction": rule.direction.lower()}

    def enable_truncation(
        self, max_length: int, stride: int = 0, strategy: str = "longest_first", direction: str = "right"
    ) -> None:
        """Truncate what is encoded from now on.

        Args:
            max_length: the largest number of tokens, template tokens included.
            stride: how many tokens each overflowing encoding shares with the one before.
            strategy: which one of a pair is shortened: "longest_first", "only_first" or "only_second".
            direction: the side from which tokens are removed, "right" or "left".

        Raises:
            ValueError: for an unknown strategy or direction, or a stride that `max_length` leaves no room for.
            OverflowError: for a number below 0 or above 2**64 - 1.

        """
        if check_str("strategy", strategy) not in STRATEGIES:
            raise ValueError(
                f"Unknown `strategy`: `{strategy}`. Use one of `longest_first`, `only_first`, or `only_second`"
            )
        if check_str("direction", direction) not in DIRECTIONS:
            raise ValueError(f"Unknown `direction`: `{direction}`. Use `left` or `right`")
        limit, overlap = check_unsigned("max_length", max_length), check_unsigned("stride", stride)
        n_template = count_added(self._snapshot().rules.processor, is_pair=False)
        if 0 <= limit - n_template < overlap:  # without room for the template, `tokenizers` does not truncate
            raise ValueError(
                f"tokenizer stride set to {overlap}, which is greater than or equal to its effective max length of "
                f"{limit - n_template} (= {limit} original max length - {n_template} added special tokens), "
            )
        self._change_rules(truncation=Truncation(limit, STRATEGIES[strategy], overlap, DIRECTIONS[direction]))

    def no_truncation(self) -> None:
        """Do not truncate."""
        self._change_rules(truncation=None)

    @property
    def padding(self) -> dict[str, Any] | None:
        """The arguments of `enable_padding`, or None."""
        rule = self._state.rules.padding
        if rule is None:
            return None
        names = ("length", "pad_to_multiple_of", "pad_id", "pad_token", "pad_type_id")
        return {**{name: getattr(rule, name) for name in names}, "direction": rule.direction.lower()}

    def enable_padding(
        self,
        direction: str = "right",
        pad_id: int = 0,
        pad_type_id: int = 0,
        pad_token: str = "[PAD]",
        length: int | None = None,
        pad_to_multiple_of: int | None = None,
    ) -> None:
        """Pad what is encoded from now on.

        Args:
            direction: the side to pad, "right" or "left".
            pad_id: the id of the padding.
            pad_type_id: the type id of the padding.
            pad_token: the token of the padding.
            length: the length to pad to; None means that of the longest text of a batch.
            pad_to_multiple_of: pad further, to a multiple of this number.

        Raises:
            ValueError: for an unknown direction.
            OverflowError: for a number below 0, an id above 2**32 - 1 or another number above 2**64 - 1.

        """
        if check_str("direction", direction) not in DIRECTIONS:
            raise ValueError(f"Unknown `direction`: `{direction}`. Use `left` or `right`")
        pad_id, pad_type_id = check_unsigned("pad_id", pad_id, 32), check_unsigned("pad_type_id", pad_type_id, 32)
        length = None if length is None else check_unsigned("length", length)
        multiple = None if pad_to_multiple_of is None else check_unsigned("pad_to_multiple_of", pad_to_multiple_of)
        self._change_rules(padding=Padding(length, DIRECTIONS[direction], multiple, pad_id, pad_type_id, pad_token))

    def no_padding(self) -> None:
        """Do not pad."""
        self._change_rules(padding=None)

    @property
    def encode_special_tokens(self) -> bool:
        """Whether special tokens in texts are encoded as text."""
        return self._state.specials_as_text

    @encode_special_tokens.setter
    def encode_special_tokens(self, value: bool) -> None:
        with _lock:
            self._state = replace(self._state, specials_as_text=check_bool("encode_special_tokens", value))

    # Components -------------------------------------------------------------------------------------------------------

    def _get_component(self, name: str) -> Any:
        """Return a component of `tokenizers`; the next call notices changes that are made in the component."""
        value = self._snapshot().get_component_json(name)
        if value is None:
            return None
        with _lock:
            if name not in self._shared_components:
                component = make_component(name, value)
                self._shared_components[name] = component, component.__getstate__()
            return self._shared_components[name][0]

    def _set_component(self, name: str, component: Any) -> None:
        state = _read_component(name, component)
        value = None if state is None else json.loads(state)
        with _lock:
            self._shared_components.pop(name, None)
            if state is not None:
                self._shared_components[name] = component, state
            if name == "decoder":
                self._state = replace(self._state, decoder=value)
            elif name == "post_processor":
                self._change_rules(processor=value)
            elif value != self._state.get_component_json(name):
                self._state = self._state.with_core(**{name: value})

    normalizer = _make_component_property("normalizer", "The normalizer, a component of `tokenizers`, or None.")
    pre_tokenizer = _make_component_property("pre_tokenizer", "The pretokenizer, a component of `tokenizers`, or None.")
    post_processor = _make_component_property(
        "post_processor", "The post-processor, a component of `tokenizers`, or None."
    )
    decoder = _make_component_property("decoder", "The decoder, a component of `tokenizers`, or None.")

    @property
    def model(self) -> BPE:
        """The settings of the model; changing one changes the tokenizer."""
        return BPE(self._state.core.model, self)

    @model.setter
    def model(self, model: Any) -> None:
        with _lock:
            self._state = self._state.with_core(model=read_model(model.__getstate__()))

    def num_special_tokens_to_add(self, is_pair: bool) -> int:
        """Count the template tokens of one text, or of a pair."""
        return count_added(self._snapshot().rules.processor, check_bool("is_pair", is_pair))

    # Encoding ---------------------------------------------------------------------------------------------------------

    @_with_fast_encode
    def encode(
        self, sequence: Any, pair: Any = None, is_pretokenized: bool = False, add_special_tokens: bool = True
    ) -> Encoding:
        """Encode a text, or a pair of texts.

        Args:
            sequence: a str; with `is_pretokenized`, a list of words.
            pair: the second one of a pair, or None.
            is_pretokenized: whether the input is words, which are encoded one by one.
            add_special_tokens: whether to add the template's tokens.

        Raises:
            TypeError: for other inputs.
            ValueError: for a truncation that the strategy cannot do.

        """
        state = self._snapshot()
        plan: Plan = state.get_plan(add_special_tokens)
        if type(sequence) is str and pair is None and not is_pretokenized:
            return plan.encode_texts([sequence]).make_encodings()[0]
        if type(sequence) is type(pair) is str and not is_pretokenized and plan.pair_template_ids is not None:
            return plan.encode_pairs([sequence, pair]).make_encodings()[0]
        inputs = [_check_input(sequence, is_pretokenized)]
        if pair is not None:
            inputs.append(_check_input(pair, is_pretokenized))
        return pad_rows(_encode_inputs(state, [inputs], add_special_tokens), state.rules.padding)[0]

    def encode_batch(
        self,
        input: Sequence[Any],  # noqa: A002
        is_pretokenized: bool = False,
        add_special_tokens: bool = True,
    ) -> list[Encoding]:
        """Encode several texts or pairs.

        Args:
            input: a sequence of what `encode` takes, or of pairs of it.
            is_pretokenized: as for `encode`.
            add_special_tokens: as for `encode`.

        Raises:
            TypeError, ValueError: as for `encode`.

        """
        state = self._snapshot()
        if isinstance(input, str) or not isinstance(input, (list, tuple, np.ndarray, Sequence)):
            raise TypeError(f"input is {describe(input)}; it must be a list of inputs")
        texts = list(input)
        plan: Plan = state.get_plan(add_special_tokens)
        if not is_pretokenized and are_all_str(texts):
            return plan.encode_texts(texts).make_encodings()
        if not is_pretokenized and plan.pair_template_ids is not None and (pair_texts := join_pairs(texts)) is not None:
            return plan.encode_pairs(pair_texts).make_encodings()
        rows = [_check_row(row, is_pretokenized) for row in texts]
        return pad_rows(_encode_inputs(state, rows, add_special_tokens), state.rules.padding)

    def encode_batch_fast(
        self,
        input: Sequence[Any],  # noqa: A002
        is_pretokenized: bool = False,
        add_special_tokens: bool = True,
    ) -> list[Encoding]:
        """Encode several inputs; offsets cost nothing until they are read."""
        return self.encode_batch(input, is_pretokenized, add_special_tokens)

    def get_plan(self, add_special_tokens: bool) -> Plan:
        """Return how texts become encodings now, with template tokens or without."""
        plan: Plan = self._snapshot().get_plan(add_special_tokens)
        return plan

    async_encode = _make_async(encode, "Encode one input in another thread.")
    async_encode_batch = _make_async(encode_batch, "Encode several inputs in another thread.")
    async_encode_batch_fast = async_encode_batch

    def post_process(
        self, encoding: Encoding, pair: Encoding | None = None, add_special_tokens: bool = True
    ) -> Encoding:
        """Truncate encodings, combine them with the template's tokens, and pad the result."""
        for name, part in (("encoding", encoding), ("pair", pair)):
            if not isinstance(part, Encoding) and (part is not None or name == "encoding"):
                raise TypeError(f"{name} is {describe(part)}; it must be an Encoding")
        rules = self._snapshot().rules
        encodings = [part.copy() for part in (encoding, pair) if part is not None]
        return pad_rows([process(encodings, rules, add_special_tokens)], rules.padding)[0]

    # Decoding ---------------------------------------------------------------------------------------------------------

    @_with_fast_decode
    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Decode ids to a text. Ids that no token has are left out.

        Args:
            ids: the ids.
            skip_special_tokens: whether to leave out special tokens.

        Raises:
            TypeError, OverflowError: for ids that are no sequence of int from 0 to 2**32 - 1.

        """
        state = self._snapshot()
        return state.core.decode(ids, skip_special_tokens, state.decoder, lambda: state.decoder_component)

    def decode_batch(self, sequences: Sequence[Sequence[int]], skip_special_tokens: bool = True) -> list[str]:
        """Decode several sequences of ids to texts."""
        return [self.decode(ids, skip_special_tokens) for ids in sequences]

    async_decode_batch = _make_async(decode_batch, "Decode several sequences of ids in another thread.")

    # Vocabulary -------------------------------------------------------------------------------------------------------

    def get_vocab(self, with_added_tokens: bool = True) -> dict[str, int]:
        """Return the tokens with their ids."""
        core, with_added_tokens = self._state.core, check_bool("with_added_tokens", with_added_tokens)
        return {**core.model.vocab, **core.added_ids} if with_added_tokens else dict(core.model.vocab)

    def get_vocab_size(self, with_added_tokens: bool = True) -> int:
        """Return the number of tokens."""
        core, with_added_tokens = self._state.core, check_bool("with_added_tokens", with_added_tokens)
        return len(core.model.vocab) + (sum(map(core.is_new, core.added_ids)) if with_added_tokens else 0)

    def get_added_tokens_decoder(self) -> dict[int, Any]:
        """Return the added tokens by id; of the class of `tokenizers`, if that is installed."""
        return {
            token.id: AddedToken(token.content, **dict(zip(FLAGS, token.flags, strict=True)))
            for token in self._state.core.added_tokens
        }

    def token_to_id(self, token: str) -> int | None:
        """Return the id of a token, or None."""
        core = self._state.core
        token_id = core.added_ids.get(token)
        if token_id is None:
            token_id = core.model.vocab.get(token)
            if token_id is None and not isinstance(token, str):
                raise TypeError(f"token is {describe(token)}; it must be a str")
        return token_id

    def id_to_token(self, id: int) -> str | None:  # noqa: A002
        """Return the token of an id, or None."""
        names = self._state.core.decoded_names
        if not 0 <= id < 1 << 32:
            raise OverflowError(f"id is {id}; it must be from 0 to 2**32 - 1")
        return names[id] if id < len(names) else None

    def find_names(self, ids: list[int], text: str | None = None) -> list[str | None] | None:
        """Find the token of each id, as `id_to_token` does, or as `Encoding.tokens` has it for the ids of a text.

        None if an id is no int from 0 to 2**32 - 1, or the text may have added tokens: they are spelled as in the text.
        """
        state = self._snapshot()
        core = state.core
        if text is None:
            return find_names(core.decoded_names, ids)
        is_plain = core.native is not None and core.has_no_special(text, state.specials_as_text)
        return find_names(core.spellings, ids) if is_plain else None

    def with_added_ids(self, tokens: dict[int, Any]) -> Tokenizer:
        """Return the tokenizer with other ids for its added tokens, given as by `get_added_tokens_decoder`.

        A tokenizer.json does not keep the ids of tokens that were added after a gap in the ids.
        """
        rows = tuple(
            AddedTokenEntry(token_id, **read_added_fields(token, special=False))
            for token_id, token in sorted(tokens.items())
        )
        state = self._snapshot()
        return self if rows == state.core.added_tokens else self._from_state(state.with_core(added_rows=rows))

    def cache_prompts(self, max_bytes: int | str) -> None:
        """Encode only what is new of long texts that begin as earlier ones did.

        A change of the tokenizer ends that. Copies share these texts; a pickled tokenizer is without them.

        Args:
            max_bytes: the memory for these texts and their ids, in bytes or as "64M".

        Raises:
            TypeError, ValueError: for a size of memory that is not one.

        """
        n_bytes = parse_byte_count("max_bytes", max_bytes, 0)
        self._snapshot().core.cache_prompts(n_bytes)  # takes long where nothing was encoded yet
        with _lock:
            self._state = replace(self._state)  # without the plans that calls have made

    def add_tokens(self, tokens: Iterable[Any]) -> int:
        """Add tokens that are not special, given as str or `AddedToken`. Returns how many are new or were changed."""
        return self._add_tokens(tokens, special=False)

    def add_special_tokens(self, tokens: Iterable[Any]) -> int:
        """Add special tokens, given as str or `AddedToken`. Returns how many are new or were changed."""
        return self._add_tokens(tokens, special=True)

    def _add_tokens(self, tokens: Iterable[Any], special: bool) -> int:
        with _lock:
            core = self._snapshot().core
            fields = [read_added_fields(token, special) for token in tokens]
            added, count = number_tokens(core.added_tokens, core.model.vocab, fields)
            if count:
                names = {token_fields["content"] for token_fields in fields if token_fields["special"]} - {""}
                self._state = self._state.with_core(added_rows=added, skipped_names=core.skipped_names | names)
        return count

    # Training ---------------------------------------------------------------------------------------------------------

    def train(self, files: Sequence[str], trainer: Any = None) -> None:
        """Train on files, with a trainer of `tokenizers`. Each line is a text.

        This package trains where it learns the same as `tokenizers` (`bpe/compat/training.py`); elsewhere `tokenizers`
        trains.
        """
        self._train(trainer, {"files": files}, lambda peer: peer.train(files, trainer))

    def train_from_iterator(self, iterator: Iterable[Any], trainer: Any = None, length: int | None = None) -> None:
        """Train on texts, or lists of texts, with a trainer of `tokenizers`; see `train`."""
        self._train(
            trainer,
            {"texts": training.flatten_texts(iterator)},
            lambda peer: peer.train_from_iterator(iterator, trainer, length),
        )

    def _train(self, trainer: Any, corpus: dict[str, Any], train_peer: Any) -> None:
        trained_state = training.train_natively(self._snapshot(), trainer, **corpus)
        if trained_state is None:
            peer = load_tokenizers().Tokenizer.from_str(self.to_str())
            train_peer(peer)
            trained_state = replace(parse_state(peer.to_str().encode()), specials_as_text=self._state.specials_as_text)
        with _lock:
            self._shared_components.clear()
            self._state = trained_state

    # Files ------------------------------------------------------------------------------------------------------------

    def to_str(self, pretty: bool = False) -> str:
        """Write the tokenizer.json to a str."""
        text = self._snapshot().to_json_bytes().decode()
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2) if check_bool("pretty", pretty) else text

    def save(self, path: str, pretty: bool = True) -> None:
        """Write the tokenizer.json, whole or not at all."""
        with atomic_write(path) as file:
            file.write(self.to_str(pretty).encode())

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_tokenizer, (self.to_str(), self._state.core.settings)

    def __copy__(self) -> Tokenizer:
        return self._from_state(replace(self._snapshot(), specials_as_text=False))

    def __deepcopy__(self, memo: dict[int, Any]) -> Tokenizer:
        return self.__copy__()

    def _format(self, format_peer: Callable[[Any], str]) -> str:
        """Format the tokenizer as `tokenizers` does, or in short where `tokenizers` cannot read it."""
        with contextlib.suppress(Exception):  # `tokenizers` raises Exception itself
            return format_peer(load_tokenizers().Tokenizer.from_str(self.to_str()))
        return f'Tokenizer(version="1.0", truncation={self.truncation}, padding={self.padding}, model={self.model!r})'

    def __repr__(self) -> str:
        return self._format(repr)

    def __str__(self) -> str:
        return self._format(str)


class DecodeStream:
    """Decodes ids that come one by one; the interface of `tokenizers.decoders.DecodeStream`.

    Args:
        ids: ids before the first one, whose text is not returned.
        skip_special_tokens: whether to leave out special tokens.

    >>> import bpe
    >>> tok = Tokenizer(bpe.train(texts=["low lower lowest"] * 3, vocab_size=260))
    >>> stream = DecodeStream()
    >>> [stream.step(tok, token) for token in tok.encode("lowé").ids]
    ['low', None, 'é']

    """

    def __init__(self, ids: Sequence[int] | None = None, skip_special_tokens: bool = False) -> None:
        self._ids = list(ids or ())
        self._skip = skip_special_tokens
        self._prefix = ""
        self._prefix_index = 0
        self._texts: StreamTexts | None = None  # while the ids follow a text of complete characters
        self._incomplete = b""  # of the ids after the prefix

    def __copy__(self) -> DecodeStream:
        stream = DecodeStream(self._ids, self._skip)
        stream._prefix, stream._prefix_index = self._prefix, self._prefix_index
        stream._texts, stream._incomplete = self._texts, self._incomplete
        return stream

    def __deepcopy__(self, memo: dict[int, Any]) -> DecodeStream:
        return self.__copy__()

    def step(self, tokenizer: Any, id: int | Sequence[int]) -> str | None:  # noqa: A002
        """Return the text that one id or several complete; None while a character is incomplete.

        Args:
            tokenizer: a `Tokenizer`, the same at each step.
            id: the next id, or several.

        Raises:
            ValueError: if the text of the ids before changed, which the decoder of the tokenizer does not allow.

        """
        texts = None
        if not hasattr(tokenizer, "decode"):
            raise TypeError(f"tokenizer is {describe(tokenizer)}; it must be a Tokenizer")
        if type(tokenizer) is Tokenizer and not tokenizer._shared_components:
            texts = tokenizer._state.stream_texts[1 if self._skip else 0]
            if texts is not None and texts is self._texts and type(id) is int:
                entry = texts.entries.get(id)
                if type(entry) is tuple and not self._incomplete:
                    added, self._prefix = entry
                    self._ids, self._prefix_index = [id], 1
                    return added
                if entry is not None:
                    data = self._incomplete + (entry if isinstance(entry, bytes) else entry[0].encode())
                    text = texts.decode(data, isinstance(entry, bytes))
                    if text is not None:
                        return self._add_bytes(id, data, text)
        self._texts, self._incomplete = None, b""
        new_text = self._decode_step(tokenizer, id, texts)
        if texts is not None and type(id) is int:
            texts.get_entry(tokenizer, id)
        if new_text is not None and self._prefix and not self._prefix.endswith("\ufffd"):
            self._texts = texts
        return new_text

    def _add_bytes(self, token_id: int, data: bytes, text: str) -> str | None:
        """Take one more id, after which the bytes since the prefix are `data`; that is `text`."""
        if text.endswith("\ufffd"):
            self._ids, self._incomplete = [*self._ids, token_id], data
            return None
        self._ids, self._prefix, self._incomplete = [*self._ids[self._prefix_index :], token_id], text, b""
        self._prefix_index = len(self._ids)
        return text

    def _decode_step(self, tokenizer: Any, id: int | Sequence[int], texts: StreamTexts | None) -> str | None:  # noqa: A002
        """Do what `step` does by decoding the ids, as `tokenizers` does."""
        ids, prefix = self._ids, self._prefix
        if not prefix and ids:
            if texts is not None and not self._prefix_index:
                self._ids = ids = texts.shorten(tokenizer, ids)
            old_text = tokenizer.decode(ids, self._skip)
            if not old_text.endswith("\ufffd"):
                self._prefix = prefix = old_text
                self._prefix_index = len(ids)
        self._ids = ids = [*ids, id] if type(id) is int or isinstance(id, (int, np.integer)) else [*ids, *id]
        text: str = tokenizer.decode(ids, self._skip)
        has_prefix = text.startswith(prefix)
        if text.endswith("\ufffd") or (has_prefix and len(text) == len(prefix)):
            return None
        if not has_prefix:
            if len(text.encode()) <= len(prefix.encode()):
                return None
            raise ValueError(
                f"Invalid prefix encountered while decoding stream: the text of the ids is {short_repr(text)}, which "
                f"does not begin with {short_repr(prefix)}; begin a new stream"
            )
        new_text, index = text[len(prefix) :], len(ids) - self._prefix_index
        self._ids = ids[self._prefix_index :]
        self._prefix, self._prefix_index = tokenizer.decode(self._ids, self._skip), index
        return new_text


# Private --------------------------------------------------------------------------------------------------------------


def _rebuild_tokenizer(text: str, settings: Settings | None = None) -> Tokenizer:
    return Tokenizer._from_state(parse_state(text.encode(), settings=settings))


def _read_component(name: str, component: Any) -> bytes | None:
    """Read a component as JSON."""
    if component is None:
        return None
    try:
        state: bytes = component.__getstate__()
    except Exception as error:  # noqa: BLE001  # tokenizers raises Exception itself
        raise_if_of_signal_handler(error)
        raise TypeError(
            f"{name} is a {type(component).__name__} written in Python, which a tokenizer.json cannot hold ({error}); "
            "use the components of `tokenizers`, or its Tokenizer"
        ) from None
    return state


def _is_list_of_words(value: Any) -> bool:
    return isinstance(value, (list, tuple, np.ndarray)) and all(isinstance(word, str) for word in value)


def _check_input(value: Any, is_pretokenized: bool) -> str | list[str]:
    """Return a str, or a list of words; TypeError for anything else."""
    if not is_pretokenized:
        if not isinstance(value, str):
            raise TypeError("TextInputSequence must be str")
        return value
    if _is_list_of_words(value):
        return [str.__str__(word) for word in value]  # a subclass may have a `__str__` of its own
    raise TypeError("PreTokenizedInputSequence must be Union[List[str], Tuple[str]]")


def _check_row(value: Any, is_pretokenized: bool) -> list[str | list[str]]:
    """Return one input of a batch, or the two of a pair; TypeError for anything else."""
    if _is_list_of_words(value) if is_pretokenized else isinstance(value, str):
        return [_check_input(value, is_pretokenized)]
    if isinstance(value, (list, tuple, np.ndarray)) and len(value) == 2:
        return [_check_input(item, is_pretokenized) for item in value]
    if is_pretokenized:
        raise TypeError(
            "PreTokenizedEncodeInput must be Union[PreTokenizedInputSequence, Tuple[PreTokenizedInputSequence, "
            "PreTokenizedInputSequence]]"
        )
    raise TypeError("TextEncodeInput must be Union[TextInputSequence, Tuple[InputSequence, InputSequence]]")


def _encode_inputs(state: State, rows: list[list[str | list[str]]], add_special: bool) -> list[Encoding]:
    """Encode rows of one or two inputs; all their texts are encoded in one batch."""
    core, specials_as_text = state.core, state.specials_as_text
    texts = [text for row in rows for item in row for text in ([item] if isinstance(item, str) else item)]
    batch = core.encode_batch(texts, specials_as_text)
    starts, n_texts, results = batch.offsets.tolist(), 0, []
    for row in rows:
        encodings = []
        for item in row:
            start = starts[n_texts]
            n_texts += 1 if isinstance(item, str) else len(item)
            ids = core.to_list(batch.ids[start : starts[n_texts]])
            encodings.append(core.make_sequence(item, ids, specials_as_text).to_encoding())
        results.append(process(encodings, state.rules, add_special))
    return results
