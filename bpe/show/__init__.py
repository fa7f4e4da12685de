"""Tokens as people read them: one line, in colours or with separators. Drawn from plain data, not from a tokenizer.

In come tokens as bytes or str, one after the other; out comes a str for a terminal. The only file is `colours.py`:
`render` colours the tokens of a text (or separates them where colours are not wanted), `plain` writes tokens of any
kind, `use_colour` says whether a stream takes colours. How one token is spelled in visible characters is in
`bpe/base/spelling.py`, since progress bars show tokens too.

Invariants: a plain line stands for exactly one list of tokens; nothing that a terminal would act on is written as it
is. Cost: linear in the tokens.

Sources: https://no-color.org for the environment; subscripts for characters that several tokens share are this
project's own.
"""
