"""The registry of encodings: name → tokenizer, model → name.

Each tokenizer is built once. `bpe.compat.tiktoken` uses the same registry. The data of the encodings:
`bpe/formats/openai_encodings.py`.

Plugins are the modules of the namespace package `tiktoken_ext`. Each has a dict `ENCODING_CONSTRUCTORS`: the name of an
encoding → a function without arguments that returns the arguments of `tiktoken.Encoding` as a dict. tiktoken's own
module there (`openai_public`) is left out unless a call asks for it, because importing it imports tiktoken, and
`bpe/formats/openai_encodings.py` has its content.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from bpe.base.forks import make_lock
from bpe.errors import check_int, describe, short_repr, suggest, with_path
from bpe.formats.openai_encodings import ENCODINGS, FILES, MODEL_PREFIXES, MODELS
from bpe.formats.tiktoken import check_special_ids, from_ranks, parse_pattern, read, read_gpt2_ranks
from bpe.named import cache
from bpe.pretokenize.pretokenizer import Pretokenizer
from bpe.tokenizer import Tokenizer
from bpe.vocab.vocabulary import compute_id_limit

#: The namespace package of encodings that other packages define.
PLUGIN_NAMESPACE = "tiktoken_ext"
#: tiktoken's own module.
PUBLIC_PLUGIN = f"{PLUGIN_NAMESPACE}.openai_public"

#: Returns the arguments of `tiktoken.Encoding`: name, pat_str, mergeable_ranks, special_tokens, explicit_n_vocab.
Constructor = Callable[[], dict[str, Any]]

_lock = make_lock(sys.modules[__name__])
_encodings: dict[str, NamedEncoding] = {}


@dataclass(frozen=True, eq=False)
class NamedEncoding:
    """An encoding of the registry.

    Attributes:
        name: its own name, which a plugin may give another name in the registry.
        tokenizer: the tokenizer.
        pat_str: its pattern as tiktoken has it.
        special_tokens: name → id.
        ranks: the tokens that are not special → id, if a plugin gave them; None where the tokenizer has them all.

    """

    name: str
    tokenizer: Tokenizer
    pat_str: str
    special_tokens: Mapping[str, int]
    ranks: Mapping[bytes, int] | None = None


def get_encoding(name: str) -> Tokenizer:
    """Load the tokenizer of one of OpenAI's encodings, such as "cl100k_base", or of a tiktoken plugin. Its ids are
    those of tiktoken.

    `list_encoding_names` lists the names. The rank file is taken from the package bytepair-vocabularies, if that is
    installed, else from the cache folder: the one that TIKTOKEN_CACHE_DIR names, else DATA_GYM_CACHE_DIR, else `bpe` in
    the user's cache (or one of tiktoken's own). If it is not there, it is downloaded from OpenAI and put there. A file
    whose SHA-256 is not the published one is never used.

    Args:
        name: the name. A name that is not one of OpenAI's is looked up in the namespace `tiktoken_ext`.

    Returns:
        the tokenizer, with the special tokens of the encoding; the same object for each call.

    Raises:
        ValueError: for a name that is neither OpenAI's nor a plugin's, and a download with another SHA-256.
        TypeError: if the name is not a str.
        OSError: for a file that is not installed or cached and cannot be downloaded; it says where to put it.

    """
    return load_encoding(name).tokenizer


def encoding_for_model(model_name: str) -> Tokenizer:
    """Load the tokenizer of one of OpenAI's models, such as "gpt-4o"; `get_encoding` says where it comes from.

    Args:
        model_name: the name of the model, or one that begins like a known one ("gpt-4o-2024-05-13").

    Raises:
        KeyError: for a model that is not known.
        TypeError, OSError, ValueError: as for `get_encoding`.

    """
    return get_encoding(encoding_name_for_model(model_name))


def encoding_name_for_model(model_name: str) -> str:
    """Find the name of the encoding that a model uses.

    Raises:
        KeyError: for a model that is not known.
        TypeError: if the name is not a str.

    >>> encoding_name_for_model("gpt-4o"), encoding_name_for_model("gpt-4-0314")
    ('o200k_base', 'cl100k_base')

    """
    if not isinstance(model_name, str):
        raise TypeError(f"model_name is {describe(model_name)}; it must be the name of a model, such as 'gpt-4o'")
    if model_name in MODELS:
        return MODELS[model_name]
    for prefix, name in MODEL_PREFIXES.items():
        if model_name.startswith(prefix):
            return name
    raise KeyError(
        f"model_name is {model_name!r}, whose encoding is not known{suggest(model_name, MODELS)}; use get_encoding "
        "with the name of its encoding, "
        f"one of {', '.join(map(repr, ENCODINGS))}"
    )


def list_encoding_names() -> list[str]:
    """List the names that `get_encoding` takes: OpenAI's, and those of plugins in the namespace `tiktoken_ext`.

    Raises:
        ValueError: for a plugin without encodings, and for a name that is defined twice.

    >>> list_encoding_names()[:7]
    ['gpt2', 'r50k_base', 'p50k_base', 'p50k_edit', 'cl100k_base', 'o200k_base', 'o200k_harmony']

    """
    return [*ENCODINGS, *_load_constructors()]


def load_encoding(name: str) -> NamedEncoding:
    """Load the encoding of a name; errors are those of `get_encoding`."""
    if not isinstance(name, str):
        raise TypeError(f"name is {describe(name)}; it must be the name of an encoding, such as 'cl100k_base'")
    encoding = _encodings.get(name)
    if encoding is None:
        with _lock:  # other threads wait for the file instead of downloading it too
            encoding = _encodings.get(name)
            if encoding is None:
                encoding = _encodings[name] = _build_published(name) if name in ENCODINGS else _build_from_plugin(name)
    return encoding


def _build_published(name: str) -> NamedEncoding:
    """Build one of OpenAI's encodings."""
    encoding = ENCODINGS[name]
    pretokenizer = Pretokenizer(encoding.pattern)
    names = encoding.files
    if encoding.equivalent_files and not _are_cached(names) and _are_cached(encoding.equivalent_files):
        names = encoding.equivalent_files
    files = [FILES[file] for file in names]
    contents = [cache.fetch_published(file, *files[i + 1 :]) for i, file in enumerate(files)]
    if len(contents) == 2:
        spec = from_ranks(read_gpt2_ranks(*contents), pretokenizer, encoding.special_tokens)
    else:
        with with_path(files[0].address):
            spec = read(contents[0], pretokenizer, encoding.special_tokens, shared_ids=True)
    tokenizer = Tokenizer(spec)
    check_n_vocab(name, encoding.n_vocab, tokenizer.vocab_size, tokenizer.n_vocab - 1)
    return NamedEncoding(name, tokenizer, pretokenizer.pattern, dict(encoding.special_tokens))


