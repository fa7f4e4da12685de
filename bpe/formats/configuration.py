"""`tokenizer_config.json`, `special_tokens_map.json` and `added_tokens.json`, which `transformers` writes in a folder.

Read here: the tokens that they add to those of the tokenizer's own file, as AutoTokenizer of transformers 5 adds them,
the roles of special tokens, and which fields no other file holds. Not here: the fields that stand for a pretokenizer
(`vocab_merges.py`, `tiktoken_folder.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bpe.errors import FormatError, shown
from bpe.formats.json_fields import is_id, load
from bpe.formats.packed import unpacked
from bpe.vocab.spec import FLAGS, ROLES, TokenizerSpec

log = logging.getLogger("bpe")

CONFIG, SPECIAL_MAP, ADDED = "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"
#: The files that say which tokens are added, and which roles they have.
FILES = (CONFIG, SPECIAL_MAP, ADDED)
#: Fields with more special tokens; the second is the name in transformers 5.
LISTS = ("additional_special_tokens", "extra_special_tokens")
#: The file that holds the chat template since transformers 4.54, instead of a field of the configuration.
CHAT_TEMPLATE = "chat_template.jinja"
#: What `transformers` writes as `model_max_length` where there is no limit is more than this.
_NO_LIMIT = 10**20


def json_object(files: Mapping[str, bytes], name: str, path: str | None) -> dict[str, Any]:
    """The JSON object in a file; empty if there is no such file.

    Raises:
        FormatError: for anything else.

    """
    if name not in files:
        return {}
    try:
        value = load(unpacked(files[name], path))
    except FormatError as error:
        where = f"{name}, {error.where}" if error.where else name
        raise FormatError(error.message, path=path, where=where) from None
    if not isinstance(value, dict):
        raise FormatError(f"{shown(value)} is not an object", path=path, where=name)
    return value


def configuration(files: Mapping[str, bytes], path: str | None) -> dict[str, Any]:
    """The fields of tokenizer_config.json and special_tokens_map.json.

    As in transformers 5, the map holds where both have a role, and is ignored beside an `added_tokens_decoder`.
    """
    config = json_object(files, CONFIG, path)
    if "added_tokens_decoder" in config:
        return _rename_list(config)
    mapped = json_object(files, SPECIAL_MAP, path)
    both = [_tokens_of(each.get(LISTS[1]), LISTS[1], path) for each in (config, mapped)]
    if all(isinstance(each.get(LISTS[1]), list) for each in (config, mapped)):
        mapped[LISTS[1]] = [token for tokens in both for token in tokens]
    others = {name: token for name, token in config.items() if _is_field_of_model(name)}
    return {**_rename_list(config), **mapped, **others}


def _is_field_of_model(name: str) -> bool:
    """Whether a field has a token that only some models have, such as image_token."""
    return name.endswith("_token") and name not in ROLES


def _rename_list(config: dict[str, Any]) -> dict[str, Any]:
    """The fields with the list of more special tokens under the name of transformers 5."""
    if LISTS[0] in config and not config.get(LISTS[1]):
        return {**{name: value for name, value in config.items() if name != LISTS[0]}, LISTS[1]: config[LISTS[0]]}
    return config


def token_text(token: Any) -> Any:
    """The text of a special token, which is a string or an object with flags."""
    return token.get("content") if isinstance(token, dict) else token


def find_added_tokens(
    files: Mapping[str, bytes],
    own: Mapping[str, tuple[int, frozenset[str]]],
    defaults: Mapping[str, Any],
    path: str | None,
    *,
    plain: bool = False,
) -> dict[str, frozenset[str]]:
    """The tokens that the files of a folder add to a tokenizer, name → flags, in the order in which they get ids.

    Those of `added_tokens_decoder`, or else of added_tokens.json, come first, by id; then those of roles and of other
    fields `…_token`, and those of the lists, unless the tokenizer has them.

    Args:
        files: the content of the files.
        own: the added tokens that the tokenizer's own file lists, name → id and flags.
        defaults: the tokens of roles that the configuration does not have.
        path: the folder, for errors.
        plain: whether special tokens have no flags.

    Raises:
        FormatError: for tokens that are none.

    """
    config = configuration(files, path)
    named = _named_tokens(config, defaults, path)
    extra = config.get(LISTS[1], config.get(LISTS[0]))
    listed = _tokens_of(config.get(LISTS[0]) if isinstance(extra, dict) else extra, LISTS[1], path)
    known_special = [config.get(role, defaults.get(role)) for role in ROLES]
    known_special += extra if isinstance(extra, list) and LISTS[1] in config else []
    texts = {token for token in known_special if isinstance(token, str)}
    names = {token_text(token) for token in named}
    numbered = _numbered_tokens(files, config, texts, {number for number, _ in own.values()}, path)
    found: dict[str, frozenset[str]] = {}
    if "added_tokens_decoder" not in config:
        ordinary = {name: flags for name, (_, flags) in own.items() if name in names and "ordinary" in flags}
        found = {name: flags - {"ordinary"} for name, flags in ordinary.items()}
    special = names | {name for name, (_, flags) in own.items() if "ordinary" not in flags}  # these stay special
    for token in numbered:
        name = token["content"]
        flags = _flags_of(token) - ({"ordinary"} if name in special else set())
        if name not in own or flags != own[name][1]:
            found[name] = flags
    known = {*own, *found}
    for token in (*named, *listed):  # the last one that has a name decides its flags
        name = token_text(token)
        if name and name not in known:
            stays = name in names or "ordinary" not in found.get(name, {"ordinary"})
            found[name] = _flags_of(token) - ({"ordinary"} if stays else set())
    return {**found, **dict.fromkeys(map(token_text, (*named, *listed)), frozenset())} if plain else found


def _numbered_tokens(
    files: Mapping[str, bytes], config: Mapping[str, Any], special: set[str], taken: set[int], path: str | None
) -> list[dict[str, Any]]:
    """The tokens that the files give ids, by these; added_tokens.json none that is `taken`."""
    found: dict[int, dict[str, Any]] = {}
    listed = config.get("added_tokens_decoder")
    if listed is not None and not isinstance(listed, dict):
        raise FormatError(f"{shown(listed)} is not an object", path=path, where=f"{CONFIG}: added_tokens_decoder")
    for number, item in (listed or {}).items():
        where = f"{CONFIG}: added_tokens_decoder[{shown(number)}]"
        if not isinstance(item, dict) or not isinstance(item.get("content"), str) or not is_id(number):
            raise FormatError(f"{shown(item)} is not a token with an id and a content", path=path, where=where)
        found[int(number)] = item
    for content, number in json_object(files, ADDED, path).items() if listed is None else ():
        if type(number) is not int:
            raise FormatError(f"{shown(number)} is not an id", path=path, where=f"{ADDED}[{shown(content)}]")
        if number not in taken:
            found[number] = {"content": content, "special": content in special}
    return [found[number] for number in sorted(found) if found[number]["content"]]


def _named_tokens(config: Mapping[str, Any], defaults: Mapping[str, Any], path: str | None) -> list[Any]:
    """The tokens of fields, each a str or an object: those of roles, of fields of the model, and a dict of them."""
    found = {role: config.get(role, defaults.get(role)) for role in ROLES}
    for role, token in found.items():
        if token is not None and not isinstance(token_text(token), str):
            raise FormatError(f"{shown(token)} is not a token", path=path, where=f"{CONFIG}: {role}")
    others = {name: token for name, token in config.items() if _is_field_of_model(name)}
    extra = config.get(LISTS[1], config.get(LISTS[0]))
    others |= extra if isinstance(extra, dict) else {}
    return [token for token in (*found.values(), *others.values()) if isinstance(token_text(token), str)]


def _tokens_of(value: Any, name: str, path: str | None) -> list[Any]:
    """The tokens of a list, each a str or an object; none of a dict, whose tokens have names."""
    if isinstance(value, dict) or not value:
        return []
    if not isinstance(value, list):
        raise FormatError(f"{shown(value)} is not a list of tokens", path=path, where=name)
    for token in value:
        if not isinstance(token_text(token), str) or not token_text(token):
            raise FormatError(f"{shown(token)} is not a token", path=path, where=name)
    return value


def _flags_of(token: Any) -> frozenset[str]:
    """The flags of a token as the spec has them: a str is special; an object is if it says so."""
    if isinstance(token, str):
        return frozenset()
    own = token.get("special", False)
    flags = {flag for flag in FLAGS[1:] if token.get(flag, flag == "normalized" and not own)}
    return frozenset(flags if own else {*flags, "ordinary"})


def read_roles(
    config: Mapping[str, Any], special_tokens: Mapping[str, int], defaults: Mapping[str, Any], path: str | None
) -> dict[str, str]:
    """Role → special token, by a configuration and by what holds for the roles that it does not have.

    A role whose token is no special token of the tokenizer is left out, and the log says so, unless it is a default.

    Raises:
        FormatError: for a token that is neither a string nor an object with one.

    """
    roles = {}
    for role in ROLES:
        value = config.get(role, defaults.get(role))
        token = token_text(value)
        if value is None:
            continue
        if not isinstance(token, str):
            raise FormatError(f"{shown(value)} is not a token", path=path, where=f"{CONFIG}: {role}")
        if token in special_tokens:
            roles[role] = token
        elif role in config and token:
            log.warning("%s: %s is %r, which is no special token; it has no role", path or CONFIG, role, token)
    return roles


def with_roles(spec: TokenizerSpec, files: Mapping[str, bytes], path: str | None) -> TokenizerSpec:
    """The tokenizer with the roles that the configuration gives to its special tokens."""
    config = configuration(files, path)
    return replace(spec, roles=read_roles(config, spec.special_tokens, spec.roles, path)) if config else spec


def unread(files: Mapping[str, bytes], path: str | None) -> list[str]:
    """What the configuration says that a tokenizer of this package does not hold; it changes no id.

    >>> unread({CONFIG: b'{"chat_template": "{{ messages }}", "padding_side": "left", "model_max_length": 1e30}'}, None)
    ['chat_template', 'padding_side']

    """
    config = json_object(files, CONFIG, path)
    limit = config.get("model_max_length")
    lost = {
        "chat_template": CHAT_TEMPLATE in files or bool(config.get("chat_template")),
        "model_max_length": isinstance(limit, (int, float)) and limit < _NO_LIMIT,
        "padding_side": config.get("padding_side", "right") != "right",
        "truncation_side": config.get("truncation_side", "right") != "right",
        "clean_up_tokenization_spaces": config.get("clean_up_tokenization_spaces") is True,
    }
    return [name for name, is_lost in lost.items() if is_lost]
