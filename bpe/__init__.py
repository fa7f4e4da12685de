"""Byte-pair encoding: train vocabularies on large corpora, encode and decode text, fast and exact.

>>> import bpe
>>> tok = bpe.train(texts=["the more the merrier"], vocab_size=262)
>>> tok.decode(tok.encode("the merrier"))
'the merrier'
"""

try:
    import bpe._core.encoder
    import bpe._core.trainer  # noqa: F401 (with encoder, it imports most of the other kernels)
except (ImportError, TypeError, ValueError) as error:  # the last two: compiled for another release of NumPy or of bpe
    if isinstance(error, ModuleNotFoundError) and not str(error.name).startswith("bpe."):
        raise  # NumPy is not installed
    from pathlib import Path

    from bpe._uncompiled import explanation

    raise ImportError(explanation(error, Path(__file__).resolve().parent)) from None

from bpe import normalizers
from bpe._version import __version__
from bpe.batch import TokenBatch
from bpe.counting import count_words
from bpe.decoding import IncrementalDecoder
from bpe.errors import FormatError
from bpe.extending import extend
from bpe.learning import Training
from bpe.pretokenize import Pretokenizer
from bpe.progress import Progress
from bpe.spec import TokenizerSpec
from bpe.tokenizer import Tokenizer
from bpe.training import train
from bpe.wordcounts import WordCounts

__all__ = [
    "FormatError",
    "IncrementalDecoder",
    "Pretokenizer",
    "Progress",
    "TokenBatch",
    "Tokenizer",
    "TokenizerSpec",
    "Training",
    "WordCounts",
    "__version__",
    "count_words",
    "extend",
    "normalizers",
    "train",
]


def __dir__() -> list[str]:
    return __all__
