"""Pages and the playground for tokenizers of other packages."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

import bpe
from bpe.report import Playground, page_html
from bpe.report.tokenizers import ReportedTokenizer, name_tokenizers

TEXTS = ["low lower lowest", "한국어 한국", "👩\u200d💻 <b>&amp;"]


class SimpleTokenizer:
    """A tokenizer with only what is needed, of two bytes each."""

    def __init__(self, vocab: dict[Any, int]) -> None:
        self.vocab = vocab

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        pairs = ([data[i : i + 2] for i in range(0, len(data), 2)] for data in map(str.encode, texts))
        return [[self.vocab[pair] for pair in row] for row in pairs]


@pytest.fixture(scope="module")
def tok() -> bpe.Tokenizer:
    return bpe.train(texts=TEXTS * 4, vocab_size=290)


@pytest.fixture(scope="module")
def simple() -> SimpleTokenizer:
    pairs = [text.encode()[i : i + 2] for text in TEXTS for i in range(0, len(text.encode()), 2)]
    return SimpleTokenizer({pair: i for i, pair in enumerate(dict.fromkeys(pairs))})


def hugging_face(tok: bpe.Tokenizer) -> Any:
    tokenizers = pytest.importorskip("tokenizers")
    with TemporaryDirectory() as folder:
        tok.save(Path(folder) / "tokenizer.json", format="huggingface")
        return tokenizers.Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))


def as_reported(tokenizer: Any) -> ReportedTokenizer:
    return name_tokenizers(tokenizer)["tokenizer"]


def encoding(tok: bpe.Tokenizer) -> Any:
    tiktoken = pytest.importorskip("tiktoken")
    ranks = {tok.spec.vocabulary[i]: i for i in range(tok.n_vocab)}
    return tiktoken.Encoding("small", pat_str=r"(?s).+", mergeable_ranks=ranks, special_tokens={"<|end|>": 400})


def test_tokens_and_counts_are_those_of_this_package(tok: bpe.Tokenizer) -> None:
    documents = [text.encode() for text in TEXTS]
    native, hugging_face_subject = as_reported(tok), as_reported(hugging_face(tok))
    assert (native.limit, native.vocab_size, native.lengths.tolist()) == (
        hugging_face_subject.limit,
        hugging_face_subject.vocab_size,
        hugging_face_subject.lengths.tolist(),
    )
    assert native.ordinary_ids.tolist() == hugging_face_subject.ordinary_ids.tolist()
    for text in documents:
        assert [token[:2] for token in native.draw_text(text)] == [
            token[:2] for token in hugging_face_subject.draw_text(text)
        ]
    counts, total = native.count_tokens(documents)
    assert np.array_equal(hugging_face_subject.count_tokens(documents)[0], counts)
    assert hugging_face_subject.count_tokens(documents)[1] == native.count_tokens(documents)[1] == total
    assert hugging_face_subject.describe_tokens([260]) == {"260": [native.describe_tokens([260])["260"][0], None]}
    assert native.draw_ids([5])[0][:2] == hugging_face_subject.draw_ids([5])[0][:2]


def test_the_page_says_what_is_left_out(tok: bpe.Tokenizer, simple: SimpleTokenizer) -> None:
    tokenizers = {"own": tok, "hf": hugging_face(tok), "tiktoken": encoding(tok), "simple": simple}
    page = page_html(tokenizers, bpe.evaluate(tokenizers, texts=TEXTS), {"text": TEXTS})
    assert "Of hf, tiktoken, simple, this page knows tokens and ids only" in page
    assert page.count(">not known<") == 9
    assert "left out" not in page_html(tok, texts=TEXTS)
    boxes = re.findall(r'data-tokens="(\d)"', page)
    assert boxes == ["0", "1", "2", "3"]
    assert "<b>" not in re.sub(r"<b>(?=\d)", "", page)
    alone = page_html(simple, texts=TEXTS)
    assert "Tokenizer report: tokenizer" in alone


def test_the_playground_takes_them_too(tok: bpe.Tokenizer) -> None:
    with Playground([tok, hugging_face(tok)], port=0) as server:
        html, details = server.draw_panels("lowest 한국")
    assert set(details) == {"0", "1"}
    native_html, foreign_html = html.split('data-tokens="1"')
    ids = tok.encode("lowest 한국").tolist()
    for part in (native_html, foreign_html):
        assert [int(token_id) for token_id in re.findall(r'data-i="(\d+)"', part)] == ids


def test_a_tokenizer_that_changes_text_is_drawn_from_its_vocabulary() -> None:
    class Lower(SimpleTokenizer):
        def encode_batch(self, texts: list[str]) -> list[list[int]]:
            return [[self.vocab["low"]] * text.lower().count("low") for text in texts]

    tokens = as_reported(Lower({"low": 3})).draw_text(b"LOW and low")
    assert [(token.data, token.id) for token in tokens] == [(b"low", 3), (b"low", 3)]


def test_what_is_no_tokenizer_is_refused(tok: bpe.Tokenizer) -> None:
    with pytest.raises(ValueError, match="there is no tokenizer"):
        name_tokenizers([])
    with pytest.raises(TypeError, match=r"'a\.json', a path; load it first"):
        name_tokenizers([tok, "a.json"])
    with pytest.raises(TypeError, match=r"must be a bpe\.Tokenizer, a tokenizer of tokenizers"):
        name_tokenizers(5)
