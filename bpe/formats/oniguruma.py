r"""Regular expressions that mean the same to the `regex` package and to Oniguruma, the engine of Hugging Face's files.

`bpe/text/oniguruma.py` says which, and `bpe/pretokenize/spellings.py` lists the published patterns.
"""

from __future__ import annotations

from bpe.pretokenize.spellings import NAMED, SPELLED, published
from bpe.text.oniguruma import MAX_DEPTH, MAX_LENGTH, escaped, means_the_same, to_regex

__all__ = ["MAX_DEPTH", "MAX_LENGTH", "NAMED", "SPELLED", "escaped", "means_the_same", "published", "to_regex"]
