"""The shared corpora give tiktoken's ids, the ids of CLIP's reference and Hugging Face's merges.

Neither corpora nor vocabularies are part of the project; these tests are skipped where they are absent.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference
from conftest import CORPORA, SEPARATOR
from strategies import SOAK

import bpe

MEGABYTE = 1_000_000
END = SEPARATOR.decode()
SPECIALS = {
    "r50k": {END: 50256},
    "cl100k": {
        END: 100257,
        "<|fim_prefix|>": 100258,
        "<|fim_middle|>": 100259,
        "<|fim_suffix|>": 100260,
        "<|endofprompt|>": 100276,
    },
    "o200k": {END: 199999, "<|endofprompt|>": 200018},
}
PATTERNS = {
    "r50k": ("gpt2", reference.GPT2),
    "cl100k": ("cl100k", reference.CL100K),
    "o200k": ("o200k", reference.O200K),
}
each_corpus = pytest.mark.parametrize("language", CORPORA)
each_encoding = pytest.mark.parametrize("encoding", SPECIALS)

Corpus = Callable[[str, int], bytes]
Vocab = Callable[[str], Path]
Ranks = Callable[[str], dict[bytes, int]]


@pytest.fixture(scope="module")
def ours(shared_vocab: Vocab) -> Callable[[str], bpe.Tokenizer]:
    @cache
    def load(encoding: str) -> bpe.Tokenizer:
        path = shared_vocab(f"{encoding}_base.tiktoken")
        return bpe.Tokenizer.from_tiktoken(path, PATTERNS[encoding][0], SPECIALS[encoding])

    return load


@pytest.fixture(scope="module")
def theirs(tiktoken_ranks: Ranks) -> Callable[[str], Any]:
    """tiktoken's own encodings, from the shared rank files and the patterns that tiktoken publishes."""
    tiktoken = pytest.importorskip("tiktoken")

    @cache
    def make(encoding: str) -> Any:
        pattern = PATTERNS[encoding][1]
        if encoding == "r50k":
            from tiktoken_ext.openai_public import r50k_pat_str as pattern
        return tiktoken.Encoding(
            encoding, pat_str=pattern, mergeable_ranks=tiktoken_ranks(encoding), special_tokens=SPECIALS[encoding]
        )

    return make


# tiktoken's ids -----------------------------------------------------------------------------------------------------


@each_encoding
@each_corpus
def test_documents_and_whole_text_have_tiktokens_ids(
    corpus: Corpus, ours: Any, theirs: Any, language: str, encoding: str
) -> None:
    """The first 300 KB: each document, then all as one text with the separator's id between them, and decoding back."""
    data = corpus(language, 300_000 * SOAK)
    tok, peer = ours(encoding), theirs(encoding)
    documents = data.decode().split(END)
    expected = peer.encode_ordinary_batch(documents, num_threads=2)
    batch = tok.encode_batch(documents, threads=2)
    assert len(batch) == len(documents)
    assert np.array_equal(batch.lengths, np.array([len(row) for row in expected]))
    flat = np.concatenate([np.array(row, dtype=np.uint32) for row in expected])
    assert np.array_equal(batch.ids, flat)
    assert tok.decode_batch(batch) == documents
    end = SPECIALS[encoding][END]
    ids = tok.encode(data, allowed_special="all")
    joined = np.insert(flat, batch.offsets[1:-1], end)
    assert np.array_equal(ids, joined)
    assert tok.decode_bytes(ids) == data


@each_encoding
@each_corpus
def test_files_streams_and_arrays_have_tiktokens_ids(
    corpus: Corpus, ours: Any, theirs: Any, tmp_path: Path, language: str, encoding: str
) -> None:
    """The first 150 KB from a file, a stream, an Arrow array, and with offsets, which equal the tokens' spans."""
    data = corpus(language, 150_000)
    tok, peer = ours(encoding), theirs(encoding)
    documents = data.decode().split(END)
    expected = peer.encode_ordinary_batch(documents, num_threads=2)
    flat = np.concatenate([np.array(row, dtype=np.uint32) for row in expected])
    lengths = [len(row) for row in expected]
    path = tmp_path / "text.txt"
    path.write_bytes(data)
    for threads in (1, 2):
        batch = tok.encode_files(path, separator=END, threads=threads, out=np.empty(len(flat) + 9, dtype=np.uint32))
        assert np.array_equal(batch.ids, flat)
        assert batch.lengths.tolist() == lengths
    whole = np.array(peer.encode(data.decode(), allowed_special="all"), dtype=np.uint32)
    assert np.array_equal(tok.encode_files(path, allowed_special="all", threads=2).ids, whole)
    choose = random.Random(1)
    for sizes in ((1 << 16, 1 << 16), (1, 3000), (60_000, 90_000)):
        parts, at = [], 0
        while at < len(data):
            size = choose.randint(*sizes)
            parts.append(data[at : at + size])
            at += size
        assert np.array_equal(np.concatenate(list(tok.encode_stream(parts, allowed_special="all"))), whole)
    characters = [data.decode()[at : at + 777] for at in range(0, len(data.decode()), 777)]
    assert np.array_equal(np.concatenate(list(tok.encode_stream(characters, allowed_special="all"))), whole)
    ids, spans = tok.encode_with_offsets(data, "byte", allowed_special="all")
    assert np.array_equal(ids, whole)
    assert (spans[0, 0], spans[-1, 1]) == (0, len(data))
    assert np.array_equal(spans[1:, 0], spans[:-1, 1])
    assert np.array_equal(np.diff(spans, axis=1)[:, 0], tok.token_byte_lengths[ids])
    assert tok.decode_bytes(ids) == data
    pa = pytest.importorskip("pyarrow")
    assert np.array_equal(tok.encode_batch(pa.array(documents, type=pa.large_string()), threads=2).ids, flat)


