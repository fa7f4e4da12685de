import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from bpe.base._buffers import Buffer
from bpe.base._ordered_output import IdTarget
from bpe.base._team import Team

def find_document_ends(lengths: NDArray[np.int64], first: int = 0) -> tuple[NDArray[np.int64], int]: ...
def write_at(
    file: int,
    position: int,
    data: Buffer,
    team: Team,
    path: str,
    *,
    narrows: bool = False,
    max_id: int = 0xFFFFFFFF,
    sync_from: int = -1,
) -> int | None: ...

class FileTarget(IdTarget):
    def __new__(
        cls,
        file: int,
        position: int,
        max_ids: int,
        threads: int,
        path: str,
        *,
        narrows: bool = False,
        max_id: int = 0xFFFFFFFF,
    ) -> Self: ...
    def finish(self) -> tuple[int, int]: ...
