"""Offsets in the text before normalization: of each normalizer's characters, of tokens, and beside Hugging Face's."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from strategies import examples

import bpe
from bpe.normalizers import (
    NFC,
    NFD,
    NFKC,
    NFKD,
    CollapseWhitespace,
    FixText,
    Lowercase,
    Normalizer,
    Replace,
    Sequence,
    Strip,
    UnescapeHTML,
)
from bpe.text.alignment import is_boundary_before

FORMS: list[Normalizer] = [NFC(), NFD(), NFKC(), NFKD()]
OTHERS: list[Normalizer] = [
    Lowercase(),
    Lowercase(final_sigma=True),
    Strip(),
    Strip(right=False),
    CollapseWhitespace(),
    Replace("[0-9]+", "N°"),
    Replace("$|^", "_"),
    Replace(r"\p{M}", ""),
    UnescapeHTML(times=2),
    Sequence(NFD(), Replace(r"\p{M}", ""), Lowercase(), CollapseWhitespace(), Strip()),
    Sequence(UnescapeHTML(), NFKC(), Lowercase(final_sigma=True), Strip()),
]
#: Letters, marks of several classes, jamo, other characters that compose, characters that decompose, spaces, entities.
LETTERS = [*"aeoK1 9Σßİﬁ½Å각글한ㄱｶﾞ㌔日語가", *"\u0301\u0302\u0323\u0327\u0344\u0345\u0338"]
LETTERS += [*"\u1112\u1161\u11ab\u11a7\u0b47\u0b56\u0b3e\u1025\u102e\U000110a5\U000110ba\U0001d15e\uf900\u2126"]
LETTERS += ["  ", "\u3000\n"]
LETTERS += ["&amp;", "&notit;", "&#59;", "&it;", "&amp;lt;", "&", ";", "😊"]
letters = st.lists(st.sampled_from(LETTERS), max_size=12)
texts = letters.map("".join) | st.text(max_size=12)


@pytest.mark.parametrize("normalizer", [*FORMS, *OTHERS], ids=repr)
def test_aligned_text_equals_the_normalized_text(normalizer: Normalizer) -> None:
    @examples(7)
    @given(texts)
    @example("e\u0323\u0301\u0302o\u0302\u0323")
    @example("&notit;&#59;&amp;amp;lt;&x")
    def check(text: str) -> None:
        alignment = normalizer.align(text)
        assert alignment.text == normalizer(text)
        assert len(alignment.starts) == len(alignment.ends) == len(alignment.text)
        assert ((alignment.starts >= 0) & (alignment.starts <= alignment.ends) & (alignment.ends <= len(text))).all()

    check()


@pytest.mark.parametrize("normalizer", FORMS, ids=repr)
def test_source_spans_of_unicode_forms_are_minimal(normalizer: Normalizer) -> None:
    """A character's decomposition comes from its source span, and from no span that is one character shorter."""

    def pieces(text: str) -> Counter[str]:
        return Counter(NFKD()(text))

    @examples(11)
    @given(texts)
    def check(text: str) -> None:
        alignment = normalizer.align(text)
        for char, start, end in zip(alignment.text, alignment.starts.tolist(), alignment.ends.tolist(), strict=True):
            assert pieces(char) <= pieces(text[start:end])
            if end - start > 1:
                assert not pieces(char) <= pieces(text[start + 1 : end])
                assert not pieces(char) <= pieces(text[start : end - 1])

    check()


@examples(22)
@given(texts, texts)
def test_a_text_may_be_split_at_normalization_boundaries(left: str, right: str) -> None:
    if right and is_boundary_before(right[0]):
        for normalizer in FORMS:
            assert normalizer(left + right) == normalizer(left) + normalizer(right)


CASES: list[tuple[Normalizer, str, list[tuple[str, int, int]]]] = [
    (NFC(), "e\u0301x", [("é", 0, 2), ("x", 2, 3)]),
    (NFC(), "a\u0301\u0323", [("ạ", 0, 3), ("\u0301", 1, 2)]),
    (NFD(), "éx", [("e", 0, 1), ("\u0301", 0, 1), ("x", 1, 2)]),
    (NFKD(), "o\u0302\u0323", [("o", 0, 1), ("\u0323", 2, 3), ("\u0302", 1, 2)]),
    (Lowercase(), "aİb", [("a", 0, 1), ("i", 1, 2), ("\u0307", 1, 2), ("b", 2, 3)]),
    (Strip(), " a ", [("a", 1, 2)]),
    (CollapseWhitespace(), "a \n b", [("a", 0, 1), (" ", 1, 4), ("b", 4, 5)]),
    (Replace("^", "_"), "a", [("_", 0, 0), ("a", 0, 1)]),
    (UnescapeHTML(), "&notit;", [("¬", 0, 4), ("i", 4, 5), ("t", 5, 6), (";", 6, 7)]),
    (UnescapeHTML(times=2), "R&amp;amp;B", [("R", 0, 1), ("&", 1, 10), ("B", 10, 11)]),
    (Sequence(NFC(), CollapseWhitespace()), "e\u0301  x", [("é", 0, 2), (" ", 2, 4), ("x", 4, 5)]),
]


