import numpy as np
from numpy.typing import NDArray

from bpe.base._buffers import Buffer

class VocabTokens:
    blob: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    token_ids: NDArray[np.int32]
    other_tokens: list[tuple[bytes, int]]
    end: int
    def __len__(self) -> int: ...
    def find(self, token: bytes) -> int: ...
    def read_merges(
        self, data: Buffer, start: int, n_prefix: int = 0
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], int] | None: ...

def read_vocab(data: Buffer, start: int, byte_of: NDArray[np.int16] | None) -> VocabTokens | None: ...
def find_value_end(data: Buffer, start: int) -> int: ...
def spell_letters(
    blob: Buffer, offsets: NDArray[np.int64], letters: NDArray[np.uint8]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]: ...
def join_lines(
    constants: list[bytes],
    columns: list[tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]] | NDArray[np.int64]],
) -> bytes: ...