@each_encoding
def test_special_tokens_give_tiktokens_ids(corpus: Corpus, ours: Any, theirs: Any, encoding: str) -> None:
    tok, peer = ours(encoding), theirs(encoding)
    text = corpus("korean", MEGABYTE // 10).decode() + f"a{END}b<|endofprompt|> {END}{END}"
    assert tok.encode(text).tolist() == peer.encode_ordinary(text)
    assert tok.encode(text, allowed_special="all").tolist() == peer.encode(text, allowed_special="all")
    assert tok.encode(text, allowed_special={END}).tolist() == peer.encode(
        text, allowed_special={END}, disallowed_special=()
    )
    with pytest.raises(ValueError, match="disallowed special token"):
        tok.encode(text, disallowed_special="all")
    with pytest.raises(ValueError, match="disallowed special token"):
        peer.encode(text)


@each_encoding
def test_each_token_decodes_to_its_bytes_and_has_a_merge(ours: Any, tiktoken_ranks: Ranks, encoding: str) -> None:
    """Every token's bytes decode from its id, and every token of two bytes or more has a merge."""
    tok = ours(encoding)
    ranks = tiktoken_ranks(encoding)
    assert tok.vocab_size == len(ranks) + len(SPECIALS[encoding])
    assert tok.vocab() == {**ranks, **{name.encode(): number for name, number in SPECIALS[encoding].items()}}
    assert len(tok.merges) == len(ranks) - 256
    made = tok.merges.tolist()
    for number in range(256, len(ranks), 997):
        a, b = made[number - 256]
        assert tok.token_bytes(a) + tok.token_bytes(b) == tok.token_bytes(number)
    assert tok.spec.ranks()[b"the"] == ranks[b"the"] - 256


@each_encoding
def test_a_million_letters_have_tiktokens_ids(ours: Any, theirs: Any, encoding: str) -> None:
    tok, peer = ours(encoding), theirs(encoding)
    for text in (
        "a" * 1_000_000,
        "a" * 999_999 + " ",
        " " * 1_000_000,
        "".join(map(chr, range(97, 123))) * 38_462,
        "猫" * 300_000,
    ):
        ids = tok.encode(text)
        assert tok.decode(ids) == text
    for text in ("a" * 3001, " " * 3001 + "x", "ab" * 1500, "猫" * 1000, "\n" * 999, "=" * 2001, f" {'=' * 71}\n"):
        assert tok.encode(text).tolist() == peer.encode_ordinary(text)


@each_encoding
def test_saved_and_loaded_tokenizers_give_the_same_ids(
    corpus: Corpus, ours: Any, tmp_path: Path, encoding: str
) -> None:
    tok = ours(encoding)
    tok.save(tmp_path / "tokenizer.json")
    again = bpe.Tokenizer.load(tmp_path / "tokenizer.json")
    text = corpus("python", MEGABYTE // 2)
    assert np.array_equal(again.encode(text, allowed_special="all"), tok.encode(text, allowed_special="all"))
    assert again.vocab_size == tok.vocab_size


# GPT-2's vocabulary and merges --------------------------------------------------------------------------------------


def test_merges_recovered_from_ranks_equal_gpt2s(ours: Any, shared_vocab: Vocab) -> None:
    tok = ours("r50k")
    lines = shared_vocab("gpt2_merges.txt").read_text(encoding="utf-8").split("\n")
    letters = {letter: bytes([byte]) for byte, letter in reference.Clip(["header"]).letters.items()}
    merges = [tuple(b"".join(letters[char] for char in part) for part in line.split(" ")) for line in lines[1:] if line]
    assert [(tok.token_bytes(a), tok.token_bytes(b)) for a, b in tok.merges.tolist()] == merges


# CLIP ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plain_clip(shared_vocab: Vocab) -> reference.Clip:
    return reference.Clip(shared_vocab("bpe_simple_vocab_16e6.txt").read_text(encoding="utf-8").split("\n"))


@each_corpus
def test_clip_gives_the_ids_of_its_reference(
    corpus: Corpus, shared_vocab: Vocab, plain_clip: reference.Clip, language: str
) -> None:
    """The first 100 KB of each corpus, document by document, as rows of 77 ids and without padding."""
    tok = bpe.Tokenizer.from_clip(shared_vocab("bpe_simple_vocab_16e6.txt"), ftfy=False)
    text = corpus(language, MEGABYTE // 10 * SOAK).decode()
    documents = text.split(END)
    expected = [plain_clip.encode(document) for document in documents]
    batch = tok.encode_batch(documents, threads=2)
    assert batch.to_list() == expected
    rows, lengths = tok.clip_rows(documents, truncate=True)
    plain_rows, plain_lengths = plain_clip.clip_rows(documents[:50])
    assert rows[:50].tolist() == plain_rows
    assert lengths[:50].tolist() == plain_lengths
    assert lengths.tolist() == [min(77, len(row) + 2) for row in expected]
    whole = tok.encode(text, allowed_special="all").tolist()
    assert whole == [number for row in expected for number in (*row, 49407)][:-1]


def test_clip_with_ftfy_gives_the_ids_of_its_reference(
    corpus: Corpus, shared_vocab: Vocab, plain_clip: reference.Clip
) -> None:
    ftfy = pytest.importorskip("ftfy")
    logging.getLogger("ftfy").setLevel(logging.ERROR)
    tok = bpe.Tokenizer.from_clip(shared_vocab("bpe_simple_vocab_16e6.txt"))
    repaired = reference.Clip(["header"], ftfy.fix_text)
    repaired.ids, repaired.ranks, repaired._cache = plain_clip.ids, plain_clip.ranks, plain_clip._cache
    for language in CORPORA:
        documents = corpus(language, MEGABYTE // 10).decode().split(END)
        assert tok.encode_batch(documents).to_list() == [repaired.encode(document) for document in documents]


# Hugging Face's merges ----------------------------------------------------------------------------------------------


@each_corpus
def test_merges_equal_hugging_faces(corpus: Corpus, language: str, tmp_path: Path) -> None:
    """Byte-level, the gpt2 pattern, V=2000, on 250 KB: the same merges, and the same ids of all tokens."""
    tokenizers = pytest.importorskip("tokenizers")
    documents = corpus(language, MEGABYTE // 4).decode().split(END)
    byte_level = tokenizers.pre_tokenizers.ByteLevel
    peer = tokenizers.Tokenizer(tokenizers.models.BPE())
    peer.pre_tokenizer = byte_level(add_prefix_space=False, use_regex=True)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=2000, initial_alphabet=byte_level.alphabet(), special_tokens=[END], show_progress=False
    )
    peer.train_from_iterator(documents, trainer)
    tok = bpe.train(texts=documents, vocab_size=2000, special_tokens=[END], rules=bpe.MergeRules(tie_break="id"))
    letters = {bytes([byte]): letter for byte, letter in reference.Clip(["header"]).letters.items()}
    names = {
        number: END if token == SEPARATOR else "".join(letters[token[i : i + 1]] for i in range(len(token)))
        for token, number in tok.vocab().items()
    }
    peer.save(str(tmp_path / "peer.json"))
    import json

    model = json.loads((tmp_path / "peer.json").read_text(encoding="utf-8"))["model"]
    merges = [tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in model["merges"]]
    assert [(names[a], names[b]) for a, b in tok.merges.tolist()] == merges
    assert {name: number for number, name in names.items()} == model["vocab"]
    assert tok.vocab_size == 2000
    peer.decoder = tokenizers.decoders.ByteLevel()
    sample = documents[0][:20_000]
    assert tok.encode(sample).tolist() == peer.encode(sample).ids
    if language == "english":
        peer.save(str(tmp_path / "peer.json"))
        loaded = bpe.Tokenizer.load(tmp_path / "peer.json")
        assert np.array_equal(loaded.encode(sample), tok.encode(sample))


# Training and encoding ----------------------------------------------------------------------------------------------


@each_corpus
def test_train_save_load_encode_decode(corpus: Corpus, language: str, tmp_path: Path) -> None:
    """Train on a megabyte and a half with one and more threads, save, load, encode and decode to the same text."""
    data = corpus(language, 3 * MEGABYTE // 2)
    options: dict[str, Any] = {"vocab_size": 4000, "special_tokens": [END]}
    tok = bpe.train(texts=[data], threads=2, **options)
    assert bpe.train(texts=data.split(SEPARATOR), threads=1, **options) == tok
    path = tmp_path / "text.txt"
    path.write_bytes(data)
    assert bpe.train(files=bpe.Sources([path], separator=END), threads=8, **options) == tok
    tok.save(tmp_path / "tokenizer.json")
    again = bpe.Tokenizer.load(tmp_path / "tokenizer.json")
    assert again == tok
    ids = again.encode(data, allowed_special="all")
    assert again.decode_bytes(ids) == data
    assert len(ids) < len(data) / 2.5
