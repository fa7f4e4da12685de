import numpy as np
from numpy.typing import NDArray

from bpe.base._team import Team
from bpe.training.kernel_input import NextMerge, Start, Tuning
from bpe.training.words import Words

class Trainer:
    team: Team
    teams: tuple[Team, ...]
    stop: int
    epochs: int
    def __init__(
        self,
        words: Words,
        start: Start,
        rule: NextMerge,
        merges: int,
        *,
        memory: int = 0,
        strict: bool = False,
        tuning: Tuning,
    ) -> None: ...
    def run(self, most: int, most_tokens: int) -> list[tuple[int, int, int, int]]: ...
    def best(self) -> tuple[int, int, int] | None: ...
    def apply(self, left: int, right: int) -> tuple[int, int]: ...
    @property
    def n_tokens(self) -> int: ...
    def spelled(self, token: int) -> bytes: ...
    def merges(self) -> NDArray[np.int64]: ...
    def removed(self) -> NDArray[np.int64]: ...
    def vocabulary(self) -> tuple[bytes, NDArray[np.int64], NDArray[np.bool_]]: ...
