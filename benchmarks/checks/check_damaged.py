"""Load damaged files of tokenizers and of corpora: each is refused with a FormatError, or works.

    python benchmarks/checks/check_damaged.py [KIND …] [--count N] [--seed S]

Damages a small valid file of each format, 2,000 times by default: bytes, or values of JSON. A file that
loads must hold what the damaged file says: its content is read by a naive reader, and its tokenizer must encode and
decode, and come back equal from tokenizer.json; documents must be those that pyarrow, or Python's json, csv, gzip, bz2,
lzma and zstd, read. Memory is limited to 2 GB over what the process has, and each file to 10 seconds.
"""

from __future__ import annotations

import base64
import bz2
import csv
import gzip
import importlib
import importlib.util
import io
import json
import lzma
import random
import resource
import signal
import struct
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import bpe
from bpe.compat.huggingface import Tokenizer
from bpe.text.letters import spell_token_in_letters

TEXTS = ("low lower lowest newer newest", "naïve café 12\n\t", "<|end|> \x00 abab", "")
#: The most seconds for one file, and the most memory for all.
SECONDS, MEMORY = 10, 2 << 30
#: Ends the documents of a text.
SEPARATOR = "\n--\n"
#: The name of the interface of `tokenizers` among the formats.
COMPAT = "compat"
HERE = Path(__file__).resolve().parent


