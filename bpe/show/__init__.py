"""Tokens on a terminal: one line, in colours or with separators. Rendered from plain data, not from a tokenizer.

Input is a sequence of tokens as bytes or str; output is a str for a terminal. The only file is `colours.py`: `render`
colours the tokens of a text (or separates them), `plain` separates tokens of any kind, `use_colour` says whether a
stream supports colours. The spelling of a single token is in `bpe/base/spelling.py`, because progress bars show tokens
too.

Invariants: a plain line determines its list of tokens; control characters in tokens are always escaped. Cost: linear
in the tokens.

Sources: https://no-color.org for the environment; subscripts for characters that several tokens share are this
project's own.
"""
