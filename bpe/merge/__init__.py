"""Merging one pretoken: the kernels that apply merges by rank.

Turns the bytes of a piece, by a vocabulary's merges, into the ids that byte-pair encoding defines: the pair of least
rank is merged, the leftmost of equal ranks, until no pair has a merge. The files, in the order in which a piece meets
them:

- `_merger.pyx` holds the tables (made from those of `tables.py`, which it checks there) and chooses the way to merge;
  `_merge_table.pyx` maps (left, right) to rank and id;
- `_merging.pyx` (`_short_merge.h`) up to 64 symbols as a row, or any number with a heap (`_merge_queue.pxd`);
- `_long_merge.pyx` longer pieces window by window, joined where `_token_tree.pyx` proves that nothing changes;
- `two_stages.py` divides the merges of a superword vocabulary in two stages, `_high_merges.pyx` applies the second;
- `_dropout.pyx` merges with merges left out at random; `splitting.py` (`_splits.pyx`) splits finished tokens;
- `_across_words.pyx` merges words that are one token, after all within them; `_replay.pyx` merges and deletes in order.

Invariants: every way gives the same ids, those of the definition; tables are immutable and shared by all threads;
a piece of any length takes memory in proportion to its length. Cost: n log n at most for n symbols with the heap,
linear by windows; a Bloom filter rules out most pairs that have no merge.

Sources: Sennrich, Haddow and Birch, "Neural Machine Translation of Rare Words with Subword Units" (2016); GitHub's
`bpe` crate for the test that two tokens may be adjacent; Provilkov et al., "BPE-Dropout" (2020).
"""
