"""Every shared vocabulary: the ids of its reference, and all formats that can hold it, there and back.

    python benchmarks/checks/check_formats.py [BYTES] [NAME]

Loads each vocabulary of ../shared/data/vocab, encodes the first BYTES (default 2,000,000) of each corpus as its
reference library does, saves it in every format, and loads it back with the same fingerprint. A format that cannot hold
the tokenizer must say so. NAME is the beginning of the names to check. Exit status 1 if anything differs.
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from inputs import SHARED, VOCABULARIES

import bpe
from bpe.formats.loading import FORMATS

CORPORA = ("english", "korean", "japanese", "python")
#: SuperBPE's pretokenizer, from the notes beside the vocabularies.
SUPERBPE: dict[str, object] = {
    "type": "Sequence",
    "pretokenizers": [
        {"type": "Digits", "individual_digits": False},
        {"type": "Split", "pattern": {"Regex": r"(?=(\d{3})+(?!\d))"}, "behavior": "Isolated", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
    ],
}
#: The same as one pattern.
SUPERBPE_PATTERN = r"[^\p{N}]+|\p{N}(?:(?!(?:\d{3})+(?!\d))\p{N})*"

Reference = Callable[[str], list[int]]


def read_documents(name: str, size: int) -> list[str]:
    """The first documents of a corpus."""
    with lzma.open(SHARED / f"{name}.txt.xz") as file:
        text = file.read(size).decode("utf-8", "ignore")
    return text.split("<|endoftext|>")


def write_contents(folder: Path) -> Iterator[tuple[str, Path]]:
    """(name, path) of each shared file, decompressed."""
    for path in sorted(VOCABULARIES.iterdir()):
        name = path.name.removesuffix(".gz")
        target = folder / name
        target.write_bytes(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes())
        yield name, target


def load_vocabularies(folder: Path, beginning: str) -> Iterator[tuple[str, bpe.Tokenizer, Reference]]:
    """(name, tokenizer, function of the reference library) of each shared vocabulary."""
    import tiktoken
    import tokenizers

    files = dict(write_contents(folder))
    for name, path in files.items():
        if not name.startswith(beginning):
            continue
        if name.endswith(".tiktoken"):
            tok = bpe.Tokenizer.load(path)
            assert tok.pretokenizer is not None
            ranks = tok.spec.vocabulary.id_of_token
            peer = tiktoken.Encoding(name, pat_str=tok.pretokenizer.pattern, mergeable_ranks=ranks, special_tokens={})
            yield name, tok, peer.encode_ordinary
        elif name.endswith("_merges.txt"):
            vocab, merges = files[name.replace("_merges.txt", "_vocab.json")], path
            tok = bpe.Tokenizer.from_vocab_merges(vocab, merges)
            steps = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
            if name.startswith("superbpe"):
                tok = bpe.Tokenizer.from_vocab_merges(vocab, merges, bpe.Pretokenizer.from_regex(SUPERBPE_PATTERN))
                save_with_steps(tok, SUPERBPE, folder)
            hf = tokenizers.Tokenizer(tokenizers.models.BPE.from_file(str(vocab), str(merges)))
            hf.pre_tokenizer = steps
            if name.startswith("superbpe"):
                hf = tokenizers.Tokenizer.from_file(str(folder / "superbpe.json"))
            yield name, tok, partial(get_ids, hf)
        elif name.startswith("bpe_simple_vocab"):
            tok = bpe.Tokenizer.from_clip(path, ftfy=False)
            yield name, tok, load_clip_reference(path)


def get_ids(peer: Any, text: str) -> list[int]:
    """The ids that `tokenizers` gives."""
    return list(peer.encode(text, add_special_tokens=False).ids)


def save_with_steps(tok: bpe.Tokenizer, steps: dict[str, object], folder: Path) -> None:
    """Write the tokenizer with another pre_tokenizer, for `tokenizers`."""
    tok.save(folder / "superbpe.json")
    value = json.loads((folder / "superbpe.json").read_bytes())
    value["pre_tokenizer"] = steps
    (folder / "superbpe.json").write_text(json.dumps(value))


def load_clip_reference(path: Path) -> Reference:
    """CLIP's own rule, in Python: all occurrences of the best pair at once."""
    import html
    from itertools import pairwise

    import regex

    from bpe.text.letters import list_byte_alphabet, spell_token_in_letters

    lines = path.read_text(encoding="utf-8").split("\n")[1 : 49152 - 256 - 2 + 1]
    pairs = [tuple(line.split()) for line in lines]
    letters = [spell_token_in_letters(bytes([byte])) for byte in list_byte_alphabet()]
    names = [*letters, *(letter + "</w>" for letter in letters), *("".join(pair) for pair in pairs)]
    ids, ranks = {name: i for i, name in enumerate(names)}, {pair: rank for rank, pair in enumerate(pairs)}
    pattern = regex.compile(
        r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+", regex.IGNORECASE
    )
    cache: dict[str, list[int]] = {}

    def word_ids(word: str) -> list[int]:
        letters = spell_token_in_letters(word.encode())
        parts = [*letters[:-1], letters[-1] + "</w>"]
        while candidates := [(ranks[pair], i) for i, pair in enumerate(pairwise(parts)) if pair in ranks]:
            best, out, index = pairs[min(candidates)[0]], [], 0
            while index < len(parts):
                both = tuple(parts[index : index + 2]) == best
                out.append("".join(parts[index : index + 2]) if both else parts[index])
                index += 2 if both else 1
            parts = out
        return [ids[part] for part in parts]

    def encode(text: str) -> list[int]:
        text = regex.sub(r"\s+", " ", html.unescape(html.unescape(text)).strip()).strip().lower()
        out: list[int] = []
        for word in pattern.findall(text):
            if word not in cache:
                cache[word] = word_ids(word)
            out += cache[word]
        return out

    return encode


