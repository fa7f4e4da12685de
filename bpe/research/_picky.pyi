import numpy as np
from numpy.typing import NDArray

from bpe.training._loop import Learner
from bpe.training.config import TrainConfig
from bpe.training.kernel_input import InitialTokens
from bpe.training.words import Words

class PickyLearner(Learner):
    def __init__(self, words: Words, initial: InitialTokens, config: TrainConfig, threshold: float) -> None: ...
    def deletions(self) -> NDArray[np.int64]: ...
    def vocabulary(self) -> tuple[bytes, NDArray[np.int64], NDArray[np.bool_]]: ...
