"""Byte-pair encoding: train vocabularies on large corpora, encode and decode text, fast and exact.

>>> import bpe
>>> tok = bpe.train(texts=["the more the merrier"], vocab_size=262)
>>> tok.decode(tok.encode("the merrier"))
'the merrier'
"""

try:
    import bpe._core.scan  # noqa: F401 (the first of the kernels that everything needs)
except ModuleNotFoundError as error:
    raise ImportError(
        f"{error}: bpe's kernels are not compiled in {__path__[0]}; install the package (pip install . or, to work on "
        "it, pip install -e .), and do not import it from a source folder that is not installed"
    ) from None

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
