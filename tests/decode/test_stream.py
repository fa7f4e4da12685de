"""Decoding ids one by one: the kernel against the Python code, prompts that are not decoded, many ids in one call."""

from __future__ import annotations

import copy
import pickle
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from decoded import TEXT, make_byte_model, make_with_mark, make_with_steps
from strategies import SOAK

import bpe
from bpe.decode import IncrementalDecoder
from bpe.vocab.output_steps import (
    ByteFallback,
    DecodeReplace,
    DecodeStrip,
    DummySpace,
    Fuse,
    Suffix,
)


def in_python(tok: bpe.Tokenizer, **options: Any) -> IncrementalDecoder:
    """A decoder whose kernel decodes no token: the naive twin."""
    decoder = tok.decoder(**options)
    decoder.set_table(None, b"", False)
    return decoder


def with_llama_steps(*, by_character: bool = False, suffix: str = "") -> bpe.Tokenizer:
    """A model with the decoder steps of Llama 2: byte tokens, and a space that only the first token loses."""
    tok = bpe.train(
        texts=[TEXT.replace(" ", "▁")],
        vocab_size=420,
        model="char",
        unk_token="<unk>",
        special_tokens=["<s>", "</s>"],
        alphabet=bpe.Alphabet(byte_fallback=True),
    )
    steps = [DecodeReplace("▁", " ", True), ByteFallback(by_character), Fuse(), DecodeStrip(" ", 1, 0)]
    return bpe.Tokenizer(replace(tok.spec, decoder=(*([Suffix(suffix)] if suffix else []), *steps)))


def with_special_tokens() -> bpe.Tokenizer:
    return make_byte_model().with_tokens(special=["<s>", "é</s>"], added=["C++"])


STREAM_SHAPES = {
    "bytes": make_byte_model,
    "special tokens": with_special_tokens,
    "mark": lambda: make_with_mark(True),
    "mark as symbol": lambda: make_with_mark(False),
    "strips at both ends": make_with_steps,
    "strips and bytes": lambda: make_with_steps("bytes"),
    "llama": with_llama_steps,
    "llama by character": lambda: with_llama_steps(by_character=True),
    "suffix": lambda: with_llama_steps(suffix="e"),
    "dummy space": lambda: bpe.Tokenizer(replace(with_llama_steps().spec, decoder=(ByteFallback(), DummySpace(True)))),
    "all at the end": lambda: bpe.Tokenizer(
        replace(with_llama_steps().spec, decoder=(Fuse(), DecodeReplace("▁", " ", True)))
    ),
}


@pytest.fixture(scope="module", params=STREAM_SHAPES)
def stream_shape(request: pytest.FixtureRequest) -> tuple[bpe.Tokenizer, list[int]]:
    """A tokenizer, and ids of which many make characters and runs of byte tokens."""
    tok = STREAM_SHAPES[request.param]()
    likely_ids = [i for i, token in tok.spec.vocabulary.items() if len(token) < 3 or token.startswith((b"<0x", b"<"))]
    likely_ids += [i for i, token in tok.spec.vocabulary.items() if token in (b"<0xE3>", b"<0x81>", "▁".encode())] * 30
    return tok, [*likely_ids, *tok.encode(TEXT.replace(" ", "▁")).tolist()]


@pytest.mark.parametrize("skip_special", [False, True])
def test_one_id_in_one_call_gives_the_text_of_the_python_code(
    stream_shape: tuple[bpe.Tokenizer, list[int]], skip_special: bool
) -> None:
    (tok, likely_ids), random_ = stream_shape, random.Random(7)
    for _ in range(20 * SOAK):
        ids = random_.choices(likely_ids, k=random_.randint(0, 40))
        decoder, twin = (make(tok, skip_special=skip_special) for make in (bpe.Tokenizer.decoder, in_python))
        assert [decoder.push(token_id) for token_id in ids] == [twin.push([token_id]) for token_id in ids]
        assert copy.copy(decoder).flush() == twin.flush()
        assert decoder.get_state()[1] == len(ids)
        rest = decoder.flush()
        assert tok.decoder(skip_special=skip_special).push(ids) == "".join(
            decoder.steps(random_.choice([ids, np.array(ids, dtype=np.uint16)]))
        )
        assert decoder.flush() == rest


@pytest.mark.parametrize("options", [{}, {"skip_special": True}, {"skip_invalid": True}], ids=str)
def test_a_decoder_after_a_prompt_is_as_if_the_prompt_were_pushed(
    stream_shape: tuple[bpe.Tokenizer, list[int]], options: dict[str, bool]
) -> None:
    (tok, likely_ids), random_ = stream_shape, random.Random(8)
    for round_ in range(6 * SOAK):
        ids = random_.choices(likely_ids, k=random_.randint(0, 60))
        if round_ % 3 == 0:  # long runs
            ids = [token_id for token_id in ids for _ in range(random_.choice([1, 1, 40]))]
        at = random_.randint(0, len(ids))
        prompt = random_.choice([ids[:at], tuple(ids[:at]), np.array(ids[:at], dtype=np.int64)])
        pushed = tok.decoder(**options)
        pushed.push(ids[:at])
        decoder = tok.decoder(prompt=prompt, **options)
        for token_id in ids[at:]:
            assert decoder.push(token_id) == pushed.push(token_id)
        assert decoder.flush() == pushed.flush()


