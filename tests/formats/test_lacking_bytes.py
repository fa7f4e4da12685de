"""Byte-level models whose vocabulary lacks bytes, such as Falcon's, StarCoder's and DeepSeek's first ones.

Everything is compared with `tokenizers`.
"""

from __future__ import annotations

import json
import pickle
import random
from pathlib import Path
from typing import Any

import generated
import numpy as np
import pytest
from peers import Peer

import bpe
from bpe.compat import huggingface as compat
from bpe.compat.transformers import accelerate
from bpe.formats.huggingface import read
from bpe.text.letters import list_byte_letters

tokenizers = Peer("tokenizers")
transformers = Peer("transformers")

LETTERS = list_byte_letters()
#: The letters of the bytes that no UTF-8 has, in the order of DeepSeek's ids.
ODD = "õ÷ÁýÀÿøúþüùöû"
CHARACTERS = "ab cd\x0b\x00\t\n 漢字仮名한국어éñ🙂\U000e0001\U00070000\U00040000\x7f12,."
#: The bytes that Falcon's vocabulary lacks, those of StarCoder's, and some that characters of three bytes have.
LACKING = [frozenset(b"\x00\x01\x0b\x7f\xf2"), frozenset(b"\xf1"), frozenset(b"\xe6\x9f"), frozenset(b"\x0b \xc3a")]


def draw_text(rng: random.Random, size: int) -> str:
    return "".join(rng.choices(CHARACTERS, k=size))


def draw_merges(rng: random.Random, vocab: dict[str, int], suffix: str) -> list[list[str]]:
    """Merges of tokens that are neighbours in a text once the bytes without a token are left out; they are entered."""
    merges: list[list[str]] = []
    for _ in range(100):
        word = [LETTERS[byte] for byte in draw_text(rng, 6).encode() if LETTERS[byte] in vocab]
        start, middle, end = sorted(rng.sample(range(len(word) + 1), 3)) if len(word) > 2 else (0, 0, 0)
        left, right = "".join(word[start:middle]), "".join(word[middle:end])
        right += suffix if right + suffix in vocab and rng.random() < 0.5 else ""
        if left in vocab and right in vocab and [left, right] not in merges:
            merges.append([left, right])
            vocab.setdefault(left + right, len(vocab))
    return merges


def build_file(vocab: dict[str, int], merges: list[list[str]], added: dict[str, bool], **fields: Any) -> str:
    """A tokenizer.json; `added` has the names of added tokens, and whether each is special."""
    new_names = [name for name in added if name not in vocab]
    token_ids = {
        name: vocab.get(name, len(vocab) + new_names.index(name) if name in new_names else 0) for name in added
    }
    tokens = [
        generated.make_token(name, id=token_ids[name], normalized=not special, special=special)
        for name, special in sorted(added.items(), key=lambda item: token_ids[item[0]])
    ]
    return json.dumps(generated.make_file(vocab, merges, tokens, **fields))


def draw_file(seed: int) -> str:
    rng = random.Random(seed)
    missing_bytes = LACKING[seed % 5] if seed % 5 < 4 else frozenset(rng.sample(range(256), rng.randrange(1, 80)))
    suffix = "</w>" if seed % 7 == 6 else ""
    letters = [letter for byte, letter in enumerate(LETTERS) if byte not in missing_bytes]
    vocab = {token: i for i, token in enumerate(dict.fromkeys(letters + [letter + suffix for letter in letters]))}
    merges = draw_merges(rng, vocab, suffix)
    if ignores := not suffix and rng.random() < 0.3:
        for _ in range(10):
            vocab.setdefault("".join(LETTERS[byte] for byte in draw_text(rng, 3).encode()), len(vocab))
    return build_file(
        vocab, merges, {"<|end|>": True} if rng.random() < 0.5 else {}, normalizer=rng.choice([None, {"type": "NFC"}]),
        model={"ignore_merges": ignores, "end_of_word_suffix": suffix or None},
    )  # fmt: skip


def check_one_text(file: str, text: str, *, decoded: bool = True) -> None:
    """Compare everything that a text becomes with what `tokenizers` makes of it."""
    peer, compat_tok = tokenizers.Tokenizer.from_str(file), compat.Tokenizer.from_str(file)
    tok = bpe.Tokenizer(read(file.encode()))
    expected, encoding = peer.encode(text), compat_tok.encode(text)
    ids = expected.ids
    assert tok.encode(text, allowed_special="all").tolist() == ids
    ids_with_dropout = tok.encode(text, allowed_special="all", dropout=1e-15, seed=1).tolist()
    assert ids_with_dropout == ids or tok.spec.ignore_merges
    assert tok.encode_batch([text] * 2, allowed_special="all").to_list() == [ids, ids]
    assert tok.count_tokens(text, allowed_special="all") == len(ids)
    stream = tok.encode_stream([text[:3], text[3:]], allowed_special="all")
    assert np.concatenate([[], *stream]).tolist() == ids
    ids_with_spans, spans = tok.encode_with_offsets(text, allowed_special="all", convention="tokenizers")
    assert (ids_with_spans.tolist(), [*map(tuple, spans.tolist())]) == (ids, expected.offsets)
    assert (encoding.ids, encoding.tokens, encoding.offsets, encoding.word_ids) == (
        ids,
        expected.tokens,
        expected.offsets,
        expected.word_ids,
    )
    if decoded:
        assert tok.decode(ids) == compat_tok.decode(ids, False) == peer.decode(ids, skip_special_tokens=False)


