"""Records against the dataclasses of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpe.base import fast_dataclasses
from bpe.vocab.training_record import Training


def make_classes(module: Any) -> list[Any]:
    """The same classes, made by one of the two modules."""

    class A:
        LIMIT: ClassVar[int] = 3
        a: int
        b: str = "x"
        c: list[int] = module.field(default_factory=list, compare=False)

        def __post_init__(self) -> None:
            if self.a == 7:
                raise ValueError("7")

    first = module.dataclass(frozen=True)(A)

    class B(first):  # type: ignore[misc, valid-type]
        d: int = module.field(default=3, repr=False, kw_only=True)
        e: int = 9
        f: int = module.field(default=1, init=False)

    class C:
        pass

    class D:
        x: int
        y: int = 2

        def __repr__(self) -> str:
            return "own"

    class E:
        x: int

    options: Any = {"eq": False}
    made = [
        first,
        module.dataclass(frozen=True)(B),
        module.dataclass(C),
        module.dataclass(kw_only=True)(D),
        module.dataclass(**options)(E),
    ]
    return [*made, type("F", (made[1],), {})]


RECORDS, DATACLASSES = make_classes(fast_dataclasses), make_classes(dataclasses)
NAMES = [cls.__name__ for cls in RECORDS]


def result(work: Callable[[], Any]) -> object:
    try:
        return work()
    except (TypeError, ValueError, AttributeError) as error:
        return type(error), str(error)


def same(work: Callable[[Any], Any]) -> None:
    """Compare what a function gives for each class."""
    for ours, theirs in zip(RECORDS, DATACLASSES, strict=True):
        assert result(lambda ours=ours: work(ours)) == result(lambda theirs=theirs: work(theirs)), ours


values = st.one_of(st.integers(0, 8), st.text(max_size=2), st.none())


@given(st.lists(values, max_size=5), st.dictionaries(st.sampled_from("abcdefxyz"), values, max_size=3))
def test_construction(args: list[Any], keywords: dict[str, Any]) -> None:
    same(lambda cls: repr(cls(*args, **keywords)))
    same(lambda cls: list(dataclasses.asdict(cls(*args, **keywords)).items()))


@given(st.lists(values, max_size=3), st.lists(values, max_size=3))
def test_comparison(one: list[Any], other: list[Any]) -> None:
    same(lambda cls: cls(*one) == cls(*other))
    same(lambda cls: len({hash(instance) for instance in [cls(*one), cls(*one)]}))  # both alive: eq=False hashes ids
    same(lambda cls: cls(*one) != object())
    for ours, theirs in ((RECORDS[0], DATACLASSES[0]), (RECORDS[1], DATACLASSES[1])):
        assert result(lambda: hash(ours(*one))) == result(lambda: hash(theirs(*one)))  # noqa: B023
    assert result(lambda: RECORDS[0](*one) == RECORDS[1](*one)) == result(
        lambda: DATACLASSES[0](*one) == DATACLASSES[1](*one)
    )


@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
def test_the_standard_library_takes_them_for_dataclasses(number: int) -> None:
    ours, theirs = RECORDS[number], DATACLASSES[number]
    for look in (
        dataclasses.is_dataclass,
        lambda cls: [(field.name, field.type, field.init, field.kw_only) for field in dataclasses.fields(cls)],
        lambda cls: str(inspect.signature(cls)),
        lambda cls: cls.__match_args__,
        lambda cls: repr(cls.__dataclass_params__),
        lambda cls: (cls.b, cls.d, cls.f),
        lambda cls: cls.c,
        lambda cls: repr(dataclasses.replace(cls(1), b="y")),
        lambda cls: repr(dataclasses.replace(cls(1), f=1)),
        lambda cls: repr(dataclasses.replace(cls(x=1), x=5)),
        lambda cls: setattr(cls(1), "a", 2),
        lambda cls: setattr(cls(1), "other", 2),
        lambda cls: delattr(cls(1), "a"),
        lambda cls: cls(a=1).__hash__ is None,
    ):
        assert result(lambda look=look: look(ours)) == result(lambda look=look: look(theirs))


def test_replace_is_that_of_dataclasses() -> None:
    for changes in ({}, {"b": "y"}, {"f": 2}, {"zz": 1}, {"d": 4}):
        ours = result(lambda changes=changes: repr(fast_dataclasses.replace(RECORDS[1](1), **changes)))
        assert ours == result(lambda changes=changes: repr(dataclasses.replace(DATACLASSES[1](1), **changes)))


def test_records_of_a_module_are_pickled_and_copied() -> None:
    training = Training(None, 2, 1, 0.5, ((1, 3, 1.5),))
    assert pickle.loads(pickle.dumps(training)) == copy.deepcopy(training) == copy.copy(training) == training


def test_a_dataclass_may_be_a_subclass() -> None:
    @dataclasses.dataclass(frozen=True)
    class More(RECORDS[0]):  # type: ignore[misc, valid-type, name-defined]
        more: int = 5

    assert repr(More(1, more=2)).endswith("More(a=1, b='x', c=[], more=2)")
    assert dataclasses.replace(More(1), a=2).a == 2
