"""Interfaces of other libraries, with their names, results and errors: change one import.

Takes calls that were written for another library and returns its results, with its types, from a native `Tokenizer`.
There is one module for each library, and none is imported by `import bpe`:

- `tiktoken/` the interface of tiktoken 0.14: `import bpe.compat.tiktoken as tiktoken`;
- `unstable.py` its `encode_with_unstable` and `_encode_bytes`, which ask what the last tokens may become;
- `huggingface.py` `tokenizers` 0.23: `from bpe.compat.huggingface import Tokenizer`; a tokenizer.json is read by
  `document.py` into the `State` of `state.py`; `core.py` encodes and decodes, `processing.py` truncates and adds
  the template, `encoding.py` has the lazy result, and `stream_texts.py` what a `DecodeStream` adds; `_rows.pyx` is the
  part of these that each short call runs; `training.py` trains where this package learns the same;
- `subword_nmt.py` subword-nmt's `BPE`, with its units of text;
- `transformers.py` replaces methods of transformers' tokenizers: `accelerate` of one, `patch_transformers` of all;
  `transformers_calls.py` reads the options of calls, which `_calls.pyx` answers, and `transformers_chats.py` renders
  chat templates.

Invariants: every public name of the other library has the same meaning here, lists of int included, and no id differs.
tiktoken is never imported; `tokenizers` is, for its components and for models that are not read here. Where one aborts
with an assertion or a panic, there is a ValueError or a TypeError with an explanation. Threads may share objects. Cost:
a call adds a few hundred nanoseconds to the native one, and a list of int adds about a nanosecond for each id.

Sources: tiktoken 0.14 and tokenizers 0.23, their documentation and tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpe._lazy import import_on_use

if TYPE_CHECKING:
    from bpe.compat.transformers import accelerate, patch_transformers, unpatch_transformers

__all__ = ["accelerate", "patch_transformers", "unpatch_transformers"]

__getattr__, __dir__ = import_on_use(__name__, dict.fromkeys(__all__, "transformers"), __all__)
