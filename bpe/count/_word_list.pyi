import numpy as np
from numpy.typing import NDArray

from bpe.base._team import Team
from bpe.count._word_table import WordTable

def list_words(
    table: WordTable, team: Team, part: int = 0, parts: int = 1
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64], NDArray[np.uint64]]: ...