def load_module(path: Path) -> ModuleType:
    """Load a Python file as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MUTATIONS = load_module(HERE / "check_mutations.py")
mutate: Callable[[random.Random, bytes], bytes] = MUTATIONS.mutate
spoil: Callable[[random.Random, Any], Any] = MUTATIONS.spoil


def make_originals() -> dict[str, dict[str, bytes]]:
    """Make the files of a small tokenizer: format → name → content."""
    files = load_module(HERE.parents[1] / "tests" / "formats" / "sentencepiece_files.py")
    texts = ["low lower lowest newer newest 12", "abc abab"] * 4
    tok = bpe.train(texts=texts, vocab_size=275, special_tokens=["<|end|>"])
    ranked = bpe.train(
        texts=texts,
        vocab_size=275,
        special_tokens=["<unk>"],
        pretokenizer="tekken",
        alphabet=bpe.Alphabet(initial=[bytes([byte]) for byte in range(256)]),
    )
    chars = "\u2581lowernstabci"
    pieces = files.list_usual_pieces(["lo", "er", "\u2581lo", "\u2581low", "es", "est", "ab"], chars, bytes_too=False)
    names = ["<|end|>", *(spell_token_in_letters(tok.token_bytes(index)) for index in range(1, tok.n_vocab))]
    values = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": names,
        "tokenizer.ggml.token_type": [3] + [1] * (len(names) - 1),
        "tokenizer.ggml.merges": [f"{names[left]} {names[right]}" for left, right in tok.merges.tolist()],
    }
    files_by_format: dict[str, dict[str, bytes]] = {
        "sentencepiece": {"tokenizer.model": files.build_model(pieces)},
        "gguf": {"model.gguf": files.build_gguf(values)},
        "subword-nmt": {"codes": b"#version: 0.2\nl o\nlo w</w>\ne r</w>\nlo w\nlow er</w>\nn e\na b\nab ab</w>\n"},
        "clip": {"clip.txt": b'"bpe_simple_vocab_16e6.txt#version: 0.2\nl o\nlo w</w>\ne r</w>\nlo w\nlow er</w>\n'},
    }
    with TemporaryDirectory() as name:
        for index, (format_name, tokenizer) in enumerate((
            ("huggingface", tok), ("vocab-merges", tok), ("tiktoken-folder", tok), ("tekken", ranked),
            ("compiled", tok),
        )):  # fmt: skip
            folder = Path(name) / str(index)
            folder.mkdir()
            target = folder / {"tekken": "tekken.json", "compiled": "t.compiled"}.get(format_name, "")
            tokenizer.save(target, format=format_name)
            files_by_format[format_name] = {path.name: path.read_bytes() for path in folder.iterdir()}
    files_by_format[COMPAT] = {"tokenizer.json": files_by_format["huggingface"]["tokenizer.json"]}
    return files_by_format | make_text_corpora() | make_column_corpora()


def make_text_corpora() -> dict[str, dict[str, bytes]]:
    """Make files of text, records and rows, as they are and compressed in two members: format → name → content."""
    rows = io.StringIO(newline="")
    csv.writer(rows).writerows([["id", "text"], *enumerate(TEXTS * 4)])
    lines = [
        json.dumps({"id": index, "text": text}, ensure_ascii=index % 2 == 0) for index, text in enumerate(TEXTS * 4)
    ]
    plain = {"jsonl": "\n".join(lines), "csv": rows.getvalue(), "txt": SEPARATOR.join(TEXTS * 4)}
    corpora = {kind: {f"x.{kind}": text.encode()} for kind, text in plain.items()}
    for kind, text in plain.items():
        data = text.encode()
        for ending, (compress, _) in list_codecs().items():
            members = compress(data[:200]) + compress(data[200:])
            corpora[f"{kind}.{ending}"] = {f"x.{kind}.{ending}": members}
    return corpora


def list_codecs() -> dict[str, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]]:
    """List how Python compresses and decompresses files, by their ending."""
    codecs: dict[str, Any] = {"gz": (gzip.compress, gzip.decompress), "bz2": (bz2.compress, bz2.decompress)}
    codecs["xz"] = (lzma.compress, lzma.decompress)
    with suppress(ImportError):
        zstd = importlib.import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
        codecs["zst"] = (zstd.compress, zstd.decompress)
    return codecs


def make_column_corpora() -> dict[str, dict[str, bytes]]:
    """Make Parquet and Arrow files, where pyarrow is: format → name → content."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        return {}
    texts = pa.array([*TEXTS, "low " * 40] * 9)
    tables = {kind: pa.table({"text": texts.dictionary_encode() if kind == "keys" else texts}) for kind in ("", "keys")}
    corpora: dict[str, dict[str, bytes]] = {}
    for kind, table in tables.items():
        for index, options in enumerate(({}, {"use_dictionary": False, "data_page_version": "2.0"})):
            out = pa.BufferOutputStream()
            pq.write_table(table, out, row_group_size=20, data_page_size=300, **options)
            corpora[f"parquet {kind}{index}"] = {"x.parquet": out.getvalue().to_pybytes()}
        for compression, new in ((None, pa.ipc.new_file), ("zstd", pa.ipc.new_file), ("lz4", pa.ipc.new_stream)):
            out = pa.BufferOutputStream()
            with new(out, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
                writer.write_table(table, max_chunksize=20)
            corpora[f"arrow {kind} {compression or ''}"] = {"x.arrow": out.getvalue().to_pybytes()}
    return corpora


@contextmanager
def limit_resources() -> Iterator[None]:
    """Limit the memory and the time of the block, where the system can."""

    def raise_timeout(*_: object) -> None:
        raise TimeoutError(f"a file took more than {SECONDS} s")

    old_limits = resource.getrlimit(resource.RLIMIT_AS)
    used_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used_bytes + MEMORY, old_limits[1]))
    old_handler = signal.signal(signal.SIGALRM, raise_timeout)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old_handler)
        resource.setrlimit(resource.RLIMIT_AS, old_limits)


