"""Loading pyarrow, an optional package (extra `arrow`), only where a caller asks for Arrow data.

Arrow arrays are read without pyarrow: `bpe/corpus/documents.py`.
"""

from __future__ import annotations

from types import ModuleType


def load_pyarrow(user: str = "to_arrow") -> ModuleType:
    """The pyarrow module.

    Args:
        user: the name of what needs it, for the error.

    Raises:
        ModuleNotFoundError: where it is not installed.

    """
    try:
        import pyarrow as pa
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f"{user} needs pyarrow; install the extra: pip install 'bytepair[arrow]'") from None
    module: ModuleType = pa
    return module
