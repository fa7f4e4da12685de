"""Interfaces of other libraries, with their names, results and errors: change one import.

Takes calls that were written for another library and returns its results, with its types, from a native `Tokenizer`.
There is one module for each library, and none is imported by `import bpe`:

- `tiktoken/` the interface of tiktoken 0.14: `import bpe.compat.tiktoken as tiktoken`;
- `unstable.py` its `encode_with_unstable` and `_encode_bytes`, which ask what the last tokens may become;
- `huggingface.py` `tokenizers` 0.23: `from bpe.compat.huggingface import Tokenizer`; a tokenizer.json is read by
  `document.py` into the `State` of `state.py`; `sequences.py` encodes and decodes, `processing.py` truncates and adds
  the template, and `encodings.py` has the lazy result;
- `transformers.py` replaces methods of transformers' tokenizers: `accelerate` of one, `patch_transformers` of all.

Invariants: every public name of the other library has the same meaning here, lists of int included, and no id differs.
tiktoken is never imported; `tokenizers` is, for its components and for models that are not read here. Where one aborts
with an assertion or a panic, there is a ValueError or a TypeError with an explanation. Threads may share objects. Cost:
a call adds a few hundred nanoseconds to the native one, and a list of int adds about a nanosecond for each id.

Sources: tiktoken 0.14 and tokenizers 0.23, their documentation and tests.
"""

from __future__ import annotations

from typing import TypeVar

_Tokenizer = TypeVar("_Tokenizer")

__all__ = ["accelerate", "patch_transformers", "unpatch_transformers"]


def accelerate(tokenizer: _Tokenizer) -> _Tokenizer:
    """A copy of a fast tokenizer of transformers that encodes and decodes faster, with the same results.

    Its class is a subclass of the tokenizer's, with `__call__`, `encode`, `decode` and `batch_decode` overridden. At
    once, results are compared with the tokenizer's own on texts made for that. What differs is not accelerated, and the
    log says so at level INFO; `bpe.compat.transformers.acceleration_of` returns what is.

    Args:
        tokenizer: what `AutoTokenizer.from_pretrained` returns. It is not changed; the copy shares its backend.

    Raises:
        TypeError: for anything else.
        ModuleNotFoundError: if transformers is not installed.

    """
    from bpe.compat import transformers

    made: _Tokenizer = transformers.accelerate(tokenizer)
    return made


def patch_transformers() -> None:
    """Accelerate all fast tokenizers of transformers, those that exist and those that will be made.

    Each is checked at its first call, and keeps its own methods if results differ. A second call does nothing.

    Raises:
        ModuleNotFoundError: if transformers is not installed.

    """
    from bpe.compat import transformers

    transformers.patch_transformers()


def unpatch_transformers() -> None:
    """Give all tokenizers of transformers their own methods back. Without `patch_transformers`, it does nothing."""
    from bpe.compat import transformers

    transformers.unpatch_transformers()
