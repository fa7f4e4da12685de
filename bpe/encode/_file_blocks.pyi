from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from bpe.base._aho_corasick import Finder
from bpe.base._buffers import Buffer
from bpe.encode._batch import EncodeJob, Worker
from bpe.encode._encoder import Encoder

BLOCKS: int

class BlockWorker(Worker):
    def added(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...

class BlockJob(EncodeJob):
    def __new__(
        cls,
        encoder: Encoder,
        threads: int,
        blocks: Iterator[Any],
        prepared: Callable[[Any], tuple[Buffer, NDArray[np.int64], NDArray[np.int64], Any]],
        done: Callable[[Any, NDArray[np.int64], int], Any],
        special: Finder | None,
        n_bytes: int,
        max_bytes: int,
    ) -> Self: ...
    def result(self) -> tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.int64]]: ...  # type: ignore[override]
