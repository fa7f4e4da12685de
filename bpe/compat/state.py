"""The configuration of Hugging Face's `Tokenizer`: an immutable `State` that is read and written as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import starmap
from operator import itemgetter
from typing import Any

from bpe.base.forks import cached_property
from bpe.compat._rows import StateFields
from bpe.compat.core import Core, load_tokenizers
from bpe.compat.document import FLAGS, AddedTokenEntry, ModelJson, dump_compact, parse_document
from bpe.compat.processing import Plan, Rules
from bpe.compat.stream_texts import StreamTexts, read_additive_steps
from bpe.errors import FormatError, raise_if_of_signal_handler, short_repr
from bpe.formats.huggingface.post_processing import (
    PADDING_FIELDS,
    TRUNCATION_FIELDS,
    read_padding,
    read_post_processor,
    read_truncation,
    write_padding,
    write_truncation,
)
from bpe.formats.huggingface.steps import read_decoder_steps
from bpe.formats.schema import refuse
from bpe.tokenizer import Settings
from bpe.tokenizer import Tokenizer as NativeTokenizer

#: The fields of an added token, and their types.
_FIELDS = ("id", "content", *FLAGS)
_FIELD_TYPES: tuple[type, ...] = (int, str, *[bool] * len(FLAGS))


class _AddedTokenType(type):
    """Makes `AddedToken` the class of `tokenizers`, if installed: the trainers of `tokenizers` take no other class."""

    def __call__(cls, *args: Any, **flags: Any) -> Any:
        peer_class = _load_added_token() if cls is AddedToken else None
        token = super().__call__(*args, **flags)
        if peer_class is None:
            return token
        arguments = {name: value for name, value in vars(token).items() if not name.startswith("_")}
        return peer_class(**arguments, **({} if token._normalized is None else {"normalized": token._normalized}))

    def __instancecheck__(cls, instance: Any) -> bool:
        if super().__instancecheck__(instance):
            return True
        return cls is AddedToken and "tokenizers" in sys.modules and isinstance(instance, _load_added_token() or ())


def _load_added_token() -> Any:
    try:
        return load_tokenizers().AddedToken
    except ModuleNotFoundError:
        return None


class AddedToken(metaclass=_AddedTokenType):
    """A token to add, with `tokenizers`' flags: its `AddedToken`, if that package is installed.

    Args:
        content: its name.
        single_word: found only where no letter or digit is adjacent.
        lstrip: white space before it is part of it.
        rstrip: white space after it is part of it.
        normalized: found in normalized text; None means if it is not special.
        special: left out when decoding skips special tokens.

    """

    def __init__(
        self,
        content: str = "",
        single_word: bool = False,
        lstrip: bool = False,
        rstrip: bool = False,
        normalized: bool | None = None,
        special: bool = False,
    ) -> None:
        self.content, self.single_word, self.lstrip, self.rstrip = content, single_word, lstrip, rstrip
        self.special, self._normalized = special, normalized

    @property
    def normalized(self) -> bool:
        """Whether the token is found in normalized text."""
        return not self.special if self._normalized is None else self._normalized

    def __str__(self) -> str:
        return self.content

    def __repr__(self) -> str:
        flags = ", ".join(f"{name}={getattr(self, name)}" for name in ("rstrip", "lstrip", "single_word", "normalized"))
        return f'AddedToken("{self.content}", {flags}, special={self.special})'

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AddedToken) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(self.content)


class BPE:
    """The settings of a model, as attributes; `isinstance` says that it is a `tokenizers.models.BPE`.

    Args:
        model: the model; None for one without tokens.
        owner: the tokenizer whose model follows when a setting is changed here, or None.

    """

    _model: ModelJson
    _owner: Any

    def __init__(self, model: ModelJson | None = None, owner: Any = None) -> None:
        vars(self).update(_model=model or ModelJson({"type": "BPE"}, b"{}", b"[]"), _owner=owner)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """The class that `isinstance` sees: that of `tokenizers`, where a program has imported `tokenizers`."""
        return load_tokenizers().models.BPE if "tokenizers" in sys.modules else BPE

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or "_model" not in vars(self):
            raise AttributeError(name)
        return self._get_settings(name)[name]

    def __setattr__(self, name: str, value: Any) -> None:
        vars(self)["_model"] = replace(self._model, settings=self._get_settings(name) | {name: value})
        if self._owner is not None:
            self._owner.model = self

    def _get_settings(self, name: str) -> dict[str, Any]:
        """Return all settings; AttributeError if `name` is none of them."""
        defaults = dict.fromkeys(("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"))
        switches = dict.fromkeys(("fuse_unk", "byte_fallback", "ignore_merges"), False)
        settings = {"type": "BPE", **defaults, **switches, **self._model.settings}
        if name not in settings or name == "type":
            raise AttributeError(f"a BPE model has no attribute {name!r}; it has {', '.join(settings)}")
        return settings

    def __getstate__(self) -> bytes:
        return self._model.to_json_bytes()

    def __setstate__(self, state: bytes) -> None:
        vars(self).update(_model=read_model(state), _owner=None)

    def __reduce__(self) -> tuple[Any, ...]:
        return BPE, (self._model,)

    def token_to_id(self, token: str) -> int | None:
        """Return the id of a token of the model."""
        return self._model.vocab.get(token)

    def id_to_token(self, id: int) -> str | None:  # noqa: A002
        """Return the token of an id of the model."""
        return next((token for token, token_id in self._model.vocab.items() if token_id == id), None)

    def __repr__(self) -> str:
        return f"BPE({len(self._model.vocab)} tokens)"


@dataclass(frozen=True)
class State(StateFields):
    """The configuration of a `Tokenizer`. Immutable: a change makes another state."""

    core: Core
    rules: Rules
    decoder: Any = None
    specials_as_text: bool = False

    @cached_property
    def stream_texts(self) -> tuple[StreamTexts | None, StreamTexts | None]:
        """What tokens add to the text of a stream, without and with skipping special tokens; None if they do not."""
        native = self.core.native
        steps = None if native is None else read_additive_steps(self.decoder, native.spec)
        if steps is None:
            return None, None
        names, (table, *kept_ids) = self.core.decoded_names, self.core.make_short_decoder(self.decoder)
        return StreamTexts(False, steps, names, table, kept_ids[0]), StreamTexts(True, steps, names, table, kept_ids[1])

    @cached_property
    def decoder_component(self) -> Any:
        """The decoder as a component of `tokenizers`, which no caller can change."""
        return make_component("decoder", self.decoder)

    def make_plan(self, template: bool) -> Plan:
        """Make the plan of texts with template tokens, or without; `get_plan` makes each once."""
        return Plan(self.core, self.rules, add_special=template, specials_as_text=self.specials_as_text)

    def get_component_json(self, name: str) -> Any:
        """Return a component as JSON."""
        if name == "decoder":
            return self.decoder
        return self.rules.processor if name == "post_processor" else getattr(self.core, name)

    def with_core(self, **changes: Any) -> State:
        """Return the state with another model, added tokens, normalizer or pretokenizer."""
        core = self.core
        names = ("model", "added_rows", "normalizer", "pre_tokenizer", "settings", "skipped_names")
        fields = {name: getattr(core, name) for name in names} | changes
        base = core if changes.keys() <= {"added_rows", "skipped_names"} else None
        return replace(self, core=Core(**fields, keep_ids=True, base=base))

    def to_json_bytes(self) -> bytes:
        """Write the tokenizer.json."""
        fields = {
            "version": "1.0",
            "truncation": write_truncation(self.rules.truncation),
            "padding": write_padding(self.rules.padding),
            "added_tokens": [token.to_json() for token in self.core.added_tokens],
            "normalizer": self.core.normalizer,
            "pre_tokenizer": self.core.pre_tokenizer,
            "post_processor": self.rules.processor,
            "decoder": self.decoder,
        }
        settings = "".join(f'"{name}":{dump_compact(value)},' for name, value in fields.items())
        return b'{%b"model":%b}' % (settings.encode(), self.core.model.to_json_bytes())


def make_component(name: str, value: Any) -> Any:
    """Make a component of `tokenizers` of its JSON."""
    document = {"model": {"type": "BPE", "vocab": {}, "merges": []}, "added_tokens": [], name: value}
    return getattr(load_tokenizers().Tokenizer.from_str(json.dumps(document)), name)


def read_model(state: bytes | str) -> ModelJson:
    """Read the model from a component's JSON, as `tokenizers.models.BPE.__getstate__` returns it."""
    data = state.encode() if isinstance(state, str) else state
    return parse_document(b'{"model":%b}' % data)[0]


