"""Train a tokenizer on a folder of Parquet files and encode them, with Ray Data (pip install 'bytepair[ray]').

    ray job submit -- python examples/ray_job.py CORPUS OUT  # on a cluster
    python examples/ray_job.py CORPUS OUT                    # on this machine, one actor for each core

CORPUS has Parquet files with a column `text`; Ray reads any path that it can reach (s3://, gs://). OUT gets
`words.counts`, `tokenizer.json` and `ids/`, Parquet files with a column `input_ids`. bpe must be installed on each
node.
"""

import argparse
from pathlib import Path

import ray

import bpe
from bpe.distributed import ray as bpe_ray


def main() -> None:
    """Count, train, encode."""
    parser = argparse.ArgumentParser()
    parser.add_argument("corpus")
    parser.add_argument("out", type=Path)
    parser.add_argument("--vocab-size", type=int, default=32_000)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)

    ray.init()
    corpus = ray.data.read_parquet(args.corpus, columns=["text"])

    counts = bpe_ray.count(corpus, special_tokens=["<|endoftext|>"])
    counts.save(args.out / "words.counts")
    tok = bpe.train(counts=counts, vocab_size=args.vocab_size, special_tokens=["<|endoftext|>"])
    tok.save(args.out / "tokenizer.json")

    encoded = bpe_ray.encode(corpus, tok, append="<|endoftext|>", keep_columns=False)
    encoded.write_parquet(str((args.out / "ids").resolve()))
    ray.shutdown()


if __name__ == "__main__":
    main()
