r"""Pretokenizers made of steps, as in Hugging Face's `tokenizers`: `Metaspace`, `Digits`, `Punctuation`, `Split`, ….

This is the public import path; `bpe/pretokenize/steps.py` defines them. An argument named `pretokenizer` accepts one
step or a list of them. A tokenizer with such a pretokenizer has every method of `Tokenizer`; where no kernel covers its
steps, they run in Python, which is slower than the named patterns of `bpe.Pretokenizer`.

>>> import bpe
>>> from bpe.pretokenizers import Digits, Metaspace
>>> counts = bpe.count_words(texts=["in 1984"], pretokenizer=[Metaspace(), Digits(individual_digits=True)])
>>> sorted(word.decode() for word, _ in counts.items())
['1', '4', '8', '9', '▁', '▁in']
"""

from bpe.pretokenize.steps import (
    BertPreTokenizer,
    ByteLevel,
    CharDelimiterSplit,
    Digits,
    FixedLength,
    Metaspace,
    Punctuation,
    Split,
    Step,
    UnicodeScripts,
    Whitespace,
    WhitespaceSplit,
)

__all__ = [
    "BertPreTokenizer",
    "ByteLevel",
    "CharDelimiterSplit",
    "Digits",
    "FixedLength",
    "Metaspace",
    "Punctuation",
    "Split",
    "Step",
    "UnicodeScripts",
    "Whitespace",
    "WhitespaceSplit",
]


def __dir__() -> list[str]:
    return __all__
