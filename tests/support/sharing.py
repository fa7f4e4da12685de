"""Objects that threads share in tests and checks: their calls, and what the results of these may be."""

from __future__ import annotations

import copy
import itertools
import pickle
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import bpe
from bpe.compat import huggingface

Calls = dict[str, Callable[[], object]]


class SkippedError(Exception):
    """A package or a file that an object needs is missing."""


class SharedObject(NamedTuple):
    """An object that threads share.

    Attributes:
        step: makes one call in the thread of a number; returns what is wrong with the result, or something empty.
        finish: says what is wrong after all threads have ended.

    """

    step: Callable[[int, random.Random], object]
    finish: Callable[[], Iterable[str]] = tuple


def to_plain(value: object) -> object:
    """Convert a value to one without types and identity, so that its repr says whether two are equal."""
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.tolist()
    if isinstance(value, bpe.TokenBatch):
        return "batch", value.to_list()
    if isinstance(value, huggingface.Encoding):
        more_columns = value.attention_mask, value.type_ids, value.special_tokens_mask, to_plain(value.overflowing)
        return value.ids, value.tokens, value.offsets, value.word_ids, more_columns
    if hasattr(value, "items"):
        return [(to_plain(key), to_plain(item)) for key, item in value.items()]
    if isinstance(value, (set, frozenset)):
        return sorted(map(repr, value))
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    return value


def get_outcome(call: Callable[[], object]) -> str:
    """Return the result of a call, or its error, as text."""
    try:
        return repr(to_plain(call()))
    except (ImportError, LookupError, RuntimeError, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def make_copies(shared: Any) -> list[Any]:
    """Make three copies of an object."""
    return [copy.copy(shared), copy.deepcopy(shared), pickle.loads(pickle.dumps(shared))]


def use_copies(use: Callable[[Any], object]) -> Callable[[Any], object]:
    """Make the function that uses three copies of an object alike."""
    return lambda shared: [use(copy_) for copy_ in make_copies(shared)]


def make_uses(objects: Iterable[Any], uses: Mapping[str, Callable[[Any], object]]) -> Calls:
    """Make the calls for each use of each object."""
    return {f"{name} {n}": partial(use, item) for n, item in enumerate(objects) for name, use in uses.items()}


def make_method_calls(shared: Any, *rows: tuple[Any, ...]) -> Calls:
    """Make calls of methods, each a row: the name, arguments, and last, if there are options, a dict of them.

    An attribute is a row with its name alone.
    """

    def call(name: str, arguments: list[Any], options: dict[str, Any]) -> object:
        method = getattr(shared, name)
        return method(*arguments, **options) if callable(method) else method

    calls: Calls = {}
    for index, (name, *arguments) in enumerate(rows):
        options = arguments.pop() if arguments and isinstance(arguments[-1], dict) else {}
        calls[f"{name} {index}"] = partial(call, name, arguments, options)
    return calls


def share_calls(calls: Calls, settings: Sequence[Sequence[Callable[[], object]]] = ()) -> SharedObject:
    """Share calls whose results depend on nothing but settings.

    Args:
        calls: the calls by name.
        settings: for each setting that is independent of the others, the changes that give it each of its values.

    """
    expected: dict[str, set[str]] = {name: set() for name in calls}
    for changes in itertools.product(*settings):
        for change in changes:
            change()
        for name, call in calls.items():
            result = get_outcome(call)
            assert not result.startswith("TypeError"), f"{name}: {result}"
            expected[name].add(result)
    names = list(calls)

    def step(_: int, rng: random.Random) -> object:
        if settings and rng.random() < 0.3:
            rng.choice(rng.choice(settings))()
            return None
        name = rng.choice(names)
        result, expected_results = get_outcome(calls[name]), expected[name]
        if result not in expected_results:
            some_expected = [result_text[:300] for result_text in sorted(expected_results)[:4]]
            return f"{name} gave {result[:300]}, expected one of {some_expected}"
        return None

    return SharedObject(step)