@pytest.mark.parametrize(("normalizer", "text", "expected"), CASES, ids=lambda value: ascii(value)[:40])
def test_source_spans(normalizer: Normalizer, text: str, expected: list[tuple[str, int, int]]) -> None:
    alignment = normalizer.align(text)
    assert list(zip(alignment.text, alignment.starts.tolist(), alignment.ends.tolist(), strict=True)) == expected


def test_source_spans_of_repaired_text() -> None:
    pytest.importorskip("ftfy")
    alignment = FixText().align("all well\nsâ€™il vous\nplaÃ®t")
    parts = list(zip(alignment.text, alignment.starts.tolist(), alignment.ends.tolist(), strict=True))
    assert alignment.text == "all well\ns'il vous\nplaît"
    assert parts[:12] == [(char, i, i + 1) for i, char in enumerate("all well\ns")] + [("'", 10, 13), ("i", 13, 14)]
    assert parts[-3:] == [("a", 23, 24), ("î", 24, 26), ("t", 26, 27)]


# Tokens ---------------------------------------------------------------------------------------------------------------

SAMPLE = ["cafe\u0301 É", "Hello  World 123", "각 한국어 글", "ﬁ Ａ½x", "İstanbul ΑΣ", " a  b ", "日本語\u3000テ"]
SAMPLE += ["\u1112\u1161\u11ab글 한"]


def train(model: str, normalizer: Normalizer) -> bpe.Tokenizer:
    options: dict[str, Any] = {"pretokenizer": "gpt2"}
    if model == "char":
        options = {"pretokenizer": "whitespace", "unk_token": "<unk>", "end_of_word": "</w>", "end_of_word_glued": True}
    return bpe.train(
        texts=SAMPLE * 2, num_merges=30, model=model, normalizer=normalizer, special_tokens=["<|end|>"], **options
    )


@pytest.mark.parametrize("model", ["byte", "char"])
@pytest.mark.parametrize("normalizer", [*FORMS, *OTHERS], ids=repr)
def test_a_token_spans_the_sources_of_its_characters(normalizer: Normalizer, model: str) -> None:
    """A token's span is computed from its characters' source spans; spans in bytes denote the same positions."""
    tok = train(model, normalizer)
    assert tok.encode_with_offsets("")[1].shape == (0, 2)
    for text in (*SAMPLE, " ", "&amp;amp; &lt;", "😊e\u0301 \u0301"):
        ids, spans = tok.encode_with_offsets(text)
        assert ids.tolist() == tok.encode(text).tolist()
        ids_again, in_bytes = tok.encode_with_offsets(text, "byte")
        assert ids_again.tolist() == ids.tolist()
        assert [len(text[:offset].encode()) for offset in spans.ravel().tolist()] == in_bytes.ravel().tolist()
        alignment = normalizer.align(text)
        plain = bpe.Tokenizer(_without_normalizer(tok)).encode_with_offsets(alignment.text)[1]
        for (start, end), (first_char, last_char) in zip(spans.tolist(), plain.tolist(), strict=True):
            parts = list(zip(alignment.starts.tolist(), alignment.ends.tolist(), strict=True))[first_char:last_char]
            parts = [(a, b) for a, b in parts if a < b] or parts
            if parts:
                assert (start, end) == (min(a for a, _ in parts), max(b for _, b in parts))
            else:
                assert start == end


def _without_normalizer(tok: bpe.Tokenizer) -> Any:
    from dataclasses import replace

    return replace(tok.spec, normalizer=None)


def test_special_tokens_between_normalized_texts_keep_their_spans() -> None:
    tok = train("byte", Sequence(NFC(), Lowercase()))
    text = "E\u0301<|end|>e\u0301"
    ids, spans = tok.encode_with_offsets(text, allowed_special="all")
    index = ids.tolist().index(tok.special_tokens["<|end|>"])
    assert spans[index].tolist() == [2, 9]
    assert {tuple(span) for span in spans[:index].tolist()} == {(0, 2)}
    assert {tuple(span) for span in spans[index + 1 :].tolist()} == {(9, 11)}
    assert tok.encode_with_offsets(b"\xffE\xcc\x81\xe3", "byte")[1].tolist()[-1] == [4, 5]


@pytest.mark.parametrize("model", ["byte", "char"])
@pytest.mark.parametrize(
    "normalizer", [*FORMS, Lowercase(), Strip(), CollapseWhitespace(), Replace("[0-9]", "##")], ids=repr
)
def test_spans_equal_or_contain_those_of_hugging_face(normalizer: Normalizer, model: str, tmp_path: Path) -> None:
    """They are equal if each source span is one character; of longer ones, Hugging Face keeps only one end."""
    tokenizers = pytest.importorskip("tokenizers")
    tok = train(model, normalizer)
    tok.save(tmp_path / "tokenizer.json")
    peer = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in SAMPLE:
        ids, spans = tok.encode_with_offsets(text)
        encoding = peer.encode(text)
        assert encoding.ids == ids.tolist()
        alignment = normalizer.align(text)
        if (alignment.ends - alignment.starts == 1).all():
            assert encoding.offsets == [tuple(span) for span in spans.tolist()]
        for (start, end), (first_char, last_char) in zip(spans.tolist(), encoding.offsets, strict=True):
            assert start <= first_char <= last_char <= end
