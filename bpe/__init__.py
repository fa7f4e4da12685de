"""Byte-pair encoding: train vocabularies on large corpora, encode and decode text, fast and exact.

>>> import bpe
>>> tok = bpe.train(texts=["the more the merrier"], vocab_size=262)
>>> tok.decode(tok.encode("the merrier"))
'the merrier'
"""

from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

from bpe._lazy import import_on_use
from bpe._starting import is_command
from bpe._uncompiled import check_kernels
from bpe._version import __version__

if TYPE_CHECKING:
    from bpe import data, evaluation, normalizers, plots, pretokenizers, research
    from bpe.batch import TokenBatch
    from bpe.compat import accelerate
    from bpe.converting import convert, diff
    from bpe.corpus.sources import Sources
    from bpe.count.counting import count_words
    from bpe.count.word_counts import WordCounts
    from bpe.errors import FormatError
    from bpe.evaluation.evaluating import evaluate
    from bpe.named.registry import encoding_for_model, get_encoding
    from bpe.pretokenize.pretokenizer import Pretokenizer
    from bpe.prompts import PromptCache
    from bpe.training.combine import combine
    from bpe.training.config import Alphabet
    from bpe.training.extend import extend
    from bpe.training.merge_rules import MergeRules
    from bpe.training.prune import prune
    from bpe.training.superwords import SuperWords
    from bpe.training.train import train

#: The public names, and the modules that define them, which are imported when a name is first used. The rooms `base`,
#: `compat`, `decode`, `named` and `vocab`, and `errors`, have public names of their own, which are rarely needed.
_MODULES = {
    "Alphabet": "training.config",
    "FormatError": "errors",
    "MergeRules": "training.merge_rules",
    "Pretokenizer": "pretokenize.pretokenizer",
    "PromptCache": "prompts",
    "Sources": "corpus.sources",
    "SuperWords": "training.superwords",
    "TokenBatch": "batch",
    "Tokenizer": "tokenizer",
    "WordCounts": "count.word_counts",
    "accelerate": "compat",
    "base": "base",
    "combine": "training.combine",
    "compat": "compat",
    "convert": "converting",
    "count_words": "count.counting",
    "data": "data",
    "decode": "decode",
    "diff": "converting",
    "encoding_for_model": "named.registry",
    "errors": "errors",
    "evaluate": "evaluation.evaluating",
    "evaluation": "evaluation",
    "extend": "training.extend",
    "get_encoding": "named.registry",
    "named": "named",
    "normalizers": "normalizers",
    "plots": "plots",
    "pretokenizers": "pretokenizers",
    "prune": "training.prune",
    "research": "research",
    "train": "training.train",
    "vocab": "vocab",
}

__all__ = [
    "Alphabet",
    "FormatError",
    "MergeRules",
    "Pretokenizer",
    "PromptCache",
    "Sources",
    "SuperWords",
    "TokenBatch",
    "Tokenizer",
    "WordCounts",
    "__version__",
    "accelerate",
    "combine",
    "convert",
    "count_words",
    "data",
    "diff",
    "encoding_for_model",
    "evaluate",
    "evaluation",
    "extend",
    "get_encoding",
    "normalizers",
    "plots",
    "pretokenizers",
    "prune",
    "research",
    "train",
]

if not is_command():  # the command imports what it uses; elsewhere, NumPy and the tokenizer are ready at once
    check_kernels()
    from bpe.tokenizer import Tokenizer
elif PathFinder.find_spec("bpe.encode._encoder", [f"{__path__[0]}/encode"]) is None:
    check_kernels()
__getattr__, __dir__ = import_on_use(__name__, _MODULES, __all__, check_kernels)
