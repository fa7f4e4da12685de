"""Compiled tokenizers: equal to what they were made of, and refused or harmless however they are damaged."""

from __future__ import annotations

import json
import random
import re
import struct
import zlib
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import replace
from multiprocessing import get_context

import numpy as np
import pytest
from conftest import CORPORA
from tokenizer_json import make_spec

import bpe
from bpe.formats import compiled
from bpe.formats.compiled import read, write
from bpe.formats.huggingface import read as read_json
from bpe.formats.huggingface import write as write_json
from bpe.formats.huggingface.tokenizer_json import write_without_lists
from bpe.formats.signatures import COMPILED_MAGIC
from bpe.vocab.vocabulary import SPECIAL

#: More different words than the first word table holds, so that it is replaced by one with the vocabulary's tokens.
MANY_WORDS = " ".join(f"low{i}" for i in range(2000))
TEXTS = ["low lower lowest newest", "naïve 한국어, 日本語 12\n\t", "<|end|> low<|end|>", "", "a" * 99, "\x00ÿ"]
#: The bytes of the header, and where in it the checksum is.
HEADER_SIZE, CRC_OFFSET = 40, 8


def train(**options) -> bpe.Tokenizer:
    options = {"vocab_size": 280, "special_tokens": ["<|end|>", "<|user|>"], **options}
    return bpe.train(texts=["low lower lowest newer newest wide", "naïve 한국어"] * 4, **options)


