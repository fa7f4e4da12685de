"""Tokenizers by name: `get_encoding("cl100k_base")`, `encoding_for_model("gpt-4o")`.

Takes a name and returns a `Tokenizer`, the same object for the same name. What the names stand for is data in
`bpe/formats/openai_encodings.py`. The files, in the order in which a name meets them:

- `registry.py` the registry: name → tokenizer, model → name; encodings that other packages define in `tiktoken_ext`;
- `cache.py` the folder of downloaded files, which is tiktoken's, and downloading;
- `hub.py` the files of a repository on the Hugging Face Hub, for `Tokenizer.from_pretrained`.

Invariants: nothing is downloaded unless a call asks for it by name. The content of each file is checked by its SHA-256
before it is used, whether it was installed, cached or downloaded; a cached file with another content is removed. A file
appears in the cache complete or not at all. Importing this package, or asking for a name that it knows, imports neither
tiktoken nor a plugin. Cost: the first call for a name reads a file of 1 to 4 MB and builds the tokenizer, in 30 to
150 ms; later calls look it up.

Sources: tiktoken 0.14 (`registry.py`, `load.py`, `model.py`); the folder `tiktoken` in the user's cache is that of
later sources of tiktoken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpe._lazy import import_on_use

if TYPE_CHECKING:
    from bpe.named.registry import list_encoding_names

#: The public names, and the modules that define them.
_MODULES = {"list_encoding_names": "registry"}

__all__ = ["list_encoding_names"]

__getattr__, __dir__ = import_on_use(__name__, _MODULES, __all__)
