"""Preparation of text: special tokens are found, text between them is normalized and split into pretokens.

Input is UTF-8; output is segments (`pipeline.py`), each a special token or text with the bounds of its pretokens, the
pieces that merges never cross. `preparing.py` is the one place that knows the order. A published pattern has a scanner;
every other pattern is matched by the `regex` package, which is exact but slower. The files, in the order in which text
passes through them:

- `pretokenizer.py` the classes `Pretokenizer` and `PipelinePretokenizer`, which `pipeline.py` runs, with the steps of
  `steps.py`; `simplifying.py` replaces steps by a pretokenizer that equals them; `patterns.py` the published
  expressions, `_patterns.pxd` their numbers;
- `_scanner.pyx` finds pretokens, up to 4 KB of text at a time;
- `_char_masks.pyx` (`_char_masks.h`, `_letters.h`) converts bytes to bit masks of character classes;
- `_boundaries.pxd` the rules of each pattern as arithmetic on 64-bit masks;
- `_char_scanner.pyx` the same rules one character at a time, where the masks cannot decide;
- `_piece_scanner.pyx` (`_byte_cuts.h`) text of superword vocabularies, with the long pretokens that
  `merge/two_stages.py` knows; `_word_scanner.pyx` the words of superword pretokenizers;
- `_safe_points.pyx` finds positions where a text can be split without changing a pretoken, for threads and streams.

Invariants: a scanner finds exactly the matches of its expression, also in invalid UTF-8; a block starts at a known
start of a pretoken, so no state is carried between blocks. Cost: linear; about 10% of the text is scanned twice.

Sources: tiktoken, GPT-2, CLIP, Llama 3, Qwen, DeepSeek, Mistral and StarCoder for the patterns; simdjson for
bit masks of character classes (Langdale and Lemire, "Parsing gigabytes of JSON per second", 2019).
"""
