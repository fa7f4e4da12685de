import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from bpe.base._team import Team
from bpe.training._loop import MergeLoop
from bpe.training.config import TrainConfig
from bpe.training.kernel_input import InitialTokens, KernelTuning, WordArrays

class Trainer(MergeLoop):
    team: Team
    epochs: int
    def __new__(
        cls,
        words: WordArrays,
        initial: InitialTokens,
        config: TrainConfig,
        expected_merges: int,
        tuning: KernelTuning,
        *,
        track_all_pairs: bool = False,
    ) -> Self: ...
    def find_best_pair(self) -> tuple[int, int, int] | None: ...
    def apply(self, left: int, right: int) -> tuple[int, int]: ...
    def list_tokens(self) -> tuple[bytes, NDArray[np.int64], NDArray[np.bool_]]: ...
