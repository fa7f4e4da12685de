"""`TextPreparer`: the order in which a text is prepared, and where its segments come from."""

from __future__ import annotations

import numpy as np
import pytest

from bpe.pretokenize.pipeline import Segment
from bpe.pretokenize.preparing import TextPreparer
from bpe.pretokenize.pretokenizer import PipelinePretokenizer, Pretokenizer
from bpe.pretokenize.steps import ByteLevel, Digits, Metaspace
from bpe.text.alignment import Convention
from bpe.text.normalizers import NFC, Lowercase, Sequence, Strip
from bpe.vocab.special_tokens import SpecialTokens

TOKENS = {"<end>": 0, "C++": 1}
FLAGS = {"C++": frozenset({"ordinary", "normalized"})}
NAMES = frozenset(TOKENS)


def described(segments: list[Segment]) -> list[int | list[bytes]]:
    """The ids of special tokens, and the pretokens of text."""
    return [segment.pretokens() if segment.token_id is None else segment.token_id for segment in segments]


def test_special_tokens_then_normalizer_then_normalized_tokens_then_pretokens() -> None:
    normalizer = Lowercase()
    preparer = TextPreparer(normalizer, Pretokenizer("gpt2"), SpecialTokens(TOKENS, FLAGS, normalizer))
    actual = described(list(preparer.prepare(b"A B<end>c++ D<END>", NAMES)))
    assert actual == [[b"a", b" b"], 0, 1, [b" d", b"<", b"end", b">"]]


@pytest.mark.parametrize("convention", [None, "whole", "tokenizers"])
@pytest.mark.parametrize(
    "pretokenizer",
    [
        None,
        Pretokenizer("gpt2", add_prefix_space=True),
        PipelinePretokenizer(Digits(), ByteLevel(add_prefix_space=True)),
        PipelinePretokenizer(Metaspace(prepend_scheme="first")),
        PipelinePretokenizer(Metaspace(prepend_scheme="first"), Digits()),
    ],
    ids=repr,
)
def test_tracing_changes_no_pretoken(pretokenizer: Pretokenizer | None, convention: Convention | None) -> None:
    normalizer = Sequence(Strip(), NFC(), Lowercase())
    preparer = TextPreparer(normalizer, pretokenizer, SpecialTokens(TOKENS, FLAGS, normalizer))
    for text in ("", " cafe\u0301 12c++<end> x 3", "<end>C++", "12 a", "\udcff b".encode("utf-8", "surrogateescape")):
        data = text if isinstance(text, bytes) else text.encode()
        segments = list(preparer.prepare(data, NAMES, convention))
        assert described(segments) == described(list(preparer.prepare(data, NAMES)))
        assert all((segment.origin is None) == (convention is None) for segment in segments)


def test_origins_of_bytes_and_characters() -> None:
    text = "<end> cafe\u0301".encode()
    preparer = TextPreparer(NFC(), Pretokenizer("gpt2", add_prefix_space=True), SpecialTokens(TOKENS))
    special, segment = preparer.prepare(text, NAMES, "whole")
    assert special.origin is not None
    assert segment.origin is not None
    assert special.origin.locate_bytes(np.array([[0, 5]])).tolist() == [[0, 5]]
    assert segment.pretokens() == [" café".encode()]
    assert segment.origin.locate_bytes(np.array([[0, 4], [4, 6]])).tolist() == [[5, 9], [9, 12]]
    assert segment.find_char_of_byte().tolist() == [0, 1, 2, 3, 4, 4]
    assert segment.origin.locate_characters(np.array([4]), np.array([5])).tolist() == [[9, 12]]
