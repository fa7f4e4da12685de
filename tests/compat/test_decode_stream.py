"""Random steps of `DecodeStream` against those of `tokenizers`, for decoders whose steps it adds up and for others."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import pytest
from peers import Peer

from bpe.compat.huggingface import DecodeStream, Tokenizer

tokenizers = Peer("tokenizers")
decoders = Peer("tokenizers.decoders")
models = Peer("tokenizers.models")

TOKENS = [
    "<unk>", "▁", "▁▁", "a", "▁a", "ab", "é", "e\u0301", "a</w>", "##a", " ", "\ufffd", "x\ufffd", "Ġa", "Ã", "©", "ã",
    "ģ", " .", "한", "<0x2", *(f"<0x{byte:02X}>" for byte in b" A\xc3\xa9\xe3\x81\x82\xe2\x96\x81\xef\xbf\xbd\xff"),
]  # fmt: skip
PARTS = [["<0xC3>", "<0xA9>", "a", "▁", "<0x41>"], ["▁", "a", "<s>", "<0x20>", "<0xE2>", "<0x96>", "<0x81>"]]
PARTS += [["Ã", "©", "ã", "ģ", "Ġa", "a", "<s>"]]


def make_bytes_steps(*strips: tuple[str, int, int]) -> Any:
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence([*steps, *(decoders.Strip(*strip) for strip in strips)])


DECODERS: dict[str, Callable[[], Any]] = {
    "ByteLevel": lambda: decoders.ByteLevel(),
    "Gemma": make_bytes_steps,
    "Llama": lambda: make_bytes_steps((" ", 1, 0)),
    "two spaces": lambda: make_bytes_steps((" ", 2, 0)),
    "é": lambda: make_bytes_steps(("é", 1, 0)),
    "two strips": lambda: make_bytes_steps((" ", 1, 0), ("a", 1, 0)),
    "strip at the end": lambda: make_bytes_steps((" ", 0, 1)),
    "Metaspace": lambda: decoders.Metaspace(),
    "Metaspace and strip": lambda: decoders.Sequence([decoders.Metaspace(), decoders.Strip(" ", 1, 0)]),
    "WordPiece": lambda: decoders.WordPiece(),
    "BPEDecoder": lambda: decoders.BPEDecoder(),
    "after Fuse": lambda: decoders.Sequence([decoders.Fuse(), decoders.Replace("▁", " ")]),
    "none": lambda: None,
}


def get_outcome(step: Callable[..., Any], *args: Any) -> object:
    try:
        return step(*args)
    except BaseException as error:  # noqa: BLE001  # `tokenizers` raises Exception itself, and panics
        return "error" if "prefix" in str(error) else type(error).__name__


@pytest.mark.parametrize("name", DECODERS)
def test_random_steps_are_those_of_tokenizers(name: str) -> None:
    peer = tokenizers.Tokenizer(
        models.BPE({token: i for i, token in enumerate(TOKENS)}, [], unk_token="<unk>", byte_fallback=True)
    )
    if (decoder := DECODERS[name]()) is not None:
        peer.decoder = decoder
    peer.add_special_tokens(["<s>", "</s>"])
    peer.add_tokens(["C++", " y "])
    tok, rng = Tokenizer.from_str(peer.to_str()), random.Random(name)
    id_sets = [list(range(peer.get_vocab_size() + 1)), *([peer.token_to_id(part) for part in parts] for parts in PARTS)]
    for _ in range(120):
        ids, skip = rng.choice(id_sets), rng.random() < 0.5
        prompt = rng.choices(ids, k=rng.choice([0, 0, 3, 70, 90]))
        prompt[-2:-1] = [peer.token_to_id("ab")] * rng.randint(0, 2)  # where a long prompt may be cut
        expected_stream = decoders.DecodeStream(prompt, skip_special_tokens=skip)
        stream = DecodeStream(prompt, skip)
        for _ in range(rng.randint(1, 30)):
            step = rng.choice(ids) if rng.random() < 0.95 else rng.choices(ids, k=rng.randint(0, 3))
            expected = get_outcome(expected_stream.step, peer, step)
            assert get_outcome(stream.step, tok, step) == expected
            if expected in ("error", "PanicException"):
                break
            stream = copy.copy(stream)


def test_a_long_prompt_is_not_decoded() -> None:
    peer = tokenizers.Tokenizer(models.BPE({token: i for i, token in enumerate(TOKENS)}, []))
    peer.decoder = make_bytes_steps((" ", 1, 0))
    tok = Tokenizer.from_str(peer.to_str())
    stream = DecodeStream([peer.token_to_id("▁a")] * 1000)
    assert stream.step(tok, peer.token_to_id("▁a")) == " a"
    assert len(stream._ids) == 1
    with pytest.raises(OverflowError):
        DecodeStream([-1, *[peer.token_to_id("▁a")] * 1000]).step(tok, 1)


def test_a_changed_tokenizer_changes_the_next_step() -> None:
    peer = tokenizers.Tokenizer(models.BPE({token: i for i, token in enumerate(TOKENS)}, []))
    peer.decoder = decoders.Metaspace()
    tok, token_id = Tokenizer.from_str(peer.to_str()), peer.token_to_id("▁a")
    expected_stream, stream = decoders.DecodeStream(skip_special_tokens=False), DecodeStream()
    for decoder in (decoders.Metaspace(), make_bytes_steps(), decoders.Metaspace("b"), make_bytes_steps()):
        for _ in range(3):
            expected = get_outcome(expected_stream.step, peer, token_id)
            assert get_outcome(stream.step, tok, token_id) == expected
        peer.decoder = tok.decoder = decoder
