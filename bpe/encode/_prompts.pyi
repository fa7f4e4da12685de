import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

class Block:
    window: bytes
    characters: str | None
    size: int
    ids: NDArray[np.uint32]
    n_ids: int
    children: dict[bytes, Block]
    latest: Block | None
    rest: NDArray[np.uint32] | None
    last_use: int
    is_dropped: bool
    def __new__(cls, window: bytes, size: int, ids: NDArray[np.uint32], n_ids: int) -> Self: ...

def follow_latest(block: Block, text: str | bytes, start: int, use: int, path: list[Block]) -> int: ...
def join_ids(blocks: list[Block], arrays: list[NDArray[np.uint32]]) -> NDArray[np.uint32]: ...
def count_common(ids: NDArray[np.uint32], start: int, block: Block) -> int: ...
