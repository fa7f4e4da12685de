import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from bpe.corpus.blocks import Block

KERNEL_READ_BYTES: int

class FileBlock:
    size: int
    index: int
    begins_document: bool
    ends_document: bool
    def get_documents(self) -> tuple[memoryview, NDArray[np.int64], NDArray[np.int64]]: ...
    def block(self) -> Block: ...

class FileReader:
    source: str
    requires_utf8: bool
    n_blocks: int
    finished: bool
    file_index: int
    @property
    def position(self) -> int: ...
    def __new__(
        cls,
        file: int,
        source: str,
        size: int,
        separators: list[bytes],
        keep_separator: bool,
        strings: list[bytes],
        requires_utf8: bool,
        separator_ends: bool = ...,
        block_bytes: int = ...,
    ) -> Self: ...
