"""Random rows of 1,024 tokens in batches of 64 from shards on disk, beside nanoGPT's `get_batch`; packing of documents.

    python benchmarks/bench_loader.py [--tokens MILLIONS] [--repeat N] [-o OUT.json]

The first table has the time of a batch in one process with one thread, which is what a worker of a DataLoader does, and
megabytes per second of ids: as rows have them (int64 inputs; the labels are made as well) and as the shards have them
(uint16). nanoGPT's way is the function below, from its train.py; it needs PyTorch and is left out without it. The ways
are alternated and the figures are medians. The file is in the page cache.

The second table has each strategy of `Packed` on documents of log-normal lengths (median 400 tokens, mean 830): the
documents packed per second, and the shares of padding, of documents that no row has whole, and of documents that are
longer than a row.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from report import at_least, describe_machine, make_parser, median, print_table, save_measurements

from bpe.data import Blocks, Packed, TokenShards, torch_collate, write_shards

LENGTH, SIZE = 1024, 64
#: Batches in one measurement.
BATCHES = 200


def make_nanogpt_loader(path: Path) -> Callable[[], Any]:
    """A function like get_batch of nanoGPT's train.py, on the CPU."""
    import torch

    block_size, batch_size = LENGTH, SIZE

    def get_batch() -> Any:
        data = np.memmap(path, dtype=np.uint16, mode="r")  # made for each batch, against a leak of memory
        ix = torch.randint(len(data) - block_size, (batch_size,))
        x = torch.stack([torch.from_numpy((data[i : i + block_size]).astype(np.int64)) for i in ix])
        y = torch.stack([torch.from_numpy((data[i + 1 : i + 1 + block_size]).astype(np.int64)) for i in ix])
        return x, y

    return get_batch


def make_loaders(folder: Path, n_tokens: int) -> dict[str, Callable[[], Any]]:
    """Functions that return a batch, by name."""
    rng = np.random.default_rng(0)
    lengths = np.full(n_tokens // 1000, 1000)
    write_shards((rng.integers(0, 50257, length) for length in lengths), folder / "shards", largest_id=50256)
    (folder / "train.bin").write_bytes((folder / "shards" / "tokens-00000.npy").read_bytes()[128:])
    shards = TokenShards(folder / "shards")
    blocks = Blocks(shards, LENGTH)
    documents = Blocks(shards, LENGTH, fields=("input_ids", "labels", "position_ids", "document_ids", "cu_seqlens"))
    packed = Packed(shards, LENGTH)
    calls: dict[str, Callable[[], Any]] = {}
    for name, rows in (("Blocks", blocks), ("Blocks, all fields", documents), ("Packed", packed)):
        calls[name] = rows.batches(SIZE, epochs=None).__next__
    if importlib.util.find_spec("torch"):
        import torch

        torch.set_num_threads(1)
        keys = iter([(i // len(blocks), i % len(blocks)) for i in range(10**6)])
        calls["Blocks, PyTorch map-style"] = lambda: torch_collate(
            blocks.__getitems__([next(keys) for _ in range(SIZE)])
        )
        calls["nanoGPT get_batch"] = make_nanogpt_loader(folder / "train.bin")
    return calls


def measure_batches(calls: dict[str, Callable[[], Any]], repeat: int) -> list[dict[str, Any]]:
    """Seconds per batch, alternated."""
    rows = []
    for turn in range(repeat):
        for name, batch in calls.items():
            for _ in range(BATCHES // 10):
                batch()
            start = time.perf_counter()
            for _ in range(BATCHES):
                batch()
            rows.append({"way": name, "seconds": (time.perf_counter() - start) / BATCHES})
            print(f"{turn + 1}/{repeat} {name}", file=sys.stderr)
    return rows


def measure_packing(folder: Path, n_tokens: int, repeat: int) -> list[dict[str, Any]]:
    """Each strategy on documents of many lengths."""
    rng = np.random.default_rng(1)
    lengths = np.maximum(rng.lognormal(6, 1.2, max(n_tokens // 830, 1)).astype(np.int64), 1)
    write_shards((np.zeros(length, dtype=np.uint16) for length in lengths), folder / "documents", largest_id=0)
    shards = TokenShards(folder / "documents")
    rows = []
    for _ in range(repeat):
        for strategy in ("concat", "best-fit", "best-fit-crop"):
            start = time.perf_counter()
            packed = Packed(shards, LENGTH, strategy=strategy)
            seconds = time.perf_counter() - start
            statistics_of_rows = packed.statistics
            rows.append(
                {
                    "way": strategy,
                    "seconds": seconds / len(lengths),
                    "padding": statistics_of_rows["padding"] / (statistics_of_rows["rows"] * (LENGTH + 1)),
                    "truncated": statistics_of_rows["truncated"] / len(lengths),
                    "longer": float((lengths > LENGTH + 1).mean()),
                }
            )
    return rows


def main() -> None:
    """Measure, print tables, write JSON."""
    parser = make_parser(__doc__)
    parser.add_argument("--tokens", type=at_least(1), default=100, help="millions of tokens; default 100")
    options = parser.parse_args()
    n_tokens = options.tokens * 10**6
    with tempfile.TemporaryDirectory() as folder:
        batches = measure_batches(make_loaders(Path(folder), n_tokens), options.repeat)
        packing = measure_packing(Path(folder), n_tokens, options.repeat)
    print(
        f"{describe_machine()}; batches of {SIZE} rows of {LENGTH:,} tokens, {options.tokens} million tokens, one "
        "thread\n"
    )
    lines: list[tuple[object, ...]] = []
    for name in dict.fromkeys(row["way"] for row in batches):
        seconds = median([row for row in batches if row["way"] == name], "seconds")
        rates = [f"{SIZE * LENGTH * width / seconds / 1e6:,.0f}" for width in (8, 2)]
        lines.append((name, f"{seconds * 1e6:,.0f}", *rates))
    print_table(("way", "microseconds", "MB/s of int64 inputs", "MB/s of uint16 ids"), lines)
    print()
    lines = []
    for name in dict.fromkeys(row["way"] for row in packing):
        way_rows = [row for row in packing if row["way"] == name]
        rate = f"{1e-6 / median(way_rows, 'seconds'):.1f}"
        shares = [f"{way_rows[0][key]:.2%}" for key in ("padding", "truncated", "longer")]
        lines.append((name, rate, *shares))
    print_table(
        ("strategy", "million documents/s", "padding", "documents not whole", "documents longer than a row"), lines
    )
    save_measurements(options.output, [*batches, *packing])


if __name__ == "__main__":
    main()
