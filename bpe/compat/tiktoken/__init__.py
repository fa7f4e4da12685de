"""The interface of tiktoken 0.14, on a native `Tokenizer`: `import bpe.compat.tiktoken as tiktoken`.

Names, arguments, defaults, results (lists of int) and errors are tiktoken's, and so are the ids. The modules that
programs import from have tiktoken's names:

- `core.py` the class `Encoding`, and the encodings by name;
- `registry.py` `get_encoding`, `list_encoding_names` and `ENCODINGS`, the encodings that have been built;
- `model.py` `encoding_for_model`, `encoding_name_for_model`, and the names that they know, which can be added to;
- `load.py` rank files and GPT-2's two files, read as dicts and written, with the cache of files.

`__version__` is the version of tiktoken whose interface this is, not that of this package. tiktoken's compiled class
`CoreBPE`, its `_educational` module and `registry.ENCODING_CONSTRUCTORS` are left out.
"""

from __future__ import annotations

from bpe.compat.tiktoken import load, model, registry
from bpe.compat.tiktoken.core import (
    Encoding,
    encoding_for_model,
    encoding_name_for_model,
    get_encoding,
    list_encoding_names,
)

__version__ = "0.14.0"
__all__ = ["Encoding", "encoding_for_model", "encoding_name_for_model", "get_encoding", "list_encoding_names"]

_ = load, model, registry  # programs use tiktoken.model and tiktoken.registry without importing these modules
