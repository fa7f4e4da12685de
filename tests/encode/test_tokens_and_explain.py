"""Output for people: tokens as text, and `explain`."""

from hypothesis import given, settings
from hypothesis import strategies as st

import bpe

KOREAN = bpe.train(texts=["한국어 한국 사람 naïve 😀"] * 3, vocab_size=300, special_tokens=["<|end|>"])


@settings(max_examples=100)
@given(st.text())
def test_tokens_as_text_equal_decoding_each_token(text):
    actual = KOREAN.tokens(text, as_text=True, allowed_special="all")
    ids = KOREAN.encode(text, allowed_special="all").tolist()
    assert actual == [KOREAN.decode([token_id]) for token_id in ids]
    assert KOREAN.tokens(text, allowed_special="all") == [KOREAN.token_bytes(token_id) for token_id in ids]


def test_partial_characters_are_replacement_characters():
    tok = bpe.train(texts=["한"], vocab_size=257)
    assert tok.tokens("한", as_text=True) == ["�", "�"]
    assert tok.tokens(b"\xff", as_text=True) == ["�"]
    assert KOREAN.tokens("한국<|end|>", as_text=True, allowed_special="all") == ["한국", "<|end|>"]


def test_symbols_without_an_id_are_marked():
    tok = bpe.train(texts=["ab ab"], num_merges=1, model="char", end_of_word="</w>")
    assert tok.tokens("abc", as_text=True) == ["ab", "⁇c", "</w>"]
    assert tok.tokens("abc") == ["ab", "c", "</w>"]
    tok = bpe.train(texts=["ab ab"], num_merges=1, alphabet=bpe.Alphabet(initial="corpus"))
    assert tok.tokens("abé?", as_text=True) == ["ab", r"⁇\xc3", r"⁇\xa9", "⁇?"]
    tok = bpe.train(texts=["ab ab"], num_merges=1, model="char", unk_token="<unk>")
    assert tok.tokens("abc", as_text=True) == ["ab", "<unk>"]


def test_explain_shows_characters():
    tok = bpe.train(texts=["한국"], vocab_size=259)
    assert tok.explain("국한 \u200d").split("\n") == [
        "'국한'",
        "  국₁ 국₂ 국₃ 한₁ 한₂ 한₃",
        "  국₂ + 국₃ -> 국₂₃  (rank 0, id 256)    국₁ 국₂₃ 한₁ 한₂ 한₃",
        "  국₁ + 국₂₃ -> 국  (rank 1, id 257)    국 한₁ 한₂ 한₃",
        "  한₁ + 한₂ -> 한₁₂  (rank 2, id 258)    국 한₁₂ 한₃",
        "  ids 257 258 250",
        r"' \u200d'",
        r"  · \xe2 \x80 \x8d",
        "  ids 220 158 222 235",
    ]
    tok = bpe.train(texts=["다람쥐 다람"], num_merges=2, model="char", end_of_word="</w>", end_of_word_glued=True)
    assert "  다 + 람 -> 다람  (rank 0, " in tok.explain("다람쥐")
