from collections.abc import Iterable

from typing_extensions import Self

from bpe.base._buffers import Buffer
from bpe.encode._encoder import Encoder

class CommonCuts:
    def __new__(cls, encoders: Iterable[Encoder]) -> Self: ...
    def find_last(self, text: Buffer, low: int) -> int: ...
