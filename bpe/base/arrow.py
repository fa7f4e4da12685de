"""Loading pyarrow, an optional package (extra `arrow`), only where a caller asks for Arrow data.

Not here: reading Arrow arrays, which needs no pyarrow (`bpe/corpus/documents.py`).
"""

from __future__ import annotations

from types import ModuleType


def load_pyarrow() -> ModuleType:
    """The pyarrow module.

    Raises:
        ModuleNotFoundError: where it is not installed.

    """
    try:
        import pyarrow as pa
    except ModuleNotFoundError:
        raise ModuleNotFoundError("to_arrow needs pyarrow; install the extra: pip install 'bytepair[arrow]'") from None
    module: ModuleType = pa
    return module
