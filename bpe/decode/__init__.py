"""Token ids to bytes and text.

Input is ids, as an array, a list or one at a time; output is bytes or a str. The files, in the order in which ids pass
through them:

- `decoder.py` checks ids, and decodes whole arrays and batches;
- `incremental.py` defines `IncrementalDecoder`, which returns text as soon as a character is complete;
- `step_decoder.py` decodes by the steps of a tokenizer.json;
- `_decoder.pyx` concatenates the bytes of tokens, copying 16 bytes at a time; `_stream.pyx` decodes single ids.

Invariants: decoding the result of `encode` gives the original text, unless a normalizer or an unknown token changed
it; an id without a token is an error; ids pushed in portions of any size give the same text as all at once. Cost:
linear in the ids and in the bytes of their tokens; memory is the result and one table of the vocabulary.

Sources: the end-of-word mark and its removal as in subword-nmt and Hugging Face's `tokenizers`; U+FFFD for invalid
UTF-8 as in `bytes.decode(errors="replace")`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpe._lazy import import_on_use

if TYPE_CHECKING:
    from bpe.decode.incremental import IncrementalDecoder

#: The public names, and the modules that define them.
_MODULES = {"IncrementalDecoder": "incremental"}

__all__ = ["IncrementalDecoder"]

__getattr__, __dir__ = import_on_use(__name__, _MODULES, __all__)
