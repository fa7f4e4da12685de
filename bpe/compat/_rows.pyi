from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bpe.encode._encoder import Encoder

_Method = TypeVar("_Method", bound=Callable[..., Any])

class PlanFields:
    is_lazy: bool
    has_no_names: bool
    prefix: str
    pair_ends: tuple[list[int], ...] | None
    encode: Callable[[str], NDArray[np.uint32]]
    kernel: Encoder | None

class StateFields:
    def plan(self, template: bool) -> Any: ...

class TokenizerFields:
    _state: Any
    _handed: dict[str, tuple[Any, bytes]]

class Call:
    @property
    def plan(self) -> Any: ...
    @property
    def texts(self) -> Any: ...
    @property
    def ids(self) -> NDArray[np.uint32]: ...
    def bounds(self, i: int) -> tuple[int, int]: ...

class Row:
    @property
    def call(self) -> Any: ...
    @property
    def row(self) -> int: ...
    @property
    def resolved(self) -> Any: ...
    @property
    def padding(self) -> Any: ...
    def set_resolved(self, parts: object) -> None: ...
    def set_padding(self, padding: object) -> None: ...

_Call = TypeVar("_Call", bound=Call)
_Row = TypeVar("_Row", bound=Row)

def call_of(
    kind: type[_Call],
    plan: PlanFields,
    texts: str | Sequence[str],
    ids: NDArray[np.uint32],
    offsets: NDArray[np.int64] | None,
) -> _Call: ...
def rows_of(kind: type[_Row], call: Call, n: int) -> list[_Row]: ...
def are_all_str(texts: list[Any]) -> bool: ...
def join_pairs(pairs: list[Any]) -> list[str] | None: ...
def has_name(texts: list[str], prefix: str) -> bool: ...
def with_fast_encode(method: _Method, row_kind: type[Row]) -> Callable[..., Any]: ...
def with_fast_decode(method: _Method) -> Callable[..., Any]: ...
