"""Normalization: text before pretokenization, and the alignment of normalized text with the original.

Input is a str; output is the normalized str and, on request, the span of the original text that each of its characters
comes from. The files, in the order in which text passes through them:

- `normalizers.py` the normalizers (imported as `bpe.normalizers`), each plain data, called with a str, with `align` and
  `to_json`; `pipeline_normalizers.py` those that files of other libraries name;
- `unicode.py` over `_unicode.pyx`, `unicode_data.py` normalization forms and lower case with the Unicode versions of
  `tokenizers`, independent of Python's;
- `alignment.py` the spans;
- `matching.py` patterns of the `regex` package under a time limit; `oniguruma.py` and `oniguruma_sets.py` translate
  Oniguruma's patterns for it, and `character_sets.py` gives it characters as Unicode 16 has them;
- `letters.py` GPT-2's letters for bytes, in texts and in tokens;
- `_unicode.pxd`, `_unicode_classes.h` character classes for the kernels; `generate_unicode.py` writes the tables;
  `generate_sets.py` writes `character_data.py`, the sets of characters for `character_sets.py`.

Invariants: a normalizer is immutable and deterministic; a stream, however chunked, gives the same result as the whole
text; spans ascend and cover the text. Cost: linear in the text, except for user-defined patterns, which have a time
limit.

Sources: Unicode Standard Annex 15 (normalization forms); the behaviour of Hugging Face's `tokenizers`, tiktoken and
CLIP, queried for every code point.
"""