def parse_state(data: bytes, native: NativeTokenizer | None = None, settings: Settings | None = None) -> State:
    """Read a tokenizer.json to a state.

    Raises:
        FormatError: for anything that is not a tokenizer.json.

    """
    model, fields = parse_document(data)
    if fields.get("version", "1.0") != "1.0":
        refuse("version", fields["version"], 'the version known is "1.0"', "save it with a current tokenizers")
    if not isinstance(fields.get("added_tokens", []), list):
        raise FormatError(f"it is {short_repr(fields['added_tokens'])}; it must be a list", where="added_tokens")
    try:
        file_rows = _read_rows(fields.get("added_tokens", ()))
        if any(type(row[0]) is not int for row in file_rows):  # such ids may have no order
            _check_rows(file_rows)
        rows = sorted(file_rows, key=itemgetter(0))
    except (AttributeError, TypeError) as error:
        raise FormatError(f"a token lacks a field, or has another type: {error}", where="added_tokens") from None
    truncation = read_truncation(_keep_known_fields(fields.get("truncation"), TRUNCATION_FIELDS))
    padding = read_padding(_keep_known_fields(fields.get("padding"), PADDING_FIELDS))
    normalizer, pre_tokenizer = fields.get("normalizer"), fields.get("pre_tokenizer")
    core = Core(model, rows, normalizer, pre_tokenizer, native=native, settings=settings)
    state = State(core, Rules(fields.get("post_processor"), truncation, padding), fields.get("decoder"))
    if native is None and file_rows and (file_rows != rows or core.native is None):  # else the native reader checked
        tokens = _check_rows(file_rows)
        numbered_rows = number_tokens((), model.vocab, (token.to_json() for token in tokens))[0]
        if list(numbered_rows) != rows:
            return state.with_core(added_rows=numbered_rows)
    return state


