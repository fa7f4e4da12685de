"""sentencepiece's `.model` of type BPE: pieces with scores, the settings of the trainer and the normalizer.

The files: `protobuf.py` the wire format; `model.py` a model as data, parsed and serialized; `merges.py` merges from
scores and back; `reading.py` and `writing.py` a model to a spec and back.
"""

from __future__ import annotations

from bpe.formats.sentencepiece.reading import read
from bpe.formats.sentencepiece.writing import write

__all__ = ["read", "write"]
