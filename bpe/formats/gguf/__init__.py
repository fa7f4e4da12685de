"""The tokenizer section of a GGUF file, llama.cpp's format of models; weights are never read, and none are written.

The header of a file is a list of keys with typed values; those under `tokenizer.ggml.` describe the tokenizer: its
tokens with their types, and merges or scores. The files:

- `header.py` reads and writes the keys and values;
- `reading.py` builds a `TokenizerSpec` of the values, `writing.py` the values of a spec;
- `patterns.py` has the pretokenizers that files name (`pre`), `specials.py` finds their special tokens.

Invariants: ids are llama.cpp's, where it does not approximate a published pattern; what is written is read to an equal
tokenizer, or the loss is named (`bpe/formats/saving.py`). Cost: linear in the file.

Sources: ggml's gguf.md; llama.cpp's llama-vocab.cpp and convert_hf_to_gguf.py.
"""

from __future__ import annotations

from bpe.formats.gguf.reading import read
from bpe.formats.gguf.writing import find_approximations, write

__all__ = ["find_approximations", "read", "write"]
