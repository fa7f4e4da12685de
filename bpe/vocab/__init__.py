"""The description of a tokenizer as data, without lookup tables or caches. Its only kernel checks merges.

Input is tokens, merges and settings, from a training or from a file; output is a checked `TokenizerSpec`. The files,
in the order in which a tokenizer uses them:

- `vocabulary.py` ids and bytes of all tokens in one buffer;
- `spec.py` over `_spec.pyx`: the spec, and the check that its fields are consistent; `events.py` merges and deletions;
  `training_record.py` facts about a training; `output_steps.py` decoder, post-processor, truncation and padding;
- `special_tokens.py` finds special and added tokens in text, and says which of them are allowed; `special_names.py` the
  tokens that begin and end texts, and those that decoding may skip;
- `symbols.py` the tokens of single bytes or characters; `merging.py` what merging makes of them, and what never;
- `editing.py` derives a spec with more tokens or fewer; `comparing.py` a hash of all that determines ids, differences.

Invariants: a spec is immutable; all ids lie below `ID_LIMIT`; the result of merging two ordinary tokens is spelled as
their concatenation. Reachability needs an encoder, which is a higher layer: the caller passes it in. Cost: linear in
the vocabulary; finding special tokens is linear in the text.

Sources: tiktoken for the meaning of `allowed_special`; Hugging Face's `tokenizers` for added tokens and their flags.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpe._lazy import import_on_use

if TYPE_CHECKING:
    from bpe.vocab.spec import TokenizerSpec
    from bpe.vocab.training_record import Training

#: The public names, and the modules that define them.
_MODULES = {"TokenizerSpec": "spec", "Training": "training_record"}

__all__ = ["TokenizerSpec", "Training"]

__getattr__, __dir__ = import_on_use(__name__, _MODULES, __all__)
