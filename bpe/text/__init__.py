"""Text before it is cut: normalizers, and where each character of a normalized text comes from.

In comes a str; out comes a str, and on request the spans of the given text that its characters were made from. The
files, in the order in which text meets them:

- `normalizers.py` what users import as `bpe.normalizers`, each plain data with `normalize` and `to_json`;
- `unicode.py` over `_unicode.pyx`, `unicode_data.py` normal forms and lower case as the Unicode version of
  `tokenizers` has them, whatever Python's is;
- `alignment.py` the spans; `streaming.py` normalizing a text that comes in chunks, with the same result;
- `matching.py` patterns of the `regex` package under a time limit;
- `_unicode.pxd`, `_unicode_classes.h` character classes for the kernels; `generate_unicode.py` writes the tables.

Invariants: a normalizer is immutable and deterministic; a stream in any chunks gives what the whole text gives; spans
ascend and cover the text. Cost: linear in the text, but for patterns of the user's own, which the time limit bounds.

Sources: Unicode Standard Annex 15 (normal forms); the behaviour of Hugging Face's `tokenizers`, tiktoken and CLIP,
asked code point by code point.
"""