def test_a_prompt_is_not_decoded_as_a_whole() -> None:
    for tok in (make_byte_model(), with_llama_steps()):
        prompt = tok.encode("Hello there " * 4).tolist()
        decoder = tok.decoder(prompt=[*prompt[:9], *[10**6] * 5000, *prompt])  # no ids of the vocabulary
        with pytest.raises(ValueError, match=f"token id 999999 at position {2 * len(prompt) + 5000 - len(prompt[9:])}"):
            decoder.push(999_999)
        for wrong, error in ((7, TypeError), ("12", TypeError), ([1.5], TypeError), ([10**6], ValueError)):
            with pytest.raises(error):
                tok.decoder(prompt=wrong)
        with pytest.raises(TypeError, match="must be a sequence of int"):
            tok.decoder(prompt=np.array(7))


def test_refused_ids_change_no_decoder() -> None:
    for tok in (make_byte_model(), with_llama_steps()):
        begun = tok.encode("é").tolist()[0]
        decoders = [tok.decoder(), tok.decoder(skip_invalid=True)]
        for decoder in decoders:
            decoder.push(begun)
        states = [decoder.get_state() for decoder in decoders]
        for wrong in ([begun, 10**6], [begun, -1], [begun, 2**70]):
            with pytest.raises(ValueError, match="token id"):
                decoders[0].steps(wrong)
            with pytest.raises(ValueError, match="token id"):
                IncrementalDecoder.push_batch([decoders[1], decoders[0]], wrong)
        for wrong in ([begun, 1.5], [begun, None], 5, "12", [[1]]):
            with pytest.raises(TypeError):
                decoders[0].steps(wrong)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="2 decoders and 1 id; give one id"):
            IncrementalDecoder.push_batch(decoders, [1])
        with pytest.raises(TypeError, match="a decoder is 5, an int"):
            IncrementalDecoder.push_batch([decoders[0], 5], [1, 2])  # type: ignore[list-item]
        assert [decoder.get_state() for decoder in decoders] == states


def test_one_call_for_many_decoders() -> None:
    shapes, random_ = [make() for make in STREAM_SHAPES.values()], random.Random(9)
    streams = [(tok.decoder(), tok.decoder(), tok.vocab_size) for tok in shapes * 3]
    for _ in range(40):
        ids = [random_.randrange(size) for _, _, size in streams]
        expected = [decoder.push(token_id) for (decoder, _, _), token_id in zip(streams, ids, strict=True)]
        assert IncrementalDecoder.push_batch([decoder for _, decoder, _ in streams], ids) == expected
    byte_streams = [make_byte_model().decoder() for _ in range(3)]
    assert IncrementalDecoder.push_batch(byte_streams, np.array([65, 66, 67])) == [
        make_byte_model().decoder().push(token_id) for token_id in (65, 66, 67)
    ]
    assert IncrementalDecoder.push_batch([], []) == []


def test_a_token_that_is_longer_than_the_kernel_joins() -> None:
    long_token = "é" * 200
    tok = bpe.train(texts=["é"], vocab_size=256).with_tokens(special=[long_token])
    first, second = tok.encode("é").tolist()
    ids = [first, tok.token_id(long_token), first, second]
    decoder = tok.decoder()
    assert [decoder.push(token_id) for token_id in ids] == ["", "\ufffd" + long_token, "", "é"]


def test_steps_take_what_lists_of_ids_take() -> None:
    decoder = make_byte_model().decoder()
    assert decoder.steps([make_byte_model().spec.vocabulary.id_of_token[b"l"], True]) == [
        "l",
        make_byte_model().decode([1]),
    ]


def test_copies_of_a_subclass_keep_their_class_and_attributes() -> None:
    class Counting(IncrementalDecoder):
        """A decoder with an attribute of its own."""

    globals()["Counting"] = Counting  # for pickle
    Counting.__qualname__ = "Counting"
    plain = make_byte_model().decoder()
    decoder = Counting(plain._tokens)
    decoder.n_calls = 3  # type: ignore[attr-defined]
    decoder.push([make_byte_model().spec.vocabulary.id_of_token[b"\xe7"]])
    for copied in (copy.copy(decoder), copy.deepcopy(decoder), pickle.loads(pickle.dumps(decoder))):
        assert type(copied) is Counting
        assert vars(copied)["n_calls"] == 3
        assert copied.flush() == "\ufffd"
