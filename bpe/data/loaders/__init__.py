"""Loaders: fixed-length rows of token ids in a seed's order, and batches for any number of ranks and workers.

Reads `TokenShards` (or raw text) and yields dicts of int64 arrays. The files, in the order in which data meets them:

- `order.py` the order of rows: a permutation that is a pure function of seed, epoch and index;
- `spans.py` batches from spans of ids, with `_gather.pyx`, which copies and numbers them;
- `rows.py` what all datasets share: indices, batches of ranks, state to resume from;
- `blocks.py` rows of consecutive tokens (`Blocks`);
- `packing.py` rows that keep documents together (`Packed`), with `_packing.pyx`, which places them;
- `mixture.py` weighted mixtures of datasets (`Mixture`);
- `streaming.py` rows encoded from raw text while they are read (`StreamingEncoder`);
- `torch.py` samplers and iterables for PyTorch.

Invariants: each row is read exactly once per epoch, by one rank and one worker; the sequence of global batches depends
on neither; the state of a run is the same on all ranks. Cost: a batch costs what copying its ids costs.
"""
