"""Byte-pair encoding: train vocabularies on large corpora, encode and decode text, fast and exact.

>>> import bpe
>>> tok = bpe.train(texts=["the more the merrier"], vocab_size=262)
>>> tok.decode(tok.encode("the merrier"))
'the merrier'
"""

try:
    import bpe._starting
    import bpe.encode._encoder
    import bpe.training._trainer  # noqa: F401 (with the encoder, it imports most other kernels)
except (ImportError, TypeError, ValueError) as error:  # the last two: compiled against another NumPy or bpe release
    if isinstance(error, ModuleNotFoundError) and not str(error.name).startswith("bpe."):
        raise  # NumPy is not installed
    from pathlib import Path

    from bpe._uncompiled import explanation

    raise ImportError(explanation(error, Path(__file__).resolve().parent)) from None

from bpe import data, normalizers, pretokenizers
from bpe._version import __version__
from bpe.base.progress import Progress
from bpe.batch import TokenBatch
from bpe.compat import accelerate
from bpe.converting import convert, diff
from bpe.corpus.sources import Sources
from bpe.count.counting import count_words
from bpe.count.word_counts import WordCounts
from bpe.decode.decoder import IncrementalDecoder
from bpe.errors import FormatError
from bpe.evaluation.evaluating import evaluate
from bpe.evaluation.result import Evaluation
from bpe.evaluation.sanity import sanity_check
from bpe.named.encodings import encoding_for_model, get_encoding, list_encoding_names
from bpe.pretokenize.pretokenizer import Pretokenizer
from bpe.tokenizer import Tokenizer
from bpe.training.adapting import adapt, prune
from bpe.training.extend import extend
from bpe.training.fair import ParityAware
from bpe.training.merge_rules import MergeRules
from bpe.training.picky.option import PickyBPE
from bpe.training.seeds import Seeds
from bpe.training.superwords import SuperWords
from bpe.training.train import train
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.training_record import Training

__all__ = [
    "Evaluation",
    "FormatError",
    "IncrementalDecoder",
    "MergeRules",
    "ParityAware",
    "PickyBPE",
    "Pretokenizer",
    "Progress",
    "Seeds",
    "Sources",
    "SuperWords",
    "TokenBatch",
    "Tokenizer",
    "TokenizerSpec",
    "Training",
    "WordCounts",
    "__version__",
    "accelerate",
    "adapt",
    "convert",
    "count_words",
    "data",
    "diff",
    "encoding_for_model",
    "evaluate",
    "extend",
    "get_encoding",
    "list_encoding_names",
    "normalizers",
    "pretokenizers",
    "prune",
    "sanity_check",
    "train",
]


def __dir__() -> list[str]:
    return __all__
