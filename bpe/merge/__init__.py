"""Merging one pretoken: the kernels that apply merges by rank.

In come the bytes of a piece and a vocabulary's merges; out come the ids that byte-pair encoding defines: the pair of
least rank is merged, the leftmost where ranks are equal, until no pair can be. The files, in the order in which a
piece meets them:

- `_merger.pyx` holds the tables and chooses the way; `_merge_table.pyx` (left, right) to rank and id;
- `_merging.pyx` (`_short_merge.h`) up to 64 symbols in registers, or any number by a heap (`_merge_queue.pxd`);
- `_long_merge.pyx` longer pieces window by window, joined where `_origins.pyx` proves that nothing changes;
- `_dropout.pyx` the same with merges left out at random.

Invariants: every way gives the same ids, those of the definition; tables are immutable and shared by all threads;
a piece of any length takes memory in proportion to its length. Cost: n log n at most for n symbols by the heap, linear
by windows; a pair that has no merge is ruled out by a filter of bits first.

Sources: Sennrich, Haddow and Birch, "Neural Machine Translation of Rare Words with Subword Units" (2016); GitHub's
`bpe` crate for the test that two tokens may be adjacent; Provilkov et al., "BPE-Dropout" (2020).
"""
