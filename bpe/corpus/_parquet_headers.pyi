import numpy as np
from numpy.typing import NDArray

from bpe.base._buffers import Buffer

def find_column_chunks(footer: Buffer, column: int) -> NDArray[np.int64]: ...
def read_page_header(data: Buffer) -> tuple[int, int, int, int, int, int] | None: ...
