"""Dataclasses whose definition takes no time.

`dataclasses.dataclass` writes source code for the methods of each class and compiles it, and the module `dataclasses`
imports `inspect`: together 25 of the 60 ms that loading and encoding took beside NumPy. `dataclass` here gives a class
the same methods as functions that read a table of its fields. What the standard library asks of a dataclass
(`dataclasses.fields`, `replace`, `asdict`, `inspect.signature`) comes from its *twin*, a true dataclass with the same
fields, which is made at the first need. The twin raises the errors for wrong arguments, too.

Making an object takes about three times as long, so this is for objects that are made a few times, or once for a block
of many KB, not for each text. There are no `slots`, `order`, `InitVar` and `KW_ONLY`. Type checkers see the functions
of `dataclasses`.
"""

from __future__ import annotations

import sys
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

from bpe.base.forks import cached_property

__all__ = ["dataclass", "field", "fields", "replace"]

_MISSING: Any = object()


class _Field:
    """A field of a record; the arguments are those of `dataclasses.field`."""

    def __init__(self, **settings: Any) -> None:
        self.name, self.type = "", ""
        self.settings = settings

    def set_declaration(self, name: str, kind: Any, kw_only: bool) -> _Field:
        """Set what the class declares of the field."""
        self.name, self.type = name, kind
        settings = self.settings
        self.default, self.factory = settings.get("default", _MISSING), settings.get("default_factory", _MISSING)
        self.init, self.keyword_only = settings.get("init", True), settings.setdefault("kw_only", kw_only)
        return self


class _Table:
    """What the methods of a class need to know of it, found at the first use."""

    def __init__(self, cls: type, declared_fields: dict[str, _Field], options: dict[str, Any]) -> None:
        self.cls, self.declared_fields, self.options = cls, declared_fields, options

    @cached_property
    def fields(self) -> dict[str, _Field]:
        """The fields by name, with those of base classes."""
        fields_by_name: dict[str, _Field] = {}
        for base in reversed(self.cls.__mro__[1:]):
            if "_record" in base.__dict__:
                fields_by_name |= base.__dict__["_record"].fields
        for name, kind in self.cls.__annotations__.items():
            if not str(kind).startswith(("ClassVar", "typing.ClassVar")):
                default = self.cls.__dict__.get(name, _MISSING)
                record_field = self.declared_fields.get(name) or _Field(
                    **{} if default is _MISSING else {"default": default}
                )
                fields_by_name[name] = record_field.set_declaration(name, kind, self.options["kw_only"])
        return fields_by_name

    @cached_property
    def field_rows(self) -> list[tuple[str, bool, Any, Any]]:
        """What construction reads: name, whether it is an argument, default, factory of defaults."""
        return [
            (name, record_field.init, record_field.default, record_field.factory)
            for name, record_field in self.fields.items()
        ]

    @cached_property
    def positional_names(self) -> list[str]:
        """The names of the fields that may be given by position."""
        return [
            name for name, record_field in self.fields.items() if record_field.init and not record_field.keyword_only
        ]

    @cached_property
    def get_compared_values(self) -> Any:
        """A function that gives the values that are compared and hashed."""
        names = [name for name, record_field in self.fields.items() if record_field.settings.get("compare", True)]
        # `attrgetter` of one name gives no tuple
        return attrgetter(*names) if len(names) > 1 else lambda record: tuple(getattr(record, name) for name in names)

    @cached_property
    def twin(self) -> Any:
        """A dataclass with the same fields."""
        import dataclasses

        columns: Any = [
            (name, record_field.type, dataclasses.field(**record_field.settings))
            for name, record_field in self.fields.items()
        ]
        namespace = {"__qualname__": self.cls.__qualname__}
        return dataclasses.make_dataclass(self.cls.__name__, columns, namespace=namespace, **self.options)


