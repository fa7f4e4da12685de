"""sentencepiece's `.model` of type BPE: pieces with scores, the settings of the trainer and the normalizer.

A model is a protocol buffer. It has no merges: sentencepiece merges the two adjacent symbols whose concatenation is the
piece with the best score, the leftmost of equal ones. The files:

- `protobuf.py` reads and writes the fields of messages, `model.py` a model as plain data;
- `merges.py` recovers merges from scores, and makes scores of merges;
- `reading.py` builds a `TokenizerSpec` of a model, in the shape of a tokenizer.json; `writing.py` a model of a spec.

Invariants: ids and text are sentencepiece's; what is written is read to an equal tokenizer, or the loss is named
(`bpe/formats/saving.py`). Unigram models are refused: they are not byte-pair encoding. Cost: linear in the file, and
recovering merges in the sum of the squared lengths of the pieces.

Source: sentencepiece_model.proto and bpe_model.cc of sentencepiece.
"""

from __future__ import annotations

from bpe.formats.sentencepiece.reading import read
from bpe.formats.sentencepiece.writing import write

__all__ = ["read", "write"]
