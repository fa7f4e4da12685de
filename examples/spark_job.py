"""Train a tokenizer on a folder of Parquet files and encode them, with Apache Spark (pip install 'bytepair[spark]').

    spark-submit examples/spark_job.py CORPUS OUT            # on a cluster
    python examples/spark_job.py CORPUS OUT                  # on this machine, one worker for each core

CORPUS has Parquet files with a column `text`; Spark reads any path that it can reach (hdfs://, s3a://). OUT gets
`words.counts`, `tokenizer.json` and `ids/`, Parquet files with a column `input_ids` of array<int>. bpe must be
installed on each worker.
"""

import argparse
from pathlib import Path

from pyspark.sql import SparkSession

import bpe
from bpe.distributed import spark as bpe_spark


def main() -> None:
    """Count, train, encode."""
    parser = argparse.ArgumentParser()
    parser.add_argument("corpus")
    parser.add_argument("out", type=Path)
    parser.add_argument("--vocab-size", type=int, default=32_000)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)

    session = SparkSession.builder.appName("bpe").getOrCreate()
    corpus = session.read.parquet(args.corpus).select("text")

    counts = bpe_spark.count(corpus, special_tokens=["<|endoftext|>"])
    counts.save(args.out / "words.counts")
    tok = bpe.train(counts=counts, vocab_size=args.vocab_size, special_tokens=["<|endoftext|>"])
    tok.save(args.out / "tokenizer.json")

    encoded = bpe_spark.encode(corpus, tok, append="<|endoftext|>", keep_columns=False)
    encoded.write.mode("overwrite").parquet(str(args.out / "ids"))
    session.stop()


if __name__ == "__main__":
    main()
