from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bpe.corpus._file_reader import FileBlock, FileReader
from bpe.evaluation._common_cuts import CommonCuts
from bpe.evaluation._tally import TokenTally

def tally_blocks(
    reader: FileReader,
    block: FileBlock,
    cuts: CommonCuts,
    adapters: Sequence[object],
    tallies: Sequence[TokenTally],
    n: int,
) -> list[tuple[int, bool, bool, int, list[NDArray[np.float64]]]]: ...
def tally_texts(
    texts: list[str | bytes], block: FileBlock, adapters: Sequence[object], tallies: Sequence[TokenTally]
) -> tuple[int, list[list[NDArray[np.float64]]]]: ...
