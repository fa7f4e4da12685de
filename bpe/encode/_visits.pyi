from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from bpe.base._buffers import Buffer
from bpe.base._visitor import Visitor
from bpe.corpus._file_reader import FileBlock, FileReader
from bpe.encode._encoder import Encoder

def visit(
    encoder: Encoder, visitor: Visitor, buffer: Buffer, starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> int: ...

class CommonCuts:
    def __init__(self, encoders: Iterable[Encoder]) -> None: ...
    def last(self, text: Buffer, low: int) -> int: ...
    def read(self, reader: FileReader, block: FileBlock) -> bool: ...
