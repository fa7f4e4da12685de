"""The names and limits of options, apart from what they name, so that the parser of a command line imports no more."""

from __future__ import annotations

#: Of normalizers (`bpe/text/normalizers.py`).
NORMALIZERS = ("nfc", "nfd", "nfkc", "nfkd", "lower", "strip", "collapse", "html")
#: Of formats of sources (`bpe/corpus/sources.py`).
SOURCE_FORMATS = ("auto", "text", "jsonl", "csv", "tsv", "parquet", "arrow")
#: Of formats of training shards (`bpe/data/formats`).
SHARD_FORMATS = ("native", "megatron", "parquet", "arrow", "nanogpt", "llmc", "datatrove", "dolma")
#: The most shards of shuffled documents (`bpe/data/plan.py`).
MAX_SHUFFLED_SHARDS = 4096
