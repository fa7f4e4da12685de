"""Learning merges from word counts.

A corpus or counts and the options become a tokenizer. The files, in the order in which data meets them:

- `train.py` `bpe.train` and its two strategies; `config.py` its arguments, validated; `job.py` one call of it, and
  the memory that it needs; `superwords.py` the option for two stages, `merge_rules.py` rules for merges
  (`_spelling_rules.pxd`);
- `extend.py` `bpe.extend`, with `encoded.py` (words as ids); `prune.py` `bpe.prune`, a smaller vocabulary by a corpus;
  `combine.py` `bpe.combine`, two vocabularies in one without a corpus;
- `kernel_input.py` the words as arrays, and the tokens to start from; `trainer.py` drives the kernel;
- `checkpoint.py` the files that an interrupted training resumes from;
- `_loop.pyx` the loop, which `bpe/research` shares: take the best pair, have it merged, until the vocabulary is full;
  `_trainer.pyx` merges it everywhere;
- `_symbol_array.pyx` all words as one array of symbols; `_token_table.pxd` the tokens; `_pair_table.pxd` and
  `_pair_heap.pxd` the pairs and their queue; `_pair_merge.pyx` one merge; `_recount.pyx` the next epoch.

Invariants: each merge is the one that the definition gives under the tie rule, whatever the threads, the memory and
the epochs; the counts of pairs in the table are exact; a resumed training gives the same tokenizer.

Cost: a merge is linear in the occurrences of its pair, which a list of exact positions gives. A pair enters the table
only while its count is over the epoch's threshold; each new epoch, a few in a training, recounts all symbols.

Sources: Gage (1994) and Sennrich et al. (2016) for the algorithm, subword-nmt and Hugging Face's `tokenizers` for
the tie rules; threshold epochs are this project's own.
"""
