from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

# What a kernel's `const byte_t[::1]` takes.
Buffer: TypeAlias = bytes | bytearray | memoryview | NDArray[np.uint8]