def make_tokenizers() -> dict[str, bpe.Tokenizer]:
    byte = train()
    plain = replace(byte.spec, training=None)
    return {
        "byte": byte,
        "plain": bpe.Tokenizer(plain),
        "plain, with roles": bpe.Tokenizer(replace(plain, roles={"eos_token": "<|end|>", "pad_token": "<|user|>"})),
        "plain, ignore_merges, no pretokenizer": bpe.Tokenizer(replace(plain, ignore_merges=True, pretokenizer=None)),
        "plain, odd names": bpe.Tokenizer(
            replace(train(special_tokens=["<a\r\n b>", "한국어"], pretokenizer="o200k").spec, training=None)
        ),
        "prefix space": bpe.Tokenizer(replace(plain, pretokenizer=bpe.Pretokenizer("gpt2", add_prefix_space=True))),
        "pattern of its own": train(pretokenizer=bpe.Pretokenizer.from_regex(r"\w+|\W")),
        "normalizer": train(normalizer="nfc"),
        "characters": train(model="char", vocab_size=40, unk_token="<unk>"),
        "end of word": train(model="char", vocab_size=40, end_of_word="</w>"),
        "ignore_merges": bpe.Tokenizer(replace(byte.spec, ignore_merges=True)),
        "template": bpe.Tokenizer(replace(byte.spec, template=((0,), (1,)))),
        "flags": bpe.Tokenizer(replace(byte.spec, token_flags={"<|user|>": frozenset({"ordinary", "lstrip"})})),
        "gaps": bpe.Tokenizer(make_spec(merges=[(b"l", b"o"), (b"lo", b"w")], special=["<|end|>"], gap=50)),
        "boundless": bpe.research.train_boundless(texts=["low lower of the of the"] * 9, vocab_size=270),
        "picky": bpe.research.train_picky(0.6, texts=["low lower lowest newer newest"] * 9, vocab_size=268),
        "shared ranks": bpe.Tokenizer(replace(byte.spec, merge_ranks=np.arange(len(byte.merges), dtype=np.int32) // 2)),
        "roles": bpe.Tokenizer(replace(byte.spec, roles={"eos_token": "<|end|>"})),
        "dropout": bpe.Tokenizer(replace(byte.spec, dropout=0.5)),
        "no merges": train(vocab_size=258),
    }


TOKENIZERS = make_tokenizers()


@pytest.fixture(scope="module")
def content() -> bytes:
    return write(TOKENIZERS["byte"].spec)


def with_checksum(data: bytes) -> bytes:
    """Return the data with the checksum that they should have."""
    return data[:CRC_OFFSET] + struct.pack("<I", zlib.crc32(data[CRC_OFFSET + 4 :])) + data[CRC_OFFSET + 4 :]


def use(data: bytes) -> bool:
    """Load the data, encode and save; whether they loaded. Anything but a refusal in words is an error."""
    try:
        tok = bpe.Tokenizer(read(data))
    except ValueError:  # FormatError too
        return False
    for text in (*TEXTS, MANY_WORDS, *TEXTS):
        with suppress(ValueError):  # a symbol that the vocabulary lost
            tok.decode_bytes(tok.encode(text, allowed_special="all"))
    assert read(write(tok.spec)).special_tokens == tok.special_tokens
    return True


def encode(tok: bpe.Tokenizer, text: str) -> object:
    """Encode and decode a text: everything that comes of it, or the error."""
    try:
        ids = tok.encode(text, allowed_special="all").tolist()
    except ValueError as error:  # a symbol that the vocabulary lacks
        return str(error)
    return ids, tok.tokens(text), tok.decode(ids)


# What it keeps --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_tokenizer_comes_back_equal(name, tmp_path):
    tok = TOKENIZERS[name]
    tok.save(tmp_path / "t.compiled")
    tok.save(tmp_path / "t.json")
    loaded, plain = bpe.Tokenizer.load(tmp_path / "t.compiled"), bpe.Tokenizer.load(tmp_path / "t.json")
    assert loaded == plain == tok
    assert hash(loaded) == hash(tok)
    assert loaded.roles == plain.roles
    assert (loaded.spec.decoder, loaded.spec.training) == (plain.spec.decoder, plain.spec.training)
    assert write_json(loaded.spec, with_record=True) == write_json(plain.spec, with_record=True)
    assert write(loaded.spec) == write(plain.spec)
    if tok.spec.dropout:
        return
    for text in TEXTS:
        assert encode(loaded, text) == encode(tok, text)


@pytest.mark.parametrize("vocabulary", ["r50k_base", "cl100k_base"])
def test_published_vocabularies(vocabulary, shared_vocab, corpus, tmp_path):
    tok = bpe.Tokenizer.load(shared_vocab(f"{vocabulary}.tiktoken"))
    tok.save(tmp_path / "t.json")
    bpe.Tokenizer.load(tmp_path / "t.json").save(tmp_path / "t.compiled")
    loaded = bpe.Tokenizer.load(tmp_path / "t.compiled")
    assert loaded == tok
    assert np.array_equal(loaded.spec.unmerged, tok.spec.unmerged)
    for name in CORPORA:
        text = corpus(name, 20_000).decode()
        assert np.array_equal(loaded.encode(text), tok.encode(text))


def get_settings(content: bytes) -> bytes:
    return content[-struct.unpack_from("<I", content, 32)[0] :]


def with_settings(content: bytes, settings: bytes) -> bytes:
    """Return a compiled tokenizer with other settings."""
    header = bytearray(content[:HEADER_SIZE])
    struct.pack_into("<I", header, 32, len(settings))
    return with_checksum(bytes(header) + content[HEADER_SIZE : -len(get_settings(content))] + settings)


@pytest.mark.parametrize("name", TOKENIZERS)
def test_settings_are_plain_where_they_can_be(name):
    """A plain tokenizer gives the same as its tokenizer.json."""
    spec = TOKENIZERS[name].spec
    content = write(spec)
    is_plain = name.startswith("plain") or name == "gaps"
    assert get_settings(content).startswith(b"plain\n" if is_plain else b"{")
    by_json = read(with_settings(content, write_without_lists(spec)))
    loaded = read(content)
    assert bpe.Tokenizer(loaded) == bpe.Tokenizer(by_json)
    for field in ("unmerged", "roles", "special_tokens", "decoder", "drop_unknown", "post_processor", "training"):
        assert str(getattr(loaded, field)) == str(getattr(by_json, field))


def test_plain_settings_of_a_published_vocabulary(shared_vocab):
    content = write(bpe.Tokenizer.load(shared_vocab("r50k_base.tiktoken")).spec)
    assert get_settings(content) == (
        b"plain\npretokenizer gpt2\nignore_merges\nspecial 50256 3c7c656e646f66746578747c3e\n"
    )


def test_unmerged_tokens_are_found_when_it_is_written():
    """`baa` is never made, since `aa` is merged first."""
    spec = make_spec(merges=[(b"a", b"a"), (b"b", b"a"), (b"ba", b"a")], ignore_merges=True)
    assert spec.unmerged is None
    assert read(write(spec)).unmerged.tolist() == [258]
    assert read(write(replace(spec, ignore_merges=False))).unmerged is None


def test_unreachable_tokens_of_a_model_with_an_end_of_word_mark():
    """Merging gives `ab!dec` of its own bytes only where they are the end of a word."""
    names = ["c", "ab!dec", "de", "b", "e", "a", "dec", "b!", "ab!", "d"]
    model = {
        "type": "BPE", "unk_token": "b", "end_of_word_suffix": "!", "ignore_merges": True,
        "vocab": {name: token_id for token_id, name in enumerate(names)},
        "merges": [["d", "e"], ["de", "c"], ["a", "b!"], ["ab!", "dec"]],
    }  # fmt: skip
    tok = bpe.Tokenizer(read_json(json.dumps({"version": "1.0", "model": model}).encode()))
    loaded = bpe.Tokenizer(read(write(tok.spec)))
    assert loaded.spec.unmerged is not None
    assert loaded.encode("ab!dec").tolist() == tok.encode("ab!dec").tolist() == [1]
    assert loaded.unreachable().tolist() == tok.unreachable().tolist() == [7]


def test_arrays_of_a_file_are_neither_writable_nor_copied(content):
    spec = read(content)
    for array in (spec.merges, spec.merge_results, spec.vocabulary.offsets):
        with pytest.raises(ValueError, match="cannot set WRITEABLE flag"):
            array.flags.writeable = True


def test_names(tmp_path):
    tok = TOKENIZERS["byte"]
    tok.save(tmp_path / "any name", format="compiled")
    assert bpe.Tokenizer.load(tmp_path / "any name") == tok
    with pytest.raises(ValueError, match="the name of a compiled tokenizer, but the format to write is tekken"):
        tok.save(tmp_path / "t.compiled", format="tekken")
    bpe.convert(tmp_path / "any name", tmp_path / "t.json")
    bpe.convert(tmp_path / "t.json", tmp_path / "again.compiled")
    assert (tmp_path / "again.compiled").read_bytes() == (tmp_path / "any name").read_bytes()


def encode_in_process(path: str) -> list[int]:
    tok = bpe.Tokenizer.load(path)
    tok.save(path)
    return tok.encode("lowest newer").tolist()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_processes_read_and_replace_one_file(tmp_path):
    path = str(tmp_path / "t.compiled")
    TOKENIZERS["byte"].save(path)
    with ProcessPoolExecutor(2, mp_context=get_context("fork")) as pool:
        results = list(pool.map(encode_in_process, [path] * 8))
    assert results == [TOKENIZERS["byte"].encode("lowest newer").tolist()] * 8
    assert [file.name for file in tmp_path.iterdir()] == ["t.compiled"]


# Damage ---------------------------------------------------------------------------------------------------------------


def test_every_changed_byte_is_noticed(content):
    for offset in range(len(content)):
        damaged = bytearray(content)
        damaged[offset] ^= 1 << offset % 8
        with pytest.raises(bpe.FormatError):
            read(bytes(damaged))


def test_truncated_and_longer_files(content, tmp_path):
    for size in [*range(HEADER_SIZE + 1), *range(HEADER_SIZE, len(content), 97), len(content) - 1]:
        for data in (content[:size], with_checksum(content[:size])) if size >= HEADER_SIZE else (content[:size],):
            with pytest.raises(bpe.FormatError):
                read(data)
    with pytest.raises(bpe.FormatError, match=rf"it has {len(content) + 1} bytes, and its header declares"):
        read(with_checksum(content + b"\n"))
    (tmp_path / "t.compiled").write_bytes(content[:1000])
    with pytest.raises(bpe.FormatError, match=r"t\.compiled: it has 1000 bytes, .* bpe convert"):
        bpe.Tokenizer.load(tmp_path / "t.compiled")


def test_other_versions_and_files(content):
    newer = content[:12] + struct.pack("<I", compiled.VERSION + 1) + content[16:]
    with pytest.raises(bpe.FormatError, match="it is of version 3, and this release reads version 2; compile the"):
        read(newer)
    with pytest.raises(bpe.FormatError, match="and is no compiled tokenizer"):
        read(content[:6] + b"\n" + content[6:])
    with pytest.raises(bpe.FormatError, match=r"it is damaged: its checksum is not the one in its header"):
        read(content[:-1] + b" ")
    assert content.startswith(COMPILED_MAGIC)


def test_bytes_changed_by_someone_who_knows_the_checksum(content):
    """Whatever the content, it is refused or encodes."""
    rng = random.Random(5)
    offsets = [*range(HEADER_SIZE), *rng.sample(range(HEADER_SIZE, len(content)), 300)]
    n_loaded = 0
    for offset in offsets:
        for value in (content[offset] ^ 1 << rng.randrange(8), rng.choice((0, 1, 0x7F, 0xFF))):
            damaged = bytearray(content)
            damaged[offset] = value
            n_loaded += use(with_checksum(bytes(damaged)))
    assert 0 < n_loaded < len(offsets) * 2


def test_sections_exchanged_by_someone_who_knows_the_checksum(content):
    rng = random.Random(6)
    for _ in range(100):
        start, middle, end = sorted(rng.sample(range(HEADER_SIZE, len(content)), 3))
        swapped = content[:start] + content[middle:end] + content[start:middle] + content[end:]
        use(with_checksum(swapped))


def change(content: bytes, *, section: str, index: int, value: int) -> bytes:
    """Set one element of a section, and the checksum."""
    n_ids, n_merges, unmerged_plus_one = struct.unpack_from("<3I", content, 16)
    offsets_start = HEADER_SIZE
    merges_start = offsets_start + 8 * (n_ids + 1)
    results_start = merges_start + 8 * n_merges
    kinds_start = results_start + 4 * n_merges + 4 * max(unmerged_plus_one - 1, 0)
    start, code = {
        "offsets": (offsets_start, "q"),
        "merges": (merges_start, "i"),
        "results": (results_start, "i"),
        "kinds": (kinds_start, "B"),
        "blob": (kinds_start + n_ids, "B"),
    }[section]
    data = bytearray(content)
    struct.pack_into(f"<{code}", data, start + struct.calcsize(code) * index, value)
    return with_checksum(bytes(data))


@pytest.mark.parametrize(
    ("section", "index", "value", "message"),
    [
        ("offsets", 0, 1, "tokens do not fit their offsets"),
        ("offsets", 0, -1, "tokens do not fit their offsets"),
        ("offsets", 5, 1 << 62, "tokens do not fit their offsets"),
        ("offsets", 5, -(1 << 63), "tokens do not fit their offsets"),
        ("offsets", -1, 0, "tokens do not fit their offsets"),
        ("kinds", 5, 0, "tokens do not fit their offsets and kinds"),
        ("kinds", 5, 3, "tokens do not fit their offsets and kinds"),
        ("merges", 0, -1, "a merge has id 4294967295; ids are from 0 to 279"),
        ("merges", 3, 280, "a merge has id 280; ids are from 0 to 279"),
        ("results", 2, 1 << 30, "a merge has id 1073741824"),
        ("results", 2, 3, "it must produce the token"),
        ("blob", 2, 255, "can't decode byte 0xff"),
        ("blob", 2, 65, "is not the token of its id, 0"),
    ],
)
def test_wrong_values_are_refused(section, index, value, message, content):
    if (section, index) == ("offsets", -1):
        index = TOKENIZERS["byte"].n_vocab
    with pytest.raises(ValueError, match=message):
        bpe.Tokenizer(read(change(content, section=section, index=index, value=value)))


@pytest.mark.parametrize("name", TOKENIZERS)
def test_special_tokens_outside_the_vocabulary_are_refused(name):
    content = write(TOKENIZERS[name].spec)
    settings = get_settings(content)
    matches = list(re.finditer(rb'(?:"id": |special )(\d+)', settings))
    for match in matches:
        damaged_settings = settings[: match.start(1)] + b"99999" + settings[match.end(1) :]
        with pytest.raises(bpe.FormatError, match=r"special token .* has id 99999; ids are from 0 to .* bpe convert"):
            read(with_settings(content, damaged_settings))
    assert matches or not TOKENIZERS[name].special_tokens


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("pretokenizer r2d2", r"have the line b'pretokenizer r2d2': pretokenizer is 'r2d2'; .* bpe convert"),
        ("pretokenizer", r"have the line b'pretokenizer': no setting is written like this; .* bpe convert"),
        ("ignore_merges 1", "no setting is written like this"),
        ("special 1e3 3c61", "invalid literal for int"),
        ("special 0 3c6", "non-hexadecimal number"),
        ("special 0 ff", "can't decode byte 0xff"),
        ("special \u0661 3c61", "can't decode byte 0xd9"),
        ("special 0 3c61", "its special token '<a' is not the token of its id, 0"),
        ("special -1 3c61", "special token '<a' has id -1; ids are from 0 to 279; .* bpe convert"),
        ("special 999 3c61", "special token '<a' has id 999; ids are from 0 to 279"),
        ("special 279 ", "or one has no name"),
        ("ignore_merges", r"special tokens {} and .* are not the special entries of the vocabulary, .* bpe convert"),
        (
            "special 0 3c7c656e647c3e\nspecial 1 3c7c757365727c3e\nspecial 5 3c61",
            "special tokens .* are not the special entries of the vocabulary",
        ),
        ("special 0 3c7c656e647c3e\nspecial 0 3c61", "two of its special tokens have one name or one id"),
        ("special 0 3c7c656e647c3e\nspecial 1 3c7c656e647c3e", "two of its special tokens have one name or one id"),
        (
            "role eos_token 3c61\nspecial 0 3c7c656e647c3e\nspecial 1 3c7c757365727c3e",
            "eos_token is '<a', which is no special token",
        ),
        ("role king 3c7c656e647c3e\nspecial 0 3c7c656e647c3e\nspecial 1 3c7c757365727c3e", "role is 'king'"),
    ],
    ids=lambda value: value.replace("\n", ", ") if value[0] in "psir" else "",
)
def test_wrong_plain_settings_are_refused(settings, message, content):
    with pytest.raises(ValueError, match=message):
        bpe.Tokenizer(read(with_settings(content, b"plain\n" + settings.encode() + b"\n")))