def is_cached(name: str) -> bool:
    """Whether the files of one of OpenAI's encodings are installed or in the cache."""
    encoding = ENCODINGS[name]
    return _are_cached(encoding.files) or bool(encoding.equivalent_files and _are_cached(encoding.equivalent_files))


def explain_absence(name: str) -> str:
    """Explain where to put the files of one of OpenAI's encodings that are not cached."""
    folders = cache.list_folders()
    addresses = " and ".join(FILES[file].address for file in ENCODINGS[name].files)
    if not folders:
        return f"{name} is not installed, and {cache.FOLDER_VARIABLES[0]} turns the cache off"
    return f"{name} is not in the cache {folders[0]}; put {addresses} there"


def _are_cached(names: tuple[str, ...]) -> bool:
    return all(cache.is_cached(FILES[name]) for name in names)


def _build_from_plugin(name: str) -> NamedEncoding:
    """Build an encoding that a module of `tiktoken_ext` defines."""
    constructor = _load_constructors().get(name) or _find_public_constructor(name)
    if constructor is None:
        installed = ", ".join(_list_plugins()) or "none is installed"
        raise ValueError(
            f"encoding {short_repr(name)} is not known{suggest(name, list_encoding_names())}; OpenAI's are "
            f"{', '.join(map(repr, ENCODINGS))}, and the "
            f"modules of {PLUGIN_NAMESPACE} ({installed}) do not define it"
        )
    return build_encoding(**constructor())


