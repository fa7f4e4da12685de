"""Learning merges from word counts.

In come a corpus or counts and the options; out comes a tokenizer. The files, in the order in which data meets them:

- `train.py` `bpe.train`; `extend.py` `bpe.extend`, which goes on from a vocabulary; `options.py` the checked options;
- `words.py`, `kernel_input.py` what the kernel is given; `alphabet.py` the first tokens; `trainer.py` drives it;
- `checkpoint.py` what is saved on the way, to resume from;
- `_trainer.pyx` the loop: take the best pair, merge it everywhere, until the vocabulary is full;
- `_symbol_array.pyx` all words as one array of symbols; `_token_table.pxd` the tokens; `_pair_table.pxd` and
  `_pair_heap.pyx` the pairs and their queue; `_pair_merge.pyx` one merge; `_recount.pyx` the next epoch.

Invariants: each merge is the one that the definition names under the tie rule, whatever threads, memory or epochs;
the counts of pairs in the table are exact; a checkpoint resumed gives the same tokenizer.

Cost: a merge is linear in the occurrences of its pair, found by lists of exact positions; a pair enters the table only
while its count is over the epoch's threshold, and the symbols are counted anew a few times in a training.

Sources: Gage (1994) and Sennrich et al. (2016) for the algorithm, subword-nmt and Hugging Face's `tokenizers` for
the tie rules; threshold epochs are this project's own.
"""
