"""The tokenizer section of a GGUF file, llama.cpp's format of models; weights are never read, and none are written.

The files: `header.py` the keys and values; `reading.py` and `writing.py` values to a spec and back; `patterns.py` the
pretokenizers that files name; `specials.py` their special tokens. Sources: ggml's gguf.md, llama.cpp's llama-vocab.cpp.
"""

from __future__ import annotations

from bpe.formats.gguf.reading import read
from bpe.formats.gguf.writing import find_approximations, write

__all__ = ["find_approximations", "read", "write"]
