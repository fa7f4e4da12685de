"""Interfaces of other libraries, with their names, results and errors: change one import.

In come calls that were written for another library; out come its results, with its types, from a native `Tokenizer`.
There is one module for each library, and none is imported by `import bpe`:

- `tiktoken.py` the interface of tiktoken 0.14: `import bpe.compat.tiktoken as tiktoken`;
- `unstable.py` its `encode_with_unstable` and `_encode_bytes`, which ask what the last tokens may become.

Invariants: every public name of the other library has the same meaning here, lists of int included, and no id differs.
The other library is never imported. Where it would abort with an assertion or a panic, there is a ValueError or a
TypeError with an explanation. Objects are immutable after they are made, so threads may share them. Cost: a call adds a
few hundred nanoseconds to the native one, and a list of int adds a few nanoseconds for each id.

Sources: tiktoken 0.14, its documentation and its tests.
"""
