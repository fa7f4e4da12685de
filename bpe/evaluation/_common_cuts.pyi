from collections.abc import Iterable

from bpe.base._buffers import Buffer
from bpe.corpus._file_reader import FileBlock, FileReader
from bpe.encode._encoder import Encoder

class CommonCuts:
    def __init__(self, encoders: Iterable[Encoder]) -> None: ...
    def last(self, text: Buffer, low: int) -> int: ...
    def read(self, reader: FileReader, block: FileBlock) -> bool: ...
