from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from bpe.base._buffers import Buffer
from bpe.corpus._json_fields import FieldPath
from bpe.corpus.blocks import Block, Position

KERNEL_READ_BYTES: int

def may_begin_otherwise(text: Buffer) -> bool: ...

class FileBlock:
    index: int
    begins_document: bool
    ends_document: bool
    unit_index: int
    @property
    def source(self) -> str: ...
    def get_documents(self) -> tuple[memoryview, NDArray[np.int64], NDArray[np.int64]]: ...
    def make_block(self) -> Block: ...

class FileReader:
    n_units: int
    requires_utf8: bool
    n_blocks: int
    @property
    def is_finished(self) -> bool: ...
    @property
    def resume_position(self) -> Position: ...
    def __new__(
        cls,
        names: list[str],
        units: NDArray[np.int64],
        separators: list[bytes],
        keep_separator: bool,
        strings: list[bytes],
        requires_utf8: bool,
        separator_ends: bool = ...,
        block_bytes: int = ...,
        check_first_bytes: Callable[[bytes, str], object] | None = ...,
        note_stamp: Callable[[str, tuple[int, int]], Any] | None = ...,
    ) -> Self: ...
    def keep_documents_whole(self) -> None: ...
    def drop_invalid(self, count_invalid: Callable[[int], None]) -> None: ...
    def set_field(self, field: FieldPath, parse_record: Callable[[bytes, int, int, int], bytes | None]) -> None: ...
    def close(self) -> None: ...