@pytest.mark.parametrize("seed", range(14))
def test_bytes_without_a_token_are_left_out_as_in_tokenizers(seed: int) -> None:
    file, rng = draw_file(seed), random.Random(seed)
    for size in (0, 1, 2, 9, 40, 300):
        check_one_text(file, draw_text(rng, size), decoded=seed % 7 != 6)


def test_all_ways_to_encode_leave_bytes_out(tmp_path: Path) -> None:
    """Files, shards, copies, saved files, and another package's tokenizer."""
    file, rng = draw_file(0), random.Random(5)
    texts = [draw_text(rng, 60) for _ in range(50)]
    peer = tokenizers.Tokenizer.from_str(file)
    expected = [peer.encode(text).ids for text in texts]
    path = tmp_path / "tokenizer.json"
    path.write_text(file)
    tok = bpe.Tokenizer.load(path)
    tok.save(tmp_path / "again.json")
    for tokenizer in (tok, pickle.loads(pickle.dumps(tok)), bpe.Tokenizer.load(tmp_path / "again.json")):
        assert tokenizer.fingerprint == tok.fingerprint
        assert tokenizer.encode_batch(texts * 20, threads=2).to_list() == expected * 20
    (tmp_path / "corpus.txt").write_bytes("<|end|>".join(texts).encode())
    corpus = bpe.Sources(tmp_path / "corpus.txt", separator="<|end|>", format="text")  # it has NUL bytes
    assert tok.encode_files(corpus).to_list() == expected
    assert bpe.evaluate(tok, texts=texts).to_dict()["tokens"] == sum(map(len, expected))
    accelerated = accelerate(transformers.PreTrainedTokenizerFast(tokenizer_file=str(path)))
    assert accelerated(texts)["input_ids"] == expected


@pytest.mark.parametrize("lacking", LACKING)
def test_pieces_are_split_where_nothing_is_left_out_around(lacking: frozenset[int]) -> None:
    """Words are split between characters of three bytes unless the model lacks bytes of such characters."""
    letters = [letter for byte, letter in enumerate(LETTERS) if byte not in lacking]
    file = build_file({letter: i for i, letter in enumerate(letters)}, [], {})
    merger = bpe.Tokenizer(read(file.encode()))._engine.merger
    assert merger.can_split == lacking.isdisjoint({*range(0x80, 0xC0), *range(0xE0, 0xF0)})


def test_own_tokenizers_that_lack_bytes_still_raise(tmp_path: Path) -> None:
    tok = bpe.train(texts=["ab ab"], vocab_size=5, alphabet=bpe.Alphabet(initial="corpus"))
    tok.save(tmp_path / "tok.json")
    for tokenizer in (tok, bpe.Tokenizer.load(tmp_path / "tok.json")):
        with pytest.raises(ValueError, match="byte 0x78 of the text 'xab' is not in the vocabulary"):
            tokenizer.encode("xab")
    with pytest.raises(ValueError, match="vocab-merges does not keep drop_unknown"):
        tok.save(tmp_path / "folder", format="vocab-merges")


@pytest.mark.parametrize("normalizer", [None, "NFC", "NFD", "NFKC", "Lowercase"])
@pytest.mark.parametrize(("in_vocab", "special"), [(False, False), (True, False), (False, True)])
def test_added_tokens_that_are_letters_of_bytes_that_no_text_has(
    in_vocab: bool, special: bool, normalizer: str
) -> None:
    """DeepSeek's first tokenizers have 13. The characters are found in texts, and decoded as invalid bytes."""
    letters = [letter for letter in LETTERS if in_vocab or letter not in ODD]
    vocab = {letter: i for i, letter in enumerate(letters)} | {"he": 256, "Ãł": 257}
    added = dict.fromkeys(ODD, special) | {"<｜begin▁of▁sentence｜>": True, "<|User|>": False}
    step = None if normalizer is None else {"type": "Sequence", "normalizers": [{"type": normalizer}]}
    vocab = {token: i for i, token in enumerate(vocab)}
    file = build_file(vocab, [["h", "e"], ["Ã", "ł"]], added, normalizer=step)
    pieces = [*ODD[:9], "hello", " he", "A\u0300", "o\u0308", "à", "é", "中", "\n", "<|User|>", "\U00040000"]
    rng = random.Random(3)
    for size in (1, 4, 30):
        check_one_text(file, "".join(rng.choices(pieces, k=size)))


def test_a_name_in_letters_is_decoded_as_text_in_own_files(tmp_path: Path) -> None:
    """Where the decoder of `tokenizers` would take the name for bytes."""
    tok = bpe.train(texts=["low lower"], vocab_size=260, special_tokens=["<é>"])
    tok.save(tmp_path / "tok.json")
    reloaded = bpe.Tokenizer.load(tmp_path / "tok.json")
    assert reloaded.fingerprint == tok.fingerprint
    assert reloaded.decode(reloaded.encode("<é>", allowed_special="all")) == "<é>"
    peer = tokenizers.Tokenizer.from_file(str(tmp_path / "tok.json"))
    assert peer.decode(peer.encode("<é>").ids, skip_special_tokens=False) == "<\ufffd>"
