"""The engines of models that are more than merges by rank.

Each is an `Engine` (`bpe/encode/engine.py`) with another way to the ids of a text; what is built on engines, such as
files, streams and offsets, does not know the difference.

- `choosing.py` the engine of a tokenizer, whatever its model is;
- `boundless.py` BoundlessBPE: merges within words, and then merges of words that are one token each;
- `picky.py` PickyBPE: merges and deletions of tokens, in the order of training.

Invariants: as of `bpe/encode`. What is not defined for such a model, as dropout, is an error that says so.

Sources: the papers that the files name; their definitions are in docs/train.md and docs/careful_training.md.
"""