class _TwinAttribute:
    """An attribute of a class that its twin has."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: Any) -> Any:
        table = owner._record
        if self.name != "__signature__":
            return getattr(table.twin, self.name)
        if owner.__init__ is not _init:
            raise AttributeError(self.name)
        from inspect import signature

        return signature(table.twin)


def _init(self: Any, /, *args: Any, **keywords: Any) -> None:
    table = self._record
    # Arguments that are too many or given twice are fewer here, and `n_unused` is not 0 in the end.
    argument_values = {**dict(zip(table.positional_names, args)), **keywords} if args else keywords  # noqa: B905
    values, n_unused = self.__dict__, len(args) + len(keywords)
    for name, init, default, factory in table.field_rows:
        if init and name in argument_values:
            values[name] = argument_values[name]
            n_unused -= 1
        elif default is not _MISSING:
            values[name] = default
        elif factory is not _MISSING:
            values[name] = factory()
        else:
            n_unused = -1
            break
    if n_unused:
        table.twin(*args, **keywords)  # raises the TypeError
    if hasattr(self, "__post_init__"):
        self.__post_init__()


@recursive_repr()
def _repr(self: Any) -> str:
    repr_names = (name for name, record_field in self._record.fields.items() if record_field.settings.get("repr", True))
    return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in repr_names)})"


def _equals(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    get_values = self._record.get_compared_values
    return get_values(self) == get_values(other)


def _hash(self: Any) -> int:
    return hash(self._record.get_compared_values(self))


def _set(self: Any, name: str, value: object) -> None:
    _refuse_change("assign to", self, name)
    object.__setattr__(self, name, value)


def _delete(self: Any, name: str) -> None:
    _refuse_change("delete", self, name)
    object.__delattr__(self, name)


def _refuse_change(action: str, record: Any, name: str) -> None:
    """Raise FrozenInstanceError for a field, and for any attribute if the class is no subclass of a frozen one."""
    if type(record) is record._record.cls or name in record._record.fields:
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot {action} field {name!r}")


def _fields(record: Any) -> tuple[_Field, ...]:
    """List the fields of a record or its class."""
    return tuple(record._record.fields.values())


def _replace(record: Any, /, **changes: Any) -> Any:
    """Make a record with other values in some fields."""
    for name, record_field in record._record.fields.items():
        if record_field.init:
            changes.setdefault(name, getattr(record, name))
        elif name in changes:
            error = TypeError if sys.version_info >= (3, 13) else ValueError  # as `dataclasses.replace` does
            raise error(f"field {name} is declared with init=False, it cannot be specified with replace()")
    return type(record)(**changes)


#: The methods of every record, of frozen ones, and of those that are compared by value.
_METHODS: dict[str, Any] = {
    "__init__": _init,
    "__repr__": _repr,
    "__replace__": _replace,
    **{name: _TwinAttribute(name) for name in ("__dataclass_fields__", "__dataclass_params__", "__signature__")},
    "__match_args__": _TwinAttribute("__match_args__"),
}
_FROZEN_METHODS: dict[str, Any] = {"__setattr__": _set, "__delattr__": _delete}


def _dataclass(cls: Any = None, /, *, frozen: bool = False, eq: bool = True, kw_only: bool = False) -> Any:
    """Give a class the methods of a dataclass with its annotated fields; those that it has itself stay."""
    if cls is None:
        return lambda cls: _dataclass(cls, frozen=frozen, eq=eq, kw_only=kw_only)
    class_attributes = dict(cls.__dict__)
    declared_fields = {name: value for name, value in class_attributes.items() if isinstance(value, _Field)}
    for name, record_field in declared_fields.items():
        if "default" in record_field.settings:
            setattr(cls, name, record_field.settings["default"])
        else:
            delattr(cls, name)
    cls._record = _Table(cls, declared_fields, {"frozen": frozen, "eq": eq, "kw_only": kw_only})
    compare_methods = {"__eq__": _equals, "__hash__": _hash if frozen else None} if eq else {}
    for name, method in (_METHODS | compare_methods | (_FROZEN_METHODS if frozen else {})).items():
        if class_attributes.get(name) is None:
            setattr(cls, name, method)
    return cls


if TYPE_CHECKING:
    from dataclasses import dataclass, field, fields, replace
else:
    dataclass, field, fields, replace = _dataclass, _Field, _fields, _replace