def compare(tok: bpe.Tokenizer, reference: Reference, size: int) -> int:
    """How many documents have other ids than the reference gives."""
    n_wrong = 0
    for corpus in CORPORA:
        texts = read_documents(corpus, size)
        for text, ids in zip(texts, tok.encode_batch(texts), strict=True):
            n_wrong += not np.array_equal(ids, np.array(reference(text), dtype=np.uint32))
    return n_wrong


def save_and_load(tok: bpe.Tokenizer, folder: Path) -> dict[str, str]:
    """Format → "same", "same ids" or what is in the way."""
    fingerprints = {}
    for form in FORMATS:
        target = folder / f"out-{form}.json"
        try:
            tok.save(target, format=form)
            clip = form == "clip"  # the list holds no normalizer
            back = bpe.Tokenizer.from_clip(target, ftfy=False) if clip else bpe.Tokenizer.load(target, format=form)
        except ValueError as error:
            fingerprints[form] = str(error).split(": ", 1)[-1][:90]
            if (
                "cannot hold" not in str(error)
                and "does not keep" not in str(error)
                and "pattern is unk" not in str(error)
            ):
                fingerprints[form] = f"WRONG: {error}"
            continue
        lost = bpe.diff(tok, back)
        fingerprints[form] = "same" if back == tok else f"WRONG: {lost.tokenizers}" if lost else "same ids"
    return fingerprints


def main() -> int:
    """Check all vocabularies; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", metavar="BYTES", type=int, nargs="?", default=2_000_000)
    parser.add_argument("name", metavar="NAME", nargs="?", default="")
    options = parser.parse_args()
    bad = False
    with TemporaryDirectory() as name:
        for vocabulary, tok, reference in load_vocabularies(Path(name), options.name):
            n_wrong = compare(tok, reference, options.size)
            with TemporaryDirectory() as folder:
                formats = save_and_load(tok, Path(folder))
            bad |= n_wrong > 0 or any(result.startswith("WRONG") for result in formats.values())
            print(f"{vocabulary}: {tok}\n  documents with other ids than the reference: {n_wrong}")
            for form, result in formats.items():
                print(f"  {form:<16}{result}")
    return int(bad)


if __name__ == "__main__":
    import logging

    logging.getLogger("bpe").setLevel(logging.ERROR)
    sys.exit(main())