def check_components(state: State) -> None:
    """Check the components of a file, each of which must be one that this package or `tokenizers` reads.

    Raises:
        FormatError: for a component that neither reads.

    """
    for name in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
        value = state.get_component_json(name)
        if value is None or _can_read_component(name, value, state.core.native):
            continue
        try:
            make_component(name, value)
        except ModuleNotFoundError:  # found out where it is used
            continue
        except Exception as error:  # noqa: BLE001 (`tokenizers` raises no other class)
            raise_if_of_signal_handler(error)
            raise FormatError(f"{short_repr(value)} is not known: {error}", where=name) from None


def _can_read_component(name: str, value: Any, native: NativeTokenizer | None) -> bool:
    """Whether this package reads a component; a native tokenizer has been made with the first two."""
    if native is None:
        return False
    try:
        if name == "post_processor":
            read_post_processor(value, native.spec.vocabulary)
        elif name == "decoder":
            read_decoder_steps(value)
    except FormatError:
        return False
    return True


def number_tokens(
    added_tokens: tuple[AddedTokenEntry, ...], vocab: dict[str, int], tokens: Iterable[dict[str, Any]]
) -> tuple[tuple[AddedTokenEntry, ...], int]:
    """Give tokens that are added the ids that `tokenizers` gives them, also when it reads a file.

    A token of the vocab keeps its id, whatever the file says; other tokens are numbered from the largest id + 1.

    Args:
        added_tokens: the added tokens, by ascending id.
        vocab: the tokens of the model.
        tokens: the fields of each token to add, as `read_added_fields` gives them; an id among them is ignored.

    Returns:
        The added tokens after more are added, and how many of these are new or were changed.

    """
    by_id, ids = {token.id: token for token in added_tokens}, {token.content: token.id for token in added_tokens}
    next_id, n_changed = max(max(by_id, default=-1) + 1, len(vocab)), 0
    for fields in tokens:
        content = fields["content"]
        token_id = ids.get(content, vocab.get(content))
        token = AddedTokenEntry(**fields | {"id": next_id if token_id is None else token_id})
        if not content or by_id.get(token.id) == token:
            continue
        ids[content], by_id[token.id] = token.id, token
        next_id += token_id is None
        n_changed += 1
    return tuple(by_id[token_id] for token_id in sorted(by_id)), n_changed


def _read_rows(entries: Any) -> list[tuple[Any, ...]]:
    """Read the fields of the added tokens of a tokenizer.json; unknown fields are ignored, as in `tokenizers`."""
    try:
        return list(map(itemgetter(*_FIELDS), entries))
    except KeyError:  # a flag is missing
        return [AddedTokenEntry(**{key: value for key, value in entry.items() if key in _FIELDS}) for entry in entries]


def _check_rows(rows: list[tuple[Any, ...]]) -> list[AddedTokenEntry]:
    """Make added tokens of their fields; FormatError for a field of another type."""
    added_tokens = list(starmap(AddedTokenEntry, rows))
    for index, token in enumerate(added_tokens):
        if tuple(map(type, token)) != _FIELD_TYPES or token.id < 0:
            raise FormatError(_describe_invalid_field(token), where=f"added_tokens[{index}]")
    return added_tokens


def _describe_invalid_field(token: AddedTokenEntry) -> str:
    """Describe what is wrong with an added token."""
    for name, value, field_type in zip(_FIELDS, token, _FIELD_TYPES, strict=True):
        if type(value) is not field_type and field_type is not int:
            return f"{name} is {short_repr(value)}; it must be a {field_type.__name__}"
    return f"id is {short_repr(token.id)}; it must be a whole number from 0"


def _keep_known_fields(value: Any, names: Iterable[str]) -> Any:
    """Remove the fields that `tokenizers` ignores from an object; any other value stays the same."""
    return {name: value[name] for name in names if name in value} if isinstance(value, dict) else value


def read_added_fields(token: Any, special: bool) -> dict[str, Any]:
    """Read the fields of `AddedTokenEntry`, except the id, from a string or either package's `AddedToken`."""
    if isinstance(token, str):
        return {"content": token, "normalized": not special, "special": special}
    if not hasattr(token, "content"):
        raise TypeError("Input must be a List[Union[str, AddedToken]]")
    if special:
        token.special = True
    return {"content": token.content} | {flag: getattr(token, flag) for flag in FLAGS}
