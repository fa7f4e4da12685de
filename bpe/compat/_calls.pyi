from collections.abc import Callable
from typing import Any

from typing_extensions import Self

from bpe.compat._rows import PlanFields, TokenizerFields
from bpe.compat.processing import RowTemplate

STATE_ATTRIBUTE: str
BACKEND_ATTRIBUTE: str
REASONING_FIELDS: tuple[str, ...]

class AccelerationFields:
    backend: Any
    backend_was_read: bool
    is_shared: bool
    verification_due: bool
    decoding: TokenizerFields | None
    def find_layout(self, tokenizer: object, key: tuple[Any, ...]) -> RowLayout | None: ...
    def keep_layout(self, key: tuple[Any, ...], layout: RowLayout) -> None: ...
    def is_certain(self, tokenizer: object) -> bool: ...
    def note_sharing(self) -> None: ...

class RowLayout:
    def __new__(
        cls,
        plan: PlanFields,
        types: tuple[type, type | None, bool],
        columns: tuple[str, ...],
        make_tensor: Callable[[Any], Any] | None,
        template: RowTemplate,
        truncation: tuple[int, bool] | None,
        padding: tuple[int, str, int, int, str] | None,
        max_length: tuple[int, int],
        tokenizer_type: type,
        settings: tuple[tuple[str, Any], ...],
    ) -> Self: ...

class BackendAttribute:
    def __new__(cls, default: object) -> Self: ...
    def __get__(self, instance: object, owner: object = None, /) -> Any: ...
    def __set__(self, instance: object, value: object, /) -> None: ...
    @property
    def _bpe_original(self) -> Any: ...

def with_fast_call(method: Callable[..., Any], make_layout: Callable[..., Any]) -> Callable[..., Any]: ...
def with_fast_transformers_encode(
    method: Callable[..., Any], make_layout: Callable[..., Any]
) -> Callable[..., Any]: ...
def with_fast_transformers_decode(method: Callable[..., Any]) -> Callable[..., Any]: ...
def find_names(names: list[str | None], ids: list[int]) -> list[str | None] | None: ...
def copy_messages(messages: list[Any]) -> list[dict[str, Any]] | None: ...
