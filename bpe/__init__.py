"""Byte-pair encoding: train vocabularies on large corpora, encode and decode text, fast and exact.

>>> import bpe
>>> tok = bpe.train(texts=["the more the merrier"], vocab_size=262)
>>> tok.decode(tok.encode("the merrier"))
'the merrier'
"""

from importlib.metadata import version

from bpe import normalizers
from bpe.batch import TokenBatch
from bpe.counting import WordCounts, count_words
from bpe.decoding import IncrementalDecoder
from bpe.errors import FormatError
from bpe.pretokenize import Pretokenizer
from bpe.spec import TokenizerSpec
from bpe.tokenizer import Tokenizer, train
from bpe.training import Training

__version__ = version("bpe")

__all__ = [
    "FormatError",
    "IncrementalDecoder",
    "Pretokenizer",
    "TokenBatch",
    "Tokenizer",
    "TokenizerSpec",
    "Training",
    "WordCounts",
    "__version__",
    "count_words",
    "normalizers",
    "train",
]
