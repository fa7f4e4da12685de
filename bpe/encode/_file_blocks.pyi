from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from bpe.base._aho_corasick import Finder
from bpe.base._buffers import Buffer
from bpe.base._ordered_output import IdTarget
from bpe.encode._batch import EncodeJob, ThreadBuffers
from bpe.encode._encoder import Encoder

class BlockBuffers(ThreadBuffers): ...

class SpecialItems:
    def __new__(
        cls,
        allowed: Finder | None,
        ids: NDArray[np.int64],
        disallowed: Finder | None,
        bos: int | None,
        eos: int | None,
    ) -> Self: ...

class BlockJob(EncodeJob):
    def __new__(
        cls,
        encoder: Encoder,
        threads: int,
        blocks: Iterator[Any],
        prepare_items: Callable[[Any], tuple[Buffer, NDArray[np.int64], NDArray[np.int64], Any]],
        finish_block: Callable[[Any, NDArray[np.int64], int], Any],
        specials: SpecialItems,
        n_bytes: int,
        max_bytes: int,
        out: NDArray[Any] | IdTarget | None = ...,
        with_hashes: bool = ...,
    ) -> Self: ...
    def count_threads(self) -> int: ...
    def result(  # type: ignore[override]
        self,
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.int64], NDArray[np.uint64] | None]: ...
