"""Encodings that other packages define: the modules of the namespace package `tiktoken_ext`.

Each module has a dict `ENCODING_CONSTRUCTORS`: the name of an encoding → a function without arguments that returns the
arguments of `tiktoken.Encoding` as a dict. tiktoken's own module there (`openai_public`) is left out unless it is asked
for, because importing it imports tiktoken, and `bpe/formats/openai_encodings.py` has its content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from bpe.formats.openai_encodings import ENCODINGS

NAMESPACE = "tiktoken_ext"
#: tiktoken's own module.
PUBLIC = f"{NAMESPACE}.openai_public"

#: Returns the arguments of `tiktoken.Encoding`: name, pat_str, mergeable_ranks, special_tokens, explicit_n_vocab.
Constructor = Callable[[], dict[str, Any]]


def list_modules() -> list[str]:
    """The names of the modules in the namespace, tiktoken's own included; nothing but the namespace is imported."""
    import pkgutil  # it takes 1 ms to import

    try:
        namespace = import_module(NAMESPACE)
    except ModuleNotFoundError:
        return []
    return [module.name for module in pkgutil.iter_modules(namespace.__path__, f"{NAMESPACE}.")]


def load_constructors() -> dict[str, Constructor]:
    """Name → constructor of the encodings in all modules but tiktoken's own, which are imported.

    Raises:
        ValueError: for a module without ENCODING_CONSTRUCTORS, and for a name that is defined twice.

    """
    constructors: dict[str, Constructor] = {}
    for module in list_modules():
        if module == PUBLIC:
            continue
        for name, constructor in _list_defined(module):
            if name in constructors or name in ENCODINGS:
                raise ValueError(
                    f"the tiktoken plugin {module} defines the encoding {name!r}, which exists already; uninstall one "
                    "of the packages that define it"
                )
            constructors[name] = constructor
    return constructors


def public_constructor(name: str) -> Constructor | None:
    """The constructor of an encoding in tiktoken's own module, if tiktoken is installed and has it."""
    if PUBLIC not in list_modules():
        return None
    return dict(_list_defined(PUBLIC)).get(name)


def _list_defined(module: str) -> Iterator[tuple[str, Constructor]]:
    """The encodings of one module."""
    try:
        constructors = import_module(module).ENCODING_CONSTRUCTORS
    except AttributeError:
        raise ValueError(
            f"the tiktoken plugin {module} does not define ENCODING_CONSTRUCTORS, a dict from the name of an encoding "
            "to a function; correct the package that it belongs to"
        ) from None
    yield from constructors.items()
