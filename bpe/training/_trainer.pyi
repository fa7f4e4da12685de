import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from bpe.base._team import Team
from bpe.training._loop import Learner
from bpe.training.kernel_input import NextMerge, Start, Tuning
from bpe.training.words import Words

class Trainer(Learner):
    team: Team
    epochs: int
    def __new__(
        cls,
        words: Words,
        start: Start,
        rule: NextMerge,
        merges: int,
        *,
        memory: int = 0,
        strict: bool = False,
        tuning: Tuning,
    ) -> Self: ...
    def best(self) -> tuple[int, int, int] | None: ...
    def apply(self, left: int, right: int) -> tuple[int, int]: ...
    def vocabulary(self) -> tuple[bytes, NDArray[np.int64], NDArray[np.bool_]]: ...
