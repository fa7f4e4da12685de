"""Byte-pair encoding: train vocabularies on large corpora, encode and decode text, fast and exact.

>>> import bpe
>>> tok = bpe.train(texts=["the more the merrier"], vocab_size=262)
>>> tok.decode(tok.encode("the merrier"))
'the merrier'
"""

from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

import bpe._starting  # noqa: F401
from bpe._lazy import import_on_use
from bpe._uncompiled import check_kernels
from bpe._version import __version__

if TYPE_CHECKING:
    from bpe import data, normalizers, pretokenizers, research
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
    from bpe.training.config import Alphabet
    from bpe.training.extend import extend
    from bpe.training.merge_rules import MergeRules
    from bpe.training.prune import prune
    from bpe.training.superwords import SuperWords
    from bpe.training.train import train
    from bpe.vocab.spec import TokenizerSpec
    from bpe.vocab.training_record import Training

#: The public names, and the modules that define them, which are imported when a name is first used.
_MODULES = {
    "Alphabet": "training.config",
    "Evaluation": "evaluation.result",
    "FormatError": "errors",
    "IncrementalDecoder": "decode.decoder",
    "MergeRules": "training.merge_rules",
    "Pretokenizer": "pretokenize.pretokenizer",
    "Progress": "base.progress",
    "Sources": "corpus.sources",
    "SuperWords": "training.superwords",
    "TokenBatch": "batch",
    "Tokenizer": "tokenizer",
    "TokenizerSpec": "vocab.spec",
    "Training": "vocab.training_record",
    "WordCounts": "count.word_counts",
    "accelerate": "compat",
    "compat": "compat",
    "convert": "converting",
    "count_words": "count.counting",
    "data": "data",
    "diff": "converting",
    "encoding_for_model": "named.encodings",
    "errors": "errors",
    "evaluate": "evaluation.evaluating",
    "extend": "training.extend",
    "get_encoding": "named.encodings",
    "list_encoding_names": "named.encodings",
    "normalizers": "normalizers",
    "pretokenizers": "pretokenizers",
    "prune": "training.prune",
    "research": "research",
    "sanity_check": "evaluation.sanity",
    "train": "training.train",
}

__all__ = [
    "Alphabet",
    "Evaluation",
    "FormatError",
    "IncrementalDecoder",
    "MergeRules",
    "Pretokenizer",
    "Progress",
    "Sources",
    "SuperWords",
    "TokenBatch",
    "Tokenizer",
    "TokenizerSpec",
    "Training",
    "WordCounts",
    "__version__",
    "accelerate",
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
    "research",
    "sanity_check",
    "train",
]

if PathFinder.find_spec("bpe.encode._encoder", [f"{__path__[0]}/encode"]) is None:
    check_kernels()
__getattr__, __dir__ = import_on_use(__name__, _MODULES, __all__, check_kernels)
