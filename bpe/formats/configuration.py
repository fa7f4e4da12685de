"""`tokenizer_config.json`, `special_tokens_map.json` and `added_tokens.json`, which `transformers` writes in a folder.

Read here: the tokens that they add to those of the tokenizer's own file, as AutoTokenizer of transformers 5 adds them,
the roles of special tokens, chat templates, which may have files of their own, and which fields no other file holds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bpe.base.fast_dataclasses import replace
from bpe.errors import FormatError, get_log, short_repr, with_path
from bpe.formats.packed import decode_text, unpack
from bpe.formats.schema import is_id, parse_json, read_field
from bpe.formats.signatures import (
    ADDED_TOKENS_JSON,
    CHAT_TEMPLATE_FILE,
    CHAT_TEMPLATE_FOLDER,
    CONFIG_JSON,
    SPECIAL_MAP_JSON,
)
from bpe.vocab.spec import DEFAULT_TEMPLATE, MATCHING_FLAGS, ROLES, TokenizerSpec, make_flags

if TYPE_CHECKING:
    from bpe.formats.huggingface.added_tokens import FileToken

log = get_log()

#: The field with more special tokens: its name before transformers 5, and in it.
OLD_EXTRA_FIELD, EXTRA_FIELD = "additional_special_tokens", "extra_special_tokens"
#: The field with the ids of added tokens, and that with the tokens which have names of their own.
ADDED_TOKENS_FIELD, MODEL_TOKENS_FIELD = "added_tokens_decoder", "model_specific_special_tokens"
#: What `transformers` writes as `model_max_length` where there is no limit is more than this.
_NO_LIMIT = 10**20


def read_object(files: Mapping[str, bytes], name: str) -> dict[str, Any]:
    """Read the JSON object in a file; an empty one if there is no such file.

    Raises:
        FormatError: for anything else.

    """
    with with_path(None, name):
        value = parse_json(unpack(files[name])) if name in files else {}
        if not isinstance(value, dict):
            raise FormatError(f"{short_repr(value)} is not an object")
        return value


def read_configuration(files: Mapping[str, bytes]) -> dict[str, Any]:
    """Read tokenizer_config.json and special_tokens_map.json; named tokens become one dict (`MODEL_TOKENS_FIELD`).

    As in transformers 5, special_tokens_map.json wins where both files have a field; it is ignored if there is an
    `added_tokens_decoder`.
    """
    config = read_object(files, CONFIG_JSON)
    if OLD_EXTRA_FIELD in config and not config.get(EXTRA_FIELD):
        config[EXTRA_FIELD] = config.pop(OLD_EXTRA_FIELD)
    model_tokens = {
        name: config.pop(name) for name in list(config) if _is_token_field(name) and isinstance(config[name], str)
    }
    if isinstance(config.get(EXTRA_FIELD), dict):
        model_tokens |= config.pop(EXTRA_FIELD)
    if model_tokens:
        config[MODEL_TOKENS_FIELD] = model_tokens
    special_map = {} if ADDED_TOKENS_FIELD in config else read_object(files, SPECIAL_MAP_JSON)
    for name, value in special_map.items():
        if name == EXTRA_FIELD and isinstance(value, list):
            more_tokens = map(_mark_special, _check_tokens(value, name))
            config[name] = [*_check_tokens(config.get(name), name), *more_tokens]
        else:
            config[name] = value if name == EXTRA_FIELD else _mark_special(value)
    if isinstance(config.get(EXTRA_FIELD), dict):
        config[MODEL_TOKENS_FIELD] = {
            **read_field(config, CONFIG_JSON, MODEL_TOKENS_FIELD, dict, {}),
            **config.pop(EXTRA_FIELD),
        }
    return config


def _is_token_field(name: str) -> bool:
    """Whether a field has a token that only some models have, such as image_token."""
    return name.endswith("_token") and name not in ROLES


def _mark_special(token: Any) -> Any:
    """Mark a token of special_tokens_map.json as special: objects in that file do not say it."""
    return {**token, "special": True} if isinstance(token, dict) else token


def get_token_text(token: Any) -> Any:
    """Return the text of a special token, which is a string or an object with flags."""
    return token.get("content") if isinstance(token, dict) else token


def find_added_tokens(
    files: Mapping[str, bytes],
    file_tokens: Mapping[str, FileToken],
    defaults: Mapping[str, Any],
    *,
    special_without_flags: bool = False,
) -> dict[str, frozenset[str]]:
    """Find the tokens that the files of a folder add to a tokenizer: name → flags, in the order of their new ids.

    Those of `added_tokens_decoder`, or else of added_tokens.json, come first, by id; then those of roles and of other
    fields `…_token`, and those of the lists, unless the tokenizer has them.

    Args:
        files: the content of the files.
        file_tokens: the added tokens that the tokenizer's own file lists, by name.
        defaults: the tokens of roles that the configuration does not have.
        special_without_flags: whether special tokens have no flags.

    Raises:
        FormatError: for entries that are not tokens.

    """
    config = read_configuration(files)
    extra_tokens = _check_tokens(config.get(EXTRA_FIELD, config.get(OLD_EXTRA_FIELD)), EXTRA_FIELD)
    tokens_with_ids, flags_with_ids = _list_tokens_given_ids(files, config, file_tokens)
    named_tokens = _list_named_tokens(config, defaults, flags_with_ids)
    special_names = {get_token_text(token) for token in named_tokens}
    special_names |= {name for name, token in file_tokens.items() if "ordinary" not in token.flags}
    flags_by_name = {name: token.flags for name, token in file_tokens.items()}

    def add_token(name: str, flags: frozenset[str]) -> None:
        """Add a token, or change its flags; special tokens stay special."""
        flags_by_name[name] = flags - ({"ordinary"} if name in special_names else set())
        if "ordinary" not in flags:
            special_names.add(name)

    for name, flags in tokens_with_ids:
        add_token(name, flags)
    known_names, added_keys = set(flags_by_name), set[Any]()
    for token in (*named_tokens, *extra_tokens):  # the last one that has a name decides its flags
        name, flags = get_token_text(token), _read_flags(token)
        key = token if isinstance(token, str) else (name, flags)
        if name and name not in known_names and key not in added_keys:
            added_keys.add(key)
            add_token(name, flags)
    if special_without_flags:
        flags_by_name |= {name: frozenset() for name in map(get_token_text, (*named_tokens, *extra_tokens)) if name}
    old_flags = {name: token.flags for name, token in file_tokens.items()}
    return {name: flags for name, flags in flags_by_name.items() if old_flags.get(name) != flags}


def _list_tokens_given_ids(
    files: Mapping[str, bytes],
    config: Mapping[str, Any],
    file_tokens: Mapping[str, FileToken],
) -> tuple[list[tuple[str, frozenset[str]]], dict[str, frozenset[str]]]:
    """List the name and the flags of each token that has an id in the files, in id order.

    Returns this list, and the flags by name, for roles that name such a token.

    Without an `added_tokens_decoder`, the tokens are those of added_tokens.json and of `file_tokens`; where both have a
    name or an id, `file_tokens` wins.
    """
    by_id: dict[int, tuple[str, frozenset[str]]] = {}
    entries = config.get(ADDED_TOKENS_FIELD)
    if entries is not None and not isinstance(entries, dict):
        raise FormatError(f"{short_repr(entries)} is not an object", where=f"{CONFIG_JSON}: {ADDED_TOKENS_FIELD}")
    for token_id, item in (entries or {}).items():
        where = f"{CONFIG_JSON}: {ADDED_TOKENS_FIELD}[{short_repr(token_id)}]"
        if not isinstance(item, dict) or not isinstance(item.get("content"), str) or not is_id(token_id):
            raise FormatError(f"{short_repr(item)} is not a token with an id and a content", where=where)
        by_id[int(token_id)] = item["content"], _read_flags(item)
    by_name = dict(by_id.values())
    if ADDED_TOKENS_FIELD not in config:
        special_names = _find_special_names(config)
        for content, token_id in read_object(files, ADDED_TOKENS_JSON).items():
            if type(token_id) is not int:
                raise FormatError(
                    f"{short_repr(token_id)} is not an id", where=f"{ADDED_TOKENS_JSON}[{short_repr(content)}]"
                )
            by_name[content] = frozenset() if content in special_names else frozenset({"normalized", "ordinary"})
            by_id[token_id] = content, by_name[content]
        by_name |= {name: token.flags for name, token in file_tokens.items()}
        by_id |= {token.id: (name, token.flags) for name, token in file_tokens.items()}
    return [by_id[token_id] for token_id in sorted(by_id) if by_id[token_id][0]], by_name


def _find_special_names(config: Mapping[str, Any]) -> set[str]:
    """Find the names that a configuration gives to special tokens; objects with a `__type` do not count."""
    tokens = [config.get(role) for role in ROLES] + (config.get(EXTRA_FIELD) or [])
    texts = (get_token_text(token) for token in tokens if not isinstance(token, dict) or "__type" not in token)
    return {text for text in texts if isinstance(text, str)}


def _list_named_tokens(
    config: dict[str, Any], defaults: Mapping[str, Any], flags: Mapping[str, frozenset[str]]
) -> list[Any]:
    """List the tokens of fields, each a str or an object: of roles, of fields of the model, and of a dict of them.

    Tokens of roles have the given `flags`, if there are any.
    """
    tokens: list[Any] = []
    for role in ROLES:
        token = config.get(role, defaults.get(role))
        name = get_token_text(token)
        if token is not None and not isinstance(name, str):
            raise FormatError(f"{short_repr(token)} is not a token", where=f"{CONFIG_JSON}: {role}")
        if role in config and name in flags:
            matching = {flag: flag in flags[name] for flag in MATCHING_FLAGS}
            token = {"content": name, **matching, "special": "ordinary" not in flags[name]}
        tokens.append(token)
    model_tokens = {name: token for name, token in config.items() if _is_token_field(name)}
    tokens += (model_tokens | read_field(config, CONFIG_JSON, MODEL_TOKENS_FIELD, dict, {})).values()
    return [token for token in tokens if isinstance(get_token_text(token), str)]


def _check_tokens(value: Any, name: str) -> list[Any]:
    """Return the tokens of a list, each a str or an object; none for a dict, whose tokens have names."""
    if isinstance(value, dict) or not value:
        return []
    if not isinstance(value, list):
        raise FormatError(f"{short_repr(value)} is not a list of tokens", where=name)
    for token in value:
        if not isinstance(get_token_text(token), str) or not get_token_text(token):
            raise FormatError(f"{short_repr(token)} is not a token", where=name)
    return value


def _read_flags(token: Any) -> frozenset[str]:
    """Return the flags of a token as the spec has them: a str is special; an object is if it says so."""
    if isinstance(token, str):
        return frozenset()
    is_special = token.get("special", False)
    flags = {flag for flag in MATCHING_FLAGS if token.get(flag, flag == "normalized" and not is_special)}
    return make_flags(flags, is_special=is_special)


def read_roles(
    config: Mapping[str, Any], special_tokens: Mapping[str, int], defaults: Mapping[str, Any]
) -> dict[str, str]:
    """Read the roles of a configuration, role → special token; `defaults` has the tokens of the other roles.

    A role whose token is no special token of the tokenizer is left out, and the log says so, unless it is a default.

    Raises:
        FormatError: for a token that is neither a string nor an object with one.

    """
    roles = {}
    for role in ROLES:
        value = config.get(role, defaults.get(role))
        token = get_token_text(value)
        if value is None:
            continue
        if not isinstance(token, str):
            raise FormatError(f"{short_repr(value)} is not a token", where=f"{CONFIG_JSON}: {role}")
        if token in special_tokens:
            roles[role] = token
        elif role in config and token:
            log.warning("%s: %s is %r, which is no special token; it has no role", CONFIG_JSON, role, token)
    return roles


def with_roles(spec: TokenizerSpec, files: Mapping[str, bytes]) -> TokenizerSpec:
    """Return the tokenizer with the roles that the configuration gives to its special tokens."""
    config = read_configuration(files)
    return replace(spec, roles=read_roles(config, spec.special_tokens, spec.roles)) if config else spec


def describe_added_tokens(spec: TokenizerSpec) -> dict[str, dict[str, Any]]:
    """Return the object of the field `added_tokens_decoder`: id → special token with its flags, in id order."""
    return {
        str(token_id): {
            "content": name,
            **{flag: flag in spec.token_flags.get(name, ()) for flag in MATCHING_FLAGS},
            "special": "ordinary" not in spec.token_flags.get(name, ()),
        }
        for name, token_id in sorted(spec.special_tokens.items(), key=lambda item: item[1])
    }


def read_chat_templates(files: Mapping[str, bytes]) -> dict[str, str]:
    """Read the chat templates of a folder: name → template.

    As in transformers 5, files of templates replace the field of tokenizer_config.json, which is a template or a list
    of named ones.

    Args:
        files: the content of tokenizer_config.json, of chat_template.jinja and of the files of the folder
            additional_chat_templates, by their paths with a slash; of those that exist.

    Raises:
        FormatError: for a field of another type, and a file that is not UTF-8.

    >>> read_chat_templates({CONFIG_JSON: b'{"chat_template": [{"name": "default", "template": "{{ messages }}"}]}'})
    {'default': '{{ messages }}'}

    """
    templates = {}
    for path, data in files.items():
        name = find_template_name(path)
        if name is not None:
            with with_path(None, path):
                templates[name] = decode_text(unpack(data), "a template must be UTF-8")
    if templates:
        return templates
    value = read_object(files, CONFIG_JSON).get("chat_template")
    if value is None:
        return {}
    items = [{"name": DEFAULT_TEMPLATE, "template": value}] if isinstance(value, str) else value
    if not isinstance(items, list) or not all(
        isinstance(item, dict) and isinstance(item.get("name"), str) and isinstance(item.get("template"), str)
        for item in items
    ):
        rule = "it must be a string, or a list of objects with a name and a template"
        raise FormatError(f"{short_repr(value)} is no chat template; {rule}", where=f"{CONFIG_JSON}: chat_template")
    return {item["name"]: item["template"] for item in items}


def find_template_name(path: str) -> str | None:
    """Find the name of the template in a file; None for a file with another content."""
    if path == CHAT_TEMPLATE_FILE:
        return DEFAULT_TEMPLATE
    folder, _, file_name = path.rpartition("/")
    return file_name.removesuffix(".jinja") if folder == CHAT_TEMPLATE_FOLDER else None


def write_chat_templates(templates: Mapping[str, str]) -> dict[str, bytes]:
    """Return the files of chat templates, path → content, as transformers 5 writes them in a folder.

    Raises:
        ValueError: for a name that cannot be a part of a file's name.

    """
    for name in templates:
        if re.fullmatch(r"\w[\w.-]*", name) is None:
            raise ValueError(
                f"a chat template has the name {short_repr(name)}, which is a part of a file's name; it must have only "
                "letters, digits, '_', '-' and '.'"
            )
    return {
        CHAT_TEMPLATE_FILE if name == DEFAULT_TEMPLATE else f"{CHAT_TEMPLATE_FOLDER}/{name}.jinja": source.encode()
        for name, source in templates.items()
    }


def find_unread_fields(files: Mapping[str, bytes]) -> list[str]:
    """List the fields of a configuration that no tokenizer of this package holds; they change no id.

    >>> config = b'{"padding_side": "left", "truncation_side": "right", "model_max_length": 1e30}'
    >>> find_unread_fields({CONFIG_JSON: config})
    ['padding_side']

    """
    config = read_object(files, CONFIG_JSON)
    limit = config.get("model_max_length")
    is_unread = {
        "model_max_length": isinstance(limit, (int, float)) and limit < _NO_LIMIT,
        "padding_side": config.get("padding_side", "right") != "right",
        "truncation_side": config.get("truncation_side", "right") != "right",
        "clean_up_tokenization_spaces": config.get("clean_up_tokenization_spaces") is True,
    }
    return [name for name, is_set in is_unread.items() if is_set]