def read_naively(format_name: str, files: dict[str, bytes], model: str) -> dict[bytes, int] | None:
    """Read some tokens of a file naively; None for a format without a naive reader."""
    if format_name == "vocab-merges":
        return unspell(json.loads(files["vocab.json"]), model)
    if format_name == "huggingface":
        return unspell(json.loads(files["tokenizer.json"])["model"]["vocab"], model)
    if format_name == "tekken":
        value: dict[str, Any] = json.loads(files["tekken.json"])
        n_special = value["config"]["default_num_special_tokens"]
        size = value["config"]["default_vocab_size"] - n_special
        return {base64.b64decode(item["token_bytes"]): i + n_special for i, item in enumerate(value["vocab"][:size])}
    if format_name == "tiktoken-folder":
        lines = [line.split() for line in files["tiktoken.model"].splitlines() if line]
        return {base64.b64decode(token): int(rank) for token, rank in lines if token != b"="}
    if format_name == "gguf":
        values = read_gguf(files["model.gguf"])
        kinds = values.get("token_type", [1] * len(values["tokens"]))  # llama.cpp, too, takes a file without them
        return unspell({token: i for i, token in enumerate(values["tokens"]) if kinds[i] == 1}, model)
    if format_name == "sentencepiece":
        pieces = [dict(read_message(data)) for number, data in read_message(files["tokenizer.model"]) if number == 1]
        return {piece.get(1, b""): i for i, piece in enumerate(pieces) if piece.get(3, 1) == 1}
    return None


def unspell(ids: dict[str, int], model: str) -> dict[bytes, int]:
    """Turn tokens as a file spells them into bytes; of a byte model, those that are letters of bytes."""
    if model != "byte":
        return {token.encode(): token_id for token, token_id in ids.items()}
    letters = {spell_token_in_letters(bytes([byte])): byte for byte in range(256)}
    return {bytes(letters[c] for c in t): i for t, i in ids.items() if letters.keys() >= set(t)}


def read_gguf(data: bytes) -> dict[str, Any]:
    """Read all values of a GGUF file's header, by the last part of their keys."""
    layouts = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
    position = 24

    def read(kind: int) -> Any:
        nonlocal position
        if kind == 8:
            size = read(10)
            position += size
            assert position <= len(data)
            return data[position - size : position].decode("utf-8", "replace")
        if kind == 9:
            item_kind, count = read(4), read(10)
            return [read(item_kind) for _ in range(count)]
        (value,) = struct.unpack_from(layouts[kind], data, position)
        position += struct.calcsize(layouts[kind])
        return value

    return {
        read(8).removeprefix("tokenizer.ggml."): read(read(4)) for _ in range(int.from_bytes(data[16:24], "little"))
    }


def read_message(data: bytes) -> Iterator[tuple[int, Any]]:
    """Read the fields of a message of protocol buffers: its number, and an int or bytes."""
    position = 0

    def read_number() -> int:
        nonlocal position
        value = shift = 0
        while True:
            value |= (data[position] & 127) << shift
            shift += 7
            position += 1
            if data[position - 1] < 128:
                return value

    while position < len(data):
        number, kind = divmod(read_number(), 8)
        size = 0 if kind == 0 else {1: 8, 5: 4}.get(kind) or read_number()
        assert position + size <= len(data)
        yield number, read_number() if kind == 0 else data[position : position + size]
        position += size


def check_compat(path: Path) -> bool:
    """Load a damaged tokenizer.json with `tokenizers`' interface; what loads is what the native reader reads."""
    tokenizer = Tokenizer.from_file(str(path))
    assert json.loads(path.read_bytes())["model"]["vocab"] == tokenizer.get_vocab(with_added_tokens=False)
    native = tokenizer.native
    if native is not None:
        for text in TEXTS:
            with suppress(ValueError):
                ids = native.encode(text, allowed_special="all").tolist()
                assert tokenizer.encode(text, add_special_tokens=False).ids == ids, (path, text)
                assert len(tokenizer.encode(text, add_special_tokens=False).tokens) == len(ids)
    assert Tokenizer.from_str(tokenizer.to_str()).to_str() == tokenizer.to_str()
    return True


def check_text_corpus(path: Path) -> bool:
    """Read the documents of a damaged file; they are those that Python's modules read."""
    _, kind, *endings = path.name.split(".")
    how: dict[str, Any] = {"encoding_errors": "bytes", "separator": SEPARATOR} if kind == "txt" else {}
    documents = list(bpe.Sources(path, **how).documents())
    data = path.read_bytes()
    for ending in endings:  # Python's lzma refuses fewer than four zeros after the end
        data = list_codecs()[ending][1](data.rstrip(b"\0") if ending == "xz" else data)
    if kind == "txt":
        expected = data.split(SEPARATOR.encode())
    elif kind == "jsonl":
        lines = [line for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip(b" \t\r")]
        texts = [json.loads(line.decode())["text"] for line in lines]
        expected = [text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode() for text in texts]
    else:
        text = data.removeprefix(b"\xef\xbb\xbf").decode("latin-1")  # the other column may have any bytes
        header, *rows = [*filter(None, csv.reader(io.StringIO(text, newline=""), strict=True))] or [["text"]]
        assert all(len(row) == len(header) for row in rows), (path, data)
        expected = [row[header.index("text")].encode("latin-1") for row in rows]
    assert documents == expected, (path, data)
    return True


