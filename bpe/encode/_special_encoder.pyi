import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from bpe.base._aho_corasick import Finder
from bpe.encode._encoder import Encoder

class SpecialEncoder:
    def __new__(cls, encoder: Encoder, finder: Finder, token_ids: NDArray[np.uint32]) -> Self: ...
    def encode(self, text: str | bytes) -> NDArray[np.uint32] | None: ...
