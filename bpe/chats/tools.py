"""Functions as tools: the JSON schema of a Python function, from its type hints and its docstring.

A schema has the function's name, its description, and the type and the description of each parameter. The docstring is
in Google's style. Schemas are those of transformers; functions that transformers refuses are refused.

Source: `get_json_schema` in `utils/chat_template_utils.py` of transformers 5.24.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from bpe.errors import raise_if_of_signal_handler, short_repr

Schema = dict[str, Any]

#: JSON's types by those of Python: of values that a schema may list, and all.
_SCALAR_TYPES = {int: "integer", float: "number", str: "string", bool: "boolean", NoneType: "null"}
_JSON_TYPES = {**_SCALAR_TYPES, list: "array", tuple: "array", dict: "object"}
#: The types of what some models read besides text, by their names, since the packages need not be installed.
_MEDIA_TYPES = {"PIL.Image.Image": "image", "torch.Tensor": "audio"}

_SECTION = re.compile("Args:|Returns:|Raises:")
_ARGS = re.compile(r"\n\s*Args:\n(.*?)\s*(?:Returns:|Raises:|\Z)", re.DOTALL)
_RETURNS = re.compile(r"\n\s*Returns:\n\s*(.*?)\s*(?:Raises:|\Z)", re.DOTALL)
#: What follows the name of a parameter: at times its type, and a colon.
_COLON = r"(?:[ \t]*\([^()\n]*\))?:"
#: Indentation, name and description of a parameter, which ends before a name that is not indented deeper.
_PARAMETER = re.compile(rf"(?:^|\n)([ \t]*)(\w+){_COLON}\s*(.*?)\s*(?=\n(?!\1[ \t])[ \t]*\w+{_COLON}|\Z)", re.DOTALL)
#: The values of a parameter, at the end of its description.
_CHOICES = re.compile(r"\(choices:\s*(.*?)\)\s*$", re.IGNORECASE)


class _Documentation(NamedTuple):
    """What a docstring says: of the function, of each parameter, and of the result, None for nothing."""

    description: str
    parameters: dict[str, str]
    result: str | None


def make_schema(function: Callable[..., Any]) -> Schema:
    """Make the JSON schema of a function.

    Args:
        function: a function or a method. Each parameter has a type hint and a description; a first parameter `self` or
            `cls` without a hint is left out.

    Raises:
        ValueError: for a function without a docstring, for a parameter without a type hint or a description, and for a
            type that JSON does not have.

    >>> def add(a: int, b: int | None = None):
    ...     '''Add numbers.
    ...
    ...     Args:
    ...         a: a number.
    ...         b: another one.
    ...     '''
    >>> make_schema(add)["function"]["parameters"]["properties"]["b"]
    {'type': 'integer', 'nullable': True, 'description': 'another one.'}

    """
    name = getattr(function, "__name__", "operation")
    try:
        documentation = _read_docstring(inspect.getdoc(function))
        parameters, result = _read_signature(function)
        for parameter, schema in parameters["properties"].items():
            _describe_parameter(schema, parameter, documentation)
    except ValueError as error:
        raise ValueError(f"tool {short_repr(name)}: {error}; or pass its JSON schema, a dict, in its place") from None
    schema = {"name": name, "description": documentation.description, "parameters": parameters}
    if result is not None:
        schema["return"] = result if documentation.result is None else {**result, "description": documentation.result}
    return {"type": "function", "function": schema}


def _read_docstring(text: str | None) -> _Documentation:
    """Read a docstring in Google's style."""
    text = (text or "").strip()
    if not text:
        raise ValueError("it has no docstring; write one, with a section `Args:` that describes each parameter")
    args, result = _ARGS.search(text), _RETURNS.search(text)
    lines = args[1].split("\n") if args else []
    descriptions = _PARAMETER.findall("\n".join(line for line in lines if line.strip()))
    return _Documentation(
        _SECTION.split(text, maxsplit=1)[0].strip(),
        {name: re.sub(r"\s*\n+\s*", " ", description.strip()) for _, name, description in descriptions},
        result[1] if result else None,
    )


