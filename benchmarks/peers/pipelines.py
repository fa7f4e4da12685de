"""From a corpus to training shards: from a text, .jsonl.zst or Parquet file to files of ids on disk.

`write` encodes a source into a folder or file `out`, in one of the formats that `forms` lists. It uses the modules that
`modules` names, which are imported before the time is taken. `ids` reads the token ids back, so that outputs can be
compared. Documents in text files are separated by <|endoftext|>; records of other sources have them in the field
"text".
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peers.common import SEPARATOR, BpeBase, Peer, Vocab
from peers.published import TOKENIZERS

os.environ["HF_HUB_OFFLINE"] = "1"  # read when datasets and datatrove are imported

Ids = NDArray[np.unsignedinteger[Any]]

#: Names for the end of text in the vocabularies that are measured.
END = "<|endoftext|>"


class BpePeer(BpeBase):
    """This package; "array" is `encode_files`, which writes nothing."""

    forms = ("array", "native", "megatron", "nanogpt", "datatrove")

    def list_modules(self, path: str) -> tuple[str, ...]:
        """The modules that encoding a source needs."""
        return ("bpe.data.encoding", *(("pyarrow.parquet",) if path.endswith(".parquet") else ()))

    def write(self, path: str, form: str, out: Path, vocab: Vocab, threads: int) -> Any:
        """Shards in the folder `out`, or an array in memory."""
        import bpe

        tok = bpe.Tokenizer.load(vocab.json)
        if form == "array":
            return tok.encode_files(path, separator=SEPARATOR, threads=threads).ids
        from bpe.data import encode_shards

        separator = SEPARATOR if path.endswith(".txt") else None
        sources = bpe.Sources(path, separator=separator, separator_ends=separator is not None)
        encode_shards(sources, tok, out, format=form, threads=threads)
        return None

    def read_ids(self, out: Path, form: str, result: Any) -> Ids:
        """The ids of all shards."""
        if form == "array":
            array: Ids = result
            return array
        from bpe.data import TokenShards

        shards = TokenShards(out)
        return shards.tokens(0, shards.n_tokens)


class Gigatoken(Peer):
    """gigatoken reads and encodes the file, NumPy writes the flat array."""

    name = "gigatoken"
    forms = ("native",)

    def list_modules(self, path: str) -> tuple[str, ...]:
        """The modules that it needs."""
        del path
        return ("gigatoken", "awkward")

    def write(self, path: str, form: str, out: Path, vocab: Vocab, threads: int) -> None:
        """One .npy file."""
        import awkward

        del form
        peer = TOKENIZERS["gigatoken"]()
        rows = peer.encode_corpus(peer.load(vocab, threads), "file", path, [])
        out.mkdir()
        np.save(out / "ids.npy", np.asarray(awkward.flatten(rows), dtype=np.uint16))
        np.save(out / "offsets.npy", np.cumsum(np.asarray(awkward.num(rows), dtype=np.int64)))

    def read_ids(self, out: Path, form: str, result: Any) -> Ids:
        """The array."""
        del form, result
        array: Ids = np.load(out / "ids.npy")
        return array


class Datasets(Peer):
    """Hugging Face datasets with tiktoken, as nanoGPT's prepare.py does it: `map` over documents, then one memmap."""

    name = "datasets"
    forms = ("nanogpt",)

    def list_modules(self, path: str) -> tuple[str, ...]:
        """The modules that it needs."""
        del path
        return ("datasets", "tiktoken")

    def write(self, path: str, form: str, out: Path, vocab: Vocab, threads: int) -> None:
        """One .bin file."""
        import datasets

        del form
        datasets.disable_progress_bars()
        cache = str(out / "cache")
        texts = datasets.load_dataset("json", data_files=path, split="train", cache_dir=cache)
        tok = TOKENIZERS["tiktoken"]()
        encoding = tok.load(vocab, 1)
        encode, end = encoding.encode_ordinary, len(encoding.token_byte_values())

        def encoded(row: dict[str, Any]) -> dict[str, Any]:
            ids = [*encode(row["text"]), end]
            return {"ids": ids, "len": len(ids)}

        rows = texts.map(encoded, remove_columns=texts.column_names, num_proc=threads)
        array = np.memmap(out / "train.bin", dtype=np.uint16, mode="w+", shape=(int(np.sum(rows["len"])),))
        offset = 0
        parts = min(64, len(rows))
        for index in range(parts):
            shard = rows.shard(num_shards=parts, index=index, contiguous=True).with_format("numpy")
            part = np.concatenate(shard["ids"])
            array[offset : offset + len(part)] = part
            offset += len(part)
        array.flush()

    def read_ids(self, out: Path, form: str, result: Any) -> Ids:
        """The file."""
        del form, result
        return np.fromfile(out / "train.bin", dtype=np.uint16)


class Datatrove(Peer):
    """datatrove's DocumentTokenizer over its JSON Lines reader, one task for each thread's part of the documents."""

    name = "datatrove"
    forms = ("datatrove",)

    def list_modules(self, path: str) -> tuple[str, ...]:
        """The modules that it needs."""
        del path
        return ("datatrove.executor", "datatrove.pipeline.readers", "datatrove.pipeline.tokens")

    def write(self, path: str, form: str, out: Path, vocab: Vocab, threads: int) -> None:
        """One .ds file with its index."""
        from datatrove.executor import LocalPipelineExecutor
        from datatrove.pipeline.readers import JsonlReader
        from datatrove.pipeline.tokens import DocumentTokenizer

        del form, threads  # one file is one task
        reader = JsonlReader(str(Path(path).parent), glob_pattern=Path(path).name, compression="zstd")
        writer = DocumentTokenizer(
            str(out / "ids"), tokenizer_name_or_path=vocab.json, eos_token=END, shuffle_documents=False
        )
        LocalPipelineExecutor([reader, writer], tasks=1, logging_dir=str(out / "logs")).run()

    def read_ids(self, out: Path, form: str, result: Any) -> Ids:
        """The file."""
        del form, result
        (path,) = (out / "ids").glob("*.ds")
        return np.fromfile(path, dtype=np.uint16)


def is_installed(peer: Peer) -> bool:
    """Whether a library can be imported."""
    return importlib.util.find_spec(peer.name) is not None


PIPELINES: dict[str, Any] = {peer.name: peer for peer in (BpePeer, Gigatoken, Datasets, Datatrove)}
