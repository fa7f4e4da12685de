"""Counting words and encoding on many machines: adapters for Ray Data and Apache Spark.

Takes a distributed dataset with a column of texts; returns a `WordCounts` for `bpe.train`, or the dataset with a column
of ids. Counting is a group-by and encoding a map, so the engines do the reading, the shuffling, the spilling to
disk and the retries. The files, in the order in which data meets them:

- `arrow_functions.py` what a worker does to Arrow data: `count_batch` gives words and counts, `encode_batch` ids; and
  `gather_counts`, with which the driver makes a `WordCounts` of the merged counts;
- `ray.py` `count` and `encode` for a `ray.data.Dataset`: actors, one tokenizer each;
- `spark.py` `count` and `encode` for a Spark `DataFrame`: `mapInArrow`, and `groupBy` for the sums.

Neither engine is imported before one of its functions is called. Without an engine, `bpe count-words --part` and `bpe
encode --part` divide a corpus among machines.

Invariants: ids and counts equal one process's; a task that is killed and run again counts nothing twice, because a
task's output replaces that of its failed attempts. Cost: each partition or block sends each of its distinct words once
through the shuffle; the driver holds the distinct words of the corpus once.

Sources: the interfaces of Ray Data (`map_batches`, `map_groups`) and of PySpark (`mapInArrow`).
"""
