"""From a corpus to a training step: shards of ids, readers of shards, loaders, and Hugging Face datasets.

In come sources of text (`bpe.corpus`) and a tokenizer; out come shards on disk, and rows of ids in the order in which
training reads them. Optional packages (pyarrow, torch, datasets) are imported only inside the functions that need
them. The files, in the order in which data meets them:

- `map_function.py` `Tokenizer.map_function`, for `datasets.Dataset.map`.

Invariants: the ids are those of `Tokenizer.encode`, whatever the number of workers. Cost: linear in the text.

Sources: the documentation of Hugging Face's `datasets`.
"""
