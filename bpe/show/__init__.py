"""Tokens for people: on a terminal, in a notebook and in the report. Drawn from plain data, not from a tokenizer.

Input is a sequence of tokens as bytes or str; output is a str: text for a terminal, or HTML. The files, in the order in
which tokens meet them:

- `pieces.py` splits tokens into what is drawn as text, in hexadecimal or as a label, by grapheme clusters;
- `terminal.py` draws lines for a terminal: `render` colours the tokens of a text (or separates them), `join_plain`
  separates tokens of any kind, `use_colour` says whether a stream shows colours, `draw_curve` draws the curve of a
  training;
- `html.py` draws spans, tables, cards and boxes for a browser;
- `views.py` holds the objects that `Tokenizer.show` and `bpe.plots.show_merges` return;
- `metrics.py` makes tables and bars of an evaluation.

The spelling of a single token is in `bpe/base/spelling.py`, because progress bars show tokens too.

Invariants: a plain line determines its list of tokens; control and format characters are always escaped or labelled, so
that none acts on a terminal or a page; all HTML from outside is escaped. Cost: linear in the tokens, some microseconds
each.

Sources: Unicode Standard Annex 29 for grapheme clusters (through the regex package); https://no-color.org,
https://force-color.org and http://bixense.com/clicolors for the environment; subscripts for characters that several
tokens share are this project's own.
"""
