from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bpe.encode._encoder import Encoder
from bpe.encode._special_encoder import SpecialEncoder

_Method = TypeVar("_Method", bound=Callable[..., Any])

class PlanFields:
    is_lazy: bool
    has_no_names: bool
    prefix: str
    pair_template_ids: tuple[list[int], ...] | None
    encode: Callable[[str], NDArray[np.uint32]]
    encoder: Encoder | None
    special_encoder: SpecialEncoder | None
    only_ascii: bool

class StateFields:
    def get_plan(self, template: bool) -> Any: ...

class TokenizerFields:
    _state: Any
    _shared_components: dict[str, tuple[Any, bytes]]

class CallFields:
    @property
    def plan(self) -> Any: ...
    @property
    def texts(self) -> Any: ...
    @property
    def ids(self) -> NDArray[np.uint32]: ...
    def find_bounds(self, i: int) -> tuple[int, int]: ...

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

_CallFields = TypeVar("_CallFields", bound=CallFields)
_Row = TypeVar("_Row", bound=Row)

def make_call(
    call_type: type[_CallFields],
    plan: PlanFields,
    texts: str | Sequence[str],
    ids: NDArray[np.uint32],
    offsets: NDArray[np.int64] | None,
) -> _CallFields: ...
def make_rows(row_type: type[_Row], call: CallFields, n: int) -> list[_Row]: ...
def are_all_str(texts: list[Any]) -> bool: ...
def join_pairs(pairs: list[Any]) -> list[str] | None: ...
def has_name(texts: list[str], prefix: str) -> bool: ...
def with_fast_hf_encode(method: _Method, row_type: type[Row]) -> Callable[..., Any]: ...
def with_fast_hf_decode(method: _Method) -> Callable[..., Any]: ...