def _read_signature(function: Callable[..., Any]) -> tuple[Schema, Schema | None]:
    """Read the types of the parameters, as a schema of an object, and of the result: None if JSON has none for it."""
    try:
        signature = inspect.signature(function).parameters
        hints = get_type_hints(function)
    except Exception as error:  # noqa: BLE001  # a hint is any expression; Python 3.14 evaluates it here, others a str
        raise_if_of_signal_handler(error)
        raise ValueError(f"a type hint cannot be resolved: {error}; define it where the function is defined") from None
    receiver = next(iter(signature), None)
    if receiver not in ("self", "cls") or signature[receiver].annotation is not inspect.Parameter.empty:
        receiver = None
    required = []
    for name, parameter in signature.items():
        if name == receiver:
            continue
        if parameter.annotation is inspect.Parameter.empty:
            raise ValueError(f"its parameter {name} has no type hint; give it one, such as `{name}: str`")
        if parameter.default is inspect.Parameter.empty:
            required.append(name)
    result = None
    if "return" in hints:
        with suppress(ValueError):  # most templates ignore it
            result = _convert_hint(hints.pop("return"))
    parameters = {
        "type": "object",
        "properties": {name: _convert_hint(hint) for name, hint in hints.items() if name != receiver},
    }
    return parameters | ({"required": required} if required else {}), result


def _describe_parameter(schema: Schema, name: str, documentation: _Documentation) -> None:
    """Add a parameter's description to its schema, and the values that it lists."""
    description = documentation.parameters.get(name)
    if description is None:
        raise ValueError(f"its docstring does not describe {name}; add `{name}: …` to its section `Args:`")
    choices = _CHOICES.search(description)
    if choices:
        schema["enum"] = _read_choices(choices[1], name)
        description = description[: choices.start()].strip()
    schema["description"] = description


def _read_choices(text: str, name: str) -> list[Any]:
    """Read the values of a parameter, such as '["tea", "coffee"]'."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, list):
        raise ValueError(f'the choices of {name} are {short_repr(text)}; write a list of JSON, as in ["tea", "coffee"]')
    return [value.strip() if isinstance(value, str) else value for value in values]


def _convert_hint(hint: Any) -> Schema:
    """Convert a type hint to a schema.

    >>> _convert_hint(list[int]), _convert_hint(int | str), _convert_hint(Literal["tea", 1])
    ({'type': 'array', 'items': {'type': 'integer'}}, {'type': ['integer', 'string']}, {'type': ['string', 'integer'], \
'enum': ['tea', 1]})
    """
    origin, args = get_origin(hint), get_args(hint)
    if origin is None:
        return _convert_class(hint)
    if origin in (Union, UnionType):
        return _convert_union(args)
    if origin is Literal:
        return _list_values(hint, list(args))
    if origin is list:
        return {"type": "array", **({"items": _convert_hint(args[0])} if args else {})}
    if origin is tuple:
        if len(args) == 1 or ... in args:
            raise ValueError(f"the type {_spell(hint)} has one element, or any number; make it a list")
        return {"type": "array", **({"prefixItems": [_convert_hint(item) for item in args]} if args else {})}
    if origin is dict:
        return {"type": "object", **({"additionalProperties": _convert_hint(args[1])} if args else {})}
    raise ValueError(_explain_no_type(hint))


def _convert_class(hint: Any) -> Schema:
    """Convert a type hint without parameters."""
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _list_values(hint, [member.value for member in hint])
    if hint is Any:
        return {}
    name = _JSON_TYPES.get(hint) if isinstance(hint, type) else None
    name = name or _MEDIA_TYPES.get(_spell(hint))
    if name is None:
        raise ValueError(_explain_no_type(hint))
    return {"type": name}


def _convert_union(types: tuple[Any, ...]) -> Schema:
    """Convert a union: None makes it nullable, and types without more than a name become a list of names."""
    schemas = [_convert_hint(hint) for hint in types if hint is not NoneType]
    if len(schemas) == 1:
        schema = schemas[0]
    elif all(schema.keys() == {"type"} and isinstance(schema["type"], str) for schema in schemas):
        names = sorted({schema["type"] for schema in schemas})
        schema = {"type": names[0] if len(names) == 1 else names}
    else:
        schema = {"anyOf": schemas}
    return {**schema, **({"nullable": True} if NoneType in types else {})}


def _list_values(hint: Any, values: list[Any]) -> Schema:
    """Convert an Enum or a Literal to the list of its values."""
    if not values or any(type(value) not in _SCALAR_TYPES for value in values):
        raise ValueError(f"the type {_spell(hint)} has the values {short_repr(values)}; they must be JSON's scalars")
    names = list(dict.fromkeys(_SCALAR_TYPES[type(value)] for value in values))
    return {"type": names[0] if len(names) == 1 else names, "enum": values}


def _explain_no_type(hint: Any) -> str:
    return (
        f"the type {_spell(hint)} is none of JSON's; use int, float, str, bool, an Enum, a Literal, or list, tuple, "
        "dict and unions of these"
    )


def _spell(hint: Any) -> str:
    """Spell a type hint for a message: the name of a class with its module."""
    if isinstance(hint, type) and get_origin(hint) is None:
        return hint.__qualname__ if hint.__module__ == "builtins" else f"{hint.__module__}.{hint.__qualname__}"
    return str(hint).replace("typing.", "")
