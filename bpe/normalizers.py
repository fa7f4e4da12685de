r"""Normalizers: functions that change a text before it is split into pretokens.

This is the public import path; `bpe/text/normalizers.py` and `bpe/text/pipeline_normalizers.py` define them.

Each is a small immutable value that is called with a str, compared by content, picklable and saved with the tokenizer.
Special tokens are found before normalization and are not changed by it.

An argument named `normalizer` also accepts the name of a normalizer, or a list of names and normalizers:

- "nfc", "nfd", "nfkc", "nfkd": `NFC()`, `NFD()`, `NFKC()`, `NFKD()`
- "lower": `Lowercase()`
- "strip": `Strip()`
- "collapse": `CollapseWhitespace()`
- "html": `UnescapeHTML()`

>>> from bpe.normalizers import CollapseWhitespace, Lowercase, NFC, Sequence
>>> Sequence(NFC(), Lowercase(), CollapseWhitespace())("A  Cafe\u0301")
'a café'
"""

from bpe.text.normalizers import (
    NFC,
    NFD,
    NFKC,
    NFKD,
    CollapseWhitespace,
    FixText,
    Lowercase,
    Normalizer,
    Remove,
    Replace,
    Sequence,
    Strip,
    UnescapeHTML,
)
from bpe.text.pipeline_normalizers import BertNormalizer, ByteLevel, Nmt, Precompiled, Prepend, StripAccents

__all__ = [
    "NFC",
    "NFD",
    "NFKC",
    "NFKD",
    "BertNormalizer",
    "ByteLevel",
    "CollapseWhitespace",
    "FixText",
    "Lowercase",
    "Nmt",
    "Normalizer",
    "Precompiled",
    "Prepend",
    "Remove",
    "Replace",
    "Sequence",
    "Strip",
    "StripAccents",
    "UnescapeHTML",
]


def __dir__() -> list[str]:
    return __all__
