"""What turns pretokens into ids, for each kind of model.

- `encoder.py` the encoder of a vocabulary, which every kind has;
- `boundless.py` BoundlessBPE: second ids for whole words, and a second step that merges words;
- `picky.py` PickyBPE: tables of merges and deletions, in the order of training;
- `model.py` composes the parts;
- `words.py` encodes one word in plain Python, for explanations and offsets.

What is not defined for a kind of model, as dropout, is an error of `bpe.vocab.spec.check_supported`.

Sources: the papers that the files name; their definitions are in docs/train.md and docs/careful_training.md.
"""
