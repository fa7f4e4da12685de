import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from bpe.training._loop import Learner
from bpe.training.kernel_input import NextMerge, Start
from bpe.training.words import Words

class PickyLearner(Learner):
    def __new__(cls, words: Words, start: Start, rule: NextMerge, threshold: float) -> Self: ...
    def deletions(self) -> NDArray[np.int64]: ...
    def vocabulary(self) -> tuple[bytes, NDArray[np.int64], NDArray[np.bool_]]: ...
