"""The two files of GPT-2's release: ranks, and damaged files."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from functools import cache

import pytest

import bpe
from bpe.formats.tiktoken import read_gpt2_ranks
from bpe.text.letters import spell_token_in_letters


@cache
def files() -> tuple[bytes, bytes, dict[bytes, int]]:
    """Merges, ids and ranks of a small tokenizer."""
    tok = bpe.train(texts=["low lower lowest", "naïve 낮\n"] * 5, vocab_size=275)
    pairs = [
        " ".join(spell_token_in_letters(tok.token_bytes(token_id)) for token_id in pair) for pair in tok.merges.tolist()
    ]
    ids = {spell_token_in_letters(token): token_id for token, token_id in tok.vocab().items()}
    merges = "\n".join(["#version: 0.2", *pairs, ""]).encode()
    return merges, json.dumps({**ids, "<|endoftext|>": 275}).encode(), tok.vocab()


def test_ranks_with_and_without_a_newline_at_the_end() -> None:
    merges, encoder, ranks = files()
    assert read_gpt2_ranks(merges, encoder) == ranks
    assert read_gpt2_ranks(merges.rstrip(b"\n"), encoder) == ranks


@pytest.mark.parametrize(
    ("merges", "encoder", "message"),
    [
        (b"#version: 0.2\na b c\n", b"{}", "vocab.bpe, line 2: 'a b c' is not the two parts"),
        (b"#version: 0.2\n\na b\n", b"{}", "vocab.bpe, line 2: '' is not the two parts"),
        ("#version: 0.2\na 낮\n".encode(), b"{}", "vocab.bpe, line 2"),
        (b"#version: 0.2\n", b"[]", r"encoder\.json: it is a list"),
        (b"#version: 0.2\n", '{"낮": 3}'.encode(), r"encoder\.json: token '낮' is not in GPT-2's letters"),
        (b"#version: 0.2\n", b'{"a": 3}', "the files must belong together"),
        (b"\xff\n", b"{}", "UTF-8 text and JSON"),
        (b"#version: 0.2\n", b"{", "UTF-8 text and JSON"),
    ],
)
def test_files_that_are_not_gpt2s(merges, encoder, message) -> None:
    with pytest.raises(bpe.FormatError, match=message):
        read_gpt2_ranks(merges, encoder)


def test_damaged_files_are_refused_or_mean_the_same() -> None:
    merges, encoder, ranks = files()
    rng = random.Random(16)
    for _ in range(2000):
        damaged_files = [merges, encoder]
        file_index = rng.randrange(2)
        data = bytearray(damaged_files[file_index])
        position = rng.randrange(len(data))
        kind = rng.randrange(4)
        if kind == 0:
            data[position] = rng.randrange(256)
        elif kind == 1:
            del data[position : position + rng.randrange(1, 20)]
        elif kind == 2:
            data[position:position] = data[rng.randrange(len(data)) :][:10]
        else:
            del data[position:]
        damaged_files[file_index] = bytes(data)
        with suppress(bpe.FormatError):
            assert read_gpt2_ranks(*damaged_files) == ranks
