"""Output for people: tokens as text, and `explain`."""

import asyncio
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

import bpe

KOREAN = bpe.train(texts=["한국어 한국 사람 naïve 😀"] * 3, vocab_size=300, special_tokens=["<|end|>"])


@examples(14)
@given(st.text())
def test_tokens_as_text_equal_decoding_each_token(text):
    """But for characters that several tokens share, which are shown in each."""
    actual = KOREAN.tokens(text, as_text=True, allowed_special="all")
    ids = KOREAN.encode(text, allowed_special="all").tolist()
    decoded = [KOREAN.decode([token_id]) for token_id in ids]
    assert [a if "\ufffd" not in d else d for a, d in zip(actual, decoded, strict=True)] == decoded
    assert KOREAN.tokens(text, allowed_special="all") == [KOREAN.token_bytes(token_id) for token_id in ids]


def test_shared_characters_have_subscripts():
    tok = bpe.train(texts=["한"], vocab_size=257)
    assert tok.tokens("한", as_text=True) == ["한₁₂", "한₃"]
    assert tok.tokens("a 한\\|\n", as_text=True) == ["a", " ", "한₁₂", "한₃", "\\", "|", "\n"]
    assert tok.tokens(b"\xff", as_text=True) == [r"\xff"]
    assert tok.tokens("�", as_text=True) == ["�₁", "�₂", "�₃"]
    assert KOREAN.tokens("한국<|end|>", as_text=True, allowed_special="all") == ["한국", "<|end|>"]


def test_symbols_without_an_id_are_marked():
    tok = bpe.train(texts=["ab ab"], num_merges=1, model="char", end_of_word="</w>")
    assert tok.tokens("abc", as_text=True) == ["ab", "⁇c", "</w>"]
    assert tok.tokens("abc") == ["ab", "c", "</w>"]
    tok = bpe.train(texts=["ab ab"], num_merges=1, alphabet=bpe.Alphabet(initial="corpus"))
    assert tok.tokens("abé?", as_text=True) == ["ab", "⁇é₁", "⁇é₂", "⁇?"]
    tok = bpe.train(texts=["ab ab"], num_merges=1, model="char", unk_token="<unk>")
    assert tok.tokens("abc", as_text=True) == ["ab", "<unk>"]


def test_showing_prints_where_the_result_is_not_used(capsys):
    tok = bpe.train(texts=["low lower lowest"] * 3, vocab_size=260)
    tok.show("lower")
    assert capsys.readouterr().out == "low|e|r\n"
    view = tok.show("lower")
    assert repr((tok.show("lower"), [tok.show("low") for _ in range(2)])) == f"({view!r}, [low, low])"
    assert capsys.readouterr().out == ""
    for text in ("low", "er"):
        tok.show(
            text,
            max_tokens=1,
        )
    assert capsys.readouterr().out == "low\ne\n… and 1 more token\n"
    exec(compile("tok.show('low')", "<a prompt>", "single"), {"tok": tok})
    assert capsys.readouterr().out == "low\n", "printed once, by the prompt"


@pytest.mark.parametrize(
    ("code", "is_printed"),
    [
        ("tok.show('low')", True),
        ("tok.show(*('low',), **{'max_tokens': 5})", True),
        ("bool(1) and tok.show('low')", True),
        ("sys.settrace(lambda *_: None); tok.show('low'); sys.settrace(None)", True),
        ("def run():\n    tok.show('low')\nrun()", True),
        ("async def run():\n    tok.show('low')\nasyncio.run(run())", True),
        ("thread = threading.Thread(target=tok.show, args=('low',)); thread.start(); thread.join()", True),
        ("[tok.show('low')]", False),
        ("f'{tok.show(\"low\")}'", False),
        ("views.append(tok.show('low'))", False),
        ("(lambda: tok.show('low'))()", False),
        ("def run():\n    return tok.show('low')\nrun()", False),
        ("if tok.show('low'): pass", False),
        ("for view in map(tok.show, ['low']): pass", False),
        ("ThreadPoolExecutor(1).submit(tok.show, 'low').result()", False),
    ],
)
def test_what_counts_as_a_result_that_is_not_used(
    code: str, is_printed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    tok = bpe.train(texts=["low lower lowest"] * 3, vocab_size=260)
    modules = {"asyncio": asyncio, "sys": sys, "threading": threading, "ThreadPoolExecutor": ThreadPoolExecutor}
    exec(code, {"tok": tok, "views": [], **modules})
    assert capsys.readouterr().out == ("low\n" if is_printed else "")


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