def build_encoding(
    name: str,
    *,
    pat_str: str,
    mergeable_ranks: Mapping[bytes, int],
    special_tokens: Mapping[str, int],
    explicit_n_vocab: int | None = None,
) -> NamedEncoding:
    """Build an encoding from the arguments of `tiktoken.Encoding`.

    Raises:
        TypeError, ValueError: for arguments that do not fit together.
        OverflowError: for an id that is not from 0 to 2**32 - 1.

    """
    if not isinstance(mergeable_ranks, Mapping):
        raise TypeError(f"mergeable_ranks is {describe(mergeable_ranks)}; it must map bytes to int")
    try:
        special: dict[str, Any] = check_special_ids(special_tokens)
        spec = from_ranks(mergeable_ranks, parse_pattern(pat_str), special)
    except ValueError as error:
        ids = [
            token_id for token_id in (*mergeable_ranks.values(), *special_tokens.values()) if isinstance(token_id, int)
        ]
        largest, limit = max(ids, default=0), compute_id_limit(len(ids))
        if largest >= 1 << 32 or min(ids, default=0) < 0:
            raise OverflowError(str(error)) from None
        if largest < limit:
            raise
        raise ValueError(
            f"the largest id is {largest}; the ids of {len(ids)} tokens must be below {limit}, since tables have a "
            "row for each id: give the last tokens smaller ids, such as those right after the others"
        ) from None
    tokenizer = Tokenizer(spec)
    largest = max(max(mergeable_ranks.values()), max(special.values(), default=0))
    check_n_vocab(name, explicit_n_vocab, len(mergeable_ranks) + len(special), largest)
    return NamedEncoding(name, tokenizer, pat_str, special_tokens, mergeable_ranks)


def check_n_vocab(name: str, n_vocab: int | None, n_tokens: int, largest: int) -> None:
    """Check the number of tokens that an encoding is known to have.

    Raises:
        TypeError: for a number that is no int.
        ValueError: for another number of tokens, or gaps between their ids.

    """
    n_vocab = None if n_vocab is None else check_int("explicit_n_vocab", n_vocab, 0)
    if n_vocab and (n_tokens != n_vocab or largest != n_vocab - 1):
        raise ValueError(
            f"explicit_n_vocab of {name!r} is {n_vocab}, but there are {n_tokens} tokens, special tokens included, and "
            f"the largest id is {largest}; there must be {n_vocab} tokens with the ids from 0 to {n_vocab - 1}"
        )


# Plugins --------------------------------------------------------------------------------------------------------------


def _list_plugins() -> list[str]:
    """List the modules in the namespace, tiktoken's own included; nothing but the namespace is imported."""
    import pkgutil  # it takes 1 ms to import

    try:
        namespace = import_module(PLUGIN_NAMESPACE)
    except ModuleNotFoundError:
        return []
    return [module.name for module in pkgutil.iter_modules(namespace.__path__, f"{PLUGIN_NAMESPACE}.")]


def _load_constructors() -> dict[str, Constructor]:
    """Import all modules of the namespace but tiktoken's own; returns name → constructor of their encodings.

    Raises:
        ValueError: for a module without ENCODING_CONSTRUCTORS, and for a name that is defined twice.

    """
    constructors: dict[str, Constructor] = {}
    for module in _list_plugins():
        if module == PUBLIC_PLUGIN:
            continue
        for name, constructor in _read_constructors(module):
            if name in constructors or name in ENCODINGS:
                raise ValueError(
                    f"the tiktoken plugin {module} defines the encoding {name!r}, which exists already; uninstall one "
                    "of the packages that define it"
                )
            constructors[name] = constructor
    return constructors


def _find_public_constructor(name: str) -> Constructor | None:
    """Find the constructor of an encoding in tiktoken's own module, if tiktoken is installed and has it."""
    if PUBLIC_PLUGIN not in _list_plugins():
        return None
    return dict(_read_constructors(PUBLIC_PLUGIN)).get(name)


def _read_constructors(module: str) -> Iterator[tuple[str, Constructor]]:
    """Read the constructors of one module."""
    try:
        constructors = import_module(module).ENCODING_CONSTRUCTORS
    except AttributeError:
        raise ValueError(
            f"the tiktoken plugin {module} does not define ENCODING_CONSTRUCTORS, a dict from the name of an encoding "
            "to a function; correct the package that it belongs to"
        ) from None
    yield from constructors.items()
