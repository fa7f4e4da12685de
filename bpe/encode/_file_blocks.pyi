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
        open_block: Callable[[Any], tuple[Buffer, NDArray[np.int64], NDArray[np.int64]]],
        raise_for_unknown: Callable[[Any, int, int], object],
        specials: SpecialItems,
        n_bytes: int,
        max_bytes: int,
        out: NDArray[Any] | IdTarget | None = ...,
        with_hashes: bool = ...,
    ) -> Self: ...
    def count_threads(self) -> int: ...
    def result(self) -> tuple[Any, ...] | None: ...  # type: ignore[override]
