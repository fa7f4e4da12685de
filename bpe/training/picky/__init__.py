"""PickyBPE: training that deletes tokens which hardly occur any more once they are part of a longer one.

In: the counts of words, the options of `bpe.train`, and a `PickyBPE`. Out: a tokenizer with `Events`, merges and
deletions, and the record of its training. The files, from the data up:

- `option.py` the option `deletions=` of `bpe.train`, and what it does not go together with;
- `learning.py` sets up the kernel, drives it as plain training does, and builds the tokenizer;
- `_learner.pyx` a merge, and the deletions that follow.

Invariants: the events are those of the definition in docs/careful_training.md; the counts of pairs and tokens are exact
after each event; the result does not depend on threads.

Cost: three to five times the merges of plain training, in one thread. Each symbol of the distinct words takes some 30
bytes.

Source: Chizhov et al., "BPE Gets Picky" (EMNLP 2024, arXiv 2409.04599), and the authors' code. Encoding is in
`bpe/encode/models/picky.py`.
"""
