from typing_extensions import Self

from bpe._core.buffers import Buffer
from bpe._core.encoder import Encoder
from bpe._core.gather import Job

STRETCH: int
LOOKED: int

class SeparatedJob(Job):
    def __new__(
        cls, encoder: Encoder, threads: int, buffer: Buffer, separator: bytes, keep: bool, mapped: bool
    ) -> Self: ...
