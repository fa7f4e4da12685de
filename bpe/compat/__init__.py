"""Interfaces of other libraries, with their names, results and errors: change one import.

In come calls that were written for another library; out come its results, with its types, from a native `Tokenizer`.
There is one module for each library, and none is imported by `import bpe`:

- `tiktoken.py` the interface of tiktoken 0.14: `import bpe.compat.tiktoken as tiktoken`;
- `unstable.py` its `encode_with_unstable` and `_encode_bytes`, which ask what the last tokens may become;
- `huggingface.py` `tokenizers` 0.23: `from bpe.compat.huggingface import Tokenizer`; a tokenizer.json is read by
  `document.py`, encoded and decoded by `sequences.py`, truncated and given its template by `processing.py`, and comes
  out as the lazy `Encoding` of `encodings.py`; `id_objects.py` has the ints of all lists of ids.

Invariants: every public name of the other library has the same meaning here, lists of int included, and no id differs.
tiktoken is never imported; `tokenizers` is, for its components and for models that are not read here. Where one aborts
with an assertion or a panic, there is a ValueError or a TypeError with an explanation. Threads may share objects. Cost:
a call adds a few hundred nanoseconds to the native one, and a list of int adds a few nanoseconds for each id.

Sources: tiktoken 0.14 and tokenizers 0.23, their documentation and tests.
"""
