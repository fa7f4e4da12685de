"""Cutting text into pretokens, the pieces that merges never cross.

In comes UTF-8; out come the bounds of the pretokens. A published pattern has a scanner; every other pattern goes
through the `regex` package, exact and slower. The files, in the order in which text meets them:

- `pretokenizer.py` the class `Pretokenizer`; `patterns.py` the published expressions, `_patterns.pxd` their numbers;
- `_scanner.pyx` finds pretokens, up to 4 KB of text at a time;
- `_char_masks.pyx` (`_char_masks.h`, `_letters.h`) turns bytes into bit masks of character classes;
- `_boundaries.pxd` one pattern's rules as arithmetic on 64-bit masks;
- `_char_scanner.pyx` the same rules one character at a time, where masks cannot decide;
- `_safe_points.pyx` where a text may be cut without changing a pretoken, for threads and streams.

Invariants: a scanner finds exactly the matches of its expression, bytes that are not UTF-8 included; a block starts
at a known start of a pretoken, so nothing is carried from block to block. Cost: linear, some 10% of it scanned twice.

Sources: tiktoken, GPT-2, CLIP, Llama 3, Qwen, DeepSeek, Mistral and StarCoder for the patterns; simdjson for
bit masks of character classes (Langdale and Lemire, "Parsing gigabytes of JSON per second", 2019).
"""