@pytest.mark.parametrize("token_id", [-1, 280, 1 << 30])
def test_unmerged_tokens_outside_the_vocabulary_are_refused(token_id):
    spec = replace(TOKENIZERS["ignore_merges"].spec, unmerged=np.array([token_id], dtype=np.int32))
    with pytest.raises(ValueError, match=f"unmerged has id {token_id}, which is not in the vocabulary"):
        bpe.Tokenizer(read(write(spec)))


@pytest.mark.parametrize("name", ["byte", "characters"])
def test_merges_of_special_tokens_must_be_spelled_as_their_parts(name):
    """Else a token is longer than its text, and spans of tokens end after the text."""
    spec = TOKENIZERS[name].spec
    kinds, result = spec.vocabulary.kinds.copy(), int(spec.merge_results[0])
    kinds[result] = SPECIAL
    tokens = [spec.vocabulary[token_id] for token_id in range(len(kinds))]
    tokens[result] = b"x" * 300
    content = write(spec)
    offsets = np.cumsum([0, *map(len, tokens)], dtype="<i8")
    n_before = HEADER_SIZE + offsets.nbytes
    n_after = n_before + spec.merges.nbytes + spec.merge_results.nbytes
    rest = kinds.tobytes() + b"".join(tokens) + content[n_after + len(kinds) + len(spec.vocabulary.blob) :]
    header = bytearray(content[:HEADER_SIZE])
    struct.pack_into("<I", header, 28, int(offsets[-1]))
    damaged = with_checksum(bytes(header) + offsets.tobytes() + content[n_before:n_after] + rest)
    with pytest.raises(bpe.FormatError, match=f"merge 0 of ids .* produces {result}: special tokens are merged only"):
        read(damaged)


def test_tokens_of_characters_must_be_utf8():
    content = write(TOKENIZERS["characters"].spec)
    n_bytes = len(TOKENIZERS["characters"].spec.vocabulary.blob)
    n_refused = 0
    for index in range(n_bytes):
        with pytest.raises(bpe.FormatError):
            read(change(content, section="blob", index=index, value=0xFF))
        n_refused += 1
    assert n_refused == n_bytes > 40
