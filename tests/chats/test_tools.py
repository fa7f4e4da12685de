"""Schemas of functions, which are those of transformers."""

# ruff: noqa: UP007, UP045, PYI061

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, Optional, Union

import pytest

from bpe.chats.tools import make_schema


class Colour(enum.Enum):
    RED = "red"
    BLUE = 2


class Number(enum.IntEnum):
    ONE = 1


class NoValue(enum.Enum):
    pass


class Odd(enum.Enum):
    TUPLE = (1, 2)


#: Types of parameters that both libraries take.
HINTS: list[Any] = [
    int, float, str, bool, None, list, tuple, dict, Any, list[int], list[Any], dict[str, int], dict[str, list[Any]],
    tuple[int, str], tuple[int, list[float]], Optional[int], int | None, Union[int, str], str | int | None, Colour,
    Number, Literal["tea", "coffee"], Literal[1, "one", None, True], Optional[Literal["a"]], list[int] | None,
    Union[list, tuple], Union[int, list[int]], list[Colour], None | dict[str, Any], Colour | int,
    Optional[Any], Union[int, Any], list[int | str | None],
]  # fmt: skip
#: Types that neither takes.
REFUSED_HINTS: list[Any] = [
    bytes, complex, object, set[int], Sequence[int], tuple[int], tuple[int, ...], NoValue, Odd, Literal[b"x"],
    list[bytes], Callable[[], int], 5, Colour.RED,
]  # fmt: skip


def make_function(hint: Any, **hints: Any) -> Callable[..., Any]:
    def function(value: Any, other: Any = 1) -> None:
        """Describe it.

        Args:
            value: a value
            other: another one
        """

    function.__annotations__ = {"value": hint, "other": int, **hints}
    return function


def find_flights(
    city: str, date: str = "today", *, stops: int | None = None, seat: Literal["aisle", "window"] = "aisle"
) -> dict[str, list[float]]:
    """Find flights to a city.

    Takes a while: the airlines are asked.

    Args:
        city (str): where to, such as "Paris": a name,
            or a code
        date: the day
          in words:
              today, or tomorrow

        stops (`int`, *optional*): the most stops
        seat: where to sit (choices: ["aisle ", "window"])

    Returns:
        the prices in euros, by airline

    Raises:
        ValueError: for no city.
    """


def with_odd_sections(x: int, y: str) -> int:
    """Returns: nothing of this is description
    Args:
      x: one (Choices: [1, 2])
      y (a type): two
      z: not a parameter
    Raises:
      never: anything
    """
    return 0


def without_result_text(x: int) -> bytes:
    """
    No summary line at once.

    Args:
        x: a Returns: in the middle
    """
    return b""


def with_many(*numbers: int, **names: str) -> None:
    """Take any number.

    Args:
        numbers: numbers
        names: names
    """


class Shop:
    def sell(self, item: str) -> bool:
        """Sell an item.

        Args:
            item: what
        """
        return True

    @classmethod
    def open(cls, day: Literal["Monday"] = "Monday"):
        """Open on a day.

        Args:
            day: when
        """

    def typed(self: Any, item: str):
        """Sell.

        Args:
            self: the shop
            item: what
        """


FUNCTIONS: list[Callable[..., Any]] = [
    find_flights, with_odd_sections, without_result_text, with_many, Shop().sell, Shop.sell, Shop.open, Shop.typed,
    *map(make_function, HINTS), *(make_function(int, **{"return": hint}) for hint in [*HINTS, *REFUSED_HINTS]),
]  # fmt: skip


def test_a_schema_by_hand() -> None:
    assert make_schema(find_flights) == {
        "type": "function",
        "function": {
            "name": "find_flights",
            "description": "Find flights to a city.\n\nTakes a while: the airlines are asked.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": 'where to, such as "Paris": a name, or a code'},
                    "date": {"type": "string", "description": "the day in words: today, or tomorrow"},
                    "stops": {"type": "integer", "nullable": True, "description": "the most stops"},
                    "seat": {"type": "string", "enum": ["aisle", "window"], "description": "where to sit"},
                },
                "required": ["city"],
            },
            "return": {
                "type": "object",
                "additionalProperties": {"type": "array", "items": {"type": "number"}},
                "description": "the prices in euros, by airline",
            },
        },
    }


def test_schemas_are_those_of_transformers() -> None:
    utils = pytest.importorskip("transformers.utils", reason="needs transformers 5")
    for index, function in enumerate(FUNCTIONS):
        schema, expected = make_schema(function), utils.get_json_schema(function)
        assert repr(schema) == repr(expected), index  # the order of fields too, which templates write


@pytest.mark.parametrize("index", range(len(REFUSED_HINTS)))
def test_types_that_json_does_not_have_are_refused(index: int) -> None:
    function = make_function(REFUSED_HINTS[index])
    with pytest.raises(ValueError, match=r"^tool 'function': .*; or pass its JSON schema, a dict, in its place$"):
        make_schema(function)
    utils = pytest.importorskip("transformers.utils", reason="needs transformers 5")
    with pytest.raises(Exception, match=r"."):  # transformers has its own types of errors
        utils.get_json_schema(function)


def no_docstring(x: int) -> None: ...


def no_hint(x) -> None:
    """Do it.

    Args:
        x: one
    """


def no_description(x: int, y: int) -> None:
    """Do it.

    Args:
        x: one
    """


def bad_choices(x: str) -> None:
    """Do it.

    Args:
        x: one (choices: tea, coffee)
    """


def unknown_type(x: Missing) -> None:  # noqa: F821  # type: ignore[name-defined]
    """Do it.

    Args:
        x: one
    """


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (no_docstring, "it has no docstring; write one, with a section `Args:` that describes each parameter"),
        (no_hint, "its parameter x has no type hint; give it one, such as `x: str`"),
        (no_description, "its docstring does not describe y; add `y: …` to its section `Args:`"),
        (bad_choices, 'the choices of x are \'tea, coffee\'; write a list of JSON, as in ["tea", "coffee"]'),
        (unknown_type, "a type hint cannot be resolved: name 'Missing' is not defined"),
        (make_function("1 / 0"), "a type hint cannot be resolved: division by zero; define it"),
        (make_function(bytes), "the type bytes is none of JSON's; use int, float"),
        (make_function(tuple[int, ...]), "the type tuple[int, ...] has one element, or any number; make it a list"),
        (make_function(Odd), r"the type \S*Odd has the values [(1, 2)]; they must be JSON's scalars"),
    ],
)
def test_functions_without_what_a_schema_needs_are_refused(function: Callable[..., Any], message: str) -> None:
    pattern = re.escape(message).replace(re.escape(r"\S*"), r"\S*")
    with pytest.raises(ValueError, match=f"tool '{function.__name__}': {pattern}.*; or pass its JSON schema"):
        make_schema(function)


def test_types_of_images_and_sounds_are_known_by_name() -> None:
    image = type("Image", (), {"__module__": "PIL.Image"})
    sound = type("Tensor", (), {"__module__": "torch"})
    properties = make_schema(make_function(image, other=sound | None))["function"]["parameters"]["properties"]
    assert properties["value"] == {"type": "image", "description": "a value"}
    assert properties["other"] == {"type": "audio", "nullable": True, "description": "another one"}