def check_column_corpus(path: Path) -> bool:
    """Read the documents of a damaged file; they are those that pyarrow reads, each null an error."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    documents = list(bpe.Sources(path, encoding_errors="bytes").documents())
    if path.suffix == ".parquet":
        table = pq.read_table(path, columns=["text"])
    else:
        table = (pa.ipc.open_file if path.read_bytes().startswith(b"ARROW1") else pa.ipc.open_stream)(path).read_all()
    assert documents == table["text"].cast("binary").to_pylist(), path
    return True


def damage(rng: random.Random, name: str, data: bytes) -> bytes:
    """Damage a file: bytes of it, or, in half of those of JSON, values."""
    if name.endswith(".json") and rng.random() < 0.5:
        return json.dumps(spoil(rng, json.loads(data))).encode()
    if name.endswith((".parquet", ".arrow")) and rng.random() < 0.9:  # whose offsets would not fit a changed length
        damaged = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            damaged[rng.randrange(len(data))] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
        return bytes(damaged)
    return mutate(rng, data)


def check_file(rng: random.Random, format_name: str, files: dict[str, bytes], folder: Path) -> bool:
    """Damage one file of a format and load it; whether it loads. Raises AssertionError for a wrong tokenizer."""
    name = rng.choice(sorted(files))
    damaged = {**files, name: damage(rng, name, files[name])}
    for file_name, data in damaged.items():
        (folder / file_name).write_bytes(data)
    signal.alarm(SECONDS)
    try:
        path = folder / next(iter(files)) if len(files) == 1 else folder
        if format_name == COMPAT:
            return check_compat(path)
        if path.suffix in (".parquet", ".arrow"):
            return check_column_corpus(path)
        if path.name.startswith("x."):
            return check_text_corpus(path)
        tok = bpe.Tokenizer.load(path, format=format_name)
    except (bpe.FormatError, FileNotFoundError):
        return False
    finally:
        signal.alarm(0)
    assert format_name != "compiled" or damaged == files, "a compiled tokenizer was changed, and has another checksum"
    expected = read_naively(format_name, damaged, tok.model)
    if expected is not None:
        special = {key.encode() for key in tok.special_tokens}
        for token, token_id in expected.items():
            assert token in special or tok.token_bytes(token_id) == token, (format_name, name, token, token_id)
    for text in TEXTS:
        with suppress(ValueError):  # a text with a symbol that the vocabulary lost
            ids = tok.encode(text)
            if tok.model == "byte" and tok.normalizer is None and tok.spec.decoder is None:
                tok.decode_bytes(ids)
    tok.save(folder / "again.out", format="huggingface")
    assert bpe.Tokenizer.load(folder / "again.out", format="huggingface") == tok, (format_name, name)
    (folder / "again.out").unlink()
    return True


def check(count: int, seed: int, kinds: Collection[str] = ()) -> dict[str, int]:
    """Damage the files of some formats, or all, `count` times; return how many of each loaded."""
    counts = {}
    with limit_resources():
        for format_name, files in make_originals().items():
            if not kinds or format_name in kinds:
                rng = random.Random(f"{format_name}{seed}")
                with TemporaryDirectory() as folder:
                    counts[format_name] = sum(check_file(rng, format_name, files, Path(folder)) for _ in range(count))
    return counts


if __name__ == "__main__":
    import logging

    logging.getLogger("bpe").setLevel(logging.ERROR)
    MUTATIONS.run(__doc__, check, 2000)
