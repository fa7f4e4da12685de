import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from bpe.training._loop import MergeLoop
from bpe.training.config import TrainConfig
from bpe.training.kernel_input import InitialTokens, WordArrays

class PickyTrainer(MergeLoop):
    def __new__(cls, words: WordArrays, initial: InitialTokens, config: TrainConfig, threshold: float) -> Self: ...
    def list_deletions(self) -> NDArray[np.int64]: ...
    def list_tokens_and_deleted(self) -> tuple[bytes, NDArray[np.int64], NDArray[np.bool_]]: ...
