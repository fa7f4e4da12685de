"""From a corpus to training shards on disk, beside the ways in which people do it today.

    python benchmarks/bench_corpus.py [FILE] [--threads N] [--less MB] [--large MB] [--repeat N] [-o results.json]

The first table has the rates of this package by source and format, and their share of the rate of `encode_files`, which
encodes the same text into an array and writes nothing. The second has other libraries: Hugging Face datasets with
tiktoken (nanoGPT's way) and datatrove take the first --less megabytes of the corpus, as JSON Lines; gigatoken with
NumPy takes all of it, and --large megabytes made by repeating it, to show memory.

Every measurement runs in a new process (run.py) with GPT-2's vocabulary, pinned to as many cores as it has threads, and
includes loading the tokenizer, but not importing modules. The libraries are alternated, and the tables show medians.
Rates are megabytes of text per second, whatever the size of the source. The ids of all outputs of a kind are compared,
and a difference fails the run. Memory is the peak of the process, with the interpreter. Without FILE, the shared
English corpus is used. Reading .jsonl.zst needs `pip install 'bytepair[corpus]'`.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from report import (
    SEPARATOR,
    at_least,
    cut_file,
    describe_machine,
    find_corpora,
    finish_report,
    make_parser,
    measure,
    median,
    print_table,
    save_measurements,
    write_vocabularies,
)

#: What is measured: the library, the format that it writes, the source.
OWN = (
    ("array", "txt"), ("native", "txt"), ("native", "parquet"), ("native", "jsonl.zst"), ("megatron", "txt"),
)  # fmt: skip
#: Beside other libraries: (format, source, library, which part of the corpus).
BESIDE = (
    ("nanogpt", "jsonl.zst", "datasets", "less"),
    ("datatrove", "jsonl.zst", "datatrove", "less"),
    ("native", "txt", "gigatoken", "whole"),
    ("native", "txt", "gigatoken", "large"),
)


@dataclass(frozen=True)
class Inputs:
    """A part of the corpus in several formats.

    Attributes:
        size: bytes of text.
        paths: by format: "txt", "jsonl.zst", "parquet".

    """

    size: int
    paths: dict[str, Path]


def write_inputs(path: Path, name: str, folder: Path) -> Inputs:
    """Write the documents of a text file, each ended by the separator, in every format."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = path.read_bytes()
    texts = [text.decode() for text in data.removesuffix(SEPARATOR).split(SEPARATOR)]
    paths = {kind: folder / f"{name}.{kind}" for kind in ("txt", "jsonl.zst", "parquet")}
    paths["txt"].write_bytes(data)
    lines = b"".join(
        json.dumps({"text": text, "n": index}, ensure_ascii=False).encode() + b"\n" for index, text in enumerate(texts)
    )
    paths["jsonl.zst"].write_bytes(import_zstd().compress(lines))
    pq.write_table(
        pa.table({"text": pa.array(texts, pa.large_string())}),
        paths["parquet"],
        row_group_size=max(len(texts) // 16, 1),
        compression="zstd",
    )
    return Inputs(sum(len(text.encode()) for text in texts), paths)


def import_zstd() -> Any:
    """The standard library's module, or its backport."""
    if sys.version_info >= (3, 14):
        from compression import zstd as module
    else:
        from backports import zstd as module
    return module


def repeat_file(path: Path, size: int, folder: Path) -> Path:
    """A file of about `size` bytes that repeats another one."""
    data, written = path.read_bytes(), folder / f"large{path.suffix}"
    with written.open("wb") as file:
        for _ in range(max(round(size / len(data)), 1)):
            file.write(data)
    return written


def main() -> None:
    """Measure, compare, print tables, write JSON."""
    parser = make_parser(__doc__)
    parser.add_argument("file", nargs="?", type=Path, help="UTF-8 text, documents separated by <|endoftext|>")
    parser.add_argument("--threads", type=at_least(1), default=2)
    parser.add_argument("--less", type=float, default=20, metavar="MB", help="for the slower libraries; default 20")
    parser.add_argument("--large", type=float, default=1000, metavar="MB", help="text to measure memory; default 1000")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (path,) = find_corpora([options.file] if options.file else [], folder, ["english"])
        vocab = add_end(write_vocabularies(["r50k"], folder)["r50k"])
        parts = {
            "whole": write_inputs(path, "whole", folder),
            "less": write_inputs(cut_file(path, int(options.less * 1e6), folder), "less", folder),
        }
        large = repeat_file(path, int(options.large * 1e6), folder)
        parts["large"] = Inputs(large.stat().st_size, {"txt": large})
        jobs = [("bpe", form, source, "whole") for form, source in OWN]
        for form, source, peer, part in BESIDE:
            jobs += [("bpe", form, source, part), (peer, form, source, part)]
        jobs = list(dict.fromkeys(jobs))
        missing = set()
        for turn in range(options.repeat):
            for peer, form, source, part in jobs:
                if part == "large" and turn >= 3:  # it takes long, and memory varies little
                    continue
                out = folder / "out"
                measured = measure("shards", peer, parts[part].paths[source], options.threads, form, out, vocab)
                shutil.rmtree(out, ignore_errors=True)
                print(f"{turn + 1}/{options.repeat} {peer} {form} from {source}, {part}", file=sys.stderr)
                if measured.get("absent"):
                    missing.add(peer)
                    continue
                rows.append({"source": source, "part": part, "bytes": parts[part].size, "turn": turn, **measured})
    report(rows, options.repeat)
    save_measurements(options.output, rows)
    finish_report(missing, find_differences(rows))


def add_end(vocab_text: str) -> str:
    """The vocabulary with GPT-2's end-of-text token, in its tokenizer.json."""
    import bpe

    name, ranks, written = vocab_text.split(",")
    bpe.Tokenizer.load(written).with_tokens(special=[SEPARATOR.decode()]).save(written)
    return f"{name},{ranks},{written}"


def find_differences(rows: list[dict[str, Any]]) -> list[str]:
    """Outputs of one part of the corpus that should have the same ids and do not."""
    digests: dict[tuple[str, bool], dict[str, str]] = {}
    for row in rows:
        end_time = row["form"] in ("nanogpt", "datatrove")  # these have an end-of-text id after each document
        kind = f"{row['peer']} {row['form']} from {row['source']}"
        digests.setdefault((row["part"], end_time), {})[kind] = row["output"]
    return [f"{part}: {', '.join(kinds)}" for (part, _), kinds in digests.items() if len(set(kinds.values())) > 1]


def report(rows: list[dict[str, Any]], repeat: int) -> None:
    """Print both tables."""
    groups: dict[tuple[str, str, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["peer"], row["form"], row["source"], row["part"]), []).append(row)
    threads = rows[0]["threads"]
    print(f"{describe_machine()}; {threads} threads; median of {repeat}\n")
    array = median(groups["bpe", "array", "txt", "whole"], "seconds")
    lines: list[tuple[object, ...]] = []
    for form, source in OWN:
        group_rows = groups["bpe", form, source, "whole"]
        seconds_taken = median(group_rows, "seconds")
        share = f"{array / seconds_taken:.0%}"
        lines.append(
            (source, form, f"{compute_rate(group_rows):.0f}", share, f"{median(group_rows, 'peak') / 1e6:.0f}")
        )
    print_table(("source", "format", "MB/s", "of encode_files", "peak MB"), lines)
    print()
    lines = []
    for form, source, peer, part in BESIDE:
        our_rows = groups["bpe", form, source, part]
        for name in ("bpe", peer):
            group_rows = groups.get((name, form, source, part), [])
            if not group_rows:
                continue
            ratio = median(group_rows, "seconds") / median(our_rows, "seconds")
            about = f"{name} {group_rows[0]['version']}"
            size = f"{group_rows[0]['bytes'] / 1e6:.0f}"
            lines.append(
                (
                    about,
                    source,
                    form,
                    size,
                    f"{compute_rate(group_rows):.0f}",
                    f"{ratio:.1f}",
                    f"{median(group_rows, 'peak') / 1e6:.0f}",
                )
            )
    print_table(("library", "source", "format", "MB of text", "MB/s", "ratio", "peak MB"), lines)


def compute_rate(rows: list[dict[str, Any]]) -> float:
    """Megabytes of text per second."""
    size: int = rows[0]["bytes"]
    return size / median(rows, "seconds") / 1e6


if __name__ == "__main__":
    main()
